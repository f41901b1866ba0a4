#include "serve/names.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX ((size_t)UINT32_MAX)

void leat_serve_names_free(struct leat_serve_names *s)
{
    free(s->text);
    free(s->entry);
    *s = (struct leat_serve_names){0};
}

size_t leat_serve_names_bytes(const struct leat_serve_names *s)
{
    return s->text_cap + s->cap * sizeof *s->entry;
}

static bool names_reserve(struct leat_serve_names *s, size_t bytes)
{
    if (bytes > NAMES_MAX - s->text_n)
        return false;
    if (s->text_n + bytes > s->text_cap) {
        size_t cap = s->text_cap * 2 > s->text_n + bytes ? s->text_cap * 2 : s->text_n + bytes + 256;
        char *text = realloc(s->text, cap);
        if (!text)
            return false;
        s->text = text;
        s->text_cap = cap;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct leat_serve_name *entry = realloc(s->entry, cap * sizeof *entry);
        if (!entry)
            return false;
        s->entry = entry;
        s->cap = cap;
    }
    return true;
}

bool leat_serve_names_append(struct leat_serve_names *s, const char *name, size_t n, bool folder)
{
    if (!names_reserve(s, n + folder))
        return false;
    struct leat_serve_name *e = &s->entry[s->n++];
    *e = (struct leat_serve_name){(uint32_t)s->text_n, (uint32_t)(n + folder)};
    memcpy(s->text + s->text_n, name, n);
    if (folder)
        s->text[s->text_n + n] = '/';
    s->text_n += n + folder;
    return true;
}

static int compare(const char *a, size_t a_n, const char *b, size_t b_n)
{
    int c = memcmp(a, b, a_n < b_n ? a_n : b_n);
    return c ? c : (a_n > b_n) - (a_n < b_n);
}

int leat_serve_compare(struct leat_serve_key a, struct leat_serve_key b)
{
    return compare(a.data, a.n, b.data, b.n);
}

static int compare_entries(const void *a, const void *b, void *user)
{
    const struct leat_serve_name *x = a;
    const struct leat_serve_name *y = b;
    const char *text = user;
    return compare(text + x->at, x->n, text + y->at, y->n);
}

void leat_serve_names_sort(struct leat_serve_names *s)
{
    if (s->n > 1)
        qsort_r(s->entry, s->n, sizeof *s->entry, compare_entries, s->text);
}

size_t leat_serve_names_find(const struct leat_serve_names *s, const char *name, size_t n)
{
    size_t lo = 0;
    size_t hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare(s->text + s->entry[mid].at, s->entry[mid].n, name, n) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool leat_serve_names_is(const struct leat_serve_names *s, size_t i, const char *name, size_t n)
{
    return i < s->n && s->entry[i].n == n && memcmp(s->text + s->entry[i].at, name, n) == 0;
}

bool leat_serve_names_insert(struct leat_serve_names *s, const char *name, size_t n)
{
    size_t i = leat_serve_names_find(s, name, n);
    if (leat_serve_names_is(s, i, name, n))
        return true;
    if (!leat_serve_names_append(s, name, n, false))
        return false;
    struct leat_serve_name e = s->entry[s->n - 1];
    memmove(s->entry + i + 1, s->entry + i, (s->n - 1 - i) * sizeof e);
    s->entry[i] = e;
    return true;
}

void leat_serve_names_erase(struct leat_serve_names *s, const char *name, size_t n)
{
    size_t i = leat_serve_names_find(s, name, n);
    if (!leat_serve_names_is(s, i, name, n))
        return;
    s->n--;
    memmove(s->entry + i, s->entry + i + 1, (s->n - i) * sizeof *s->entry);
}
