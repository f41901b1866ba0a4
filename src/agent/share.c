#include "agent/share.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

#define MEMBERS_MAX 64u /* bits of a word */
#define BUCKETS     16384u
#define SAMPLES_MAX (4 * BUCKETS)
#define FAR         4u /* windows: one that is farther behind is not made for */
#define WAIT_NS     (2 * LEAT_S)
#define SPARE_TRIES 16u

struct list {
    struct leat_shared *first, *last;
};

struct leat_shared {
    struct group *group;
    struct leat_shared *chain;       /* in its bucket */
    struct leat_shared *prev, *next; /* those as many wait for, in the order in which they came to be so */
    struct leat_shared *older, *newer;
    uint64_t epoch, number, place;
    uint64_t made_ns;
    uint64_t waiting; /* members that will come for it, bit by bit */
    uint32_t users;   /* threads that have it now */
    bool ready;
    bool kept; /* though nobody waits for it: others may be starting */
    bool out;  /* of the tables: gone as soon as nobody has it */
    char *data;
    uint64_t bytes; /* of the memory, which may be more than was asked for */
};

/* Memory for a next sample, in that memory itself. */
struct spare {
    struct spare *next;
    uint64_t bytes;
};

static_assert(sizeof(struct spare) <= LEAT_SHARE_LEAST, "it fits into any");

struct group {
    struct leat_share *share;
    struct group *next;
    uint64_t serial; /* of all groups that there were */
    uint8_t id[LEAT_SHA256_SIZE];
    uint64_t bytes;   /* of a sample, as its members said */
    uint64_t typical; /* … and as they have come lately */
    struct leat_share_member *members[MEMBERS_MAX];
    uint32_t members_n;
    uint32_t samples_n;   /* in the tables */
    uint32_t held;        /* samples out of them that somebody still has, and members that were not freed */
    struct spare *spares; /* for its next samples: the kernel clears memory that was given back to it, which would cost
                             more than the copies */
    uint64_t spares_n;
};

struct leat_share_member {
    struct group *group;
    uint32_t bit;
    bool quit;
    bool lost;             /* too far behind: nothing waits for it */
    _Atomic uint64_t left; /* how often it came to be so. Relaxed: statistics */
    uint64_t place;        /* what is before it, it has */
    uint64_t first;        /* samples that it still makes for those who may be starting */
};

struct leat_share {
    uint64_t bytes_max;
    struct {
        pthread_mutex_t mu;
        pthread_cond_t made;
        struct group *groups;
        uint64_t serials;
        uint64_t bytes;
        uint64_t samples;
        struct leat_shared *buckets[BUCKETS];
        struct list waited[MEMBERS_MAX + 1]; /* by how many wait for them */
        struct leat_shared *oldest, *newest;
    } locked; /* hold mu, for groups and what is in them too */
};

leat_status leat_share_open(uint64_t bytes_max, struct leat_share **out, struct leat_error *err)
{
    struct leat_share *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for what loaders share");
    s->bytes_max = bytes_max;
    pthread_mutex_init(&s->locked.mu, NULL);
    leat_cond_init(&s->locked.made);
    *out = s;
    return LEAT_OK;
}

void leat_share_close(struct leat_share *s)
{
    if (!s)
        return;
    pthread_cond_destroy(&s->locked.made);
    pthread_mutex_destroy(&s->locked.mu);
    free(s);
}

/* Lists. Hold mu for all that follows, unless it says otherwise. */

static struct list *list_of(const struct leat_shared *e)
{
    return &e->group->share->locked.waited[__builtin_popcountll(e->waiting)];
}

static void list_add(struct leat_shared *e)
{
    struct list *l = list_of(e);
    e->prev = l->last;
    e->next = NULL;
    *(l->last ? &l->last->next : &l->first) = e;
    l->last = e;
}

static void list_remove(struct leat_shared *e)
{
    struct list *l = list_of(e);
    *(e->prev ? &e->prev->next : &l->first) = e->next;
    *(e->next ? &e->next->prev : &l->last) = e->prev;
}

static void wait_for(struct leat_shared *e, uint64_t waiting)
{
    list_remove(e);
    e->waiting = waiting;
    list_add(e);
}

static struct leat_shared **bucket_of(struct group *g, uint64_t epoch, uint64_t number)
{
    uint64_t mixed = number * 0x9e3779b97f4a7c15ull + epoch * 0xc2b2ae3d27d4eb4full + g->serial * 0x165667b19e3779f9ull;
    return &g->share->locked.buckets[mixed >> 50];
}

static_assert(BUCKETS == 1u << 14, "64 - 50 bits");

static struct leat_shared *find(struct group *g, uint64_t epoch, uint64_t number)
{
    struct leat_shared *e = *bucket_of(g, epoch, number);
    while (e && (e->group != g || e->epoch != epoch || e->number != number))
        e = e->chain;
    return e;
}

