#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/thread.h"

#define EVERY_NS (200 * LEAT_MS)
#define BAR      24
#define WINDOW   25u /* draws over which the rate is taken: five seconds */

struct leat_progress {
    const char *noun;
    void (*look)(void *user, struct leat_progress_state *out);
    void *user;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool stop;                  /* hold mu */
    uint64_t past_done[WINDOW]; /* progress thread only, as the rest */
    uint64_t past_ns[WINDOW];
    unsigned draws;
    uint64_t every_ns;  /* constant: between lines; 0: a terminal */
    uint64_t line_ns;   /* when the last line was due … */
    uint64_t line_done; /* … and how much was done then */
};

static double recent_rate(struct leat_progress *p, uint64_t done)
{
    uint64_t now = leat_now_ns();
    unsigned n = p->draws < WINDOW ? p->draws : WINDOW;
    unsigned oldest = p->draws < WINDOW ? 0 : p->draws % WINDOW;
    double rate = 0;
    if (n && now > p->past_ns[oldest])
        rate = (double)(done > p->past_done[oldest] ? done - p->past_done[oldest] : 0) * 1e9 /
               (double)(now - p->past_ns[oldest]);
    p->past_done[p->draws % WINDOW] = done;
    p->past_ns[p->draws % WINDOW] = now;
    p->draws++;
    return rate;
}

static void say_amount(const struct leat_progress_state *s, uint64_t amount, char out[LEAT_FORMAT_SIZE])
{
    if (s->counted)
        snprintf(out, LEAT_FORMAT_SIZE, "%" PRIu64, amount);
    else
        leat_format_size(amount, out);
}

/* What is left at this rate, as the end of a line; "": not known. */
static void say_left(const struct leat_progress_state *s, double rate, char out[LEAT_FORMAT_SIZE + 16])
{
    char time[LEAT_FORMAT_SIZE];
    out[0] = '\0';
    if (!s->total || s->growing || s->done >= s->total || rate <= 0)
        return;
    double seconds = (double)(s->total - s->done) / rate + 1; /* the last second counts as one */
    snprintf(out, LEAT_FORMAT_SIZE + 16, "  %s left",
             leat_format_duration((uint64_t)(seconds < 1e9 ? seconds : 1e9) * LEAT_S, time));
}

/* "12 MiB of 30 MiB  4 MB/s  310 samples  5 s left", with how many per cent before it. */
static void describe(const struct leat_progress *p, const struct leat_progress_state *s, double rate, char *out,
                     size_t size)
{
    char done[LEAT_FORMAT_SIZE];
    char total[LEAT_FORMAT_SIZE];
    char rate_text[LEAT_FORMAT_SIZE];
    char left[LEAT_FORMAT_SIZE + 16];
    bool known = s->total && !s->growing;
    say_amount(s, s->done, done);
    say_amount(s, s->total, total);
    say_left(s, rate, left);
    if (s->counted)
        snprintf(rate_text, sizeof rate_text, "%.0f/s", rate);
    else
        leat_format_rate(rate, rate_text);
    double percent = known ? (double)s->done / (double)s->total * 100 : 0;
    if (known && s->counted)
        snprintf(out, size, "%3.0f %%  %s of %s %s  %s%s", percent, done, total, p->noun, rate_text, left);
    else if (known)
        snprintf(out, size, "%3.0f %%  %s of %s  %s  %" PRIu64 " %s%s", percent, done, total, rate_text, s->items,
                 p->noun, left);
    else if (s->counted)
        snprintf(out, size, "%s %s  %s", done, p->noun, rate_text);
    else
        snprintf(out, size, "%s  %s  %" PRIu64 " %s", done, rate_text, s->items, p->noun);
}

/* What is counted may turn out a little more than was expected. */
static struct leat_progress_state ask(struct leat_progress *p)
{
    struct leat_progress_state s = {0};
    p->look(p->user, &s);
    if (s.total && !s.growing && s.done > s.total)
        s.done = s.total;
    return s;
}

static void draw(struct leat_progress *p)
{
    struct leat_progress_state s = ask(p);
    char line[256];
    char bar[BAR + 4] = "";
    describe(p, &s, recent_rate(p, s.done), line, sizeof line);
    if (s.total && !s.growing) {
        unsigned filled = (unsigned)((double)s.done / (double)s.total * BAR);
        bar[0] = '[';
        memset(bar + 1, '#', filled);
        memset(bar + 1 + filled, '.', BAR - filled);
        memcpy(bar + 1 + BAR, "] ", 3);
    }
    struct winsize w;
    size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1u : 79;
    if (width < BAR + 2 + 40)
        bar[0] = '\0'; /* on a narrow terminal the numbers say more */
    size_t taken = strlen(bar);
    fprintf(stderr, "\r%s%.*s\033[K", bar, (int)(width > taken ? width - taken : 0), line);
    fflush(stderr);
}

static void say_line(struct leat_progress *p)
{
    char line[256];
    uint64_t now = leat_now_ns();
    if (now - p->line_ns < p->every_ns)
        return;
    struct leat_progress_state s = ask(p);
    double rate = (double)(s.done > p->line_done ? s.done - p->line_done : 0) * 1e9 / (double)(now - p->line_ns);
    describe(p, &s, rate, line, sizeof line);
    fprintf(stderr, "leat: %s\n", line + strspn(line, " "));
    p->line_ns = now;
    p->line_done = s.done;
}

static void *run_progress(void *arg)
{
    struct leat_progress *p = arg;
    pthread_mutex_lock(&p->mu);
    while (!p->stop) {
        uint64_t pause = p->every_ns && p->every_ns < EVERY_NS ? p->every_ns : EVERY_NS;
        leat_cond_wait(&p->cond, &p->mu, leat_after(pause));
        if (p->stop)
            break;
        if (p->every_ns)
            say_line(p);
        else
            draw(p);
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

struct leat_progress *leat_progress_open(const struct leat_cli_progress *how, const char *noun,
                                         void (*look)(void *user, struct leat_progress_state *out), void *user)
{
    const char *term = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    if (how->quiet || (!terminal && !how->every_ns))
        return NULL;
    struct leat_progress *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->noun = noun;
    p->look = look;
    p->user = user;
    p->every_ns = terminal ? 0 : how->every_ns;
    p->line_ns = leat_now_ns();
    pthread_mutex_init(&p->mu, NULL);
    leat_cond_init(&p->cond);
    if (leat_thread_start(&p->thread, "leat-progress", run_progress, p, NULL) != LEAT_OK) {
        pthread_cond_destroy(&p->cond);
        pthread_mutex_destroy(&p->mu);
        free(p);
        return NULL;
    }
    return p;
}

void leat_progress_close(struct leat_progress *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mu);
    p->stop = true;
    pthread_cond_signal(&p->cond);
    pthread_mutex_unlock(&p->mu);
    pthread_join(p->thread, NULL);
    if (p->draws)
        fputs("\r\033[K", stderr);
    pthread_cond_destroy(&p->cond);
    pthread_mutex_destroy(&p->mu);
    free(p);
}
