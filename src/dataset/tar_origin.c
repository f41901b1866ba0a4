#include "dataset/tar_origin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/chunk.h"
#include "dataset/pack.h"
#include "dataset/tar_pass.h"

#define SPILL_MEMORY (32u << 20)

struct tar_origin {
    struct leat_origin origin; /* first member */
    struct leat_shards shards;
    struct leat_tar_pass pass;     /* what it found stays in use: fields, spill */
    struct leat_tar_chunk *chunks; /* of all shards; `first` counts from the first sample of all */
    uint8_t at[LEAT_FIELDS_MAX];   /* place in the schema of each field of the pass */
};

/* What stands before a chunk's record in a room: whose it is. */
struct room_head {
    const struct tar_origin *origin;
    uint64_t chunk;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the samples of tar shards");
}

/* Asking */

static const struct leat_tar_chunk *chunk_of(const struct tar_origin *t, uint64_t sample, uint32_t *number)
{
    uint32_t low = 0;
    uint32_t high = t->origin.chunks;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (t->chunks[middle].at.first <= sample)
            low = middle;
        else
            high = middle;
    }
    *number = low;
    return &t->chunks[low];
}

/* The record of a chunk in the room: samples are mostly asked for one after the other. */
static leat_status load_record(const struct tar_origin *t, uint32_t number, struct leat_origin_room *room,
                               struct leat_error *err)
{
    const struct leat_tar_chunk *c = &t->chunks[number];
    struct room_head head = {0};
    size_t n = sizeof head + c->record_n;
    if (room->text && room->text_cap >= sizeof head)
        memcpy(&head, room->text, sizeof head);
    if (head.origin == t && head.chunk == number)
        return LEAT_OK;
    leat_status rc = leat_origin_room_text(room, n, err);
    if (rc != LEAT_OK)
        return rc;
    memset(room->text, 0, sizeof head);
    rc = leat_spill_read(t->pass.locked.spill, c->record, room->text + sizeof head, c->record_n, err);
    head = (struct room_head){.origin = t, .chunk = number};
    if (rc == LEAT_OK)
        memcpy(room->text, &head, sizeof head);
    return rc;
}

static leat_status tar_sample(const struct leat_origin *o, uint64_t i, struct leat_origin_room *room,
                              struct leat_origin_sample *out, struct leat_error *err)
{
    const struct tar_origin *t = (const struct tar_origin *)o;
    uint32_t number;
    const struct leat_tar_chunk *c = chunk_of(t, i, &number);
    leat_status rc = load_record(t, number, room, err);
    if (rc != LEAT_OK)
        return rc;
    return leat_tar_record_read(&t->pass, c, room->text + sizeof(struct room_head), (uint32_t)(i - c->at.first), t->at,
                                room->values, out, err);
}

static leat_status tar_object(const struct leat_origin *o, uint32_t i, struct leat_origin_object *out,
                              struct leat_error *err)
{
    (void)err;
    const struct leat_shard *s = &((const struct tar_origin *)o)->shards.list[i];
    *out = (struct leat_origin_object){.home = s->home, .key = s->key, .size = s->size, .etag = s->etag};
    return LEAT_OK;
}

static leat_status tar_chunk(const struct leat_origin *o, uint32_t i, struct leat_origin_chunk *out,
                             struct leat_error *err)
{
    (void)err;
    *out = ((const struct tar_origin *)o)->chunks[i].at;
    return LEAT_OK;
}

static void tar_close(struct leat_origin *o)
{
    struct tar_origin *t = (struct tar_origin *)o;
    for (uint32_t i = 0; t->pass.found && i < t->shards.n; i++)
        free(t->pass.found[i].chunks);
    free(t->pass.found);
    leat_spill_close(t->pass.locked.spill);
    pthread_mutex_destroy(&t->pass.mutex);
    free(t->chunks);
    leat_shards_close(&t->shards);
    free(t);
}

static const struct leat_origin_ops tar_ops = {
    .sample = tar_sample,
    .object = tar_object,
    .chunk = tar_chunk,
    .close = tar_close,
};

/* Opening */

/* Compressed shards cannot be read in places, and must not be passed over in silence. */
static leat_status refuse_packed(const char *name, struct leat_error *err)
{
    static const char *const endings[] = {".tar.gz", ".tgz",    ".tar.zst", ".tzst",    ".tar.bz2",
                                          ".tbz2",   ".tar.xz", ".txz",     ".tar.lz4", ".tar.Z"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && strcmp(name + n - m, endings[i]) == 0)
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "'%.300s' is compressed, and samples cannot be read out of the middle of it: unpack it "
                             "(gunzip, zstd -d, …) and index the .tar",
                             name);
    }
    return LEAT_OK;
}

/* All shards' chunks in one list, samples counted through. */
static leat_status join_shards(struct tar_origin *t, struct leat_error *err)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->shards.n; i++)
        n += t->pass.found[i].n;
    if (n > LEAT_PACK_CHUNKS_MAX)
        return leat_fail(err, LEAT_LIMIT, "there would be more than %u chunks: make them larger (--chunk-size)",
                         LEAT_PACK_CHUNKS_MAX);
    t->chunks = malloc((n + 1) * sizeof *t->chunks);
    if (!t->chunks)
        return no_memory(err);
    for (uint32_t i = 0; i < t->shards.n; i++) {
        struct leat_tar_shard *found = &t->pass.found[i];
        for (uint32_t k = 0; k < found->n; k++) {
            struct leat_tar_chunk *c = &t->chunks[t->origin.chunks++];
            *c = found->chunks[k];
            c->at.first += t->origin.samples;
        }
        t->origin.samples += found->samples;
        free(found->chunks);
        found->chunks = NULL;
    }
    return LEAT_OK;
}

