#include "profile/page.h"

#include <math.h>
#include <string.h>

#include "profile/verdict.h"
#include "profile/whatif.h"

#define WIDTH   920
#define LEFT    110
#define STEPS   15 /* that the time line shows */
#define LANES   8  /* workers of a rank that it shows */
#define RANKS   16
#define POINTS  24
#define TELLING 420 /* of the width, for what is said beside a bar */

/* Classes of the style sheet: one colour for what waits for the same thing. */
static const char *const part_class[LEAT_REPORT_PARTS] = {
    [LEAT_REPORT_FETCH] = "fetch",        [LEAT_REPORT_PREPARE] = "prepare", [LEAT_REPORT_INPUT] = "wait",
    [LEAT_REPORT_COPY] = "copy",          [LEAT_REPORT_FORWARD] = "forward", [LEAT_REPORT_BACKWARD] = "backward",
    [LEAT_REPORT_COMMUNICATION] = "comm", [LEAT_REPORT_OPTIMIZER] = "optim", [LEAT_REPORT_OTHER] = "other"};
static const char *const stage_class[LEAT_REPORT_STAGES] = {"wait", "copy",  "forward", "backward",
                                                            "comm", "optim", "other"};

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d2733;--soft:#5b6672;--grid:#d9dee4;--card:#f5f7f9;"
    "--fetch:#c8402f;--prepare:#dd8a1d;--wait:#d4604a;--copy:#b8a114;--forward:#3c78c2;--backward:#28558f;"
    "--comm:#8a4fb5;--optim:#2a9087;--other:#8d97a1}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e4e9ee;--soft:#9aa6b2;--grid:#333c46;--card:#1d232a;"
    "--fetch:#e8705f;--prepare:#eda94a;--wait:#e6826e;--copy:#d3be3c;--forward:#6ba3e6;--backward:#4c7fc0;"
    "--comm:#b586dc;--optim:#4fb9ae;--other:#7d8893}}\n"
    "body{background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif;max-width:960px;margin:2rem "
    "auto;padding:0 1rem}\n"
    "h1{font-size:1.7rem;line-height:1.25;margin:.2rem 0 .6rem}h2{font-size:1.15rem;margin:2.2rem 0 .5rem}\n"
    "p{margin:.4rem 0}.soft,small,figcaption{color:var(--soft)}.card{background:var(--card);border-radius:8px;"
    "padding:.8rem 1rem;margin:.8rem 0}\n"
    "svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:12px system-ui,sans-serif}"
    "svg .name{fill:var(--fg)}svg .on{fill:var(--bg);font-weight:600}\n"
    ".grid{stroke:var(--grid);stroke-width:1}.whisker{stroke:var(--fg);stroke-width:1.5;fill:none}"
    ".band{fill:var(--forward);opacity:.18}.line{fill:none;stroke:var(--forward);stroke-width:2}"
    ".dot{fill:var(--forward)}.dot.now{fill:var(--fetch)}\n"
    ".fetch{fill:var(--fetch)}.prepare{fill:var(--prepare)}.wait{fill:var(--wait)}.copy{fill:var(--copy)}"
    ".forward{fill:var(--forward)}.backward{fill:var(--backward)}.comm{fill:var(--comm)}.optim{fill:var(--optim)}"
    ".other{fill:var(--other)}\n"
    ".curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:1rem}figure{margin:0}\n"
    "table{border-collapse:collapse;width:100%;font-size:.92rem}th{text-align:left;color:var(--soft);font-weight:500}"
    "td,th{padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--grid);vertical-align:top}"
    "td.n,th.n{text-align:right}code{overflow-wrap:anywhere}.scroll{overflow-x:auto}.scroll+.scroll{margin-top:1.2rem}"
    "\n"
    ".legend span{display:inline-block;margin-right:1.1rem;white-space:nowrap;font-size:.85rem;color:var(--soft)}"
    ".legend svg{display:inline-block;width:.8em;height:.8em;vertical-align:-.05em;margin-right:.35em}\n";

