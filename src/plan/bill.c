/* What a configuration costs: machines by the hour, what stands beside them, requests and egress. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/sum.h"

#define HOURS_A_MONTH 730.0

static void price_machines(struct leat_plan_sum *s)
{
    const struct leat_plan_case *c = s->c;
    const struct leat_plan_offer *o = c->offer;
    /* Uniform progress rents the whole cluster of either kind, by turns. */
    const unsigned machines[2] = {leat_plan_kind_turns(c->kind) ? c->nodes : s->run.anchors, s->run.transients};
    for (int k = 0; k < 2; k++) {
        char from[320];
        char host[40] = "";
        if (!machines[k]) /* a price that is not offered is NaN: never multiply it by 0 */
            continue;
        s->machines_usd_h[k] = machines[k] * o->usd_per_hour[k];
        if (!s->terms)
            continue;
        if (o->host_line)
            snprintf(host, sizeof host, " and its host, line %u", o->host_line);
        snprintf(from, sizeof from, "%.190s line %u%s", s->plan->catalog.name[o->file], o->price_line[k], host);
        struct leat_plan_term *t = leat_plan_term(s->terms, k ? "transient machines" : "on-demand machines",
                                                  s->machines_usd_h[k], LEAT_PLAN_UNIT_USD_H, from);
        leat_plan_term_factor(t, machines[k], LEAT_PLAN_UNIT_COUNT);
        leat_plan_term_factor(t, o->usd_per_hour[k], LEAT_PLAN_UNIT_USD_H);
        if (*o->zone[k])
            leat_plan_term_words(t, "zone %s", o->zone[k]);
    }
}

/* Dollars for each GB that the machines fetch, by where the data and they are. */
static leat_status price_egress(struct leat_plan_sum *s, struct leat_error *err)
{
    const struct leat_plan_offer *o = s->c->offer;
    const struct leat_plan_path *p = &s->job->path[s->c->path];
    const char *data = s->job->data_region;
    char from[LEAT_PLAN_PATH_SOURCE_SIZE + 120];
    char path[LEAT_PLAN_PATH_SOURCE_SIZE];
    s->egress_usd_gb = isnan(p->usd_per_egress_gb) ? 0 : p->usd_per_egress_gb;
    if (!*data) {
        if (s->egress_usd_gb > 0)
            leat_plan_term(s->terms, "egress, per GB", s->egress_usd_gb, LEAT_PLAN_UNIT_USD,
                           leat_plan_path_source(p, path));
        return LEAT_OK;
    }
    const struct leat_plan_egress_row *row = leat_plan_egress_find(&s->plan->egress, data, o->provider, o->region);
    bool here = leat_plan_same_place(data, o->provider, o->region);
    if (row) {
        s->egress_usd_gb = row->usd_per_gb;
        snprintf(from, sizeof from, "%.80s line %u", leat_plan_tail(s->plan->egress.name[row->file]), row->line);
    } else if (here) {
        s->egress_usd_gb = 0;
        snprintf(from, sizeof from, "machines and data in the same region");
    } else if (isnan(p->usd_per_egress_gb)) {
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "egress from %s to %s is not known: a line of egress prices, or usd_per_egress_gb of "
                         "[path.%s], is missing",
                         data, o->region, p->name);
    } else {
        snprintf(from, sizeof from, "%s", leat_plan_path_source(p, path));
    }
    struct leat_plan_term *t = leat_plan_term(s->terms, "egress, per GB", s->egress_usd_gb, LEAT_PLAN_UNIT_USD, from);
    leat_plan_term_words(t, "%.32s to %.32s", data, o->region);
    return LEAT_OK;
}

