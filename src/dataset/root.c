#include "dataset/root.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/layout.h"

/* Columns are used where they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "roots are mapped, and little-endian");

_Static_assert(LEAT_ROOT_PEEK == ROOT_HEAD, "a peek takes the head");

struct head {
    struct layout_head common;
    uint32_t schema_bytes;
    uint32_t section_bytes; /* of an entry */
};

static leat_status corrupt(struct leat_error *err, const char *what, size_t at)
{
    return leat_fail(err, LEAT_CORRUPT, "the snapshot's root is damaged: %s (byte %zu)", what, at);
}

/* The head's own numbers, after what it has in common with a chunk's. */
static void read_numbers(struct leat_reader *r, struct leat_root *root, struct head *h)
{
    root->chunks = leat_read_u32(r);
    h->schema_bytes = leat_read_u32(r);
    root->samples = leat_read_u64(r);
    root->bytes = leat_read_u64(r);
    root->id = leat_read_bytes(r, LEAT_SHA256_SIZE);
    root->sections_n = leat_read_u32(r);
    h->section_bytes = leat_read_u32(r);
    root->packings_n = leat_read_u32(r);
    root->packing_bytes = leat_read_u32(r);
    root->block_bytes = leat_read_u32(r);
    leat_read_u32(r);
    root->selected = h->common.needs & ROOT_SELECTION ? leat_read_u64(r) : root->samples;
}

/* Leaves the reader at the first byte after the head. */
static leat_status read_head(struct leat_reader *r, struct leat_root *root, struct head *h, struct leat_error *err)
{
    leat_status rc = layout_read_head(r, ROOT_MAGIC, "a snapshot's root", ROOT_HEAD, &h->common, err);
    if (rc == LEAT_OK)
        rc = layout_check_needs(h->common.needs, ROOT_NEEDS, "the snapshot's root", err);
    if (rc != LEAT_OK)
        return rc;
    read_numbers(r, root, h);
    root->flags = h->common.flags;
    leat_read_bytes(r, h->common.bytes - r->at); /* what this Leat does not know */
    if (root->block_bytes < 4096 || root->block_bytes > 1u << 20 || (root->block_bytes & (root->block_bytes - 1)))
        return corrupt(err, "the size of blocks", 112);
    if (root->sections_n > LEAT_SECTIONS_MAX || h->section_bytes < ROOT_SECTION_HEAD || h->section_bytes % 8)
        return corrupt(err, "the number or size of its sections", 96);
    if (root->packing_bytes < ROOT_PACKING_HEAD || root->packing_bytes % 8)
        return corrupt(err, "the size of its packings", 108);
    return LEAT_OK;
}

leat_status leat_section_check(const struct leat_section *s, struct leat_error *err)
{
    char what[48];
    if (s->kind < LEAT_SECTION_SAMPLES || s->kind > LEAT_SECTION_SELECTION)
        return leat_fail(err, LEAT_VERSION, "the snapshot's section of kind %u needs a newer Leat", s->kind);
    snprintf(what, sizeof what, "the snapshot's section of kind %u", s->kind);
    return layout_check_needs(s->needs, LEAT_SECTION_REQUIRED, what, err);
}

static leat_status read_section(struct leat_reader *all, const struct head *h, struct leat_root *root, uint32_t i,
                                struct leat_error *err)
{
    const uint8_t *entry = leat_read_bytes(all, h->section_bytes);
    struct leat_reader r = leat_reader(entry, entry ? h->section_bytes : 0);
    struct leat_section *s = &root->sections[i];
    s->kind = leat_read_u32(&r);
    s->needs = leat_read_u32(&r);
    s->size = leat_read_u64(&r);
    s->name = leat_read_bytes(&r, LEAT_SHA256_SIZE);
    s->flags = leat_read_u32(&r);
    if (r.bad)
        return corrupt(err, "its list of sections", all->at);
    s->blocks = s->size / root->block_bytes + (s->size % root->block_bytes != 0);
    for (uint32_t k = 0; k < i; k++) {
        if (root->sections[k].kind == s->kind && leat_section_check(s, NULL) == LEAT_OK)
            return corrupt(err, "a section is listed twice", all->at);
    }
    return s->needs & LEAT_SECTION_REQUIRED ? leat_section_check(s, err) : LEAT_OK;
}

