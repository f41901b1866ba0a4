#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/text.h"
#include "cli/top.h"
#include "ring/account.h"

#define NAME_COLUMNS 20u
#define STALL_S      1.0 /* a rank that has waited for this long is named */

/* Two looks at the same thing. */
struct change {
    struct leat_account now;
    struct leat_account grown;
    double seconds; /* 0: there was one look */
};

static struct change compare(const json_t *now, const json_t *before, double seconds)
{
    struct change c;
    struct leat_account earlier;
    leat_account_read(now, &c.now);
    leat_account_read(before, &earlier);
    c.grown = c.now;
    leat_account_since(&c.grown, &earlier);
    c.seconds = before ? seconds : 0;
    return c;
}

static double rate(const struct change *c, uint64_t grown)
{
    return c->seconds > 0 ? (double)grown / c->seconds : 0;
}

/* Share of the time that went by, of a number of nanoseconds. */
static double share(const struct change *c, uint64_t grown_ns)
{
    return rate(c, grown_ns) / 1e9;
}

static const json_t *loader_before(const struct leat_top_agent *a, const json_t *loader)
{
    json_int_t id = json_integer_value(json_object_get(loader, "id"));
    const json_t *all = json_object_get(a->before, "loaders");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        if (json_integer_value(json_object_get(one, "id")) == id)
            return one;
    }
    return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "?";
}

