/* leat doctor: whether a bucket or web server can be reached, by whom, and how far away it is. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "net/http.h"

#define SAMPLES    9
#define FAR_S      0.15 /* to the first byte: further than the next region */
#define CLOCK_NOTE 15   /* seconds */
#define CLOCK_BAD  300  /* S3 refuses at 900; tokens and certificates are closer to their ends than it seems */
#define SOON_S     900  /* keys that end so soon do not last a training */

static bool is_file(const struct leat_doctor *d)
{
    return leat_store_can(d->home.store, LEAT_STORE_LOCAL);
}

/* The ends of an id are enough to tell it from others. */
static void shorten(const char *id, char *out, size_t size)
{
    size_t n = strlen(id);
    size_t shown = n >= 12 ? 4 : n / 4;
    snprintf(out, size, "%.*s…%s", (int)shown, id, id + n - shown);
}

static void say_keys(const struct leat_store_place *p, struct leat_findings *f)
{
    char id[64];
    char account[40] = "";
    char until[LEAT_CLI_TIME + 60] = "";
    int64_t left_s = (int64_t)p->keys_expire_s - leat_wall_s();
    if (!p->key_id[0]) {
        leat_findings_say(f, LEAT_HEALTH_OK, "keys", "", "none: requests are anonymous");
        return;
    }
    shorten(p->key_id, id, sizeof id);
    if (p->account[0])
        snprintf(account, sizeof account, " of account %s", p->account);
    if (p->keys_expire_s) {
        char at[LEAT_CLI_TIME];
        char left[LEAT_FORMAT_SIZE];
        leat_cli_format_time((int64_t)p->keys_expire_s, at);
        leat_format_duration((uint64_t)(left_s > 0 ? left_s : -left_s) * LEAT_S, left);
        if (left_s > 0)
            snprintf(until, sizeof until, ", until %s (in %s)", at, left);
        else
            snprintf(until, sizeof until, ", expired at %s (%s ago)", at, left);
    }
    enum leat_health health = !p->keys_expire_s || left_s > SOON_S ? LEAT_HEALTH_OK
                              : left_s > 0                         ? LEAT_HEALTH_NOTE
                                                                   : LEAT_HEALTH_BAD;
    leat_findings_say(f, health, "keys",
                      health == LEAT_HEALTH_BAD    ? "Get new ones where these came from"
                      : health == LEAT_HEALTH_NOTE ? "Where they are renewed, loaders take the new ones by themselves"
                                                   : "",
                      "%s%s, from %s%s", id, account, p->keys_from, until);
    if (p->keys_expire_s)
        leat_findings_number(f, "expires_in_s", (double)left_s);
}

void leat_doctor_keys(struct leat_doctor *d, struct leat_findings *f)
{
    struct leat_store_opts opts;
    struct leat_store_place place = {0};
    struct leat_error err = {0};
    leat_status rc = leat_doctor_store_opts(d, &opts, &err);
    if (rc == LEAT_OK)
        rc = leat_home_open(d->url, &opts, &d->home, &err);
    if (rc != LEAT_OK) {
        d->ended = true;
        leat_findings_say(f, LEAT_HEALTH_BAD, "keys",
                          rc == LEAT_INVALID ? "Correct the address or the setting"
                                             : "Correct the setting, or log in again where the keys come from",
                          "%s", err.text);
        return;
    }
    leat_store_place(d->home.store, &place);
    if (leat_store_can(d->home.store, LEAT_STORE_BUCKET))
        say_keys(&place, f);
}

/* The host of "https://host:port/path", without port and brackets. */
static void host_of(const char *address, char *out, size_t size)
{
    const char *host = strstr(address, "://");
    host = host ? host + 3 : address;
    size_t n = strcspn(host, "/");
    if (*host == '[') {
        host++;
        n = strcspn(host, "]");
    } else if (memchr(host, ':', n)) {
        n = strcspn(host, ":");
    }
    snprintf(out, size, "%.*s", (int)n, host);
}

