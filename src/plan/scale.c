#include "plan/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* Grids fine enough that halving them moves no prediction by more than 0.3 %. */
#define KNEES  13
#define NOISES 11
#define CAPS   81
#define RATES  41
#define CELLS  ((size_t)KNEES * CAPS * RATES)

#define KNEE_MIN  3.0
#define KNEE_MAX  32.0
#define NOISE_MIN 0.01
#define NOISE_MAX 0.20
#define CAP_MIN   0.8
#define CAP_MAX   10.0
#define RATE_SPAN 0.3 /* e^±0.3 around what few workers show */

static double geometric(double lo, double hi, size_t i, size_t n)
{
    return lo * pow(hi / lo, (double)i / (double)(n - 1));
}

struct grid {
    double knee[KNEES];
    double cap[CAPS];
    double rate[RATES];
    double noise[NOISES];
    float squares[CELLS];    /* Σ (log measured − log model)² of a cell */
    double evidence[NOISES]; /* log of the mean likelihood over the cells */
};

static void lay_out(struct grid *g, const struct leat_plan_series *s)
{
    double top = 0;
    double sum = 0;
    double least = HUGE_VAL;
    double next = HUGE_VAL;
    size_t used = 0;
    for (size_t i = 0; i < s->count; i++) {
        top = fmax(top, s->speed[i]);
        if (s->workers[i] < least) {
            next = least;
            least = s->workers[i];
        } else if (s->workers[i] < next && s->workers[i] > least) {
            next = s->workers[i];
        }
    }
    for (size_t i = 0; i < s->count; i++) {
        if (s->workers[i] == least || s->workers[i] == next) {
            sum += log(s->speed[i] / s->workers[i]);
            used++;
        }
    }
    double middle = exp(sum / (double)used);
    for (size_t i = 0; i < KNEES; i++)
        g->knee[i] = geometric(KNEE_MIN, KNEE_MAX, i, KNEES);
    for (size_t i = 0; i < NOISES; i++)
        g->noise[i] = geometric(NOISE_MIN, NOISE_MAX, i, NOISES);
    for (size_t i = 0; i < CAPS; i++)
        g->cap[i] = top * geometric(CAP_MIN, CAP_MAX, i, CAPS);
    for (size_t i = 0; i < RATES; i++)
        g->rate[i] = middle * geometric(exp(-RATE_SPAN), exp(RATE_SPAN), i, RATES);
}

static double log_speed(double rate, double cap, double knee, double workers)
{
    /* The smaller of the two decides; the other rounds the corner. No power can overflow this way. */
    double a = log(workers * rate);
    double b = log(cap);
    double low = fmin(a, b);
    return low - log1p(exp(-knee * fabs(a - b))) / knee;
}

static void fill(struct grid *g, const struct leat_plan_series *s)
{
    size_t cell = 0;
    for (size_t p = 0; p < KNEES; p++) {
        for (size_t c = 0; c < CAPS; c++) {
            for (size_t r = 0; r < RATES; r++) {
                double sum = 0;
                for (size_t i = 0; i < s->count; i++) {
                    double d = log(s->speed[i]) - log_speed(g->rate[r], g->cap[c], g->knee[p], s->workers[i]);
                    sum += d * d;
                }
                g->squares[cell++] = (float)sum;
            }
        }
    }
    double least = HUGE_VAL;
    for (size_t i = 0; i < CELLS; i++)
        least = fmin(least, (double)g->squares[i]);
    for (size_t n = 0; n < NOISES; n++) {
        double k = 0.5 / (g->noise[n] * g->noise[n]);
        double sum = 0;
        for (size_t i = 0; i < CELLS; i++)
            sum += exp(-k * ((double)g->squares[i] - least));
        g->evidence[n] = log(sum / (double)CELLS) - k * least - (double)s->count * log(g->noise[n]);
    }
}

/* Systematic resampling: draw j stands at (j + ½)/DRAWS of the cumulated weights. Then shuffled, because the
 * grid's order would otherwise be correlated with whatever else is drawn beside it. */
