#include "dataset/root.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/layout.h"

/* Columns are used where they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "roots are mapped, and little-endian");

struct head {
    uint32_t schema_bytes;
    uint64_t size;
};

static leat_status corrupt(struct leat_error *err, const char *what, size_t at)
{
    return leat_fail(err, LEAT_CORRUPT, "the snapshot's root is damaged: %s (byte %zu)", what, at);
}

static leat_status read_head(struct leat_reader *r, struct leat_root *root, struct head *h, struct leat_error *err)
{
    const uint8_t *magic = leat_read_bytes(r, 8);
    uint32_t format = leat_read_u32(r);
    root->chunks = leat_read_u32(r);
    root->samples = leat_read_u64(r);
    root->bytes = leat_read_u64(r);
    h->size = leat_read_u64(r);
    h->schema_bytes = leat_read_u32(r);
    root->sections_n = leat_read_u32(r);
    const uint8_t *pack = leat_read_bytes(r, LEAT_PACK_ID_BYTES);
    root->block_bytes = leat_read_u32(r);
    uint32_t zero = leat_read_u32(r);
    uint64_t zeros = leat_read_u64(r);
    if (r->bad || memcmp(magic, ROOT_MAGIC, 8) != 0)
        return leat_fail(err, LEAT_CORRUPT, "these %zu bytes are not a snapshot's root", r->size);
    if (format != LEAT_FORMAT_VERSION)
        return leat_fail(err, LEAT_VERSION, "the snapshot has format %u, this Leat reads %d", format,
                         LEAT_FORMAT_VERSION);
    if (h->size != r->size)
        return corrupt(err, "its length is not what it says", 32);
    if (zero || zeros)
        return corrupt(err, "reserved bytes are in use", 68);
    if (root->block_bytes < 4096 || root->block_bytes > 1u << 20 || (root->block_bytes & (root->block_bytes - 1)))
        return corrupt(err, "the size of blocks", 64);
    if (root->sections_n > LEAT_SECTIONS_MAX)
        return corrupt(err, "too many sections", 44);
    memcpy(root->pack, pack, sizeof root->pack);
    return LEAT_OK;
}

static leat_status read_sections(struct leat_reader *r, struct leat_root *root, struct leat_error *err)
{
    for (uint32_t i = 0; i < root->sections_n; i++) {
        struct leat_section *s = &root->sections[i];
        s->kind = leat_read_u32(r);
        uint32_t zero = leat_read_u32(r);
        s->size = leat_read_u64(r);
        s->name = leat_read_bytes(r, LEAT_SHA256_SIZE);
        if (r->bad || zero)
            return corrupt(err, "its list of sections", r->at);
        for (uint32_t k = 0; k < i; k++) {
            if (root->sections[k].kind == s->kind)
                return corrupt(err, "a section is listed twice", r->at);
        }
        s->blocks = s->size / root->block_bytes + (s->size % root->block_bytes != 0);
    }
    return LEAT_OK;
}

/* A column of n entries of `width` bytes, and zeros up to a multiple of 8. The product has less than 64 bits. */
static const uint8_t *read_column(struct leat_reader *r, uint32_t n, uint32_t width)
{
    uint64_t bytes = layout_padded((uint64_t)n * width);
    if (bytes > leat_reader_left(r)) {
        r->bad = true;
        return NULL;
    }
    return leat_read_bytes(r, (size_t)bytes);
}

static leat_status read_columns(struct leat_reader *r, struct leat_root *root, struct leat_error *err)
{
    root->counts = (const uint32_t *)(const void *)read_column(r, root->chunks, 4);
    root->sizes = (const uint32_t *)(const void *)read_column(r, root->chunks, 4);
    root->sums = (const uint64_t *)(const void *)read_column(r, root->chunks, 8);
    root->names = read_column(r, root->chunks, LEAT_SHA256_SIZE);
    if (r->bad)
        return corrupt(err, "it has no room for its chunks", r->at);
    uint64_t samples = 0;
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < root->chunks; c++) {
        if (root->counts[c] == 0 || root->sizes[c] < LEAT_CHUNK_HEAD)
            return corrupt(err, "a chunk without samples", (size_t)((const uint8_t *)&root->counts[c] - r->data));
        samples += root->counts[c];
        bytes += root->sizes[c];
    }
    if (samples != root->samples || bytes != root->bytes)
        return corrupt(err, "its sums of samples and bytes", 16);
    return LEAT_OK;
}

