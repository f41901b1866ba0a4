#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "plan/plan.h"

struct leat_plan_options leat_plan_options_default(void)
{
    return (struct leat_plan_options){.max_nodes = 8, .draws = 400, .seed = 1, .risk = 0.9};
}

static leat_status take_count(const char *text, const char *key, unsigned *out, struct leat_error *err)
{
    uint64_t v;
    leat_status rc = leat_parse_u64(text, key, &v, err);
    if (rc == LEAT_OK)
        *out = v > UINT32_MAX ? UINT32_MAX : (unsigned)v; /* what is too large is refused by its own limit */
    return rc;
}

static leat_status take_deadline(struct leat_plan_options *o, const char *text, struct leat_error *err)
{
    uint64_t ns = 0;
    leat_status rc = leat_parse_duration(text, "deadline", &ns, err);
    if (rc == LEAT_OK && !ns) /* inside, 0 means that there is none: not what somebody means who gives one */
        rc = leat_fail(err, LEAT_INVALID, "deadline: '%s' leaves no time", text);
    if (rc == LEAT_OK)
        o->deadline_s = (double)ns / 1e9;
    return rc;
}

static leat_status take_risk(struct leat_plan_options *o, const char *text, struct leat_error *err)
{
    double percent;
    if (text[0] != 'p')
        return leat_fail(err, LEAT_INVALID, "risk: '%s' is not a percentile; write for example p95", text);
    leat_status rc = leat_parse_double(text + 1, "risk", &percent, err);
    if (rc == LEAT_OK)
        o->risk = percent / 100;
    return rc;
}

static leat_status take_region(struct leat_plan_options *o, const char *text, struct leat_error *err)
{
    if (o->region_count == LEAT_PLAN_REGIONS_MAX)
        return leat_fail(err, LEAT_LIMIT, "region: more than %d", LEAT_PLAN_REGIONS_MAX);
    o->regions[o->region_count++] = text;
    return LEAT_OK;
}

leat_status leat_plan_option_set(struct leat_plan_options *o, const char *key, const char *text, struct leat_error *err)
{
    if (strcmp(key, "deadline") == 0)
        return take_deadline(o, text, err);
    if (strcmp(key, "risk") == 0)
        return take_risk(o, text, err);
    if (strcmp(key, "region") == 0)
        return take_region(o, text, err);
    if (strcmp(key, "max_nodes") == 0)
        return take_count(text, key, &o->max_nodes, err);
    if (strcmp(key, "draws") == 0)
        return take_count(text, key, &o->draws, err);
    if (strcmp(key, "seed") == 0)
        return leat_parse_u64(text, key, &o->seed, err);
    if (strcmp(key, "min_accuracy") == 0)
        return leat_parse_double(text, key, &o->min_accuracy, err);
    if (strcmp(key, "budget") == 0) {
        leat_status rc = leat_parse_usd(text, key, &o->budget_usd, err);
        if (rc == LEAT_OK && !(o->budget_usd > 0))
            rc = leat_fail(err, LEAT_INVALID, "budget: '%s' leaves no money", text);
        return rc;
    }
    return leat_fail(err, LEAT_INVALID, "'%s' is not an option of a plan", key);
}
