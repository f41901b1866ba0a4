/* leat agent: the process behind the loaders, and looking after it. */
#include "agent/agent.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "cli/agents.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/metrics.h"
#include "client/connect.h"
#include "leat/leat.h"
#include "ring/account.h"

#define LOG_MAX (1 << 20)

struct agent_settings {
    const char *scope;
    uint64_t ram;
    uint64_t threads;
    const char *cache_dir;
    uint64_t cache;
    const char *linger;
    const char *metrics;
    const char *ready_fd;
    const char *socket;
    uint64_t protocol;
    bool json;
};

static const struct leat_option options[] = {
    {"scope", 0, LEAT_OPTION_STRING, offsetof(struct agent_settings, scope), "NAME", NULL, NULL,
     "which agent (default: LEAT_SCOPE, else the Slurm job, else 'default')"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct agent_settings, json), NULL, NULL, NULL,
     "ls: one JSON object per line"},
    {"ram", 0, LEAT_OPTION_SIZE, offsetof(struct agent_settings, ram), "SIZE", NULL, "LEAT_RAM",
     "run: memory for chunks (default: a quarter of all)"},
    {"threads", 0, LEAT_OPTION_U64, offsetof(struct agent_settings, threads), "N", NULL, "LEAT_THREADS",
     "run: threads that prepare samples (default: one per core)"},
    {"cache-dir", 0, LEAT_OPTION_STRING, offsetof(struct agent_settings, cache_dir), "PATH", NULL, "LEAT_CACHE_DIR",
     "run: folder of the cache on disk (default with --cache: $XDG_CACHE_HOME/leat, else ~/.cache/leat)"},
    {"cache", 0, LEAT_OPTION_SIZE, offsetof(struct agent_settings, cache), "SIZE", NULL, "LEAT_CACHE",
     "run: how much of the disk the cache may use"},
    {"linger", 0, LEAT_OPTION_STRING, offsetof(struct agent_settings, linger), "TIME", NULL, "LEAT_LINGER",
     "run: how long to stay after the last loader (default: 5s, under Slurm 0)"},
    {"metrics", 0, LEAT_OPTION_STRING, offsetof(struct agent_settings, metrics), "ADDRESS", NULL, "LEAT_METRICS",
     "run: serve metrics for Prometheus there, as in 127.0.0.1:9100"},
    {"socket", 0, LEAT_OPTION_STRING, offsetof(struct agent_settings, socket), "PATH", NULL, NULL,
     "run: where to listen (default: what the scope says)"},
    {"protocol", 0, LEAT_OPTION_U64, offsetof(struct agent_settings, protocol), "N", NULL, NULL,
     "run: protocol to speak; an unknown one is refused"},
    {"ready-fd", 0, LEAT_OPTION_STRING, offsetof(struct agent_settings, ready_fd), "N", NULL, NULL,
     "run: file descriptor to write to when ready"},
    {0},
};

/* One line per message, with the time; the file starts again when it has grown large. */
static void write_log(enum leat_log_level level, const char *line, void *user)
{
    struct stat st;
    struct tm t;
    char stamp[32];
    time_t now = time(NULL);
    (void)user;
    if (fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > LOG_MAX &&
        ftruncate(STDERR_FILENO, 0) < 0)
        return;
    gmtime_r(&now, &t);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &t);
    dprintf(STDERR_FILENO, "%s %s: %s\n", stamp, leat_log_level_name(level), line);
}

