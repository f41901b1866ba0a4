/* The Hub's token, from where its own library has it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "store/aws_files.h"
#include "store/hf.h"
#include "store/keys.h"
#include "store/kind.h"

static bool is_true(const char *name)
{
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *value = leat_aws_variable(name);
    for (size_t i = 0; value && i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(value, yes[i]) == 0)
            return true;
    }
    return false;
}

/* Where the file is: "$HOME/.cache/huggingface/token", less what variables replace. False: nowhere. */
static bool token_path(char out[4096])
{
    const char *path = leat_aws_variable("HF_TOKEN_PATH");
    const char *hub = leat_aws_variable("HF_HOME");
    const char *cache = leat_aws_variable("XDG_CACHE_HOME");
    const char *home = leat_aws_variable("HOME");
    const char *base = path ? path : hub ? hub : cache ? cache : home;
    const char *rest = path ? "" : hub ? "/token" : cache ? "/huggingface/token" : "/.cache/huggingface/token";
    bool tilde = base && base != home && base[0] == '~' && base[1] == '/' && home;
    if (!base)
        return false;
    int n = snprintf(out, 4096, "%s%s%s", tilde ? home : "", tilde ? base + 1 : base, rest);
    return n > 0 && n < 4096;
}

/* Without what editors and shells put around it. */
static leat_status set_token(struct leat_aws *aws, const char *text, const char *from, struct leat_error *err)
{
    static const char space[] = " \t\r\n";
    struct leat_buf token;
    text += strspn(text, space);
    size_t n = strlen(text);
    while (n && strchr(space, text[n - 1]))
        n--;
    if (!n)
        return LEAT_OK;
    leat_buf_init(&token, 16u << 10);
    leat_buf_add(&token, text, n);
    leat_status rc = leat_buf_check(&token, "a token", err);
    if (rc == LEAT_OK)
        rc = leat_keys_set(aws, LEAT_HF_TOKEN, "the Hub's", "", token.data, err);
    snprintf(aws->keys_from, sizeof aws->keys_from, "%s", from);
    leat_keys_forget(&token);
    return rc;
}

static leat_status find(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_aws *aws,
                        struct leat_error *err)
{
    static const char *const variables[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    char path[4096];
    struct leat_buf text;
    (void)url;
    (void)opts;
    if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return LEAT_OK;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = leat_aws_variable(variables[i]);
        if (value)
            return set_token(aws, value, variables[i], err);
    }
    if (!token_path(path))
        return LEAT_OK;
    struct leat_error why = {0};
    leat_status rc = leat_keys_read_file(path, "the Hub's token", &text, &why);
    if (rc != LEAT_OK && (why.os_error == ENOENT || why.os_error == ENOTDIR))
        return LEAT_OK; /* not logged in */
    if (rc != LEAT_OK) {
        if (err)
            *err = why;
        return rc;
    }
    rc = set_token(aws, text.data, leat_aws_variable("HF_TOKEN_PATH") ? "HF_TOKEN_PATH" : "the Hub's token file", err);
    leat_keys_forget(&text);
    return rc;
}

leat_status leat_hf_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err)
{
    static const char *const endpoints[] = {"HF_ENDPOINT", NULL};
    static const char *const variables[] = {
        "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "XDG_CACHE_HOME", "HOME", NULL};
    static const char *const offline[] = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"};
    static const struct leat_keys_kind kind = {
        .scheme = "hf",
        .endpoint_variables = endpoints,
        .own = "the Hub's own",
        .variables = variables,
        .find = find,
    };
    for (size_t i = 0; i < sizeof offline / sizeof *offline; i++) {
        if (is_true(offline[i]))
            return leat_fail(err, LEAT_UNSUPPORTED, "%s is set, and hf:// is on the Hub: unset it, or read a copy",
                             offline[i]);
    }
    if (!opts->anonymous && leat_aws_variable("HF_OIDC_RESOURCE"))
        return leat_fail(
            err, LEAT_UNSUPPORTED,
            "HF_OIDC_RESOURCE asks for a token by OIDC, which is not supported here: set HF_TOKEN instead");
    return leat_keys_load(&kind, url, opts, fresh, out, err);
}
