/* Everything a plan reads, and everything that may be wrong with it: named with file and line. */

#include <math.h>

#include "base/toml.h"
#include "plan/catalog.h"
#include "plan/job.h"
#include "plan/measure.h"
#include "plan/revoke.h"
#include "unit.h"

static leat_status read_job(const char *text, const struct leat_plan_setting *settings, size_t count,
                            struct leat_plan_job *job, struct leat_error *err)
{
    struct leat_doc *doc = NULL;
    leat_status rc = leat_toml_parse("job.toml", text, strlen(text), &doc, err);
    if (rc == LEAT_OK)
        rc = leat_plan_job_read(doc, settings, count, job, err);
    leat_doc_free(doc);
    return rc;
}

static const char small_job[] = "[job]\nsamples = 1000\nepochs = 3\nbatch = 10\n";

static void a_job_is_read_with_the_source_of_every_value(void **state)
{
    (void)state;
    struct leat_plan_job job;
    struct leat_error err;
    const struct leat_plan_setting set = {"job.batch", "20", "--batch"};
    char text[1000];
    snprintf(text, sizeof text, "%s%s", small_job,
             "[model]\nparameter_bytes = \"100MB\"\n[checkpoint]\ntime = \"2min\"\nbandwidth = \"1Gbit/s\"\n"
             "[path.a]\ncache = \"1GiB\"\n[path.b]\nusd_per_egress_gb = 0.09\n"
             "[accuracy]\nworkers = [1, 4]\npercent = [93.0, 91.0]\n");
    assert_ok(read_job(text, &set, 1, &job, &err), err);
    assert_true(leat_plan_job_work(&job) == 3000 && leat_plan_job_epochs(&job) == 3);
    assert_true(job.value[LEAT_KEY_BATCH] == 20);
    assert_string_equal(job.source[LEAT_KEY_BATCH], "--batch");
    assert_string_equal(job.source[LEAT_KEY_SAMPLES], "job.toml line 2");
    assert_string_equal(job.source[LEAT_KEY_REPLACE], "default");
    assert_string_equal(job.source[LEAT_KEY_FLOPS], "not given");
    assert_true(job.value[LEAT_KEY_PARAMETER_BYTES] == 100e6 && job.value[LEAT_KEY_CHECKPOINT_S] == 120);
    assert_true(job.value[LEAT_KEY_CHECKPOINT_RATE] == 125e6);
    assert_int_equal(job.paths, 2);
    assert_true(job.path[0].cache_bytes == 1 << 30 && job.path[1].usd_per_egress_gb == 0.09);
    assert_true(leat_plan_job_accuracy(&job, 2) == 92 && isnan(leat_plan_job_accuracy(&job, 8)));
    assert_false(leat_plan_job_has(&job, LEAT_KEY_FLOPS));
}

static void steps_from_a_flag_win_over_the_files_epochs(void **state)
{
    (void)state;
    struct leat_plan_job job;
    struct leat_error err;
    const struct leat_plan_setting set = {"job.steps", "7", "--steps"};
    assert_ok(read_job(small_job, &set, 1, &job, &err), err);
    assert_true(leat_plan_job_work(&job) == 70 && !leat_plan_job_has(&job, LEAT_KEY_EPOCHS));
}