void leat_doctor_name(struct leat_doctor *d, struct leat_findings *f)
{
    struct leat_store_place place;
    char host[300];
    unsigned char numeric[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (is_file(d))
        return;
    leat_store_place(d->home.store, &place);
    host_of(place.address, host, sizeof host);
    if (inet_pton(AF_INET, host, numeric) == 1 || inet_pton(AF_INET6, host, numeric) == 1)
        return; /* there is no name */
    bool by_proxy = *leat_http_proxy_variable(place.address);
    uint64_t began = leat_now_ns();
    int rc = getaddrinfo(host, NULL, &hints, &found);
    double seconds = (double)(leat_now_ns() - began) / 1e9;
    unsigned n = 0;
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        n++;
    char text[64] = "";
    if (found)
        getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
    if (found)
        freeaddrinfo(found);
    if (rc == 0)
        leat_findings_say(f, LEAT_HEALTH_OK, "name", "", "%s is %s%s, resolved in %.0f ms", host, text,
                          n > 1 ? " and others" : "", seconds * 1e3);
    else
        leat_findings_say(f, by_proxy ? LEAT_HEALTH_NOTE : LEAT_HEALTH_BAD, "name",
                          by_proxy ? "The proxy has to know it"
                                   : "Look at the spelling, at the network, and at /etc/resolv.conf",
                          "%s cannot be resolved: %s", host, gai_strerror(rc));
    leat_findings_number(f, "resolve_s", seconds);
    d->ended |= rc != 0 && !by_proxy;
}

static void say_clock(int64_t date_s, struct leat_findings *f)
{
    int64_t ahead_s = leat_wall_s() - date_s;
    uint64_t off_s = (uint64_t)(ahead_s < 0 ? -ahead_s : ahead_s);
    char off[LEAT_FORMAT_SIZE];
    if (!date_s) {
        leat_findings_say(f, LEAT_HEALTH_SKIPPED, "clock", "", "the server's answer has no date to compare with");
        return;
    }
    leat_format_duration(off_s * LEAT_S, off);
    if (off_s < CLOCK_NOTE)
        leat_findings_say(f, LEAT_HEALTH_OK, "clock", "", "as the server's, within %s", off_s < 2 ? "2 s" : off);
    else
        leat_findings_say(f, off_s < CLOCK_BAD ? LEAT_HEALTH_NOTE : LEAT_HEALTH_BAD, "clock",
                          "Set this machine's clock, and let it be kept (timedatectl set-ntp true, or chrony)",
                          "%s %s the server's", off, ahead_s > 0 ? "ahead of" : "behind");
    leat_findings_number(f, "ahead_s", (double)ahead_s);
}

static void say_region(const struct leat_store_place *p, struct leat_findings *f)
{
    char advice[200] = "";
    if (!p->region[0])
        return;
    if (p->region_said[0] && strcmp(p->region_said, p->region) != 0) {
        snprintf(advice, sizeof advice,
                 "Set AWS_REGION=%s, and train there: reading across regions is slower and costs money", p->region);
        leat_findings_say(f, LEAT_HEALTH_BAD, "region", advice, "the bucket is in %s, the settings say %s", p->region,
                          p->region_said);
    } else if (!p->region_said[0] && p->redirects) {
        snprintf(advice, sizeof advice, "Set AWS_REGION=%s to save a redirect at each start", p->region);
        leat_findings_say(f, LEAT_HEALTH_NOTE, "region", advice, "%s; no setting says so", p->region);
    } else {
        leat_findings_say(f, LEAT_HEALTH_OK, "region", "", "%s%s", p->region,
                          p->region_said[0] ? "" : ", which no setting says and the server accepts");
    }
}

/* What the first answer, or its absence, says. True: there is a bucket or server that lets us in. */
static bool say_refusal(const struct leat_doctor *d, const struct leat_store_place *p, const struct leat_error *err,
                        struct leat_findings *f)
{
    char advice[300];
    const char *proxy = leat_http_proxy_variable(p->address);
    const char *why = err->text;
    switch (err->status) {
    case LEAT_TLS:
        leat_findings_say(f, LEAT_HEALTH_BAD, "certificates",
                          "Name the file with the server's authority (--ca-bundle, AWS_CA_BUNDLE), or correct the "
                          "endpoint's name",
                          "%s", why);
        return false;
    case LEAT_DENIED:
        leat_findings_say(f, LEAT_HEALTH_BAD, "access",
                          p->key_id[0] ? "Use other keys, or allow these s3:GetObject and s3:ListBucket on this bucket"
                          : d->settings->store.no_sign_request
                              ? "Leave out --no-sign-request if the bucket is not public"
                              : "Set keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role",
                          "%s", why);
        return false;
    case LEAT_NOT_FOUND:
        snprintf(advice, sizeof advice, "Look at the bucket's name, and whether %s is the right endpoint", p->address);
        leat_findings_say(f, LEAT_HEALTH_BAD, "bucket", advice, "%s", why);
        return false;
    default:
        snprintf(advice, sizeof advice, "Look at the network and firewalls, and whether %.200s is right%s", p->address,
                 *proxy ? "; there is a proxy" : "");
        leat_findings_say(f, LEAT_HEALTH_BAD, "endpoint", advice, "%s",
                          err->status == LEAT_CANCELLED ? "no answer in time" : why);
        return false;
    }
}

/* Whether the bucket itself is there, although the object is not. */
static bool bucket_is_there(struct leat_doctor *d, struct leat_error *why)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    struct leat_error err;
    bool end = true;
    if (!leat_store_can(d->home.store, LEAT_STORE_BUCKET | LEAT_STORE_LISTS))
        return true;
    leat_status rc = leat_store_list_open(d->home.store, d->home.prefix, false, &list, &err);
    if (rc == LEAT_OK)
        rc = leat_store_list_next(list, &entry, &end, &err);
    leat_store_list_close(list);
    if (rc == LEAT_NOT_FOUND)
        *why = err;
    return rc != LEAT_NOT_FOUND;
}

