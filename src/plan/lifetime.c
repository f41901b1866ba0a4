#include "plan/lifetime.h"

#include <math.h>

#include "plan/renewal.h"

const char *leat_plan_lifetime_flaw(const double *age_s, const double *probability, size_t i)
{
    if (!isfinite(age_s[i]) || !(probability[i] >= 0 && probability[i] <= 1))
        return "an age or a probability that is not valid";
    if (i == 0)
        return age_s[0] == 0 && probability[0] == 0 ? NULL : "the first point must be age 0 with probability 0";
    if (age_s[i] <= age_s[i - 1])
        return "the point is not older than the one before it";
    if (probability[i] < probability[i - 1])
        return "the probability falls: machines do not come back";
    return NULL;
}

static leat_status check(const double *age_s, const double *probability, size_t count, const char *what,
                         struct leat_error *err)
{
    if (count < 2)
        return leat_fail(err, LEAT_INVALID, "%s: a distribution of lifetimes needs at least two points", what);
    if (count > LEAT_PLAN_POINTS_MAX)
        return leat_fail(err, LEAT_INVALID, "%s: more than %d points", what, LEAT_PLAN_POINTS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *flaw = leat_plan_lifetime_flaw(age_s, probability, i);
        if (flaw)
            return leat_fail(err, LEAT_INVALID, "%s: point %zu: %s", what, i + 1, flaw);
    }
    return LEAT_OK;
}

double leat_plan_lifetime_cdf(const struct leat_plan_lifetime *l, double age_s)
{
    size_t last = l->count - 1;
    if (age_s <= 0)
        return 0;
    if (age_s >= l->age_s[last]) {
        if (l->ends)
            return 1;
        return 1 - (1 - l->probability[last]) * exp(-l->tail_rate * (age_s - l->age_s[last]));
    }
    size_t i = 1;
    while (l->age_s[i] < age_s)
        i++;
    double share = (age_s - l->age_s[i - 1]) / (l->age_s[i] - l->age_s[i - 1]);
    return l->probability[i - 1] + share * (l->probability[i] - l->probability[i - 1]);
}

double leat_plan_lifetime_hazard(const struct leat_plan_lifetime *l, double age_s)
{
    size_t last = l->count - 1;
    if (age_s >= l->age_s[last])
        return l->ends ? HUGE_VAL : l->tail_rate;
    size_t i = 1;
    while (l->age_s[i] <= age_s)
        i++;
    double density = (l->probability[i] - l->probability[i - 1]) / (l->age_s[i] - l->age_s[i - 1]);
    return density / (1 - leat_plan_lifetime_cdf(l, age_s));
}

double leat_plan_lifetime_draw(const struct leat_plan_lifetime *l, double u)
{
    size_t last = l->count - 1;
    if (u >= l->probability[last]) {
        if (l->ends)
            return l->age_s[last];
        return l->age_s[last] - log((1 - u) / (1 - l->probability[last])) / l->tail_rate;
    }
    size_t i = 1;
    while (l->probability[i] <= u)
        i++;
    double share = (u - l->probability[i - 1]) / (l->probability[i] - l->probability[i - 1]);
    return l->age_s[i - 1] + share * (l->age_s[i] - l->age_s[i - 1]);
}

static double mean_of(const struct leat_plan_lifetime *l)
{
    size_t last = l->count - 1;
    double sum = l->ends ? 0 : (1 - l->probability[last]) / l->tail_rate;
    for (size_t i = 1; i < l->count; i++)
        sum += (1 - (l->probability[i] + l->probability[i - 1]) / 2) * (l->age_s[i] - l->age_s[i - 1]);
    return sum;
}

leat_status leat_plan_lifetime_set(const double *age_s, const double *probability, size_t count, bool ends,
                                   const char *what, struct leat_plan_lifetime *out, struct leat_error *err)
{
    leat_status rc = check(age_s, probability, count, what, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_plan_lifetime l = {.count = count, .ends = ends};
    for (size_t i = 0; i < count; i++) {
        l.age_s[i] = age_s[i];
        l.probability[i] = probability[i];
    }
    l.tail_rate = leat_plan_lifetime_hazard(&l, (age_s[count - 2] + age_s[count - 1]) / 2);
    if (!ends && !(l.tail_rate > 0) && probability[count - 1] < 1)
        return leat_fail(err, LEAT_INVALID,
                         "%s: nothing is known about machines older than %g h: none is taken in the last interval, "
                         "and the distribution does not end there",
                         what, age_s[count - 1] / 3600);
    l.mean_s = mean_of(&l);
    rc = leat_plan_renewal_solve(&l, err);
    if (rc != LEAT_OK)
        return rc;
    *out = l;
    return LEAT_OK;
}

double leat_plan_lifetime_renewals(const struct leat_plan_lifetime *l, double t_s)
{
    size_t last = l->cells - 1;
    if (t_s <= 0)
        return 0;
    if (t_s >= l->cell_s[last])
        return l->expected[last] + (t_s - l->cell_s[last]) / l->mean_s;
    size_t lo = 0;
    size_t hi = last;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (l->cell_s[mid] <= t_s)
            lo = mid;
        else
            hi = mid;
    }
    double share = (t_s - l->cell_s[lo]) / (l->cell_s[hi] - l->cell_s[lo]);
    return l->expected[lo] + share * (l->expected[hi] - l->expected[lo]);
}

double leat_plan_lifetime_common_end_s(const struct leat_plan_lifetime *l, double from_s, double to_s, double *each)
{
    double age = l->age_s[l->count - 1];
    double generation = fmin(floor(to_s / age), LEAT_PLAN_GENERATIONS);
    *each = 0;
    if (!l->ends || generation < 1 || generation * age <= from_s)
        return 0;
    *each = pow(1 - l->probability[l->count - 1], generation);
    return generation * age;
}
