#include "prep/jpeg_scans.h"

#include <string.h>

#include "prep/jpeg_bits.h"
#include "prep/jpeg_state.h"

/* What a scan's header says. */
struct pass {
    unsigned count; /* of components */
    unsigned component[3];
    unsigned dc[3]; /* their tables */
    unsigned ac;
    unsigned first; /* coefficients, in the file's order */
    unsigned last;
    unsigned high; /* bits known before; 0: none */
    unsigned low;  /* that are still missing afterwards */
};

/* Coefficient k, counted from the top: so the file's next bit is the highest of those that wait for one. */
#define PLACE(k) ((uint64_t)1 << (63 - (k)))

/* While a scan is decoded. */
struct run {
    struct leat_scans *s;
    const struct pass *pass;
    struct leat_bits b;
    uint32_t last_dc[3]; /* wraps where a file is made to make it */
    uint32_t ends;       /* blocks still to come without a new coefficient */
    unsigned restart_left;
    unsigned restart_next;
    bool bad;
};

static void make_table(struct leat_scans_table *t, const JHUFF_TBL *from, bool ac)
{
    t->there = ac ? leat_jpeg_codes_sound(from) : leat_jpeg_codes_first_sound(from);
    if (!t->there)
        return;
    memset(t->look, 0, sizeof t->look);
    memcpy(t->values, from->huffval, sizeof t->values);
    unsigned code = 0;
    unsigned place = 0;
    for (unsigned length = 1; length <= 16; length++) {
        t->offset[length] = (int32_t)place - (int32_t)code;
        for (unsigned i = 0; i < from->bits[length]; i++, code++, place++) {
            if (length > LEAT_SCANS_BITS)
                continue;
            unsigned free_bits = LEAT_SCANS_BITS - length;
            for (unsigned j = code << free_bits; j < (code + 1) << free_bits; j++)
                t->look[j] = (uint16_t)(length << 8 | from->huffval[place]);
        }
        t->limit[length] = from->bits[length] ? code << (16 - length) : 0;
        code <<= 1;
    }
}

static inline __attribute__((always_inline)) void take(struct leat_bits *b, unsigned n)
{
    b->bits <<= n;
    b->count -= n;
}

/* At least 32 bits: a code and all that follows it. */
static inline __attribute__((always_inline)) void top_up(struct run *r)
{
    if (LEAT_BITS_COUNT(&r->b) < 32)
        leat_bits_refill(&r->s->from, &r->b);
}

/* As in the table of short ones. */
static __attribute__((noinline)) unsigned long_code(const struct leat_scans_table *t, uint64_t bits)
{
    uint32_t code = (uint32_t)(bits >> 48);
    for (unsigned length = LEAT_SCANS_BITS + 1; length <= 16; length++) {
        if (code < t->limit[length])
            return length << 8 | t->values[(uint8_t)((int32_t)(code >> (16 - length)) + t->offset[length])];
    }
    return 0;
}

static inline __attribute__((always_inline)) unsigned symbol(struct run *r, const struct leat_scans_table *t)
{
    top_up(r);
    unsigned e = t->look[r->b.bits >> (64 - LEAT_SCANS_BITS)];
    if (__builtin_expect(e == 0, 0)) {
        e = long_code(t, r->b.bits);
        r->bad |= e == 0;
    }
    take(&r->b, e >> 8);
    return e & 255;
}

/* How many blocks end here when a symbol of no bits says so. */
static inline __attribute__((always_inline)) uint32_t ends_of(struct run *r, unsigned run)
{
    uint32_t more = (uint32_t)(r->b.bits >> 1 >> (63 - run));
    take(&r->b, run);
    return (1u << run) + more;
}

static inline __attribute__((always_inline)) int16_t *values_of(const struct leat_scans_plane *p, uint32_t x,
                                                                uint32_t y)
{
    if (!p->values || x < p->left || x >= p->right || y < p->top || y >= p->bottom)
        return NULL;
    return p->values + ((size_t)(y - p->top) * (p->right - p->left) + (x - p->left)) * 64;
}

