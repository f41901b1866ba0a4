#include "job/roster.h"

#include <stdlib.h>
#include <string.h>

#include "order/place.h"

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the machines of a job");
}

uint32_t leat_roster_find(const struct leat_muster *list, const char *address)
{
    uint32_t i = 0;
    while (i < list->n && strcmp(list->nodes[i].address, address) != 0)
        i++;
    return i;
}

/* Entering */

static bool alive(const struct leat_roster_seen *seen, const char *address)
{
    for (uint32_t i = 0; i < seen->alive_n; i++) {
        if (strcmp(seen->alive[i], address) == 0)
            return true;
    }
    return false;
}

leat_status leat_roster_copy(const struct leat_members *from, uint32_t room, struct leat_members **out,
                             struct leat_error *err)
{
    struct leat_members *m = calloc(1, sizeof *m);
    if (!m)
        return no_memory(err);
    memcpy(m->job, from->job, sizeof m->job);
    memcpy(m->token, from->token, sizeof m->token);
    m->generation = from->generation;
    m->cert_pem = strdup(from->cert_pem);
    m->key_pem = strdup(from->key_pem);
    m->now.nodes = calloc((size_t)room + 1, sizeof *m->now.nodes);
    if (!m->cert_pem || !m->key_pem || !m->now.nodes) {
        leat_members_free(m);
        return no_memory(err);
    }
    m->now.n = from->now.n;
    memcpy(m->now.nodes, from->now.nodes, from->now.n * sizeof *from->now.nodes);
    *out = m;
    return LEAT_OK;
}

static leat_status take_place(const struct leat_roster_seen *seen, struct leat_members *m, const char *self,
                              bool *changed, struct leat_error *err)
{
    struct leat_muster *list = &m->now;
    uint32_t at = leat_roster_find(list, self);
    if (at < list->n)
        return LEAT_OK;
    for (at = 0; at < list->n && alive(seen, list->nodes[at].address); at++)
        ;
    if (at == LEAT_MEMBERS_NODES)
        return leat_fail(err, LEAT_LIMIT, "the job has %u machines, and may not have more", LEAT_MEMBERS_NODES);
    list->nodes[at] = (struct leat_member){.ranks = 1};
    memcpy(list->nodes[at].address, self, strlen(self) + 1);
    list->n += at == list->n;
    *changed = true;
    return LEAT_OK;
}

leat_status leat_roster_enter(const struct leat_roster_seen *seen, const struct leat_members *held, const char *job,
                              const char *self, struct leat_members **out, bool *changed, struct leat_error *err)
{
    struct leat_member alone = {.ranks = 1};
    const struct leat_members *from = seen->members ? seen->members : held;
    bool over = seen->members && !seen->alive_n && (!held || !leat_members_token_is(held, seen->members->token));
    struct leat_members *m;
    bool other = !seen->members || over;
    leat_status rc;
    if (strlen(self) >= sizeof alone.address)
        return leat_fail(err, LEAT_INVALID, "an address of %zu bytes", strlen(self));
    memcpy(alone.address, self, strlen(self) + 1);
    if (from && !over) {
        rc = leat_roster_copy(from, from->now.n + 1, &m, err);
    } else {
        rc = leat_members_make(job, &alone, 1, NULL, &m, err);
        if (rc == LEAT_OK && over)
            m->generation = from->generation + 1;
    }
    if (rc != LEAT_OK)
        return rc;
    rc = take_place(seen, m, self, &other, err);
    if (rc != LEAT_OK) {
        leat_members_free(m);
        return rc;
    }
    *changed = other;
    *out = m;
    return LEAT_OK;
}

/* Placement */

struct work {
    uint32_t *node_of_rank, *was, *old;
};

static leat_status open_work(struct work *w, uint32_t nodes, uint32_t ranks, uint32_t slots, struct leat_error *err)
{
    w->node_of_rank = calloc((size_t)ranks + 1, sizeof *w->node_of_rank);
    w->was = calloc((size_t)nodes + 1, sizeof *w->was);
    w->old = calloc((size_t)slots + 1, sizeof *w->old);
    return w->node_of_rank && w->was && w->old ? LEAT_OK : no_memory(err);
}

static void close_work(struct work *w)
{
    free(w->node_of_rank);
    free(w->was);
    free(w->old);
}

static leat_status step(struct work *w, uint32_t before, uint32_t ranks, uint32_t nodes, uint32_t slots,
                        uint32_t *table, struct leat_error *err)
{
    memcpy(w->old, table, slots * sizeof *table);
    return leat_order_place_again(slots, w->old, before, ranks, w->node_of_rank, nodes, w->was, table, err);
}

/* As if all had come one after the other. What follows from the list alone is the same for who saw it grow and for who
 * comes last. */
static leat_status grow(struct work *w, uint32_t n, uint32_t slots, uint32_t *table, struct leat_error *err)
{
    for (uint32_t k = 0; k < n; k++)
        w->node_of_rank[k] = k;
    return leat_order_place_grown(slots, n, table, err);
}

leat_status leat_roster_place(const struct leat_muster *list, const bool *lost, uint32_t slots, uint32_t *node_of_slot,
                              struct leat_error *err)
{
    struct work w = {0};
    uint32_t left = 0;
    leat_status rc = open_work(&w, list->n, list->n, slots, err);
    if (rc == LEAT_OK)
        rc = grow(&w, list->n, slots, node_of_slot, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < list->n; i++) {
        if (!lost || !lost[i])
            w.was[left++] = i;
    }
    if (rc == LEAT_OK && !left)
        rc = leat_fail(err, LEAT_INVALID, "no machine of the job is left");
    if (rc == LEAT_OK && left < list->n) {
        rc = step(&w, list->n, left, left, slots, node_of_slot, err);
        for (uint32_t s = 0; rc == LEAT_OK && s < slots; s++)
            node_of_slot[s] = w.was[node_of_slot[s]];
    }
    close_work(&w);
    return rc;
}

leat_status leat_roster_assign(const struct leat_muster *list, const struct leat_muster *world, uint32_t slots,
                               uint32_t *node_of_slot, struct leat_error *err)
{
    struct work w = {0};
    uint32_t ranks = 0;
    for (uint32_t k = 0; k < world->n; k++)
        ranks += world->nodes[k].ranks;
    leat_status rc =
        open_work(&w, list->n > world->n ? list->n : world->n, list->n > ranks ? list->n : ranks, slots, err);
    if (rc == LEAT_OK)
        rc = grow(&w, list->n, slots, node_of_slot, err);
    uint32_t at = 0;
    for (uint32_t k = 0; rc == LEAT_OK && k < world->n; k++) {
        uint32_t i = leat_roster_find(list, world->nodes[k].address);
        w.was[k] = i < list->n ? i : LEAT_ORDER_NONE;
        for (uint32_t r = 0; r < world->nodes[k].ranks; r++)
            w.node_of_rank[at++] = k;
    }
    if (rc == LEAT_OK)
        rc = step(&w, list->n, ranks, world->n, slots, node_of_slot, err);
    close_work(&w);
    return rc;
}
