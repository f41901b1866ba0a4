#include "prep/jpeg_scan.h"

#include <string.h>

#include "prep/jpeg_bits.h"
#include "prep/jpeg_state.h"

#define BLOCK 80 /* after the 64 there is room for what a broken file puts there */

bool leat_scan_suits(const struct jpeg_decompress_struct *cinfo)
{
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8 ||
        cinfo->comps_in_scan != cinfo->num_components || cinfo->num_components > 3 || !leat_jpeg_mcu_legal(cinfo))
        return false;
    /* A single component's blocks are not grouped, whatever its factors say. */
    const jpeg_component_info *c = cinfo->comp_info;
    if (cinfo->num_components == 1 && (c->h_samp_factor != 1 || c->v_samp_factor != 1))
        return false;
    for (int i = 0; i < cinfo->num_components; i++) {
        c = cinfo->cur_comp_info[i];
        if (c != &cinfo->comp_info[i] || c->quant_tbl_no < 0 || c->quant_tbl_no >= NUM_QUANT_TBLS ||
            !cinfo->quant_tbl_ptrs[c->quant_tbl_no] || c->dc_tbl_no < 0 || c->dc_tbl_no >= NUM_HUFF_TBLS ||
            c->ac_tbl_no < 0 || c->ac_tbl_no >= NUM_HUFF_TBLS ||
            !leat_jpeg_codes_first_sound(cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no]) ||
            !leat_jpeg_codes_sound(cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no]))
            return false;
    }
    return true;
}

void leat_scan_begin(struct leat_scan *s, const struct jpeg_decompress_struct *cinfo,
                     const struct leat_kernels *kernels, uint32_t first, uint32_t last)
{
    s->cinfo = cinfo;
    s->kernels = kernels;
    const uint8_t *at = cinfo->src->next_input_byte;
    leat_jpeg_stream_begin(&s->stream, at, at + cinfo->src->bytes_in_buffer, &s->reader);
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
        leat_jpeg_first_codes_make(&s->dc[c->dc_tbl_no], cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no]);
        leat_jpeg_codes_make(&s->ac[c->ac_tbl_no], cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no]);
        s->quant[i] = cinfo->quant_tbl_ptrs[c->quant_tbl_no]->quantval;
    }
}

static inline __attribute__((always_inline)) void take(struct leat_jpeg_reader *b, uint32_t e)
{
    b->bits <<= e & 63;
    b->count -= e;
}

static __attribute__((noinline)) unsigned long_first(struct leat_scan *s, const struct leat_jpeg_first_codes *t,
                                                     uint64_t bits)
{
    unsigned length = 16;
    uint8_t extra = 0;
    if (!leat_jpeg_codes_find(&t->rest, bits, &length, &extra))
        s->damage = "a code that no table has";
    return (length + extra) | (unsigned)extra << 8;
}

static inline __attribute__((always_inline)) int16_t first(struct leat_scan *s, struct leat_jpeg_reader *b,
                                                           int component, const struct leat_jpeg_first_codes *t)
{
    leat_jpeg_stream_check(&s->stream, b);
    leat_jpeg_refill(b);
    unsigned e = t->look[b->bits >> (64 - LEAT_CODES_FIRST_BITS)];
    if (__builtin_expect(e == 0, 0))
        e = long_first(s, t, b->bits);
    s->last_dc[component] += (uint32_t)leat_bits_signed(b->bits << ((e & 63) - (e >> 8)), e >> 8);
    take(b, e);
    return (int16_t)s->last_dc[component];
}

/* One symbol where the table has none or too many. */
struct single {
    unsigned takes;
    unsigned run;
    unsigned far;
    int value;
};

static __attribute__((noinline)) struct single find_single(struct leat_scan *s, const struct leat_jpeg_codes *t,
                                                           uint64_t bits)
{
    unsigned length = 16;
    uint8_t symbol = 0;
    if (!leat_jpeg_codes_find(&t->rest, bits, &length, &symbol))
        s->damage = "a code that no table has";
    unsigned extra = symbol & 15;
    struct single one = {length + extra, symbol >> 4, (symbol >> 4) + 1, leat_bits_signed(bits << length, extra)};
    if (extra == 0 && symbol != 0xf0)
        one.far = LEAT_CODES_END + 1;
    return one;
}

/* The bits must have been topped up. */
static inline __attribute__((always_inline)) struct single single(struct leat_scan *s, const struct leat_jpeg_codes *t,
                                                                  uint64_t bits, uint32_t e)
{
    unsigned length = LEAT_CODES_LENGTH(e);
    if (LEAT_CODES_TAKES(e) != 0 || length == 0)
        return find_single(s, t, bits);
    unsigned extra = LEAT_CODES_EXTRA(e);
    return (struct single){length + extra, LEAT_CODES_RUN(e), LEAT_CODES_FAR(e),
                           leat_bits_signed(bits << length, extra)};
}

/* A block ends at its last place, or by the symbol that says so. */
static inline __attribute__((always_inline)) void check_end(struct leat_scan *s, unsigned k)
{
    if (__builtin_expect(k - 65 < LEAT_CODES_END - 64, 0))
        s->damage = LEAT_SCAN_OVERRUN;
}

/* Has an address computed once and kept: put together again for each look, it would lengthen the chain from one symbol
 * to the next, which is what the time goes into. */
