/* Everything a plan reads: the input is a request, and also each of its files in turn beside good others. */
#include <math.h>

#include "fuzz.h"
#include "leat/plan.h"
#include "plan/plan.h"

static const char job[] =
    "[job]\nsamples = 1000\nepochs = 2\nbatch = 10\n[model]\nparameter_bytes = 1000000\n"
    "[checkpoint]\ntime = 1\n[data]\ndataset = 1000000\nregion = \"eu\"\n[path.a]\nbandwidth = 1000000\n"
    "[network]\nbandwidth = 1000000\n";
static const char catalog[] = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,Price,SpotPrice,Region\n"
                              "p,A,1,8,3,1,us\n";
static const char speeds[] = "accelerator,batch,step_s\nA,10,0.2\n";
static const char lives[] = "accelerator,region,age_h,probability\nA,*,0,0\nA,*,24,0.5\n";
static const char trace[] = "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, 0, 1]}";

static const char report[] = "{\"accelerator\": \"A\", \"batch\": 10, \"step_s\": {\"compute\": 0.21}}";
static const char hardware[] = "accelerator,type,memory_gib,network_gbit_per_s\nA,,16,\n,p,64,10\n";
static const char egress[] = "from,to,usd_per_gb\neu,*,0.02\n";
static const char past[] =
    "{\"config\": \"p:2:transient:us:a\", \"samples\": 500, \"elapsed_s\": 60, \"samples_per_s\": 90,"
    " \"lives\": [{\"hours\": 0.1, \"how\": \"taken\"}]}";
static const char traces[] = "accelerator,region,file\nA,us,trace\n";

static void try_plan(const struct leat_plan_inputs *in)
{
    const struct leat_plan_options o = {.max_nodes = 2, .risk = 0.9, .seed = 1, .draws = 50, .deadline_s = 3600};
    struct leat_plan *plan = NULL;
    struct leat_error err;
    size_t count;
    leat_status rc = leat_plan_open(in, &o, &plan, &err);
    fuzz_check_error(rc, &err);
    if (rc == LEAT_OK)
        rc = leat_plan_price(plan, &err);
    if (rc == LEAT_OK) {
        leat_plan_choose_records(plan);
        const struct leat_plan_record *r = leat_plan_records(plan, &count);
        for (size_t i = 0; i < count; i++) {
            PROMISE(isfinite(r[i].time_s.mean) && r[i].time_s.mean > 0 && isfinite(r[i].usd.mean) &&
                    r[i].usd.mean >= 0);
            PROMISE(r[i].time_s.lo <= r[i].time_s.hi && r[i].usd.lo <= r[i].usd.hi);
            PROMISE(r[i].chosen == (i == 0));
        }
    }
    leat_plan_close(plan);
}

FUZZ(plan)
{
    if (size < 1)
        return;
    const struct leat_plan_text given = {"fuzz", (const char *)data + 1, size - 1};
    struct leat_plan_text texts[] = {{"job", job, sizeof job - 1},
                                     {"catalog", catalog, sizeof catalog - 1},
                                     {"speeds", speeds, sizeof speeds - 1},
                                     {"lives", lives, sizeof lives - 1},
                                     {"report", report, sizeof report - 1},
                                     {"trace", trace, sizeof trace - 1},
                                     {"hardware", hardware, sizeof hardware - 1},
                                     {"traces", traces, sizeof traces - 1},
                                     {"request", "", 0},
                                     {"egress", egress, sizeof egress - 1},
                                     {"past", past, sizeof past - 1}};
    enum { PLACES = sizeof texts / sizeof *texts, REQUEST = 8 };
    struct leat_error err;
    char *answer = NULL;
    if (data[0] % PLACES == REQUEST) {
        leat_status rc = leat_plan_request(given.text, given.n, NULL, NULL, &answer, &err);
        fuzz_check_error(rc, &err);
        free(answer);
        return;
    }
    texts[data[0] % PLACES] = given;
    const struct leat_plan_catalog_file file = {texts[1].name, texts[1].text, texts[1].n, "2026-01-01"};
    const struct leat_plan_inputs in = {
        .job = texts[0],
        .catalogs = &file,
        .catalog_count = 1,
        .measurements = &texts[2],
        .measurement_count = 1,
        .revocations = &texts[3],
        .revocation_count = 1,
        .reports = &texts[4],
        .report_count = 1,
        .hardware = &texts[6],
        .hardware_count = 1,
        .egress = &texts[9],
        .egress_count = 1,
        .past = data[0] % PLACES == 10 || data[0] / PLACES % 2 ? texts[10] : (struct leat_plan_text){0},
        .resume = data[0] / PLACES % 3 == 0,
        .traces = texts[7],
        .trace_files = &texts[5],
        .trace_count = 1,
        .today = "2026-01-02",
    };
    try_plan(&in);
}
