/* The planner's figures: published measurements predicted again, formulas against simulation, deadlines on traces,
 * speed. Prints tables; the last line is a JSON object with the figures that have an aim. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/unit/plan_figures.h"
#include "base/buf.h"
#include "base/clock.h"
#include "plan/checkpoint.h"
#include "plan/plan.h"
#include "plan/regress.h"
#include "plan/scale.h"
#include "sim/cluster.h"
#include "sim/trace.h"

static struct leat_buf summary;

static void result(const char *name, double value)
{
    leat_buf_printf(&summary, "%s\"%s\": %.6g", summary.len ? ", " : "{", name, value);
}

static void check(leat_status rc, const struct leat_error *err)
{
    if (rc == LEAT_OK)
        return;
    fprintf(stderr, "bench_plan: %s\n", err->text);
    exit(1);
}

static void daly(void)
{
    puts("Checkpoint interval, Daly, for a checkpoint of 5 min (published: 117, 57, 9.1 min)");
    for (size_t i = 0; i < 3; i++) {
        const double mtbf[] = {24 * 3600, 6 * 3600, 15 * 60};
        printf("  MTBF %7.2f h  %6.1f min\n", mtbf[i] / 3600, leat_plan_daly_s(300, mtbf[i]) / 60);
    }
}

static void costs(void)
{
    double worst[2] = {0};
    puts("\nICAC'19, dollars from durations and unit prices");
    puts("  cluster              hours    usd  priced   error");
    for (size_t i = 0; i < FIGURE_COSTS; i++) {
        const struct figure_cost *c = &figure_costs[i];
        double usd = c->hours * 3600 * (c->workers * c->usd_per_s + (c->workers > 1) * FIGURE_SERVER_USD_PER_S);
        double error = usd / c->usd - 1;
        worst[c->transient] = fmax(worst[c->transient], fabs(error));
        printf("  %u %-4s %-10s  %6.3f  %5.3f  %6.3f  %+5.1f %%\n", c->workers, c->gpu,
               c->transient ? "transient" : "on demand", c->hours, c->usd, usd, 100 * error);
    }
    printf(
        "  8 K80 against one: %.1f times faster (published 7.7); transient against on demand: %.1f %% cheaper (62.9)\n",
        figure_costs[0].hours / figure_costs[3].hours, 100 * (1 - figure_costs[6].usd / figure_costs[3].usd));
    result("cost_error_on_demand", worst[0]);
    result("cost_error_transient", worst[1]);
}

static void fit(const char *title, const double *x, const double *y, size_t columns, const char *name)
{
    struct leat_plan_fit f;
    struct leat_error err;
    double left_out[FIGURE_MODELS];
    unsigned held = 0;
    check(leat_plan_fit(x, y, FIGURE_MODELS, columns, &f, left_out, &err), &err);
    double width = exp(leat_plan_t_quantile(0.95, f.freedom) * log1p(f.spread));
    printf("\n%s: each model predicted from the fifteen others\n", title);
    puts("  model         measured  predicted   error  interval (9 of 10)");
    for (size_t i = 0; i < FIGURE_MODELS; i++) {
        held += y[i] >= left_out[i] / width && y[i] <= left_out[i] * width;
        printf("  %-12s  %8.4f  %9.4f  %+5.1f %%  [%.4f, %.4f]\n", figure_models[i].name, y[i], left_out[i],
               100 * (left_out[i] / y[i] - 1), left_out[i] / width, left_out[i] * width);
    }
    printf("  mean error %.2f %%, worst %.1f %%, %u of 16 in their interval\n", 100 * f.left_out_mean,
           100 * f.left_out_worst, held);
    result(name, f.left_out_mean);
}

static void models(void)
{
    double x[3 * FIGURE_MODELS];
    double y[FIGURE_MODELS];
    for (int p100 = 0; p100 < 2; p100++) {
        for (size_t i = 0; i < FIGURE_MODELS; i++) {
            x[3 * i] = figure_models[i].gflops * 1e9;
            x[3 * i + 1] = figure_models[i].parameters;
            x[3 * i + 2] = figure_models[i].tensors;
            y[i] = p100 ? figure_models[i].p100_s : figure_models[i].k80_s;
        }
        fit(p100 ? "Step time on P100 (s) from FLOPs, parameters, tensors"
                 : "Step time on K80 (s) from FLOPs, parameters, tensors",
            x, y, 3, p100 ? "step_error_p100" : "step_error_k80");
    }
    for (size_t i = 0; i < FIGURE_MODELS; i++) {
        x[i] = figure_models[i].checkpoint_mb * 1e6;
        y[i] = figure_models[i].checkpoint_s;
    }
    fit("Checkpoint time (s) from its size", x, y, 1, "checkpoint_error");
}

static void clusters(void)
{
    static const double counts[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct leat_plan_series series[FIGURE_CLUSTERS];
    struct leat_plan_saturation *s = calloc(FIGURE_CLUSTERS, sizeof *s);
    struct leat_error err;
    double error = 0;
    double plain = 0;
    unsigned held = 0;
    for (size_t i = 0; i < FIGURE_CLUSTERS; i++)
        series[i] = (struct leat_plan_series){counts, figure_clusters[i].speed, 4};
    check(leat_plan_saturation_fit(series, FIGURE_CLUSTERS, s, &err), &err);
    puts("\nSteps/s of asynchronous clusters (historical validation): 5 to 8 workers predicted from 1 to 4");
    puts("  model             GPU   workers  measured  predicted   error  interval (9 of 10)   plain sum");
    for (size_t i = 0; i < FIGURE_CLUSTERS; i++) {
        const double *y = figure_clusters[i].speed;
        for (size_t n = 4; n < 8; n++) {
            struct leat_plan_interval p = leat_plan_saturation_predict(&s[i], counts[n], 0.9, NULL);
            bool in = y[n] >= p.lo && y[n] <= p.hi;
            error += fabs(p.mean / y[n] - 1) / 32;
            plain += fabs(counts[n] * y[0] / y[n] - 1) / 32;
            held += in;
            printf("  %-16s  %-4s  %7g  %8.2f  %9.2f  %+5.1f %%  [%6.2f, %6.2f]%s  %8.2f (%+.0f %%)\n",
                   figure_clusters[i].model, figure_clusters[i].gpu, counts[n], y[n], p.mean, 100 * (p.mean / y[n] - 1),
                   p.lo, p.hi, in ? " " : "*", counts[n] * y[0], 100 * (counts[n] * y[0] / y[n] - 1));
        }
    }
    printf("  mean error %.1f %% (plain sum %.1f %%), %u of 32 in their interval (* not)\n", 100 * error, 100 * plain,
           held);
    result("cluster_error", error);
    result("cluster_error_plain_sum", plain);
    result("cluster_held", held / 32.0);
    free(s);
}

#define DRAWS 2000

static void draw(const struct leat_plan_run *run, uint64_t seed, size_t count, double *time_s, double *usd)
{
    struct leat_plan_luck *luck = NULL;
    struct leat_error err;
    check(leat_plan_luck_new(seed, count, &luck, &err), &err);
    check(leat_plan_run_draw(run, luck, time_s, usd, &err), &err);
    leat_plan_luck_free(luck);
}

static void simulated(void)
{
    static double time[DRAWS];
    static double usd[DRAWS];
    static const unsigned machines[] = {1, 4, 16};
    static const double hours[] = {2, 12, 50};
    double worst = 0;
    double least = 1;
    double most = 0;
    puts("\nFormula and interval against 10,000 simulated runs each (checkpoint 20 s, replacement 170 s, speed ± 5 %)");
    puts("  lifetimes         cluster      work  simulated   formula  interval (9 of 10)  holds  revoked");
    for (size_t f = 0; f < FIGURE_LIVES; f += 3) {
        for (size_t k = 0; k < 9; k++) {
            unsigned n = machines[k % 3];
            bool anchor = n > 1 && k / 3 == 1;
            double speed[17];
            const double age[] = {0, 3600, 86400};
            const double p[] = {0, figure_lives[f].day * figure_lives[f].first_hour, figure_lives[f].day};
            struct leat_plan_lifetime l;
            struct leat_error err;
            struct leat_plan_expected e;
            double sum = 0;
            double revoked = 0;
            double held = 0;
            check(leat_plan_lifetime_set(age, p, 3, true, "lifetimes", &l, &err), &err);
            for (unsigned i = 0; i <= n; i++)
                speed[i] = pow(i, 0.95);
            struct leat_plan_run run = {.work = hours[k / 3] * 3600 * speed[n],
                                        .anchors = anchor,
                                        .transients = n - anchor,
                                        .speed = speed,
                                        .speed_spread = 0.05,
                                        .rollback = !anchor,
                                        .checkpoint_s = 20,
                                        .interval_s = 1800,
                                        .start_s = 86,
                                        .start_spread = 0.1,
                                        .replace_s = 170,
                                        .regroup_s = anchor ? 20 : 0,
                                        .lifetime = &l,
                                        .usd_per_s = 1};
            if (!anchor)
                run.interval_s = leat_plan_run_interval_s(&run);
            leat_plan_run_expect(&run, &e);
            draw(&run, 1, DRAWS, time, usd);
            leat_plan_sort(time, DRAWS);
            double lo = leat_plan_quantile(time, DRAWS, 0.05);
            double hi = leat_plan_quantile(time, DRAWS, 0.95);
            for (unsigned i = 0; i < 10000; i++) {
                struct leat_sim_result r;
                leat_sim_cluster(&run, LEAT_SIM_EVEN, 7, i, &r);
                sum += r.time_s / 1e4;
                revoked += r.revocations / 1e4;
                held += (r.time_s >= lo && r.time_s <= hi) / 1e4;
            }
            worst = fmax(worst, fabs(e.time_s / sum - 1));
            least = fmin(least, held);
            most = fmax(most, held);
            printf("  %-4s %-11s  %2u %-9s %3g h  %7.2f h  %+5.2f %%  [%6.2f, %6.2f]  %5.1f %%  %7.2f\n",
                   figure_lives[f].gpu, figure_lives[f].region, n, anchor ? "mixed" : "transient", hours[k / 3],
                   sum / 3600, 100 * (e.time_s / sum - 1), lo / 3600, hi / 3600, 100 * held, revoked);
        }
    }
    printf("  worst formula %.2f %% off; intervals hold %.1f to %.1f %%\n", 100 * worst, 100 * least, 100 * most);
    result("formula_error_worst", worst);
    result("interval_held_least", least);
    result("interval_held_most", most);
}

/* Checkpoints at even distances against distances chosen by the machines' ages. */
static void hazard(void)
{
    puts("\nCheckpoints of 120 s by hazard instead of evenly: 8 transient machines, means of 10,000 simulated runs");
    puts("  lifetimes         work      evenly   by hazard");
    for (size_t f = 0; f < FIGURE_LIVES; f += 3) {
        for (double hours = 2; hours <= 32; hours *= 4) {
            double speed[9];
            double sum[2] = {0};
            const double age[] = {0, 3600, 86400};
            const double p[] = {0, figure_lives[f].day * figure_lives[f].first_hour, figure_lives[f].day};
            struct leat_plan_lifetime l;
            struct leat_error err;
            check(leat_plan_lifetime_set(age, p, 3, true, "lifetimes", &l, &err), &err);
            for (unsigned i = 0; i <= 8; i++)
                speed[i] = i;
            struct leat_plan_run run = {.work = hours * 3600 * 8,
                                        .transients = 8,
                                        .speed = speed,
                                        .rollback = true,
                                        .checkpoint_s = 120,
                                        .start_s = 86,
                                        .replace_s = 170,
                                        .lifetime = &l};
            run.interval_s = leat_plan_run_interval_s(&run);
            for (unsigned i = 0; i < 20000; i++) {
                struct leat_sim_result r;
                leat_sim_cluster(&run, i % 2 ? LEAT_SIM_BY_HAZARD : LEAT_SIM_EVEN, 3, i / 2, &r);
                sum[i % 2] += r.time_s / 1e4;
            }
            printf("  %-4s %-11s  %3g h  %7.2f h  %7.2f h  %+.1f %%\n", figure_lives[f].gpu, figure_lives[f].region,
                   hours, sum[0] / 3600, sum[1] / 3600, 100 * (sum[1] / sum[0] - 1));
        }
    }
}

