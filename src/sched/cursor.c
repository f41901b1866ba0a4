#include "sched/cursor.h"

#include <stdlib.h>
#include <string.h>

#include "order/place.h"
#include "order/policy.h"
#include "order/reader.h"

/* What takes a millisecond, about */
#define BATCH_FEW  1024u /* units of a global batch */
#define UNITS_FEW  4096u /* units of a chunk, which are shuffled when it becomes live */
#define CHUNKS_FEW 4096u /* chunks of an order */

/* Orders that are over: somebody may still look at them until the call after the next. */
struct over {
    struct leat_order **list;
    uint32_t n, cap;
};

/* One of the orders that are read. */
struct stream {
    struct leat_order_spec spec;
    uint32_t first;  /* number of its first chunk, counted through all streams */
    uint64_t epoch;  /* being read */
    uint64_t before; /* stages of the epochs that are over */
    struct leat_order *now;
    struct leat_order *coming;
    struct leat_order_reader *reader;
    uint64_t ahead; /* place of the chunk named next: in `now`, then in `coming` */
    double origin, pace;
};

struct leat_cursor {
    struct stream *streams;
    struct leat_sched_stream *seen; /* what leat_cursor_view() says of them */
    uint32_t streams_n;
    uint32_t chunks; /* of all streams */
    const struct leat_mixture *mixture;
    uint64_t epoch_units;
    uint64_t epoch;
    uint64_t position;
    uint64_t opened; /* the mixture's position at the opening */
    uint32_t global_batch;
    enum leat_order_last last;
    uint32_t rank;
    struct over over, older;
    struct leat_order_world world;
    uint32_t *node_of_rank;
    uint32_t *node_of_slot; /* what ranks are assigned by */
    uint32_t *owner;        /* who has what now: the same, unless machines were lost; not leat_cursor_next()'s */
    uint32_t self;          /* this machine in `owner` */
    bool apart;             /* `owner` is not what ranks are assigned by */
    struct leat_order_assigner *assigner;
    struct leat_cursor_unit *units; /* of a global batch */
    struct leat_order_item *items;  /* the same for the assigner: chunks are numbered through all streams */
    struct leat_order_item *read;
    uint8_t *mixed; /* which stream each comes from */
    uint32_t *rank_of;
};

static leat_status open_order(const struct stream *s, uint64_t epoch, struct leat_order **out, struct leat_error *err)
{
    struct leat_order_spec spec = s->spec;
    spec.epoch = epoch;
    return leat_order_open(&spec, out, err);
}

/* Ranks whose machines are not known count as one node: every rank comes to the same answer, and only locality is
 * lost. */
static leat_status open_world(struct leat_cursor *c, const struct leat_cursor_opts *o, struct leat_error *err)
{
    struct leat_order_world *w = &c->world;
    leat_status rc = leat_order_batch_check(o->global_batch, err); /* and the world is not larger */
    if (rc != LEAT_OK)
        return rc;
    w->ranks = o->world;
    w->nodes = 1;
    w->chunks = c->chunks;
    w->slots = leat_order_slots(c->chunks);
    c->node_of_rank = calloc((size_t)o->world + 1, sizeof *c->node_of_rank);
    c->node_of_slot = calloc((size_t)w->slots + 1, sizeof *c->node_of_slot);
    c->owner = calloc((size_t)w->slots + 1, sizeof *c->owner);
    c->units = calloc(o->global_batch, sizeof *c->units);
    c->items = calloc(o->global_batch, sizeof *c->items);
    c->read = calloc(o->global_batch, sizeof *c->read);
    c->mixed = calloc(o->global_batch, 1);
    c->rank_of = calloc(o->global_batch, sizeof *c->rank_of);
    if (!c->node_of_rank || !c->node_of_slot || !c->owner || !c->units || !c->items || !c->read || !c->mixed ||
        !c->rank_of)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch of %u", o->global_batch);
    for (uint32_t r = 0; o->node_of_rank && r < o->world; r++) {
        c->node_of_rank[r] = o->node_of_rank[r];
        w->nodes = o->node_of_rank[r] >= w->nodes ? o->node_of_rank[r] + 1 : w->nodes;
    }
    if (w->nodes > w->ranks)
        return leat_fail(err, LEAT_INVALID, "a node map with a node %u in a world of %u ranks", w->nodes - 1, w->ranks);
    w->node_of_rank = c->node_of_rank;
    w->node_of_slot = c->node_of_slot;
    if (o->node_of_slot)
        memcpy(c->node_of_slot, o->node_of_slot, w->slots * sizeof *c->node_of_slot);
    else
        rc = leat_order_place(w->slots, w->ranks, w->node_of_rank, w->nodes, c->node_of_slot, err);
    memcpy(c->owner, c->node_of_slot, w->slots * sizeof *c->owner);
    c->self = o->rank < o->world ? c->node_of_rank[o->rank] : 0;
    return rc == LEAT_OK ? leat_order_assigner_open(w, o->global_batch, false, &c->assigner, err) : rc;
}

