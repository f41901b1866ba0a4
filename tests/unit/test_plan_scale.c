#include "plan/scale.h"

#include <math.h>

#include "base/random.h"
#include "plan_figures.h"
#include "unit.h"

static const double counts[8] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Fitted on 1–4 workers of all clusters together. */
static struct leat_plan_saturation *fit_published(void)
{
    struct leat_plan_series series[FIGURE_CLUSTERS];
    struct leat_error err;
    struct leat_plan_saturation *s = calloc(FIGURE_CLUSTERS, sizeof *s);
    for (size_t i = 0; i < FIGURE_CLUSTERS; i++)
        series[i] = (struct leat_plan_series){counts, figure_clusters[i].speed, 4};
    assert_ok(leat_plan_saturation_fit(series, FIGURE_CLUSTERS, s, &err), err);
    return s;
}

TEST(five_to_eight_workers_follow_from_one_to_four)
{
    struct leat_plan_saturation *s = fit_published();
    double error = 0;
    double plain = 0;
    unsigned held = 0;
    for (size_t i = 0; i < FIGURE_CLUSTERS; i++) {
        const double *y = figure_clusters[i].speed;
        for (size_t n = 4; n < 8; n++) {
            struct leat_plan_interval p = leat_plan_saturation_predict(&s[i], counts[n], 0.9, NULL);
            error += fabs(p.mean / y[n] - 1) / 32;
            plain += fabs(counts[n] * y[0] / y[n] - 1) / 32;
            held += y[n] >= p.lo && y[n] <= p.hi;
        }
    }
    assert_true(error <= 0.10);
    assert_true(plain > 0.3); /* what a plain sum would say */
    assert_in_range(held, 29, 32);
    free(s);
}

TEST(a_cluster_far_from_its_cap_grows_with_its_workers)
{
    double speed[8];
    struct leat_plan_saturation *s = malloc(sizeof *s);
    struct leat_error err;
    for (size_t i = 0; i < 8; i++)
        speed[i] = 10 * counts[i];
    const struct leat_plan_series series = {counts, speed, 8};
    assert_ok(leat_plan_saturation_fit(&series, 1, s, &err), err);
    double spread;
    struct leat_plan_interval p = leat_plan_saturation_predict(s, 8, 0.9, &spread);
    assert_true(fabs(p.mean - 80) < 2 && spread < 0.03);
    p = leat_plan_saturation_predict(s, 12, 0.9, &spread);
    assert_true(p.mean > 100 && p.mean <= 121 && p.lo < 115 && spread > 0.03);
    free(s);
}

TEST(a_saturated_cluster_stays_at_its_cap)
{
    const double speed[8] = {10, 20, 29, 34, 35, 35, 35, 35};
    struct leat_plan_saturation *s = malloc(sizeof *s);
    struct leat_error err;
    const struct leat_plan_series series = {counts, speed, 8};
    assert_ok(leat_plan_saturation_fit(&series, 1, s, &err), err);
    struct leat_plan_interval p = leat_plan_saturation_predict(s, 64, 0.9, NULL);
    assert_true(fabs(p.mean - 35) < 1.5 && p.hi < 40);
    for (size_t d = 0; d < LEAT_PLAN_SCALE_DRAWS; d += 50)
        assert_true(leat_plan_saturation_speed(s, d, 1000) <= s->cap[d] * (1 + 1e-9));
    free(s);
}

/* An all-reduce played out bucket by bucket: layers of uneven size, gradients in reverse order, one link. */
static double play(const struct leat_plan_allreduce *m, const double *share, size_t layers, double compute_s,
                   unsigned nodes, unsigned gpus)
{
    double link_free = 0;
    double filled = 0;
    double ready = compute_s * (1 - m->backward_share);
    for (size_t i = 0; i < layers; i++) {
        ready += compute_s * m->backward_share / (double)layers;
        filled += share[i] * m->gradient_bytes;
        if (filled < m->bucket_bytes && i + 1 < layers)
            continue;
        double bytes = filled;
        double hop = 0;
        if (gpus > 1)
            hop += 2.0 * (gpus - 1) / gpus * bytes / m->inside.bytes_per_s + 2.0 * (gpus - 1) * m->inside.latency_s;
        if (nodes > 1)
            hop +=
                2.0 * (nodes - 1) / nodes * bytes / m->network.bytes_per_s + 2.0 * (nodes - 1) * m->network.latency_s;
        link_free = fmax(link_free, ready) + hop;
        filled = 0;
    }
    return fmax(compute_s, link_free);
}

