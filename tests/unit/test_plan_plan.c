#include "plan/plan.h"

#include <math.h>

#include "base/buf.h"
#include "leat/plan.h"
#include "plan/run.h"
#include "plan_figures.h"
#include "unit.h"

static struct leat_plan_text text_of(const char *name, const char *text)
{
    return (struct leat_plan_text){.name = name, .text = text, .n = strlen(text)};
}

/* Inputs by file, as most tests give them: one of each. */
struct texts {
    struct leat_plan_text job;
    struct leat_plan_text catalog;
    struct leat_plan_text measurements;
    struct leat_plan_text revocations;
    struct leat_plan_text traces;
    struct leat_plan_text trace_files[3];
    size_t trace_count;
    struct leat_plan_catalog_file file;
};

static struct leat_plan_inputs inputs_of(struct texts *t)
{
    t->file = (struct leat_plan_catalog_file){t->catalog.name, t->catalog.text, t->catalog.n, NULL};
    return (struct leat_plan_inputs){.job = t->job,
                                     .catalogs = &t->file,
                                     .catalog_count = t->catalog.text != NULL,
                                     .measurements = &t->measurements,
                                     .measurement_count = t->measurements.text != NULL,
                                     .revocations = &t->revocations,
                                     .revocation_count = t->revocations.text != NULL,
                                     .traces = t->traces,
                                     .trace_files = t->trace_files,
                                     .trace_count = t->trace_count};
}

static const struct leat_plan_options usual = {.max_nodes = 8, .risk = 0.9, .seed = 1, .draws = 400};

/* ---- ICAC'19 ---- */

static double priced(const struct figure_cost *c, double hours)
{
    const double speed[] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    double all[9];
    struct leat_plan_expected e;
    memcpy(all, speed, sizeof all);
    all[c->workers] = 1;
    struct leat_plan_run run = {.work = hours * 3600,
                                .anchors = c->workers,
                                .speed = all,
                                .interval_s = HUGE_VAL,
                                .usd_per_s = c->workers * c->usd_per_s + (c->workers > 1) * FIGURE_SERVER_USD_PER_S};
    leat_plan_run_expect(&run, &e);
    return e.usd;
}

TEST(dollars_follow_from_durations_and_unit_prices)
{
    for (size_t i = 0; i < FIGURE_COSTS; i++) {
        const struct figure_cost *c = &figure_costs[i];
        double usd = priced(c, c->hours);
        double limit = c->transient ? 0.03 : 0.01;
        if (c->transient && c->workers == 4 && strcmp(c->gpu, "K80") == 0) {
            /* The one row that durations × prices miss, by 5.6 %: workers taken in mid-run and not replaced were
             * not paid to its end. With linear scaling they did as many worker-seconds as an undisturbed run of
             * the on-demand duration, only the server was paid for longer: that comes within 3 %. */
            assert_true(fabs(usd / c->usd - 1.056) < 0.002);
            usd = 3600 * (4 * c->usd_per_s * figure_costs[2].hours + FIGURE_SERVER_USD_PER_S * c->hours);
        }
        if (fabs(usd / c->usd - 1) > limit)
            fail_msg("%u %s: %.3f usd, published %.3f", c->workers, c->gpu, usd, c->usd);
    }
}

TEST(costs_rank_as_published_and_the_headlines_hold)
{
    for (size_t i = 0; i < FIGURE_COSTS; i++) {
        for (size_t j = 0; j < FIGURE_COSTS; j++) {
            const struct figure_cost *a = &figure_costs[i];
            const struct figure_cost *b = &figure_costs[j];
            if (a->usd < b->usd)
                assert_true(priced(a, a->hours) < priced(b, b->hours));
        }
    }
    assert_true(fabs(figure_costs[0].hours / figure_costs[3].hours - 7.7) < 0.05);
    double saved =
        1 - priced(&figure_costs[6], figure_costs[6].hours) / priced(&figure_costs[3], figure_costs[3].hours);
    assert_true(fabs(saved - 0.629) < 0.002);
}

/* The same study planned from measured speeds alone: CM-DARE's for ResNet-32 (the V100's from
 * ICAC's durations less the start). */
static const char icac_job[] = "[job]\nname = \"resnet32\"\nsteps = 64000\nbatch = 128\nmode = \"async\"\n"
                               "[server]\nusd_per_hour = 0.14292\n[checkpoint]\ntime = \"3.4s\"\n"
                               "[accuracy]\nworkers = [1, 2, 4, 8]\npercent = [93.07, 91.90, 91.20, 88.40]\n";
