/* Any bytes as a chunk: whatever it says it holds can be read without leaving it, and building a chunk of the same
 * samples gives back the same, twice to the same bytes. */
#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/chunk.h"
#include "dataset/snapshot.h"

#include "fuzz.h"

static bool walk(const struct leat_chunk *c)
{
    uint64_t sum = 0;
    bool readable = true;
    struct leat_error err;
    for (uint32_t f = 0; f < c->schema.n; f++)
        readable &= leat_field_check(&c->schema.fields[f], &err) == LEAT_OK;
    for (uint32_t i = 0; i < c->samples; i++) {
        size_t key_n;
        const char *key = leat_chunk_key(c, i, &key_n);
        sum += leat_xxh3(key, key_n);
        for (uint32_t f = 0; f < c->schema.n; f++) {
            struct leat_cell cell = leat_chunk_cell(c, i, f);
            sum += cell.absent ? 1 : leat_xxh3(leat_chunk_data(c, &cell), cell.size);
        }
    }
    fuzz_check_error(leat_chunk_check(c, &err), &err);
    fuzz_use(sum);
    return readable;
}

#define VALUES_MAX (1u << 20) /* bytes of all values of a chunk that is built again */

/* The value itself; false when it is damaged, which reading a chunk does not notice where it is compressed. */
static bool value_of(const struct leat_chunk *c, const struct leat_cell *cell, struct leat_value *v, void **own)
{
    struct leat_error err;
    *v = (struct leat_value){.absent = cell->absent, .number = cell->number, .real = cell->real, .image = cell->image};
    memcpy(v->dims, cell->dims, sizeof v->dims);
    v->size = cell->raw;
    if (cell->raw > VALUES_MAX)
        return false;
    leat_status rc = leat_chunk_view(c, cell, &v->data, own, &err);
    fuzz_check_error(rc, &err);
    return rc == LEAT_OK;
}

/* Adds a sample to the builder. False when one of its values is none: compressed bytes, or JSON, may be anything. */
static bool add(struct leat_chunk_builder *b, const struct leat_chunk *c, uint32_t i, uint64_t *total)
{
    struct leat_value values[LEAT_FIELDS_MAX];
    void *own[LEAT_FIELDS_MAX] = {0};
    struct leat_error err;
    size_t key_n;
    const char *key = leat_chunk_key(c, i, &key_n);
    bool good = true;
    for (uint32_t f = 0; good && f < c->schema.n; f++) {
        struct leat_cell cell = leat_chunk_cell(c, i, f);
        good = value_of(c, &cell, &values[f], &own[f]);
        *total += cell.raw;
    }
    if (good && *total < VALUES_MAX) {
        leat_status rc = leat_chunk_builder_add(b, key, key_n, values, &err);
        PROMISE(rc == LEAT_OK || (rc == LEAT_INVALID && strstr(err.text, "not JSON")));
        good = rc == LEAT_OK;
    }
    for (uint32_t f = 0; f < c->schema.n; f++)
        free(own[f]);
    return good;
}

/* False when the samples together are too large to be built again (cells may point to the same bytes), or some value is
 * none. */
static bool build(const struct leat_chunk *c, struct leat_buf *out)
{
    struct leat_chunk_builder *b;
    struct leat_error err;
    uint64_t total = 0;
    bool good = true;
    PROMISE(leat_chunk_builder_open(&c->schema, &b, &err) == LEAT_OK);
    for (uint32_t i = 0; good && i < c->samples; i++)
        good = add(b, c, i, &total) && total < VALUES_MAX;
    if (good)
        PROMISE(leat_chunk_builder_finish(b, c->pack, c->number, c->total, out, &err) == LEAT_OK);
    leat_chunk_builder_close(b);
    return good;
}

