/* ~/.aws/credentials and ~/.aws/config, read once for one question: what a profile says. */
#ifndef LEAT_STORE_AWS_FILES_H
#define LEAT_STORE_AWS_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

struct leat_aws_files;

/* A file that is not there is an empty one. */
leat_status leat_aws_files_read(struct leat_aws_files **out, struct leat_error *err);
void leat_aws_files_free(struct leat_aws_files *files); /* wipes what was read; NULL is allowed */

bool leat_aws_files_has(const struct leat_aws_files *files, const char *profile);

/* A setting of a profile; the credentials file goes before the config file. NULL: not said, or said to be nothing. */
const char *leat_aws_files_get(const struct leat_aws_files *files, const char *profile, const char *key);

/* The same from one of the two only. */
const char *leat_aws_files_of(const struct leat_aws_files *files, bool config, const char *profile, const char *key);

/* A setting of another section of the config file: [kind name]. */
const char *leat_aws_files_section(const struct leat_aws_files *files, const char *kind, const char *name,
                                   const char *key);

/* All that was read, one setting after the other. */
void leat_aws_files_text(const struct leat_aws_files *files, struct leat_buf *out);

/* A path below ~/.aws, or what the variable says; false when there is no home or no room. */
bool leat_aws_path(const char *variable, const char *name, char *out, size_t n);

/* A variable of the environment; NULL when it is not set, or set to nothing. */
const char *leat_aws_variable(const char *name);

#endif
