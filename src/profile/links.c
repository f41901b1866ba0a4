#include "profile/links.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile/interval.h"

static const char *const scopes[] = {"all", "machine", "network", "pair"};
static const char *const backends[] = {"gloo", "nccl"};

void leat_links_add(struct leat_links *links, const struct leat_lane_record *r)
{
    size_t i = 0;
    uint64_t scope = r->extra & 0xFF;
    uint64_t backend = r->extra >> 8 & 0xFF;
    if (scope >= sizeof scopes / sizeof *scopes || backend >= sizeof backends / sizeof *backends)
        return; /* scribbled */
    while (i < links->rows && (links->row[i].key != r->extra || links->row[i].bytes != (double)r->value))
        i++;
    if (i == LEAT_REPORT_LINKS)
        return;
    if (i == links->rows) {
        links->rows++;
        links->row[i].key = r->extra;
        links->row[i].bytes = (double)r->value;
    }
    if (links->row[i].n < sizeof links->row[i].s / sizeof *links->row[i].s)
        links->row[i].s[links->row[i].n++] = (double)(r->end_ns - r->start_ns) / 1e9;
}

void leat_links_report(const struct leat_links *links, struct leat_report *out)
{
    for (size_t i = 0; i < links->rows && out->links < LEAT_REPORT_LINKS; i++) {
        uint64_t key = links->row[i].key;
        struct leat_report_link *l = &out->link[out->links++];
        *l = (struct leat_report_link){.a = (int)(key >> 32 & 0xFFFF),
                                       .b = (int)(key >> 48),
                                       .ranks = (unsigned)(key >> 16 & 0xFFFF),
                                       .bytes = links->row[i].bytes,
                                       .s = leat_interval_of(links->row[i].s, links->row[i].n)};
        l->a = l->a == 0xFFFF ? -1 : l->a;
        l->b = l->b == 0xFFFF ? -1 : l->b;
        snprintf(l->scope, sizeof l->scope, "%s", scopes[key & 0xFF]);
        snprintf(l->backend, sizeof l->backend, "%s", backends[key >> 8 & 0xFF]);
    }
}

bool leat_links_fit(const struct leat_report *r, const char *scope, struct leat_plan_link *out, double *spread)
{
    double n = 0;
    double ranks = 0;
    double sw = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < r->links; i++) {
        const struct leat_report_link *l = &r->link[i];
        if (strcmp(l->scope, scope) != 0 || !(l->s.mean > 0) || l->ranks < 2)
            continue;
        double w = 1 / (l->s.mean * l->s.mean); /* relative errors count the same */
        n++;
        ranks = l->ranks;
        sw += w;
        sx += w * l->bytes;
        sy += w * l->s.mean;
        sxx += w * l->bytes * l->bytes;
        sxy += w * l->bytes * l->s.mean;
    }
    double det = sw * sxx - sx * sx;
    if (n < 2 || !(det > 0))
        return false;
    double slope = (sw * sxy - sx * sy) / det;
    if (!(slope > 0))
        slope = sy / sx; /* noise has turned the line over: all of it is bandwidth then */
    double start = fmax(0, (sy - slope * sx) / sw);
    double squares = 0;
    for (size_t i = 0; i < r->links; i++) {
        const struct leat_report_link *l = &r->link[i];
        if (strcmp(l->scope, scope) != 0 || !(l->s.mean > 0) || l->ranks < 2)
            continue;
        double off = (start + slope * l->bytes) / l->s.mean - 1;
        squares += off * off;
    }
    /* A ring of n ranks makes 2(n-1) hops of a share 1/n each. */
    *out =
        (struct leat_plan_link){.bytes_per_s = 2 * (ranks - 1) / ranks / slope, .latency_s = start / (2 * (ranks - 1))};
    *spread = sqrt(squares / (n > 2 ? n - 2 : 1));
    return true;
}

leat_status leat_links_exposed(const struct leat_report *r, unsigned gpus, unsigned nodes, struct leat_report_time *out,
                               struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    double spread[2] = {0, 0};
    if (gpus * nodes < 2) {
        *out = (struct leat_report_time){0, 0, 0};
        return LEAT_OK;
    }
    if (!run || !(run->gradient_bytes > 0))
        return leat_fail(err, LEAT_UNSUPPORTED, "not enough data: the report knows no exchange of gradients");
    double forward = run->part_s[LEAT_REPORT_FORWARD];
    double backward = run->part_s[LEAT_REPORT_BACKWARD];
    double compute_s = forward + backward;
    struct leat_plan_allreduce m = {.gradient_bytes = run->gradient_bytes,
                                    .bucket_bytes =
                                        run->buckets > 0 ? run->gradient_bytes / run->buckets : run->gradient_bytes,
                                    .backward_share = compute_s > 0 ? backward / compute_s : LEAT_PLAN_BACKWARD_SHARE,
                                    .inside = {INFINITY, 0},
                                    .network = {INFINITY, 0}};
    if (gpus > 1 && !leat_links_fit(r, "machine", &m.inside, &spread[0]))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: the links inside a machine were not measured: profile 2 ranks or more of a "
                         "machine with --time");
    if (nodes > 1 && !leat_links_fit(r, "network", &m.network, &spread[1]))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: the network between machines was not measured: profile 2 machines with "
                         "--time");
    double s = leat_plan_allreduce_step(&m, compute_s, nodes, gpus) - compute_s;
    /* The line's own error, and a tenth: a ring is not the only way to add up. */
    double off = 2 * sqrt(spread[0] * spread[0] + spread[1] * spread[1] + 0.01);
    *out = (struct leat_report_time){s, s / (1 + off), s * (1 + off)};
    return LEAT_OK;
}
