#include "agent/trace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define LOOP_EVENTS   (1u << 16)
#define WORKER_EVENTS (1u << 14)
#define EVENTS_LEAST  (1u << 10)
#define BYTES_MAX     ((size_t)32 << 20) /* of all workers' rings; pages are only taken when they are used */
#define WORDS         5u
#define LANES         256u /* rows for what goes on at the same time */

/* A ring of events. Its thread counts `begun` up before it writes and `done` after it; a reader that has seen a word of
 * a newer event has seen `begun` too, because words are stored with release and loaded with acquire order. */
struct leat_trace_ring {
    uint32_t events; /* a power of two */
    _Atomic uint64_t begun;
    _Atomic uint64_t done; /* release; partner: the acquire in copy_ring() */
    _Atomic uint64_t (*words)[WORDS];
};

struct leat_trace {
    unsigned n; /* rings: the loop's, then the workers' */
    struct leat_trace_ring *rings;
};

leat_status leat_trace_open(unsigned threads, struct leat_trace **out, struct leat_error *err)
{
    struct leat_trace *t = calloc(1, sizeof *t);
    uint32_t each = WORKER_EVENTS;
    while (each > EVENTS_LEAST && (size_t)each * threads * WORDS * 8 > BYTES_MAX)
        each /= 2;
    if (t)
        t->rings = calloc(threads + 1u, sizeof *t->rings);
    bool good = t && t->rings;
    for (; good && t->n <= threads; t->n++) {
        struct leat_trace_ring *r = &t->rings[t->n];
        r->events = t->n ? each : LOOP_EVENTS;
        r->words = calloc(r->events, sizeof *r->words);
        good = r->words != NULL;
    }
    if (!good) {
        leat_trace_close(t);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the trace");
    }
    *out = t;
    return LEAT_OK;
}

void leat_trace_close(struct leat_trace *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->n; i++)
        free(t->rings[i].words);
    free(t->rings);
    free(t);
}

struct leat_trace_ring *leat_trace_loop(struct leat_trace *t)
{
    return &t->rings[0];
}

struct leat_trace_ring *leat_trace_worker(struct leat_trace *t, unsigned i)
{
    return &t->rings[i + 1];
}

void leat_trace_add(struct leat_trace_ring *r, const struct leat_trace_event *e)
{
    if (!r)
        return;
    uint64_t i = atomic_load_explicit(&r->done, memory_order_relaxed);
    _Atomic uint64_t *w = r->words[i & (r->events - 1)];
    atomic_store_explicit(&r->begun, i + 1, memory_order_relaxed);
    atomic_store_explicit(&w[0], (uint64_t)e->who << 32 | (uint64_t)e->how << 8 | (uint64_t)e->kind,
                          memory_order_release);
    atomic_store_explicit(&w[1], e->number, memory_order_release);
    atomic_store_explicit(&w[2], e->amount, memory_order_release);
    atomic_store_explicit(&w[3], e->begin_ns, memory_order_release);
    atomic_store_explicit(&w[4], e->end_ns, memory_order_release);
    atomic_store_explicit(&r->done, i + 1, memory_order_release);
}

/* Reading */

/* An event and the row that it is drawn in: of a process and a thread, or what stands for one. */
struct drawn {
    struct leat_trace_event event;
    int pid;
    uint32_t row;
};

struct picture {
    const struct leat_trace_view *view;
    struct drawn *all;
    size_t n, cap;
};

static void keep(struct picture *p, const struct leat_trace_event *e, uint32_t row)
{
    if (p->n < p->cap && e->end_ns >= p->view->since_ns && e->begin_ns <= e->end_ns && e->end_ns <= p->view->now_ns &&
        e->kind < LEAT_TRACE_KINDS && e->how < LEAT_TRACE_HOWS)
        p->all[p->n++] = (struct drawn){*e, p->view->pid, row};
}

static void copy_ring(struct leat_trace_ring *r, uint32_t row, struct picture *p)
{
    uint64_t done = atomic_load_explicit(&r->done, memory_order_acquire);
    for (uint64_t i = done > r->events ? done - r->events : 0; i < done; i++) {
        uint64_t w[WORDS];
        for (unsigned k = 0; k < WORDS; k++)
            w[k] = atomic_load_explicit(&r->words[i & (r->events - 1)][k], memory_order_acquire);
        if (atomic_load_explicit(&r->begun, memory_order_relaxed) > i + r->events)
            continue; /* it was overwritten meanwhile */
        struct leat_trace_event e = {.kind = w[0] & 0xff,
                                     .how = w[0] >> 8 & 0xff,
                                     .who = (uint32_t)(w[0] >> 32),
                                     .number = w[1],
                                     .amount = w[2],
                                     .begin_ns = w[3],
                                     .end_ns = w[4]};
        keep(p, &e, row);
    }
}