/* Uniform progress, foresight, on demand. */
struct tally {
    double usd[3];
    unsigned kept;
    unsigned starts;
};

static void replay_all(const struct leat_plan_trace *t, double deadline_h, size_t stride, struct tally *out)
{
    /* Longer than a tick of a coarse trace a changeover cannot be. */
    const struct leat_plan_replay job = {.work_s = 24 * 3600,
                                         .deadline_s = deadline_h * 3600,
                                         .start_s = fmin(180, t->gap_s),
                                         .changeover_s = fmin(180, t->gap_s),
                                         .usd_per_s = 1.0 / 3600,
                                         .machines = 1};
    const struct leat_plan_market market = {.count = 1, .zone = {{t, 0.3 / 3600}}};
    for (size_t start = 0; start < t->count; start += stride) {
        struct leat_plan_replayed r;
        struct leat_error err;
        double best;
        leat_plan_replay(&market, start, LEAT_PLAN_UNIFORM, &job, &r);
        out->usd[0] += r.usd;
        out->kept += r.kept;
        check(leat_sim_clairvoyant(&market, start, &job, &best, &err), &err);
        out->usd[1] += best;
        leat_plan_replay(&market, start, LEAT_PLAN_ON_DEMAND, &job, &r);
        out->usd[2] += r.usd;
        out->starts++;
    }
}

