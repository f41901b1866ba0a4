#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "net/cert.h"
#include "serve/serve.h"

#define PEM_MAX ((size_t)1 << 20)

struct serve_settings {
    uint64_t port;
    const char *bind;
    const char *protocol;
    bool read_only;
    const char *access_key;
    const char *secret_key;
    bool anonymous;
    const char *region;
    bool region_redirect;
    const char *clock_skew;
    const char *tls_cert;
    const char *tls_key;
    bool tls_self_signed;
    uint64_t latency_ns;
    uint64_t bandwidth;
    uint64_t connection_bandwidth;
    const char *fault;
    uint64_t fault_after;
    uint64_t fault_count;
    const char *fault_only;
    uint64_t seed;
    uint64_t connections;
    uint64_t idle_timeout_ns;
    uint64_t log_size;
    bool json;
};

#define AT(field) offsetof(struct serve_settings, field)

static const struct leat_option options[] = {
    {"port", 'p', LEAT_OPTION_U64, AT(port), "PORT", "0", NULL, "port to listen on; 0 takes a free one"},
    {"bind", 0, LEAT_OPTION_STRING, AT(bind), "ADDRESS", "127.0.0.1", NULL, "numeric address to listen on"},
    {"protocol", 0, LEAT_OPTION_STRING, AT(protocol), "NAME", "s3", NULL, "s3, gcs or azure: whose calls it answers"},
    {"read-only", 0, LEAT_OPTION_FLAG, AT(read_only), NULL, NULL, NULL, "refuse everything that writes"},
    {"access-key", 0, LEAT_OPTION_STRING, AT(access_key), "KEY", NULL, "LEAT_SERVE_ACCESS_KEY",
     "accept only requests signed with this access key and its secret key; of azure, an account and its key"},
    {"secret-key", 0, LEAT_OPTION_STRING, AT(secret_key), "KEY", NULL, "LEAT_SERVE_SECRET_KEY",
     "the secret key; better set in the environment, where other users do not see it"},
    {"anonymous", 0, LEAT_OPTION_FLAG, AT(anonymous), NULL, NULL, NULL,
     "allow other machines without keys: anyone who can reach the server may read and write"},
    {"region", 0, LEAT_OPTION_STRING, AT(region), "NAME", NULL, NULL,
     "refuse requests that are signed for another region"},
    {"region-redirect", 0, LEAT_OPTION_FLAG, AT(region_redirect), NULL, NULL, NULL,
     "refuse such requests with 301 instead of 400"},
    {"clock-skew", 0, LEAT_OPTION_STRING, AT(clock_skew), "TIME", NULL, NULL,
     "set the server's clock ahead, as in 20m, or back, as in -20m"},
    {"tls-cert", 0, LEAT_OPTION_STRING, AT(tls_cert), "FILE", NULL, NULL, "serve over TLS with this certificate (PEM)"},
    {"tls-key", 0, LEAT_OPTION_STRING, AT(tls_key), "FILE", NULL, NULL, "the certificate's key (PEM)"},
    {"tls-self-signed", 0, LEAT_OPTION_FLAG, AT(tls_self_signed), NULL, NULL, NULL,
     "serve over TLS with a certificate made at the start, and print where it is"},
    {"latency", 0, LEAT_OPTION_DURATION, AT(latency_ns), "TIME", NULL, NULL, "wait before each answer, as in 50ms"},
    {"bandwidth", 0, LEAT_OPTION_RATE, AT(bandwidth), "RATE", NULL, NULL,
     "limit all connections together, in each direction, as in 400MB/s"},
    {"connection-bandwidth", 0, LEAT_OPTION_RATE, AT(connection_bandwidth), "RATE", NULL, NULL,
     "limit each connection, as in 25MB/s"},
    {"fault", 0, LEAT_OPTION_STRING, AT(fault), "KIND=CHANCE,…", NULL, NULL,
     "let requests fail at random, as in 503=0.01,reset=0.001"},
    {"fault-after", 0, LEAT_OPTION_U64, AT(fault_after), "N", NULL, NULL, "no faults in the first N requests"},
    {"fault-count", 0, LEAT_OPTION_U64, AT(fault_count), "N", NULL, NULL, "at most N faults; 0 for no limit"},
    {"fault-only", 0, LEAT_OPTION_STRING, AT(fault_only), "TEXT", NULL, NULL,
     "faults only in requests whose key "
     "contains TEXT"},
    {"seed", 0, LEAT_OPTION_U64, AT(seed), "N", "0", NULL, "seed of the random faults"},
    {"connections", 0, LEAT_OPTION_U64, AT(connections), "N", "1000", NULL,
     "connections at the same time; more "
     "have to wait"},
    {"idle-timeout", 0, LEAT_OPTION_DURATION, AT(idle_timeout_ns), "TIME", "60s", NULL,
     "close connections that are idle for this long"},
    {"log-size", 0, LEAT_OPTION_U64, AT(log_size), "N", "65536", NULL, "number of requests kept for /-/log"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print the URL and related settings as JSON"},
    {0},
};

/* What lives as long as the server. */
struct tls {
    char *cert;
    char *key;
    char folder[100]; /* of the certificate made for the occasion */
    char path[120];
};

static void close_tls(struct tls *t)
{
    if (*t->path)
        unlink(t->path);
    if (*t->folder)
        rmdir(t->folder);
    free(t->cert);
    free(t->key);
}

static leat_status read_pem(const char *path, const char *what, char **out, struct leat_error *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return leat_fail_errno(err, errno, "cannot read the %s '%s'", what, path);
    char *text = malloc(PEM_MAX + 1);
    size_t n = text ? fread(text, 1, PEM_MAX + 1, f) : 0;
    int failed = ferror(f);
    fclose(f);
    if (!text || failed || n > PEM_MAX) {
        free(text);
        return leat_fail(err, LEAT_IO, "cannot read the %s '%s'", what, path);
    }
    text[n] = '\0';
    *out = text;
    return LEAT_OK;
}

static leat_status write_cert(struct tls *t, struct leat_error *err)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(t->folder, sizeof t->folder, "%.70s/leat-serve-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(t->folder)) {
        int e = errno;
        *t->folder = '\0';
        return leat_fail_errno(err, e, "cannot make a folder for the certificate");
    }
    snprintf(t->path, sizeof t->path, "%s/cert.pem", t->folder);
    FILE *f = fopen(t->path, "wex");
    bool ok = f && fputs(t->cert, f) >= 0;
    if (f && fclose(f) != 0)
        ok = false;
    return ok ? LEAT_OK : leat_fail_errno(err, errno, "cannot write the certificate '%s'", t->path);
}

