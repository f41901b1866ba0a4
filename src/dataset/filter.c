#include "dataset/filter.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/parse.h"
#include "base/random.h"
#include "dataset/where.h"

#define RANGES_MAX 1000u
#define KEYS_MAX   ((size_t)1 << 31) /* of a list */

struct range {
    uint64_t from;
    uint64_t to;
};

/* A key of the list, in a table with open places. */
struct listed {
    const char *key; /* NULL: free */
    uint32_t n;
    _Atomic bool found;
};

struct leat_filter {
    struct leat_filter_opts opts;
    struct leat_where *where;
    struct range *ranges;
    size_t ranges_n;
    struct listed *listed;
    size_t places; /* a power of two; 0: no list */
};

/* Numbers */

static leat_status bad_numbers(const char *text, struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "--numbers: '%.100s' is not a list such as 0:1000,5000:,17", text);
}

static leat_status add_range(struct leat_filter *f, char *text, struct leat_error *err)
{
    char *colon = strchr(text, ':');
    struct range r = {0, UINT64_MAX};
    leat_status rc = LEAT_OK;
    if (f->ranges_n == RANGES_MAX)
        return leat_fail(err, LEAT_LIMIT, "--numbers: more than %u ranges; give a list of keys", RANGES_MAX);
    if (colon)
        *colon = '\0';
    if (*text || !colon)
        rc = leat_parse_u64(text, "--numbers", &r.from, err);
    if (rc == LEAT_OK && colon && colon[1])
        rc = leat_parse_u64(colon + 1, "--numbers", &r.to, err);
    if (rc != LEAT_OK)
        return bad_numbers(f->opts.numbers, err);
    if (!colon)
        r.to = r.from + 1;
    if (r.from >= r.to)
        return leat_fail(err, LEAT_INVALID, "--numbers: there is nothing from %" PRIu64 " to before %" PRIu64, r.from,
                         r.to);
    f->ranges[f->ranges_n++] = r;
    return LEAT_OK;
}

static leat_status read_numbers(struct leat_filter *f, struct leat_error *err)
{
    char *text = strdup(f->opts.numbers);
    f->ranges = calloc(RANGES_MAX, sizeof *f->ranges);
    leat_status rc = text && f->ranges ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of numbers");
    for (char *at = text; rc == LEAT_OK && at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        rc = add_range(f, at, err);
        at = comma ? comma + 1 : NULL;
    }
    free(text);
    return rc;
}

static bool has_number(const struct leat_filter *f, uint64_t sample)
{
    for (size_t i = 0; i < f->ranges_n; i++) {
        if (sample >= f->ranges[i].from && sample < f->ranges[i].to)
            return true;
    }
    return f->ranges_n == 0;
}

bool leat_filter_skips(const struct leat_filter *f, uint64_t first, uint64_t n)
{
    for (size_t i = 0; i < f->ranges_n; i++) {
        if (f->ranges[i].from < first + n && f->ranges[i].to > first)
            return false;
    }
    return f->ranges_n > 0;
}

/* The list of keys */

/* The key's place in the table, or the free one where it would be. */
static struct listed *place_of(const struct leat_filter *f, const char *key, size_t n)
{
    size_t at = (size_t)leat_xxh3(key, n) & (f->places - 1);
    while (f->listed[at].key && (f->listed[at].n != n || memcmp(f->listed[at].key, key, n) != 0))
        at = (at + 1) & (f->places - 1);
    return &f->listed[at];
}

static leat_status read_keys(struct leat_filter *f, struct leat_error *err)
{
    char *data = f->opts.keys;
    size_t size = f->opts.keys_n;
    char end = memchr(data, '\0', size) ? '\0' : '\n';
    size_t n = 1;
    if (size > KEYS_MAX)
        return leat_fail(err, LEAT_LIMIT, "--keys: the list has %zu bytes; at most %zu are possible", size, KEYS_MAX);
    for (size_t i = 0; i < size; i++)
        n += data[i] == end;
    for (f->places = 16; f->places < 2 * n; f->places *= 2) {
    }
    f->listed = calloc(f->places, sizeof *f->listed);
    if (!f->listed)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %zu keys", n);
    size_t keys = 0;
    for (size_t at = 0; at < size;) {
        const char *stop = memchr(data + at, end, size - at);
        size_t length = (stop ? (size_t)(stop - data) : size) - at;
        size_t next = at + length + 1;
        if (end == '\n' && length && data[at + length - 1] == '\r')
            length--;
        if (length > LEAT_KEY_MAX)
            return leat_fail(err, LEAT_INVALID, "--keys: entry %zu has %zu bytes, more than a key can have", keys + 1,
                             length);
        if (length) {
            struct listed *l = place_of(f, data + at, length);
            l->key = data + at;
            l->n = (uint32_t)length;
            keys++;
        }
        at = next;
    }
    return keys ? LEAT_OK : leat_fail(err, LEAT_INVALID, "--keys: the list is empty");
}

static bool has_key(struct leat_filter *f, const char *key, size_t n)
{
    if (!f->places)
        return true;
    struct listed *l = n ? place_of(f, key, n) : NULL;
    if (!l || !l->key)
        return false;
    atomic_store_explicit(&l->found, true, memory_order_relaxed);
    return true;
}

size_t leat_filter_missing(const struct leat_filter *f, const char **first, size_t *first_n)
{
    size_t missing = 0;
    for (size_t i = 0; i < f->places; i++) {
        const struct listed *l = &f->listed[i];
        if (!l->key || atomic_load_explicit(&l->found, memory_order_relaxed))
            continue;
        if (missing++ == 0 || l->key < *first) {
            *first = l->key;
            *first_n = l->n;
        }
    }
    return missing;
}