/* Memory */

static void give_buffer(struct group *g, char *data, uint64_t bytes)
{
    struct spare *spare = (struct spare *)data;
    *spare = (struct spare){.next = g->spares, .bytes = bytes};
    g->spares = spare;
    g->spares_n++;
}

/* One that is large enough, and not much too large; NULL: none of those that lie on top. */
static struct spare *take_spare(struct group *g, uint64_t bytes)
{
    struct spare **p = &g->spares;
    for (unsigned tries = 0; *p && tries < SPARE_TRIES; tries++, p = &(*p)->next) {
        struct spare *spare = *p;
        if (spare->bytes < bytes || spare->bytes / 2 > bytes)
            continue;
        *p = spare->next;
        g->spares_n--;
        return spare;
    }
    return NULL;
}

static void free_spare(struct group *g)
{
    struct spare *spare = g->spares;
    g->spares = spare->next;
    g->spares_n--;
    g->share->locked.bytes -= spare->bytes;
    free(spare);
}

static void group_settle(struct group *g)
{
    struct leat_share *s = g->share;
    if (g->members_n || g->samples_n || g->held)
        return;
    struct group **p = &s->locked.groups;
    while (*p != g)
        p = &(*p)->next;
    *p = g->next;
    while (g->spares_n)
        free_spare(g);
    free(g);
}

static void sample_free(struct leat_shared *e)
{
    give_buffer(e->group, e->data, e->bytes);
    free(e);
}

/* Out of the tables; its group may be gone after it, when it was the last thing of it. */
static void take_out(struct leat_shared *e)
{
    struct group *g = e->group;
    struct leat_share *s = g->share;
    struct leat_shared **p = bucket_of(g, e->epoch, e->number);
    while (*p != e)
        p = &(*p)->chain;
    *p = e->chain;
    list_remove(e);
    *(e->older ? &e->older->newer : &s->locked.oldest) = e->newer;
    *(e->newer ? &e->newer->older : &s->locked.newest) = e->older;
    e->out = true;
    g->samples_n--;
    s->locked.samples--;
    if (e->users)
        g->held++;
    else
        sample_free(e);
}

static void let_go(struct leat_shared *e)
{
    struct group *g = e->group;
    if (--e->users)
        return;
    if (e->out) {
        g->held--;
        sample_free(e);
        group_settle(g);
    } else if (!e->waiting && !e->kept) {
        take_out(e); /* all have had it */
        group_settle(g);
    }
}

static void drop_old(struct leat_share *s, uint64_t now)
{
    struct leat_shared *e = s->locked.oldest;
    while (e && now - e->made_ns > LEAT_SHARE_KEEP_NS) {
        struct group *g = e->group;
        struct leat_shared *next = e->newer;
        if (e->ready) {
            take_out(e);
            group_settle(g);
        }
        e = next;
    }
}

/* Something that fewer wait for, and of this what came to be so last: who is behind needs the earlier ones first. */
static struct leat_shared *worth_less(struct leat_share *s, unsigned waiting)
{
    for (unsigned n = 0; n < waiting; n++) {
        struct leat_shared *e = s->locked.waited[n].last;
        for (unsigned tries = 0; e && tries < 8; tries++, e = e->prev) {
            if (!e->users)
                return e;
        }
    }
    return NULL;
}

static bool has_spares(const struct leat_share *s, struct group **out)
{
    for (struct group *g = s->locked.groups; g; g = g->next) {
        if (g->spares_n) {
            *out = g;
            return true;
        }
    }
    return false;
}

/* *bytes: those that there are. NULL: no room. */
static char *get_buffer(struct group *g, uint64_t *bytes, unsigned waiting)
{
    struct leat_share *s = g->share;
    struct spare *spare = NULL;
    if (*bytes > s->bytes_max)
        return NULL;
    while (s->locked.samples >= SAMPLES_MAX ||
           (!(spare = take_spare(g, *bytes)) && s->locked.bytes + *bytes > s->bytes_max)) {
        struct group *other;
        struct leat_shared *e;
        if (s->locked.samples < SAMPLES_MAX && has_spares(s, &other)) {
            free_spare(other);
        } else if ((e = worth_less(s, waiting)) != NULL) {
            struct group *its = e->group;
            take_out(e);
            if (its != g)
                group_settle(its);
        } else {
            return NULL;
        }
    }
    if (spare) {
        *bytes = spare->bytes;
        return (char *)spare;
    }
    char *data = malloc(*bytes);
    if (data)
        s->locked.bytes += *bytes;
    return data;
}

/* Members */

