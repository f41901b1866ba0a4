#include "sched_play.h"

#include "sched/inside.h"

struct books { /* of one chunk */
    bool in_ram, coming, on_disk, storing;
    uint32_t preparing;
};

struct page { /* of one batch */
    struct leat_sched_batch batch;
    struct leat_cursor_batch planned;
    uint32_t chunks[8];
    uint64_t serial;
    uint32_t prepared; /* chunks */
};

static void (*spare)(bool on);

void play_spare(void (*hook)(bool on))
{
    spare = hook;
}

static void own(bool on)
{
    if (spare)
        spare(on);
}

static struct books *books(struct leat_sched_chunk *c)
{
    own(true);
    if (!c->user)
        c->user = calloc(1, sizeof(struct books));
    own(false);
    assert_non_null(c->user);
    return c->user;
}

static bool chance(struct play *p, unsigned of_1000)
{
    return of_1000 && leat_rng_below(&p->rng, 1000) < of_1000;
}

/* Events */

static bool sooner(const struct play_event *a, const struct play_event *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->serial < b->serial);
}

static void push(struct play *p, struct play_event e)
{
    if (p->queue_n == p->queue_cap) {
        p->queue_cap = p->queue_cap ? p->queue_cap * 2 : 64;
        own(true);
        p->queue = realloc(p->queue, p->queue_cap * sizeof *p->queue);
        own(false);
        assert_non_null(p->queue);
    }
    e.serial = p->serial++;
    size_t at = p->queue_n++;
    for (; at && sooner(&e, &p->queue[(at - 1) / 2]); at = (at - 1) / 2)
        p->queue[at] = p->queue[(at - 1) / 2];
    p->queue[at] = e;
}

static struct play_event pop(struct play *p)
{
    struct play_event top = p->queue[0];
    struct play_event last = p->queue[--p->queue_n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < p->queue_n; at = child) {
        if (child + 1 < p->queue_n && sooner(&p->queue[child + 1], &p->queue[child]))
            child++;
        if (!sooner(&p->queue[child], &last))
            break;
        p->queue[at] = p->queue[child];
    }
    if (p->queue_n)
        p->queue[at] = last;
    return top;
}

static uint64_t take_line(const struct play *p, uint64_t *free_ns, uint64_t rate, uint64_t bytes)
{
    uint64_t from = *free_ns > p->now_ns ? *free_ns : p->now_ns;
    if (!rate)
        return p->now_ns;
    *free_ns = from + (uint64_t)((double)bytes * 1e9 / (double)rate);
    return *free_ns;
}

/* Actions */

static bool do_fetch(void *user, struct leat_sched_chunk *c, const struct leat_sched_fetch *how)
{
    struct play *p = user;
    struct books *b = books(c);
    if (b->in_ram || b->coming)
        fail_msg("a chunk is fetched that is %s", b->in_ram ? "there" : "coming");
    assert_int_equal(how->from_disk, b->on_disk);
    assert_true(how->ranges >= 1 && how->ranges <= LEAT_SCHED_RANGES);
    if (chance(p, p->fetch_refused))
        return false;
    if (p->ram_used + c->bytes > p->ram)
        fail_msg("memory: %llu and %llu bytes of %llu", (unsigned long long)p->ram_used, (unsigned long long)c->bytes,
                 (unsigned long long)p->ram);
    p->ram_used += c->bytes;
    p->ram_most = p->ram_used > p->ram_most ? p->ram_used : p->ram_most;
    b->coming = true;
    p->urgent += how->urgent;
    struct play_event e = {.kind = PLAY_CAME, .chunk = c};
    struct play_set *set = leat_sched_set_user(how->set);
    assert_ptr_equal(set->set, how->set); /* it is open */
    assert_true(how->number < set->chunks);
    assert_memory_equal(set->names + (size_t)how->number * LEAT_SCHED_NAME, c->name, LEAT_SCHED_NAME);
    if (how->from_disk) {
        p->disk_read += c->bytes;
        e.at_ns = take_line(p, &p->read_ns, p->disk_rate, c->bytes) + p->disk_ns;
        if (chance(p, p->loses))
            e.kind = PLAY_LOST;
    } else {
        set->fetched[how->number]++;
        p->bucket_bytes += c->bytes;
        p->bucket_chunks++;
        p->ranges += how->ranges;
        e.at_ns = take_line(p, &p->line_ns, p->rate, c->bytes) + p->delay_ns;
        e.at_ns += p->jitter_ns ? leat_rng_below(&p->rng, p->jitter_ns) : 0;
        bool again = p->fail_times && p->fail_number == how->number;
        p->fail_times -= again;
        if (set->broken || again || (p->fail_ahead && !c->wants) || chance(p, p->fails))
            e.kind = PLAY_FAILED;
        else if (chance(p, p->cancels))
            e.kind = PLAY_CANCELLED;
    }
    if (p->hold && (p->hold_number == UINT32_MAX || p->hold_number == how->number))
        e.at_ns = LEAT_SCHED_NEVER;
    push(p, e);
    return true;
}

