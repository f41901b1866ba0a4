#include "agent/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ask.h"
#include "agent/outputs.h"
#include "base/dtype.h"
#include "base/log.h"
#include "base/parse.h"

#define WORD_MAX 64
#define MOST_MAX (1u << 20)

/* What is asked for */

bool leat_tokens_only(uint32_t kind)
{
    return kind == LEAT_OUTPUT_CU_SEQLENS || kind == LEAT_OUTPUT_POSITIONS || kind == LEAT_OUTPUT_DOCUMENTS;
}

enum word { DTYPE, EOS, BOS, VALUE, MOST, PAD, WORDS };

static const char *const names[WORDS] = {"dtype", "eos", "bos", "value", "most", "pad"};

static leat_status read_dtype(const char *value, uint32_t stored, uint32_t *out, struct leat_error *err)
{
    uint32_t dtype = strcmp(value, "stored") == 0 ? stored : leat_dtype_find(value, strlen(value));
    if (dtype != LEAT_I64 && dtype != LEAT_I32 && dtype != stored)
        return leat_fail(err, LEAT_INVALID, "dtype='%.40s' is not one of: int64 int32%s%s", value,
                         stored ? " stored " : "", stored ? leat_dtype_name(stored) : "");
    *out = dtype;
    return LEAT_OK;
}

static leat_status read_token(const char *value, const char *word, int64_t *out, struct leat_error *err)
{
    uint64_t number;
    bool negative = value[0] == '-';
    if (leat_parse_u64(value + negative, word, &number, NULL) != LEAT_OK || number > UINT32_MAX)
        return leat_fail(err, LEAT_INVALID, "%s='%.40s' is not a whole number of up to 32 bits", word, value);
    *out = negative ? -(int64_t)number : (int64_t)number;
    return LEAT_OK;
}

static leat_status read_word(const char *name, const char *value, struct leat_tokens_plan *p, int64_t *fill,
                             struct leat_error *err)
{
    const struct leat_output_kind_row *row = leat_output_kind_find(p->kind);
    uint32_t stored = p->kind == LEAT_OUTPUT_TOKENS ? leat_view_dtype(p->view) : 0;
    int w = 0;
    while (w < WORDS && strcmp(name, names[w]) != 0)
        w++;
    if (w == WORDS || !leat_kind_list_has(row->words, name, strlen(name)))
        return leat_fail(err, LEAT_INVALID, "'%.40s' is not possible for the %s of a block: blocks have a fixed length",
                         name, row->name);
    if (!value || !*value)
        return leat_fail(err, LEAT_INVALID, "'%s' needs a value", name);
    int64_t number = 0;
    leat_status rc = w == DTYPE ? read_dtype(value, stored, &p->dtype, err) : read_token(value, name, &number, err);
    if (rc != LEAT_OK)
        return rc;
    switch (w) {
    case EOS:
        p->ends = true;
        p->eos = number;
        break;
    case BOS:
        p->begins = true;
        p->bos = number;
        break;
    case VALUE:
        *fill = number;
        break;
    case MOST:
        if (number < 1 || number > MOST_MAX)
            return leat_fail(err, LEAT_INVALID, "most='%.40s' is not between 1 and %u", value, MOST_MAX);
        p->most = (uint32_t)number;
        break;
    case PAD: /* for the value beside it: blocks are as long as they are */
        if (number != leat_view_block_tokens(p->view))
            return leat_fail(err, LEAT_INVALID, "pad=%.40s: a block has %u tokens, including the shift", value,
                             leat_view_block_tokens(p->view));
        break;
    default:
        break;
    }
    return LEAT_OK;
}

static leat_status read_words(const char *text, struct leat_tokens_plan *p, struct leat_error *err)
{
    int64_t fill = 0;
    leat_status rc = LEAT_OK;
    for (const char *at = text ? text : ""; rc == LEAT_OK && *at;) {
        char word[WORD_MAX];
        size_t n = strcspn(at, " ");
        if (n >= sizeof word)
            return leat_fail(err, LEAT_INVALID, "the word '%.40s…' is too long", at);
        memcpy(word, at, n);
        word[n] = '\0';
        at += n + (at[n] == ' ');
        char *value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        if (n)
            rc = read_word(word, value, p, &fill, err);
    }
    if (rc == LEAT_OK && !leat_ask_put_int(fill, p->dtype, p->fill))
        rc =
            leat_fail(err, LEAT_INVALID, "value=%lld does not fit type %s", (long long)fill, leat_dtype_name(p->dtype));
    return rc;
}

