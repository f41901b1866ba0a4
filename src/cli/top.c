/* leat top: what this user's agents are doing, now and again. */
#include "cli/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/agents.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/text.h"

#define AGENTS_MAX 64u
#define EVERY_MIN  (100 * LEAT_MS)
#define NAP_NS     (50 * LEAT_MS) /* Ctrl-C is noticed that soon */
#define ROWS       24u            /* where the terminal does not say */

#define ENTER "\033[?1049h\033[?25l" /* another screen, without a cursor */
#define LEAVE "\033[?25h\033[?1049l"

struct top_settings {
    const char *scope;
    uint64_t every_ns;
    bool once;
    bool json;
};

#define AT(field) offsetof(struct top_settings, field)

static const struct leat_option options[] = {
    {"scope", 0, LEAT_OPTION_STRING, AT(scope), "NAME", NULL, NULL,
     "only the agent of this scope (default: all of your agents)"},
    {"every", 'n', LEAT_OPTION_DURATION, AT(every_ns), "TIME", "1s", NULL, "time between two updates"},
    {"once", 0, LEAT_OPTION_FLAG, AT(once), NULL, NULL, NULL, "print once, what happened in that time, and end"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "one JSON object per agent and line"},
    {0},
};

/* A look at an agent. */
struct look {
    int pid; /* 0: it says nothing */
    uint64_t at_ns;
    json_t *about;
    char problem[300];
    char where[LEAT_WIRE_PATH];
};

struct looks {
    struct look list[AGENTS_MAX];
    size_t n;
};

static void forget(struct looks *l)
{
    for (size_t i = 0; i < l->n; i++)
        json_decref(l->list[i].about);
    l->n = 0;
}

static int by_name_and_rank(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a;
    const json_t *y = *(json_t *const *)b;
    int names = strcmp(json_string_value(json_object_get(x, "name")), json_string_value(json_object_get(y, "name")));
    json_int_t i = json_integer_value(json_object_get(x, "rank"));
    json_int_t k = json_integer_value(json_object_get(y, "rank"));
    return names ? names : (i > k) - (i < k);
}

/* So that lines stay where they are from look to look. Without memory they do not. */
static void sort_loaders(json_t *about)
{
    json_t *loaders = json_object_get(about, "loaders");
    size_t n = json_array_size(loaders);
    json_t **all = calloc(n + 1, sizeof *all);
    bool named = all != NULL;
    for (size_t i = 0; named && i < n; i++) {
        all[i] = json_array_get(loaders, i);
        named = json_string_value(json_object_get(all[i], "name")) != NULL;
    }
    json_t *sorted = named ? json_array() : NULL;
    if (sorted) {
        qsort(all, n, sizeof *all, by_name_and_rank);
        for (size_t i = 0; i < n; i++)
            json_array_append(sorted, all[i]);
    }
    if (sorted && json_array_size(sorted) == n)
        json_object_set(about, "loaders", sorted);
    json_decref(sorted);
    free(all);
}

static void take(void *user, const struct leat_wire_paths *paths, json_t *about, const struct leat_error *err)
{
    struct looks *l = user;
    if (l->n == AGENTS_MAX)
        return;
    struct look *look = &l->list[l->n++];
    *look = (struct look){.at_ns = leat_now_ns(), .about = json_incref(about)};
    sort_loaders(about);
    look->pid = (int)json_integer_value(json_object_get(about, "pid"));
    snprintf(look->problem, sizeof look->problem, "%.299s", err->text);
    snprintf(look->where, sizeof look->where, "%s", paths->socket);
}

static const struct look *same(const struct looks *l, int pid)
{
    for (size_t i = 0; i < l->n; i++) {
        if (pid && l->list[i].pid == pid)
            return &l->list[i];
    }
    return NULL;
}

static size_t pair(const struct looks *now, const struct looks *before, struct leat_top_agent out[AGENTS_MAX])
{
    for (size_t i = 0; i < now->n; i++) {
        const struct look *look = &now->list[i];
        const struct look *then = same(before, look->pid);
        out[i] = (struct leat_top_agent){
            .now = look->about,
            .before = then ? then->about : NULL,
            .seconds = then ? (double)(look->at_ns - then->at_ns) / 1e9 : 0,
            .problem = look->problem,
            .where = look->where,
        };
    }
    return now->n;
}

static leat_status print_json(const struct leat_top_agent *agents, size_t n, struct leat_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!agents[i].now) { /* standard output is for programs */
            fprintf(stderr, "leat: %s: %s\n", agents[i].where, agents[i].problem);
            continue;
        }
        char *text = leat_top_rates(&agents[i]) ? leat_json_write(agents[i].now, JSON_COMPACT) : NULL;
        if (!text)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the answer");
        puts(text);
        free(text);
    }
    return LEAT_OK;
}

