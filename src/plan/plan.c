#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/run.h"
#include "plan/toml.h"
#include "plan/world.h"

static leat_status read_job(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    struct leat_plan_doc *doc = NULL;
    leat_status rc = LEAT_OK;
    const struct leat_plan_text *t = &in->job;
    if (t->text) {
        size_t at = 0;
        size_t mark = t->n >= 3 && memcmp(t->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* editors write it unasked */
        const char *text = t->text + mark;
        size_t n = t->n - mark;
        while (at < n && strchr(" \t\r\n", text[at]))
            at++;
        bool json = at < n && text[at] == '{';
        rc = json ? leat_plan_doc_json(t->name, text, n, &doc, err) : leat_plan_toml_parse(t->name, text, n, &doc, err);
    }
    if (rc == LEAT_OK)
        rc = leat_plan_job_read(doc, in->settings, in->setting_count, &p->job, err);
    leat_plan_doc_free(doc);
    return rc;
}

static leat_status read_traces(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    const struct leat_plan_text *t = &in->traces;
    if (!t->text)
        return LEAT_OK;
    leat_status rc = leat_plan_traces_index(t->name, t->text, t->n, &p->traces, err);
    return rc == LEAT_OK ? leat_plan_traces_read(&p->traces, in->trace_files, in->trace_count, err) : rc;
}

static leat_status read_measures(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < in->measurement_count; i++) {
        const struct leat_plan_text *t = &in->measurements[i];
        rc = leat_plan_measures_csv(t->name, t->text, t->n, &p->measures, &p->notes, err);
    }
    for (size_t i = 0; rc == LEAT_OK && i < in->report_count; i++) {
        const struct leat_plan_text *t = &in->reports[i];
        rc = leat_plan_measures_report(t->name, t->text, t->n, &p->job, &p->measures, err);
    }
    if (rc != LEAT_OK)
        return rc;
    /* Too few measured checkpoints are no error: the job may know their time in another way. */
    rc = leat_plan_model_fit(&p->measures, LEAT_PLAN_CHECKPOINT, NULL, &p->checkpoint_model, NULL, NULL, err);
    p->has_checkpoint_model = rc == LEAT_OK;
    return rc == LEAT_NO_MEMORY ? rc : LEAT_OK;
}

/* Hardware, machines and lifetimes. */
static leat_status read_tables(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < in->hardware_count; i++) {
        const struct leat_plan_text *t = &in->hardware[i];
        rc = leat_plan_hardware_csv(t->name, t->text, t->n, &p->hardware, err);
    }
    if (rc == LEAT_OK && !in->catalog_count)
        rc = leat_fail(err, LEAT_INVALID, "no machines to choose from: a catalog is missing");
    if (rc == LEAT_OK)
        rc = leat_plan_catalog_parse(in->catalogs, in->catalog_count, &p->hardware, in->today, &p->catalog, &p->notes,
                                     err);
    for (size_t i = 0; rc == LEAT_OK && i < in->revocation_count; i++) {
        const struct leat_plan_text *t = &in->revocations[i];
        rc = leat_plan_revocations_read(t->name, t->text, t->n, &p->catalog, &p->revocations, err);
    }
    for (size_t i = 0; rc == LEAT_OK && i < in->egress_count; i++) {
        const struct leat_plan_text *t = &in->egress[i];
        rc = leat_plan_egress_csv(t->name, t->text, t->n, &p->egress, err);
    }
    return rc;
}

/* A misspelt region would make every machine a distant one. */
static void note_data_region(struct leat_plan *p)
{
    bool found = !*p->job.data_region;
    for (size_t i = 0; i < p->catalog.count && !found; i++)
        found = leat_plan_same_place(p->job.data_region, p->catalog.offer[i].provider, p->catalog.offer[i].region);
    if (!found)
        leat_plan_note(&p->notes, "data.region: no machine of the catalog is in '%s': all of them pay for egress",
                       p->job.data_region);
    if (p->egress.count && !*p->job.data_region)
        leat_plan_note(&p->notes, "egress prices are given, but not where the data lies (data.region): not used");
}

