#include "dataset/add.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/slice.h"
#include "dataset/sources.h"

#define MEMORY_DEFAULT ((size_t)64 << 20)
#define MEMORY_LEAST   ((size_t)1 << 20)
#define PACKINGS_MAX   1000u /* each may take a temporary file */

/* Keys as a chunk has them: ends count from the first key, in 4 bytes. */
static leat_status gather_keys(const struct leat_slice *slice, struct leat_chunk *c, uint8_t **out,
                               struct leat_error *err)
{
    size_t n = slice->samples;
    uint8_t *ends = malloc(4 * n + 1);
    uint32_t at = 0;
    if (!ends)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the keys of %zu samples", n);
    for (uint32_t i = 0; i < slice->samples; i++) {
        size_t key_n;
        const char *key = leat_slice_key(slice, i, &key_n);
        if (i == 0)
            c->keys = (const uint8_t *)key;
        at += (uint32_t)key_n; /* a slice has no more keys than a chunk could have */
        leat_put_u32(ends + 4 * (size_t)i, at);
    }
    c->key_ends = ends;
    *out = ends;
    return LEAT_OK;
}

static leat_status add_chunk(struct leat_dataset *d, const struct leat_packing *p, uint32_t chunk, uint32_t number,
                             struct leat_snapshot *to, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    struct leat_slice slice = {0};
    uint8_t *ends = NULL;
    uint8_t *recipe = NULL;
    uint32_t recipe_n = 0;
    struct leat_chunk c = {.size = root->sizes[chunk],
                           .number = number,
                           .total = p->chunks,
                           .samples = root->counts[chunk],
                           .schema = root->schema};
    memcpy(c.pack, p->pack, sizeof c.pack);
    leat_status rc = leat_slice_open(d, chunk, LEAT_SLICE_ROWS | LEAT_SLICE_KEYS, &slice, err);
    if (rc == LEAT_OK)
        rc = gather_keys(&slice, &c, &ends, err);
    if (rc == LEAT_OK)
        rc = leat_dataset_recipe(d, chunk, &recipe, &recipe_n, err);
    if (rc == LEAT_OK) {
        c.rows = leat_slice_row(&slice, 0);
        rc = leat_snapshot_add_known(to, &c, leat_root_chunk_name(root, chunk), root->sums[chunk], recipe, recipe_n,
                                     err);
    }
    free(recipe);
    free(ends);
    leat_slice_close(&slice);
    return rc;
}

leat_status leat_add_sources(const struct leat_dataset *d, struct leat_snapshot *to, struct leat_error *err)
{
    const struct leat_sources_list *sources = leat_dataset_sources(d);
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; sources && rc == LEAT_OK && i < sources->n; i++) {
        uint32_t number;
        rc = leat_snapshot_source(to, sources->urls[i], &number, err);
    }
    return rc;
}

leat_status leat_add_load(struct leat_dataset *d, size_t memory, struct leat_add *out, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    struct leat_add a = {0};
    leat_status rc = LEAT_OK;
    uint32_t chunk = 0;
    if (root->packings_n > PACKINGS_MAX)
        return leat_fail(err, LEAT_LIMIT,
                         "%s was packed in %" PRIu32 " steps, and at most %u are possible: pack it again",
                         leat_dataset_home(d)->url, root->packings_n, PACKINGS_MAX);
    a.packings = calloc((size_t)root->packings_n + 1, sizeof(struct leat_snapshot *));
    if (!a.packings)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %" PRIu32 " packings", root->packings_n);
    memory = (memory ? memory : MEMORY_DEFAULT) / (root->packings_n ? root->packings_n : 1);
    for (uint32_t i = 0; rc == LEAT_OK && i < root->packings_n; i++) {
        struct leat_packing p = leat_root_packing(root, i);
        rc = leat_snapshot_open(p.chunks, memory < MEMORY_LEAST ? MEMORY_LEAST : memory, &a.packings[i], err);
        a.n += rc == LEAT_OK;
        if (rc == LEAT_OK)
            rc = leat_add_sources(d, a.packings[i], err);
        for (uint32_t k = 0; rc == LEAT_OK && k < p.chunks; k++)
            rc = add_chunk(d, &p, chunk++, k, a.packings[i], err);
    }
    if (rc != LEAT_OK) {
        leat_add_free(&a);
        return leat_fail_context(err, rc, "adding to %s", leat_dataset_home(d)->url);
    }
    *out = a;
    return LEAT_OK;
}