static int run_agent(const struct agent_settings *s)
{
    struct leat_error err;
    struct leat_agent_opts opts = {
        .scope = s->scope,
        .socket = s->socket,
        .ram = s->ram,
        .threads = (uint32_t)s->threads,
        .cache_dir = s->cache_dir,
        .cache = s->cache,
        .metrics = s->metrics,
        .metrics_open = leat_cli_metrics_open,
        .metrics_close = leat_cli_metrics_close,
        .ready_fd = -1,
    };
    uint64_t fd;
    opts.linger_ns = getenv("SLURM_JOB_ID") ? 0 : 5 * LEAT_S;
    if (s->linger && leat_parse_duration(s->linger, "--linger", &opts.linger_ns, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    if (s->ready_fd) {
        if (leat_parse_u64(s->ready_fd, "--ready-fd", &fd, &err) != LEAT_OK)
            return leat_cli_fail(&err);
        opts.ready_fd = (int)fd;
        leat_log_open(LEAT_LOG_WARN, write_log, NULL); /* detached: standard error is the log file */
    }
    if (s->protocol && s->protocol != LEAT_WIRE_PROTOCOL) {
        leat_fail(&err, LEAT_VERSION,
                  "leat %s speaks protocol %d, but a loader wants %llu: update the older of the two", leat_version(),
                  LEAT_WIRE_PROTOCOL, (unsigned long long)s->protocol);
        if (opts.ready_fd >= 0)
            dprintf(opts.ready_fd, "%d %s\n", (int)err.status, err.text);
        return leat_cli_fail(&err);
    }
    if (s->threads > 1024)
        return leat_cli_failf(LEAT_INVALID, "--threads: at most 1024");
    leat_status rc = leat_agent_run(&opts, &err);
    if (rc == LEAT_BUSY && s->ready_fd)
        return LEAT_EXIT_OK; /* another one was faster; the one that started us knows */
    return rc == LEAT_OK ? LEAT_EXIT_OK : leat_cli_fail(&err);
}

static void print_agent(const json_t *a, bool json)
{
    char ram[LEAT_FORMAT_SIZE];
    char used[LEAT_FORMAT_SIZE];
    struct leat_account account;
    if (json) {
        json_dumpf(a, stdout, JSON_COMPACT);
        putchar('\n');
        return;
    }
    leat_account_read(a, &account);
    size_t loaders = json_array_size(json_object_get(a, "loaders"));
    printf("%7d  %-8s  %-20s  %2d loader%s  %s of %s  %s\n", (int)json_integer_value(json_object_get(a, "pid")),
           json_string_value(json_object_get(a, "version")), json_string_value(json_object_get(a, "scope")),
           (int)loaders, loaders == 1 ? " " : "s", leat_format_size(account.cache_bytes, used),
           leat_format_size(account.cache_budget, ram), json_string_value(json_object_get(a, "log")));
}

static void list_one(void *user, const struct leat_wire_paths *paths, json_t *about, const struct leat_error *err)
{
    const struct agent_settings *s = user;
    if (about)
        print_agent(about, s->json);
    else
        fprintf(stderr, "leat: %s: %s\n", paths->socket, err->text);
}

static int list_agents(const struct agent_settings *s)
{
    struct leat_error err;
    if (leat_agents_describe(NULL, list_one, (void *)(uintptr_t)s, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    return leat_cli_finish();
}

static int stop_agent(const struct agent_settings *s)
{
    struct leat_wire_paths paths;
    struct leat_connection c;
    struct leat_error err;
    leat_status rc = leat_wire_find(s->scope, &paths, &err);
    if (rc == LEAT_OK)
        rc = leat_connect_existing(&paths, &c, &err);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    int pid = c.agent_pid;
    struct leat_incoming answer = {0};
    struct leat_buf b;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_STOP);
    rc = leat_agents_ask(&c, &b, &answer, &err);
    leat_connection_close(&c);
    leat_incoming_free(&answer);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    /* It unlinks its lock when everything else is gone. */
    uint64_t deadline = leat_after(10 * LEAT_S);
    while (access(paths.lock, F_OK) == 0 && leat_left(deadline) && !leat_cli_interrupted())
        leat_sleep_until(leat_after(10 * LEAT_MS));
    printf("stopped the agent with process id %d\n", pid);
    return leat_cli_finish();
}

static int print_log_file(const struct agent_settings *s)
{
    struct leat_wire_paths paths;
    struct leat_error err;
    char buffer[8192];
    size_t n;
    if (leat_wire_find(s->scope, &paths, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    FILE *f = fopen(paths.log, "re");
    if (!f)
        return leat_cli_failf(LEAT_NOT_FOUND, "there is no log at '%s': the agent has logged nothing", paths.log);
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
        fwrite(buffer, 1, n, stdout);
    fclose(f);
    return leat_cli_finish();
}

static int print_fields(void)
{
    struct leat_buf b;
    struct leat_error err;
    leat_buf_init(&b, 1 << 20);
    leat_account_describe(&b);
    leat_status rc = leat_buf_check(&b, "the table", &err);
    if (rc == LEAT_OK)
        fputs(b.data, stdout);
    leat_buf_free(&b);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct agent_settings *s = settings;
    (void)argc;
    if (strcmp(argv[0], "run") == 0)
        return run_agent(s);
    if (strcmp(argv[0], "ls") == 0)
        return list_agents(s);
    if (strcmp(argv[0], "stop") == 0)
        return stop_agent(s);
    if (strcmp(argv[0], "log") == 0)
        return print_log_file(s);
    if (strcmp(argv[0], "fields") == 0)
        return print_fields();
    return leat_cli_failf(LEAT_INVALID, "'%s' is not one of run, ls, stop, log, fields", argv[0]);
}

const struct leat_command leat_command_agent = {
    .name = "agent",
    .arguments = "ls|stop|log|fields|run",
    .summary = "list or stop the process that feeds this machine's loaders",
    .details =
        "Loaders start the agent themselves, one per user and scope, and it ends shortly after the last of "
        "them.\n\nls lists your agents. stop ends the agent of a scope (its loaders start another). log prints its "
        "log. fields lists the numbers that agents and loaders keep. run starts an agent, as loaders do.\n\nSocket, "
        "lock and log are in $LEAT_RUNTIME_DIR, else $XDG_RUNTIME_DIR/leat, else /tmp/leat-UID.",
    .examples = "  leat agent ls\n  leat agent log\n  leat agent stop --scope job42\n",
    .options = options,
    .settings_size = sizeof(struct agent_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
