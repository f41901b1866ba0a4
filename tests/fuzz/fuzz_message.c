/* Any bytes as a message to the agent: what is accepted as a request can be written, and is the same when read again.
 */
#include "ring/request.h"
#include "ring/settings.h"

#include "fuzz.h"

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

FUZZ(message)
{
    enum leat_message_kind kind;
    struct leat_part part;
    struct leat_request r, again;
    struct leat_error err;
    if (leat_message_open(data, size, &kind, &part, &err) != LEAT_OK)
        return;
    if (leat_request_read(part, &r, &err) != LEAT_OK)
        return;
    if (leat_request_copy(&r, &again, &err) == LEAT_OK) {
        PROMISE(same_text(r.url, again.url) && same_text(r.id, again.id) && same_text(r.state, again.state));
        PROMISE(r.strict == again.strict && r.opts.outputs_n == again.opts.outputs_n);
        PROMISE(r.opts.world == again.opts.world && r.opts.seed == again.opts.seed && r.opts.last == again.opts.last);
        PROMISE(!r.access == !again.access && r.access_n == again.access_n);
        PROMISE(!r.access || memcmp(r.access, again.access, r.access_n) == 0);
        PROMISE(!r.node_of_rank == !again.node_of_rank);
        PROMISE(!r.node_of_rank ||
                memcmp(r.node_of_rank, again.node_of_rank, r.opts.world * sizeof *r.node_of_rank) == 0);
        for (size_t i = 0; i < r.opts.outputs_n; i++)
            PROMISE(same_text(r.outputs[i].name, again.outputs[i].name) && r.outputs[i].view == again.outputs[i].view);
        leat_request_free(&again);
    } else {
        PROMISE(err.status == LEAT_LIMIT || err.status == LEAT_NO_MEMORY);
    }
    leat_request_free(&r);
}
