#include "job/health.h"

#define REST_FIRST 1000000000ull
#define REST_MOST  30000000000ull
#define REST_LIAR  600000000000ull
#define LOST       2u

bool leat_health_good(const struct leat_health *h, uint64_t now_ns)
{
    return !h->lost && now_ns >= h->rest_ns;
}

bool leat_health_due(const struct leat_health *h, uint64_t now_ns)
{
    return h->lost && now_ns >= h->rest_ns;
}

bool leat_health_well(struct leat_health *h)
{
    bool was = h->lost;
    *h = (struct leat_health){0};
    return was;
}

bool leat_health_ill(struct leat_health *h, bool lied, uint64_t now_ns)
{
    bool was = h->lost;
    uint64_t rest = REST_FIRST << (h->failures < 5 ? h->failures : 5);
    h->failures++;
    h->lied = h->lied || lied;
    h->lost = h->lost || lied || h->failures >= LOST;
    rest = h->lied ? REST_LIAR : rest < REST_MOST ? rest : REST_MOST;
    h->rest_ns = now_ns + rest > h->rest_ns ? now_ns + rest : h->rest_ns;
    return h->lost != was;
}