static void print_tally(const char *what, double deadline_h, const struct tally *t)
{
    printf("  %-12s  %6g h  %3u/%-3u  %17.2f  %9.2f  %9.2f  %+10.1f %% (%+.0f %%)\n", what, deadline_h, t->kept,
           t->starts, t->usd[0] / t->starts, t->usd[1] / t->starts, t->usd[2] / t->starts,
           100 * (t->usd[0] / t->usd[1] - 1), 100 * (t->usd[2] / t->usd[1] - 1));
}

static void deadlines_head(void)
{
    puts("\nDeadlines on traces: 24 h of work, transient at 0.3 of the price, changeover 3 min");
    puts("  trace         deadline   kept      usd: uniform  foresight  on demand   above foresight (on demand)");
}

static void deadlines(void)
{
    static const struct leat_sim_weather weathers[] = {{12 * 3600, 3600, 0.3},
                                                       {6 * 3600, 7200, 0.4},
                                                       {3 * 3600, 3 * 3600, 0.4},
                                                       {3600, 1800, 0.2},
                                                       {2 * 3600, 6 * 3600, 0.3}};
    struct tally all = {0};
    deadlines_head();
    for (size_t w = 0; w < 5; w++) {
        for (double deadline = 30; deadline <= 48; deadline += 9) {
            struct tally one = {0};
            char what[32];
            for (uint64_t seed = 0; seed < 2; seed++) {
                struct leat_plan_trace t;
                struct leat_error err;
                check(leat_sim_trace(&weathers[w], 600, 14 * 144, seed, &t, &err), &err);
                replay_all(&t, deadline, 97, &one);
                leat_plan_trace_free(&t);
            }
            double share = weathers[w].up_mean_s / (weathers[w].up_mean_s + weathers[w].down_mean_s);
            snprintf(what, sizeof what, "%.0f %% up", 100 * share);
            print_tally(what, deadline, &one);
            for (size_t i = 0; i < 3; i++)
                all.usd[i] += one.usd[i];
            all.kept += one.kept;
            all.starts += one.starts;
        }
    }
    printf("  kept %u of %u; uniform progress %.1f %% above foresight, on demand %.0f %%\n", all.kept, all.starts,
           100 * (all.usd[0] / all.usd[1] - 1), 100 * (all.usd[2] / all.usd[1] - 1));
    result("deadlines_kept", (double)all.kept / all.starts);
    result("above_foresight", all.usd[0] / all.usd[1] - 1);
    result("on_demand_above_foresight", all.usd[2] / all.usd[1] - 1);
}

