#include "plan/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/checkpoint.h"

static double full_speed(const struct leat_plan_run *run)
{
    return run->speed[run->anchors + run->transients];
}

/* Equal pieces, a checkpoint after each. */
static double pieces_of(const struct leat_plan_run *run, double work_s)
{
    if (!(run->interval_s < HUGE_VAL))
        return 1;
    return fmax(1, ceil(work_s / fmax(run->interval_s, run->lag_s) - 1e-9));
}

/* The standard normal start of the slowest of some machines, at the q-th quantile of that. */
static double slowest_normal(unsigned machines, double q)
{
    double one = fmin(fmax(q, 1e-9), 1 - 1e-9);
    if (machines > 1)
        one = pow(one, 1.0 / machines);
    return leat_plan_normal_quantile(fmin(one, 1 - 1e-12));
}

#define START_CELLS 32

static double mean_start_s(const struct leat_plan_run *run)
{
    double sum = 0;
    for (int i = 0; i < START_CELLS; i++)
        sum += exp(run->start_spread * slowest_normal(run->anchors + run->transients, (i + 0.5) / START_CELLS));
    return run->start_s * sum / START_CELLS;
}

double leat_plan_run_billed_s(const struct leat_plan_run *run, double time_s)
{
    double step = run->bill_increment_s;
    return fmax(run->bill_minimum_s, step > 0 ? step * ceil(time_s / step - 1e-9) : time_s);
}

/* A machine that is taken is paid for to the end of its last step: half of one too much on average. */
static double usd_of(const struct leat_plan_run *run, double time_s, double revocations)
{
    double machines = fmax(1, run->anchors + run->transients);
    return run->usd_per_s * (leat_plan_run_billed_s(run, time_s) + revocations * run->bill_increment_s / 2 / machines) +
           run->usd_fixed + run->usd_per_revocation * revocations;
}

static double quiet_s(const struct leat_plan_run *run, double start_s)
{
    double work_s = run->work / full_speed(run);
    return start_s + work_s + pieces_of(run, work_s) * run->checkpoint_s + run->lag_s;
}

/* Pieces a second under revocations at `rate`: Daly's complete formula. A piece that is interrupted begins
 * again; machines taken while the cluster waits make it wait again. */
static double rollback_progress(double piece_s, double replace_s, double rate)
{
    if (rate * piece_s < 1e-9)
        return 1 / piece_s;
    return rate / (expm1(rate * piece_s) * exp(rate * replace_s));
}

/* Expected share of full speed when every transient machine is ready with probability `ready`, independently. */
static double mixed_progress(const struct leat_plan_run *run, double ready)
{
    unsigned k = run->transients;
    double sum = 0;
    /* From the likely end downwards, so that the first term cannot underflow while it matters. */
    double p = pow(ready, k);
    for (unsigned down = 0; down <= k && ready > 0; down++) {
        sum += p * run->speed[run->anchors + k - down];
        if (p < 1e-12 && down > k * (1 - ready))
            break;
        p *= (1 - ready) / ready * (double)(k - down) / (double)(down + 1);
    }
    return sum / full_speed(run);
}

struct march {
    const struct leat_plan_run *run;
    double piece_s; /* one piece with its checkpoint, undisturbed */
    double pieces;
    double start_s;
};

/* Revocations of one place between two times that come by themselves, not at a common end. */
static double scattered(const struct leat_plan_lifetime *l, double from_s, double to_s)
{
    double each;
    leat_plan_lifetime_common_end_s(l, from_s, to_s, &each);
    return fmax(0, leat_plan_lifetime_renewals(l, to_s) - leat_plan_lifetime_renewals(l, from_s) - each);
}

/* Pieces a second between two times. */
static double progress(const struct march *m, double from_s, double to_s)
{
    const struct leat_plan_run *run = m->run;
    const struct leat_plan_lifetime *l = run->lifetime;
    double rate = run->transients * scattered(l, from_s, to_s) / (to_s - from_s);
    if (run->rollback)
        return rollback_progress(m->piece_s, run->replace_s + run->lag_s, rate);
    double middle = (from_s + to_s) / 2;
    double share = mixed_progress(run, fmax(0, 1 - scattered(l, middle - run->replace_s, middle)));
    return share * fmax(0.01, 1 - 2 * rate * run->regroup_s) / m->piece_s;
}

/* What the moment costs at which a share `each` of the places loses its machine: one interruption, not many. */
static double common_end_cost_s(const struct march *m, double each)
{
    const struct leat_plan_run *run = m->run;
    double any = 1 - pow(1 - each, run->transients);
    if (run->rollback)
        return any * (run->replace_s + run->lag_s + m->piece_s / 2);
    return (1 - mixed_progress(run, 1 - each)) * run->replace_s + 2 * any * run->regroup_s;
}

