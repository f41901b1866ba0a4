#include "dataset/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/json.h"
#include "dataset/view_impl.h"

/* The field */

static void list_fields(const struct leat_schema *schema, bool tokens, char *out, size_t n)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < schema->n && at < n; i++) {
        const struct leat_field *f = &schema->fields[i];
        if (!tokens)
            at +=
                (size_t)snprintf(out + at, n - at, "%s%s (%s)", at ? ", " : "", f->name, leat_field_type_name(f->type));
        else if (f->type == LEAT_FIELD_TOKENS)
            at += (size_t)snprintf(out + at, n - at, "%s%s", at ? ", " : "", f->name);
    }
}

static leat_status find_field(struct leat_view *v, const struct leat_schema *schema, struct leat_error *err)
{
    char list[200];
    uint32_t found = 0;
    for (uint32_t i = 0; i < schema->n; i++) {
        if (schema->fields[i].type != LEAT_FIELD_TOKENS)
            continue;
        found++;
        if (!v->text.field[0] || strcmp(v->text.field, schema->fields[i].name) == 0)
            v->field = &schema->fields[v->field_number = i];
    }
    list_fields(schema, found > 0, list, sizeof list);
    if (found == 0)
        return leat_fail(err, LEAT_INVALID,
                         "view: blocks= needs a field of tokens, and the dataset has none; it has: %s", list);
    if (!v->field)
        return leat_fail(err, LEAT_INVALID, "view: the dataset has no field of tokens '%s'; it has: %s", v->text.field,
                         list);
    if (found > 1 && !v->text.field[0])
        return leat_fail(err, LEAT_INVALID, "view: the dataset has %u fields of tokens: name one with field= (%s)",
                         found, list);
    if (found == 1)
        v->text.field[0] = '\0'; /* the same view, whatever names it */
    return leat_field_check(v->field, err);
}

/* What the field's description says of chunks: {"dtype": "uint16", "stretch": 4194304, "overlap": 1}. */
static leat_status read_about(struct leat_view *v, struct leat_error *err)
{
    const struct leat_field *f = v->field;
    json_t *about = NULL;
    v->token_bytes = leat_dtype_bytes(f->dtype);
    if (!v->token_bytes || leat_dtype_is_float(f->dtype))
        return leat_fail(err, LEAT_VERSION, "field '%s' has tokens of a type that this Leat does not know", f->name);
    if (f->encoding != LEAT_ENCODING_PLAIN)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "view: the tokens of field '%s' are compressed, and blocks are cut from plain ones only: pack "
                         "them without compression",
                         f->name);
    leat_status rc = f->about_n ? leat_json_read(f->about, f->about_n, 0, &about, NULL) : LEAT_OK;
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "the description of field '%s' cannot be read", f->name);
    const json_t *stretch = json_object_get(about, "stretch");
    json_int_t overlap = json_integer_value(json_object_get(about, "overlap"));
    json_int_t most = json_integer_value(stretch);
    v->stretch = (json_is_true(stretch) || most > 0) && !(f->needs & LEAT_FIELD_OPTIONAL);
    v->overlap = overlap > 0 && overlap <= LEAT_VIEW_TOKENS_MAX ? (uint32_t)overlap : 0;
    v->stretch_tokens = most > 0 ? (uint64_t)most : 0;
    json_decref(about);
    return LEAT_OK;
}

/* Lengths */

static leat_status fail_chunk(const struct leat_view *v, uint32_t chunk, const char *what, struct leat_error *err)
{
    return leat_fail(err, LEAT_CORRUPT, "chunk %" PRIu32 ", field '%s': %s", chunk, v->field->name, what);
}

static const uint8_t *row_of(const struct leat_view *v, const uint8_t *rows, uint32_t i)
{
    return rows + (size_t)i * leat_dataset_root(v->dataset)->schema.row_bytes;
}

/* The stretch goes from its first sample to the end of the chunk. Whether its last tokens are the next chunk's too
 * shows in its length: only whole stretches go on. */