static void print_screen(const struct leat_top_agent *agents, size_t n, struct leat_buf *b)
{
    struct winsize w;
    bool sized = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 1;
    leat_top_screen(agents, n, leat_cli_columns(), sized ? w.ws_row : ROWS, b);
    fputs("\033[H", stdout);
    for (const char *at = b->data; *at;) { /* each line over the one that was there */
        size_t len = strcspn(at, "\n");
        printf("%.*s\033[K%s", (int)len, at, at[len] ? "\n" : "");
        at += len + (at[len] == '\n');
    }
    fputs("\033[J", stdout);
}

static leat_status print(const struct looks *now, const struct looks *before, bool json, bool screen,
                         struct leat_error *err)
{
    struct leat_top_agent agents[AGENTS_MAX];
    size_t n = pair(now, before, agents);
    struct leat_buf b;
    char stamp[LEAT_CLI_TIME];
    if (json)
        return print_json(agents, n, err);
    leat_buf_init(&b, 1 << 20);
    leat_cli_format_time(leat_wall_s(), stamp);
    if (screen)
        print_screen(agents, n, &b);
    else
        leat_top_lines(agents, n, stamp, &b);
    leat_status rc = leat_buf_check(&b, "what the agents say", err);
    if (rc == LEAT_OK && !screen)
        fputs(b.data, stdout);
    leat_buf_free(&b);
    return rc;
}

static void wait_for(uint64_t ns)
{
    uint64_t until = leat_after(ns);
    while (leat_left(until) && !leat_cli_interrupted()) {
        uint64_t nap = leat_after(NAP_NS);
        leat_sleep_until(nap < until ? nap : until);
    }
}

/* True: there is somebody to look at. */
static bool look(const struct top_settings *s, struct looks *out, leat_status *rc, struct leat_error *err)
{
    *rc = leat_agents_describe(s->scope, take, out, err);
    return *rc == LEAT_OK && out->n > 0 && !leat_cli_interrupted();
}

static leat_status watch(const struct top_settings *s, bool screen, struct looks looks[2], struct leat_error *err)
{
    leat_status rc;
    unsigned turn = 0;
    bool there = look(s, &looks[0], &rc, err);
    if (rc == LEAT_OK && !there && !leat_cli_interrupted())
        return leat_fail(err, LEAT_NOT_FOUND, "no agent of this user is running%s%s: a loader starts one",
                         s->scope ? " in scope " : "", s->scope ? s->scope : "");
    if (screen && there)
        fputs(ENTER, stdout);
    while (there) {
        wait_for(s->every_ns);
        struct looks *now = &looks[++turn % 2];
        forget(now);
        there = look(s, now, &rc, err);
        if (there)
            rc = print(now, &looks[(turn + 1) % 2], s->json, screen, err);
        there = there && rc == LEAT_OK && !s->once && fflush(stdout) == 0;
    }
    if (screen && turn)
        fputs(LEAVE, stdout);
    if (rc == LEAT_OK && !looks[turn % 2].n && turn && !leat_cli_interrupted())
        fprintf(stderr, "leat: the agent has ended\n");
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    const struct top_settings *s = settings;
    const char *term = getenv("TERM");
    bool screen = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !s->once && !s->json;
    struct leat_error err = {0};
    (void)argc;
    (void)argv;
    if (s->every_ns < EVERY_MIN)
        return leat_cli_failf(LEAT_INVALID, "--every: at least 100ms");
    struct looks *looks = calloc(2, sizeof *looks);
    if (!looks)
        return leat_cli_failf(LEAT_NO_MEMORY, "no memory to look at agents");
    leat_status rc = watch(s, screen, looks, &err);
    forget(&looks[0]);
    forget(&looks[1]);
    free(looks);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    return leat_cli_interrupted() && !screen && s->once ? LEAT_EXIT_INTERRUPTED : leat_cli_finish();
}

const struct leat_command leat_command_top = {
    .name = "top",
    .arguments = "",
    .summary = "watch your agents and their loaders",
    .details =
        "Shows each agent and its loaders, again and again until Ctrl-C: memory and disk used by chunks, busy "
        "threads, bytes by source, the share of them that did not have to be fetched, requests to the bucket, and "
        "for each loader the samples per second and the share of time that its rank waits, by cause.\n\nIf standard "
        "output is not a terminal, it prints one line per agent and loader. With --json it prints the same as `leat "
        "agent ls --json`, and per_second, the growth of every sum. Watching does not keep an agent from ending.",
    .examples = "  leat top\n  leat top --scope job42 --every 5s\n  leat top --once --json\n",
    .options = options,
    .settings_size = sizeof(struct top_settings),
    .arguments_min = 0,
    .arguments_max = 0,
    .run = run,
};