void leat_add_free(struct leat_add *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        leat_snapshot_close(a->packings[i]);
    free(a->packings);
    *a = (struct leat_add){0};
}

/* Which field is another, in words. False: none, so that it is something else. */
static bool say_difference(const struct leat_schema *old, const struct leat_schema *new, struct leat_buf *out)
{
    for (uint32_t f = 0; f < old->n && f < new->n; f++) {
        const struct leat_field *a = &old->fields[f];
        const struct leat_field *b = &new->fields[f];
        if (strcmp(a->name, b->name) != 0)
            leat_buf_printf(out, "field %" PRIu32 " is '%s' there and '%s' here (--field names it)", f + 1, a->name,
                            b->name);
        else if (a->type != b->type)
            leat_buf_printf(out, "'%s' is %s there and %s here", a->name, leat_field_type_name(a->type),
                            leat_field_type_name(b->type));
        else if (a->about_n != b->about_n || (a->about_n && memcmp(a->about, b->about, a->about_n) != 0))
            leat_buf_printf(out,
                            "'%s' has another description, such as other names of labels (--classes DATASET uses "
                            "the dataset's names)",
                            a->name);
        else if (a->encoding != b->encoding || a->needs != b->needs || a->flags != b->flags)
            leat_buf_printf(out, "'%s' is stored differently (optional, compressed)", a->name);
        else
            continue;
        return true;
    }
    if (old->n != new->n)
        leat_buf_printf(out, "it has %" PRIu32 " fields, and the new samples have %" PRIu32, old->n, new->n);
    return old->n != new->n;
}

leat_status leat_add_check(const struct leat_dataset *d, const struct leat_schema *schema, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    struct leat_buf encoded;
    struct leat_buf why;
    if (leat_root_is_selection(root))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "%s is a selection: add to the dataset that it was made from, and select again",
                         leat_dataset_home(d)->url);
    leat_buf_init(&encoded, LEAT_SCHEMA_MAX);
    leat_buf_init(&why, 400);
    leat_status rc = leat_schema_write(schema, &encoded, err);
    if (rc == LEAT_OK &&
        (encoded.len != root->schema.encoded_n || memcmp(encoded.data, root->schema.encoded, encoded.len) != 0)) {
        if (!say_difference(&root->schema, schema, &why))
            leat_buf_str(&why, "another release of Leat wrote its fields differently");
        rc = leat_fail(err, LEAT_INVALID, "these samples cannot be added to %s: %s", leat_dataset_home(d)->url,
                       why.data);
    }
    leat_buf_free(&why);
    leat_buf_free(&encoded);
    return rc;
}

leat_status leat_add_check_packing(const struct leat_dataset *d, const uint8_t pack[LEAT_PACK_ID_BYTES],
                                   struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    for (uint32_t i = 0; i < root->packings_n; i++) {
        struct leat_packing p = leat_root_packing(root, i);
        char hex[2 * LEAT_PACK_ID_BYTES + 1];
        if (memcmp(p.pack, pack, sizeof p.pack) != 0)
            continue;
        leat_hex(pack, LEAT_PACK_ID_BYTES, hex);
        return leat_fail(err, LEAT_EXISTS, "the same samples are in %s already (packing %s): nothing was added",
                         leat_dataset_home(d)->url, hex);
    }
    return LEAT_OK;
}
