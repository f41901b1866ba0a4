#include "cli/reading.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "order/order.h"

#define BATCH_MAX      (1u << 20)
#define LITTLE_BATCH   4u  /* chunks */
#define AHEAD_REQUESTS 32u /* chunks on their way on a line that is kept full */

/* What was read until Ctrl-C is still told. */
static bool stop(void *user)
{
    const struct leat_reading *r = user;
    return !r->telling && leat_cli_interrupted();
}

static void warn(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "leat: %s\n", text);
}

static leat_status open_dataset(struct leat_reading *r, struct leat_error *err)
{
    const struct leat_cli_store store = {
        .endpoint_url = r->store.endpoint_url,
        .region = r->store.region,
        .profile = r->store.profile,
        .no_sign_request = r->store.no_sign_request,
        .addressing = "auto",
        .hedge = "auto",
        .attempts = 1000,
        .timeout_ns = 300 * LEAT_S,
        .inactivity_ns = 20 * LEAT_S,
    };
    return leat_cli_dataset_open(&store, r->url, &r->dataset, err);
}

static uint64_t largest_chunk(const struct leat_root *root)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < root->chunks; i++)
        most = root->sizes[i] > most ? root->sizes[i] : most;
    return most;
}

/* So little memory that chunks have to leave it, also those of a small dataset, and batches to go with it. */
static void make_little(const struct leat_root *root, struct leat_loader_opts *o)
{
    uint64_t largest = largest_chunk(root);
    uint64_t each = root->chunks ? root->samples / root->chunks : 0;
    uint64_t batch = each * (root->chunks < 32 * LITTLE_BATCH ? 1 : LITTLE_BATCH);
    o->ram = LEAT_READING_LITTLE * largest;
    if (o->ram > root->bytes / 4)
        o->ram = root->bytes / 4 > 3 * largest ? root->bytes / 4 : 3 * largest;
    o->batch = (uint32_t)(batch < 1 ? 1 : batch < BATCH_MAX ? batch : BATCH_MAX);
}

/* What a variable says the loader reads itself. As an argument it would be meant for this loader alone, and could not
 * stand beside a section of the config file. */
static const char *argument(const char *variable, const char *value)
{
    const char *set = getenv(variable);
    return set && *set && value && (!*value || strcmp(set, value) == 0) ? NULL : value;
}

/* An agent of its own, unless another was named: budgets are then what was asked for, and the numbers nobody else's. */
static leat_status open_loader(struct leat_reading *r, const struct leat_output *outputs, size_t n,
                               struct leat_error *err)
{
    struct leat_loader_opts o = r->opts;
    char version[2 * LEAT_SHA256_SIZE + 1];
    if (!o.scope) {
        snprintf(r->agent_scope, sizeof r->agent_scope, "read-%d", (int)getpid());
        o.scope = r->agent_scope;
        o.linger_ns = 1;
    }
    const struct leat_root *root = leat_dataset_root(r->dataset);
    if (r->little)
        make_little(root, &o);
    leat_hex(leat_dataset_id(r->dataset), LEAT_SHA256_SIZE, version);
    o.size = sizeof o;
    o.url = leat_dataset_home(r->dataset)->url;
    o.version = version; /* the one whose numbers are printed */
    o.outputs = outputs;
    o.outputs_n = n;
    o.world = o.world ? o.world : 1;
    o.last = LEAT_LAST_SHORT;
    o.endpoint_url = argument("LEAT_ENDPOINT_URL", r->store.endpoint_url);
    o.region = argument("LEAT_REGION", r->store.region);
    o.profile = r->store.profile;
    o.anonymous = r->store.no_sign_request && argument("LEAT_NO_SIGN_REQUEST", "");
    o.stop = stop;
    o.stop_user = r;
    o.warn = r->progress.quiet ? NULL : warn;
    return leat_loader_open(&o, &r->loader, err);
}

