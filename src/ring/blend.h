/* What a mixture of datasets is, as the setting "mix" says it: JSON of this form.
 *
 *   {"streams": [{"name": "web", "url": "s3://…", "view": "blocks=2048 shift=1", "weight": 0.7}, …],
 *    "temperature": 1.5,                                     instead of weights: by size
 *    "schedule": [{"from": 0, "weights": [0.7, 0.3]}, …]}    instead of weights: in samples of all ranks, from the
 *                                                            beginning of the training
 *
 * "view" may be left out. Addresses are as everywhere; the rank makes paths absolute before it sends them. */
#ifndef LEAT_RING_BLEND_H
#define LEAT_RING_BLEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define LEAT_BLEND_STREAMS_MAX 64u
#define LEAT_BLEND_PARTS_MAX   256u

struct leat_blend_stream {
    char *name; /* never NULL; no two streams have the same */
    char *url;
    char *view; /* NULL: samples */
};

struct leat_blend_part {
    uint64_t from;
    double weights[LEAT_BLEND_STREAMS_MAX];
};

struct leat_blend_spec {
    uint32_t n;
    struct leat_blend_stream streams[LEAT_BLEND_STREAMS_MAX];
    double temperature; /* 0: the parts say the weights */
    struct leat_blend_part *parts;
    uint32_t parts_n;
};

/* Everything is checked but what the datasets say. Nothing is written to *out after a failure. */
leat_status leat_blend_read(const char *json, struct leat_blend_spec *out, struct leat_error *err);
void leat_blend_free(struct leat_blend_spec *b); /* zeroed ones are allowed */

/* The text for the wire. The caller frees it. */
leat_status leat_blend_write(const struct leat_blend_spec *b, char **out, struct leat_error *err);

#endif