/* When the last piece is done: through the lifetime's cells, beyond which nothing changes any more. */
static double march(const struct march *m)
{
    const struct leat_plan_lifetime *l = m->run->lifetime;
    double t = m->start_s;
    double left = m->pieces;
    for (size_t i = 1; i < l->cells; i++) {
        double each;
        if (l->cell_s[i] <= t)
            continue;
        double speed = progress(m, t, l->cell_s[i]);
        if (left <= speed * (l->cell_s[i] - t))
            return t + left / speed;
        left -= speed * (l->cell_s[i] - t);
        double from = t;
        t = l->cell_s[i];
        if (leat_plan_lifetime_common_end_s(l, from, t, &each) > 0)
            t += common_end_cost_s(m, each);
    }
    return t + left / progress(m, t, t + l->mean_s);
}

static void expect(const struct leat_plan_run *run, double start_s, struct leat_plan_expected *out)
{
    struct leat_plan_expected e = {.work_s = run->work / full_speed(run)};
    e.pieces = pieces_of(run, e.work_s);
    e.checkpoint_s = e.pieces * run->checkpoint_s;
    double quiet = quiet_s(run, start_s);
    e.time_s = quiet;
    if (run->transients) {
        struct march m = {run, e.work_s / e.pieces + run->checkpoint_s, e.pieces, start_s};
        e.time_s = fmin(march(&m) + run->lag_s, LEAT_PLAN_PATIENCE * quiet);
        e.revocations = run->transients * leat_plan_lifetime_renewals(run->lifetime, e.time_s);
        e.lost_s = e.time_s - quiet;
    }
    /* Speeds are as likely x times too high as x times too low, and the time is in their inverse: its mean lies
     * above the time at the middle speed. */
    double skew = exp(run->speed_spread * run->speed_spread / 2);
    e.skew_s = (e.time_s - start_s) * (skew - 1);
    e.start_s = start_s;
    e.time_s += e.skew_s;
    e.checkpoint_s += run->lag_s;
    e.usd = usd_of(run, e.time_s, e.revocations);
    *out = e;
}

void leat_plan_run_expect(const struct leat_plan_run *run, struct leat_plan_expected *out)
{
    expect(run, mean_start_s(run), out);
}

double leat_plan_run_interval_s(const struct leat_plan_run *run)
{
    if (!run->rollback || !run->transients)
        return HUGE_VAL;
    struct leat_plan_run trial = *run;
    struct leat_plan_expected e;
    double mtbf = run->lifetime->mean_s / run->transients;
    double start_s = mean_start_s(run);
    /* The interval depends on how long the run takes, and that a little on the interval. */
    for (int round = 0; round < 3; round++) {
        trial.interval_s = leat_plan_daly_s(run->checkpoint_s, mtbf);
        expect(&trial, start_s, &e);
        if (e.revocations > 0)
            mtbf = e.time_s / e.revocations;
    }
    return trial.interval_s;
}

struct place {
    double next_s; /* when its state changes */
    bool ready;
};

struct walk {
    const struct leat_plan_run *run;
    struct leat_rng *rng;
    double factor; /* true speed over speed */
    double calm;   /* the lifetime's hazard over the true one */
    double start_s;
    double end_s; /* given up */
    double revocations;
    struct place places[LEAT_PLAN_MACHINES_MAX];
};

static double lifetime(struct walk *w)
{
    double u = leat_rng_unit(w->rng);
    if (w->run->hazard_spread > 0) /* survival to the power of the hazard's factor */
        u = -expm1(w->calm * log1p(-u));
    return leat_plan_lifetime_draw(w->run->lifetime, fmin(u, 1 - 1e-16));
}

static unsigned first_place(const struct walk *w)
{
    unsigned first = 0;
    for (unsigned i = 1; i < w->run->transients; i++) {
        if (w->places[i].next_s < w->places[first].next_s)
            first = i;
    }
    return first;
}

static double walk_rollback(struct walk *w)
{
    const struct leat_plan_run *run = w->run;
    double work_s = run->work / (full_speed(run) * w->factor);
    double left = pieces_of(run, run->work / full_speed(run));
    double piece_s = work_s / left + run->checkpoint_s;
    double t = w->start_s;
    while (t < w->end_s) {
        struct place *p = &w->places[first_place(w)];
        if (t + left * piece_s + run->lag_s <= p->next_s)
            return t + left * piece_s + run->lag_s;
        if (p->next_s > t + run->lag_s)
            left -= fmin(left, floor((p->next_s - t - run->lag_s) / piece_s));
        t = fmax(t, p->next_s + run->replace_s);
        p->next_s += lifetime(w);
        w->revocations++;
    }
    return w->end_s;
}

