#include "prep/jpeg_scan.h"

#include <string.h>

#include "prep/jpeg_bits.h"
#include "prep/jpeg_state.h"

#define BLOCK 80 /* after the 64 there is room for what a broken file puts there */

#define PARTIAL 0x8000u /* the extra bits are not in sight */

bool leat_scan_table_sound(const JHUFF_TBL *t)
{
    unsigned values = 0;
    unsigned code = 0;
    if (!t)
        return false;
    for (int length = 1; length <= 16; length++) {
        code = 2 * code + t->bits[length];
        values += t->bits[length];
        /* A code of ones alone does not exist. */
        if (code >= 1u << length)
            return false;
    }
    return values <= 256;
}

bool leat_scan_first_sound(const JHUFF_TBL *t)
{
    unsigned values = 0;
    if (!leat_scan_table_sound(t))
        return false;
    for (int length = 1; length <= 16; length++)
        values += t->bits[length];
    for (unsigned i = 0; i < values; i++) {
        if (t->huffval[i] > 15)
            return false;
    }
    return true;
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
            c->ac_tbl_no < 0 || c->ac_tbl_no >= NUM_HUFF_TBLS ||
            !leat_scan_first_sound(cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no]) ||
            !leat_scan_table_sound(cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no]))
            return false;
    }
    return true;
}

/* The entry of a code of `length` bits, when `in_sight` bits, left-aligned in `bits`, are known. */
static uint32_t entry_of(unsigned length, uint8_t value, bool ac, uint64_t bits, unsigned in_sight)
{
    unsigned extra = value & 15;
    /* Nothing follows a symbol without a coefficient, but for the one that stands for sixteen zeros. */
    unsigned run = !ac ? 0 : extra == 0 && value != 0xf0 ? LEAT_JPEG_END : value >> 4;
    uint32_t e = (length + extra) | run << 8;
    if (length + extra <= in_sight)
        return e | (uint32_t)leat_bits_signed(bits << length, extra) << 16;
    return e | PARTIAL | length << 16 | extra << 24;
}

/* Adds up symbols while they are in sight. */
static uint32_t jump_of(const struct leat_scan_table *t, unsigned window)
{
    unsigned bits = 0;
    unsigned far = 0;
    while (bits < LEAT_SCAN_BITS) {
        uint32_t e = t->entry[window << bits & ((1u << LEAT_SCAN_BITS) - 1)];
        unsigned run = e >> 8 & 127;
        /* What is shifted in after the window is not known: an entry that needs it does not count. */
        if (e & PARTIAL || (e & 255) > LEAT_SCAN_BITS - bits || far + run > 255 - LEAT_JPEG_END)
            break;
        bits += e & 255;
        if (run == LEAT_JPEG_END)
            return bits | (far + 1) << 8 | (far + LEAT_JPEG_END) << 16;
        far += run + 1;
    }
    return bits | far << 8 | far << 16;
}

/* All windows that begin with a code: those whose extra bits are in sight come in stretches of one value. */
static void fill_entries(struct leat_scan_table *t, unsigned code, unsigned length, uint8_t value, bool ac)
{
    unsigned free_bits = LEAT_SCAN_BITS - length;
    unsigned extra = value & 15;
    unsigned stretch = 1u << (extra <= free_bits ? free_bits - extra : free_bits);
    unsigned end = (code + 1) << free_bits;
    for (unsigned j = code << free_bits; j < end; j += stretch) {
        uint32_t e = entry_of(length, value, ac, (uint64_t)j << (64 - LEAT_SCAN_BITS), LEAT_SCAN_BITS);
        for (unsigned k = 0; k < stretch; k++)
            t->entry[j + k] = e;
    }
}