static void wrong_jobs_are_refused_by_name_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        const char *says;
    } wrong[] = {
        {"[model]\nflops = 12.3\n", "job.toml line 6: model.flops: 12.3 is outside"},
        {"[model]\nflops = 12.3\n", "not 12.3 GFLOPs"},
        {"[model]\nflop = 1e9\n", "job.toml line 6: model.flop: no such setting"},
        {"[model]\nparameters = 1.5\n", "job.toml line 6: model.parameters: 1.5 is not a whole number"},
        {"[model]\nparameters = -5\n", "-5 is outside"},
        {"[checkpoint]\ntime = \"5GB\"\n", "job.toml line 6: checkpoint.time: '5GB' has no unit known here"},
        {"[checkpoint]\nbytes = \"5min\"\n", "checkpoint.bytes: '5min' has no unit known here"},
        {"[checkpoint]\nbandwidth = \"fast\"\n", "checkpoint.bandwidth: 'fast'"},
        {"[checkpoint]\ntime = true\n", "a number or a text with a unit"},
        {"[server]\nusd_per_hour = -1\n", "server.usd_per_hour: -1 is outside"},
        {"[server]\nusd_per_hour = \"3eur\"\n", "not in dollars"},
        {"[job.x]\ny = 1\n", "job.x.y: no such setting"},
        {"[data]\ndataset = \"1TB\"\n", "no [path.NAME]"},
        {"[data]\ndataset = 147\n[path.a]\ncache = 0\n", "data.dataset (job.toml line 6): 147 bytes for 1000 samples"},
        {"[path.a]\ncache = 24\n", "job.toml line 6: path.a.cache: 24 bytes are no cache (on each machine: 64GiB)"},
        {"[checkpoint]\nbytes = 205\n", "job.toml line 6: checkpoint.bytes: 205 is outside"},
        {"[path.a]\ncash = 1\n", "path.a.cash: not a setting of a data path"},
        {"[path]\na = 1\n", "not a setting of a data path"},
        {"[accuracy]\nworkers = [1, 2]\npercent = [90]\n", "differ in length"},
        {"[accuracy]\nworkers = [2, 1]\npercent = [90, 91]\n", "must rise"},
        {"[accuracy]\nworkers = [1, 2]\n", "both workers and percent"},
        {"[accuracy]\nworkers = 3\n", "an array"},
        {"[accuracy]\npercent = [101]\n", "item 1 is not a number from 0 to 100"},
    };
    struct leat_plan_job job;
    struct leat_error err;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char text[1000];
        snprintf(text, sizeof text, "%s%s", small_job, wrong[i].more);
        assert_fails(read_job(text, NULL, 0, &job, &err), err, LEAT_INVALID, wrong[i].says);
    }
    assert_fails(read_job("", NULL, 0, &job, &err), err, LEAT_INVALID, "job.batch is missing");
    assert_fails(read_job("job.batch = 1", NULL, 0, &job, &err), err, LEAT_INVALID, "job.steps");
    assert_fails(read_job("job.batch = 1\njob.epochs = 2", NULL, 0, &job, &err), err, LEAT_INVALID,
                 "job.samples is missing");
    assert_fails(read_job("job.batch = 1\njob.epochs = 2\njob.steps = 5", NULL, 0, &job, &err), err, LEAT_INVALID,
                 "both given");
    assert_fails(read_job("job.mode = \"sync\"", NULL, 0, &job, &err), err, LEAT_INVALID,
                 "neither allreduce nor async");
    const struct leat_plan_setting both[] = {{"job.steps", "7", "--steps"}, {"job.epochs", "7", "--epochs"}};
    assert_fails(read_job(small_job, both, 2, &job, &err), err, LEAT_INVALID, "both given");
    const struct leat_plan_setting set = {"job.samples", "many", "--samples"};
    assert_fails(read_job(small_job, &set, 1, &job, &err), err, LEAT_INVALID, "--samples: 'many'");
}

#define HEADER                                                                                                         \
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"

static leat_status read_catalog(const char *text, struct leat_plan_catalog *c, struct leat_plan_notes *notes,
                                struct leat_error *err)
{
    *notes = (struct leat_plan_notes){0};
    return leat_plan_catalog_parse("c.csv", text, strlen(text), "2026-11-01", "2026-11-15", c, notes, err);
}

static void a_catalog_keeps_the_cheapest_zone_of_each_region(void **state)
{
    (void)state;
    struct leat_plan_catalog c;
    struct leat_plan_notes notes;
    struct leat_error err;
    assert_ok(read_catalog(HEADER "m5,,,4,16,,0.2,0.1,us,us-a\n"
                                  "p3,V100,1,8,61,\"{'Gpus': [{'Name': 'V100'}]}\",3.06,0.95,us,us-a\n"
                                  "p3,V100,1,8,61,,3.06,0.92,us,us-b\n"
                                  "p3,V100,1,8,61,,3.30,,eu,eu-a\n"
                                  "p9,V200,8.0,,,,,7.5,eu,eu-a\n",
                           &c, &notes, &err),
              err);
    assert_int_equal(c.count, 3);
    assert_string_equal(c.offer[0].region, "eu");
    assert_true(isnan(c.offer[0].usd_per_hour[1]) && c.offer[0].usd_per_hour[0] == 3.30);
    assert_true(c.offer[1].usd_per_hour[1] == 0.92 && c.offer[1].vcpus == 8);
    assert_true(c.offer[1].price_line[0] == 3 && c.offer[1].price_line[1] == 4);
    assert_true(isnan(c.offer[2].usd_per_hour[0]) && c.offer[2].gpus == 8 && isnan(c.offer[2].vcpus));
    assert_int_equal(notes.count, 0);
    leat_plan_catalog_free(&c);
    assert_ok(read_catalog("Region,SpotPrice,Price,AcceleratorCount,AcceleratorName,InstanceType\nus,0.9,3,1,V100,p3\n",
                           &c, &notes, &err),
              err);
    assert_string_equal(c.offer[0].type, "p3");
    leat_plan_catalog_free(&c);
}

