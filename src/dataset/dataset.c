#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/prefix.h"
#include "dataset/fetch.h"
#include "dataset/keys.h"
#include "dataset/piece.h"
#include "dataset/sections.h"

/* Before memory is set aside for a chunk larger than any usual one, the store is asked whether it is that large. */
#define CHUNK_UNUSUAL (64u << 20)

#define ROOT_FIRST (64u << 10) /* asked for first: most roots are shorter */

struct leat_dataset {
    struct leat_home home;
    struct leat_pointer version;
    char *root_data;
    struct leat_root root;
    struct leat_prefix by_chunk;
    struct leat_sections *sections;
};

/* The rest of a root, behind its first `got` bytes: in ranges, since a bucket gives one connection far less than the
 * line carries, and nothing can begin before the root is here. */
static leat_status load_rest(struct leat_dataset *d, struct leat_piece *piece, size_t got,
                             const struct leat_object *object, struct leat_error *err)
{
    char *more = realloc(d->root_data, (size_t)object->size);
    if (!more)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a root of %" PRIu64 " bytes", object->size);
    d->root_data = more;
    piece->offset = got;
    piece->length = object->size - got;
    piece->object_bytes = object->size;
    piece->pin = object->etag[0] ? object->etag : NULL;
    struct leat_pieces rest = {.list = piece, .n = 1, .bytes = piece->length};
    struct leat_fetch_opts opts = {.store = d->home.store,
                                   .pieces = &rest,
                                   .into = d->root_data + got,
                                   .ranges = LEAT_STORE_HURRY,
                                   .urgent = true};
    return leat_fetch_run(&opts, err);
}