static inline __attribute__((always_inline)) void dc_block(struct run *r, unsigned i, int16_t *values)
{
    if (r->pass->high) {
        top_up(r);
        if (values)
            values[0] |= (int16_t)((r->b.bits >> 63) << r->pass->low);
        take(&r->b, 1);
        return;
    }
    unsigned extra = symbol(r, &r->s->dc[r->pass->dc[i]]);
    if (extra > 15) {
        r->bad = true;
        return;
    }
    r->last_dc[i] += (uint32_t)leat_bits_signed(r->b.bits, extra);
    take(&r->b, extra);
    if (values)
        values[0] = (int16_t)(r->last_dc[i] << r->pass->low);
}

static __attribute__((noinline)) void overrun(struct run *r)
{
    r->s->damage =
        r->bad ? r->s->damage : LEAT_SCAN_OVERRUN; /* what follows a code that does not exist means nothing */
    r->bad = true;
}

static inline __attribute__((always_inline)) void ac_first(struct run *r, const struct leat_scans_table *t,
                                                           int16_t *values, uint64_t *has)
{
    if (r->ends) {
        r->ends--;
        return;
    }
    for (unsigned k = r->pass->first; k <= r->pass->last; k++) {
        unsigned e = symbol(r, t);
        unsigned extra = e & 15;
        k += e >> 4;
        if (extra == 0 && e >> 4 < 15) {
            r->ends = ends_of(r, e >> 4) - 1;
            return;
        }
        if (k > r->pass->last) {
            overrun(r);
            return;
        }
        if (extra == 0)
            continue;
        int v = leat_bits_signed(r->b.bits, extra);
        take(&r->b, extra);
        *has |= PLACE(k);
        if (values)
            values[leat_jpeg_order[k]] = (int16_t)((uint32_t)v << r->pass->low);
    }
}

/* The lowest bits of `bits` go to the places that are set in `to`. `deposits`: the processor has this, and is quick at
 * it. */
static inline __attribute__((always_inline)) uint64_t deposit(uint64_t bits, uint64_t to, bool deposits)
{
    uint64_t out = 0;
#if defined(__x86_64__)
    if (deposits) { /* as an intrinsic it could not be part of a function that both levels share */
        __asm__("pdep %2, %1, %0" : "=r"(out) : "r"(bits), "r"(to));
        return out;
    }
#endif
    for (; to; to &= to - 1, bits >>= 1)
        out |= bits & 1 ? to & -to : 0;
    return out;
}

/* One bit of the file for each coefficient in `which`, up to 32: those whose bit is set. */
static inline __attribute__((always_inline)) uint64_t marked(struct run *r, uint64_t which, bool deposits)
{
    unsigned n = (unsigned)__builtin_popcountll(which);
    top_up(r);
    uint64_t bits = r->b.bits >> 1 >> (63 - n);
    take(&r->b, n);
    return deposit(bits, which, deposits);
}

static inline __attribute__((always_inline)) uint64_t corrections(struct run *r, uint64_t which, bool deposits)
{
    if (__builtin_popcountll(which) <= 32)
        return marked(r, which, deposits);
    uint64_t upper = marked(r, which & ~(uint64_t)0 << 32, deposits);
    return upper | marked(r, which & ~(uint64_t)0 >> 32, deposits);
}

/* Those coefficients grow by one at this scan's bit. */
static inline __attribute__((always_inline)) void grow(int16_t *values, uint64_t which, unsigned low)
{
    int one = 1 << low;
    while (which) {
        unsigned k = (unsigned)__builtin_clzll(which);
        int16_t *v = &values[leat_jpeg_order[k]];
        which &= ~PLACE(k);
        /* A coefficient that has the bit already was made by somebody who wants to see what happens. */
        if (!(*v & one))
            *v = (int16_t)(*v + (*v < 0 ? -one : one));
    }
}

/* The place of the zero after `run` others; `end` when there is none. `zeros` are those of the band still to come. */
static inline __attribute__((always_inline)) unsigned zero_behind(uint64_t zeros, unsigned run, unsigned end,
                                                                  bool deposits)
{
    if (!deposits) {
        while (run-- && zeros)
            zeros &= ~PLACE(__builtin_clzll(zeros));
        return zeros ? (unsigned)__builtin_clzll(zeros) : end;
    }
    unsigned n = (unsigned)__builtin_popcountll(zeros);
    return run < n ? (unsigned)__builtin_clzll(deposit((uint64_t)1 << (n - 1 - run), zeros, deposits)) : end;
}

