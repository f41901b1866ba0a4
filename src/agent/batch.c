#include "agent/batch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/inside.h"
#include "agent/pictures.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "feed/feed.h"

#define PARTS_EACH   4u /* for every worker, so that the last one to end does not end much later */
#define PART_PICTURE 4u /* samples that make a part at least: less costs more to hand out than it levels */
#define PART_BYTES   64u
#define SAMPLES_FEW  4096u /* what is kept of them is freed in some microseconds */

leat_status leat_batch_make(struct leat_loading *l, struct leat_cursor_batch *plan, struct leat_loading_batch **out,
                            struct leat_error *err)
{
    struct leat_loading_batch *b = calloc(1, sizeof *b);
    struct leat_sample *samples = b ? calloc((size_t)plan->n + 1, sizeof *samples) : NULL;
    if (!samples) {
        free(b);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to plan a batch of %u", plan->n);
    }
    b->loading = l;
    b->samples = samples;
    b->plan = *plan;
    b->memory.fd = -1;
    b->sched.chunks = b->plan.chunks;
    b->sched.chunks_n = b->plan.chunks_n;
    b->sched.stage = b->plan.stage;
    *plan = (struct leat_cursor_batch){0};
    *out = b;
    return LEAT_OK;
}

static void free_kept(struct leat_loading_batch *b)
{
    for (uint32_t c = 0; c < LEAT_RING_COLUMNS_MAX; c++) {
        for (uint32_t i = 0; b->view.kept[c] && i < b->plan.n; i++)
            free(b->view.kept[c][i].data);
        free(b->view.kept[c]);
        b->view.kept[c] = NULL;
    }
}

static void unmap(struct leat_loading_batch *b)
{
    if (b->memory.data)
        munmap(b->memory.data, (size_t)b->memory.bytes);
    b->memory.data = NULL;
}

static void batch_free(struct leat_loading_batch *b)
{
    free_kept(b);
    unmap(b);
    for (uint32_t c = 0; c < LEAT_RING_COLUMNS_MAX; c++)
        free(b->view.ends[c]);
    if (b->memory.fd >= 0)
        close(b->memory.fd);
    leat_cursor_batch_free(&b->plan);
    free(b->samples);
    free(b->shared);
    free(b->errors);
    free(b->parts);
    free(b);
}

static struct leat_loading_batch *of_later(struct leat_task *task)
{
    return (struct leat_loading_batch *)((char *)task - offsetof(struct leat_loading_batch, later));
}

static void free_there(struct leat_task *task)
{
    batch_free(of_later(task));
}

/* Pages by the hundred. */
static bool has_much(const struct leat_loading_batch *b)
{
    bool much = b->memory.data || b->plan.n > SAMPLES_FEW;
    for (uint32_t c = 0; c < LEAT_RING_COLUMNS_MAX; c++)
        much = much || b->view.kept[c];
    return much;
}

void leat_batch_free(struct leat_loading_batch *b)
{
    if (!b)
        return;
    b->later.run = free_there;
    if (has_much(b))
        leat_agent_make(b->loading->opts.agent, &b->later);
    else
        batch_free(b);
}

/* The group */

static struct leat_loading_stream *stream_of(const struct leat_loading_batch *b, uint32_t i)
{
    return &b->loading->streams[b->plan.units[i].stream];
}

static const struct leat_outputs *outputs_of(const struct leat_loading_batch *b, uint32_t i)
{
    return &stream_of(b, i)->outputs;
}

/* The key of the draws in an epoch of a stream: the same for nearly all samples of a batch. */
struct draws {
    bool known;
    uint64_t epoch, key;
};

static uint64_t draw_key(const struct leat_loading *l, uint32_t stream, uint64_t epoch, struct draws *draws)
{
    const struct leat_order_spec *spec = &l->streams[stream].spec;
    struct draws *d = &draws[stream];
    if (!d->known || d->epoch != epoch) {
        uint64_t seed = l->draws_apart ? l->draw_seed : spec->seed;
        *d = (struct draws){true, epoch, leat_key("augment", seed, epoch, spec->dataset, sizeof spec->dataset)};
    }
    return d->key;
}

