#include "unit.h"

#include <math.h>

#include "plan/job.h"
#include "plan/measure.h"
#include "plan/report.h"

static void fill(struct leat_report *r)
{
    *r = (struct leat_report){.accelerator = "H200", .type = "p5", .command = "python train.py", .runs = 2};
    for (size_t i = 0; i < 2; i++) {
        struct leat_report_run *run = &r->run[i];
        *run = (struct leat_report_run){.mode = i ? LEAT_REPORT_SYNTHETIC : LEAT_REPORT_OBSERVED,
                                        .gpus = 2,
                                        .nodes = 1,
                                        .workers = 4,
                                        .cores = 16,
                                        .steps = 100,
                                        .batch = 64,
                                        .step_s = {i ? 0.2 : 0.3, i ? 0.19 : NAN, i ? 0.21 : NAN},
                                        .fetch_s = NAN,
                                        .prepare_s = 0.5,
                                        .prepare_cpu_s = 0.4};
        run->part_s[LEAT_REPORT_PREPARE] = 0.1;
        run->flops = 1e9;
        run->peak_gpu_bytes = NAN;
        run->bucket_bytes[0] = 1e6;
        run->bucket_bytes[1] = 2.5e7;
        run->bucket_count = 2;
    }
    r->link[0] = (struct leat_report_link){"machine", "gloo", -1, -1, 2, 1e6, {0.001, 0.0009, 0.0011}};
    r->links = 1;
    r->step[0] = (struct leat_report_step){.rank = 1, .mode = LEAT_REPORT_COLD, .start_s = 0.5, .stage_s = {0.1, 0.2}};
    r->steps = 1;
    r->span[0] = (struct leat_report_span){1, 2, "fetch", 0.5, 0.75};
    r->spans = 1;
    r->stall[0] = (struct leat_report_stall){.cause = "data", .s = {0.1, 0.09, 0.11}, .share = 0.33, .from = {0, 1}};
    r->stalls = 1;
    r->rank[0] = (struct leat_report_rank){.rank = 1, .steps = 100, .died = true};
    r->ranks = 1;
    leat_report_note(r, "one\nline");
}

TEST(a_report_comes_back_as_it_was_written)
{
    static struct leat_report r;
    static struct leat_report back;
    struct leat_error err;
    fill(&r);
    char *text = leat_report_write(&r);
    assert_non_null(text);
    assert_true(leat_report_is(text, strlen(text)));
    assert_ok(leat_report_read("r.json", text, strlen(text), &back, &err), err);
    char *again = leat_report_write(&back);
    assert_string_equal(text, again);
    assert_true(isnan(back.run[0].fetch_s) && isnan(back.run[0].step_s.high) && back.run[1].step_s.mean == 0.2);
    assert_true(back.rank[0].died && back.stall[0].from[1] == 1);
    assert_string_equal(back.note[0], "one line");
    assert_true(leat_report_find(&back, LEAT_REPORT_SYNTHETIC) == &back.run[1]);
    assert_null(leat_report_find(&back, LEAT_REPORT_ALONE));
    assert_true(back.run[0].flops == 1e9 && isnan(back.run[0].peak_gpu_bytes) && back.run[1].bucket_bytes[1] == 2.5e7);
    assert_true(back.steps == 1 && back.step[0].mode == LEAT_REPORT_COLD && back.step[0].stage_s[1] == 0.2);
    assert_true(back.spans == 1 && back.span[0].thread == 2 && back.links == 1 && back.link[0].a == -1);
    free(text);
    free(again);
}

/* As releases wrote it before there were rates, links and time lines. */
TEST(a_report_of_version_1_is_read_with_what_it_lacks_unknown)
{
    static const char text[] =
        "{\"leat_report\":1,\"leat\":\"x\",\"made\":\"\",\"accelerator\":\"cpu\",\"type\":\"\",\"model\":\"\","
        "\"command\":\"\","
        "\"runs\":[{\"gpus\":1,\"nodes\":1,\"workers\":0,\"cores\":2,\"device\":false,\"steps\":40,\"batch\":4,"
        "\"step_s\":[0.01,null,null],\"fetch_s\":null,\"prepare_s\":null,\"prepare_cpu_s\":null,\"batch_bytes\":0,"
        "\"gradient_bytes\":0,\"buckets\":0,\"warmup_s\":0,\"mode\":\"observed\",\"parts_s\":{\"fetch\":0,\"prepare\":"
        "0,"
        "\"input\":0,\"copy\":0,\"forward\":0.01,\"backward\":0,\"communication\":0,\"optimizer\":0,\"other\":0}}],"
        "\"stalls\":[],\"ranks\":[{\"rank\":0,\"steps\":40,\"late_s\":0,\"late_of\":0,\"died\":false}],\"notes\":[]}";
    static struct leat_report back;
    struct leat_error err;
    assert_ok(leat_report_read("old.json", text, strlen(text), &back, &err), err);
    assert_true(isnan(back.run[0].flops) && isnan(back.run[0].disk_rate) && back.run[0].bucket_count == 0);
    assert_true(back.steps == 0 && back.spans == 0 && back.links == 0 && back.rank[0].node == 0);
}