static int earlier(const void *a, const void *b)
{
    const struct leat_trace_event *x = &((const struct drawn *)a)->event;
    const struct leat_trace_event *y = &((const struct drawn *)b)->event;
    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Rows. Threads have one each; what goes on at the same time elsewhere is laid into as many as it needs: those of all
 * fetches, and for each loader those of its batches and its waits. */

struct lanes {
    uint32_t who; /* 0: fetches */
    enum leat_trace_kind kind;
    uint32_t n;
    uint64_t end_ns[LANES];
};

struct drawing {
    struct lanes *lanes;
    size_t n, cap;
};

#define ROW_FETCH 10000u /* beyond all threads */

/* Rows of a loader lie together in its process: waits above batches. */
static uint32_t row_of(uint32_t who, enum leat_trace_kind kind, uint32_t lane)
{
    return 100000 + who * 1000 + (kind == LEAT_TRACE_WAIT ? 1 : 10 + lane);
}

static struct lanes *lanes_of(struct drawing *d, enum leat_trace_kind kind, uint32_t who)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->lanes[i].who == who && d->lanes[i].kind == kind)
            return &d->lanes[i];
    }
    if (d->n == d->cap)
        return NULL;
    d->lanes[d->n] = (struct lanes){.who = who, .kind = kind};
    return &d->lanes[d->n++];
}

/* False: there is no room for it. */
static bool place(struct drawing *d, const struct leat_roll *roll, struct drawn *it)
{
    const struct leat_trace_event *e = &it->event;
    if (e->kind == LEAT_TRACE_CHECK || e->kind == LEAT_TRACE_PREPARE)
        return true;
    bool fetch = e->kind == LEAT_TRACE_FETCH;
    const struct leat_roll_entry *who = leat_roll_find(roll, e->who);
    struct lanes *l = fetch || who ? lanes_of(d, e->kind, fetch ? 0 : e->who) : NULL;
    if (!l)
        return false;
    uint32_t lane = 0;
    while (lane < l->n && l->end_ns[lane] > e->begin_ns)
        lane++;
    if (lane == LANES || (lane && e->kind == LEAT_TRACE_WAIT)) /* a rank waits for one thing at a time */
        return false;
    if (lane == l->n)
        l->n++;
    l->end_ns[lane] = e->end_ns;
    it->pid = fetch ? it->pid : who->pid;
    it->row = fetch ? ROW_FETCH + lane : row_of(e->who, e->kind, lane);
    return true;
}

/* JSON */