static void do_drop(void *user, struct leat_sched_chunk *c)
{
    struct play *p = user;
    struct books *b = books(c);
    assert_true(b->in_ram);
    assert_int_equal(b->preparing, 0);
    assert_int_equal(c->pins, 0);
    assert_false(b->storing);
    b->in_ram = false;
    p->ram_used -= c->bytes;
}

static bool do_store(void *user, struct leat_sched_chunk *c)
{
    struct play *p = user;
    struct books *b = books(c);
    assert_true(b->in_ram);
    assert_false(b->storing);
    assert_false(b->on_disk);
    if (chance(p, p->store_refused))
        return false;
    p->disk_used += c->bytes;
    if (p->disk_used > p->disk)
        fail_msg("disk: %llu bytes of %llu", (unsigned long long)p->disk_used, (unsigned long long)p->disk);
    b->storing = true;
    push(p, (struct play_event){.kind = PLAY_STORED,
                                .chunk = c,
                                .ok = !chance(p, p->store_fails),
                                .at_ns = take_line(p, &p->write_ns, p->disk_rate, c->bytes) + p->disk_ns});
    return true;
}

static void do_forget(void *user, struct leat_sched_chunk *c)
{
    struct play *p = user;
    struct books *b = books(c);
    assert_true(b->on_disk);
    assert_false(b->coming && c->from_disk);
    b->on_disk = false;
    p->disk_used -= c->bytes;
}

static void do_gone(void *user, struct leat_sched_chunk *c)
{
    struct play *p = user;
    const struct books *b = c->user;
    if (b) {
        assert_false(b->in_ram || b->coming || b->storing);
        p->disk_used -= b->on_disk ? c->bytes : 0; /* it stays there; the scheduler is closed */
        assert_int_equal(b->preparing, 0);
    }
    free(c->user);
    c->user = NULL;
}

static bool plan_told(struct play_lane *l, struct page *page)
{
    const uint32_t *told = l->told[l->planned];
    uint32_t n = 0;
    for (; n < 8 && told[n] != PLAY_END; n++)
        page->chunks[n] = told[n];
    page->batch.chunks = page->chunks;
    page->batch.chunks_n = n;
    page->batch.stage = n ? page->chunks[n - 1] : l->planned;
    l->told_view.stage = n ? page->chunks[0] : 0;
    leat_sched_lane_view(l->lane, &(struct leat_sched_view){&l->told_view, 1, l->told_view.stage, NULL, 0});
    return true;
}

static bool plan_cursor(struct play_lane *l, struct page *page)
{
    struct leat_sched_view view;
    struct leat_error err;
    assert_ok(leat_cursor_next(l->cursor, &page->planned, &err), err);
    page->batch.chunks = page->planned.chunks;
    page->batch.chunks_n = page->planned.chunks_n;
    page->batch.stage = page->planned.stage;
    leat_cursor_view(l->cursor, &view);
    leat_sched_lane_view(l->lane, &view);
    return true;
}

static struct leat_sched_batch *do_plan(void *user, struct leat_sched_lane *lane)
{
    struct play_lane *l = leat_sched_lane_user(lane);
    (void)user;
    assert_false(l->ended);
    if (l->planned == l->plans)
        return NULL;
    own(true);
    struct page *page = calloc(1, sizeof *page);
    assert_non_null(page);
    page->batch.user = page;
    page->serial = l->planned;
    if (l->cursor)
        plan_cursor(l, page);
    else
        plan_told(l, page);
    own(false);
    l->planned++;
    return &page->batch;
}

