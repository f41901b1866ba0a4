#include "order/reach.h"

#include <stdio.h>

#include "base/parse.h"

uint64_t leat_reach_live(uint64_t dataset_bytes, uint32_t chunks, uint32_t window)
{
    if (!chunks || window >= chunks)
        return dataset_bytes;
    return (uint64_t)((double)dataset_bytes / chunks * window);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

struct leat_reach leat_reach(const struct leat_reach_given *g)
{
    struct leat_reach r = {0};
    uint64_t spare = less(less(g->ram_bytes, g->live_bytes), g->ahead_bytes);
    uint64_t both = g->ram_bytes > UINT64_MAX - g->disk_bytes ? UINT64_MAX : g->ram_bytes + g->disk_bytes;
    uint64_t kept = spare > UINT64_MAX - g->disk_bytes ? UINT64_MAX : spare + g->disk_bytes;
    /* What fits as a whole stays: there is nothing to fetch ahead of it, and the window lies in it. */
    if (g->ram_bytes >= g->dataset_bytes || kept > g->dataset_bytes)
        kept = g->dataset_bytes;
    r.kept_bytes = kept;
    r.bucket_bytes = g->dataset_bytes - kept;
    r.least_bytes = less(g->dataset_bytes, both);
    r.seconds = g->line > 0 ? (double)r.bucket_bytes / g->line : 0;
    r.tight = g->ram_bytes < g->live_bytes;
    return r;
}

void leat_reach_say(const struct leat_reach_given *g, char *out, size_t n)
{
    char kept[LEAT_FORMAT_SIZE];
    char all[LEAT_FORMAT_SIZE];
    char rest[LEAT_FORMAT_SIZE];
    char rate[LEAT_FORMAT_SIZE];
    char time[LEAT_FORMAT_SIZE];
    char line[3 * LEAT_FORMAT_SIZE] = "";
    char tight[3 * LEAT_FORMAT_SIZE + 100] = "";
    struct leat_reach r = leat_reach(g);
    leat_format_size(g->dataset_bytes, all);
    leat_format_size(r.kept_bytes, kept);
    leat_format_size(r.bucket_bytes, rest);
    double whole = g->line > 0 ? (double)g->dataset_bytes / g->line : 0;
    double seconds = r.bucket_bytes ? r.seconds : whole;
    if (seconds > 0)
        snprintf(line, sizeof line, ", %s at %s",
                 leat_format_duration((uint64_t)((seconds < 1e9 ? seconds : 1e9) * 1e9), time),
                 leat_format_rate(g->line, rate));
    if (r.tight)
        snprintf(tight, sizeof tight,
                 "; memory of %s is less than the %s that are mixed at a time: chunks may be fetched several times "
                 "per epoch",
                 leat_format_size(g->ram_bytes, rate), leat_format_size(g->live_bytes, time));
    if (!r.bucket_bytes)
        snprintf(out, n, "cache for all of %s: nothing from the bucket after the first epoch%s%s%s", all,
                 *line ? " (" : "", *line ? line + 2 : "", *line ? ")" : "");
    else
        snprintf(out, n, "cache %s of %s: %.0f %% of the bytes from here, %s per epoch from the bucket%s%s", kept, all,
                 100.0 * (double)r.kept_bytes / (double)g->dataset_bytes, rest, line, tight);
}
