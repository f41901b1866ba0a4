#include "cli/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "leat/leat.h"
#include "profile/gather.h"
#include "profile/verdict.h"

struct profile_settings {
    uint64_t time_ns;
    double precision;
    const char *out;
    bool watch;
    uint64_t every_ns;
    const char *metrics;
    const char *type;
    const char *model;
    const char *html;
    const char *trace;
    bool json;
};

#define AT(member) offsetof(struct profile_settings, member)

static const struct leat_option options[] = {
    {"out", 'o', LEAT_OPTION_STRING, AT(out), "FILE", "report.json", NULL, "where the report goes"},
    {"time", 't', LEAT_OPTION_DURATION, AT(time_ns), "TIME", NULL, NULL,
     "how long blocks of steps with other batches may be put between the script's own; none without it"},
    {"precision", 0, LEAT_OPTION_DOUBLE, AT(precision), "PERCENT", "2", NULL,
     "with --time: end earlier once every difference is known to this share of a step"},
    {"watch", 'w', LEAT_OPTION_FLAG, AT(watch), NULL, NULL, NULL, "say every few seconds where the time goes"},
    {"every", 0, LEAT_OPTION_DURATION, AT(every_ns), "TIME", "5s", NULL, "with --watch or --metrics: how often"},
    {"metrics", 0, LEAT_OPTION_STRING, AT(metrics), "FILE", NULL, NULL,
     "as often as that, write the same as text for Prometheus"},
    {"type", 0, LEAT_OPTION_STRING, AT(type), "NAME", NULL, NULL,
     "the machine's type, for 'leat plan --report'; Amazon's machines know it"},
    {"model", 0, LEAT_OPTION_STRING, AT(model), "NAME", NULL, NULL, "the model's name, likewise"},
    {"html", 0, LEAT_OPTION_STRING, AT(html), "FILE", NULL, NULL,
     "write the report as a page too: one file, with nothing to fetch"},
    {"trace", 0, LEAT_OPTION_STRING, AT(trace), "FILE", NULL, NULL,
     "write the time line of its steps for ui.perfetto.dev too"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "with 'diff': print the answer as JSON"},
    {0},
};

#define POLL_NS     (100 * LEAT_MS)
#define REPORT_MAX  ((size_t)4 << 20)
#define EVERY_LEAST (100 * LEAT_MS)

static void say_line(const struct leat_gather_window *w)
{
    if (!w->steps) {
        fprintf(stderr, "leat: no training step was completed\n");
        return;
    }
    fprintf(stderr, "leat: %zu steps of %.3g ms, %u rank%s:", w->steps, w->step_s * 1e3, w->ranks,
            w->ranks == 1 ? "" : "s");
    for (size_t i = 0; i < LEAT_REPORT_PARTS; i++) {
        if (w->part_s[i] >= 0.0005 * w->step_s)
            fprintf(stderr, " %s %.1f %%", leat_report_part_name((enum leat_report_part)i),
                    100 * w->part_s[i] / w->step_s);
    }
    if (w->late_rank >= 0 && leat_frontier_often(w->late_of, w->ranks) && w->late_s > 0.03 * w->step_s)
        fprintf(stderr, "; rank %d is last in %.0f %% of the steps, by %.3g ms", w->late_rank, 100 * w->late_of,
                w->late_s * 1e3);
    fputc('\n', stderr);
}