static void compare_values(const struct leat_chunk *a, const struct leat_chunk *b, uint32_t i, uint32_t f)
{
    struct leat_cell x = leat_chunk_cell(a, i, f);
    struct leat_cell y = leat_chunk_cell(b, i, f);
    struct leat_value v;
    struct leat_value w;
    void *own[2] = {0};
    PROMISE(x.absent == y.absent && x.number == y.number && x.raw == y.raw);
    PROMISE(leat_float_bits(x.real) == leat_float_bits(y.real) && memcmp(x.dims, y.dims, sizeof x.dims) == 0);
    PROMISE(memcmp(&x.image, &y.image, sizeof x.image) == 0);
    PROMISE(value_of(a, &x, &v, &own[0]) && value_of(b, &y, &w, &own[1]));
    PROMISE(!x.raw || memcmp(v.data, w.data, x.raw) == 0);
    free(own[0]);
    free(own[1]);
}

static void compare(const struct leat_chunk *a, const struct leat_chunk *b)
{
    PROMISE(a->samples == b->samples && a->number == b->number && a->total == b->total);
    for (uint32_t i = 0; i < a->samples; i++) {
        size_t a_n;
        size_t b_n;
        const char *a_key = leat_chunk_key(a, i, &a_n);
        const char *b_key = leat_chunk_key(b, i, &b_n);
        PROMISE(a_n == b_n && memcmp(a_key, b_key, a_n) == 0);
        for (uint32_t f = 0; f < a->schema.n; f++)
            compare_values(a, b, i, f);
    }
}

/* A snapshot of this chunk alone: its root takes the chunk, and no other. */
static void snapshot(const struct leat_chunk *c)
{
    struct leat_snapshot *s;
    struct leat_snapshot_files files;
    struct leat_root root;
    struct leat_chunk again;
    struct leat_error err;
    uint8_t sha[LEAT_SHA256_SIZE];
    leat_sha256(c->data, c->size, sha);
    PROMISE(leat_snapshot_open(1, 0, &s, &err) == LEAT_OK);
    PROMISE(leat_snapshot_add(s, c, sha, &err) == LEAT_OK);
    PROMISE(leat_snapshot_write((const struct leat_snapshot *const *)&s, 1, &files, &err) == LEAT_OK);
    PROMISE(leat_root_read(files.root.data, files.root.len, &root, &err) == LEAT_OK);
    PROMISE(leat_root_open_chunk(&root, 0, c->data, c->size, &again, &err) == LEAT_OK);
    leat_snapshot_files_free(&files);
    leat_snapshot_close(s);
}

static void read_chunk(const uint8_t *data, size_t n)
{
    struct leat_chunk c;
    struct leat_chunk built;
    struct leat_error err;
    struct leat_buf once;
    struct leat_buf twice;
    leat_status rc = leat_chunk_read(data, n, &c, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK || !walk(&c) || c.samples > 1000)
        return;
    if (c.number == 0 && c.total == 1 && !c.lead_bytes)
        snapshot(&c);
    leat_buf_init(&once, 64 << 20);
    leat_buf_init(&twice, 64 << 20);
    if (build(&c, &once)) {
        PROMISE(leat_chunk_read(once.data, once.len, &built, &err) == LEAT_OK);
        PROMISE(leat_chunk_check(&built, &err) == LEAT_OK);
        compare(&c, &built);
        PROMISE(build(&built, &twice));
        PROMISE(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    }
    leat_buf_free(&once);
    leat_buf_free(&twice);
}

FUZZ(chunk)
{
    read_chunk(data, size);
    if (size < LEAT_CHUNK_HEAD)
        return;
    uint8_t *copy = malloc(size); /* with an honest length and checksum, which get further */
    PROMISE(copy);
    memcpy(copy, data, size);
    leat_put_u64(copy + 16, size);
    uint32_t head = leat_get_u32(copy + 12);
    if (head >= LEAT_CHUNK_HEAD && head <= size)
        leat_put_u32(copy + head - 4, leat_crc32c(0, copy, head - 4));
    read_chunk(copy, size);
    free(copy);
}
