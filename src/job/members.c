#include "job/members.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/parse.h"
#include "job/roster.h"
#include "net/cert.h"
#include "order/place.h"

#define TOKEN_BYTES 32u
#define PEM_MAX     4096u
#define RANKS_MAX   (1u << 20)

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the members of a job");
}

static void free_muster(struct leat_muster *m)
{
    free(m->nodes);
    *m = (struct leat_muster){0};
}

void leat_members_free(struct leat_members *m)
{
    if (!m)
        return;
    free_muster(&m->now);
    for (uint32_t i = 0; i < m->before_n; i++)
        free_muster(&m->before[i]);
    if (m->key_pem)
        explicit_bzero(m->key_pem, strlen(m->key_pem));
    free(m->cert_pem);
    free(m->key_pem);
    explicit_bzero(m, sizeof *m);
    free(m);
}

bool leat_members_token_is(const struct leat_members *m, const char *token)
{
    uint8_t differs = 0;
    if (strlen(token) != LEAT_MEMBERS_TOKEN - 1)
        return false;
    for (size_t i = 0; i < LEAT_MEMBERS_TOKEN - 1; i++)
        differs |= (uint8_t)(m->token[i] ^ token[i]);
    return !differs;
}

static leat_status copy_muster(const struct leat_member *nodes, uint32_t n, struct leat_muster *out,
                               struct leat_error *err)
{
    out->nodes = calloc((size_t)n + 1, sizeof *out->nodes);
    if (!out->nodes)
        return no_memory(err);
    memcpy(out->nodes, nodes, n * sizeof *nodes);
    out->n = n;
    return LEAT_OK;
}

/* What went before: the last one's own past, less the oldest where it is too much, and the last one itself. */
static leat_status take_past(struct leat_members *m, const struct leat_members *last, struct leat_error *err)
{
    uint32_t skip = last->before_n == LEAT_MEMBERS_BEFORE;
    leat_status rc = LEAT_OK;
    for (uint32_t i = skip; rc == LEAT_OK && i <= last->before_n; i++) {
        const struct leat_muster *from = i < last->before_n ? &last->before[i] : &last->now;
        rc = copy_muster(from->nodes, from->n, &m->before[m->before_n], err);
        m->before_n += rc == LEAT_OK;
    }
    m->generation = last->generation + 1;
    return rc;
}

