/* Pictures for tests and measurements, made from nothing: like photographs in what matters to a decoder (detail at
 * all scales, soft and sharp places, bytes a pixel), and the same on every run. */
#ifndef LEAT_TESTS_IMAGES_H
#define LEAT_TESTS_IMAGES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct picture {
    uint32_t width;
    uint32_t height;
    uint8_t *rgb;
};

struct encoded {
    uint8_t *data;
    size_t size;
};

struct jpeg_choice {
    int quality;  /* 0: 90 */
    int h;        /* luma sampling; 0: 2 */
    int v;        /* 0: 2 */
    int chroma_h; /* 0: 1 */
    int chroma_v; /* 0: 1 */
    bool gray;
    bool cmyk; /* 4 components, Adobe, inverted */
    bool rgb;  /* stored as RGB */
    bool progressive;
    unsigned script; /* of progressive scans of three components; 0: libjpeg's own */
    bool arithmetic;
    bool optimize;
    unsigned restart; /* MCUs */
    uint8_t orientation;
};

static inline uint32_t noise_bits(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

/* One octave: random values on a grid, interpolated between. Amplitude varies over the picture, as focus does. */
static inline void add_octave(float *plane, uint32_t width, uint32_t height, uint32_t cell, float amplitude,
                              uint32_t *state)
{
    uint32_t w = width / cell + 2;
    uint32_t h = height / cell + 2;
    float *grid = malloc((size_t)w * h * sizeof *grid);
    for (size_t i = 0; i < (size_t)w * h; i++)
        grid[i] = ((float)(noise_bits(state) >> 8) / 8388608.0f - 1.0f) * amplitude;
    for (uint32_t y = 0; y < height; y++) {
        float fy = (float)(y % cell) / (float)cell;
        const float *top = grid + (size_t)(y / cell) * w;
        const float *bottom = top + w;
        float focus = 0.6f + 0.8f * (float)y / (float)height;
        for (uint32_t x = 0; x < width; x++) {
            float fx = (float)(x % cell) / (float)cell;
            uint32_t i = x / cell;
            float a = top[i] + (top[i + 1] - top[i]) * fx;
            float b = bottom[i] + (bottom[i + 1] - bottom[i]) * fx;
            plane[(size_t)width * y + x] += (a + (b - a) * fy) * (cell <= 4 ? focus : 1.0f);
        }
    }
    free(grid);
}

static inline struct picture picture_make(uint32_t width, uint32_t height, uint32_t seed)
{
    struct picture p = {width, height, malloc((size_t)width * height * 3)};
    float *plane = malloc((size_t)width * height * sizeof *plane);
    float *shared = calloc((size_t)width * height, sizeof *shared);
    uint32_t state = seed * 2654435761u + 88675123u;
    static const struct {
        uint32_t cell;
        float luma;
        float chroma;
    } octaves[] = {{128, 60, 30}, {48, 40, 18}, {16, 25, 8}, {6, 17, 4}, {3, 12, 2}, {1, 9, 3}};
    for (unsigned o = 0; o < 6; o++)
        add_octave(shared, width, height, octaves[o].cell, octaves[o].luma, &state);
    for (unsigned c = 0; c < 3; c++) {
        memcpy(plane, shared, (size_t)width * height * sizeof *plane);
        for (unsigned o = 0; o < 6; o++)
            add_octave(plane, width, height, octaves[o].cell, octaves[o].chroma, &state);
        for (size_t i = 0; i < (size_t)width * height; i++) {
            float v = plane[i] + 118.0f;
            p.rgb[3 * i + c] = v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
        }
    }
    free(plane);
    free(shared);
    return p;
}

static inline void write_exif(struct jpeg_compress_struct *cinfo, uint8_t orientation)
{
    uint8_t exif[] = "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\1\0\0\0\0\0\0\0";
    exif[24] = orientation;
    jpeg_write_marker(cinfo, JPEG_APP0 + 1, exif, sizeof exif - 1);
}

/* Orders of scans that encoders seldom choose. */
enum { JPEG_SCRIPT_BITS = 1, JPEG_SCRIPT_BANDS, JPEG_SCRIPT_INCOMPLETE };

static inline void jpeg_script(struct jpeg_compress_struct *cinfo, unsigned which)
{
    static const jpeg_scan_info bits[] = {
        {3, {0, 1, 2}, 0, 0, 0, 2}, {1, {0}, 1, 63, 0, 3},      {1, {2}, 1, 63, 0, 2}, {1, {0}, 1, 63, 3, 2},
        {1, {1}, 1, 63, 0, 1},      {3, {0, 1, 2}, 0, 0, 2, 1}, {1, {0}, 1, 63, 2, 1}, {1, {2}, 1, 63, 2, 1},
        {1, {1}, 1, 63, 1, 0},      {1, {2}, 1, 63, 1, 0},      {1, {0}, 1, 63, 1, 0}, {3, {0, 1, 2}, 0, 0, 1, 0},
    };
    static const jpeg_scan_info bands[] = {
        {2, {0, 1}, 0, 0, 0, 0}, {1, {2}, 0, 0, 0, 1},  {1, {0}, 1, 5, 0, 0},   {1, {0}, 6, 63, 0, 1},
        {1, {2}, 0, 0, 1, 0},    {1, {1}, 1, 1, 0, 0},  {1, {1}, 2, 62, 0, 0},  {1, {1}, 63, 63, 0, 0},
        {1, {0}, 6, 30, 1, 0},   {1, {2}, 1, 63, 0, 0}, {1, {0}, 31, 63, 1, 0},
    };
    static const jpeg_scan_info incomplete[] = {
        {3, {0, 1, 2}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 1}, {1, {1}, 1, 63, 0, 0}, {1, {2}, 1, 5, 0, 0}};
    static const struct {
        const jpeg_scan_info *scans;
        int count;
    } scripts[] = {{0}, {bits, 12}, {bands, 11}, {incomplete, 4}};
    cinfo->scan_info = scripts[which].scans;
    cinfo->num_scans = scripts[which].count;
}

static inline struct encoded jpeg_make(const struct picture *p, const struct jpeg_choice *choice)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr err;
    unsigned char *data = NULL;
    unsigned long size = 0;
    cinfo.err = jpeg_std_error(&err);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &data, &size);
    cinfo.image_width = p->width;
    cinfo.image_height = p->height;
    cinfo.input_components = choice->gray ? 1 : choice->cmyk ? 4 : 3;
    cinfo.in_color_space = choice->gray ? JCS_GRAYSCALE : choice->cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&cinfo);
    if (choice->rgb)
        jpeg_set_colorspace(&cinfo, JCS_RGB);
    else if (choice->cmyk)
        jpeg_set_colorspace(&cinfo, JCS_YCCK);
    jpeg_set_quality(&cinfo, choice->quality ? choice->quality : 90, TRUE);
    if (!choice->gray && !choice->rgb) {
        cinfo.comp_info[0].h_samp_factor = choice->h ? choice->h : 2;
        cinfo.comp_info[0].v_samp_factor = choice->v ? choice->v : 2;
        for (int c = 1; c < 3; c++) {
            cinfo.comp_info[c].h_samp_factor = choice->chroma_h ? choice->chroma_h : 1;
            cinfo.comp_info[c].v_samp_factor = choice->chroma_v ? choice->chroma_v : 1;
        }
        if (choice->cmyk) {
            cinfo.comp_info[3].h_samp_factor = cinfo.comp_info[0].h_samp_factor;
            cinfo.comp_info[3].v_samp_factor = cinfo.comp_info[0].v_samp_factor;
        }
    }
    cinfo.optimize_coding = choice->optimize;
    cinfo.restart_interval = choice->restart;
    cinfo.arith_code = choice->arithmetic;
    if (choice->progressive && choice->script)
        jpeg_script(&cinfo, choice->script);
    else if (choice->progressive)
        jpeg_simple_progression(&cinfo);
    jpeg_start_compress(&cinfo, TRUE);
    if (choice->orientation)
        write_exif(&cinfo, choice->orientation);
    uint8_t *row = malloc((size_t)p->width * 4);
    while (cinfo.next_scanline < p->height) {
        const uint8_t *from = p->rgb + (size_t)p->width * 3 * cinfo.next_scanline;
        for (uint32_t x = 0; x < p->width; x++) {
            if (choice->gray)
                row[x] = from[3 * x + 1];
            else if (choice->cmyk)
                memcpy(row + 4 * x, (uint8_t[]){from[3 * x], from[3 * x + 1], from[3 * x + 2], 230}, 4);
            else
                memcpy(row + 3 * x, from + 3 * x, 3);
        }
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    return (struct encoded){data, size};
}

/* All of it, by libjpeg alone: what every exact decode is compared with. channels: 1, 3 or 4. */
static inline uint8_t *jpeg_decode_whole(const struct encoded *e, J_COLOR_SPACE colours, uint32_t *width,
                                         uint32_t *height)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr err;
    cinfo.err = jpeg_std_error(&err);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, e->data, e->size);
    jpeg_read_header(&cinfo, TRUE);
    cinfo.out_color_space = colours;
    jpeg_start_decompress(&cinfo);
    size_t stride = (size_t)cinfo.output_width * (size_t)cinfo.output_components;
    uint8_t *out = malloc(stride * cinfo.output_height);
    while (cinfo.output_scanline < cinfo.output_height) {
        JSAMPROW row = out + stride * cinfo.output_scanline;
        jpeg_read_scanlines(&cinfo, &row, 1);
    }
    *width = cinfo.output_width;
    *height = cinfo.output_height;
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
    return out;
}

#endif
