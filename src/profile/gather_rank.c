#include "profile/gather_rank.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Workers that are busy for this share of the time are what the rank waits for. Less busy ones made it wait by chance.
 */
#define BUSY 0.7
/* Bytes of a fetch below which it has read nothing: pipes of workers and files of /proc are among them. */
#define READ_LEAST 1024

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

struct gather_shares gather_shares_of(const struct gather_loader *l, unsigned workers, double step_s, double wait_s)
{
    double work = l->fetch_s + l->prepare_s;
    if (!(l->batches > 0) || !(work > 0) || !(wait_s > 0))
        return (struct gather_shares){0};
    double fetch = l->fetch_s / work;
    double per_batch = work / l->batches;
    if (!workers) { /* the rank itself does it while it waits; the rest of the wait is the loader's own affair */
        double known = clamp(per_batch / wait_s, 0, 1);
        return (struct gather_shares){.fetch = known * fetch, .prepare = known * (1 - fetch)};
    }
    if (per_batch / workers >= BUSY * step_s) {
        /* The workers set the pace. Without fetching they would take prepare/workers for a batch: only what that
         * exceeds the rest of the step is a stall of preparing. */
        double prepare = clamp(l->prepare_s / l->batches / workers - (step_s - wait_s), 0, wait_s);
        /* And what fetching takes of the workers is all that a cache could save. What is left came of either. */
        double fetched = clamp(wait_s - prepare, 0, l->fetch_s / l->batches / workers);
        fetch = (fetched + (wait_s - prepare - fetched) * fetch) / wait_s;
    }
    return (struct gather_shares){.fetch = fetch, .prepare = 1 - fetch};
}

static void add_fetch(struct gather_loader *l, const struct leat_lane_record *r)
{
    uint64_t ns = r->end_ns - r->start_ns;
    uint64_t prepare = r->value < ns ? r->value : ns;
    l->batches++;
    l->prepare_s += (double)prepare / 1e9;
    l->fetch_s += (double)(ns - prepare) / 1e9;
    l->cpu_s += (double)r->extra / 1e9;
}

static void add_read(struct gather_loader *l, const struct leat_lane_record *r)
{
    /* What is mapped into memory does not go through read(). */
    double bytes = (double)(r->value > r->extra ? r->value : r->extra);
    if (!r->flags) { /* by no fetch: files that are in memory, to see how fast that is */
        l->memory_bytes += bytes;
        l->memory_s += (double)(r->end_ns - r->start_ns) / 1e9;
        return;
    }
    double s = (double)(r->end_ns - r->start_ns) / 1e9;
    l->stood_s += s;
    l->reading_s += bytes >= READ_LEAST * r->flags ? s : 0;
    l->read_bytes += bytes;
    l->disk_bytes += (double)r->extra;
    l->read_batches += r->flags;
    if (r->extra && (double)r->extra >= 0.9 * bytes) {
        l->from_disk_bytes += (double)r->extra;
        l->from_disk_s += (double)(r->end_ns - r->start_ns) / 1e9;
    }
}

static void add_source(struct gather_loader *l, const struct leat_lane_record *r)
{
    double bytes = (double)r->value;
    double s = (double)(r->end_ns - r->start_ns) / 1e9;
    if (r->extra) {
        l->read_bytes += bytes;
        l->disk_bytes += bytes;
        l->read_batches += r->flags;
        l->from_disk_bytes += s > 0 ? bytes : 0;
        l->from_disk_s += s;
        return;
    }
    l->bucket_bytes += bytes;
    l->bucket_batches += r->flags;
    l->from_bucket_bytes += s > 0 ? bytes : 0;
    l->from_bucket_s += s;
}

static void add_checkpoint(struct gather_checkpoint *c, const struct leat_lane_record *r)
{
    double bytes = (double)r->value;
    if (bytes > 2 * c->largest)
        *c = (struct gather_checkpoint){0}; /* smaller things were saved before it */
    if (2 * bytes < c->largest)
        return;
    c->largest = bytes > c->largest ? bytes : c->largest;
    c->bytes += bytes;
    c->s += (double)(r->end_ns - r->start_ns) / 1e9;
    c->count++;
}

struct gather_loader gather_rank_account(const struct gather_rank *rank, unsigned mode)
{
    struct gather_loader sum = {0};
    if (mode == LEAT_REPORT_CACHED || mode == LEAT_REPORT_COLD)
        return rank->block[mode];
    for (unsigned i = 0; i < GATHER_LOADERS; i++) {
        const struct gather_loader *l = &rank->accounts[i];
        if (!(rank->trained >> i & 1))
            continue;
        sum.fetch_s += l->fetch_s;
        sum.prepare_s += l->prepare_s;
        sum.cpu_s += l->cpu_s;
        sum.batches += l->batches;
        sum.read_bytes += l->read_bytes;
        sum.disk_bytes += l->disk_bytes;
        sum.read_batches += l->read_batches;
        sum.stood_s += l->stood_s;
        sum.reading_s += l->reading_s;
        sum.from_disk_bytes += l->from_disk_bytes;
        sum.from_disk_s += l->from_disk_s;
        sum.bucket_bytes += l->bucket_bytes;
        sum.bucket_batches += l->bucket_batches;
        sum.from_bucket_bytes += l->from_bucket_bytes;
        sum.from_bucket_s += l->from_bucket_s;
    }
    return sum;
}

void gather_rank_tell(struct gather_rank *rank, uint32_t loader, const struct leat_lane_record *r)
{
    unsigned mode = r->mode & ~LEAT_LANE_WARMUP;
    struct gather_loader *l = mode == LEAT_REPORT_CACHED || mode == LEAT_REPORT_COLD
                                  ? &rank->block[mode]
                                  : &rank->accounts[loader % GATHER_LOADERS];
    switch (r->kind) {
    case LEAT_LANE_FETCH:
        add_fetch(l, r);
        break;
    case LEAT_LANE_READ:
        add_read(l, r);
        break;
    case LEAT_LANE_SOURCE:
        add_source(l, r);
        break;
    case LEAT_LANE_SAVE:
        add_checkpoint(&rank->saved, r);
        break;
    case LEAT_LANE_LOAD:
        add_checkpoint(&rank->loaded, r);
        break;
    case LEAT_LANE_BUCKET:
        if (r->loader < LEAT_REPORT_BUCKETS) {
            rank->bucket[r->loader] = (double)r->value;
            rank->buckets = r->loader + 1;
        }
        break;
    case LEAT_LANE_FLOPS:
        rank->flops = (double)r->value;
        rank->flops_missed = r->extra != 0;
        break;
    default:
        break;
    }
}

double gather_cpu_s(uint32_t pid)
{
    char path[40];
    char text[512];
    unsigned long user;
    unsigned long kernel;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NAN;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *after = strrchr(text, ')'); /* a name may hold anything */
    if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        return NAN;
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}
