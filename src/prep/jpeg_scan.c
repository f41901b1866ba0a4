#include "prep/jpeg_scan.h"

#include <string.h>

#include "prep/jpeg_state.h"

#define EOB_RUN   64 /* ends a block: no coefficient lies so far ahead */
#define DUMP      64 /* where coefficients beyond the last one go */
#define BLOCK     80
#define ORDER_MAX 128

#define ENTRY(code, extra, run)                                                                                        \
    ((uint32_t)((code) + (extra)) | (uint32_t)(code) << 8 | (uint32_t)(extra) << 16 | (uint32_t)(run) << 20)

/* From the order in the file to the place in the block. */
static const uint8_t order[ORDER_MAX] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
};

static bool table_sound(const JHUFF_TBL *t)
{
    unsigned values = 0;
    unsigned code = 0;
    if (!t)
        return false;
    for (int length = 1; length <= 16; length++) {
        code = 2 * code + t->bits[length];
        values += t->bits[length];
        if (code > 1u << length)
            return false;
    }
    return values <= 256;
}

bool leat_scan_suits(const struct jpeg_decompress_struct *cinfo)
{
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8 ||
        cinfo->comps_in_scan != cinfo->num_components || cinfo->num_components > 3)
        return false;
    /* A single component's blocks are not grouped, whatever its factors say. */
    const jpeg_component_info *c = cinfo->comp_info;
    if (cinfo->num_components == 1 && (c->h_samp_factor != 1 || c->v_samp_factor != 1))
        return false;
    for (int i = 0; i < cinfo->num_components; i++) {
        c = cinfo->cur_comp_info[i];
        if (c != &cinfo->comp_info[i] || c->quant_tbl_no < 0 || c->quant_tbl_no >= NUM_QUANT_TBLS ||
            !cinfo->quant_tbl_ptrs[c->quant_tbl_no] || c->dc_tbl_no < 0 || c->dc_tbl_no >= NUM_HUFF_TBLS ||
            c->ac_tbl_no < 0 || c->ac_tbl_no >= NUM_HUFF_TBLS || !table_sound(cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no]) ||
            !table_sound(cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no]))
            return false;
    }
    return true;
}

static uint32_t entry_of(unsigned length, uint8_t value, bool ac)
{
    unsigned extra = value & 15;
    if (!ac)
        return ENTRY(length, extra, 0);
    if (value == 0)
        return ENTRY(length, 0, EOB_RUN);
    return ENTRY(length, extra, value >> 4);
}

static void make_table(struct leat_scan_table *t, const JHUFF_TBL *from, bool ac)
{
    if (t->made && t->ac == ac && memcmp(t->made_of.bits, from->bits, sizeof from->bits) == 0 &&
        memcmp(t->made_of.huffval, from->huffval, sizeof from->huffval) == 0)
        return;
    memset(t->entry, 0, sizeof t->entry);
    unsigned code = 0;
    unsigned place = 0;
    for (unsigned length = 1; length <= 16; length++) {
        t->offset[length] = (int32_t)place - (int32_t)code;
        for (unsigned i = 0; i < from->bits[length]; i++, code++, place++) {
            if (length > LEAT_SCAN_BITS)
                continue;
            unsigned free_bits = LEAT_SCAN_BITS - length;
            uint32_t e = entry_of(length, from->huffval[place], ac);
            for (unsigned j = 0; j < 1u << free_bits; j++)
                t->entry[(code << free_bits) + j] = e;
        }
        t->limit[length] = from->bits[length] ? (uint64_t)code << (16 - length) : 0;
        code <<= 1;
    }
    t->made_of = *from;
    t->ac = ac;
    t->made = true;
}

void leat_scan_begin(struct leat_scan *s, const struct jpeg_decompress_struct *cinfo,
                     const struct leat_kernels *kernels, uint32_t first, uint32_t last)
{
    s->cinfo = cinfo;
    s->kernels = kernels;
    s->at = cinfo->src->next_input_byte;
    s->end = s->at + cinfo->src->bytes_in_buffer;
    s->bits = 0;
    s->count = 0;
    s->padding = 0;
    s->restart_left = cinfo->restart_interval;
    s->restart_next = 0;
    s->first = first;
    s->last = last;
    s->damage = NULL;
    s->mcus =
        (cinfo->image_width + (uint32_t)cinfo->max_h_samp_factor * 8 - 1) / ((uint32_t)cinfo->max_h_samp_factor * 8);
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *c = &cinfo->comp_info[i];
        s->last_dc[i] = 0;
        make_table(&s->dc[c->dc_tbl_no], cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no], false);
        make_table(&s->ac[c->ac_tbl_no], cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no], true);
        /* libjpeg keeps them in the block's order. */
        memset(s->quant[i], 0, sizeof s->quant[i]);
        for (int k = 0; k < 64; k++)
            s->quant[i][k] = cinfo->quant_tbl_ptrs[c->quant_tbl_no]->quantval[order[k]];
    }
}

