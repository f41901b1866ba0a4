#include "dataset/tar_pass.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/thread.h"
#include "dataset/chunk.h"
#include "dataset/ending.h"
#include "dataset/layout.h"
#include "dataset/recipe.h"
#include "dataset/tar.h"
#include "store/stream.h"

#define THREADS_MAX   16u
#define THREADS_LEAST 4u
#define PART_NEAR     (1u << 20)   /* bytes read at a time, of files: still in a cache when they are looked at … */
#define PARTS_NEAR    8u           /* … and enough of them for a disk to be busy */
#define PART_FAR      (8u << 20)   /* as many as a request is worth */
#define MEMORY        (96u << 20)  /* for such parts, of all threads together; at least two for each */
#define HEAD_MAX      (8u << 20)   /* of an image, for the probe; longer ones show their beginning */
#define RECORD_MAX    (512u << 20) /* of a chunk's samples */
#define NO_FIELD      UINT8_MAX

/* Room for head, schema, rows and keys of a chunk beside its data, which has offsets of 32 bits. */
#define LEAD_ROOM   (8u << 20)
#define STRETCH_MAX (LEAT_CHUNK_MAX - LEAD_ROOM)

/* One thread, at one shard. */
struct reader {
    struct leat_tar_pass *pass;
    pthread_t thread;
    bool started;
    struct leat_xxh3 *hash; /* of the chunk that is open, up to where the shard has been read */
    uint32_t memory;        /* bytes read ahead */

    uint32_t shard;
    struct leat_tar *tar;
    struct leat_tar_field known[LEAT_FIELDS_MAX]; /* as the pass has them, so far */
    uint32_t known_n;
    uint64_t counts[LEAT_FIELDS_MAX]; /* samples of this shard that have it */
    uint64_t here;                    /* bits: fields that this shard has shown */
    uint64_t bytes;                   /* of its values */
    uint64_t skipped;
    char skipped_name[LEAT_TAR_SHOWN];
    struct leat_buf keys; /* u64 XXH3 of each sample's key, u64 sample */

    bool open; /* a chunk is */
    struct leat_origin_chunk chunk;
    uint64_t end; /* of its last member; chunk.sum is the sum up to there */
    struct leat_buf ends;
    struct leat_buf rows;

    bool in_sample;
    struct leat_buf key;
    struct leat_buf values;
    uint64_t has; /* bits: fields of the sample */
    uint8_t values_n;

    uint8_t field; /* of the member; NO_FIELD: it is not part of a sample */
    bool probing;  /* its bytes are being gathered */
    struct leat_buf head;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for reading tar shards");
}

/* Fields */

static enum leat_field_type type_of(const struct leat_tar_opts *opts, const char *field)
{
    for (uint32_t i = 0; i < opts->wishes_n; i++) {
        if (strcmp(field, opts->wishes[i].name) == 0)
            return opts->wishes[i].type;
    }
    const char *dot = strrchr(field, '.');
    return strcmp(dot ? dot + 1 : field, "json") == 0 ? LEAT_FIELD_JSON : leat_ending_type(field);
}

/* The pass's number of a field that this shard shows for the first time. */
static leat_status agree_on_field(struct reader *r, const char *name, uint32_t *out, struct leat_error *err)
{
    struct leat_tar_pass *p = r->pass;
    uint64_t seen = (uint64_t)r->shard << 8 | (uint64_t)__builtin_popcountll(r->here);
    leat_status rc = LEAT_OK;
    uint32_t i = 0;
    pthread_mutex_lock(&p->mutex);
    while (i < p->locked.fields_n && strcmp(p->locked.fields[i].name, name) != 0)
        i++;
    if (i == LEAT_FIELDS_MAX) {
        rc = leat_fail(err, LEAT_LIMIT, "'.%s' would be field number %u; a sample has at most %u", name,
                       LEAT_FIELDS_MAX + 1, LEAT_FIELDS_MAX);
    } else {
        struct leat_tar_field *f = &p->locked.fields[i];
        if (i == p->locked.fields_n) {
            memcpy(f->name, name, strlen(name) + 1);
            f->type = type_of(p->opts, name);
            f->seen = seen;
            p->locked.fields_n++;
        }
        f->seen = f->seen < seen ? f->seen : seen;
        memcpy(r->known, p->locked.fields, p->locked.fields_n * sizeof *f);
        r->known_n = p->locked.fields_n;
    }
    pthread_mutex_unlock(&p->mutex);
    *out = i;
    return rc;
}