static void seconds(struct leat_buf *out, double s)
{
    if (isnan(s))
        leat_buf_str(out, "–");
    else if (s == 0)
        leat_buf_str(out, "0");
    else
        leat_verdict_seconds(out, s);
}

static void span(struct leat_buf *out, const struct leat_report_time *t)
{
    seconds(out, t->mean);
    if (isnan(t->low))
        return;
    leat_buf_str(out, " <small>(");
    seconds(out, t->low);
    leat_buf_str(out, " … ");
    seconds(out, t->high);
    leat_buf_str(out, ")</small>");
}

static double or_nothing(double v)
{
    return v > 0 ? v : 0;
}

static void legend_one(struct leat_buf *out, const char *class, const char *name)
{
    leat_buf_printf(
        out, "<span><svg viewBox=\"0 0 10 10\"><rect class=\"%s\" width=\"10\" height=\"10\" rx=\"2\"/></svg>%s</span>",
        class, name);
}

static void head(const struct leat_report *r, struct leat_buf *out)
{
    leat_buf_printf(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                         "content=\"width=device-width,initial-scale=1\">\n<title>leat profile: ");
    leat_buf_xml(out, *r->model ? r->model : r->command);
    leat_buf_printf(out, "</title>\n<style>\n%s</style></head>\n<body>\n", style);
    leat_buf_str(out, "<p class=\"soft\">leat profile · ");
    leat_buf_xml(out, r->made);
    leat_buf_str(out, " · ");
    leat_buf_xml(out, r->accelerator);
    if (*r->type) {
        leat_buf_str(out, " · ");
        leat_buf_xml(out, r->type);
    }
    leat_buf_str(out, "<br><code>");
    leat_buf_xml(out, r->command);
    leat_buf_str(out, "</code></p>\n");
}

/* Lines of the verdict as the terminal has them. */
static void verdict(const struct leat_report *r, struct leat_buf *out)
{
    struct leat_buf text;
    leat_buf_init(&text, 1 << 16);
    leat_verdict_headline(r, &text);
    leat_buf_str(out, "<h1>");
    leat_buf_xml(out, text.data);
    leat_buf_str(out, "</h1>\n<div class=\"card\">");
    leat_buf_clear(&text);
    leat_verdict_reasons(r, &text);
    if (!text.len)
        leat_buf_str(out, "<p>There is nothing to do about it.</p>");
    for (char *line = text.data; line && *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        leat_buf_str(out, "<p>");
        leat_buf_xml(out, line + strspn(line, " "));
        leat_buf_str(out, "</p>");
        line = end ? end + 1 : NULL;
    }
    leat_buf_str(out, "</div>\n");
    leat_buf_free(&text);
}

static void bars(const struct leat_report *r, struct leat_buf *out)
{
    double most = 0;
    bool seen[LEAT_REPORT_PARTS] = {false};
    int height = (int)r->runs * 40 + 6;
    for (size_t i = 0; i < r->runs; i++)
        most = fmax(most, r->run[i].step_s.mean);
    if (!r->runs || !(most > 0))
        return;
    leat_buf_printf(
        out, "<h2>Where a step goes</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"parts of a step\">\n",
        WIDTH, height);
    for (size_t i = 0; i < r->runs; i++) {
        const struct leat_report_run *run = &r->run[i];
        double x = LEFT;
        double y = 40.0 * (double)i + 4;
        leat_buf_printf(out, "<text class=\"name\" x=\"0\" y=\"%.0f\">%s</text><text x=\"0\" y=\"%.0f\">", y + 13,
                        leat_report_mode_name(run->mode), y + 27);
        seconds(out, run->step_s.mean);
        leat_buf_str(out, "</text>\n");
        for (size_t p = 0; p < LEAT_REPORT_PARTS; p++) {
            double wide = run->part_s[p] / most * (WIDTH - LEFT);
            double share = 100 * run->part_s[p] / run->step_s.mean;
            if (!(wide > 0))
                continue;
            seen[p] = true;
            leat_buf_printf(
                out,
                "<g><title>%s: %.1f %%</title><rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"30\"/>",
                leat_report_part_name((enum leat_report_part)p), share, part_class[p], x, y, wide);
            if (wide > 46)
                leat_buf_printf(out, "<text class=\"on\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.0f %%</text>",
                                x + wide / 2, y + 19, share);
            leat_buf_str(out, "</g>\n");
            x += wide;
        }
    }
    leat_buf_str(out, "</svg>\n<p class=\"legend\">");
    for (size_t p = 0; p < LEAT_REPORT_PARTS; p++) {
        if (seen[p])
            legend_one(out, part_class[p], leat_report_part_name((enum leat_report_part)p));
    }
    leat_buf_str(out, "</p>\n");
}

