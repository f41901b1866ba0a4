/* A loader's options as the caller gave them, in the shape that this library knows. */
#ifndef LEAT_CLIENT_OPTS_H
#define LEAT_CLIENT_OPTS_H

#include "base/error.h"
#include "leat/loader.h"

#define LEAT_OUTPUTS_MAX 32u

/* Copies options and outputs of any release (base/abi.h). Texts stay the caller's; out->outputs is to be freed. */
leat_status leat_opts_take(const struct leat_loader_opts *theirs, struct leat_loader_opts *out, struct leat_error *err);
void leat_opts_free_outputs(struct leat_loader_opts *opts);

#endif
