#include "client/patience.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/opening.h"

#define WARN_NS   (5 * LEAT_S)
#define LAST_NS   (LEAT_S / 2) /* before the deadline, or a quarter of the whole time */
#define ANSWER_NS LEAT_S       /* an agent that lives answers in a fraction of it */

uint64_t leat_patience_begin(struct leat_loader *l)
{
    uint64_t now = leat_now_ns();
    uint64_t early = l->timeout_ns / 4 < LAST_NS ? l->timeout_ns / 4 : LAST_NS;
    l->patience.began_ns = now;
    l->patience.warn_ns = now + WARN_NS;
    l->patience.last_ns = now + l->timeout_ns - early;
    l->patience.asked_ns = 0;
    l->patience.answered = false;
    l->patience.why[0] = '\0';
    return now + l->timeout_ns;
}

void leat_patience_answer(struct leat_loader *l, const char *stats)
{
    json_t *s = NULL;
    if (!stats || leat_json_read(stats, strlen(stats), 0, &s, NULL) != LEAT_OK)
        return;
    const char *text = json_string_value(json_object_get(s, "waiting_for"));
    snprintf(l->patience.why, sizeof l->patience.why, "%s", text ? text : "");
    l->patience.answered = true;
    json_decref(s);
}

/* What it waits for, in words. */
static const char *explain(const struct leat_loader *l, char text[500])
{
    const struct leat_patience *p = &l->patience;
    char bucket[300];
    switch (p->what) {
    case LEAT_WAITING_AGENT:
        return "this machine's agent does not answer: it hangs, was stopped, or has not started yet";
    case LEAT_WAITING_OPENING:
        leat_opening_bucket(l, bucket, sizeof bucket);
        snprintf(text, 500, "the agent is opening '%.150s' and waits%s", l->request.url, bucket);
        break;
    case LEAT_WAITING_RANKS:
        return "the other ranks of this job on this machine have not opened the same loader yet";
    default:
        if (!p->answered)
            return "the agent does not answer: it hangs or was stopped";
        snprintf(text, 500, "the agent waits for %s", p->why[0] ? p->why : "something it does not name");
    }
    return text;
}

static void warn(struct leat_loader *l, uint64_t now)
{
    struct leat_patience *p = &l->patience;
    char text[1000];
    char why[500];
    int pid = l->connection.agent_pid;
    int n = snprintf(text, sizeof text, "%s for %.0f s: %s",
                     p->what == LEAT_WAITING_BATCH ? "no batch" : "the loader has not been ready",
                     (double)(now - p->began_ns) / 1e9, explain(l, why));
    if (pid && n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, " (agent %d, log %s)", pid, l->connection.paths.log);
    l->warn(l->warn_user, text);
    p->warn_ns += p->warn_ns - p->began_ns;
    p->asked_ns = 0; /* for the next one it is asked again; the answer stays, for a deadline that comes first */
}

void leat_patience_look(struct leat_loader *l)
{
    struct leat_patience *p = &l->patience;
    uint64_t now = leat_now_ns();
    bool due = l->warn && now >= p->warn_ns;
    bool last = now >= p->last_ns;
    if (p->what == LEAT_WAITING_BATCH && (last || (due && !p->asked_ns))) {
        p->answered = false;
        p->asked_ns = leat_opening_inquire(l) ? now : 1; /* 1, long ago: one that cannot be asked does not answer */
        if (last)
            p->last_ns = LEAT_NEVER;
    }
    if (due && (p->what != LEAT_WAITING_BATCH || p->answered || now - p->asked_ns > ANSWER_NS))
        warn(l, now);
}

uint64_t leat_patience_left_ns(const struct leat_loader *l)
{
    return leat_left(l->patience.last_ns);
}

bool leat_patience_stop(void *loader)
{
    struct leat_loader *l = loader;
    leat_patience_look(l);
    return l->stop && l->stop(l->stop_user);
}

leat_status leat_patience_fail(struct leat_loader *l, struct leat_error *err)
{
    const struct leat_patience *p = &l->patience;
    const char *why = !p->answered ? "it does not say: it hangs or was stopped"
                      : p->why[0]  ? p->why
                                   : "it does not say";
    if (!p->answered)
        leat_wait_charge(&l->wait, LEAT_WAIT_AGENT, leat_now_ns(), &l->account);
    return leat_fail(err, LEAT_TIMEOUT, "no batch within %.0f s; the agent (pid %d, log %s) waits for: %s",
                     (double)l->timeout_ns / 1e9, l->connection.agent_pid, l->connection.paths.log, why);
}