static leat_status read_digests(struct leat_reader *r, struct leat_root *root, struct leat_error *err)
{
    for (uint32_t i = 0; i < root->sections_n; i++) {
        struct leat_section *s = &root->sections[i];
        if (s->blocks > leat_reader_left(r) / ROOT_DIGEST)
            return corrupt(err, "it has no room for its digests", r->at);
        s->digests = leat_read_bytes(r, (size_t)s->blocks * ROOT_DIGEST);
    }
    if (leat_reader_left(r))
        return corrupt(err, "something follows its end", r->at);
    const struct leat_section *samples = leat_root_section(root, LEAT_SECTION_SAMPLES);
    const struct leat_section *keys = leat_root_section(root, LEAT_SECTION_KEYS);
    /* No overflow: samples are at most 2^64/2^32 chunks' worth, checked against the columns. */
    if (samples && (unsigned __int128)root->samples * root->schema.row_bytes != samples->size)
        return corrupt(err, "the sample table's length", ROOT_HEAD);
    if (keys && (unsigned __int128)root->samples * 24 > keys->size)
        return corrupt(err, "the keys' length", ROOT_HEAD);
    return LEAT_OK;
}

leat_status leat_root_read(const void *data, size_t n, struct leat_root *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_root root = {.data = data, .size = n};
    struct head h;
    if ((uintptr_t)data % 8)
        return leat_fail(err, LEAT_INTERNAL, "a root must be aligned to 8 bytes");
    leat_status rc = read_head(&r, &root, &h, err);
    if (rc == LEAT_OK)
        rc = read_sections(&r, &root, err);
    if (rc != LEAT_OK)
        return rc;
    const uint8_t *schema = leat_read_bytes(&r, h.schema_bytes);
    if (r.bad)
        return corrupt(err, "it has no room for its schema", r.at);
    rc = leat_schema_read(schema, h.schema_bytes, &root.schema, err);
    if (rc == LEAT_OK)
        rc = read_columns(&r, &root, err);
    if (rc == LEAT_OK)
        rc = read_digests(&r, &root, err);
    if (rc != LEAT_OK)
        return rc;
    *out = root;
    return LEAT_OK;
}

const struct leat_section *leat_root_section(const struct leat_root *r, enum leat_section_kind kind)
{
    for (uint32_t i = 0; i < r->sections_n; i++) {
        if (r->sections[i].kind == kind)
            return &r->sections[i];
    }
    return NULL;
}

const uint8_t *leat_root_chunk_name(const struct leat_root *r, uint32_t chunk)
{
    return r->names + (size_t)chunk * LEAT_SHA256_SIZE;
}

leat_status leat_root_check_chunk(const struct leat_root *r, uint32_t chunk, const void *data, size_t n,
                                  struct leat_error *err)
{
    if (n != r->sizes[chunk])
        return leat_fail(err, LEAT_CORRUPT, "chunk %u has %zu bytes, the snapshot says %u", chunk, n, r->sizes[chunk]);
    if (leat_xxh3(data, n) != r->sums[chunk])
        return leat_fail(err, LEAT_CORRUPT, "chunk %u does not match the checksum in the snapshot", chunk);
    return LEAT_OK;
}

uint32_t leat_root_block_size(const struct leat_root *r, const struct leat_section *s, uint64_t block)
{
    uint64_t left = s->size - block * r->block_bytes;
    return left < r->block_bytes ? (uint32_t)left : r->block_bytes;
}

leat_status leat_root_check_block(const struct leat_root *r, const struct leat_section *s, uint64_t block,
                                  const void *data, size_t n, struct leat_error *err)
{
    uint8_t digest[LEAT_SHA256_SIZE];
    leat_sha256(data, n, digest);
    if (n == leat_root_block_size(r, s, block) && memcmp(digest, s->digests + block * ROOT_DIGEST, ROOT_DIGEST) == 0)
        return LEAT_OK;
    return leat_fail(err, LEAT_CORRUPT, "block %" PRIu64 " of the snapshot's section %u does not match its digest",
                     block, s->kind);
}