/* Time and money that are left of what was allowed. */
static leat_status less_spent(struct leat_plan *p, struct leat_error *err)
{
    const struct leat_plan_past *past = &p->past;
    struct leat_plan_options *o = &p->options;
    double work = leat_plan_job_work(&p->job);
    if (past->samples >= work)
        return leat_fail(err, LEAT_INVALID, "%s: %g samples are done of %g: nothing is left to plan", past->name,
                         past->samples, work);
    if (o->deadline_s > 0 && past->elapsed_s >= o->deadline_s)
        return leat_fail(err, LEAT_INVALID, "deadline: %.4g h, and %s has taken %.4g h already; give a later one",
                         o->deadline_s / 3600, past->name, past->elapsed_s / 3600);
    if (o->budget_usd > 0 && isnan(past->usd))
        return leat_fail(err, LEAT_INVALID, "budget: %s does not say what the run has cost so far (usd)", past->name);
    if (o->budget_usd > 0 && past->usd >= o->budget_usd)
        return leat_fail(err, LEAT_INVALID, "budget: %.2f usd, and %s has cost %.2f already; give a larger one",
                         o->budget_usd, past->name, past->usd);
    p->job.done = past->samples;
    if (o->deadline_s > 0)
        o->deadline_s -= past->elapsed_s;
    if (o->budget_usd > 0)
        o->budget_usd -= past->usd;
    leat_plan_note(&p->notes,
                   "planned from where %s is now: %.1f %% done after %.4g h; times and money are for what is left",
                   leat_plan_tail(past->name), 100 * past->samples / work, past->elapsed_s / 3600);
    return LEAT_OK;
}

/* After all other inputs: it adds to them. */
static leat_status read_past(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    if (!in->past.text)
        return LEAT_OK;
    leat_status rc = leat_plan_past_read(in->past.name, in->past.text, in->past.n, &p->past, err);
    if (rc == LEAT_OK)
        rc = leat_plan_past_locate(&p->past, &p->catalog, &p->job, err);
    if (rc == LEAT_OK)
        rc = leat_plan_past_learn(&p->past, in->resume, &p->job, &p->measures, &p->revocations, err);
    p->resumed = in->resume;
    return rc == LEAT_OK && in->resume ? less_spent(p, err) : rc;
}

static leat_status find_lifetimes(struct leat_plan *p, struct leat_error *err)
{
    p->revocation_of = calloc(p->catalog.count, sizeof *p->revocation_of);
    if (!p->revocation_of)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu machine types", p->catalog.count);
    for (size_t i = 0; i < p->catalog.count; i++) {
        const struct leat_plan_offer *o = &p->catalog.offer[i];
        p->revocation_of[i] = leat_plan_revocations_find(&p->revocations, o->type, o->accelerator, o->region);
    }
    return LEAT_OK;
}

/* One engine for all offers that are measured alike. */
static leat_status make_engines(struct leat_plan *p, struct leat_error *err)
{
    p->engine_of = calloc(p->catalog.count, sizeof *p->engine_of);
    p->engines = calloc(p->catalog.count, sizeof *p->engines);
    if (!p->engine_of || !p->engines)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu machine types", p->catalog.count);
    for (size_t i = 0; i < p->catalog.count; i++) {
        const struct leat_plan_offer *o = &p->catalog.offer[i];
        size_t k = 0;
        bool own = leat_plan_engine_by_type(&p->measures, o->type);
        while (k < p->engine_count && (strcmp(p->engines[k].accelerator, o->accelerator) != 0 ||
                                       strcmp(p->engines[k].type, own ? o->type : "") != 0))
            k++;
        if (k == p->engine_count) {
            leat_status rc = leat_plan_engine_make(&p->job, &p->measures, &p->hardware, o->type, o->accelerator,
                                                   &p->engines[k], err);
            if (rc != LEAT_OK)
                return rc;
            p->engine_count++;
        }
        p->engine_of[i] = k;
    }
    return LEAT_OK;
}