static leat_status find_field(struct reader *r, const char *name, uint32_t *out, struct leat_error *err)
{
    uint32_t i = 0;
    while (i < r->known_n && strcmp(r->known[i].name, name) != 0)
        i++;
    leat_status rc = LEAT_OK;
    if (i == r->known_n || !(r->here >> i & 1))
        rc = agree_on_field(r, name, &i, err);
    if (rc != LEAT_OK)
        return rc;
    r->here |= (uint64_t)1 << i;
    *out = i;
    return LEAT_OK;
}

/* Chunks and samples */

/* The sample's members have all come. */
static leat_status end_sample(struct reader *r, struct leat_error *err)
{
    struct leat_tar_shard *found = &r->pass->found[r->shard];
    if (!r->in_sample)
        return LEAT_OK;
    layout_add_u32(&r->rows, (uint32_t)r->key.len);
    leat_buf_add(&r->rows, r->key.data, r->key.len);
    leat_buf_char(&r->rows, (char)r->values_n);
    leat_buf_add(&r->rows, r->values.data, r->values.len);
    layout_add_u32(&r->ends, (uint32_t)r->rows.len);
    layout_add_u64(&r->keys, leat_xxh3(r->key.data, r->key.len));
    layout_add_u64(&r->keys, found->samples);
    for (uint32_t i = 0; i < r->known_n; i++)
        r->counts[i] += r->has >> i & 1;
    found->samples++;
    r->in_sample = false;
    if (r->pass->progress)
        atomic_fetch_add_explicit(&r->pass->progress->samples, 1, memory_order_relaxed);
    leat_status rc = leat_buf_check(&r->rows, "what is known of a chunk's samples", err);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&r->ends, "what is known of a chunk's samples", err);
    return rc == LEAT_OK ? leat_buf_check(&r->keys, "the keys of a shard", err) : rc;
}

static leat_status close_chunk(struct reader *r, struct leat_error *err)
{
    struct leat_tar_pass *p = r->pass;
    struct leat_tar_shard *found = &p->found[r->shard];
    if (!r->open)
        return LEAT_OK;
    if (found->n == found->cap) {
        uint32_t cap = found->cap ? 2 * found->cap : 16;
        struct leat_tar_chunk *chunks = realloc(found->chunks, cap * sizeof *chunks);
        if (!chunks)
            return no_memory(err);
        found->chunks = chunks;
        found->cap = cap;
    }
    struct leat_tar_chunk *c = &found->chunks[found->n];
    r->chunk.length = r->end - r->chunk.offset;
    *c = (struct leat_tar_chunk){
        .at = r->chunk, .record_n = (uint32_t)(r->ends.len + r->rows.len), .samples = (uint32_t)(r->ends.len / 4)};
    pthread_mutex_lock(&p->mutex);
    leat_status rc = leat_spill_add(p->locked.spill, r->ends.data, r->ends.len, &c->record, err);
    if (rc == LEAT_OK)
        rc = leat_spill_add(p->locked.spill, r->rows.data, r->rows.len, NULL, err);
    pthread_mutex_unlock(&p->mutex);
    leat_buf_clear(&r->ends);
    leat_buf_clear(&r->rows);
    found->n += rc == LEAT_OK;
    r->open = false;
    return rc;
}