/* Places from … to - 1. */
static inline __attribute__((always_inline)) uint64_t places(unsigned from, unsigned to)
{
    return from >= to ? 0 : ~(uint64_t)0 >> from & ~(uint64_t)0 << (64 - to);
}

static inline __attribute__((always_inline)) void ac_refine(struct run *r, const struct leat_scans_table *t,
                                                            int16_t *values, uint64_t *has, bool deposits)
{
    unsigned k = r->pass->first;
    unsigned end = r->pass->last + 1;
    const uint64_t before = *has; /* what this scan adds is not corrected by it */
    uint64_t grows = 0;
    while (!r->ends && k < end) {
        unsigned e = symbol(r, t);
        unsigned run = e >> 4;
        bool adds = e & 15;
        bool positive = r->b.bits >> 63;
        if (!adds && run < 15) {
            r->ends = ends_of(r, run);
            break;
        }
        take(&r->b, adds);
        unsigned at = zero_behind(~before & places(k, end), run, end, deposits);
        grows |= corrections(r, before & places(k, at), deposits);
        r->bad |= (e & 15) > 1; /* wider than a bit */
        if (adds && at == end)
            overrun(r);
        if (r->bad)
            return;
        if (adds) {
            *has |= PLACE(at);
            if (values)
                values[leat_jpeg_order[at]] = (int16_t)(positive ? 1 << r->pass->low : -(1 << r->pass->low));
        }
        k = at + 1;
    }
    if (r->ends) {
        grows |= corrections(r, before & places(k, end), deposits);
        r->ends--;
    }
    if (values)
        grow(values, grows, r->pass->low);
}

/* Before every MCU: a restart where one is due, and whether what was read before it was there. */
static inline __attribute__((always_inline)) void before_mcu(struct run *r)
{
    struct leat_scans *s = r->s;
    if (LEAT_BITS_COUNT(&r->b) < s->from.padding)
        r->bad = true;
    if (!s->restart_interval || r->restart_left-- > 0)
        return;
    r->bad |= !leat_bits_restart(&s->from, &r->b, r->restart_next);
    r->restart_next = (r->restart_next + 1) % 8;
    r->restart_left = s->restart_interval - 1;
    r->ends = 0;
    memset(r->last_dc, 0, sizeof r->last_dc);
}

/* A scan of one component: its own blocks, one by one. */
static inline __attribute__((always_inline)) void blocks(struct run *run, unsigned kind, bool deposits)
{
    const struct pass pass = *run->pass;
    const struct leat_scans_plane *p = &run->s->plane[pass.component[0]];
    const struct leat_scans_table *t = &run->s->ac[pass.ac];
    struct run r = *run; /* nobody else sees it: it can stay in registers */
    r.pass = &pass;
    for (uint32_t y = 0; y < p->height && !r.bad; y++) {
        for (uint32_t x = 0; x < p->width && !r.bad; x++) {
            int16_t *values = values_of(p, x, y);
            uint64_t *has = &p->has[(size_t)p->across * y + x];
            before_mcu(&r);
            if (kind == 0)
                dc_block(&r, 0, values);
            else if (kind == 1)
                ac_first(&r, t, values, has);
            else
                ac_refine(&r, t, values, has, deposits);
        }
    }
    r.pass = run->pass;
    *run = r;
}

/* First coefficients of several components, grouped. */
static void groups(struct run *r)
{
    const jpeg_component_info *c = r->s->cinfo->comp_info;
    uint32_t across = r->s->plane[0].across / (uint32_t)c[0].h_samp_factor;
    uint32_t down = r->s->plane[0].down / (uint32_t)c[0].v_samp_factor;
    for (uint32_t y = 0; y < down && !r->bad; y++) {
        for (uint32_t x = 0; x < across && !r->bad; x++) {
            before_mcu(r);
            for (unsigned i = 0; i < r->pass->count; i++) {
                unsigned which = r->pass->component[i];
                uint32_t h = (uint32_t)c[which].h_samp_factor;
                uint32_t v = (uint32_t)c[which].v_samp_factor;
                for (uint32_t n = 0; n < h * v; n++)
                    dc_block(r, i, values_of(&r->s->plane[which], x * h + n % h, y * v + n / h));
            }
        }
    }
}

