#include <stdio.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "serve/serve.h"

struct serve_settings {
    uint64_t port;
    const char *bind;
    bool read_only;
    uint64_t latency_ns;
    uint64_t bandwidth;
    uint64_t connection_bandwidth;
    const char *fault;
    uint64_t fault_after;
    uint64_t fault_count;
    const char *fault_only;
    uint64_t seed;
};

#define AT(field) offsetof(struct serve_settings, field)

static const struct leat_option options[] = {
    {"port", 'p', LEAT_OPTION_U64, AT(port), "PORT", "0", NULL, "port to listen on; 0 takes one that is free"},
    {"bind", 0, LEAT_OPTION_STRING, AT(bind), "ADDRESS", "127.0.0.1", NULL, "numeric address to listen on"},
    {"read-only", 0, LEAT_OPTION_FLAG, AT(read_only), NULL, NULL, NULL, "refuse everything that writes"},
    {"latency", 0, LEAT_OPTION_DURATION, AT(latency_ns), "TIME", NULL, NULL, "wait before each answer, as in 50ms"},
    {"bandwidth", 0, LEAT_OPTION_RATE, AT(bandwidth), "RATE", NULL, NULL,
     "limit all connections together, each direction on its own, as in 400MB/s"},
    {"connection-bandwidth", 0, LEAT_OPTION_RATE, AT(connection_bandwidth), "RATE", NULL, NULL,
     "limit each connection, as in 25MB/s"},
    {"fault", 0, LEAT_OPTION_STRING, AT(fault), "KIND=CHANCE,…", NULL, NULL,
     "let requests fail by chance, as in 503=0.01,reset=0.001"},
    {"fault-after", 0, LEAT_OPTION_U64, AT(fault_after), "N", NULL, NULL, "spare the first N requests"},
    {"fault-count", 0, LEAT_OPTION_U64, AT(fault_count), "N", NULL, NULL, "at most N faults; 0 for no limit"},
    {"fault-only", 0, LEAT_OPTION_STRING, AT(fault_only), "TEXT", NULL, NULL, "only requests whose key has TEXT in it"},
    {"seed", 0, LEAT_OPTION_U64, AT(seed), "N", "0", NULL, "of the faults' random numbers"},
    {0},
};

static int run(const void *settings, int argc, char **argv)
{
    const struct serve_settings *s = settings;
    struct leat_error err;
    struct leat_serve *serve;
    struct leat_serve_options o = {
        .dir = argv[0],
        .bind = s->bind,
        .port = s->port > 65535 ? 65536 : (unsigned)s->port,
        .read_only = s->read_only,
        .latency_ns = s->latency_ns,
        .bandwidth = s->bandwidth,
        .connection_bandwidth = s->connection_bandwidth,
        .faults = s->fault,
        .fault_after = s->fault_after,
        .fault_count = s->fault_count,
        .fault_only = s->fault_only,
        .seed = s->seed,
    };
    (void)argc;
    if (leat_serve_open(&o, &serve, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    printf("%s\n", leat_serve_url(serve));
    int status = leat_cli_finish();
    struct timespec nap = {.tv_nsec = 100000000};
    while (status == LEAT_EXIT_OK && !leat_cli_interrupted())
        nanosleep(&nap, NULL);
    leat_serve_close(serve);
    return status;
}

const struct leat_command leat_command_serve = {
    .name = "serve",
    .arguments = "DIR",
    .summary = "serve a folder as a bucket, with latency, limits and faults on request",
    .options = options,
    .settings_size = sizeof(struct serve_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
