/* Outputs that come from pictures: pixels, what was drawn for them, and boxes that follow them. Outputs of one field
 * are made from one decode. */
#ifndef LEAT_AGENT_PICTURES_H
#define LEAT_AGENT_PICTURES_H

#include "agent/outputs.h"
#include "base/buf.h"

bool leat_output_is_picture(uint32_t kind); /* of an output: one of these */

/* Compiles an output whose field has been found already. */
leat_status leat_picture_make(const struct leat_output *asked, const struct leat_schema *schema,
                              struct leat_output_plan *plan, struct leat_ring_column *column, struct leat_error *err);

/* Pixels and drawn numbers of a sample, of all outputs that have them. `decoded`: see below; NULL: decodes. */
leat_status leat_pictures_write(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                                const struct leat_sample *sample, const char *decoded, struct leat_scratch *scratch,
                                struct leat_error *err);

/* All pictures of a sample decoded whole, before anything is drawn for them: for loaders that differ in their draws and
 * steps alone. apart() says whether all outputs can be made from them with the bytes that they would have otherwise;
 * bytes() what they take, 0 where a picture cannot even be looked at. What decoding pictures whole depends on, beside
 * the sample, goes into `id`. */
bool leat_pictures_apart(const struct leat_outputs *o);
void leat_pictures_identify(const struct leat_outputs *o, struct leat_buf *id);
uint64_t leat_pictures_bytes(const struct leat_outputs *o, const struct leat_sample *sample);
leat_status leat_pictures_decode(const struct leat_outputs *o, const struct leat_sample *sample,
                                 struct leat_scratch *scratch, char *to, struct leat_error *err);

/* Boxes of a sample as they lie in the output; bytes, of `to` too, which may be NULL. */
leat_status leat_picture_boxes(const struct leat_output_plan *plan, const struct leat_sample *sample, void *to,
                               size_t *bytes, struct leat_error *err);

#endif
