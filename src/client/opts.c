#include "client/opts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/abi.h"
#include "base/environment.h"
#include "base/parse.h"

leat_status leat_opts_take(const struct leat_loader_opts *theirs, struct leat_loader_opts *out, struct leat_error *err)
{
    struct leat_loader_opts o;
    leat_status rc = leat_abi_take(theirs, "leat_loader_opts", &o, sizeof o, err);
    if (rc != LEAT_OK)
        return rc;
    if (o.outputs_n > LEAT_OUTPUTS_MAX)
        return leat_fail(err, LEAT_INVALID, "%zu outputs: between 1 and %u are possible", o.outputs_n,
                         LEAT_OUTPUTS_MAX);
    struct leat_output *outputs = calloc(o.outputs_n + 1, sizeof *outputs);
    if (!outputs)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for outputs");
    rc = leat_abi_take_array(o.outputs, o.outputs_n, "leat_output", outputs, sizeof *outputs, err);
    if (rc != LEAT_OK) {
        free(outputs);
        return rc;
    }
    o.outputs = outputs;
    *out = o;
    return LEAT_OK;
}

void leat_opts_free_outputs(struct leat_loader_opts *o)
{
    free((void *)(uintptr_t)o->outputs);
    o->outputs = NULL;
    o->outputs_n = 0;
}

static const char *variable(const char *name)
{
    const char *set = getenv(name);
    return set && *set ? set : NULL;
}

leat_status leat_opts_store(struct leat_store_opts *store, struct leat_error *err)
{
    struct leat_buf problems;
    leat_buf_init(&problems, 4096);
    leat_environment_check(environ, &problems);
    leat_status rc = leat_buf_check(&problems, "the list of what is wrong", err);
    if (rc == LEAT_OK && problems.len)
        rc = leat_fail(err, LEAT_INVALID, "%s", problems.data);
    leat_buf_free(&problems);
    store->said = store->endpoint_url || store->region || store->profile || store->anonymous;
    const char *plain = variable("LEAT_NO_SIGN_REQUEST");
    const char *style = variable("LEAT_ADDRESSING");
    if (rc == LEAT_OK && plain && !store->anonymous)
        rc = leat_parse_flag(plain, "LEAT_NO_SIGN_REQUEST", &store->anonymous, err);
    if (rc != LEAT_OK)
        return rc;
    if (!store->endpoint_url)
        store->endpoint_url = variable("LEAT_ENDPOINT_URL");
    if (!store->region)
        store->region = variable("LEAT_REGION");
    if (style && store->addressing == LEAT_ADDRESSING_AUTO)
        store->addressing = strcmp(style, "path") == 0      ? LEAT_ADDRESSING_PATH
                            : strcmp(style, "virtual") == 0 ? LEAT_ADDRESSING_VIRTUAL
                                                            : LEAT_ADDRESSING_AUTO;
    const char *hedge = variable("LEAT_HEDGE");
    if (hedge && store->hedge == LEAT_HEDGE_AUTO)
        store->hedge = strcmp(hedge, "on") == 0    ? LEAT_HEDGE_ON
                       : strcmp(hedge, "off") == 0 ? LEAT_HEDGE_OFF
                                                   : LEAT_HEDGE_AUTO;
    return LEAT_OK;
}