#define ZONES 9

/* One to nine independent zones, the same job. */
static void zones(void)
{
    static const struct leat_sim_weather weather = {3 * 3600, 4 * 3600, 0.4};
    struct leat_plan_trace t[ZONES];
    struct leat_error err;
    double usd[3] = {0}; /* all zones, the best by itself, on demand */
    double alone[ZONES] = {0};
    unsigned kept = 0;
    unsigned starts = 0;
    puts("\nUniform progress over nine independent zones (up 43 % of the time each): 48 h of work in 72 h, on demand 1 "
         "usd/h");
    for (size_t z = 0; z < ZONES; z++)
        check(leat_sim_trace(&weather, 600, 28 * 144, 500 + z, &t[z], &err), &err);
    struct leat_plan_replay job = {.work_s = 48 * 3600,
                                   .deadline_s = 72 * 3600,
                                   .start_s = 180,
                                   .changeover_s = 240,
                                   .piece_s = 1800,
                                   .usd_per_s = 1.0 / 3600,
                                   .machines = 1};
    struct leat_plan_market all = {.count = ZONES};
    for (size_t z = 0; z < ZONES; z++) {
        all.zone[z].trace = &t[z];
        all.zone[z].usd_per_s = (0.28 + 0.01 * (double)z) / 3600;
    }
    for (size_t start = 0; start < t[0].count; start++, starts++) {
        struct leat_plan_replayed r;
        leat_plan_replay(&all, start, LEAT_PLAN_UNIFORM, &job, &r);
        usd[0] += r.usd;
        kept += r.kept;
        for (size_t z = 0; z < ZONES; z++) {
            const struct leat_plan_market one = {.count = 1, .zone = {{&t[z], all.zone[z].usd_per_s}}};
            leat_plan_replay(&one, start, LEAT_PLAN_UNIFORM, &job, &r);
            alone[z] += r.usd;
        }
        leat_plan_replay(&all, start, LEAT_PLAN_ON_DEMAND, &job, &r);
        usd[2] += r.usd;
    }
    usd[1] = alone[0];
    for (size_t z = 0; z < ZONES; z++) {
        usd[1] = fmin(usd[1], alone[z]);
        leat_plan_trace_free(&t[z]);
    }
    printf("  nine zones %.2f usd, the best single zone %.2f, on demand %.2f; deadlines kept %u of %u\n",
           usd[0] / starts, usd[1] / starts, usd[2] / starts, kept, starts);
    result("zones_over_best_zone", usd[0] / usd[1]);
    result("zones_over_on_demand", usd[0] / usd[2]);
    result("zones_kept", (double)kept / starts);
}

