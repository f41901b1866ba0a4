#include "sim/job.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "order/assign.h"
#include "order/place.h"
#include "sched/heap.h"
#include "sim/deal.h"
#include "sim/node.h"

#define BEGIN_NS   1000000000ull /* some fields say by 0 that there is no time yet */
#define LOOK_EVERY 256u          /* looks at a node between two questions whether to stop: some milliseconds */

struct job {
    const struct leat_sim_job_opts *opts;
    struct leat_order_world world;
    uint32_t *node_of_rank;
    uint32_t *node_of_slot;
    struct leat_sim_deal *deal;
    struct leat_sim_node_opts node_opts;
    struct leat_sim_node *nodes;
    uint32_t nodes_open;
    struct leat_sched_heap agenda; /* nodes by what happens next, the soonest on top */

    uint64_t now_ns;
    uint64_t step;         /* number of the batch that is taken next, or being computed */
    uint64_t computing_ns; /* until then; 0: no */
    uint64_t free_ns;      /* when the last step was over */
    uint32_t flowing;      /* nodes to which bytes flow … */
    uint32_t shared;       /* … and for how many the bucket's line was divided */
    bool *flows;           /* by node */

    uint64_t epoch_ns;                  /* when it began */
    struct leat_sim_epoch_result epoch; /* being counted */
    uint64_t stored_bytes, requests;    /* up to the last epoch's end */
    struct leat_sim_uses *uses;         /* by epoch */
    uint64_t samples;
    struct leat_sim_job_result result;
};

double leat_sim_hits(const struct leat_sim_uses *u)
{
    double here = (double)u->ram.bytes + (double)u->disk.bytes + (double)u->peer.bytes;
    double all = here + (double)u->bucket.bytes;
    return all > 0 ? here / all : 0;
}

/* What can work */

static uint64_t total(const uint32_t *v, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    return sum;
}

