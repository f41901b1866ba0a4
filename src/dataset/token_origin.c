#include "dataset/token_origin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/chunk.h"
#include "dataset/megatron.h"
#include "dataset/pack.h"
#include "dataset/shards.h"
#include "dataset/spill.h"
#include "dataset/tokens.h"

#define SPILL_MEMORY (32u << 20)
#define CHUNK_LEAST  4096u /* bytes */
#define KEY_TAIL     64u   /* bytes of what follows a file's name in a key */

struct file {
    uint32_t shard;
    uint64_t offset; /* of the first token */
    uint64_t tokens;
    uint32_t first_chunk;
    uint32_t chunks;
    bool documented;
    uint64_t starts; /* in the spill: u64 token where each document begins, and the file's tokens at the end */
    uint64_t documents;
};

struct chunk {
    uint64_t first; /* sample */
    uint64_t document;
    uint32_t file;
    uint32_t samples;
};

struct token_origin {
    struct leat_origin origin; /* first member */
    struct leat_shards shards;
    struct file *files;
    uint32_t files_n;
    struct chunk *chunks;
    struct leat_spill *spill;
    uint32_t token_bytes;
    uint64_t stretch; /* tokens of a chunk, without the one beyond its end */
    char about[128];
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the list of token files");
}

/* Asking */

/* The chunk's own tokens in its file. */
static void own_tokens(const struct token_origin *t, uint32_t number, uint64_t *begin, uint64_t *end)
{
    const struct file *f = &t->files[t->chunks[number].file];
    *begin = (number - f->first_chunk) * t->stretch;
    *end = f->tokens - *begin < t->stretch ? f->tokens : *begin + t->stretch;
}

static leat_status token_chunk(const struct leat_origin *o, uint32_t i, struct leat_origin_chunk *out,
                               struct leat_error *err)
{
    (void)err;
    const struct token_origin *t = (const struct token_origin *)o;
    const struct file *f = &t->files[t->chunks[i].file];
    uint64_t begin;
    uint64_t end;
    own_tokens(t, i, &begin, &end);
    *out = (struct leat_origin_chunk){.first = t->chunks[i].first,
                                      .object = t->chunks[i].file,
                                      .offset = f->offset + begin * t->token_bytes,
                                      .length = (end - begin + (end < f->tokens)) * t->token_bytes};
    return LEAT_OK;
}

