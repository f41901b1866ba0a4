/* `leat warm`: a reading in the dataset's own order, without a field, through so little memory that whatever comes has
 * to go to disk, and at the pace of the disk (LEAT_PURPOSE_WARM). */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "cli/reading.h"

#define EPOCHS     4u
#define PATIENCE   (2 * LEAT_S) /* for writes that are under way when an epoch ends */
#define LOOK_EVERY (10 * LEAT_MS)

struct warm_settings {
    struct leat_reading_store store;
    const char *cache_dir;
    uint64_t cache;
    bool json;
    struct leat_cli_progress progress;
};

#define AT(member) offsetof(struct warm_settings, member)

static const struct leat_option options[] = {
    {"cache-dir", 0, LEAT_OPTION_STRING, AT(cache_dir), "DIR", NULL, "LEAT_CACHE_DIR", "folder of the cache on disk"},
    {"cache", 0, LEAT_OPTION_SIZE, AT(cache), "SIZE", NULL, "LEAT_CACHE",
     "how much of the disk the cache may use (default: the agent decides)"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print one JSON object"},
    {"quiet", 'q', LEAT_OPTION_FLAG, AT(progress.quiet), NULL, NULL, NULL, "no progress and no warnings of long waits"},
    LEAT_PROGRESS_OPTION(AT(progress)),
    LEAT_READING_STORE_OPTIONS(AT(store)),
    {0},
};

struct warming {
    uint64_t demotions; /* when the epoch began */
    uint32_t epochs;    /* that have ended */
};

/* Chunks of this dataset on disk, as far as the numbers tell: found there in the first epoch, or put there since. What
 * had to leave the disk was others' first, which nobody needs. */
static uint64_t stored_chunks(const struct leat_reading *r)
{
    struct leat_cli_used used = leat_cli_used(r->dataset);
    uint64_t all = used.chunks;
    uint64_t fetched = r->epochs_n ? r->epoch[0].account.chunks_by_source[LEAT_FROM_BUCKET] : all;
    uint64_t found = fetched < all ? all - fetched : 0;
    uint64_t each = all ? used.bytes / all + 1 : 1;
    uint64_t others = r->disk_before_bytes / each > found ? r->disk_before_bytes / each - found : 0;
    uint64_t left = r->account.evictions_by_tier[LEAT_TIER_DISK];
    uint64_t sum = found + r->account.demotions;
    uint64_t own = left > others ? left - others : 0;
    sum = sum > own ? sum - own : 0;
    return sum < all ? sum : all;
}

static uint64_t stored_bytes(const struct leat_reading *r)
{
    struct leat_cli_used used = leat_cli_used(r->dataset);
    uint64_t chunks = stored_chunks(r);
    uint64_t bytes = chunks == used.chunks ? used.bytes : (uint64_t)((double)used.bytes / used.chunks * (double)chunks);
    return bytes < r->account.disk_bytes ? bytes : r->account.disk_bytes;
}

static bool whole(const struct leat_reading *r)
{
    return r->epochs_n && stored_chunks(r) == leat_cli_used(r->dataset).chunks;
}

/* The cache holds nothing but this dataset, and no more fits. */
static bool full(const struct leat_reading *r)
{
    struct leat_cli_used used = leat_cli_used(r->dataset);
    uint64_t slack = 3 * (used.bytes / used.chunks + 1);
    return r->account.disk_bytes + slack > r->budget.disk_budget && stored_bytes(r) + slack > r->budget.disk_budget;
}

/* Whether the epoch that has ended has put anything on disk. An epoch of a few chunks ends before its first write does.
 */
static bool added(struct warming *w, struct leat_reading *r)
{
    uint64_t deadline = leat_after(PATIENCE);
    while (r->account.demotions <= w->demotions && leat_left(deadline) && !leat_cli_interrupted() &&
           leat_reading_look(r, NULL) == LEAT_OK)
        leat_sleep_until(leat_after(LOOK_EVERY));
    return r->account.demotions > w->demotions;
}

/* True when nothing more can be done: all of it is there, the disk is full, or an epoch has added nothing. */
static bool enough(void *user, struct leat_reading *r)
{
    struct warming *w = user;
    if (whole(r) || full(r))
        return true;
    if (r->epochs_n == w->epochs)
        return false;
    bool more = added(w, r);
    w->demotions = r->account.demotions;
    w->epochs = r->epochs_n;
    return whole(r) || !more;
}

static leat_status prepare(const struct warm_settings *s, const char *url, struct warming *w, struct leat_reading *r,
                           struct leat_error *err)
{
    *r = (struct leat_reading){.url = url,
                               .store = s->store,
                               .pipeline = "",
                               .epochs = EPOCHS,
                               .progress = s->progress,
                               .enough = enough,
                               .user = w,
                               .little = true,
                               .opts = {.purpose = LEAT_PURPOSE_WARM}};
    r->opts.cache_dir = s->cache_dir;
    r->opts.cache = s->cache;
    if (!s->cache_dir && !s->cache)
        return leat_fail(err, LEAT_INVALID,
                         "no cache to fill: give --cache-dir or --cache, or set LEAT_CACHE_DIR or LEAT_CACHE");
    return LEAT_OK;
}

static int tell(const struct leat_reading *r, const struct warm_settings *s)
{
    const struct leat_root *root = leat_dataset_root(r->dataset);
    uint64_t bucket = r->account.bytes_by_source[LEAT_FROM_BUCKET];
    char x[LEAT_FORMAT_SIZE];
    char y[LEAT_FORMAT_SIZE];
    char z[LEAT_FORMAT_SIZE];
    char t[LEAT_FORMAT_SIZE];
    if (s->json) {
        json_t *j = json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:f,s:b}", "url", leat_dataset_home(r->dataset)->url, "version",
                              leat_loader_version(r->loader), "bytes", (json_int_t)root->bytes, "stored_bytes",
                              (json_int_t)stored_bytes(r), "bucket_bytes", (json_int_t)bucket, "cache_budget",
                              (json_int_t)r->budget.disk_budget, "seconds", r->seconds, "interrupted", r->interrupted);
        char *text = leat_json_write(j, JSON_COMPACT);
        json_decref(j);
        if (!text)
            return leat_cli_failf(LEAT_NO_MEMORY, "no memory for the numbers");
        puts(text);
        free(text);
        return LEAT_EXIT_OK;
    }
    printf("%s of %s are in the cache on disk; %s came from the bucket, in %s\n", leat_format_size(stored_bytes(r), x),
           leat_format_size(root->bytes, y), leat_format_size(bucket, z),
           leat_format_duration((uint64_t)(r->seconds * 1e9), t));
    return LEAT_EXIT_OK;
}