/* The reader's state while a row is decoded: kept in registers. */
struct bits {
    uint64_t bits;
    int count;
    const uint8_t *at;
};

/* Byte by byte: where an 0xff comes, and at the end. A marker stays where it is, and zeros follow. */
static __attribute__((noinline)) struct bits refill_slowly(struct leat_scan *s, struct bits b)
{
    b.bits &= b.count > 0 ? ~(uint64_t)0 << (64 - b.count) : 0;
    while (b.count <= 56) {
        uint64_t byte = 0;
        if (b.at < s->end && *b.at != 0xff)
            byte = *b.at++;
        else if (s->end - b.at >= 2 && b.at[1] == 0) {
            byte = 0xff;
            b.at += 2;
        } else {
            s->padding += 8;
        }
        b.bits |= byte << (56 - b.count);
        b.count += 8;
    }
    return b;
}

static inline __attribute__((always_inline)) void refill(struct leat_scan *s, struct bits *b)
{
    if (s->end - b->at >= 8) {
        uint64_t x;
        memcpy(&x, b->at, 8);
        /* No byte is 0xff: none of the complement is 0. */
        if (!((~x - 0x0101010101010101u) & x & 0x8080808080808080u)) {
            unsigned bytes = (unsigned)(63 - b->count) >> 3;
            b->bits |= __builtin_bswap64(x) >> b->count;
            b->at += bytes;
            b->count += (int)(8 * bytes);
            return;
        }
    }
    *b = refill_slowly(s, *b);
}

static __attribute__((noinline)) uint32_t long_code(struct leat_scan *s, const struct leat_scan_table *t, uint64_t bits)
{
    uint64_t code = bits >> 48;
    for (unsigned length = LEAT_SCAN_BITS + 1; length <= 16; length++) {
        if (code < t->limit[length])
            return entry_of(length, t->made_of.huffval[(uint8_t)((int32_t)(code >> (16 - length)) + t->offset[length])],
                            t->ac);
    }
    s->damage = "a code that no table has";
    return ENTRY(16, 0, EOB_RUN);
}

/* The extra bits behind a code are a number with its sign folded in: below half, it is negative. */
static inline __attribute__((always_inline)) int extra_value(uint64_t bits, uint32_t e)
{
    uint64_t t = bits << (e >> 8 & 31);
    unsigned extra = e >> 16 & 15;
    int raw = (int)(t >> 1 >> (63 - extra));
    int below = (int)(~t >> 63);
    return raw - (((1 << extra) - 1) & -below);
}

/* Decodes one block; with values it is written, dequantised. Returns where in the file's order it ended: 66 where
 * there was nothing but the first coefficient. */
static inline __attribute__((always_inline)) unsigned block(struct leat_scan *s, struct bits *b, int component,
                                                            const struct leat_scan_table *dc,
                                                            const struct leat_scan_table *ac, int16_t *values)
{
    const uint16_t *quant = s->quant[component];
    if (b->count < 32)
        refill(s, b);
    uint32_t e = dc->entry[b->bits >> (64 - LEAT_SCAN_BITS)];
    if (__builtin_expect(e == 0, 0))
        e = long_code(s, dc, b->bits);
    s->last_dc[component] += (uint32_t)extra_value(b->bits, e);
    b->bits <<= e & 63;
    b->count -= (int)(e & 63);
    if (values)
        values[0] = (int16_t)(s->last_dc[component] * quant[0]);
    unsigned k = 1;
    do {
        if (b->count < 32)
            refill(s, b);
        e = ac->entry[b->bits >> (64 - LEAT_SCAN_BITS)];
        if (__builtin_expect(e == 0, 0))
            e = long_code(s, ac, b->bits);
        k += e >> 20;
        if (values)
            values[order[k]] = (int16_t)(extra_value(b->bits, e) * quant[k]);
        b->bits <<= e & 63;
        b->count -= (int)(e & 63);
        k++;
    } while (k < 64);
    return k;
}

