/* What `leat simulate` prints. */
#include <inttypes.h>
#include <stdio.h>

#include "base/parse.h"
#include "cli/simulate.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static const char *rate_text(double rate, char out[LEAT_FORMAT_SIZE])
{
    return rate > 0 ? leat_format_rate(rate, out) : "no limit";
}

void leat_cli_simulate_head(const struct leat_cli_simulated *s, const struct leat_sim_job_opts *o)
{
    char a[LEAT_FORMAT_SIZE];
    char b[LEAT_FORMAT_SIZE];
    char c[LEAT_FORMAT_SIZE];
    uint64_t ranks = (uint64_t)o->nodes * o->ranks;
    printf("dataset  %s: %" PRIu64 " samples, %s in %u chunks, %s", s->dataset, s->samples,
           leat_format_size(s->bytes, a), o->chunks, o->shuffle ? "" : "not shuffled\n");
    if (o->shuffle)
        printf("window %u\n", o->window);
    printf("job      %u node%s x %u rank%s, batches of %u (%" PRIu64 " together), %s a step\n", o->nodes,
           o->nodes == 1 ? "" : "s", o->ranks, o->ranks == 1 ? "" : "s", o->batch, ranks * o->batch,
           leat_format_duration(o->compute_ns, a));
    printf("node     %s of memory", leat_format_size(o->ram, a));
    if (o->disk)
        printf(", %s of disk (reads %s, writes %s)", leat_format_size(o->disk, a), rate_text(o->disk_read, b),
               rate_text(o->disk_write, c));
    if (o->prep > 0)
        printf(", %u cores that prepare %g samples/s each", o->cores, o->prep);
    printf("\nbucket   %s per node, %s per connection, answers after %s", rate_text(o->line, a),
           rate_text(o->connection_line, b), leat_format_duration(o->latency_ns, c));
    if (o->bucket_line > 0)
        printf(", %s in all", rate_text(o->bucket_line, a));
    putchar('\n');
    if (o->peers && o->nodes > 1)
        printf("peers    each node gives the others %s of what it owns, answers after %s\n", rate_text(o->peer_line, a),
               leat_format_duration(o->peer_latency_ns, b));
    else if (o->nodes > 1)
        printf("peers    off: each node fetches from the bucket whatever it reads\n");
}

void leat_cli_simulate_table(const struct leat_cli_simulation *s)
{
    char ram[LEAT_FORMAT_SIZE];
    char disk[LEAT_FORMAT_SIZE];
    char bucket[LEAT_FORMAT_SIZE];
    char peer[LEAT_FORMAT_SIZE];
    printf("\n%s\n%5s %12s %12s %8s %12s %12s %8s %11s %11s %11s %11s %10s\n", leat_sched_policy_name(s->opts.policy),
           "epoch", "seconds", "stalled", "share", "for data", "for prep", "hits", "memory", "disk", "peers", "bucket",
           "requests");
    for (uint64_t i = 0; i < s->result.epochs_n; i++) {
        const struct leat_sim_epoch_result *e = &s->result.epochs[i];
        double share = e->time_ns ? 100.0 * (double)e->stall_ns / (double)e->time_ns : 0;
        printf("%5" PRIu64 " %12.3f %12.3f %6.1f %% %12.3f %12.3f %6.1f %% %11s %11s %11s %11s %10" PRIu64 "\n", i + 1,
               seconds(e->time_ns), seconds(e->stall_ns), share, seconds(e->data_ns), seconds(e->prep_ns),
               100 * leat_sim_hits(&e->uses), leat_format_size(e->uses.ram.bytes, ram),
               leat_format_size(e->uses.disk.bytes, disk), leat_format_size(e->uses.peer.bytes, peer),
               leat_format_size(e->uses.bucket.bytes, bucket), e->requests);
    }
    printf("%.3f s in total, the first step after %.3f s\n", seconds(s->result.time_ns), seconds(s->result.first_ns));
}

