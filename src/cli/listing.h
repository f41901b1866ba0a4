/* Listings for commands: those that go on where an earlier run was killed, and those of several machines. */
#ifndef LEAT_CLI_LISTING_H
#define LEAT_CLI_LISTING_H

#include "cli/origin.h"

/* Opens the places that the n URLs name. */
leat_status leat_cli_homes_open(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                                struct leat_cli_opened *o, struct leat_error *err);

/* Lists them, going on with what an earlier run has saved beside the dataset, and saving it again now and then. */
leat_status leat_cli_listing_open(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                                  struct leat_listing *out, struct leat_error *err);

/* Puts the listing together of its parts; where no places are open, these are opened too. */
leat_status leat_cli_listing_merge(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                                   struct leat_listing *out, struct leat_error *err);

#endif
