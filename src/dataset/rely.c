#include "dataset/rely.h"

#include <stdlib.h>
#include <string.h>

#include "store/wait.h"

#define AT_ONCE 64u

struct leat_rely_object {
    uint8_t sha[LEAT_SHA256_SIZE];
    bool root;
};

/* One request. */
struct look {
    char *key;
    struct leat_store_op op;
    struct leat_error err;
};

static leat_status add(struct leat_rely *r, const uint8_t sha[LEAT_SHA256_SIZE], bool root, struct leat_error *err)
{
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct leat_rely_object *list = realloc(r->list, cap * sizeof *list);
        if (!list)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %zu objects", cap);
        r->list = list;
        r->cap = cap;
    }
    struct leat_rely_object *o = &r->list[r->n++];
    memcpy(o->sha, sha, sizeof o->sha);
    o->root = root;
    return LEAT_OK;
}

leat_status leat_rely_on_chunk(struct leat_rely *r, const uint8_t sha[LEAT_SHA256_SIZE], struct leat_error *err)
{
    return add(r, sha, false, err);
}

leat_status leat_rely_on_root(struct leat_rely *r, const uint8_t sha[LEAT_SHA256_SIZE], struct leat_error *err)
{
    return add(r, sha, true, err);
}

static leat_status begin(struct look *l, const struct leat_home *h, const struct leat_rely_object *o,
                         struct leat_wait *wait, struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    if (o->root)
        leat_name_root(o->sha, name);
    else
        leat_name_chunk(o->sha, name);
    l->key = leat_home_key(h, name);
    if (!l->key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    l->op = (struct leat_store_op){.verb = LEAT_STORE_STAT, .key = l->key, .err = &l->err};
    leat_wait_submit(wait, h->store, &l->op);
    return LEAT_OK;
}

struct looking {
    struct leat_store *store;
    struct look *looks;
    size_t sent;
};

static void cancel(void *arg)
{
    const struct looking *g = arg;
    for (size_t i = 0; i < g->sent; i++)
        leat_store_cancel(g->store, &g->looks[i].op);
}

static leat_status judge(const struct look *l, const struct leat_home *h, struct leat_error *err)
{
    if (l->op.status == LEAT_OK)
        return LEAT_OK;
    if (l->op.status != LEAT_NOT_FOUND) {
        if (err)
            *err = l->err;
        return l->op.status;
    }
    return leat_fail(
        err, LEAT_CHANGED,
        "%s was there and is gone: 'leat gc' or someone else has deleted what this work relies on. Nothing "
        "was published at %s; run the command again",
        l->key, h->url);
}

/* At most AT_ONCE of them. */
static leat_status check_some(const struct leat_rely_object *list, size_t n, const struct leat_home *h,
                              struct look looks[AT_ONCE], struct leat_error *err)
{
    struct leat_wait wait;
    struct looking g = {h->store, looks, 0};
    leat_status rc = LEAT_OK;
    leat_wait_init_for(&wait, h->store);
    while (rc == LEAT_OK && g.sent < n) {
        rc = begin(&looks[g.sent], h, &list[g.sent], &wait, err);
        g.sent += rc == LEAT_OK;
    }
    leat_wait_for(&wait, 0, cancel, &g);
    leat_wait_end(&wait);
    for (size_t i = 0; i < g.sent; i++) {
        if (rc == LEAT_OK)
            rc = judge(&looks[i], h, err);
        free(looks[i].key);
    }
    return rc;
}

leat_status leat_rely_check(const struct leat_rely *r, const struct leat_home *h, struct leat_error *err)
{
    struct look *looks = r->n ? malloc(AT_ONCE * sizeof *looks) : NULL;
    leat_status rc =
        looks || !r->n ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory to look for %zu objects", r->n);
    for (size_t at = 0; rc == LEAT_OK && at < r->n; at += AT_ONCE)
        rc = check_some(r->list + at, r->n - at < AT_ONCE ? r->n - at : AT_ONCE, h, looks, err);
    free(looks);
    return rc;
}

void leat_rely_free(struct leat_rely *r)
{
    free(r->list);
    *r = (struct leat_rely){0};
}
