#include <string.h>

#include "prep/jpeg_state.h"

#define MARKER_EXIF  (JPEG_APP0 + 1)
#define MARKER_ADOBE (JPEG_APP0 + 14)

/* libjpeg writes into the growable buffer through a window of this size. */
#define WINDOW 65536

struct writer {
    struct jpeg_compress_struct cinfo;
    struct jpeg_destination_mgr target;
    struct leat_jpeg_memory memory;
    struct leat_buf *out;
    JOCTET *window;
};

static struct writer *writer_of(j_compress_ptr cinfo)
{
    return (struct writer *)(void *)((char *)cinfo - offsetof(struct writer, cinfo));
}

static void init_destination(j_compress_ptr cinfo)
{
    struct writer *w = writer_of(cinfo);
    w->target.next_output_byte = w->window;
    w->target.free_in_buffer = WINDOW;
}

static boolean empty_output_buffer(j_compress_ptr cinfo)
{
    struct writer *w = writer_of(cinfo);
    leat_buf_add(w->out, w->window, WINDOW); /* a failure is kept in the buffer and looked at once, at the end */
    init_destination(cinfo);
    return TRUE;
}

static void term_destination(j_compress_ptr cinfo)
{
    struct writer *w = writer_of(cinfo);
    leat_buf_add(w->out, w->window, WINDOW - w->target.free_in_buffer);
}

static void copy_markers(struct writer *w, const struct jpeg_decompress_struct *from)
{
    for (jpeg_saved_marker_ptr m = from->marker_list; m; m = m->next) {
        /* JFIF's and Adobe's are written by the library itself. */
        bool jfif = m->marker == JPEG_APP0 && m->data_length >= 5 && memcmp(m->data, "JFIF", 5) == 0;
        bool adobe = m->marker == MARKER_ADOBE && m->data_length >= 5 && memcmp(m->data, "Adobe", 5) == 0;
        if ((jfif && w->cinfo.write_JFIF_header) || (adobe && w->cinfo.write_Adobe_marker))
            continue;
        jpeg_write_marker(&w->cinfo, m->marker, m->data, m->data_length);
    }
}

/* EXIF with nothing but the orientation. */
static void write_orientation(struct writer *w, uint8_t orientation)
{
    uint8_t exif[] = "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0\0";
    exif[6 + 8 + 2 + 8 + 1] = orientation;
    jpeg_write_marker(&w->cinfo, MARKER_EXIF, exif, sizeof exif - 1);
}

/* Call under the jump; everything that must be undone is in w and jpeg. */
static leat_status transcode(struct leat_jpeg *jpeg, struct writer *w, const struct leat_source *source,
                             const struct leat_image_limits *limits, enum leat_jpeg_keep keep, struct leat_error *err)
{
    struct jpeg_decompress_struct *from = &jpeg->cinfo;
    j_common_ptr common = (j_common_ptr)from;
    leat_jpeg_start(jpeg, source, limits);
    for (int m = 0; m < 16; m++)
        jpeg_save_markers(from, JPEG_APP0 + m, keep == LEAT_JPEG_KEEP_ALL ? 0xffff : 0);
    jpeg_save_markers(from, JPEG_COM, keep == LEAT_JPEG_KEEP_ALL ? 0xffff : 0);
    leat_status rc = leat_jpeg_header(jpeg, source, err);
    if (rc != LEAT_OK)
        return rc;
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(from);
    rc = leat_jpeg_check_damage(jpeg, LEAT_DAMAGE_ERROR, err);
    if (rc != LEAT_OK)
        return rc;
    jpeg_create_compress(&w->cinfo);
    leat_jpeg_memory_install((j_common_ptr)&w->cinfo, &w->memory, jpeg->memory.arena);
    w->window = common->mem->alloc_large(common, JPOOL_IMAGE, WINDOW);
    w->target.init_destination = init_destination;
    w->target.empty_output_buffer = empty_output_buffer;
    w->target.term_destination = term_destination;
    w->cinfo.dest = &w->target;
    jpeg_copy_critical_parameters(from, &w->cinfo);
    w->cinfo.optimize_coding = TRUE;
    w->cinfo.num_scans = 0; /* one scan */
    w->cinfo.scan_info = NULL;
    w->cinfo.restart_interval = 0; /* restarts only slow decoding down */
    jpeg_write_coefficients(&w->cinfo, coefficients);
    if (keep == LEAT_JPEG_KEEP_ALL)
        copy_markers(w, from);
    else if (keep == LEAT_JPEG_KEEP_ORIENTATION && source->info.orientation != 1)
        write_orientation(w, source->info.orientation);
    jpeg_finish_compress(&w->cinfo);
    return leat_buf_check(w->out, "the transcoded JPEG", err);
}

static void forget_markers(struct jpeg_decompress_struct *cinfo)
{
    for (int m = 0; m < 16; m++)
        jpeg_save_markers(cinfo, JPEG_APP0 + m, 0);
    jpeg_save_markers(cinfo, JPEG_COM, 0);
}

leat_status leat_jpeg_transcode(struct leat_jpeg *jpeg, const struct leat_source *source,
                                const struct leat_image_limits *limits, enum leat_jpeg_keep keep, struct leat_buf *out,
                                struct leat_error *err)
{
    struct writer w = {.out = out};
    size_t before = out->len;
    leat_status rc;
    w.cinfo.err = &jpeg->messages;
    if (setjmp(jpeg->jump)) {
        rc = leat_jpeg_fail(jpeg, err);
    } else {
        rc = transcode(jpeg, &w, source, limits, keep, err);
        jpeg_abort_decompress(&jpeg->cinfo);
    }
    if (w.cinfo.mem)
        jpeg_destroy_compress(&w.cinfo);
    forget_markers(&jpeg->cinfo);
    if (rc != LEAT_OK && out->data && out->len > before)
        out->len = before;
    return rc;
}