static void stalls(const struct leat_report *r, struct leat_buf *out)
{
    double most = 0;
    for (size_t i = 0; i < r->stalls; i++)
        most = fmax(most, isnan(r->stall[i].s.high) ? r->stall[i].s.mean : r->stall[i].s.high);
    leat_buf_str(out, "<h2>Stalls</h2>\n");
    if (!r->stalls || !(most > 0)) {
        leat_buf_str(out, "<p>None that is worth a bar.</p>\n");
        return;
    }
    leat_buf_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"stalls with intervals\">\n", WIDTH,
                    (int)r->stalls * 30 + 4);
    for (size_t i = 0; i < r->stalls; i++) {
        const struct leat_report_stall *s = &r->stall[i];
        double y = 30.0 * (double)i + 2;
        double scale = (WIDTH - LEFT - TELLING) / most;
        const char *class = "other";
        for (size_t p = 0; p < LEAT_REPORT_PARTS; p++)
            class = strcmp(s->cause, leat_report_part_name((enum leat_report_part)p)) == 0 ? part_class[p] : class;
        if (strcmp(s->cause, "data") == 0)
            class = "wait";
        leat_buf_printf(out, "<text class=\"name\" x=\"0\" y=\"%.0f\">", y + 16);
        leat_buf_xml(out, s->cause);
        leat_buf_printf(out, "</text><rect class=\"%s\" x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"20\"/>\n", class,
                        LEFT, y + 2, fmax(0, s->s.mean) * scale);
        if (!isnan(s->s.low))
            leat_buf_printf(out, "<path class=\"whisker\" d=\"M%.1f %.0fH%.1fm0 -5v10M%.1f %.0fv10\"/>\n",
                            LEFT + fmax(0, s->s.low) * scale, y + 12, LEFT + fmax(0, s->s.high) * scale,
                            LEFT + fmax(0, s->s.low) * scale, y + 7);
        leat_buf_printf(out, "<text x=\"%d\" y=\"%.0f\">%.1f %% of the step, ", WIDTH - TELLING + 14, y + 16,
                        100 * s->share);
        seconds(out, s->s.mean);
        if (s->from[0] >= 0 && s->from[1] >= 0)
            leat_buf_printf(out, ": %s less %s%s</text>\n", leat_report_mode_name(r->run[s->from[0]].mode),
                            leat_report_mode_name(r->run[s->from[1]].mode), s->s.low <= 0 ? ", may be 0" : "");
        else
            leat_buf_str(out, ": by the records</text>\n");
    }
    leat_buf_str(out, "</svg>\n<p class=\"soft\">A whisker holds the mean with 95 %. Bars without one follow from the "
                      "records of one run, or from too few blocks of two.</p>\n");
}