static leat_status look(struct leat_reading *r, struct leat_account *out, struct leat_error *err)
{
    char *text = NULL;
    json_t *stats = NULL;
    leat_status rc = leat_loader_stats(r->loader, &text, err);
    if (rc == LEAT_OK && leat_json_read(text, strlen(text), 0, &stats, NULL) != LEAT_OK)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for statistics");
    free(text);
    if (rc != LEAT_OK)
        return rc;
    leat_account_read(stats, out);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)json_integer_value(json_object_get(stats, "agent_pid")));
    json_decref(stats);
    FILE *f = fopen(path, "re");
    char line[256];
    uint64_t kib;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmHWM: %" SCNu64, &kib) == 1 && kib << 10 > r->agent_peak_bytes)
            r->agent_peak_bytes = kib << 10;
    }
    if (f)
        fclose(f);
    if (out->disk_bytes > r->disk_peak_bytes)
        r->disk_peak_bytes = out->disk_bytes;
    return LEAT_OK;
}

leat_status leat_reading_open(struct leat_reading *r, struct leat_error *err)
{
    struct leat_output outputs[] = {
        {.size = sizeof *outputs, .name = "index", .kind = LEAT_OUTPUT_INDEX},
        {.size = sizeof *outputs, .name = "x", .kind = LEAT_OUTPUT_BYTES},
    };
    uint32_t field = 0;
    r->began_ns = leat_now_ns();
    leat_status rc = open_dataset(r, err);
    if (rc != LEAT_OK)
        return rc;
    const struct leat_root *root = leat_dataset_root(r->dataset);
    bool wanted = !r->pipeline || *r->pipeline;
    if (wanted)
        rc = leat_cli_pick_field(&root->schema, r->field, &field, err);
    if (rc != LEAT_OK)
        return rc;
    outputs[1].field = root->schema.fields[field].name;
    if (r->pipeline && *r->pipeline) {
        outputs[1].kind = LEAT_OUTPUT_IMAGE;
        outputs[1].pipeline = r->pipeline;
    }
    rc = open_loader(r, outputs, wanted ? 2 : 1, err);
    if (rc == LEAT_OK)
        rc = look(r, &r->before, err);
    if (rc != LEAT_OK)
        return rc;
    r->disk_before_bytes = r->before.disk_bytes;
    r->budget = (struct leat_account){.cache_budget = r->before.cache_budget, .disk_budget = r->before.disk_budget};
    if (r->agent_scope[0]) /* nobody else's agent: chunks have been on their way since it was started */
        r->before = (struct leat_account){0};
    uint32_t window = r->opts.window ? r->opts.window : leat_order_window_default(root->chunks, root->bytes);
    struct leat_cli_used used = leat_cli_used(r->dataset);
    uint64_t each = root->chunks ? root->bytes / root->chunks : 0;
    r->reach = (struct leat_reach_given){
        .dataset_bytes = used.bytes,
        .ram_bytes = r->budget.cache_budget,
        .disk_bytes = r->budget.disk_budget,
        .live_bytes = leat_reach_live(used.bytes, used.chunks, r->opts.shuffle ? window : 1),
        .ahead_bytes = AHEAD_REQUESTS * each,
        .line = r->line,
    };
    return LEAT_OK;
}

static void show(void *user, struct leat_progress_state *out)
{
    struct leat_reading *r = user;
    struct leat_cli_used used = leat_cli_used(r->dataset);
    uint64_t samples = leat_dataset_samples(r->dataset);
    uint32_t world = r->opts.world ? r->opts.world : 1;
    out->items = atomic_load_explicit(&r->samples, memory_order_relaxed);
    out->done = samples ? (uint64_t)((double)used.bytes / (double)samples * (double)out->items) : 0;
    out->total = r->epochs * used.bytes / world;
}

static void take(struct leat_reading *r, struct leat_batch *batch)
{
    uint64_t now = leat_now_ns();
    struct leat_column column = {.size = sizeof column};
    if (!r->first_s)
        r->first_s = (double)(now - r->began_ns) / 1e9;
    for (size_t i = 0; i < leat_batch_columns(batch); i++) {
        if (leat_batch_column(batch, i, &column, NULL) == LEAT_OK)
            r->delivered += column.bytes;
    }
    atomic_fetch_add_explicit(&r->samples, leat_batch_samples(batch), memory_order_relaxed);
}

