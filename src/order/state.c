#include "order/state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"

/* What a state may need of its reader. Each is a promise that outlives releases. */
static const char order_1[] = "order 1";
static const char mixture_1[] = "mixture 1"; /* the streams' places follow from the mixture's */

static const char draws_1[] = "draws 1"; /* random operations are not drawn from the streams' seed */

static_assert(LEAT_ORDER_VERSION == 1, "a new order needs a name here, and streams that say which is theirs");

struct leat_order_stream leat_order_stream(const struct leat_order_spec *spec, const struct leat_order *o)
{
    struct leat_order_stream s = {
        .units = leat_order_units(o),
        .shuffle = spec->shuffle,
        .seed = spec->seed,
        .window = leat_order_window(o),
        .epoch = spec->epoch,
    };
    memcpy(s.dataset, spec->dataset, sizeof s.dataset);
    snprintf(s.view, sizeof s.view, "%s", spec->view);
    return s;
}

/* Ranges, for what is read and what is written alike. */
static leat_status check_stream(const struct leat_order_stream *s, uint32_t i, struct leat_error *err)
{
    if (s->units > LEAT_ORDER_NUMBER_MAX || s->seed > LEAT_ORDER_NUMBER_MAX || s->epoch > LEAT_ORDER_NUMBER_MAX)
        return leat_fail(err, LEAT_INVALID, "stream %" PRIu32 " of the state: numbers must be below 2^63", i);
    if (s->window < 1 || s->window > LEAT_ORDER_WINDOW_MAX)
        return leat_fail(err, LEAT_INVALID,
                         "stream %" PRIu32 " of the state: window %" PRIu32 " is not between 1 and %u", i, s->window,
                         LEAT_ORDER_WINDOW_MAX);
    if (!s->shuffle && s->window != 1)
        return leat_fail(err, LEAT_INVALID,
                         "stream %" PRIu32 " of the state: without shuffle the window is 1, not %" PRIu32, i,
                         s->window);
    if (s->position > s->units)
        return leat_fail(err, LEAT_INVALID,
                         "stream %" PRIu32 " of the state: position %" PRIu64 " is after its last unit (%" PRIu64 ")",
                         i, s->position, s->units);
    if (!s->view[0])
        return leat_fail(err, LEAT_INVALID, "stream %" PRIu32 " of the state: its view has no name", i);
    return LEAT_OK;
}

/* Writing */