static void put_text(struct leat_buf *b, const char *text)
{
    for (; *text; text++)
        leat_buf_printf(b, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", (unsigned char)*text < ' ' ? ' ' : *text);
}

static void put_name(struct leat_buf *b, const char *what, int pid, uint32_t row, const char *name, const char *more)
{
    leat_buf_printf(b, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32 ",\"args\":{\"%s\":\"", what, pid,
                    row, strcmp(what, "process_labels") == 0 ? "labels" : "name");
    put_text(b, name);
    put_text(b, more);
    leat_buf_str(b, "\"}},\n");
}

static void put_time(struct leat_buf *b, const char *name, uint64_t ns)
{
    leat_buf_printf(b, ",\"%s\":%" PRIu64 ".%03" PRIu64, name, ns / 1000, ns % 1000);
}

static void put_event(struct leat_buf *b, const struct drawn *it, const struct leat_roll *roll)
{
    static const char *const kinds[] = {"fetch", "check", "prepare", "batch", "wait"};
    static const char *const hows[] = {
        "",          "bucket",          "disk",          "another machine", "failed", "lost by the disk",
        "cancelled", "waits for fetch", "waits for prep"};
    const struct leat_trace_event *e = &it->event;
    const struct leat_roll_entry *who = leat_roll_find(roll, e->who);
    leat_buf_printf(b, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%" PRIu32 ",\"cat\":\"%s\",\"name\":\"%s\"", it->pid, it->row,
                    kinds[e->kind], e->how ? hows[e->how] : kinds[e->kind]);
    put_time(b, "ts", e->begin_ns);
    put_time(b, "dur", e->end_ns - e->begin_ns);
    leat_buf_str(b, ",\"args\":{");
    if (e->kind == LEAT_TRACE_FETCH)
        leat_buf_printf(b, "\"chunk\":%" PRIu64 ",\"bytes\":%" PRIu64 ",", e->number, e->amount);
    if (e->kind == LEAT_TRACE_PREPARE || e->kind == LEAT_TRACE_BATCH)
        leat_buf_printf(b, "\"batch\":%" PRIu64 ",\"samples\":%" PRIu64 ",", e->number, e->amount);
    if (who) {
        leat_buf_printf(b, "\"%s\":\"", e->kind == LEAT_TRACE_FETCH ? "dataset" : "loader");
        put_text(b, e->kind == LEAT_TRACE_FETCH ? who->dataset : who->name);
        leat_buf_str(b, "\",");
    }
    if (!b->failed && b->data[b->len - 1] == ',')
        b->len--;
    leat_buf_str(b, "}},\n");
}

static void name_rows(const struct leat_trace *t, const struct drawing *d, const struct leat_trace_view *v,
                      struct leat_buf *b)
{
    char text[120];
    snprintf(text, sizeof text, "leat agent %d, scope ", v->pid);
    put_name(b, "process_name", v->pid, 0, text, v->scope);
    for (unsigned i = 1; i < t->n; i++) {
        snprintf(text, sizeof text, "leat-prep %u", i);
        put_name(b, "thread_name", v->pid, i, text, "");
    }
    for (size_t i = 0; i < d->n; i++) {
        const struct lanes *l = &d->lanes[i];
        const struct leat_roll_entry *who = leat_roll_find(v->roll, l->who);
        for (uint32_t k = 0; k < l->n; k++) {
            if (l->kind == LEAT_TRACE_FETCH) {
                snprintf(text, sizeof text, "fetch %u", k + 1);
                put_name(b, "thread_name", v->pid, ROW_FETCH + k, text, "");
                continue;
            }
            snprintf(text, sizeof text, "%s rank %u: ", who->name, who->rank);
            put_name(b, "thread_name", who->pid, row_of(l->who, l->kind, k), text,
                     l->kind == LEAT_TRACE_WAIT ? "waits" : "batches");
        }
        if (l->kind != LEAT_TRACE_FETCH) {
            snprintf(text, sizeof text, "rank %u of %u, process %d", who->rank, who->world, who->pid);
            put_name(b, "process_name", who->pid, 0, text, "");
        }
    }
}

static void draw(struct leat_trace *t, struct picture *p, struct drawing *d, struct leat_buf *b,
                 struct leat_trace_told *told)
{
    const struct leat_trace_view *v = p->view;
    uint64_t left_out = 0;
    leat_buf_str(b, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (size_t i = 0; i < p->n; i++) {
        if (!place(d, v->roll, &p->all[i])) {
            left_out++;
            continue;
        }
        const struct leat_trace_event *e = &p->all[i].event;
        if (!told->events++)
            told->reach_ns = e->begin_ns < v->now_ns ? v->now_ns - e->begin_ns : 0;
        put_event(b, &p->all[i], v->roll);
    }
    name_rows(t, d, v, b);
    put_name(b, "process_labels", v->pid, 0, "leat ", v->version); /* ends the list: no comma after it */
    if (!b->failed && b->len > 2)
        b->len -= 2;
    leat_buf_printf(b, "\n],\"otherData\":{\"version\":\"%s\",\"left_out\":%" PRIu64 "}}\n", v->version, left_out);
}

leat_status leat_trace_write(struct leat_trace *t, const struct leat_trace_view *view, struct leat_buf *b,
                             struct leat_trace_told *told, struct leat_error *err)
{
    struct picture p = {.view = view, .cap = view->more_n};
    struct drawing d = {.cap = 2 * LEAT_ROLL_MAX + 1};
    struct leat_trace_told all = {0};
    for (unsigned i = 0; i < t->n; i++)
        p.cap += t->rings[i].events;
    p.all = malloc((p.cap + 1) * sizeof *p.all);
    d.lanes = malloc(d.cap * sizeof *d.lanes);
    if (!p.all || !d.lanes) {
        free(p.all);
        free(d.lanes);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to write the trace");
    }
    for (unsigned i = 0; i < t->n; i++)
        copy_ring(&t->rings[i], i, &p);
    for (uint32_t i = 0; i < view->more_n; i++)
        keep(&p, &view->more[i], 0);
    qsort(p.all, p.n, sizeof *p.all, earlier);
    draw(t, &p, &d, b, &all);
    free(p.all);
    free(d.lanes);
    leat_status rc = leat_buf_check(b, "the trace", err);
    if (rc == LEAT_OK)
        *told = all;
    return rc;
}