static void draw_step(struct leat_buf *out, const struct leat_report_step *s, double x, double scale, double y)
{
    leat_buf_printf(out, "<g><title>rank %d, %s, at %.4g s:", s->rank, leat_report_mode_name(s->mode), s->start_s);
    for (size_t k = 0; k < LEAT_REPORT_STAGES; k++) {
        if (s->stage_s[k] > 0)
            leat_buf_printf(out, " %s %.3g ms", leat_report_stage_name(k), s->stage_s[k] * 1e3);
    }
    leat_buf_str(out, "</title>");
    for (size_t k = 0; k < LEAT_REPORT_STAGES; k++) {
        double wide = s->stage_s[k] * scale;
        if (wide > 0.05 && x < WIDTH)
            leat_buf_printf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.0f\" width=\"%.2f\" height=\"20\"/>",
                            stage_class[k], x, y, fmin(wide, WIDTH - x));
        x += wide > 0 ? wide : 0;
    }
    leat_buf_str(out, "</g>\n");
}

static double end_of(const struct leat_report_step *s)
{
    double end = s->start_s;
    for (size_t k = 0; k < LEAT_REPORT_STAGES; k++)
        end += or_nothing(s->stage_s[k]);
    return end;
}

/* The time of some steps in a row of the first rank: after a pause another row would begin. */
static void window_of(const struct leat_report *r, double *from, double *until)
{
    size_t seen = 0;
    *from = r->step[0].start_s;
    *until = end_of(&r->step[0]);
    for (size_t i = 1; i < r->steps && seen < STEPS; i++) {
        const struct leat_report_step *s = &r->step[i];
        if (s->rank != r->step[0].rank)
            continue;
        if (s->start_s - *until > end_of(s) - s->start_s)
            break;
        *until = fmax(*until, end_of(s));
        seen++;
    }
}

/* In the order of their numbers. */
static size_t ranks_of(const struct leat_report *r, int out[LEAT_REPORT_RANKS])
{
    size_t n = 0;
    for (size_t i = 0; i < r->steps; i++) {
        size_t k = 0;
        while (k < n && out[k] < r->step[i].rank)
            k++;
        if (n == LEAT_REPORT_RANKS || (k < n && out[k] == r->step[i].rank))
            continue;
        memmove(out + k + 1, out + k, (n - k) * sizeof out[0]);
        out[k] = r->step[i].rank;
        n++;
    }
    return n;
}

static unsigned workers_of(const struct leat_report *r, int rank)
{
    unsigned most = 0;
    for (size_t i = 0; i < r->spans; i++) {
        if (r->span[i].rank == rank && r->span[i].thread > most)
            most = r->span[i].thread;
    }
    return most < LANES ? most : LANES;
}

