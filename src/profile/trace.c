#include "profile/trace.h"

#include <math.h>
#include <string.h>

/* Threads of a rank's process in the trace. */
enum { STEPS, TRAINING, WORKERS };

/* An event: the separator, and what all of them begin with. */
static void event(struct leat_buf *out, const char *kind, const char *name, int rank, int thread)
{
    leat_buf_printf(out, "%s\n{\"ph\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d",
                    out->data[out->len - 1] == '[' ? "" : ",", kind, name, rank, thread);
}

/* What people read instead of the number of a rank or thread; `number` < 0: the word alone. */
static void entitle(struct leat_buf *out, const char *what, int rank, int thread, const char *word, int number)
{
    event(out, "M", what, rank, thread);
    leat_buf_printf(out, ",\"args\":{\"name\":\"%s", word);
    if (number >= 0)
        leat_buf_printf(out, " %d", number);
    leat_buf_str(out, "\"}}");
}

static void slice(struct leat_buf *out, int rank, int thread, double start_s, double s, const char *what,
                  const char *category)
{
    event(out, "X", what, rank, thread);
    leat_buf_printf(out, ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f}", category, start_s * 1e6, s * 1e6);
}

/* Names that the report's reader has let through are known words; others would have to be escaped. */
static const char *word(const char *what)
{
    static const char *const known[] = {"wait", "fetch", "copy", "backward", "communication", "optimizer"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(what, known[i]) == 0)
            return known[i];
    }
    return "other";
}

static void add_step(struct leat_buf *out, const struct leat_report_step *s)
{
    double sum = 0;
    if (isnan(s->start_s))
        return;
    for (size_t k = 0; k < LEAT_REPORT_STAGES; k++)
        sum += s->stage_s[k] > 0 ? s->stage_s[k] : 0;
    slice(out, s->rank, STEPS, s->start_s, sum, "step", leat_report_mode_name(s->mode));
    double at = s->start_s;
    for (size_t k = 0; k < LEAT_REPORT_STAGES; k++) {
        if (s->stage_s[k] > 0) {
            slice(out, s->rank, STEPS, at, s->stage_s[k], leat_report_stage_name(k), leat_report_mode_name(s->mode));
            at += s->stage_s[k];
        }
    }
}

leat_status leat_profile_trace(const struct leat_report *r, struct leat_buf *out, struct leat_error *err)
{
    if (!r->steps)
        return leat_fail(err, LEAT_UNSUPPORTED, "not enough data: this report has no time line of steps");
    leat_buf_str(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (size_t i = 0; i < r->steps; i++) {
        size_t before = 0;
        while (before < i && r->step[before].rank != r->step[i].rank)
            before++;
        if (before == i) {
            entitle(out, "process_name", r->step[i].rank, 0, "rank", r->step[i].rank);
            entitle(out, "thread_name", r->step[i].rank, STEPS, "steps", -1);
            entitle(out, "thread_name", r->step[i].rank, TRAINING, "training thread", -1);
        }
        add_step(out, &r->step[i]);
    }
    bool named[LEAT_REPORT_RANKS][64] = {0};
    for (size_t i = 0; i < r->spans; i++) {
        const struct leat_report_span *s = &r->span[i];
        int thread = s->thread ? (int)(WORKERS + s->thread - 1) : TRAINING;
        if (s->rank >= 0 && s->rank < LEAT_REPORT_RANKS && s->thread && s->thread < 64 && !named[s->rank][s->thread]) {
            named[s->rank][s->thread] = true;
            entitle(out, "thread_name", s->rank, thread, "worker", (int)s->thread);
        }
        if (s->end_s > s->start_s)
            slice(out, s->rank, thread, s->start_s, s->end_s - s->start_s, word(s->what), "seen");
    }
    leat_buf_str(out, "\n]}\n");
    return LEAT_OK;
}
