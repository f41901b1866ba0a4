/* Chunks for the other machines of a job. Each request is a guest of the scheduler's: it gets a chunk that is in memory
 * at once, and waits a while for one that is on its way or has to be fetched. The memory is pinned until the last byte
 * has gone out of it.
 *
 * What is only on disk is read by the disk's threads into memory that is lent for it, a few chunks at a time, and never
 * enters the cache's: what others need must not push out what is needed here.
 *
 * Answers: 200 and the chunk; 409, it is on its way, ask again; 404, it will not come from here.
 *
 * What a chunk was made of is asked for by those who have just been given the chunk. It is answered where it is still
 * in memory, and never fetched for them: they can do that themselves. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/inside.h"
#include "agent/peers_inside.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "cache/disk.h"

#define WAIT_NS    (1500 * LEAT_MS) /* less than what a machine that asks takes for silence */
#define GUESTS_MAX 1024u
#define AGAIN_NS   (20 * LEAT_MS) /* to look for a dataset that is not open yet, or for memory that is lent */
#define LENT_MAX   (64ull << 20)  /* beside the cache's memory; one chunk in any case */

struct leat_guest {
    struct leat_sched_guest guest; /* first member */
    struct leat_job *job;
    struct leat_guest *prev, *next;
    struct leat_door_request *request; /* NULL: answered */
    struct leat_timer timer;
    struct leat_task task;
    const struct leat_supply *supply; /* NULL: not open yet */
    uint64_t until_ns;
    uint64_t sent;
    uint8_t id[LEAT_SHA256_SIZE];
    uint8_t name[LEAT_SHA256_SIZE];
    uint32_t number;
    bool visiting; /* the scheduler knows of it */
    bool lost;     /* the disk could not give the chunk */
    struct {
        struct leat_disk_op op;
        struct leat_task task;
        struct leat_cache_memory memory;
        struct leat_agent *agent;
        bool busy; /* the disk is at work */
    } lent;
};

static void leave_job(struct leat_guest *g)
{
    struct leat_job *j = g->job;
    leat_loop_disarm(j->agent->loop, &g->timer);
    leat_sched_guest_leave(&g->guest);
    *(g->prev ? &g->prev->next : &j->guests) = g->next;
    if (g->next)
        g->next->prev = g->prev;
    j->guests_n--;
}

static void return_lent(struct leat_guest *g)
{
    struct leat_agent *a = g->lent.agent;
    if (!g->lent.memory.data)
        return;
    a->lent.bytes -= g->lent.op.bytes;
    leat_agent_release(a, leat_cache_memory_give(&a->lent.spare));
    if (a->lent.bytes && !a->stopping)
        a->lent.spare = g->lent.memory; /* others are read: the next will be soon */
    else
        leat_agent_release(a, leat_cache_memory_give(&g->lent.memory));
    g->lent.memory = (struct leat_cache_memory){0};
}

static void guest_free(struct leat_guest *g)
{
    leave_job(g);
    return_lent(g);
    free(g);
}

/* Without a chunk. One that the disk is at work for stays until that has ended, without its job. */
static void tell(struct leat_guest *g, unsigned code)
{
    leat_door_answer(g->request, code, NULL, 0, NULL, NULL);
    if (!g->lent.busy) {
        guest_free(g);
        return;
    }
    leave_job(g);
    g->job = NULL;
}

/* On the loop: the chunk has gone out, or its reader has gone away. */
static void settle(struct leat_task *task)
{
    struct leat_guest *g = (struct leat_guest *)((char *)task - offsetof(struct leat_guest, task));
    struct leat_agent *agent = g->job->agent;
    g->job->served_bytes += g->sent;
    g->job->served_chunks += g->sent > 0;
    guest_free(g);
    leat_agent_pump(agent); /* its memory may make room for others */
}

/* On a door's thread. */
static void on_sent(void *user, uint64_t bytes)
{
    struct leat_guest *g = user;
    g->sent = bytes;
    g->task.run = settle;
    leat_loop_post(g->job->agent->loop, &g->task);
}

static void on_chunk(struct leat_sched_guest *guest, bool here)
{
    struct leat_guest *g = (struct leat_guest *)guest;
    struct leat_door_request *r = g->request;
    if (!here) {
        tell(g, 404);
        return;
    }
    g->request = NULL;
    leat_loop_disarm(g->job->agent->loop, &g->timer);
    leat_door_answer(r, 200, leat_feed_bytes(guest->chunk), guest->chunk->bytes, on_sent, g);
}

/* Whether a loader of this job reads it: a job's token is not one for other jobs' data. */
static bool is_read(const struct leat_job *j, const struct leat_supply *s)
{
    for (const struct leat_supply *first = j->agent->supplies; first; first = first->next) {
        for (const struct leat_loading *l = first->loadings; l; l = l->next) {
            if (l->job == j && l->lane && leat_loading_reads(l, s))
                return true;
        }
    }
    return false;
}