static leat_status measure_stretch(const struct leat_view *v, uint32_t chunk, const uint8_t *rows, uint64_t bytes,
                                   struct leat_view_span *out, struct leat_error *err)
{
    struct leat_cell first = leat_cell_read(v->field, rows);
    if (first.offset > bytes || (bytes - first.offset) % v->token_bytes)
        return fail_chunk(v, chunk, "its tokens do not end where the chunk does", err);
    uint64_t tokens = (bytes - first.offset) / v->token_bytes;
    uint64_t own = tokens > v->overlap ? tokens - v->overlap : 0;
    bool goes_on = v->overlap && own && (v->stretch_tokens ? own == v->stretch_tokens : (own & (own - 1)) == 0);
    *out = (struct leat_view_span){.at = first.offset, .tokens = tokens, .own = goes_on ? own : tokens};
    return LEAT_OK;
}

leat_status leat_view_limit(const struct leat_view *v, uint32_t chunk, const uint8_t *rows, uint64_t bytes,
                            uint64_t *out, struct leat_error *err)
{
    struct leat_view_span span = {0};
    if (!v->stretch) {
        *out = bytes;
        return LEAT_OK;
    }
    leat_status rc = measure_stretch(v, chunk, rows, bytes, &span, err);
    if (rc == LEAT_OK)
        *out = span.at + span.own * v->token_bytes;
    return rc;
}

leat_status leat_view_lengths(const struct leat_view *v, uint32_t chunk, const uint8_t *rows, uint64_t bytes,
                              uint32_t *out, struct leat_error *err)
{
    uint32_t n = leat_dataset_counts(v->dataset)[chunk];
    uint64_t sum = 0;
    uint64_t end;
    leat_status rc = leat_view_limit(v, chunk, rows, bytes, &end, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = v->selection ? leat_dataset_index(v->dataset, chunk, i) : i;
        struct leat_cell cell = leat_cell_read(v->field, row_of(v, rows, index));
        uint64_t size = cell.absent ? 0 : cell.size;
        if (size % v->token_bytes || (size && cell.offset > end))
            return fail_chunk(v, chunk, "a sample ends inside a token, or outside of its stretch", err);
        size = size < end - cell.offset ? size : end - cell.offset;
        out[i] = (uint32_t)(size / v->token_bytes);
        sum += out[i];
        if (sum > UINT32_MAX)
            return fail_chunk(v, chunk, "samples have more tokens than a chunk can hold", err);
    }
    return LEAT_OK;
}

leat_status leat_view_measure(const struct leat_view *v, uint32_t chunk, const uint8_t *rows, uint64_t bytes,
                              struct leat_view_span *out, struct leat_error *err)
{
    uint32_t n = leat_dataset_counts(v->dataset)[chunk];
    struct leat_view_span span = {0};
    if (v->stretch && !v->selection)
        return measure_stretch(v, chunk, rows, bytes, out, err);
    uint32_t *lengths = malloc(((size_t)n + 1) * sizeof *lengths);
    if (!lengths)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to count the tokens of %u samples", n);
    leat_status rc = leat_view_lengths(v, chunk, rows, bytes, lengths, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++)
        span.own = span.tokens += lengths[i];
    free(lengths);
    if (rc == LEAT_OK)
        *out = span;
    return rc;
}

uint64_t leat_view_cut(const struct leat_view *v, const struct leat_view_span *span)
{
    uint64_t shift = v->text.shift;
    uint64_t beyond = span->tokens - span->own;
    uint64_t tokens = span->own + (beyond < shift ? beyond : shift);
    return tokens > shift ? (tokens - shift) / v->text.length : 0;
}

/* What may be kept of chunks that are no stretch: 4 bytes for a document, so that chunks of 4 million tokens in
 * documents of 500 take 33 KB each. A window of 128 chunks of single tokens would take all of it: with less, plans
 * would be made again for every block. */
#define PLANS_BYTES ((size_t)512 << 20)

/* Counting */

struct counting {
    struct leat_fitter *fitter; /* fit */
    uint8_t *rows;
    uint32_t *lengths;
    size_t cap;       /* samples that there is room for */
    uint64_t row;     /* of the table: the first of the chunk */
    uint64_t largest; /* tokens of a chunk */
};

