#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "cli/reading.h"

struct read_settings {
    struct leat_reading_store store;
    uint64_t batch;
    uint64_t epochs;
    uint64_t time_ns;
    uint64_t compute_ns;
    uint64_t ram;
    const char *cache_dir;
    uint64_t cache;
    uint64_t window;
    uint64_t seed;
    uint64_t rank;
    uint64_t world;
    uint64_t threads;
    uint64_t slots;
    const char *prep;
    const char *field;
    const char *scope;
    uint64_t line;
    double usd_requests;
    double usd_egress;
    bool in_order;
    bool json;
    struct leat_cli_progress progress;
};

#define AT(member) offsetof(struct read_settings, member)
#define PRICES     "AWS S3 Standard, us-east-1, November 2025" /* what the two defaults below are */

static const struct leat_option options[] = {
    {"batch", 'b', LEAT_OPTION_U64, AT(batch), "N", "256", NULL, "samples per batch"},
    {"epochs", 'e', LEAT_OPTION_U64, AT(epochs), "N", NULL, NULL,
     "number of epochs (default: 1, or as many as "
     "--time allows)"},
    {"time", 't', LEAT_OPTION_DURATION, AT(time_ns), "TIME", NULL, NULL, "end after this time"},
    {"prep", 0, LEAT_OPTION_STRING, AT(prep), "PIPELINE", "none", NULL,
     "pipeline for images, such as 'resize=256 center_crop=224' (see leat image --words), or none: bytes as stored"},
    {"field", 0, LEAT_OPTION_STRING, AT(field), "NAME", NULL, NULL,
     "field to read (default: the first that holds "
     "bytes)"},
    {"compute", 0, LEAT_OPTION_DURATION, AT(compute_ns), "TIME", NULL, NULL,
     "hold each batch this long, as a training step would"},
    {"ram", 0, LEAT_OPTION_SIZE, AT(ram), "SIZE", NULL, "LEAT_RAM", "memory for chunks (default: a quarter of all)"},
    {"cache-dir", 0, LEAT_OPTION_STRING, AT(cache_dir), "DIR", NULL, "LEAT_CACHE_DIR", "folder of a cache on disk"},
    {"cache", 0, LEAT_OPTION_SIZE, AT(cache), "SIZE", NULL, "LEAT_CACHE", "how much of the disk the cache may use"},
    {"window", 0, LEAT_OPTION_U64, AT(window), "N", NULL, NULL,
     "number of chunks mixed at a time (default: the "
     "dataset's)"},
    {"seed", 0, LEAT_OPTION_U64, AT(seed), "N", "0", NULL, "seed of the order"},
    {"in-order", 0, LEAT_OPTION_FLAG, AT(in_order), NULL, NULL, NULL, "do not shuffle"},
    {"rank", 0, LEAT_OPTION_U64, AT(rank), "N", "0", NULL, "read what this rank would read, …"},
    {"world", 0, LEAT_OPTION_U64, AT(world), "N", "1", NULL, "… out of this many ranks"},
    {"threads", 0, LEAT_OPTION_U64, AT(threads), "N", NULL, "LEAT_THREADS",
     "threads that prepare samples (default: "
     "one per core)"},
    {"slots", 0, LEAT_OPTION_U64, AT(slots), "N", NULL, NULL, "batches in shared memory (default: 4)"},
    {"scope", 0, LEAT_OPTION_STRING, AT(scope), "NAME", NULL, NULL,
     "use the agent of this scope, with its memory (default: its own agent)"},
    {"line", 0, LEAT_OPTION_RATE, AT(line), "RATE", NULL, NULL, "speed of the bucket, for the estimate at the start"},
    {"price-requests", 0, LEAT_OPTION_DOUBLE, AT(usd_requests), "USD", "0.0004", NULL,
     "price of 1000 GET requests; the default is from " PRICES},
    {"price-egress", 0, LEAT_OPTION_DOUBLE, AT(usd_egress), "USD", "0.09", NULL,
     "price per GB (10^9 bytes) that leaves the cloud; the default is from " PRICES},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print one JSON object, with a series over time"},
    {"quiet", 'q', LEAT_OPTION_FLAG, AT(progress.quiet), NULL, NULL, NULL, "no progress and no warnings of long waits"},
    LEAT_PROGRESS_OPTION(AT(progress)),
    LEAT_READING_STORE_OPTIONS(AT(store)),
    {0},
};