static void wrong_catalogs_are_refused_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"", "c.csv is empty"},
        {"InstanceType,Price\n", "c.csv line 1: there is no column 'AcceleratorName'"},
        {HEADER, "no machine with a GPU"},
        {HEADER "p3,V100,1,8,61,,-3,1,us,a\n", "c.csv line 2: Price is -3"},
        {HEADER "p3,V100,1,8,61,,3,0,us,a\n", "c.csv line 2: SpotPrice is 0"},
        {HEADER "p3,V100,1,8,61,,nan,1,us,a\n", "c.csv line 2: Price: 'nan' is not a number"},
        {HEADER "p3,V100,1,8,61,,3usd,1,us,a\n", "c.csv line 2: Price: '3usd'"},
        {HEADER "\np3,V100,half,8,61,,3,1,us,a\n", "c.csv line 3: AcceleratorCount: 'half'"},
        {HEADER "p3,V100,0,8,61,,3,1,us,a\n", "AcceleratorCount is 0"},
        {HEADER "p3,V100,1,-8,61,,3,1,us,a\n", "c.csv line 2: vCPUs is -8"},
        {HEADER "p3,V100,1,0,61,,3,1,us,a\n", "c.csv line 2: vCPUs is 0"},
        {HEADER ",V100,1,8,61,,3,1,us,a\n", "no machine with a GPU and a price"},
        {HEADER "p3,V100,1,8,61,,3,1,,a\n", "Region is missing"},
        {"# date: yesterday\n" HEADER, "c.csv line 1: 'yesterday' is not a date"},
        {"# date: 2026-02-30\n" HEADER, "c.csv line 1: '2026-02-30' is not a date"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_catalog c;
        struct leat_plan_notes notes;
        struct leat_error err;
        assert_fails(read_catalog(wrong[i].text, &c, &notes, &err), err, LEAT_INVALID, wrong[i].says);
    }
}

static void old_prices_missing_ones_and_unknown_columns_are_noted(void **state)
{
    (void)state;
    static const char row[] = HEADER "p3,V100,1,8,61,,3,1,us,a\n";
    struct leat_plan_catalog c;
    struct leat_plan_notes notes = {0};
    struct leat_error err;
    assert_ok(leat_plan_catalog_parse("c.csv", row, strlen(row), "2026-08-16", "2026-11-15", &c, &notes, &err), err);
    assert_int_equal(notes.count, 1);
    assert_true(strstr(notes.line[0], "c.csv: prices of 2026-08-16 are 91 days old") != NULL);
    notes = (struct leat_plan_notes){0};
    leat_plan_catalog_free(&c);
    assert_ok(leat_plan_catalog_parse("c.csv", row, strlen(row), "2026-08-17", "2026-11-15", &c, &notes, &err), err);
    assert_int_equal(notes.count, 0);
    leat_plan_catalog_free(&c);
    assert_ok(read_catalog("# date: 2020-01-01\nColour,Price,Region,InstanceType,AcceleratorName,AcceleratorCount\n"
                           "red,3,us,p3,V100,1\nred,,us,p4,V100,1\nred,3,us,p5,V100,0.5\nred,3,us,p6,V100,0.25\n"
                           "red,3,us,,V100,1\n",
                           &c, &notes, &err),
              err);
    assert_int_equal(notes.count, 5);
    assert_int_equal(c.count, 1);
    assert_true(strstr(notes.line[0], "2020-01-01") != NULL); /* the file's own date wins */
    assert_true(strstr(notes.line[1], "c.csv line 2: column 'Colour' is not known") != NULL);
    assert_true(strstr(notes.line[2], "c.csv line 7: an accelerator without an InstanceType") != NULL);
    assert_true(strstr(notes.line[3], "c.csv line 5 and 1 more: a part of a GPU") != NULL);
    assert_true(strstr(notes.line[4], "c.csv line 4: no price") != NULL);
    leat_plan_catalog_free(&c);
}

