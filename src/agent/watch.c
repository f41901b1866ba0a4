#include "agent/watch.h"

#include "agent/account.h"
#include "agent/inside.h"
#include "agent/share.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "feed/feed.h"

static void say(void *user, const char *text)
{
    (void)user;
    leat_log(LEAT_LOG_WARN, "%s", text);
}

static void look(struct leat_timer *timer)
{
    struct leat_agent *a = (struct leat_agent *)((char *)timer - offsetof(struct leat_agent, watch.timer));
    struct leat_unusual_machine m = {.memory_limit = leat_memory_limit()};
    struct leat_account now;
    m.memory_used = leat_cgroup_memory_used("/proc/self/cgroup", "/sys/fs/cgroup");
    for (const struct leat_supply *s = a->supplies; s; s = s->next) {
        struct leat_source_stats source;
        leat_source_stats(s->source, &source);
        m.disk_chunks += source.disk_chunks;
        m.disk_ns += source.disk_ns;
        m.bucket_chunks += source.bucket_chunks;
        m.bucket_ns += source.bucket_ns;
    }
    leat_share_tidy(a->share);
    leat_agent_account(a, &now);
    leat_unusual_look(&a->watch.unusual, &now, &m, leat_now_ns(), say, NULL);
    leat_loop_arm(a->loop, timer, leat_after(LEAT_UNUSUAL_WINDOW));
}

void leat_watch_begin(struct leat_agent *a)
{
    a->watch.timer.fire = look;
    leat_loop_arm(a->loop, &a->watch.timer, leat_after(0));
}

void leat_watch_end(struct leat_agent *a)
{
    leat_loop_disarm(a->loop, &a->watch.timer);
}
