#include "prep/jpeg_write.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

struct state {
    struct jpeg_error_mgr messages; /* first member */
    jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
    struct jpeg_compress_struct cinfo;
    unsigned char *data; /* libjpeg's, from malloc */
    unsigned long size;
};

static void fail(j_common_ptr cinfo)
{
    struct state *s = (struct state *)(void *)cinfo->err;
    s->messages.format_message(cinfo, s->text);
    longjmp(s->jump, 1);
}

static void say_nothing(j_common_ptr cinfo)
{
    (void)cinfo;
}

/* Call under the jump. */
static void compress(struct state *s, const uint8_t *pixels, uint32_t width, uint32_t height, unsigned channels,
                     unsigned quality)
{
    struct jpeg_compress_struct *c = &s->cinfo;
    jpeg_create_compress(c);
    jpeg_mem_dest(c, &s->data, &s->size);
    c->image_width = width;
    c->image_height = height;
    c->input_components = (int)channels;
    c->in_color_space = channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, (int)quality, TRUE);
    c->optimize_coding = TRUE;
    jpeg_start_compress(c, TRUE);
    while (c->next_scanline < height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)c->next_scanline * width * channels);
        jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
}

leat_status leat_jpeg_write(const uint8_t *pixels, uint32_t width, uint32_t height, unsigned channels, unsigned quality,
                            struct leat_buf *out, struct leat_error *err)
{
    if ((channels != 1 && channels != 3) || quality < 1 || quality > 100)
        return leat_fail(err, LEAT_INVALID, "a JPEG has 1 or 3 channels and a quality of 1 to 100");
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a JPEG");
    leat_status rc = LEAT_OK;
    s->cinfo.err = jpeg_std_error(&s->messages);
    s->messages.error_exit = fail;
    s->messages.output_message = say_nothing;
    if (setjmp(s->jump) == 0)
        compress(s, pixels, width, height, channels, quality);
    else
        rc = leat_fail(err, LEAT_INVALID, "cannot write a JPEG of %ux%u: %s", width, height, s->text);
    if (rc == LEAT_OK && !leat_buf_add(out, s->data, s->size))
        rc = leat_buf_check(out, "the JPEG", err);
    jpeg_destroy_compress(&s->cinfo);
    free(s->data);
    free(s);
    return rc;
}