/* A member with another key: whether the chunk ends before it is decided here, from the size of this member. */
static leat_status begin_sample(struct reader *r, const struct leat_tar_member *m, size_t key_n, struct leat_error *err)
{
    leat_status rc = end_sample(r, err);
    uint64_t lead = r->ends.len + r->rows.len + key_n;
    if (rc == LEAT_OK && r->open &&
        (r->end - r->chunk.offset + m->size + lead > r->pass->chunk_bytes || m->offset - r->end > LEAT_RECIPE_GAP))
        rc = close_chunk(r, err);
    if (rc != LEAT_OK)
        return rc;
    if (!r->open) {
        leat_xxh3_reset(r->hash);
        r->chunk = (struct leat_origin_chunk){
            .first = r->pass->found[r->shard].samples, .object = r->shard, .offset = m->offset};
        r->end = m->offset;
        r->open = true;
    }
    leat_buf_clear(&r->key);
    leat_buf_add(&r->key, m->name, key_n);
    leat_buf_clear(&r->values);
    r->has = 0;
    r->values_n = 0;
    r->in_sample = true;
    return leat_buf_check(&r->key, "a key", err);
}

static void skip(struct reader *r, const struct leat_tar_member *m)
{
    r->field = NO_FIELD;
    if (m->kind == LEAT_TAR_FOLDER)
        return;
    if (r->skipped++ == 0)
        snprintf(r->skipped_name, sizeof r->skipped_name, "%s", m->name);
}

/* All bytes of a member that is part of a sample have gone through the hash. `data`: all of them or, of a large image,
 * the first; NULL: nobody asked for them. */
static leat_status end_member(struct reader *r, const uint8_t *data, size_t n, struct leat_error *err)
{
    const struct leat_tar_member *m = leat_tar_member(r->tar);
    const struct leat_tar_field *f = &r->known[r->field];
    uint8_t more[16] = {0};
    if (f->type == LEAT_FIELD_IMAGE && r->pass->opts->probe) {
        struct leat_picture image = {0};
        if (r->pass->opts->probe(data, n, &image)) {
            leat_put_u32(more, image.width);
            leat_put_u32(more + 4, image.height);
            leat_put_u32(more + 8, image.decoded_bytes);
            more[12] = image.kind;
            more[13] = image.channels;
            more[14] = image.orientation;
            more[15] = image.flags;
        } else if (r->pass->progress) {
            atomic_fetch_add_explicit(&r->pass->progress->unreadable, 1, memory_order_relaxed);
        }
    } else if (f->type == LEAT_FIELD_INT) {
        int64_t number;
        if (n < m->size || !leat_tar_number(data, n, &number))
            return leat_fail(err, LEAT_INVALID, "'%.200s' at byte %" PRIu64 " is not a whole number, as '%s' should be",
                             m->name, m->offset, f->name);
        leat_put_u64(more, (uint64_t)number);
    }
    leat_buf_char(&r->values, (char)r->field);
    layout_add_u32(&r->values, (uint32_t)(m->offset - r->chunk.offset));
    layout_add_u32(&r->values, (uint32_t)m->size);
    leat_buf_add(&r->values, more, sizeof more);
    r->values_n++;
    r->end = m->offset + m->size;
    r->chunk.sum = leat_xxh3_digest(r->hash);
    r->bytes += m->size;
    r->field = NO_FIELD;
    return leat_buf_check(&r->values, "the members of a sample", err);
}

static leat_status take_member(struct reader *r, struct leat_error *err)
{
    const struct leat_tar_member *m = leat_tar_member(r->tar);
    char name[LEAT_FIELD_NAME_MAX];
    size_t key_n;
    uint32_t field;
    leat_status rc = LEAT_OK;
    if (m->kind == LEAT_TAR_FOLDER || !leat_tar_is_part(m->name)) {
        skip(r, m);
        return LEAT_OK;
    }
    if (m->kind == LEAT_TAR_LINK)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "'%.200s' at byte %" PRIu64 " is a link to another member: write the archive with "
                         "--dereference --hard-dereference",
                         m->name, m->header);
    if (!leat_ending_split(m->name, m->name_n, &key_n, name))
        return leat_fail(err, LEAT_INVALID,
                         "'%.200s' at byte %" PRIu64 ": what follows the first dot names the field, which has at most "
                         "%d letters, digits, '_', '.', '-'",
                         m->name, m->header, LEAT_FIELD_NAME_MAX - 1);
    if (!r->in_sample || r->key.len != key_n || memcmp(r->key.data, m->name, key_n) != 0)
        rc = begin_sample(r, m, key_n, err);
    if (rc == LEAT_OK)
        rc = find_field(r, name, &field, err);
    if (rc != LEAT_OK)
        return rc;
    if (r->has >> field & 1)
        return leat_fail(err, LEAT_INVALID, "sample '%.200s' has two members '.%s'; the second is at byte %" PRIu64,
                         r->key.data, name, m->header);
    if (m->offset - r->chunk.offset > STRETCH_MAX || m->size > STRETCH_MAX - (m->offset - r->chunk.offset))
        return leat_fail(err, LEAT_LIMIT,
                         "sample '%.200s' with its member '.%s' of %" PRIu64 " bytes is too large: less than 4 GiB is "
                         "possible",
                         r->key.data, name, m->size);
    r->has |= (uint64_t)1 << field;
    r->field = (uint8_t)field;
    leat_buf_clear(&r->head);
    r->probing =
        (r->known[field].type == LEAT_FIELD_IMAGE && r->pass->opts->probe) || r->known[field].type == LEAT_FIELD_INT;
    return m->size == 0 ? end_member(r, (const uint8_t *)"", 0, err) : LEAT_OK;
}

