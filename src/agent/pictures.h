/* Outputs that come from pictures: pixels, what was drawn for them, and boxes that follow them. Outputs of one field
 * are made from one decode. */
#ifndef LEAT_AGENT_PICTURES_H
#define LEAT_AGENT_PICTURES_H

#include "agent/outputs.h"

bool leat_output_is_picture(uint32_t kind); /* of an output: one of these */

/* Compiles an output whose field has been found already. */
leat_status leat_picture_make(const struct leat_output *asked, const struct leat_schema *schema,
                              struct leat_output_plan *plan, struct leat_ring_column *column, struct leat_error *err);

/* Pixels and drawn numbers of a sample, of all outputs that have them. */
leat_status leat_pictures_write(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                                const struct leat_sample *sample, struct leat_scratch *scratch, struct leat_error *err);

/* Boxes of a sample as they lie in the output; bytes, of `to` too, which may be NULL. */
leat_status leat_picture_boxes(const struct leat_output_plan *plan, const struct leat_sample *sample, void *to,
                               size_t *bytes, struct leat_error *err);

#endif
