#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "cli/plan.h"

/* Rows beside the front in the short table: enough to see what was nearly as good. */
#define OTHERS_SHOWN  3
#define REASONS_SHOWN 5

static const char *times(const struct leat_plan_notes *notes, size_t i, char out[40])
{
    out[0] = '\0';
    if (notes->times[i] > 1)
        snprintf(out, 40, " (%zu times)", notes->times[i]);
    return out;
}

void leat_cli_plan_notes(const struct leat_plan_notes *notes, enum leat_log_level level)
{
    char text[40];
    for (size_t i = 0; i < notes->count; i++)
        leat_log(level, "%s%s", notes->line[i], times(notes, i, text));
    if (notes->more)
        leat_log(level, "… and more of this kind");
}

static const char *checkpoint(double interval_s, char out[LEAT_FORMAT_SIZE])
{
    if (!(interval_s < 1e9))
        return "at the end";
    return leat_format_duration((uint64_t)(interval_s * 1e9), out);
}

static void hours(double s, char *out, size_t n)
{
    if (s < 3600)
        snprintf(out, n, "%.1f min", s / 60);
    else
        snprintf(out, n, s < 36000 ? "%.2f h" : "%.1f h", s / 3600);
}

static void time_cell(const struct leat_plan_interval *t, char *out, size_t n)
{
    char mean[24];
    char lo[24];
    char hi[24];
    hours(t->mean, mean, sizeof mean);
    hours(t->lo, lo, sizeof lo);
    hours(t->hi, hi, sizeof hi);
    snprintf(out, n, "%s [%s, %s]", mean, lo, hi);
}

/* "8 × A100", and where: what one would order. */
static void machine_cell(const struct leat_plan_record *r, char *out, size_t n)
{
    unsigned gpus = r->nodes * r->offer->gpus;
    snprintf(out, n, "%u × %s%s", gpus, r->offer->accelerator, r->transferred ? " ~" : "");
}

struct widths {
    size_t name;
    size_t machine;
    size_t zone;
};

/* Letters, not bytes: printf's widths know nothing of UTF-8. */
static size_t letters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_padded(FILE *out, const char *text, size_t width)
{
    size_t n = letters(text);
    fprintf(out, "%s%*s  ", text, (int)(width > n ? width - n : 0), "");
}

static void print_row(const struct leat_plan *plan, const struct leat_plan_record *r, const struct widths *w,
                      bool accuracy, FILE *out)
{
    char name[LEAT_PLAN_NAME_SIZE];
    char time[80];
    char usd[80];
    char machine[60];
    char interval[LEAT_FORMAT_SIZE];
    time_cell(&r->time_s, time, sizeof time);
    machine_cell(r, machine, sizeof machine);
    snprintf(usd, sizeof usd, "%.2f [%.2f, %.2f]", r->usd.mean, r->usd.lo, r->usd.hi);
    fprintf(out, "%c%c ", r->chosen ? '*' : ' ', r->front ? '|' : ' ');
    print_padded(out, leat_plan_record_name(plan, r, name), w->name);
    print_padded(out, machine, w->machine);
    if (w->zone)
        print_padded(out, *leat_plan_record_zone(r) ? leat_plan_record_zone(r) : "-", w->zone);
    fprintf(out, "%8.2f  %-29s  %-26s  %4.1f %%  %6.2f  %-12s", r->usd_per_hour, time, usd, 100 * r->stall_share,
            r->revocations, checkpoint(r->interval_s, interval));
    if (accuracy && isnan(r->accuracy))
        fputs("      – ", out);
    else if (accuracy)
        fprintf(out, "  %5.2f", r->accuracy);
    fprintf(out, "  %s\n", r->why);
}

/* Nobody should have to guess why a kind of machine is missing from the table. */
static void print_left_out(const struct leat_plan_notes *notes, FILE *out)
{
    char text[40];
    if (notes->count)
        fputs("\nleft out:\n", out);
    bool told[LEAT_PLAN_NOTES_MAX] = {false};
    for (size_t k = 0; k < notes->count && k < REASONS_SHOWN; k++) { /* the most frequent first */
        size_t best = 0;
        while (best < notes->count && told[best])
            best++;
        for (size_t i = best + 1; i < notes->count; i++) {
            if (!told[i] && notes->times[i] > notes->times[best])
                best = i;
        }
        if (best >= LEAT_PLAN_NOTES_MAX)
            break;
        told[best] = true;
        fprintf(out, "  %s%s\n", notes->line[best], times(notes, best, text));
    }
    if (notes->count > REASONS_SHOWN)
        fprintf(out, "  … and %zu more reasons (LEAT_LOG=info)\n", notes->count - REASONS_SHOWN + notes->more);
}

static bool shown(const struct leat_plan_record *r, bool all, size_t *others)
{
    return all || r->front || r->chosen || (!r->same_as && (*others)++ < OTHERS_SHOWN);
}