static leat_status open_tls(const struct serve_settings *s, struct tls *t, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (!s->tls_cert != !s->tls_key)
        return leat_fail(err, LEAT_INVALID, "--tls-cert and --tls-key go together");
    if (s->tls_self_signed && s->tls_cert)
        return leat_fail(err, LEAT_INVALID, "--tls-self-signed makes the certificate: leave --tls-cert out");
    if (s->tls_self_signed) {
        rc = leat_cert_self_signed(s->bind, &t->cert, &t->key, err);
        return rc == LEAT_OK ? write_cert(t, err) : rc;
    }
    if (!s->tls_cert)
        return LEAT_OK;
    rc = read_pem(s->tls_cert, "certificate", &t->cert, err);
    return rc == LEAT_OK ? read_pem(s->tls_key, "certificate's key", &t->key, err) : rc;
}

static bool is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* "20m" or "-20m", in seconds. */
static leat_status parse_skew(const char *text, int64_t *out, struct leat_error *err)
{
    uint64_t ns;
    if (!text)
        return LEAT_OK;
    bool back = *text == '-';
    leat_status rc = leat_parse_duration(text + back, "--clock-skew", &ns, err);
    if (rc == LEAT_OK)
        *out = (int64_t)(ns / LEAT_S) * (back ? -1 : 1);
    return rc;
}

static leat_status parse_protocol(const char *text, enum leat_serve_protocol *out, struct leat_error *err)
{
    static const char *const names[] = {[LEAT_SERVE_S3] = "s3", [LEAT_SERVE_GCS] = "gcs", [LEAT_SERVE_AZURE] = "azure"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], text) == 0) {
            *out = (enum leat_serve_protocol)i;
            return LEAT_OK;
        }
    }
    return leat_fail(err, LEAT_INVALID, "--protocol: '%s' is not s3, gcs or azure", text);
}

static leat_status check(const struct serve_settings *s, struct leat_error *err)
{
    if (s->port > 65535)
        return leat_fail(err, LEAT_INVALID, "--port: %" PRIu64 " is not a port", s->port);
    if (!s->access_key != !s->secret_key)
        return leat_fail(err, LEAT_INVALID, "--access-key and --secret-key go together");
    if (s->access_key && (!*s->access_key || !*s->secret_key))
        return leat_fail(err, LEAT_INVALID, "--access-key and --secret-key may not be empty");
    if (!is_loopback(s->bind) && !s->access_key && !s->anonymous)
        return leat_fail(err, LEAT_INVALID,
                         "--bind %s: requests from other machines must be signed; give --access-key and "
                         "--secret-key, or --anonymous to let everyone in",
                         s->bind);
    if ((s->region || s->region_redirect) && strcmp(s->protocol, "s3") != 0)
        return leat_fail(err, LEAT_INVALID, "--region and --region-redirect are of s3 only");
    if (s->connections == 0 || s->connections > 100000)
        return leat_fail(err, LEAT_INVALID, "--connections: between 1 and 100000");
    if (s->idle_timeout_ns < LEAT_S || s->idle_timeout_ns > 86400 * LEAT_S)
        return leat_fail(err, LEAT_INVALID, "--idle-timeout: between 1s and 24h");
    if (s->log_size == 0 || s->log_size > 10000000)
        return leat_fail(err, LEAT_INVALID, "--log-size: between 1 and 10000000");
    return LEAT_OK;
}

