#include "prep/jpeg.h"

#include <jerror.h>
#include <stdlib.h>
#include <string.h>

#include "prep/jpeg_state.h"

/* Warnings that mean wrong pixels. Others (garbage between markers, an unknown Adobe or JFIF version) are common
 * in old collections and harm nothing. */
static bool touches_pixels(int code)
{
    switch (code) {
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_TOO_MUCH_DATA:
        return true;
    default:
        return false;
    }
}

static struct leat_jpeg *jpeg_of(j_common_ptr cinfo)
{
    return (struct leat_jpeg *)(void *)((char *)cinfo->err - offsetof(struct leat_jpeg, messages));
}

/* Sound files of a kind that this libjpeg does not have. */
static bool means_unsupported(int code)
{
    return code == JERR_SOF_UNSUPPORTED || code == JERR_BAD_PRECISION || code == JERR_ARITH_NOTIMPL ||
           code == JERR_CONVERSION_NOTIMPL || code == JERR_FRACT_SAMPLE_NOTIMPL || code == JERR_NOTIMPL ||
           code == JERR_NOT_COMPILED;
}

static void error_exit(j_common_ptr cinfo)
{
    struct leat_jpeg *j = jpeg_of(cinfo);
    j->status = means_unsupported(cinfo->err->msg_code) ? LEAT_UNSUPPORTED : LEAT_CORRUPT;
    if (cinfo->err->msg_code == JERR_OUT_OF_MEMORY)
        j->status = j->created && j->memory.arena->full ? LEAT_LIMIT : LEAT_NO_MEMORY;
    else
        cinfo->err->format_message(cinfo, j->text);
    longjmp(j->jump, 1);
}

static void emit_message(j_common_ptr cinfo, int level)
{
    struct leat_jpeg *j = jpeg_of(cinfo);
    if (level >= 0 || j->damaged || !touches_pixels(cinfo->err->msg_code))
        return;
    j->damaged = true;
    cinfo->err->format_message(cinfo, j->text);
}

static void output_message(j_common_ptr cinfo)
{
}

/* A file of thousands of scans costs a full pass over its coefficients for each. */
static void count_scans(j_common_ptr cinfo)
{
    struct leat_jpeg *j = jpeg_of(cinfo);
    if (!cinfo->is_decompressor || (uint32_t)j->cinfo.input_scan_number <= j->scans_max)
        return;
    snprintf(j->text, sizeof j->text, "it has more scans than the limit of %u", (unsigned)j->scans_max);
    j->status = LEAT_LIMIT;
    longjmp(j->jump, 1);
}

leat_status leat_jpeg_open(struct leat_arena *arena, struct leat_jpeg **out, struct leat_error *err)
{
    struct leat_jpeg *j = calloc(1, sizeof *j);
    if (!j)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a JPEG decoder");
    j->cinfo.err = jpeg_std_error(&j->messages);
    j->messages.error_exit = error_exit;
    j->messages.emit_message = emit_message;
    j->messages.output_message = output_message;
    j->progress.progress_monitor = count_scans;
    if (setjmp(j->jump)) {
        leat_fail(err, LEAT_NO_MEMORY, "no memory for a JPEG decoder");
        leat_jpeg_close(j);
        return LEAT_NO_MEMORY;
    }
    jpeg_create_decompress(&j->cinfo);
    j->cinfo.progress = &j->progress;
    leat_jpeg_memory_install((j_common_ptr)&j->cinfo, &j->memory, arena);
    j->created = true;
    *out = j;
    return LEAT_OK;
}

void leat_jpeg_close(struct leat_jpeg *jpeg)
{
    if (!jpeg)
        return;
    jpeg_destroy_decompress(&jpeg->cinfo);
    free(jpeg);
}

void leat_jpeg_start(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_image_limits *limits)
{
    jpeg->damaged = false;
    jpeg->text[0] = '\0';
    jpeg->scans_max = limits->scans;
    /* The last file's tables and its source lay in memory that is given back, and are not this one's: a file that
     * leaves tables out must not be decoded with them. */
    jpeg->cinfo.src = NULL;
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        jpeg->cinfo.quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        jpeg->cinfo.dc_huff_tbl_ptrs[i] = jpeg->cinfo.ac_huff_tbl_ptrs[i] = NULL;
    jpeg_mem_src(&jpeg->cinfo, source->data, source->size);
}

leat_status leat_jpeg_header(struct leat_jpeg *jpeg, const struct leat_source *source, struct leat_error *err)
{
    const struct leat_image_info *info = &source->info;
    if (info->process != LEAT_JPEG_DCT)
        return leat_fail(err, LEAT_UNSUPPORTED, "%s JPEG is not decoded",
                         info->process == LEAT_JPEG_LOSSLESS ? "lossless" : "hierarchical");
    if (info->bits != 8)
        return leat_fail(err, LEAT_UNSUPPORTED, "JPEG of %u bits per sample is not decoded: only 8 are", info->bits);
    jpeg_read_header(&jpeg->cinfo, TRUE);
    if (jpeg->cinfo.arith_code)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "JPEG with arithmetic coding is not decoded; write it with Huffman coding");
    if (jpeg->cinfo.image_width != source->info.width || jpeg->cinfo.image_height != source->info.height)
        return leat_fail(err, LEAT_CORRUPT, "JPEG with two frame headers that disagree");
    return LEAT_OK;
}

leat_status leat_jpeg_fail(struct leat_jpeg *jpeg, struct leat_error *err)
{
    if (jpeg->status == LEAT_NO_MEMORY || (jpeg->status == LEAT_LIMIT && jpeg->memory.arena->full))
        leat_arena_fail(jpeg->memory.arena, err);
    else
        leat_fail(err, jpeg->status, "JPEG: %s", jpeg->text);
    jpeg_abort_decompress(&jpeg->cinfo);
    return jpeg->status;
}

leat_status leat_jpeg_check_damage(struct leat_jpeg *jpeg, enum leat_damage damage, struct leat_error *err)
{
    if (!jpeg->damaged || damage == LEAT_DAMAGE_ROWS)
        return LEAT_OK;
    return leat_fail(err, LEAT_CORRUPT, "damaged JPEG: %s", jpeg->text);
}