static uint64_t from(const struct leat_account *a, enum leat_account_source source)
{
    return a->bytes_by_source[source];
}

/* "fetch 1.2 s, prep 300 ms": those that are not nothing, the largest causes first. */
static void say_causes(const struct leat_account *a, char *out, size_t n)
{
    bool told[LEAT_WAIT_CAUSES] = {false};
    size_t at = 0;
    out[0] = '\0';
    for (;;) {
        const struct leat_account_row *largest = NULL;
        size_t cause = 0;
        for (size_t i = 0; i < leat_account_rows(); i++) {
            const struct leat_account_row *row = leat_account_row(i);
            size_t c = (row->offset - offsetof(struct leat_account, wait_by_cause_ns)) / sizeof(uint64_t);
            if (strcmp(row->name, "wait_by_cause_s") != 0 || told[c] ||
                (largest && leat_account_get(a, row) <= leat_account_get(a, largest)))
                continue;
            largest = row;
            cause = c;
        }
        if (!largest || leat_account_get(a, largest) < LEAT_MS || at >= n)
            return;
        char time[LEAT_FORMAT_SIZE];
        told[cause] = true;
        at += (size_t)snprintf(out + at, n - at, "%s%s %s", at ? ", " : "", largest->part,
                               leat_format_duration(leat_account_get(a, largest), time));
    }
}

static void print_epoch(const struct leat_reading *r, uint32_t i)
{
    const struct leat_reading_epoch *e = &r->epoch[i];
    char time[LEAT_FORMAT_SIZE];
    char wait[LEAT_FORMAT_SIZE];
    char bucket[LEAT_FORMAT_SIZE];
    char disk[LEAT_FORMAT_SIZE];
    printf("epoch %" PRIu32 ": %s, %" PRIu64 " samples, %.0f per second, waited %s; %s from the bucket, %s from disk\n",
           i, leat_format_duration((uint64_t)(e->seconds * 1e9), time), e->samples,
           e->seconds > 0 ? (double)e->samples / e->seconds : 0.0, leat_format_duration(e->account.wait_ns, wait),
           leat_format_size(from(&e->account, LEAT_FROM_BUCKET), bucket),
           leat_format_size(from(&e->account, LEAT_FROM_DISK), disk));
}

static double cost_of_requests(const struct read_settings *s, const struct leat_account *a)
{
    return (double)a->requests / 1000 * s->usd_requests;
}

static double cost_of_traffic(const struct read_settings *s, const struct leat_account *a)
{
    return (double)from(a, LEAT_FROM_BUCKET) / 1e9 * s->usd_egress;
}

static void print_whole(const struct leat_reading *r, const struct read_settings *s)
{
    const struct leat_account *a = &r->account;
    char x[LEAT_FORMAT_SIZE];
    char y[LEAT_FORMAT_SIZE];
    char z[LEAT_FORMAT_SIZE];
    char causes[300];
    say_causes(a, causes, sizeof causes);
    printf("time      %s, the first batch after %s\n", leat_format_duration((uint64_t)(r->seconds * 1e9), x),
           leat_format_duration((uint64_t)(r->first_s * 1e9), y));
    printf("samples   %" PRIu64 ", %.0f per second; %s in batches, %s\n", r->samples,
           r->seconds > 0 ? (double)r->samples / r->seconds : 0.0, leat_format_size(r->delivered, x),
           leat_format_rate(r->seconds > 0 ? (double)r->delivered / r->seconds : 0, y));
    printf("bytes     %s from the bucket, %s from disk, %s from memory\n",
           leat_format_size(from(a, LEAT_FROM_BUCKET), x), leat_format_size(from(a, LEAT_FROM_DISK), y),
           leat_format_size(from(a, LEAT_FROM_RAM), z));
    printf("waiting   %s, %.1f %% of the time%s%s\n", leat_format_duration(a->wait_ns, x),
           r->seconds > 0 ? (double)a->wait_ns / 1e7 / r->seconds : 0.0, *causes ? ": " : "", causes);
    printf("requests  %" PRIu64 ", %" PRIu64 " of them repeated, %" PRIu64 " asked to slow down\n", a->requests,
           a->retries, a->throttled);
    printf(
        "price     $%.5f for requests, and $%.5f if the bytes leave the cloud (at $%g per 1000 GET and $%g per GB%s)\n",
        cost_of_requests(s, a), cost_of_traffic(s, a), s->usd_requests, s->usd_egress,
        s->usd_requests == 0.0004 && s->usd_egress == 0.09 ? ": " PRICES : "");
    printf("memory    agent %s at most, this process %s; disk %s\n", leat_format_size(r->agent_peak_bytes, x),
           leat_format_size(r->own_peak_bytes, y), leat_format_size(r->disk_peak_bytes, z));
}