static inline __attribute__((always_inline)) void decode_any(struct run *r, bool deposits)
{
    if (r->pass->count > 1)
        groups(r);
    else if (r->pass->first == 0)
        blocks(r, 0, deposits);
    else if (r->pass->high == 0)
        blocks(r, 1, deposits);
    else
        blocks(r, 2, deposits);
}

#if defined(__x86_64__)
/* Counting, finding and shifting by a variable amount are what this code does most. */
static __attribute__((target("bmi,bmi2,popcnt,avx2"))) void decode_bmi2(struct run *r)
{
    /* These take hundreds of cycles to deposit bits: one by one is faster. */
    if (__builtin_cpu_is("znver1") || __builtin_cpu_is("znver2"))
        decode_any(r, false);
    else
        decode_any(r, true);
}
#endif

static bool decode(struct leat_scans *s, const struct pass *pass)
{
    struct run r = {.s = s, .pass = pass, .b = {.at = s->at}, .restart_left = s->restart_interval};
    s->from.padding = 0;
#if defined(__x86_64__)
    if (s->kernels != &leat_kernels_scalar)
        decode_bmi2(&r);
    else
#endif
        decode_any(&r, false);
    s->at = r.b.at;
    return !r.bad && LEAT_BITS_COUNT(&r.b) >= s->from.padding;
}

/* The next marker's code and its body; false at the end of the data. */
static bool next_marker(struct leat_scans *s, uint8_t *code, const uint8_t **body, size_t *n)
{
    do {
        *code = leat_bits_marker(s->at, s->from.end, &s->at);
        if (*code == 0)
            return false;
    } while (*code >= 0xd0 && *code <= 0xd7);
    *n = 0;
    if (*code == 0xd9)
        return true;
    if (s->from.end - s->at < 2)
        return false;
    size_t length = (size_t)s->at[0] << 8 | s->at[1];
    if (length < 2 || (size_t)(s->from.end - s->at) < length)
        return false;
    *body = s->at + 2;
    *n = length - 2;
    s->at += length;
    return true;
}

static bool take_tables(struct leat_scans *s, const uint8_t *body, size_t n)
{
    while (n >= 17) {
        JHUFF_TBL t = {0};
        unsigned count = 0;
        unsigned which = body[0];
        for (unsigned i = 1; i <= 16; i++)
            count += t.bits[i] = body[i];
        body += 17;
        n -= 17;
        if (count > n || count > 256 || which & ~0x10u & ~(NUM_HUFF_TBLS - 1u))
            return false;
        memcpy(t.huffval, body, count);
        make_table(which & 0x10 ? &s->ac[which & 3] : &s->dc[which & 3], &t, which & 0x10);
        body += count;
        n -= count;
    }
    return n == 0;
}

/* A band of one component must bring just the bits that are due. */
static bool follows(struct leat_scans_plane *p, const struct pass *pass)
{
    if (pass->first && p->bits_left[0] < 0)
        return false;
    for (unsigned k = pass->first; k <= pass->last; k++) {
        if (pass->high ? p->bits_left[k] != (int)pass->high : p->bits_left[k] >= 0)
            return false;
        p->bits_left[k] = (int8_t)pass->low;
    }
    return true;
}

static bool check_pass(struct leat_scans *s, const struct pass *p)
{
    if (p->count < 1 || p->last > 63 || p->first > p->last || p->low > 13 || (p->high && p->low != p->high - 1))
        return false;
    if (p->ac >= NUM_HUFF_TBLS || (p->first ? p->count != 1 || !s->ac[p->ac].there : p->last != 0))
        return false;
    for (unsigned i = 0; i < p->count; i++) {
        if (p->dc[i] >= NUM_HUFF_TBLS)
            return false;
        if ((!p->first && !p->high && !s->dc[p->dc[i]].there) || !follows(&s->plane[p->component[i]], p))
            return false;
    }
    return true;
}

static bool take_pass(struct leat_scans *s, const uint8_t *body, size_t n, struct pass *p)
{
    *p = (struct pass){.count = n ? body[0] : 0};
    if (p->count > s->components || n != 4 + 2 * (size_t)p->count)
        return false;
    for (unsigned i = 0; i < p->count; i++) {
        unsigned which = 0;
        while (which < s->components && s->cinfo->comp_info[which].component_id != body[1 + 2 * i])
            which++;
        /* libjpeg wants them in the frame's order too. */
        if (which == s->components || (i && which <= p->component[i - 1]))
            return false;
        p->component[i] = which;
        p->dc[i] = body[2 + 2 * i] >> 4;
        p->ac = body[2 + 2 * i] & 15;
    }
    body += 1 + 2 * (size_t)p->count;
    p->first = body[0];
    p->last = body[1];
    p->high = body[2] >> 4;
    p->low = body[2] & 15;
    return check_pass(s, p);
}

