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
#define WINDOW   25 /* draws over which the rate is taken: five seconds */

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
};

static double recent_rate(struct leat_progress *p, uint64_t done)
{
    uint64_t now = leat_now_ns();
    unsigned n = p->draws < WINDOW ? p->draws : WINDOW;
    unsigned oldest = p->draws < WINDOW ? 0 : p->draws % WINDOW;
    double rate = 0;
    if (n && now > p->past_ns[oldest])
        rate = (double)(done - p->past_done[oldest]) * 1e9 / (double)(now - p->past_ns[oldest]);
    p->past_done[p->draws % WINDOW] = done;
    p->past_ns[p->draws % WINDOW] = now;
    p->draws++;
    return rate;
}

static void draw(struct leat_progress *p)
{
    struct leat_progress_state s = {0};
    char line[256];
    char done[LEAT_FORMAT_SIZE];
    char total[LEAT_FORMAT_SIZE];
    char rate_text[LEAT_FORMAT_SIZE];
    char left[LEAT_FORMAT_SIZE + 8] = "";
    p->look(p->user, &s);
    double rate = recent_rate(p, s.done);
    leat_format_size(s.done, done);
    leat_format_rate(rate, rate_text);
    if (s.total && !s.growing && s.done <= s.total) {
        char bar[BAR + 1];
        unsigned filled = (unsigned)((double)s.done / (double)s.total * BAR);
        memset(bar, '#', filled);
        memset(bar + filled, '.', BAR - filled);
        bar[BAR] = '\0';
        if (rate > 0 && s.done < s.total) {
            char time[LEAT_FORMAT_SIZE];
            double seconds = (double)(s.total - s.done) / rate + 1; /* the last second counts as one */
            snprintf(left, sizeof left, "  %s left",
                     leat_format_duration((uint64_t)(seconds < 1e9 ? seconds : 1e9) * LEAT_S, time));
        }
        snprintf(line, sizeof line, "[%s] %3.0f %%  %s of %s  %s  %" PRIu64 " %s%s", bar,
                 (double)s.done / (double)s.total * 100, done, leat_format_size(s.total, total), rate_text, s.items,
                 p->noun, left);
    } else {
        snprintf(line, sizeof line, "%s  %s  %" PRIu64 " %s", done, rate_text, s.items, p->noun);
    }
    struct winsize w;
    size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1u : 79;
    fprintf(stderr, "\r%.*s\033[K", (int)(width < sizeof line ? width : sizeof line - 1), line);
    fflush(stderr);
}

static void *run_progress(void *arg)
{
    struct leat_progress *p = arg;
    pthread_mutex_lock(&p->mu);
    while (!p->stop) {
        leat_cond_wait(&p->cond, &p->mu, leat_after(EVERY_NS));
        if (!p->stop)
            draw(p);
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

struct leat_progress *leat_progress_open(const char *noun, void (*look)(void *user, struct leat_progress_state *out),
                                         void *user)
{
    const char *term = getenv("TERM");
    if (!isatty(STDERR_FILENO) || !term || strcmp(term, "dumb") == 0)
        return NULL;
    struct leat_progress *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->noun = noun;
    p->look = look;
    p->user = user;
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
