/* Any bytes as a snapshot's root: everything it points to lies inside it, and writing it again keeps the content id. */
#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/root.h"

#include "fuzz.h"

static void walk(const struct leat_root *r)
{
    uint64_t sum = leat_xxh3(r->id, LEAT_SHA256_SIZE);
    uint64_t chunks = 0;
    struct leat_error err;
    for (uint32_t c = 0; c < r->chunks; c++) {
        sum += r->counts[c] + r->sizes[c] + r->sums[c] + leat_xxh3(leat_root_chunk_name(r, c), LEAT_SHA256_SIZE);
        leat_root_check_chunk(r, c, r->data, r->size, &err);
    }
    for (uint32_t p = 0; p < r->packings_n; p++)
        chunks += leat_root_packing(r, p).chunks;
    PROMISE(chunks == r->chunks);
    for (uint32_t s = 0; s < r->sections_n; s++) {
        const struct leat_section *section = &r->sections[s];
        fuzz_check_error(leat_section_check(section, &err), &err);
        sum += leat_xxh3(section->name, LEAT_SHA256_SIZE);
        for (uint64_t b = 0; b < section->blocks; b++)
            leat_root_check_block(r, section, b, r->data, r->size, &err);
    }
    for (uint32_t f = 0; f < r->schema.n; f++) {
        const struct leat_field *field = &r->schema.fields[f];
        PROMISE(field->cell_at + field->cell_bytes <= r->schema.row_bytes);
        fuzz_check_error(leat_field_check(field, &err), &err);
        sum += leat_xxh3(field->about, field->about_n);
    }
    fuzz_use(sum);
}

/* The same content in the root that this release would write, without the sections. */
static void write_again(const struct leat_root *r, const uint8_t id[LEAT_SHA256_SIZE])
{
    struct leat_root again;
    struct leat_buf out;
    struct leat_error err;
    struct leat_root_chunk *chunks = calloc((size_t)r->chunks + 1, sizeof *chunks);
    struct leat_packing *packings = calloc((size_t)r->packings_n + 1, sizeof *packings);
    PROMISE(chunks && packings);
    for (uint32_t c = 0; c < r->chunks; c++) {
        chunks[c] = (struct leat_root_chunk){.samples = r->counts[c], .size = r->sizes[c], .sum = r->sums[c]};
        memcpy(chunks[c].name, leat_root_chunk_name(r, c), LEAT_SHA256_SIZE);
    }
    for (uint32_t p = 0; p < r->packings_n; p++)
        packings[p] = leat_root_packing(r, p);
    struct leat_root_parts parts = {.schema = &r->schema,
                                    .packings = packings,
                                    .packings_n = r->packings_n,
                                    .chunks = chunks,
                                    .chunks_n = r->chunks};
    leat_buf_init(&out, LEAT_ROOT_MAX);
    PROMISE(leat_root_write(&parts, &out, &err) == LEAT_OK);
    PROMISE(leat_root_read(out.data, out.len, &again, &err) == LEAT_OK);
    PROMISE(memcmp(again.id, id, LEAT_SHA256_SIZE) == 0);
    leat_buf_free(&out);
    free(packings);
    free(chunks);
}

static void read_root(uint8_t *data, size_t n)
{
    struct leat_root r;
    struct leat_root whole;
    struct leat_root_peek peek;
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    leat_status rc = leat_root_map(data, n, &r, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK) {
        PROMISE(leat_root_read(data, n, &whole, &err) == rc);
        return;
    }
    walk(&r);
    PROMISE(leat_root_content_id(&r, id, &err) == LEAT_OK);
    bool same = memcmp(id, r.id, sizeof id) == 0;
    PROMISE(leat_root_read(data, n, &whole, &err) == (same ? LEAT_OK : LEAT_CORRUPT));
    memcpy(data + 64, id, sizeof id);
    PROMISE(leat_root_read(data, n, &whole, &err) == LEAT_OK);
    PROMISE(leat_root_peek(data, LEAT_ROOT_PEEK, &peek, &err) == LEAT_OK);
    PROMISE(memcmp(peek.id, id, sizeof id) == 0 && peek.samples == r.samples && peek.size == n);
    write_again(&whole, id);
}

FUZZ(root)
{
    uint8_t *copy = malloc(size ? size : 1); /* aligned, as a root must be */
    PROMISE(copy);
    memcpy(copy, data, size);
    read_root(copy, size);
    if (size >= 24 && leat_get_u64(data + 16) != size) { /* an honest length gets further */
        leat_put_u64(copy + 16, size);
        read_root(copy, size);
    }
    free(copy);
}