static struct group *group_of(struct leat_share *s, const struct leat_share_opts *o)
{
    struct group *g = s->locked.groups;
    while (g && (memcmp(g->id, o->id, sizeof g->id) != 0 || g->bytes != o->bytes))
        g = g->next;
    if (g)
        return g;
    g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->share = s;
    g->serial = s->locked.serials++;
    g->bytes = g->typical = o->bytes;
    memcpy(g->id, o->id, sizeof g->id);
    g->next = s->locked.groups;
    s->locked.groups = g;
    return g;
}

/* Samples that there is room for, about. */
static uint64_t window_of(const struct group *g)
{
    uint64_t window = g->share->bytes_max / g->typical;
    return window < SAMPLES_MAX ? window : SAMPLES_MAX;
}

static bool is_far(const struct leat_share_member *m, uint64_t place)
{
    return place > m->place && place - m->place > FAR * window_of(m->group);
}

/* Whether it will come for a sample there. */
static bool comes(const struct leat_share_member *m, uint64_t place)
{
    return m->place < place && !is_far(m, place);
}

/* Samples of the group do not wait for it any more. */
static void forget_member(struct leat_share_member *m)
{
    struct group *g = m->group;
    struct leat_shared *e = g->share->locked.oldest;
    while (e) {
        struct leat_shared *next = e->newer;
        if (e->group == g) {
            wait_for(e, e->waiting & ~(1ull << m->bit));
            if (!g->members_n || (!e->waiting && !e->users && !e->kept))
                take_out(e);
        }
        e = next;
    }
}

static void await_what_is_here(struct leat_share_member *m)
{
    for (struct leat_shared *e = m->group->share->locked.oldest; e; e = e->newer) {
        if (e->group == m->group && comes(m, e->place))
            wait_for(e, e->waiting | 1ull << m->bit);
    }
}

leat_status leat_share_join(struct leat_share *s, const struct leat_share_opts *o, struct leat_share_member **out,
                            struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    struct leat_share_member *m = calloc(1, sizeof *m);
    if (!m)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to share samples");
    pthread_mutex_lock(&s->locked.mu);
    struct group *g = group_of(s, o);
    if (!g)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to share samples");
    else if (g->members_n == MEMBERS_MAX)
        rc = leat_fail(err, LEAT_LIMIT, "%u loaders share their samples already", MEMBERS_MAX);
    if (rc == LEAT_OK) {
        *m = (struct leat_share_member){.group = g, .place = o->place, .first = o->first};
        while (g->members[m->bit])
            m->bit++;
        g->members[m->bit] = m;
        g->members_n++;
        g->held++;
        await_what_is_here(m);
        *out = m;
    }
    pthread_mutex_unlock(&s->locked.mu);
    if (rc != LEAT_OK)
        free(m);
    return rc;
}

void leat_share_quit(struct leat_share_member *m)
{
    if (!m)
        return;
    struct group *g = m->group;
    struct leat_share *s = g->share;
    pthread_mutex_lock(&s->locked.mu);
    if (!m->quit) {
        m->quit = true;
        g->members[m->bit] = NULL;
        g->members_n--;
        forget_member(m);
        while (!g->members_n && g->spares_n)
            free_spare(g);
    }
    pthread_mutex_unlock(&s->locked.mu);
}

void leat_share_free(struct leat_share_member *m)
{
    if (!m)
        return;
    struct leat_share *s = m->group->share;
    leat_share_quit(m);
    pthread_mutex_lock(&s->locked.mu);
    m->group->held--;
    group_settle(m->group);
    pthread_mutex_unlock(&s->locked.mu);
    free(m);
}

uint64_t leat_share_left(const struct leat_share_member *m)
{
    return m ? atomic_load_explicit(&m->left, memory_order_relaxed) : 0;
}

void leat_share_reach(struct leat_share_member *m, uint64_t place)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->group->share->locked.mu);
    m->place = place > m->place ? place : m->place;
    pthread_mutex_unlock(&m->group->share->locked.mu);
}

/* Samples */

static uint64_t who_comes(const struct leat_share_member *m, uint64_t place)
{
    uint64_t waiting = 0;
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        struct leat_share_member *other = m->group->members[i];
        if (!other || other == m)
            continue;
        bool lost = is_far(other, place);
        if (lost && !other->lost) {
            forget_member(other);
            atomic_fetch_add_explicit(&other->left, 1, memory_order_relaxed);
        }
        other->lost = lost;
        if (comes(other, place))
            waiting |= 1ull << i;
    }
    return waiting;
}

