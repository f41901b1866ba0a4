#include "serve/dialect.h"
#include "serve/ops.h"

void leat_serve_delete_object(struct leat_serve_call *c)
{
    const struct leat_serve_dialect *d = c->serve->dialect;
    struct leat_serve_condition condition;
    struct leat_error err;
    if (!d->condition(c, &condition))
        return;
    condition.present |= d->is_strict;
    if (leat_serve_object_remove(c->bucket, c->key, &condition, &err) == LEAT_OK)
        leat_serve_reply(c, d->has_account ? 202 : 204, "", "", 0);
    else
        leat_serve_fail_status(c, &err);
}
