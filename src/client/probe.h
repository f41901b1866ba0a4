/* What an image's header says, as the format keeps it. */
#ifndef LEAT_CLIENT_PROBE_H
#define LEAT_CLIENT_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "dataset/schema.h"

/* The error is that of leat_image_probe(). */
leat_status leat_picture_probe(const void *data, size_t n, struct leat_picture *out, struct leat_error *err);

#endif