/* The samples whose chunks are in the group. */
static leat_status find_samples(struct leat_loading_batch *b, struct leat_error *err)
{
    struct draws draws[LEAT_ORDER_STREAMS_MAX] = {0};
    for (uint32_t i = 0; i < b->plan.n; i++) {
        struct leat_sample *s = &b->samples[i];
        const struct leat_cursor_unit *u = &b->plan.units[i];
        const struct leat_view *view = stream_of(b, i)->view;
        bool blocks = leat_view_is_blocks(view);
        uint32_t at = u->where;
        *s = (struct leat_sample){.index = blocks ? 0 : leat_view_sample(view, u->item.chunk, u->item.index),
                                  .number = u->number,
                                  .key = draw_key(b->loading, u->stream, u->epoch, draws),
                                  .stream = u->stream,
                                  .valid = u->valid,
                                  .view = blocks ? view : NULL,
                                  .chunk_number = u->item.chunk,
                                  .unit = u->item.index};
        if (at < b->sched.group || at >= b->sched.group_end)
            continue;
        s->chunk = leat_feed_chunk(b->sched.held[at]);
        if (s->index >= s->chunk->samples)
            return leat_fail(err, LEAT_CORRUPT, "chunk %u has %u samples, but the snapshot says more", u->item.chunk,
                             s->chunk->samples);
    }
    return LEAT_OK;
}

/* Layout */

/* Says where the ragged bytes of each sample end, for one column. */
static leat_status lay_out_column(struct leat_loading_batch *b, uint32_t c, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    uint64_t *ends = calloc((size_t)b->plan.n + 1, sizeof *ends);
    uint64_t at = 0;
    b->view.ends[c] = ends;
    if (!ends)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to lay out a batch");
    for (uint32_t i = 0; i < b->plan.n; i++)
        ends[i] = at +=
            b->view.kept[c] ? b->view.kept[c][i].bytes : leat_outputs_ragged(outputs_of(b, i), c, &b->samples[i]);
    memcpy(b->view.slot + l->outputs->columns[c].offset, ends, b->plan.n * sizeof *ends);
    return LEAT_OK;
}

/* Finds room for all ragged bytes: in the slot, or one column after the other in memory of the batch's own. */
static leat_status lay_out(struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    struct leat_ring_slot *slot = leat_ring_slot(&l->ring, b->sched.slot);
    uint64_t offset[LEAT_RING_COLUMNS_MAX];
    uint32_t external = 0;
    uint64_t bytes = 0;
    b->view.slot = (char *)slot;
    for (uint32_t c = 0; c < l->outputs->n; c++) {
        const struct leat_ring_column *column = &l->outputs->columns[c];
        if (!column->ragged)
            continue;
        leat_status rc = lay_out_column(b, c, err);
        if (rc != LEAT_OK)
            return rc;
        uint64_t used = b->plan.n ? b->view.ends[c][b->plan.n - 1] : 0;
        slot->arena_used[c] = used;
        b->view.arena[c] = b->view.slot + column->arena;
        if (used <= column->arena_bytes)
            continue;
        external |= 1u << c;
        offset[c] = bytes;
        bytes = leat_ring_memory_next(bytes, used);
    }
    slot->external = external;
    if (!external)
        return LEAT_OK;
    leat_status rc = leat_shared_create("leat-batch", bytes, &b->memory.fd, &b->memory.data, err);
    if (rc != LEAT_OK)
        return rc;
    b->memory.bytes = bytes;
    for (uint32_t c = 0; c < l->outputs->n; c++) {
        if (external >> c & 1)
            b->view.arena[c] = (char *)b->memory.data + offset[c];
    }
    return LEAT_OK;
}

/* Room beside the slot for the ragged values of a batch whose chunks are not all there at the same time. */
static leat_status keep_ragged(struct leat_loading_batch *b, struct leat_error *err)
{
    b->view.slot = (char *)leat_ring_slot(&b->loading->ring, b->sched.slot);
    for (uint32_t c = 0; c < b->loading->outputs->n; c++) {
        if (!b->loading->outputs->columns[c].ragged)
            continue;
        b->view.kept[c] = calloc((size_t)b->plan.n + 1, sizeof *b->view.kept[c]);
        if (!b->view.kept[c])
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the values of a batch");
    }
    return LEAT_OK;
}

