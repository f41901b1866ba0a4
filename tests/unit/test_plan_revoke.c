#include "plan/revoke.h"

#include <math.h>

#include "base/buf.h"
#include "base/random.h"
#include "plan/band.h"
#include "plan/lives.h"
#include "unit.h"

static struct leat_plan_revocations read_ok(const char *text)
{
    struct leat_plan_revocations r = {0};
    struct leat_error err;
    assert_ok(leat_plan_revocations_read("r.csv", text, strlen(text), NULL, &r, &err), err);
    return r;
}

/* Lives from a known bathtub, half of them watched for six hours only: what is fitted is what they were drawn from. */
TEST(censored_lives_do_not_bend_the_distribution)
{
    const double age[] = {0, 3600, 12 * 3600, 24 * 3600};
    const double probability[] = {0, 0.3, 0.5, 0.7};
    enum { MACHINES = 4000 };
    struct leat_plan_life *lives = calloc(MACHINES, sizeof *lives);
    struct leat_plan_lifetime truth;
    struct leat_plan_survival s;
    struct leat_plan_lifetime fitted;
    struct leat_error err;
    assert_ok(leat_plan_lifetime_set(age, probability, 4, false, "truth", &truth, &err), err);
    struct leat_rng rng = leat_rng(leat_key("survival test", 1, 0, NULL, 0), 0);
    for (size_t i = 0; i < MACHINES; i++) {
        double life = leat_plan_lifetime_draw(&truth, leat_rng_unit(&rng));
        double watched = i % 2 ? 6 * 3600 : 30 * 3600;
        lives[i] = (struct leat_plan_life){fmin(life, watched), life < watched, 0};
    }
    assert_ok(leat_plan_survival_fit(lives, MACHINES, "lives", &s, &err), err);
    assert_false(s.ends);
    assert_ok(leat_plan_lifetime_set(s.age_s, s.probability, s.points, s.ends, "fitted", &fitted, &err), err);
    for (double h = 0.25; h <= 24; h += 0.25) {
        double off = leat_plan_lifetime_cdf(&fitted, h * 3600) - leat_plan_lifetime_cdf(&truth, h * 3600);
        assert_true(fabs(off) < 0.03);
    }
    free(lives);
}

/* The worst mistake with such data: leaving out machines that were not taken. */
TEST(machines_that_were_never_taken_count)
{
    struct leat_plan_life lives[100];
    struct leat_plan_survival s;
    struct leat_error err;
    for (int i = 0; i < 100; i++)
        lives[i] = (struct leat_plan_life){i < 10 ? 3600 : 36000, i < 10, 0};
    assert_ok(leat_plan_survival_fit(lives, 100, "lives", &s, &err), err);
    assert_true(s.taken == 10 && s.machines == 100 && !s.ends);
    assert_true(s.probability[s.points - 1] < 0.12);
    for (int i = 0; i < 100; i++)
        lives[i].taken = false;
    assert_ok(leat_plan_survival_fit(lives, 100, "lives", &s, &err), err);
    assert_true(s.taken == 0 && s.probability[s.points - 1] > 0 && s.probability[s.points - 1] < 0.01);
    assert_true(leat_plan_survival_events(&s) == 0.5);
}

TEST(a_maximum_life_is_an_end_and_no_hazard)
{
    struct leat_plan_life lives[20];
    struct leat_plan_survival s;
    struct leat_error err;
    for (int i = 0; i < 20; i++)
        lives[i] = (struct leat_plan_life){i < 5 ? 3600.0 * (i + 1) : 86400 + 60 * i, true, 0};
    assert_ok(leat_plan_survival_fit(lives, 20, "lives", &s, &err), err);
    assert_true(s.ends && s.taken == 5 && s.reached == 15);
    assert_true(fabs(s.probability[s.points - 1] - 0.25) < 0.03);
    assert_true(s.age_s[s.points - 1] > 86400 && s.age_s[s.points - 1] < 88000);
}

/* Four of eight machines are gone within two minutes, and the others were stopped before. */
TEST(machines_that_are_lost_together_reached_no_maximum)
{
    static const struct {
        double hours;       /* of the four */
        double apart_hours; /* between two starts */
        bool ends;
    } row[] = {
        {5, 0, false}, {5, 0.01, false}, {5, 1, true}, {24, 0, true}, {48.1, 0, true}, {36, 0, false}, {23, 0, false},
    };
    for (size_t k = 0; k < COUNT(row); k++) {
        struct leat_plan_life lives[8];
        struct leat_plan_survival s;
        struct leat_error err;
        for (int i = 0; i < 8; i++)
            lives[i] = (struct leat_plan_life){i < 4 ? row[k].hours * 3600 + 30 * i : 3600 + 600 * i, i < 4,
                                               3600 * row[k].apart_hours * i};
        assert_ok(leat_plan_survival_fit(lives, 8, "lives", &s, &err), err);
        assert_int_equal(s.ends, row[k].ends);
        assert_int_equal(s.taken, row[k].ends ? 0 : 4);
    }
}