static uint32_t chunk_of(const struct token_origin *t, uint64_t sample)
{
    uint32_t low = 0;
    uint32_t high = t->origin.chunks;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (t->chunks[middle].first <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static leat_status token_sample(const struct leat_origin *o, uint64_t i, struct leat_origin_room *room,
                                struct leat_origin_sample *out, struct leat_error *err)
{
    const struct token_origin *t = (const struct token_origin *)o;
    uint32_t number = chunk_of(t, i);
    const struct chunk *c = &t->chunks[number];
    const struct file *f = &t->files[c->file];
    const char *name = t->shards.list[f->shard].name;
    size_t key_max = strlen(name) + KEY_TAIL;
    uint64_t begin;
    uint64_t end;
    int n;
    leat_status rc = leat_origin_room_text(room, key_max, err);
    if (rc != LEAT_OK)
        return rc;
    own_tokens(t, number, &begin, &end);
    if (!f->documented) {
        n = snprintf(room->text, key_max, "%s:%" PRIu64, name, begin);
        end += end < f->tokens;
    } else {
        uint64_t document = c->document + (i - c->first);
        uint8_t borders[16];
        rc = leat_spill_read(t->spill, f->starts + 8 * document, borders, sizeof borders, err);
        if (rc != LEAT_OK)
            return rc;
        uint64_t from = leat_get_u64(borders);
        uint64_t to = leat_get_u64(borders + 8);
        if (from < begin)
            n = snprintf(room->text, key_max, "%s#%" PRIu64 "+%" PRIu64, name, document, begin - from);
        else
            n = snprintf(room->text, key_max, "%s#%" PRIu64, name, document);
        begin = from < begin ? begin : from;
        end = to <= end ? to : end + 1;
    }
    room->values[0] = (struct leat_origin_value){
        .object = c->file, .offset = f->offset + begin * t->token_bytes, .size = (end - begin) * t->token_bytes};
    *out = (struct leat_origin_sample){.key = room->text, .key_n = n > 0 ? (size_t)n : 0, .values = room->values};
    return LEAT_OK;
}

static leat_status token_object(const struct leat_origin *o, uint32_t i, struct leat_origin_object *out,
                                struct leat_error *err)
{
    (void)err;
    const struct token_origin *t = (const struct token_origin *)o;
    const struct leat_shard *s = &t->shards.list[t->files[i].shard];
    *out = (struct leat_origin_object){.home = s->home, .key = s->key, .size = s->size, .etag = s->etag};
    return LEAT_OK;
}

static void token_close(struct leat_origin *o)
{
    struct token_origin *t = (struct token_origin *)o;
    leat_spill_close(t->spill);
    free(t->chunks);
    free(t->files);
    leat_shards_close(&t->shards);
    free(t);
}

static const struct leat_origin_ops token_ops = {
    .sample = token_sample, .object = token_object, .chunk = token_chunk, .close = token_close};

/* Opening */

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

/* An .idx, and where its documents go. */
struct reading {
    struct token_origin *t;
    const struct leat_token_opts *opts;
    const struct leat_shard *idx;
    struct file *file;
    uint64_t document;
};

static leat_status fetch_idx(void *user, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    struct reading *r = user;
    const char *etag = *r->idx->etag ? r->idx->etag : NULL;
    if (r->opts->stop && r->opts->stop(r->opts->stop_user))
        return leat_fail(err, LEAT_CANCELLED, "interrupted");
    r->t->origin.requests++;
    return n ? leat_store_get(r->idx->home->store, r->idx->key, at, n, into, etag, err) : LEAT_OK;
}

/* Notes a document in every chunk that it has a part in; an empty one where it stands. */
static leat_status take_document(void *user, uint64_t begin, uint64_t end, struct leat_error *err)
{
    struct reading *r = user;
    struct token_origin *t = r->t;
    uint8_t bytes[8];
    uint64_t last = r->file->chunks - 1u;
    uint64_t from = begin / t->stretch < last ? begin / t->stretch : last;
    uint64_t to = end > begin ? (end - 1) / t->stretch : from;
    for (uint64_t k = from; k <= to; k++) {
        struct chunk *c = &t->chunks[r->file->first_chunk + k];
        if (c->samples == UINT32_MAX)
            return leat_fail(err, LEAT_LIMIT,
                             "there are too many documents in one chunk: make them smaller (--chunk-size)");
        if (c->samples++ == 0)
            c->document = r->document;
    }
    r->document++;
    leat_put_u64(bytes, begin);
    return leat_spill_add(t->spill, bytes, sizeof bytes, NULL, err);
}

static leat_status grow_chunks(struct token_origin *t, struct file *f, struct leat_error *err)
{
    uint64_t n = (f->tokens + t->stretch - 1) / t->stretch;
    if (n > LEAT_PACK_CHUNKS_MAX - t->origin.chunks)
        return leat_fail(err, LEAT_LIMIT, "there would be more than %u chunks: make them larger (--chunk-size)",
                         LEAT_PACK_CHUNKS_MAX);
    struct chunk *chunks = realloc(t->chunks, (t->origin.chunks + n) * sizeof *chunks);
    if (!chunks)
        return no_memory(err);
    t->chunks = chunks;
    f->first_chunk = t->origin.chunks;
    f->chunks = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++)
        chunks[t->origin.chunks++] = (struct chunk){.file = (uint32_t)(f - t->files), .samples = !f->documented};
    return LEAT_OK;
}

/* All files have tokens of one type, and the chunks' size follows from it. */
static leat_status agree_on_dtype(struct token_origin *t, uint32_t dtype, uint64_t chunk_bytes, uint32_t *agreed,
                                  struct leat_error *err)
{
    if (*agreed && *agreed != dtype)
        return leat_fail(err, LEAT_INVALID,
                         "its tokens are %s, but those of '%.200s' are %s: the files of a dataset must have one type",
                         leat_tokens_dtype(dtype), t->shards.list[t->files[0].shard].key, leat_tokens_dtype(*agreed));
    if (*agreed)
        return LEAT_OK;
    *agreed = dtype;
    t->token_bytes = leat_tokens_bytes(dtype);
    chunk_bytes = chunk_bytes ? chunk_bytes : LEAT_CHUNK_BYTES;
    if (chunk_bytes < CHUNK_LEAST || chunk_bytes > LEAT_CHUNK_MAX / 2)
        return leat_fail(err, LEAT_INVALID,
                         "chunks of %" PRIu64 " bytes: from %u bytes to 2 GiB are possible for tokens", chunk_bytes,
                         CHUNK_LEAST);
    t->stretch = 1;
    while (2 * t->stretch * t->token_bytes <= chunk_bytes)
        t->stretch *= 2;
    return LEAT_OK;
}

static leat_status add_file(struct token_origin *t, uint32_t shard, const struct leat_shard *idx,
                            const struct leat_token_opts *opts, uint32_t said, uint32_t *agreed, struct leat_error *err)
{
    const struct leat_shard *s = &t->shards.list[shard];
    struct file *f = &t->files[t->files_n];
    struct leat_tokens_file look = {0};
    struct leat_megatron_head head;
    struct reading r = {.t = t, .opts = opts, .idx = idx, .file = f};
    struct leat_megatron m = {.fetch = fetch_idx, .user = &r, .idx_bytes = idx ? idx->size : 0, .bin_bytes = s->size};
    leat_status rc = LEAT_OK;
    if (idx) {
        rc = leat_megatron_open(&m, &head, err);
        if (rc != LEAT_OK)
            return leat_fail_context(err, rc, "%.300s", idx->key);
        look = (struct leat_tokens_file){.dtype = head.dtype, .tokens = head.tokens};
        if (said && said != head.dtype)
            rc = leat_fail(err, LEAT_INVALID, "its tokens are %s, not %s", leat_tokens_dtype(head.dtype),
                           leat_tokens_dtype(said));
    } else {
        uint64_t n = s->size < LEAT_TOKENS_HEAD_MAX ? s->size : LEAT_TOKENS_HEAD_MAX;
        uint8_t *bytes = malloc(n + 1);
        rc = bytes ? LEAT_OK : no_memory(err);
        if (rc == LEAT_OK && n)
            rc = leat_store_get(s->home->store, s->key, 0, n, bytes, *s->etag ? s->etag : NULL, err);
        t->origin.requests += n > 0;
        if (rc == LEAT_OK)
            rc = leat_tokens_look(bytes, (size_t)n, s->size, said, &look, err);
        free(bytes);
    }
    *f = (struct file){.shard = shard,
                       .offset = look.offset,
                       .tokens = look.tokens,
                       .documented = idx != NULL,
                       .starts = leat_spill_size(t->spill)};
    if (rc == LEAT_OK)
        rc = agree_on_dtype(t, look.dtype, opts->chunk_bytes, agreed, err);
    if (rc == LEAT_OK)
        rc = grow_chunks(t, f, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "%.300s", s->key);
    t->files_n++;
    t->origin.bytes += look.tokens * t->token_bytes;
    if (!idx)
        return LEAT_OK;
    rc = leat_megatron_each(&m, &head, take_document, &r, err);
    if (rc == LEAT_OK) {
        uint8_t bytes[8];
        leat_put_u64(bytes, look.tokens);
        f->documents = r.document;
        rc = leat_spill_add(t->spill, bytes, sizeof bytes, NULL, err);
    }
    return rc == LEAT_OK || rc == LEAT_CANCELLED ? rc : leat_fail_context(err, rc, "%.300s", idx->key);
}

static leat_status add_files(struct token_origin *t, const struct leat_shards_opts *names,
                             const struct leat_token_opts *opts, struct leat_error *err)
{
    struct leat_shards idx = {0};
    uint32_t said = 0;
    uint32_t agreed = 0;
    leat_status rc = opts->dtype ? leat_tokens_dtype_find(opts->dtype, &said, err) : LEAT_OK;
    if (rc == LEAT_OK) /* the one that names a .bin of Megatron's means the pair */
        rc = leat_shards_beside(&t->shards, ".bin", ".idx", names, &idx, err);
    if (rc == LEAT_OK) {
        t->files = calloc(t->shards.n, sizeof *t->files);
        rc = t->files ? leat_spill_open(SPILL_MEMORY, &t->spill, err) : no_memory(err);
    }
    for (uint32_t i = 0; rc == LEAT_OK && i < t->shards.n; i++) {
        const struct leat_shard *beside = idx.list[i].key ? &idx.list[i] : NULL;
        rc = add_file(t, i, beside, opts, said, &agreed, err);
        if (rc == LEAT_OK && opts->stop && opts->stop(opts->stop_user))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    }
    t->origin.requests += t->shards.requests + idx.requests;
    leat_shards_close(&idx);
    if (rc != LEAT_OK)
        return rc;
    /* A reader finds a chunk's whole stretch, and whether its last token is the next one's first: docs/format.md. */
    snprintf(t->about, sizeof t->about, "{\"dtype\": \"%s\", \"stretch\": %" PRIu64 ", \"overlap\": 1}",
             leat_tokens_dtype(agreed), t->stretch);
    return leat_schema_add(&t->origin.schema, "tokens", LEAT_FIELD_TOKENS, t->about, err);
}

static leat_status refuse_packed(const char *name, struct leat_error *err)
{
    static const char *const endings[] = {".bin.gz", ".bin.zst", ".npy.gz", ".npy.zst", ".npz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (ends_with(name, endings[i]))
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "'%.300s' is compressed, and tokens cannot be read out of the middle of it: unpack it",
                             name);
    }
    return LEAT_OK;
}