/* Uniform progress over several types of machines in one zone each, of different speeds and prices. */
static void types(void)
{
    static const struct leat_sim_weather weather = {3 * 3600, 4 * 3600, 0.4};
    static const struct {
        double speed;
        double usd_per_h;
    } kinds[3] = {{1, 0.30}, {0.6, 0.20}, {1.5, 0.50}};
    struct leat_plan_trace t[3];
    struct leat_error err;
    double usd[2] = {0};
    double alone[3] = {0};
    unsigned kept = 0;
    unsigned starts = 0;
    puts("\nUniform progress over three types (0.6, 1 and 1.5 times as fast as on demand): 48 h of work in 72 h");
    for (size_t z = 0; z < 3; z++)
        check(leat_sim_trace(&weather, 600, 28 * 144, 900 + z, &t[z], &err), &err);
    const struct leat_plan_replay job = {.work_s = 48 * 3600,
                                         .deadline_s = 72 * 3600,
                                         .start_s = 180,
                                         .changeover_s = 240,
                                         .piece_s = 1800,
                                         .usd_per_s = 1.0 / 3600,
                                         .machines = 1};
    struct leat_plan_market all = {.count = 3};
    for (size_t z = 0; z < 3; z++) {
        all.zone[z].trace = &t[z];
        all.zone[z].usd_per_s = kinds[z].usd_per_h / 3600;
        all.zone[z].speed = kinds[z].speed;
    }
    for (size_t start = 0; start < t[0].count; start++, starts++) {
        struct leat_plan_replayed r;
        leat_plan_replay(&all, start, LEAT_PLAN_UNIFORM, &job, &r);
        usd[0] += r.usd;
        kept += r.kept;
        for (size_t z = 0; z < 3; z++) {
            struct leat_plan_market one = {.count = 1};
            one.zone[0].trace = &t[z];
            one.zone[0].usd_per_s = all.zone[z].usd_per_s;
            one.zone[0].speed = all.zone[z].speed;
            leat_plan_replay(&one, start, LEAT_PLAN_UNIFORM, &job, &r);
            alone[z] += r.usd;
            kept += r.kept;
        }
        leat_plan_replay(&all, start, LEAT_PLAN_ON_DEMAND, &job, &r);
        usd[1] += r.usd;
    }
    double best = fmin(alone[0], fmin(alone[1], alone[2]));
    printf("  three types %.2f usd, the best single type %.2f, on demand %.2f; deadlines kept %u of %u\n",
           usd[0] / starts, best / starts, usd[1] / starts, kept, 4 * starts);
    result("types_over_best_type", usd[0] / best);
    result("types_kept", kept / (4.0 * starts));
    for (size_t z = 0; z < 3; z++)
        leat_plan_trace_free(&t[z]);
}

/* The same on a trace somebody has. */
static void deadlines_of(const char *path)
{
    struct leat_buf text;
    struct leat_plan_trace t;
    struct leat_error err;
    char block[65536];
    size_t n;
    FILE *in = fopen(path, "r");
    if (!in) {
        perror(path);
        exit(1);
    }
    leat_buf_init(&text, 64 << 20);
    while ((n = fread(block, 1, sizeof block, in)) > 0)
        leat_buf_add(&text, block, n);
    fclose(in);
    check(leat_plan_trace_parse(path, text.data, text.len, &t, &err), &err);
    leat_buf_free(&text);
    for (double deadline = 30; deadline <= 48; deadline += 9) {
        struct tally one = {0};
        replay_all(&t, deadline, t.count / 50 + 1, &one);
        print_tally("given", deadline, &one);
    }
    leat_plan_trace_free(&t);
}