static const char icac_catalog[] = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
                                   "k80,K80,1,0.722988,0.2556,us-east\np100,P100,1,,0.5508,us-east\n"
                                   "v100,V100,1,,0.8604,us-east\n";
static const char icac_lives[] = "accelerator,region,age_h,probability,then\n"
                                 "K80,us-east,0,0,\nK80,us-east,1,0.2162,\nK80,us-east,24,0.47,taken\n"
                                 "P100,us-east,0,0,\nP100,us-east,1,0.203,\nP100,us-east,24,0.70,taken\n"
                                 "V100,*,0,0,\nV100,*,1,0.2365,\nV100,*,24,0.43,taken\n";

static void icac_speeds(struct leat_buf *b)
{
    leat_buf_str(b, "accelerator,nodes,batch,steps_per_s\n");
    for (unsigned n = 0; n < 8; n++) {
        leat_buf_printf(b, "K80,%u,128,%g\n", n + 1, figure_clusters[2].speed[n]);
        leat_buf_printf(b, "P100,%u,128,%g\n", n + 1, figure_clusters[3].speed[n]);
    }
    leat_buf_printf(b, "V100,1,128,%g\nV100,4,128,%g\n", 64000 / (1.232 * 3600 - 86), 64000 / (0.433 * 3600 - 86));
}

static const struct leat_plan_record *find(const struct leat_plan *plan, const char *begins)
{
    size_t count;
    char name[LEAT_PLAN_NAME_SIZE];
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(leat_plan_record_name(plan, &r[i], name), begins, strlen(begins)) == 0)
            return &r[i];
    }
    fail_msg("no configuration %s", begins);
    return NULL;
}

static leat_status try_open(struct texts *in, const struct leat_plan_options *o, struct leat_plan **out,
                            struct leat_error *err)
{
    const struct leat_plan_inputs inputs = inputs_of(in);
    return leat_plan_open(&inputs, o, out, err);
}

static struct leat_plan *open_plan(struct texts *in, const struct leat_plan_options *o)
{
    struct leat_plan *plan = NULL;
    struct leat_error err;
    assert_ok(try_open(in, o, &plan, &err), err);
    assert_ok(leat_plan_price(plan, &err), err);
    return plan;
}

TEST(the_study_planned_from_speeds_has_the_published_order)
{
    struct leat_buf speeds;
    leat_buf_init(&speeds, 10000);
    icac_speeds(&speeds);
    struct texts in = {.job = text_of("job.toml", icac_job),
                       .catalog = text_of("catalog.csv", icac_catalog),
                       .measurements = text_of("speeds.csv", speeds.data),
                       .revocations = text_of("lives.csv", icac_lives)};
    struct leat_plan *plan = open_plan(&in, &usual);
    const struct leat_plan_record *r[FIGURE_COSTS];
    for (size_t i = 0; i < FIGURE_COSTS; i++) {
        char name[80];
        snprintf(name, sizeof name, "%c%s:%u:%s:", figure_costs[i].gpu[0] | 0x20, figure_costs[i].gpu + 1,
                 figure_costs[i].workers, figure_costs[i].transient ? "transient" : "on-demand");
        r[i] = find(plan, name);
        /* Two studies, two years: they still agree within a tenth. */
        assert_true(fabs(r[i]->time_s.mean / 3600 / figure_costs[i].hours - 1) < 0.10);
        assert_true(fabs(r[i]->usd.mean / figure_costs[i].usd - 1) < 0.10);
    }
    for (size_t i = 0; i < FIGURE_COSTS; i++) {
        for (size_t j = 0; j < FIGURE_COSTS; j++) {
            if (figure_costs[i].hours < figure_costs[j].hours)
                assert_true(r[i]->time_s.mean < r[j]->time_s.mean);
        }
    }
    assert_true(r[3]->accuracy == 88.40);
    leat_plan_close(plan);
    leat_buf_free(&speeds);
}

