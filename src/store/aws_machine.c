/* Keys that the machine has: of the container's endpoint (ECS, EKS Pod Identity), of the instance (IMDSv2), and of a
 * program that the profile names. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/url.h"
#include "store/aws_ask.h"
#include "store/aws_keys.h"

#define CONTAINER_TIMEOUT (2 * LEAT_S)
#define INSTANCE_TIMEOUT  LEAT_S /* as AWS's own clients do: the service is next door */
#define ATTEMPTS          3u
#define PROCESS_TIMEOUT   (60 * LEAT_S)
#define OUTPUT_MAX        (64u << 10)
#define ARGUMENTS_MAX     64
#define TOKEN_TTL_S       "21600"

static struct leat_ask question(const struct leat_aws_lookup *l, const char *url, uint64_t timeout_ns)
{
    return (struct leat_ask){
        .method = "GET",
        .url = url,
        .timeout_ns = timeout_ns,
        .attempts = ATTEMPTS,
        .direct = true,
        .ca_bundle = l->ca_bundle,
        .stop = l->stop,
        .stop_user = l->stop_user,
    };
}

/* A token goes over plain HTTP to this machine and to the addresses that containers have for it, and nowhere else. */
static leat_status check_container_url(const char *text, struct leat_error *err)
{
    static const char *const known[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "localhost", "[::1]"};
    struct leat_url url = {0};
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    size_t n = *url.host == '[' ? strcspn(url.host, "]") + 1 : strcspn(url.host, ":");
    bool good = url.scheme == LEAT_SCHEME_HTTPS;
    bool plain = url.scheme == LEAT_SCHEME_HTTP;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        good |= plain && strlen(known[i]) == n && strncasecmp(url.host, known[i], n) == 0;
    good |= plain && n > 4 && strncmp(url.host, "127.", 4) == 0 && strspn(url.host, "0123456789.") == n;
    leat_url_free(&url);
    return good ? LEAT_OK
                : leat_fail(err, LEAT_INVALID,
                            "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor an address of this machine");
}

/* Into `out` as a header; false with err set. */
static leat_status container_token(struct leat_buf *out, struct leat_error *err)
{
    const char *file = leat_aws_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = leat_aws_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char text[16 << 10];
    if (!file && !token)
        return LEAT_OK;
    if (file) {
        int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        int e = errno;
        if (fd >= 0)
            close(fd);
        if (n < 0)
            return leat_fail_errno(err, e, "cannot read '%s' (AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE)", file);
        text[n] = '\0';
        token = text;
    }
    size_t n = strlen(token);
    while (file && n && (token[n - 1] == '\n' || token[n - 1] == '\r'))
        n--;
    leat_status rc = LEAT_OK;
    if (memchr(token, '\r', n) || memchr(token, '\n', n))
        rc = leat_fail(err, LEAT_INVALID, "there is a line break in the container's authorization token");
    else
        leat_buf_printf(out, "Authorization: %.*s", (int)n, token);
    explicit_bzero(text, sizeof text);
    return rc;
}

leat_status leat_aws_container(const struct leat_aws_lookup *l, struct leat_aws *aws, struct leat_error *err)
{
    const char *relative = leat_aws_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = leat_aws_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    struct leat_buf url;
    struct leat_buf header;
    leat_buf_init(&url, 4096);
    leat_buf_init(&header, 32u << 10);
    leat_status rc = LEAT_OK;
    if (!relative && !full)
        rc = leat_fail(err, LEAT_INVALID, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and …_FULL_URI are not set");
    else if (relative)
        leat_buf_printf(&url, "http://169.254.170.2%s%s", *relative == '/' ? "" : "/", relative);
    else
        leat_buf_str(&url, full);
    if (rc == LEAT_OK && !relative)
        rc = check_container_url(full, err);
    if (rc == LEAT_OK)
        rc = container_token(&header, err);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&url, "an address", err);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&header, "a request", err);
    if (rc == LEAT_OK) {
        struct leat_ask ask = question(l, url.data, CONTAINER_TIMEOUT);
        ask.headers[0] = header.data;
        ask.headers_n = header.len ? 1 : 0;
        rc = leat_ask(&ask, err);
        if (rc != LEAT_OK)
            leat_fail_context(err, rc, "cannot ask the container's endpoint for keys");
        else if (ask.code != 200)
            rc = leat_fail(err, ask.code >= 500 ? LEAT_SERVER : LEAT_DENIED,
                           "the container's endpoint gives no keys (%u)", ask.code);
        else
            rc = leat_aws_take_json(ask.text.data, ask.text.len, "the container's endpoint", aws, err);
        aws->expires_s = leat_ask_here(&ask, aws->expires_s);
        leat_ask_free(&ask);
    }
    if (rc == LEAT_OK)
        snprintf(aws->keys_from, sizeof aws->keys_from, "the container's endpoint");
    if (header.data)
        explicit_bzero(header.data, header.len);
    leat_buf_free(&header);
    leat_buf_free(&url);
    return rc;
}

