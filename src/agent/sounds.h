/* Outputs that come from sounds: samples or spectrograms, of one shape where an excerpt says how long they are, else
 * ragged. */
#ifndef LEAT_AGENT_SOUNDS_H
#define LEAT_AGENT_SOUNDS_H

#include "agent/outputs.h"

/* Makes an output whose field has been found already. */
leat_status leat_sounds_make(const struct leat_output *asked, uint64_t arena_bytes, struct leat_output_plan *plan,
                             struct leat_ring_column *column, struct leat_error *err);

/* Bytes of a sample's output, from its header; and the output itself. */
leat_status leat_sounds_bytes(const struct leat_output_plan *plan, const struct leat_sample *sample, size_t *bytes,
                              struct leat_error *err);
leat_status leat_sounds_write(const struct leat_output_plan *plan, const struct leat_sample *sample,
                              struct leat_scratch *scratch, void *to, uint64_t bytes, struct leat_error *err);

#endif
