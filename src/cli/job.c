/* leat job: the machines of this machine's jobs, who owns what, and what came from where. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/parse.h"
#include "cli/agents.h"
#include "cli/cli.h"
#include "cli/commands.h"

struct job_settings {
    const char *scope;
    bool json;
};

static const struct leat_option options[] = {
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct job_settings, json), NULL, NULL, NULL,
     "one line of JSON for each job"},
    {"scope", 0, LEAT_OPTION_STRING, offsetof(struct job_settings, scope), "NAME", NULL, NULL,
     "only the agent of this scope (else all of this user)"},
    {0},
};

struct seen {
    const struct job_settings *settings;
    unsigned agents, jobs;
    struct leat_error err;
};

static uint64_t number(const json_t *j, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(j, name));
    return value > 0 ? (uint64_t)value : 0;
}

static const char *text(const json_t *j, const char *name)
{
    const char *value = json_string_value(json_object_get(j, name));
    return value ? value : "";
}

static double share(const json_t *read, const char *source, uint64_t all)
{
    return (double)number(read, source) * 100 / (double)all;
}

/* What its ranks have read, by where it came from. */
static void print_read(const json_t *node)
{
    char size[LEAT_FORMAT_SIZE];
    const json_t *read = json_object_get(node, "read");
    uint64_t all = number(read, "ram") + number(read, "disk") + number(read, "peer") + number(read, "bucket");
    if (all)
        printf("        read %s: %.1f%% from its memory, %.1f%% from its disk, %.1f%% from other machines, %.1f%% from "
               "the bucket\n",
               leat_format_size(all, size), share(read, "ram", all), share(read, "disk", all), share(read, "peer", all),
               share(read, "bucket", all));
}

static void print_node(const json_t *node)
{
    char size[LEAT_FORMAT_SIZE];
    char rate[LEAT_FORMAT_SIZE] = "-";
    double seconds = json_real_value(json_object_get(node, "seconds"));
    uint64_t bytes = number(node, "bytes");
    const char *address = text(node, "address");
    if (seconds > 0)
        leat_format_size((uint64_t)((double)bytes / seconds), rate);
    printf("  %4" PRIu64 "  %-24s %5" PRIu64 "  %-9s %5.1f%%  %8" PRIu64 " %10s %10s/s  %" PRIu64 "\n",
           number(node, "node"), *address ? address : "(serves nothing)", number(node, "ranks"), text(node, "state"),
           (double)number(node, "slots") * 100 / 1024, number(node, "chunks"), leat_format_size(bytes, size), rate,
           number(node, "failed"));
    print_read(node);
    if (number(node, "late"))
        printf("        late %" PRIu64 " times; for at most 2 %% of the chunks the bucket was asked instead\n",
               number(node, "late"));
    if (*text(node, "why"))
        printf("        %s\n", text(node, "why"));
}

static void print_job(const json_t *job)
{
    char served[LEAT_FORMAT_SIZE];
    const char *name = text(job, "job");
    const json_t *nodes = json_object_get(job, "nodes");
    printf("job %s, generation %" PRIu64 "%s: %zu machines, this is number %" PRIu64 "\n",
           *name ? name : "(without a name)", number(job, "generation"),
           json_is_true(json_object_get(job, "over")) ? " (over)" : "", json_array_size(nodes), number(job, "node"));
    printf("  served %" PRIu64 " chunks, %s; refused %" PRIu64 " requests\n", number(job, "served_chunks"),
           leat_format_size(number(job, "served_bytes"), served), number(job, "refused"));
    if (number(job, "turned_away"))
        printf("  turned away %" PRIu64 " requests of other machines: too many at once\n", number(job, "turned_away"));
    if (*text(job, "problem"))
        printf("  %s\n", text(job, "problem"));
    printf("  node  address                  ranks  state      owns     chunks      bytes         rate  failed\n");
    for (size_t i = 0; i < json_array_size(nodes); i++)
        print_node(json_array_get(nodes, i));
}

static void take(void *user, const struct leat_wire_paths *paths, json_t *about, const struct leat_error *err)
{
    struct seen *seen = user;
    (void)paths;
    if (!about) {
        seen->err = *err;
        return;
    }
    const json_t *jobs = json_object_get(about, "jobs");
    seen->agents++;
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);
        char *line = seen->settings->json ? leat_json_write(job, JSON_COMPACT) : NULL;
        seen->jobs++;
        if (line)
            puts(line);
        else
            print_job(job);
        free(line);
    }
}

static int run(const void *settings, int argc, char **argv)
{
    struct seen seen = {.settings = settings};
    struct leat_error err = {0};
    (void)argc;
    (void)argv;
    leat_status rc = leat_agents_describe(seen.settings->scope, take, &seen, &err);
    if (rc == LEAT_OK && !seen.agents && seen.err.status != LEAT_OK)
        rc = (err = seen.err).status;
    else if (rc == LEAT_OK && !seen.agents)
        rc = leat_fail(&err, LEAT_NOT_FOUND, "no agent of this user is running: a loader starts one");
    else if (rc == LEAT_OK && !seen.jobs && !seen.settings->json)
        printf("no job of several machines\n");
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_job = {
    .name = "job",
    .arguments = "",
    .summary = "show the machines of a job, who owns what, and what came from where",
    .details =
        "For each job of several machines that this machine takes part in: every machine with its address, its ranks, "
        "whether it serves, the share of chunks that it owns, and what was fetched from it at what rate; of this "
        "machine also what its ranks have read, by where it came from. A machine "
        "that "
        "is lost or set aside owns nothing here: its chunks come from the bucket and are kept by the others.",
    .options = options,
    .settings_size = sizeof(struct job_settings),
    .run = run,
};
