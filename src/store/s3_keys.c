/* Keys that renew: looked up again before they expire, and when a server says that they have; once for all requests,
 * and on a thread of its own, since the one that hands them out may take seconds. Requests go on with the old ones
 * meanwhile. */
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/s3_impl.h"

#define AGAIN (10 * LEAT_S) /* after a lookup that found nothing new */

static bool differs(const char *a, const char *b)
{
    return !a != !b || (a && strcmp(a, b) != 0);
}

/* Only the keys: where the bucket is was settled when the store was opened. Requests that are under way were signed
 * with the keys of their time. Frees `aws`, which gets the old ones. */
static bool take_over(struct s3 *s3, struct leat_aws *aws)
{
    bool others = differs(aws->access_key, s3->aws.access_key) || differs(aws->secret_key, s3->aws.secret_key) ||
                  differs(aws->session_token, s3->aws.session_token);
    char *const old[] = {s3->aws.access_key, s3->aws.secret_key, s3->aws.session_token};
    s3->aws.access_key = aws->access_key;
    s3->aws.secret_key = aws->secret_key;
    s3->aws.session_token = aws->session_token;
    s3->aws.expires_s = aws->expires_s;
    s3->aws.since_s = aws->since_s;
    memcpy(s3->aws.keys_from, aws->keys_from, sizeof s3->aws.keys_from);
    aws->access_key = old[0];
    aws->secret_key = old[1];
    aws->session_token = old[2];
    leat_aws_free(aws);
    s3->keys_number += others;
    return others;
}

static bool lookup_stopped(void *user)
{
    const struct s3 *s3 = user;
    return atomic_load_explicit(&s3->lookup.stop, memory_order_relaxed);
}

static void *look_up(void *arg)
{
    struct s3 *s3 = arg;
    struct leat_store_opts opts = *leat_store_settings(s3->store);
    opts.stop = lookup_stopped;
    opts.stop_user = s3;
    s3->lookup.status = leat_aws_load_anew(&opts, &s3->lookup.aws, NULL);
    atomic_store_explicit(&s3->lookup.ended, true, memory_order_release); /* read by collect() */
    return NULL;
}

/* Takes what a lookup that has ended found. */
static void collect(struct s3 *s3)
{
    if (!s3->lookup.running || !atomic_load_explicit(&s3->lookup.ended, memory_order_acquire))
        return;
    pthread_join(s3->lookup.thread, NULL);
    s3->lookup.running = false;
    s3->lookup.others = s3->lookup.status == LEAT_OK && take_over(s3, &s3->lookup.aws);
}

static bool begin(struct s3 *s3)
{
    s3->lookup.began_ns = leat_now_ns();
    s3->lookup.others = false;
    s3->lookup.aws = (struct leat_aws){0};
    s3->lookup.ended = false;
    s3->lookup.running = leat_thread_start(&s3->lookup.thread, "leat-keys", look_up, s3, NULL) == LEAT_OK;
    return s3->lookup.running;
}

enum leat_backend_renewal leat_s3_renew(struct leat_backend *backend, const struct leat_backend_keys *keys,
                                        const struct leat_store_op *op)
{
    struct s3 *s3 = (struct s3 *)backend;
    struct leat_store_opts opts = *leat_store_settings(s3->store);
    if (keys) {
        struct leat_aws aws = {0};
        opts.keys_given = true;
        opts.access_key = keys->access_key;
        opts.secret_key = keys->secret_key;
        opts.session_token = keys->session_token;
        if (leat_aws_load(&opts, &aws, NULL) != LEAT_OK)
            return LEAT_RENEWED_SAME;
        return take_over(s3, &aws) ? LEAT_RENEWED_OTHERS : LEAT_RENEWED_SAME;
    }
    if (opts.keys_given)
        return LEAT_RENEWED_SAME;
    collect(s3);
    if (op->own.keys != s3->keys_number)
        return LEAT_RENEWED_OTHERS; /* it was under way when they came */
    if (s3->lookup.running)
        return LEAT_RENEWED_LATER;
    if (s3->lookup.began_ns >= op->own.expired_ns)
        return LEAT_RENEWED_SAME;
    return begin(s3) ? LEAT_RENEWED_LATER : LEAT_RENEWED_SAME;
}

void leat_s3_renew_early(struct s3 *s3)
{
    collect(s3);
    uint64_t at_s = leat_aws_renew_at(&s3->aws);
    uint64_t now = leat_now_ns();
    bool lately = s3->lookup.began_ns && !s3->lookup.others && now - s3->lookup.began_ns < AGAIN;
    if (at_s && !s3->lookup.running && !lately && (uint64_t)(leat_wall_s() + s3->clock_offset_s) >= at_s &&
        !leat_store_settings(s3->store)->keys_given)
        begin(s3);
}

void leat_s3_renew_stop(struct s3 *s3)
{
    if (!s3->lookup.running)
        return;
    atomic_store_explicit(&s3->lookup.stop, true, memory_order_relaxed);
    pthread_join(s3->lookup.thread, NULL); /* soon: it asks several times a second whether to stop */
    s3->lookup.running = false;
    if (s3->lookup.status == LEAT_OK)
        leat_aws_free(&s3->lookup.aws);
}
