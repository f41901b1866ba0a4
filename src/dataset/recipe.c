#include "dataset/recipe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/layout.h"

#define TEXT_MAX ((size_t)1 << 30) /* keys and pins of one recipe */

/* Building */

struct spot {
    uint64_t offset;
    uint64_t length;
    uint64_t object_bytes;
    uint32_t text_at; /* the key, then the pin */
    uint16_t key_n;
    uint16_t pin_n;
};

struct leat_recipe_builder {
    struct leat_chunk_builder *chunk;
    uint32_t schema_bytes;
    struct leat_buf spots; /* struct spot each */
    uint32_t spots_n;
    struct leat_buf text;
    uint64_t data_bytes;
};

leat_status leat_recipe_builder_open(const struct leat_schema *schema, struct leat_recipe_builder **out,
                                     struct leat_error *err)
{
    struct leat_buf encoded;
    leat_buf_init(&encoded, LEAT_SCHEMA_MAX);
    struct leat_recipe_builder *b = calloc(1, sizeof *b);
    leat_status rc =
        b ? leat_schema_write(schema, &encoded, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a recipe");
    if (rc == LEAT_OK) {
        b->schema_bytes = (uint32_t)encoded.len;
        leat_buf_init(&b->spots, LEAT_CHUNK_MAX);
        leat_buf_init(&b->text, TEXT_MAX);
        rc = leat_chunk_builder_open(schema, &b->chunk, err);
    }
    leat_buf_free(&encoded);
    if (rc != LEAT_OK) {
        leat_recipe_builder_close(b);
        return rc;
    }
    *out = b;
    return LEAT_OK;
}

void leat_recipe_builder_close(struct leat_recipe_builder *b)
{
    if (!b)
        return;
    leat_chunk_builder_close(b->chunk);
    leat_buf_free(&b->spots);
    leat_buf_free(&b->text);
    free(b);
}

static struct spot *last_spot(const struct leat_recipe_builder *b)
{
    return b->spots_n ? (struct spot *)(void *)b->spots.data + (b->spots_n - 1) : NULL;
}

static bool same_object(const struct leat_recipe_builder *b, const struct spot *s, const struct leat_recipe_place *p,
                        size_t key_n, size_t pin_n)
{
    const char *text = b->text.data + s->text_at;
    return s->object_bytes == p->object_bytes && s->key_n == key_n && s->pin_n == pin_n &&
           memcmp(text, p->key, key_n) == 0 && (pin_n == 0 || memcmp(text + key_n, p->pin, pin_n) == 0);
}

static leat_status check_place(const struct leat_recipe_place *p, size_t key_n, size_t pin_n, struct leat_error *err)
{
    if (key_n == 0 || key_n > UINT16_MAX || pin_n > UINT16_MAX)
        return leat_fail(err, LEAT_INVALID, "an object's key has 1 to %u bytes, '%.100s…' has %zu", UINT16_MAX, p->key,
                         key_n);
    if (p->offset > p->object_bytes || p->length > p->object_bytes - p->offset)
        return leat_fail(err, LEAT_INVALID,
                         "'%s' has %" PRIu64 " bytes, which does not include %" PRIu64 " of them from byte %" PRIu64
                         " on",
                         p->key, p->object_bytes, p->length, p->offset);
    return LEAT_OK;
}

/* Whether the last piece holds the place, or can be made longer so that it does: *more by how much. */
static bool continues(const struct spot *s, const struct leat_recipe_place *p, uint64_t *more)
{
    uint64_t end = s->offset + s->length;
    if (p->offset < s->offset || p->offset > end + LEAT_RECIPE_GAP)
        return false;
    *more = p->offset + p->length > end ? p->offset + p->length - end : 0;
    return true;
}

static void add_spot(struct leat_recipe_builder *b, const struct leat_recipe_place *p, const struct spot *same,
                     size_t key_n, size_t pin_n)
{
    struct spot s = {.offset = p->offset,
                     .length = p->length,
                     .object_bytes = p->object_bytes,
                     .text_at = same ? same->text_at : (uint32_t)b->text.len,
                     .key_n = (uint16_t)key_n,
                     .pin_n = (uint16_t)pin_n};
    if (!same) {
        leat_buf_add(&b->text, p->key, key_n);
        leat_buf_add(&b->text, p->pin, pin_n);
    }
    leat_buf_add(&b->spots, &s, sizeof s);
    b->spots_n++;
}

leat_status leat_recipe_place(struct leat_recipe_builder *b, const struct leat_recipe_place *p, uint64_t *at,
                              struct leat_error *err)
{
    size_t key_n = strlen(p->key);
    size_t pin_n = p->pin ? strlen(p->pin) : 0;
    struct spot *last = last_spot(b);
    uint64_t more = p->length;
    leat_status rc = check_place(p, key_n, pin_n, err);
    if (rc != LEAT_OK)
        return rc;
    if (last && !same_object(b, last, p, key_n, pin_n))
        last = NULL;
    bool longer = last && continues(last, p, &more);
    if (b->data_bytes + more > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_LIMIT, "a chunk holds less than 4 GiB: with %" PRIu64 " bytes of '%s' it has more",
                         more, p->key);
    *at = longer ? b->data_bytes - last->length + (p->offset - last->offset) : b->data_bytes;
    if (longer)
        last->length += more;
    else if (p->length) /* an empty value needs no bytes */
        add_spot(b, p, last, key_n, pin_n);
    else
        more = 0;
    b->data_bytes += more;
    rc = leat_buf_check(&b->text, "the keys of a recipe", err);
    return rc == LEAT_OK ? leat_buf_check(&b->spots, "the pieces of a recipe", err) : rc;
}

leat_status leat_recipe_add(struct leat_recipe_builder *b, const void *key, size_t key_n,
                            const struct leat_value *values, struct leat_error *err)
{
    uint64_t size = layout_padded(leat_chunk_builder_size_with(b->chunk, key_n, values)) + b->data_bytes;
    if (size > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_LIMIT, "a chunk holds less than 4 GiB, with this sample it has %" PRIu64 " bytes",
                         size);
    return leat_chunk_builder_add(b->chunk, key, key_n, values, err);
}

uint32_t leat_recipe_samples(const struct leat_recipe_builder *b)
{
    return leat_chunk_builder_samples(b->chunk);
}

uint64_t leat_recipe_size(const struct leat_recipe_builder *b)
{
    return leat_chunk_builder_lead(b->chunk) + b->data_bytes;
}

static void add_entries(const struct leat_recipe_builder *b, struct leat_buf *out)
{
    for (uint32_t i = 0; i < b->spots_n; i++) {
        const struct spot *s = (const struct spot *)(const void *)b->spots.data + i;
        uint8_t entry[RECIPE_PIECE] = {0};
        struct leat_writer w = leat_writer(entry, sizeof entry);
        leat_write_u64(&w, s->offset);
        leat_write_u64(&w, s->object_bytes);
        leat_write_u32(&w, (uint32_t)s->length);
        leat_write_u32(&w, s->text_at);
        leat_write_u16(&w, s->key_n);
        leat_write_u16(&w, s->pin_n);
        leat_buf_add(out, entry, sizeof entry);
    }
}

static void write_head(const struct leat_recipe_builder *b, uint32_t source, size_t lead_bytes, struct leat_buf *out)
{
    struct leat_writer w = leat_writer(out->data, RECIPE_HEAD);
    layout_write_head(&w, RECIPE_MAGIC, RECIPE_HEAD, out->len);
    leat_write_u32(&w, source);
    leat_write_u32(&w, b->spots_n);
    leat_write_u32(&w, RECIPE_PIECE);
    leat_write_u32(&w, (uint32_t)lead_bytes);
    leat_write_u64(&w, b->data_bytes);
    leat_write_u32(&w, (uint32_t)b->text.len);
}

leat_status leat_recipe_finish(struct leat_recipe_builder *b, uint32_t source, const uint8_t pack[LEAT_PACK_ID_BYTES],
                               uint32_t number, uint32_t total, struct leat_buf *out, uint64_t *size,
                               struct leat_error *err)
{
    static const uint8_t zeros[RECIPE_HEAD];
    struct leat_buf lead;
    leat_buf_init(&lead, LEAT_CHUNK_MAX);
    leat_status rc = b->text.failed || b->spots.failed
                         ? leat_fail(err, LEAT_NO_MEMORY, "no memory for a recipe")
                         : leat_chunk_builder_finish_lead(b->chunk, b->data_bytes, pack, number, total, &lead, err);
    if (rc == LEAT_OK) {
        leat_buf_clear(out);
        leat_buf_add(out, zeros, RECIPE_HEAD);
        leat_buf_add(out, lead.data, LEAT_CHUNK_HEAD);
        size_t schema_end = LEAT_CHUNK_HEAD + b->schema_bytes;
        leat_buf_add(out, lead.data + schema_end, lead.len - schema_end);
        add_entries(b, out);
        leat_buf_add(out, b->text.data, b->text.len);
        leat_buf_add(out, zeros, layout_padded(out->len) - out->len);
        rc = leat_buf_check(out, "a recipe", err);
    }
    if (rc == LEAT_OK) {
        write_head(b, source, lead.len, out);
        *size = lead.len + b->data_bytes;
        leat_buf_clear(&b->spots);
        leat_buf_clear(&b->text);
        b->spots_n = 0;
        b->data_bytes = 0;
    }
    leat_buf_free(&lead);
    return rc;
}

/* Reading */

static leat_status corrupt(struct leat_error *err, const char *what, size_t at)
{
    return leat_fail(err, LEAT_CORRUPT, "the recipe is damaged: %s (byte %zu)", what, at);
}

struct entry {
    uint64_t offset;
    uint64_t object_bytes;
    uint32_t length;
    uint32_t text_at;
    uint16_t key_n;
    uint16_t pin_n;
};

static struct entry get_entry(const struct leat_recipe *r, uint32_t i)
{
    struct leat_reader in = leat_reader(r->pieces + (size_t)i * r->piece_bytes, r->piece_bytes);
    return (struct entry){.offset = leat_read_u64(&in),
                          .object_bytes = leat_read_u64(&in),
                          .length = leat_read_u32(&in),
                          .text_at = leat_read_u32(&in),
                          .key_n = leat_read_u16(&in),
                          .pin_n = leat_read_u16(&in)};
}

static leat_status check_pieces(const struct leat_recipe *r, struct leat_error *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->pieces_n; i++) {
        struct entry e = get_entry(r, i);
        size_t at = (size_t)(r->pieces - r->data) + (size_t)i * r->piece_bytes;
        size_t text_n = (size_t)e.key_n + e.pin_n;
        if (e.length == 0 || e.offset > e.object_bytes || e.length > e.object_bytes - e.offset)
            return corrupt(err, "a piece that its object does not hold", at);
        if (e.text_at > r->text_bytes || text_n > r->text_bytes - e.text_at || e.key_n == 0 ||
            memchr(r->text + e.text_at, 0, text_n))
            return corrupt(err, "a piece without a key, or with an impossible one", at);
        sum += e.length;
    }
    if (sum != r->data_bytes)
        return corrupt(err, "its pieces have other bytes than it says", 56);
    return LEAT_OK;
}

