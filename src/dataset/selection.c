#include "dataset/selection.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/layout.h"

#define MAGIC         "leat-sel"
#define HEAD          48u
#define PACKING_BYTES 24u
#define STEP          8u /* words between two stored sums */

/* A chunk of which all or none of the samples count has no bitmap. */
struct leat_selection {
    const struct leat_root *root;
    void *data;             /* the section, owned */
    const uint32_t *counts; /* in it, as the next */
    const uint64_t *words;  /* bitmaps, one after the other */
    uint64_t *at;           /* first word of each chunk's bitmap; one more at the end */
    uint64_t *sums;         /* bits before every STEP-th word */
};

static uint64_t words_of(uint32_t samples)
{
    return ((uint64_t)samples + 63) / 64;
}

static bool has_bitmap(uint32_t count, uint32_t samples)
{
    return count > 0 && count < samples;
}

static leat_status corrupt(struct leat_error *err, const char *what, size_t at)
{
    return leat_fail(err, LEAT_CORRUPT, "the snapshot's selection is damaged: %s (byte %zu)", what, at);
}

uint64_t leat_selection_most(const struct leat_root *root)
{
    uint64_t n = 4096 + (uint64_t)root->packings_n * PACKING_BYTES + layout_padded(4 * (uint64_t)root->chunks);
    for (uint32_t c = 0; c < root->chunks; c++)
        n += 8 * words_of(root->counts[c]);
    return n;
}

/* Reading */

static leat_status read_head(struct leat_reader *r, const struct leat_root *root, struct leat_error *err)
{
    const uint8_t *magic = leat_read_bytes(r, 8);
    uint32_t format = leat_read_u32(r);
    uint32_t head = leat_read_u32(r);
    uint64_t selected = leat_read_u64(r);
    uint64_t samples = leat_read_u64(r);
    uint32_t chunks = leat_read_u32(r);
    uint32_t packings = leat_read_u32(r);
    if (r->bad || memcmp(magic, MAGIC, 8) != 0)
        return corrupt(err, "it does not begin like one", 0);
    if (format != LEAT_FORMAT_VERSION)
        return leat_fail(err, LEAT_VERSION, "the selection has format %" PRIu32 ": it needs a newer Leat", format);
    if (head < HEAD || head % 8 || head > r->size)
        return corrupt(err, "the size of its head", 12);
    if (selected != root->selected || samples != root->samples || chunks != root->chunks ||
        packings != root->packings_n)
        return corrupt(err, "it is of another dataset than its root", 16);
    leat_read_bytes(r, head - r->at);
    for (uint32_t i = 0; i < packings; i++) {
        struct leat_packing p = leat_root_packing(root, i);
        const uint8_t *id = leat_read_bytes(r, LEAT_PACK_ID_BYTES);
        uint32_t n = leat_read_u32(r);
        leat_read_u32(r);
        if (r->bad || memcmp(id, p.pack, sizeof p.pack) != 0 || n != p.chunks)
            return corrupt(err, "it is of other packings than its root", r->at);
    }
    return LEAT_OK;
}

/* Places the bitmaps; the reader is after the counts. */
static leat_status place(struct leat_selection *s, struct leat_reader *r, struct leat_error *err)
{
    uint64_t words = 0;
    uint64_t total = 0;
    for (uint32_t c = 0; c < s->root->chunks; c++) {
        if (s->counts[c] > s->root->counts[c])
            return corrupt(err, "more samples than a chunk has", r->at);
        s->at[c] = words;
        words += has_bitmap(s->counts[c], s->root->counts[c]) ? words_of(s->root->counts[c]) : 0;
        total += s->counts[c];
    }
    s->at[s->root->chunks] = words;
    if (total != s->root->selected)
        return corrupt(err, "its sum of samples", 16);
    if (words != leat_reader_left(r) / 8 || leat_reader_left(r) % 8)
        return corrupt(err, "its length", r->size);
    s->words = (const uint64_t *)(const void *)leat_read_bytes(r, (size_t)words * 8);
    return LEAT_OK;
}

