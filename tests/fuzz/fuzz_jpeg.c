/* Our JPEG against libjpeg-turbo's, file by file. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>

#include "differ.h"

struct library {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr messages;
    jmp_buf jump;
    bool damaged;
    bool ended;                 /* it looked past the end of the file, which may be no more than looking ahead */
    char text[JMSG_LENGTH_MAX]; /* of the first complaint */
};

static void complain(j_common_ptr cinfo)
{
    struct library *l = (struct library *)(void *)cinfo;
    if (!l->text[0])
        cinfo->err->format_message(cinfo, l->text);
    l->damaged = true;
}

static void on_error(j_common_ptr cinfo)
{
    complain(cinfo);
    longjmp(((struct library *)(void *)cinfo)->jump, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    static const int harmful[] = {JWRN_BOGUS_PROGRESSION, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_MUST_RESYNC,
                                  JWRN_TOO_MUCH_DATA};
    bool harms = false;
    for (size_t i = 0; i < sizeof harmful / sizeof *harmful; i++)
        harms = harms || (level < 0 && cinfo->err->msg_code == harmful[i]);
    if (harms)
        complain(cinfo);
    if (level < 0 && cinfo->err->msg_code == JWRN_JPEG_EOF)
        ((struct library *)(void *)cinfo)->ended = true;
}

static void library_open(struct library *l, const struct leat_source *source)
{
    memset(l, 0, sizeof *l);
    l->cinfo.err = jpeg_std_error(&l->messages);
    l->messages.error_exit = on_error;
    l->messages.emit_message = on_message;
    jpeg_create_decompress(&l->cinfo);
    jpeg_mem_src(&l->cinfo, source->data, source->size);
}

/* With coefficients of more than this in all, sums may overflow 16 bits, here and in the library, each in its way. */
#define BLOCK_SUM 5800

static bool block_overflows(const JCOEF *block, const uint16_t *quant)
{
    uint32_t sum = 0;
    for (int k = 0; k < DCTSIZE2; k++)
        sum += (uint32_t)abs(block[k]) * quant[k];
    return sum > BLOCK_SUM;
}

static bool component_overflows(struct library *l, jvirt_barray_ptr array, const jpeg_component_info *c)
{
    const uint16_t *quant = c->quant_table ? c->quant_table->quantval : NULL;
    for (JDIMENSION y = 0; quant && y < c->height_in_blocks; y++) {
        JBLOCKARRAY row = l->cinfo.mem->access_virt_barray((j_common_ptr)&l->cinfo, array, y, 1, FALSE);
        for (JDIMENSION x = 0; x < c->width_in_blocks; x++) {
            if (block_overflows(row[0][x], quant))
                return true;
        }
    }
    return false;
}

static bool overflows(const struct leat_source *source)
{
    static struct library c;
    volatile bool found = true;
    library_open(&c, source);
    if (!setjmp(c.jump)) {
        jpeg_read_header(&c.cinfo, TRUE);
        jvirt_barray_ptr *arrays = jpeg_read_coefficients(&c.cinfo);
        found = false;
        for (int i = 0; i < c.cinfo.num_components && !found; i++)
            found = component_overflows(&c, arrays[i], &c.cinfo.comp_info[i]);
    }
    jpeg_destroy_decompress(&c.cinfo);
    return found;
}

static struct library l;

/* The whole picture, as everybody decodes it. */
static void library_decode(const struct leat_source *source, struct differ_whole *out)
{
    static uint8_t row[4096 * 4];
    out->fine = out->compare = false;
    library_open(&l, source);
    if (setjmp(l.jump)) {
        jpeg_destroy_decompress(&l.cinfo);
        return;
    }
    jpeg_read_header(&l.cinfo, TRUE);
    bool same = l.cinfo.image_width == source->info.width && l.cinfo.image_height == source->info.height;
    bool ink = l.cinfo.num_components == 4;
    if (!ink)
        l.cinfo.out_color_space = JCS_RGB;
    l.cinfo.dct_method = JDCT_ISLOW;
    if (same && !l.cinfo.arith_code) {
        jpeg_start_decompress(&l.cinfo);
        while (l.cinfo.output_scanline < l.cinfo.output_height && l.cinfo.input_scan_number <= 60) {
            uint8_t *to = out->rgb + (size_t)l.cinfo.output_width * 3 * l.cinfo.output_scanline;
            JSAMPROW rows[] = {ink ? row : to};
            jpeg_read_scanlines(&l.cinfo, rows, 1);
        }
        out->fine = !l.damaged && l.cinfo.input_scan_number <= 60;
        out->compare = out->fine && !ink;
    }
    jpeg_destroy_decompress(&l.cinfo);
}

FUZZ(jpeg)
{
    static struct differ_whole library;
    static uint8_t ours[DIFFER_PIXELS * 3];
    struct leat_prep_description d = {0};
    struct leat_source source;
    struct leat_error err;
    if (!differ_source(data, size, LEAT_IMAGE_JPEG, &source))
        return;
    bool fine = differ_ours(d, data, &source, ours, &err);
    library_decode(&source, &library);
    if (!fine) {
        /* What the library passes over without a word (of codes that do not exist it warns on one of its two ways),
         * what it does not have, what is not wanted. */
        bool said = strstr(err.text, "run over the end") || strstr(err.text, "no table has") ||
                    err.status == LEAT_UNSUPPORTED || l.ended || err.status == LEAT_LIMIT;
        if (library.fine && !said)
            fprintf(stderr, "we say: %s\n", err.text);
        PROMISE(!library.fine || said);
        return;
    }
    if (!library.fine)
        fprintf(stderr, "the library says: %s\n", l.text);
    PROMISE(library.fine);
    size_t bytes = (size_t)source.info.width * source.info.height * 3;
    if (library.compare && memcmp(library.rgb, ours, bytes) != 0)
        PROMISE(overflows(&source));
}
