/* The LEAT_* variables: all that anything reads, in one table, so that a typo in one is noticed. Options of commands
 * have their variables in the tables of options too; a test compares. */
#ifndef LEAT_BASE_ENVIRONMENT_H
#define LEAT_BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define LEAT_ENVIRONMENT_TEXT 200

/* Appends what is wrong with variables that loaders and their agent read, separated by "; ". An agent that is there
 * already does not read them: a wrong value would go unnoticed until the next one starts. */
void leat_environment_check(char *const *environment, struct leat_buf *problems);

/* The next variable, from *i on, that begins with LEAT_ and that nothing reads: a sentence about it. false: no more. */
bool leat_environment_strange(char *const *environment, size_t *i, char out[LEAT_ENVIRONMENT_TEXT]);

#endif