/* The text with one part replaced. */
static char *changed(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *out = NULL;
    assert_non_null(at);
    assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    return out;
}

TEST(what_is_not_understood_is_refused_by_name)
{
    static struct leat_report r;
    static struct leat_report back;
    struct leat_error err;
    static const struct {
        const char *from;
        const char *to;
        leat_status status;
        const char *says;
    } cases[] = {
        {"\"leat_report\": 3", "\"leat_report\": 4", LEAT_VERSION, "r.json: a report of version 4"},
        {"\"leat_report\": 3", "\"leat_report\": \"1\"", LEAT_INVALID, "not a report"},
        {"\"gpus\"", "\"gpsu\"", LEAT_INVALID, "'gpsu' is not known"},
        {"\"gpus\": 2", "\"gpus\": 0", LEAT_INVALID, "without 'gpus'"},
        {"\"gpus\": 2", "\"gpus\": -2", LEAT_INVALID, "'gpus' is not a whole number"},
        {"\"observed\"", "\"dreamt\"", LEAT_INVALID, "'mode' is not one"},
        {"\"batch\": 64.0", "\"batch\": \"64\"", LEAT_INVALID, "'batch' is not a number"},
        {"\"copy\"", "\"cpoy\"", LEAT_INVALID, "'parts_s' is not all parts"},
        {"\"from\": [\n    0,\n    1", "\"from\": [\n    0,\n    7", LEAT_INVALID, "'from' is not a pair of its runs"},
        {"\"wait\"", "\"wiat\"", LEAT_INVALID, "'stages_s' is not all stages"},
        {"\"bucket_bytes\": [", "\"bucket_bytes\": [true,", LEAT_INVALID, "'bucket_bytes' is not a number"},
        {"\"flops\"", "\"flpos\"", LEAT_INVALID, "'flpos' is not known"},
        {"\"cold\"", "\"hot\"", LEAT_INVALID, "'mode' is not one"},
        {"\"cause\"", "\"caus\"", LEAT_INVALID, "'caus' is not known"},
        {"\"died\": true", "\"died\": 1", LEAT_INVALID, "'died' is not true or false"},
        {"\"notes\": [", "\"notes\": [1,", LEAT_INVALID, "'notes' is not a list of texts"},
        {"{", "", LEAT_INVALID, "r.json line 2"},
    };
    fill(&r);
    char *text = leat_report_write(&r);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *wrong = changed(text, cases[i].from, cases[i].to);
        assert_fails(leat_report_read("r.json", wrong, strlen(wrong), &back, &err), err, cases[i].status,
                     cases[i].says);
        free(wrong);
    }
    free(text);
}

TEST(a_plan_takes_runs_without_waiting)
{
    static struct leat_report r;
    struct leat_plan_measures m = {0};
    static struct leat_plan_job job;
    struct leat_error err;
    fill(&r);
    for (size_t i = 0; i < LEAT_KEY_COUNT; i++)
        job.value[i] = NAN;
    char *text = leat_report_write(&r);
    assert_ok(leat_plan_measures_report("r.json", text, strlen(text), &job, &m, &err), err);
    assert_int_equal(m.count, 1);
    assert_true(m.row[0].step_s == 0.2 && m.row[0].gpus == 2 && m.row[0].batch == 64);
    assert_string_equal(m.row[0].accelerator, "H200");
    leat_plan_measures_free(&m);
    free(text);
    r.runs = 1;
    r.stalls = 0;
    text = leat_report_write(&r);
    assert_fails(leat_plan_measures_report("r.json", text, strlen(text), &job, &m, &err), err, LEAT_INVALID,
                 "leat profile --time");
    leat_plan_measures_free(&m);
    free(text);
}