/* Sums for looking up, and whether every bitmap has as many bits as it should, none after its end. */
static leat_status add_up(struct leat_selection *s, struct leat_error *err)
{
    uint64_t bits = 0;
    uint32_t chunk = 0;
    uint64_t start = 0; /* bits before the chunk's */
    for (; chunk < s->root->chunks; chunk++) {
        uint32_t samples = s->root->counts[chunk];
        for (uint64_t w = s->at[chunk]; w < s->at[chunk + 1]; w++) {
            if (w % STEP == 0)
                s->sums[w / STEP] = bits;
            bits += (uint64_t)__builtin_popcountll(s->words[w]);
        }
        if (s->at[chunk] == s->at[chunk + 1])
            continue;
        uint64_t last = s->words[s->at[chunk + 1] - 1];
        if (bits - start != s->counts[chunk] || (samples % 64 && last >> samples % 64))
            return corrupt(err, "a bitmap with other samples than its count", 0);
        start = bits;
    }
    return LEAT_OK;
}

static leat_status map(struct leat_selection *s, size_t n, struct leat_error *err)
{
    struct leat_reader r = leat_reader(s->data, n);
    uint64_t counts = layout_padded(4 * (uint64_t)s->root->chunks);
    leat_status rc = read_head(&r, s->root, err);
    if (rc != LEAT_OK)
        return rc;
    if (counts > leat_reader_left(&r))
        return corrupt(err, "it has no room for its chunks", r.at);
    s->counts = (const uint32_t *)(const void *)leat_read_bytes(&r, (size_t)counts);
    s->at = malloc(((size_t)s->root->chunks + 1) * sizeof *s->at);
    s->sums = malloc((leat_reader_left(&r) / 8 / STEP + 1) * sizeof *s->sums);
    if (!s->at || !s->sums)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a selection of %" PRIu64 " samples", s->root->selected);
    rc = place(s, &r, err);
    return rc == LEAT_OK ? add_up(s, err) : rc;
}

leat_status leat_selection_read(void *data, size_t n, const struct leat_root *root, struct leat_selection **out,
                                struct leat_error *err)
{
    struct leat_selection *s = calloc(1, sizeof *s);
    if (!s) {
        free(data);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a selection");
    }
    s->root = root;
    s->data = data;
    leat_status rc = map(s, n, err);
    if (rc != LEAT_OK) {
        leat_selection_free(s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

void leat_selection_free(struct leat_selection *s)
{
    if (!s)
        return;
    free(s->data);
    free(s->at);
    free(s->sums);
    free(s);
}

const uint32_t *leat_selection_counts(const struct leat_selection *s)
{
    return s->counts;
}

/* Bits before a word, of all bitmaps. */
static uint64_t bits_before(const struct leat_selection *s, uint64_t word)
{
    uint64_t bits = s->sums[word / STEP];
    for (uint64_t w = word / STEP * STEP; w < word; w++)
        bits += (uint64_t)__builtin_popcountll(s->words[w]);
    return bits;
}

uint32_t leat_selection_index(const struct leat_selection *s, uint32_t chunk, uint32_t i)
{
    if (!has_bitmap(s->counts[chunk], s->root->counts[chunk]))
        return i;
    uint64_t first = s->at[chunk];
    uint64_t wanted = bits_before(s, first) + i; /* that many bits lie before the one looked for */
    uint64_t low = first / STEP;
    uint64_t high = (s->at[chunk + 1] - 1) / STEP;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (s->sums[middle] <= wanted)
            low = middle;
        else
            high = middle - 1;
    }
    uint64_t left = wanted - s->sums[low];
    uint64_t w = low * STEP;
    for (uint64_t bits; (bits = (uint64_t)__builtin_popcountll(s->words[w])) <= left; w++)
        left -= bits;
    uint64_t word = s->words[w];
    for (; left; left--)
        word &= word - 1;
    return (uint32_t)((w - first) * 64 + (uint64_t)__builtin_ctzll(word));
}

bool leat_selection_rank(const struct leat_selection *s, uint32_t chunk, uint32_t index, uint32_t *i)
{
    *i = index;
    if (!has_bitmap(s->counts[chunk], s->root->counts[chunk]))
        return s->counts[chunk] > 0;
    uint64_t first = s->at[chunk];
    uint64_t word = first + index / 64;
    uint64_t bit = (uint64_t)1 << index % 64;
    if (!(s->words[word] & bit))
        return false;
    *i = (uint32_t)(bits_before(s, word) - bits_before(s, first) +
                    (uint64_t)__builtin_popcountll(s->words[word] & (bit - 1)));
    return true;
}

/* Making */

struct leat_selection_builder {
    const struct leat_root *root;
    uint64_t *at; /* first word of each chunk; one more at the end */
    uint64_t *words;
};

leat_status leat_selection_builder_open(const struct leat_root *root, struct leat_selection_builder **out,
                                        struct leat_error *err)
{
    struct leat_selection_builder *b = calloc(1, sizeof *b);
    if (b)
        b->at = malloc(((size_t)root->chunks + 1) * sizeof *b->at);
    uint64_t words = 0;
    for (uint32_t c = 0; b && b->at && c < root->chunks; c++) {
        b->at[c] = words;
        words += words_of(root->counts[c]);
    }
    if (b && b->at) {
        b->root = root;
        b->at[root->chunks] = words;
        b->words = calloc((size_t)words + 1, sizeof *b->words);
    }
    if (!b || !b->words) {
        leat_selection_builder_close(b);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to select from %" PRIu64 " samples", root->samples);
    }
    *out = b;
    return LEAT_OK;
}

void leat_selection_builder_close(struct leat_selection_builder *b)
{
    if (!b)
        return;
    free(b->at);
    free(b->words);
    free(b);
}

void leat_selection_set(struct leat_selection_builder *b, uint32_t chunk, uint32_t index, bool counts)
{
    uint64_t *word = &b->words[b->at[chunk] + index / 64];
    uint64_t bit = (uint64_t)1 << index % 64;
    *word = counts ? *word | bit : *word & ~bit;
}

bool leat_selection_has(const struct leat_selection_builder *b, uint32_t chunk, uint32_t index)
{
    return b->words[b->at[chunk] + index / 64] >> index % 64 & 1;
}

uint32_t leat_selection_in_chunk(const struct leat_selection_builder *b, uint32_t chunk)
{
    uint64_t n = 0;
    for (uint64_t w = b->at[chunk]; w < b->at[chunk + 1]; w++)
        n += (uint64_t)__builtin_popcountll(b->words[w]);
    return (uint32_t)n;
}

uint64_t leat_selection_total(const struct leat_selection_builder *b)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < b->root->chunks; c++)
        n += leat_selection_in_chunk(b, c);
    return n;
}

