#include "sim/cluster.h"

#include <math.h>

#include "plan/checkpoint.h"

enum phase { WAITING, WORKING, SAVING };

struct machine {
    double ordered_s;
    double ready_s;
    double taken_s; /* HUGE_VAL: stays */
    bool counted;   /* its readiness has been acted on */
};

struct sim {
    const struct leat_plan_run *run;
    enum leat_sim_interval interval;
    struct leat_rng rng;
    unsigned machines;
    struct machine machine[LEAT_PLAN_MACHINES_MAX];
    double now_s;
    double factor; /* true speed over the speed believed in */
    double start_s;
    double saved;   /* work that a checkpoint holds */
    double unsaved; /* work since then */
    double piece;   /* work until the next checkpoint */
    double save_left_s;
    double pending;      /* work of a checkpoint that is still being written in the background */
    double pending_at_s; /* when it is safe */
    double pause_until_s;
    enum phase phase;
    struct leat_sim_result result;
};

static unsigned ready_count(const struct sim *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->machines; i++)
        n += s->machine[i].counted;
    return n;
}

static void order(struct sim *s, unsigned i, double startup_s)
{
    struct machine *m = &s->machine[i];
    bool stays = i < s->run->anchors;
    m->ordered_s = s->now_s;
    m->ready_s = s->now_s + startup_s;
    m->taken_s = stays ? HUGE_VAL : s->now_s + leat_plan_lifetime_draw(s->run->lifetime, leat_rng_unit(&s->rng));
    m->counted = false;
}

static double even_pieces(const struct leat_plan_run *run)
{
    double work_s = run->work / run->speed[run->anchors + run->transients];
    return run->interval_s < HUGE_VAL ? fmax(1, ceil(work_s / fmax(run->interval_s, run->lag_s) - 1e-9)) : 1;
}

static double undisturbed_s(const struct leat_plan_run *run)
{
    double work_s = run->work / run->speed[run->anchors + run->transients];
    return run->start_s + work_s + even_pieces(run) * run->checkpoint_s;
}

/* How much work to do before the next checkpoint. */
static void plan_piece(struct sim *s)
{
    const struct leat_plan_run *run = s->run;
    double left = run->work - s->saved;
    if (s->interval == LEAT_SIM_BY_HAZARD && run->transients) {
        double ages[LEAT_PLAN_MACHINES_MAX];
        for (unsigned i = 0; i < run->transients; i++)
            ages[i] = s->now_s - s->machine[run->anchors + i].ordered_s;
        double next = leat_plan_hazard_interval_s(run->checkpoint_s, run->lifetime, ages, run->transients);
        s->piece = fmin(left, next * run->speed[s->machines]);
        return;
    }
    s->piece = fmin(left, run->work / even_pieces(run));
}

static double speed_now(const struct sim *s)
{
    unsigned ready = ready_count(s);
    if (s->run->rollback && ready < s->machines)
        return 0;
    return s->run->speed[ready] * s->factor;
}

/* When the work or the checkpoint at hand would be finished if no machine came or went. */
static double done_at(const struct sim *s)
{
    double from = fmax(s->now_s, s->pause_until_s);
    if (s->phase == SAVING)
        return from + s->save_left_s;
    double speed = s->phase == WORKING ? speed_now(s) : 0;
    return speed > 0 ? from + (s->piece - s->unsaved) / speed : HUGE_VAL;
}

static void pass_time(struct sim *s, double to_s)
{
    double span = fmax(0, to_s - fmax(s->now_s, s->pause_until_s));
    if (s->phase == WORKING)
        s->unsaved += speed_now(s) * span;
    else if (s->phase == SAVING)
        s->save_left_s -= span;
    s->now_s = to_s;
}

static void machine_taken(struct sim *s, unsigned i)
{
    bool was_ready = s->machine[i].counted;
    s->result.revocations++;
    s->result.machine_s[1] += s->now_s - s->machine[i].ordered_s;
    order(s, i, s->run->replace_s);
    if (s->run->rollback) {
        if (s->now_s < s->pending_at_s) {
            s->saved -= s->pending;
            s->unsaved += s->pending;
            s->pending_at_s = 0;
        }
        s->result.lost_work_s += s->unsaved / (s->run->speed[s->machines] * s->factor);
        s->unsaved = 0;
        s->phase = WAITING;
    } else if (was_ready) {
        s->pause_until_s = s->now_s + s->run->regroup_s;
    }
}

static void machine_ready(struct sim *s, unsigned i)
{
    s->machine[i].counted = true;
    bool all = ready_count(s) == s->machines;
    if (s->phase == WAITING && (all || (!s->run->rollback && s->now_s >= s->start_s))) {
        s->phase = WORKING;
        if (s->unsaved == 0)
            plan_piece(s);
    } else if (s->phase != WAITING && s->now_s > s->start_s) { /* not at the common start */
        s->pause_until_s = s->now_s + s->run->regroup_s;
    }
}

static void work_done(struct sim *s)
{
    if (s->phase == WORKING) {
        s->phase = SAVING;
        s->save_left_s = s->run->checkpoint_s;
        return;
    }
    s->result.checkpoints++;
    s->saved += s->piece;
    s->pending = s->piece;
    s->pending_at_s = s->now_s + s->run->lag_s;
    s->unsaved = 0;
    s->phase = WORKING;
    plan_piece(s);
}

static void begin(struct sim *s)
{
    const struct leat_plan_run *run = s->run;
    s->factor = exp(run->speed_spread * leat_plan_normal(&s->rng));
    s->machines = run->anchors + run->transients;
    for (unsigned i = 0; i < s->machines; i++)
        s->start_s = fmax(s->start_s, run->start_s * exp(run->start_spread * leat_plan_normal(&s->rng)));
    s->phase = WAITING;
    for (unsigned i = 0; i < s->machines; i++)
        order(s, i, s->start_s);
}

void leat_sim_cluster(const struct leat_plan_run *run, enum leat_sim_interval interval, uint64_t seed, uint64_t index,
                      struct leat_sim_result *out)
{
    struct sim s = {
        .run = run, .interval = interval, .rng = leat_rng(leat_key("sim cluster", seed, 0, NULL, 0), index)};
    begin(&s);
    double end_s = LEAT_PLAN_PATIENCE * undisturbed_s(run);
    while ((s.saved < run->work * (1 - 1e-12) || s.now_s < s.pending_at_s) && s.now_s < end_s) {
        double next = s.saved < run->work * (1 - 1e-12) ? done_at(&s) : s.pending_at_s;
        unsigned which = s.machines;
        bool taken = false;
        for (unsigned i = 0; i < s.machines; i++) {
            const struct machine *m = &s.machine[i];
            double at = m->counted ? m->taken_s : fmin(m->ready_s, m->taken_s);
            if (at < next) {
                next = at;
                which = i;
                taken = m->counted || m->taken_s < m->ready_s;
            }
        }
        pass_time(&s, fmin(next, end_s));
        if (which == s.machines && s.saved < run->work * (1 - 1e-12))
            work_done(&s);
        else if (which == s.machines)
            s.pending_at_s = 0;
        else if (taken)
            machine_taken(&s, which);
        else
            machine_ready(&s, which);
    }
    for (unsigned i = 0; i < s.machines; i++)
        s.result.machine_s[i >= run->anchors] += s.now_s - s.machine[i].ordered_s;
    s.result.time_s = s.now_s;
    s.result.usd = run->usd_per_s * s.now_s + run->usd_fixed + run->usd_per_revocation * s.result.revocations;
    *out = s.result;
}