static leat_status take_data(struct reader *r, const uint8_t *data, size_t n, struct leat_error *err)
{
    const struct leat_tar_member *m = leat_tar_member(r->tar);
    if (r->field == NO_FIELD)
        return LEAT_OK;
    if (r->probing && n < m->size && r->head.len < HEAD_MAX) {
        leat_buf_add(&r->head, data, n < HEAD_MAX - r->head.len ? n : HEAD_MAX - r->head.len);
        leat_status rc = leat_buf_check(&r->head, "the beginning of an image", err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (leat_tar_left(r->tar))
        return LEAT_OK;
    if (n == m->size) /* in one go */
        return end_member(r, data, n < HEAD_MAX ? n : HEAD_MAX, err);
    return end_member(r, (const uint8_t *)r->head.data, r->head.len, err);
}

/* The next bytes of the shard. */
static leat_status take_part(struct reader *r, const uint8_t *data, size_t n, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && n) {
        size_t used = 0;
        enum leat_tar_event event;
        rc = leat_tar_feed(r->tar, data, n, &used, &event, err);
        if (rc != LEAT_OK)
            return rc;
        if (r->open) /* also what lies between members; where the chunk ends before it, the sum was taken already */
            leat_xxh3_add(r->hash, data, used);
        if (event == LEAT_TAR_MEMBER)
            rc = take_member(r, err);
        else if (event == LEAT_TAR_DATA)
            rc = take_data(r, data, used, err);
        data += used;
        n -= used;
    }
    return rc;
}

/* Shards */

static int by_hash(const void *a, const void *b)
{
    uint64_t x = leat_get_u64(a);
    uint64_t y = leat_get_u64(b);
    if (x != y)
        return x < y ? -1 : 1;
    x = leat_get_u64((const uint8_t *)a + 8);
    y = leat_get_u64((const uint8_t *)b + 8);
    return x < y ? -1 : x > y;
}

/* The key of a sample of this shard, out of its record. */
static leat_status find_key(struct reader *r, uint64_t sample, struct leat_buf *out, struct leat_error *err)
{
    struct leat_tar_pass *p = r->pass;
    const struct leat_tar_shard *found = &p->found[r->shard];
    uint32_t c = 0;
    while (c + 1 < found->n && found->chunks[c + 1].at.first <= sample)
        c++;
    const struct leat_tar_chunk *chunk = &found->chunks[c];
    struct leat_origin_value values[LEAT_FIELDS_MAX];
    struct leat_origin_sample said;
    uint8_t at[LEAT_FIELDS_MAX] = {0};
    uint8_t *record = malloc(chunk->record_n);
    if (!record)
        return no_memory(err);
    pthread_mutex_lock(&p->mutex);
    leat_status rc = leat_spill_read(p->locked.spill, chunk->record, record, chunk->record_n, err);
    pthread_mutex_unlock(&p->mutex);
    if (rc == LEAT_OK)
        rc = leat_tar_record_read(p, chunk, record, (uint32_t)(sample - chunk->at.first), at, values, &said, err);
    if (rc == LEAT_OK) {
        leat_buf_clear(out);
        leat_buf_add(out, said.key, said.key_n);
        rc = leat_buf_check(out, "a key", err);
    }
    free(record);
    return rc;
}

/* Members of one sample that others stand between would silently be two samples. */
static leat_status check_twice(struct reader *r, struct leat_error *err)
{
    struct leat_buf first;
    struct leat_buf second;
    size_t n = r->keys.len / 16;
    const char *list = r->keys.data;
    leat_status rc = LEAT_OK;
    leat_buf_init(&first, LEAT_KEY_MAX);
    leat_buf_init(&second, LEAT_KEY_MAX);
    if (n > 1)
        qsort(r->keys.data, n, 16, by_hash);
    for (size_t i = 1; rc == LEAT_OK && i < n; i++) {
        if (memcmp(list + 16 * (i - 1), list + 16 * i, 8) != 0)
            continue;
        uint64_t a = leat_get_u64(list + 16 * (i - 1) + 8);
        uint64_t b = leat_get_u64(list + 16 * i + 8);
        rc = find_key(r, a, &first, err);
        if (rc == LEAT_OK)
            rc = find_key(r, b, &second, err);
        if (rc == LEAT_OK && first.len == second.len && memcmp(first.data, second.data, first.len) == 0)
            rc = leat_fail(err, LEAT_INVALID,
                           "sample '%.200s' occurs twice, as number %" PRIu64 " and %" PRIu64
                           ": members of one sample must follow each other (tar --sort=name)",
                           first.data, a, b);
    }
    leat_buf_free(&first);
    leat_buf_free(&second);
    return rc;
}

static void clear_reader(struct reader *r)
{
    leat_tar_close(r->tar);
    r->tar = NULL;
    r->here = r->bytes = r->skipped = 0;
    memset(r->counts, 0, sizeof r->counts);
    leat_buf_clear(&r->keys);
    leat_buf_clear(&r->ends);
    leat_buf_clear(&r->rows);
    r->open = r->in_sample = false;
    r->field = NO_FIELD;
}

static bool stopped(const struct leat_tar_pass *p)
{
    return atomic_load(&p->failed) || (p->opts->stop && p->opts->stop(p->opts->stop_user));
}

static leat_status read_parts(struct reader *r, const struct leat_shard *shard, struct leat_error *err)
{
    struct leat_tar_pass *p = r->pass;
    struct leat_stream *stream = NULL;
    struct leat_object object = {.size = shard->size};
    snprintf(object.etag, sizeof object.etag, "%s", shard->etag);
    bool near = leat_store_can(shard->home->store, LEAT_STORE_LOCAL);
    uint32_t part = near ? PART_NEAR : PART_FAR;
    uint32_t parts = near ? PARTS_NEAR : r->memory / part > 2 ? r->memory / part : 2;
    leat_status rc =
        leat_stream_open(shard->home->store, shard->key, &object, 0, shard->size, part, parts, &stream, err);
    while (rc == LEAT_OK) {
        const void *data;
        size_t n = 0;
        rc = leat_stream_next(stream, &data, &n, err);
        if (rc != LEAT_OK || n == 0)
            break;
        rc = take_part(r, data, n, err);
        if (p->progress)
            atomic_fetch_add_explicit(&p->progress->bytes, n, memory_order_relaxed);
        if (rc == LEAT_OK && stopped(p))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    }
    leat_stream_close(stream);
    return rc;
}

static leat_status read_shard(struct reader *r, struct leat_error *err)
{
    struct leat_tar_pass *p = r->pass;
    const struct leat_shard *shard = &p->shards->list[r->shard];
    clear_reader(r);
    leat_status rc = leat_tar_open(&r->tar, err);
    if (rc == LEAT_OK && shard->size)
        rc = read_parts(r, shard, err);
    if (rc == LEAT_OK)
        rc = leat_tar_finish(r->tar, err);
    if (rc == LEAT_OK)
        rc = end_sample(r, err);
    if (rc == LEAT_OK)
        rc = close_chunk(r, err);
    if (rc == LEAT_OK)
        rc = check_twice(r, err);
    if (rc != LEAT_OK)
        return rc == LEAT_CANCELLED ? rc : leat_fail_context(err, rc, "%.300s", shard->key);
    pthread_mutex_lock(&p->mutex);
    for (uint32_t i = 0; i < r->known_n; i++)
        p->locked.fields[i].samples += r->counts[i];
    p->locked.bytes += r->bytes;
    if (r->skipped && p->locked.skipped == 0)
        memcpy(p->locked.skipped_name, r->skipped_name, sizeof r->skipped_name);
    p->locked.skipped += r->skipped;
    pthread_mutex_unlock(&p->mutex);
    if (p->progress)
        atomic_fetch_add_explicit(&p->progress->shards, 1, memory_order_relaxed);
    return LEAT_OK;
}

static void *run_reader(void *arg)
{
    struct reader *r = arg;
    struct leat_tar_pass *p = r->pass;
    struct leat_error err;
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && !atomic_load(&p->failed)) {
        r->shard = atomic_fetch_add(&p->next, 1);
        if (r->shard >= p->shards->n)
            return NULL;
        rc = read_shard(r, &err);
    }
    if (rc == LEAT_OK)
        return NULL;
    pthread_mutex_lock(&p->mutex);
    if (p->locked.rc == LEAT_OK || p->locked.rc == LEAT_CANCELLED ||
        (rc != LEAT_CANCELLED && r->shard < p->locked.failed_shard)) {
        p->locked.rc = rc;
        p->locked.err = err;
        p->locked.failed_shard = r->shard;
    }
    pthread_mutex_unlock(&p->mutex);
    atomic_store(&p->failed, true);
    return NULL;
}