/* The first scan's header was read by libjpeg. */
static bool first_pass(struct leat_scans *s, struct pass *p)
{
    const struct jpeg_decompress_struct *cinfo = s->cinfo;
    *p = (struct pass){.count = (unsigned)cinfo->comps_in_scan};
    for (unsigned i = 0; i < p->count; i++) {
        const jpeg_component_info *c = cinfo->cur_comp_info[i];
        p->component[i] = (unsigned)c->component_index;
        p->dc[i] = (unsigned)c->dc_tbl_no;
        p->ac = (unsigned)c->ac_tbl_no;
    }
    p->first = (unsigned)cinfo->Ss;
    p->last = (unsigned)cinfo->Se;
    p->high = (unsigned)cinfo->Ah;
    p->low = (unsigned)cinfo->Al;
    return check_pass(s, p);
}

/* Nobody wants these coefficients, and no other depends on them. */
static bool unwanted(const struct leat_scans *s, const struct pass *p)
{
    return p->first && !s->plane[p->component[0]].values;
}

static bool complete(const struct leat_scans *s)
{
    for (unsigned i = 0; i < s->components; i++) {
        for (unsigned k = 0; k < 64; k++) {
            if (s->plane[i].bits_left[k] != 0) /* libjpeg smooths such a picture */
                return false;
        }
    }
    return true;
}

static bool all_passes(struct leat_scans *s, uint32_t scans_max)
{
    struct pass pass;
    const uint8_t *body = NULL;
    uint8_t code;
    size_t n;
    bool scan = first_pass(s, &pass);
    if (!scan)
        return false;
    for (uint32_t scans = 0;;) {
        if (scan && (++scans > scans_max || (!unwanted(s, &pass) && !decode(s, &pass))))
            return false;
        if (!next_marker(s, &code, &body, &n))
            return false;
        scan = code == 0xda;
        if (code == 0xd9)
            return complete(s);
        if (scan && !take_pass(s, body, n, &pass))
            return false;
        if (code == 0xc4 && !take_tables(s, body, n))
            return false;
        if (code == 0xdd && n == 2)
            s->restart_interval = (unsigned)body[0] << 8 | body[1];
        /* Comments and the like may stand anywhere; all else is rare between scans. */
        else if (!scan && code != 0xc4 && code != 0xfe && !(code >= 0xe0 && code <= 0xef))
            return false;
    }
}

static bool suits(const struct jpeg_decompress_struct *cinfo)
{
    if (!cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8 || cinfo->num_components > 3 ||
        cinfo->comps_in_scan > 3 || !leat_jpeg_mcu_legal(cinfo))
        return false;
    const jpeg_component_info *c = cinfo->comp_info;
    /* A single component's blocks are not grouped, whatever its factors say. */
    if (cinfo->num_components == 1 && (c->h_samp_factor != 1 || c->v_samp_factor != 1))
        return false;
    for (int i = 0; i < cinfo->num_components; i++, c++) {
        if (c->component_index != i || c->quant_tbl_no < 0 || c->quant_tbl_no >= NUM_QUANT_TBLS ||
            !cinfo->quant_tbl_ptrs[c->quant_tbl_no])
            return false;
        for (int k = 0; k < i; k++) {
            if (cinfo->comp_info[k].component_id == c->component_id)
                return false;
        }
    }
    return true;
}

