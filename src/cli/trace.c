/* leat trace: what an agent did in the last minutes, for Perfetto. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/agents.h"
#include "cli/cli.h"
#include "cli/commands.h"

struct trace_settings {
    const char *scope;
    const char *output;
    uint64_t last_ns;
};

#define AT(field) offsetof(struct trace_settings, field)

static const struct leat_option options[] = {
    {"output", 'o', LEAT_OPTION_STRING, AT(output), "FILE", "leat-trace.json", NULL,
     "where to write it; - is standard output"},
    {"last", 0, LEAT_OPTION_DURATION, AT(last_ns), "TIME", "2m", NULL, "how far back, as far as the agent remembers"},
    {"scope", 0, LEAT_OPTION_STRING, AT(scope), "NAME", NULL, NULL,
     "the agent of this scope (else the only one of this user)"},
    {0},
};

/* The agents there are. */
struct found {
    struct leat_wire_paths paths; /* of the first that answers … */
    unsigned n;
    char scopes[200]; /* … and what all are called */
    struct leat_error err;
};

static void take(void *user, const struct leat_wire_paths *paths, json_t *about, const struct leat_error *err)
{
    struct found *f = user;
    if (!about) {
        f->err = *err;
        return;
    }
    size_t at = strlen(f->scopes);
    snprintf(f->scopes + at, sizeof f->scopes - at, "%s%s", at ? ", " : "",
             json_string_value(json_object_get(about, "scope")));
    if (f->n++ == 0)
        f->paths = *paths;
}

static leat_status find(const char *scope, struct leat_wire_paths *out, struct leat_error *err)
{
    struct found f = {0};
    leat_status rc = leat_agents_describe(scope, take, &f, err);
    if (rc != LEAT_OK)
        return rc;
    if (f.n > 1)
        return leat_fail(err, LEAT_INVALID, "%u agents are running: say which with --scope (%s)", f.n, f.scopes);
    if (!f.n && f.err.status != LEAT_OK) {
        *err = f.err;
        return f.err.status;
    }
    if (!f.n)
        return leat_fail(err, LEAT_NOT_FOUND, "no agent of this user is running%s%s: a loader starts one",
                         scope ? " in scope " : "", scope ? scope : "");
    *out = f.paths;
    return LEAT_OK;
}

static leat_status ask(struct leat_connection *c, uint64_t last_ns, struct leat_incoming *answer,
                       struct leat_error *err)
{
    struct leat_buf b;
    if (!leat_connection_can(c, "trace"))
        return leat_fail(err, LEAT_VERSION,
                         "the agent (pid %d) is of a release without traces: it has one after `leat agent stop`",
                         c->agent_pid);
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_TRACE);
    leat_message_number(&b, LEAT_TAG_LAST, last_ns);
    leat_status rc = leat_agents_ask(c, &b, answer, err);
    if (rc == LEAT_NETWORK)
        rc = leat_fail(err, rc, "the agent (pid %d) ended while it was asked", c->agent_pid);
    return rc;
}

static leat_status write_out(const char *path, struct leat_buf *text, struct leat_error *err)
{
    if (strcmp(path, "-") != 0)
        return leat_cli_write_file(path, text, err);
    fwrite(text->data, 1, text->len, stdout);
    return LEAT_OK;
}

static void say(const char *path, uint64_t events, uint64_t reach_ns)
{
    char reach[LEAT_FORMAT_SIZE];
    if (events)
        printf("%s: %" PRIu64 " events of the last %s; open it at https://ui.perfetto.dev\n", path, events,
               leat_format_duration(reach_ns, reach));
    else
        printf("%s: no events, the agent has done nothing in that time\n", path);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct trace_settings *s = settings;
    struct leat_wire_paths paths;
    struct leat_connection c = {.fd = -1};
    struct leat_incoming answer = {0};
    struct leat_buf text = {0};
    struct leat_error err = {0};
    (void)argc;
    (void)argv;
    leat_status rc = find(s->scope, &paths, &err);
    if (rc == LEAT_OK)
        rc = leat_connect_watching(&paths, &c, &err);
    if (rc == LEAT_OK)
        rc = ask(&c, s->last_ns, &answer, &err);
    if (rc == LEAT_OK)
        rc = leat_agents_text(&answer, &text.data, &text.len, &err);
    if (rc == LEAT_OK)
        rc = write_out(s->output, &text, &err);
    if (rc == LEAT_OK && strcmp(s->output, "-") != 0)
        say(s->output, leat_part_number(answer.part, LEAT_TAG_UNITS, 0),
            leat_part_number(answer.part, LEAT_TAG_LAST, 0));
    free(text.data);
    leat_incoming_free(&answer);
    leat_connection_close(&c);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_trace = {
    .name = "trace",
    .arguments = "",
    .summary = "write what an agent did in the last minutes, for Perfetto",
    .details =
        "The agent remembers what it did: chunks on their way, by source; what each of its threads checked and "
        "prepared; batches, from their chunks being there until they were published; and how long ranks waited, for "
        "what. This writes it as a file in the trace event format, which ui.perfetto.dev and chrome://tracing "
        "open. Ranks have their real process ids, so that a trace of the training itself can be put beside it.\n\n"
        "Remembering is always on and bounded: the oldest makes room.",
    .examples =
        "  leat trace\n  leat trace --last 30s -o slow.json\n  leat trace --scope job42 -o - | gzip > trace.json.gz\n",
    .options = options,
    .settings_size = sizeof(struct trace_settings),
    .arguments_min = 0,
    .arguments_max = 0,
    .run = run,
};