/* Fields in the order in which the shards show them, whatever thread saw them first. Those that some samples lack are
 * optional. */
static leat_status make_schema(struct tar_origin *t, struct leat_error *err)
{
    const struct leat_tar_field *fields = t->pass.locked.fields;
    uint32_t n = t->pass.locked.fields_n;
    uint64_t done = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t next = LEAT_FIELDS_MAX;
        for (uint32_t i = 0; i < n; i++) {
            if (!(done >> i & 1) && (next == LEAT_FIELDS_MAX || fields[i].seen < fields[next].seen))
                next = i;
        }
        struct leat_field_choice choice = {.optional = fields[next].samples < t->origin.samples};
        leat_status rc = leat_schema_add_as(&t->origin.schema, fields[next].name, fields[next].type, NULL, choice, err);
        if (rc != LEAT_OK)
            return rc;
        t->at[next] = (uint8_t)k;
        done |= (uint64_t)1 << next;
    }
    return LEAT_OK;
}

static leat_status check_wishes(const struct leat_tar_opts *opts, struct leat_error *err)
{
    for (uint32_t i = 0; i < opts->wishes_n; i++) {
        enum leat_field_type type = opts->wishes[i].type;
        if (type != LEAT_FIELD_BYTES && type != LEAT_FIELD_IMAGE && type != LEAT_FIELD_STRING &&
            type != LEAT_FIELD_JSON && type != LEAT_FIELD_INT)
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "field '%s' of a tar shard cannot be %s: bytes, image, string, json or int are possible",
                             opts->wishes[i].name, leat_field_type_name(type));
    }
    return LEAT_OK;
}

/* A wish for a field that is not there was meant for another. */
static leat_status check_granted(const struct tar_origin *t, const struct leat_tar_opts *opts, struct leat_error *err)
{
    for (uint32_t i = 0; i < opts->wishes_n; i++) {
        if (leat_schema_find(&t->origin.schema, opts->wishes[i].name) == LEAT_FIELDS_MAX)
            return leat_fail(err, LEAT_INVALID, "no sample has the field '%s' that should be %s", opts->wishes[i].name,
                             leat_field_type_name(opts->wishes[i].type));
    }
    return LEAT_OK;
}

static leat_status read_shards(struct tar_origin *t, const struct leat_tar_opts *opts,
                               struct leat_tar_progress *progress, struct leat_error *err)
{
    struct leat_tar_pass *p = &t->pass;
    p->opts = opts;
    p->shards = &t->shards;
    p->progress = progress;
    p->chunk_bytes = opts->chunk_bytes ? opts->chunk_bytes : LEAT_CHUNK_BYTES;
    p->found = calloc(t->shards.n, sizeof *p->found);
    leat_status rc = p->found ? leat_spill_open(SPILL_MEMORY, &p->locked.spill, err) : no_memory(err);
    if (rc == LEAT_OK)
        rc = leat_tar_pass_run(p, err);
    p->opts = NULL; /* the caller's: only the pass asks */
    p->progress = NULL;
    if (rc == LEAT_OK)
        rc = join_shards(t, err);
    if (rc == LEAT_OK && t->origin.samples == 0)
        return leat_fail(err, LEAT_INVALID, "there is no sample in %s%.300s%s", t->shards.n > 1 ? "these shards: " : "",
                         t->shards.list[0].key, t->shards.n > 1 ? ", …" : "");
    if (rc == LEAT_OK)
        rc = make_schema(t, err);
    if (rc == LEAT_OK)
        rc = check_granted(t, opts, err);
    t->origin.bytes = p->locked.bytes;
    return rc;
}

leat_status leat_origin_tar_open(const char *const *urls, size_t n, const struct leat_tar_opts *opts,
                                 struct leat_tar_progress *progress, struct leat_tar_counts *counts,
                                 struct leat_origin **out, struct leat_error *err)
{
    static const char *const endings[] = {".tar", NULL};
    struct leat_shards_opts names = {.store = opts->store,
                                     .what = "tar shard",
                                     .endings = endings,
                                     .refuse = refuse_packed,
                                     .stop = opts->stop,
                                     .stop_user = opts->stop_user};
    struct tar_origin *t = calloc(1, sizeof *t);
    if (!t)
        return no_memory(err);
    t->origin = (struct leat_origin){.ops = &tar_ops, .kind = "tar", .in_place = true};
    pthread_mutex_init(&t->pass.mutex, NULL);
    leat_status rc = check_wishes(opts, err);
    if (rc == LEAT_OK)
        rc = leat_shards_open(urls, n, &names, &t->shards, err);
    if (rc == LEAT_OK) {
        t->origin.objects = t->shards.n;
        t->origin.bytes = t->shards.bytes;
        t->origin.requests = t->shards.requests;
        t->origin.many_stores = t->shards.homes_n > 1;
        if (progress)
            atomic_store_explicit(&progress->total, t->shards.bytes, memory_order_relaxed);
        if (!opts->names_only)
            rc = read_shards(t, opts, progress, err);
    }
    if (rc != LEAT_OK) {
        leat_origin_close(&t->origin);
        return rc;
    }
    if (counts) {
        *counts = (struct leat_tar_counts){
            .shards = t->shards.n, .other = t->shards.skipped, .skipped = t->pass.locked.skipped};
        memcpy(counts->skipped_name, t->pass.locked.skipped_name, sizeof counts->skipped_name);
    }
    *out = &t->origin;
    return LEAT_OK;
}