static int larger_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* About as many of the largest chunks as a batch of one rank touches, as the agent reckons. */
static leat_status batch_bytes(const struct leat_sim_job_opts *o, uint64_t *out, struct leat_error *err)
{
    uint64_t each = total(o->counts, o->chunks) / o->chunks;
    uint64_t global = (uint64_t)o->batch * o->ranks * o->nodes;
    uint64_t most = (o->shuffle ? o->window : 1) + global / (each ? each : 1) + 2;
    most = most < o->chunks ? most : o->chunks;
    most = most < o->batch ? most : o->batch;
    uint32_t *sizes = malloc(((size_t)o->chunks + 1) * sizeof *sizes);
    if (!sizes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %u chunks", o->chunks);
    memcpy(sizes, o->sizes, o->chunks * sizeof *sizes);
    qsort(sizes, o->chunks, sizeof *sizes, larger_first);
    *out = total(sizes, (uint32_t)most);
    free(sizes);
    return LEAT_OK;
}

static leat_status check_rate(double rate, const char *what, struct leat_error *err)
{
    if (isfinite(rate) && rate >= 0)
        return LEAT_OK;
    return leat_fail(err, LEAT_INVALID, "%s of %g: a finite number, 0 for no limit", what, rate);
}

static leat_status check_rates(const struct leat_sim_job_opts *o, struct leat_error *err)
{
    leat_status rc = check_rate(o->line, "a line to the bucket", err);
    if (rc == LEAT_OK)
        rc = check_rate(o->connection_line, "a connection", err);
    if (rc == LEAT_OK)
        rc = check_rate(o->bucket_line, "a bucket", err);
    if (rc == LEAT_OK)
        rc = check_rate(o->peer_line, "a line to other nodes", err);
    if (rc == LEAT_OK)
        rc = check_rate(o->disk_read, "a disk's reading", err);
    if (rc == LEAT_OK)
        rc = check_rate(o->disk_write, "a disk's writing", err);
    return rc == LEAT_OK ? check_rate(o->prep, "preparation", err) : rc;
}

static leat_status check(const struct leat_sim_job_opts *o, struct leat_error *err)
{
    uint64_t samples = total(o->counts, o->chunks);
    if (!samples)
        return leat_fail(err, LEAT_INVALID, "the dataset has no samples");
    if (!o->nodes || o->nodes > LEAT_SIM_NODES_MAX)
        return leat_fail(err, LEAT_INVALID, "%u nodes: from 1 to %u", o->nodes, LEAT_SIM_NODES_MAX);
    if (!o->ranks || (uint64_t)o->ranks * o->nodes > LEAT_ORDER_WORLD_MAX)
        return leat_fail(err, LEAT_INVALID, "%u ranks on each of %u nodes: from 1 to %u together", o->ranks, o->nodes,
                         LEAT_ORDER_WORLD_MAX);
    uint64_t global = (uint64_t)o->batch * o->ranks * o->nodes;
    if (!o->batch || global > LEAT_ORDER_BATCH_MAX)
        return leat_fail(err, LEAT_INVALID, "batches of %u on %" PRIu64 " ranks: from 1 to %u samples together",
                         o->batch, (uint64_t)o->ranks * o->nodes, LEAT_ORDER_BATCH_MAX);
    if (o->last == LEAT_ORDER_DROP && global > samples)
        return leat_fail(err, LEAT_INVALID,
                         "one step takes %" PRIu64 " samples and the dataset has %" PRIu64
                         ": an epoch would have no step; choose smaller batches or fewer ranks",
                         global, samples);
    if (!o->epochs || o->epochs > LEAT_SIM_EPOCHS_MAX)
        return leat_fail(err, LEAT_INVALID, "%" PRIu64 " epochs: from 1 to %u", o->epochs, LEAT_SIM_EPOCHS_MAX);
    if (o->slots < 2 || o->slots > LEAT_SCHED_SLOTS_MAX)
        return leat_fail(err, LEAT_INVALID, "%u slots: from 2 to %u", o->slots, LEAT_SCHED_SLOTS_MAX);
    if (!o->cores || o->cores > 65536)
        return leat_fail(err, LEAT_INVALID, "%u cores: from 1 to 65536", o->cores);
    if (!(o->jitter >= 0 && o->jitter < 1))
        return leat_fail(err, LEAT_INVALID, "a jitter of %g: from 0 to less than 1", o->jitter);
    return check_rates(o, err);
}

leat_status leat_sim_job_needed(const struct leat_sim_job_opts *o, uint64_t *bytes, struct leat_error *err)
{
    uint64_t one = 0;
    leat_status rc = check(o, err);
    if (rc == LEAT_OK)
        rc = batch_bytes(o, &one, err);
    if (rc == LEAT_OK)
        *bytes = one * o->ranks;
    return rc;
}

/* The clock */

static uint64_t due_ns(const struct leat_sched_place *p)
{
    return p ? UINT64_MAX - p->key : UINT64_MAX;
}

static void note(struct job *j, struct leat_sim_node *n)
{
    leat_sched_heap_put(&j->agenda, &n->place, UINT64_MAX - leat_sim_node_next_ns(n));
}

/* A node that has nothing to do now: those that have not begun will be asked anyway. */
static void stir(void *user, struct leat_sim_node *n)
{
    if (n->place.at)
        note(user, n);
}

/* Opening and closing */

static leat_status open_world(struct job *j, struct leat_error *err)
{
    const struct leat_sim_job_opts *o = j->opts;
    struct leat_order_world *w = &j->world;
    w->ranks = o->nodes * o->ranks;
    w->nodes = o->nodes;
    w->chunks = o->chunks;
    w->slots = leat_order_slots(o->chunks);
    j->node_of_rank = calloc((size_t)w->ranks + 1, sizeof *j->node_of_rank);
    j->node_of_slot = calloc((size_t)w->slots + 1, sizeof *j->node_of_slot);
    j->nodes = calloc(o->nodes, sizeof *j->nodes);
    j->flows = calloc(o->nodes, sizeof *j->flows);
    j->result.epochs = calloc(o->epochs, sizeof *j->result.epochs);
    j->uses = calloc(o->epochs + 1, sizeof *j->uses);
    if (!j->node_of_rank || !j->node_of_slot || !j->nodes || !j->flows || !j->result.epochs || !j->uses ||
        !leat_sched_heap_reserve(&j->agenda, (size_t)o->nodes + 1))
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a job of %u nodes", o->nodes);
    for (uint32_t r = 0; r < w->ranks; r++)
        j->node_of_rank[r] = r / o->ranks;
    w->node_of_rank = j->node_of_rank;
    w->node_of_slot = j->node_of_slot;
    return leat_order_place(w->slots, w->ranks, w->node_of_rank, w->nodes, j->node_of_slot, err);
}

static leat_status open_deal(struct job *j, struct leat_error *err)
{
    const struct leat_sim_job_opts *o = j->opts;
    struct leat_sim_deal_opts d = {
        .spec = {.view = LEAT_ORDER_VIEW_SAMPLES,
                 .counts = o->counts,
                 .chunks = o->chunks,
                 .shuffle = o->shuffle,
                 .seed = o->seed,
                 .window = o->window},
        .world = j->world,
        .global_batch = o->batch * j->world.ranks,
        .last = o->last,
        .stop = o->stop,
        .user = o->user,
    };
    memcpy(d.spec.dataset, o->id, sizeof d.spec.dataset);
    return leat_sim_deal_open(&d, &j->deal, err);
}

static leat_status open_nodes(struct job *j, uint64_t needed, struct leat_error *err)
{
    const struct leat_sim_job_opts *o = j->opts;
    j->node_opts = (struct leat_sim_node_opts){
        .names = o->names,
        .sizes = o->sizes,
        .chunks = o->chunks,
        .deal = j->deal,
        .node_of_slot = j->node_of_slot,
        .nodes = o->nodes,
        .ranks = o->ranks,
        .needed = needed / o->ranks,
        .slots = o->slots,
        .ram = o->ram,
        .disk = o->disk,
        .policy = o->policy,
        .line = o->line,
        .connection_line = o->connection_line,
        .latency_ns = o->latency_ns,
        .connections = o->connections,
        .jitter = o->jitter,
        .burst_ns = o->burst_ns,
        .burst_line = o->bucket_line / o->nodes,
        .seed = o->seed,
        .disk_read = o->disk_read,
        .disk_write = o->disk_write,
        .cores = o->cores,
        .prep = o->prep,
        .peers = o->peers,
        .peer_line = o->peer_line,
        .peer_latency_ns = o->peer_latency_ns,
        .all = j->nodes,
        .stir = stir,
        .user = j,
        .epochs = o->epochs,
        .uses = j->uses,
    };
    leat_status rc = LEAT_OK;
    for (uint32_t k = 0; rc == LEAT_OK && k < o->nodes; k++) {
        rc = leat_sim_node_open(&j->node_opts, k, k * o->ranks, BEGIN_NS, &j->nodes[k], err);
        j->nodes_open += rc == LEAT_OK;
    }
    return rc;
}

static void close_job(struct job *j)
{
    for (uint32_t k = 0; k < j->nodes_open; k++)
        leat_sim_door_cut(&j->nodes[k]);
    for (uint32_t k = 0; k < j->nodes_open; k++)
        leat_sim_node_close(&j->nodes[k]);
    leat_sim_deal_close(j->deal);
    leat_sched_heap_free(&j->agenda);
    leat_sim_job_result_free(&j->result);
    free(j->node_of_rank);
    free(j->node_of_slot);
    free(j->nodes);
    free(j->flows);
    free(j->uses);
}

void leat_sim_job_result_free(struct leat_sim_job_result *r)
{
    free(r->epochs);
    *r = (struct leat_sim_job_result){0};
}

/* A bucket that all share is divided among the nodes to which bytes flow. Doing so for each change would be a look at
 * all nodes at nearly every event; a change of a few per cent may wait. */
static void divide_bucket(struct job *j, uint32_t node)
{
    bool flows = j->nodes[node].wire.flowing.n != 0;
    if (!(j->opts->bucket_line > 0) || flows == j->flows[node])
        return;
    j->flows[node] = flows;
    j->flowing += flows ? 1 : -1u;
    uint32_t off = j->flowing > j->shared ? j->flowing - j->shared : j->shared - j->flowing;
    if (!j->flowing || (j->shared && off <= j->shared / 32))
        return;
    j->shared = j->flowing;
    for (uint32_t k = 0; k < j->opts->nodes; k++) {
        leat_sim_wire_share(&j->nodes[k].wire, j->opts->bucket_line / j->shared, j->now_ns);
        if (j->nodes[k].place.at)
            note(j, &j->nodes[k]);
    }
}

static leat_status run_node(struct job *j, uint32_t k, struct leat_error *err)
{
    leat_status rc = leat_sim_node_run(&j->nodes[k], j->now_ns, err);
    if (rc != LEAT_OK)
        return rc;
    note(j, &j->nodes[k]);
    divide_bucket(j, k);
    if (++j->result.events % LOOK_EVERY)
        return LEAT_OK;
    if (j->opts->progress)
        j->opts->progress(j->opts->user, j->samples);
    if (j->opts->stop && j->opts->stop(j->opts->user))
        return leat_fail(err, LEAT_CANCELLED, "interrupted");
    return LEAT_OK;
}

/* Epochs */

static void end_epoch(struct job *j)
{
    struct leat_sim_epoch_result *e = &j->epoch;
    uint64_t stored = 0;
    uint64_t requests = 0;
    for (uint32_t k = 0; k < j->opts->nodes; k++) {
        struct leat_sched_stats s;
        leat_sched_stats(j->nodes[k].sched, &s);
        stored += s.stored_bytes;
        requests += j->nodes[k].wire.requests;
    }
    e->time_ns = j->now_ns - j->epoch_ns;
    e->stored_bytes = stored - j->stored_bytes;
    e->requests = requests - j->requests;
    j->result.epochs[j->result.epochs_n++] = *e;
    j->epoch = (struct leat_sim_epoch_result){0};
    j->epoch_ns = j->now_ns;
    j->stored_bytes = stored;
    j->requests = requests;
}

/* Steps */

/* All ranks have the batch: the step begins. */
static void begin_step(struct job *j, const struct leat_sim_batch *g)
{
    uint64_t stall = j->now_ns - j->free_ns;
    uint64_t data = g->here_ns > j->free_ns ? g->here_ns - j->free_ns : 0;
    data = data < stall ? data : stall;
    j->epoch.stall_ns += stall;
    j->epoch.data_ns += data;
    j->epoch.prep_ns += stall - data;
    if (!g->number)
        j->result.first_ns = stall;
    if (g->end) {
        end_epoch(j);
    } else {
        j->epoch.steps++;
        j->epoch.samples += g->taken;
        j->samples += g->taken;
    }
    j->computing_ns = j->now_ns + (g->end ? 0 : j->opts->compute_ns);
}

static leat_status end_step(struct job *j, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    j->computing_ns = 0;
    j->free_ns = j->now_ns;
    leat_sim_deal_give_back(j->deal);
    for (uint32_t k = 0; rc == LEAT_OK && k < j->opts->nodes; k++) {
        leat_sim_node_taken(&j->nodes[k], j->step, j->now_ns);
        rc = run_node(j, k, err);
    }
    j->step++;
    return rc;
}

static leat_status stuck(const struct job *j, const struct leat_sim_batch *g, struct leat_error *err)
{
    char what[200] = "";
    uint32_t rank = 0;
    for (; rank + 1 < j->world.ranks; rank++) {
        const struct leat_sim_lane *l = &j->nodes[rank / j->opts->ranks].lanes[rank % j->opts->ranks];
        leat_sched_lane_explain(l->sched, "a batch", what, sizeof what);
        if (strcmp(what, "a batch to be planned") != 0)
            break;
    }
    return leat_fail(err, LEAT_INTERNAL,
                     "the simulation stands still at batch %" PRIu64 " with %u of %u ranks ready; rank %u waits for %s",
                     g->number, g->published, j->world.ranks, rank, what);
}

/* One event. */
static leat_status advance(struct job *j, struct leat_error *err)
{
    struct leat_sim_batch *g;
    leat_status rc = leat_sim_deal_batch(j->deal, j->step, &g, err);
    if (rc != LEAT_OK)
        return rc;
    if (!j->computing_ns && g->published == j->world.ranks)
        begin_step(j, g);
    const struct leat_sched_place *top = leat_sched_heap_top(&j->agenda);
    uint64_t next = due_ns(top);
    if (j->computing_ns && j->computing_ns <= next) {
        j->now_ns = j->computing_ns;
        return end_step(j, err);
    }
    if (next == UINT64_MAX)
        return stuck(j, g, err);
    j->now_ns = next > j->now_ns ? next : j->now_ns;
    const struct leat_sim_node *n =
        (const struct leat_sim_node *)((const char *)top - offsetof(struct leat_sim_node, place));
    return run_node(j, n->number, err);
}

static leat_status run(struct job *j, struct leat_error *err)
{
    const struct leat_sim_job_opts *o = j->opts;
    leat_status rc = LEAT_OK;
    j->now_ns = j->free_ns = j->epoch_ns = BEGIN_NS;
    for (uint32_t k = 0; rc == LEAT_OK && k < o->nodes; k++)
        rc = run_node(j, k, err);
    while (rc == LEAT_OK && j->result.epochs_n < o->epochs)
        rc = advance(j, err);
    for (uint64_t e = 0; e < j->result.epochs_n; e++)
        j->result.epochs[e].uses = j->uses[e];
    j->result.ahead = j->uses[o->epochs];
    j->result.time_ns = j->now_ns - BEGIN_NS;
    return rc;
}

leat_status leat_sim_job(const struct leat_sim_job_opts *o, struct leat_sim_job_result *out, struct leat_error *err)
{
    struct job j = {.opts = o};
    uint64_t needed;
    leat_status rc = leat_sim_job_needed(o, &needed, err);
    if (rc == LEAT_OK && needed > o->ram) {
        char has[LEAT_FORMAT_SIZE];
        char least[LEAT_FORMAT_SIZE];
        return leat_fail(err, LEAT_LIMIT,
                         "%s of memory per node is too little: the batches of its %u ranks need %s (window %u); "
                         "give at least %" PRIu64 "mib",
                         leat_format_size(o->ram, has), o->ranks, leat_format_size(needed, least), o->window,
                         (needed + (1u << 20) - 1) >> 20);
    }
    if (rc == LEAT_OK)
        rc = open_world(&j, err);
    if (rc == LEAT_OK)
        rc = open_deal(&j, err);
    if (rc == LEAT_OK)
        rc = open_nodes(&j, needed, err);
    if (rc == LEAT_OK)
        rc = run(&j, err);
    if (rc == LEAT_OK) {
        *out = j.result;
        j.result = (struct leat_sim_job_result){0};
    }
    close_job(&j);
    return rc;
}