#define RAW "accelerator,region,start,end,how\n"

TEST(raw_times_are_read_and_written_as_points)
{
    struct leat_plan_revocations r = read_ok(RAW "A,us,2026-10-01T08:00:00Z,2026-10-01T09:00:00Z,taken\n"
                                                 "B,us,100,7300,stopped\n"
                                                 "A,us,2026-10-01 08:00,2026-10-01T12:00:00+02:00,taken\n"
                                                 "A,us,2026-10-01T08:00:00.5Z,2026-10-02T08:00:00Z,running\n");
    struct leat_buf text;
    assert_int_equal(r.count, 2);
    const struct leat_plan_revocation *a = leat_plan_revocations_find(&r, "", "A", "us");
    assert_true(a->events == 2 && a->line == 2 && a->spread > 1 / sqrt(2));
    assert_string_equal(a->basis, "2 of 3 machines taken in 27 h");
    leat_buf_init(&text, 10000);
    leat_plan_lives_write(&r, &text);
    struct leat_plan_revocations again = read_ok(text.data);
    const struct leat_plan_revocation *b = leat_plan_revocations_find(&again, "", "A", "us");
    assert_true(b->events == a->events && b->spread == a->spread && again.count == 2);
    for (double h = 0.5; h < 40; h += 0.5)
        assert_true(fabs(leat_plan_lifetime_cdf(&a->lifetime, h * 3600) -
                         leat_plan_lifetime_cdf(&b->lifetime, h * 3600)) < 1e-4);
    leat_buf_free(&text);
    leat_plan_revocations_free(&r);
    leat_plan_revocations_free(&again);
}

TEST(bands_are_a_month_and_as_wide_as_they_are)
{
    struct leat_plan_revocations r = read_ok("type,region,band\np,us,5-10%\nq,us,<5%\ns,*,>20%\n");
    const struct leat_plan_revocation *p = leat_plan_revocations_find(&r, "p", "A", "us");
    assert_true(fabs(leat_plan_lifetime_cdf(&p->lifetime, 730 * 3600.0) - 0.075) < 1e-9);
    assert_true(fabs(leat_plan_lifetime_cdf(&p->lifetime, 73 * 3600.0) - (1 - pow(0.925, 0.1))) < 1e-4);
    assert_true(fabs(p->spread - 0.05 / sqrt(12) / 0.075) < 1e-9);
    const struct leat_plan_revocation *s = leat_plan_revocations_find(&r, "s", "A", "anywhere");
    assert_true(fabs(leat_plan_lifetime_cdf(&s->lifetime, 730 * 3600.0) - 0.3) < 1e-9);
    assert_null(leat_plan_revocations_find(&r, "t", "A", "us"));
    leat_plan_revocations_free(&r);
    static const char *const wrong[] = {"7%", "10-5%", "", "<0%", "5-10%x", "-5%", "50-100%", "<", ">60%"};
    double lo;
    double hi;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_false(leat_plan_band_parse(wrong[i], &lo, &hi));
    assert_true(leat_plan_band_parse(" < 5 %", &lo, &hi) && lo == 0 && hi == 0.05);
}

TEST(the_spot_advisor_is_read_as_it_is)
{
    static const char text[] =
        "{\"ranges\": [{\"index\": 0, \"label\": \"<5%\", \"dots\": 0, \"max\": 5},"
        " {\"index\": 4, \"label\": \">20%\", \"dots\": 4, \"max\": 100}], \"instance_types\": {},"
        " \"spot_advisor\": {\"us-east-1\": {\"Linux\": {\"p3.2xlarge\": {\"s\": 70, \"r\": 4},"
        " \"c5.large\": {\"s\": 1, \"r\": 0}}, \"Windows\": {\"p3.2xlarge\": {\"s\": 7, \"r\": 0}}}}}";
    struct leat_plan_offer offer = {.type = "p3.2xlarge"};
    const struct leat_plan_catalog catalog = {.offer = &offer, .count = 1};
    struct leat_plan_revocations r = {0};
    struct leat_error err;
    assert_ok(leat_plan_revocations_read("a.json", text, strlen(text), &catalog, &r, &err), err);
    assert_int_equal(r.count, 1); /* nobody asks about the other */
    assert_true(leat_plan_revocations_find(&r, "p3.2xlarge", "V100", "us-east-1")->spread > 0.1);
    leat_plan_revocations_free(&r);
    r = (struct leat_plan_revocations){0};
    assert_fails(leat_plan_revocations_read("a.json", "{\"a\": 1}", 8, NULL, &r, &err), err, LEAT_INVALID,
                 "spot-advisor-data.json");
    leat_plan_revocations_free(&r);
    char broken[sizeof text];
    memcpy(broken, text, sizeof text);
    memcpy(strstr(broken, "\"r\": 4"), "\"r\": 3", 6);
    r = (struct leat_plan_revocations){0};
    assert_fails(leat_plan_revocations_read("a.json", broken, strlen(broken), NULL, &r, &err), err, LEAT_INVALID,
                 "p3.2xlarge in us-east-1: a range that the file does not explain");
    leat_plan_revocations_free(&r);
}

