#include "client/opts.h"

#include <stdlib.h>

#include "base/abi.h"

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