static void speed(void)
{
    struct leat_buf catalog;
    struct leat_buf lives;
    struct leat_error err;
    struct leat_plan *plan = NULL;
    size_t count;
    static const char job[] =
        "[job]\nsamples = 1281167\nepochs = 30\nbatch = 256\n[model]\nparameter_bytes = \"102MB\"\n"
        "[checkpoint]\ntime = \"4s\"\n[data]\ndataset = \"147GB\"\nprep_per_vcpu = 500\n[network]\n"
        "bandwidth = \"25Gbit/s\"\ninside_bandwidth = \"50GB/s\"\n"
        "[path.a]\nbandwidth = \"8Gbit/s\"\ncache = \"24GiB\"\n"
        "[path.b]\nbandwidth = \"8Gbit/s\"\ncache = \"200GB\"\nusd_per_disk_gb_month = 0.08\n";
    static const char speeds[] = "accelerator,batch,step_s\nA,256,0.7\nB,256,0.35\nC,256,1.4\n";
    leat_buf_init(&catalog, 1 << 20);
    leat_buf_init(&lives, 1 << 20);
    leat_buf_str(&catalog, "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,Price,SpotPrice,Region\n");
    leat_buf_str(&lives, "accelerator,region,age_h,probability,then\n");
    for (int i = 0; i < 442; i++) {
        double usd = 1 + 0.01 * i;
        leat_buf_printf(&catalog, "type%d,%c,%d,%d,%g,%g,region%d\n", i / 13, 'A' + i % 3, 1 << i % 4, 8 << i % 4,
                        usd * (1 << i % 4), 0.3 * usd * (1 << i % 4), i % 13);
    }
    for (int i = 0; i < 39; i++)
        leat_buf_printf(&lives, "%c,region%d,0,0,\n%c,region%d,1,%g,\n%c,region%d,24,%g,taken\n", 'A' + i / 13, i % 13,
                        'A' + i / 13, i % 13, 0.1 + 0.005 * i, 'A' + i / 13, i % 13, 0.3 + 0.01 * i);
    const struct leat_plan_catalog_file file = {"catalog", catalog.data, catalog.len, NULL};
    const struct leat_plan_text measures = {"speeds", speeds, strlen(speeds)};
    const struct leat_plan_text lifetimes = {"lives", lives.data, lives.len};
    const struct leat_plan_inputs in = {.job = {"job", job, strlen(job)},
                                        .catalogs = &file,
                                        .catalog_count = 1,
                                        .measurements = &measures,
                                        .measurement_count = 1,
                                        .revocations = &lifetimes,
                                        .revocation_count = 1};
    const struct leat_plan_options o = {.max_nodes = 8, .risk = 0.9, .seed = 1, .draws = 400};
    uint64_t began = leat_now_ns();
    clock_t used = clock();
    check(leat_plan_open(&in, &o, &plan, &err), &err);
    check(leat_plan_price(plan, &err), &err);
    leat_plan_choose_records(plan);
    double cpu = (double)(clock() - used) / CLOCKS_PER_SEC;
    double wall = (double)(leat_now_ns() - began) / 1e9;
    leat_plan_records(plan, &count);
    printf("\nSpeed: %zu configurations with intervals of 400 draws: %.2f s of one core (%.2f s by the clock)\n", count,
           cpu, wall);
    result("price_20000_cpu_s", cpu * 2e4 / (double)count);
    result("price_20000_wall_s", wall * 2e4 / (double)count);
    leat_plan_close(plan);
    leat_buf_free(&catalog);
    leat_buf_free(&lives);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"daly", daly},           {"costs", costs},   {"models", models},       {"clusters", clusters},
                 {"simulated", simulated}, {"hazard", hazard}, {"deadlines", deadlines}, {"zones", zones},
                 {"types", types},         {"speed", speed}};
    leat_buf_init(&summary, 10000);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!*only || strcmp(only, parts[i].name) == 0)
            parts[i].run();
    }
    if (argc > 2)
        deadlines_head();
    for (int i = 2; i < argc; i++)
        deadlines_of(argv[i]);
    printf("\n%s}\n", summary.len ? summary.data : "{");
    leat_buf_free(&summary);
    return 0;
}
