/* What the ending of a path says: what the file is, and which files belong together. */
#ifndef LEAT_DATASET_ENDING_H
#define LEAT_DATASET_ENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "dataset/schema.h"

#define LEAT_ENDING_MAX 16 /* with the NUL */

/* "jpg" for "a/b.JPEG"; "" when there is none that could be a name. */
void leat_ending(const char *path, size_t n, char out[LEAT_ENDING_MAX]);

/* Of a field with files that end so ("jpg", "seg.png"): image, string, bytes. */
enum leat_field_type leat_ending_type(const char *ending);

/* Splits a path as WebDataset does: the stem goes up to the first dot after the last slash, what follows names the
 * field, in lower case and with "jpg" for "jpeg", "tif" for "tiff". False when there is no such dot, nothing before or
 * after it, or what follows cannot be a field's name. */
bool leat_ending_split(const char *path, size_t n, size_t *stem_n, char field[LEAT_FIELD_NAME_MAX]);

#endif