/* The dataset that is asked for. *doubt: the job reads several with this id whose bytes may differ, as indexes of two
 * web servers that earlier releases made; then it is not known which of them is meant. */
static const struct leat_supply *find_supply(const struct leat_guest *g, bool *doubt)
{
    const struct leat_supply *found = NULL;
    *doubt = false;
    for (const struct leat_supply *s = g->job->agent->supplies; s; s = s->next) {
        if (s->leaving || memcmp(leat_dataset_id(s->dataset), g->id, sizeof g->id) != 0 || !is_read(g->job, s))
            continue;
        *doubt |= found && memcmp(leat_dataset_identity(found->dataset), leat_dataset_identity(s->dataset),
                                  LEAT_SHA256_SIZE) != 0;
        found = s;
    }
    return *doubt ? NULL : found;
}

static bool is_chunk(const struct leat_guest *g)
{
    const struct leat_root *root = leat_dataset_root(g->supply->dataset);
    return g->number < root->chunks && memcmp(leat_root_chunk_name(root, g->number), g->name, sizeof g->name) == 0;
}

/* From disk */

static void on_time(struct leat_timer *timer);

static void settle_read(struct leat_task *task)
{
    struct leat_guest *g = (struct leat_guest *)((char *)task - offsetof(struct leat_guest, lent.task));
    struct leat_door_request *r = g->request;
    g->lent.busy = false;
    if (!g->job) { /* it took too long */
        return_lent(g);
        free(g);
        return;
    }
    if (g->lent.op.err.status != LEAT_OK) {
        return_lent(g);
        g->lost = true;
        on_time(&g->timer);
        return;
    }
    g->request = NULL;
    leat_loop_disarm(g->job->agent->loop, &g->timer);
    leat_door_answer(r, 200, g->lent.memory.data, g->lent.op.bytes, on_sent, g);
}

/* On a disk's thread. */
static void on_read(struct leat_disk_op *op)
{
    struct leat_guest *g = (struct leat_guest *)((char *)op - offsetof(struct leat_guest, lent.op));
    g->lent.task.run = settle_read;
    leat_loop_post(g->lent.agent->loop, &g->lent.task);
}

/* False: it does not come from there. */
static bool read_disk(struct leat_guest *g)
{
    struct leat_agent *a = g->job->agent;
    uint64_t bytes = leat_dataset_root(g->supply->dataset)->sizes[g->number];
    if (g->lost || !a->disk || !leat_sched_only_on_disk(g->supply->set, g->number))
        return false;
    if (a->lent.bytes && a->lent.bytes + bytes > LENT_MAX)
        return true; /* on_time() looks again */
    if (!leat_cache_memory_fits(&a->lent.spare, bytes))
        leat_agent_release(a, leat_cache_memory_give(&a->lent.spare));
    g->lent.memory = leat_cache_memory_get(bytes, &a->lent.spare);
    if (!g->lent.memory.data)
        return false;
    g->lent.op =
        (struct leat_disk_op){.kind = LEAT_DISK_READ, .data = g->lent.memory.data, .bytes = bytes, .done = on_read};
    memcpy(g->lent.op.name, leat_dataset_identities(g->supply->dataset) + (size_t)g->number * LEAT_SHA256_SIZE,
           sizeof g->lent.op.name);
    g->lent.agent = a;
    g->lent.busy = true;
    a->lent.bytes += bytes;
    leat_disk_submit(a->disk, &g->lent.op);
    return true;
}

/* False: no such chunk. */
static bool come(struct leat_guest *g)
{
    if (!is_chunk(g))
        return false;
    if (read_disk(g))
        return true;
    g->guest.done = on_chunk;
    g->visiting = leat_sched_guest_come(g->supply->set, g->number, &g->guest, leat_now_ns());
    leat_agent_pump(g->job->agent);
    return g->visiting;
}

/* It waits: for the dataset to be opened, or for the chunk. */
static void on_time(struct leat_timer *timer)
{
    struct leat_guest *g = (struct leat_guest *)((char *)timer - offsetof(struct leat_guest, timer));
    struct leat_agent *agent = g->job->agent;
    bool late = leat_now_ns() >= g->until_ns;
    bool waits = g->visiting || g->lent.busy;
    bool doubt = false;
    if (!g->supply)
        g->supply = find_supply(g, &doubt);
    if (doubt || (g->supply && !waits && !come(g))) {
        tell(g, 404);
        return;
    }
    waits = g->visiting || g->lent.busy;
    if (late) {
        bool coming = g->supply && (!g->visiting || leat_sched_guest_coming(&g->guest));
        tell(g, coming ? 409 : 404);
        return;
    }
    leat_loop_arm(agent->loop, timer, waits ? g->until_ns : leat_after(AGAIN_NS));
}