/* Now that all of them are known, where they belong. */
static leat_status gather_ragged(struct leat_loading_batch *b, struct leat_error *err)
{
    leat_status rc = lay_out(b, err);
    for (uint32_t c = 0; rc == LEAT_OK && c < b->loading->outputs->n; c++) {
        for (uint32_t i = 0; b->view.kept[c] && i < b->plan.n; i++) {
            const struct leat_kept *k = &b->view.kept[c][i];
            if (k->bytes)
                memcpy(b->view.arena[c] + (i ? b->view.ends[c][i - 1] : 0), k->data, k->bytes);
        }
    }
    return rc;
}

/* Parts */

static void failed(struct leat_loading_batch *b, uint32_t i, const struct leat_error *err)
{
    b->errors[i] = *err;
    atomic_fetch_add_explicit(&b->failed, 1, memory_order_relaxed);
}

/* What has to be decoded, into the slot. */
static void decode(struct leat_batch_part *p, uint32_t i, struct leat_scratch *scratch)
{
    struct leat_loading_batch *b = p->batch;
    struct leat_error err = {0};
    p->decoded++;
    if (leat_outputs_write_costly(outputs_of(b, i), &b->view, i, &b->samples[i], NULL, scratch, &err) != LEAT_OK)
        failed(b, i, &err);
}

/* Out of what was shared: all of it, or the pictures that its own draws are applied to. */
static void take_shared(struct leat_loading_batch *b, uint32_t i, struct leat_shared *shared,
                        struct leat_scratch *scratch)
{
    const struct leat_loading_stream *s = stream_of(b, i);
    struct leat_error err = {0};
    if (!s->by_picture)
        leat_outputs_put(&s->outputs, &b->view, i, s->apart, leat_shared_data(shared));
    else if (leat_outputs_write_costly(&s->outputs, &b->view, i, &b->samples[i], leat_shared_data(shared), scratch,
                                       &err) != LEAT_OK)
        failed(b, i, &err);
}

/* The same where others can have it too. */
static void decode_shared(struct leat_batch_part *p, uint32_t i, struct leat_shared *shared,
                          struct leat_scratch *scratch)
{
    struct leat_loading_batch *b = p->batch;
    struct leat_slot_view view = {.slot = leat_shared_data(shared)};
    struct leat_error err = {0};
    p->decoded++;
    bool good =
        leat_outputs_write_costly(stream_of(b, i)->apart, &view, 0, &b->samples[i], NULL, scratch, &err) == LEAT_OK;
    leat_share_made(shared, good);
    if (good)
        take_shared(b, i, shared, scratch);
    else
        failed(b, i, &err);
}

static void decode_pictures(struct leat_batch_part *p, uint32_t i, struct leat_shared *shared,
                            struct leat_scratch *scratch)
{
    struct leat_loading_batch *b = p->batch;
    bool good =
        leat_pictures_decode(outputs_of(b, i), &b->samples[i], scratch, leat_shared_data(shared), NULL) == LEAT_OK;
    leat_share_made(shared, good);
    if (good) {
        p->decoded++;
        take_shared(b, i, shared, scratch);
    } else {
        decode(p, i, scratch); /* its own crop may be without damage, and says what is wrong if it is not */
    }
}

uint64_t leat_batch_place(const struct leat_loading_batch *b)
{
    return (b->plan.epoch * b->loading->epoch_units + b->plan.position) / b->loading->world;
}