TEST(a_type_wins_over_its_accelerator_and_files_keep_their_names)
{
    static const char one[] = "accelerator,region,age_h,probability\nA,us,0,0\nA,us,1,0.5\n";
    static const char two[] = "type,region,age_h,probability,events\np,*,0,0,8\np,*,1,0.1,\n";
    struct leat_plan_revocations r = {0};
    struct leat_error err;
    assert_ok(leat_plan_revocations_read("one.csv", one, strlen(one), NULL, &r, &err), err);
    assert_ok(leat_plan_revocations_read("two.csv", two, strlen(two), NULL, &r, &err), err);
    const struct leat_plan_revocation *p = leat_plan_revocations_find(&r, "p", "A", "us");
    assert_string_equal(r.name[p->file], "two.csv");
    assert_true(p->events == 8);
    assert_string_equal(r.name[leat_plan_revocations_find(&r, "q", "A", "us")->file], "one.csv");
    assert_fails(leat_plan_revocations_read("three.csv", one, strlen(one), NULL, &r, &err), err, LEAT_INVALID,
                 "A in us was given before, on line 2 of one.csv");
    leat_plan_revocations_free(&r);
}

TEST(what_a_run_saw_moves_the_hazard_as_far_as_it_weighs)
{
    struct leat_plan_revocations r = read_ok("accelerator,region,age_h,probability,events\nA,us,0,0,20\nA,us,1,0.2,\n");
    struct leat_error err;
    double before = leat_plan_lifetime_hazard(&r.row[0].lifetime, 0);
    assert_ok(leat_plan_revocation_learn(&r.row[0], 20, 0, &err), err); /* twice as many as there were */
    double after = log1p(-leat_plan_lifetime_cdf(&r.row[0].lifetime, 3600)) / log1p(-0.2);
    assert_true(fabs(after - 2) < 1e-9 && r.row[0].events == 40 && before > 0);
    leat_plan_revocations_free(&r);
}

TEST(wrong_tables_are_refused_by_line)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {RAW "A,us,yesterday,2026-10-01T09:00:00Z,taken\n", "r.csv line 2: start: 'yesterday' is not a time"},
        {RAW "A,us,2026-13-01T09:00:00Z,2026-10-01T09:00:00Z,taken\n", "r.csv line 2: start"},
        {RAW "A,us,100,50,taken\n", "r.csv line 2: a life of -0.0138889 h"},
        {RAW "A,us,0,50,gone\n", "how: 'gone' is not one of taken, stopped or running"},
        {RAW ",us,0,50,taken\n", "r.csv line 2: names are missing"},
        {"accelerator,region,hours,how\nA,us,20000,taken\n", "a life of 20000 h: from 0 to 10000"},
        {"accelerator,region,start,end,hours,how\nA,us,0,1,1,taken\n", "start and hours are both given"},
        {"accelerator,region,start,end,how,colour\nA,us,0,1,taken,red\n", "column 'colour' is not known"},
        {"accelerator,region,start,how\nA,us,0,taken\n", "there is no column 'end'"},
        {"type,region,band,age_h\np,us,<5%,1\n", "column 'age_h' is not known in a table of bands"},
        {"type,region,band\np,us,often\n", "r.csv line 2: 'often' is not a band"},
        {"accelerator,region,age_h,probability,events\nA,us,0,0,3\nA,us,1,.5,4\n", "events is 4 here and 3 above"},
        {"accelerator,region,age_h,probability,events\nA,us,0,0,0\nA,us,1,.5,\n", "events is 0"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct leat_plan_revocations r = {0};
        struct leat_error err;
        assert_fails(leat_plan_revocations_read("r.csv", wrong[i].text, strlen(wrong[i].text), NULL, &r, &err), err,
                     LEAT_INVALID, wrong[i].says);
        leat_plan_revocations_free(&r);
    }
}
