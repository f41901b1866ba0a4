#include <math.h>

#include "profile/gather_own.h"
#include "profile/verdict.h"

#define EARLY_WAITS 0.3 /* of the last steps: no noise, and no taking over of batches that are ready */

const struct gather_rank *gather_first_rank(const struct leat_gather *g)
{
    const struct gather_rank *first = NULL;
    for (size_t i = 0; i < g->rank_count; i++) {
        if (g->rank[i]->trains && (!first || g->rank[i]->head.rank < first->head.rank))
            first = g->rank[i];
    }
    return first;
}

struct gather_loader gather_account(const struct gather_rank *rank, const struct sums *s, unsigned mode)
{
    struct gather_loader l = gather_rank_account(rank, mode);
    double each = s->steps > 0 && s->taken > s->steps ? s->taken / s->steps : 1;
    l.batches /= each;
    l.read_batches /= each;
    l.bucket_batches /= each;
    return l;
}

size_t gather_round(const struct leat_gather *g)
{
    const struct gather_rank *first = gather_first_rank(g);
    return first && first->head.workers ? first->head.workers : 1;
}

/* `times` each step of `more`. */
static void add(struct sums *s, const struct sums *more, double times)
{
    s->steps += times * more->steps;
    s->step_s += times * more->step_s;
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++)
        s->stage_s[i] += times * more->stage_s[i];
    for (size_t i = 0; i < LEAT_REPORT_RANKS; i++) {
        s->wait_of[i] += times * more->wait_of[i];
        s->late_s[i] += times * more->late_s[i];
        s->late_wait_s[i] += times * more->late_wait_s[i];
        s->late[i] += times * more->late[i];
    }
    if (more->handover_s > 0 && (!(s->handover_s > 0) || more->handover_s < s->handover_s))
        s->handover_s = more->handover_s;
    s->batches += times * more->batches;
    s->taken += times * more->taken;
    s->samples += times * more->samples;
    s->bytes += times * more->bytes;
    s->copied += times * more->copied;
    s->first += times * more->first;
    s->first_wait_s += times * more->first_wait_s;
}

static void end_round(struct leat_gather *g)
{
    if (g->round.steps > 0) {
        add(&g->stretch[g->round_of], &g->round, 1);
        gather_add_block(g, LEAT_REPORT_OBSERVED, g->round_of, &g->round);
    }
    g->round = (struct sums){0};
}

void gather_observe_cut(struct leat_gather *g)
{
    g->round = (struct sums){0};
    g->cut = true;
}

/* Whether the first epoch waits all the same. Of a batch that was sent, but has not come, a queue says that it is
 * there. */
static bool waits(struct leat_gather *g, const struct sums *s)
{
    g->early_n++;
    g->early_s = 0.9 * g->early_s + s->step_s;
    g->early_wait_s = 0.9 * g->early_wait_s + s->stage_s[LEAT_STEP_WAIT];
    return g->early_n >= BLOCK_STEPS && g->early_wait_s > EARLY_WAITS * g->early_s;
}

void gather_observe(struct leat_gather *g, const struct sums *s, bool first, bool empty, size_t place)
{
    size_t round = gather_round(g);
    enum stretch stretch = STRETCH_BODY;
    if (first && !g->cut)
        end_round(g); /* the last of an epoch may be short; after a cut it may begin anywhere */
    if (first)
        g->cut = false;
    if (g->epoch > 1)
        stretch = place < round ? STRETCH_HEAD : STRETCH_BODY;
    else if (!(g->settled = g->settled || empty || waits(g, s)))
        stretch = STRETCH_EARLY;
    if (stretch != g->round_of)
        g->round = (struct sums){0};
    g->round_of = stretch;
    add(&g->round, s, 1);
    if (g->round.steps >= (double)round)
        end_round(g);
}

/* Whether workers make batches as fast as the rest of a step is over: then a training that has not waited will not. */
static bool keeps_up(const struct leat_gather *g, const struct sums *s)
{
    double rest_s = (s->step_s - s->stage_s[LEAT_STEP_WAIT]) / s->steps;
    for (size_t i = 0; i < g->rank_count; i++) {
        const struct gather_rank *rank = g->rank[i];
        struct gather_loader l = gather_account(rank, s, LEAT_REPORT_OBSERVED);
        double batch_s = l.batches > 0 ? (l.fetch_s + l.prepare_s) / l.batches : 0;
        if (rank->trains && rank->head.workers && batch_s / rank->head.workers > rest_s)
            return false;
    }
    return true;
}

struct sums gather_observed(const struct leat_gather *g, bool *early)
{
    const struct sums *head = &g->stretch[STRETCH_HEAD];
    const struct sums *body = &g->stretch[STRETCH_BODY];
    const struct gather_rank *rank = gather_first_rank(g);
    struct sums all = {0};
    double epoch = rank ? (double)rank->head.epoch : 0; /* in batches, of which a step may take several */
    if (body->batches > body->steps)
        epoch *= body->steps / body->batches;
    double share = epoch > 0 && head->steps > 0 ? fmin(1, (double)gather_round(g) / epoch) : 0;
    *early = false;
    if (share < 1 && body->steps > 0) {
        add(&all, body, 1);
        if (share > 0)
            add(&all, head, share / (1 - share) * body->steps / head->steps);
    } else if (share >= 1) {
        add(&all, head, 1);
    }
    if (all.steps < LEAT_VERDICT_STEPS && g->stretch[STRETCH_EARLY].steps > 0 &&
        keeps_up(g, &g->stretch[STRETCH_EARLY])) {
        *early = true;
        add(&all, &g->stretch[STRETCH_EARLY], 1);
    }
    return all;
}
