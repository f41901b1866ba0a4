/* A machine's eight loaders open at the same moment, and a job in its first second asks for keys a dozen times. So keys
 * of services, and of programs, are kept for a moment by what was asked. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "store/aws_keys.h"

#define KEPT_MAX 8
#define KEPT_NS  (20 * LEAT_S)

struct kept {
    uint8_t of[LEAT_SHA256_SIZE]; /* digest of the question */
    uint64_t until_ns;            /* 0: empty */
    struct leat_aws keys;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct kept kept[KEPT_MAX]; /* hold mu */

/* Everything that decides which keys come: the variables, and the profile with those it may lead to. */
static bool digest_question(const struct leat_aws_lookup *l, uint8_t out[LEAT_SHA256_SIZE])
{
    static const char *const variables[] = {
        "HOME",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_STS",
        "AWS_ENDPOINT_URL_SSO",
    };
    struct leat_buf b;
    leat_buf_init(&b, 4u << 20);
    leat_buf_printf(&b, "%s|%d|%s|", l->profile, l->profile_said, l->region ? l->region : "");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = leat_aws_variable(variables[i]);
        leat_buf_printf(&b, "%s=%s|", variables[i], value ? value : "");
    }
    leat_aws_files_text(l->files, &b);
    bool ok = !b.failed;
    if (ok)
        leat_sha256(b.data, b.len, out);
    if (b.data)
        explicit_bzero(b.data, b.len);
    leat_buf_free(&b);
    return ok;
}

/* A process that was forked while another thread held the lock never gets it: it does without. */
static bool lock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += 1;
    return pthread_mutex_timedlock(&mu, &t) == 0;
}

static leat_status copy_keys(const struct leat_aws *from, struct leat_aws *to, struct leat_error *err)
{
    to->expires_s = from->expires_s;
    to->since_s = from->since_s;
    memcpy(to->keys_from, from->keys_from, sizeof to->keys_from);
    return leat_aws_set_keys(to, from->access_key, from->secret_key, from->session_token, err);
}

bool leat_aws_take_kept(const uint8_t of[LEAT_SHA256_SIZE], struct leat_aws *aws)
{
    bool found = false;
    uint64_t now = leat_now_ns();
    if (!lock())
        return false;
    for (size_t i = 0; i < KEPT_MAX && !found; i++) {
        struct kept *k = &kept[i];
        if (k->until_ns > now && memcmp(k->of, of, sizeof k->of) == 0)
            found = copy_keys(&k->keys, aws, NULL) == LEAT_OK;
    }
    pthread_mutex_unlock(&mu);
    return found;
}

void leat_aws_keep(const uint8_t of[LEAT_SHA256_SIZE], const struct leat_aws *aws)
{
    uint64_t now_s = (uint64_t)leat_wall_s();
    uint64_t renew_s = leat_aws_renew_at(aws);
    uint64_t left_ns = renew_s > now_s ? (renew_s - now_s) * LEAT_S : 0;
    if (!left_ns || !lock())
        return;
    struct kept *oldest = &kept[0];
    for (size_t i = 0; i < KEPT_MAX; i++) {
        bool same = memcmp(kept[i].of, of, sizeof kept[i].of) == 0;
        if (same || kept[i].until_ns < oldest->until_ns)
            oldest = &kept[i];
        if (same)
            break;
    }
    leat_aws_free(&oldest->keys);
    oldest->until_ns =
        copy_keys(aws, &oldest->keys, NULL) == LEAT_OK ? leat_after(left_ns < KEPT_NS ? left_ns : KEPT_NS) : 0;
    memcpy(oldest->of, of, sizeof oldest->of);
    pthread_mutex_unlock(&mu);
}

leat_status leat_aws_kept_keys(const struct leat_aws_lookup *l, bool fresh, struct leat_aws *aws,
                               struct leat_error *err)
{
    uint8_t of[LEAT_SHA256_SIZE];
    bool environment = !l->profile_said && leat_aws_variable("AWS_ACCESS_KEY_ID");
    bool keeps = !environment && digest_question(l, of);
    if (keeps && !fresh && leat_aws_take_kept(of, aws))
        return LEAT_OK;
    leat_status rc = leat_aws_keys(l, aws, err);
    if (rc == LEAT_OK && keeps && aws->access_key && aws->expires_s)
        leat_aws_keep(of, aws);
    return rc;
}