leat_status leat_members_make(const char *job, const struct leat_member *nodes, uint32_t n,
                              const struct leat_members *last, struct leat_members **out, struct leat_error *err)
{
    uint8_t random[TOKEN_BYTES];
    if (!n || n > LEAT_MEMBERS_NODES)
        return leat_fail(err, LEAT_INVALID, "a job of %u machines: it may have 1 to %u", n, LEAT_MEMBERS_NODES);
    if (strlen(job) >= LEAT_MEMBERS_JOB)
        return leat_fail(err, LEAT_INVALID, "the name of the job is longer than %u bytes", LEAT_MEMBERS_JOB - 1);
    struct leat_members *m = calloc(1, sizeof *m);
    if (!m)
        return no_memory(err);
    m->generation = 1;
    memcpy(m->job, job, strlen(job) + 1);
    leat_status rc = copy_muster(nodes, n, &m->now, err);
    if (rc == LEAT_OK && last)
        rc = take_past(m, last, err);
    if (rc == LEAT_OK && getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        rc = leat_fail(err, LEAT_IO, "the system has no random numbers");
    if (rc == LEAT_OK)
        leat_hex(random, sizeof random, m->token);
    explicit_bzero(random, sizeof random);
    if (rc == LEAT_OK)
        rc = leat_cert_self_signed(NULL, &m->cert_pem, &m->key_pem, err);
    if (rc != LEAT_OK) {
        leat_members_free(m);
        return rc;
    }
    *out = m;
    return LEAT_OK;
}

/* Reading and writing */

static leat_status wrong(struct leat_error *err, const char *what)
{
    return leat_fail(err, LEAT_INVALID, "these are not the members of a job: %s", what);
}

static leat_status read_node(const json_t *j, struct leat_member *out, struct leat_error *err)
{
    const char *address = json_string_value(json_array_get(j, 0));
    const json_t *ranks = json_array_get(j, 1);
    char host[LEAT_LISTEN_ADDRESS];
    unsigned port;
    if (json_array_size(j) != 2 || !address || !json_is_integer(ranks))
        return wrong(err, "a machine is an address and a number of ranks");
    if (*address &&
        (strlen(address) >= sizeof out->address ||
         leat_parse_listen(address, "a member", host, &port, NULL) != LEAT_OK || !port || !strchr(address, ':')))
        return wrong(err, "an address is a numeric one with a port, such as 10.0.0.1:4321");
    if (json_integer_value(ranks) < 1 || json_integer_value(ranks) > RANKS_MAX)
        return wrong(err, "a machine has 1 to 1048576 ranks");
    memcpy(out->address, address, strlen(address) + 1);
    out->ranks = (uint32_t)json_integer_value(ranks);
    return LEAT_OK;
}

static leat_status read_muster(const json_t *j, struct leat_muster *out, struct leat_error *err)
{
    uint64_t ranks = 0;
    size_t n = json_array_size(j);
    leat_status rc = LEAT_OK;
    if (!n || n > LEAT_MEMBERS_NODES)
        return wrong(err, "a job has 1 to 4096 machines");
    out->nodes = calloc(n, sizeof *out->nodes);
    if (!out->nodes)
        return no_memory(err);
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) {
        rc = read_node(json_array_get(j, i), &out->nodes[i], err);
        ranks += out->nodes[i].ranks;
    }
    if (rc == LEAT_OK && ranks > RANKS_MAX)
        rc = wrong(err, "a job has at most 1048576 ranks");
    if (rc != LEAT_OK)
        free_muster(out);
    else
        out->n = (uint32_t)n;
    return rc;
}

static leat_status read_json(const char *text, size_t n, json_t **out, struct leat_error *err)
{
    if (n > LEAT_MEMBERS_TEXT)
        return wrong(err, "they are too many");
    leat_status rc = leat_json_read(text, n, JSON_REJECT_DUPLICATES, out, NULL);
    return rc == LEAT_OK ? LEAT_OK : rc == LEAT_NO_MEMORY ? no_memory(err) : wrong(err, "no JSON");
}

leat_status leat_members_read_nodes(const char *text, size_t n, struct leat_member **nodes, uint32_t *count,
                                    struct leat_error *err)
{
    json_t *j;
    struct leat_muster m = {0};
    leat_status rc = read_json(text, n, &j, err);
    if (rc != LEAT_OK)
        return rc;
    rc = read_muster(j, &m, err);
    json_decref(j);
    if (rc == LEAT_OK) {
        *nodes = m.nodes;
        *count = m.n;
    }
    return rc;
}

static leat_status copy_pem(const json_t *j, const char *name, char **out, struct leat_error *err)
{
    const char *text = json_string_value(json_object_get(j, name));
    if (!text || strlen(text) > PEM_MAX)
        return wrong(err, "their key");
    *out = strdup(text);
    return *out ? LEAT_OK : no_memory(err);
}

static leat_status read_all(const json_t *j, struct leat_members *m, struct leat_error *err)
{
    uint8_t token[TOKEN_BYTES];
    const char *job = json_string_value(json_object_get(j, "job"));
    const char *hex = json_string_value(json_object_get(j, "token"));
    const json_t *generation = json_object_get(j, "generation");
    const json_t *before = json_object_get(j, "before");
    if (!job || strlen(job) >= sizeof m->job)
        return wrong(err, "their job's name");
    if (!hex || !leat_unhex(hex, token, sizeof token))
        return wrong(err, "their token");
    if (!json_is_integer(generation) || json_integer_value(generation) < 1)
        return wrong(err, "their generation");
    if (json_array_size(before) > LEAT_MEMBERS_BEFORE)
        return wrong(err, "their past");
    memcpy(m->job, job, strlen(job) + 1);
    leat_hex(token, sizeof token, m->token);
    m->generation = (uint64_t)json_integer_value(generation);
    leat_status rc = copy_pem(j, "cert", &m->cert_pem, err);
    if (rc == LEAT_OK)
        rc = copy_pem(j, "key", &m->key_pem, err);
    if (rc == LEAT_OK)
        rc = read_muster(json_object_get(j, "nodes"), &m->now, err);
    for (size_t i = 0; rc == LEAT_OK && i < json_array_size(before); i++) {
        rc = read_muster(json_array_get(before, i), &m->before[i], err);
        m->before_n += rc == LEAT_OK;
    }
    return rc;
}