static leat_status check_field(const struct leat_output *asked, const struct leat_schema *schema,
                               const struct leat_view *view, struct leat_error *err)
{
    const char *field = schema->fields[leat_view_field(view)].name;
    if (!leat_tokens_only(asked->kind) && asked->kind != LEAT_OUTPUT_TOKENS && asked->kind != LEAT_OUTPUT_LENGTH)
        return leat_fail(err, LEAT_INVALID,
                         "output '%s' is not possible with blocks of tokens; possible are tokens, length, "
                         "cu_seqlens, positions, documents, key, index and valid",
                         asked->name);
    if (asked->field && strcmp(asked->field, field) != 0)
        return leat_fail(err, LEAT_INVALID, "output '%s': the blocks are made from field '%s', not from '%.60s'",
                         asked->name, field, asked->field);
    return LEAT_OK;
}

static leat_status check_words(const struct leat_tokens_plan *p, struct leat_error *err)
{
    uint32_t stored = leat_view_dtype(p->view);
    uint8_t token[8];
    if (leat_tokens_only(p->kind) && !p->ends && !p->begins && !leat_view_documents(p->view))
        return leat_fail(err, LEAT_INVALID,
                         "the dataset does not say where documents end: give eos=, the token that ends one, or bos=");
    if (!leat_ask_put_int(p->eos, stored, token) || !leat_ask_put_int(p->bos, stored, token))
        return leat_fail(err, LEAT_INVALID, "eos or bos does not fit tokens of type %s", leat_dtype_name(stored));
    return LEAT_OK;
}

static uint32_t length_of(const struct leat_view *v)
{
    return leat_view_block_tokens(v) - leat_view_shift(v);
}

static void shape(const struct leat_tokens_plan *p, struct leat_ring_column *column)
{
    uint64_t n = p->kind == LEAT_OUTPUT_TOKENS ? leat_view_block_tokens(p->view) : length_of(p->view);
    column->dtype = p->dtype;
    if (p->kind == LEAT_OUTPUT_CU_SEQLENS && !p->most) {
        column->ragged = 1; /* its arena is the caller's to say */
        column->dims_n = 1; /* of any length */
        return;
    }
    n = p->kind == LEAT_OUTPUT_LENGTH ? 1 : n;
    n = p->most ? p->most + 1 : n;
    column->stride = n * leat_dtype_bytes(p->dtype);
    if (p->kind == LEAT_OUTPUT_LENGTH)
        return;
    column->dims_n = 1;
    column->dims[0] = n;
}

leat_status leat_tokens_make(const struct leat_output *asked, const struct leat_schema *schema,
                             const struct leat_view *view, struct leat_tokens_plan *plan,
                             struct leat_ring_column *column, struct leat_error *err)
{
    struct leat_tokens_plan p = {.view = view, .kind = asked->kind, .dtype = LEAT_I64};
    leat_status rc = check_field(asked, schema, view, err);
    if (rc != LEAT_OK)
        return rc;
    if (asked->kind == LEAT_OUTPUT_CU_SEQLENS || asked->kind == LEAT_OUTPUT_DOCUMENTS)
        p.dtype = LEAT_I32; /* what attention wants */
    rc = read_words(asked->pipeline, &p, err);
    if (rc == LEAT_OK)
        rc = check_words(&p, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "output '%s'", asked->name);
    shape(&p, column);
    *plan = p;
    return LEAT_OK;
}

#define LOST_MUCH 50u /* one in this many is worth a word to the user */