static json_t *account_json(const struct leat_account *a)
{
    json_t *j = json_object();
    if (j && !leat_account_write(a, LEAT_OF_RANK, LEAT_OF_AGENT, j)) {
        json_decref(j);
        return NULL;
    }
    return j;
}

static json_t *epochs_json(const struct leat_reading *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < r->epochs_n && i < LEAT_READING_EPOCHS; i++) {
        const struct leat_reading_epoch *e = &r->epoch[i];
        json_t *j = account_json(&e->account);
        if (json_object_set_new(j, "seconds", json_real(e->seconds)) < 0 || json_array_append(list, j) < 0) {
            json_decref(list);
            list = NULL; /* the one that packs it says that there was no memory */
        }
        json_decref(j);
    }
    return list;
}

static json_t *reach_json(const struct leat_reading *r)
{
    struct leat_reach reach = leat_reach(&r->reach);
    char said[400];
    leat_reach_say(&r->reach, said, sizeof said);
    return json_pack("{s:s,s:I,s:I,s:I,s:I,s:b}", "text", said, "kept_bytes", (json_int_t)reach.kept_bytes,
                     "bucket_bytes", (json_int_t)reach.bucket_bytes, "bucket_bytes_least",
                     (json_int_t)reach.least_bytes, "live_bytes", (json_int_t)r->reach.live_bytes, "tight",
                     reach.tight);
}

static int print_json(const struct leat_reading *r, const struct read_settings *s, json_t *series)
{
    struct leat_cli_used used = leat_cli_used(r->dataset);
    const struct leat_account *a = &r->account;
    json_t *cost = json_pack("{s:f,s:f,s:f,s:f,s:s}", "requests_usd", cost_of_requests(s, a), "egress_usd",
                             cost_of_traffic(s, a), "usd_per_1000_requests", s->usd_requests, "usd_per_egress_gb",
                             s->usd_egress, "defaults_are_of", PRICES);
    json_t *j = json_pack(
        "{s:s,s:s,s:{s:I,s:I,s:I},s:o,s:f,s:f,s:I,s:I,s:b,s:o,s:o,s:o,s:{s:I,s:I,s:I},s:o}", "url",
        leat_dataset_home(r->dataset)->url, "version", leat_loader_version(r->loader), "dataset", "samples",
        (json_int_t)leat_dataset_samples(r->dataset), "chunks", (json_int_t)used.chunks, "bytes",
        (json_int_t)used.bytes, "reach", reach_json(r), "seconds", r->seconds, "first_batch_s", r->first_s, "samples",
        (json_int_t)r->samples, "batch_bytes", (json_int_t)r->delivered, "interrupted", r->interrupted, "account",
        account_json(a), "epochs", epochs_json(r), "cost", cost, "peak", "agent_bytes", (json_int_t)r->agent_peak_bytes,
        "own_bytes", (json_int_t)r->own_peak_bytes, "disk_bytes", (json_int_t)r->disk_peak_bytes, "series", series);
    char *text = leat_json_write(j, JSON_COMPACT);
    json_decref(j);
    if (!text)
        return leat_cli_failf(LEAT_NO_MEMORY, "no memory for the numbers");
    puts(text);
    free(text);
    return LEAT_EXIT_OK;
}

static int tell(const struct leat_reading *r, const struct read_settings *s)
{
    char *text = NULL;
    json_t *series = NULL;
    if (s->json && leat_loader_series(r->loader, &text, NULL) == LEAT_OK)
        leat_json_read(text, strlen(text), 0, &series, NULL);
    free(text);
    if (s->json)
        return print_json(r, s, series ? series : json_null());
    for (uint32_t i = 0; i < r->epochs_n && i < LEAT_READING_EPOCHS && r->epochs_n > 1; i++)
        print_epoch(r, i);
    if (r->epochs_n > LEAT_READING_EPOCHS)
        printf("… and %" PRIu32 " more\n", r->epochs_n - LEAT_READING_EPOCHS);
    print_whole(r, s);
    return LEAT_EXIT_OK;
}