/* Writing */

static void add_u32(struct leat_buf *b, uint32_t v)
{
    uint8_t bytes[4];
    leat_put_u32(bytes, v);
    leat_buf_add(b, bytes, sizeof bytes);
}

static void add_u64(struct leat_buf *b, uint64_t v)
{
    uint8_t bytes[8];
    leat_put_u64(bytes, v);
    leat_buf_add(b, bytes, sizeof bytes);
}

static void pad(struct leat_buf *b)
{
    static const uint8_t zeros[8];
    leat_buf_add(b, zeros, layout_padded(b->len) - b->len);
}

static void write_head(const uint8_t pack[LEAT_PACK_ID_BYTES], const struct leat_root_chunk *chunks, uint32_t chunks_n,
                       uint32_t sections_n, struct leat_buf *out)
{
    uint64_t samples = 0;
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < chunks_n; c++) {
        samples += chunks[c].samples;
        bytes += chunks[c].size;
    }
    leat_buf_add(out, ROOT_MAGIC, 8);
    add_u32(out, LEAT_FORMAT_VERSION);
    add_u32(out, chunks_n);
    add_u64(out, samples);
    add_u64(out, bytes);
    add_u64(out, 0); /* size: set at the end */
    add_u32(out, 0); /* schema: likewise */
    add_u32(out, sections_n);
    leat_buf_add(out, pack, LEAT_PACK_ID_BYTES);
    add_u32(out, LEAT_BLOCK_BYTES);
    add_u32(out, 0);
    add_u64(out, 0);
}

static void write_columns(const struct leat_root_chunk *chunks, uint32_t n, struct leat_buf *out)
{
    for (uint32_t c = 0; c < n; c++)
        add_u32(out, chunks[c].samples);
    pad(out);
    for (uint32_t c = 0; c < n; c++)
        add_u32(out, chunks[c].size);
    pad(out);
    for (uint32_t c = 0; c < n; c++)
        add_u64(out, chunks[c].sum);
    for (uint32_t c = 0; c < n; c++)
        leat_buf_add(out, chunks[c].name, LEAT_SHA256_SIZE);
}

static void write_digests(const struct leat_buf *data, struct leat_buf *out)
{
    for (size_t at = 0; at < data->len; at += LEAT_BLOCK_BYTES) {
        uint8_t digest[LEAT_SHA256_SIZE];
        size_t n = data->len - at < LEAT_BLOCK_BYTES ? data->len - at : LEAT_BLOCK_BYTES;
        leat_sha256(data->data + at, n, digest);
        leat_buf_add(out, digest, ROOT_DIGEST);
    }
}

leat_status leat_root_write(const struct leat_schema *schema, const uint8_t pack[LEAT_PACK_ID_BYTES],
                            const struct leat_root_chunk *chunks, uint32_t chunks_n,
                            const struct leat_root_section *sections, uint32_t sections_n, struct leat_buf *out,
                            struct leat_error *err)
{
    leat_buf_clear(out);
    write_head(pack, chunks, chunks_n, sections_n, out);
    for (uint32_t i = 0; i < sections_n; i++) {
        uint8_t name[LEAT_SHA256_SIZE];
        leat_sha256(sections[i].data->data, sections[i].data->len, name);
        add_u32(out, sections[i].kind);
        add_u32(out, 0);
        add_u64(out, sections[i].data->len);
        leat_buf_add(out, name, sizeof name);
    }
    size_t schema_at = out->len;
    leat_status rc = leat_schema_write(schema, out, err);
    if (rc != LEAT_OK)
        return rc;
    size_t schema_bytes = out->len - schema_at;
    write_columns(chunks, chunks_n, out);
    for (uint32_t i = 0; i < sections_n; i++)
        write_digests(sections[i].data, out);
    rc = leat_buf_check(out, "the snapshot's root", err);
    if (rc != LEAT_OK)
        return rc;
    leat_put_u64(out->data + 32, out->len);
    leat_put_u32(out->data + 40, (uint32_t)schema_bytes);
    return LEAT_OK;
}
