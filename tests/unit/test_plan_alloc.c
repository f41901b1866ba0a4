/* Memory runs out at every single allocation of a plan: a clean error each time, nothing leaked. */

#include "fail_alloc.h"
#include "plan/plan.h"
#include "unit.h"

static const char job[] =
    "[job]\nsamples = 1000\nepochs = 2\nbatch = 10\nmode = \"async\"\n[checkpoint]\ntime = \"1s\"\n"
    "[server]\nusd_per_hour = 1\n[accuracy]\nworkers = [1, 2]\npercent = [90, 80]\n";
static const char catalog[] =
    "# date: 2020-01-01\nInstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
    "p,A,1,3,1,us\nq,B,1,,1,us\nn1-standard-8,,,0.4,0.1,us\n,V100,1,2.5,0.7,us\n";
static const char speeds[] = "accelerator,batch,nodes,steps_per_s\nA,10,1,5\nA,10,2,9\n";
static const char lives[] = "accelerator,region,age_h,probability\nA,*,0,0\nA,*,24,0.5\n";

static const char machines[] = "type,region,hours,how\np,us,1,taken\np,us,3,running\n";
static const char bands[] = "{\"ranges\": [{\"index\": 0, \"label\": \"<5%\"}], \"spot_advisor\": {\"us\": {\"Linux\": "
                            "{\"q\": {\"r\": 0}}}}}";
static const char egress[] = "from,to,usd_per_gb\neu,*,0.02\n";
static const char past[] =
    "{\"config\": \"p:2:transient:us\", \"samples\": 500, \"elapsed_s\": 60, \"samples_per_s\": 90, "
    "\"lives\": [{\"hours\": 0.1, \"how\": \"taken\"}]}";
static const char hardware[] = "accelerator,type,memory_gib,network_gbit_per_s\nA,,16,\n,p,64,10\n";
static const char traces[] = "accelerator,region,file\nA,us,trace\n";
static const char trace[] = "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [1, 0, 1]}";

static leat_status make(void *user, struct leat_error *err)
{
    (void)user;
    const struct leat_plan_catalog_file catalogs = {"catalog", catalog, sizeof catalog - 1, NULL};
    const struct leat_plan_text measures = {"speeds", speeds, sizeof speeds - 1};
    const struct leat_plan_text lifetimes[] = {{"lives", lives, sizeof lives - 1},
                                               {"machines", machines, sizeof machines - 1},
                                               {"bands", bands, sizeof bands - 1}};
    const struct leat_plan_text prices = {"egress", egress, sizeof egress - 1};
    const struct leat_plan_text chips = {"chips", hardware, sizeof hardware - 1};
    const struct leat_plan_text tick = {"trace", trace, sizeof trace - 1};
    const struct leat_plan_inputs in = {.job = {"job", job, sizeof job - 1},
                                        .catalogs = &catalogs,
                                        .catalog_count = 1,
                                        .hardware = &chips,
                                        .hardware_count = 1,
                                        .measurements = &measures,
                                        .measurement_count = 1,
                                        .revocations = lifetimes,
                                        .revocation_count = 3,
                                        .egress = &prices,
                                        .egress_count = 1,
                                        .past = {"past", past, sizeof past - 1},
                                        .resume = true,
                                        .traces = {"traces", traces, sizeof traces - 1},
                                        .trace_files = &tick,
                                        .trace_count = 1};
    const struct leat_plan_options o = {.max_nodes = 2, .risk = 0.9, .seed = 1, .draws = 50};
    struct leat_plan *plan = NULL;
    leat_status rc = leat_plan_open(&in, &o, &plan, err);
    if (rc == LEAT_OK)
        rc = leat_plan_price(plan, err);
    if (rc == LEAT_OK)
        leat_plan_choose_records(plan);
    leat_plan_close(plan);
    return rc;
}

TEST(plans)
{
    assert_true(fail_alloc_each(make, NULL) > 20);
}
