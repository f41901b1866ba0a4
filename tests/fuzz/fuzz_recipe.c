/* Any bytes as a recipe and as a list of sources: what is read can be followed without leaving the bytes, the lead it
 * makes is a chunk's or is refused, and the pieces are as long as it says. */
#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/layout.h"
#include "dataset/recipe.h"
#include "dataset/sources.h"

#include "fuzz.h"

#define LEAD_MAX (4u << 20) /* a lead that is written and read */

/* The fields of the golden index, as they are read. */
static struct leat_schema read_schema(struct leat_buf *bytes)
{
    struct leat_schema made = {0};
    struct leat_schema schema;
    struct leat_error err;
    PROMISE(leat_schema_add(&made, "jpg", LEAT_FIELD_IMAGE, NULL, &err) == LEAT_OK);
    PROMISE(leat_schema_add(&made, "cls", LEAT_FIELD_INT, NULL, &err) == LEAT_OK);
    PROMISE(leat_schema_add(&made, "caption", LEAT_FIELD_STRING, NULL, &err) == LEAT_OK);
    made.fields[2].needs = LEAT_FIELD_OPTIONAL;
    leat_buf_init(bytes, LEAT_SCHEMA_MAX);
    PROMISE(leat_schema_write(&made, bytes, &err) == LEAT_OK);
    PROMISE(leat_schema_read(bytes->data, bytes->len, &schema, &err) == LEAT_OK);
    return schema;
}

static void read_lead(const struct leat_recipe *r, const struct leat_schema *schema)
{
    struct leat_chunk c;
    struct leat_error err;
    uint64_t sum = 0;
    uint8_t *lead = malloc((size_t)r->lead_bytes);
    PROMISE(lead);
    leat_recipe_lead(r, schema, lead);
    leat_status rc = leat_chunk_read_lead(lead, (size_t)r->lead_bytes, &c, &err);
    fuzz_check_error(rc, &err);
    for (uint32_t i = 0; rc == LEAT_OK && i < c.samples; i++) {
        size_t n;
        const char *key = leat_chunk_key(&c, i, &n);
        sum += leat_xxh3(key, n) + leat_xxh3(leat_chunk_row(&c, i), c.schema.row_bytes);
        PROMISE((const uint8_t *)key + n <= lead + r->lead_bytes);
    }
    if (rc == LEAT_OK) {
        PROMISE(c.samples == r->samples && c.size == r->lead_bytes + r->data_bytes);
        PROMISE(c.schema.encoded_n == schema->encoded_n);
    }
    fuzz_use(sum);
    free(lead);
}

static void read_recipe(const uint8_t *data, size_t n, const struct leat_schema *schema)
{
    struct leat_recipe r;
    struct leat_pieces pieces;
    struct leat_error err;
    uint64_t bytes = 0;
    leat_status rc = leat_recipe_read(data, n, schema, &r, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK)
        return;
    PROMISE(r.lead_bytes <= n + schema->encoded_n && r.lead_bytes + r.data_bytes <= LEAT_CHUNK_MAX);
    PROMISE(leat_recipe_pieces(&r, &pieces, &err) == LEAT_OK);
    for (uint32_t i = 0; i < pieces.n; i++) {
        const struct leat_piece *p = &pieces.list[i];
        PROMISE(p->key[0] && (!p->pin || p->pin[0]));
        PROMISE(p->length && p->offset <= p->object_bytes && p->length <= p->object_bytes - p->offset);
        bytes += p->length;
    }
    PROMISE(bytes == pieces.bytes && bytes == r.data_bytes);
    leat_pieces_free(&pieces);
    if (r.lead_bytes <= LEAD_MAX)
        read_lead(&r, schema);
}

/* What is read is written as a list that reads the same. */
static void read_sources(const uint8_t *data, size_t n)
{
    struct leat_sources_list list;
    struct leat_sources_list again;
    struct leat_buf bytes;
    struct leat_error err;
    leat_status rc = leat_sources_list_read(data, n, &list, &err);
    fuzz_check_error(rc, &err);
    leat_buf_init(&bytes, LEAT_SOURCES_BYTES);
    if (rc == LEAT_OK && leat_sources_list_write(&list, &bytes, &err) == LEAT_OK) {
        PROMISE(leat_sources_list_read(bytes.data, bytes.len, &again, &err) == LEAT_OK && again.n == list.n);
        for (uint32_t i = 0; i < list.n; i++)
            PROMISE(strcmp(list.urls[i], again.urls[i]) == 0);
        leat_sources_list_free(&again);
    }
    leat_buf_free(&bytes);
    leat_sources_list_free(&list);
}

FUZZ(recipe)
{
    struct leat_buf bytes;
    struct leat_schema schema = read_schema(&bytes);
    uint8_t *copy = malloc(size + 1); /* of exactly its size, so that reading past its end is seen */
    PROMISE(copy);
    uint8_t *at = copy + 1;
    memcpy(at, data, size);
    read_recipe(at, size, &schema);
    read_sources(at, size);
    uint32_t head = size > RECIPE_HEAD ? leat_get_u32(at + 12) : 0;
    if (head >= RECIPE_HEAD && head < size &&
        size - head > LEAT_CHUNK_HEAD) { /* with an honest checksum, which gets further */
        leat_put_u64(at + 16, size);
        leat_put_u32(at + head + LEAT_CHUNK_HEAD - 4, leat_crc32c(0, at + head, LEAT_CHUNK_HEAD - 4));
        read_recipe(at, size, &schema);
    }
    free(copy);
    leat_buf_free(&bytes);
}
