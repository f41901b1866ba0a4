#include "cli/deletes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/cli.h"

#define IN_FLIGHT 128u

struct one {
    struct leat_store_op op; /* first member */
    struct leat_cli_deletes *d;
    char *key;
};

static void on_deleted(struct leat_store_op *op)
{
    struct one *one = (struct one *)op;
    struct leat_cli_deletes *d = one->d;
    pthread_mutex_lock(&d->mu);
    if (op->status == LEAT_OK)
        d->deleted++;
    else if (d->err.status == LEAT_OK)
        d->err = op->err;
    d->in_flight--;
    pthread_cond_signal(&d->cond);
    pthread_mutex_unlock(&d->mu);
    free(one->key);
    free(one);
}

static leat_status wait_below(struct leat_cli_deletes *d, uint32_t most, struct leat_error *err)
{
    pthread_mutex_lock(&d->mu);
    while (d->in_flight > most && !leat_cli_interrupted())
        leat_cond_wait(&d->cond, &d->mu, leat_after(100 * LEAT_MS));
    leat_status rc = d->err.status;
    if (rc != LEAT_OK)
        *err = d->err;
    pthread_mutex_unlock(&d->mu);
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
    one->op.done = on_deleted;
    pthread_mutex_lock(&d->mu);
    d->in_flight++;
    pthread_mutex_unlock(&d->mu);
    leat_store_submit(d->store, &one->op);
    return LEAT_OK;
}

leat_status leat_cli_deletes_wait(struct leat_cli_deletes *d, struct leat_error *err)
{
    return wait_below(d, 0, err);
}

void leat_cli_deletes_init(struct leat_cli_deletes *d)
{
    pthread_mutex_init(&d->mu, NULL);
    leat_cond_init(&d->cond);
}

void leat_cli_deletes_end(struct leat_cli_deletes *d)
{
    pthread_cond_destroy(&d->cond);
    pthread_mutex_destroy(&d->mu);
}