static leat_status write_section(const struct leat_selection_builder *b, struct leat_buf *out, struct leat_error *err)
{
    const struct leat_root *root = b->root;
    uint8_t head[HEAD] = {0};
    struct leat_writer w = leat_writer(head, sizeof head);
    leat_write_bytes(&w, MAGIC, 8);
    leat_write_u32(&w, LEAT_FORMAT_VERSION);
    leat_write_u32(&w, HEAD);
    leat_write_u64(&w, leat_selection_total(b));
    leat_write_u64(&w, root->samples);
    leat_write_u32(&w, root->chunks);
    leat_write_u32(&w, root->packings_n);
    leat_buf_add(out, head, sizeof head);
    for (uint32_t i = 0; i < root->packings_n; i++) {
        struct leat_packing p = leat_root_packing(root, i);
        leat_buf_add(out, p.pack, sizeof p.pack);
        layout_add_u32(out, p.chunks);
        layout_add_u32(out, 0);
    }
    for (uint32_t c = 0; c < root->chunks; c++)
        layout_add_u32(out, leat_selection_in_chunk(b, c));
    if (root->chunks % 2)
        layout_add_u32(out, 0);
    for (uint32_t c = 0; c < root->chunks; c++) {
        if (has_bitmap(leat_selection_in_chunk(b, c), root->counts[c]))
            leat_buf_add(out, b->words + b->at[c], (size_t)(b->at[c + 1] - b->at[c]) * 8);
    }
    return leat_buf_check(out, "a selection", err);
}

/* The root: as the one before, with another section of this kind, and what follows from that. */