TEST(accuracy_limits_the_number_of_asynchronous_workers)
{
    struct leat_buf speeds;
    struct leat_plan_options o = usual;
    struct leat_error err;
    size_t count;
    leat_buf_init(&speeds, 10000);
    icac_speeds(&speeds);
    struct texts in = {.job = text_of("job.toml", icac_job),
                       .catalog = text_of("catalog.csv", icac_catalog),
                       .measurements = text_of("speeds.csv", speeds.data),
                       .revocations = text_of("lives.csv", icac_lives)};
    o.deadline_s = 4 * 3600;
    o.min_accuracy = 91;
    struct leat_plan *plan = open_plan(&in, &o);
    assert_true(leat_plan_choose_records(plan));
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    for (size_t i = 0; i < count; i++)
        assert_true(!r[i].meets || r[i].nodes <= 4);
    assert_true(r[0].accuracy >= 91);
    leat_plan_close(plan);
    o.min_accuracy = 95; /* more than any reaches: the nearest is the most accurate that is in time */
    plan = open_plan(&in, &o);
    assert_false(leat_plan_choose_records(plan));
    r = leat_plan_records(plan, &count);
    assert_true(r[0].chosen && r[0].accuracy == 93.07 && r[0].risk_time_s <= o.deadline_s);
    assert_non_null(strstr(r[0].why, "accuracy 93.07 %"));
    leat_plan_close(plan);
    in.job = text_of("job.toml", "job.batch = 128\njob.steps = 10\n");
    assert_fails(try_open(&in, &o, &plan, &err), err, LEAT_INVALID, "min_accuracy");
    leat_buf_free(&speeds);
}

/* ---- choosing ---- */

static const char job_text[] =
    "[job]\nsamples = 1_000_000\nepochs = 10\nbatch = 100\n[model]\nparameter_bytes = \"100MB\"\n"
    "[checkpoint]\ntime = \"5s\"\n[data]\ndataset = \"100GB\"\n[network]\n"
    "bandwidth = \"10Gbit/s\"\n[path.bucket]\nbandwidth = \"1Gbit/s\"\ncache = \"20GB\"\n"
    "usd_per_egress_gb = 0.02\n[path.disk]\nbandwidth = \"1Gbit/s\"\ncache = \"110GB\"\n"
    "usd_per_disk_gb_month = 0.1\n";
static const char catalog_text[] = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,Price,SpotPrice,Region\n"
                                   "small,A,1,8,1.0,0.3,us\nsmall,A,1,8,1.1,0.35,eu\nbig,B,1,16,4.0,1.2,us\n"
                                   "odd,C,1,16,4.0,1.2,us\n";
static const char speeds_text[] = "accelerator,batch,step_s\nA,100,0.2\nB,100,0.06\n";
static const char lives_text[] = "accelerator,region,age_h,probability\nA,*,0,0\nA,*,1,0.2\nA,*,24,0.6\n"
                                 "B,us,0,0\nB,us,1,0.2\nB,us,24,0.6\n";

static struct texts sample_inputs(void)
{
    return (struct texts){.job = text_of("job.toml", job_text),
                          .catalog = text_of("catalog.csv", catalog_text),
                          .measurements = text_of("speeds.csv", speeds_text),
                          .revocations = text_of("lives.csv", lives_text)};
}

TEST(the_front_holds_exactly_what_nothing_beats)
{
    struct texts in = sample_inputs();
    struct leat_plan *plan = open_plan(&in, &usual);
    size_t count;
    assert_true(leat_plan_choose_records(plan));
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    assert_true(count > 100 && r[0].chosen);
    for (size_t i = 0; i < count; i++) {
        bool beaten = false;
        for (size_t j = 0; j < count; j++)
            beaten |= r[j].time_s.mean < r[i].time_s.mean && r[j].usd.mean < r[i].usd.mean;
        if (r[i].front)
            assert_false(beaten);
        else
            assert_true(beaten || i == 0 || strstr(r[i].why, "as fast and") || strstr(r[i].why, "the same"));
        assert_true(r[i].time_s.lo <= r[i].time_s.hi && r[i].usd.lo <= r[i].usd.hi);
        assert_true(r[i].why[0] != '\0');
        if (i)
            assert_false(r[i].chosen);
    }
    leat_plan_close(plan);
}