/* The rows of a chunk: all, or only the first where that says everything. */
static leat_status read_rows(const struct leat_view *v, struct counting *c, uint32_t n, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(v->dataset);
    uint32_t wanted = v->stretch && !v->selection && !v->text.fit ? 1 : n;
    if (c->cap < wanted) {
        /* As many as the table has, which the dataset knows: no more than its own length bears out. */
        const struct leat_section *s = leat_root_section(root, LEAT_SECTION_SAMPLES);
        uint64_t bytes = (uint64_t)wanted * root->schema.row_bytes;
        bool there = !s || bytes <= s->size;
        free(c->rows);
        free(c->lengths);
        c->rows = there ? malloc((size_t)bytes) : NULL;
        c->lengths = there ? malloc((size_t)wanted * sizeof *c->lengths) : NULL;
        c->cap = wanted;
        if (!there)
            return leat_fail(err, LEAT_CORRUPT, "the table of samples is shorter than the %u samples of a chunk", n);
        if (!c->rows || !c->lengths)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the rows of %u samples", wanted);
    }
    return leat_dataset_read(v->dataset, LEAT_SECTION_SAMPLES, c->row * root->schema.row_bytes, c->rows,
                             (size_t)wanted * root->schema.row_bytes, err);
}

static leat_status count_cut(struct leat_view *v, struct counting *c, uint32_t chunk, struct leat_error *err)
{
    struct leat_view_span span;
    leat_status rc = leat_view_measure(v, chunk, c->rows, leat_dataset_root(v->dataset)->sizes[chunk], &span, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t units = leat_view_cut(v, &span);
    v->begins[chunk] = (uint32_t)span.at;
    uint64_t used = units ? units * v->text.length + v->text.shift : 0;
    v->counts[chunk] = (uint32_t)units;
    v->tokens += span.own;
    v->lost += span.own > used ? span.own - used : 0;
    c->largest = span.tokens > c->largest ? span.tokens : c->largest;
    return LEAT_OK;
}

static leat_status count_fit(struct leat_view *v, struct counting *c, uint32_t chunk, struct leat_error *err)
{
    uint32_t n = leat_dataset_counts(v->dataset)[chunk];
    uint64_t bytes = leat_dataset_root(v->dataset)->sizes[chunk];
    uint64_t tokens = 0;
    leat_status rc = leat_view_lengths(v, chunk, c->rows, bytes, c->lengths, err);
    if (rc == LEAT_OK)
        rc = leat_fitter_pack(c->fitter, c->lengths, n, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint32_t i = 0; i < n; i++)
        tokens += c->lengths[i];
    v->counts[chunk] = leat_fitter_blocks(c->fitter);
    v->tokens += tokens;
    v->padding += (uint64_t)v->counts[chunk] * leat_view_room(v) - tokens;
    return LEAT_OK;
}

static leat_status fail_empty(const struct leat_view *v, const struct counting *c, struct leat_error *err)
{
    if (v->text.fit || !c->largest)
        return leat_fail(err, LEAT_INVALID, "view: the dataset has no tokens in its field '%s'", v->field->name);
    return leat_fail(err, LEAT_INVALID,
                     "view: no chunk has the %u + %u tokens of a block, the largest has %" PRIu64
                     ": ask for shorter blocks, or index the tokens in larger chunks",
                     v->text.length, v->text.shift, c->largest);
}

static leat_status count(struct leat_view *v, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(v->dataset);
    struct counting c = {0};
    leat_status rc = LEAT_OK;
    if (!leat_root_section(root, LEAT_SECTION_SAMPLES))
        return leat_fail(
            err, LEAT_UNSUPPORTED,
            "view: blocks= needs the table of samples, which this dataset lacks: 'leat rebuild' makes one");
    v->counts = calloc((size_t)root->chunks + 1, sizeof *v->counts);
    v->kept.plans = calloc((size_t)root->chunks + 1, sizeof(struct leat_view_plan *));
    v->begins = calloc((size_t)root->chunks + 1, sizeof *v->begins);
    if (!v->counts || !v->begins || !v->kept.plans)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a view of %u chunks", root->chunks);
    if (rc == LEAT_OK && v->text.fit)
        rc = leat_fitter_open(leat_view_room(v), &c.fitter, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < root->chunks; i++) {
        if (leat_dataset_counts(v->dataset)[i]) {
            rc = read_rows(v, &c, root->counts[i], err);
            if (rc == LEAT_OK)
                rc = v->text.fit ? count_fit(v, &c, i, err) : count_cut(v, &c, i, err);
            v->units += v->counts[i];
        }
        c.row += root->counts[i];
    }
    if (rc == LEAT_OK && !v->units)
        rc = fail_empty(v, &c, err);
    leat_fitter_close(c.fitter);
    free(c.rows);
    free(c.lengths);
    return rc;
}

/* The view */

static leat_status open_blocks(struct leat_view *v, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(v->dataset);
    leat_status rc = find_field(v, &root->schema, err);
    if (rc == LEAT_OK)
        rc = read_about(v, err);
    if (rc != LEAT_OK)
        return rc;
    v->selection = leat_dataset_samples(v->dataset) != root->samples;
    v->documents = !v->stretch || root->samples > root->chunks;
    if (v->text.fit && !v->documents)
        return leat_fail(err, LEAT_INVALID,
                         "view: documents=fit needs a dataset that knows its documents, and this one has one sample "
                         "per chunk: index a format with documents, or leave it out");
    return count(v, err);
}

leat_status leat_view_open(struct leat_dataset *d, const char *text, struct leat_view **out, struct leat_error *err)
{
    struct leat_view *v = calloc(1, sizeof *v);
    if (!v)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a view");
    v->dataset = d;
    v->kept.most = PLANS_BYTES;
    pthread_mutex_init(&v->mutex, NULL);
    leat_status rc = leat_view_text_read(text, &v->text, err);
    if (rc == LEAT_OK && v->text.blocks)
        rc = open_blocks(v, err);
    if (rc == LEAT_OK)
        rc = leat_view_text_write(&v->text, v->name, err);
    if (rc != LEAT_OK) {
        leat_view_close(v);
        return rc;
    }
    if (!v->text.blocks)
        v->units = leat_dataset_samples(d);
    *out = v;
    return LEAT_OK;
}

void leat_view_close(struct leat_view *v)
{
    if (!v)
        return;
    leat_view_plans_free(v);
    pthread_mutex_destroy(&v->mutex);
    free(v->counts);
    free(v->begins);
    free(v);
}

const char *leat_view_name(const struct leat_view *v)
{
    return v->name;
}

const uint32_t *leat_view_counts(const struct leat_view *v)
{
    return v->counts ? v->counts : leat_dataset_counts(v->dataset);
}

uint64_t leat_view_units(const struct leat_view *v)
{
    return v->units;
}

uint64_t leat_view_lost(const struct leat_view *v)
{
    return v->lost;
}

bool leat_view_is_blocks(const struct leat_view *v)
{
    return v->text.blocks;
}

uint32_t leat_view_sample(const struct leat_view *v, uint32_t chunk, uint32_t unit)
{
    return leat_dataset_index(v->dataset, chunk, unit);
}

uint32_t leat_view_block_tokens(const struct leat_view *v)
{
    return leat_view_room(v);
}

uint32_t leat_view_shift(const struct leat_view *v)
{
    return v->text.shift;
}

uint32_t leat_view_field(const struct leat_view *v)
{
    return v->field_number;
}

uint32_t leat_view_dtype(const struct leat_view *v)
{
    return v->field->dtype;
}

bool leat_view_fits(const struct leat_view *v)
{
    return v->text.fit;
}

bool leat_view_documents(const struct leat_view *v)
{
    return v->documents;
}

uint64_t leat_view_tokens(const struct leat_view *v)
{
    return v->tokens;
}

uint64_t leat_view_padding(const struct leat_view *v)
{
    return v->padding;
}
