/* bench_pack SAMPLES DEST: packs generated samples (16 bytes of data, a label, a key of some 20 bytes) and prints as
 * JSON how long it took and the most memory that was resident, before and after publishing. bench_pack.py runs it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "dataset/pack.h"

static double peak_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

static leat_status add_sample(struct leat_pack *p, uint64_t i, struct leat_error *err)
{
    char key[32];
    uint8_t data[16];
    struct leat_value values[2] = {{.data = data, .size = sizeof data}, {.number = (int64_t)(i % 1000)}};
    leat_put_u64(data, i);
    leat_put_u64(data + 8, i * 0x9e3779b97f4a7c15u);
    int n = snprintf(key, sizeof key, "train/%012" PRIu64 ".x", i);
    return leat_pack_add(p, key, (size_t)n, values, err);
}

static leat_status run(const struct leat_home *home, uint64_t samples, struct leat_error *err)
{
    struct leat_schema schema = {0};
    struct leat_pack *p = NULL;
    uint8_t id[LEAT_SHA256_SIZE];
    leat_status rc = leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_schema_add(&schema, "cls", LEAT_FIELD_INT, NULL, err);
    struct leat_pack_opts opts = {.schema = &schema, .id = "bench", .publish.replace = true};
    if (rc == LEAT_OK)
        rc = leat_pack_open(home, &opts, &p, err);
    uint64_t start = leat_now_ns();
    for (uint64_t i = 0; rc == LEAT_OK && i < samples; i++)
        rc = add_sample(p, i, err);
    uint64_t packed = leat_now_ns();
    double before = peak_mib();
    if (rc == LEAT_OK)
        rc = leat_pack_finish(p, id, err);
    if (rc == LEAT_OK)
        printf("{\"samples\": %" PRIu64 ", \"chunks\": %u, \"bytes\": %" PRIu64
               ", \"pack_s\": %.1f, \"publish_s\": %.1f, "
               "\"peak_packing_mib\": %.0f, \"peak_mib\": %.0f}\n",
               samples, leat_pack_totals(p).chunks, leat_pack_totals(p).bytes, (double)(packed - start) / 1e9,
               (double)(leat_now_ns() - packed) / 1e9, before, peak_mib());
    leat_pack_close(p);
    return rc;
}

int main(int argc, char **argv)
{
    struct leat_home home;
    struct leat_error err;
    if (argc != 3) {
        fprintf(stderr, "usage: bench_pack SAMPLES DEST\n");
        return 2;
    }
    leat_status rc = leat_home_open(argv[2], NULL, &home, &err);
    if (rc == LEAT_OK) {
        rc = run(&home, strtoull(argv[1], NULL, 10), &err);
        leat_home_close(&home);
    }
    if (rc != LEAT_OK)
        fprintf(stderr, "%s\n", err.text);
    return rc != LEAT_OK;
}
