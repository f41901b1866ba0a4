#include "cli/whatif.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/plan.h"

#define AT(member) offsetof(struct whatif_settings, member)

static const struct leat_option options[] = {
    {"cache", 0, LEAT_OPTION_STRING, AT(cache), "PERCENT", NULL, NULL, "this much of the samples is at hand: 50%"},
    {"storage-speed", 0, LEAT_OPTION_STRING, AT(storage_speed), "FACTOR", NULL, NULL, "fetching is this much faster"},
    {"bandwidth", 0, LEAT_OPTION_RATE, AT(bandwidth), "RATE", NULL, NULL,
     "storage gives the machine this much, whatever it gave when the report was made"},
    {"sample-bytes", 0, LEAT_OPTION_SIZE, AT(sample_bytes), "SIZE", NULL, NULL,
     "a sample has this many bytes in storage, where the report does not say"},
    {"gpu-speed", 0, LEAT_OPTION_STRING, AT(gpu_speed), "FACTOR", NULL, NULL, "computing is this much faster: 2x"},
    {"cores", 0, LEAT_OPTION_U64, AT(cores), "N", NULL, NULL, "the machine has this many cores"},
    {"workers", 0, LEAT_OPTION_U64, AT(workers), "N", NULL, NULL, "each rank's loader has this many workers"},
    {"gpus", 0, LEAT_OPTION_U64, AT(gpus), "N", NULL, NULL, "this many ranks train on each machine"},
    {"nodes", 0, LEAT_OPTION_U64, AT(nodes), "N", NULL, NULL, "this many machines train together"},
    {"network", 0, LEAT_OPTION_RATE, AT(network), "RATE", NULL, NULL,
     "what the network between machines carries, where the report knows of none"},
    {"loader", 0, LEAT_OPTION_STRING, AT(loader), "leat", NULL, NULL,
     "leat.Loader loads: the measured sizes and costs go through the simulator of 'leat simulate'"},
    {"prep", 0, LEAT_OPTION_DOUBLE, AT(prep), "N", NULL, NULL,
     "with --loader: samples per second that a core prepares, instead of what the script's own preparing takes"},
    {"samples", 0, LEAT_OPTION_DOUBLE, AT(samples), "N", NULL, NULL,
     "with --loader: samples of the dataset, where the report does not say"},
    {"latency", 0, LEAT_OPTION_DURATION, AT(latency_ns), "TIME", "30ms", NULL, "with --loader: of the storage"},
    {"price", 0, LEAT_OPTION_STRING, AT(price), "USD", NULL, NULL, "what a machine costs per hour: 3.06"},
    {"catalog", 'c', LEAT_OPTION_LIST, AT(catalogs), "FILE", NULL, "LEAT_CATALOG",
     "machines and prices, as for 'leat plan'; with --type"},
    {"type", 0, LEAT_OPTION_STRING, AT(type), "NAME", NULL, NULL,
     "the machine that is asked about; prices of this and of the report's own come from the catalogs"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print the answer as JSON"},
    {0},
};

/* "50", "50%"; "2", "2x". */
static leat_status take(const char *text, const char *name, const char *unit, double most, double *out,
                        struct leat_error *err)
{
    char plain[64];
    size_t n = text ? strlen(text) : 0;
    if (!text)
        return LEAT_OK;
    if (n > strlen(unit) && strcmp(text + n - strlen(unit), unit) == 0)
        n -= strlen(unit);
    if (n >= sizeof plain)
        return leat_fail(err, LEAT_INVALID, "%s %.40s…: a number", name, text);
    memcpy(plain, text, n);
    plain[n] = '\0';
    leat_status rc = leat_parse_double(plain, name, out, err);
    bool nothing = *unit != '%' && !(*out > 0); /* of a factor: nobody knows what 0 times as fast is */
    if (rc == LEAT_OK && (nothing || !(*out >= 0 && *out <= most)))
        rc = *unit == '%' ? leat_fail(err, LEAT_INVALID, "%s %s: a percentage is from 0 to 100", name, text)
                          : leat_fail(err, LEAT_INVALID, "%s %s: a factor such as 2", name, text);
    return rc;
}

/* What was said and would change nothing: an answer would look as if it had. */
static leat_status refuse_idle(const struct whatif_settings *s, struct leat_error *err)
{
    static const char *const counts[] = {"cores", "workers", "gpus", "nodes", "bandwidth", "network", "sample-bytes"};
    const uint64_t value[] = {s->cores, s->workers, s->gpus, s->nodes, s->bandwidth, s->network, s->sample_bytes};
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        if (!value[i] && leat_cli_said(counts[i]))
            return leat_fail(err, LEAT_INVALID, "--%s 0: it has to be more than nothing", counts[i]);
    }
    if (!s->loader && (s->prep != 0 || s->samples != 0 || leat_cli_said("latency")))
        return leat_fail(err, LEAT_INVALID, "--prep, --samples, --latency: only with --loader leat");
    if (s->network && !s->nodes)
        return leat_fail(err, LEAT_INVALID, "--network: only with --nodes");
    if (s->sample_bytes && !s->bandwidth && !s->loader && !s->cache && !s->storage_speed)
        return leat_fail(err, LEAT_INVALID,
                         "--sample-bytes: only with --cache, --storage-speed, --bandwidth or --loader leat");
    if (s->bandwidth && s->storage_speed)
        return leat_fail(err, LEAT_INVALID, "--storage-speed: --bandwidth says already what storage gives");
    if (leat_cli_said("catalog") && !s->type)
        return leat_fail(err, LEAT_INVALID, "--catalog: only with --type");
    return LEAT_OK;
}