TEST(the_cheapest_in_time_and_the_fastest_in_money_are_chosen)
{
    struct texts in = sample_inputs();
    struct leat_plan_options o = usual;
    size_t count;
    o.deadline_s = 3 * 3600;
    struct leat_plan *plan = open_plan(&in, &o);
    assert_true(leat_plan_choose_records(plan));
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    assert_true(r[0].chosen && r[0].risk_time_s <= o.deadline_s);
    for (size_t i = 1; i < count; i++)
        assert_true(r[i].risk_time_s > o.deadline_s || r[i].usd.mean >= r[0].usd.mean);
    leat_plan_close(plan);
    o.deadline_s = 0;
    o.budget_usd = 5;
    plan = open_plan(&in, &o);
    assert_true(leat_plan_choose_records(plan));
    r = leat_plan_records(plan, &count);
    assert_true(r[0].chosen && r[0].risk_usd <= o.budget_usd);
    for (size_t i = 1; i < count; i++)
        assert_true(r[i].risk_usd > o.budget_usd || r[i].time_s.mean >= r[0].time_s.mean);
    leat_plan_close(plan);
}

TEST(a_deadline_that_nothing_meets_gives_the_nearest)
{
    struct texts in = sample_inputs();
    struct leat_plan_options o = usual;
    size_t count;
    o.deadline_s = 60;
    struct leat_plan *plan = open_plan(&in, &o);
    assert_false(leat_plan_choose_records(plan));
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    assert_true(r[0].chosen && !r[0].meets && strstr(r[0].why, "nearest") != NULL);
    for (size_t i = 1; i < count; i++)
        assert_true(r[i].risk_time_s >= r[0].risk_time_s);
    leat_plan_close(plan);
}

TEST(counts_hold_the_powers_of_two_and_the_largest)
{
    static const unsigned counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 27};
    struct texts in = sample_inputs();
    struct leat_plan_options o = usual;
    o.max_nodes = 27;
    struct leat_plan *plan = open_plan(&in, &o);
    size_t count;
    size_t found = 0;
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(r[i].offer->type, "big") == 0 && r[i].kind == LEAT_PLAN_KIND_ON_DEMAND && r[i].path == 0)
            assert_true(found < COUNT(counts) && r[i].nodes == counts[found++]);
    }
    assert_int_equal(found, COUNT(counts));
    leat_plan_close(plan);
}

TEST(a_stricter_risk_never_shortens_the_quantile)
{
    struct texts in = sample_inputs();
    struct leat_plan_options o = usual;
    struct leat_plan *lax = open_plan(&in, &o);
    o.risk = 0.99;
    struct leat_plan *strict = open_plan(&in, &o);
    size_t count;
    size_t same;
    const struct leat_plan_record *a = leat_plan_records(lax, &count);
    const struct leat_plan_record *b = leat_plan_records(strict, &same);
    assert_int_equal(count, same);
    for (size_t i = 0; i < count; i++) {
        assert_true(b[i].risk_time_s >= a[i].risk_time_s);
        assert_true(b[i].time_s.mean == a[i].time_s.mean && b[i].time_s.lo == a[i].time_s.lo); /* the same seed */
    }
    leat_plan_close(lax);
    leat_plan_close(strict);
}

TEST(data_that_comes_too_slowly_is_a_stall_and_a_cache_cures_it)
{
    struct texts in = sample_inputs();
    struct leat_plan *plan = open_plan(&in, &usual);
    const struct leat_plan_record *bucket = find(plan, "big:1:on-demand:us:bucket");
    const struct leat_plan_record *disk = find(plan, "big:1:on-demand:us:disk");
    /* 1,667 samples/s of 100 kB want 167 MB/s; the link gives 125. First epoch 800 s instead of 600; later ones
     * fetch 81.07 GB of 100 (the window passes through) in 648.6 s, or nothing with the disk. */
    assert_true(fabs(bucket->stall_share - (1 - 6000 / (800 + 9 * 648.6))) < 0.001);
    assert_true(fabs(disk->stall_share - (1 - 6000.0 / 6200)) < 0.001);
    assert_true(find(plan, "small:1:on-demand:us:bucket")->stall_share == 0);
    leat_plan_close(plan);
}

static void assert_left_out(const struct leat_plan *plan, const char *reason)
{
    const struct leat_plan_notes *notes = leat_plan_left_out(plan);
    for (size_t i = 0; i < notes->count; i++) {
        if (strstr(notes->line[i], reason))
            return;
    }
    fail_msg("nothing is left out because of '%s'", reason);
}

