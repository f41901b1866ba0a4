/* Catalogs as people have them: what is kept, joined, left out with a reason. */

#include "plan/catalog.h"

#include <math.h>

#include "unit.h"

#define HEADER                                                                                                         \
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"

static leat_status read_catalog(const char *text, struct leat_plan_catalog *c, struct leat_plan_notes *notes,
                                struct leat_error *err)
{
    *notes = (struct leat_plan_notes){0};
    const struct leat_plan_catalog_file file = {"c.csv", text, strlen(text), "2026-11-01"};
    return leat_plan_catalog_parse(&file, 1, NULL, "2026-11-15", c, notes, err);
}

TEST(a_catalog_keeps_the_cheapest_zone_of_each_region)
{
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

TEST(catalogs_that_are_none_are_refused)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"", "c.csv is empty"},
        {"InstanceType,Price\n", "c.csv line 1: there is no column 'AcceleratorName'"},
        {HEADER, "no machine with a GPU"},
        {HEADER "p3,V100,1,8,61,,-3,1,us,a\n", "no machine with a GPU and a price; line 2: Price is -3"},
        {HEADER ",V100,1,8,61,,3,1,us,a\n", "no machine with a GPU and a price"},
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

static bool noted(const struct leat_plan_notes *notes, const char *text)
{
    for (size_t i = 0; i < notes->count; i++) {
        if (strstr(notes->line[i], text))
            return true;
    }
    return false;
}

