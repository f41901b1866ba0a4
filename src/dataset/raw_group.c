/* Objects whose keys differ in what follows the first dot of their names make one sample. And samples are found by
 * their names, for manifests. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "dataset/ending.h"
#include "dataset/raw_inside.h"

struct groups {
    struct raw *r;
    uint32_t *of;    /* group of each object */
    uint8_t *ending; /* … and which ending it has */
    uint32_t *first; /* first object of each group */
    uint32_t n;
    char names[LEAT_FIELDS_MAX][LEAT_FIELD_NAME_MAX];
    uint8_t place[LEAT_FIELDS_MAX]; /* of each ending among the sorted ones */
    uint32_t endings;
};

/* Slots of hash tables hold a number + 1, 0: none. A power of two of them, at least half of them empty. */
struct table {
    uint32_t *slots;
    uint64_t mask;
};

static leat_status no_memory(uint64_t n, struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " samples", n);
}

static leat_status open_table(struct table *t, uint64_t n, struct leat_error *err)
{
    uint64_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    t->mask = slots - 1;
    t->slots = calloc(slots, sizeof *t->slots);
    return t->slots ? LEAT_OK : no_memory(n, err);
}

static leat_status ending_number(struct groups *g, const char *field, uint8_t *out, struct leat_error *err)
{
    uint32_t i = 0;
    while (i < g->endings && strcmp(g->names[i], field) != 0)
        i++;
    if (i == LEAT_FIELDS_MAX)
        return leat_fail(err, LEAT_LIMIT, "the files have more than %u different endings: '%s' is one more",
                         LEAT_FIELDS_MAX, field);
    if (i == g->endings)
        memcpy(g->names[g->endings++], field, LEAT_FIELD_NAME_MAX);
    *out = (uint8_t)i;
    return LEAT_OK;
}

static leat_status find_groups(struct groups *g, struct leat_error *err)
{
    const struct leat_listing *l = &g->r->list;
    struct table t;
    leat_status rc = open_table(&t, l->n, err);
    for (uint64_t i = 0; rc == LEAT_OK && i < l->n; i++) {
        const char *key = leat_listing_key(l, i);
        uint32_t home = leat_listing_home(l, i);
        char field[LEAT_FIELD_NAME_MAX] = "";
        size_t stem;
        if (!leat_ending_split(key, strlen(key), &stem, field)) {
            rc = leat_fail(err, LEAT_INVALID,
                           "'%s' has no ending that could name a field, so it is not part of a sample (--group)", key);
            break;
        }
        rc = ending_number(g, field, &g->ending[i], err);
        uint64_t at = leat_xxh3(key, stem) + home;
        uint32_t *slot;
        for (;; at++) {
            slot = &t.slots[at & t.mask];
            if (!*slot)
                break;
            uint32_t other = g->first[*slot - 1];
            const char *name = leat_listing_key(l, other);
            if (strncmp(name, key, stem) == 0 && name[stem] == '.' && !strchr(name + stem, '/') &&
                raw_stem(g->r, name) == stem && leat_listing_home(l, other) == home)
                break;
        }
        if (!*slot) {
            g->first[g->n++] = (uint32_t)i;
            *slot = g->n;
        }
        g->of[i] = *slot - 1;
    }
    free(t.slots);
    return rc;
}

static int by_name(const void *a, const void *b, void *user)
{
    const struct groups *g = user;
    return strcmp(g->names[*(const uint8_t *)a], g->names[*(const uint8_t *)b]);
}

