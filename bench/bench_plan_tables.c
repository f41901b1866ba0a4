/* The planner against published tables that it was not set by: each family of models is predicted by what all others
 * teach. Prints tables; the last line is a JSON object with the figures that have an aim. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/plan_figures.h"
#include "base/buf.h"
#include "plan/curve.h"
#include "plan/engine.h"
#include "plan/survival.h"
#include "plan/toml.h"

static struct leat_buf summary;

static void result(const char *name, double value)
{
    leat_buf_printf(&summary, "%s\"%s\": %.6g", summary.len ? ", " : "{", name, value);
}

static void check(leat_status rc, const struct leat_error *err)
{
    if (rc == LEAT_OK)
        return;
    fprintf(stderr, "bench_plan_tables: %s\n", err->text);
    exit(1);
}

static bool same_family(const char *a, const char *b)
{
    size_t n = strcspn(a, " ");
    return strcspn(b, " ") == n && strncmp(a, b, n) == 0;
}

/* ---- all-reduce ---- */

static double line_speed(const double *y, double n)
{
    return y[0] + (y[1] - y[0]) / 3 * (n - 1);
}

/* Speed of `n` GPUs from those of 1 and 4, with these weights of the forms; NULL: the planner's own. */
static double ring_speed(const struct figure_ring *f, double n, const double *weight, double *spread)
{
    double base = f->batch / f->speed[0];
    const struct leat_plan_allreduce model = {.gradient_bytes = f->gradient_bytes,
                                              .bucket_bytes = LEAT_PLAN_BUCKET_BYTES,
                                              .backward_share = LEAT_PLAN_BACKWARD_SHARE,
                                              .inside = {150e9, 10e-6}};
    const struct leat_plan_curve_row four = {1, 4, base, base, 4 * f->batch / f->speed[1]};
    const struct leat_plan_curve_row row = {1, (unsigned)n, base, base, 0};
    struct leat_plan_curve curve;
    struct leat_error err;
    check(leat_plan_curve_fit(&model, false, &four, 1, &curve, &err), &err);
    if (weight)
        leat_plan_curve_reweigh(&curve, weight);
    return n * f->batch / leat_plan_curve_step(&curve, &row, spread);
}

/* Weights by the errors of each form alone in all tables but those of one family; NULL: all tables. */
static void weigh_forms(const char *without, double weight[LEAT_PLAN_FORMS])
{
    double total = 0;
    for (int form = 0; form < LEAT_PLAN_FORMS; form++) {
        double only[LEAT_PLAN_FORMS] = {0};
        double error = 0;
        unsigned rows = 0;
        only[form] = 1;
        for (size_t i = 0; i < FIGURE_RINGS; i++) {
            const struct figure_ring *f = &figure_rings[i];
            for (size_t k = 2; k < 4 && f->speed[k] > 0; k++) {
                double spread;
                if (without && same_family(f->name, without))
                    continue;
                error += fabs(log(ring_speed(f, figure_ring_gpus[k], only, &spread) / f->speed[k]));
                rows++;
            }
        }
        weight[form] = 1 / (error / rows) / (error / rows);
        total += weight[form];
    }
    for (int form = 0; form < LEAT_PLAN_FORMS; form++)
        weight[form] /= total;
}