/* How often to ask for the instance's metadata: not at all where the firmware says that the machine is somebody else's,
 * so that nobody has to wait for an address that leads nowhere, and once where it says nothing. */
static uint32_t attempts_here(void)
{
    static const char *const places[] = {
        "/sys/class/dmi/id/sys_vendor",      "/sys/class/dmi/id/bios_vendor",  "/sys/class/dmi/id/bios_version",
        "/sys/class/dmi/id/board_asset_tag", "/sys/class/dmi/id/product_uuid", "/sys/hypervisor/uuid",
    };
    bool said = false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char text[128] = "";
        int fd = open(places[i], O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        said |= n > 0 && i == 0;
        if (n > 0 && (strcasestr(text, "amazon") || strncasecmp(text, "ec2", 3) == 0 || strncmp(text, "i-", 2) == 0))
            return ATTEMPTS;
    }
    return said ? 0 : 1;
}

static const char *instance_endpoint(const struct leat_aws_lookup *l, bool *said)
{
    const char *set = leat_aws_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = leat_aws_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if (!set)
        set = leat_aws_files_get(l->files, l->profile, "ec2_metadata_service_endpoint");
    if (!mode)
        mode = leat_aws_files_get(l->files, l->profile, "ec2_metadata_service_endpoint_mode");
    *said = set || mode;
    if (set)
        return set;
    return mode && strcasecmp(mode, "ipv6") == 0 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

/* One page of the service. `header` is the session's token. */
static leat_status ask_instance(const struct leat_aws_lookup *l, const char *method, const char *endpoint,
                                const char *path, const char *header, uint32_t attempts, struct leat_ask *out,
                                struct leat_error *err)
{
    char url[1024];
    size_t n = strlen(endpoint);
    while (n && endpoint[n - 1] == '/')
        n--;
    if (snprintf(url, sizeof url, "%.*s%s", (int)n, endpoint, path) >= (int)sizeof url)
        return leat_fail(err, LEAT_INVALID, "the address of the instance's metadata is too long");
    *out = question(l, url, INSTANCE_TIMEOUT);
    out->attempts = attempts;
    out->method = method;
    out->body = strcmp(method, "PUT") == 0 ? "" : NULL;
    out->headers[0] = header;
    out->headers_n = 1;
    leat_status rc = leat_ask(out, err);
    out->url = NULL;
    return rc;
}

static leat_status take_instance(const struct leat_aws_lookup *l, const char *endpoint, const char *header,
                                 struct leat_aws *aws, struct leat_error *err)
{
    static const char roles[] = "/latest/meta-data/iam/security-credentials/";
    struct leat_ask ask = {0};
    char name[160];
    char path[256];
    leat_status rc = ask_instance(l, "GET", endpoint, roles, header, ATTEMPTS, &ask, err);
    unsigned code = ask.code;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(ask.text.data ? ask.text.data : "", "\r\n"),
             ask.text.data ? ask.text.data : "");
    leat_ask_free(&ask);
    if (rc != LEAT_OK || code == 404 || (code == 200 && !*name))
        return rc; /* an instance without a role */
    if (code != 200 ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+=,.@_-") != strlen(name))
        return leat_fail(err, LEAT_DENIED, "the instance's metadata does not name its role (%u)", code);
    snprintf(path, sizeof path, "%s%s", roles, name);
    rc = ask_instance(l, "GET", endpoint, path, header, ATTEMPTS, &ask, err);
    if (rc == LEAT_OK && ask.code != 200)
        rc =
            leat_fail(err, LEAT_DENIED, "the instance's metadata gives no keys for its role '%s' (%u)", name, ask.code);
    if (rc == LEAT_OK)
        rc = leat_aws_take_json(ask.text.data, ask.text.len, "the instance's metadata", aws, err);
    aws->expires_s = leat_ask_here(&ask, aws->expires_s);
    if (rc == LEAT_OK)
        snprintf(aws->keys_from, sizeof aws->keys_from, "the instance's role '%.50s'", name);
    leat_ask_free(&ask);
    return rc;
}

leat_status leat_aws_instance(const struct leat_aws_lookup *l, struct leat_aws *aws, struct leat_error *err)
{
    const char *disabled = leat_aws_variable("AWS_EC2_METADATA_DISABLED");
    struct leat_error why = {0};
    struct leat_ask ask;
    bool said;
    const char *endpoint = instance_endpoint(l, &said);
    uint32_t attempts = said ? ATTEMPTS : attempts_here();
    if (!attempts || (disabled && strcasecmp(disabled, "true") == 0))
        return LEAT_OK;
    leat_status rc = ask_instance(l, "PUT", endpoint, "/latest/api/token",
                                  "X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_TTL_S, attempts, &ask, &why);
    /* Version 1, which has no token, can be asked by anyone who makes a server fetch an address: it is never used. */
    if (rc == LEAT_OK && (ask.code != 200 || !ask.text.len))
        rc = leat_fail(&why, LEAT_DENIED, "the instance's metadata refuses a session (IMDSv2, %u)", ask.code);
    if (rc == LEAT_OK) {
        struct leat_buf header;
        leat_buf_init(&header, 4096);
        leat_buf_printf(&header, "X-aws-ec2-metadata-token: %.*s", (int)strcspn(ask.text.data, "\r\n"), ask.text.data);
        rc = leat_buf_check(&header, "a request", &why);
        if (rc == LEAT_OK)
            rc = take_instance(l, endpoint, header.data, aws, &why);
        leat_buf_free(&header);
    }
    leat_ask_free(&ask);
    /* Nobody has said that there is such a service: that none answers is no error, nor is whatever else other machines
     * have at this address. */
    bool silent = rc == LEAT_NETWORK || rc == LEAT_TIMEOUT;
    if (!said && rc != LEAT_NO_MEMORY && rc != LEAT_CANCELLED && (silent || attempts < ATTEMPTS))
        return LEAT_OK;
    if (rc != LEAT_OK && err)
        *err = why;
    return rc;
}

/* Splits a command as a shell would: white space, quotes, backslashes; nothing else means anything. In place. */
static bool split_command(char *text, char *arguments[ARGUMENTS_MAX + 1])
{
    size_t n = 0;
    char *in = text;
    while (*in) {
        in += strspn(in, " \t\r\n");
        if (!*in)
            break;
        if (n == ARGUMENTS_MAX)
            return false;
        char *out = in;
        char quote = '\0';
        arguments[n++] = out;
        for (; *in && (quote || !strchr(" \t\r\n", *in)); in++) {
            if (*in == '\\' && quote != '\'' && in[1])
                *out++ = *++in;
            else if (quote ? *in == quote : *in == '"' || *in == '\'')
                quote = quote ? '\0' : *in;
            else
                *out++ = *in;
        }
        if (quote)
            return false;
        bool last = !*in;
        *out = '\0';
        in += !last;
    }
    arguments[n] = NULL;
    return n > 0;
}

/* Reads all that comes, until the deadline. */
static leat_status read_output(const struct leat_aws_lookup *l, int fd, uint64_t deadline_ns, struct leat_buf *out,
                               struct leat_error *err)
{
    char piece[4096];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, 100);
        if (l->stop && l->stop(l->stop_user))
            return leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (!leat_left(deadline_ns))
            return leat_fail(err, LEAT_TIMEOUT, "it has not ended after %llu s",
                             (unsigned long long)(PROCESS_TIMEOUT / LEAT_S));
        if (n <= 0)
            continue;
        ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return leat_buf_check(out, "its output", err);
        leat_buf_add(out, piece, (size_t)got);
        explicit_bzero(piece, sizeof piece);
    }
}