/* Fields in the order of their names, whatever came first in the list. */
static leat_status make_fields(struct groups *g, struct leat_error *err)
{
    uint8_t sorted[LEAT_FIELDS_MAX];
    for (uint32_t i = 0; i < g->endings; i++)
        sorted[i] = (uint8_t)i;
    qsort_r(sorted, g->endings, sizeof *sorted, by_name, g);
    for (uint32_t i = 0; i < g->endings; i++) {
        const char *name = g->names[sorted[i]];
        enum leat_field_type type;
        g->place[sorted[i]] = (uint8_t)i;
        leat_status rc = raw_file_type(g->r->opts, name, raw_seems(name), &type, err);
        if (rc == LEAT_OK)
            rc = leat_schema_add(&g->r->origin.schema, name, type, NULL, err);
        if (rc != LEAT_OK)
            return rc;
    }
    g->r->files = g->endings;
    return LEAT_OK;
}

static leat_status fill_members(struct groups *g, struct leat_error *err)
{
    struct raw *r = g->r;
    uint64_t cells = (uint64_t)g->n * r->files;
    r->members = malloc(cells * sizeof *r->members);
    if (!r->members)
        return no_memory(g->n, err);
    memset(r->members, 0xff, cells * sizeof *r->members);
    for (uint64_t i = 0; i < r->list.n; i++) {
        uint32_t *member = &r->members[(uint64_t)g->of[i] * r->files + g->place[g->ending[i]]];
        if (*member != RAW_NONE)
            return leat_fail(err, LEAT_INVALID, "'%s' and '%s' are both the '%s' of one sample",
                             leat_listing_key(&r->list, *member), leat_listing_key(&r->list, i),
                             g->names[g->ending[i]]);
        *member = (uint32_t)i;
    }
    return LEAT_OK;
}

static leat_status fail_missing(const struct raw *r, uint64_t sample, uint32_t file, uint64_t lacking, uint64_t n,
                                struct leat_error *err)
{
    const char *key = leat_listing_key(&r->list, raw_first_member(r, sample));
    return leat_fail(err, LEAT_INVALID,
                     "'%.*s' has no .%s (%" PRIu64 " of %" PRIu64
                     " samples lack a file): --missing optional makes the field optional, skip leaves them out",
                     (int)raw_stem(r, key), key, r->origin.schema.fields[file].name, lacking, n);
}

/* Groups that lack a file. */
static leat_status settle_missing(struct groups *g, struct leat_error *err)
{
    struct raw *r = g->r;
    uint64_t lacking = 0;
    uint64_t kept = 0;
    uint64_t first = 0;
    uint32_t first_file = 0;
    for (uint64_t i = 0; i < g->n; i++) {
        uint32_t *members = &r->members[i * r->files];
        uint32_t missing = RAW_NONE;
        for (uint32_t f = r->files; f-- > 0;) {
            if (members[f] != RAW_NONE)
                continue;
            missing = f;
            if (r->opts->missing == LEAT_MISSING_OPTIONAL)
                r->origin.schema.fields[f].needs |= LEAT_FIELD_OPTIONAL;
        }
        if (missing != RAW_NONE && lacking++ == 0) {
            first = i;
            first_file = missing;
        }
        if (missing == RAW_NONE || r->opts->missing == LEAT_MISSING_OPTIONAL)
            memmove(&r->members[kept++ * r->files], members, r->files * sizeof *members);
        else if (r->opts->missing == LEAT_MISSING_ERROR)
            kept++; /* the first is named below, where it still stands */
    }
    if (lacking && r->opts->missing == LEAT_MISSING_ERROR)
        return fail_missing(r, first, first_file, lacking, g->n, err);
    r->counts.incomplete = g->n - kept;
    r->origin.samples = kept;
    if (kept == 0)
        return leat_fail(err, LEAT_NOT_FOUND,
                         "none of the %" PRIu32 " groups has all files: --missing optional includes them all", g->n);
    return LEAT_OK;
}

