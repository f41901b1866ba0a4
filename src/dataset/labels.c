#include "dataset/labels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "dataset/schema.h"

#define NAMES_MAX   (LEAT_SCHEMA_MAX - (4u << 10)) /* bytes of labels' names: they stand in every schema */
#define CLASSES_MAX (1u << 24)                     /* more names than that do not fit there either */
#define SHOWN_MAX   200u

/* A different name. */
struct name {
    const char *text;
    size_t n;
    uint32_t first; /* in the order in which names came */
    uint32_t label;
};

struct numbering {
    struct name *names;
    uint32_t n;
    uint32_t cap;
    uint32_t *slots; /* name + 1 by hash, 0: none; a power of two of them */
    uint32_t slots_n;
};

void leat_labels_close(struct leat_labels *l)
{
    if (!l)
        return;
    free(l->of);
    leat_buf_free(&l->about);
    *l = (struct leat_labels){0};
}

static int shown(size_t n)
{
    return (int)(n < SHOWN_MAX ? n : SHOWN_MAX);
}

static leat_status no_memory(uint64_t n, struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " labels", n);
}

static int by_text(const void *a, const void *b)
{
    const struct name *x = a;
    const struct name *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static int by_first(const void *a, const void *b)
{
    const struct name *x = a;
    const struct name *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Collecting the different names */

static uint32_t *slot_of(const struct numbering *g, const char *text, size_t n)
{
    uint64_t at = leat_xxh3(text, n);
    for (;; at++) {
        uint32_t *slot = &g->slots[at & (g->slots_n - 1)];
        if (!*slot || (g->names[*slot - 1].n == n && memcmp(g->names[*slot - 1].text, text, n) == 0))
            return slot;
    }
}

static leat_status grow(struct numbering *g, struct leat_error *err)
{
    uint32_t cap = g->cap ? 2 * g->cap : 1024;
    struct name *names = realloc(g->names, cap * sizeof *names);
    g->names = names ? names : g->names;
    if (names)
        memset(names + g->cap, 0, (cap - g->cap) * sizeof *names);
    uint32_t *slots = calloc((size_t)2 * cap, sizeof *slots);
    if (!names || !slots) {
        free(slots);
        return no_memory(cap, err);
    }
    free(g->slots);
    g->slots = slots;
    g->slots_n = 2 * cap;
    g->cap = cap;
    for (uint32_t i = 0; i < g->n; i++)
        *slot_of(g, g->names[i].text, g->names[i].n) = i + 1;
    return LEAT_OK;
}

static leat_status number_of(struct numbering *g, const char *text, size_t n, uint32_t *out, struct leat_error *err)
{
    if (g->n == g->cap) {
        if (g->n == CLASSES_MAX)
            return leat_fail(err, LEAT_LIMIT, "there are more than %u different labels (--labels none)", CLASSES_MAX);
        leat_status rc = grow(g, err);
        if (rc != LEAT_OK)
            return rc;
    }
    uint32_t *slot = slot_of(g, text, n);
    if (!*slot) {
        g->names[g->n] = (struct name){text, n, g->n, 0};
        *slot = ++g->n;
    }
    *out = *slot - 1;
    return LEAT_OK;
}

/* Giving them their numbers */

/* The name of class i: of the list, or of those there, sorted. */
static const char *class_name(const struct leat_classes *classes, const struct numbering *g, uint32_t i, size_t *n)
{
    if (classes)
        return leat_classes_name(classes, i, n);
    *n = g->names[i].n;
    return g->names[i].text;
}

/* {"names": […]} */
static leat_status describe(struct leat_labels *l, const struct leat_classes *classes, const struct numbering *g,
                            struct leat_error *err)
{
    json_t *about = json_object();
    json_t *names = json_array();
    leat_status rc = about && names && json_object_set(about, "names", names) == 0 ? LEAT_OK : no_memory(l->n, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < l->n; i++) {
        size_t n;
        const char *name = class_name(classes, g, i, &n);
        if (json_array_append_new(names, json_stringn(name, n)) != 0)
            rc = leat_fail(err, LEAT_INVALID, "'%.*s' cannot be the name of a class: it is not UTF-8 (--labels none)",
                           shown(n), name);
    }
    char *text = rc == LEAT_OK ? leat_json_write(about, 0) : NULL;
    if (rc == LEAT_OK && !text)
        rc = no_memory(l->n, err);
    if (rc == LEAT_OK && strlen(text) > NAMES_MAX)
        rc = leat_fail(err, LEAT_LIMIT,
                       "the names of the %u classes take %zu bytes; there is room for %u (--labels none)", l->n,
                       strlen(text), NAMES_MAX);
    if (rc == LEAT_OK && !leat_buf_str(&l->about, text))
        rc = leat_buf_check(&l->about, "the names of the classes", err);
    free(text);
    json_decref(names);
    json_decref(about);
    return rc;
}

/* Whether all names are numbers below 2^32, which then are the labels. */
static bool take_numbers(struct numbering *g, uint32_t *most)
{
    *most = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        uint64_t value = 0;
        if (g->names[i].n == 0 || g->names[i].n > 18)
            return false;
        for (size_t k = 0; k < g->names[i].n; k++) {
            char c = g->names[i].text[k];
            if (c < '0' || c > '9')
                return false;
            value = value * 10 + (uint64_t)(c - '0');
        }
        if (value >= UINT32_MAX)
            return false;
        g->names[i].label = (uint32_t)value;
        *most = (uint32_t)value > *most ? (uint32_t)value : *most;
    }
    return true;
}

static leat_status give_numbers(struct numbering *g, const struct leat_labels_opts *opts, struct leat_labels *l,
                                struct leat_error *err)
{
    uint32_t most;
    if (opts->numbers && !opts->classes && take_numbers(g, &most)) {
        l->n = most + 1;
        return LEAT_OK;
    }
    if (g->n)
        qsort(g->names, g->n, sizeof *g->names, by_text);
    for (uint32_t i = 0; i < g->n; i++) {
        g->names[i].label = i;
        if (opts->classes && !leat_classes_find(opts->classes, g->names[i].text, g->names[i].n, &g->names[i].label))
            return leat_fail(err, LEAT_INVALID, "the %s '%.*s' is not in the list of %u classes (--classes)",
                             opts->noun, shown(g->names[i].n), g->names[i].text, opts->classes->n);
    }
    l->n = opts->classes ? opts->classes->n : g->n;
    leat_status rc = describe(l, opts->classes, g, err);
    if (g->n)
        qsort(g->names, g->n, sizeof *g->names, by_first);
    return rc;
}

leat_status leat_labels_make(uint64_t samples, leat_label_name *name, const void *user,
                             const struct leat_labels_opts *opts, struct leat_labels *out, struct leat_error *err)
{
    struct leat_labels l = {.of = calloc(samples + 1, sizeof *l.of)};
    struct numbering g = {0};
    leat_buf_init(&l.about, NAMES_MAX);
    leat_status rc = l.of ? LEAT_OK : no_memory(samples, err);
    for (uint64_t i = 0; rc == LEAT_OK && i < samples; i++) {
        size_t n;
        const char *text = name(user, i, &n);
        rc = number_of(&g, text, n, &l.of[i], err);
    }
    if (rc == LEAT_OK)
        rc = give_numbers(&g, opts, &l, err);
    for (uint64_t i = 0; rc == LEAT_OK && g.names && i < samples; i++)
        l.of[i] = g.names[l.of[i]].label;
    free(g.names);
    free(g.slots);
    if (rc != LEAT_OK) {
        leat_labels_close(&l);
        return rc;
    }
    *out = l;
    return LEAT_OK;
}