/* At once: a collector may read it at any time. What is no plain file (a pipe, /dev/stdout) is written to. */
static leat_status replace_file(const char *path, const struct leat_buf *text, struct leat_error *err)
{
    struct stat st;
    char fresh[4096];
    if ((lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) ||
        snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
        return leat_cli_write_file(path, text, err);
    leat_status rc = leat_cli_write_file(fresh, text, err);
    if (rc == LEAT_OK && rename(fresh, path) < 0)
        rc = leat_fail_errno(err, errno, "cannot write '%s'", path);
    if (rc != LEAT_OK)
        unlink(fresh);
    return rc;
}

static leat_status write_metrics(const char *path, const struct leat_gather_window *w, struct leat_error *err)
{
    struct leat_buf b;
    leat_buf_init(&b, 1 << 16);
    leat_buf_printf(&b,
                    "# HELP leat_profile_step_seconds Mean training step over all ranks in the last interval.\n"
                    "# TYPE leat_profile_step_seconds gauge\nleat_profile_step_seconds %.9g\n"
                    "# HELP leat_profile_steps Training steps in the last interval.\n"
                    "# TYPE leat_profile_steps gauge\nleat_profile_steps %zu\n"
                    "# HELP leat_profile_part_seconds What each part adds to the step; they add up to it.\n"
                    "# TYPE leat_profile_part_seconds gauge\n",
                    w->step_s, w->steps);
    for (size_t i = 0; i < LEAT_REPORT_PARTS; i++)
        leat_buf_printf(&b, "leat_profile_part_seconds{part=\"%s\"} %.9g\n",
                        leat_report_part_name((enum leat_report_part)i), w->part_s[i]);
    leat_status rc = leat_buf_check(&b, "metrics", err);
    if (rc == LEAT_OK)
        rc = replace_file(path, &b, err);
    leat_buf_free(&b);
    return rc;
}

/* Reads while the script runs. What goes wrong here must not disturb it: the first error is kept for the end. */
static leat_status follow(const struct profile_settings *s, struct leat_profile_child *child, struct leat_gather *g,
                          struct leat_error *err)
{
    struct leat_error later;
    leat_status rc = LEAT_OK;
    uint64_t every = s->every_ns < EVERY_LEAST ? EVERY_LEAST : s->every_ns;
    uint64_t next = leat_after(every);
    while (!child->ended) {
        leat_profile_wait(child, POLL_NS);
        leat_status now = leat_gather_poll(g, child->ended, rc == LEAT_OK ? err : &later);
        bool due = (s->watch || s->metrics) && !leat_left(next);
        if (now == LEAT_OK && (due || (s->metrics && child->ended))) {
            struct leat_gather_window w = leat_gather_since(g);
            next = leat_after(every);
            if (s->watch && due)
                say_line(&w);
            if (s->metrics && (due || w.steps)) /* the last ones too: a script may be faster than that */
                now = write_metrics(s->metrics, &w, rc == LEAT_OK ? err : &later);
        }
        rc = rc == LEAT_OK ? now : rc;
    }
    return rc;
}

static void name_command(char **argv, char *out, size_t n)
{
    size_t at = 0;
    for (char **a = argv; *a && at < n; a++)
        at += (size_t)snprintf(out + at, n - at, "%s%s", a == argv ? "" : " ", *a);
    leat_one_line(out);
}

/* What the machine says of its own type: clouds of Amazon put it there, others only their name. */
static void name_type(char *out, size_t n)
{
    static const char *const files[] = {"/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"};
    char text[2][64] = {"", ""};
    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(files[i], "re");
        if (file && fgets(text[i], sizeof text[i], file))
            text[i][strcspn(text[i], "\n")] = '\0';
        if (file)
            fclose(file);
    }
    snprintf(out, n, "%s", strcmp(text[0], "Amazon EC2") == 0 ? text[1] : "");
    leat_one_line(out);
}

static leat_status finish(const struct profile_settings *s, const struct leat_gather *g, char **argv,
                          struct leat_error *err)
{
    struct leat_report *r = calloc(1, sizeof *r);
    struct leat_buf b;
    if (!r)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the report");
    leat_buf_init(&b, REPORT_MAX);
    snprintf(r->leat, sizeof r->leat, "%s", leat_version());
    leat_cli_format_time(leat_wall_s(), r->made);
    if (s->type)
        snprintf(r->type, sizeof r->type, "%s", s->type);
    else
        name_type(r->type, sizeof r->type);
    snprintf(r->model, sizeof r->model, "%s", s->model ? s->model : "");
    name_command(argv, r->command, sizeof r->command);
    leat_gather_report(g, r);
    leat_buf_str(&b, "leat: ");
    leat_verdict(r, &b);
    leat_status rc = leat_buf_check(&b, "the verdict", err);
    if (rc == LEAT_OK)
        fputs(b.data, stderr);
    leat_buf_clear(&b);
    char *text = leat_report_write(r);
    if (rc == LEAT_OK && (!text || !leat_buf_str(&b, text) || !leat_buf_char(&b, '\n')))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the report");
    if (rc == LEAT_OK && r->runs)
        rc = leat_cli_write_file(s->out, &b, err);
    if (rc == LEAT_OK && r->runs)
        rc = leat_profile_files(r, s->html, s->trace, err);
    if (rc == LEAT_OK)
        fprintf(stderr, r->runs ? "  report: %s\n" : "  no report is written\n", s->out);
    free(text);
    leat_buf_free(&b);
    free(r);
    return rc;
}

/* Whether a file can be written later: it is known before the training, which may take days. */
static leat_status check_file(const char *option, const char *path, struct leat_error *err)
{
    struct stat st;
    char folder[4096];
    if (!path)
        return LEAT_OK;
    if (stat(path, &st) == 0) {
        int why = S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
        return why ? leat_fail_errno(err, why, "%s: cannot write '%s'", option, path) : LEAT_OK;
    }
    const char *end = strrchr(path, '/');
    int n = snprintf(folder, sizeof folder, "%.*s", end ? (int)(end - path) + 1 : 1, end ? path : ".");
    int why = n >= (int)sizeof folder ? ENAMETOOLONG : !end || end[1] ? 0 : EISDIR;
    if (!why && access(folder, W_OK | X_OK) < 0)
        why = errno;
    return why ? leat_fail_errno(err, why, "%s: cannot write '%s'", option, path) : LEAT_OK;
}

