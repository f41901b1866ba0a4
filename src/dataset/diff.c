#include "dataset/diff.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/slice.h"

#define ENTRY       16u
#define ENTRIES     4096u             /* of an index that are read at once */
#define PAIRS       ((size_t)1 << 20) /* compared at once, in the order in which they lie */
#define FIELDS_TEXT 4000u

/* The index of a dataset's keys, from front to back: sorted by hash. */
struct stream {
    struct leat_dataset *dataset;
    uint64_t samples;
    uint64_t read; /* entries that were, or are in `block` */
    uint32_t held;
    uint32_t next;
    bool end;
    uint64_t hash; /* of the entry in front, with … */
    uint64_t number;
    uint8_t block[ENTRIES * ENTRY];
};

/* Two samples with the same key, by their numbers in the tables. */
struct pair {
    uint64_t number[2];
    uint64_t digest;
    bool differs;
};

struct common {
    uint32_t field[2];
};

struct work {
    const struct leat_diff_opts *opts;
    struct leat_diff_progress *progress;
    struct stream *streams[2];
    struct common common[LEAT_FIELDS_MAX];
    uint32_t common_n;
    struct pair *pairs;
    size_t pairs_n;
    uint64_t named[3];
    uint64_t nothing; /* hash of no key */
    bool same_sources;
    struct leat_diff *out;
};

/* The streams */

static leat_status fill(struct stream *s, struct leat_error *err)
{
    uint64_t left = s->samples - s->read;
    uint32_t n = left < ENTRIES ? (uint32_t)left : ENTRIES;
    leat_status rc = leat_dataset_read(s->dataset, LEAT_SECTION_KEYS, s->samples * 8 + s->read * ENTRY, s->block,
                                       (size_t)n * ENTRY, err);
    s->held = n;
    s->next = 0;
    s->read += n;
    return rc;
}

/* Puts the next sample that counts in front. */
static leat_status advance(struct work *w, struct stream *s, struct leat_error *err)
{
    uint64_t sample;
    do {
        if (s->next == s->held && s->read == s->samples) {
            s->end = true;
            return LEAT_OK;
        }
        leat_status rc = s->next == s->held ? fill(s, err) : LEAT_OK;
        if (rc == LEAT_OK && s->next == 0 && w->opts->stop && w->opts->stop(w->opts->user))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (rc != LEAT_OK)
            return rc;
        s->hash = leat_get_u64(s->block + (size_t)s->next * ENTRY);
        s->number = leat_get_u64(s->block + (size_t)s->next * ENTRY + 8);
        s->next++;
        atomic_fetch_add_explicit(&w->progress->entries, 1, memory_order_relaxed);
        if (s->number >= s->samples)
            return leat_fail(err, LEAT_CORRUPT, "the keys' index of %s names sample %" PRIu64,
                             leat_dataset_home(s->dataset)->url, s->number);
    } while (!leat_dataset_counted(s->dataset, s->number, &sample));
    return LEAT_OK;
}

static leat_status key_of(struct stream *s, uint64_t number, struct leat_buf *out, struct leat_error *err)
{
    uint64_t sample;
    leat_buf_clear(out);
    leat_dataset_counted(s->dataset, number, &sample);
    return leat_dataset_key(s->dataset, sample, out, err);
}

static leat_status name_one(struct work *w, enum leat_diff_kind kind, struct stream *s, uint64_t number,
                            struct leat_error *err)
{
    struct leat_buf key;
    uint64_t sample;
    if (!w->opts->each || w->named[kind] >= w->opts->each_max)
        return LEAT_OK;
    w->named[kind]++;
    leat_buf_init(&key, LEAT_KEY_MAX + 1);
    leat_status rc = key_of(s, number, &key, err);
    leat_dataset_counted(s->dataset, number, &sample);
    if (rc == LEAT_OK)
        w->opts->each(w->opts->user, kind, sample, key.data, key.len);
    leat_buf_free(&key);
    return rc;
}

/* Comparing pairs: first all of them in the first dataset, in its order, then in the second's. Each chunk's tables, and
 * with `bytes` the chunk, are read once for all of its pairs. */

static int by_first(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    return (x->number[0] > y->number[0]) - (x->number[0] < y->number[0]);
}