TEST(a_bad_row_costs_a_row_with_a_count_and_a_reason)
{
    static const struct {
        const char *rows;
        const char *says;
    } bad[] = {
        {"p4,V100,1,8,61,,-3,1,us,a\n", "c.csv line 3: Price is -3; the row is left out"},
        {"p4,V100,1,8,61,,nan,1,us,a\n", "c.csv line 3: Price: 'nan' is not a number; the row is left out"},
        {"p4,V100,1,8,61,,3usd,1,us,a\n", "c.csv line 3: Price: '3usd'"},
        {"p4,V100,half,8,61,,3,1,us,a\n", "c.csv line 3: AcceleratorCount: 'half'"},
        {"p4,V100,0,8,61,,3,1,us,a\n", "c.csv line 3: AcceleratorCount is missing"},
        {"p4,V100,1,-8,61,,3,1,us,a\n", "c.csv line 3: vCPUs is -8"},
        {"p4,V100,1,8,61,,3,1,us\n", "c.csv line 3: 9 fields where the header has 10; the row is left out"},
        {"p4,V100,1,8,61,\"{,3,1,us,a\n", "c.csv line 3: "},
        {"p4,V100,0.5,8,61,,3,1,us,a\np5,V100,0.5,8,61,,3,1,us,a\n", "c.csv line 3 and 1 more: a part of a GPU"},
        {",tpu-v5,1,,,,3,1,us,a\n", "c.csv line 3: an accelerator without an InstanceType, and no host"},
        {"p4,V100,1,8,61,,,0,us,a\n", "c.csv line 3: no price"},
        {",,1,8,61,,3,1,us,a\n", "c.csv line 3: neither an InstanceType nor an AcceleratorName"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[2000];
        struct leat_plan_catalog c;
        struct leat_plan_notes notes;
        struct leat_error err;
        snprintf(text, sizeof text, "%s%s%s%s", HEADER, "p2,K80,1,4,61,,0.9,0.2,us,a\n", bad[i].rows,
                 "p9,V100,8,32,244,,12,3,us,a\n");
        assert_ok(read_catalog(text, &c, &notes, &err), err);
        assert_int_equal(c.count, 2);
        assert_string_equal(c.offer[1].type, "p9");
        if (!noted(&notes, bad[i].says))
            fail_msg("%s: '%s'", bad[i].says, notes.count ? notes.line[0] : "");
        leat_plan_catalog_free(&c);
    }
}

TEST(none_is_written_as_0_and_no_region_as_nothing)
{
    struct leat_plan_catalog c;
    struct leat_plan_notes notes;
    struct leat_error err;
    assert_ok(read_catalog(HEADER "1x,RTX4090,1,32,64,,0.44,0.00,\"Denmark, DK, EU\",\n"
                                  "2x,RTX4090,2,32,64,,0.9,0.00,,\n",
                           &c, &notes, &err),
              err);
    assert_true(c.count == 2 && isnan(c.offer[0].usd_per_hour[1]) && c.offer[0].zone_count == 0);
    assert_string_equal(c.offer[0].region, "Denmark, DK, EU");
    assert_string_equal(c.offer[1].region, "-");
    assert_int_equal(notes.count, 0);
    leat_plan_catalog_free(&c);
}

TEST(a_local_zone_is_a_place_of_its_own)
{
    struct leat_plan_catalog c;
    struct leat_plan_notes notes;
    struct leat_error err;
    assert_ok(read_catalog(HEADER "g4,T4,1,4,16,,0.526,0.2289,us-west-2,usw2-az1\n"
                                  "g4,T4,1,4,16,,0.526,0.2238,us-west-2,usw2-az3\n"
                                  "g4,T4,1,4,16,,0.526,0.0977,us-west-2,usw2-lax1-az1\n"
                                  "g4,T4,1,4,16,,0.526,0.0976,us-west-2,usw2-lax1-az2\n"
                                  "g4,T4,1,4,16,,0.6,0.1,us-east-1,us-east-1-bos-1a\n"
                                  "g4,T4,1,4,16,,0.6,0.3,us-east-1,us-east-1c\n",
                           &c, &notes, &err),
              err);
    assert_int_equal(c.count, 4);
    assert_string_equal(c.offer[0].region, "us-east-1");
    assert_true(c.offer[0].usd_per_hour[1] == 0.3);
    assert_string_equal(c.offer[1].region, "us-east-1/bos-1");
    assert_string_equal(c.offer[2].region, "us-west-2");
    assert_true(c.offer[2].usd_per_hour[1] == 0.2238 && c.offer[2].zone_count == 2);
    assert_string_equal(c.offer[2].zone[1], "usw2-az3");
    assert_string_equal(c.offer[3].region, "us-west-2/lax1");
    assert_string_equal(c.offer[3].zone[1], "usw2-lax1-az2");
    leat_plan_catalog_free(&c);
}

/* Zones of a region that are called in other ways: RunPod's data centers, and those of other clouds. */
TEST(zones_of_other_providers_are_no_local_zones)
{
    static const char *const place[][2] = {
        {"US", "US-GA-1"},          {"US", "US-TX-3"},      {"CA", "CA-MTL-1"},
        {"RO", "EU-RO-1"},          {"SE", "EUR-SE-1"},     {"us-ashburn-1", "us-ashburn-1-AD-2"},
        {"us-south", "us-south-1"}, {"fr-par", "fr-par-2"}, {"us-central1", "us-central1-ai1a"},
        {"eastus", "eastus-1"},     {"FIN", "FIN-01"},      {"eu-west-par", "eu-west-par-a-az1"},
    };
    for (size_t i = 0; i < COUNT(place); i++) {
        struct leat_plan_catalog c;
        struct leat_plan_notes notes;
        struct leat_error err;
        char text[400];
        snprintf(text, sizeof text, HEADER "g4,T4,1,4,16,,0.5,0.2,%s,\ng4,T4,1,4,16,,0.5,0.1,%s,%s\n", place[i][0],
                 place[i][0], place[i][1]);
        assert_ok(read_catalog(text, &c, &notes, &err), err);
        assert_int_equal(c.count, 1);
        assert_string_equal(c.offer[0].region, place[i][0]);
        assert_true(c.offer[0].usd_per_hour[1] == 0.1);
        leat_plan_catalog_free(&c);
    }
}

static const struct leat_plan_offer *offer(const struct leat_plan_catalog *c, const char *type)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->offer[i].type, type) == 0)
            return &c->offer[i];
    }
    fail_msg("no %s", type);
    return NULL;
}