#define KEEP(pointer) __asm__("" : "+r"(pointer))

/* One block into values; NULL: passed over. Returns where in the file's order it ended: END + 2 where there was only
 * the first one.
 *
 * Two symbols at a look. Both are written without asking whether there is a second: where there is none, it is a zero
 * in the place of the first, which is written after it. The look comes before bits are topped up, so that neither waits
 * for the other: at least 25 are there from the last time. */
static inline __attribute__((always_inline)) unsigned block(struct leat_scan *s, struct leat_jpeg_reader *b,
                                                            int component, const struct leat_jpeg_first_codes *dc,
                                                            const struct leat_jpeg_codes *ac, int16_t *values)
{
    int16_t dc_value = first(s, b, component, dc);
    if (values)
        values[0] = dc_value;
    const uint32_t *look = ac->look;
    KEEP(look);
    unsigned k = 1;
    do {
        uint32_t e = look[b->bits >> (64 - LEAT_CODES_BITS)];
        leat_jpeg_refill(b);
        unsigned place = k + LEAT_CODES_RUN(e);
        /* Not where the first ends the block: the second is not of this one. */
        if (__builtin_expect(LEAT_CODES_TAKES(e) != 0 && place < 63, 1)) {
            k += LEAT_CODES_FAR(e);
            if (values) {
                values[leat_jpeg_order[k - 1]] = (int16_t)LEAT_CODES_SECOND(e);
                values[leat_jpeg_order[place]] = (int16_t)LEAT_CODES_VALUE(e);
            }
            take(b, e);
        } else {
            struct single one = single(s, ac, b->bits, e);
            if (values)
                values[leat_jpeg_order[k + one.run]] = (int16_t)one.value;
            take(b, one.takes);
            k += one.far;
        }
    } while (k < 64);
    check_end(s, k);
    return k;
}

/* memset() of this size becomes a string instruction, which costs as much as a quarter of a block. */
static inline __attribute__((always_inline)) void clear(int16_t *values)
{
    typedef int16_t part __attribute__((vector_size(16), may_alias));
    for (unsigned i = 0; i < 8; i++)
        ((part *)values)[i] = (part){0};
}

static inline __attribute__((always_inline)) void mcu_wanted(struct leat_scan *s, struct leat_jpeg_reader *b,
                                                             const struct leat_jpeg_planes *planes, uint32_t mcu)
{
    int16_t values[BLOCK] __attribute__((aligned(64)));
    for (int i = 0; i < s->cinfo->num_components; i++) {
        const jpeg_component_info *c = &s->cinfo->comp_info[i];
        const struct leat_jpeg_first_codes *dc = &s->dc[c->dc_tbl_no];
        const struct leat_jpeg_codes *ac = &s->ac[c->ac_tbl_no];
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
                clear(values);
                unsigned k = block(s, b, i, dc, ac, values);
                leat_block_transform(s->kernels, size, values, s->quant[i], k == LEAT_CODES_END + 2,
                                     to + (size_t)x * size, p->stride);
            }
        }
    }
}

static inline __attribute__((always_inline)) void mcu_skipped(struct leat_scan *s, struct leat_jpeg_reader *b)
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

/* The reader is in s: its address taken, a local one would not stay in registers. */
static __attribute__((noinline)) void restart(struct leat_scan *s)
{
    if (!leat_jpeg_stream_restart(&s->stream, &s->reader, s->restart_next)) {
        s->damage = "a restart marker is missing";
        return;
    }
    s->restart_next = (s->restart_next + 1) % 8;
    s->restart_left = s->cinfo->restart_interval;
    memset(s->last_dc, 0, sizeof s->last_dc);
}

static inline __attribute__((always_inline)) void scan_row(struct leat_scan *s, const struct leat_jpeg_planes *planes,
                                                           bool wanted)
{
    struct leat_jpeg_reader b = s->reader;
    for (uint32_t mcu = 0; mcu < s->mcus; mcu++) {
        bool inside = wanted && mcu >= s->first && mcu <= s->last;
        if (s->cinfo->restart_interval && s->restart_left-- == 0 && !s->damage) {
            s->reader = b;
            restart(s);
            b = s->reader;
            s->restart_left--;
        }
        if (!s->damage && inside)
            mcu_wanted(s, &b, planes, mcu);
        else if (!s->damage)
            mcu_skipped(s, &b);
        if (leat_jpeg_stream_over(&s->stream, &b))
            s->damage = s->damage ? s->damage : "the data ends too early";
        if (s->damage && inside)
            mcu_missing(planes, mcu);
    }
    s->reader = b;
}

#if defined(__x86_64__)
/* Shifts by a variable amount are what this code does most; BMI2 has them in one step. */
static __attribute__((target("bmi2,avx2"))) void scan_row_bmi2(struct leat_scan *s,
                                                               const struct leat_jpeg_planes *planes, bool wanted)
{
    scan_row(s, planes, wanted);
}
#endif

void leat_scan_row(struct leat_scan *s, const struct leat_jpeg_planes *planes, bool wanted)
{
#if defined(__x86_64__)
    if (s->kernels != &leat_kernels_scalar) {
        scan_row_bmi2(s, planes, wanted);
        return;
    }
#endif
    scan_row(s, planes, wanted);
}