static int announce(const struct serve_settings *s, const struct leat_serve *serve, const struct tls *t)
{
    if (s->json) {
        json_t *line = json_pack("{s:s, s:i}", "url", leat_serve_url(serve), "pid", (int)getpid());
        if (*t->path)
            json_object_set_new(line, "certificate", json_string(t->path));
        json_dumpf(line, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(line);
    } else {
        printf("%s\n", leat_serve_url(serve));
        if (*t->path)
            printf("AWS_CA_BUNDLE=%s\n", t->path);
    }
    return leat_cli_finish();
}

static leat_status open_serve(const struct serve_settings *s, const char *dir, struct tls *t, struct leat_serve **out,
                              struct leat_error *err)
{
    struct leat_serve_options o = {
        .dir = dir,
        .bind = s->bind,
        .port = (unsigned)s->port,
        .connections_max = (unsigned)s->connections,
        .idle_timeout_s = (unsigned)((s->idle_timeout_ns + LEAT_S - 1) / LEAT_S),
        .read_only = s->read_only,
        .access_key = s->access_key,
        .secret_key = s->secret_key,
        .region = s->region,
        .region_redirect = s->region_redirect,
        .latency_ns = s->latency_ns,
        .bandwidth = s->bandwidth,
        .connection_bandwidth = s->connection_bandwidth,
        .faults = s->fault,
        .fault_after = s->fault_after,
        .fault_count = s->fault_count,
        .fault_only = s->fault_only,
        .seed = s->seed,
        .log_max = s->log_size,
    };
    leat_status rc = check(s, err);
    if (rc == LEAT_OK)
        rc = parse_protocol(s->protocol, &o.protocol, err);
    if (rc == LEAT_OK)
        rc = parse_skew(s->clock_skew, &o.clock_skew_s, err);
    if (rc == LEAT_OK)
        rc = open_tls(s, t, err);
    o.tls_cert_pem = t->cert;
    o.tls_key_pem = t->key;
    return rc == LEAT_OK ? leat_serve_open(&o, out, err) : rc;
}

/* Each connection has a socket and, while it is answered, a file. */
static void raise_file_limit(uint64_t connections)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)(2 * connections + 100);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit); /* else they run out, and clients are told to slow down */
}

static int run(const void *settings, int argc, char **argv)
{
    const struct serve_settings *s = settings;
    struct leat_error err;
    struct leat_serve *serve = NULL;
    struct tls tls = {0};
    int status;
    (void)argc;
    raise_file_limit(s->connections);
    if (open_serve(s, argv[0], &tls, &serve, &err) != LEAT_OK) {
        status = leat_cli_fail(&err);
    } else {
        status = announce(s, serve, &tls);
        /* A signal cuts the nap short; one that came just before it costs a tenth of a second. */
        struct timespec nap = {.tv_nsec = 100000000};
        while (status == LEAT_EXIT_OK && !leat_cli_interrupted())
            nanosleep(&nap, NULL);
    }
    leat_serve_close(serve);
    close_tls(&tls);
    return status;
}

static const char details[] =
    "Serves the folders in DIR as S3 buckets (or Google's, or Azure's containers, by --protocol): for demos, tests, "
    "benchmarks and what-ifs. Prints its URL on one line "
    "and serves until Ctrl-C. Without keys it accepts every request, but listens on this machine only.\n\nFaults: "
    "400 to 599 (that error), reset, truncate, corrupt, stall, slow (broken bodies), late (a second), wrong-range, "
    "lost-range, "
    "ignore-range, error200 (wrong answers), expired (of keys), redirect (to another host). Each request draws once; "
    "the same seed gives the same draws.\n\nGET "
    "/-/stats counts requests, bytes, connections and faults as JSON (?reset sets them to 0), GET /-/log lists the "
    "last requests (?after=NUMBER: only those after this one).";

static const char examples[] = "  leat serve /data --port 8000  # folders in /data become buckets\n"
                               "  leat serve /data --latency 50ms --bandwidth 400MB/s  # a bucket far away\n"
                               "  AWS_ENDPOINT_URL=http://127.0.0.1:8000 leat ls s3://bucket/\n"
                               "  leat serve /data --protocol azure  # AZURE_STORAGE_ENDPOINT=URL/account\n";

const struct leat_command leat_command_serve = {
    .name = "serve",
    .arguments = "DIR",
    .summary = "serve a folder as a bucket, with latency, limits and faults",
    .details = details,
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct serve_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
