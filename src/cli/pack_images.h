/* What `leat pack` does to images on their way: nothing but a look, unless it is asked to. */
#ifndef LEAT_CLI_PACK_IMAGES_H
#define LEAT_CLI_PACK_IMAGES_H

#include <stdint.h>

#include "dataset/pack_origin.h"

struct leat_cli_images {
    bool baseline;     /* progressive JPEGs become baseline ones, without loss */
    uint32_t max_side; /* larger images are resized; 0: none is */
    uint32_t quality;  /* of the JPEGs that are written then */
    char what[64];     /* in words; filled in */
};

/* Fills in *out, which borrows the settings. */
void leat_cli_images(struct leat_cli_images *settings, struct leat_pack_images *out);

#endif
