#include <stdlib.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/plan.h"
#include "profile/whatif.h"

struct whatif_settings {
    double cache;
    double storage_speed;
    double gpu_speed;
    uint64_t cores;
    uint64_t workers;
    uint64_t gpus;
    bool json;
};

#define AT(member) offsetof(struct whatif_settings, member)

static const struct leat_option options[] = {
    {"cache", 0, LEAT_OPTION_DOUBLE, AT(cache), "PERCENT", NULL, NULL, "this much of what is fetched now is at hand"},
    {"storage-speed", 0, LEAT_OPTION_DOUBLE, AT(storage_speed), "FACTOR", NULL, NULL, "fetching is this much faster"},
    {"gpu-speed", 0, LEAT_OPTION_DOUBLE, AT(gpu_speed), "FACTOR", NULL, NULL, "computing is this much faster"},
    {"cores", 0, LEAT_OPTION_U64, AT(cores), "N", NULL, NULL, "the machine has this many cores"},
    {"workers", 0, LEAT_OPTION_U64, AT(workers), "N", NULL, NULL, "each rank's loader has this many workers"},
    {"gpus", 0, LEAT_OPTION_U64, AT(gpus), "N", NULL, NULL, "this many ranks train on the machine"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print the answer as JSON"},
    {0},
};

static leat_status question(const struct whatif_settings *s, struct leat_whatif *out, struct leat_error *err)
{
    if (!(s->cache >= 0 && s->cache <= 100))
        return leat_fail(err, LEAT_INVALID, "--cache %g: a percentage is from 0 to 100", s->cache);
    if (!(s->storage_speed >= 0 && s->storage_speed <= 1e6) || !(s->gpu_speed >= 0 && s->gpu_speed <= 1e6))
        return leat_fail(err, LEAT_INVALID, "--storage-speed, --gpu-speed: a factor such as 2");
    if (s->cores > 100000 || s->workers > 100000 || s->gpus > 1024)
        return leat_fail(err, LEAT_INVALID, "--cores, --workers, --gpus: more than there can be");
    *out = (struct leat_whatif){.cached = s->cache / 100,
                                .storage_speed = s->storage_speed,
                                .gpu_speed = s->gpu_speed,
                                .cores = (unsigned)s->cores,
                                .workers = (unsigned)s->workers,
                                .gpus = (unsigned)s->gpus};
    return LEAT_OK;
}

static const char *limit_name(enum leat_report_part limit)
{
    return limit == LEAT_REPORT_FORWARD ? "computing" : leat_report_part_name(limit);
}

static leat_status tell(const struct leat_report *r, const struct leat_whatif *what, bool json, struct leat_error *err)
{
    struct leat_whatif_answer now;
    struct leat_whatif_answer then;
    struct leat_whatif_answer at[5];
    leat_status rc = leat_whatif_ask(r, &(struct leat_whatif){0}, &now, err);
    if (rc == LEAT_OK)
        rc = leat_whatif_ask(r, what, &then, err);
    for (unsigned i = 0; i < 5 && rc == LEAT_OK; i++) {
        struct leat_whatif more = *what;
        more.cached = i / 4.0;
        rc = leat_whatif_ask(r, &more, &at[i], err);
    }
    if (rc != LEAT_OK)
        return rc;
    if (json) {
        json_t *curve = json_array();
        for (unsigned i = 0; i < 5; i++)
            json_array_append_new(curve, json_pack("{s:i, s:f}", "cache_percent", i * 25, "step_s", at[i].step_s.mean));
        return leat_cli_print_json(
            json_pack("{s:f, s:[fff], s:f, s:s, s:s, s:i, s:o}", "now_s", now.step_s.mean, "step_s", then.step_s.mean,
                      then.step_s.low, then.step_s.high, "speed", then.speed, "limit_now", limit_name(now.limit),
                      "limit", limit_name(then.limit), "workers_needed", (int)leat_whatif_workers(r), "cache", curve),
            9, err);
    }
    printf("now:  a step takes %.3g ms, limited by %s\n", now.step_s.mean * 1e3, limit_name(now.limit));
    printf("then: %.3g ms (%.3g … %.3g), %.2f times as fast, limited by %s\n", then.step_s.mean * 1e3,
           then.step_s.low * 1e3, then.step_s.high * 1e3, then.speed, limit_name(then.limit));
    printf("with a cache of");
    for (unsigned i = 0; i < 5; i++)
        printf("%s %u %%: %.3g ms", i ? "," : "", i * 25, at[i].step_s.mean * 1e3);
    printf("\n");
    if (leat_whatif_workers(r))
        printf("%u workers of each rank would keep up with computing as it is now\n", leat_whatif_workers(r));
    return LEAT_OK;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct whatif_settings *s = settings;
    struct leat_report *r = calloc(1, sizeof *r);
    struct leat_whatif what;
    struct leat_error err;
    struct leat_buf text;
    if (!r)
        return leat_cli_failf(LEAT_NO_MEMORY, "no memory for a report");
    leat_buf_init(&text, PLAN_FILE_MAX);
    leat_status rc = question(s, &what, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_plan_read(argv[0], &text, NULL, &err);
    if (rc == LEAT_OK)
        rc = leat_report_read(argv[0], text.data, text.len, r, &err);
    if (rc == LEAT_OK)
        rc = tell(r, &what, s->json, &err);
    int status = rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
    leat_buf_free(&text);
    free(r);
    return status;
}

const struct leat_command leat_command_whatif = {
    .name = "whatif",
    .arguments = "REPORT.json",
    .summary = "say what a profiled step would take if something were different",
    .details =
        "Reads a report of 'leat profile'. A step is the longer of computing and of what the loader's workers need "
        "for a batch (their sum without workers), and then communication; all ranks' preparing shares the "
        "machine's cores; communication between more or fewer ranks grows as a ring's does. The interval holds "
        "the error of this model on the measured run and that of the measurement.",
    .examples = "  leat whatif report.json --cache 50\n"
                "  leat whatif report.json --workers 8 --cores 16 --gpu-speed 2\n",
    .options = options,
    .settings_size = sizeof(struct whatif_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