static void write_costly(struct leat_batch_part *p, uint32_t i, struct leat_scratch *scratch)
{
    struct leat_loading_batch *b = p->batch;
    const struct leat_cursor_unit *u = &b->plan.units[i];
    const struct leat_loading_stream *s = stream_of(b, i);
    struct leat_shared *shared;
    enum leat_share_turn turn = LEAT_SHARE_OWN;
    uint64_t bytes = s->by_picture ? leat_pictures_bytes(&s->outputs, &b->samples[i]) : s->apart->slot_bytes;
    if (bytes)
        turn = leat_share_begin(s->share, u->epoch, u->number, leat_batch_place(b), bytes, &shared);
    switch (turn) {
    case LEAT_SHARE_OWN:
        decode(p, i, scratch);
        break;
    case LEAT_SHARE_MAKE:
        (s->by_picture ? decode_pictures : decode_shared)(p, i, shared, scratch);
        leat_share_let_go(shared);
        break;
    case LEAT_SHARE_TAKE:
        take_shared(b, i, shared, scratch);
        leat_share_let_go(shared);
        p->taken++;
        break;
    case LEAT_SHARE_LATER:
        b->shared[i] = shared;
        break;
    }
}

/* What another worker was making when its turn came. */
static void take_later(struct leat_batch_part *p, uint32_t i, struct leat_scratch *scratch)
{
    struct leat_loading_batch *b = p->batch;
    struct leat_shared *shared = b->shared[i];
    b->shared[i] = NULL;
    if (leat_share_wait(shared)) {
        take_shared(b, i, shared, scratch);
        p->taken++;
    } else {
        decode(p, i, scratch);
    }
    leat_share_let_go(shared);
}

static void settle(struct leat_loading_batch *b);

/* On the loop. */
static void finish_part(struct leat_task *task)
{
    struct leat_batch_part *p = (struct leat_batch_part *)task;
    struct leat_loading_batch *b = p->batch;
    struct leat_loading *l = b->loading;
    l->stats.prep_cpu_ns += p->cpu_ns;
    l->stats.prep_cost += p->work.cost;
    l->stats.decoded += p->decoded;
    l->stats.taken += p->taken;
    b->parts_done++;
    settle(b);
}

/* On a worker. */
static void run_part(struct leat_task *task)
{
    struct leat_batch_part *p = (struct leat_batch_part *)task;
    struct leat_scratch *scratch = task->with;
    struct leat_loading_batch *b = p->batch;
    uint64_t began_ns = leat_thread_cpu_ns();
    for (uint32_t i = p->first; i < p->first + p->n; i++) {
        struct leat_error err = {0};
        if (!b->samples[i].chunk)
            continue; /* of another group */
        if (i + 1 < p->first + p->n)
            leat_tokens_ahead(&b->samples[i + 1]);
        if (leat_outputs_write_light(outputs_of(b, i), &b->view, i, &b->samples[i], scratch, &err) != LEAT_OK)
            failed(b, i, &err);
        else if (stream_of(b, i)->apart)
            write_costly(p, i, scratch);
    }
    for (uint32_t i = p->first; i < p->first + p->n; i++) {
        if (b->shared[i])
            take_later(p, i, scratch);
    }
    p->cpu_ns = leat_thread_cpu_ns() - began_ns;
    task->run = finish_part;
    leat_loop_post(b->loading->opts.agent->loop, task);
}

static uint64_t cost_of(const struct leat_loading_batch *b, uint32_t i)
{
    return b->samples[i].chunk ? leat_outputs_cost(outputs_of(b, i), &b->samples[i]) : 0;
}

/* Cuts the batch so that parts cost about the same: a few for every worker, and none so small that handing it out costs
 * more than it levels. */
static uint32_t cut(struct leat_loading_batch *b)
{
    const struct leat_loading *l = b->loading;
    uint32_t least = leat_outputs_pictures(l->outputs) ? PART_PICTURE : PART_BYTES;
    uint32_t most = (b->plan.n + least - 1) / least;
    uint32_t want = PARTS_EACH * l->opts.agent->opts.threads;
    uint32_t parts = want < most ? want : most;
    b->cost = 0;
    for (uint32_t i = 0; i < b->plan.n; i++)
        b->cost += cost_of(b, i);
    uint32_t n = 0;
    uint64_t sum = 0;
    b->parts[0].n = 0;
    for (uint32_t i = 0; i < b->plan.n; i++) {
        struct leat_batch_part *p = &b->parts[n];
        uint64_t cost = cost_of(b, i);
        if (p->n == 0)
            *p = (struct leat_batch_part){.batch = b, .first = i, .work.task.run = run_part};
        p->n++;
        p->work.cost += cost;
        sum += cost;
        bool full = b->cost ? sum * parts >= b->cost * (n + 1) : p->n >= least;
        if (full && n + 1 < b->parts_cap) {
            n++;
            b->parts[n].n = 0;
        }
    }
    return b->parts[n].n ? n + 1 : n;
}