static void a_type_with_two_kinds_of_gpus_is_noted(void **state)
{
    (void)state;
    struct leat_plan_catalog c;
    struct leat_plan_notes notes;
    struct leat_error err;
    assert_ok(read_catalog(HEADER "p3,V100,1,8,61,,3,1,us,a\np3,V100,4,8,61,,2,1,us,b\np3,K80,1,8,61,,2,1,us,c\n", &c,
                           &notes, &err),
              err);
    assert_int_equal(c.count, 1);
    assert_true(c.offer[0].gpus == 1 && c.offer[0].usd_per_hour[0] == 3);
    assert_int_equal(notes.count, 1);
    assert_true(strstr(notes.line[0], "c.csv line 3 and 1 more: other GPUs than an earlier row") != NULL);
    leat_plan_catalog_free(&c);
}

static void a_date_is_found_however_it_is_written(void **state)
{
    (void)state;
    static const char *const first[] = {"# date: 2020-01-01\n", "#date:2020-01-01\n", "# Date 2020-01-01 at noon\n"};
    for (size_t i = 0; i < COUNT(first); i++) {
        struct leat_plan_catalog c;
        struct leat_plan_notes notes;
        struct leat_error err;
        char text[500];
        snprintf(text, sizeof text, "%s%s", first[i], HEADER "p3,V100,1,8,61,,3,1,us,a\n");
        assert_ok(read_catalog(text, &c, &notes, &err), err);
        assert_int_equal(notes.count, 1);
        assert_true(strstr(notes.line[0], "prices of 2020-01-01 are") != NULL);
        leat_plan_catalog_free(&c);
    }
}

static void days_are_counted_over_leap_years(void **state)
{
    (void)state;
    assert_int_equal(leat_plan_days("2024-03-01") - leat_plan_days("2024-02-28"), 2);
    assert_int_equal(leat_plan_days("2023-03-01") - leat_plan_days("2023-02-28"), 1);
    assert_int_equal(leat_plan_days("2100-03-01") - leat_plan_days("2100-02-28"), 1);
    assert_int_equal(leat_plan_days("2026-01-01") - leat_plan_days("2025-12-31"), 1);
    assert_int_equal(leat_plan_days("2026-01-01") - leat_plan_days("1970-01-01"), 20454);
    assert_true(leat_plan_days("2024-02-29") > 0 && leat_plan_days("2100-02-29") < 0);
    assert_true(leat_plan_days("2026-07-31") > 0 && leat_plan_days("2026-08-31") > 0 &&
                leat_plan_days("2026-09-31") < 0);
    assert_true(leat_plan_days("2026-1-1") < 0 && leat_plan_days("2026-13-01") < 0 && leat_plan_days("20x6-01-01") < 0);
}

static leat_status read_measures(const char *text, struct leat_plan_measures *m, struct leat_plan_notes *notes,
                                 struct leat_error *err)
{
    *m = (struct leat_plan_measures){0};
    *notes = (struct leat_plan_notes){0};
    return leat_plan_measures_csv("m.csv", text, strlen(text), m, notes, err);
}

static void speeds_given_in_any_way_mean_the_same(void **state)
{
    (void)state;
    struct leat_plan_measures m;
    struct leat_plan_notes notes;
    struct leat_error err;
    assert_ok(read_measures("accelerator,gpus,nodes,batch,step_s,steps_per_s,samples_per_s,colour\n"
                            "V100,1,1,100,0.5,,,red\nV100,,,100,,2,,\nV100,4,2,100,,,1600,\nV100,1,4,100,,8,,\n",
                            &m, &notes, &err),
              err);
    assert_int_equal(m.count, 4);
    assert_true(m.row[0].samples_per_s == 200 && m.row[1].step_s == 0.5 && m.row[1].samples_per_s == 200);
    assert_true(m.row[2].step_s == 0.5 && m.row[3].samples_per_s == 800);
    assert_int_equal(notes.count, 1);
    assert_true(strstr(notes.line[0], "m.csv line 1: column 'colour'") != NULL);
    leat_plan_measures_free(&m);
}

