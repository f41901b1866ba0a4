#include "agent/describe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/account.h"
#include "agent/blend.h"
#include "agent/inside.h"
#include "agent/peers.h"
#include "base/clock.h"
#include "leat/leat.h"

/* Walks through loaders that have a ring. One that has just jumped may have two for a moment: the younger counts. */

static bool superseded(const struct leat_agent *agent, const struct leat_loading *l)
{
    for (const struct leat_supply *s = agent->supplies; s; s = s->next) {
        for (const struct leat_loading *o = s->loadings; o; o = o->next) {
            if (o->ring.head && o->who.number == l->who.number && o->sequence > l->sequence)
                return true;
        }
    }
    return false;
}

static void each_loading(const struct leat_agent *agent, void (*visit)(const struct leat_loading *l, void *user),
                         void *user)
{
    for (const struct leat_supply *s = agent->supplies; s; s = s->next) {
        for (const struct leat_loading *l = s->loadings; l; l = l->next) {
            if (l->ring.head && !superseded(agent, l))
                visit(l, user);
        }
    }
}

/* JSON */

struct list {
    json_t *array;
    bool failed;
};

static void append(struct list *list, json_t *item, const struct leat_account *a, enum leat_account_of from,
                   enum leat_account_of until)
{
    bool good = item && leat_account_write(a, from, until, item);
    if (!good)
        json_decref(item);
    list->failed |= !good || json_array_append_new(list->array, item) < 0;
}

static void describe_loading(const struct leat_loading *l, void *user)
{
    uint64_t since = atomic_load_explicit(&l->ring.head->waiting_since_ns, memory_order_relaxed);
    uint64_t now = leat_now_ns();
    double waiting = since && since < now ? (double)(now - since) / 1e9 : 0;
    char why[300];
    struct leat_account a;
    bool rank = leat_loading_account_own(l, &a);
    leat_loading_explain(l, why, sizeof why);
    leat_one_line(why);
    json_t *j =
        json_pack("{s:I,s:s,s:s,s:i,s:I,s:I,s:I,s:I,s:f,s:f,s:s,s:s}", "id", (json_int_t)l->who.number, "name",
                  l->who.name, "dataset", l->who.dataset, "pid", l->opts.pid, "rank", (json_int_t)l->rank, "world_size",
                  (json_int_t)l->world, "batch_size", (json_int_t)l->batch, "epoch", (json_int_t)l->stats.epoch,
                  "epoch_done", l->epoch_units ? (double)l->stats.position / (double)l->epoch_units : 0.0, "waiting_s",
                  waiting, "waiting_for", why, "shares", leat_loading_shares(l));
    append(user, j, &a, rank ? LEAT_OF_RANK : LEAT_OF_LOADER, LEAT_OF_LOADER);
}

static void describe_datasets(const struct leat_agent *agent, struct list *list)
{
    struct leat_account a;
    for (const struct leat_supply *s = agent->supplies; s; s = s->next) {
        leat_supply_account(s, &a);
        append(list, json_pack("{s:I,s:s}", "id", (json_int_t)s->who.number, "dataset", s->who.dataset), &a,
               LEAT_OF_DATASET, LEAT_OF_DATASET);
    }
    for (const struct leat_blend *b = agent->blends; b; b = b->next) {
        leat_blend_account(b, &a);
        append(list, json_pack("{s:I,s:s}", "id", (json_int_t)b->who.number, "dataset", b->who.dataset), &a,
               LEAT_OF_DATASET, LEAT_OF_DATASET);
    }
}

json_t *leat_agent_describe(const struct leat_agent *agent)
{
    struct leat_account a;
    struct list loaders = {.array = json_array()};
    struct list datasets = {.array = json_array()};
    const struct leat_agent_opts *o = &agent->opts;
    leat_agent_account(agent, &a);
    each_loading(agent, describe_loading, &loaders);
    describe_datasets(agent, &datasets);
    json_t *j = json_pack("{s:i,s:s,s:i,s:s,s:I,s:I,s:I,s:s,s:s?,s:I,s:s?,s:s?}", "pid", (int)getpid(), "version",
                          leat_version(), "protocol", LEAT_WIRE_PROTOCOL, "scope", agent->names.paths.scope, "ram",
                          (json_int_t)o->ram, "threads", (json_int_t)o->threads, "sessions",
                          (json_int_t)agent->sessions_n, "log", agent->names.paths.log, "cache_dir", o->cache_dir,
                          "cache", (json_int_t)o->cache, "metrics", agent->metrics.url[0] ? agent->metrics.url : NULL,
                          "metrics_problem", agent->metrics.problem[0] ? agent->metrics.problem : NULL);
    bool good = j && !loaders.failed && !datasets.failed && leat_account_write(&a, LEAT_OF_LOADER, LEAT_OF_AGENT, j) &&
                json_object_set(j, "loaders", loaders.array) == 0 &&
                json_object_set(j, "datasets", datasets.array) == 0 &&
                json_object_set_new(j, "jobs", leat_peers_describe(agent)) == 0;
    json_decref(loaders.array);
    json_decref(datasets.array);
    if (good)
        return j;
    json_decref(j);
    return NULL;
}

