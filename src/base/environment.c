#include "base/environment.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/guess.h"
#include "base/log.h"
#include "base/parse.h"

#define THREADS_MAX 1024

enum kind {
    ELSEWHERE, /* checked where it is read */
    SIZE,
    THREADS,
    DURATION,
    FLAG,
    FILE_TO_READ,
    PROGRAM,
    LOG_LEVEL,
    LISTEN,
    ADDRESSING,
    HEDGE
};

static const struct variable {
    const char *name;
    enum kind kind;
} variables[] = {
    /* of loaders and of the agent */
    {"LEAT_AGENT", PROGRAM},
    {"LEAT_ADDRESSING", ADDRESSING},
    {"LEAT_CACHE", SIZE},
    {"LEAT_CACHE_DIR", ELSEWHERE},
    {"LEAT_CA_BUNDLE", FILE_TO_READ},
    {"LEAT_CONFIG", FILE_TO_READ},
    {"LEAT_ENDPOINT_URL", ELSEWHERE},
    {"LEAT_HEADER", ELSEWHERE},
    {"LEAT_HEDGE", HEDGE},
    {"LEAT_JOB", ELSEWHERE},
    {"LEAT_JOB_ADDRESS", ELSEWHERE},
    {"LEAT_JOB_ZONE", ELSEWHERE},
    {"LEAT_LINGER", DURATION},
    {"LEAT_LOG", LOG_LEVEL},
    {"LEAT_METRICS", LISTEN},
    {"LEAT_NO_SIGN_REQUEST", FLAG},
    {"LEAT_RAM", SIZE},
    {"LEAT_REGION", ELSEWHERE},
    {"LEAT_REQUESTER_PAYS", FLAG},
    {"LEAT_RUNTIME_DIR", ELSEWHERE},
    {"LEAT_SCOPE", ELSEWHERE},
    {"LEAT_SSE", ELSEWHERE},
    {"LEAT_SSE_C_KEY", ELSEWHERE},
    {"LEAT_SSE_C_KEY_FILE", FILE_TO_READ},
    {"LEAT_SSE_KMS_KEY", ELSEWHERE},
    {"LEAT_THREADS", THREADS},
    /* of single commands */
    {"LEAT_ATTEMPTS", ELSEWHERE},
    {"LEAT_CATALOG", ELSEWHERE},
    {"LEAT_CONNECTIONS", ELSEWHERE},
    {"LEAT_COPY_MEMORY", ELSEWHERE},
    {"LEAT_INACTIVITY", ELSEWHERE},
    {"LEAT_INDEX_THREADS", ELSEWHERE},
    {"LEAT_JOBS", ELSEWHERE},
    {"LEAT_PACK_MEMORY", ELSEWHERE},
    {"LEAT_PART_SIZE", ELSEWHERE},
    {"LEAT_PROGRESS", ELSEWHERE},
    {"LEAT_PYTHON", ELSEWHERE},
    {"LEAT_SERVE_ACCESS_KEY", ELSEWHERE},
    {"LEAT_SERVE_SECRET_KEY", ELSEWHERE},
    {"LEAT_TIMEOUT", ELSEWHERE},
    /* for scripts that `leat profile` runs */
    {"LEAT_PROFILE", ELSEWHERE},
    {"LEAT_PROFILE_LOADER", ELSEWHERE},
    {"LEAT_PROFILE_PRECISION", ELSEWHERE},
    {"LEAT_PROFILE_RUNS", ELSEWHERE},
    /* for scripts that `leat plan --launch` starts */
    {"LEAT_ACCUMULATE", ELSEWHERE},
    {"LEAT_BATCH", ELSEWHERE},
    {"LEAT_CHECKPOINT_SECONDS", ELSEWHERE},
    {"LEAT_CHECKPOINT_STEPS", ELSEWHERE},
    /* of the project's own builds and tests */
    {"LEAT_BUILD", ELSEWHERE},
    {"LEAT_DEPS", ELSEWHERE},
    {"LEAT_JUNIT", ELSEWHERE},
    {"LEAT_SANITIZE", ELSEWHERE},
};

#define VARIABLES (sizeof variables / sizeof *variables)