void leat_tokens_say(const struct leat_view *v, const char *url, char *notice, size_t n)
{
    uint64_t tokens = leat_view_tokens(v);
    uint64_t lost = leat_view_lost(v);
    uint64_t padding = leat_view_padding(v);
    uint64_t places = leat_view_units(v) * leat_view_block_tokens(v);
    leat_log(lost ? LEAT_LOG_WARN : LEAT_LOG_INFO,
             "%s: %llu blocks of %u + %u tokens; of %llu tokens, %llu (%.3f %%) are in no block; %.3f %% is padding",
             url, (unsigned long long)leat_view_units(v), length_of(v), leat_view_shift(v), (unsigned long long)tokens,
             (unsigned long long)lost, tokens ? 100.0 * (double)lost / (double)tokens : 0.0,
             100.0 * (double)padding / (double)places);
    if (lost <= tokens / LOST_MUCH || notice[0])
        return;
    snprintf(notice, n,
             "%.1f %% of the tokens are in no block of %u + %u, because chunks end before the next block is full; "
             "shorter blocks or larger chunks lose fewer",
             100.0 * (double)lost / (double)tokens, length_of(v), leat_view_shift(v));
    leat_log(LEAT_LOG_WARN, "%s: %s", url, notice);
}

/* Tokens */

/* Loops that the compiler makes vectors of; bytes of a chunk lie anywhere. */
#define WIDEN(name, from_type, to_type)                                                                                \
    static bool name(const uint8_t *from, char *to, size_t n)                                                          \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            from_type v;                                                                                               \
            memcpy(&v, from + i * sizeof v, sizeof v);                                                                 \
            to_type w = (to_type)v;                                                                                    \
            memcpy(to + i * sizeof w, &w, sizeof w);                                                                   \
        }                                                                                                              \
        return true;                                                                                                   \
    }

WIDEN(u16_to_i32, uint16_t, int32_t)
WIDEN(u16_to_i64, uint16_t, int64_t)
WIDEN(u32_to_i64, uint32_t, int64_t)
WIDEN(i32_to_i64, int32_t, int64_t)

/* The only one that can fail: false when a token does not fit. */
static bool u32_to_i32(const uint8_t *from, char *to, size_t n)
{
    uint32_t all = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, from + i * sizeof v, sizeof v);
        all |= v;
        memcpy(to + i * sizeof v, &v, sizeof v);
    }
    return all <= INT32_MAX;
}

static bool copy(uint32_t from_type, uint32_t to_type, const uint8_t *from, char *to, size_t n)
{
    if (from_type == to_type) {
        memcpy(to, from, n * leat_dtype_bytes(from_type));
        return true;
    }
    if (from_type == LEAT_U16)
        return to_type == LEAT_I64 ? u16_to_i64(from, to, n) : u16_to_i32(from, to, n);
    if (from_type == LEAT_U32)
        return to_type == LEAT_I64 ? u32_to_i64(from, to, n) : u32_to_i32(from, to, n);
    return i32_to_i64(from, to, n);
}

static leat_status walk(const struct leat_tokens_plan *p, const struct leat_sample *s, bool documents,
                        struct leat_view_walk *out, struct leat_error *err)
{
    return leat_view_walk(p->view, s->chunk, s->chunk_number, s->unit, documents, out, err);
}

static leat_status write_tokens(const struct leat_tokens_plan *p, const struct leat_sample *s, char *to,
                                struct leat_error *err)
{
    struct leat_view_walk w;
    struct leat_view_run run;
    uint32_t room = leat_view_block_tokens(p->view);
    uint32_t bytes = leat_dtype_bytes(p->dtype);
    uint32_t at = 0;
    bool good = true;
    leat_status rc = walk(p, s, false, &w, err);
    if (rc != LEAT_OK)
        return rc;
    while (leat_view_walk_next(&w, &run) && run.n <= room - at) {
        good &= copy(leat_view_dtype(p->view), p->dtype, run.data, to + (size_t)at * bytes, run.n);
        at += run.n;
    }
    leat_view_walk_close(&w);
    for (; at < room; at++)
        memcpy(to + (size_t)at * bytes, p->fill, bytes);
    if (!good)
        return leat_fail(err, LEAT_INVALID, "a token is too large for int32: ask for dtype=\"int64\"");
    return LEAT_OK;
}

