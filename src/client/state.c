#include "client/state.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "order/state.h"
#include "ring/blend.h"

#define EPOCH    "\001epoch"
#define POSITION "\001position"

struct leat_rank_state {
    _Atomic uint32_t refs;
    /* Of a mixture: where the streams are follows from where it is, so it is written again each time. */
    struct leat_order_state *mixed;
    struct leat_mixture *mixture;
    /* Of one dataset: */
    char *before;  /* the epoch */
    char *between; /* epoch and position */
    char *after;
};

/* Cuts `text` in two at the mark, which is left out. */
static char *cut(char *text, const char *mark)
{
    char *at = text ? strstr(text, mark) : NULL;
    if (!at)
        return NULL;
    *at = '\0';
    return at + strlen(mark);
}

static leat_status take_pieces(json_t *root, struct leat_rank_state *s, struct leat_error *err)
{
    char *text = leat_json_write(root, JSON_COMPACT | JSON_ENSURE_ASCII);
    char *between = cut(text, "\"\\u0001epoch\"");
    char *after = cut(between, "\"\\u0001position\"");
    if (after) {
        s->before = strdup(text);
        s->between = strdup(between);
        s->after = strdup(after);
    }
    free(text);
    return s->before && s->between && s->after ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
}

static leat_status make_mixed(const char *text, struct leat_rank_state *s, uint64_t *epoch, uint64_t *position,
                              struct leat_error *err)
{
    s->mixed = calloc(1, sizeof *s->mixed);
    if (!s->mixed)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    leat_status rc = leat_order_state_read(text, strlen(text), s->mixed, err);
    if (rc == LEAT_OK && !s->mixed->parts_n)
        rc = leat_fail(err, LEAT_VERSION, "the agent's state names a mixture but does not describe it");
    if (rc == LEAT_OK)
        rc = leat_mixture_open(s->mixed->streams_n, s->mixed->parts, s->mixed->parts_n, &s->mixture, err);
    if (rc != LEAT_OK)
        return rc;
    *epoch = s->mixed->epoch;
    *position = s->mixed->position;
    return LEAT_OK;
}

leat_status leat_rank_state_make(const char *text, struct leat_rank_state **out, uint64_t *epoch, uint64_t *position,
                                 struct leat_error *err)
{
    json_t *root = NULL;
    leat_status rc = leat_json_read(text, strlen(text), 0, &root, NULL);
    json_t *stream = json_array_get(json_object_get(root, "streams"), 0);
    json_t *e = json_object_get(stream, "epoch");
    json_t *p = json_object_get(stream, "position");
    struct leat_rank_state *s = calloc(1, sizeof *s);
    uint64_t e_value = (uint64_t)json_integer_value(e);
    uint64_t p_value = (uint64_t)json_integer_value(p);
    if (rc == LEAT_NO_MEMORY || !s)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    else if (rc == LEAT_OK && json_object_get(root, "mixture"))
        rc = make_mixed(text, s, &e_value, &p_value, err);
    else if (rc != LEAT_OK || !json_is_integer(e) || !json_is_integer(p))
        rc = leat_fail(err, LEAT_VERSION, "the agent's state has no epoch and position");
    else if (json_object_del(stream, "epoch") < 0 || json_object_del(stream, "position") < 0 ||
             json_object_set_new(stream, "epoch", json_string(EPOCH)) < 0 ||
             json_object_set_new(stream, "position", json_string(POSITION)) < 0)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    else
        rc = take_pieces(root, s, err);
    json_decref(root);
    if (s)
        s->refs = 1;
    if (rc != LEAT_OK) {
        leat_rank_state_drop(s);
        return rc;
    }
    *out = s;
    *epoch = e_value;
    *position = p_value;
    return LEAT_OK;
}

struct leat_rank_state *leat_rank_state_hold(struct leat_rank_state *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void leat_rank_state_drop(struct leat_rank_state *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (s->mixed)
        leat_order_state_free(s->mixed);
    free(s->mixed);
    leat_mixture_close(s->mixture);
    free(s->before);
    free(s->between);
    free(s->after);
    free(s);
}

/* Any thread may ask: what is kept stays as it is. */
static leat_status write_mixed(const struct leat_rank_state *s, uint64_t epoch, uint64_t position, char **out,
                               struct leat_error *err)
{
    struct leat_order_state *now = malloc(sizeof *now);
    if (!now)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    *now = *s->mixed;
    leat_order_state_move(now, s->mixture, epoch, position);
    leat_status rc = leat_order_state_write(now, out, err);
    free(now);
    return rc;
}

leat_status leat_rank_state_write(const struct leat_rank_state *s, uint64_t epoch, uint64_t position, char **out,
                                  struct leat_error *err)
{
    struct leat_buf b;
    if (s->mixture)
        return write_mixed(s, epoch, position, out, err);
    leat_buf_init(&b, 1 << 20);
    leat_buf_printf(&b, "%s%" PRIu64 "%s%" PRIu64 "%s", s->before, epoch, s->between, position, s->after);
    leat_status rc = leat_buf_check(&b, "a state", err);
    if (rc == LEAT_OK)
        *out = leat_buf_take(&b);
    leat_buf_free(&b);
    return rc;
}

bool leat_rank_state_progress(const struct leat_rank_state *s, const struct leat_blend_spec *mix, uint64_t epoch,
                              uint64_t position, json_t *out)
{
    struct leat_order_state *now = s && s->mixed ? malloc(sizeof *now) : NULL;
    bool good = !s || !s->mixed || now;
    if (!now)
        return good;
    *now = *s->mixed;
    leat_order_state_move(now, s->mixture, epoch, position);
    for (uint32_t i = 0; good && i < now->streams_n && i < mix->n; i++) {
        const struct leat_order_stream *one = &now->streams[i];
        json_t *j = json_pack("{s:I,s:I,s:I}", "units", (json_int_t)one->units, "epoch", (json_int_t)one->epoch,
                              "position", (json_int_t)one->position);
        good = j && json_object_set_new(out, mix->streams[i].name, j) == 0;
    }
    free(now);
    return good;
}