static void rings(void)
{
    double error[5] = {0}; /* left out, line, constant efficiency, plain sum, and with the planner's own weights */
    double later = 0;      /* of families by which no weight was ever set before this table was made */
    unsigned held = 0;
    unsigned rows = 0;
    unsigned late = 0;
    double all[LEAT_PLAN_FORMS];
    puts("Speed of synchronous training on 8 and 16 GPUs, predicted from 1 and 4; forms weighed by the other families");
    puts(
        "  model                     GPUs   measured  predicted   error  interval (9 of 10)      line  constant  plain "
        "sum");
    for (size_t i = 0; i < FIGURE_RINGS; i++) {
        const struct figure_ring *f = &figure_rings[i];
        double weight[LEAT_PLAN_FORMS];
        weigh_forms(f->name, weight);
        for (size_t k = 2; k < 4 && f->speed[k] > 0; k++, rows++) {
            double n = figure_ring_gpus[k];
            double spread;
            double own_spread;
            const double said[5] = {ring_speed(f, n, weight, &spread), line_speed(f->speed, n), f->speed[1] / 4 * n,
                                    f->speed[0] * n, ring_speed(f, n, NULL, &own_spread)};
            double width = exp(1.645 * spread);
            bool in = f->speed[k] >= said[0] / width && f->speed[k] <= said[0] * width;
            held += in;
            for (int b = 0; b < 5; b++)
                error[b] += fabs(said[b] / f->speed[k] - 1);
            if (!same_family(f->name, "Transformer") && !same_family(f->name, "SSD")) {
                later += fabs(said[0] / f->speed[k] - 1);
                late++;
            }
            printf("  %-24s  %4g  %9.1f  %9.1f  %+5.1f %%  [%.4g, %.4g]%s  %+6.1f %%  %+6.1f %%  %+6.1f %%\n", f->name,
                   n, f->speed[k], said[0], 100 * (said[0] / f->speed[k] - 1), said[0] / width, said[0] * width,
                   in ? " " : "*", 100 * (said[1] / f->speed[k] - 1), 100 * (said[2] / f->speed[k] - 1),
                   100 * (said[3] / f->speed[k] - 1));
        }
    }
    printf(
        "  mean error %.1f %% (line %.1f, constant efficiency %.1f, plain sum %.1f %%), %u of %u in their interval\n",
        100 * error[0] / rows, 100 * error[1] / rows, 100 * error[2] / rows, 100 * error[3] / rows, held, rows);
    printf("  of the families other than Transformer and SSD alone: %.1f %% of %u rows; with the planner's weights "
           "%.1f %%\n",
           100 * later / late, late, 100 * error[4] / rows);
    weigh_forms(NULL, all);
    printf("  weights by all tables:");
    for (int form = 0; form < LEAT_PLAN_FORMS; form++)
        printf(" %s %.2f", leat_plan_form_name((enum leat_plan_form)form), all[form]);
    puts("");
    result("ring_error", error[0] / rows);
    result("ring_error_line", error[1] / rows);
    result("ring_error_constant", error[2] / rows);
    result("ring_error_plain_sum", error[3] / rows);
    result("ring_error_later_families", later / late);
    result("ring_held", (double)held / rows);
}

/* Nothing measured but one GPU: what the tables of the other families lose stands for this one. */
static void prior(void)
{
    double error = 0;
    double plain = 0;
    double mean = 0;
    unsigned held = 0;
    puts("\nSpeed on 8 GPUs from one GPU alone, by what the tables of other families lose");
    for (size_t i = 0; i < FIGURE_RINGS; i++) {
        double sum = 0;
        double squares = 0;
        double n = 0;
        double own = 8 * figure_rings[i].speed[0] / figure_rings[i].speed[2];
        for (size_t k = 0; k < FIGURE_RINGS; k++) {
            double over = log(8 * figure_rings[k].speed[0] / figure_rings[k].speed[2]);
            if (same_family(figure_rings[k].name, figure_rings[i].name))
                continue;
            sum += over;
            squares += over * over;
            n++;
        }
        double spread = sqrt((squares - sum * sum / n) / (n - 1)) * sqrt(1 + 1 / n);
        double said = exp(sum / n);
        held += fabs(log(said / own)) <= leat_plan_t_quantile(0.95, n - 1) * spread;
        error += fabs(own / said - 1) / (double)FIGURE_RINGS;
        plain += fabs(own - 1) / (double)FIGURE_RINGS;
        mean += log(own) / (double)FIGURE_RINGS;
    }
    printf("  mean error %.1f %% (plain sum %.1f %%), %u of %zu in their interval; on average %.1f %% are lost\n",
           100 * error, 100 * plain, held, FIGURE_RINGS, 100 * expm1(mean));
    result("prior_error", error);
    result("prior_error_plain_sum", plain);
    result("prior_held", held / (double)FIGURE_RINGS);
}