void leat_doctor_endpoint(struct leat_doctor *d, struct leat_findings *f)
{
    struct leat_store_place place;
    struct leat_error err = {0};
    double seconds = 0;
    const char *ca = d->settings->store.ca_bundle ? d->settings->store.ca_bundle : leat_http_ca_bundle();
    if (is_file(d))
        return;
    char *key = leat_home_key(&d->home, LEAT_NAME_POINTER);
    if (!key)
        return;
    leat_status rc = leat_doctor_time_byte(d->home.store, key, 0, &seconds, &err);
    leat_store_place(d->home.store, &place);
    bool in = rc == LEAT_OK || (rc == LEAT_NOT_FOUND && bucket_is_there(d, &err));
    if (in) {
        leat_findings_say(f, LEAT_HEALTH_OK, "endpoint", "", "%s answers, %.0f ms with connecting", place.address,
                          seconds * 1e3);
        leat_findings_number(f, "connect_and_answer_s", seconds);
        bool tls = strncmp(place.address, "https:", 6) == 0;
        if (tls)
            leat_findings_say(f, LEAT_HEALTH_OK, "certificates", "",
                              "the server's is accepted; trusted are those in %s", ca ? ca : "libcurl's own place");
        else
            leat_findings_say(f, LEAT_HEALTH_OK, "certificates", "", "none: the endpoint is plain HTTP");
    } else {
        d->ended = true;
        say_refusal(d, &place, &err, f);
    }
    if (place.date_s || in)
        say_clock(place.date_s, f);
    if (in)
        say_region(&place, f);
    if (rc == LEAT_OK)
        d->object = key;
    else
        free(key);
}

leat_status leat_doctor_time_byte(struct leat_store *store, const char *key, uint64_t offset, double *seconds,
                                  struct leat_error *err)
{
    char byte;
    struct leat_store_op op = {
        .verb = LEAT_STORE_GET, .key = key, .offset = offset, .length = 1, .into = &byte, .short_ok = true};
    uint64_t began = leat_now_ns();
    leat_status rc = leat_store_run(store, &op, err);
    *seconds = (double)(leat_now_ns() - began) / 1e9;
    return rc;
}

void leat_doctor_latency(struct leat_doctor *d, struct leat_findings *f)
{
    double samples[SAMPLES];
    struct leat_store_place place;
    struct leat_error err = {0};
    unsigned n = 0;
    leat_status rc = LEAT_OK;
    if (is_file(d) || !d->object)
        return;
    while (rc == LEAT_OK && n < SAMPLES && leat_now_ns() + LEAT_S / 2 < d->deadline_ns) {
        rc = leat_doctor_time_byte(d->home.store, d->object, 0, &samples[n], &err);
        n += rc == LEAT_OK;
    }
    if (rc != LEAT_OK || !n) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "latency",
                          "The connection is unreliable: try again, and look at the network", "%s",
                          rc == LEAT_OK ? "no answer in time" : err.text);
        return;
    }
    double median = leat_doctor_median(samples, n);
    bool far = median > FAR_S;
    leat_findings_say(
        f, far ? LEAT_HEALTH_NOTE : LEAT_HEALTH_OK, "latency",
        far ? "That is far away or overloaded: a bucket in the machine's own region answers in 10 to 50 ms" : "",
        "%.1f ms to the first byte, median of %u (%.1f to %.1f)", median * 1e3, n, samples[0] * 1e3,
        samples[n - 1] * 1e3);
    leat_findings_number(f, "median_s", median);
    leat_findings_number(f, "least_s", samples[0]);
    leat_findings_number(f, "most_s", samples[n - 1]);
    leat_store_place(d->home.store, &place);
    if (place.sends_whole)
        leat_findings_say(f, LEAT_HEALTH_NOTE, "ranges",
                          "Reading will be slow: use a server or gateway that knows them",
                          "the server sends whole objects although parts are asked for");
}
