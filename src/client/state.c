#include "client/state.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

#define EPOCH    "\001epoch"
#define POSITION "\001position"

struct leat_rank_state {
    _Atomic uint32_t refs;
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
    free(s->before);
    free(s->between);
    free(s->after);
    free(s);
}

leat_status leat_rank_state_write(const struct leat_rank_state *s, uint64_t epoch, uint64_t position, char **out,
                                  struct leat_error *err)
{
    struct leat_buf b;
    leat_buf_init(&b, 1 << 20);
    leat_buf_printf(&b, "%s%" PRIu64 "%s%" PRIu64 "%s", s->before, epoch, s->between, position, s->after);
    leat_status rc = leat_buf_check(&b, "a state", err);
    if (rc == LEAT_OK)
        *out = leat_buf_take(&b);
    leat_buf_free(&b);
    return rc;
}
