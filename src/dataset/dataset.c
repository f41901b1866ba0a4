#include "dataset/dataset.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/prefix.h"
#include "dataset/keys.h"

/* Sections are read in runs of blocks: a request for 64 KiB takes as long as one for 1 MiB. Blocks divide it. */
#define RUN_BYTES (1u << 20)
#define RUNS      32u /* kept at most; of each section's as they come */

/* Before memory is set aside for a chunk larger than any usual one, the store is asked whether it is that large. */
#define CHUNK_UNUSUAL (64u << 20)

struct run {
    const struct leat_section *section; /* NULL: empty */
    uint64_t number;
    uint64_t used; /* counts up: the smallest is replaced first */
    uint8_t *data;
    size_t size;
};

struct leat_dataset {
    struct leat_home home;
    struct leat_pointer version;
    char *root_data;
    struct leat_root root;
    struct leat_prefix by_chunk;
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        struct run runs[RUNS];
        uint64_t uses;
    } locked;
};

static leat_status load_root(struct leat_dataset *d, struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    leat_name_root(d->version.root, name);
    char *key = leat_home_key(&d->home, name);
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    size_t n;
    leat_status rc = leat_store_load(d->home.store, key, LEAT_ROOT_MAX, &d->root_data, &n, NULL, err);
    free(key);
    if (rc != LEAT_OK)
        return rc;
    uint8_t sha[LEAT_SHA256_SIZE];
    leat_sha256(d->root_data, n, sha);
    if (memcmp(sha, d->version.root, sizeof sha) != 0)
        return leat_fail(err, LEAT_CORRUPT, "the root %s does not have the bytes its name promises", name);
    rc = leat_root_read(d->root_data, n, &d->root, err);
    if (rc == LEAT_OK && memcmp(d->root.id, d->version.id, sizeof d->version.id) != 0)
        rc = leat_fail(err, LEAT_CORRUPT, "the root %s has another content id than the pointer to it", name);
    return rc;
}

leat_status leat_dataset_open(const char *url, const struct leat_store_opts *opts, const uint8_t *id,
                              struct leat_dataset **out, struct leat_error *err)
{
    struct leat_dataset *d = calloc(1, sizeof *d);
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
    pthread_mutex_init(&d->mutex, NULL);
    leat_status rc = leat_home_open(url, opts, &d->home, err);
    if (rc == LEAT_OK)
        rc = leat_home_resolve(&d->home, id, &d->version, err);
    if (rc == LEAT_OK)
        rc = load_root(d, err);
    if (rc == LEAT_OK)
        rc = leat_prefix_make(d->root.counts, NULL, d->root.chunks, &d->by_chunk, err);
    if (rc != LEAT_OK) {
        leat_dataset_close(d); /* accepts a half-built one */
        return rc;
    }
    *out = d;
    return LEAT_OK;
}

void leat_dataset_close(struct leat_dataset *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < RUNS; i++)
        free(d->locked.runs[i].data);
    leat_prefix_free(&d->by_chunk);
    free(d->root_data);
    leat_home_close(&d->home);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

const struct leat_root *leat_dataset_root(const struct leat_dataset *d)
{
    return &d->root;
}

const uint8_t *leat_dataset_id(const struct leat_dataset *d)
{
    return d->version.id;
}

const uint8_t *leat_dataset_root_id(const struct leat_dataset *d)
{
    return d->version.root;
}

const struct leat_home *leat_dataset_home(const struct leat_dataset *d)
{
    return &d->home;
}

uint32_t leat_dataset_locate(const struct leat_dataset *d, uint64_t sample, uint32_t *index)
{
    uint32_t chunk = leat_prefix_find(&d->by_chunk, sample);
    *index = (uint32_t)(sample - leat_prefix_before(&d->by_chunk, chunk));
    return chunk;
}

/* Sections */