static void close_reader(struct reader *r)
{
    if (r->started)
        pthread_join(r->thread, NULL);
    leat_tar_close(r->tar);
    leat_xxh3_close(r->hash);
    leat_buf_free(&r->keys);
    leat_buf_free(&r->ends);
    leat_buf_free(&r->rows);
    leat_buf_free(&r->key);
    leat_buf_free(&r->values);
    leat_buf_free(&r->head);
}

static leat_status open_reader(struct leat_tar_pass *p, uint32_t memory, struct reader *r, struct leat_error *err)
{
    r->pass = p;
    r->memory = memory;
    leat_buf_init(&r->keys, (size_t)16 << 32);
    leat_buf_init(&r->ends, RECORD_MAX);
    leat_buf_init(&r->rows, RECORD_MAX);
    leat_buf_init(&r->key, LEAT_KEY_MAX);
    leat_buf_init(&r->values, LEAT_FIELDS_MAX * LEAT_TAR_VALUE_BYTES);
    leat_buf_init(&r->head, HEAD_MAX);
    r->hash = leat_xxh3_open();
    leat_status rc = r->hash ? leat_thread_start(&r->thread, "leat-tar", run_reader, r, err) : no_memory(err);
    r->started = rc == LEAT_OK;
    return rc;
}

leat_status leat_tar_pass_run(struct leat_tar_pass *p, struct leat_error *err)
{
    unsigned n = p->opts->threads ? p->opts->threads : leat_cpu_count();
    if (!p->opts->threads && n < THREADS_LEAST) /* they wait for the store more than for a processor */
        n = THREADS_LEAST;
    n = n > THREADS_MAX ? THREADS_MAX : n;
    n = n > p->shards->n ? p->shards->n : n;
    struct reader *readers = calloc(n ? n : 1, sizeof *readers);
    if (!readers)
        return no_memory(err);
    leat_status rc = LEAT_OK;
    unsigned opened = 0;
    while (rc == LEAT_OK && opened < n)
        rc = open_reader(p, MEMORY / n, &readers[opened++], err);
    if (rc != LEAT_OK)
        atomic_store(&p->failed, true);
    for (unsigned i = 0; i < opened; i++)
        close_reader(&readers[i]);
    free(readers);
    if (rc == LEAT_OK && p->locked.rc != LEAT_OK) { /* all threads are joined */
        *err = p->locked.err;
        rc = p->locked.rc;
    }
    return rc;
}
