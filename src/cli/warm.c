/* `leat warm`: a reading in the dataset's own order, without a field, through so little memory that whatever comes has
 * to go to disk. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/reading.h"

#define BATCH      64u
#define RAM_CHUNKS 40u /* a line of tens of requests, and what is being read */

struct warm_settings {
    struct leat_reading_store store;
    const char *cache_dir;
    uint64_t cache;
    bool json;
    bool quiet;
};

#define AT(member) offsetof(struct warm_settings, member)

static const struct leat_option options[] = {
    {"cache-dir", 0, LEAT_OPTION_STRING, AT(cache_dir), "DIR", NULL, "LEAT_CACHE_DIR", "folder of the cache on disk"},
    {"cache", 0, LEAT_OPTION_SIZE, AT(cache), "SIZE", NULL, "LEAT_CACHE",
     "how much of the disk it may take (else what the agent takes by itself)"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print one JSON object"},
    {"quiet", 'q', LEAT_OPTION_FLAG, AT(quiet), NULL, NULL, NULL, "no progress line and no warnings of long waits"},
    LEAT_READING_STORE_OPTIONS(AT(store)),
    {0},
};

/* Of this dataset, in the cache on disk: what was found there and what has been put there. */
static uint64_t stored(const struct leat_reading *r)
{
    uint64_t all = leat_dataset_root(r->dataset)->bytes;
    uint64_t grown = r->account.disk_bytes > r->disk_before_bytes ? r->account.disk_bytes - r->disk_before_bytes : 0;
    uint64_t first =
        r->epochs_n ? r->epoch[0].account.bytes_by_source[LEAT_FROM_DISK] : r->account.bytes_by_source[LEAT_FROM_DISK];
    uint64_t sum = first + grown;
    return sum < all ? sum : all;
}

/* One epoch brings everything; what is still in memory at its end goes to disk as the next one's beginning comes in. */
static bool enough(void *user, const struct leat_reading *r)
{
    uint64_t all = leat_dataset_root(r->dataset)->bytes;
    uint64_t samples = leat_dataset_root(r->dataset)->samples;
    uint64_t again = samples ? (uint64_t)((double)r->samples / (double)samples * (double)all) : 0;
    (void)user;
    if (stored(r) == all)
        return true;
    return r->epochs_n && again > all && again - all > 2 * r->budget.cache_budget;
}

static leat_status prepare(const struct warm_settings *s, const char *url, struct leat_reading *r,
                           struct leat_error *err)
{
    *r = (struct leat_reading){.url = url,
                               .store = s->store,
                               .pipeline = "",
                               .epochs = 3,
                               .quiet = s->quiet,
                               .enough = enough,
                               .ram_chunks = RAM_CHUNKS};
    r->opts.batch = BATCH;
    r->opts.cache_dir = s->cache_dir;
    r->opts.cache = s->cache;
    if (!s->cache_dir && !s->cache)
        return leat_fail(err, LEAT_INVALID,
                         "which cache is to be filled? Give --cache-dir, --cache, or LEAT_CACHE_DIR and LEAT_CACHE");
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
                              (json_int_t)stored(r), "bucket_bytes", (json_int_t)bucket, "cache_budget",
                              (json_int_t)r->budget.disk_budget, "seconds", r->seconds, "interrupted", r->interrupted);
        char *text = leat_json_write(j, JSON_COMPACT);
        json_decref(j);
        if (!text)
            return leat_cli_failf(LEAT_NO_MEMORY, "no memory for the numbers");
        puts(text);
        free(text);
        return LEAT_EXIT_OK;
    }
    printf("%s of %s are in the cache on disk; %s came from the bucket, in %s\n", leat_format_size(stored(r), x),
           leat_format_size(root->bytes, y), leat_format_size(bucket, z),
           leat_format_duration((uint64_t)(r->seconds * 1e9), t));
    return LEAT_EXIT_OK;
}

static leat_status check_cache(const struct leat_reading *r, struct leat_error *err)
{
    if (r->budget.disk_budget)
        return LEAT_OK;
    return leat_fail(err, LEAT_IO,
                     "the agent has no cache on disk: the folder cannot be used, and its log says why "
                     "(leat agent log --scope %s)",
                     r->agent_scope);
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct warm_settings *s = settings;
    struct leat_reading *r = calloc(1, sizeof *r);
    struct leat_error err;
    if (!r)
        return leat_cli_failf(LEAT_NO_MEMORY, "no memory to read with");
    leat_status rc = prepare(s, argv[0], r, &err);
    if (rc == LEAT_OK)
        rc = leat_reading_open(r, &err);
    if (rc == LEAT_OK)
        rc = check_cache(r, &err);
    if (rc == LEAT_OK)
        rc = leat_reading_run(r, &err);
    int status = rc == LEAT_OK ? tell(r, s) : leat_cli_fail(&err);
    if (status == LEAT_EXIT_OK)
        status = leat_cli_finish();
    if (status == LEAT_EXIT_OK && r->interrupted)
        status = LEAT_EXIT_INTERRUPTED;
    leat_reading_close(r);
    free(r);
    return status;
}

const struct leat_command leat_command_warm = {
    .name = "warm",
    .arguments = "DATASET",
    .summary = "fill the cache on disk before a training begins",
    .details =
        "Reads the dataset once, without preparing anything, so that the cache on disk holds as much of it as it "
        "may take; says how much that is. What is there already is not fetched again. A training that uses the "
        "same folder (cache_dir=, LEAT_CACHE_DIR) finds it.",
    .examples = "  leat warm s3://bucket/imagenet --cache-dir /scratch/leat --cache 150gib\n",
    .options = options,
    .settings_size = sizeof(struct warm_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