/* Once a batch, when it has its slot. */
static leat_status begin_batch(struct leat_loading_batch *b, struct leat_error *err)
{
    bool later = b->sched.group_end < b->plan.chunks_n;
    for (uint32_t i = 0; i < b->loading->streams_n; i++)
        later = later || leat_view_is_blocks(b->loading->streams[i].view);
    leat_status rc = later ? keep_ragged(b, err) : lay_out(b, err);
    b->ragged_later = later;
    if (rc != LEAT_OK)
        return rc;
    b->parts_cap = PARTS_EACH * b->loading->opts.agent->opts.threads + 1;
    b->parts_cap = b->plan.n + 1 < b->parts_cap ? b->plan.n + 1 : b->parts_cap;
    b->errors = calloc((size_t)b->plan.n + 1, sizeof *b->errors);
    b->parts = calloc(b->parts_cap, sizeof *b->parts);
    b->shared = calloc((size_t)b->plan.n + 1, sizeof(struct leat_shared *));
    if (!b->errors || !b->parts || !b->shared)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to prepare a batch");
    return LEAT_OK;
}

/* When the work at a part should begin, so that all parts have ended when the batch is due: what costs more begins
 * earlier, and batches that are due at the same time are worked at in turns and end together. */
static uint64_t start_ns(const struct leat_loading_batch *b, uint32_t part, uint32_t parts)
{
    const struct leat_loading *l = b->loading;
    double left = (double)(parts - part) / parts;
    uint64_t takes = (uint64_t)((double)b->cost * b->cost_ns * left / l->opts.agent->opts.threads);
    if (b->cost_ns == 0)
        return b->sched.due_ns;
    return b->sched.due_ns > takes ? b->sched.due_ns - takes : 1; /* 0 is for checking */
}

/* Whether all that has to be done to it is to copy what others have made. */
static bool is_here(const struct leat_loading_batch *b, const struct leat_batch_part *p)
{
    for (uint32_t i = p->first; i < p->first + p->n; i++) {
        if (stream_of(b, i)->by_picture)
            return false;
        if (b->samples[i].chunk &&
            !leat_share_has(stream_of(b, i)->share, b->plan.units[i].epoch, b->plan.units[i].number))
            return false;
    }
    return true;
}

static leat_status hand_out(struct leat_loading_batch *b, struct leat_error *err)
{
    leat_status rc = find_samples(b, err);
    if (rc == LEAT_OK && !b->parts)
        rc = begin_batch(b, err);
    if (rc != LEAT_OK)
        return rc;
    uint32_t parts = cut(b);
    for (; b->parts_n < parts; b->parts_n++) {
        struct leat_batch_part *p = &b->parts[b->parts_n];
        p->work.due = is_here(b, p) ? 1 : start_ns(b, b->parts_n, parts); /* copies wait for nothing */
        p->work.trace.who = b->loading->who.number;
        p->work.trace.number = b->sched.number;
        p->work.trace.amount = p->n;
        if (!leat_workers_add(b->loading->opts.agent->workers, &p->work))
            return leat_fail(err, LEAT_NO_MEMORY, "no memory to prepare a batch"); /* those given out end first */
    }
    return LEAT_OK;
}

/* On the loop. */
static void handed_out(struct leat_task *task)
{
    struct leat_loading_batch *b = of_later(task);
    b->handed_out = true;
    settle(b);
}