/* What the chunk's head must say for the lead to be written from it; the rest is checked with the chunk. */
static leat_status check_lead(struct leat_recipe *r, const struct leat_schema *schema, struct leat_error *err)
{
    uint64_t size = r->lead_bytes + r->data_bytes;
    const uint8_t *head = r->lead;
    r->chunk_head = leat_get_u32(head + 12);
    r->samples = leat_get_u32(head + 40);
    if (memcmp(head, CHUNK_MAGIC, 8) != 0 || size > LEAT_CHUNK_MAX || leat_get_u64(head + 16) != size ||
        leat_get_u32(head + CHUNK_LEAD_AT) != r->lead_bytes)
        return corrupt(err, "the chunk's head has other sizes", (size_t)(head - r->data));
    if (r->chunk_head < LEAT_CHUNK_HEAD || r->chunk_head > r->lead_bytes - schema->encoded_n)
        return corrupt(err, "the chunk's head is too long", (size_t)(head - r->data) + 12);
    if (leat_get_u32(head + 44) != schema->encoded_n)
        return corrupt(err, "another schema than the snapshot's", (size_t)(head - r->data) + 44);
    return LEAT_OK;
}

leat_status leat_recipe_read(const void *data, size_t n, const struct leat_schema *schema, struct leat_recipe *out,
                             struct leat_error *err)
{
    struct leat_reader in = leat_reader(data, n);
    struct leat_recipe r = {.data = data, .size = n};
    struct layout_head h;
    if (!schema->encoded)
        return leat_fail(err, LEAT_INTERNAL, "a recipe needs a schema that was read before");
    leat_status rc = layout_read_head(&in, RECIPE_MAGIC, "a recipe", RECIPE_HEAD, &h, err);
    if (rc == LEAT_OK)
        rc = layout_check_needs(h.needs, RECIPE_NEEDS, "the recipe", err);
    if (rc != LEAT_OK)
        return rc;
    r.source = leat_read_u32(&in);
    r.pieces_n = leat_read_u32(&in);
    r.piece_bytes = leat_read_u32(&in);
    r.lead_bytes = leat_read_u32(&in);
    r.data_bytes = leat_read_u64(&in);
    r.text_bytes = leat_read_u32(&in);
    leat_read_bytes(&in, h.bytes - in.at); /* what this Leat does not know */
    if (r.piece_bytes < RECIPE_PIECE || r.piece_bytes % 8)
        return corrupt(err, "the size of a piece's entry", 48);
    if (r.lead_bytes % 8 || r.lead_bytes < (uint64_t)LEAT_CHUNK_HEAD + schema->encoded_n ||
        r.data_bytes > LEAT_CHUNK_MAX)
        return corrupt(err, "the size of the chunk", 52);
    r.lead = leat_read_bytes(&in, (size_t)r.lead_bytes - schema->encoded_n);
    /* The product has less than 64 bits. */
    bool room = (uint64_t)r.pieces_n * r.piece_bytes <= leat_reader_left(&in);
    r.pieces = room ? leat_read_bytes(&in, (size_t)r.pieces_n * r.piece_bytes) : NULL;
    r.text = room ? (const char *)leat_read_bytes(&in, r.text_bytes) : NULL;
    if (in.bad || !room)
        return corrupt(err, "it has no room for what it says", in.at);
    rc = check_lead(&r, schema, err);
    if (rc == LEAT_OK)
        rc = check_pieces(&r, err);
    if (rc == LEAT_OK)
        *out = r;
    return rc;
}

