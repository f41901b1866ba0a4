/* What an operation's error says besides its reason. */
#include <stdio.h>
#include <string.h>

#include "store/backend.h"

#define SHOWN_MAX 200

static const char *verb_name(enum leat_store_verb verb)
{
    static const char *const names[] = {
        "access",          "read",           "write",           "delete", "begin writing", "continue writing",
        "write a part of", "finish writing", "give up writing", "list"};
    return names[verb];
}

static int shown_bytes(const struct leat_store *store, const char *key)
{
    size_t n = leat_store_can(store, LEAT_STORE_QUERIES) ? strcspn(key, "?") : strlen(key);
    return n > SHOWN_MAX ? SHOWN_MAX : (int)n;
}

int leat_store_shown(const struct leat_store_op *op)
{
    return shown_bytes(op->own->store, op->key);
}

void leat_store_explain(const struct leat_store *store, struct leat_store_op *op)
{
    size_t n = strlen(op->own->err.text);
    if (op->attempts > 1)
        snprintf(op->own->err.text + n, sizeof op->own->err.text - n, " (%u attempts)", op->attempts);
    bool file = leat_store_can(store, LEAT_STORE_LOCAL);
    const char *slash = leat_store_can(store, LEAT_STORE_QUERIES) ? "" : "/";
    int shown = leat_store_shown(op);
    leat_fail_context(&op->own->err, op->status, "cannot %s '%s%s%s%s%.*s%s'", verb_name(op->verb),
                      file ? "" : leat_scheme_name(leat_store_scheme(store)), file ? "" : "://",
                      file ? "" : leat_store_host(store), file ? "" : slash, shown, op->key,
                      shown == SHOWN_MAX && op->key[shown] ? "…" : "");
}

void leat_store_explain_starved(const struct leat_store *store, struct leat_store_op *op)
{
    op->status = leat_fail(op->err, LEAT_NO_MEMORY, "cannot %s '%.*s': no memory for a request", verb_name(op->verb),
                           shown_bytes(store, op->key), op->key);
}