static void make_table(struct leat_scan_table *t, const JHUFF_TBL *from, bool ac)
{
    if (t->made && t->ac == ac && memcmp(t->made_of.bits, from->bits, sizeof from->bits) == 0 &&
        memcmp(t->made_of.huffval, from->huffval, sizeof from->huffval) == 0)
        return;
    for (unsigned i = 0; i < 1u << LEAT_SCAN_BITS; i++)
        t->entry[i] = PARTIAL;
    unsigned code = 0;
    unsigned place = 0;
    for (unsigned length = 1; length <= 16; length++) {
        t->offset[length] = (int32_t)place - (int32_t)code;
        for (unsigned i = 0; i < from->bits[length]; i++, code++, place++) {
            if (length <= LEAT_SCAN_BITS)
                fill_entries(t, code, length, from->huffval[place], ac);
        }
        t->limit[length] = from->bits[length] ? (uint64_t)code << (16 - length) : 0;
        code <<= 1;
    }
    for (unsigned i = 0; ac && i < 1u << LEAT_SCAN_BITS; i++)
        t->jump[i] = jump_of(t, i);
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
    s->from.end = s->at + cinfo->src->bytes_in_buffer;
    s->bits = 0;
    s->count = 0;
    s->from.padding = 0;
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
        s->quant[i] = cinfo->quant_tbl_ptrs[c->quant_tbl_no]->quantval;
    }
}

/* The rest of an entry whose extra bits, or whose code, were not in sight. */
static __attribute__((noinline)) uint32_t long_code(struct leat_scan *s, const struct leat_scan_table *t, uint64_t bits)
{
    uint64_t code = bits >> 48;
    for (unsigned length = LEAT_SCAN_BITS + 1; length <= 16; length++) {
        if (code < t->limit[length]) {
            uint8_t place = (uint8_t)((int32_t)(code >> (16 - length)) + t->offset[length]);
            return entry_of(length, t->made_of.huffval[place], t->ac, bits, 31);
        }
    }
    s->damage = "a code that no table has";
    return 16 | LEAT_JPEG_END << 8;
}

static inline __attribute__((always_inline)) uint32_t complete(struct leat_scan *s, const struct leat_scan_table *t,
                                                               uint64_t bits, uint32_t e)
{
    unsigned length = e >> 16 & 31;
    if (length == 0)
        return long_code(s, t, bits);
    return (e & 0x7fff) | (uint32_t)leat_bits_signed(bits << length, e >> 24 & 15) << 16;
}

static inline __attribute__((always_inline)) void take(struct leat_bits *b, uint32_t e)
{
    b->bits <<= e & 63;
    b->count -= e;
}

static inline __attribute__((always_inline)) uint32_t next_entry(struct leat_scan *s, struct leat_bits *b,
                                                                 const struct leat_scan_table *t)
{
    if (LEAT_BITS_COUNT(b) < 32)
        leat_bits_refill(&s->from, b);
    uint32_t e = t->entry[b->bits >> (64 - LEAT_SCAN_BITS)];
    if (__builtin_expect(e & PARTIAL, 0))
        e = complete(s, t, b->bits, e);
    take(b, e);
    return e;
}

/* A block ends at its last place, or by the symbol that says so. */
static inline __attribute__((always_inline)) void check_end(struct leat_scan *s, unsigned k)
{
    if (__builtin_expect(k - 65 < LEAT_JPEG_END - 64, 0))
        s->damage = LEAT_SCAN_OVERRUN;
}

/* One block into values. Returns where in the file's order it ended: END + 2 where there was only the first one. */
static inline __attribute__((always_inline)) unsigned block(struct leat_scan *s, struct leat_bits *b, int component,
                                                            const struct leat_scan_table *dc,
                                                            const struct leat_scan_table *ac, int16_t *values)
{
    s->last_dc[component] += (uint32_t)((int32_t)next_entry(s, b, dc) >> 16);
    values[0] = (int16_t)s->last_dc[component];
    unsigned k = 1;
    do {
        uint32_t e = next_entry(s, b, ac);
        k += e >> 8 & 127;
        values[leat_jpeg_order[k]] = (int16_t)(e >> 16);
        k++;
    } while (k < 64);
    check_end(s, k);
    return k;
}