static int by_second(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    return (x->number[1] > y->number[1]) - (x->number[1] < y->number[1]);
}

/* What a cell says of its value, apart from where that lies and how it is stored. */
static uint64_t digest_cell(const struct leat_field *f, const struct leat_cell *cell, uint64_t before)
{
    uint8_t bytes[160] = {0};
    struct leat_writer w = leat_writer(bytes, sizeof bytes);
    leat_write_u64(&w, before);
    leat_write_u64(&w, f->type);
    leat_write_u64(&w, cell->absent);
    leat_write_u64(&w, cell->raw);
    leat_write_u64(&w, (uint64_t)cell->number);
    leat_write_u64(&w, leat_float_bits(cell->real));
    for (int i = 0; i < LEAT_DIMS_MAX; i++)
        leat_write_u32(&w, cell->dims[i]);
    leat_write_u32(&w, cell->image.width);
    leat_write_u32(&w, cell->image.height);
    leat_write_u32(&w, cell->image.decoded_bytes);
    leat_write_u8(&w, cell->image.kind);
    leat_write_u8(&w, cell->image.channels);
    leat_write_u8(&w, cell->image.orientation);
    leat_write_u8(&w, cell->image.flags);
    return leat_xxh3(bytes, w.at);
}

static leat_status digest_value(struct leat_slice *s, const struct leat_cell *cell, uint64_t *digest,
                                struct leat_error *err)
{
    const struct leat_chunk *c;
    const void *data;
    void *own = NULL;
    leat_status rc = leat_slice_load(s, &c, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_view(c, cell, &data, &own, err);
    if (rc == LEAT_OK) {
        uint64_t parts[2] = {*digest, leat_xxh3(data, cell->raw)};
        *digest = leat_xxh3(parts, sizeof parts);
    }
    free(own);
    return rc;
}

/* Of the key and the values of the fields that both have. The hash of the key is known to be the same; that the key
 * itself is, this tells. */
static leat_status digest_sample(const struct work *w, int side, struct leat_slice *s, uint32_t i, uint64_t *out,
                                 struct leat_error *err)
{
    const struct leat_schema *schema = &leat_dataset_root(s->dataset)->schema;
    size_t n;
    const char *key = leat_slice_key(s, i, &n);
    uint64_t keyed[2] = {leat_xxh3(key, n / 2), leat_xxh3(key + n / 2, n - n / 2)};
    uint64_t digest = leat_xxh3(keyed, sizeof keyed);
    leat_status rc = LEAT_OK;
    for (uint32_t k = 0; rc == LEAT_OK && k < w->common_n; k++) {
        const struct leat_field *f = &schema->fields[w->common[k].field[side]];
        struct leat_cell cell = leat_cell_read(f, leat_slice_row(s, i));
        digest = digest_cell(f, &cell, digest);
        if (w->opts->bytes && !cell.absent && leat_field_has_data(f))
            rc = digest_value(s, &cell, &digest, err);
    }
    *out = digest;
    return rc;
}

static leat_status digest_side(struct work *w, int side, struct leat_error *err)
{
    struct leat_dataset *d = w->streams[side]->dataset;
    const struct leat_root *root = leat_dataset_root(d);
    struct leat_slice slice = {0};
    leat_status rc = LEAT_OK;
    uint32_t chunk = 0;
    qsort(w->pairs, w->pairs_n, sizeof *w->pairs, side ? by_second : by_first);
    for (size_t i = 0; rc == LEAT_OK && i < w->pairs_n; i++) {
        struct pair *p = &w->pairs[i];
        uint64_t digest = 0;
        while (leat_dataset_first(d, chunk) + root->counts[chunk] <= p->number[side])
            chunk++;
        if (!slice.dataset || slice.chunk != chunk) {
            leat_slice_close(&slice);
            if (w->opts->stop && w->opts->stop(w->opts->user))
                rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
            if (rc == LEAT_OK)
                rc = leat_slice_open(d, chunk, LEAT_SLICE_ROWS | LEAT_SLICE_KEYS, &slice, err);
        }
        if (rc == LEAT_OK)
            rc = digest_sample(w, side, &slice, (uint32_t)(p->number[side] - slice.first), &digest, err);
        p->differs = side && digest != p->digest;
        p->digest = digest;
    }
    leat_slice_close(&slice);
    return rc;
}

static leat_status compare_pairs(struct work *w, struct leat_error *err)
{
    leat_status rc = w->pairs_n ? digest_side(w, 0, err) : LEAT_OK;
    if (rc == LEAT_OK && w->pairs_n)
        rc = digest_side(w, 1, err);
    for (size_t i = 0; rc == LEAT_OK && i < w->pairs_n; i++) {
        w->out->same += !w->pairs[i].differs;
        w->out->unread += !w->pairs[i].differs && !w->opts->bytes;
        w->out->changed += w->pairs[i].differs;
        if (w->pairs[i].differs)
            rc = name_one(w, LEAT_DIFF_CHANGED, w->streams[1], w->pairs[i].number[1], err);
    }
    w->pairs_n = 0;
    return rc;
}

/* Whether a number stands for the same source in both, as far as both have it: versions that share chunks have one
 * list, which grows. */
static bool same_sources(const struct leat_dataset *a, const struct leat_dataset *b)
{
    const struct leat_sources_list *x = leat_dataset_sources(a);
    const struct leat_sources_list *y = leat_dataset_sources(b);
    for (uint32_t i = 0; x && y && i < x->n && i < y->n; i++) {
        if (strcmp(x->urls[i], y->urls[i]) != 0)
            return false;
    }
    return true;
}

/* Whether both lie at the same place of the same chunk: then they are the same, and nothing need be read. Chunks that
 * are made of the same recipe are the same if it means the same sources, and if their data had not changed between. */
static bool same_place(const struct work *w)
{
    const uint8_t *names[2];
    uint64_t index[2];
    uint64_t sums[2];
    bool made[2];
    for (int side = 0; side < 2; side++) {
        struct leat_dataset *d = w->streams[side]->dataset;
        uint32_t chunk = leat_dataset_chunk(d, w->streams[side]->number);
        names[side] = leat_root_chunk_name(leat_dataset_root(d), chunk);
        sums[side] = leat_dataset_root(d)->sums[chunk];
        made[side] = leat_dataset_recipe_bytes(d, chunk) != 0;
        index[side] = w->streams[side]->number - leat_dataset_first(d, chunk);
    }
    if (index[0] != index[1] || memcmp(names[0], names[1], LEAT_SHA256_SIZE) != 0)
        return false;
    return !made[0] || (w->same_sources && (sums[0] == sums[1] || !sums[0] || !sums[1]));
}

static leat_status note_pair(struct work *w, struct leat_error *err)
{
    if (same_place(w)) {
        w->out->same++;
        return LEAT_OK;
    }
    leat_status rc = w->pairs_n == PAIRS ? compare_pairs(w, err) : LEAT_OK;
    if (rc == LEAT_OK)
        w->pairs[w->pairs_n++] = (struct pair){.number = {w->streams[0]->number, w->streams[1]->number}};
    return rc;
}

/* One sample that only one of them has. Those without a key all have the same hash. */
static leat_status note_single(struct work *w, int side, struct leat_error *err)
{
    struct stream *s = w->streams[side];
    struct leat_buf key;
    bool keyless = false;
    leat_status rc = LEAT_OK;
    if (s->hash == w->nothing) {
        leat_buf_init(&key, LEAT_KEY_MAX + 1);
        rc = key_of(s, s->number, &key, err);
        keyless = key.len == 0;
        leat_buf_free(&key);
    }
    if (rc != LEAT_OK)
        return rc;
    w->out->keyless[side] += keyless;
    w->out->added += side && !keyless;
    w->out->removed += !side && !keyless;
    return keyless ? LEAT_OK : name_one(w, side ? LEAT_DIFF_ADDED : LEAT_DIFF_REMOVED, s, s->number, err);
}

static leat_status merge(struct work *w, struct leat_error *err)
{
    struct stream *a = w->streams[0];
    struct stream *b = w->streams[1];
    leat_status rc = advance(w, a, err);
    if (rc == LEAT_OK)
        rc = advance(w, b, err);
    while (rc == LEAT_OK && (!a->end || !b->end)) {
        bool first = b->end || (!a->end && a->hash < b->hash);
        bool both = !a->end && !b->end && a->hash == b->hash && a->hash != w->nothing;
        if (!first && !both && !a->end && a->hash == b->hash) /* no keys: one after the other */
            first = true;
        rc = both ? note_pair(w, err) : note_single(w, first ? 0 : 1, err);
        if (rc == LEAT_OK && (both || first))
            rc = advance(w, a, err);
        if (rc == LEAT_OK && (both || !first))
            rc = advance(w, b, err);
    }
    return rc == LEAT_OK ? compare_pairs(w, err) : rc;
}

/* Fields */

static bool same_about(const struct leat_field *a, const struct leat_field *b)
{
    return a->about_n == b->about_n && (a->about_n == 0 || memcmp(a->about, b->about, a->about_n) == 0);
}

static void compare_fields(struct work *w, const struct leat_schema *a, const struct leat_schema *b)
{
    struct leat_buf *out = &w->out->fields;
    for (uint32_t f = 0; f < a->n; f++) {
        const struct leat_field *x = &a->fields[f];
        uint32_t other = leat_schema_find(b, x->name);
        if (other >= LEAT_FIELDS_MAX) {
            leat_buf_printf(out, "- field %s: %s\n", x->name, leat_field_type_name(x->type));
            continue;
        }
        const struct leat_field *y = &b->fields[other];
        if (x->type != y->type)
            leat_buf_printf(out, "~ field %s: %s, then %s\n", x->name, leat_field_type_name(x->type),
                            leat_field_type_name(y->type));
        else if (!same_about(x, y))
            leat_buf_printf(out, "~ field %s: another description, such as names of labels\n", x->name);
        if (leat_field_check(x, NULL) != LEAT_OK || leat_field_check(y, NULL) != LEAT_OK)
            leat_buf_printf(out, "~ field %s: needs a newer Leat, and was not compared\n", x->name);
        else if (x->type == y->type)
            w->common[w->common_n++] = (struct common){{f, other}};
    }
    for (uint32_t f = 0; f < b->n; f++) {
        if (leat_schema_find(a, b->fields[f].name) >= LEAT_FIELDS_MAX)
            leat_buf_printf(out, "+ field %s: %s\n", b->fields[f].name, leat_field_type_name(b->fields[f].type));
    }
}

static leat_status open_stream(struct leat_dataset *d, struct stream **out, struct leat_error *err)
{
    const struct leat_section *keys = leat_root_section(leat_dataset_root(d), LEAT_SECTION_KEYS);
    if (!keys)
        return leat_fail(err, LEAT_NOT_FOUND, "the dataset at %s has no keys, so its samples cannot be compared",
                         leat_dataset_home(d)->url);
    leat_status rc = leat_section_check(keys, err);
    struct stream *s = rc == LEAT_OK ? calloc(1, sizeof *s) : NULL;
    if (rc != LEAT_OK || !s)
        return rc != LEAT_OK ? rc : leat_fail(err, LEAT_NO_MEMORY, "no memory to compare datasets");
    s->dataset = d;
    s->samples = leat_dataset_root(d)->samples;
    *out = s;
    return LEAT_OK;
}

leat_status leat_diff(struct leat_dataset *a, struct leat_dataset *b, const struct leat_diff_opts *opts,
                      struct leat_diff_progress *progress, struct leat_diff *out, struct leat_error *err)
{
    struct work w = {.opts = opts, .progress = progress, .out = out, .nothing = leat_xxh3("", 0)};
    *out = (struct leat_diff){0};
    leat_buf_init(&out->fields, FIELDS_TEXT);
    leat_status rc = open_stream(a, &w.streams[0], err);
    if (rc == LEAT_OK)
        rc = open_stream(b, &w.streams[1], err);
    w.same_sources = same_sources(a, b);
    if (rc == LEAT_OK)
        compare_fields(&w, &leat_dataset_root(a)->schema, &leat_dataset_root(b)->schema);
    w.pairs = malloc(PAIRS * sizeof *w.pairs);
    if (rc == LEAT_OK && !w.pairs)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to compare datasets");
    if (rc == LEAT_OK)
        rc = merge(&w, err);
    free(w.pairs);
    free(w.streams[0]);
    free(w.streams[1]);
    return rc;
}

void leat_diff_free(struct leat_diff *d)
{
    leat_buf_free(&d->fields);
}
