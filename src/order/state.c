#include "order/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"

struct leat_order_state leat_order_state(const struct leat_order_spec *spec, const struct leat_order *o)
{
    struct leat_order_state s = {
        .units = leat_order_units(o),
        .shuffle = spec->shuffle,
        .seed = spec->shuffle ? spec->seed : 0,
        .window = leat_order_window(o),
        .epoch = spec->epoch,
    };
    memcpy(s.dataset, spec->dataset, sizeof s.dataset);
    snprintf(s.view, sizeof s.view, "%s", spec->view);
    return s;
}

leat_status leat_order_state_write(const struct leat_order_state *s, char out[LEAT_ORDER_STATE_SIZE],
                                   struct leat_error *err)
{
    char id[2 * sizeof s->dataset + 1];
    leat_hex(s->dataset, sizeof s->dataset, id);
    json_t *view = json_string(s->view); /* jansson knows how to quote it, and refuses what is not UTF-8 */
    char *quoted = leat_json_write(view, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(view);
    if (!quoted)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    int n = snprintf(out, LEAT_ORDER_STATE_SIZE,
                     "{\"order\": %d, \"dataset\": \"%s\", \"view\": %s, \"units\": %" PRIu64
                     ", \"shuffle\": %s, \"seed\": %" PRIu64 ", \"window\": %" PRIu32 ", \"epoch\": %" PRIu64
                     ", \"position\": %" PRIu64 "}",
                     LEAT_ORDER_VERSION, id, quoted, s->units, s->shuffle ? "true" : "false", s->seed, s->window,
                     s->epoch, s->position);
    free(quoted);
    if (n < 0 || n >= LEAT_ORDER_STATE_SIZE)
        return leat_fail(err, LEAT_INTERNAL, "a state does not fit %d bytes", LEAT_ORDER_STATE_SIZE);
    return LEAT_OK;
}

/* One member of a state. */
enum kind { NUMBER, TEXT, TRUTH };
struct member {
    const char *name;
    enum kind kind;
    const json_t *value;
};

enum { ORDER, DATASET, VIEW, UNITS, SHUFFLE, SEED, WINDOW, EPOCH, POSITION, MEMBERS };

static bool is_kind(const json_t *value, enum kind kind)
{
    if (kind == TEXT)
        return json_is_string(value);
    if (kind == TRUTH)
        return json_is_boolean(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* The version comes first: what else a state of another version holds is not ours to judge. */
static leat_status check_version(const json_t *root, struct leat_error *err)
{
    const json_t *version = json_object_get(root, "order");
    if (!json_is_object(root) || !json_is_integer(version))
        return leat_fail(err, LEAT_INVALID, "not the state of a loader: it has no \"order\" version");
    if (json_integer_value(version) != LEAT_ORDER_VERSION)
        return leat_fail(err, LEAT_VERSION, "the state has order version %lld, this Leat knows version %d",
                         (long long)json_integer_value(version), LEAT_ORDER_VERSION);
    return LEAT_OK;
}

static leat_status take_members(const json_t *root, struct member *members, struct leat_error *err)
{
    for (int i = 0; i < MEMBERS; i++) {
        members[i].value = json_object_get(root, members[i].name);
        if (!members[i].value)
            return leat_fail(err, LEAT_INVALID, "the state lacks \"%s\"", members[i].name);
        if (!is_kind(members[i].value, members[i].kind))
            return leat_fail(err, LEAT_INVALID, "the state's \"%s\" is not what it should be", members[i].name);
    }
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)root, name, value) /* reads only, but is not declared so */
    {
        int i = 0;
        while (i < MEMBERS && strcmp(name, members[i].name) != 0)
            i++;
        if (i == MEMBERS)
            return leat_fail(err, LEAT_INVALID, "the state has an unknown \"%.40s\"", name);
    }
    return LEAT_OK;
}

static leat_status take_state(const json_t *root, struct leat_order_state *out, struct leat_error *err)
{
    struct member m[MEMBERS] = {
        [ORDER] = {"order", NUMBER},   [DATASET] = {"dataset", TEXT},  [VIEW] = {"view", TEXT},
        [UNITS] = {"units", NUMBER},   [SHUFFLE] = {"shuffle", TRUTH}, [SEED] = {"seed", NUMBER},
        [WINDOW] = {"window", NUMBER}, [EPOCH] = {"epoch", NUMBER},    [POSITION] = {"position", NUMBER},
    };
    leat_status rc = check_version(root, err);
    if (rc == LEAT_OK)
        rc = take_members(root, m, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_order_state s = {
        .units = (uint64_t)json_integer_value(m[UNITS].value),
        .shuffle = json_is_true(m[SHUFFLE].value),
        .seed = (uint64_t)json_integer_value(m[SEED].value),
        .epoch = (uint64_t)json_integer_value(m[EPOCH].value),
        .position = (uint64_t)json_integer_value(m[POSITION].value),
    };
    json_int_t window = json_integer_value(m[WINDOW].value);
    if (window < 1 || window > LEAT_ORDER_WINDOW_MAX)
        return leat_fail(err, LEAT_INVALID, "the state's window %lld is not between 1 and %u", (long long)window,
                         LEAT_ORDER_WINDOW_MAX);
    s.window = (uint32_t)window;
    if (!leat_unhex(json_string_value(m[DATASET].value), s.dataset, sizeof s.dataset))
        return leat_fail(err, LEAT_INVALID, "the state's \"dataset\" is not an id");
    size_t view = json_string_length(m[VIEW].value);
    if (view == 0 || view >= sizeof s.view || strlen(json_string_value(m[VIEW].value)) != view)
        return leat_fail(err, LEAT_INVALID, "the state's \"view\" is not what it should be");
    memcpy(s.view, json_string_value(m[VIEW].value), view);
    if (s.position > s.units)
        return leat_fail(err, LEAT_INVALID, "the state's position %" PRIu64 " is behind its last unit (%" PRIu64 ")",
                         s.position, s.units);
    *out = s;
    return LEAT_OK;
}

leat_status leat_order_state_read(const char *json, size_t n, struct leat_order_state *out, struct leat_error *err)
{
    if (n >= LEAT_ORDER_STATE_SIZE)
        return leat_fail(err, LEAT_INVALID, "a state has less than %d bytes, this has %zu", LEAT_ORDER_STATE_SIZE, n);
    json_error_t where;
    json_t *root;
    leat_status rc = leat_json_read(json, n, JSON_REJECT_DUPLICATES, &root, &where);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory to read a state");
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "the state is not JSON: %s (byte %d)", where.text, where.position);
    rc = take_state(root, out, err);
    json_decref(root);
    return rc;
}

/* Refusing */

static void differ(struct leat_buf *b, const char *what, const char *theirs, const char *ours)
{
    leat_buf_printf(b, "%s%s %s (here %s)", b->len ? ", " : "", what, theirs, ours);
}

static void differ_number(struct leat_buf *b, const char *what, uint64_t theirs, uint64_t ours)
{
    char t[24];
    char o[24];
    snprintf(t, sizeof t, "%" PRIu64, theirs);
    snprintf(o, sizeof o, "%" PRIu64, ours);
    if (theirs != ours)
        differ(b, what, t, o);
}

leat_status leat_order_state_fits(const struct leat_order_state *s, const struct leat_order_state *mine,
                                  const char *who, struct leat_error *err)
{
    struct leat_buf b;
    leat_buf_init(&b, 400);
    if (memcmp(s->dataset, mine->dataset, sizeof s->dataset) != 0) {
        char theirs[17]; /* enough of an id to see which */
        char ours[17];
        leat_hex(s->dataset, 8, theirs);
        leat_hex(mine->dataset, 8, ours);
        differ(&b, "dataset", theirs, ours);
    }
    if (strcmp(s->view, mine->view) != 0)
        differ(&b, "view", s->view, mine->view);
    differ_number(&b, "number of units", s->units, mine->units);
    if (s->shuffle != mine->shuffle)
        differ(&b, "shuffle", s->shuffle ? "on" : "off", mine->shuffle ? "on" : "off");
    if (s->shuffle && mine->shuffle) {
        differ_number(&b, "seed", s->seed, mine->seed);
        differ_number(&b, "window", s->window, mine->window);
    }
    leat_status rc = LEAT_OK;
    if (b.len || b.failed)
        rc = leat_fail(err, LEAT_INVALID, "%s does not fit: it has %s", who, b.data);
    leat_buf_free(&b);
    return rc;
}
