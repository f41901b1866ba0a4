/* What a loader's statistics say, the rank's part and the agent's. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/opening.h"
#include "ring/blend.h"

#define BESIDE_NS (LEAT_S / 2) /* how long a question may keep a call waiting that has a deadline of its own */

static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* How far each stream of a mixture is. */
static bool put_streams(const struct leat_loader *l, json_t *s)
{
    struct leat_blend_spec *mix = l->request.opts.mix ? calloc(1, sizeof *mix) : NULL;
    bool named = mix && leat_blend_read(l->request.opts.mix, mix, NULL) == LEAT_OK;
    json_t *streams = named ? json_object() : NULL;
    bool good =
        !l->request.opts.mix || (streams && leat_rank_state_progress(l->state, mix, l->epoch, l->position, streams));
    if (named)
        leat_blend_free(mix);
    free(mix);
    if (!streams)
        return good;
    return put(s, "streams", streams) && good;
}

static leat_status tell_stats(struct leat_loader *l, uint64_t deadline_ns, char **out, struct leat_error *err)
{
    char *theirs = NULL;
    json_t *s = NULL;
    struct leat_account now;
    struct leat_account a;
    leat_status rc = leat_opening_stats(l, deadline_ns, &theirs, err);
    if (rc != LEAT_OK)
        return rc;
    if (!theirs || leat_json_read(theirs, strlen(theirs), 0, &s, NULL) != LEAT_OK)
        s = json_object();
    bool told = json_object_size(s) > 0; /* an agent that is gone, or has only looked, says nothing */
    free(theirs);
    leat_account_read(s, &now);
    leat_opening_account(l, told ? &now : NULL, &a);
    bool good = leat_account_write(&a, LEAT_OF_RANK, LEAT_OF_AGENT, s) && put(s, "version", json_string(l->id)) &&
                put(s, "agent_pid", json_integer(l->connection.agent_pid)) &&
                put(s, "socket", json_string(l->connection.paths.socket)) &&
                put(s, "log", json_string(l->connection.paths.log)) && put_streams(l, s);
    *out = good ? leat_json_write(s, JSON_COMPACT) : NULL;
    json_decref(s);
    return *out ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for statistics");
}

leat_status leat_loader_stats(struct leat_loader *l, char **out, struct leat_error *err)
{
    uint64_t deadline = leat_after(l->timeout_ns);
    bool beside;
    leat_status rc = leat_turn_look(&l->turn, deadline, l->stop, l->stop_user, &beside, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t soon = leat_after(BESIDE_NS);
    rc = tell_stats(l, beside && soon < deadline ? soon : deadline, out, err);
    leat_turn_looked(&l->turn);
    return rc;
}
