#include "cli/deletes.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define IN_FLIGHT 128u

struct one {
    struct leat_store_op op; /* first member */
    struct leat_error err;
    struct leat_cli_deletes *d;
    char *key;
};

static void on_deleted(struct leat_store_op *op)
{
    struct one *one = (struct one *)op;
    struct leat_cli_deletes *d = one->d;
    pthread_mutex_lock(&d->wait.mu);
    if (op->status == LEAT_OK)
        d->deleted++;
    else if (d->err.status == LEAT_OK)
        d->err = one->err;
    pthread_mutex_unlock(&d->wait.mu);
    free(one->key);
    free(one);
    leat_wait_came(&d->wait);
}

static leat_status wait_below(struct leat_cli_deletes *d, uint32_t most, struct leat_error *err)
{
    leat_wait_for(&d->wait, most, NULL, NULL); /* closing the store ends those that are left */
    pthread_mutex_lock(&d->wait.mu);
    leat_status rc = d->err.status;
    if (rc != LEAT_OK)
        *err = d->err;
    pthread_mutex_unlock(&d->wait.mu);
    if (rc == LEAT_OK && leat_cli_interrupted())
        rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    return rc;
}

leat_status leat_cli_delete(struct leat_cli_deletes *d, const char *key, struct leat_error *err)
{
    leat_status rc = wait_below(d, IN_FLIGHT - 1, err);
    if (rc != LEAT_OK)
        return rc;
    struct one *one = calloc(1, sizeof *one);
    if (one)
        one->key = strdup(key);
    if (!one || !one->key) {
        free(one);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to delete '%s'", key);
    }
    one->d = d;
    one->op.verb = LEAT_STORE_DELETE;
    one->op.key = one->key;
    one->op.err = &one->err;
    one->op.done = on_deleted;
    leat_wait_sent(&d->wait);
    leat_store_submit(d->store, &one->op);
    return LEAT_OK;
}

leat_status leat_cli_deletes_wait(struct leat_cli_deletes *d, struct leat_error *err)
{
    return wait_below(d, 0, err);
}

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

void leat_cli_deletes_init(struct leat_cli_deletes *d)
{
    leat_wait_init(&d->wait, stop, NULL);
}

void leat_cli_deletes_end(struct leat_cli_deletes *d)
{
    leat_wait_end(&d->wait);
}