leat_status raw_group(struct raw *r, struct leat_error *err)
{
    struct groups *g = calloc(1, sizeof *g);
    if (!g)
        return no_memory(r->list.n, err);
    g->r = r;
    g->of = malloc(r->list.n * sizeof *g->of);
    g->first = malloc(r->list.n * sizeof *g->first);
    g->ending = malloc(r->list.n);
    leat_status rc = g->of && g->first && g->ending ? find_groups(g, err) : no_memory(r->list.n, err);
    if (rc == LEAT_OK)
        rc = make_fields(g, err);
    if (rc == LEAT_OK)
        rc = fill_members(g, err);
    if (rc == LEAT_OK)
        rc = settle_missing(g, err);
    free(g->of);
    free(g->first);
    free(g->ending);
    free(g);
    return rc;
}

/* Finding samples by the paths of a manifest */

struct finder {
    const struct raw *r;
    struct table
        table; /* of object i: i; where there are groups, the name of sample i without an ending: objects + i */
    struct leat_buf name;
    bool no_memory;
};

static const char *name_of(const struct finder *f, uint64_t entry, size_t *n)
{
    const struct leat_listing *l = &f->r->list;
    bool stem = entry >= l->n;
    const char *key = leat_listing_key(l, stem ? raw_first_member(f->r, entry - l->n) : entry);
    *n = stem ? raw_stem(f->r, key) : strlen(key);
    return key;
}

static uint32_t *find_slot(const struct finder *f, const char *name, size_t n)
{
    for (uint64_t at = leat_xxh3(name, n);; at++) {
        uint32_t *slot = &f->table.slots[at & f->table.mask];
        if (!*slot)
            return slot;
        size_t other_n;
        const char *other = name_of(f, *slot - 1, &other_n);
        if (other_n == n && memcmp(other, name, n) == 0)
            return slot;
    }
}

/* Sample by object, where there are groups: an object of a group that was left out has none. */
static leat_status open_finder(struct finder *f, const struct raw *r, uint32_t **sample_of, struct leat_error *err)
{
    uint64_t entries = r->list.n + (r->grouped ? r->origin.samples : 0);
    f->r = r;
    leat_buf_init(&f->name, (size_t)1 << 20);
    leat_status rc = entries < UINT32_MAX
                         ? open_table(&f->table, entries, err)
                         : leat_fail(err, LEAT_LIMIT, "a manifest is for less than 2^32 objects and samples");
    *sample_of = rc == LEAT_OK ? malloc(r->list.n * sizeof **sample_of) : NULL;
    if (rc == LEAT_OK && !*sample_of)
        rc = no_memory(r->list.n, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint64_t i = 0; i < r->list.n; i++)
        (*sample_of)[i] = r->grouped ? RAW_NONE : (uint32_t)i;
    for (uint64_t i = 0; r->grouped && i < r->origin.samples; i++) {
        for (uint32_t k = 0; k < r->files; k++) {
            if (raw_member(r, i, k) != RAW_NONE)
                (*sample_of)[raw_member(r, i, k)] = (uint32_t)i;
        }
    }
    for (uint64_t e = 0; e < entries; e++) {
        size_t n;
        const char *name = name_of(f, e, &n);
        uint32_t *slot = find_slot(f, name, n);
        if (!*slot) /* of two stores with the same key the first is found */
            *slot = (uint32_t)e + 1;
    }
    return LEAT_OK;
}

static uint32_t look_up(const struct finder *f, const char *name, size_t n)
{
    return *find_slot(f, name, n);
}

/* The first n bytes of a prefix with the path after it: 0 when there is no such object, or no memory for its name. */
static uint32_t find_below(struct finder *f, const char *prefix, size_t n, const char *path)
{
    leat_buf_clear(&f->name);
    leat_buf_add(&f->name, prefix, n);
    leat_buf_str(&f->name, path);
    f->no_memory = f->no_memory || (f->name.failed && !f->name.full);
    return f->name.failed ? 0 : look_up(f, f->name.data, f->name.len);
}

