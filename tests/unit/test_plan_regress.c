#include "plan/regress.h"

#include <math.h>

#include "plan_figures.h"
#include "unit.h"

/* Leave-one-model-out mean error of the published step times for the given columns. */
static double step_error(bool p100, size_t columns, double *predicted)
{
    double x[FIGURE_MODELS * 3];
    double y[FIGURE_MODELS];
    struct leat_plan_fit fit;
    struct leat_error err;
    for (size_t i = 0; i < FIGURE_MODELS; i++) {
        const double all[3] = {figure_models[i].gflops * 1e9, figure_models[i].parameters, figure_models[i].tensors};
        memcpy(x + i * columns, all, columns * sizeof *x);
        y[i] = p100 ? figure_models[i].p100_s : figure_models[i].k80_s;
    }
    assert_ok(leat_plan_fit(x, y, FIGURE_MODELS, columns, &fit, predicted, &err), err);
    double sum = 0;
    for (size_t i = 0; i < FIGURE_MODELS; i++)
        sum += fabs(predicted[i] / y[i] - 1);
    assert_true(fabs(sum / FIGURE_MODELS - fit.left_out_mean) < 1e-12);
    return fit.left_out_mean;
}

TEST(step_times_of_models_left_out_are_predicted)
{
    double predicted[FIGURE_MODELS];
    assert_true(step_error(false, 3, predicted) <= 0.05);
    assert_true(step_error(true, 3, predicted) <= 0.07);
}

TEST(flops_alone_miss_what_the_tensors_say)
{
    double predicted[FIGURE_MODELS];
    assert_true(fabs(step_error(false, 1, predicted) - 0.19) < 0.01);
    assert_true(fabs(step_error(true, 1, predicted) - 0.23) < 0.01);
}

TEST(checkpoint_times_left_out_are_predicted_from_size)
{
    double x[FIGURE_MODELS];
    double y[FIGURE_MODELS];
    struct leat_plan_fit fit;
    struct leat_error err;
    for (size_t i = 0; i < FIGURE_MODELS; i++) {
        x[i] = figure_models[i].checkpoint_mb * 1e6;
        y[i] = figure_models[i].checkpoint_s;
    }
    assert_ok(leat_plan_fit(x, y, FIGURE_MODELS, 1, &fit, NULL, &err), err);
    assert_true(fit.left_out_mean <= 0.04);
    assert_true(fit.constant > 3 && fit.constant < 3.5);
}

TEST(intervals_hold_nine_of_ten_left_out_models)
{
    for (int p100 = 0; p100 < 2; p100++) {
        double predicted[FIGURE_MODELS];
        double x[FIGURE_MODELS * 3];
        double y[FIGURE_MODELS];
        struct leat_plan_fit fit;
        struct leat_error err;
        for (size_t i = 0; i < FIGURE_MODELS; i++) {
            x[3 * i] = figure_models[i].gflops * 1e9;
            x[3 * i + 1] = figure_models[i].parameters;
            x[3 * i + 2] = figure_models[i].tensors;
            y[i] = p100 ? figure_models[i].p100_s : figure_models[i].k80_s;
        }
        assert_ok(leat_plan_fit(x, y, FIGURE_MODELS, 3, &fit, predicted, &err), err);
        unsigned held = 0;
        struct leat_plan_interval first = leat_plan_fit_predict(&fit, x, 0.9);
        double width = first.hi / first.mean;
        for (size_t i = 0; i < FIGURE_MODELS; i++)
            held += y[i] >= predicted[i] / width && y[i] <= predicted[i] * width;
        assert_in_range(held, 14, 16);
    }
}

TEST(coefficients_are_found_again_and_never_negative)
{
    double x[20 * 2];
    double y[20];
    struct leat_plan_fit fit;
    struct leat_error err;
    for (size_t i = 0; i < 20; i++) {
        x[2 * i] = (double)(i * i) * 1e9;
        x[2 * i + 1] = (double)(i * 7 % 20);
        y[i] = 0.5 + 3e-10 * x[2 * i];
    }
    assert_ok(leat_plan_fit(x, y, 20, 2, &fit, NULL, &err), err);
    assert_true(fabs(fit.constant - 0.5) < 1e-6);
    assert_true(fabs(fit.slope[0] - 3e-10) < 1e-15);
    assert_true(fit.slope[1] >= 0 && fit.slope[1] < 1e-9);
    assert_true(fit.left_out_worst < 1e-6);
    for (size_t i = 0; i < 20; i++)
        y[i] = 30 - x[2 * i + 1]; /* falls: a time cannot have less than nothing a tensor */
    assert_ok(leat_plan_fit(x, y, 20, 2, &fit, NULL, &err), err);
    assert_true(fit.slope[0] >= 0 && fit.slope[1] == 0);
}

TEST(too_few_rows_are_refused)
{
    double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    double y[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct leat_plan_fit fit;
    struct leat_error err;
    assert_fails(leat_plan_fit(x, y, 3, 1, &fit, NULL, &err), err, LEAT_INVALID, "3 rows are too few");
    assert_ok(leat_plan_fit(x, y, 4, 1, &fit, NULL, &err), err);
    assert_fails(leat_plan_fit(x, y, 8, 7, &fit, NULL, &err), err, LEAT_INVALID, "6 at most");
}

TEST(columns_that_depend_on_each_other_do_no_harm)
{
    double x[16];
    double y[8];
    struct leat_plan_fit fit;
    struct leat_error err;
    for (size_t i = 0; i < 8; i++) {
        x[2 * i] = (double)i;
        x[2 * i + 1] = 3.0 * (double)i;
        y[i] = 1 + (double)i;
    }
    assert_ok(leat_plan_fit(x, y, 8, 2, &fit, NULL, &err), err);
    assert_true(fit.left_out_worst < 1e-6);
}

TEST(what_is_far_from_the_rows_is_known_to_be_far)
{
    /* 1 + x over x = 1 … 10, half a percent off in turn; the second column is not needed. */
    double x[20];
    double y[10];
    struct leat_plan_fit fit;
    struct leat_error err;
    size_t column;
    for (size_t i = 0; i < 10; i++) {
        x[2 * i] = (double)(i + 1);
        x[2 * i + 1] = 50 - (double)i;
        y[i] = (1 + x[2 * i]) * (i % 2 ? 1.005 : 0.995);
    }
    assert_ok(leat_plan_fit(x, y, 10, 2, &fit, NULL, &err), err);
    static const struct {
        double x[2];
        double beyond;
        size_t column;
    } row[] = {
        {{1, 50}, 1, 0}, {{10, 41}, 1, 0}, {{40, 41}, 4, 0}, {{10, 400}, 8, 1}, {{0.01, 45}, 2 / 1.01, 0},
    };
    double before = leat_plan_fit_spread(&fit, (const double[]){5, 45});
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double beyond = leat_plan_fit_beyond(&fit, row[i].x, &column);
        assert_true(fabs(beyond / row[i].beyond - 1) < 0.03);
        assert_true(beyond == 1 || column == row[i].column);
        double spread = leat_plan_fit_spread(&fit, row[i].x);
        assert_true(beyond == 1 ? spread < 2 * before : spread > LEAT_PLAN_FIT_DOUBLING * 0.9);
    }
    assert_true(leat_plan_fit_spread(&fit, x) > before); /* the smallest says most about the constant */
}