static leat_status check_files(const struct profile_settings *s, struct leat_error *err)
{
    leat_status rc = check_file("--out", s->out, err);
    if (rc == LEAT_OK)
        rc = check_file("--html", s->html, err);
    if (rc == LEAT_OK)
        rc = check_file("--trace", s->trace, err);
    return rc == LEAT_OK ? check_file("--metrics", s->metrics, err) : rc;
}

/* What was said and would change nothing. */
static leat_status refuse_idle(const struct profile_settings *s, bool word, struct leat_error *err)
{
    static const char *const running[] = {"out", "time", "precision", "watch", "every", "metrics", "type", "model"};
    for (size_t i = 0; i < sizeof running / sizeof *running && word; i++) {
        if (leat_cli_said(running[i]))
            return leat_fail(err, LEAT_INVALID, "--%s: while a script is profiled, and not of a report", running[i]);
    }
    if (leat_cli_said("precision") && !s->time_ns)
        return leat_fail(err, LEAT_INVALID, "--precision: only with --time");
    if (leat_cli_said("every") && !s->watch && !s->metrics)
        return leat_fail(err, LEAT_INVALID, "--every: only with --watch or --metrics");
    return LEAT_OK;
}

static int run(const void *settings, int argc, char **argv)
{
    const struct profile_settings *s = settings;
    struct leat_error idle;
    if (refuse_idle(s, leat_profile_word(argv[0]), &idle) != LEAT_OK)
        return leat_cli_fail(&idle);
    if (leat_profile_word(argv[0]))
        return leat_profile_run_word(argc, argv, s->html, s->trace, s->json);
    if (s->json)
        return leat_cli_failf(LEAT_INVALID, "--json: the report itself is JSON; it is for 'leat profile diff'");
    struct leat_profile_child child;
    struct leat_gather *g = NULL;
    struct leat_error err;
    if (!(s->precision > 0 && s->precision <= 100)) {
        leat_fail(&err, LEAT_INVALID, "--precision: a percentage above 0 and up to 100");
        return leat_cli_fail(&err);
    }
    leat_status rc = check_files(s, &err);
    if (rc == LEAT_OK)
        rc = leat_profile_start(&child, argv, (double)s->time_ns / 1e9, s->precision / 100, &err);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    rc = leat_gather_open(child.folder, &g, &err);
    if (rc == LEAT_OK)
        rc = follow(s, &child, g, &err);
    while (!child.ended)
        leat_profile_wait(&child, LEAT_S);
    if (g) { /* a file for metrics that is gone in mid-run must not cost the report */
        struct leat_error last;
        leat_status finished = finish(s, g, argv, rc == LEAT_OK ? &err : &last);
        rc = rc == LEAT_OK ? finished : rc;
    }
    int status = leat_profile_exit(&child);
    leat_gather_close(g);
    leat_profile_end(&child);
    if (rc != LEAT_OK) {
        int failed = leat_cli_fail(&err);
        return status ? status : failed; /* the script's own status comes first */
    }
    return status;
}

const struct leat_command leat_command_profile = {
    .name = "profile",
    .arguments = "-- COMMAND… | show R.json | diff A.json B.json",
    .summary = "run a training script and say what its steps wait for",
    .details =
        "Runs an unedited training script and follows its steps: waiting for the loader (fetching and preparing), "
        "copies to the accelerator, forward, backward, communication between ranks, optimizer. At the end it says on "
        "standard error what the step waits for most, what to do about it and what that stands on, and writes a "
        "report. The script's own output and exit status are kept.\n\nPython processes of torch are followed, however "
        "they are started: torchrun, python -m, accelerate launch, spawned and forked workers. A Python that ignores "
        "its environment (-I, -E, -S) is not.\n\nWith --time, blocks of steps get batches that were kept in memory, "
        "that are read again while the page cache has them, or after it was made to drop them; or they do not "
        "exchange gradients, on all ranks or on one while the others stand still. Model, optimizer and random numbers "
        "are put back after each block. The script's loop runs that many iterations more. The links between ranks are "
        "measured too, once.\n\n'show' says of a report what was said when it was made, and writes it as a page "
        "(--html) or a trace (--trace). 'diff' says what changed between two reports of one job, and whether it is "
        "beyond their intervals.",
    .examples = "  leat profile -- python train.py\n"
                "  leat profile --watch -o r.json -- torchrun --nproc-per-node 2 train.py\n"
                "  leat profile show report.json --html report.html\n"
                "  leat profile diff before.json after.json\n",
    .options = options,
    .settings_size = sizeof(struct profile_settings),
    .arguments_min = 1,
    .arguments_max = 4096,
    .run = run,
};