static leat_status check_value(const struct variable *v, const char *value, struct leat_error *err)
{
    char address[LEAT_LISTEN_ADDRESS];
    unsigned port;
    uint64_t number = 0;
    bool flag;
    leat_status rc;
    switch (v->kind) {
    case SIZE:
        return leat_parse_size(value, v->name, &number, err);
    case DURATION:
        return leat_parse_duration(value, v->name, &number, err);
    case FLAG:
        return leat_parse_flag(value, v->name, &flag, err);
    case THREADS:
        rc = leat_parse_u64(value, v->name, &number, err);
        if (rc == LEAT_OK && number > THREADS_MAX)
            rc = leat_fail(err, LEAT_INVALID, "%s: %" PRIu64 " is more than %d", v->name, number, THREADS_MAX);
        return rc;
    case LISTEN:
        return leat_parse_listen(value, v->name, address, &port, err);
    case FILE_TO_READ:
        return access(value, R_OK) == 0
                   ? LEAT_OK
                   : leat_fail(err, LEAT_INVALID, "%s: the file '%.200s' cannot be read", v->name, value);
    case PROGRAM:
        return access(value, X_OK) == 0
                   ? LEAT_OK
                   : leat_fail(err, LEAT_INVALID, "%s: '%.200s' is not a program that can be run", v->name, value);
    case LOG_LEVEL:
        for (int level = LEAT_LOG_ERROR; level <= LEAT_LOG_DEBUG; level++) {
            if (strcmp(value, leat_log_level_name(level)) == 0)
                return LEAT_OK;
        }
        return leat_fail(err, LEAT_INVALID, "%s: '%.60s' is not one of error, warning, info, debug", v->name, value);
    case ADDRESSING:
        if (strcmp(value, "auto") == 0 || strcmp(value, "path") == 0 || strcmp(value, "virtual") == 0)
            return LEAT_OK;
        return leat_fail(err, LEAT_INVALID, "%s: '%.60s' is not one of auto, path, virtual", v->name, value);
    case HEDGE:
        if (strcmp(value, "auto") == 0 || strcmp(value, "on") == 0 || strcmp(value, "off") == 0)
            return LEAT_OK;
        return leat_fail(err, LEAT_INVALID, "%s: '%.60s' is not one of auto, on, off", v->name, value);
    case ELSEWHERE:
        break;
    }
    return LEAT_OK;
}

/* The variable that an entry NAME=VALUE sets, NULL: none of ours. */
static const struct variable *find(const char *entry, size_t n)
{
    for (size_t i = 0; i < VARIABLES; i++) {
        if (strlen(variables[i].name) == n && memcmp(variables[i].name, entry, n) == 0)
            return &variables[i];
    }
    return NULL;
}

void leat_environment_check(char *const *environment, struct leat_buf *problems)
{
    for (; environment && *environment; environment++) {
        struct leat_error err;
        size_t n = strcspn(*environment, "=");
        const struct variable *v = find(*environment, n);
        if (!v || !(*environment)[n] || !(*environment)[n + 1]) /* an empty one counts as not set */
            continue;
        if (check_value(v, *environment + n + 1, &err) != LEAT_OK)
            leat_buf_printf(problems, "%s%s", problems->len ? "; " : "", err.text);
    }
}

bool leat_environment_strange(char *const *environment, size_t *i, char out[LEAT_ENVIRONMENT_TEXT])
{
    for (; environment && environment[*i]; ++*i) {
        const char *entry = environment[*i];
        size_t n = strcspn(entry, "=");
        if (strncmp(entry, "LEAT_", 5) != 0 || find(entry, n))
            continue;
        char meant[LEAT_GUESS_TEXT];
        struct leat_guess g = leat_guess_of_bytes(entry + 5, n - 5); /* what all have in common says nothing */
        for (size_t k = 0; k < VARIABLES; k++)
            leat_guess_try(&g, variables[k].name + 5);
        if (g.word)
            g.word -= 5;
        snprintf(out, LEAT_ENVIRONMENT_TEXT, "the environment has %.*s, which nothing reads%s", (int)(n < 80 ? n : 80),
                 entry, leat_guess_text(&g, meant));
        ++*i;
        return true;
    }
    return false;
}