TEST(what_cannot_be_priced_is_noted_with_what_is_missing)
{
    struct texts in = sample_inputs();
    struct leat_plan *plan = open_plan(&in, &usual);
    assert_left_out(plan, "nothing is known about the speed of C");
    leat_plan_close(plan);
    in.measurements = text_of("speeds.csv", "model,accelerator,batch,step_s\nmine,A,100,0.2\nyours,B,100,0.2\n");
    in.job = text_of("job.toml", "job.name = \"mine\"\njob.batch = 100\njob.steps = 1000\n");
    plan = open_plan(&in, &usual);
    assert_left_out(plan, "B was measured with 'yours' (speeds.csv line 3) and the job is called");
    leat_plan_close(plan);
    in = sample_inputs();
    in.revocations.text = NULL;
    plan = open_plan(&in, &usual);
    assert_left_out(plan, "no lifetimes (revocations) or trace (traces) of transient A");
    leat_plan_close(plan);
}

TEST(a_trace_on_which_a_run_never_ends_is_left_out)
{
    struct texts in = sample_inputs();
    in.revocations.text = NULL;
    in.traces = text_of("t.csv", "accelerator,region,file\nB,us,never.json\n");
    in.trace_files[0] = text_of("never.json", "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [0, 0, 0, 0]}");
    in.trace_count = 1;
    struct leat_plan *plan = open_plan(&in, &usual);
    size_t count;
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    for (size_t i = 0; i < count; i++)
        assert_true(r[i].usd.mean > 0.1 && r[i].kind == LEAT_PLAN_KIND_ON_DEMAND);
    assert_left_out(plan, "on the trace never.json, its runs do not end");
    leat_plan_close(plan);
}

TEST(a_network_step_says_nothing_while_the_inside_is_unknown)
{
    struct texts in = sample_inputs();
    in.catalog = text_of("c.csv", "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
                                  "one,A,1,1,,us\nfour,A,4,4,,us\n");
    in.measurements = text_of("m.csv", "accelerator,gpus,nodes,batch,step_s\nA,1,1,100,0.2\nA,4,2,100,0.3\n");
    struct leat_plan *plan = open_plan(&in, &usual);
    const struct leat_plan_record *r = find(plan, "one:2:on-demand");
    assert_true(r->time_s.mean > 0.4 * find(plan, "one:1:on-demand")->time_s.mean); /* by network.bandwidth */
    assert_left_out(plan, "a measured step of several GPUs of a machine");
    leat_plan_close(plan);
}

TEST(a_plan_without_its_inputs_asks_for_them_by_name)
{
    struct leat_plan *plan = NULL;
    struct leat_error err;
    struct texts in = sample_inputs();
    in.catalog.text = NULL;
    assert_fails(try_open(&in, &usual, &plan, &err), err, LEAT_INVALID, "a catalog is missing");
    in = sample_inputs();
    in.measurements.text = NULL;
    assert_fails(try_open(&in, &usual, &plan, &err), err, LEAT_INVALID, "measurements (a CSV)");
    in = sample_inputs();
    in.job.text = NULL;
    assert_fails(try_open(&in, &usual, &plan, &err), err, LEAT_INVALID, "job.batch is missing");
    in = sample_inputs();
    struct leat_plan_options o = usual;
    o.regions[0] = "mars,venus";
    o.region_count = 1;
    assert_ok(try_open(&in, &o, &plan, &err), err);
    assert_fails(leat_plan_price(plan, &err), err, LEAT_INVALID, "has nothing in 'mars'");
    leat_plan_close(plan);
    o.regions[0] = "us, venus";
    assert_ok(try_open(&in, &o, &plan, &err), err);
    assert_fails(leat_plan_price(plan, &err), err, LEAT_INVALID, "has nothing in 'venus'");
    leat_plan_close(plan);
    o.regions[0] = "eu, us";
    leat_plan_close(open_plan(&in, &o));
    o = usual;
    o.risk = 0.3;
    assert_fails(try_open(&in, &o, &plan, &err), err, LEAT_INVALID, "risk");
    o = usual;
    o.max_nodes = 0;
    assert_fails(try_open(&in, &o, &plan, &err), err, LEAT_INVALID, "max_nodes");
    o = usual;
    o.draws = 3;
    assert_fails(try_open(&in, &o, &plan, &err), err, LEAT_INVALID, "draws");
}

static bool after_two(void *user)
{
    return ++*(int *)user > 2;
}