static struct leat_shared *begin_new(struct leat_share_member *m, uint64_t epoch, uint64_t number, uint64_t place,
                                     uint64_t bytes, uint64_t now)
{
    struct group *g = m->group;
    struct leat_share *s = g->share;
    uint64_t waiting = who_comes(m, place);
    bool kept = m->first > 0;
    if (!waiting && !kept)
        return NULL;
    m->first -= kept;
    g->typical += bytes / 64 - g->typical / 64; /* a mean of some sixty */
    struct leat_shared *e = calloc(1, sizeof *e);
    char *data = e ? get_buffer(g, &bytes, (unsigned)__builtin_popcountll(waiting)) : NULL;
    if (!data) {
        free(e);
        return NULL;
    }
    *e = (struct leat_shared){.group = g,
                              .epoch = epoch,
                              .number = number,
                              .place = place,
                              .made_ns = now,
                              .waiting = waiting,
                              .users = 1,
                              .kept = kept,
                              .data = data,
                              .bytes = bytes};
    struct leat_shared **bucket = bucket_of(g, epoch, number);
    e->chain = *bucket;
    *bucket = e;
    list_add(e);
    e->older = s->locked.newest;
    *(s->locked.newest ? &s->locked.newest->newer : &s->locked.oldest) = e;
    s->locked.newest = e;
    g->samples_n++;
    s->locked.samples++;
    return e;
}

enum leat_share_turn leat_share_begin(struct leat_share_member *m, uint64_t epoch, uint64_t number, uint64_t place,
                                      uint64_t bytes, struct leat_shared **out)
{
    enum leat_share_turn turn = LEAT_SHARE_OWN;
    if (!m)
        return turn;
    struct leat_share *s = m->group->share;
    uint64_t now = leat_now_ns();
    pthread_mutex_lock(&s->locked.mu);
    if (!m->quit) {
        drop_old(s, now);
        struct leat_shared *e = find(m->group, epoch, number);
        if (e) {
            turn = e->ready ? LEAT_SHARE_TAKE : LEAT_SHARE_LATER;
            wait_for(e, e->waiting & ~(1ull << m->bit));
            e->users++;
        } else if ((e = begin_new(m, epoch, number, place, bytes, now)) != NULL) {
            turn = LEAT_SHARE_MAKE;
        }
        if (e)
            *out = e;
    }
    pthread_mutex_unlock(&s->locked.mu);
    return turn;
}

bool leat_share_has(struct leat_share_member *m, uint64_t epoch, uint64_t number)
{
    if (!m)
        return false;
    pthread_mutex_lock(&m->group->share->locked.mu);
    const struct leat_shared *e = m->quit ? NULL : find(m->group, epoch, number);
    bool has = e && e->ready;
    pthread_mutex_unlock(&m->group->share->locked.mu);
    return has;
}

char *leat_shared_data(struct leat_shared *e)
{
    return e->data; /* constant while it is held */
}

void leat_share_made(struct leat_shared *e, bool good)
{
    struct leat_share *s = e->group->share;
    pthread_mutex_lock(&s->locked.mu);
    e->ready = good;
    if (!good && !e->out)
        take_out(e);
    pthread_cond_broadcast(&s->locked.made);
    pthread_mutex_unlock(&s->locked.mu);
}

bool leat_share_wait(struct leat_shared *e)
{
    struct leat_share *s = e->group->share;
    uint64_t until = leat_after(WAIT_NS);
    pthread_mutex_lock(&s->locked.mu);
    /* Out of the tables before it was ready: its making failed, or its members have gone. */
    while (!e->ready && !e->out && leat_cond_wait(&s->locked.made, &s->locked.mu, until)) {
    }
    bool ready = e->ready;
    pthread_mutex_unlock(&s->locked.mu);
    return ready;
}

void leat_share_let_go(struct leat_shared *e)
{
    struct leat_share *s = e->group->share;
    pthread_mutex_lock(&s->locked.mu);
    let_go(e);
    pthread_mutex_unlock(&s->locked.mu);
}

void leat_share_tidy(struct leat_share *s)
{
    uint64_t now = leat_now_ns();
    pthread_mutex_lock(&s->locked.mu);
    drop_old(s, now);
    for (struct group *g = s->locked.groups; g; g = g->next) {
        uint64_t keep = g->members_n < 2 ? 0 : g->spares_n / 2;
        while (g->spares_n > keep)
            free_spare(g);
    }
    pthread_mutex_unlock(&s->locked.mu);
}

void leat_share_stats(struct leat_share *s, struct leat_share_stats *out)
{
    pthread_mutex_lock(&s->locked.mu);
    *out = (struct leat_share_stats){.bytes = s->locked.bytes, .bytes_max = s->bytes_max, .samples = s->locked.samples};
    for (const struct group *g = s->locked.groups; g; g = g->next) {
        out->groups += g->members_n > 1;
        out->in_groups += g->members_n > 1 ? g->members_n : 0;
    }
    pthread_mutex_unlock(&s->locked.mu);
}
