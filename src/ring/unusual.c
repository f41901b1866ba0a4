#include "ring/unusual.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/parse.h"

#define AGAIN         (600 * LEAT_S)
#define COUNT_MIN     10u  /* throttled answers or retries in a window … */
#define THROTTLED_MIN 0.01 /* … and their share of the requests */
#define RETRIES_MIN   0.05
#define WAIT_MIN      0.1  /* of the window, waited for one cause */
#define MEMORY_MIN    0.95 /* of the cgroup's limit */
#define CHUNKS_MIN    16u  /* from disk and from the bucket in a window, before they are compared */
#define SLOWER        2.0
#define SLOW_NS       (50.0 * LEAT_MS)

struct look {
    struct leat_unusual *u;
    uint64_t now_ns;
    void (*say)(void *user, const char *text);
    void *user;
};

/* Whether it is news; if so it will not be for a while. */
static bool is_news(struct look *l, enum leat_unusual_kind kind)
{
    struct leat_unusual *u = l->u;
    if (l->now_ns < u->said[kind].next_ns)
        return false;
    u->said[kind].pause_ns = u->said[kind].pause_ns ? 2 * u->said[kind].pause_ns : AGAIN;
    u->said[kind].next_ns = l->now_ns + u->said[kind].pause_ns;
    return true;
}

static void look_at_requests(struct look *l, const struct leat_account *d, double seconds)
{
    char text[400];
    uint64_t repeated = d->retries > d->throttled ? d->retries - d->throttled : 0;
    double all = (double)d->requests;
    if (d->throttled >= COUNT_MIN && (double)d->throttled > THROTTLED_MIN * all && is_news(l, LEAT_UNUSUAL_THROTTLED)) {
        snprintf(text, sizeof text,
                 "the bucket asked to slow down %" PRIu64 " times in %.0f s, at %" PRIu64
                 " requests: keep more on the machine (ram=, cache=), spread the data over more prefixes, or ask its "
                 "provider for a higher limit",
                 d->throttled, seconds, d->requests);
        l->say(l->user, text);
    }
    if (repeated >= COUNT_MIN && (double)repeated > RETRIES_MIN * all && is_news(l, LEAT_UNUSUAL_RETRIES)) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " of %" PRIu64
                 " requests had to be repeated in %.0f s: the connection to the bucket is unreliable; 'leat doctor' "
                 "with the dataset's address says more",
                 repeated, d->requests, seconds);
        l->say(l->user, text);
    }
}

static void look_at_waits(struct look *l, const struct leat_account *d, double seconds)
{
    char text[400];
    char rate[LEAT_FORMAT_SIZE];
    double fetch = (double)d->wait_by_cause_ns[LEAT_WAIT_FETCH] / 1e9 / seconds;
    double prep = (double)d->wait_by_cause_ns[LEAT_WAIT_PREP] / 1e9 / seconds;
    if (fetch > WAIT_MIN && is_news(l, LEAT_UNUSUAL_FETCH)) {
        leat_format_rate((double)d->bytes_by_source[LEAT_FROM_BUCKET] / seconds, rate);
        snprintf(text, sizeof text,
                 "waited for data %.0f %% of the last %.0f s, with %s from the bucket: keep more on the machine (ram=, "
                 "cache=), or find a faster line; 'leat doctor' with the dataset's address measures it",
                 fetch * 100, seconds, rate);
        l->say(l->user, text);
    }
    if (prep > WAIT_MIN && is_news(l, LEAT_UNUSUAL_PREP)) {
        snprintf(text, sizeof text,
                 "waited for samples to be prepared %.0f %% of the last %.0f s: this machine's cores are too slow for "
                 "the training; use more of them (threads=), decode with .fast(), or store smaller pictures (leat pack "
                 "--max-side)",
                 prep * 100, seconds);
        l->say(l->user, text);
    }
}

static void look_at_machine(struct look *l, const struct leat_unusual_machine *m)
{
    const struct leat_unusual_machine *b = &l->u->machine_before;
    char text[400];
    char used[LEAT_FORMAT_SIZE];
    char limit[LEAT_FORMAT_SIZE];
    uint64_t from_disk = m->disk_chunks - b->disk_chunks;
    uint64_t from_bucket = m->bucket_chunks - b->bucket_chunks;
    bool fits = m->disk_chunks >= b->disk_chunks && m->bucket_chunks >= b->bucket_chunks;
    if (m->memory_limit && (double)m->memory_used > MEMORY_MIN * (double)m->memory_limit &&
        is_news(l, LEAT_UNUSUAL_MEMORY)) {
        snprintf(text, sizeof text,
                 "%s of the %s of memory that this cgroup may use are taken, and at the limit the kernel kills "
                 "processes: give the loader less (ram=, slots=), or the job more",
                 leat_format_size(m->memory_used, used), leat_format_size(m->memory_limit, limit));
        l->say(l->user, text);
    }
    if (!fits || from_disk < CHUNKS_MIN || from_bucket < CHUNKS_MIN)
        return;
    double disk_ns = (double)(m->disk_ns - b->disk_ns) / (double)from_disk;
    double bucket_ns = (double)(m->bucket_ns - b->bucket_ns) / (double)from_bucket;
    if (disk_ns > SLOW_NS && disk_ns > SLOWER * bucket_ns && is_news(l, LEAT_UNUSUAL_DISK)) {
        snprintf(text, sizeof text,
                 "a chunk takes %.0f ms from the cache on disk and %.0f ms from the bucket: put it on a faster disk "
                 "(cache_dir=), or do without",
                 disk_ns / 1e6, bucket_ns / 1e6);
        l->say(l->user, text);
    }
}

bool leat_unusual_due(const struct leat_unusual *u, uint64_t now_ns)
{
    return !u->began_ns || now_ns - u->began_ns >= LEAT_UNUSUAL_WINDOW;
}

void leat_unusual_look(struct leat_unusual *u, const struct leat_account *now,
                       const struct leat_unusual_machine *machine, uint64_t now_ns,
                       void (*say)(void *user, const char *text), void *user)
{
    struct look l = {.u = u, .now_ns = now_ns, .say = say, .user = user};
    if (!leat_unusual_due(u, now_ns))
        return;
    double seconds = (double)(now_ns - u->began_ns) / 1e9;
    /* Sums shrink where a dataset was let go: such a window says nothing. */
    if (u->began_ns && now->requests >= u->before.requests && now->wait_ns >= u->before.wait_ns) {
        struct leat_account d = *now;
        leat_account_since(&d, &u->before);
        look_at_requests(&l, &d, seconds);
        if (u->windows) /* in the first the cache is empty, and waiting is nothing unusual */
            look_at_waits(&l, &d, seconds);
        if (machine)
            look_at_machine(&l, machine);
        u->windows++;
    }
    u->began_ns = now_ns;
    u->before = *now;
    if (machine)
        u->machine_before = *machine;
}