static leat_status check_options(const struct leat_plan_options *o, struct leat_error *err)
{
    if (o->max_nodes < 1 || o->max_nodes > LEAT_PLAN_MACHINES_MAX)
        return leat_fail(err, LEAT_INVALID, "max_nodes: %u is not from 1 to %d", o->max_nodes, LEAT_PLAN_MACHINES_MAX);
    if (o->draws < 50 || o->draws > 100000)
        return leat_fail(err, LEAT_INVALID, "draws: %u is not from 50 to 100000", o->draws);
    if (!(o->risk >= 0.5 && o->risk <= 0.999))
        return leat_fail(err, LEAT_INVALID, "risk: %g is not from p50 to p99.9", o->risk * 100);
    if (!(o->min_accuracy >= 0 && o->min_accuracy <= 100))
        return leat_fail(err, LEAT_INVALID, "min_accuracy: %g is not from 0 to 100", o->min_accuracy);
    if (!(o->deadline_s >= 0 && o->deadline_s < HUGE_VAL) || !(o->budget_usd >= 0 && o->budget_usd < HUGE_VAL))
        return leat_fail(err, LEAT_INVALID, "deadline and budget must be 0 or more");
    return LEAT_OK;
}

leat_status leat_plan_open(const struct leat_plan_inputs *inputs, const struct leat_plan_options *options,
                           struct leat_plan **out, struct leat_error *err)
{
    leat_status rc = check_options(options, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_plan *p = calloc(1, sizeof *p);
    if (!p)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a plan");
    p->options = *options;
    rc = read_job(p, inputs, err);
    if (rc == LEAT_OK)
        rc = read_tables(p, inputs, err);
    if (rc == LEAT_OK)
        rc = read_measures(p, inputs, err);
    if (rc == LEAT_OK)
        rc = read_traces(p, inputs, err);
    if (rc == LEAT_OK && options->min_accuracy > 0 && !p->job.accuracies)
        rc = leat_fail(err, LEAT_INVALID,
                       "min_accuracy: the job does not say how accuracy falls with workers ([accuracy])");
    if (rc == LEAT_OK)
        rc = read_past(p, inputs, err);
    if (rc == LEAT_OK && !p->measures.count)
        rc = leat_fail(err, LEAT_INVALID,
                       "nothing is known about speed: measurements (a CSV) or a profiler's report are missing");
    if (rc == LEAT_OK)
        note_data_region(p);
    if (rc == LEAT_OK)
        rc = find_lifetimes(p, err);
    if (rc == LEAT_OK)
        rc = make_engines(p, err);
    if (rc == LEAT_OK)
        rc = leat_plan_luck_new(options->seed, options->draws, &p->luck, err);
    if (rc == LEAT_OK) {
        p->draws = calloc(4 * (size_t)options->draws, sizeof *p->draws);
        if (!p->draws)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %u draws", options->draws);
    }
    if (rc != LEAT_OK) {
        leat_plan_close(p);
        return rc;
    }
    *out = p;
    return LEAT_OK;
}

void leat_plan_close(struct leat_plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->engine_count; i++)
        leat_plan_engine_free(&plan->engines[i]);
    leat_plan_traces_free(&plan->traces);
    leat_plan_hardware_free(&plan->hardware);
    leat_plan_catalog_free(&plan->catalog);
    leat_plan_measures_free(&plan->measures);
    leat_plan_revocations_free(&plan->revocations);
    leat_plan_egress_free(&plan->egress);
    leat_plan_past_free(&plan->past);
    free(plan->revocation_of);
    free(plan->engines);
    free(plan->engine_of);
    free(plan->records);
    free(plan->draws);
    leat_plan_luck_free(plan->luck);
    free(plan);
}

/* "us-east-1", or "aws/us-east-1" with several catalogs. */
static bool is_region(const struct leat_plan_offer *o, const char *name, size_t n)
{
    size_t before = strlen(o->provider);
    if (strlen(o->region) == n && memcmp(name, o->region, n) == 0)
        return true;
    return before && n == before + 1 + strlen(o->region) && memcmp(name, o->provider, before) == 0 &&
           name[before] == '/' && memcmp(name + before + 1, o->region, n - before - 1) == 0;
}

static bool any_in(const struct leat_plan *p, const char *name, size_t n)
{
    for (size_t i = 0; i < p->catalog.count; i++) {
        if (is_region(&p->catalog.offer[i], name, n))
            return true;
    }
    return false;
}

/* The next name of a text, without the blanks around it; false at the end. Some regions have commas in their names
 * ("Denmark, DK, EU"): a text that is one as a whole is that one. */