/* Sets the component's grid up; the bytes its memory takes. */
static uint64_t lay_out(const struct leat_scans *s, unsigned i, bool wanted, const struct leat_jpeg_planes *planes,
                        uint32_t first, uint32_t last, struct leat_scans_plane *p)
{
    const struct jpeg_decompress_struct *cinfo = s->cinfo;
    const jpeg_component_info *c = &cinfo->comp_info[i];
    uint32_t h = (uint32_t)c->h_samp_factor;
    uint32_t v = (uint32_t)c->v_samp_factor;
    uint32_t unit_x = (uint32_t)cinfo->max_h_samp_factor * DCTSIZE;
    uint32_t unit_y = (uint32_t)cinfo->max_v_samp_factor * DCTSIZE;
    p->across = (cinfo->image_width + unit_x - 1) / unit_x * h;
    p->down = (cinfo->image_height + unit_y - 1) / unit_y * v;
    p->width = (uint32_t)(((uint64_t)cinfo->image_width * h + unit_x - 1) / unit_x);
    p->height = (uint32_t)(((uint64_t)cinfo->image_height * v + unit_y - 1) / unit_y);
    p->left = first * h;
    p->right = (last + 1) * h;
    p->top = planes->step_first * v;
    p->bottom = (planes->step_last + 1) * v;
    memset(p->bits_left, -1, sizeof p->bits_left);
    uint64_t boxed = wanted ? (uint64_t)(p->right - p->left) * (p->bottom - p->top) : 0;
    return (uint64_t)p->across * p->down * sizeof *p->has + boxed * 64 * sizeof *p->values;
}

/* Jumps when there is none. */
static void *take_clear(struct leat_scans *s, size_t bytes)
{
    j_common_ptr common = (j_common_ptr)s->cinfo;
    return memset(common->mem->alloc_large(common, JPOOL_IMAGE, bytes), 0, bytes);
}

static bool take_memory(struct leat_scans *s, const struct leat_arena *arena, const struct leat_jpeg_planes *planes,
                        uint32_t first, uint32_t last)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < s->components; i++)
        bytes += lay_out(s, i, i < planes->count, planes, first, last, &s->plane[i]);
    /* Room must be left for libjpeg, should it have to do all of it again. */
    if (bytes > (arena->max - arena->used) / 4)
        return false;
    for (unsigned i = 0; i < s->components; i++) {
        struct leat_scans_plane *p = &s->plane[i];
        size_t has = (size_t)p->across * p->down * sizeof *p->has;
        size_t values = (size_t)(p->right - p->left) * (p->bottom - p->top) * 64 * sizeof *p->values;
        p->has = take_clear(s, has);
        p->values = i < planes->count ? take_clear(s, values) : NULL;
    }
    return true;
}

bool leat_scans_read(struct leat_scans *scans, struct jpeg_decompress_struct *cinfo, const struct leat_arena *arena,
                     const struct leat_kernels *kernels, uint32_t scans_max, const struct leat_jpeg_planes *planes,
                     uint32_t first, uint32_t last)
{
    scans->damage = NULL;
    if (!suits(cinfo))
        return false;
    scans->cinfo = cinfo;
    scans->kernels = kernels;
    scans->at = cinfo->src->next_input_byte;
    scans->from = (struct leat_bit_source){.end = scans->at + cinfo->src->bytes_in_buffer};
    scans->components = (unsigned)cinfo->num_components;
    scans->restart_interval = cinfo->restart_interval;
    if (!take_memory(scans, arena, planes, first, last))
        return false;
    for (int i = 0; i < NUM_HUFF_TBLS; i++) {
        make_table(&scans->dc[i], cinfo->dc_huff_tbl_ptrs[i], false);
        make_table(&scans->ac[i], cinfo->ac_huff_tbl_ptrs[i], true);
    }
    return all_passes(scans, scans_max);
}

void leat_scans_row(const struct leat_scans *scans, const struct leat_jpeg_planes *planes)
{
    for (unsigned i = 0; i < planes->count; i++) {
        const struct leat_scans_plane *from = &scans->plane[i];
        const jpeg_component_info *c = &scans->cinfo->comp_info[i];
        const uint16_t *quant = scans->cinfo->quant_tbl_ptrs[c->quant_tbl_no]->quantval;
        const struct leat_jpeg_plane *p = &planes->plane[i];
        unsigned size = p->columns / (unsigned)c->h_samp_factor;
        for (uint32_t v = 0; v < (uint32_t)c->v_samp_factor; v++) {
            uint32_t y = planes->step * (uint32_t)c->v_samp_factor + v;
            uint8_t *to = leat_jpeg_plane_row(p, planes->step * p->rows + v * size, from->left * size);
            for (uint32_t x = from->left; x < from->right; x++, to += size)
                leat_block_transform(scans->kernels, size, values_of(from, x, y), quant,
                                     from->has[(size_t)from->across * y + x] == 0, to, p->stride);
        }
    }
}
