/* What must be the same on every rank of a job, as a flat JSON object, and what differs between two of them. */
#ifndef LEAT_RING_AGREEMENT_H
#define LEAT_RING_AGREEMENT_H

#include "base/error.h"

/* LEAT_INVALID when they differ, naming everything: "rank 3 has seed 1 (here 0), window 64 (here 128)". `who` is whose
 * `theirs` is. */
leat_status leat_agreement_compare(const char *mine, const char *theirs, const char *who, struct leat_error *err);

#endif