/* As long as a step takes, but for Ctrl-C. */
static void compute(const struct leat_reading *r, uint64_t until_ns)
{
    while (r->compute_ns && leat_left(until_ns) && !leat_cli_interrupted()) {
        uint64_t soon = leat_after(100 * LEAT_MS);
        leat_sleep_until(soon < until_ns ? soon : until_ns);
    }
}

static bool over(const struct leat_reading *r)
{
    return leat_cli_interrupted() || (r->time_ns && leat_now_ns() - r->began_ns >= r->time_ns);
}

leat_status leat_reading_look(struct leat_reading *r, struct leat_error *err)
{
    return look(r, &r->account, err);
}

static leat_status read_epoch(struct leat_reading *r, bool *enough, struct leat_error *err)
{
    leat_status rc = leat_loader_begin(r->loader, err);
    while (rc == LEAT_OK && !*enough && !over(r)) {
        struct leat_batch *batch = NULL;
        rc = leat_loader_next(r->loader, &batch, err);
        if (rc != LEAT_OK || !batch)
            break;
        take(r, batch);
        compute(r, leat_after(r->compute_ns));
        leat_batch_release(batch);
        if (r->enough) {
            rc = look(r, &r->account, err);
            *enough = rc == LEAT_OK && r->enough(r->user, r);
        }
    }
    return rc;
}

/* An epoch, and what it cost. */
static leat_status read_and_tell(struct leat_reading *r, bool *enough, struct leat_error *err)
{
    struct leat_account before = r->account;
    uint64_t samples = r->samples;
    uint64_t began = r->epochs_n ? leat_now_ns() : r->began_ns;
    leat_status rc = read_epoch(r, enough, err);
    uint64_t now = leat_now_ns();
    r->seconds = (double)(now - r->began_ns) / 1e9;
    r->interrupted = leat_cli_interrupted();
    if (rc == LEAT_CANCELLED && r->interrupted)
        rc = LEAT_OK;
    r->telling = true;
    if (rc == LEAT_OK)
        rc = look(r, &r->account, err);
    r->telling = false;
    if (rc != LEAT_OK)
        return rc;
    if (r->epochs_n < LEAT_READING_EPOCHS) {
        struct leat_reading_epoch *e = &r->epoch[r->epochs_n];
        e->seconds = (double)(now - began) / 1e9;
        e->samples = r->samples - samples;
        e->account = r->account;
        if (r->epochs_n) /* the first begins with the loader */
            leat_account_since(&e->account, &before);
        else
            leat_account_since(&e->account, &r->before);
    }
    r->epochs_n++;
    return LEAT_OK;
}

static uint64_t own_peak(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t kib = 0;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmHWM: %" SCNu64, &kib) != 1)
        continue;
    if (f)
        fclose(f);
    return kib << 10;
}

leat_status leat_reading_run(struct leat_reading *r, struct leat_error *err)
{
    bool enough = false;
    leat_status rc = LEAT_OK;
    /* What the rank has waited for the opening is this reading's; what an agent had counted before is not. */
    memset(r->before.wait_by_cause_ns, 0, sizeof r->before.wait_by_cause_ns);
    r->before.wait_ns = 0;
    r->account = r->before;
    struct leat_progress *progress = leat_progress_open(&r->progress, "samples", show, r);
    while (rc == LEAT_OK && !enough && !over(r) && (!r->epochs || r->epochs_n < r->epochs)) {
        rc = read_and_tell(r, &enough, err);
        if (rc == LEAT_OK && r->enough)
            enough = r->enough(r->user, r);
    }
    leat_progress_close(progress);
    r->own_peak_bytes = own_peak();
    leat_account_since(&r->account, &r->before);
    return rc;
}

static void reading_close(struct leat_reading *r)
{
    leat_loader_close(r->loader);
    leat_dataset_close(r->dataset);
    r->loader = NULL;
    r->dataset = NULL;
}

int leat_reading_end(struct leat_reading *r, int status)
{
    if (status == LEAT_EXIT_OK)
        status = leat_cli_finish();
    if (status == LEAT_EXIT_OK && r->interrupted)
        status = LEAT_EXIT_INTERRUPTED;
    reading_close(r);
    free(r);
    return status;
}