static struct widths measure(const struct leat_plan *plan, bool all)
{
    struct widths w = {13, 8, 0};
    size_t count;
    size_t others = 0;
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    for (size_t i = 0; i < count; i++) {
        char text[LEAT_PLAN_NAME_SIZE];
        if (!shown(&r[i], all, &others))
            continue;
        size_t n = letters(leat_plan_record_name(plan, &r[i], text));
        w.name = n > w.name ? n : w.name;
        machine_cell(&r[i], text, sizeof text);
        w.machine = letters(text) > w.machine ? letters(text) : w.machine;
        n = letters(leat_plan_record_zone(&r[i]));
        w.zone = n > w.zone ? n : w.zone;
    }
    if (w.zone && w.zone < 4)
        w.zone = 4;
    return w;
}

void leat_cli_plan_table(const struct leat_plan *plan, bool all, FILE *out)
{
    size_t count;
    size_t others = 0;
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    const struct leat_plan_job *job = leat_plan_job_of(plan);
    const struct leat_plan_options *o = leat_plan_options_of(plan);
    const struct widths w = measure(plan, all);
    bool guessed = false;
    fprintf(out, "%s: %zu configurations", job->name, count);
    if (o->deadline_s > 0)
        fprintf(out, ", deadline %.4g h", o->deadline_s / 3600);
    if (o->budget_usd > 0)
        fprintf(out, ", budget %.2f usd", o->budget_usd);
    if (o->deadline_s > 0 || o->budget_usd > 0)
        fprintf(out, " at p%g", o->risk * 100);
    fputs("\n\n   ", out);
    print_padded(out, "configuration", w.name);
    print_padded(out, "GPUs", w.machine);
    if (w.zone)
        print_padded(out, "zone", w.zone);
    fprintf(out, "%8s  %-29s  %-26s  %6s  %6s  %-12s%s  %s\n", "usd/h", "time [9 of 10 runs]", "usd [9 of 10 runs]",
            "stall", "taken", "checkpoint", job->accuracies ? "  acc. %" : "", "why, or why not");
    for (size_t i = 0; i < count; i++) {
        if (!shown(&r[i], all, &others))
            continue;
        guessed |= r[i].transferred;
        print_row(plan, &r[i], &w, job->accuracies, out);
    }
    fputs("\n* chosen   | nothing else is both faster and cheaper", out);
    if (guessed)
        fputs("   ~ not measured: carried over from another accelerator", out);
    fputc('\n', out);
    print_left_out(leat_plan_left_out(plan), out);
}

void leat_cli_plan_lines(const struct leat_plan *plan, const struct leat_plan_record *record,
                         const struct leat_plan_terms *terms, FILE *out)
{
    char text[LEAT_PLAN_NAME_SIZE];
    size_t label = 0;
    size_t value = 0;
    for (size_t i = 0; i < terms->count; i++) {
        size_t n = letters(terms->term[i].label);
        label = n > label ? n : label;
        n = letters(leat_plan_term_text(&terms->term[i], text));
        value = n > value ? n : value;
    }
    fprintf(out, "%s\n\n", leat_plan_record_name(plan, record, text));
    for (size_t i = 0; i < terms->count; i++) {
        fputs("  ", out);
        print_padded(out, terms->term[i].label, label);
        print_padded(out, leat_plan_term_text(&terms->term[i], text), value);
        fprintf(out, "%s\n", terms->term[i].source);
    }
    fprintf(out, "\n%s\n", record->why);
}

void leat_cli_plan_compared(const struct leat_plan_comparison *c, FILE *out)
{
    fprintf(out, "%s\n\n  %-16s  %-34s  %12s  %8s  %-8s  %s\n", c->config, "", "predicted [9 of 10 runs]", "measured",
            "off by", "", "predicted with this run [9 of 10]");
    for (size_t i = 0; i < c->count; i++) {
        const struct leat_plan_compared *r = &c->row[i];
        char what[40];
        char before[80];
        char off[20] = "-";
        snprintf(what, sizeof what, "%s%s%s", r->what, *r->unit ? ", " : "", r->unit);
        snprintf(before, sizeof before, "%.5g [%.5g, %.5g]", r->predicted.mean, r->predicted.lo, r->predicted.hi);
        if (r->measured > 0)
            snprintf(off, sizeof off, "%+.1f %%", 100 * (r->predicted.mean / r->measured - 1));
        fprintf(out, "  %-16s  %-34s  %12.6g  %8s  %-8s  %.5g [%.5g, %.5g]\n", what, before, r->measured, off,
                r->inside ? "inside" : "outside", r->refitted.mean, r->refitted.lo, r->refitted.hi);
    }
    if (*c->measurements)
        fprintf(out, "\nwhat it measured, for --measurements:\n\n%s", c->measurements);
}