/* Patterns */

/* One of [a-z] or [!a-z] from `p` on, which is after the '['; *end after the ']', or NULL when there is none. */
static bool in_class(const char *p, unsigned char c, const char **end)
{
    bool negated = *p == '!' || *p == '^';
    bool in = false;
    p += negated;
    for (const char *start = p; *p && (*p != ']' || p == start); p++) {
        unsigned char low = (unsigned char)*p;
        unsigned char high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            high = (unsigned char)p[2];
            p += 2;
        }
        in |= c >= low && c <= high;
    }
    *end = *p ? p + 1 : NULL;
    return in != negated;
}

/* Goes back only to the last '*': no pattern takes longer than pattern times key. */
bool leat_filter_fits(const char *pattern, const char *key, size_t n)
{
    const char *star = NULL; /* after it */
    size_t back = 0;
    size_t i = 0;
    while (i < n || *pattern) {
        const char *next = pattern + 1;
        bool fits = false;
        if (*pattern == '*') {
            star = ++pattern;
            back = i;
            continue;
        }
        if (i < n && *pattern == '?') {
            fits = true;
        } else if (i < n && *pattern == '[') {
            const char *end;
            bool in = in_class(pattern + 1, (unsigned char)key[i], &end);
            fits = end ? in : key[i] == '['; /* an ordinary character where it is not closed */
            next = end ? end : next;
        } else if (i < n && *pattern == '\\' && pattern[1]) {
            next = pattern + 2;
            fits = key[i] == pattern[1];
        } else if (i < n && *pattern) {
            fits = *pattern == key[i];
        }
        if (fits) {
            pattern = next;
            i++;
        } else if (star && back < n) {
            pattern = star;
            i = ++back;
        } else {
            return false;
        }
    }
    return true;
}

static bool fits_any(const struct leat_filter *f, const char *key, size_t n)
{
    for (size_t i = 0; i < f->opts.patterns_n; i++) {
        if (n && leat_filter_fits(f->opts.patterns[i], key, n))
            return true;
    }
    return f->opts.patterns_n == 0;
}

uint64_t leat_filter_seed(const struct leat_dataset *d, uint64_t seed)
{
    if (!leat_root_is_selection(leat_dataset_root(d)))
        return seed;
    return leat_key("select-from", seed, 0, leat_dataset_id(d), LEAT_SHA256_SIZE);
}

double leat_filter_draw(const char *purpose, uint64_t seed, const char *key, size_t n, uint64_t number)
{
    uint64_t k = n ? leat_key(purpose, seed, 0, key, n) : leat_key(purpose, seed, 1 + number, NULL, 0);
    return (double)(leat_random_u64(k, 0, 0) >> 11) * 0x1p-53;
}

/* All of it */

leat_status leat_filter_open(struct leat_dataset *d, const struct leat_filter_opts *opts, struct leat_filter **out,
                             struct leat_error *err)
{
    struct leat_filter *f = calloc(1, sizeof *f);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a filter");
    f->opts = *opts;
    f->opts.seed = leat_filter_seed(d, opts->seed);
    leat_status rc = LEAT_OK;
    if (!(opts->fraction > 0 && opts->fraction <= 1))
        rc = leat_fail(err, LEAT_INVALID, "--fraction: %g is not above 0 and at most 1", opts->fraction);
    if (rc == LEAT_OK && opts->where)
        rc = leat_where_parse(opts->where, &leat_dataset_root(d)->schema, &f->where, err);
    if (rc == LEAT_OK && opts->numbers)
        rc = read_numbers(f, err);
    if (rc == LEAT_OK && opts->keys)
        rc = read_keys(f, err);
    if (rc != LEAT_OK) {
        leat_filter_close(f);
        return rc;
    }
    *out = f;
    return LEAT_OK;
}

void leat_filter_close(struct leat_filter *f)
{
    if (!f)
        return;
    leat_where_free(f->where);
    free(f->ranges);
    free(f->listed);
    free(f);
}

unsigned leat_filter_wants(const struct leat_filter *f)
{
    bool keys =
        f->opts.patterns_n || f->places || f->opts.fraction < 1 || (f->where && leat_where_reads_keys(f->where));
    return (f->where ? LEAT_SLICE_ROWS : 0u) | (keys ? LEAT_SLICE_KEYS : 0u);
}

bool leat_filter_reads_chunks(const struct leat_filter *f)
{
    return f->where && leat_where_reads_chunks(f->where);
}

bool leat_filter_lacks_sizes(const struct leat_filter *f)
{
    return f->where && leat_where_lacks_sizes(f->where);
}

leat_status leat_filter_match(struct leat_filter *f, struct leat_slice *s, uint32_t i, uint64_t sample, bool *out,
                              struct leat_error *err)
{
    size_t n = 0;
    const char *key = leat_filter_wants(f) & LEAT_SLICE_KEYS ? leat_slice_key(s, i, &n) : NULL;
    /* The list first: a key that is in it and in the dataset is not missing, whatever else is asked of it. */
    *out = has_key(f, key, n) && has_number(f, sample) && fits_any(f, key, n) &&
           (f->opts.fraction >= 1 ||
            leat_filter_draw("select-fraction", f->opts.seed, key, n, s->first + i) < f->opts.fraction);
    return *out && f->where ? leat_where_match(f->where, s, i, out, err) : LEAT_OK;
}