/* On a door's thread. */
static void on_copy_sent(void *user, uint64_t bytes)
{
    (void)bytes;
    free(user);
}

/* A copy, so that nothing has to be pinned for it. */
static void give_recipe(struct leat_guest *g)
{
    bool doubt;
    g->supply = find_supply(g, &doubt);
    const struct leat_sched_chunk *c = g->supply && is_chunk(g) ? leat_sched_here(g->supply->set, g->number) : NULL;
    size_t n = 0;
    const void *recipe = c ? leat_feed_recipe(c, &n) : NULL;
    void *copy = recipe ? malloc(n) : NULL;
    if (copy)
        memcpy(copy, recipe, n);
    leat_door_answer(g->request, copy ? 200 : 404, copy, n, copy ? on_copy_sent : NULL, copy);
}

/* "/chunk/ID/NUMBER/NAME", or "/recipe/…" */
static bool read_path(const char *path, struct leat_guest *g, bool *recipe)
{
    char id[65];
    char name[65];
    int end = 0;
    *recipe = strncmp(path, LEAT_PEERS_RECIPE, sizeof LEAT_PEERS_RECIPE - 1) == 0;
    if (!*recipe && strncmp(path, LEAT_PEERS_CHUNK, sizeof LEAT_PEERS_CHUNK - 1) != 0)
        return false;
    path += *recipe ? sizeof LEAT_PEERS_RECIPE - 1 : sizeof LEAT_PEERS_CHUNK - 1;
    return sscanf(path, "%64[0-9a-f]/%9" SCNu32 "/%64[0-9a-f]%n", id, &g->number, name, &end) == 3 && !path[end] &&
           leat_unhex(id, g->id, sizeof g->id) && leat_unhex(name, g->name, sizeof g->name);
}

/* On the loop. */
static void take_request(struct leat_task *task)
{
    struct leat_door_request *r = (struct leat_door_request *)((char *)task - offsetof(struct leat_door_request, task));
    struct leat_job *j = r->user;
    if (strcmp(r->head.path, "/alive") == 0) {
        leat_door_answer(r, 200, "ok", 2, NULL, NULL);
        return;
    }
    bool full = j->guests_n >= GUESTS_MAX;
    j->agent->turned_away += full;
    if (full && !j->turned_away++)
        leat_log(LEAT_LOG_WARN,
                 "the other machines of job '%s' ask for more than %u chunks at once: what is beyond that they take "
                 "from the bucket",
                 j->members->job, GUESTS_MAX);
    bool closed = full || atomic_load_explicit(&j->over, memory_order_relaxed);
    struct leat_guest *g = closed ? NULL : calloc(1, sizeof *g);
    bool recipe;
    if (!g || !read_path(r->head.path, g, &recipe)) {
        free(g);
        leat_door_answer(r, 404, NULL, 0, NULL, NULL);
        return;
    }
    g->job = j;
    g->request = r;
    if (recipe) {
        give_recipe(g);
        free(g);
        return;
    }
    g->until_ns = leat_after(WAIT_NS);
    g->timer.fire = on_time;
    g->next = j->guests;
    if (g->next)
        g->next->prev = g;
    j->guests = g;
    j->guests_n++;
    on_time(&g->timer);
}

void leat_guests_asked(void *user, struct leat_door_request *r)
{
    struct leat_job *j = user;
    r->user = j;
    r->task.run = take_request;
    leat_loop_post(j->agent->loop, &r->task);
}

void leat_guests_end(struct leat_job *j)
{
    struct leat_guest *next;
    for (struct leat_guest *g = j->guests; g; g = next) {
        next = g->next;
        if (g->request)
            tell(g, 404);
    }
}

void leat_guests_supply_gone(struct leat_job *j, const struct leat_supply *supply)
{
    struct leat_guest *next;
    for (struct leat_guest *g = j->guests; g; g = next) {
        next = g->next;
        if (g->request && g->supply == supply)
            tell(g, 404);
    }
}

void leat_peers_supply_gone(const struct leat_supply *supply)
{
    for (struct leat_job *j = supply->agent->jobs; j; j = j->next)
        leat_guests_supply_gone(j, supply);
}

/* On an opener's thread. */
struct closing {
    struct leat_task task; /* first member */
    struct leat_door *door;
};

static void close_there(struct leat_task *task)
{
    if (!leat_door_close(((struct closing *)task)->door, 0))
        leat_log(LEAT_LOG_WARN, "requests of other machines of a job were not answered in time; they are left");
    free(task);
}

void leat_guests_close(struct leat_job *j)
{
    struct closing *c = calloc(1, sizeof *c);
    if (!c)
        return;
    atomic_store_explicit(&j->over, true, memory_order_relaxed);
    leat_guests_end(j);
    c->task.run = close_there;
    c->door = j->door;
    j->door = NULL;
    leat_pool_add(j->agent->openers, &c->task);
}