static leat_status question(const struct whatif_settings *s, struct leat_whatif *out, struct leat_error *err)
{
    *out = (struct leat_whatif){.cache = s->cache,
                                .bandwidth = (double)s->bandwidth,
                                .sample_bytes = (double)s->sample_bytes,
                                .cores = (unsigned)s->cores,
                                .workers = (unsigned)s->workers,
                                .gpus = (unsigned)s->gpus,
                                .nodes = (unsigned)s->nodes,
                                .network = (double)s->network};
    if (s->cores > 100000 || s->workers > 100000 || s->gpus > 1024 || s->nodes > 65536)
        return leat_fail(err, LEAT_INVALID, "--cores, --workers, --gpus, --nodes: more than there can be");
    if (s->loader && strcmp(s->loader, "leat") != 0)
        return leat_fail(err, LEAT_INVALID, "--loader %.40s: only leat can be simulated", s->loader);
    if (s->loader && s->workers)
        return leat_fail(err, LEAT_INVALID, "--workers: leat.Loader has none; its agent uses the cores (--cores)");
    if (!(s->prep >= 0 && s->prep <= 1e9) || !(s->samples >= 0 && s->samples <= 1e15))
        return leat_fail(err, LEAT_INVALID, "--prep, --samples: a number that can be");
    leat_status rc = refuse_idle(s, err);
    if (rc == LEAT_OK)
        rc = take(s->cache, "--cache", "%", 100, &out->cached, err);
    if (rc == LEAT_OK)
        rc = take(s->storage_speed, "--storage-speed", "x", 1e6, &out->storage_speed, err);
    if (rc == LEAT_OK)
        rc = take(s->gpu_speed, "--gpu-speed", "x", 1e6, &out->gpu_speed, err);
    out->cached /= 100;
    return rc;
}

struct answers {
    struct leat_whatif_answer now;
    struct leat_whatif_answer then;
    struct leat_whatif_answer at[WHATIF_CURVE]; /* the share of the cache from 0 to 1 */
    struct leat_whatif_answer limit[4];
    char no_curve[512]; /* why it is not known what a cache would save; "": it is */
    size_t limits;
    struct leat_report_time cores;
    unsigned workers;
    unsigned usable; /* of these */
    unsigned cores_now;
    struct whatif_prices price;
    double usd_now; /* of a million samples */
    struct leat_report_time usd;
    unsigned nodes_now;
    unsigned nodes_then;
    char note[WHATIF_NOTE];
};

static leat_status ask(const struct whatif_settings *s, const struct leat_report *r, const struct leat_whatif *what,
                       struct leat_whatif_answer *out, char note[WHATIF_NOTE], struct leat_error *err)
{
    return s->loader ? leat_cli_whatif_leat(s, r, what, out, note, err) : leat_whatif_ask(r, what, out, err);
}

/* Dollars of a million samples, from the step of all ranks together. */
static double usd_of(const struct leat_report_run *run, double usd_per_hour, unsigned nodes, double speed)
{
    double samples_per_s = run->batch * run->gpus * run->nodes / run->step_s.mean * speed;
    return usd_per_hour * nodes / 3600 / samples_per_s * 1e6;
}