/* The same without values: several symbols at a step while they cannot run over the end of the block. */
static inline __attribute__((always_inline)) void skip(struct leat_scan *s, struct leat_bits *b, int component,
                                                       const struct leat_scan_table *dc,
                                                       const struct leat_scan_table *ac)
{
    s->last_dc[component] += (uint32_t)((int32_t)next_entry(s, b, dc) >> 16);
    unsigned k = 1;
    do {
        if (LEAT_BITS_COUNT(b) < 32)
            leat_bits_refill(&s->from, b);
        uint32_t e = ac->jump[b->bits >> (64 - LEAT_SCAN_BITS)];
        if (__builtin_expect((e & 255) != 0 && k + (e >> 8 & 255) <= 64, 1)) {
            take(b, e);
            k += e >> 16;
        } else {
            k += (next_entry(s, b, ac) >> 8 & 127) + 1;
        }
    } while (k < 64);
    check_end(s, k);
}

/* memset() of this size becomes a string instruction, which costs as much as a quarter of a block. */
static inline __attribute__((always_inline)) void clear(int16_t *values)
{
    typedef int16_t part __attribute__((vector_size(16), may_alias));
    for (unsigned i = 0; i < 8; i++)
        ((part *)values)[i] = (part){0};
}

static inline __attribute__((always_inline)) void mcu_wanted(struct leat_scan *s, struct leat_bits *b,
                                                             const struct leat_jpeg_planes *planes, uint32_t mcu)
{
    int16_t values[BLOCK] __attribute__((aligned(64)));
    for (int i = 0; i < s->cinfo->num_components; i++) {
        const jpeg_component_info *c = &s->cinfo->comp_info[i];
        const struct leat_scan_table *dc = &s->dc[c->dc_tbl_no];
        const struct leat_scan_table *ac = &s->ac[c->ac_tbl_no];
        if (i >= (int)planes->count) {
            for (int n = 0; n < c->h_samp_factor * c->v_samp_factor; n++)
                skip(s, b, i, dc, ac);
            continue;
        }
        const struct leat_jpeg_plane *p = &planes->plane[i];
        unsigned size = p->columns / (unsigned)c->h_samp_factor;
        for (int y = 0; y < c->v_samp_factor; y++) {
            uint8_t *to = leat_jpeg_plane_row(p, planes->step * p->rows + (uint32_t)y * size, mcu * p->columns);
            for (int x = 0; x < c->h_samp_factor; x++) {
                clear(values);
                unsigned k = block(s, b, i, dc, ac, values);
                leat_block_transform(s->kernels, size, values, s->quant[i], k == LEAT_JPEG_END + 2,
                                     to + (size_t)x * size, p->stride);
            }
        }
    }
}

static inline __attribute__((always_inline)) void mcu_skipped(struct leat_scan *s, struct leat_bits *b)
{
    for (int i = 0; i < s->cinfo->num_components; i++) {
        const jpeg_component_info *c = &s->cinfo->comp_info[i];
        for (int n = 0; n < c->h_samp_factor * c->v_samp_factor; n++)
            skip(s, b, i, &s->dc[c->dc_tbl_no], &s->ac[c->ac_tbl_no]);
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

static void restart(struct leat_scan *s, struct leat_bits *b)
{
    if (!leat_bits_restart(&s->from, b, s->restart_next)) {
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
    struct leat_bits b = {s->bits, s->count, s->at};
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
        if (LEAT_BITS_COUNT(&b) < s->from.padding)
            s->damage = s->damage ? s->damage : "the data ends too early";
        if (s->damage && inside)
            mcu_missing(planes, mcu);
    }
    s->bits = b.bits;
    s->count = LEAT_BITS_COUNT(&b);
    s->at = b.at;
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