static void transform(const struct leat_scan *s, unsigned size, const int16_t *values, bool flat, uint8_t *to,
                      size_t stride)
{
    if (size == 8 && !flat) {
        s->kernels->idct(values, to, stride);
        return;
    }
    if (!flat && size > 1) {
        leat_idct_reduced(values, size, to, stride);
        return;
    }
    int v = ((values[0] + 4) >> 3) + 128;
    for (unsigned y = 0; y < size; y++)
        memset(to + stride * y, v < 0 ? 0 : v > 255 ? 255 : v, size);
}

static void mcu_wanted(struct leat_scan *s, struct bits *b, const struct leat_jpeg_planes *planes, uint32_t mcu)
{
    int16_t values[BLOCK] __attribute__((aligned(64)));
    for (int i = 0; i < s->cinfo->num_components; i++) {
        const jpeg_component_info *c = &s->cinfo->comp_info[i];
        const struct leat_scan_table *dc = &s->dc[c->dc_tbl_no];
        const struct leat_scan_table *ac = &s->ac[c->ac_tbl_no];
        if (i >= (int)planes->count) {
            for (int n = 0; n < c->h_samp_factor * c->v_samp_factor; n++)
                block(s, b, i, dc, ac, NULL);
            continue;
        }
        const struct leat_jpeg_plane *p = &planes->plane[i];
        unsigned size = p->columns / (unsigned)c->h_samp_factor;
        for (int y = 0; y < c->v_samp_factor; y++) {
            uint8_t *to = leat_jpeg_plane_row(p, planes->step * p->rows + (uint32_t)y * size, mcu * p->columns);
            for (int x = 0; x < c->h_samp_factor; x++) {
                memset(values, 0, 64 * sizeof *values);
                unsigned k = block(s, b, i, dc, ac, values);
                transform(s, size, values, k == EOB_RUN + 2, to + (size_t)x * size, p->stride);
            }
        }
    }
}

static void mcu_skipped(struct leat_scan *s, struct bits *b)
{
    for (int i = 0; i < s->cinfo->num_components; i++) {
        const jpeg_component_info *c = &s->cinfo->comp_info[i];
        for (int n = 0; n < c->h_samp_factor * c->v_samp_factor; n++)
            block(s, b, i, &s->dc[c->dc_tbl_no], &s->ac[c->ac_tbl_no], NULL);
    }
}

/* What is missing is grey. */
static void mcu_missing(const struct leat_jpeg_planes *planes, uint32_t mcu)
{
    for (unsigned i = 0; i < planes->count; i++) {
        const struct leat_jpeg_plane *p = &planes->plane[i];
        for (uint32_t y = 0; y < p->rows; y++)
            memset(leat_jpeg_plane_row(p, planes->step * p->rows + y, mcu * p->columns), 128, p->columns);
    }
}

static void restart(struct leat_scan *s, struct bits *b)
{
    if (s->end - b->at < 2 || b->at[0] != 0xff || b->at[1] != 0xd0 + s->restart_next) {
        s->damage = "a restart marker is missing";
        return;
    }
    *b = (struct bits){.at = b->at + 2};
    s->padding = 0;
    s->restart_next = (s->restart_next + 1) % 8;
    s->restart_left = s->cinfo->restart_interval;
    memset(s->last_dc, 0, sizeof s->last_dc);
}

void leat_scan_row(struct leat_scan *s, const struct leat_jpeg_planes *planes, bool wanted)
{
    struct bits b = {s->bits, s->count, s->at};
    for (uint32_t mcu = 0; mcu < s->mcus; mcu++) {
        bool inside = wanted && mcu >= s->first && mcu <= s->last;
        if (s->cinfo->restart_interval && s->restart_left-- == 0 && !s->damage) {
            restart(s, &b);
            s->restart_left--;
        }
        if (!s->damage && inside)
            mcu_wanted(s, &b, planes, mcu);
        else if (!s->damage)
            mcu_skipped(s, &b);
        if (b.count < s->padding)
            s->damage = s->damage ? s->damage : "the data ends too early";
        if (s->damage && inside)
            mcu_missing(planes, mcu);
    }
    s->bits = b.bits;
    s->count = b.count;
    s->at = b.at;
}
