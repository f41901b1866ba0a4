#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/pack_inside.h"

/* The MD5 that an ETag is, of an object that was put in one piece. (Where a bucket encrypts with a key of its own the
 * ETag only looks like one. It still tells two contents apart.) */
static bool tag_digest(const char *etag, uint8_t out[LEAT_MD5_SIZE])
{
    char digits[2 * LEAT_MD5_SIZE + 1];
    size_t quoted = *etag == '"';
    if (strlen(etag) != 2 * LEAT_MD5_SIZE + 2 * quoted)
        return false;
    memcpy(digits, etag + quoted, 2 * LEAT_MD5_SIZE);
    digits[2 * LEAT_MD5_SIZE] = '\0';
    return leat_unhex(digits, out, LEAT_MD5_SIZE);
}

/* One digest of the digests of a sample's values, which is that of the only one where there is one. */
static void join_digests(uint8_t (*digests)[LEAT_MD5_SIZE], uint32_t n, uint8_t out[LEAT_MD5_SIZE])
{
    if (n == 1)
        memcpy(out, digests[0], LEAT_MD5_SIZE);
    else
        leat_md5(digests, (size_t)n * LEAT_MD5_SIZE, out);
}

bool pack_known_digest(const struct leat_origin *o, const struct leat_origin_sample *s, uint8_t out[LEAT_MD5_SIZE])
{
    uint8_t digests[LEAT_FIELDS_MAX][LEAT_MD5_SIZE];
    uint32_t n = 0;
    for (uint32_t f = 0; f < o->schema.n; f++) {
        const struct leat_origin_value *v = &s->values[f];
        struct leat_origin_object object;
        if (!pack_lies_elsewhere(&o->schema.fields[f], v))
            continue;
        if (o->ops->object(o, v->object, &object, NULL) != LEAT_OK || v->offset || v->size != object.size ||
            !tag_digest(object.etag, digests[n]))
            return false;
        n++;
    }
    join_digests(digests, n, out);
    return true;
}

/* One field of all samples at a time: many messages together are digested faster. */
static void digest_field(struct pack_worker *w, uint32_t n, uint32_t f)
{
    const struct leat_schema *schema = &w->job->origin->schema;
    struct leat_md5_input inputs[PACK_GROUP];
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct leat_origin_value *v = &w->samples[i].values[f];
        if (w->errors[i].status == LEAT_OK && pack_lies_elsewhere(&schema->fields[f], v))
            inputs[count++] = (struct leat_md5_input){
                .data = pack_value(w, i, f), .n = (size_t)v->size, .out = w->digests[i * schema->n + f]};
    }
    leat_md5_many(inputs, count);
}

void pack_digest_group(struct pack_worker *w, uint64_t first, uint32_t n)
{
    const struct pack_job *j = w->job;
    const struct leat_schema *schema = &j->origin->schema;
    for (uint32_t f = 0; f < schema->n; f++)
        digest_field(w, n, f);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t digests[LEAT_FIELDS_MAX][LEAT_MD5_SIZE];
        uint32_t count = 0;
        for (uint32_t f = 0; f < schema->n && w->errors[i].status == LEAT_OK; f++) {
            if (pack_lies_elsewhere(&schema->fields[f], &w->samples[i].values[f]))
                memcpy(digests[count++], w->digests[i * schema->n + f], LEAT_MD5_SIZE);
        }
        join_digests(digests, count, j->digests[leat_cut_sample(&j->cut, first + i)]);
    }
}

static bool is_plain(const struct pack_job *j)
{
    return j->opts->plain && !(j->opts->images && j->opts->images->changes);
}