static long long number_of(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

static double hits(const struct change *c)
{
    const uint64_t *bytes = c->grown.bytes_by_source;
    double here = (double)(bytes[LEAT_FROM_DISK] + bytes[LEAT_FROM_RAM]);
    double all = here + (double)bytes[LEAT_FROM_BUCKET] + (double)bytes[LEAT_FROM_PEER];
    return all > 0 ? 100 * here / all : 100;
}

/* Some numbers as text, made where they are used. */
struct texts {
    char one[LEAT_FORMAT_SIZE], other[LEAT_FORMAT_SIZE], third[LEAT_FORMAT_SIZE], fourth[LEAT_FORMAT_SIZE];
};

static const char *count_text(double n, char out[LEAT_FORMAT_SIZE])
{
    snprintf(out, LEAT_FORMAT_SIZE, n > 0 && n < 9.95 ? "%.1f" : "%.0f", n);
    return out;
}

static const char *fraction(uint64_t used, uint64_t budget, char out[LEAT_FORMAT_SIZE])
{
    snprintf(out, LEAT_FORMAT_SIZE, "%.0f %%", budget ? 100 * (double)used / (double)budget : 0.0);
    return out;
}

/* The agent's lines, each with its subject first; on a screen, after a line, the subjects stand below each other. */

static void say_budgets(const struct change *c, struct leat_buf *b)
{
    struct texts t;
    leat_buf_printf(b, "%s of %s (%s)", leat_format_size(c->now.cache_bytes, t.one),
                    leat_format_size(c->now.cache_budget, t.other),
                    fraction(c->now.cache_bytes, c->now.cache_budget, t.third));
    if (c->now.disk_budget)
        leat_buf_printf(b, "   disk %s of %s (%s)", leat_format_size(c->now.disk_bytes, t.one),
                        leat_format_size(c->now.disk_budget, t.other),
                        fraction(c->now.disk_bytes, c->now.disk_budget, t.third));
    leat_buf_printf(b, "   threads %s of %llu busy", count_text(share(c, c->grown.threads_busy_ns), t.fourth),
                    (unsigned long long)c->now.threads);
}

static void say_sources(const struct change *c, struct leat_buf *b)
{
    static const char *const names[] = {"bucket", "disk", "memory", "peer"};
    char text[LEAT_FORMAT_SIZE];
    for (int i = 0; i < LEAT_SOURCES; i++)
        leat_buf_printf(b, "%s %s   ", names[i], leat_format_rate(rate(c, c->grown.bytes_by_source[i]), text));
    leat_buf_printf(b, "hits %.0f %%", hits(c));
}

/* What all loaders together wait for chunks, by where these came from, in percent of their time. */
static void say_stalls(const struct leat_top_agent *a, struct leat_buf *b)
{
    static const char *const names[LEAT_STALLS] = {"bucket", "disk", "peer"};
    const json_t *loaders = json_object_get(a->now, "loaders");
    size_t n = json_array_size(loaders);
    double sum[LEAT_STALLS] = {0};
    for (size_t k = 0; k < n; k++) {
        const json_t *loader = json_array_get(loaders, k);
        struct change c = compare(loader, loader_before(a, loader), a->seconds);
        for (int i = 0; i < LEAT_STALLS; i++)
            sum[i] += 100 * share(&c, c.grown.fetch_wait_by_source_ns[i]);
    }
    for (int i = 0; i < LEAT_STALLS; i++)
        leat_buf_printf(b, "%s%s %.1f %%", i ? "   " : "", names[i], n ? sum[i] / (double)n : 0);
}

static void say_requests(const struct change *c, struct leat_buf *b)
{
    struct texts t;
    double each_ms = c->grown.requests ? (double)c->grown.request_ns / 1e6 / (double)c->grown.requests : 0;
    leat_buf_printf(b, "%s per second   %.0f ms each   %llu chunks in flight   retries %s/s   throttled %s/s",
                    count_text(rate(c, c->grown.requests), t.one), each_ms,
                    (unsigned long long)c->now.fetches_in_flight, count_text(rate(c, c->grown.retries), t.other),
                    count_text(rate(c, c->grown.throttled), t.third));
    if (c->now.chunks_corrupt || c->now.chunks_failed)
        leat_buf_printf(b, "   corrupt %llu   failed %llu", (unsigned long long)c->now.chunks_corrupt,
                        (unsigned long long)c->now.chunks_failed);
}

/* A screen */

/* A text in this many columns, cut or filled up with blanks. */
static void cell(struct leat_buf *b, const char *text, size_t columns)
{
    size_t from = b->len;
    leat_cli_escape_rest(b, text, strlen(text), columns);
    size_t used = 0;
    for (size_t i = from; i < b->len; i++)
        used += (b->data[i] & 0xc0) != 0x80;
    for (; used <= columns; used++)
        leat_buf_char(b, ' ');
}

static void put_loader(const struct leat_top_agent *a, const json_t *loader, struct leat_buf *b)
{
    struct change c = compare(loader, loader_before(a, loader), a->seconds);
    bool known = json_object_get(loader, "samples") != NULL;
    char rank[32];
    char epoch[40];
    struct texts t;
    snprintf(rank, sizeof rank, "%lld/%lld", number_of(loader, "rank"), number_of(loader, "world_size"));
    snprintf(epoch, sizeof epoch, "%lld %3.0f %%", number_of(loader, "epoch"),
             100 * json_number_value(json_object_get(loader, "epoch_done")));
    cell(b, text_of(loader, "name"), NAME_COLUMNS);
    cell(b, rank, 7);
    leat_buf_printf(b, "%7lld %10s %10s %9s %5llu ", number_of(loader, "pid"), epoch,
                    known ? count_text(rate(&c, c.grown.samples), t.one) : "-",
                    known ? count_text(rate(&c, c.grown.batches), t.other) : "-",
                    (unsigned long long)c.now.batches_ready);
    for (int i = 0; known && i < LEAT_WAIT_CAUSES; i++)
        leat_buf_printf(b, "%6.1f", 100 * share(&c, c.grown.wait_by_cause_ns[i]));
    if (!known)
        leat_buf_str(b, "  its release does not tell");
}

struct screen {
    struct leat_buf *out;
    size_t columns, rows, used;
    size_t left_out; /* lines */
};

/* A line of the screen, cut at its edge. The last one is kept for what had no room. */
static void line(struct screen *s, struct leat_buf *text)
{
    if (s->used + 1 >= s->rows)
        s->left_out++;
    else if (s->used++ > 0)
        leat_buf_char(s->out, '\n');
    if (!s->left_out)
        leat_cli_escape_rest(s->out, text->data, text->len, s->columns);
    leat_buf_clear(text);
}

static void screen_agent(struct screen *s, const struct leat_top_agent *a, struct leat_buf *t)
{
    static const char *const causes[] = {"fetch", "prep", "slots", "agent", "open", "ranks", "other"};
    const json_t *loaders = json_object_get(a->now, "loaders");
    struct change c = compare(a->now, a->before, a->seconds);
    leat_buf_printf(t, "agent %lld   scope %s   leat %s   %zu loader%s", number_of(a->now, "pid"),
                    text_of(a->now, "scope"), text_of(a->now, "version"), json_array_size(loaders),
                    json_array_size(loaders) == 1 ? "" : "s");
    if (json_object_get(a->now, "metrics") && !json_is_null(json_object_get(a->now, "metrics")))
        leat_buf_printf(t, "   %s", text_of(a->now, "metrics"));
    line(s, t);
    leat_buf_str(t, "memory    ");
    say_budgets(&c, t);
    line(s, t);
    leat_buf_str(t, "sources   ");
    say_sources(&c, t);
    line(s, t);
    leat_buf_str(t, "stalls    ");
    say_stalls(a, t);
    line(s, t);
    leat_buf_str(t, "requests  ");
    say_requests(&c, t);
    line(s, t);
    if (!loaders) {
        leat_buf_str(t, "its release tells nothing of its loaders: new ones do after `leat agent stop`");
        line(s, t);
        return;
    }
    leat_buf_printf(t, "%92s", "waiting, % of the time, for");
    line(s, t);
    leat_buf_printf(t, "%-20s %-7s %7s %10s %10s %9s %5s ", "LOADER", "RANK", "PID", "EPOCH", "SAMPLES/S", "BATCHES/S",
                    "READY");
    for (int i = 0; i < LEAT_WAIT_CAUSES; i++)
        leat_buf_printf(t, "%6s", causes[i]);
    line(s, t);
    for (size_t i = 0; i < json_array_size(loaders); i++) {
        put_loader(a, json_array_get(loaders, i), t);
        line(s, t);
    }
    for (size_t i = 0; i < json_array_size(loaders); i++) {
        const json_t *l = json_array_get(loaders, i);
        double waiting = json_number_value(json_object_get(l, "waiting_s"));
        if (waiting < STALL_S)
            continue;
        leat_buf_printf(t, "%s rank %lld has waited %.0f s for %s", text_of(l, "name"), number_of(l, "rank"), waiting,
                        text_of(l, "waiting_for"));
        line(s, t);
    }
}

void leat_top_screen(const struct leat_top_agent *agents, size_t n, size_t columns, size_t rows, struct leat_buf *b)
{
    struct screen s = {.out = b, .columns = columns, .rows = rows};
    struct leat_buf t;
    leat_buf_init(&t, 1 << 16);
    for (size_t i = 0; i < n; i++) {
        if (i)
            line(&s, &t);
        if (agents[i].now) {
            screen_agent(&s, &agents[i], &t);
        } else {
            leat_buf_printf(&t, "%s: %s", agents[i].where, agents[i].problem);
            line(&s, &t);
        }
    }
    if (s.left_out)
        leat_buf_printf(b, "\n… and %zu lines more", s.left_out);
    b->failed |= t.failed;
    leat_buf_free(&t);
}

/* Lines */

static void lines_of_loader(const struct leat_top_agent *a, const json_t *loader, const char *time, struct leat_buf *b)
{
    static const char *const causes[] = {"fetch", "prep", "slots", "agent", "open", "ranks", "other"};
    struct change c = compare(loader, loader_before(a, loader), a->seconds);
    struct texts t;
    double waiting = json_number_value(json_object_get(loader, "waiting_s"));
    leat_buf_printf(b, "%s loader %s rank %lld: ", time, text_of(loader, "name"), number_of(loader, "rank"));
    if (!json_object_get(loader, "samples")) {
        leat_buf_str(b, "its release does not tell\n");
        return;
    }
    leat_buf_printf(b, "%s samples/s, %s batches/s, %llu ready, waiting %.1f %%",
                    count_text(rate(&c, c.grown.samples), t.one), count_text(rate(&c, c.grown.batches), t.other),
                    (unsigned long long)c.now.batches_ready, 100 * share(&c, c.grown.wait_ns));
    const char *and = " (";
    for (int i = 0; i < LEAT_WAIT_CAUSES; i++) {
        double part = 100 * share(&c, c.grown.wait_by_cause_ns[i]);
        if (part < 0.05)
            continue;
        leat_buf_printf(b, "%s%s %.1f", and, causes[i], part);
        and = ", ";
    }
    leat_buf_str(b, and[0] == ',' ? ")" : "");
    if (waiting >= STALL_S)
        leat_buf_printf(b, "; %.0f s now, for %s", waiting, text_of(loader, "waiting_for"));
    leat_buf_char(b, '\n');
}

void leat_top_lines(const struct leat_top_agent *agents, size_t n, const char *time, struct leat_buf *b)
{
    for (size_t i = 0; i < n; i++) {
        const struct leat_top_agent *a = &agents[i];
        const json_t *loaders = json_object_get(a->now, "loaders");
        if (!a->now) {
            leat_buf_printf(b, "%s %s: %s\n", time, a->where, a->problem);
            continue;
        }
        struct change c = compare(a->now, a->before, a->seconds);
        leat_buf_printf(b, "%s agent %lld scope %s: memory ", time, number_of(a->now, "pid"), text_of(a->now, "scope"));
        say_budgets(&c, b);
        leat_buf_str(b, "   ");
        say_sources(&c, b);
        leat_buf_str(b, "   stalls ");
        say_stalls(a, b);
        leat_buf_str(b, "   requests ");
        say_requests(&c, b);
        leat_buf_char(b, '\n');
        for (size_t k = 0; k < json_array_size(loaders); k++)
            lines_of_loader(a, json_array_get(loaders, k), time, b);
    }
}

/* JSON */

static bool add_rates(json_t *object, const json_t *before, double seconds)
{
    struct change c = compare(object, before, seconds);
    json_t *rates = json_object();
    bool good = rates != NULL;
    for (size_t i = 0; good && before && i < leat_account_rows(); i++) {
        const struct leat_account_row *row = leat_account_row(i);
        double scale = row->unit == LEAT_UNIT_SECONDS ? 1e-9 : 1;
        if (row->kind != LEAT_ACCOUNT_SUM || !json_object_get(object, row->name))
            continue;
        good = leat_account_put(row, json_real(scale * rate(&c, leat_account_get(&c.grown, row))), rates);
    }
    good = good && json_object_set(object, "per_second", rates) == 0;
    json_decref(rates);
    return good;
}

bool leat_top_rates(const struct leat_top_agent *a)
{
    const json_t *loaders = json_object_get(a->now, "loaders");
    bool good = true;
    for (size_t i = 0; i < json_array_size(loaders); i++) {
        json_t *one = json_array_get(loaders, i);
        good = good && add_rates(one, loader_before(a, one), a->seconds);
    }
    return good && add_rates(a->now, a->before, a->seconds) &&
           json_object_set_new(a->now, "seconds", json_real(a->before ? a->seconds : 0)) == 0;
}