/* Metrics */

#define LABELS_MAX 4096u

struct one {
    struct leat_account account;
    struct leat_buf labels;
    enum leat_account_of from, until;
};

struct scrape {
    const struct leat_agent *agent;
    struct one *all;
    size_t n, cap;
    bool failed;
};

static struct one *add(struct scrape *s, enum leat_account_of from, enum leat_account_of until)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        struct one *all = realloc(s->all, cap * sizeof *all);
        s->failed |= !all;
        if (!all)
            return NULL;
        s->all = all;
        s->cap = cap;
    }
    struct one *one = &s->all[s->n++];
    *one = (struct one){.from = from, .until = until};
    leat_buf_init(&one->labels, LABELS_MAX);
    leat_account_label(&one->labels, "scope", s->agent->names.paths.scope);
    return one;
}

static void label_number(struct leat_buf *b, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    leat_account_label(b, name, text);
}

static void add_loading(const struct leat_loading *l, void *user)
{
    struct one *one = add(user, LEAT_OF_RANK, LEAT_OF_LOADER);
    if (!one)
        return;
    if (!leat_loading_account_own(l, &one->account))
        one->from = LEAT_OF_LOADER;
    leat_account_label(&one->labels, "loader", l->who.name);
    label_number(&one->labels, "id", l->who.number);
    label_number(&one->labels, "rank", l->rank);
    label_number(&one->labels, "pid", (uint64_t)l->opts.pid);
    leat_account_label(&one->labels, "dataset", l->who.dataset);
}

static void add_datasets(struct scrape *s)
{
    for (const struct leat_supply *p = s->agent->supplies; p; p = p->next) {
        struct one *one = add(s, LEAT_OF_DATASET, LEAT_OF_DATASET);
        if (!one)
            return;
        leat_supply_account(p, &one->account);
        leat_account_label(&one->labels, "dataset", p->who.dataset);
        label_number(&one->labels, "id", p->who.number);
    }
    for (const struct leat_blend *b = s->agent->blends; b; b = b->next) {
        struct one *one = add(s, LEAT_OF_DATASET, LEAT_OF_DATASET);
        if (!one)
            return;
        leat_blend_account(b, &one->account);
        leat_account_label(&one->labels, "dataset", b->who.dataset);
        label_number(&one->labels, "id", b->who.number);
    }
}

void leat_agent_metrics(const struct leat_agent *agent, struct leat_buf *b)
{
    struct scrape s = {.agent = agent};
    struct one *own = add(&s, LEAT_OF_AGENT, LEAT_OF_AGENT);
    if (own)
        leat_agent_account_own(agent, &own->account);
    each_loading(agent, add_loading, &s);
    add_datasets(&s);
    struct leat_account_metric *list = calloc(s.n + 1, sizeof *list);
    for (size_t i = 0; list && i < s.n; i++) {
        const struct one *one = &s.all[i];
        list[i] = (struct leat_account_metric){&one->account, one->labels.data, one->from, one->until};
        s.failed |= one->labels.failed;
    }
    if (list)
        leat_account_metrics(list, s.n, b);
    struct leat_buf labels;
    leat_buf_init(&labels, LABELS_MAX);
    leat_account_label(&labels, "scope", agent->names.paths.scope);
    leat_account_label(&labels, "version", leat_version());
    leat_buf_printf(b,
                    "# HELP leat_build_info the release that the agent is of, always 1\n# TYPE leat_build_info gauge\n"
                    "leat_build_info{%s} 1\n",
                    labels.data);
    leat_buf_free(&labels);
    b->failed |= s.failed || !list;
    for (size_t i = 0; i < s.n; i++)
        leat_buf_free(&s.all[i].labels);
    free(list);
    free(s.all);
}