static double walk_mixed(struct walk *w)
{
    const struct leat_plan_run *run = w->run;
    double work_s = run->work / full_speed(run);
    double pieces = pieces_of(run, work_s);
    /* Checkpoints are spread over the work: where exactly one falls matters little when nothing is lost. */
    double duty = work_s / w->factor / (work_s / w->factor + pieces * run->checkpoint_s);
    double left = run->work / w->factor / duty;
    double t = w->start_s;
    unsigned ready = run->anchors + run->transients;
    double dead[LEAT_PLAN_MACHINES_MAX]; /* when the machine being started will be taken */
    while (t < w->end_s) {
        unsigned i = first_place(w);
        struct place *p = &w->places[i];
        double speed = run->speed[ready];
        double until = fmax(t, p->next_s);
        if (left <= speed * (until - t))
            return t + left / speed + run->lag_s;
        left -= speed * (until - t);
        t = until + run->regroup_s;
        if (p->ready) {
            double order = p->next_s;
            w->revocations++;
            dead[i] = order + lifetime(w);
            while (dead[i] < order + run->replace_s) { /* taken before it was ready */
                order = dead[i];
                dead[i] = order + lifetime(w);
                w->revocations++;
            }
            p->next_s = order + run->replace_s;
        } else {
            p->next_s = dead[i];
        }
        ready = p->ready ? ready - 1 : ready + 1;
        p->ready = !p->ready;
    }
    return w->end_s;
}

struct luck_draw {
    double speed;        /* standard normal */
    double start;        /* uniform */
    double hazard;       /* standard normal */
    struct leat_rng rng; /* for the machines' lives */
};

struct leat_plan_luck {
    size_t count;
    struct luck_draw *draw;
    /* By machines: the standard normal start of the slowest, for every draw. Made when first asked for: it costs more
     * than the rest of a quiet run. */
    double *slowest[LEAT_PLAN_MACHINES_MAX + 1];
};

leat_status leat_plan_luck_new(uint64_t seed, size_t count, struct leat_plan_luck **out, struct leat_error *err)
{
    uint64_t key = leat_key("plan run", seed, 0, NULL, 0);
    struct leat_plan_luck *luck = calloc(1, sizeof *luck);
    struct luck_draw *draw = calloc(count, sizeof *draw);
    if (!luck || !draw) {
        free(luck);
        free(draw);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu draws", count);
    }
    for (size_t i = 0; i < count; i++) {
        struct leat_rng rng = leat_rng(key, i);
        /* The speed's quantiles are spread evenly over the draws and only shuffled: a few hundred draws then
         * place the ends of an interval as well as thousands of independent ones. */
        double even = ((double)i + leat_rng_unit(&rng)) / (double)count;
        draw[i].speed = leat_plan_normal_quantile(fmin(fmax(even, 1e-9), 1 - 1e-9));
        draw[i].start = leat_rng_unit(&rng);
        struct leat_rng fate = leat_rng(leat_key("plan hazard", seed, 0, NULL, 0), i);
        draw[i].hazard = leat_plan_normal(&fate);
        draw[i].rng = rng;
    }
    luck->count = count;
    luck->draw = draw;
    *out = luck;
    return LEAT_OK;
}

void leat_plan_luck_free(struct leat_plan_luck *luck)
{
    if (!luck)
        return;
    for (size_t i = 0; i <= LEAT_PLAN_MACHINES_MAX; i++)
        free(luck->slowest[i]);
    free(luck->draw);
    free(luck);
}

/* NULL: no memory. */
static const double *starts_of(struct leat_plan_luck *luck, unsigned machines)
{
    double **all = &luck->slowest[machines > LEAT_PLAN_MACHINES_MAX ? LEAT_PLAN_MACHINES_MAX : machines];
    if (!*all) {
        *all = calloc(luck->count, sizeof **all);
        for (size_t k = 0; *all && k < luck->count; k++)
            (*all)[k] = slowest_normal(machines, luck->draw[k].start);
    }
    return *all;
}

leat_status leat_plan_run_draw(const struct leat_plan_run *run, struct leat_plan_luck *luck, double *time_s,
                               double *usd, struct leat_error *err)
{
    const double *starts = starts_of(luck, run->anchors + run->transients);
    if (!starts)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu draws", luck->count);
    struct walk w = {.run = run, .end_s = LEAT_PLAN_PATIENCE * quiet_s(run, run->start_s)};
    double work_s = run->work / full_speed(run);
    double checkpoints_s = pieces_of(run, work_s) * run->checkpoint_s + run->lag_s;
    for (size_t i = 0; i < luck->count; i++) {
        struct leat_rng rng = luck->draw[i].rng;
        w.rng = &rng;
        w.factor = exp(run->speed_spread * luck->draw[i].speed);
        w.start_s = run->start_s * exp(run->start_spread * starts[i]);
        w.calm = exp(run->hazard_spread * run->hazard_spread / 2 - run->hazard_spread * luck->draw[i].hazard);
        w.revocations = 0;
        for (unsigned m = 0; m < run->transients; m++)
            w.places[m] = (struct place){.next_s = lifetime(&w), .ready = true};
        if (run->transients)
            time_s[i] = run->rollback ? walk_rollback(&w) : walk_mixed(&w);
        else
            time_s[i] = w.start_s + work_s / w.factor + checkpoints_s;
        usd[i] = usd_of(run, time_s[i], w.revocations);
    }
    return LEAT_OK;
}
