/* The answer as one page without scripts or anything fetched: a picture of time against money, and the table. */
#include <math.h>
#include <string.h>

#include "base/parse.h"
#include "cli/plan.h"

#define WIDTH  860
#define HEIGHT 460
#define LEFT   90
#define RIGHT  20
#define TOP    20
#define BOTTOM 50
#define DOTS   3000 /* beyond that a picture only grows: of more, only every n-th is drawn */
#define TABLED 40

/* One axis: logarithmic when the values span more than a factor of five. */
struct axis {
    double lo;
    double hi;
    bool log;
    double from; /* pixels */
    double to;
};

static double place(const struct axis *a, double v)
{
    double share = a->log ? log(v / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);
    share = fmin(1.02, fmax(-0.02, share));
    return a->from + share * (a->to - a->from);
}

static struct axis lay_axis(double lo, double hi, double from, double to)
{
    struct axis a = {.log = hi > 5 * lo, .from = from, .to = to};
    a.lo = a.log ? lo / 1.15 : lo - 0.08 * (hi - lo);
    a.hi = a.log ? hi * 1.15 : hi + 0.08 * (hi - lo);
    if (!(a.hi > a.lo)) { /* all values the same */
        a.lo = lo * 0.9;
        a.hi = lo * 1.1;
    }
    if (!a.log && a.lo < 0)
        a.lo = 0;
    return a;
}

/* Ticks at 1, 2 and 5 times powers of ten: all of them on a logarithmic axis, multiples of one on a plain one. */
static size_t ticks(const struct axis *a, double out[32])
{
    size_t n = 0;
    if (a->log) {
        static const double steps[] = {1, 2, 5};
        int first = (int)floor(log10(a->lo));
        for (int i = 0; i < 30; i++) {
            int power = first + i / 3;
            double v = pow(10, power) * steps[i % 3];
            if (v >= a->lo && v <= a->hi)
                out[n++] = v;
        }
        return n;
    }
    double step = pow(10, floor(log10(a->hi - a->lo)));
    if ((a->hi - a->lo) / step < 2)
        step /= 5;
    else if ((a->hi - a->lo) / step < 5)
        step /= 2;
    double first = ceil(a->lo / step);
    while (n < 30 && (first + (double)n) * step <= a->hi) {
        out[n] = (first + (double)n) * step;
        n++;
    }
    return n;
}