void leat_tokens_ahead(const struct leat_sample *s)
{
    if (s->view && s->chunk)
        leat_view_ahead(s->view, s->chunk, s->chunk_number, s->unit);
}

static leat_status write_length(const struct leat_tokens_plan *p, const struct leat_sample *s, void *to,
                                struct leat_error *err)
{
    struct leat_view_walk w;
    struct leat_view_run run;
    int64_t tokens = 0;
    leat_status rc = walk(p, s, false, &w, err);
    if (rc != LEAT_OK)
        return rc;
    while (leat_view_walk_next(&w, &run))
        tokens += run.n;
    leat_view_walk_close(&w);
    memcpy(to, &tokens, sizeof tokens);
    return LEAT_OK;
}

leat_status leat_tokens_first(const struct leat_sample *s, uint32_t *index, struct leat_error *err)
{
    struct leat_view_walk w;
    struct leat_view_run run = {0};
    leat_status rc = leat_view_walk(s->view, s->chunk, s->chunk_number, s->unit, true, &w, err);
    if (rc != LEAT_OK)
        return rc;
    leat_view_walk_next(&w, &run);
    leat_view_walk_close(&w);
    *index = run.sample;
    return LEAT_OK;
}

/* Documents */

struct borders {
    uint32_t *at; /* where documents begin in the block, but for the first */
    uint32_t n;
    uint32_t cap;
    uint32_t length; /* of the block, without the shift */
};

/* `at` grows: no border comes twice. */
static leat_status add_border(struct borders *b, uint32_t at, struct leat_error *err)
{
    if (at == 0 || at >= b->length || (b->n && b->at[b->n - 1] >= at))
        return LEAT_OK;
    if (b->n == b->cap) {
        uint32_t cap = b->cap ? 2 * b->cap : 64;
        uint32_t *more = realloc(b->at, cap * sizeof *more);
        if (!more)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the documents of a block");
        b->at = more;
        b->cap = cap;
    }
    b->at[b->n++] = at;
    return LEAT_OK;
}

static uint32_t token_at(uint32_t dtype, const uint8_t *data, uint32_t i)
{
    uint16_t narrow;
    uint32_t wide;
    if (dtype == LEAT_U16) {
        memcpy(&narrow, data + 2 * (size_t)i, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, data + 4 * (size_t)i, sizeof wide);
    return wide;
}

/* Whether a token is among n; a loop that the compiler makes vectors of. */
static bool among(uint32_t dtype, const uint8_t *data, uint32_t n, uint32_t token)
{
    uint32_t found = 0;
    if (dtype == LEAT_U16) {
        for (uint32_t i = 0; i < n; i++) {
            uint16_t v;
            memcpy(&v, data + 2 * (size_t)i, sizeof v);
            found |= v == (uint16_t)token;
        }
    } else {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t v;
            memcpy(&v, data + 4 * (size_t)i, sizeof v);
            found |= v == token;
        }
    }
    return found != 0;
}

#define SCAN 64u /* tokens that are looked at together: most stretches of that many have no mark */

/* Borders where marks are, in a run that begins at `first` of the block. */
static leat_status scan(const struct leat_tokens_plan *p, const struct leat_view_run *run, uint32_t first,
                        struct borders *b, struct leat_error *err)
{
    uint32_t dtype = leat_view_dtype(p->view);
    size_t bytes = leat_dtype_bytes(dtype);
    leat_status rc = LEAT_OK;
    for (uint32_t from = 0; rc == LEAT_OK && from < run->n; from += SCAN) {
        const uint8_t *data = run->data + from * bytes;
        uint32_t n = run->n - from < SCAN ? run->n - from : SCAN;
        if (!(p->ends && among(dtype, data, n, (uint32_t)p->eos)) &&
            !(p->begins && among(dtype, data, n, (uint32_t)p->bos)))
            continue;
        for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
            uint32_t token = token_at(dtype, data, i);
            if (p->begins && token == (uint32_t)p->bos)
                rc = add_border(b, first + from + i, err);
            if (rc == LEAT_OK && p->ends && token == (uint32_t)p->eos)
                rc = add_border(b, first + from + i + 1, err);
        }
    }
    return rc;
}