TEST(accelerators_priced_apart_join_their_hosts)
{
    struct leat_plan_catalog c;
    struct leat_plan_notes notes;
    struct leat_error err;
    assert_ok(read_catalog(HEADER
                           "a2-highgpu-8g,,,96,680,,5.9,3.4,eu,eu-a\nn1-standard-16,,,16,60,,0.76,0.15,eu,eu-a\n"
                           "n1-standard-16,,,16,60,,0.76,0.15,eu,eu-b\n"
                           ",A100,8,,,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 40960}}]},23.4,13.5,eu,eu-a\n"
                           ",A100,1,,,,2.9,1.7,eu,eu-a\n,V100,2,,,,4.96,,eu,eu-b\n,V100,1,,,,2.48,0.74,eu,eu-b\n",
                           &c, &notes, &err),
              err);
    assert_int_equal(c.count, 2);
    const struct leat_plan_offer *o = offer(&c, "a2-highgpu-8g");
    assert_true(fabs(o->usd_per_hour[0] - 29.3) < 1e-9 && fabs(o->usd_per_hour[1] - 16.9) < 1e-9);
    assert_true(o->gpus == 8 && o->vcpus == 96 && o->gpu_memory_bytes == 40960.0 * 1048576 && o->host_line == 2);
    o = offer(&c, "n1-standard-16+2xV100"); /* one V100 takes twelve vCPUs at most */
    assert_true(fabs(o->usd_per_hour[0] - 5.72) < 1e-9 && isnan(o->usd_per_hour[1]));
    assert_true(noted(&notes, "c.csv line 6 and 1 more: an accelerator without an InstanceType, and no host"));
    leat_plan_catalog_free(&c);
}

TEST(several_catalogs_keep_their_providers_apart)
{
    static const char text[] = HEADER "p3,V100,1,8,61,,3,1,us,a\n";
    struct leat_plan_catalog_file files[] = {{"x/aws.csv", text, sizeof text - 1, NULL},
                                             {"x/gcp/vms.csv", text, sizeof text - 1, NULL}};
    struct leat_plan_catalog c;
    struct leat_plan_notes notes = {0};
    struct leat_error err;
    assert_ok(leat_plan_catalog_parse(files, 2, NULL, NULL, &c, &notes, &err), err);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.offer[0].provider, "aws");
    assert_string_equal(c.offer[1].provider, "gcp");
    leat_plan_catalog_free(&c);
    files[1].name = "y/aws.csv";
    assert_fails(leat_plan_catalog_parse(files, 2, NULL, NULL, &c, &notes, &err), err, LEAT_INVALID,
                 "both called 'aws'");
}

/* Real catalogs, where they lie beside the checkout: every machine in them that can be rented is found. */
TEST(shared_catalogs_are_read_whole)
{
    static const struct {
        const char *path;
        size_t least;
        const char *type;
    } real[] = {{"aws.csv", 200, "g4dn.xlarge"},   {"azure.csv", 30, "Standard_NC6s_v3"},
                {"gcp.csv", 150, "a3-highgpu-8g"}, {"lambda.csv", 100, "gpu_1x_a10"},
                {"seeweb.csv", 20, "ECS1GPU3"},    {"vast.csv", 40, "1x-RTX_5090-32-65536"}};
    const char *root = getenv("LEAT_SOURCE_ROOT");
    for (size_t i = 0; i < COUNT(real); i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/../shared/catalogs/%s", root ? root : ".", real[i].path);
        FILE *in = fopen(path, "r");
        if (!in) {
            print_message("# %s is not there: not tried\n", path);
            continue;
        }
        static char text[1 << 20];
        size_t n = fread(text, 1, sizeof text, in);
        fclose(in);
        const struct leat_plan_catalog_file file = {path, text, n, NULL};
        struct leat_plan_catalog c;
        struct leat_plan_notes notes = {0};
        struct leat_error err;
        assert_ok(leat_plan_catalog_parse(&file, 1, NULL, NULL, &c, &notes, &err), err);
        assert_true(c.count >= real[i].least);
        offer(&c, real[i].type);
        leat_plan_catalog_free(&c);
    }
}

TEST(old_prices_missing_ones_and_unknown_columns_are_noted)
{
    static const char row[] = HEADER "p3,V100,1,8,61,,3,1,us,a\n";
    struct leat_plan_catalog c;
    struct leat_plan_notes notes = {0};
    struct leat_error err;
    struct leat_plan_catalog_file file = {"c.csv", row, strlen(row), "2026-08-16"};
    assert_ok(leat_plan_catalog_parse(&file, 1, NULL, "2026-11-15", &c, &notes, &err), err);
    assert_int_equal(notes.count, 1);
    assert_true(strstr(notes.line[0], "c.csv: prices of 2026-08-16 are 91 days old") != NULL);
    notes = (struct leat_plan_notes){0};
    leat_plan_catalog_free(&c);
    file.date = "2026-08-17";
    assert_ok(leat_plan_catalog_parse(&file, 1, NULL, "2026-11-15", &c, &notes, &err), err);
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

TEST(a_type_with_two_kinds_of_gpus_is_noted)
{
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

TEST(a_date_is_found_however_it_is_written)
{
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

TEST(days_are_counted_over_leap_years)
{
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