static leat_status open_stream(struct stream *s, uint64_t epoch, uint64_t position, struct leat_error *err)
{
    s->epoch = epoch;
    leat_status rc = open_order(s, epoch, &s->now, err);
    if (rc == LEAT_OK)
        rc = open_order(s, epoch + 1, &s->coming, err);
    if (rc == LEAT_OK)
        rc = leat_order_reader_open(s->now, position, &s->reader, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t stage = leat_order_reader_stage(s->reader);
    uint32_t window = leat_order_window(s->now);
    s->ahead = stage < window ? 0 : stage - window + 1; /* the oldest that may still be live */
    return LEAT_OK;
}

/* How the stages of a stream lie among those of the mixture, which are its units: by its share as it is now. */
static void set_pace(const struct leat_cursor *c, struct stream *s, uint32_t i)
{
    uint64_t at = c->epoch * c->epoch_units + c->position;
    double share = leat_mixture_share(c->mixture, at, i);
    double each = (double)leat_order_units(s->now) / (double)leat_order_stages(s->now);
    double pace = share > 0 ? each / share : 1e12; /* as good as never */
    if (pace == s->pace)
        return;
    s->pace = pace;
    s->origin = (double)(at - c->opened) - (double)(s->before + leat_order_reader_stage(s->reader)) * pace;
}

static uint64_t units_of(const struct stream *s)
{
    uint64_t units = 0;
    for (uint32_t k = 0; k < s->spec.chunks; k++)
        units += s->spec.counts[k];
    return units;
}

static leat_status check_position(struct leat_cursor *c, struct leat_error *err)
{
    if (!c->mixture)
        c->epoch_units = units_of(&c->streams[0]);
    if (c->position > c->epoch_units)
        return leat_fail(err, LEAT_INVALID, "position %llu is after the end of the epoch (%llu samples)",
                         (unsigned long long)c->position, (unsigned long long)c->epoch_units);
    if (c->mixture && (!c->epoch_units || c->epoch >= LEAT_ORDER_NUMBER_MAX / c->epoch_units))
        return leat_fail(err, LEAT_INVALID, "epoch %llu of a mixture of %llu samples per epoch is too far",
                         (unsigned long long)c->epoch, (unsigned long long)c->epoch_units);
    return LEAT_OK;
}

static leat_status open_streams(struct leat_cursor *c, struct leat_error *err)
{
    uint64_t counts[LEAT_ORDER_STREAMS_MAX];
    leat_status rc = check_position(c, err);
    if (rc != LEAT_OK || !c->mixture)
        return rc == LEAT_OK ? open_stream(&c->streams[0], c->epoch, c->position, err) : rc;
    c->opened = c->epoch * c->epoch_units + c->position;
    leat_mixture_counts(c->mixture, c->opened, counts);
    for (uint32_t i = 0; rc == LEAT_OK && i < c->streams_n; i++) {
        struct stream *s = &c->streams[i];
        uint64_t units = units_of(s);
        if (!units)
            return leat_fail(err, LEAT_INVALID, "stream %u of the mixture is empty", i);
        rc = open_stream(s, counts[i] / units, counts[i] % units, err);
        if (rc == LEAT_OK)
            set_pace(c, s, i);
    }
    return rc;
}

static leat_status copy_specs(struct leat_cursor *c, const struct leat_cursor_opts *o, struct leat_error *err)
{
    uint64_t chunks = 0;
    if (!o->specs_n || o->specs_n > LEAT_ORDER_STREAMS_MAX || (!o->mixture && o->specs_n > 1) ||
        (o->mixture && leat_mixture_streams(o->mixture) != o->specs_n))
        return leat_fail(err, LEAT_INTERNAL, "a cursor of %u streams", o->specs_n);
    c->streams = calloc(o->specs_n, sizeof *c->streams);
    c->seen = calloc(o->specs_n, sizeof *c->seen);
    if (!c->streams || !c->seen)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a cursor");
    c->streams_n = o->specs_n;
    for (uint32_t i = 0; i < o->specs_n; i++) {
        c->streams[i].spec = o->specs[i];
        c->streams[i].first = (uint32_t)chunks;
        chunks += o->specs[i].chunks;
        if (chunks > LEAT_ORDER_CHUNKS_MAX)
            return leat_fail(err, LEAT_LIMIT, "the streams of a mixture have at most %u chunks together",
                             LEAT_ORDER_CHUNKS_MAX);
    }
    c->chunks = (uint32_t)chunks;
    return LEAT_OK;
}

leat_status leat_cursor_open(const struct leat_cursor_opts *o, struct leat_cursor **out, struct leat_error *err)
{
    struct leat_cursor *c = calloc(1, sizeof *c);
    if (!c)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a cursor");
    c->mixture = o->mixture;
    c->epoch_units = o->epoch_units;
    c->epoch = o->epoch;
    c->position = o->position;
    c->global_batch = o->global_batch;
    c->last = o->last;
    c->rank = o->rank;
    leat_status rc = copy_specs(c, o, err);
    if (rc == LEAT_OK)
        rc = open_world(c, o, err);
    if (rc == LEAT_OK)
        rc = open_streams(c, err);
    if (rc != LEAT_OK) {
        leat_cursor_close(c);
        return rc;
    }
    *out = c;
    return LEAT_OK;
}

static void close_over(struct over *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        leat_order_close(o->list[i]);
    o->n = 0;
}

void leat_cursor_close(struct leat_cursor *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->streams_n; i++) {
        leat_order_reader_close(c->streams[i].reader);
        leat_order_close(c->streams[i].now);
        leat_order_close(c->streams[i].coming);
    }
    close_over(&c->over);
    close_over(&c->older);
    leat_order_assigner_close(c->assigner);
    free(c->over.list);
    free(c->older.list);
    free(c->streams);
    free(c->seen);
    free(c->node_of_rank);
    free(c->node_of_slot);
    free(c->owner);
    free(c->units);
    free(c->items);
    free(c->read);
    free(c->mixed);
    free(c->rank_of);
    free(c);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Takes this rank's share of the global batch in c->units. */
static leat_status take_share(struct leat_cursor *c, struct leat_cursor_batch *b, struct leat_order_batch size,
                              struct leat_error *err)
{
    b->n = leat_order_quota(&c->world, size.size, c->rank);
    b->units = calloc((size_t)b->n + 1, sizeof *b->units);
    b->chunks = calloc((size_t)b->n + 1, sizeof *b->chunks);
    if (!b->units || !b->chunks)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to plan a batch of %u", b->n);
    leat_order_assign(c->assigner, c->items, NULL, size.size, c->rank_of);
    uint32_t n = 0;
    for (uint32_t i = 0; i < size.size && n < b->n; i++) {
        if (c->rank_of[i] != c->rank)
            continue;
        b->units[n] = c->units[i < size.take ? i : i % size.take]; /* as leat_order_batch_pad() repeats them */
        b->units[n].valid = i < size.take;
        b->units[n].where = c->items[i].chunk; /* for now */
        b->chunks[n] = c->items[i].chunk;
        n++;
    }
    qsort(b->chunks, n, sizeof *b->chunks, by_number);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || b->chunks[i] != b->chunks[b->chunks_n - 1])
            b->chunks[b->chunks_n++] = b->chunks[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *at = bsearch(&b->units[i].where, b->chunks, b->chunks_n, sizeof *at, by_number);
        b->units[i].where = at ? (uint32_t)(at - b->chunks) : 0;
    }
    return LEAT_OK;
}