static void time_line(const struct leat_report *r, struct leat_buf *out)
{
    int ranks[LEAT_REPORT_RANKS];
    double from;
    double until;
    double y = 4;
    size_t n = ranks_of(r, ranks);
    leat_buf_str(out, "<h2>Steps of each rank</h2>\n");
    if (!n) {
        leat_buf_str(out, "<p>Not enough data: this report has no time line.</p>\n");
        return;
    }
    window_of(r, &from, &until);
    size_t shown = n < RANKS ? n : RANKS;
    double height = 30;
    for (size_t i = 0; i < shown; i++)
        height += 30 + 7.0 * workers_of(r, ranks[i]);
    double scale = (WIDTH - LEFT) / (until - from);
    leat_buf_printf(out, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"time line of each rank\">\n", WIDTH,
                    height);
    for (size_t i = 0; i < shown; i++) {
        unsigned lanes = workers_of(r, ranks[i]);
        leat_buf_printf(out, "<text class=\"name\" x=\"0\" y=\"%.0f\">rank %d</text>\n", y + 15, ranks[i]);
        for (size_t k = 0; k < r->steps; k++) {
            const struct leat_report_step *s = &r->step[k];
            if (s->rank == ranks[i] && s->start_s < until && end_of(s) > from)
                draw_step(out, s, LEFT + (s->start_s - from) * scale, scale, y);
        }
        y += 23;
        if (lanes)
            leat_buf_printf(out, "<text x=\"0\" y=\"%.0f\">its workers</text>\n", y + 7);
        for (size_t k = 0; k < r->spans; k++) {
            const struct leat_report_span *s = &r->span[k];
            double x = LEFT + (fmax(s->start_s, from) - from) * scale;
            double wide = (fmin(s->end_s, until) - fmax(s->start_s, from)) * scale;
            if (s->rank != ranks[i] || !s->thread || s->thread > lanes || !(wide > 0.05))
                continue;
            leat_buf_printf(out,
                            "<rect class=\"fetch\" x=\"%.1f\" y=\"%.0f\" width=\"%.2f\" height=\"5\"><title>worker %u: "
                            "%.4g ms</title></rect>\n",
                            x, y + 7.0 * (s->thread - 1), fmax(0.3, wide - 0.6), s->thread,
                            (s->end_s - s->start_s) * 1e3);
        }
        y += 7.0 * lanes + 7;
    }
    for (int i = 0; i <= 4; i++) {
        leat_buf_printf(out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"%s\">", LEFT + (WIDTH - LEFT) * i / 4.0, y + 12,
                        i == 0   ? "start"
                        : i == 4 ? "end"
                                 : "middle");
        seconds(out, (until - from) * i / 4);
        leat_buf_str(out, "</text>\n");
    }
    leat_buf_str(out, "</svg>\n<p class=\"legend\">");
    for (size_t k = 0; k < LEAT_REPORT_STAGES; k++)
        legend_one(out, stage_class[k], leat_report_stage_name(k));
    leat_buf_str(out, "</p>\n<p class=\"soft\">Point at a step to read its parts. ");
    if (n > shown)
        leat_buf_printf(out, "%zu of %zu ranks are shown. ", shown, n);
    leat_buf_str(out, "Bars below a rank are batches that its loader's workers make.</p>\n");
}

struct question {
    const char *name;
    const char *unit;
    double from, to;
    double now;
    unsigned kind; /* 0 cache, 1 cores, 2 workers */
};

static void curve(const struct leat_report *r, const struct question *q, struct leat_buf *out)
{
    struct leat_page_point points[POINTS];
    struct leat_error err;
    size_t n = 0;
    double last = -1;
    bool whole = q->kind != 0;
    for (size_t i = 0; i < POINTS; i++) {
        struct leat_whatif what = {0};
        struct leat_whatif_answer a;
        double share = (double)i / (whole ? POINTS - 1 : 10);
        double x = whole ? round(q->from * pow(q->to / q->from, share)) : q->from + share * (q->to - q->from);
        if (x == last || share > 1)
            continue;
        what.cache = q->kind == 0;
        what.cached = q->kind == 0 ? x / 100 : 0;
        what.cores = q->kind == 1 ? (unsigned)x : 0;
        what.workers = q->kind == 2 ? (unsigned)x : 0;
        if (leat_whatif_ask(r, &what, &a, &err) != LEAT_OK)
            return;
        points[n++] = (struct leat_page_point){x, a.step_s};
        last = x;
    }
    if (n > 1)
        leat_page_curve(out, q->name, q->unit, points, n, q->now);
}

