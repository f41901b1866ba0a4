#include "cli/simulate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "sim/dataset.h"
#include "sim/picture.h"
#include "store/pace.h"

#define POLICIES   5u
#define POINTS_MAX 100u
#define SVG_MAX    ((size_t)1 << 20)

struct simulate_settings {
    struct leat_cli_progress progress;
    struct leat_cli_store store;
    double samples;
    uint64_t sample_bytes;
    uint64_t chunk;
    uint64_t nodes;
    uint64_t ranks;
    uint64_t batch;
    uint64_t epochs;
    uint64_t seed;
    const char *window;
    bool no_shuffle;
    const char *last;
    uint64_t slots;
    uint64_t compute_ns;
    uint64_t ram;
    uint64_t disk;
    const char *policy;
    uint64_t bandwidth;
    uint64_t connection_bandwidth;
    uint64_t bucket_bandwidth;
    uint64_t latency_ns;
    const char *peers;
    uint64_t peer_latency_ns;
    double jitter;
    uint64_t burst_ns;
    uint64_t disk_read;
    uint64_t disk_write;
    double prep;
    uint64_t cores;
    bool json;
    const char *svg;
    uint64_t points;
};

#define AT(field) offsetof(struct simulate_settings, field)

static const struct leat_option options[] = {
    {"samples", 0, LEAT_OPTION_DOUBLE, AT(samples), "N", NULL, NULL,
     "instead of DATASET: simulate one with this many samples, as in 1e8, …"},
    {"sample-bytes", 0, LEAT_OPTION_SIZE, AT(sample_bytes), "SIZE", "110kb", NULL, "… of this size each, …"},
    {"chunk", 0, LEAT_OPTION_SIZE, AT(chunk), "SIZE", "8MiB", NULL, "… in chunks of about this size"},
    {"nodes", 0, LEAT_OPTION_U64, AT(nodes), "N", "1", NULL, "machines"},
    {"ranks", 0, LEAT_OPTION_U64, AT(ranks), "N", "1", NULL, "ranks per machine"},
    {"batch", 0, LEAT_OPTION_U64, AT(batch), "N", "256", NULL, "samples per rank and step"},
    {"epochs", 0, LEAT_OPTION_U64, AT(epochs), "N", "3", NULL,
     "number of epochs; the caches are empty before the "
     "first"},
    {"compute", 0, LEAT_OPTION_DURATION, AT(compute_ns), "TIME", "0s", NULL,
     "time of a step once all ranks have their batches"},
    {"ram", 0, LEAT_OPTION_SIZE, AT(ram), "SIZE", "16GiB", NULL, "memory for chunks on each machine"},
    {"disk", 0, LEAT_OPTION_SIZE, AT(disk), "SIZE", "0", NULL, "disk for chunks on each machine"},
    {"policy", 0, LEAT_OPTION_STRING, AT(policy), "NAME", "next-use", NULL,
     "what the caches keep: next-use, lru, fifo, minio, none, or all to simulate each of them"},
    {"bandwidth", 0, LEAT_OPTION_RATE, AT(bandwidth), "RATE", "10Gbit/s", NULL,
     "bandwidth from the bucket to each machine; 0 for no limit, here and below"},
    {"connection-bandwidth", 0, LEAT_OPTION_RATE, AT(connection_bandwidth), "RATE", "0", NULL,
     "bandwidth of each connection to the bucket"},
    {"bucket-bandwidth", 0, LEAT_OPTION_RATE, AT(bucket_bandwidth), "RATE", "0", NULL,
     "bandwidth of the bucket for all machines together"},
    {"latency", 0, LEAT_OPTION_DURATION, AT(latency_ns), "TIME", "30ms", NULL, "latency of the bucket"},
    {"peers", 0, LEAT_OPTION_STRING, AT(peers), "RATE", "10Gbit/s", NULL,
     "bandwidth at which each machine gives the others what it owns; off: each fetches for itself from the bucket"},
    {"peer-latency", 0, LEAT_OPTION_DURATION, AT(peer_latency_ns), "TIME", "500us", NULL,
     "latency of a machine that is asked by another"},
    {"jitter", 0, LEAT_OPTION_DOUBLE, AT(jitter), "SHARE", "0.2", NULL,
     "how much requests to the bucket differ in speed: 0.2 is up to a fifth"},
    {"burst", 0, LEAT_OPTION_DURATION, AT(burst_ns), "TIME", "0s", NULL,
     "how much an idle line to the bucket may catch up, as time at its rate; 'leat serve' allows 100ms"},
    {"disk-read", 0, LEAT_OPTION_RATE, AT(disk_read), "RATE", "2GB/s", NULL, "read speed of a machine's disk"},
    {"disk-write", 0, LEAT_OPTION_RATE, AT(disk_write), "RATE", "1GB/s", NULL, "write speed of a machine's disk"},
    {"prep", 0, LEAT_OPTION_DOUBLE, AT(prep), "N", "0", NULL,
     "samples per second that a core prepares; 0 for no limit"},
    {"cores", 0, LEAT_OPTION_U64, AT(cores), "N", "8", NULL, "cores ranks per machine that prepare samples"},
    {"slots", 0, LEAT_OPTION_U64, AT(slots), "N", "4", NULL, "batches that a rank has ready, including the one in use"},
    {"seed", 0, LEAT_OPTION_U64, AT(seed), "N", "0", NULL, "seed of the order"},
    {"window", 0, LEAT_OPTION_STRING, AT(window), "N", NULL, NULL,
     "number of chunks mixed at a time (default: see 'leat info')"},
    {"no-shuffle", 0, LEAT_OPTION_FLAG, AT(no_shuffle), NULL, NULL, NULL, "samples in the order they are stored in"},
    {"last", 0, LEAT_OPTION_STRING, AT(last), "HOW", "drop", NULL,
     "what happens to an incomplete last batch: drop, pad or short"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print one JSON object"},
    LEAT_PROGRESS_OPTIONS(AT(progress)),
    {"svg", 0, LEAT_OPTION_STRING, AT(svg), "FILE", NULL, NULL,
     "also simulate every policy with caches from the smallest that works to the whole dataset, and draw how much "
     "comes from the bucket in the second and later epochs"},
    {"points", 0, LEAT_OPTION_U64, AT(points), "N", "10", NULL, "number of cache sizes in the picture"},
    LEAT_STORE_OPTIONS(offsetof(struct simulate_settings, store)),
    {0},
};

struct simulate {
    const struct simulate_settings *s;
    struct leat_dataset *dataset;
    uint8_t id[32];
    struct leat_sim_dataset made;
    char title[120];
    struct leat_cli_simulated head;
    struct leat_cli_simulation runs[POLICIES]; /* those asked for */
    uint32_t runs_n;
    struct leat_sim_job_opts opts;
    /* Progress: written by the simulation, read by the line's own thread. */
    _Atomic uint64_t done; /* samples */
    uint64_t before;       /* samples of the simulations that are over */
    uint64_t all;          /* samples of all simulations */
};

/* The dataset */

static void look(void *user, struct leat_progress_state *out)
{
    struct simulate *v = user;
    uint64_t samples = atomic_load_explicit(&v->done, memory_order_relaxed);
    double each = (double)v->head.bytes / (double)v->head.samples;
    out->items = samples;
    out->done = (uint64_t)((double)samples * each);
    out->total = (uint64_t)((double)v->all * each);
}

static void show(void *user, uint64_t samples)
{
    struct simulate *v = user;
    atomic_store_explicit(&v->done, v->before + samples, memory_order_relaxed);
}

static bool interrupted(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static leat_status make_up(struct simulate *v, struct leat_error *err)
{
    const struct simulate_settings *s = v->s;
    char size[LEAT_FORMAT_SIZE];
    if (!(s->samples >= 1 && s->samples <= 1e15) || s->samples != floor(s->samples))
        return leat_fail(err, LEAT_INVALID, "--samples %.17g: a whole number from 1 to 1e15", s->samples);
    if (!s->sample_bytes || s->sample_bytes > UINT32_MAX || !s->chunk || s->chunk > UINT32_MAX)
        return leat_fail(err, LEAT_INVALID, "--sample-bytes and --chunk: from 1 byte to 4 GiB");
    leat_status rc = leat_sim_dataset_make((uint64_t)s->samples, s->sample_bytes, s->chunk, &v->made, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(v->title, sizeof v->title, "simulated samples of %s", leat_format_size(s->sample_bytes, size));
    v->head = (struct leat_cli_simulated){v->title, v->made.samples, v->made.bytes, 0};
    v->opts.names = v->made.names;
    v->opts.counts = v->made.counts;
    v->opts.sizes = v->made.sizes;
    v->opts.chunks = v->made.chunks;
    return LEAT_OK;
}

static leat_status open_real(struct simulate *v, const char *url, struct leat_error *err)
{
    leat_status rc = leat_cli_dataset_open(&v->s->store, url, &v->dataset, err);
    if (rc != LEAT_OK)
        return rc;
    const struct leat_root *root = leat_dataset_root(v->dataset);
    memcpy(v->id, leat_dataset_id(v->dataset), sizeof v->id);
    v->head = (struct leat_cli_simulated){url, leat_dataset_samples(v->dataset), root->bytes, 0};
    v->opts.names = root->names;
    v->opts.counts = leat_dataset_counts(v->dataset);
    v->opts.sizes = root->sizes;
    v->opts.chunks = root->chunks;
    return LEAT_OK;
}

/* The settings */

static leat_status number(uint64_t value, const char *name, uint64_t most, uint32_t *out, struct leat_error *err)
{
    if (value > most)
        return leat_fail(err, LEAT_INVALID, "--%s %" PRIu64 ": at most %" PRIu64, name, value, most);
    *out = (uint32_t)value;
    return LEAT_OK;
}

static leat_status take_window(struct simulate *v, struct leat_error *err)
{
    uint64_t window;
    v->opts.window = leat_order_window_default(v->opts.chunks, v->head.bytes);
    if (!v->s->window)
        return LEAT_OK;
    leat_status rc = leat_parse_u64(v->s->window, "--window", &window, err);
    if (rc == LEAT_OK && (window == 0 || window > LEAT_ORDER_WINDOW_MAX))
        rc = leat_fail(err, LEAT_INVALID, "--window %" PRIu64 ": from 1 to %u chunks", window, LEAT_ORDER_WINDOW_MAX);
    if (rc == LEAT_OK)
        v->opts.window = (uint32_t)window;
    return rc;
}

static leat_status take_peers(struct simulate *v, struct leat_error *err)
{
    uint64_t rate = 0;
    if (!v->opts.peers)
        return LEAT_OK;
    leat_status rc = leat_parse_rate(v->s->peers, "--peers", &rate, err);
    v->opts.peer_line = (double)rate;
    return rc;
}

static leat_status take_policies(struct simulate *v, struct leat_error *err)
{
    enum leat_sched_policy one;
    bool all = strcmp(v->s->policy, "all") == 0;
    if (!all && !leat_sched_policy_parse(v->s->policy, &one))
        return leat_fail(err, LEAT_INVALID, "--policy %.60s: next-use, lru, fifo, minio, none or all", v->s->policy);
    v->runs_n = all ? POLICIES : 1;
    for (uint32_t i = 0; i < v->runs_n; i++) {
        v->runs[i].opts = v->opts;
        v->runs[i].opts.policy = all ? (enum leat_sched_policy)i : one;
    }
    return LEAT_OK;
}

static leat_status take_settings(struct simulate *v, struct leat_error *err)
{
    const struct simulate_settings *s = v->s;
    struct leat_sim_job_opts *o = &v->opts;
    o->id = v->id;
    o->seed = s->seed;
    o->shuffle = !s->no_shuffle;
    o->epochs = s->epochs;
    o->compute_ns = s->compute_ns;
    o->ram = s->ram;
    o->disk = s->disk;
    o->line = (double)s->bandwidth;
    o->connection_line = (double)s->connection_bandwidth;
    o->bucket_line = (double)s->bucket_bandwidth;
    o->latency_ns = s->latency_ns;
    o->peers = strcmp(s->peers, "off") != 0;
    o->peer_latency_ns = s->peer_latency_ns;
    o->jitter = s->jitter;
    o->burst_ns = s->burst_ns;
    o->disk_read = (double)s->disk_read;
    o->disk_write = (double)s->disk_write;
    o->prep = s->prep;
    o->stop = interrupted;
    o->progress = show;
    o->user = v;
    leat_status rc = number(s->nodes, "nodes", LEAT_SIM_NODES_MAX, &o->nodes, err);
    if (rc == LEAT_OK)
        rc = number(s->ranks, "ranks", UINT16_MAX, &o->ranks, err);
    if (rc == LEAT_OK)
        rc = number(s->batch, "batch", UINT32_MAX, &o->batch, err);
    if (rc == LEAT_OK)
        rc = number(s->slots, "slots", LEAT_SCHED_SLOTS_MAX, &o->slots, err);
    if (rc == LEAT_OK)
        rc = number(s->cores, "cores", UINT16_MAX, &o->cores, err);
    if (rc == LEAT_OK)
        rc = number(s->store.connections, "connections", LEAT_PACE_MAX, &o->connections, err);
    if (rc == LEAT_OK)
        rc = leat_order_last_parse(s->last, &o->last, err);
    if (rc == LEAT_OK)
        rc = take_window(v, err);
    if (rc == LEAT_OK)
        rc = take_peers(v, err);
    if (rc == LEAT_OK)
        rc = leat_sim_job_needed(o, &v->head.needed, err);
    return rc == LEAT_OK ? take_policies(v, err) : rc;
}

/* Running */

static leat_status simulate(struct simulate *v, const struct leat_sim_job_opts *o, struct leat_sim_job_result *out,
                            struct leat_error *err)
{
    leat_status rc = leat_sim_job(o, out, err);
    v->before += v->head.samples * o->epochs;
    return rc;
}

/* The picture: caches of the share 1/points, 2/points … of the dataset, and the smallest that works before them. */
struct sweep {
    double share[POINTS_MAX + 1]; /* of the dataset, all nodes together */
    uint32_t n;
    struct leat_sim_point points[POLICIES][POINTS_MAX + 1];
};

static leat_status plan_sweep(const struct simulate *v, struct sweep *w, struct leat_error *err)
{
    const struct leat_sim_job_opts *o = &v->opts;
    uint64_t points = v->s->points;
    if (!points || points > POINTS_MAX)
        return leat_fail(err, LEAT_INVALID, "--points %" PRIu64 ": from 1 to %u", points, POINTS_MAX);
    if (o->epochs < 2)
        return leat_fail(err, LEAT_INVALID, "--svg shows the second and later epochs: give --epochs 2 or more");
    double least = (double)(o->disk ? o->ram : v->head.needed) * o->nodes / (double)v->head.bytes;
    if (least >= 1)
        return leat_fail(err, LEAT_LIMIT,
                         "--svg: %s of all nodes are as large as the dataset; there is no smaller cache to draw",
                         o->disk ? "--ram" : "what batches need in the memories");
    w->share[w->n++] = least;
    for (uint64_t i = 1; i <= points; i++) {
        if ((double)i / (double)points > least)
            w->share[w->n++] = (double)i / (double)points;
    }
    return LEAT_OK;
}

static leat_status sweep_one(struct simulate *v, double share, enum leat_sched_policy policy,
                             struct leat_sim_point *out, struct leat_error *err)
{
    struct leat_sim_job_opts o = v->opts;
    struct leat_sim_job_result result = {0};
    double cache = share * (double)v->head.bytes / o.nodes;
    o.policy = policy;
    if (o.disk)
        o.disk = cache > (double)o.ram ? (uint64_t)(cache - (double)o.ram) : 0;
    else
        o.ram = (uint64_t)cache > v->head.needed ? (uint64_t)cache : v->head.needed;
    leat_status rc = simulate(v, &o, &result, err);
    if (rc != LEAT_OK)
        return rc;
    double bytes = 0;
    for (uint64_t e = 1; e < result.epochs_n; e++)
        bytes += (double)result.epochs[e].uses.bucket.bytes;
    *out = (struct leat_sim_point){share, bytes / (double)(result.epochs_n - 1) / (double)v->head.bytes};
    leat_sim_job_result_free(&result);
    return LEAT_OK;
}

static leat_status draw(const struct simulate *v, const struct sweep *w, struct leat_error *err)
{
    const struct leat_sim_job_opts *o = &v->opts;
    struct leat_sim_curve curves[POLICIES];
    struct leat_buf text;
    char size[LEAT_FORMAT_SIZE];
    char window[40] = "in its own order";
    char subtitle[240];
    for (uint32_t p = 0; p < POLICIES; p++)
        curves[p] = (struct leat_sim_curve){leat_sched_policy_name((enum leat_sched_policy)p), w->points[p], w->n};
    if (o->shuffle)
        snprintf(window, sizeof window, "window %u", o->window);
    snprintf(subtitle, sizeof subtitle, "%" PRIu64 " samples, %s in %u chunks, %s; %u node%s x %u rank%s",
             v->head.samples, leat_format_size(v->head.bytes, size), o->chunks, window, o->nodes,
             o->nodes == 1 ? "" : "s", o->ranks, o->ranks == 1 ? "" : "s");
    struct leat_sim_picture picture = {
        .title = "From the bucket in each epoch after the first, share of the dataset",
        .subtitle = subtitle,
        .cache = o->disk ? "memory and disk of all nodes" : "memory of all nodes",
        .curves = curves,
        .n = POLICIES,
    };
    leat_buf_init(&text, SVG_MAX);
    leat_sim_picture(&picture, &text);
    leat_status rc = leat_buf_check(&text, "the picture", err);
    if (rc == LEAT_OK)
        rc = leat_cli_write_file(v->s->svg, &text, err);
    leat_buf_free(&text);
    return rc;
}

static leat_status sweep(struct simulate *v, struct sweep *w, json_t *all, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    json_t *curves = json_object();
    for (uint32_t p = 0; rc == LEAT_OK && p < POLICIES; p++) {
        json_t *points = json_array();
        for (uint32_t i = 0; rc == LEAT_OK && i < w->n; i++) {
            struct leat_sim_point *at = &w->points[p][i];
            rc = sweep_one(v, w->share[i], (enum leat_sched_policy)p, at, err);
            if (rc == LEAT_OK)
                json_array_append_new(points, json_pack("{s:f,s:f}", "cache", at->cache, "bucket", at->bucket));
        }
        json_object_set_new(curves, leat_sched_policy_name((enum leat_sched_policy)p), points);
    }
    json_object_set_new(all, "sweep", curves);
    return rc == LEAT_OK ? draw(v, w, err) : rc;
}

static leat_status run_all(struct simulate *v, struct sweep *w, json_t *all, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    json_t *runs = json_array();
    for (uint32_t i = 0; rc == LEAT_OK && i < v->runs_n; i++) {
        rc = simulate(v, &v->runs[i].opts, &v->runs[i].result, err);
        if (rc == LEAT_OK)
            json_array_append_new(runs, leat_cli_simulate_json(&v->runs[i]));
    }
    json_object_set_new(all, "runs", runs);
    return rc == LEAT_OK && v->s->svg ? sweep(v, w, all, err) : rc;
}

static void print_all(const struct simulate *v, const json_t *all)
{
    if (v->s->json) {
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
        putchar('\n');
        return;
    }
    leat_cli_simulate_head(&v->head, &v->opts);
    for (uint32_t i = 0; i < v->runs_n; i++)
        leat_cli_simulate_table(&v->runs[i]);
    if (v->s->svg)
        printf("\npicture in %s\n", v->s->svg);
}

static leat_status go(struct simulate *v, struct leat_error *err)
{
    struct sweep *w = calloc(1, sizeof *w);
    leat_status rc = w ? take_settings(v, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a picture");
    if (rc == LEAT_OK && v->s->svg)
        rc = plan_sweep(v, w, err);
    if (rc == LEAT_OK) {
        json_t *all = leat_cli_simulate_json_head(&v->head, &v->opts);
        v->all = v->head.samples * v->opts.epochs * (v->runs_n + (uint64_t)w->n * (v->s->svg ? POLICIES : 0));
        struct leat_progress *progress = leat_progress_open(&v->s->progress, "samples", look, v);
        rc = run_all(v, w, all, err);
        leat_progress_close(progress);
        if (rc == LEAT_OK)
            print_all(v, all);
        json_decref(all);
    }
    free(w);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    struct simulate v = {.s = settings};
    struct leat_error err;
    leat_status rc;
    if (argc && v.s->samples != 0)
        rc = leat_fail(&err, LEAT_INVALID, "give either --samples or the address of a dataset, not both");
    else if (!argc && v.s->samples == 0)
        rc = leat_fail(&err, LEAT_INVALID, "give the address of a dataset, or --samples N to simulate one");
    else
        rc = argc ? open_real(&v, argv[0], &err) : make_up(&v, &err);
    if (rc == LEAT_OK)
        rc = go(&v, &err);
    for (uint32_t i = 0; i < v.runs_n; i++)
        leat_sim_job_result_free(&v.runs[i].result);
    leat_sim_dataset_free(&v.made);
    leat_dataset_close(v.dataset);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_simulate = {
    .name = "simulate",
    .arguments = "[DATASET]",
    .summary = "simulate what a training would fetch and wait for",
    .details =
        "Runs the agent's own scheduler on a virtual clock, for every machine of a job, and counts what it would "
        "fetch from memory, disk, other machines and bucket and how long steps would wait, epoch by epoch. Only the "
        "root of the dataset is read; --samples needs no dataset at all.\n\nAll ranks step together: a step begins "
        "when the "
        "last of them has its batch. 'For data' is the time spent waiting for chunks, 'for prep' the time spent "
        "waiting after they had come. 'Hits' is the share of bytes that did not come from the bucket. A chunk that "
        "two machines read counts for both. A chunk that another machine owns is asked of that one, which fetches "
        "it from the bucket once for all, unless --peers is off.",
    .examples = "  leat simulate s3://bucket/imagenet/train --ram 40gb \\\n"
                "      --bandwidth 170MB/s --compute 120ms\n"
                "  leat simulate --samples 1e8 --sample-bytes 110kb --nodes 1024 \\\n"
                "      --ranks 8 --ram 8gib --compute 300ms\n"
                "  leat simulate --samples 1e6 --nodes 8 --ram 20gb --peers 25Gbit/s\n"
                "  leat simulate --samples 1e6 --policy all --ram 30gb --svg policies.svg\n",
    .options = options,
    .settings_size = sizeof(struct simulate_settings),
    .arguments_min = 0,
    .arguments_max = 1,
    .run = run,
};