/* A whole key. Those of files are as short as the place was named: a whole path is looked for from here, too. */
static uint32_t find_whole(struct finder *f, const char *key)
{
    uint32_t entry = look_up(f, key, strlen(key));
    char *here = !entry && key[0] == '/' ? getcwd(NULL, 0) : NULL;
    size_t n = here ? strlen(here) : 0;
    if (n > 1 && strncmp(key, here, n) == 0 && key[n] == '/')
        entry = look_up(f, key + n + 1, strlen(key + n + 1));
    free(here);
    return entry;
}

/* A path may be one below any of the places, a whole key, or a whole address. 0: there is no such object. */
static uint32_t find_path(struct finder *f, const char *path)
{
    const struct leat_listing *l = &f->r->list;
    const char *scheme = strstr(path, "://");
    uint32_t entry = 0;
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    for (uint32_t h = 0; h < l->homes_n && !entry; h++) {
        const char *prefix = l->homes[h].prefix;
        entry = find_below(f, prefix, strlen(prefix), path);
        if (!entry && f->r->cut[h] < strlen(prefix)) /* below the folder that several places share */
            entry = find_below(f, prefix, f->r->cut[h], path);
    }
    if (!entry && scheme) {
        const char *slash = strchr(scheme + 3, '/');
        bool file = strncmp(path, "file://", 7) == 0;
        if (slash)
            entry = find_whole(f, slash + !file);
    }
    return entry ? entry : find_whole(f, path);
}

/* Takes the samples that the rows name. */
static leat_status take_rows(struct raw *r, struct finder *f, const uint32_t *sample_of, struct leat_error *err)
{
    const struct leat_manifest *m = r->manifest;
    uint32_t *members = malloc(m->rows * r->files * sizeof *members);
    uint64_t *row_of = calloc(r->origin.samples, sizeof *row_of); /* row + 1 by sample */
    leat_status rc = members && row_of ? LEAT_OK : no_memory(m->rows, err);
    uint64_t missing = 0;
    uint64_t first = 0;
    for (uint64_t row = 0; rc == LEAT_OK && row < m->rows; row++) {
        uint32_t entry = find_path(f, leat_manifest_path(m, row));
        if (f->no_memory) {
            rc = no_memory(m->rows, err);
            break;
        }
        uint64_t sample = !entry ? RAW_NONE : entry - 1 < r->list.n ? sample_of[entry - 1] : entry - 1 - r->list.n;
        if (sample == RAW_NONE) {
            first = missing++ ? first : row;
            continue;
        }
        if (row_of[sample])
            rc = leat_fail(err, LEAT_INVALID, "%s, line %u: '%s' is named in line %u already", m->what, m->lines[row],
                           leat_manifest_path(m, row), m->lines[row_of[sample] - 1]);
        row_of[sample] = row + 1;
        for (uint32_t k = 0; k < r->files; k++)
            members[row * r->files + k] = raw_member(r, sample, k);
    }
    if (rc == LEAT_OK && missing)
        rc = leat_fail(err, LEAT_NOT_FOUND,
                       "%s, line %u: '%s' is not in %s%s (%" PRIu64 " of %" PRIu64 " files are missing)", m->what,
                       m->lines[first], leat_manifest_path(m, first), r->list.homes[0].url,
                       r->list.homes_n > 1 ? " or the other places" : "", missing, m->rows);
    free(row_of);
    if (rc != LEAT_OK) {
        free(members);
        return rc;
    }
    r->counts.unnamed = r->origin.samples - m->rows;
    free(r->members);
    r->members = members;
    r->origin.samples = m->rows;
    return LEAT_OK;
}

leat_status raw_take_rows(struct raw *r, struct leat_error *err)
{
    struct finder f = {0};
    uint32_t *sample_of = NULL;
    leat_status rc = open_finder(&f, r, &sample_of, err);
    if (rc == LEAT_OK)
        rc = take_rows(r, &f, sample_of, err);
    free(sample_of);
    free(f.table.slots);
    leat_buf_free(&f.name);
    return rc;
}