static bool next_region(const struct leat_plan *p, const char **text, const char **name, size_t *n)
{
    while (**text == ',' || **text == ' ')
        (*text)++;
    *name = *text;
    *n = any_in(p, *text, strlen(*text)) ? strlen(*text) : strcspn(*text, ",");
    *text += *n;
    while (*n && (*name)[*n - 1] == ' ')
        (*n)--;
    return *n > 0;
}

/* Marks the offers of the regions asked for. */
static leat_status want_regions(const struct leat_plan *p, bool *wanted, struct leat_error *err)
{
    const char *name;
    size_t n;
    for (size_t i = 0; i < p->catalog.count; i++)
        wanted[i] = !p->options.region_count;
    for (size_t k = 0; k < p->options.region_count; k++) {
        /* Regions like ", CA, NA" begin with a comma: the whole text first. */
        const char *text = p->options.regions[k];
        if (any_in(p, text, strlen(text))) {
            for (size_t i = 0; i < p->catalog.count; i++)
                wanted[i] |= is_region(&p->catalog.offer[i], text, strlen(text));
            continue;
        }
        while (next_region(p, &text, &name, &n)) {
            if (!any_in(p, name, n))
                return leat_fail(err, LEAT_INVALID, "region: the catalog has nothing in '%.*s'", (int)n, name);
            for (size_t i = 0; i < p->catalog.count; i++)
                wanted[i] |= is_region(&p->catalog.offer[i], name, n);
        }
    }
    return LEAT_OK;
}

/* Every count up to eight, then four a doubling with the powers of two among them, and the largest allowed. */
static unsigned next_count(unsigned n, unsigned max)
{
    unsigned power = 8;
    while (power * 2 <= n)
        power *= 2;
    unsigned next = n < 8 ? n + 1 : n + power / 4;
    return n < max && next > max ? max : next;
}

static leat_status add_case(struct leat_plan *p, const struct leat_plan_case *c, struct leat_error *err)
{
    if (p->options.interrupted && p->options.interrupted(p->options.user))
        return leat_fail(err, LEAT_CANCELLED, "interrupted");
    if (p->count == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 256;
        struct leat_plan_record *records = realloc(p->records, cap * sizeof *records);
        if (!records)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu configurations", cap);
        p->records = records;
        p->cap = cap;
    }
    leat_status rc = leat_plan_price_case(p, c, &p->records[p->count], NULL, err);
    if (rc == LEAT_OK)
        p->count++;
    else if (rc == LEAT_UNSUPPORTED && c->kind != LEAT_PLAN_KIND_FLEXIBLE) /* that one is an extra of 'uniform' */
        leat_plan_note(&p->left_out, "%s", err->text);
    return rc == LEAT_UNSUPPORTED ? LEAT_OK : rc;
}

static leat_status price_offer(struct leat_plan *p, const struct leat_plan_offer *offer, struct leat_error *err)
{
    bool planned = leat_plan_job_has(&p->job, LEAT_KEY_DATASET_BYTES);
    for (unsigned n = 1; n <= p->options.max_nodes; n = next_count(n, p->options.max_nodes)) {
        for (int kind = LEAT_PLAN_KIND_ON_DEMAND; kind < LEAT_PLAN_KINDS; kind++) {
            bool demand = !isnan(offer->usd_per_hour[0]);
            bool transient = !isnan(offer->usd_per_hour[1]);
            if ((kind != LEAT_PLAN_KIND_TRANSIENT && !demand) || (kind != LEAT_PLAN_KIND_ON_DEMAND && !transient) ||
                (kind == LEAT_PLAN_KIND_MIXED && n < 2) ||
                (leat_plan_kind_turns((enum leat_plan_kind)kind) && (!p->traces.count || !(p->options.deadline_s > 0))))
                continue;
            for (int path = planned ? 0 : -1; path < (planned ? (int)p->job.paths : 0); path++) {
                const struct leat_plan_case c = {offer, (enum leat_plan_kind)kind, n, path};
                leat_status rc = add_case(p, &c, err);
                if (rc != LEAT_OK)
                    return rc;
            }
        }
    }
    return LEAT_OK;
}