/* Parts that were packed together are documents of their own, and so is the padding after them. */
static leat_status find_borders(const struct leat_tokens_plan *p, const struct leat_sample *s, struct borders *b,
                                struct leat_error *err)
{
    struct leat_view_walk w;
    struct leat_view_run run;
    bool marks = p->ends || p->begins;
    bool runs = !marks || leat_view_fits(p->view);
    uint32_t at = 0;
    b->length = length_of(p->view);
    leat_status rc = walk(p, s, runs, &w, err);
    if (rc != LEAT_OK)
        return rc;
    while (rc == LEAT_OK && leat_view_walk_next(&w, &run)) {
        if (runs)
            rc = add_border(b, at, err);
        if (rc == LEAT_OK && marks)
            rc = scan(p, &run, at, b, err);
        at += run.n;
    }
    leat_view_walk_close(&w);
    return rc == LEAT_OK ? add_border(b, at, err) : rc;
}

/* Position ids, or numbers of documents. */
static void write_ids(const struct leat_tokens_plan *p, const struct borders *b, char *to)
{
    bool positions = p->kind == LEAT_OUTPUT_POSITIONS;
    uint32_t from = 0;
    for (uint32_t k = 0; k <= b->n; k++) {
        uint32_t end = k < b->n ? b->at[k] : b->length;
        for (uint32_t i = from; i < end; i++) {
            int64_t wide = positions ? i - from : k;
            int32_t narrow = (int32_t)wide;
            if (p->dtype == LEAT_I64)
                memcpy(to + (size_t)i * sizeof wide, &wide, sizeof wide);
            else
                memcpy(to + (size_t)i * sizeof narrow, &narrow, sizeof narrow);
        }
        from = end;
    }
}

/* 0, the borders, the end; where there is room for more, the end again: documents without tokens. */
static void write_borders(const struct borders *b, uint32_t n, char *to)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t at = i == 0 ? 0 : (int32_t)(i <= b->n ? b->at[i - 1] : b->length);
        memcpy(to + (size_t)i * sizeof at, &at, sizeof at);
    }
}

static leat_status write_documents(const struct leat_tokens_plan *p, const struct leat_sample *s, void *to,
                                   struct leat_error *err)
{
    struct borders b = {0};
    leat_status rc = find_borders(p, s, &b, err);
    if (rc == LEAT_OK && p->most && b.n >= p->most)
        rc = leat_fail(err, LEAT_LIMIT,
                       "a block has %u documents, but cu_seqlens has room for most=%u: give a "
                       "larger most",
                       b.n + 1, p->most);
    if (rc == LEAT_OK && p->most)
        write_borders(&b, p->most + 1, to);
    else if (rc == LEAT_OK)
        write_ids(p, &b, to);
    free(b.at);
    return rc;
}

leat_status leat_tokens_write(const struct leat_tokens_plan *p, const struct leat_sample *s, void *to,
                              struct leat_error *err)
{
    leat_status rc;
    if (p->kind == LEAT_OUTPUT_TOKENS)
        rc = write_tokens(p, s, to, err);
    else if (p->kind == LEAT_OUTPUT_LENGTH)
        rc = write_length(p, s, to, err);
    else
        rc = write_documents(p, s, to, err);
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "block %llu", (unsigned long long)s->number);
}

leat_status leat_tokens_borders(const struct leat_tokens_plan *p, const struct leat_sample *s, void **out,
                                size_t *bytes, struct leat_error *err)
{
    struct borders b = {0};
    void *data = NULL;
    leat_status rc = find_borders(p, s, &b, err);
    size_t n = (size_t)b.n + 2;
    if (rc == LEAT_OK && !(data = malloc(n * sizeof(int32_t))))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the documents of a block");
    if (rc == LEAT_OK) {
        write_borders(&b, (uint32_t)n, data);
        *out = data;
        *bytes = n * sizeof(int32_t);
    }
    free(b.at);
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "block %llu", (unsigned long long)s->number);
}