static void draw(const struct grid *g, const double weight[NOISES], struct leat_plan_saturation *out)
{
    uint32_t place[LEAT_PLAN_SCALE_DRAWS];
    for (uint32_t i = 0; i < LEAT_PLAN_SCALE_DRAWS; i++)
        place[i] = i;
    leat_shuffle_u32(leat_key("plan scale", 0, 0, NULL, 0), 0, place, LEAT_PLAN_SCALE_DRAWS);
    size_t j = 0;
    double sum = 0;
    for (size_t n = 0; n < NOISES; n++) {
        double k = 0.5 / (g->noise[n] * g->noise[n]);
        double total = 0;
        for (size_t i = 0; i < CELLS; i++)
            total += exp(-k * (double)g->squares[i]);
        for (size_t i = 0; i < CELLS && total > 0; i++) {
            sum += weight[n] * exp(-k * (double)g->squares[i]) / total;
            while (j < LEAT_PLAN_SCALE_DRAWS && sum > ((double)j + 0.5) / LEAT_PLAN_SCALE_DRAWS - 1e-9) {
                uint32_t at = place[j++];
                out->rate[at] = g->rate[i % RATES];
                out->cap[at] = g->cap[i / RATES % CAPS];
                out->sharpness[at] = g->knee[i / RATES / CAPS];
                out->noise[at] = g->noise[n];
            }
        }
    }
}

leat_status leat_plan_saturation_fit(const struct leat_plan_series *series, size_t count,
                                     struct leat_plan_saturation *out, struct leat_error *err)
{
    double weight[NOISES] = {0};
    double best = -HUGE_VAL;
    double total = 0;
    struct grid *grids = calloc(count ? count : 1, sizeof *grids);
    if (!grids)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to fit %zu series of speeds", count);
    for (size_t s = 0; s < count; s++) {
        if (!series[s].count) {
            free(grids);
            return leat_fail(err, LEAT_INVALID, "a series of speeds without a measurement");
        }
        lay_out(&grids[s], &series[s]);
        fill(&grids[s], &series[s]);
        for (size_t n = 0; n < NOISES; n++)
            weight[n] += grids[s].evidence[n];
    }
    for (size_t n = 0; n < NOISES; n++)
        best = fmax(best, weight[n]);
    for (size_t n = 0; n < NOISES; n++)
        total += weight[n] = exp(weight[n] - best);
    for (size_t n = 0; n < NOISES; n++)
        weight[n] /= total;
    for (size_t s = 0; s < count; s++)
        draw(&grids[s], weight, &out[s]);
    free(grids);
    return LEAT_OK;
}

double leat_plan_saturation_speed(const struct leat_plan_saturation *s, size_t d, double workers)
{
    return exp(log_speed(s->rate[d], s->cap[d], s->sharpness[d], workers));
}

struct leat_plan_interval leat_plan_saturation_predict(const struct leat_plan_saturation *s, double workers,
                                                       double probability, double *spread)
{
    double plain[LEAT_PLAN_SCALE_DRAWS];
    double seen[LEAT_PLAN_SCALE_DRAWS];
    double sum = 0;
    double squares = 0;
    struct leat_rng rng = leat_rng(leat_key("plan scale", 1, 0, NULL, 0), 0);
    for (size_t i = 0; i < LEAT_PLAN_SCALE_DRAWS; i++) {
        double l = log_speed(s->rate[i], s->cap[i], s->sharpness[i], workers);
        plain[i] = exp(l);
        seen[i] = exp(l + s->noise[i] * leat_plan_normal(&rng));
        sum += l;
        squares += l * l;
    }
    leat_plan_sort(plain, LEAT_PLAN_SCALE_DRAWS);
    leat_plan_sort(seen, LEAT_PLAN_SCALE_DRAWS);
    if (spread) {
        double mean = sum / LEAT_PLAN_SCALE_DRAWS;
        *spread = sqrt(fmax(0, squares / LEAT_PLAN_SCALE_DRAWS - mean * mean));
    }
    return (struct leat_plan_interval){
        .mean = leat_plan_quantile(plain, LEAT_PLAN_SCALE_DRAWS, 0.5),
        .lo = leat_plan_quantile(seen, LEAT_PLAN_SCALE_DRAWS, 0.5 - probability / 2),
        .hi = leat_plan_quantile(seen, LEAT_PLAN_SCALE_DRAWS, 0.5 + probability / 2),
    };
}