/* Everything of a value but the bytes of objects, which the sample's digest covers. */
static void add_value(struct leat_sha256 *h, const struct leat_field *f, const struct leat_origin_value *v)
{
    uint8_t numbers[24] = {0};
    leat_put_u64(numbers, v->absent ? 1 : 0);
    if (!v->absent)
        leat_put_u64(numbers + 8, leat_field_has_data(f) ? v->size : (uint64_t)v->number);
    if (!v->absent && f->type == LEAT_FIELD_FLOAT)
        leat_put_u64(numbers + 16, leat_float_bits(v->real));
    leat_sha256_add(h, numbers, sizeof numbers);
    if (!v->absent && v->data && leat_field_has_data(f))
        leat_sha256_add(h, v->data, (size_t)v->size);
}

/* Options, then the number of samples. Plain packings have had their ids since before there were others. */
static void add_options(struct leat_sha256 *h, const struct pack_job *j, uint64_t samples)
{
    static const char plain[] = "leat packing 1";
    static const char other[] = "leat packing 2";
    const struct leat_pack_images *images = j->opts->images;
    const char *what = images && images->what ? images->what : "";
    uint8_t numbers[32];
    leat_put_u64(numbers, j->opts->cut.keep_order);
    leat_put_u64(numbers + 8, j->opts->cut.keep_order ? 0 : j->opts->cut.seed);
    leat_put_u64(numbers + 16, samples);
    leat_put_u64(numbers + 24, j->opts->cut.chunk_bytes);
    leat_sha256_add(h, is_plain(j) ? plain : other, sizeof plain);
    leat_sha256_add(h, numbers, sizeof numbers);
    if (is_plain(j))
        return;
    leat_put_u64(numbers, strlen(what));
    leat_sha256_add(h, numbers, 8);
    leat_sha256_add(h, what, strlen(what));
}

static leat_status add_sample(struct leat_sha256 *h, const struct pack_job *j, uint64_t i,
                              struct leat_origin_room *room, struct leat_error *err)
{
    struct leat_origin_sample s;
    uint8_t numbers[16];
    leat_status rc = leat_origin_sample(j->origin, i, room, &s, err);
    if (rc != LEAT_OK)
        return rc;
    leat_put_u64(numbers, s.key_n);
    leat_put_u64(numbers + 8, is_plain(j) ? s.values[0].size : 0);
    leat_sha256_add(h, numbers, sizeof numbers);
    leat_sha256_add(h, s.key, s.key_n);
    for (uint32_t f = 0; !is_plain(j) && f < j->origin->schema.n; f++)
        add_value(h, &j->origin->schema.fields[f], &s.values[f]);
    leat_sha256_add(h, j->digests[i], LEAT_MD5_SIZE);
    return LEAT_OK;
}

static leat_status add_samples(struct leat_sha256 *h, const struct pack_job *j, struct leat_error *err)
{
    struct leat_origin_room room = {0};
    leat_status rc = LEAT_OK;
    for (uint64_t i = 0; rc == LEAT_OK && i < j->origin->samples; i++) {
        if (!j->bad || !j->bad[i])
            rc = add_sample(h, j, i, &room, err);
    }
    leat_origin_room_free(&room);
    return rc;
}

leat_status pack_id(const struct pack_job *j, uint8_t id[LEAT_PACK_ID_BYTES], struct leat_error *err)
{
    uint8_t sha[LEAT_SHA256_SIZE];
    struct leat_buf schema;
    leat_buf_init(&schema, LEAT_SCHEMA_MAX);
    leat_status rc = leat_schema_write(&j->origin->schema, &schema, err);
    struct leat_sha256 *h = rc == LEAT_OK ? leat_sha256_open() : NULL;
    if (rc == LEAT_OK && !h)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for packing");
    if (rc == LEAT_OK) {
        uint8_t number[8];
        add_options(h, j, j->cut.starts[j->cut.chunks]);
        leat_put_u64(number, schema.len);
        leat_sha256_add(h, number, sizeof number);
        leat_sha256_add(h, schema.data, schema.len);
        rc = add_samples(h, j, err);
        leat_sha256_finish(h, sha);
        memcpy(id, sha, LEAT_PACK_ID_BYTES);
    }
    leat_buf_free(&schema);
    return rc;
}
