/* The text that names a view: what people write, and the one form of it that settings, states and agreements have.
 * Pure. */
#ifndef LEAT_DATASET_VIEW_TEXT_H
#define LEAT_DATASET_VIEW_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/schema.h"
#include "dataset/view.h"

#define LEAT_VIEW_TOKENS_MAX (1u << 30) /* of a block, with the shift */
#define LEAT_VIEW_FIT_MAX    (1u << 20) /* of a block that documents are packed into */

struct leat_view_text {
    bool blocks; /* false: samples, and the rest is zero */
    bool fit;    /* documents are packed, not cut where they come */
    uint32_t length;
    uint32_t shift;
    char field[LEAT_FIELD_NAME_MAX]; /* "": the only one with tokens */
};

/* NULL and "" are "samples". Words may come in any order, each once. */
leat_status leat_view_text_read(const char *text, struct leat_view_text *out, struct leat_error *err);

/* LEAT_LIMIT when a long name of a field leaves no room. */
leat_status leat_view_text_write(const struct leat_view_text *t, char name[LEAT_VIEW_NAME_MAX], struct leat_error *err);

#endif