static void draw_axes(struct leat_buf *b, const struct axis *x, const struct axis *y)
{
    double at[32];
    size_t n = ticks(x, at);
    for (size_t i = 0; i < n; i++)
        leat_buf_printf(b,
                        "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\" "
                        "text-anchor=\"middle\">%g</text>\n",
                        place(x, at[i]), place(x, at[i]), TOP, HEIGHT - BOTTOM, place(x, at[i]), HEIGHT - BOTTOM + 18,
                        at[i]);
    n = ticks(y, at);
    for (size_t i = 0; i < n; i++)
        leat_buf_printf(b,
                        "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
                        "text-anchor=\"end\">%g</text>\n",
                        LEFT, WIDTH - RIGHT, place(y, at[i]), place(y, at[i]), LEFT - 8, place(y, at[i]) + 4, at[i]);
    leat_buf_printf(b,
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">time (hours)</text>"
                    "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">money (usd)</text>\n",
                    (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, (TOP + HEIGHT - BOTTOM) / 2);
}

static void draw_limits(struct leat_buf *b, const struct leat_plan_options *o, const struct axis *x,
                        const struct axis *y)
{
    double deadline = o->deadline_s / 3600;
    if (deadline > x->lo && deadline < x->hi)
        leat_buf_printf(b,
                        "<line class=\"limit\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text class=\"limit\" "
                        "x=\"%.1f\" y=\"%d\" text-anchor=\"end\">deadline</text>\n",
                        place(x, deadline), place(x, deadline), TOP, HEIGHT - BOTTOM, place(x, deadline) - 5, TOP + 12);
    if (o->budget_usd > y->lo && o->budget_usd < y->hi)
        leat_buf_printf(b,
                        "<line class=\"limit\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"limit\" "
                        "x=\"%d\" y=\"%.1f\" text-anchor=\"end\">budget</text>\n",
                        LEFT, WIDTH - RIGHT, place(y, o->budget_usd), place(y, o->budget_usd), WIDTH - RIGHT - 5,
                        place(y, o->budget_usd) - 5);
}

static void draw_dot(struct leat_buf *b, const struct leat_plan *plan, const struct leat_plan_record *r,
                     const struct axis *x, const struct axis *y)
{
    char name[LEAT_PLAN_NAME_SIZE];
    double px = place(x, r->time_s.mean / 3600);
    double py = place(y, r->usd.mean);
    if (r->front || r->chosen) {
        leat_buf_printf(b, "<path class=\"bar\" d=\"M%.1f %.1fH%.1fM%.1f %.1fV%.1f\"/>", place(x, r->time_s.lo / 3600),
                        py, place(x, r->time_s.hi / 3600), px, place(y, r->usd.lo), place(y, r->usd.hi));
    }
    const char *class = r->chosen ? "chosen" : r->front ? "front" : leat_plan_kind_name(r->kind);
    leat_buf_printf(b, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>", class, px, py,
                    r->chosen  ? "7"
                    : r->front ? "4.5"
                               : "2.5");
    leat_buf_xml(b, leat_plan_record_name(plan, r, name));
    leat_buf_printf(b, ": %.2f h, %.2f usd</title></circle>\n", r->time_s.mean / 3600, r->usd.mean);
}

static void draw_front(struct leat_buf *b, const struct leat_plan_record *r, size_t count, const struct axis *x,
                       const struct axis *y)
{
    /* The chosen one stands first whatever its time: the line must go by time. */
    double last = 0;
    bool begun = false;
    leat_buf_str(b, "<path class=\"line\" d=\"");
    for (;;) {
        const struct leat_plan_record *next = NULL;
        for (size_t i = 0; i < count; i++) {
            if (r[i].front && r[i].time_s.mean > last && (!next || r[i].time_s.mean < next->time_s.mean))
                next = &r[i];
        }
        if (!next)
            break;
        leat_buf_printf(b, "%s%.1f %.1f", begun ? "L" : "M", place(x, next->time_s.mean / 3600),
                        place(y, next->usd.mean));
        begun = true;
        last = next->time_s.mean;
    }
    leat_buf_str(b, "\"/>\n");
}

static void draw_picture(struct leat_buf *b, const struct leat_plan *plan)
{
    size_t count;
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    double t[2] = {HUGE_VAL, 0};
    double u[2] = {HUGE_VAL, 0};
    for (size_t i = 0; i < count; i++) {
        t[0] = fmin(t[0], r[i].time_s.mean / 3600);
        t[1] = fmax(t[1], r[i].time_s.mean / 3600);
        u[0] = fmin(u[0], r[i].usd.mean);
        u[1] = fmax(u[1], r[i].usd.mean);
    }
    struct axis x = lay_axis(t[0], t[1], LEFT, WIDTH - RIGHT);
    struct axis y = lay_axis(u[0], u[1], HEIGHT - BOTTOM, TOP);
    leat_buf_printf(b, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"time against money\">\n", WIDTH, HEIGHT);
    draw_axes(b, &x, &y);
    draw_limits(b, leat_plan_options_of(plan), &x, &y);
    for (size_t i = count; i-- > 0;) { /* the best last, on top */
        if (r[i].front || r[i].chosen || i % (count / DOTS + 1) == 0)
            draw_dot(b, plan, &r[i], &x, &y);
    }
    draw_front(b, r, count, &x, &y);
    leat_buf_str(b, "</svg>\n");
}

static void write_row(struct leat_buf *b, const struct leat_plan *plan, const struct leat_plan_record *r)
{
    char text[LEAT_PLAN_NAME_SIZE];
    leat_buf_printf(b, "<tr%s><td>", r->chosen ? " class=\"chosen\"" : "");
    leat_buf_xml(b, leat_plan_record_name(plan, r, text));
    leat_buf_printf(b, "</td><td>%u × ", r->nodes * r->offer->gpus);
    leat_buf_xml(b, r->offer->accelerator);
    leat_buf_str(b, r->transferred ? " (not measured)</td><td>" : "</td><td>");
    leat_buf_xml(b, *leat_plan_record_zone(r) ? leat_plan_record_zone(r) : "–");
    leat_buf_printf(b, "</td><td>%.2f</td><td>%.2f h <small>%.2f – %.2f</small></td>", r->usd_per_hour,
                    r->time_s.mean / 3600, r->time_s.lo / 3600, r->time_s.hi / 3600);
    leat_buf_printf(b, "<td>%.2f <small>%.2f – %.2f</small></td><td>%.1f %%</td><td>%.2f</td><td>", r->usd.mean,
                    r->usd.lo, r->usd.hi, 100 * r->stall_share, r->revocations);
    leat_buf_str(b, r->interval_s < 1e9 ? leat_format_duration((uint64_t)(r->interval_s * 1e9), text) : "at the end");
    if (leat_plan_job_of(plan)->accuracies && isnan(r->accuracy))
        leat_buf_str(b, "</td><td>–");
    else if (leat_plan_job_of(plan)->accuracies)
        leat_buf_printf(b, "</td><td>%.2f %%", r->accuracy);
    leat_buf_str(b, "</td><td>");
    leat_buf_xml(b, r->why);
    leat_buf_str(b, "</td></tr>\n");
}

static void write_notes(struct leat_buf *b, const char *title, const struct leat_plan_notes *notes)
{
    if (!notes->count)
        return;
    leat_buf_printf(b, "<h2>%s</h2><ul>\n", title);
    for (size_t i = 0; i < notes->count; i++) {
        leat_buf_str(b, "<li>");
        leat_buf_xml(b, notes->line[i]);
        if (notes->times[i] > 1)
            leat_buf_printf(b, " (%zu times)", notes->times[i]);
        leat_buf_str(b, "</li>\n");
    }
    leat_buf_str(b, "</ul>\n");
}

static const char style[] =
    ":root{--ink:#1d2733;--soft:#66707c;--page:#fff;--grid:#e4e8ec;--front:#0a6e8a;--chosen:#d1430f;--on-demand:#"
    "8796a5;"
    "--transient:#5aa9bd;--mixed:#9a7fc0;--uniform:#6fae5c}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e9ee;--soft:#9aa6b2;--page:#14191f;--grid:#2b333c;--front:#"
    "5cc3de;"
    "--chosen:#ff8a55}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:1400px;margin:2em "
    "auto;padding:0 1em}h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin-top:2em}p{color:var(--soft);"
    "margin:.3em 0 1em}\n"
    "svg{width:100%;max-width:1050px;height:auto}svg "
    "text{font-size:12px;fill:var(--soft)}.grid{stroke:var(--grid)}.limit{stroke:"
    "var(--chosen);stroke-dasharray:5 4}text.limit{stroke:none;fill:var(--chosen)}.line{fill:none;stroke:var(--front);"
    "stroke-width:1.5}.bar{fill:none;stroke:var(--front);opacity:.35;stroke-width:3}\n"
    "circle{fill:var(--soft);opacity:.55}circle.front{fill:var(--front);opacity:1}circle.chosen{fill:var(--chosen);"
    "opacity:1}circle.on-demand{fill:var(--on-demand)}circle.transient{fill:var(--transient)}circle.mixed{fill:"
    "var(--mixed)}circle.uniform{fill:var(--uniform)}\n"
    "div.table{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{text-"
    "align:left;padding:.35em .8em .35em 0;border-bottom:1px solid var(--grid);vertical-align:top}th{color:var(--soft);"
    "font-weight:500}tr.chosen "
    "td:first-child{color:var(--chosen);font-weight:600}small,td{white-space:nowrap}td:last-child,td:first-child{white-"
    "space:normal;overflow-wrap:anywhere}"
    "small{color:var(--soft);display:block}table{font-size:13px}\n"
    ".key span{margin-right:1.2em;white-space:nowrap}.key "
    "i{display:inline-block;width:.7em;height:.7em;border-radius:50%;"
    "margin-right:.4em}\n";

static const char key[] =
    "<p class=\"key\"><span><i style=\"background:var(--chosen)\"></i>chosen</span><span><i style=\"background:"
    "var(--front)\"></i>front: nothing is both faster and cheaper</span><span><i style=\"background:var(--on-demand)\">"
    "</i>on demand</span><span><i style=\"background:var(--transient)\"></i>transient</span><span><i "
    "style=\"background:var(--mixed)\"></i>mixed</span><span><i style=\"background:var(--uniform)\"></i>uniform "
    "progress"
    "</span></p>\n";

leat_status leat_cli_plan_html(const struct leat_plan *plan, struct leat_buf *out, struct leat_error *err)
{
    size_t count;
    const struct leat_plan_record *r = leat_plan_records(plan, &count);
    const struct leat_plan_options *o = leat_plan_options_of(plan);
    leat_buf_str(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                      "content=\"width=device-width\"><title>Plan: ");
    leat_buf_xml(out, leat_plan_job_of(plan)->name);
    leat_buf_printf(out, "</title>\n<style>\n%s</style></head><body>\n<h1>", style);
    leat_buf_xml(out, leat_plan_job_of(plan)->name);
    leat_buf_printf(out, "</h1>\n<p>%zu configurations", count);
    if (o->deadline_s > 0)
        leat_buf_printf(out, ", deadline %.4g h", o->deadline_s / 3600);
    if (o->budget_usd > 0)
        leat_buf_printf(out, ", budget %.2f usd", o->budget_usd);
    if (o->deadline_s > 0 || o->budget_usd > 0)
        leat_buf_printf(out, " at p%g", o->risk * 100);
    leat_buf_printf(out, ". Bars and ranges hold nine of ten of %u drawn runs.</p>\n", o->draws);
    draw_picture(out, plan);
    leat_buf_str(out, key);
    leat_buf_printf(
        out,
        "<div "
        "class=\"table\"><table><thead><tr><th>configuration</th><th>GPUs</th><th>zone</th><th>usd/h</th><th>time</th>"
        "<th>usd</th>"
        "<th>stall</th><th>taken</th><th>checkpoint</th>%s<th>why, or why not</th></tr></thead><tbody>\n",
        leat_plan_job_of(plan)->accuracies ? "<th>accuracy</th>" : "");
    for (size_t i = 0, n = 0; i < count && n < TABLED; i++) {
        if (r[i].same_as)
            continue;
        write_row(out, plan, &r[i]);
        n++;
    }
    leat_buf_str(out, "</tbody></table></div>\n");
    write_notes(out, "Notes", leat_plan_notes_of(plan));
    write_notes(out, "Left out", leat_plan_left_out(plan));
    leat_buf_str(out, "</body></html>\n");
    return leat_buf_check(out, "the page", err);
}
