/* What `leat job` is told of an agent's jobs. */
#include <stdlib.h>

#include "agent/account.h"
#include "agent/blend.h"
#include "agent/circle.h"
#include "agent/inside.h"
#include "agent/peers_inside.h"
#include "order/order.h"

static bool reads(const struct leat_job *j, const struct leat_supply *s, const struct leat_blend *blend)
{
    for (const struct leat_loading *l = s->loadings; l; l = l->next) {
        if (l->job == j && l->opts.blend == blend)
            return true;
    }
    return false;
}

/* What the job's ranks of this machine have read, by where it came from. Other loaders of the same data read with them:
 * the counts are the dataset's. */
static void read_here(const struct leat_job *j, struct leat_account *sum)
{
    struct leat_account one;
    for (const struct leat_supply *s = j->agent->supplies; s; s = s->next) {
        if (!reads(j, s, NULL))
            continue;
        leat_supply_account(s, &one);
        leat_account_add(sum, &one);
    }
    for (const struct leat_blend *b = j->agent->blends; b; b = b->next) {
        if (!reads(j, b->supplies[0], b))
            continue;
        leat_blend_account(b, &one);
        leat_account_add(sum, &one);
    }
}

static json_t *describe_read(const uint64_t bytes[LEAT_SOURCES])
{
    return json_pack("{s:I,s:I,s:I,s:I}", "ram", (json_int_t)bytes[LEAT_FROM_RAM], "disk",
                     (json_int_t)bytes[LEAT_FROM_DISK], "peer", (json_int_t)bytes[LEAT_FROM_PEER], "bucket",
                     (json_int_t)bytes[LEAT_FROM_BUCKET]);
}

static json_t *describe_peer(const struct leat_peer *p, const uint32_t *slots)
{
    const struct leat_job *j = p->job;
    bool here = p->node == j->node;
    const char *state = here                  ? "here"
                        : leat_peers_apart(p) ? "apart"
                        : p->health.lied      ? "set aside"
                        : j->circle && !leat_circle_has(j->circle, j->members->now.nodes[p->node].address, NULL)
                            ? "gone"
                        : p->health.lost     ? "lost"
                        : p->health.failures ? "resting"
                                             : "good";
    struct leat_account sum = {0};
    if (here)
        read_here(j, &sum);
    return json_pack("{s:I,s:s,s:I,s:s,s:I,s:I,s:I,s:f,s:I,s:I,s:I,s:s,s:o*}", "node", (json_int_t)p->node, "address",
                     j->members->now.nodes[p->node].address, "ranks", (json_int_t)j->members->now.nodes[p->node].ranks,
                     "state", state, "slots", (json_int_t)slots[p->node], "chunks", (json_int_t)p->chunks, "bytes",
                     (json_int_t)p->bytes, "seconds", (double)p->ns / 1e9, "without", (json_int_t)p->without, "failed",
                     (json_int_t)p->failed, "late", (json_int_t)p->late, "why", p->health.failures ? p->why : "",
                     "read", here ? describe_read(sum.bytes_by_source) : NULL);
}

static const char *problem_of(const struct leat_job *j)
{
    const char *said = j->circle ? leat_circle_problem(j->circle) : "";
    return *said ? said : j->problem;
}

static json_t *describe_job(const struct leat_job *j)
{
    uint32_t table[LEAT_ORDER_SLOTS_MAX];
    struct leat_error err;
    struct leat_door_stats door = {0};
    uint32_t n = j->members->now.n;
    uint32_t *slots = calloc((size_t)n + 1, sizeof *slots);
    bool *lost = calloc((size_t)n + 1, sizeof *lost);
    json_t *peers = slots && lost ? json_array() : NULL;
    if (peers)
        leat_peers_find_lost(j, NULL, lost);
    if (peers && leat_members_place(j->members, lost, LEAT_ORDER_SLOTS_MAX, table, &err) == LEAT_OK) {
        for (uint32_t s = 0; s < LEAT_ORDER_SLOTS_MAX; s++)
            slots[table[s]]++;
    }
    for (uint32_t i = 0; peers && i < n; i++) {
        if (json_array_append_new(peers, describe_peer(&j->peers[i], slots)) < 0) {
            json_decref(peers);
            peers = NULL;
        }
    }
    free(slots);
    free(lost);
    if (!peers)
        return NULL;
    if (j->door)
        leat_door_stats(j->door, &door);
    return json_pack("{s:s,s:I,s:b,s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:o}", "job", j->members->job, "generation",
                     (json_int_t)j->members->generation, "over", (int)atomic_load(&j->over), "node",
                     (json_int_t)j->node, "problem", problem_of(j), "served_chunks", (json_int_t)j->served_chunks,
                     "served_bytes", (json_int_t)j->served_bytes, "refused", (json_int_t)door.refused, "turned_away",
                     (json_int_t)j->turned_away + (json_int_t)door.turned_away, "connections",
                     (json_int_t)door.connections, "users", (json_int_t)j->users, "nodes", peers);
}

const char *leat_peers_problem(const struct leat_loading *l)
{
    const char *said = l->circle ? leat_circle_problem(l->circle) : "";
    return *said || !l->job ? said : l->job->problem;
}

json_t *leat_peers_describe(const struct leat_agent *a)
{
    json_t *list = json_array();
    for (const struct leat_job *j = a->jobs; list && j; j = j->next) {
        if (json_array_append_new(list, describe_job(j)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
