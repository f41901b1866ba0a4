/* Pictures that look like photographs to a decoder, the same on every run: leaves that fall over each other, their
 * sizes by the power law that gives natural pictures their 1/f spectrum and their edges; most are smooth, few have
 * texture; a lens softens them and a sensor adds noise. Encoded as collections have them: qualities from 75 to 96, most
 * of them with Huffman tables of their own, 4:2:0 and less usual samplings, sizes like ImageNet's. */
#ifndef LEAT_BENCH_PHOTOS_H
#define LEAT_BENCH_PHOTOS_H

#include "../tests/unit/images.h"

static inline float photo_unit(uint32_t *state)
{
    return (float)(noise_bits(state) >> 8) / 16777216.0f;
}

struct leaf {
    float x, y, radius;
    float colour[3]; /* luma and two differences */
    float slope_x;   /* of luma, per pixel */
    float slope_y;
    float texture; /* amplitude */
};

static inline struct leaf leaf_draw(uint32_t width, uint32_t height, uint32_t *state)
{
    float longer = (float)(width > height ? width : height);
    float least = longer / 220.0f;
    float most = longer / 1.5f;
    struct leaf l = {.x = photo_unit(state) * (float)width, .y = photo_unit(state) * (float)height};
    l.radius = 1.0f / sqrtf(photo_unit(state) * (1 / (least * least) - 1 / (most * most)) + 1 / (most * most));
    l.colour[0] = 30 + 190 * photo_unit(state);
    for (int c = 1; c < 3; c++)
        l.colour[c] = 60 * (photo_unit(state) + photo_unit(state) - 1) * photo_unit(state);
    l.slope_x = 60 * (photo_unit(state) - 0.5f) / l.radius;
    l.slope_y = 60 * (photo_unit(state) - 0.5f) / l.radius;
    float rough = photo_unit(state);
    l.texture = 50 * rough * rough * rough * rough;
    return l;
}

static inline void leaf_fall(const struct leaf *l, float *planes, uint32_t width, uint32_t height, uint32_t *state)
{
    size_t pixels = (size_t)width * height;
    int top = (int)(l->y - l->radius);
    int bottom = (int)(l->y + l->radius);
    for (int y = top < 0 ? 0 : top; y <= bottom && y < (int)height; y++) {
        float dy = (float)y - l->y;
        float half = l->radius * l->radius - dy * dy;
        half = half > 0 ? sqrtf(half) : 0;
        int left = (int)(l->x - half);
        for (int x = left < 0 ? 0 : left; x <= (int)(l->x + half) && x < (int)width; x++) {
            float *p = planes + (size_t)width * (size_t)y + (size_t)x;
            float grain = l->texture > 0.5f ? (photo_unit(state) - 0.5f) * l->texture : 0;
            p[0] = l->colour[0] + l->slope_x * ((float)x - l->x) + l->slope_y * dy + grain;
            p[pixels] = l->colour[1];
            p[2 * pixels] = l->colour[2];
        }
    }
}

/* A weighted mean of three, down or across; every sample is read before it is written over. */
static inline void photo_soften(float *plane, uint32_t width, uint32_t height)
{
    for (uint32_t y = 0; y < height; y++) {
        float *row = plane + (size_t)width * y;
        float last = row[0];
        for (uint32_t x = 0; x + 1 < width; x++) {
            float here = row[x];
            row[x] = 0.25f * last + 0.5f * here + 0.25f * row[x + 1];
            last = here;
        }
    }
    for (uint32_t x = 0; x < width; x++) {
        float last = plane[x];
        for (uint32_t y = 0; y + 1 < height; y++) {
            float *at = plane + (size_t)width * y + x;
            float here = *at;
            *at = 0.25f * last + 0.5f * here + 0.25f * at[width];
            last = here;
        }
    }
}

static inline uint8_t photo_clamp(float v)
{
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

static inline struct picture photo_make(uint32_t width, uint32_t height, uint32_t seed)
{
    size_t pixels = (size_t)width * height;
    struct picture p = {width, height, malloc(pixels * 3)};
    float *planes = calloc(pixels * 3, sizeof *planes);
    uint32_t state = seed * 2654435761u + 19088743u;
    for (unsigned i = 0; i < 9000; i++) {
        struct leaf l = leaf_draw(width, height, &state);
        if (i < 12) /* something after all of them */
            l.radius = (float)(width > height ? width : height) * (1.2f - 0.08f * (float)i);
        leaf_fall(&l, planes, width, height, &state);
    }
    unsigned soft = width > 800 || height > 800 ? 2 : 1;
    for (unsigned c = 0; c < 3; c++) {
        for (unsigned i = 0; i < soft; i++)
            photo_soften(planes + pixels * c, width, height);
    }
    for (size_t i = 0; i < pixels; i++) {
        float noise = 3.0f * (photo_unit(&state) + photo_unit(&state) - 1);
        float l = planes[i] + noise;
        p.rgb[3 * i] = photo_clamp(l + 1.4f * planes[2 * pixels + i]);
        p.rgb[3 * i + 1] = photo_clamp(l - 0.34f * planes[pixels + i] - 0.71f * planes[2 * pixels + i]);
        p.rgb[3 * i + 2] = photo_clamp(l + 1.77f * planes[pixels + i]);
    }
    free(planes);
    return p;
}

/* Picture i of the set, as a file; large: 1 to 3 megapixels. */
static inline struct encoded photo_file(unsigned i, bool large)
{
    static const uint16_t sizes[][2] = {{500, 375}, {500, 333}, {375, 500}, {500, 375}, {400, 300}, {500, 500},
                                        {333, 500}, {640, 480}, {500, 375}, {300, 225}, {500, 357}, {800, 600}};
    static const uint8_t qualities[] = {92, 96, 85, 95, 75, 90, 96};
    static const uint8_t samplings[][2] = {{2, 2}, {2, 2}, {1, 1}, {2, 2}, {2, 1},
                                           {2, 2}, {2, 2}, {1, 2}, {2, 2}, {1, 1}};
    uint32_t state = i * 40503u + 77;
    uint32_t width = sizes[i % (sizeof sizes / sizeof *sizes)][0];
    uint32_t height = sizes[i % (sizeof sizes / sizeof *sizes)][1];
    if (large) {
        float scale = sqrtf((1e6f + 2e6f * photo_unit(&state)) / (float)(width * height));
        width = (uint32_t)((float)width * scale);
        height = (uint32_t)((float)height * scale);
    }
    struct picture p = photo_make(width, height, i + 1);
    struct jpeg_choice choice = {
        .quality = qualities[i % (sizeof qualities / sizeof *qualities)],
        .h = samplings[i % (sizeof samplings / sizeof *samplings)][0],
        .v = samplings[i % (sizeof samplings / sizeof *samplings)][1],
        .optimize = i % 5 < 3,
        .gray = i % 24 == 23,
    };
    struct encoded e = jpeg_make(&p, &choice);
    free(p.rgb);
    return e;
}

#endif