leat_status leat_plan_price(struct leat_plan *plan, struct leat_error *err)
{
    bool *wanted = calloc(plan->catalog.count + 1, sizeof *wanted);
    leat_status rc = wanted ? want_regions(plan, wanted, err)
                            : leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu machine types", plan->catalog.count);
    for (size_t i = 0; rc == LEAT_OK && i < plan->catalog.count; i++) {
        if (wanted[i])
            rc = price_offer(plan, &plan->catalog.offer[i], err);
    }
    free(wanted);
    if (rc != LEAT_OK)
        return rc;
    if (!plan->count)
        return leat_fail(err, LEAT_INVALID, "no configuration can be priced; %s",
                         plan->left_out.count ? plan->left_out.line[0] : "nothing is offered");
    return LEAT_OK;
}

const char *leat_plan_kind_name(enum leat_plan_kind kind)
{
    static const char *const names[] = {"on-demand", "transient", "mixed", "uniform", "flexible"};
    return names[kind];
}

char *leat_plan_record_name(const struct leat_plan *plan, const struct leat_plan_record *r,
                            char out[LEAT_PLAN_NAME_SIZE])
{
    char count[32];
    if (r->kind == LEAT_PLAN_KIND_MIXED)
        snprintf(count, sizeof count, "1+%u", r->nodes - 1);
    else
        snprintf(count, sizeof count, "%u", r->nodes);
    snprintf(out, LEAT_PLAN_NAME_SIZE, "%s:%s:%s:%s%s%s%s%s", r->offer->type, count, leat_plan_kind_name(r->kind),
             r->offer->provider, *r->offer->provider ? "/" : "", r->offer->region, r->path >= 0 ? ":" : "",
             r->path >= 0 ? plan->job.path[r->path].name : "");
    return out;
}

const char *leat_plan_record_zone(const struct leat_plan_record *r)
{
    return r->offer->zone[r->kind != LEAT_PLAN_KIND_ON_DEMAND];
}

const struct leat_plan_record *leat_plan_records(const struct leat_plan *plan, size_t *count)
{
    *count = plan->count;
    return plan->records;
}

const struct leat_plan_notes *leat_plan_notes_of(const struct leat_plan *plan)
{
    return &plan->notes;
}

const struct leat_plan_notes *leat_plan_left_out(const struct leat_plan *plan)
{
    return &plan->left_out;
}

const struct leat_plan_job *leat_plan_job_of(const struct leat_plan *plan)
{
    return &plan->job;
}

const struct leat_plan_options *leat_plan_options_of(const struct leat_plan *plan)
{
    return &plan->options;
}

leat_status leat_plan_find(const struct leat_plan *plan, const char *name, struct leat_plan_record *out,
                           struct leat_error *err)
{
    const struct leat_plan_record *found = NULL;
    unsigned beginnings = 0;
    size_t n = name ? strlen(name) : 0;
    char full[LEAT_PLAN_NAME_SIZE];
    for (size_t i = 0; i < plan->count; i++) {
        leat_plan_record_name(plan, &plan->records[i], full);
        if (name ? strncmp(full, name, n) != 0 : !plan->records[i].chosen)
            continue;
        beginnings++;
        found = &plan->records[i];
        if (!name || !full[n]) {
            beginnings = 1;
            break;
        }
    }
    if (!beginnings)
        return leat_fail(err, LEAT_NOT_FOUND,
                         "no configuration is called '%s'; --all (all=True) lists the names, as "
                         "TYPE:COUNT:KIND:REGION[:PATH]",
                         name ? name : "chosen");
    if (beginnings > 1)
        return leat_fail(err, LEAT_INVALID, "%u configurations begin with '%s'; give more of the name", beginnings,
                         name);
    *out = *found;
    return LEAT_OK;
}

leat_status leat_plan_explain(struct leat_plan *plan, const char *name, struct leat_plan_record *record,
                              struct leat_plan_terms *out, struct leat_error *err)
{
    struct leat_plan_record found;
    struct leat_plan_record again;
    leat_status rc = leat_plan_find(plan, name, &found, err);
    if (rc != LEAT_OK)
        return rc;
    const struct leat_plan_case c = {found.offer, found.kind, found.nodes, found.path};
    out->count = 0;
    rc = leat_plan_price_case(plan, &c, &again, out, err);
    if (rc == LEAT_OK)
        *record = found;
    return rc;
}