leat_status leat_members_read(const char *text, size_t n, struct leat_members **out, struct leat_error *err)
{
    json_t *j;
    leat_status rc = read_json(text, n, &j, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_members *m = calloc(1, sizeof *m);
    rc = m ? read_all(j, m, err) : no_memory(err);
    json_decref(j);
    if (rc != LEAT_OK) {
        leat_members_free(m);
        return rc;
    }
    *out = m;
    return LEAT_OK;
}

static json_t *muster_json(const struct leat_muster *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < m->n; i++) {
        if (json_array_append_new(list, json_pack("[s,I]", m->nodes[i].address, (json_int_t)m->nodes[i].ranks)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* Without the oldest `skip` of those before it; NULL: no memory. */
static char *write_from(const struct leat_members *m, uint32_t skip)
{
    json_t *before = json_array();
    bool whole = before != NULL;
    for (uint32_t i = skip; whole && i < m->before_n; i++)
        whole = json_array_append_new(before, muster_json(&m->before[i])) == 0;
    json_t *nodes = whole ? muster_json(&m->now) : NULL;
    json_t *j =
        nodes ? json_pack("{s:s,s:I,s:s,s:s,s:s,s:O,s:O}", "job", m->job, "generation", (json_int_t)m->generation,
                          "token", m->token, "cert", m->cert_pem, "key", m->key_pem, "nodes", nodes, "before", before)
              : NULL;
    char *text = leat_json_write(j, JSON_COMPACT);
    json_decref(j);
    json_decref(nodes);
    json_decref(before);
    return text;
}

leat_status leat_members_write_beside(const struct leat_members *m, uint32_t room, char **out, struct leat_error *err)
{
    for (uint32_t skip = 0; skip <= m->before_n; skip++) {
        char *text = write_from(m, skip);
        if (!text)
            return no_memory(err);
        if (strlen(text) + room <= (skip < m->before_n ? LEAT_MEMBERS_PAST : LEAT_MEMBERS_TEXT)) {
            *out = text;
            return LEAT_OK;
        }
        free(text); /* what is forgotten costs some chunks that change hands */
    }
    return leat_fail(err, LEAT_LIMIT, "a job of %u machines is more than can be told to all of them", m->now.n);
}

leat_status leat_members_write(const struct leat_members *m, char **out, struct leat_error *err)
{
    return leat_members_write_beside(m, 0, out, err);
}

leat_status leat_members_fit(const struct leat_muster *now, const uint32_t *node_of_rank, uint32_t ranks,
                             struct leat_error *err)
{
    uint32_t *count = calloc((size_t)now->n + 1, sizeof *count);
    leat_status rc = count ? LEAT_OK : no_memory(err);
    for (uint32_t r = 0; rc == LEAT_OK && r < ranks; r++) {
        if (node_of_rank[r] >= now->n)
            rc = leat_fail(err, LEAT_INVALID, "rank %u is on node %u, and the job has %u machines", r, node_of_rank[r],
                           now->n);
        else
            count[node_of_rank[r]]++;
    }
    for (uint32_t i = 0; rc == LEAT_OK && i < now->n; i++) {
        if (count[i] != now->nodes[i].ranks)
            rc = leat_fail(err, LEAT_INVALID, "node %u has %u ranks, and the job says %u", i, count[i],
                           now->nodes[i].ranks);
    }
    free(count);
    return rc;
}

/* Placement */

/* The machines of a muster that are not lost, with their ranks one after the other. */
struct present {
    uint32_t *number;       /* of each in its muster */
    uint32_t *node_of_rank; /* by place among those present */
    uint32_t n, ranks;
};

static void free_present(struct present *p)
{
    free(p->number);
    free(p->node_of_rank);
    *p = (struct present){0};
}

static leat_status find_present(const struct leat_muster *m, const bool *lost, struct present *out,
                                struct leat_error *err)
{
    struct present p = {0};
    for (uint32_t i = 0; i < m->n; i++)
        p.ranks += lost && lost[i] ? 0 : m->nodes[i].ranks;
    p.number = calloc((size_t)m->n + 1, sizeof *p.number);
    p.node_of_rank = calloc((size_t)p.ranks + 1, sizeof *p.node_of_rank);
    if (!p.number || !p.node_of_rank) {
        free_present(&p);
        return no_memory(err);
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (lost && lost[i])
            continue;
        for (uint32_t r = 0; r < m->nodes[i].ranks; r++)
            p.node_of_rank[at++] = p.n;
        p.number[p.n++] = i;
    }
    *out = p;
    return LEAT_OK;
}

static uint32_t find_member(const struct leat_muster *m, const struct present *p, const char *address)
{
    for (uint32_t k = 0; k < p->n; k++) {
        if (*address && strcmp(m->nodes[p->number[k]].address, address) == 0)
            return k;
    }
    return LEAT_ORDER_NONE;
}

/* From one muster's table to the next one's. `table` is by place among those present, before and after. */
static leat_status move_on(const struct leat_muster *was, const struct present *before, const struct leat_muster *now,
                           const struct present *after, uint32_t slots, uint32_t *table, struct leat_error *err)
{
    uint32_t *old = malloc((slots + 1ull) * sizeof *old);
    uint32_t *from = malloc((after->n + 1ull) * sizeof *from);
    leat_status rc = old && from ? LEAT_OK : no_memory(err);
    if (rc == LEAT_OK) {
        memcpy(old, table, slots * sizeof *old);
        for (uint32_t k = 0; k < after->n; k++)
            from[k] = was == now ? LEAT_ORDER_NONE : find_member(was, before, now->nodes[after->number[k]].address);
        for (uint32_t k = 0; was == now && k < after->n; k++) { /* the same machines, less those that are lost */
            for (uint32_t b = 0; b < before->n; b++)
                from[k] = before->number[b] == after->number[k] ? b : from[k];
        }
        rc = leat_order_place_again(slots, old, before->n, after->ranks, after->node_of_rank, after->n, from, table,
                                    err);
    }
    free(old);
    free(from);
    return rc;
}

leat_status leat_members_place(const struct leat_members *m, const bool *lost, uint32_t slots, uint32_t *node_of_slot,
                               struct leat_error *err)
{
    struct present here = {0};
    const struct leat_muster *at = NULL;
    leat_status rc = LEAT_OK;
    uint32_t steps = m->before_n + 1 + (lost != NULL);
    if (m->grows)
        return leat_roster_place(&m->now, lost, slots, node_of_slot, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < steps; i++) {
        const struct leat_muster *next = i < m->before_n ? &m->before[i] : &m->now;
        struct present there = {0};
        rc = find_present(next, i > m->before_n ? lost : NULL, &there, err);
        if (rc == LEAT_OK && !there.n)
            rc = leat_fail(err, LEAT_INVALID, "no machine of the job is left");
        if (rc == LEAT_OK && !at)
            rc = leat_order_place(slots, there.ranks, there.node_of_rank, there.n, node_of_slot, err);
        else if (rc == LEAT_OK)
            rc = move_on(at, &here, next, &there, slots, node_of_slot, err);
        free_present(&here);
        here = there;
        at = next;
    }
    for (uint32_t s = 0; rc == LEAT_OK && here.number && s < slots; s++)
        node_of_slot[s] = here.number[node_of_slot[s]];
    free_present(&here);
    return rc;
}