leat_status leat_origin_tokens_open(const char *const *urls, size_t n, const struct leat_token_opts *opts,
                                    struct leat_token_counts *counts, struct leat_origin **out, struct leat_error *err)
{
    static const char *const endings[] = {".bin", ".npy", NULL};
    struct leat_shards_opts names = {.store = opts->store,
                                     .what = "token file",
                                     .endings = endings,
                                     .refuse = refuse_packed,
                                     .stop = opts->stop,
                                     .stop_user = opts->stop_user};
    struct leat_token_counts seen = {0};
    struct token_origin *t = calloc(1, sizeof *t);
    if (!t)
        return no_memory(err);
    t->origin = (struct leat_origin){.ops = &token_ops, .kind = "tokens", .in_place = true};
    leat_status rc = leat_shards_open(urls, n, &names, &t->shards, err);
    if (rc == LEAT_OK)
        rc = add_files(t, &names, opts, err);
    if (rc != LEAT_OK) {
        leat_origin_close(&t->origin);
        return rc;
    }
    for (uint32_t i = 0; i < t->origin.chunks; i++) {
        t->chunks[i].first = t->origin.samples;
        t->origin.samples += t->chunks[i].samples;
    }
    t->origin.objects = t->files_n;
    t->origin.many_stores = t->shards.homes_n > 1;
    seen.files = t->files_n;
    seen.tokens = t->origin.bytes / t->token_bytes;
    seen.other = t->shards.skipped;
    for (uint32_t i = 0; i < t->files_n; i++)
        seen.documents += t->files[i].documents;
    if (counts)
        *counts = seen;
    *out = &t->origin;
    return LEAT_OK;
}