static leat_status narrow(uint64_t value, const char *name, uint32_t *out, struct leat_error *err)
{
    if (value > UINT32_MAX)
        return leat_fail(err, LEAT_INVALID, "%s: %" PRIu64 " is too large", name, value);
    *out = (uint32_t)value;
    return LEAT_OK;
}

static leat_status prepare(const struct read_settings *s, const char *url, struct leat_reading *r,
                           struct leat_error *err)
{
    struct leat_loader_opts *o = &r->opts;
    *r = (struct leat_reading){
        .url = url,
        .store = s->store,
        .field = s->field,
        .pipeline = strcmp(s->prep, "none") == 0 ? NULL : s->prep,
        .epochs = s->epochs || s->time_ns ? s->epochs : 1,
        .time_ns = s->time_ns,
        .compute_ns = s->compute_ns,
        .line = (double)s->line,
        .progress = s->progress,
    };
    o->shuffle = !s->in_order;
    o->seed = s->seed;
    o->seed_given = true;
    o->ram = s->ram;
    o->cache_dir = s->cache_dir;
    o->cache = s->cache;
    o->scope = s->scope;
    if (!*s->prep)
        return leat_fail(err, LEAT_INVALID, "--prep: a pipeline, or none");
    if (!s->epochs && leat_cli_said("epochs"))
        return leat_fail(err, LEAT_INVALID, "--epochs: at least 1");
    if (s->usd_requests < 0 || s->usd_egress < 0)
        return leat_fail(err, LEAT_INVALID, "--price-requests, --price-egress: not less than 0");
    leat_status rc = narrow(s->batch, "--batch", &o->batch, err);
    if (rc == LEAT_OK)
        rc = narrow(s->window, "--window", &o->window, err);
    if (rc == LEAT_OK)
        rc = narrow(s->rank, "--rank", &o->rank, err);
    if (rc == LEAT_OK)
        rc = narrow(s->world, "--world", &o->world, err);
    if (rc == LEAT_OK)
        rc = narrow(s->threads, "--threads", &o->threads, err);
    if (rc == LEAT_OK)
        rc = narrow(s->slots, "--slots", &o->slots, err);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct read_settings *s = settings;
    struct leat_reading *r = calloc(1, sizeof *r);
    struct leat_error err;
    char said[400];
    if (!r)
        return leat_cli_failf(LEAT_NO_MEMORY, "no memory to read with");
    leat_status rc = prepare(s, argv[0], r, &err);
    if (rc == LEAT_OK)
        rc = leat_reading_open(r, &err);
    if (rc == LEAT_OK && !s->json) {
        leat_reach_say(&r->reach, said, sizeof said);
        puts(said);
        fflush(stdout);
    }
    if (rc == LEAT_OK)
        rc = leat_reading_run(r, &err);
    int status = rc == LEAT_OK ? tell(r, s) : leat_cli_fail(&err);
    return leat_reading_end(r, status);
}

const struct leat_command leat_command_read = {
    .name = "read",
    .arguments = "DATASET",
    .summary = "read a dataset as a training would, and report time and cost",
    .details =
        "Takes batches from a loader, as a training does, and throws them away. It reports how long an epoch takes "
        "on this machine, where the bytes come from, what it waits for, how many requests it needs and what they "
        "cost. It starts with what the cache can achieve, then prints a line per epoch and a summary.\n\nIt starts "
        "its own agent, which ends with it, unless --scope names another. A cache on disk is shared with all jobs "
        "that use the same folder. Ctrl-C ends the reading; the summary then covers what was read.",
    .examples = "  leat read s3://bucket/imagenet --epochs 2\n"
                "  leat read s3://bucket/imagenet --compute 100ms --time 1min \\\n"
                "      --prep 'random_resized_crop=224 flip=0.5'\n"
                "  leat read /data/set --ram 4gib --cache-dir /scratch/leat --cache 100gib --json\n",
    .options = options,
    .settings_size = sizeof(struct read_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