static leat_status add_stream(struct leat_buf *b, const struct leat_order_stream *s, struct leat_error *err)
{
    char id[2 * sizeof s->dataset + 1];
    leat_hex(s->dataset, sizeof s->dataset, id);
    json_t *view = json_string(s->view); /* jansson knows how to quote it, and refuses what is not UTF-8 */
    char *quoted = leat_json_write(view, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(view);
    if (!quoted)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state, or a view that is not UTF-8");
    leat_buf_printf(b,
                    "%s{\"dataset\": \"%s\", \"view\": %s, \"units\": %" PRIu64 ", \"shuffle\": %s, \"seed\": %" PRIu64
                    ", \"window\": %" PRIu32 ", \"epoch\": %" PRIu64 ", \"position\": %" PRIu64 "}",
                    b->data[b->len - 1] == '[' ? "" : ", ", id, quoted, s->units, s->shuffle ? "true" : "false",
                    s->seed, s->window, s->epoch, s->position);
    free(quoted);
    return LEAT_OK;
}

static leat_status check_mixture(const struct leat_order_state *s, struct leat_error *err)
{
    if (!s->epoch_units || s->epoch_units > LEAT_ORDER_NUMBER_MAX || s->position > s->epoch_units ||
        s->epoch >= LEAT_ORDER_NUMBER_MAX / s->epoch_units)
        return leat_fail(err, LEAT_INVALID,
                         "the state's mixture is impossible: position %" PRIu64 " of %" PRIu64
                         " samples, epoch %" PRIu64,
                         s->position, s->epoch_units, s->epoch);
    return LEAT_OK;
}

static void add_mixture(struct leat_buf *b, const struct leat_order_state *s)
{
    leat_buf_printf(b,
                    ", \"mixture\": {\"epoch_size\": %" PRIu64 ", \"epoch\": %" PRIu64 ", \"position\": %" PRIu64
                    ", \"parts\": [",
                    s->epoch_units, s->epoch, s->position);
    for (uint32_t i = 0; i < s->parts_n; i++) {
        leat_buf_printf(b, "%s{\"from\": %" PRIu64 ", \"shares\": [", i ? ", " : "", s->parts[i].from);
        for (uint32_t k = 0; k < s->streams_n; k++)
            leat_buf_printf(b, "%s%" PRIu32, k ? ", " : "", s->parts[i].shares[k]);
        leat_buf_str(b, "]}");
    }
    leat_buf_str(b, "]}");
}

leat_status leat_order_state_write(const struct leat_order_state *s, char **out, struct leat_error *err)
{
    struct leat_buf b;
    leat_status rc = LEAT_OK;
    if (s->streams_n < 1 || s->streams_n > LEAT_ORDER_STREAMS_MAX)
        return leat_fail(err, LEAT_INVALID, "a state of %" PRIu32 " streams is impossible", s->streams_n);
    leat_buf_init(&b, LEAT_ORDER_STATE_MAX);
    leat_buf_printf(&b, "{\"state\": %d, \"needs\": [\"%s\"", LEAT_ORDER_STATE_VERSION, order_1);
    if (s->parts_n)
        leat_buf_printf(&b, ", \"%s\"", mixture_1);
    if (s->draws_apart)
        leat_buf_printf(&b, ", \"%s\"", draws_1);
    leat_buf_str(&b, "], \"streams\": [");
    for (uint32_t i = 0; rc == LEAT_OK && !b.failed && i < s->streams_n; i++) {
        rc = check_stream(&s->streams[i], i, err);
        if (rc == LEAT_OK)
            rc = add_stream(&b, &s->streams[i], err);
    }
    leat_buf_str(&b, "]");
    if (rc == LEAT_OK && s->parts_n)
        rc = check_mixture(s, err);
    if (s->parts_n)
        add_mixture(&b, s);
    if (s->draws_apart)
        leat_buf_printf(&b, ", \"draw_seed\": %" PRIu64, s->draw_seed);
    if (s->draw_seed > LEAT_ORDER_NUMBER_MAX)
        rc = leat_fail(err, LEAT_INVALID, "the state's draw_seed must be below 2^63");
    leat_buf_str(&b, "}");
    if (rc == LEAT_OK)
        rc = leat_buf_check(&b, "a state", err);
    if (rc == LEAT_OK)
        *out = leat_buf_take(&b);
    leat_buf_free(&b);
    return rc;
}

/* Reading */

/* One member of a stream. */
enum kind { NUMBER, TEXT, TRUTH };
struct member {
    const char *name;
    enum kind kind;
    const json_t *value;
};

enum { DATASET, VIEW, UNITS, SHUFFLE, SEED, WINDOW, EPOCH, POSITION, MEMBERS };

static const char *const kind_names[] = {
    [NUMBER] = "a whole number of 0 or more", [TEXT] = "a string", [TRUTH] = "true or false"};

static bool is_kind(const json_t *value, enum kind kind)
{
    if (kind == TEXT)
        return json_is_string(value);
    if (kind == TRUTH)
        return json_is_boolean(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Members that are not in the table are not ours to judge: whatever a reader must understand stands in "needs". */
static leat_status take_members(const json_t *stream, uint32_t i, struct member *members, struct leat_error *err)
{
    if (!json_is_object(stream))
        return leat_fail(err, LEAT_INVALID, "stream %" PRIu32 " of the state is not an object", i);
    for (int k = 0; k < MEMBERS; k++) {
        members[k].value = json_object_get(stream, members[k].name);
        if (!members[k].value)
            return leat_fail(err, LEAT_INVALID, "stream %" PRIu32 " of the state lacks \"%s\"", i, members[k].name);
        if (!is_kind(members[k].value, members[k].kind))
            return leat_fail(err, LEAT_INVALID, "stream %" PRIu32 " of the state: \"%s\" is not %s", i, members[k].name,
                             kind_names[members[k].kind]);
    }
    return LEAT_OK;
}

static leat_status take_stream(const json_t *stream, uint32_t i, struct leat_order_stream *out, struct leat_error *err)
{
    struct member m[MEMBERS] = {
        [DATASET] = {"dataset", TEXT},  [VIEW] = {"view", TEXT},           [UNITS] = {"units", NUMBER},
        [SHUFFLE] = {"shuffle", TRUTH}, [SEED] = {"seed", NUMBER},         [WINDOW] = {"window", NUMBER},
        [EPOCH] = {"epoch", NUMBER},    [POSITION] = {"position", NUMBER},
    };
    leat_status rc = take_members(stream, i, m, err);
    if (rc != LEAT_OK)
        return rc;
    json_int_t window = json_integer_value(m[WINDOW].value);
    *out = (struct leat_order_stream){
        .units = (uint64_t)json_integer_value(m[UNITS].value),
        .shuffle = json_is_true(m[SHUFFLE].value),
        .seed = (uint64_t)json_integer_value(m[SEED].value),
        .window = window > UINT32_MAX ? UINT32_MAX : (uint32_t)window,
        .epoch = (uint64_t)json_integer_value(m[EPOCH].value),
        .position = (uint64_t)json_integer_value(m[POSITION].value),
    };
    if (!leat_unhex(json_string_value(m[DATASET].value), out->dataset, sizeof out->dataset))
        return leat_fail(err, LEAT_INVALID, "stream %" PRIu32 " of the state: \"dataset\" is not an id", i);
    size_t view = json_string_length(m[VIEW].value);
    if (view >= sizeof out->view)
        return leat_fail(err, LEAT_INVALID, "stream %" PRIu32 " of the state: a view's name has 1 to %zu bytes", i,
                         sizeof out->view - 1);
    memcpy(out->view, json_string_value(m[VIEW].value), view); /* without NUL: the reader refuses those */
    return check_stream(out, i, err);
}

/* The version comes first: what else a state of another version holds is not ours to judge. */
static leat_status check_version(const json_t *root, struct leat_error *err)
{
    const json_t *version = json_object_get(root, "state");
    if (!version && json_is_integer(json_object_get(root, "order")) && json_object_get(root, "dataset"))
        return leat_fail(err, LEAT_VERSION,
                         "the state was written by Leat 0.1, before states had a version: it cannot be continued");
    if (!json_is_integer(version))
        return leat_fail(err, LEAT_INVALID, "not the state of a loader: it has no \"state\" version");
    if (json_integer_value(version) != LEAT_ORDER_STATE_VERSION)
        return leat_fail(err, LEAT_VERSION, "the state has version %lld, this Leat knows version %d",
                         (long long)json_integer_value(version), LEAT_ORDER_STATE_VERSION);
    return LEAT_OK;
}

/* *mixed: whether the streams are a mixture's; *draws: whether random operations have a seed of their own. */
static leat_status check_needs(const json_t *needs, bool *mixed, bool *draws, struct leat_error *err)
{
    bool order = false;
    *mixed = *draws = false;
    if (!json_is_array(needs))
        return leat_fail(err, LEAT_INVALID, "the state lacks \"needs\", the list of what its reader must understand");
    for (size_t i = 0; i < json_array_size(needs); i++) {
        const char *need = json_string_value(json_array_get(needs, i));
        if (!need)
            return leat_fail(err, LEAT_INVALID, "the state's \"needs\" has an entry that is not a string");
        if (strcmp(need, mixture_1) == 0)
            *mixed = true;
        else if (strcmp(need, draws_1) == 0)
            *draws = true;
        else if (strcmp(need, order_1) == 0)
            order = true;
        else
            return leat_fail(err, LEAT_VERSION, "the state needs \"%.60s\", which this Leat does not know", need);
    }
    if (!order)
        return leat_fail(err, LEAT_INVALID, "the state's \"needs\" does not say which order it counts in (\"%s\")",
                         order_1);
    return LEAT_OK;
}

static bool take_number(const json_t *object, const char *name, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);
    *out = (uint64_t)json_integer_value(value);
    return is_kind(value, NUMBER);
}

static leat_status take_part(const json_t *part, uint32_t i, struct leat_order_state *s, struct leat_error *err)
{
    const json_t *shares = json_object_get(part, "shares");
    bool good = take_number(part, "from", &s->parts[i].from) && json_array_size(shares) == s->streams_n;
    for (uint32_t k = 0; good && k < s->streams_n; k++) {
        const json_t *share = json_array_get(shares, k);
        good = is_kind(share, NUMBER) && json_integer_value(share) <= LEAT_MIXTURE_PERIOD_MAX;
        s->parts[i].shares[k] = good ? (uint32_t)json_integer_value(share) : 0;
    }
    return good ? LEAT_OK : leat_fail(err, LEAT_INVALID, "part %" PRIu32 " of the state's mixture is damaged", i);
}

static leat_status take_mixture(const json_t *mixture, struct leat_order_state *s, struct leat_error *err)
{
    const json_t *parts = json_object_get(mixture, "parts");
    size_t n = json_array_size(parts);
    leat_status rc = LEAT_OK;
    if (!take_number(mixture, "epoch_size", &s->epoch_units) || !take_number(mixture, "epoch", &s->epoch) ||
        !take_number(mixture, "position", &s->position) || !json_is_array(parts) || n == 0 ||
        n > LEAT_MIXTURE_PARTS_MAX)
        return leat_fail(err, LEAT_INVALID, "the state lacks a whole \"mixture\", which it says it has");
    s->parts = calloc(n, sizeof *s->parts);
    if (!s->parts)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read a state");
    s->parts_n = (uint32_t)n;
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = take_part(json_array_get(parts, i), i, s, err);
    return rc == LEAT_OK ? check_mixture(s, err) : rc;
}

static leat_status take_state(const json_t *root, struct leat_order_state *s, struct leat_error *err)
{
    const json_t *streams = json_object_get(root, "streams");
    size_t n = json_array_size(streams);
    bool mixed = false;
    leat_status rc = check_version(root, err);
    if (rc == LEAT_OK)
        rc = check_needs(json_object_get(root, "needs"), &mixed, &s->draws_apart, err);
    if (rc != LEAT_OK)
        return rc;
    if (!json_is_array(streams) || n == 0)
        return leat_fail(err, LEAT_INVALID, "the state lacks \"streams\", a list with at least one entry");
    if (n > LEAT_ORDER_STREAMS_MAX)
        return leat_fail(err, LEAT_LIMIT, "the state has %zu streams, more than %d", n, LEAT_ORDER_STREAMS_MAX);
    s->streams_n = (uint32_t)n;
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = take_stream(json_array_get(streams, i), i, &s->streams[i], err);
    if (rc == LEAT_OK && mixed)
        rc = take_mixture(json_object_get(root, "mixture"), s, err);
    if (rc == LEAT_OK && s->draws_apart && !take_number(root, "draw_seed", &s->draw_seed))
        rc = leat_fail(err, LEAT_INVALID, "the state lacks a \"draw_seed\", which it says it has");
    return rc;
}

uint64_t leat_order_state_draws(const struct leat_order_state *s)
{
    return s->draws_apart ? s->draw_seed : s->streams[0].seed;
}

void leat_order_state_free(struct leat_order_state *s)
{
    free(s->parts);
    s->parts = NULL;
    s->parts_n = 0;
}

void leat_order_state_move(struct leat_order_state *s, const struct leat_mixture *m, uint64_t epoch, uint64_t position)
{
    uint64_t counts[LEAT_ORDER_STREAMS_MAX];
    s->epoch = epoch;
    s->position = position;
    leat_mixture_counts(m, epoch * s->epoch_units + position, counts);
    for (uint32_t i = 0; i < s->streams_n; i++) {
        s->streams[i].epoch = counts[i] / s->streams[i].units;
        s->streams[i].position = counts[i] % s->streams[i].units;
    }
}

leat_status leat_order_state_read(const char *json, size_t n, struct leat_order_state *out, struct leat_error *err)
{
    if (n > LEAT_ORDER_STATE_MAX)
        return leat_fail(err, LEAT_LIMIT, "a state has at most %u bytes, this has %zu", LEAT_ORDER_STATE_MAX, n);
    json_error_t where;
    json_t *root;
    leat_status rc = leat_json_read(json, n, JSON_REJECT_DUPLICATES, &root, &where);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory to read a state");
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "the state is not JSON: %s (byte %d)", where.text, where.position);
    struct leat_order_state *s = calloc(1, sizeof *s); /* some KB, and the output is written only on success */
    rc = s ? take_state(root, s, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory to read a state");
    if (rc == LEAT_OK)
        *out = *s;
    else if (s)
        leat_order_state_free(s);
    free(s);
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

leat_status leat_order_stream_fits(const struct leat_order_stream *theirs, const struct leat_order_stream *mine,
                                   const char *who, struct leat_error *err)
{
    struct leat_buf b;
    leat_buf_init(&b, 400);
    if (memcmp(theirs->dataset, mine->dataset, sizeof theirs->dataset) != 0) {
        char id[17]; /* enough of an id to see which */
        char ours[17];
        leat_hex(theirs->dataset, 8, id);
        leat_hex(mine->dataset, 8, ours);
        differ(&b, "dataset", id, ours);
    }
    if (strcmp(theirs->view, mine->view) != 0)
        differ(&b, "view", theirs->view, mine->view);
    differ_number(&b, "number of units", theirs->units, mine->units);
    if (theirs->shuffle != mine->shuffle)
        differ(&b, "shuffle", theirs->shuffle ? "on" : "off", mine->shuffle ? "on" : "off");
    differ_number(&b, "seed", theirs->seed, mine->seed);
    if (theirs->shuffle && mine->shuffle)
        differ_number(&b, "window", theirs->window, mine->window);
    leat_status rc = LEAT_OK;
    if (b.len || b.failed)
        rc = leat_fail(err, LEAT_INVALID, "%s does not fit: it has %s", who, b.data);
    leat_buf_free(&b);
    return rc;
}

/* Whether two mixtures alternate alike. */
static bool same_parts(const struct leat_order_state *a, const struct leat_order_state *b)
{
    bool same = a->parts_n == b->parts_n;
    for (uint32_t i = 0; same && i < a->parts_n; i++)
        same = a->parts[i].from == b->parts[i].from &&
               memcmp(a->parts[i].shares, b->parts[i].shares, a->streams_n * sizeof *a->parts[i].shares) == 0;
    return same;
}

leat_status leat_order_state_fits(const struct leat_order_state *theirs, const struct leat_order_state *mine,
                                  const char *who, struct leat_error *err)
{
    if (theirs->streams_n != mine->streams_n)
        return leat_fail(err, LEAT_INVALID, "%s does not fit: it is of %" PRIu32 " datasets (here %" PRIu32 ")", who,
                         theirs->streams_n, mine->streams_n);
    for (uint32_t i = 0; i < mine->streams_n; i++) {
        char what[80];
        snprintf(what, sizeof what, "stream %" PRIu32 " of %.50s", i, who);
        leat_status rc =
            leat_order_stream_fits(&theirs->streams[i], &mine->streams[i], mine->streams_n > 1 ? what : who, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (leat_order_state_draws(theirs) != leat_order_state_draws(mine))
        return leat_fail(err, LEAT_INVALID, "%s does not fit: it has draw_seed %" PRIu64 " (here %" PRIu64 ")", who,
                         leat_order_state_draws(theirs), leat_order_state_draws(mine));
    if (!theirs->parts_n != !mine->parts_n)
        return leat_fail(err, LEAT_INVALID, "%s does not fit: it %s", who,
                         theirs->parts_n ? "is of a mixture or an epoch of another size (epoch_size)"
                                         : "is of one dataset with epochs of its own size");
    if (theirs->parts_n && theirs->epoch_units != mine->epoch_units)
        return leat_fail(err, LEAT_INVALID,
                         "%s does not fit: it has %" PRIu64 " samples per epoch (here %" PRIu64 "; epoch_size)", who,
                         theirs->epoch_units, mine->epoch_units);
    if (!same_parts(theirs, mine))
        return leat_fail(err, LEAT_INVALID, "%s does not fit: it has other weights or another schedule", who);
    return LEAT_OK;
}