static leat_status find_out(const struct whatif_settings *s, const struct leat_report *r,
                            const struct leat_whatif *what, struct answers *a, struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    leat_status rc = leat_whatif_ask(r, &(struct leat_whatif){0}, &a->now, err);
    if (rc == LEAT_OK)
        rc = ask(s, r, what, &a->then, a->note, err);
    for (unsigned i = 0; i < WHATIF_CURVE && rc == LEAT_OK; i++) {
        char unused[WHATIF_NOTE];
        struct leat_whatif more = *what;
        more.cache = true;
        more.cached = (double)i / (WHATIF_CURVE - 1);
        rc = ask(s, r, &more, &a->at[i], unused, err);
    }
    if (rc == LEAT_UNSUPPORTED && a->then.step_s.mean > 0) { /* what was asked has its answer */
        snprintf(a->no_curve, sizeof a->no_curve, "%s", err->text);
        rc = LEAT_OK;
    }
    if (rc == LEAT_OK)
        rc = leat_cli_whatif_prices(s, r, &a->price, err);
    if (rc == LEAT_OK && !isnan(a->price.now) && !(run->batch >= 1e-6))
        rc = leat_fail(err, LEAT_UNSUPPORTED, "not enough data: the report does not say how many samples a batch has");
    if (rc != LEAT_OK)
        return rc;
    a->limits = s->loader ? 0 : leat_whatif_limits(r, what, a->limit, 4);
    a->cores = leat_whatif_cores(r);
    a->workers = leat_whatif_workers(r);
    a->usable = leat_whatif_usable_workers(r);
    a->cores_now = run->cores;
    a->nodes_now = run->nodes;
    a->nodes_then = what->nodes ? what->nodes : run->nodes;
    a->usd_now = usd_of(run, a->price.now, run->nodes, 1);
    const struct leat_report_time *t = &a->then.step_s;
    a->usd.mean = usd_of(run, a->price.then, a->nodes_then, a->then.speed);
    a->usd.low = a->usd.mean * t->low / t->mean;
    a->usd.high = a->usd.mean * t->high / t->mean;
    return LEAT_OK;
}

static const char *limit_name(enum leat_report_part limit)
{
    return limit == LEAT_REPORT_FORWARD ? "computing" : leat_report_part_name(limit);
}

static json_t *json_time(const struct leat_report_time *t)
{
    return isnan(t->mean) ? json_null() : json_pack("[fff]", t->mean, t->low, t->high);
}

static leat_status print_json(const struct answers *a, struct leat_error *err)
{
    json_t *curve = *a->no_curve ? json_null() : json_array();
    json_t *limits = json_array();
    for (unsigned i = 0; i < WHATIF_CURVE && !*a->no_curve; i++)
        json_array_append_new(curve, json_pack("{s:i, s:f, s:f, s:f}", "cache_percent", i * 100 / (WHATIF_CURVE - 1),
                                               "step_s", a->at[i].step_s.mean, "low_s", a->at[i].step_s.low, "high_s",
                                               a->at[i].step_s.high));
    for (size_t i = 0; i < a->limits; i++)
        json_array_append_new(limits, json_pack("{s:s, s:o}", "limit", limit_name(a->limit[i].limit), "step_s",
                                                json_time(&a->limit[i].step_s)));
    json_t *root = json_pack("{s:f, s:[fff], s:f, s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "now_s", a->now.step_s.mean,
                             "step_s", a->then.step_s.mean, a->then.step_s.low, a->then.step_s.high, "speed",
                             a->then.speed, "limit_now", limit_name(a->now.limit), "limit", limit_name(a->then.limit),
                             "workers_needed", (int)a->workers, "workers_usable", (int)a->usable, "cores_per_gpu",
                             json_time(&a->cores), "limits", limits, "cache", curve);
    if (!isnan(a->price.now))
        json_object_set_new(root, "usd_per_million_samples",
                            json_pack("{s:f, s:o}", "now", a->usd_now, "then", json_time(&a->usd)));
    if (*a->note)
        json_object_set_new(root, "note", json_string(a->note));
    return leat_cli_print_json(root, 9, err);
}