static leat_status read_lists(struct leat_reader *r, const struct head *h, struct leat_root *root,
                              struct leat_error *err)
{
    for (uint32_t i = 0; i < root->sections_n; i++) {
        leat_status rc = read_section(r, h, root, i, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if ((uint64_t)root->packings_n * root->packing_bytes > leat_reader_left(r))
        return corrupt(err, "it has no room for its packings", r->at);
    root->packings = leat_read_bytes(r, (size_t)root->packings_n * root->packing_bytes);
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < root->packings_n; i++)
        chunks += leat_root_packing(root, i).chunks;
    if (chunks != root->chunks)
        return corrupt(err, "its packings do not have its chunks", r->at);
    return LEAT_OK;
}

struct leat_packing leat_root_packing(const struct leat_root *r, uint32_t i)
{
    const uint8_t *entry = r->packings + (size_t)i * r->packing_bytes;
    struct leat_packing p = {.chunks = leat_get_u32(entry + LEAT_PACK_ID_BYTES)};
    memcpy(p.pack, entry, sizeof p.pack);
    return p;
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

static bool usable(const struct leat_section *s)
{
    return s && leat_section_check(s, NULL) == LEAT_OK;
}

/* A reader that cannot read them would take recipes' names for those of objects. */
static leat_status check_recipes(const struct leat_root *root, struct leat_error *err)
{
    const struct leat_section *recipes = leat_root_section(root, LEAT_SECTION_RECIPES);
    const struct leat_section *sources = leat_root_section(root, LEAT_SECTION_SOURCES);
    if (!recipes)
        return LEAT_OK;
    leat_status rc = leat_section_check(recipes, err);
    if (rc == LEAT_OK && !sources)
        return corrupt(err, "it has recipes and no sources", ROOT_HEAD);
    if (rc == LEAT_OK)
        rc = leat_section_check(sources, err);
    if (rc == LEAT_OK && recipes->size < 8 * ((uint64_t)root->chunks + 1))
        return corrupt(err, "the recipes' length", ROOT_HEAD);
    return rc;
}

bool leat_root_indexed(const struct leat_root *r)
{
    return leat_root_section(r, LEAT_SECTION_RECIPES) != NULL;
}

uint32_t leat_root_unsummed(const struct leat_root *r)
{
    uint32_t n = 0;
    for (uint32_t c = 0; leat_root_indexed(r) && c < r->chunks; c++)
        n += r->sums[c] == 0;
    return n;
}

static leat_status read_digests(struct leat_reader *r, struct leat_root *root, struct leat_error *err)
{
    for (uint32_t i = 0; i < root->sections_n; i++) {
        struct leat_section *s = &root->sections[i];
        if (s->blocks > leat_reader_left(r) / ROOT_DIGEST)
            return corrupt(err, "it has no room for its digests", r->at);
        s->digests = leat_read_bytes(r, (size_t)s->blocks * ROOT_DIGEST);
    }
    /* what follows is a later release's */
    return LEAT_OK;
}

/* Whether the sections are as long as what they are for, and a selection is announced where there is one. */
static leat_status check_sections(const struct leat_root *root, uint64_t needs, struct leat_error *err)
{
    const struct leat_section *samples = leat_root_section(root, LEAT_SECTION_SAMPLES);
    const struct leat_section *keys = leat_root_section(root, LEAT_SECTION_KEYS);
    /* No overflow: samples are at most 2^64/2^32 chunks' worth, checked against the columns. */
    if (usable(samples) && (unsigned __int128)root->samples * root->schema.row_bytes != samples->size)
        return corrupt(err, "the sample table's length", ROOT_HEAD);
    if (usable(keys) && (unsigned __int128)root->samples * 24 > keys->size)
        return corrupt(err, "the keys' length", ROOT_HEAD);
    bool announced = needs & ROOT_SELECTION;
    if (announced != leat_root_is_selection(root) || root->selected > root->samples ||
        (announced && root->selected == 0))
        return corrupt(err, "what it says of its selection", ROOT_SELECTED_AT);
    return check_recipes(root, err);
}

leat_status leat_root_map(const void *data, size_t n, struct leat_root *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_root root = {.data = data, .size = n};
    struct head h;
    if ((uintptr_t)data % 8)
        return leat_fail(err, LEAT_INTERNAL, "a root must be aligned to 8 bytes");
    leat_status rc = read_head(&r, &root, &h, err);
    if (rc == LEAT_OK)
        rc = read_lists(&r, &h, &root, err);
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
    if (rc == LEAT_OK)
        rc = check_sections(&root, h.common.needs, err);
    if (rc != LEAT_OK)
        return rc;
    *out = root;
    return LEAT_OK;
}

leat_status leat_root_read(const void *data, size_t n, struct leat_root *out, struct leat_error *err)
{
    struct leat_root root;
    uint8_t id[LEAT_SHA256_SIZE];
    leat_status rc = leat_root_map(data, n, &root, err);
    if (rc == LEAT_OK)
        rc = leat_root_content_id(&root, id, err);
    if (rc == LEAT_OK && memcmp(id, root.id, sizeof id) != 0)
        rc = corrupt(err, "its content id is not that of its schema and chunks", ROOT_ID_AT);
    if (rc != LEAT_OK)
        return rc;
    *out = root;
    return LEAT_OK;
}

leat_status leat_root_content_id(const struct leat_root *r, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    uint8_t head[24];
    struct leat_writer w = leat_writer(head, sizeof head);
    struct leat_sha256 *h = leat_sha256_open();
    if (!h)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a digest");
    leat_write_bytes(&w, CONTENT_MAGIC, 8);
    leat_write_u32(&w, LEAT_FORMAT_VERSION);
    leat_write_u32(&w, r->schema.encoded_n);
    leat_write_u64(&w, r->chunks);
    leat_sha256_add(h, head, sizeof head);
    leat_sha256_add(h, r->schema.encoded, r->schema.encoded_n);
    leat_sha256_add(h, r->counts, (size_t)r->chunks * sizeof *r->counts);
    leat_sha256_add(h, r->names, (size_t)r->chunks * LEAT_SHA256_SIZE);
    const struct leat_section *selection = leat_root_section(r, LEAT_SECTION_SELECTION);
    if (selection)
        leat_sha256_add(h, selection->name, LEAT_SHA256_SIZE);
    leat_sha256_finish(h, id);
    return LEAT_OK;
}

leat_status leat_root_peek(const void *data, size_t n, struct leat_root_peek *out, struct leat_error *err)
{
    struct leat_root root = {0};
    struct head h;
    struct leat_reader r = leat_reader(data, n);
    struct leat_reader sized = leat_reader(data, n < LAYOUT_HEAD ? n : LAYOUT_HEAD);
    if (n >= LAYOUT_HEAD)
        sized.size = (size_t)leat_get_u64((const uint8_t *)data + 16); /* only the head is here, and read */
    leat_status rc = n < ROOT_HEAD
                         ? corrupt(err, "it is shorter than its head", n)
                         : layout_read_head(&sized, ROOT_MAGIC, "a snapshot's root", ROOT_HEAD, &h.common, err);
    if (rc == LEAT_OK)
        rc = layout_check_needs(h.common.needs, ROOT_NEEDS, "the snapshot's root", err);
    if (rc != LEAT_OK)
        return rc;
    r.at = LAYOUT_HEAD;
    read_numbers(&r, &root, &h);
    *out = (struct leat_root_peek){
        .size = sized.size, .samples = root.selected, .bytes = root.bytes, .chunks = root.chunks};
    memcpy(out->id, root.id, sizeof out->id);
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

bool leat_root_is_selection(const struct leat_root *r)
{
    return leat_root_section(r, LEAT_SECTION_SELECTION) != NULL;
}

const uint8_t *leat_root_chunk_name(const struct leat_root *r, uint32_t chunk)
{
    return r->names + (size_t)chunk * LEAT_SHA256_SIZE;
}

static leat_status check_size(const struct leat_root *r, uint32_t chunk, size_t n, struct leat_error *err)
{
    if (n != r->sizes[chunk])
        return leat_fail(err, LEAT_CORRUPT, "chunk %u has %zu bytes, the snapshot says %u", chunk, n, r->sizes[chunk]);
    return LEAT_OK;
}

/* Only a hint of which checksum to compare: a stored chunk that says so is found out by it. */
static bool is_made(const uint8_t *data, size_t n)
{
    return n >= LEAT_CHUNK_HEAD && (leat_get_u64(data + LAYOUT_NEEDS_AT) & CHUNK_MADE);
}

leat_status leat_root_check_chunk(const struct leat_root *r, uint32_t chunk, const void *data, size_t n,
                                  struct leat_error *err)
{
    leat_status rc = check_size(r, chunk, n, err);
    if (rc != LEAT_OK)
        return rc;
    if (leat_xxh3(data, n) != r->sums[chunk])
        return leat_fail(err, LEAT_CORRUPT, "chunk %u does not match the checksum in the snapshot", chunk);
    return LEAT_OK;
}

leat_status leat_root_open_chunk(const struct leat_root *r, uint32_t chunk, const void *data, size_t n,
                                 struct leat_chunk *out, struct leat_error *err)
{
    struct leat_chunk c;
    bool made = leat_root_indexed(r) && is_made(data, n);
    leat_status rc = made ? check_size(r, chunk, n, err) : leat_root_check_chunk(r, chunk, data, n, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_chunk_read(data, n, &c, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "chunk %u", chunk);
    if (!made && c.lead_bytes)
        return leat_fail(err, LEAT_CORRUPT, "chunk %u is made from a recipe, but the snapshot has none", chunk);
    if (made && r->sums[chunk] && leat_xxh3(c.data + c.lead_bytes, n - c.lead_bytes) != r->sums[chunk])
        return leat_fail(err, LEAT_CORRUPT, "the data of chunk %u do not match the checksum in the snapshot", chunk);
    if (c.samples != r->counts[chunk])
        return leat_fail(err, LEAT_CORRUPT, "chunk %u has %u samples, the snapshot says %u", chunk, c.samples,
                         r->counts[chunk]);
    if (c.schema.encoded_n != r->schema.encoded_n ||
        memcmp(c.schema.encoded, r->schema.encoded, c.schema.encoded_n) != 0)
        return leat_fail(err, LEAT_CORRUPT, "chunk %u has another schema than the snapshot", chunk);
    *out = c;
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

static void pad(struct leat_buf *b)
{
    static const uint8_t zeros[8];
    leat_buf_add(b, zeros, layout_padded(b->len) - b->len);
}

/* Sizes and the content id are set at the end. */
static void write_head(const struct leat_root_parts *p, struct leat_buf *out)
{
    uint8_t head[ROOT_HEAD] = {0};
    struct leat_writer w = leat_writer(head, sizeof head);
    uint64_t samples = 0;
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < p->chunks_n; c++) {
        samples += p->chunks[c].samples;
        bytes += p->chunks[c].size;
    }
    layout_write_head(&w, ROOT_MAGIC, ROOT_HEAD, 0);
    leat_write_u32(&w, p->chunks_n);
    leat_write_u32(&w, 0); /* schema */
    leat_write_u64(&w, samples);
    leat_write_u64(&w, bytes);
    w.at += LEAT_SHA256_SIZE; /* content id */
    leat_write_u32(&w, p->sections_n);
    leat_write_u32(&w, ROOT_SECTION_HEAD);
    leat_write_u32(&w, p->packings_n);
    leat_write_u32(&w, ROOT_PACKING_HEAD);
    leat_write_u32(&w, LEAT_BLOCK_BYTES);
    leat_buf_add(out, head, sizeof head);
}

static void write_lists(const struct leat_root_parts *p, struct leat_buf *out)
{
    for (uint32_t i = 0; i < p->sections_n; i++) {
        uint8_t entry[ROOT_SECTION_HEAD] = {0};
        struct leat_writer w = leat_writer(entry, sizeof entry);
        leat_write_u32(&w, p->sections[i].kind);
        leat_write_u32(&w, p->sections[i].needs);
        leat_write_u64(&w, p->sections[i].size);
        leat_write_bytes(&w, p->sections[i].name, LEAT_SHA256_SIZE);
        leat_buf_add(out, entry, sizeof entry);
    }
    for (uint32_t i = 0; i < p->packings_n; i++) {
        uint8_t entry[ROOT_PACKING_HEAD] = {0};
        struct leat_writer w = leat_writer(entry, sizeof entry);
        leat_write_bytes(&w, p->packings[i].pack, LEAT_PACK_ID_BYTES);
        leat_write_u32(&w, p->packings[i].chunks);
        leat_buf_add(out, entry, sizeof entry);
    }
}

static void write_columns(const struct leat_root_chunk *chunks, uint32_t n, struct leat_buf *out)
{
    for (uint32_t c = 0; c < n; c++)
        layout_add_u32(out, chunks[c].samples);
    pad(out);
    for (uint32_t c = 0; c < n; c++)
        layout_add_u32(out, chunks[c].size);
    pad(out);
    for (uint32_t c = 0; c < n; c++)
        layout_add_u64(out, chunks[c].sum);
    for (uint32_t c = 0; c < n; c++)
        leat_buf_add(out, chunks[c].name, LEAT_SHA256_SIZE);
}

static leat_status set_id(struct leat_buf *out, struct leat_error *err)
{
    struct leat_root root;
    uint8_t id[LEAT_SHA256_SIZE];
    leat_status rc = leat_root_map(out->data, out->len, &root, err);
    if (rc == LEAT_OK)
        rc = leat_root_content_id(&root, id, err);
    if (rc == LEAT_OK)
        memcpy(out->data + ROOT_ID_AT, id, sizeof id);
    return rc;
}

leat_status leat_root_write(const struct leat_root_parts *p, struct leat_buf *out, struct leat_error *err)
{
    leat_buf_clear(out);
    write_head(p, out);
    write_lists(p, out);
    size_t schema_at = out->len;
    leat_status rc = leat_schema_write(p->schema, out, err);
    if (rc != LEAT_OK)
        return rc;
    size_t schema_bytes = out->len - schema_at;
    write_columns(p->chunks, p->chunks_n, out);
    for (uint32_t i = 0; i < p->sections_n; i++) {
        uint64_t blocks = (p->sections[i].size + LEAT_BLOCK_BYTES - 1) / LEAT_BLOCK_BYTES;
        leat_buf_add(out, p->sections[i].digests, (size_t)blocks * ROOT_DIGEST);
    }
    rc = leat_buf_check(out, "the snapshot's root", err);
    if (rc != LEAT_OK)
        return rc;
    leat_put_u64(out->data + 16, out->len);
    leat_put_u32(out->data + 44, (uint32_t)schema_bytes);
    return set_id(out, err);
}