static void add_entry(struct leat_buf *out, uint32_t entry_bytes, uint64_t size, const uint8_t *name)
{
    static const uint8_t zeros[8];
    uint8_t entry[ROOT_SECTION_HEAD] = {0};
    struct leat_writer w = leat_writer(entry, sizeof entry);
    leat_write_u32(&w, LEAT_SECTION_SELECTION);
    leat_write_u32(&w, LEAT_SECTION_REQUIRED);
    leat_write_u64(&w, size);
    leat_write_bytes(&w, name, LEAT_SHA256_SIZE);
    leat_buf_add(out, entry, sizeof entry);
    for (uint32_t n = ROOT_SECTION_HEAD; n < entry_bytes; n += 8)
        leat_buf_add(out, zeros, 8);
}

static void add_digests(struct leat_buf *out, const struct leat_buf *section, uint32_t block_bytes)
{
    for (size_t at = 0; at < section->len; at += block_bytes) {
        uint8_t digest[LEAT_SHA256_SIZE];
        size_t n = section->len - at < block_bytes ? section->len - at : block_bytes;
        leat_sha256(section->data + at, n, digest);
        leat_buf_add(out, digest, ROOT_DIGEST);
    }
}

static leat_status finish_root(struct leat_selection_files *f, uint64_t selected, uint32_t sections,
                               struct leat_error *err)
{
    struct leat_root root;
    uint8_t *data = (uint8_t *)f->root.data;
    leat_status rc = leat_buf_check(&f->root, "the snapshot's root", err);
    if (rc != LEAT_OK)
        return rc;
    leat_put_u64(data + 16, f->root.len);
    leat_put_u64(data + 24, leat_get_u64(data + 24) | ROOT_SELECTION);
    leat_put_u32(data + 96, sections);
    leat_put_u64(data + ROOT_SELECTED_AT, selected);
    rc = leat_root_map(data, f->root.len, &root, err);
    if (rc == LEAT_OK)
        rc = leat_root_content_id(&root, f->pointer.id, err);
    if (rc != LEAT_OK)
        return rc;
    memcpy(data + ROOT_ID_AT, f->pointer.id, sizeof f->pointer.id);
    leat_sha256(data, f->root.len, f->pointer.root);
    return LEAT_OK;
}

static leat_status write_root(const struct leat_root *from, uint64_t selected, struct leat_selection_files *f,
                              struct leat_error *err)
{
    uint32_t head = leat_get_u32(from->data + 12);
    uint32_t entry_bytes = leat_get_u32(from->data + 100);
    uint32_t kept = 0;
    struct leat_buf *out = &f->root;
    leat_buf_add(out, from->data, head);
    for (uint32_t i = 0; i < from->sections_n; i++) {
        if (from->sections[i].kind == LEAT_SECTION_SELECTION)
            continue;
        leat_buf_add(out, from->data + head + (size_t)i * entry_bytes, entry_bytes);
        kept++;
    }
    if (kept == LEAT_SECTIONS_MAX)
        return leat_fail(err, LEAT_LIMIT, "the snapshot has %u sections: there is no room for a selection", kept);
    add_entry(out, entry_bytes, f->section.len, f->section_name);
    const uint8_t *columns_end = from->names + (size_t)from->chunks * LEAT_SHA256_SIZE;
    leat_buf_add(out, from->packings, (size_t)(columns_end - from->packings));
    for (uint32_t i = 0; i < from->sections_n; i++) {
        const struct leat_section *s = &from->sections[i];
        if (s->kind != LEAT_SECTION_SELECTION)
            leat_buf_add(out, s->digests, (size_t)s->blocks * ROOT_DIGEST);
    }
    add_digests(out, &f->section, from->block_bytes);
    return finish_root(f, selected, kept + 1, err);
}

leat_status leat_selection_write(const struct leat_selection_builder *b, struct leat_selection_files *out,
                                 struct leat_error *err)
{
    uint64_t selected = leat_selection_total(b);
    *out = (struct leat_selection_files){0};
    leat_buf_init(&out->section, (size_t)leat_selection_most(b->root));
    leat_buf_init(&out->root, LEAT_ROOT_MAX);
    if (selected == 0)
        return leat_fail(err, LEAT_INVALID, "no sample is selected");
    leat_status rc = write_section(b, &out->section, err);
    if (rc != LEAT_OK)
        return rc;
    leat_sha256(out->section.data, out->section.len, out->section_name);
    return write_root(b->root, selected, out, err);
}

void leat_selection_files_free(struct leat_selection_files *f)
{
    leat_buf_free(&f->section);
    leat_buf_free(&f->root);
}
