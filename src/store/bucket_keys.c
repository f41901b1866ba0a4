/* Keys that renew: looked up again before they expire, and when a server says that they have; once for all requests,
 * and on a thread of its own, since the one that hands them out may take seconds. Requests go on with the old ones
 * meanwhile. */
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/bucket.h"
#include "store/kind.h"

#define AGAIN (10 * LEAT_S) /* after a lookup that found nothing new */

static bool differs(const char *a, const char *b)
{
    return !a != !b || (a && strcmp(a, b) != 0);
}

/* Only the keys: where the bucket is was settled when the store was opened. Requests that are under way were signed
 * with the keys of their time. Frees `aws`, which gets the old ones. */
static bool take_over(struct bucket *b, struct leat_aws *aws)
{
    bool others = differs(aws->access_key, b->aws.access_key) || differs(aws->secret_key, b->aws.secret_key) ||
                  differs(aws->session_token, b->aws.session_token);
    leat_aws_swap_keys(&b->aws, aws);
    leat_aws_free(aws);
    b->keys_number += others;
    return others;
}

static leat_status look(const struct bucket *b, const struct leat_store_opts *opts, bool fresh, struct leat_aws *out)
{
    struct leat_url url = {.scheme = leat_store_scheme(b->store), .host = b->bucket};
    return leat_kind_keys(&url, opts, fresh, out, NULL);
}

static bool lookup_stopped(void *user)
{
    const struct bucket *b = user;
    return atomic_load_explicit(&b->lookup.stop, memory_order_relaxed);
}

static void *look_up(void *arg)
{
    struct bucket *b = arg;
    struct leat_store_opts opts = *leat_store_settings(b->store);
    opts.stop = lookup_stopped;
    opts.stop_user = b;
    b->lookup.status = look(b, &opts, true, &b->lookup.aws);
    atomic_store_explicit(&b->lookup.ended, true, memory_order_release); /* read by collect() */
    return NULL;
}

/* Takes what a lookup that has ended found. */
static void collect(struct bucket *b)
{
    if (!b->lookup.running || !atomic_load_explicit(&b->lookup.ended, memory_order_acquire))
        return;
    pthread_join(b->lookup.thread, NULL);
    b->lookup.running = false;
    b->lookup.others = b->lookup.status == LEAT_OK && take_over(b, &b->lookup.aws);
}

static bool begin(struct bucket *b)
{
    b->lookup.began_ns = leat_now_ns();
    b->lookup.others = false;
    b->lookup.aws = (struct leat_aws){0};
    b->lookup.ended = false;
    b->lookup.running = leat_thread_start(&b->lookup.thread, "leat-keys", look_up, b, NULL) == LEAT_OK;
    return b->lookup.running;
}

enum leat_backend_renewal leat_bucket_renew(struct leat_backend *backend, const struct leat_access *access,
                                            const struct leat_store_op *op)
{
    struct bucket *b = (struct bucket *)backend;
    if (access) {
        struct leat_store_opts opts = *leat_store_settings(b->store);
        struct leat_aws aws = {0};
        opts.access = access;
        opts.place = leat_store_access_place(b->store);
        if (look(b, &opts, false, &aws) != LEAT_OK)
            return LEAT_RENEWED_SAME;
        return take_over(b, &aws) ? LEAT_RENEWED_OTHERS : LEAT_RENEWED_SAME;
    }
    if (leat_store_given(b->store))
        return LEAT_RENEWED_SAME;
    collect(b);
    if (op->own->keys != b->keys_number)
        return LEAT_RENEWED_OTHERS; /* it was under way when they came */
    if (b->lookup.running)
        return LEAT_RENEWED_LATER;
    if (b->lookup.began_ns >= op->own->expired_ns)
        return LEAT_RENEWED_SAME;
    return begin(b) ? LEAT_RENEWED_LATER : LEAT_RENEWED_SAME;
}

void leat_bucket_renew_early(struct bucket *b)
{
    collect(b);
    uint64_t at_s = leat_aws_renew_at(&b->aws);
    uint64_t now = leat_now_ns();
    bool lately = b->lookup.began_ns && !b->lookup.others && now - b->lookup.began_ns < AGAIN;
    if (at_s && !b->lookup.running && !lately && (uint64_t)leat_wall_s() >= at_s && !leat_store_given(b->store))
        begin(b);
}

void leat_bucket_renew_stop(struct bucket *b)
{
    if (!b->lookup.running)
        return;
    atomic_store_explicit(&b->lookup.stop, true, memory_order_relaxed);
    pthread_join(b->lookup.thread, NULL); /* soon: it asks several times a second whether to stop */
    b->lookup.running = false;
    if (b->lookup.status == LEAT_OK)
        leat_aws_free(&b->lookup.aws);
}