/* ---- other accelerators ---- */

/* The power of the ratio of peak rates that fits the pairs of all other families best. */
static double power_without(const char *family, double ratio)
{
    double sum = 0;
    double n = 0;
    for (size_t i = 0; i < FIGURE_TRANSFERS; i++) {
        if (strcmp(figure_transfers[i].family, family) == 0)
            continue;
        sum += log(figure_transfers[i].a100 / figure_transfers[i].v100);
        n++;
    }
    return sum / n / log(ratio);
}

/* What the planner itself says, from one measured V100. */
static double carried(const struct figure_transfer *f, double *spread)
{
    char text[200];
    static const char toml[] = "[job]\nbatch = 1\nsteps = 1\n[model]\nprecision = \"mixed\"\n";
    struct leat_plan_measures m = {0};
    struct leat_plan_notes notes = {0};
    struct leat_plan_doc *doc = NULL;
    struct leat_plan_job job;
    struct leat_plan_engine e;
    struct leat_error err;
    snprintf(text, sizeof text, "accelerator,batch,step_s\nV100,1,%.9g\n", 1 / f->v100);
    check(leat_plan_measures_csv("m", text, strlen(text), &m, &notes, &err), &err);
    check(leat_plan_toml_parse("job", toml, strlen(toml), &doc, &err), &err);
    check(leat_plan_job_read(doc, NULL, 0, &job, &err), &err);
    check(leat_plan_engine_make(&job, &m, NULL, "", f->to, &e, &err), &err);
    double speed = 1 / e.step_s;
    *spread = e.step_spread;
    leat_plan_engine_free(&e);
    leat_plan_measures_free(&m);
    leat_plan_doc_free(doc);
    return speed;
}

static void transfers(void)
{
    double error[4] = {0};
    unsigned held = 0;
    puts(
        "\nOne A100 from one V100, mixed precision: the ratio of peak rates to the power that the other families have");
    puts("  model             measured  carried over   error  interval (9 of 10)    FLOPs   memory alone   planner");
    for (size_t i = 0; i < FIGURE_TRANSFERS; i++) {
        const struct figure_transfer *f = &figure_transfers[i];
        struct leat_plan_accelerator from;
        struct leat_plan_accelerator to;
        double spread;
        leat_plan_hardware_accelerator(NULL, "V100", &from);
        leat_plan_hardware_accelerator(NULL, f->to, &to);
        double ratio = to.tensor_tflops / from.tensor_tflops;
        double own = carried(f, &spread);
        const double said[4] = {f->v100 * pow(ratio, power_without(f->family, ratio)), f->v100 * ratio,
                                f->v100 * to.memory_gb_per_s / from.memory_gb_per_s, own};
        double width = exp(1.645 * spread);
        bool in = f->a100 >= said[0] / width && f->a100 <= said[0] * width;
        held += in;
        for (int b = 0; b < 4; b++)
            error[b] += fabs(said[b] / f->a100 - 1) / FIGURE_TRANSFERS;
        printf("  %-16s  %8.4g  %12.4g  %+5.1f %%  [%.4g, %.4g]%s  %+6.1f %%  %+6.1f %%  %+6.1f %%\n", f->model,
               f->a100, said[0], 100 * (said[0] / f->a100 - 1), said[0] / width, said[0] * width, in ? " " : "*",
               100 * (said[1] / f->a100 - 1), 100 * (said[2] / f->a100 - 1), 100 * (said[3] / f->a100 - 1));
    }
    printf("  mean error %.1f %% (FLOPs alone %.1f, memory alone %.1f %%; the planner, whose power comes from all of "
           "them, %.1f %%), %u of %zu in their interval\n",
           100 * error[0], 100 * error[1], 100 * error[2], 100 * error[3], held, FIGURE_TRANSFERS);
    result("transfer_error", error[0]);
    result("transfer_error_flops", error[1]);
    result("transfer_error_memory", error[2]);
    result("transfer_held", held / (double)FIGURE_TRANSFERS);
}