/* Into d->root_data, n bytes. One round trip for a small root. */
static leat_status fetch_root(struct leat_dataset *d, const char *name, size_t *n, struct leat_error *err)
{
    struct leat_pieces first = {0};
    leat_status rc = leat_pieces_of(&d->home, name, 0, ROOT_FIRST, 0, &first, err);
    if (rc != LEAT_OK)
        return rc;
    free(d->root_data); /* of an earlier attempt */
    d->root_data = malloc(ROOT_FIRST);
    struct leat_store_op op = {
        .verb = LEAT_STORE_GET, .key = first.list[0].key, .length = ROOT_FIRST, .into = d->root_data, .short_ok = true};
    rc =
        d->root_data ? leat_store_run(d->home.store, &op, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a root");
    if (rc == LEAT_OK && op.object.size == UINT64_MAX)
        rc = leat_fail(err, LEAT_UNSUPPORTED, "cannot read '%s': the server does not say how long it is", op.key);
    if (rc == LEAT_OK && op.object.size > LEAT_ROOT_MAX)
        rc = leat_fail(err, LEAT_LIMIT, "'%s' holds %" PRIu64 " bytes, more than the %zu that a root may have", op.key,
                       op.object.size, LEAT_ROOT_MAX);
    if (rc == LEAT_OK && op.object.size > op.got)
        rc = load_rest(d, &first.list[0], (size_t)op.got, &op.object, err);
    leat_pieces_free(&first);
    if (rc == LEAT_OK)
        *n = (size_t)op.object.size;
    return rc;
}

static leat_status load_root(struct leat_dataset *d, struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    uint8_t sha[LEAT_SHA256_SIZE];
    size_t n;
    leat_name_root(d->version.root, name);
    leat_status rc = fetch_root(d, name, &n, err);
    if (rc != LEAT_OK)
        return rc;
    leat_sha256(d->root_data, n, sha);
    if (memcmp(sha, d->version.root, sizeof sha) != 0)
        return leat_fail(err, LEAT_CORRUPT, "the root %s does not have the bytes its name promises", name);
    rc = leat_root_read(d->root_data, n, &d->root, err);
    if (rc == LEAT_OK && memcmp(d->root.id, d->version.id, sizeof d->version.id) != 0)
        rc = leat_fail(err, LEAT_CORRUPT, "the root %s has another content id than the pointer to it", name);
    return rc;
}

/* The pointer has no checksum: when the root that it names is not there, or is another, either of them may have been
 * damaged on the way. So both are read once more. */
static leat_status load_version(struct leat_dataset *d, const uint8_t *id, struct leat_error *err)
{
    leat_status rc = LEAT_CORRUPT;
    for (int i = 0; i < 2 && (rc == LEAT_CORRUPT || rc == LEAT_NOT_FOUND); i++) {
        rc = leat_home_resolve(&d->home, id, &d->version, err);
        if (rc != LEAT_OK)
            return rc;
        rc = load_root(d, err);
    }
    return rc;
}

leat_status leat_dataset_open(const char *url, const struct leat_store_opts *opts, const uint8_t *id,
                              struct leat_dataset **out, struct leat_error *err)
{
    struct leat_dataset *d = calloc(1, sizeof *d);
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
    leat_status rc = leat_home_open(url, opts, &d->home, err);
    if (rc == LEAT_OK)
        rc = load_version(d, id, err);
    if (rc == LEAT_OK)
        rc = leat_prefix_make(d->root.counts, NULL, d->root.chunks, &d->by_chunk, err);
    if (rc == LEAT_OK)
        rc = leat_sections_open(&d->home, &d->root, &d->sections, err);
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
    leat_sections_close(d->sections);
    leat_prefix_free(&d->by_chunk);
    free(d->root_data);
    leat_home_close(&d->home);
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
    leat_status rc = check_section(d, kind, &s, err);
    if (rc != LEAT_OK)
        return rc;
    if (at > s->size || n > s->size - at)
        return leat_fail(err, LEAT_CORRUPT, "the snapshot has no byte %" PRIu64 " in section %d", at, kind);
    return leat_sections_read(d->sections, s, at, into, n, err);
}

leat_status leat_dataset_check_section(struct leat_dataset *d, const struct leat_section *s, struct leat_error *err)
{
    return leat_sections_check(d->sections, s, err);
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

static leat_status load_once(const struct leat_dataset *d, uint32_t chunk, const struct leat_pieces *pieces, void *data,
                             struct leat_chunk *out, struct leat_error *err)
{
    struct leat_fetch_opts opts = {.store = d->home.store, .pieces = pieces, .into = data};
    char name[LEAT_NAME_MAX];
    leat_status rc = leat_fetch_run(&opts, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "chunk %" PRIu32 " of %s", chunk, d->home.url);
    rc = leat_root_open_chunk(&d->root, chunk, data, (size_t)pieces->bytes, out, err);
    if (rc == LEAT_OK)
        return LEAT_OK;
    leat_name_chunk(leat_root_chunk_name(&d->root, chunk), name);
    return leat_fail_context(err, rc, "chunk %" PRIu32 " of %s (%s)", chunk, d->home.url, name);
}

/* What the store says about the pieces of a chunk that would need much memory. */
static leat_status check_sizes(const struct leat_dataset *d, uint32_t chunk, const struct leat_pieces *pieces,
                               struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && pieces->bytes > CHUNK_UNUSUAL && i < pieces->n; i++) {
        const struct leat_piece *p = &pieces->list[i];
        struct leat_object object;
        rc = leat_store_stat(d->home.store, p->key, &object, err);
        if (rc == LEAT_OK && (p->object_bytes ? object.size != p->object_bytes : object.size < p->offset + p->length))
            rc = leat_fail(err, LEAT_CORRUPT, "'%s' has %" PRIu64 " bytes, the snapshot says %" PRIu64, p->key,
                           object.size, p->object_bytes ? p->object_bytes : p->offset + p->length);
    }
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "chunk %" PRIu32 " of %s", chunk, d->home.url);
}

leat_status leat_dataset_load(struct leat_dataset *d, uint32_t chunk, void **data, struct leat_chunk *out,
                              struct leat_error *err)
{
    struct leat_pieces pieces = {0};
    void *bytes = NULL;
    leat_status rc = leat_dataset_pieces(d, chunk, &pieces, err);
    if (rc != LEAT_OK)
        return rc;
    rc = check_sizes(d, chunk, &pieces, err);
    if (rc == LEAT_OK) {
        bytes = malloc((size_t)pieces.bytes);
        if (!bytes)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the %" PRIu64 " bytes of chunk %" PRIu32, pieces.bytes,
                           chunk);
    }
    if (rc == LEAT_OK)
        rc = load_once(d, chunk, &pieces, bytes, out, err);
    if (rc == LEAT_CORRUPT && bytes)
        rc = load_once(d, chunk, &pieces, bytes, out, err); /* damaged on the way, perhaps */
    leat_pieces_free(&pieces);
    if (rc != LEAT_OK) {
        free(bytes);
        return rc;
    }
    *data = bytes;
    return LEAT_OK;
}