static bool do_ahead(void *user, struct leat_sched_lane *lane, uint32_t *number, uint64_t *stage)
{
    struct play_lane *l = leat_sched_lane_user(lane);
    (void)user;
    return l->cursor && leat_cursor_ahead(l->cursor, number, stage);
}

static void free_page(struct leat_sched_batch *batch)
{
    struct page *page = batch->user;
    leat_cursor_batch_free(&page->planned);
    free(page);
}

static void do_prepare(void *user, struct leat_sched_batch *batch)
{
    struct play *p = user;
    struct page *page = batch->user;
    struct play_lane *l = leat_sched_lane_user(batch->lane);
    assert_true(batch->has_slot);
    assert_int_equal(page->prepared, batch->group);
    if (batch->group == 0) { /* else it is the one that it has */
        assert_false(l->slots >> batch->slot & 1);
        l->slots |= 1ull << batch->slot;
    }
    for (uint32_t i = batch->group; i < batch->group_end; i++) {
        struct books *b = books(batch->held[i]);
        assert_true(b->in_ram);
        b->preparing++;
    }
    page->prepared = batch->group_end;
    l->preparing++;
    push(p, (struct play_event){.kind = PLAY_PREPARED, .batch = batch, .lane = l, .at_ns = p->now_ns + p->prepare_ns});
}

static bool do_publish(void *user, struct leat_sched_batch *batch)
{
    struct play *p = user;
    struct page *page = batch->user;
    struct play_lane *l = leat_sched_lane_user(batch->lane);
    if (page->serial != l->published)
        fail_msg("batch %llu is published, not %llu", (unsigned long long)page->serial,
                 (unsigned long long)l->published);
    assert_int_equal(page->prepared, batch->chunks_n);
    assert_true(batch->has_slot);
    if (!batch->chunks_n) {
        assert_false(l->slots >> batch->slot & 1);
        l->slots |= 1ull << batch->slot;
        l->epochs++;
    }
    l->first_ns = l->published++ ? l->first_ns : p->now_ns;
    l->last_ns = p->now_ns;
    l->rank_ns = (l->rank_ns > p->now_ns ? l->rank_ns : p->now_ns) + l->step_ns;
    l->given |= 1ull << batch->slot;
    if (!l->idle)
        push(p, (struct play_event){.kind = PLAY_FREE,
                                    .lane = l,
                                    .slot = batch->slot,
                                    .at_ns = l->rank_ns +
                                             (p->free_jitter_ns ? leat_rng_below(&p->rng, p->free_jitter_ns) : 0)});
    free_page(batch);
    return true;
}

static void do_fail(void *user, struct leat_sched_batch *batch, struct leat_sched_chunk *c)
{
    struct play_lane *l = leat_sched_lane_user(batch->lane);
    const struct page *page = batch->user;
    (void)user;
    assert_int_equal(page->serial, c ? l->published : l->planned - 1);
    l->failed = l->ended = true;
    l->failed_chunk = c != NULL;
    if (c)
        memcpy(l->failed_name, c->name, sizeof l->failed_name);
}

static void do_why(void *user, const char *text)
{
    struct play *p = user;
    size_t n = strlen(text);
    assert_true(n > 10 && n < 200);
    p->yields += strstr(text, "gives up its chunks") != NULL;
    if (p->mute || p->why_n + n + 2 > PLAY_WHYS)
        return;
    memcpy(p->why + p->why_n, text, n);
    p->why[p->why_n + n] = '\n';
    p->why[p->why_n + n + 1] = 0;
    p->why_n += n + 1;
}

/* Opening and closing */