/* ---- lifetimes ---- */

static double events_of(const struct figure_study *s)
{
    return s->taken ? s->taken : 0.5;
}

/* log(the other study's hazard / this one's) over the first day. */
static double hazard_ratio(const struct figure_study *s)
{
    return log(log1p(-s->day) / log1p(-events_of(s) / s->machines));
}

/* The drift between the studies that makes all pairs but one likeliest, beside the size of the samples. */
static double drift_without(size_t without)
{
    double best = 0;
    double most = -HUGE_VAL;
    for (double drift = 0.05; drift < 4; drift += 0.05) {
        double sum = 0;
        for (size_t i = 0; i < FIGURE_STUDIES; i++) {
            double variance = 1 / events_of(&figure_studies[i]) + drift * drift;
            double z = hazard_ratio(&figure_studies[i]);
            sum -= i == without ? 0 : log(variance) / 2 + z * z / variance / 2;
        }
        if (sum > most) {
            most = sum;
            best = drift;
        }
    }
    return best;
}

static void studies(void)
{
    double error = 0;
    double pooled_error = 0;
    double taken = 0;
    double machines = 0;
    unsigned held = 0;
    unsigned narrow = 0;
    for (size_t i = 0; i < FIGURE_STUDIES; i++) {
        taken += figure_studies[i].taken;
        machines += figure_studies[i].machines;
    }
    puts("\nTaken within a day: raw lives of one study (ICAC'19) against the shares of another (CM-DARE)");
    puts("  machines            seen    foretold  the other study  interval by sample size    with the drift of the "
         "other "
         "pairs");
    for (size_t i = 0; i < FIGURE_STUDIES; i++) {
        const struct figure_study *s = &figure_studies[i];
        double hazard = -log1p(-events_of(s) / s->machines);
        double other = -log1p(-s->day);
        double width[2] = {exp(1.645 / sqrt(events_of(s))),
                           exp(1.645 * hypot(1 / sqrt(events_of(s)), drift_without(i)))};
        bool in[2];
        for (int k = 0; k < 2; k++)
            in[k] = other >= hazard / width[k] && other <= hazard * width[k];
        narrow += in[0];
        held += in[1];
        error += fabs(-expm1(-hazard) - s->day) / FIGURE_STUDIES;
        pooled_error += fabs(taken / machines - s->day) / FIGURE_STUDIES;
        printf("  %-4s %-13s  %2u of %2u  %5.1f %%           %5.1f %%  [%5.1f, %5.1f %%]%s           [%5.1f, %5.1f "
               "%%]%s\n",
               s->gpu, s->region, s->taken, s->machines, -100 * expm1(-hazard), 100 * s->day,
               -100 * expm1(-hazard / width[0]), -100 * expm1(-hazard * width[0]), in[0] ? " " : "*",
               -100 * expm1(-hazard / width[1]), -100 * expm1(-hazard * width[1]), in[1] ? " " : "*");
    }
    printf("  mean error %.1f points (one share for all: %.1f); by sample size %u of %zu in their interval, with the "
           "drift %u; drift of all pairs %.2f\n",
           100 * error, 100 * pooled_error, narrow, FIGURE_STUDIES, held, drift_without(FIGURE_STUDIES));
    result("study_error", error);
    result("study_error_pooled", pooled_error);
    result("study_held_by_size", narrow / (double)FIGURE_STUDIES);
    result("study_held", held / (double)FIGURE_STUDIES);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"rings", rings}, {"prior", prior}, {"transfers", transfers}, {"studies", studies}};
    leat_buf_init(&summary, 10000);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!*only || strcmp(only, parts[i].name) == 0)
            parts[i].run();
    }
    printf("\n%s}\n", summary.len ? summary.data : "{");
    leat_buf_free(&summary);
    return 0;
}
