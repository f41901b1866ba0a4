/* Everything a plan reads, and everything that may be wrong with it: named with file and line. */

#include <math.h>

#include "plan/job.h"
#include "plan/measure.h"
#include "plan/revoke.h"
#include "plan/toml.h"
#include "unit.h"

static leat_status read_job(const char *text, const struct leat_plan_setting *settings, size_t count,
                            struct leat_plan_job *job, struct leat_error *err)
{
    struct leat_plan_doc *doc = NULL;
    leat_status rc = leat_plan_toml_parse("job.toml", text, strlen(text), &doc, err);
    if (rc == LEAT_OK)
        rc = leat_plan_job_read(doc, settings, count, job, err);
    leat_plan_doc_free(doc);
    return rc;
}

static const char small_job[] = "[job]\nsamples = 1000\nepochs = 3\nbatch = 10\n";

TEST(a_job_is_read_with_the_source_of_every_value)
{
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

TEST(steps_from_a_flag_win_over_the_files_epochs)
{
    struct leat_plan_job job;
    struct leat_error err;
    const struct leat_plan_setting set = {"job.steps", "7", "--steps"};
    assert_ok(read_job(small_job, &set, 1, &job, &err), err);
    assert_true(leat_plan_job_work(&job) == 70 && !leat_plan_job_has(&job, LEAT_KEY_EPOCHS));
}

TEST(wrong_jobs_are_refused_by_name_and_line)
{
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
        {"restart = \"some\"\n", "job.restart: 'some' is not one of elastic or all"},
        {"restart = 3\n", "job.restart: a short text is expected"},
        {"[model]\nsharded = 3\n", "model.sharded: no such setting"},
        {"[path.a]\nstore = \"tape\"\n", "path.a.store: 'tape' is not one of memory, disk or local"},
        {"[data]\ndataset = \"1TB\"\n", "no [path.NAME]"},
        {"[data]\ndataset = 147\n[path.a]\ncache = 0\n", "data.dataset (job.toml line 6): 147 bytes for 1000 samples"},
        {"[path.a]\ncache = 24\n",
         "job.toml line 6: path.a.cache: 24 bytes are not enough for a cache (on each machine: 64GiB)"},
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

static leat_status read_measures(const char *text, struct leat_plan_measures *m, struct leat_plan_notes *notes,
                                 struct leat_error *err)
{
    *m = (struct leat_plan_measures){0};
    *notes = (struct leat_plan_notes){0};
    return leat_plan_measures_csv("m.csv", text, strlen(text), m, notes, err);
}

TEST(speeds_given_in_any_way_mean_the_same)
{
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

TEST(wrong_measurements_are_refused_by_line)
{
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

TEST(a_report_gives_compute_interconnect_and_network)
{
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
        {"{\"accelerator\": \"V100\", \"batch\": 64, \"nodse\": 2, \"step_s\": {\"compute\": 1}}",
         "'nodse' is not known"},
        {"{\"accelerator\": \"V100\", \"batch\": 64, \"step_s\": {\"compute\": 1, \"fetch\": 2}}",
         "'fetch' is not known"},
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

TEST(lifetimes_are_found_by_accelerator_and_region)
{
    struct leat_plan_revocations r = {0};
    struct leat_error err;
    static const char text[] = "accelerator,region,age_h,probability,then\nK80,us,0,0,\nK80,us,24,0.5,taken\n"
                               "K80,*,0,0,\nK80,*,10,0.9,\n";
    assert_ok(leat_plan_revocations_read("r.csv", text, strlen(text), NULL, &r, &err), err);
    assert_int_equal(r.count, 2);
    assert_true(leat_plan_revocations_find(&r, "", "K80", "us")->lifetime.ends);
    assert_int_equal(leat_plan_revocations_find(&r, "", "K80", "eu")->line, 4);
    assert_false(leat_plan_revocations_find(&r, "", "K80", "eu")->lifetime.ends);
    assert_null(leat_plan_revocations_find(&r, "", "V100", "us"));
    leat_plan_revocations_free(&r);
}

TEST(wrong_lifetimes_are_refused_by_line)
{
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
        struct leat_plan_revocations r = {0};
        struct leat_error err;
        assert_fails(leat_plan_revocations_read("r.csv", wrong[i].text, strlen(wrong[i].text), NULL, &r, &err), err,
                     LEAT_INVALID, wrong[i].says);
        leat_plan_revocations_free(&r);
    }
}