json_t *leat_cli_simulate_json_head(const struct leat_cli_simulated *s, const struct leat_sim_job_opts *o)
{
    json_t *dataset = json_pack("{s:s,s:I,s:I,s:I,s:b,s:I}", "name", s->dataset, "samples", (json_int_t)s->samples,
                                "bytes", (json_int_t)s->bytes, "chunks", (json_int_t)o->chunks, "shuffle", o->shuffle,
                                "window", (json_int_t)o->window);
    json_t *job =
        json_pack("{s:I,s:I,s:I,s:s,s:I,s:I,s:I,s:f}", "nodes", (json_int_t)o->nodes, "ranks", (json_int_t)o->ranks,
                  "batch", (json_int_t)o->batch, "last", leat_order_last_name(o->last), "seed", (json_int_t)o->seed,
                  "epochs", (json_int_t)o->epochs, "slots", (json_int_t)o->slots, "compute_s", seconds(o->compute_ns));
    json_t *node = json_pack(
        "{s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:f}", "ram_bytes", (json_int_t)o->ram, "ram_least_bytes",
        (json_int_t)s->needed, "disk_bytes", (json_int_t)o->disk, "line_bytes_per_s", o->line, "connection_bytes_per_s",
        o->connection_line, "latency_s", seconds(o->latency_ns), "jitter", o->jitter, "burst_s", seconds(o->burst_ns),
        "disk_read_bytes_per_s", o->disk_read, "disk_write_bytes_per_s", o->disk_write, "connections",
        (json_int_t)o->connections, "cores", (json_int_t)o->cores, "prep_per_s", o->prep);
    json_t *peers = o->peers
                        ? json_pack("{s:f,s:f}", "bytes_per_s", o->peer_line, "latency_s", seconds(o->peer_latency_ns))
                        : json_null();
    return json_pack("{s:I,s:o,s:o,s:o,s:f,s:o}", "version", (json_int_t)1, "dataset", dataset, "job", job, "node",
                     node, "bucket_bytes_per_s", o->bucket_line, "peers", peers);
}

static json_t *json_source(struct leat_sim_source p)
{
    return json_pack("{s:I,s:I}", "bytes", (json_int_t)p.bytes, "chunks", (json_int_t)p.chunks);
}

json_t *leat_cli_simulate_json(const struct leat_cli_simulation *s)
{
    json_t *epochs = json_array();
    for (uint64_t i = 0; i < s->result.epochs_n; i++) {
        const struct leat_sim_epoch_result *e = &s->result.epochs[i];
        json_array_append_new(
            epochs, json_pack("{s:I,s:f,s:f,s:f,s:f,s:I,s:I,s:f,s:o,s:o,s:o,s:o,s:I,s:I}", "epoch", (json_int_t)i,
                              "time_s", seconds(e->time_ns), "stall_s", seconds(e->stall_ns), "stall_data_s",
                              seconds(e->data_ns), "stall_prep_s", seconds(e->prep_ns), "steps", (json_int_t)e->steps,
                              "samples", (json_int_t)e->samples, "hits", leat_sim_hits(&e->uses), "ram",
                              json_source(e->uses.ram), "disk", json_source(e->uses.disk), "bucket",
                              json_source(e->uses.bucket), "peer", json_source(e->uses.peer), "stored_bytes",
                              (json_int_t)e->stored_bytes, "requests", (json_int_t)e->requests));
    }
    return json_pack("{s:s,s:I,s:I,s:f,s:f,s:o,s:o}", "policy", leat_sched_policy_name(s->opts.policy), "ram_bytes",
                     (json_int_t)s->opts.ram, "disk_bytes", (json_int_t)s->opts.disk, "time_s",
                     seconds(s->result.time_ns), "first_step_s", seconds(s->result.first_ns), "epochs", epochs, "ahead",
                     json_pack("{s:o,s:o,s:o,s:o}", "ram", json_source(s->result.ahead.ram), "disk",
                               json_source(s->result.ahead.disk), "bucket", json_source(s->result.ahead.bucket), "peer",
                               json_source(s->result.ahead.peer)));
}