TEST(pricing_ends_when_interrupted)
{
    struct texts in = sample_inputs();
    struct leat_plan_options o = usual;
    struct leat_plan *plan;
    struct leat_error err;
    int asked = 0;
    o.interrupted = after_two;
    o.user = &asked;
    assert_ok(try_open(&in, &o, &plan, &err), err);
    assert_fails(leat_plan_price(plan, &err), err, LEAT_CANCELLED, "interrupted");
    assert_int_equal(asked, 3);
    leat_plan_close(plan);
}

/* All terms "NAME: …" make the term "NAME", and that is the record's mean. */
static void adds_up(const struct leat_plan_terms *terms, const char *name, double mean)
{
    size_t n = strlen(name);
    double sum = 0;
    double total = 0;
    unsigned parts = 0;
    for (size_t i = 0; i < terms->count; i++) {
        const struct leat_plan_term *t = &terms->term[i];
        char text[LEAT_PLAN_TERM_SIZE];
        assert_true(t->label[0] && t->source[0] && *leat_plan_term_text(t, text));
        if (strncmp(t->label, name, n) != 0)
            continue;
        if (t->label[n] == ':') {
            double product = 1;
            for (unsigned f = 0; f < t->factors; f++)
                product *= t->factor[f].value;
            assert_true(!t->factors || fabs(product - t->value) <= 1e-9 * fabs(t->value));
            sum += t->value;
            parts++;
        } else if (!t->label[n]) {
            total = t->value;
        }
    }
    assert_true(parts >= 2 && fabs(sum - total) <= 1e-6 * total && fabs(total - mean) <= 1e-9 * mean);
}

TEST(an_explanation_adds_up)
{
    struct texts in = sample_inputs();
    struct leat_plan_options o = usual;
    in.traces = text_of("t.csv", "accelerator,region,file\nB,*,t.json\n");
    in.trace_files[0] = text_of("t.json", "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, 1, 1, 0, 1, 0, 0]}");
    in.trace_count = 1;
    o.deadline_s = 20000;
    struct leat_plan *plan = open_plan(&in, &o);
    struct leat_plan_terms *lines = malloc(sizeof *lines);
    struct leat_plan_record r;
    struct leat_error err;
    static const char *const names[] = {"small:1+3:mixed:us:disk", "small:2:on-demand:us:bucket",
                                        "big:3:transient:us:bucket", "big:3:uniform:us:bucket"};
    leat_plan_choose_records(plan);
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_ok(leat_plan_explain(plan, names[i], &r, lines, &err), err);
        adds_up(lines, "time", r.time_s.mean / 3600);
        adds_up(lines, "money", r.usd.mean);
    }
    assert_fails(leat_plan_explain(plan, "small", &r, lines, &err), err, LEAT_INVALID, "configurations begin with");
    assert_fails(leat_plan_explain(plan, "huge:1", &r, lines, &err), err, LEAT_NOT_FOUND, "no configuration is called");
    free(lines);
    leat_plan_close(plan);
}

TEST(the_same_request_has_the_same_answer)
{
    static const char request[] =
        "{\"job\": {\"name\": \"j\", \"text\": \"job.batch = 10\\njob.steps = 1000\"}, "
        "\"catalog\": {\"text\": \"InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\\n"
        "p,A,1,1,0.3,us\\n\"}, \"measurements\": {\"name\": \"m\", \"text\": \"accelerator,step_s\\nA,0.2\\n\"}, "
        "\"options\": {\"deadline\": \"1h\"}}";
    char *a = NULL;
    char *b = NULL;
    struct leat_error err;
    assert_ok(leat_plan_request(request, strlen(request), NULL, NULL, &a, &err), err);
    assert_ok(leat_plan_request(request, strlen(request), NULL, NULL, &b, &err), err);
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "\"config\": \"p:1:on-demand:us\""));
    free(a);
    free(b);
    assert_fails(leat_plan_request("{", 1, NULL, NULL, &a, &err), err, LEAT_INVALID, "request line 1");
    assert_fails(leat_plan_request("[]", 2, NULL, NULL, &a, &err), err, LEAT_INVALID, "not an object");
    assert_fails(leat_plan_request("{\"job\": 3}", 10, NULL, NULL, &a, &err), err, LEAT_INVALID,
                 "'job' must be an object");
    assert_fails(leat_plan_request("{\"options\": {\"deadline\": -1}}", 29, NULL, NULL, &a, &err), err, LEAT_INVALID,
                 "deadline");
}