double leat_plan_saturation_scatter(const struct leat_plan_saturation *s)
{
    double squares = 0;
    for (size_t i = 0; i < LEAT_PLAN_SCALE_DRAWS; i++)
        squares += s->noise[i] * s->noise[i] / LEAT_PLAN_SCALE_DRAWS;
    return sqrt(squares);
}

static double hop_s(const struct leat_plan_link *link, double bytes, unsigned members)
{
    if (members < 2)
        return 0;
    double m = members;
    return 2 * (m - 1) / m * bytes / link->bytes_per_s + 2 * (m - 1) * link->latency_s;
}

double leat_plan_allreduce_step(const struct leat_plan_allreduce *model, double compute_s, unsigned nodes,
                                unsigned gpus)
{
    if (nodes * gpus < 2)
        return compute_s;
    double buckets = ceil(fmax(1, model->gradient_bytes / model->bucket_bytes));
    double bytes = model->gradient_bytes / buckets;
    double bucket_s = hop_s(&model->inside, bytes, gpus) + hop_s(&model->network, bytes, nodes);
    /* Bucket i of k is ready at (1-b) + b·i/k of the compute time and leaves after its forerunners. The end is
     * a maximum over i of something linear in i: the first bucket or the last one decides. */
    double first = compute_s * (1 - model->backward_share + model->backward_share / buckets) + buckets * bucket_s;
    double last = compute_s + bucket_s;
    return fmax(first, last);
}

static double misfit(const struct leat_plan_allreduce *model, const struct leat_plan_scaling_row *rows, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double d =
            log(leat_plan_allreduce_step(model, rows[i].compute_s, rows[i].nodes, rows[i].gpus) / rows[i].step_s);
        sum += d * d;
    }
    return sum;
}

/* Down a logarithmic grid, then again around the best cell, four times: no derivative, no local trap at the
 * corner where communication begins to hide. Ties go to the lower bandwidth. */
static double fit_bandwidth(struct leat_plan_allreduce *model, struct leat_plan_link *link,
                            const struct leat_plan_scaling_row *rows, size_t count)
{
    double lo = 1e6;
    double hi = 1e13;
    double best = HUGE_VAL;
    double best_at = lo;
    for (int round = 0; round < 5; round++) {
        double step = pow(hi / lo, 1.0 / 100);
        for (int i = 0; i <= 100; i++) {
            double at = lo * pow(step, i);
            link->bytes_per_s = at;
            double m = misfit(model, rows, count);
            if (m < best - 1e-12) {
                best = m;
                best_at = at;
            }
        }
        lo = best_at / step;
        hi = best_at * step;
    }
    link->bytes_per_s = best_at;
    return best;
}

/* Latency counts for little in small clusters and for much in large ones: left free, it would take up the errors of
 * two small measurements and ruin the extrapolation. So it may leave the given one only as far as rows that are
 * right to 3 % insist, a factor of 3 being one standard deviation. */
#define LATENCIES     61
#define LATENCY_DOUBT 3.0
#define ROW_ERROR     0.03

leat_status leat_plan_allreduce_fit(struct leat_plan_allreduce *model, struct leat_plan_link *link,
                                    const struct leat_plan_scaling_row *rows, size_t count, double *error,
                                    struct leat_error *err)
{
    if (!count)
        return leat_fail(err, LEAT_INVALID, "no measured step of several GPUs to fit a link to");
    struct leat_plan_link best = *link;
    double least = HUGE_VAL;
    double squares = 0;
    double given = link->latency_s;
    for (size_t i = 0; i < LATENCIES; i++) {
        double factor = count > 1 && given > 0 ? geometric(1.0 / 30, 30, i, LATENCIES) : 1;
        link->latency_s = given * factor;
        double m = fit_bandwidth(model, link, rows, count);
        double doubt = log(factor) / log(LATENCY_DOUBT) * ROW_ERROR;
        if (m + doubt * doubt < least - 1e-12) {
            least = m + doubt * doubt;
            squares = m;
            best = *link;
        }
        if (factor == 1 && count == 1)
            break;
    }
    *link = best;
    *error = sqrt(squares / (double)count);
    return LEAT_OK;
}