static void wrong_measurements_are_refused_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"accelerator,step_s\n", "no line of measurements"},
        {"accelerator,step_s\nV100,-1\n", "m.csv line 2: step_s is -1"},
        {"accelerator,step_s\nV100,fast\n", "m.csv line 2: step_s: 'fast'"},
        {"accelerator,step_s\nV100,inf\n", "m.csv line 2: step_s: 'inf'"},
        {"accelerator,flops_per_step\nV100,0.631\n", "plain FLOPs: 0.631e9"},
        {"accelerator,checkpoint_bytes\nV100,6.27\n", "bytes, not megabytes"},
        {"accelerator,steps_per_s\nV100,3\n", "steps_per_s without batch"},
        {"accelerator,gpus\nV100,0\n", "gpus is 0"},
        {"accelerator,gpus\nV100,1.5\n", "m.csv line 2: gpus or nodes is not a whole number"},
        {"accelerator,batch,step_s,samples_per_s\nV100,100,0.5,2000\n", "m.csv line 2: step_s says 200 samples/s"},
        {"accelerator,batch,steps_per_s,samples_per_s\nV100,100,2,2000\n", "m.csv line 2: steps_per_s times batch"},
        {"accelerator,gpus,batch,step_s\nV100,1,100,0.5\nK80,1,100,900\nV100,4,100,550\n",
         "m.csv line 4: a step of 550 s, and one of 0.5 s on line 2: is one in another unit?"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_measures m;
        struct leat_plan_notes notes;
        struct leat_error err;
        assert_fails(read_measures(wrong[i].text, &m, &notes, &err), err, LEAT_INVALID, wrong[i].says);
        leat_plan_measures_free(&m);
    }
}

static leat_status read_report(const char *text, struct leat_plan_job *job, struct leat_plan_measures *m,
                               struct leat_error *err)
{
    *m = (struct leat_plan_measures){0};
    return leat_plan_measures_report("report.json", text, strlen(text), job, m, err);
}

static void a_report_gives_compute_interconnect_and_network(void **state)
{
    (void)state;
    struct leat_plan_measures m;
    struct leat_plan_job job;
    struct leat_error err;
    assert_ok(read_job(small_job, NULL, 0, &job, &err), err);
    assert_ok(
        read_report("{\"accelerator\": \"V100\", \"gpus\": 4, \"nodes\": 2, \"batch\": 64, \"prep_per_vcpu\": 500,"
                    "\"step_s\": {\"compute\": 0.2, \"interconnect\": 0.05, \"network\": 0.15}}",
                    &job, &m, &err),
        err);
    assert_int_equal(m.count, 3);
    assert_true(m.row[0].step_s == 0.2 && fabs(m.row[1].step_s - 0.25) < 1e-12 && fabs(m.row[2].step_s - 0.4) < 1e-12);
    assert_true(m.row[2].nodes == 2 && m.row[2].gpus == 4 && job.value[LEAT_KEY_PREP_RATE] == 500);
    assert_string_equal(job.source[LEAT_KEY_PREP_RATE], "report.json");
    leat_plan_measures_free(&m);
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"{", "report.json line 1"},
        {"{}", "'accelerator' is missing"},
        {"{\"accelerator\": \"V100\"}", "'batch' is missing"},
        {"{\"accelerator\": \"V100\", \"batch\": 64}", "'compute' is missing"},
        {"{\"accelerator\": \"V100\", \"batch\": 64, \"gpus\": 2, \"step_s\": {\"compute\": 1}}", "'interconnect'"},
        {"{\"accelerator\": \"V100\", \"batch\": 64, \"step_s\": {\"compute\": -1}}", "'compute' is not a number from"},
        {"{\"accelerator\": \"V100\", \"batch\": 64, \"gpus\": 1.5, \"step_s\": {\"compute\": 1, \"interconnect\": 1}}",
         "not a whole number"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_fails(read_report(wrong[i].text, &job, &m, &err), err, LEAT_INVALID, wrong[i].says);
        leat_plan_measures_free(&m);
    }
}

