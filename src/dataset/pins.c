#include "dataset/pins.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/url.h"
#include "dataset/recipe.h"

void leat_pins_add(struct leat_pins *pins, const struct leat_pieces *pieces, bool local, bool summed)
{
    enum leat_store_pin weakest = LEAT_STORE_PIN_ETAG;
    if (!pieces->n)
        return; /* all of the chunk is in its recipe */
    for (uint32_t i = 0; i < pieces->n; i++) {
        enum leat_store_pin pin = leat_store_pin(pieces->list[i].pin);
        pin = pin == LEAT_STORE_PIN_ETAG && local ? LEAT_STORE_PIN_DATE : pin;
        weakest = pin < weakest ? pin : weakest;
    }
    pins->etag += weakest == LEAT_STORE_PIN_ETAG;
    pins->date += weakest == LEAT_STORE_PIN_DATE;
    pins->checksum += weakest == LEAT_STORE_PIN_NONE && summed;
    pins->length += weakest == LEAT_STORE_PIN_NONE && !summed;
}

void leat_pins_sum(struct leat_pins *pins, const struct leat_pins *more)
{
    pins->etag += more->etag;
    pins->date += more->date;
    pins->checksum += more->checksum;
    pins->length += more->length;
}

static bool is_local(const struct leat_sources_list *sources, uint32_t source)
{
    struct leat_url url = {0};
    bool local = source < sources->n && leat_url_parse(sources->urls[source], &url, NULL) == LEAT_OK &&
                 leat_store_url_can(&url, LEAT_STORE_LOCAL);
    leat_url_free(&url);
    return local;
}

static leat_status count_chunk(struct leat_dataset *d, uint32_t chunk, struct leat_pins *out, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    struct leat_pieces pieces = {0};
    struct leat_recipe recipe;
    uint8_t *data;
    uint32_t n;
    leat_status rc = leat_dataset_recipe(d, chunk, &data, &n, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_recipe_read(data, n, &root->schema, &recipe, err);
    if (rc == LEAT_OK)
        rc = leat_recipe_pieces(&recipe, &pieces, err);
    if (rc == LEAT_OK)
        leat_pins_add(out, &pieces, is_local(leat_dataset_sources(d), recipe.source), root->sums[chunk] != 0);
    leat_pieces_free(&pieces);
    free(data);
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "the recipe of chunk %" PRIu32, chunk);
}

leat_status leat_pins_count(struct leat_dataset *d, uint64_t bytes_max, struct leat_pins *out, uint32_t *looked_at,
                            uint32_t *of, struct leat_error *err)
{
    struct leat_pins pins = {0};
    uint32_t chunks = leat_dataset_root(d)->chunks;
    uint64_t bytes = 0;
    uint32_t made = 0;
    uint32_t seen = 0;
    leat_status rc = LEAT_OK;
    for (uint32_t c = 0; c < chunks; c++) {
        bytes += leat_dataset_recipe_bytes(d, c);
        made += leat_dataset_recipe_bytes(d, c) != 0;
    }
    uint32_t step = bytes > bytes_max ? (uint32_t)(bytes / (bytes_max + 1)) + 1 : 1;
    for (uint32_t c = 0, i = 0; rc == LEAT_OK && c < chunks; c++) {
        if (!leat_dataset_recipe_bytes(d, c) || i++ % step)
            continue;
        rc = count_chunk(d, c, &pins, err);
        seen++;
    }
    if (rc != LEAT_OK)
        return rc;
    *out = pins;
    *looked_at = seen;
    *of = made;
    return LEAT_OK;
}
