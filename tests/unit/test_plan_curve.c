#include "plan/curve.h"

#include <math.h>

#include "plan_figures.h"
#include "unit.h"

static const struct leat_plan_allreduce plain = {.bucket_bytes = LEAT_PLAN_BUCKET_BYTES,
                                                 .backward_share = LEAT_PLAN_BACKWARD_SHARE,
                                                 .inside = {50e9, 10e-6},
                                                 .network = {10e9, 30e-6}};

TEST(eight_and_sixteen_gpus_follow_from_one_and_four)
{
    double error = 0;
    unsigned held = 0;
    unsigned rows = 0;
    for (size_t i = 0; i < FIGURE_RINGS; i++) {
        const struct figure_ring *f = &figure_rings[i];
        double base = f->batch / f->speed[0];
        struct leat_plan_allreduce model = plain;
        const struct leat_plan_curve_row four = {1, 4, base, base, 4 * f->batch / f->speed[1]};
        struct leat_plan_curve curve;
        struct leat_error err;
        model.gradient_bytes = f->gradient_bytes;
        assert_ok(leat_plan_curve_fit(&model, false, &four, 1, &curve, &err), err);
        for (size_t k = 2; k < 4 && f->speed[k] > 0; k++) {
            const struct leat_plan_curve_row row = {1, (unsigned)figure_ring_gpus[k], base, base, 0};
            double spread;
            double said = row.gpus * f->batch / leat_plan_curve_step(&curve, &row, &spread);
            double width = exp(1.645 * spread);
            error += fabs(said / f->speed[k] - 1);
            held += f->speed[k] >= said / width && f->speed[k] <= said * width;
            rows++;
        }
    }
    assert_int_equal(rows, 66);
    assert_true(error / rows <= 0.035);
    assert_true(held >= 60);
}

/* With more clusters measured, the form that they follow wins. */
TEST(the_form_that_foretells_the_measured_clusters_gets_the_weight)
{
    for (int which = 0; which < 2; which++) {
        struct leat_plan_curve_row rows[4];
        struct leat_plan_curve curve;
        struct leat_error err;
        struct leat_plan_allreduce model = plain;
        model.gradient_bytes = NAN;
        for (unsigned i = 0; i < 4; i++) {
            unsigned n = 2u << i;
            double over = which ? 0.05 * log2(n) : 0.10 * 2 * (n - 1) / n;
            rows[i] = (struct leat_plan_curve_row){n, 8, 1, 0.9, 1 + over};
        }
        assert_ok(leat_plan_curve_fit(&model, true, rows, 4, &curve, &err), err);
        assert_true(curve.weight[LEAT_PLAN_FORM_BUCKETS] == 0);
        assert_true(curve.weight[which ? LEAT_PLAN_FORM_TREE : LEAT_PLAN_FORM_RING] > (which ? 0.5 : 0.4));
        const struct leat_plan_curve_row far = {64, 8, 1, 0.9, 0};
        double spread;
        double truth = which ? 1.3 : 1 + 0.2 * 63 / 64;
        assert_true(fabs(leat_plan_curve_step(&curve, &far, &spread) / truth - 1) < 0.05);
    }
}

TEST(a_curve_goes_through_what_was_measured)
{
    const struct leat_plan_curve_row rows[] = {{1, 2, 1, 1, 1.04}, {1, 2, 1, 1, 1.06}, {1, 8, 1, 1, 1.30}};
    struct leat_plan_curve curve;
    struct leat_error err;
    struct leat_plan_allreduce model = plain;
    model.gradient_bytes = 100e6;
    assert_ok(leat_plan_curve_fit(&model, false, rows, 3, &curve, &err), err);
    assert_int_equal(curve.count, 2);
    double near;
    double far;
    assert_true(fabs(leat_plan_curve_step(&curve, &rows[0], &near) - 1.05) < 1e-9);
    assert_true(fabs(leat_plan_curve_step(&curve, &rows[2], &near) - 1.30) < 1e-9);
    const struct leat_plan_curve_row big = {1, 64, 1, 1, 0};
    leat_plan_curve_step(&curve, &big, &far);
    assert_true(far > 3 * near);
    assert_fails(leat_plan_curve_fit(&model, false, rows, 0, &curve, &err), err, LEAT_INVALID, "0 measured clusters");
}