void leat_recipe_lead(const struct leat_recipe *r, const struct leat_schema *schema, void *into)
{
    uint8_t *to = into;
    memcpy(to, r->lead, r->chunk_head);
    memcpy(to + r->chunk_head, schema->encoded, schema->encoded_n);
    memcpy(to + r->chunk_head + schema->encoded_n, r->lead + r->chunk_head,
           (size_t)r->lead_bytes - schema->encoded_n - r->chunk_head);
}

static char *put_text(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    to[n] = '\0';
    return to + n + 1;
}

leat_status leat_recipe_pieces(const struct leat_recipe *r, struct leat_pieces *out, struct leat_error *err)
{
    size_t text_n = 0;
    for (uint32_t i = 0; i < r->pieces_n; i++) {
        struct entry e = get_entry(r, i);
        text_n += (size_t)e.key_n + e.pin_n + 2;
    }
    struct leat_piece *list = malloc((size_t)r->pieces_n * sizeof *list + text_n + 1);
    if (!list)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %" PRIu32 " pieces", r->pieces_n);
    char *text = (char *)(list + r->pieces_n);
    for (uint32_t i = 0; i < r->pieces_n; i++) {
        struct entry e = get_entry(r, i);
        list[i] =
            (struct leat_piece){.key = text, .offset = e.offset, .length = e.length, .object_bytes = e.object_bytes};
        text = put_text(text, r->text + e.text_at, e.key_n);
        list[i].pin = e.pin_n ? text : NULL;
        text = put_text(text, r->text + e.text_at + e.key_n, e.pin_n);
    }
    *out = (struct leat_pieces){.list = list, .n = r->pieces_n, .bytes = r->data_bytes};
    return LEAT_OK;
}