static leat_status check_cache(const struct leat_reading *r, struct leat_error *err)
{
    if (r->budget.disk_budget)
        return LEAT_OK;
    return leat_fail(err, LEAT_IO,
                     "the agent has no cache on disk: the folder cannot be used; its log says why (leat agent log "
                     "--scope %s)",
                     r->agent_scope);
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct warm_settings *s = settings;
    struct leat_reading *r = calloc(1, sizeof *r);
    struct warming w = {0};
    struct leat_error err;
    if (!r)
        return leat_cli_failf(LEAT_NO_MEMORY, "no memory to read with");
    leat_status rc = prepare(s, argv[0], &w, r, &err);
    if (rc == LEAT_OK)
        rc = leat_reading_open(r, &err);
    if (rc == LEAT_OK)
        rc = check_cache(r, &err);
    if (rc == LEAT_OK)
        rc = leat_reading_run(r, &err);
    int status = rc == LEAT_OK ? tell(r, s) : leat_cli_fail(&err);
    return leat_reading_end(r, status);
}

const struct leat_command leat_command_warm = {
    .name = "warm",
    .arguments = "DATASET",
    .summary = "fill the cache on disk before a training begins",
    .details =
        "Reads the dataset once, without preparing anything, so that the cache on disk holds as much of it as it "
        "can, and says how much that is. What is in the cache already is not fetched again. A training that uses "
        "the same folder (cache_dir=, LEAT_CACHE_DIR) finds it there.",
    .examples = "  leat warm s3://bucket/imagenet --cache-dir /scratch/leat --cache 150gib\n",
    .options = options,
    .settings_size = sizeof(struct warm_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
