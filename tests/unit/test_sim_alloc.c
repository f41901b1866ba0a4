/* Memory runs out at every single allocation of a simulated job: a clean error, or a result; nothing leaked. */

#include "fail_alloc.h"
#include "sim_data.h"
#include "unit.h"

static leat_status small_job(bool peers, struct leat_error *err)
{
    struct leat_sim_job_result r = {0};
    struct leat_sim_job_opts o = sim_job(24, 2, 3 << 20);
    o.shuffle = true;
    o.nodes = 2;
    o.batch = 3;
    o.ram = 40 << 20;
    o.disk = 60 << 20;
    o.line = 1e8;
    o.connections = 0;
    o.peers = peers;
    leat_status rc = leat_sim_job(&o, &r, err);
    leat_sim_job_result_free(&r);
    return rc;
}

TEST(a_job_without_memory_says_so)
{
    unsigned refused = 0;
    for (unsigned how = 0; how < 4; how++) {
        for (long n = 0;; n++) {
            struct leat_error err = {0};
            fail_alloc_at(n, how & 1);
            leat_status rc = small_job(how & 2, &err);
            if (!fail_alloc_stop()) {
                assert_int_equal(rc, LEAT_OK);
                break;
            }
            /* A table that cannot grow is only slower; everything else is an error. */
            if (rc != LEAT_OK && rc != LEAT_NO_MEMORY)
                fail_msg("allocation %ld: %s", n, err.text);
            refused += rc == LEAT_NO_MEMORY;
        }
    }
    assert_true(refused > 200);
}
