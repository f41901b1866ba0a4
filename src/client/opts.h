/* A loader's options as the caller gave them, in the shape that this library knows. */
#ifndef LEAT_CLIENT_OPTS_H
#define LEAT_CLIENT_OPTS_H

#include "base/error.h"
#include "leat/loader.h"
#include "store/store.h"

#define LEAT_OUTPUTS_MAX 32u

/* Copies options and outputs of any release (base/abi.h). Texts stay the caller's; out->outputs must be freed. */
leat_status leat_opts_take(const struct leat_loader_opts *theirs, struct leat_loader_opts *out, struct leat_error *err);
void leat_opts_free_outputs(struct leat_loader_opts *opts);

/* Fills in what nobody said of a bucket from LEAT_* variables, as the options of the commands are. The texts are the
 * environment's. LEAT_INVALID: variables are wrong, all of them named. */
leat_status leat_opts_store(struct leat_store_opts *store, struct leat_error *err);

#endif