static void what_if(const struct leat_report *r, struct leat_buf *out)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    struct leat_whatif_answer now;
    struct leat_whatif_answer limit[4];
    struct leat_error err;
    leat_buf_str(out, "<h2>What if</h2>\n");
    if (leat_whatif_ask(r, &(struct leat_whatif){0}, &now, &err) != LEAT_OK) {
        leat_buf_str(out, "<p>");
        leat_buf_xml(out, err.text);
        leat_buf_str(out, "</p>\n");
        return;
    }
    double cores = leat_whatif_cores(r).mean;
    double workers = leat_whatif_usable_workers(r);
    double most_cores = fmax(2 * run->cores, isnan(cores) ? 2 : 2 * cores * run->gpus);
    double most_workers = fmax(4, fmax(2 * run->workers, 2 * workers));
    struct question asked[] = {
        {"with more of the data at hand", "% cached", 0, 100, 0, 0},
        {"with other numbers of cores", "cores", 1, fmin(most_cores, 1024), run->cores, 1},
        {"with other numbers of workers", "workers of each rank", 1, fmin(most_workers, 1024), run->workers, 2},
    };
    leat_buf_str(out, "<div class=\"curves\">\n");
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        if (i != 1 || !isnan(cores))
            curve(r, &asked[i], out);
    }
    leat_buf_str(out, "</div>\n<p class=\"soft\">Bands are 95 % intervals; the red point is as it was measured.</p>\n");
    size_t n = leat_whatif_limits(r, &(struct leat_whatif){0}, limit, 4);
    if (n > 1)
        leat_buf_str(out, "<p>One limit after the other: ");
    for (size_t i = 0; n > 1 && i < n; i++) {
        leat_buf_printf(out, "%s<b>%s</b> (", i ? ", and without it " : "",
                        limit[i].limit == LEAT_REPORT_FORWARD ? "computing" : leat_report_part_name(limit[i].limit));
        seconds(out, limit[i].step_s.mean);
        leat_buf_str(out, ")");
    }
    leat_buf_str(out, n > 1 ? ".</p>\n" : "");
    if (!isnan(cores))
        leat_buf_printf(out, "<p>A GPU needs %.2g cores of preparing to compute without waiting.</p>\n", cores);
}

static void evidence(const struct leat_report *r, struct leat_buf *out)
{
    leat_buf_str(
        out, "<h2>Evidence</h2>\n<div class=\"scroll\"><table><tr><th>run</th><th>a step</th><th class=\"n\">steps</th>"
             "<th class=\"n\">machines × ranks</th><th class=\"n\">batch</th><th class=\"n\">workers</th><th "
             "class=\"n\">cores</th></tr>\n");
    for (size_t i = 0; i < r->runs; i++) {
        const struct leat_report_run *run = &r->run[i];
        leat_buf_printf(out, "<tr><td>%s</td><td>", leat_report_mode_name(run->mode));
        span(out, &run->step_s);
        leat_buf_printf(
            out,
            "</td><td class=\"n\">%.0f</td><td class=\"n\">%u × %u</td><td class=\"n\">%.0f</td><td class=\"n\">%u</td>"
            "<td class=\"n\">%u</td></tr>\n",
            run->steps, run->nodes, run->gpus, run->batch, run->workers, run->cores);
    }
    leat_buf_str(out, "</table></div>\n");
    if (r->ranks > 1) {
        leat_buf_str(
            out,
            "<div class=\"scroll\"><table><tr><th>rank</th><th class=\"n\">steps</th><th class=\"n\">last in</th><th "
            "class=\"n\">late by</th><th></th></tr>\n");
        for (size_t i = 0; i < r->ranks; i++) {
            leat_buf_printf(out, "<tr><td>%d</td><td class=\"n\">%.0f</td><td class=\"n\">%.0f %%</td><td class=\"n\">",
                            r->rank[i].rank, r->rank[i].steps, 100 * r->rank[i].late_of);
            seconds(out, r->rank[i].late_s);
            leat_buf_printf(out, "</td><td>%s</td></tr>\n", r->rank[i].died ? "ended before its time" : "");
        }
        leat_buf_str(out, "</table></div>\n");
    }
    for (size_t i = 0; i < r->notes; i++) {
        leat_buf_str(out, "<p>Note: ");
        leat_buf_xml(out, r->note[i]);
        leat_buf_str(out, "</p>\n");
    }
}

void leat_page(const struct leat_report *r, struct leat_buf *out)
{
    head(r, out);
    verdict(r, out);
    bars(r, out);
    stalls(r, out);
    time_line(r, out);
    what_if(r, out);
    evidence(r, out);
    leat_buf_str(out, "<p class=\"soft\">Written by leat ");
    leat_buf_xml(out, r->leat);
    leat_buf_str(out, ".</p>\n</body></html>\n");
}