/* Fetches and verifies a run of blocks into memory the caller frees. */
static leat_status fetch_run(const struct leat_dataset *d, const struct leat_section *s, uint64_t number,
                             struct run *out, struct leat_error *err)
{
    uint64_t at = number * RUN_BYTES;
    size_t size = s->size - at < RUN_BYTES ? (size_t)(s->size - at) : RUN_BYTES;
    char name[LEAT_NAME_MAX];
    leat_name_section(s->name, name);
    char *key = leat_home_key(&d->home, name);
    uint8_t *data = malloc(size);
    leat_status rc = key && data ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu bytes", size);
    if (rc == LEAT_OK)
        rc = leat_store_get(d->home.store, key, at, size, data, NULL, err);
    for (size_t done = 0; rc == LEAT_OK && done < size; done += d->root.block_bytes) {
        uint64_t block = (at + done) / d->root.block_bytes;
        size_t n = leat_root_block_size(&d->root, s, block);
        rc = leat_root_check_block(&d->root, s, block, data + done, n, err);
    }
    free(key);
    if (rc != LEAT_OK) {
        free(data);
        return rc;
    }
    *out = (struct run){.section = s, .number = number, .data = data, .size = size};
    return LEAT_OK;
}

/* Hold the mutex. */
static leat_status find_run(struct leat_dataset *d, const struct leat_section *s, uint64_t number,
                            const struct run **out, struct leat_error *err)
{
    struct run *oldest = d->locked.runs;
    for (struct run *r = d->locked.runs; r < d->locked.runs + RUNS; r++) {
        if (r->section == s && r->number == number) {
            r->used = ++d->locked.uses;
            *out = r;
            return LEAT_OK;
        }
        if (r->used < oldest->used)
            oldest = r;
    }
    struct run fresh;
    leat_status rc = fetch_run(d, s, number, &fresh, err);
    if (rc != LEAT_OK)
        return rc;
    free(oldest->data);
    *oldest = fresh;
    oldest->used = ++d->locked.uses;
    *out = oldest;
    return LEAT_OK;
}

/* Whether there is such a section, and it can be read. out may be NULL. */
static leat_status check_section(const struct leat_dataset *d, enum leat_section_kind kind,
                                 const struct leat_section **out, struct leat_error *err)
{
    const struct leat_section *s = leat_root_section(&d->root, kind);
    if (!s)
        return leat_fail(err, LEAT_NOT_FOUND, "the dataset at %s has no %s", d->home.url,
                         kind == LEAT_SECTION_KEYS ? "keys" : "table of samples");
    if (out)
        *out = s;
    return leat_section_check(s, err);
}

