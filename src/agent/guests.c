/* Chunks for the other machines of a job. Each request is a guest of the scheduler's: it gets a chunk that is in memory
 * at once, and waits a while for one that is on its way or has to be fetched. The memory is pinned until the last byte
 * has gone out of it.
 *
 * Answers: 200 and the chunk; 409, it is on its way, ask again; 404, it will not come from here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/inside.h"
#include "agent/peers_inside.h"
#include "base/clock.h"
#include "base/hash.h"

#define WAIT_NS    (1500 * LEAT_MS) /* less than what a machine that asks takes for silence */
#define GUESTS_MAX 1024u
#define AGAIN_NS   (20 * LEAT_MS) /* to look for a dataset that is not open yet */

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
};

static void guest_free(struct leat_guest *g)
{
    struct leat_job *j = g->job;
    leat_loop_disarm(j->agent->loop, &g->timer);
    leat_sched_guest_leave(&g->guest);
    *(g->prev ? &g->prev->next : &j->guests) = g->next;
    if (g->next)
        g->next->prev = g->prev;
    j->guests_n--;
    free(g);
}

/* Without a chunk. */
static void tell(struct leat_guest *g, unsigned code)
{
    leat_door_answer(g->request, code, NULL, 0, NULL, NULL);
    guest_free(g);
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

/* A dataset that a loader of this job reads: a job's token is not one for other jobs' data. */
static const struct leat_supply *find_supply(const struct leat_guest *g)
{
    for (const struct leat_supply *s = g->job->agent->supplies; s; s = s->next) {
        if (s->leaving || memcmp(leat_dataset_id(s->dataset), g->id, sizeof g->id) != 0)
            continue;
        for (const struct leat_supply *first = g->job->agent->supplies; first; first = first->next) {
            for (const struct leat_loading *l = first->loadings; l; l = l->next) {
                if (l->job == g->job && l->lane && leat_loading_reads(l, s))
                    return s;
            }
        }
    }
    return NULL;
}

/* False: no such chunk. */
static bool visit(struct leat_guest *g)
{
    const struct leat_root *root = leat_dataset_root(g->supply->dataset);
    if (g->number >= root->chunks || leat_dataset_recipe_bytes(g->supply->dataset, g->number) ||
        memcmp(leat_root_chunk_name(root, g->number), g->name, sizeof g->name) != 0)
        return false;
    g->guest.done = on_chunk;
    return leat_sched_guest_come(g->supply->set, g->number, &g->guest, leat_now_ns());
}

/* It waits: for the dataset to be opened, or for the chunk. */
static void on_time(struct leat_timer *timer)
{
    struct leat_guest *g = (struct leat_guest *)((char *)timer - offsetof(struct leat_guest, timer));
    struct leat_agent *agent = g->job->agent;
    bool late = leat_now_ns() >= g->until_ns;
    if (!g->supply) {
        g->supply = find_supply(g);
        if (g->supply && !visit(g)) {
            tell(g, 404);
            return;
        }
        if (g->supply)
            leat_agent_pump(agent);
    }
    if (late) {
        bool coming = g->supply && leat_sched_guest_coming(&g->guest);
        tell(g, coming ? 409 : 404);
        return;
    }
    leat_loop_arm(agent->loop, timer, g->supply ? g->until_ns : leat_after(AGAIN_NS));
}

/* "/chunk/ID/NUMBER/NAME" */
static bool read_path(const char *path, struct leat_guest *g)
{
    char id[65];
    char name[65];
    int end = 0;
    return sscanf(path, LEAT_PEERS_CHUNK "%64[0-9a-f]/%9" SCNu32 "/%64[0-9a-f]%n", id, &g->number, name, &end) == 3 &&
           !path[end] && leat_unhex(id, g->id, sizeof g->id) && leat_unhex(name, g->name, sizeof g->name);
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
    bool closed = atomic_load_explicit(&j->over, memory_order_relaxed) || j->guests_n >= GUESTS_MAX;
    struct leat_guest *g = closed ? NULL : calloc(1, sizeof *g);
    if (!g || !read_path(r->head.path, g)) {
        free(g);
        leat_door_answer(r, 404, NULL, 0, NULL, NULL);
        return;
    }
    g->job = j;
    g->request = r;
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
    leat_door_close(((struct closing *)task)->door);
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