/* On a worker: a large batch may have a hundred megabytes of its own, and a hundred thousand samples to look at. */
static void hand_out_there(struct leat_task *task)
{
    struct leat_loading_batch *b = of_later(task);
    struct leat_error err = {0};
    if (hand_out(b, &err) != LEAT_OK)
        b->err = err; /* the groups after it are not worked at */
    b->later.run = handed_out;
    leat_loop_post(b->loading->opts.agent->loop, &b->later);
}

static void prepared_later(struct leat_task *task)
{
    leat_loading_prepared(of_later(task));
}

void leat_batch_prepare(struct leat_loading_batch *b)
{
    struct leat_loading *l = b->loading;
    if (b->err.status != LEAT_OK) {
        b->later.run = prepared_later;
        leat_loop_post(l->opts.agent->loop, &b->later);
        return;
    }
    b->handed_out = false;
    b->parts_n = b->parts_done = 0;
    b->cost_ns = l->stats.prep_cost ? (double)l->stats.prep_cpu_ns / (double)l->stats.prep_cost : 0;
    b->later.run = hand_out_there;
    leat_workers_check(l->opts.agent->workers, &b->later); /* before other work: the other workers wait for it */
}

/* Samples that could not be decoded: an error, or their places are filled from the same batch. */
static leat_status settle_failures(struct leat_loading_batch *b, struct leat_error *err)
{
    const struct leat_loading *l = b->loading;
    if (!b->failed)
        return LEAT_OK;
    uint32_t good = b->plan.n;
    for (uint32_t i = b->plan.n; i-- > 0;) {
        if (b->errors[i].status == LEAT_OK)
            good = i;
        else if (!l->skip_errors || b->errors[i].status == LEAT_NO_MEMORY)
            *err = b->errors[i]; /* a sample is not bad because there was no memory for it */
    }
    if (err->status != LEAT_OK)
        return err->status;
    if (good == b->plan.n)
        return leat_fail(err, LEAT_CORRUPT, "none of the %u samples of a batch can be decoded; the first: %.300s",
                         b->plan.n, b->errors[0].text);
    for (uint32_t i = 0; i < b->plan.n; i++) {
        if (b->errors[i].status == LEAT_OK)
            continue;
        leat_log(LEAT_LOG_WARN, "skipped: %s", b->errors[i].text);
        leat_outputs_repeat(l->outputs, &b->view, good, i);
        leat_outputs_set_valid(l->outputs, &b->view, i, false);
        b->skipped++;
    }
    return LEAT_OK;
}

/* On a worker: all samples are written. */
static void end_there(struct leat_task *task)
{
    struct leat_loading_batch *b = of_later(task);
    struct leat_error err = {0};
    leat_status rc = settle_failures(b, &err);
    if (rc == LEAT_OK && b->ragged_later)
        rc = gather_ragged(b, &err);
    if (rc != LEAT_OK)
        b->err = err;
    free_kept(b);
    unmap(b);
    b->later.run = prepared_later;
    leat_loop_post(b->loading->opts.agent->loop, &b->later);
}

/* On the loop: whether its group is written. */
static void settle(struct leat_loading_batch *b)
{
    bool last = b->sched.group_end == b->plan.chunks_n;
    if (!b->handed_out || b->parts_done < b->parts_n)
        return;
    if (last && !b->loading->closing && b->err.status == LEAT_OK && (b->failed || b->ragged_later || b->memory.data)) {
        b->later.run = end_there;
        leat_workers_check(b->loading->opts.agent->workers, &b->later);
    } else {
        leat_loading_prepared(b);
    }
}

leat_status leat_batch_finish(struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    if (b->plan.end) {
        leat_ring_slot(&l->ring, b->sched.slot)->external = 0;
        return LEAT_OK;
    }
    if (b->err.status != LEAT_OK) {
        *err = b->err;
        return err->status;
    }
    if (!b->plan.n) /* nothing was prepared: at the end of an epoch there may be fewer samples than ranks */
        return lay_out(b, err);
    l->stats.skipped += b->skipped;
    return b->memory.fd < 0 ? LEAT_OK : l->opts.memory(l->opts.user, b->sched.slot, b->memory.fd, err);
}