leat_status leat_plan_bill(struct leat_plan_sum *s, struct leat_error *err)
{
    const struct leat_plan_case *c = s->c;
    const struct leat_plan_job *job = s->job;
    struct leat_plan_run *run = &s->run;
    price_machines(s);
    if (job->mode == LEAT_PLAN_ASYNC && s->workers > 1) {
        if (!leat_plan_job_has(job, LEAT_KEY_SERVER_USD))
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "asynchronous workers need a parameter server: server.usd_per_hour is missing");
        s->beside_usd_h[0] = job->value[LEAT_KEY_SERVER_USD];
        leat_plan_term(s->terms, "parameter server", s->beside_usd_h[0], LEAT_PLAN_UNIT_USD_H,
                       job->source[LEAT_KEY_SERVER_USD]);
    }
    if (c->path >= 0) {
        char from[LEAT_PLAN_PATH_SOURCE_SIZE];
        const struct leat_plan_path *p = &job->path[c->path];
        leat_status rc = price_egress(s, err);
        if (rc != LEAT_OK)
            return rc;
        double byte_usd = p->usd_per_1000_requests / 1000 / p->request_bytes + s->egress_usd_gb / 1e9;
        s->beside_usd_h[1] = c->nodes * s->cache_bytes / 1e9 * p->usd_per_disk_gb_month / HOURS_A_MONTH;
        run->usd_fixed = s->fetched_bytes * byte_usd;
        /* A trace takes all machines at a time, and with them all that they hold. */
        run->usd_per_revocation = s->cached_bytes / (s->traced ? 1 : c->nodes) * byte_usd;
        if (s->beside_usd_h[1] > 0)
            leat_plan_term(s->terms, "cache disks", s->beside_usd_h[1], LEAT_PLAN_UNIT_USD_H,
                           leat_plan_path_source(p, from));
    }
    /* A cluster of uniform progress costs this while it is transient. */
    run->usd_per_s = (leat_plan_kind_turns(c->kind) ? 0 : s->machines_usd_h[0]) / 3600 +
                     (s->machines_usd_h[1] + s->beside_usd_h[0] + s->beside_usd_h[1]) / 3600;
    run->bill_increment_s = job->value[LEAT_KEY_BILL_INCREMENT];
    run->bill_minimum_s = job->value[LEAT_KEY_BILL_MINIMUM];
    return LEAT_OK;
}

static void by_the_hour(struct leat_plan_sum *s, const char *label, double usd_h, double hours, double usd)
{
    if (!(usd_h > 0) || !(hours > 0))
        return;
    struct leat_plan_term *t = leat_plan_term(s->terms, label, usd, LEAT_PLAN_UNIT_USD, "price × time");
    if (fabs(usd_h * hours - usd) > 1e-9 * usd) { /* zones with prices of their own: no single factor makes it */
        leat_plan_term_words(t, "%.4f h at %.4f usd/h on average", hours, usd / hours);
        return;
    }
    leat_plan_term_factor(t, usd_h, LEAT_PLAN_UNIT_USD_H);
    leat_plan_term_factor(t, hours, LEAT_PLAN_UNIT_H);
}

/* The sum of the money; every term that is not nothing. */
void leat_plan_bill_terms(struct leat_plan_sum *s, double revocations)
{
    char from[LEAT_PLAN_PATH_SOURCE_SIZE];
    double transient = s->traced ? s->transient_usd : s->machines_usd_h[1] * s->paid_h[1];
    by_the_hour(s, "money: on demand", s->machines_usd_h[0], s->paid_h[0], s->machines_usd_h[0] * s->paid_h[0]);
    by_the_hour(s, "money: transient", s->machines_usd_h[1], s->paid_h[1], transient);
    by_the_hour(s, "money: parameter server", s->beside_usd_h[0], s->paid_h[2], s->beside_usd_h[0] * s->paid_h[2]);
    by_the_hour(s, "money: cache disks", s->beside_usd_h[1], s->paid_h[2], s->beside_usd_h[1] * s->paid_h[2]);
    if (s->rounding_usd > 5e-5)
        leat_plan_term(s->terms, "money: billing steps", s->rounding_usd, LEAT_PLAN_UNIT_USD,
                       s->job->source[LEAT_KEY_BILL_INCREMENT]);
    if (s->run.usd_fixed > 0)
        leat_plan_term(s->terms, "money: requests and egress", s->run.usd_fixed, LEAT_PLAN_UNIT_USD,
                       leat_plan_path_source(&s->job->path[s->c->path], from));
    if (s->run.usd_per_revocation * revocations > 0) {
        struct leat_plan_term *t =
            leat_plan_term(s->terms, "money: fetching again", s->run.usd_per_revocation * revocations,
                           LEAT_PLAN_UNIT_USD, "what a new machine's cache must hold");
        leat_plan_term_factor(t, revocations, LEAT_PLAN_UNIT_COUNT);
        leat_plan_term_factor(t, s->run.usd_per_revocation, LEAT_PLAN_UNIT_USD);
    }
}
