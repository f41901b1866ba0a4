#include "agent/tracing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/inside.h"
#include "base/clock.h"
#include "leat/leat.h"

#define TEXT_MAX ((size_t)512 << 20)
#define MORE_MAX 256u /* waits that have not ended */

struct leat_tracing {
    struct leat_task task; /* first member */
    struct leat_agent *agent;
    leat_tracing_done *done; /* NULL: abandoned; the loop's */
    void *user;
    struct leat_roll roll; /* copies: the loop goes on */
    struct leat_trace_event more[MORE_MAX];
    struct leat_trace_view view;
    struct leat_trace_told told;
    struct leat_error err;
    int fd;
};

/* On the loop. */
static void finish(struct leat_task *task)
{
    struct leat_tracing *t = (struct leat_tracing *)task;
    if (t->done)
        t->done(t->user, t->fd, &t->told, &t->err);
    if (t->fd >= 0)
        close(t->fd);
    free(t);
}

/* On a maker's thread. */
static void write_trace(struct leat_task *task)
{
    struct leat_tracing *t = (struct leat_tracing *)task;
    struct leat_buf b;
    void *map;
    leat_buf_init(&b, TEXT_MAX);
    leat_status rc = leat_trace_write(t->agent->trace, &t->view, &b, &t->told, &t->err);
    if (rc == LEAT_OK)
        rc = leat_shared_create("leat-trace", b.len, &t->fd, &map, &t->err);
    if (rc == LEAT_OK) {
        memcpy(map, b.data, b.len);
        munmap(map, b.len);
    }
    leat_buf_free(&b);
    t->task.run = finish;
    leat_loop_post(t->agent->loop, &t->task);
}

/* Ranks that are waiting: their waits are told as far as they have come. */
static void add_waits(struct leat_tracing *t)
{
    for (const struct leat_supply *s = t->agent->supplies; s; s = s->next) {
        for (const struct leat_loading *l = s->loadings; l && t->view.more_n < MORE_MAX; l = l->next) {
            uint64_t since =
                l->ring.head ? atomic_load_explicit(&l->ring.head->waiting_since_ns, memory_order_relaxed) : 0;
            since = since && since < l->waited_ns ? l->waited_ns : since;
            if (!since || since >= t->view.now_ns)
                continue;
            uint64_t here = l->lane ? leat_sched_lane_here_ns(l->lane) : 0;
            t->more[t->view.more_n++] = (struct leat_trace_event){
                .kind = LEAT_TRACE_WAIT,
                .how = here ? LEAT_TRACE_FOR_PREP : LEAT_TRACE_FOR_FETCH,
                .who = l->who.number,
                .begin_ns = since,
                .end_ns = t->view.now_ns,
            };
        }
    }
}

leat_status leat_tracing_begin(struct leat_agent *agent, uint64_t last_ns, leat_tracing_done *done, void *user,
                               struct leat_tracing **out, struct leat_error *err)
{
    struct leat_tracing *t = calloc(1, sizeof *t);
    if (!t)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a trace");
    *t = (struct leat_tracing){
        .task.run = write_trace, .agent = agent, .done = done, .user = user, .roll = agent->roll, .fd = -1};
    uint64_t now = leat_now_ns();
    t->view = (struct leat_trace_view){
        .since_ns = last_ns && last_ns < now ? now - last_ns : 0,
        .now_ns = now,
        .pid = (int)getpid(),
        .scope = agent->names.paths.scope,
        .version = leat_version(),
        .roll = &t->roll,
        .more = t->more,
    };
    add_waits(t);
    *out = t;
    leat_pool_add(agent->makers, &t->task);
    return LEAT_OK;
}

void leat_tracing_abandon(struct leat_tracing *t)
{
    if (t)
        t->done = NULL;
}
