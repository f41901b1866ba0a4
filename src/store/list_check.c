#include "store/list_check.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"

#define KEY_MAX (64u << 10)

/* A server may look through a stretch of deleted keys and show nothing of it, thousands of keys with each page. This is
 * ten million of them and more. */
#define BARREN_MAX 10000

void leat_list_check_init(struct leat_list_check *c, const char *prefix, size_t prefix_n, bool ordered, bool versions)
{
    *c = (struct leat_list_check){.prefix = prefix, .prefix_n = prefix_n, .ordered = ordered, .versions = versions};
    for (unsigned o = 0; o < LEAT_LIST_ORDERS; o++)
        leat_buf_init(&c->orders[o].last, KEY_MAX);
}

void leat_list_check_free(struct leat_list_check *c)
{
    for (unsigned o = 0; o < LEAT_LIST_ORDERS; o++) {
        if (c->orders[o].last.data)
            leat_buf_free(&c->orders[o].last);
    }
}

static const char *key_of(const struct leat_s3_page *page, const struct leat_s3_entry *e)
{
    return leat_s3_page_string(page, e->key);
}

static leat_status fail_again(const char *key, struct leat_error *err)
{
    return leat_fail(err, LEAT_SERVER, "the server's list repeats itself: '%.200s' comes again", key);
}

/* Whether the element is the one that is kept. *keep: it is kept from now on. */
static bool comes_again(struct leat_circle *c, uint64_t hash, bool *keep)
{
    bool again = c->n && hash == c->kept;
    *keep = c->n == c->at;
    if (*keep) {
        c->kept = hash;
        c->at = 2 * c->at + 1;
    }
    c->n++;
    return again;
}

static leat_status check_entry(struct leat_list_check *c, const struct leat_s3_page *page,
                               const struct leat_s3_entry *e, struct leat_error *err)
{
    const char *key = key_of(page, e);
    const char *version = leat_s3_page_string(page, e->version);
    uint64_t hash = leat_xxh3(key, strlen(key)) ^ 0x9e3779b97f4a7c15u * leat_xxh3(version, strlen(version));
    bool keep;
    if (strncmp(key, c->prefix, c->prefix_n) != 0)
        return leat_fail(err, LEAT_SERVER, "the server lists '%.200s', which was not asked for: it is not in '%.*s'",
                         key, (int)c->prefix_n, c->prefix);
    if (comes_again(&c->entries, hash, &keep) && !(e->prefix && c->page - c->kept_in == 1))
        return fail_again(key, err);
    if (keep)
        c->kept_in = c->page;
    return LEAT_OK;
}

static int compare(enum leat_list_order order, const char *a, const char *b)
{
    if (order == LEAT_LIST_BY_BYTES)
        return strcmp(a, b);
    while (*a && *a == *b) {
        a++;
        b++;
    }
    int x = *a == '/' ? 1 : (unsigned char)*a * 2;
    int y = *b == '/' ? 1 : (unsigned char)*b * 2;
    return x - y;
}

/* Whether the page goes on in an order in which all pages were before it. */
static leat_status check_order(struct leat_list_check *c, const struct leat_s3_page *page, size_t first,
                               enum leat_list_order order, bool *out, struct leat_error *err)
{
    struct leat_buf *last = &c->orders[order].last;
    const struct leat_s3_entry *low = &page->entries[first];
    const struct leat_s3_entry *high = low;
    for (const struct leat_s3_entry *e = low + 1; e < page->entries + page->n; e++) {
        low = compare(order, key_of(page, e), key_of(page, low)) < 0 ? e : low;
        high = compare(order, key_of(page, e), key_of(page, high)) > 0 ? e : high;
    }
    int step = c->begun ? compare(order, key_of(page, low), last->data) : 1;
    *out = step > 0 || (step == 0 && (low->prefix || c->versions));
    leat_buf_clear(last);
    leat_buf_str(last, key_of(page, high));
    return leat_buf_check(last, "a key", err);
}

static leat_status check_orders(struct leat_list_check *c, const struct leat_s3_page *page, size_t first,
                                struct leat_error *err)
{
    bool any = false;
    leat_status rc = LEAT_OK;
    for (size_t i = first + 1; i < page->n && !c->versions; i++) {
        const char *key = key_of(page, &page->entries[i]);
        if (strcmp(key_of(page, &page->entries[i - 1]), key) == 0)
            return fail_again(key, err);
    }
    for (unsigned o = 0; o < LEAT_LIST_ORDERS; o++) {
        bool fits = false;
        if (!c->orders[o].broken)
            rc = check_order(c, page, first, o, &fits, err);
        if (rc != LEAT_OK)
            return rc;
        c->orders[o].broken = !fits;
        any |= fits;
    }
    c->begun = true;
    return any ? LEAT_OK
               : leat_fail(err, LEAT_SERVER,
                           "the server's list repeats itself, or is not sorted: '%.200s' comes in page %" PRIu64
                           ", too late",
                           key_of(page, &page->entries[first]), c->page);
}

leat_status leat_list_check_page(struct leat_list_check *c, struct leat_s3_page *page, size_t first, const char *token,
                                 struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    bool keep;
    c->page++;
    for (size_t i = first; rc == LEAT_OK && i < page->n; i++)
        rc = check_entry(c, page, &page->entries[i], err);
    if (rc == LEAT_OK && c->ordered && first < page->n)
        rc = check_orders(c, page, first, err);
    if (rc != LEAT_OK)
        return rc;
    c->barren = first < page->n ? 0 : c->barren + 1;
    if (!token)
        return LEAT_OK;
    if (comes_again(&c->tokens, leat_xxh3(token, strlen(token)), &keep))
        return leat_fail(err, LEAT_SERVER, "the server's list repeats itself: page %" PRIu64 " has been there before",
                         c->page + 1);
    if (c->barren > BARREN_MAX)
        return leat_fail(err, LEAT_SERVER, "the server sent %d pages of its list without a key", BARREN_MAX);
    return LEAT_OK;
}