void play_open(struct play *p, const struct play_opts *o)
{
    struct leat_error err;
    *p = (struct play){.ram = o->ram,
                       .disk = o->disk,
                       .now_ns = 1000 * MILLI,
                       .delay_ns = 20 * MILLI,
                       .disk_ns = MILLI,
                       .prepare_ns = MILLI,
                       .hold_number = UINT32_MAX,
                       .ops = {.fetch = do_fetch,
                               .drop = do_drop,
                               .store = do_store,
                               .forget = do_forget,
                               .gone = do_gone,
                               .plan = do_plan,
                               .ahead = do_ahead,
                               .prepare = do_prepare,
                               .publish = do_publish,
                               .fail = do_fail,
                               .why = do_why}};
    p->rng = leat_rng(leat_key("play", o->seed, 0, NULL, 0), 0);
    p->why = calloc(1, PLAY_WHYS);
    assert_non_null(p->why);
    struct leat_sched_opts opts = {
        .ram = o->ram, .disk = o->disk, .policy = o->policy, .marks = true, .ops = &p->ops, .user = p};
    assert_ok(leat_sched_open(&opts, &p->sched, &err), err);
}

void play_close(struct play *p)
{
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        if (p->lanes[i])
            play_lane_close(p->lanes[i]);
    }
    for (unsigned i = 0; i < PLAY_SETS; i++)
        play_set_close(&p->sets[i]);
    play_release(p);
    while (p->queue_n)
        play_turn(p);
    leat_sched_close(p->sched);
    assert_int_equal(p->ram_used, 0);
    assert_int_equal(p->disk_used, 0);
    free(p->queue);
    free(p->why);
}

static void name_of(uint64_t content, uint8_t *name)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t part = leat_key("content", content, i, NULL, 0);
        memcpy(name + 8 * (size_t)i, &part, sizeof part);
    }
}

struct play_set *play_set(struct play *p, uint32_t chunks, uint64_t first, uint32_t bytes, uint32_t spread,
                          uint32_t count)
{
    struct play_set *set = p->sets;
    struct leat_error err;
    while (set->set)
        set++;
    assert_true(set < p->sets + PLAY_SETS);
    *set = (struct play_set){.play = p, .chunks = chunks};
    set->names = malloc((size_t)chunks * LEAT_SCHED_NAME);
    set->sizes = malloc(chunks * sizeof *set->sizes);
    set->counts = malloc(chunks * sizeof *set->counts);
    set->fetched = calloc(chunks, sizeof *set->fetched);
    assert_true(set->names && set->sizes && set->counts && set->fetched);
    for (uint32_t i = 0; i < chunks; i++) {
        name_of(first + i, set->names + (size_t)i * LEAT_SCHED_NAME);
        set->sizes[i] = bytes + (spread ? (uint32_t)(leat_key("size", first + i, 0, NULL, 0) % spread) : 0);
        set->largest = set->sizes[i] > set->largest ? set->sizes[i] : set->largest;
        set->counts[i] = count;
    }
    struct leat_sched_set_opts opts = {.names = set->names, .sizes = set->sizes, .chunks = chunks, .user = set};
    leat_sched_measure(&opts);
    assert_ok(leat_sched_set_open(p->sched, &opts, &set->set, &err), err);
    return set;
}

void play_found(struct play *p, const uint8_t *names, uint32_t n, uint64_t bytes)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *name = names + (size_t)i * LEAT_SCHED_NAME;
        assert_int_equal(leat_sched_found(p->sched, name, bytes), LEAT_OK);
        struct books *b = books(leat_sched_find(p->sched, name));
        p->disk_used += b->on_disk ? 0 : bytes;
        b->on_disk = true;
    }
}

void play_set_close(struct play_set *set)
{
    if (!set->set)
        return;
    leat_sched_set_close(set->set);
    free(set->names);
    free(set->sizes);
    free(set->counts);
    free(set->fetched);
    play_step(set->play); /* as after everything that happens */
    *set = (struct play_set){0};
}

static leat_status open_orders(struct play_lane *l, const struct play_lane_opts *o, struct leat_sched_view *view,
                               struct leat_error *err)
{
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES,
                                   .counts = l->set->counts,
                                   .chunks = l->set->chunks,
                                   .shuffle = !o->told,
                                   .seed = o->seed,
                                   .window = o->window ? o->window : 1};
    *view = (struct leat_sched_view){.streams = &l->told_view, .streams_n = 1};
    if (o->told) {
        leat_status rc = leat_order_open(&spec, &l->order, err);
        l->told_view.now = l->order;
        return rc;
    }
    struct leat_cursor_opts opts = {.specs = &spec,
                                    .specs_n = 1,
                                    .epoch = o->epoch,
                                    .position = o->position,
                                    .global_batch = o->batch,
                                    .last = LEAT_ORDER_SHORT,
                                    .rank = o->rank,
                                    .world = o->world ? o->world : 1,
                                    .node_of_rank = o->node_of_rank};
    leat_status rc = leat_cursor_open(&opts, &l->cursor, err);
    rc == LEAT_OK ? leat_cursor_view(l->cursor, view) : (void)0;
    return rc;
}

