#include "store/lanes.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

#define THROTTLED 0x80u
#define FORGIVEN  (60 * LEAT_S) /* a lane that was not asked again for so long is as the others */

static_assert(LEAT_LANES <= THROTTLED, "a lane's number and a bit share a byte");

uint32_t leat_lanes_of(const char *key)
{
    const char *slash = strrchr(key, '/');
    return (uint32_t)(leat_xxh3(key, slash ? (size_t)(slash - key) : 0) % LEAT_LANES);
}

struct share {
    uint32_t answers;
    uint32_t throttled;
};

static void count_recent(const struct leat_lanes *l, struct share shares[LEAT_LANES])
{
    uint32_t n = l->recent_n < LEAT_LANES_RECENT ? l->recent_n : LEAT_LANES_RECENT;
    memset(shares, 0, LEAT_LANES * sizeof *shares);
    for (uint32_t i = 0; i < n; i++) {
        struct share *s = &shares[l->recent[i] & ~THROTTLED];
        s->answers++;
        s->throttled += (l->recent[i] & THROTTLED) != 0;
    }
}

/* Whether more than half of the lanes that are in use are refused more than strays would be. Those that wait for an
 * answer count as not refused: a refusal is quick, and many of them hide what else is going on. */
static bool concerns_all(const struct leat_lanes *l, const struct share shares[LEAT_LANES])
{
    uint32_t used = 0;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < LEAT_LANES; i++) {
        bool guilty = l->lane[i].limited || (shares[i].throttled && shares[i].throttled * 8 >= shares[i].answers);
        used += shares[i].answers || l->lane[i].running;
        refused += (shares[i].answers || l->lane[i].running) && guilty;
    }
    return used == 1 || 2 * refused > used;
}

static void set_limited(struct leat_lanes *l, uint32_t lane, bool limited)
{
    l->lane[lane].limited = limited;
    l->limited = limited ? l->limited | 1ull << lane : l->limited & ~(1ull << lane);
}

bool leat_lanes_answered(struct leat_lanes *l, uint32_t lane, bool throttled, uint64_t now_ns)
{
    struct leat_lane *own = &l->lane[lane];
    struct share shares[LEAT_LANES];
    l->recent[l->recent_n % LEAT_LANES_RECENT] = (uint8_t)(lane | (throttled ? THROTTLED : 0));
    l->recent_n = l->recent_n + 1 < 2 * LEAT_LANES_RECENT ? l->recent_n + 1 : LEAT_LANES_RECENT;
    if (own->limited) {
        leat_pace_answered(&own->pace, throttled, now_ns);
        return !throttled;
    }
    if (!throttled)
        return true;
    count_recent(l, shares);
    if (concerns_all(l, shares))
        return true;
    if (leat_pace_is_burst(shares[lane].throttled, shares[lane].answers)) {
        own->pace = leat_pace(0);
        leat_pace_cut(&own->pace, own->running + 1, now_ns); /* with the one that was just refused */
        set_limited(l, lane, true);
    }
    return false;
}

void leat_lanes_received(struct leat_lanes *l, uint32_t lane, uint64_t bytes)
{
    if (l->lane[lane].limited)
        leat_pace_received(&l->lane[lane].pace, bytes);
}

bool leat_lanes_room(struct leat_lanes *l, uint32_t lane, bool waiting, uint64_t now_ns)
{
    struct leat_lane *own = &l->lane[lane];
    if (own->limited && now_ns - own->pace.last_cut_ns > FORGIVEN)
        set_limited(l, lane, false);
    return !own->limited || own->running < leat_pace_update(&own->pace, waiting, now_ns);
}