static leat_status read_section(struct leat_dataset *d, enum leat_section_kind kind, uint64_t at, void *into, size_t n,
                                struct leat_error *err)
{
    const struct leat_section *s = NULL;
    uint8_t *to = into;
    leat_status rc = check_section(d, kind, &s, err);
    if (rc != LEAT_OK)
        return rc;
    if (at > s->size || n > s->size - at)
        return leat_fail(err, LEAT_CORRUPT, "the snapshot has no byte %" PRIu64 " in section %d", at, kind);
    pthread_mutex_lock(&d->mutex);
    while (rc == LEAT_OK && n) {
        const struct run *run;
        rc = find_run(d, s, at / RUN_BYTES, &run, err);
        if (rc != LEAT_OK)
            break;
        size_t from = (size_t)(at % RUN_BYTES);
        size_t take = run->size - from < n ? run->size - from : n;
        memcpy(to, run->data + from, take);
        to += take;
        at += take;
        n -= take;
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

leat_status leat_dataset_check_section(struct leat_dataset *d, const struct leat_section *s, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint64_t run = 0; rc == LEAT_OK && run * RUN_BYTES < s->size; run++) {
        struct run fetched;
        rc = fetch_run(d, s, run, &fetched, err);
        if (rc == LEAT_OK)
            free(fetched.data);
    }
    return rc;
}

static leat_status check_sample(const struct leat_dataset *d, uint64_t sample, struct leat_error *err)
{
    if (sample < d->root.samples)
        return LEAT_OK;
    return leat_fail(err, LEAT_NOT_FOUND, "there is no sample %" PRIu64 ": the dataset has %" PRIu64, sample,
                     d->root.samples);
}

leat_status leat_dataset_row(struct leat_dataset *d, uint64_t sample, uint8_t *row, struct leat_error *err)
{
    uint32_t n = d->root.schema.row_bytes;
    leat_status rc = check_sample(d, sample, err);
    return rc == LEAT_OK ? read_section(d, LEAT_SECTION_SAMPLES, sample * n, row, n, err) : rc;
}

static leat_status fetch_keys(void *user, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    return read_section(user, LEAT_SECTION_KEYS, at, into, n, err);
}

static struct leat_keys keys_of(struct leat_dataset *d)
{
    const struct leat_section *s = leat_root_section(&d->root, LEAT_SECTION_KEYS);
    return (struct leat_keys){
        .samples = s ? d->root.samples : 0, .size = s ? s->size : 0, .fetch = fetch_keys, .user = d};
}

leat_status leat_dataset_key(struct leat_dataset *d, uint64_t sample, struct leat_buf *out, struct leat_error *err)
{
    struct leat_keys keys = keys_of(d);
    leat_status rc = check_sample(d, sample, err);
    if (rc == LEAT_OK)
        rc = check_section(d, LEAT_SECTION_KEYS, NULL, err);
    return rc == LEAT_OK ? leat_keys_get(&keys, sample, out, err) : rc;
}

leat_status leat_dataset_find(struct leat_dataset *d, const void *key, size_t n, uint64_t *sample, uint64_t *count,
                              struct leat_error *err)
{
    struct leat_keys keys = keys_of(d);
    leat_status rc = check_section(d, LEAT_SECTION_KEYS, NULL, err);
    return rc == LEAT_OK ? leat_keys_find(&keys, key, n, sample, count, err) : rc;
}

leat_status leat_dataset_keys_repeat(struct leat_dataset *d, bool *out, struct leat_error *err)
{
    struct leat_keys keys = keys_of(d);
    leat_status rc = check_section(d, LEAT_SECTION_KEYS, NULL, err);
    return rc == LEAT_OK ? leat_keys_repeat(&keys, out, err) : rc;
}

/* Chunks */

static leat_status load_once(const struct leat_dataset *d, uint32_t chunk, const char *key, void *data,
                             struct leat_chunk *out, struct leat_error *err)
{
    uint32_t size = d->root.sizes[chunk];
    leat_status rc = leat_store_get(d->home.store, key, 0, size, data, NULL, err);
    if (rc == LEAT_INVALID) /* the range is not there */
        return leat_fail_context(err, LEAT_CORRUPT, "it is shorter than the snapshot says");
    return rc == LEAT_OK ? leat_root_open_chunk(&d->root, chunk, data, size, out, err) : rc;
}

static leat_status check_size(const struct leat_dataset *d, uint32_t chunk, const char *key, struct leat_error *err)
{
    struct leat_object object;
    if (d->root.sizes[chunk] <= CHUNK_UNUSUAL)
        return LEAT_OK;
    leat_status rc = leat_store_stat(d->home.store, key, &object, err);
    if (rc == LEAT_OK && object.size != d->root.sizes[chunk])
        rc = leat_fail(err, LEAT_CORRUPT, "it has %" PRIu64 " bytes, the snapshot says %" PRIu32, object.size,
                       d->root.sizes[chunk]);
    return rc;
}

/* *data is allocated here and freed by the caller, also after a failure. */
static leat_status load_chunk(const struct leat_dataset *d, uint32_t chunk, const char *key, void **data,
                              struct leat_chunk *out, struct leat_error *err)
{
    uint32_t size = d->root.sizes[chunk];
    leat_status rc = check_size(d, chunk, key, err);
    if (rc != LEAT_OK)
        return rc;
    *data = malloc(size);
    if (!*data)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu32 " bytes", size);
    rc = load_once(d, chunk, key, *data, out, err);
    if (rc == LEAT_CORRUPT)
        rc = load_once(d, chunk, key, *data, out, err); /* damaged on the way, perhaps */
    return rc;
}

leat_status leat_dataset_load(struct leat_dataset *d, uint32_t chunk, void **data, struct leat_chunk *out,
                              struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    void *bytes = NULL;
    leat_name_chunk(leat_root_chunk_name(&d->root, chunk), name);
    char *key = leat_home_key(&d->home, name);
    leat_status rc =
        key ? load_chunk(d, chunk, key, &bytes, out, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    free(key);
    if (rc != LEAT_OK) {
        free(bytes);
        return leat_fail_context(err, rc, "chunk %" PRIu32 " of %s (%s)", chunk, d->home.url, name);
    }
    *data = bytes;
    return LEAT_OK;
}