static void free_lane(struct play_lane *l)
{
    leat_cursor_close(l->cursor);
    leat_order_close(l->order);
    free(l);
}

leat_status play_lane_try(struct play *p, const struct play_lane_opts *o, struct play_lane **out,
                          struct leat_error *err)
{
    struct play_lane *l = calloc(1, sizeof *l);
    struct leat_sched_lane_opts opts = {.set = o->set->set,
                                        .needed = o->needed,
                                        .group = o->group,
                                        .together = o->together,
                                        .slots = o->slots,
                                        .patient = o->patient,
                                        .user = l};
    unsigned at = 0;
    assert_non_null(l);
    *l = (struct play_lane){.play = p, .set = o->set, .told = o->told, .plans = o->plans, .step_ns = o->step_ns};
    leat_status rc = open_orders(l, o, &opts.view, err);
    if (rc == LEAT_OK)
        rc = leat_sched_lane_open(p->sched, &opts, p->now_ns, &l->lane, err);
    if (rc != LEAT_OK) {
        free_lane(l);
        return rc;
    }
    while (p->lanes[at])
        at++;
    assert_true(at < PLAY_LANES);
    p->lanes[at] = l;
    leat_sched_lane_ready(l->lane);
    *out = l;
    return LEAT_OK;
}

struct play_lane *play_lane(struct play *p, const struct play_lane_opts *o)
{
    struct play_lane *l;
    struct leat_error err;
    assert_ok(play_lane_try(p, o, &l, &err), err);
    return l;
}

static void dropped(void *user, struct leat_sched_batch *batch)
{
    (void)user;
    free_page(batch);
}

void play_lane_close(struct play_lane *l)
{
    struct play *p = l->play;
    for (size_t i = 0; i < p->queue_n; i++) {
        if (p->queue[i].kind == PLAY_FREE && p->queue[i].lane == l)
            p->queue[i].lane = NULL;
    }
    leat_sched_lane_close(l->lane, dropped);
    for (unsigned i = 0; i < PLAY_LANES; i++) {
        if (p->lanes[i] == l)
            p->lanes[i] = NULL;
    }
    l->lane = NULL;
    if (!l->preparing)
        free_lane(l);
}

/* Turns */

void play_step(struct play *p)
{
    leat_sched_step(p->sched, p->now_ns);
    struct leat_sched_stats st = play_stats(p);
    if (st.ram_used != p->ram_used)
        fail_msg("memory in use: it says %llu, it is %llu", (unsigned long long)st.ram_used,
                 (unsigned long long)p->ram_used);
    assert_int_equal(st.disk_used, p->disk_used);
    assert_true(st.promised <= p->ram);
}

static void prepared(struct play *p, struct play_event *e)
{
    struct leat_sched_batch *batch = e->batch;
    for (uint32_t i = batch->group; i < batch->group_end; i++)
        books(batch->held[i])->preparing--;
    e->lane->preparing--;
    bool closed = !e->lane->lane;
    leat_sched_prepared(batch);
    (void)p;
    if (closed) {
        free_page(batch);
        if (!e->lane->preparing)
            free_lane(e->lane);
    }
}

static void stored(struct play *p, struct play_event *e)
{
    struct books *b = books(e->chunk);
    assert_true(b->storing && b->in_ram);
    b->storing = false;
    b->on_disk = e->ok;
    p->disk_used -= e->ok ? 0 : e->chunk->bytes;
    p->disk_written += e->ok ? e->chunk->bytes : 0;
    leat_sched_stored(p->sched, e->chunk, e->ok);
}

