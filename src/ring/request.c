#include "ring/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ring/parcel.h"
#include "ring/settings.h"

#define RUNS_MAX (1u << 20)

/* Runs of ranks on the same node: a map of many thousand ranks is a few bytes where nodes are alike. */
static void write_nodes(const struct leat_request *r, struct leat_buf *b)
{
    const uint32_t *node = r->opts.node_of_rank;
    uint32_t world = r->opts.world;
    uint32_t runs = 0;
    if (!node || !world)
        return;
    for (uint32_t i = 0; i < world; i++)
        runs += i == 0 || node[i] != node[i - 1];
    uint32_t *pairs = calloc(runs, 2 * sizeof *pairs);
    if (!pairs) {
        b->failed = true;
        return;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < world; i++) {
        if (i && node[i] != node[i - 1])
            at++;
        pairs[2 * at] = node[i];
        pairs[2 * at + 1]++;
    }
    leat_message_numbers(b, LEAT_TAG_NODES, pairs, 2 * (size_t)runs);
    free(pairs);
}

static leat_status read_nodes(struct leat_part p, struct leat_request *r, struct leat_error *err)
{
    size_t n = leat_part_numbers(p, LEAT_TAG_NODES, NULL, 0);
    uint32_t world = r->opts.world;
    uint32_t at = 0;
    if (!n)
        return LEAT_OK;
    if (!world)
        return leat_fail(err, LEAT_INVALID, "a node map without a world");
    uint32_t *pairs = n / 2 > RUNS_MAX ? NULL : malloc(n * sizeof *pairs);
    r->node_of_rank = calloc((size_t)world + 1, sizeof *r->node_of_rank);
    leat_status rc = pairs && r->node_of_rank ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a node map");
    if (rc == LEAT_OK)
        leat_part_numbers(p, LEAT_TAG_NODES, pairs, n);
    for (size_t i = 0; rc == LEAT_OK && i + 1 < n; i += 2) {
        if (pairs[i + 1] > world - at) {
            rc = leat_fail(err, LEAT_INVALID, "a node map of more than the %u ranks there are", world);
            break;
        }
        for (uint32_t k = 0; k < pairs[i + 1]; k++)
            r->node_of_rank[at++] = pairs[i];
    }
    if (rc == LEAT_OK && (n % 2 || at != world))
        rc = leat_fail(err, LEAT_INVALID, "a node map of %u ranks in a world of %u", at, world);
    free(pairs);
    r->opts.node_of_rank = r->node_of_rank;
    return rc;
}

void leat_request_write(const struct leat_request *r, struct leat_buf *b)
{
    leat_message_begin(b, LEAT_MESSAGE_OPEN);
    leat_message_text(b, LEAT_TAG_URL, r->url);
    leat_message_text(b, LEAT_TAG_ID, r->id);
    leat_message_text(b, LEAT_TAG_STATE, r->state);
    leat_message_number(b, LEAT_TAG_STRICT, r->strict);
    if (r->born_ns)
        leat_message_aside(b, LEAT_TAG_BORN, r->born_ns);
    leat_settings_write(&r->opts, b);
    for (size_t i = 0; i < r->opts.outputs_n; i++) {
        const struct leat_output *o = &r->outputs[i];
        size_t group = leat_message_group(b, LEAT_TAG_OUTPUT);
        leat_message_text(b, LEAT_TAG_NAME, o->name);
        leat_message_number(b, LEAT_TAG_KIND, o->kind);
        leat_message_text(b, LEAT_TAG_FIELD, o->field);
        leat_message_text(b, LEAT_TAG_PIPELINE, o->pipeline);
        leat_message_number(b, LEAT_TAG_VIEW, o->view);
        leat_message_group_end(b, group);
    }
    write_nodes(r, b);
    leat_message_bytes(b, LEAT_TAG_ACCESS, r->access, r->access_n);
}

