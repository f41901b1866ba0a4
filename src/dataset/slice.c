#include "dataset/slice.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"

static leat_status take(struct leat_slice *s, enum leat_section_kind kind, uint64_t at, uint64_t n, uint8_t **out,
                        struct leat_error *err)
{
    /* What stands in the chunk, too, cannot be larger than the chunk. Ends have 8 bytes here and 4 there. */
    if (n > 2 * (uint64_t)leat_dataset_root(s->dataset)->sizes[s->chunk])
        return leat_fail(err, LEAT_CORRUPT, "chunk %" PRIu32 " has more rows or keys than bytes", s->chunk);
    uint8_t *data = malloc((size_t)n + 1);
    if (!data)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the tables of %" PRIu32 " samples", s->samples);
    leat_status rc = n ? leat_dataset_read(s->dataset, kind, at, data, (size_t)n, err) : LEAT_OK;
    if (rc != LEAT_OK) {
        free(data);
        return rc;
    }
    *out = data;
    return LEAT_OK;
}

static leat_status take_keys(struct leat_slice *s, struct leat_error *err)
{
    uint8_t before[8] = {0};
    uint64_t all = leat_dataset_root(s->dataset)->samples;
    leat_status rc = take(s, LEAT_SECTION_KEYS, s->first * 8, (uint64_t)s->samples * 8, &s->ends, err);
    if (rc == LEAT_OK && s->first)
        rc = leat_dataset_read(s->dataset, LEAT_SECTION_KEYS, (s->first - 1) * 8, before, 8, err);
    if (rc != LEAT_OK)
        return rc;
    s->keys_at = leat_get_u64(before);
    uint64_t at = s->keys_at;
    for (uint32_t i = 0; i < s->samples; i++) {
        uint64_t end = leat_get_u64(s->ends + 8 * (size_t)i);
        if (end < at || end - at > LEAT_KEY_MAX)
            return leat_fail(err, LEAT_CORRUPT, "the key of sample %" PRIu64 " lies outside its section", s->first + i);
        at = end;
    }
    return take(s, LEAT_SECTION_KEYS, all * 24 + s->keys_at, at - s->keys_at, &s->keys, err);
}

static bool has_section(const struct leat_root *root, enum leat_section_kind kind)
{
    const struct leat_section *section = leat_root_section(root, kind);
    return section && leat_section_check(section, NULL) == LEAT_OK;
}

leat_status leat_slice_open(struct leat_dataset *d, uint32_t chunk, unsigned wanted, struct leat_slice *out,
                            struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    const struct leat_chunk *c;
    struct leat_slice s = {
        .dataset = d, .chunk = chunk, .samples = root->counts[chunk], .first = leat_dataset_first(d, chunk)};
    bool rows = wanted & LEAT_SLICE_ROWS;
    bool keys = wanted & LEAT_SLICE_KEYS;
    leat_status rc = LEAT_OK;
    if ((rows && !has_section(root, LEAT_SECTION_SAMPLES)) || (keys && !has_section(root, LEAT_SECTION_KEYS)))
        rc = leat_slice_load(&s, &c, err);
    if (rc == LEAT_OK && rows && !s.data)
        rc = take(&s, LEAT_SECTION_SAMPLES, s.first * root->schema.row_bytes,
                  (uint64_t)s.samples * root->schema.row_bytes, &s.rows, err);
    if (rc == LEAT_OK && keys && !s.data)
        rc = take_keys(&s, err);
    if (rc != LEAT_OK) {
        leat_slice_close(&s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

void leat_slice_close(struct leat_slice *s)
{
    free(s->rows);
    free(s->ends);
    free(s->keys);
    free(s->data);
    *s = (struct leat_slice){0};
}

const uint8_t *leat_slice_row(const struct leat_slice *s, uint32_t i)
{
    if (!s->rows)
        return leat_chunk_row(&s->loaded, i);
    return s->rows + (size_t)i * leat_dataset_root(s->dataset)->schema.row_bytes;
}

const char *leat_slice_key(const struct leat_slice *s, uint32_t i, size_t *n)
{
    if (!s->keys)
        return leat_chunk_key(&s->loaded, i, n);
    uint64_t start = i ? leat_get_u64(s->ends + 8 * (size_t)(i - 1)) : s->keys_at;
    *n = (size_t)(leat_get_u64(s->ends + 8 * (size_t)i) - start);
    return (const char *)s->keys + (start - s->keys_at);
}

leat_status leat_slice_load(struct leat_slice *s, const struct leat_chunk **out, struct leat_error *err)
{
    leat_status rc = s->data ? LEAT_OK : leat_dataset_load(s->dataset, s->chunk, &s->data, &s->loaded, err);
    if (rc == LEAT_OK)
        *out = &s->loaded;
    return rc;
}
