/* Outputs that come from what a field holds as it is: numbers, arrays, tokens, JSON, bytes and text, their lengths, and
 * whether there is a value at all. */
#ifndef LEAT_AGENT_VALUES_H
#define LEAT_AGENT_VALUES_H

#include "agent/outputs.h"

/* Compiles an output whose field, of a type that fits, has been found already; arena_bytes as for the others. */
leat_status leat_values_make(const struct leat_output *asked, const struct leat_field *field, uint64_t arena_bytes,
                             struct leat_output_plan *plan, struct leat_ring_column *column, struct leat_error *err);
void leat_values_free(struct leat_value_plan *v);

/* Bytes of a sample's value in a ragged column. */
uint64_t leat_values_bytes(const struct leat_output_plan *plan, const struct leat_sample *sample);

/* Writes a sample's value to its place in a column of one shape, or its `bytes` bytes in a ragged one. */
leat_status leat_values_write(const struct leat_output_plan *plan, const struct leat_ring_column *column,
                              const struct leat_sample *sample, void *to, uint64_t bytes, struct leat_error *err);

/* The sizes that vary, of a ragged column that has them beside its values. */
void leat_values_shape(const struct leat_output_plan *plan, const struct leat_sample *sample, uint64_t *to);

#endif
