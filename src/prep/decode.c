#include "prep/decode.h"

#include <string.h>

#define MISSING 128 /* grey, as libjpeg leaves what it has no data for */

unsigned leat_decode_planes(const struct leat_image_info *info, enum leat_colour colour)
{
    if (colour == LEAT_COLOUR_GRAY || colour == LEAT_COLOUR_INDEX)
        return 1;
    return info->components == 1 && !info->palette && !info->alpha ? 1 : 3;
}

leat_status leat_splitter_open(struct leat_splitter *s, const struct leat_decode *decode, struct leat_rows *to,
                               unsigned components, unsigned planes, uint32_t width, struct leat_error *err)
{
    *s = (struct leat_splitter){
        .to = to,
        .kernels = decode->kernels,
        .components = components,
        .planes = planes,
        .width = width,
    };
    memcpy(s->background, decode->background, sizeof s->background);
    for (unsigned i = 0; i < 3; i++) {
        s->plane[i] = leat_arena_take(decode->arena, (size_t)width + 64 + LEAT_ROW_PAD);
        if (!s->plane[i])
            return leat_arena_fail(decode->arena, err);
    }
    return LEAT_OK;
}

static void blend(struct leat_splitter *s, const uint8_t *pixels)
{
    for (uint32_t i = 0; i < s->width; i++) {
        unsigned alpha = pixels[4 * i + 3];
        for (unsigned c = 0; c < 3; c++)
            s->plane[c][i] = (uint8_t)((pixels[4 * i + c] * alpha + s->background[c] * (255 - alpha) + 127) / 255);
    }
}

/* ITU-R 601 luma with 16 bits after the point, as Pillow's "L". */
static void luma(struct leat_splitter *s)
{
    uint8_t *r = s->plane[0];
    for (uint32_t i = 0; i < s->width; i++)
        r[i] = (uint8_t)((19595u * r[i] + 38470u * s->plane[1][i] + 7471u * s->plane[2][i] + 32768) >> 16);
}

void leat_splitter_give(struct leat_splitter *s, const uint8_t *pixels)
{
    if (s->components == 1)
        memcpy(s->plane[0], pixels, s->width);
    else if (s->components == 3)
        s->kernels->split(pixels, s->width, s->plane[0], s->plane[1], s->plane[2]);
    else
        blend(s, pixels);
    if (s->planes == 1 && s->components > 1)
        luma(s);
    s->to->give(s->to, (const uint8_t *const *)s->plane);
}

void leat_splitter_give_gray(struct leat_splitter *s)
{
    for (unsigned i = 0; i < s->planes; i++)
        memset(s->plane[i], MISSING, s->width);
    s->to->give(s->to, (const uint8_t *const *)s->plane);
}
