/* The options every command has that talks to a store. */
#ifndef LEAT_CLI_STORE_OPTIONS_H
#define LEAT_CLI_STORE_OPTIONS_H

#include "base/option.h"
#include "store/store.h"

struct leat_cli_store {
    const char *endpoint_url;
    const char *region;
    const char *profile;
    const char *addressing;
    const char *ca_bundle;
    bool requester_pays;
    const char *sse;
    const char *sse_kms_key;
    const char *sse_c_key_file;
    struct leat_option_list headers;
    const char *hedge;
    bool no_sign_request;
    uint64_t connections;
    uint64_t attempts;
    uint64_t timeout_ns;
    uint64_t inactivity_ns;
};

/* Entries for an option table; `at` is the offset of a struct leat_cli_store in the settings. */
#define LEAT_STORE_OPTION(at, field) ((at) + offsetof(struct leat_cli_store, field))
#define LEAT_STORE_OPTIONS(at)                                                                                         \
    {"endpoint-url",                                                                                                   \
     0,                                                                                                                \
     LEAT_OPTION_STRING,                                                                                               \
     LEAT_STORE_OPTION(at, endpoint_url),                                                                              \
     "URL",                                                                                                            \
     NULL,                                                                                                             \
     "LEAT_ENDPOINT_URL",                                                                                              \
     "the bucket's endpoint, for example http://127.0.0.1:8000 (default: AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL, " \
     "else "                                                                                                           \
     "the profile's, else AWS; Google and Azure: see docs/stores.md)"},                                                \
        {"region", 0,    LEAT_OPTION_STRING, LEAT_STORE_OPTION(at, region),                                            \
         "NAME",   NULL, "LEAT_REGION",      "S3 region (default: AWS_REGION, else the profile's)"},                   \
        {"profile",                                                                                                    \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_STORE_OPTION(at, profile),                                                                               \
         "NAME",                                                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "profile in ~/.aws (default: AWS_PROFILE, else 'default')"},                                                  \
        {"no-sign-request",                                                                                            \
         0,                                                                                                            \
         LEAT_OPTION_FLAG,                                                                                             \
         LEAT_STORE_OPTION(at, no_sign_request),                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "LEAT_NO_SIGN_REQUEST",                                                                                       \
         "do not sign requests, for public buckets"},                                                                  \
        {"addressing", 0,      LEAT_OPTION_STRING, LEAT_STORE_OPTION(at, addressing),                                  \
         "STYLE",      "auto", "LEAT_ADDRESSING",  "where the bucket's name goes: auto, path or virtual"},             \
        {"ca-bundle",                                                                                                  \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_STORE_OPTION(at, ca_bundle),                                                                             \
         "FILE",                                                                                                       \
         NULL,                                                                                                         \
         "LEAT_CA_BUNDLE",                                                                                             \
         "certificates to trust (default: AWS_CA_BUNDLE, else SSL_CERT_FILE, else the system's)"},                     \
        {"requester-pays",                                                                                             \
         0,                                                                                                            \
         LEAT_OPTION_FLAG,                                                                                             \
         LEAT_STORE_OPTION(at, requester_pays),                                                                        \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "LEAT_REQUESTER_PAYS",                                                                                        \
         "pay for requests to S3 buckets whose owner does not"},                                                       \
        {"sse",  0,    LEAT_OPTION_STRING, LEAT_STORE_OPTION(at, sse),                                                 \
         "KIND", NULL, "LEAT_SSE",         "have S3 encrypt what is written: AES256, aws:kms or aws:kms:dsse"},        \
        {"sse-kms-key", 0,    LEAT_OPTION_STRING, LEAT_STORE_OPTION(at, sse_kms_key),                                  \
         "ID",          NULL, "LEAT_SSE_KMS_KEY", "the KMS key to do that with (default: the account's)"},             \
        {"sse-c-key-file",                                                                                             \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_STORE_OPTION(at, sse_c_key_file),                                                                        \
         "FILE",                                                                                                       \
         NULL,                                                                                                         \
         "LEAT_SSE_C_KEY_FILE",                                                                                        \
         "read and write S3 objects with a key of one's own (SSE-C): 32 bytes or their base64 (default: the base64 "   \
         "in LEAT_SSE_C_KEY)"},                                                                                        \
        {"header",                                                                                                     \
         0,                                                                                                            \
         LEAT_OPTION_LIST,                                                                                             \
         LEAT_STORE_OPTION(at, headers),                                                                               \
         "'NAME: VALUE'",                                                                                              \
         NULL,                                                                                                         \
         "LEAT_HEADER",                                                                                                \
         "send this with every request to S3; may be repeated. What is secret belongs in the variable"},               \
        {"hedge",                                                                                                      \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_STORE_OPTION(at, hedge),                                                                                 \
         "WHEN",                                                                                                       \
         "auto",                                                                                                       \
         "LEAT_HEDGE",                                                                                                 \
         "a second request for reads that are late: auto (where requests are not paid for one by one), on or off"},    \
        {"connections", 0,    LEAT_OPTION_U64,    LEAT_STORE_OPTION(at, connections),                                  \
         "N",           NULL, "LEAT_CONNECTIONS", "requests in flight (default: adapts, at most 256)"},                \
        {"attempts", 0,      LEAT_OPTION_U64, LEAT_STORE_OPTION(at, attempts),                                         \
         "N",        "1000", "LEAT_ATTEMPTS", "most attempts per operation, within --timeout"},                        \
        {"timeout", 0,      LEAT_OPTION_DURATION, LEAT_STORE_OPTION(at, timeout_ns),                                   \
         "TIME",    "5min", "LEAT_TIMEOUT",       "time limit per operation, with all its attempts"},                  \
    {                                                                                                                  \
        "inactivity", 0, LEAT_OPTION_DURATION, LEAT_STORE_OPTION(at, inactivity_ns), "TIME", "20s", "LEAT_INACTIVITY", \
            "give up a request that makes no progress for this long"                                                   \
    }

/* The settings as the store wants them, with Ctrl-C wired up. Borrows the settings' strings. */
leat_status leat_cli_store_opts(const struct leat_cli_store *settings, struct leat_store_opts *out,
                                struct leat_error *err);

/* An endpoint is that of one kind of store, and no other kind's keys go there. LEAT_INVALID: one is given, and these
 * addresses, the two beside them (NULL: none) included, are of several kinds. For every command with more than one. */
leat_status leat_cli_store_one_kind(const struct leat_cli_store *settings, char *const *urls, int n,
                                    const char *const beside[2], struct leat_error *err);

/* Opens the store that the URL `text` is in, with Ctrl-C wired up, and splits off the key (the caller frees it). */
leat_status leat_cli_store_open(const struct leat_cli_store *settings, const char *text, struct leat_store **store,
                                char **key, struct leat_error *err);

/* Where `key` names a folder ("train" although there is "train/…"), puts the '/' after it, in place. */
leat_status leat_cli_open_folder(struct leat_store *store, char **key, struct leat_error *err);

/* True when the key, taken as a folder, holds something. */
leat_status leat_cli_is_folder(struct leat_store *store, const char *key, bool *out, struct leat_error *err);

bool leat_cli_same_store(const struct leat_store *a, const struct leat_store *b);

/* Whether the folder `inner` is `outer` or lies below it. Paths are compared as the file system sees them, links
 * followed; `inner` need not exist. */
bool leat_cli_lies_in(const struct leat_store *outer_store, const char *outer, const struct leat_store *inner_store,
                      const char *inner);

#endif