static leat_status read_outputs(struct leat_part p, struct leat_request *r, struct leat_error *err)
{
    struct leat_part one;
    size_t n = 0;
    for (; leat_part_group(p, LEAT_TAG_OUTPUT, n, &one); n++) {
        if (n == LEAT_RING_COLUMNS_MAX)
            return leat_fail(err, LEAT_INVALID, "more than %u outputs", LEAT_RING_COLUMNS_MAX);
        uint64_t view = leat_part_number(one, LEAT_TAG_VIEW, 0);
        uint64_t kind = leat_part_number(one, LEAT_TAG_KIND, 0);
        const char *name = leat_part_text(one, LEAT_TAG_NAME);
        if (!name || !*name || strlen(name) >= LEAT_RING_NAME || kind > UINT32_MAX || view > UINT32_MAX)
            return leat_fail(err, LEAT_INVALID, "output %zu has no name, or an impossible kind or view", n);
        r->outputs[n] = (struct leat_output){
            .size = sizeof r->outputs[n],
            .name = name,
            .kind = (uint32_t)kind,
            .field = leat_part_text(one, LEAT_TAG_FIELD),
            .pipeline = leat_part_text(one, LEAT_TAG_PIPELINE),
            .view = (uint32_t)view,
        };
    }
    r->opts.outputs_n = n;
    return LEAT_OK;
}

leat_status leat_request_read(struct leat_part p, struct leat_request *out, struct leat_error *err)
{
    struct leat_request r = {.opts.size = sizeof r.opts};
    r.bytes = malloc(p.size + 1);
    if (!r.bytes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
    memcpy(r.bytes, p.data, p.size);
    p.data = (const uint8_t *)r.bytes;
    leat_status rc = leat_settings_read_message(p, &r.opts, err);
    if (rc == LEAT_OK)
        rc = read_outputs(p, &r, err);
    if (rc == LEAT_OK)
        rc = read_nodes(p, &r, err);
    r.url = r.opts.url = leat_part_text(p, LEAT_TAG_URL);
    r.id = leat_part_text(p, LEAT_TAG_ID);
    r.state = leat_part_text(p, LEAT_TAG_STATE);
    r.strict = leat_part_number(p, LEAT_TAG_STRICT, 0) != 0;
    r.born_ns = leat_part_number(p, LEAT_TAG_BORN, 0);
    r.access = leat_part_bytes(p, LEAT_TAG_ACCESS, &r.access_n);
    if (rc == LEAT_OK && !r.url)
        rc = leat_fail(err, LEAT_INVALID, "a request that names no dataset");
    if (rc == LEAT_OK && r.id && strlen(r.id) != 2 * LEAT_SHA256_SIZE)
        rc = leat_fail(err, LEAT_INVALID, "a request with an id of %zu digits", strlen(r.id));
    if (rc != LEAT_OK) {
        leat_request_free(&r);
        return rc;
    }
    r.opts.outputs = NULL; /* `outputs` moves with the struct: see there */
    *out = r;
    return LEAT_OK;
}

leat_status leat_request_copy(const struct leat_request *r, struct leat_request *out, struct leat_error *err)
{
    struct leat_buf b;
    struct leat_part part;
    enum leat_message_kind kind;
    leat_buf_init(&b, LEAT_PARCEL_MAX);
    leat_request_write(r, &b);
    leat_status rc = leat_buf_check(&b, "what a loader was given (a node map with many runs, long texts)", err);
    if (rc == LEAT_OK)
        rc = leat_message_open(b.data, b.len, &kind, &part, err);
    if (rc == LEAT_OK)
        rc = leat_request_read(part, out, err);
    if (b.cap)
        explicit_bzero(b.data, b.cap); /* keys were in it */
    leat_buf_free(&b);
    return rc;
}

void leat_request_free(struct leat_request *r)
{
    if (r->bytes) {
        if (r->access)
            explicit_bzero((void *)(uintptr_t)r->access, r->access_n);
        if (r->opts.members)
            explicit_bzero((void *)(uintptr_t)r->opts.members, strlen(r->opts.members));
    }
    free(r->bytes);
    free(r->node_of_rank);
    *r = (struct leat_request){0};
}