static void lifetimes_are_found_by_accelerator_and_region(void **state)
{
    (void)state;
    struct leat_plan_revocations r;
    struct leat_error err;
    static const char text[] = "accelerator,region,age_h,probability,then\nK80,us,0,0,\nK80,us,24,0.5,taken\n"
                               "K80,*,0,0,\nK80,*,10,0.9,\n";
    assert_ok(leat_plan_revocations_csv("r.csv", text, strlen(text), &r, &err), err);
    assert_int_equal(r.count, 2);
    assert_true(leat_plan_revocations_find(&r, "K80", "us")->lifetime.ends);
    assert_int_equal(leat_plan_revocations_find(&r, "K80", "eu")->line, 4);
    assert_false(leat_plan_revocations_find(&r, "K80", "eu")->lifetime.ends);
    assert_null(leat_plan_revocations_find(&r, "V100", "us"));
    leat_plan_revocations_free(&r);
}

static void wrong_lifetimes_are_refused_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"accelerator,region,age_h,probability\n", "no distribution"},
        {"accelerator,region,age_h\n", "there is no column 'probability'"},
        {"accelerator,region,age_h,probability,x\nK,r,0,0,1\n", "r.csv line 1: column 'x' is not known"},
        {"accelerator,region,age_h,probability\nK,r,0,0\n", "r.csv line 2: K in r: a distribution of lifetimes needs"},
        {"accelerator,region,age_h,probability\nK,r,0,0\nK,r,24,56\n", "r.csv line 3: probability is 56: from 0 to 1"},
        {"accelerator,region,age_h,probability\nK,r,0,0\nK,r,24,nan\n", "r.csv line 3: probability: 'nan'"},
        {"accelerator,region,age_h,probability\nK,r,0,0\nK,r,2,.5\nK,r,3,.4\n", "r.csv line 4: the probability falls"},
        {"accelerator,region,age_h,probability\nK,r,0,0\nK,r,2,.5\n\nK,r,2,.6\n",
         "r.csv line 5: the point is not older"},
        {"accelerator,region,age_h,probability\nK,r,1,0\n", "r.csv line 2: the first point must be age 0"},
        {"accelerator,region,age_h,probability\nK,r,0,0\nK,r,86400,.5\n", "r.csv line 3: age_h is 86400: in hours"},
        {"accelerator,region,age_h,probability,then\nK,r,0,0,never\n", "neither taken nor steady"},
        {"accelerator,region,age_h,probability\nK,r,0,0\nK,r,1,1\nL,r,0,0\nL,r,1,1\nK,r,0,0\nK,r,1,1\n",
         "was given before, on line 2"},
        {"accelerator,region,age_h,probability\n,r,0,0\n", "names are missing"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_revocations r;
        struct leat_error err;
        assert_fails(leat_plan_revocations_csv("r.csv", wrong[i].text, strlen(wrong[i].text), &r, &err), err,
                     LEAT_INVALID, wrong[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_read_with_the_source_of_every_value),
        cmocka_unit_test(steps_from_a_flag_win_over_the_files_epochs),
        cmocka_unit_test(wrong_jobs_are_refused_by_name_and_line),
        cmocka_unit_test(a_catalog_keeps_the_cheapest_zone_of_each_region),
        cmocka_unit_test(wrong_catalogs_are_refused_by_line),
        cmocka_unit_test(old_prices_missing_ones_and_unknown_columns_are_noted),
        cmocka_unit_test(a_type_with_two_kinds_of_gpus_is_noted),
        cmocka_unit_test(a_date_is_found_however_it_is_written),
        cmocka_unit_test(days_are_counted_over_leap_years),
        cmocka_unit_test(speeds_given_in_any_way_mean_the_same),
        cmocka_unit_test(wrong_measurements_are_refused_by_line),
        cmocka_unit_test(a_report_gives_compute_interconnect_and_network),
        cmocka_unit_test(lifetimes_are_found_by_accelerator_and_region),
        cmocka_unit_test(wrong_lifetimes_are_refused_by_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