/* Runs it with its errors on ours; standard output holds secrets and is only read. */
static leat_status run_command(const struct leat_aws_lookup *l, char *const arguments[], struct leat_buf *out,
                               struct leat_error *err)
{
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return leat_fail_errno(err, errno, "cannot make a pipe");
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes); /* our threads block signals, which it must not inherit */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int e = posix_spawn_file_actions_init(&actions);
    if (e == 0) {
        e = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        if (e == 0)
            e = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (e == 0)
            e = posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (e != 0) {
        close(ends[0]);
        return leat_fail_errno(err, e, "cannot start '%s'", arguments[0]);
    }
    leat_status rc = read_output(l, ends[0], leat_after(PROCESS_TIMEOUT), out, err);
    close(ends[0]);
    if (rc != LEAT_OK)
        kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (rc == LEAT_OK && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        rc = leat_fail(err, LEAT_DENIED, "'%s' ended with %s %d", arguments[0], WIFEXITED(status) ? "status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return rc;
}

leat_status leat_aws_process(const struct leat_aws_lookup *l, const char *profile, const char *command,
                             struct leat_aws *aws, struct leat_error *err)
{
    char *arguments[ARGUMENTS_MAX + 1];
    struct leat_buf out;
    char who[120];
    char *text = strdup(command);
    if (!text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
    snprintf(who, sizeof who, "the credential_process of profile '%.60s'", profile);
    leat_buf_init(&out, OUTPUT_MAX);
    leat_status rc = split_command(text, arguments)
                         ? run_command(l, arguments, &out, err)
                         : leat_fail(err, LEAT_INVALID, "quotes that do not end, or too many arguments");
    if (rc != LEAT_OK)
        leat_fail_context(err, rc, "%s", who);
    json_t *value = NULL;
    if (rc == LEAT_OK && leat_json_read(out.data, out.len, 0, &value, NULL) == LEAT_OK &&
        json_integer_value(json_object_get(value, "Version")) != 1)
        rc = leat_fail(err, LEAT_VERSION, "%s gave an answer of another Version than 1", who);
    json_decref(value);
    if (rc == LEAT_OK)
        rc = leat_aws_take_json(out.data, out.len, who, aws, err);
    if (rc == LEAT_OK)
        snprintf(aws->keys_from, sizeof aws->keys_from, "credential_process of profile '%.40s'", profile);
    if (out.data)
        explicit_bzero(out.data, out.len);
    leat_buf_free(&out);
    free(text);
    return rc;
}