static void print_money(const struct answers *a)
{
    if (isnan(a->price.now))
        return;
    double saved = 1 - a->usd.mean / a->usd_now;
    printf("a million samples cost $%.4g now (%u × $%.4g/h, %s) and $%.4g then (%.4g … %.4g; %u × $%.4g/h, %s)\n",
           a->usd_now, a->nodes_now, a->price.now, a->price.source[0], a->usd.mean, a->usd.low, a->usd.high,
           a->nodes_then, a->price.then, a->price.source[1]);
    printf("  %s: of $100 that are spent now, $%.3g (%.3g … %.3g)\n", saved >= 0 ? "saved" : "more is spent",
           100 * fabs(saved), 100 * fabs(1 - (saved >= 0 ? a->usd.high : a->usd.low) / a->usd_now),
           100 * fabs(1 - (saved >= 0 ? a->usd.low : a->usd.high) / a->usd_now));
}

static void print(const struct answers *a)
{
    printf("now:  a step takes %.3g ms, limited by %s\n", a->now.step_s.mean * 1e3, limit_name(a->now.limit));
    printf("then: %.3g ms (%.3g … %.3g), %.2f times as fast, limited by %s\n", a->then.step_s.mean * 1e3,
           a->then.step_s.low * 1e3, a->then.step_s.high * 1e3, a->then.speed, limit_name(a->then.limit));
    if (*a->note)
        printf("  %s\n", a->note);
    for (size_t i = 1; i < a->limits; i++)
        printf("%s: %.3g ms (%.3g … %.3g), limited by %s\n", i == 1 ? "without that limit" : "without this one too",
               a->limit[i].step_s.mean * 1e3, a->limit[i].step_s.low * 1e3, a->limit[i].step_s.high * 1e3,
               limit_name(a->limit[i].limit));
    if (*a->no_curve)
        printf("with a cache: %s", a->no_curve);
    for (unsigned i = 0; i < WHATIF_CURVE && !*a->no_curve; i += 2)
        printf("%s %u %%: %.3g ms", i ? "," : "with a cache of", i * 10, a->at[i].step_s.mean * 1e3);
    printf("\n");
    if (!isnan(a->cores.mean))
        printf("a GPU needs %.2g cores (%.2g … %.2g) of preparing to compute as it does now without waiting\n",
               a->cores.mean, a->cores.low, a->cores.high);
    else
        printf("how many cores a GPU needs: not enough data, the loader does not say what preparing costs\n");
    if (a->workers)
        printf("%u worker%s of each rank would keep up with computing as it is now", a->workers,
               a->workers == 1 ? "" : "s");
    if (a->workers > a->usable)
        printf("; the %u core%s of this machine are enough for %u", a->cores_now, a->cores_now == 1 ? "" : "s",
               a->usable);
    if (a->workers)
        printf("\n");
    print_money(a);
}

static leat_status tell(const struct whatif_settings *s, const struct leat_report *r, struct leat_error *err)
{
    struct answers a = {0};
    struct leat_whatif what;
    leat_status rc = question(s, &what, err);
    if (rc == LEAT_OK)
        rc = find_out(s, r, &what, &a, err);
    if (rc == LEAT_OK && s->json)
        return print_json(&a, err);
    if (rc == LEAT_OK)
        print(&a);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct whatif_settings *s = settings;
    struct leat_report *r = NULL;
    struct leat_whatif what;
    struct leat_error err;
    leat_status rc = question(s, &what, &err); /* what is wrong with it is said before a file is read */
    if (rc == LEAT_OK)
        rc = leat_cli_report_read(argv[0], &r, &err);
    if (rc == LEAT_OK)
        rc = tell(s, r, &err);
    free(r);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_whatif = {
    .name = "whatif",
    .arguments = "REPORT.json",
    .summary = "say what a profiled step would take if something were different",
    .details =
        "Reads a report of 'leat profile'. A step is the longer of what the rank computes and communicates and of "
        "what the loader's workers need for a batch (their sum without workers). Workers of all ranks share the "
        "machine's cores, and with --bandwidth its line. The interval holds the error of this model and that of the "
        "measurement. What the report says nothing about is refused as \"not enough data\".\n\nIt also says what "
        "limits the step once the first limit is gone, what a cache would be worth, how many cores a GPU needs, and, "
        "with a price, what a million samples cost.",
    .examples = "  leat whatif report.json --cache 50%\n"
                "  leat whatif report.json --workers 8 --cores 16 --gpu-speed 2x\n"
                "  leat whatif report.json --loader leat --bandwidth 2GB/s --price 3.06\n",
    .options = options,
    .settings_size = sizeof(struct whatif_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