static void perform(struct play *p, struct play_event *e)
{
    struct books *b = e->chunk ? books(e->chunk) : NULL;
    p->events++;
    if (e->kind <= PLAY_LOST) {
        assert_true(b->coming);
        b->coming = false;
        b->in_ram = e->kind == PLAY_CAME;
        p->ram_used -= e->kind == PLAY_CAME ? 0 : e->chunk->bytes;
    }
    switch (e->kind) {
    case PLAY_CAME:
        leat_sched_arrived(p->sched, e->chunk, p->now_ns);
        break;
    case PLAY_FAILED:
        leat_sched_failed(p->sched, e->chunk, p->now_ns);
        break;
    case PLAY_CANCELLED:
        leat_sched_cancelled(p->sched, e->chunk);
        break;
    case PLAY_LOST:
        b->on_disk = false;
        p->disk_used -= e->chunk->bytes;
        leat_sched_lost(p->sched, e->chunk);
        break;
    case PLAY_STORED:
        stored(p, e);
        break;
    case PLAY_PREPARED:
        prepared(p, e);
        break;
    case PLAY_FREE:
        if (!e->lane)
            break;
        e->lane->slots &= ~(1ull << e->slot);
        e->lane->given &= ~(1ull << e->slot);
        e->lane->freed++;
        leat_sched_slot_free(e->lane->lane, e->slot, p->now_ns);
        break;
    }
}

bool play_turn(struct play *p)
{
    uint64_t wake = leat_sched_wake_ns(p->sched);
    uint64_t at = p->queue_n ? p->queue[0].at_ns : LEAT_SCHED_NEVER;
    if (at == LEAT_SCHED_NEVER && wake == LEAT_SCHED_NEVER)
        return false;
    if (wake < at) {
        if (wake <= p->now_ns || ++p->wakes > 100000)
            fail_msg("it wants to be woken again and again, though nothing happens");
        p->now_ns = wake;
    } else {
        struct play_event e = pop(p);
        p->wakes = 0;
        p->now_ns = e.at_ns > p->now_ns ? e.at_ns : p->now_ns;
        perform(p, &e);
    }
    play_step(p);
    return true;
}

void play_until(struct play *p, uint64_t at_ns)
{
    for (;;) {
        uint64_t wake = leat_sched_wake_ns(p->sched);
        uint64_t next = p->queue_n ? p->queue[0].at_ns : LEAT_SCHED_NEVER;
        next = wake < next ? wake : next;
        if (next > at_ns)
            break;
        play_turn(p);
    }
    p->now_ns = at_ns > p->now_ns ? at_ns : p->now_ns;
}

void play_until_done(struct play *p)
{
    for (;;) {
        const struct play_lane *late = NULL;
        for (unsigned i = 0; i < PLAY_LANES; i++) {
            if (p->lanes[i] && !p->lanes[i]->idle && !play_lane_done(p->lanes[i]))
                late = p->lanes[i];
        }
        if (!late)
            return;
        if (play_turn(p))
            continue;
        char text[160];
        leat_sched_lane_explain(late->lane, "ds", text, sizeof text);
        fail_msg("stuck after %llu events: %llu of %llu batches published, waiting for %s; %llu of %llu bytes in use",
                 (unsigned long long)p->events, (unsigned long long)late->published, (unsigned long long)late->plans,
                 text, (unsigned long long)p->ram_used, (unsigned long long)p->ram);
    }
}

void play_release(struct play *p)
{
    size_t n = p->queue_n;
    struct play_event *old = p->queue;
    p->hold = false;
    p->queue = NULL;
    p->queue_n = p->queue_cap = 0;
    for (size_t i = 0; i < n; i++) {
        if (old[i].at_ns == LEAT_SCHED_NEVER)
            old[i].at_ns = p->now_ns + p->delay_ns;
        push(p, old[i]);
    }
    free(old);
}

void play_free_slot(struct play_lane *l)
{
    struct play *p = l->play;
    uint32_t slot = (uint32_t)__builtin_ctzll(l->given);
    assert_true(l->given != 0);
    l->given &= ~(1ull << slot);
    push(p, (struct play_event){.kind = PLAY_FREE, .lane = l, .slot = slot, .at_ns = p->now_ns});
}

struct leat_sched_chunk *play_chunk(const struct play_set *set, uint32_t number)
{
    return leat_sched_find(set->play->sched, set->names + (size_t)number * LEAT_SCHED_NAME);
}
