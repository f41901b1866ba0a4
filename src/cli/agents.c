#include "cli/agents.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"

#define ANSWER_NS  (10 * LEAT_S)
#define ANSWER_MAX ((off_t)1 << 30) /* bytes of a text in a descriptor */

static bool interrupted(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

leat_status leat_agents_ask(struct leat_connection *c, struct leat_buf *question, struct leat_incoming *answer,
                            struct leat_error *err)
{
    leat_status rc = leat_connection_send(c, question, err);
    if (rc == LEAT_OK)
        rc = leat_connection_receive(c, leat_after(ANSWER_NS), interrupted, NULL, answer, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_incoming_check(answer, err);
    if (rc != LEAT_OK)
        leat_incoming_free(answer);
    return rc;
}

leat_status leat_agents_text(struct leat_incoming *answer, char **out, size_t *n, struct leat_error *err)
{
    const char *text = leat_part_text(answer->part, LEAT_TAG_TEXT);
    struct stat st;
    if (!text && (!answer->fds_n || fstat(answer->fds[0], &st) < 0 || st.st_size > ANSWER_MAX))
        return leat_fail(err, LEAT_VERSION, "the agent's answer has no text: it is of another release");
    size_t bytes = text ? strlen(text) : (size_t)st.st_size;
    char *copy = malloc(bytes + 1);
    if (!copy)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the agent's answer");
    size_t at = text ? bytes : 0;
    if (text)
        memcpy(copy, text, bytes);
    while (at < bytes) {
        ssize_t got = pread(answer->fds[0], copy + at, bytes - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(copy);
            return leat_fail(err, LEAT_IO, "the agent's answer cannot be read");
        }
        at += (size_t)got;
    }
    copy[bytes] = '\0';
    *out = copy;
    *n = bytes;
    return LEAT_OK;
}

static leat_status describe(const struct leat_wire_paths *paths, json_t **about, struct leat_error *err)
{
    struct leat_connection c;
    struct leat_incoming answer = {0};
    struct leat_buf b;
    char *text = NULL;
    size_t n = 0;
    leat_status rc = leat_connect_watching(paths, &c, err);
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_DESCRIBE);
    rc = leat_agents_ask(&c, &b, &answer, err);
    if (rc == LEAT_OK)
        rc = leat_agents_text(&answer, &text, &n, err);
    if (rc == LEAT_OK && leat_json_read(text, n, 0, about, NULL) != LEAT_OK)
        rc = leat_fail(err, LEAT_VERSION, "the answer of the agent (pid %d) is not JSON", c.agent_pid);
    free(text);
    leat_incoming_free(&answer);
    leat_connection_close(&c);
    return rc;
}

/* A socket that nobody listens at, or an agent that is ending, is no agent. */
static void tell(const struct leat_wire_paths *paths, leat_agents_each *each, void *user)
{
    struct leat_error err = {0};
    json_t *about = NULL;
    leat_status rc = describe(paths, &about, &err);
    if (rc != LEAT_NOT_FOUND && rc != LEAT_NETWORK && rc != LEAT_CANCELLED)
        each(user, paths, about, &err);
    json_decref(about);
}

leat_status leat_agents_describe(const char *scope, leat_agents_each *each, void *user, struct leat_error *err)
{
    struct leat_wire_paths paths;
    struct dirent *d;
    leat_status rc = leat_wire_find(scope, &paths, err);
    if (rc != LEAT_OK)
        return rc;
    if (scope) {
        tell(&paths, each, user);
        return LEAT_OK;
    }
    DIR *dir = opendir(paths.folder);
    if (!dir)
        return leat_fail_errno(err, errno, "cannot list '%s'", paths.folder);
    while ((d = readdir(dir)) && !leat_cli_interrupted()) {
        struct leat_wire_paths one;
        char socket[sizeof paths.socket];
        int n = snprintf(socket, sizeof socket, "%s/%s", paths.folder, d->d_name);
        if (n > 0 && (size_t)n < sizeof socket && leat_wire_at(socket, d->d_name, &one, NULL) == LEAT_OK)
            tell(&one, each, user);
    }
    closedir(dir);
    return LEAT_OK;
}