static leat_status keep_over(struct leat_cursor *c, struct leat_order *order, struct leat_error *err)
{
    struct over *o = &c->over;
    if (o->n == o->cap) {
        uint32_t cap = o->cap ? 2 * o->cap : 8;
        struct leat_order **list = realloc(o->list, cap * sizeof *list);
        if (!list)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the next epoch");
        o->list = list;
        o->cap = cap;
    }
    o->list[o->n++] = order;
    return LEAT_OK;
}

/* A stream goes on into its next epoch. After a failure nothing has changed. */
static leat_status turn_epoch(struct leat_cursor *c, struct stream *s, struct leat_error *err)
{
    struct leat_order *after;
    struct leat_order_reader *reader;
    leat_status rc = open_order(s, s->epoch + 2, &after, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_order_reader_open(s->coming, 0, &reader, err);
    if (rc == LEAT_OK && (rc = keep_over(c, s->now, err)) != LEAT_OK)
        leat_order_reader_close(reader);
    if (rc != LEAT_OK) { /* others go on asking what would be needed next */
        leat_order_close(after);
        return rc;
    }
    uint64_t places = leat_order_places(s->now);
    s->ahead = s->ahead > places ? s->ahead - places : 0;
    s->before += leat_order_stages(s->now);
    leat_order_reader_close(s->reader);
    s->now = s->coming;
    s->coming = after;
    s->epoch++;
    s->reader = reader;
    return LEAT_OK;
}

/* The next n units of a stream, which go to the places of c->units that are its own. */
static leat_status read_stream(struct leat_cursor *c, uint32_t i, uint32_t n, uint32_t take, struct leat_error *err)
{
    struct stream *s = &c->streams[i];
    uint32_t at = 0;
    while (n) {
        size_t got;
        leat_status rc = leat_order_reader_next(s->reader, c->read, n, &got, err);
        if (rc != LEAT_OK)
            return rc;
        for (size_t k = 0; k < got; k++, at++) {
            while (at < take && c->mixed[at] != i)
                at++;
            c->units[at] = (struct leat_cursor_unit){
                .item = c->read[k], .stream = i, .epoch = s->epoch, .number = leat_order_unit(s->now, c->read[k])};
            c->items[at] = (struct leat_order_item){.chunk = s->first + c->read[k].chunk, .index = c->read[k].index};
        }
        n -= (uint32_t)got;
        if (n && !c->mixture)
            return leat_fail(err, LEAT_INTERNAL, "the order ended early");
        if (n && (rc = turn_epoch(c, s, err)) != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

static leat_status read_batch(struct leat_cursor *c, uint32_t take, struct leat_error *err)
{
    uint32_t counts[LEAT_ORDER_STREAMS_MAX] = {0};
    leat_status rc = LEAT_OK;
    if (c->mixture)
        leat_mixture_read(c->mixture, c->epoch * c->epoch_units + c->position, c->mixed, take);
    for (uint32_t i = 0; i < take; i++)
        counts[c->mixed[i]]++;
    for (uint32_t i = 0; rc == LEAT_OK && i < c->streams_n; i++)
        rc = read_stream(c, i, counts[i], take, err);
    return rc;
}

/* Goes on into the next epoch: of a mixture, from the unit after the last that this one could have had. */
static leat_status end_epoch(struct leat_cursor *c, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    uint64_t skip = c->epoch_units - c->position; /* last = drop */
    if (!c->mixture)
        rc = turn_epoch(c, &c->streams[0], err);
    while (rc == LEAT_OK && c->mixture && skip) {
        uint32_t some = skip < c->global_batch ? (uint32_t)skip : c->global_batch;
        rc = read_batch(c, some, err);
        c->position += some;
        skip -= some;
    }
    if (rc != LEAT_OK)
        return rc;
    c->epoch++;
    c->position = 0;
    return LEAT_OK;
}

static uint64_t lane_stage(const struct leat_cursor *c)
{
    if (c->mixture)
        return c->epoch * c->epoch_units + c->position - c->opened;
    return c->streams[0].before + leat_order_reader_stage(c->streams[0].reader);
}

leat_status leat_cursor_next(struct leat_cursor *c, struct leat_cursor_batch *out, struct leat_error *err)
{
    struct leat_cursor_batch b = {.epoch = c->epoch};
    struct leat_order_batch size = leat_order_batch_at(c->epoch_units, c->position, c->global_batch, c->last);
    struct over oldest = c->older;
    leat_status rc = LEAT_OK;
    close_over(&oldest);
    c->older = c->over;
    c->over = oldest;
    if (size.take == 0) {
        b.end = true;
        b.position = c->position;
        rc = end_epoch(c, err);
    } else {
        rc = read_batch(c, size.take, err);
        leat_order_batch_pad(c->items, size);
        if (rc == LEAT_OK)
            rc = take_share(c, &b, size, err);
        c->position += size.take;
        b.position = c->position;
    }
    if (rc != LEAT_OK) {
        leat_cursor_batch_free(&b);
        return rc;
    }
    b.stage = lane_stage(c);
    for (uint32_t i = 0; c->mixture && i < c->streams_n; i++)
        set_pace(c, &c->streams[i], i);
    *out = b;
    return LEAT_OK;
}

static bool is_slow(const struct leat_cursor *c, const struct stream *s)
{
    uint64_t units = leat_order_units(s->now);
    uint64_t left = units - leat_order_reader_position(s->reader);
    bool turns = c->mixture ? left < c->global_batch
                            : leat_order_batch_at(units, c->position, c->global_batch, c->last).take == 0;
    bool many = s->spec.chunks > CHUNKS_FEW;
    return (turns && many) || units / UNITS_FEW > s->spec.chunks;
}

bool leat_cursor_next_is_slow(const struct leat_cursor *c)
{
    bool slow = c->global_batch > BATCH_FEW;
    for (uint32_t i = 0; i < c->older.n && !slow; i++)
        slow = leat_order_chunks(c->older.list[i]) > CHUNKS_FEW;
    for (uint32_t i = 0; i < c->streams_n && !slow; i++)
        slow = is_slow(c, &c->streams[i]);
    return slow;
}

void leat_cursor_batch_free(struct leat_cursor_batch *b)
{
    free(b->units);
    free(b->chunks);
    *b = (struct leat_cursor_batch){0};
}

static bool ours(const struct leat_cursor *c, uint32_t chunk)
{
    return leat_cursor_owner(c, chunk) == c->self;
}

/* The next chunk of a stream's, as a place in its orders; false: none. Its stage is the lane's. LEAT_ORDER_NONE: it is
 * farther than a call looks. */
static bool stream_ahead(const struct leat_cursor *c, struct stream *s, uint32_t *chunk, uint64_t *stage)
{
    uint64_t here = leat_order_reader_stage(s->reader);
    uint64_t places = leat_order_places(s->now);
    uint64_t end = places + leat_order_places(s->coming);
    *chunk = LEAT_ORDER_NONE;
    for (unsigned n = 0; s->ahead < end && n < LEAT_CURSOR_LOOKS; s->ahead++, n++) {
        bool now = s->ahead < places;
        uint64_t place = now ? s->ahead : s->ahead - places;
        uint32_t number = leat_order_chunk_at(now ? s->now : s->coming, (uint32_t)place);
        uint64_t first;
        uint64_t last;
        if (!ours(c, s->first + number))
            continue;
        if (now && place < here && leat_order_uses(s->now, number, &first, &last) && last < here)
            continue; /* already through */
        *chunk = s->first + number;
        *stage = s->before + (now ? (place > here ? place : here) : leat_order_stages(s->now) + place);
        if (c->mixture) {
            double at = s->origin + (double)*stage * s->pace;
            *stage = at > 0 ? (uint64_t)at : 0;
        }
        return true;
    }
    return s->ahead < end;
}

bool leat_cursor_ahead(struct leat_cursor *c, uint32_t *chunk, uint64_t *stage)
{
    struct stream *nearest = NULL;
    bool later = false;
    for (uint32_t i = 0; i < c->streams_n; i++) {
        uint32_t number;
        uint64_t when;
        if (!stream_ahead(c, &c->streams[i], &number, &when))
            continue;
        later = later || number == LEAT_ORDER_NONE;
        if (later || (nearest && when >= *stage))
            continue;
        nearest = &c->streams[i];
        *chunk = number;
        *stage = when;
    }
    if (later) { /* what that stream has may be nearer */
        *chunk = LEAT_ORDER_NONE;
        return true;
    }
    if (nearest)
        nearest->ahead++;
    return nearest != NULL;
}

void leat_cursor_view(struct leat_cursor *c, struct leat_sched_view *out)
{
    for (uint32_t i = 0; i < c->streams_n; i++) {
        const struct stream *s = &c->streams[i];
        c->seen[i] = (struct leat_sched_stream){.now = s->now,
                                                .coming = s->coming,
                                                .stage = leat_order_reader_stage(s->reader),
                                                .before = s->before,
                                                .first = s->first,
                                                .origin = s->origin,
                                                .pace = s->pace};
    }
    *out = (struct leat_sched_view){
        .streams = c->seen,
        .streams_n = c->streams_n,
        .stage = lane_stage(c),
        .node_of_slot = c->world.nodes > 1 || c->apart ? c->owner : NULL,
        .node = c->self,
    };
}

void leat_cursor_own(struct leat_cursor *c, const uint32_t *node_of_slot, uint32_t node)
{
    c->self = node;
    c->apart = true;
    memcpy(c->owner, node_of_slot, c->world.slots * sizeof *c->owner);
}

uint32_t leat_cursor_slots(const struct leat_cursor *c)
{
    return c->world.slots;
}

uint32_t leat_cursor_nodes(const struct leat_cursor *c)
{
    return c->world.nodes;
}

uint32_t leat_cursor_owner(const struct leat_cursor *c, uint32_t chunk)
{
    return c->owner[leat_order_slot_of(chunk, c->chunks)];
}

uint32_t leat_cursor_node(const struct leat_cursor *c)
{
    return c->node_of_rank[c->rank];
}

const uint32_t *leat_cursor_placement(const struct leat_cursor *c)
{
    return c->node_of_slot;
}

uint64_t leat_cursor_epoch_units(const struct leat_cursor *c)
{
    return c->epoch_units;
}

const struct leat_order *leat_cursor_order(const struct leat_cursor *c, uint32_t stream)
{
    return c->streams[stream].now;
}

const uint32_t *leat_cursor_node_of_rank(const struct leat_cursor *c)
{
    return c->node_of_rank;
}
