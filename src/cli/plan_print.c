#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "cli/plan.h"

/* Rows beside the front in the short table: enough to see what was nearly as good. */
#define OTHERS_SHOWN  3
#define REASONS_SHOWN 5

void leat_cli_plan_notes(const struct leat_plan_notes *notes, enum leat_log_level level)
{
    for (size_t i = 0; i < notes->count; i++)
        leat_log(level, "%s", notes->line[i]);
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

static void print_row(const struct leat_plan *plan, const struct leat_plan_record *r, int width, bool accuracy,
                      FILE *out)
{
    char name[LEAT_PLAN_NAME_SIZE];
    char time[80];
    char usd[80];
    char interval[LEAT_FORMAT_SIZE];
    time_cell(&r->time_s, time, sizeof time);
    snprintf(usd, sizeof usd, "%.2f [%.2f, %.2f]", r->usd.mean, r->usd.lo, r->usd.hi);
    fprintf(out, "%c%c %-*s  %-29s  %-26s  %4.1f %%  %6.2f  %-12s", r->chosen ? '*' : ' ', r->front ? '|' : ' ', width,
            leat_plan_record_name(plan, r, name), time, usd, 100 * r->stall_share, r->revocations,
            checkpoint(r->interval_s, interval));
    if (accuracy && isnan(r->accuracy))
        fputs("      – ", out);
    else if (accuracy)
        fprintf(out, "  %5.2f", r->accuracy);
    fprintf(out, "  %s\n", r->why);
}

/* Whoever misses a kind of machine in the table should not have to guess why. */
static void print_left_out(const struct leat_plan_notes *notes, FILE *out)
{
    if (notes->count)
        fputs("\nleft out:\n", out);
    for (size_t i = 0; i < notes->count && i < REASONS_SHOWN; i++)
        fprintf(out, "  %s\n", notes->line[i]);
    if (notes->count > REASONS_SHOWN)
        fprintf(out, "  … and %zu more reasons (LEAT_LOG=info)\n", notes->count - REASONS_SHOWN + notes->more);
}

void leat_cli_plan_table(const struct leat_plan *plan, bool all, FILE *out)
{
    size_t count;
    size_t others = 0;
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    const struct leat_plan_job *job = leat_plan_job_of(plan);
    const struct leat_plan_options *o = leat_plan_options_of(plan);
    int width = 13;
    char name[LEAT_PLAN_NAME_SIZE];
    for (size_t i = 0; i < count; i++) {
        if (all || r[i].front || r[i].chosen || others++ < OTHERS_SHOWN)
            width = (int)fmax(width, (double)strlen(leat_plan_record_name(plan, &r[i], name)));
    }
    fprintf(out, "%s: %zu configurations", job->name, count);
    if (o->deadline_s > 0)
        fprintf(out, ", deadline %.4g h", o->deadline_s / 3600);
    if (o->budget_usd > 0)
        fprintf(out, ", budget %.2f usd", o->budget_usd);
    if (o->deadline_s > 0 || o->budget_usd > 0)
        fprintf(out, " at p%g", o->risk * 100);
    fprintf(out, "\n\n   %-*s  %-29s  %-26s  %6s  %6s  %-12s%s  %s\n", width, "configuration", "time [9 of 10 runs]",
            "usd [9 of 10 runs]", "stall", "taken", "checkpoint", job->accuracies ? "  acc. %" : "", "why, or why not");
    others = 0;
    for (size_t i = 0; i < count; i++) {
        if (all || r[i].front || r[i].chosen || others++ < OTHERS_SHOWN)
            print_row(plan, &r[i], width, job->accuracies, out);
    }
    fputs("\n* chosen   | nothing else is both faster and cheaper\n", out);
    print_left_out(leat_plan_left_out(plan), out);
}

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
    fprintf(out, "%s%*s  ", text, (int)(width - letters(text)), "");
}

void leat_cli_plan_lines(const struct leat_plan *plan, const struct leat_plan_record *record,
                         const struct leat_plan_lines *lines, FILE *out)
{
    char name[LEAT_PLAN_NAME_SIZE];
    size_t label = 0;
    size_t value = 0;
    for (size_t i = 0; i < lines->count; i++) {
        label = letters(lines->line[i].label) > label ? letters(lines->line[i].label) : label;
        value = letters(lines->line[i].value) > value ? letters(lines->line[i].value) : value;
    }
    fprintf(out, "%s\n\n", leat_plan_record_name(plan, record, name));
    for (size_t i = 0; i < lines->count; i++) {
        fputs("  ", out);
        print_padded(out, lines->line[i].label, label);
        print_padded(out, lines->line[i].value, value);
        fprintf(out, "%s\n", lines->line[i].source);
    }
    fprintf(out, "\n%s\n", record->why);
}