static void random_layers(struct leat_rng *rng, double *share, size_t layers)
{
    double total = 0;
    for (size_t i = 0; i < layers; i++)
        total += share[i] = 0.2 + leat_rng_unit(rng);
    for (size_t i = 0; i < layers; i++)
        share[i] /= total;
}

TEST(all_reduce_agrees_with_one_played_out_by_buckets)
{
    struct leat_rng rng = leat_rng(leat_key("test", 1, 0, NULL, 0), 0);
    double sum = 0;
    unsigned cases = 0;
    for (int i = 0; i < 500; i++) {
        double share[120];
        struct leat_plan_allreduce m = {
            .gradient_bytes = exp(log(20e6) + leat_rng_unit(&rng) * log(100)),
            .bucket_bytes = LEAT_PLAN_BUCKET_BYTES,
            .backward_share = LEAT_PLAN_BACKWARD_SHARE,
            .inside = {exp(log(5e9) + leat_rng_unit(&rng) * log(20)), 10e-6},
            .network = {exp(log(0.5e9) + leat_rng_unit(&rng) * log(20)), 30e-6},
        };
        random_layers(&rng, share, 120);
        for (unsigned nodes = 1; nodes <= 16; nodes *= 2) {
            double compute = 0.05 + leat_rng_unit(&rng);
            double played = play(&m, share, 120, compute, nodes, 4);
            double said = leat_plan_allreduce_step(&m, compute, nodes, 4);
            sum += fabs(said / played - 1);
            cases++;
            assert_true(fabs(said / played - 1) < 0.25);
        }
    }
    assert_true(sum / cases < 0.03);
}

TEST(links_are_found_from_measured_steps_and_predict_larger_clusters)
{
    struct leat_rng rng = leat_rng(leat_key("test", 2, 0, NULL, 0), 0);
    double worst = 0;
    for (int i = 0; i < 40; i++) {
        double share[80];
        double compute = 0.1 + 0.3 * leat_rng_unit(&rng);
        struct leat_plan_allreduce truth = {
            .gradient_bytes = 400e6,
            .bucket_bytes = LEAT_PLAN_BUCKET_BYTES,
            .backward_share = LEAT_PLAN_BACKWARD_SHARE,
            .inside = {20e9, 10e-6},
            .network = {0.8e9 + 2e9 * leat_rng_unit(&rng), 30e-6},
        };
        struct leat_plan_allreduce m = truth;
        struct leat_plan_scaling_row rows[2];
        struct leat_error err;
        double error;
        random_layers(&rng, share, 80);
        for (unsigned r = 0; r < 2; r++) {
            unsigned nodes = 2u << r;
            rows[r] = (struct leat_plan_scaling_row){nodes, 4, compute, play(&truth, share, 80, compute, nodes, 4)};
        }
        m.network = (struct leat_plan_link){0, 30e-6};
        assert_ok(leat_plan_allreduce_fit(&m, &m.network, rows, 2, &error, &err), err);
        for (unsigned nodes = 8; nodes <= 16; nodes *= 2) {
            double played = play(&truth, share, 80, compute, nodes, 4);
            worst = fmax(worst, fabs(leat_plan_allreduce_step(&m, compute, nodes, 4) / played - 1));
        }
    }
    assert_true(worst < 0.15);
}

TEST(hidden_communication_gives_the_least_bandwidth_that_hides_it)
{
    struct leat_plan_allreduce m = {.gradient_bytes = 10e6,
                                    .bucket_bytes = LEAT_PLAN_BUCKET_BYTES,
                                    .backward_share = LEAT_PLAN_BACKWARD_SHARE,
                                    .inside = {1e9, 0}};
    const struct leat_plan_scaling_row row = {1, 4, 1.0, 1.0};
    struct leat_error err;
    double error;
    assert_ok(leat_plan_allreduce_fit(&m, &m.inside, &row, 1, &error, &err), err);
    assert_true(error < 0.01 && isfinite(m.inside.bytes_per_s));
    assert_fails(leat_plan_allreduce_fit(&m, &m.inside, &row, 0, &error, &err), err, LEAT_INVALID, "no measured step");
}
