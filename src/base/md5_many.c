/* MD5 of many messages side by side. One message is a chain of dependent steps, which leaves most of a processor idle;
 * sixteen of them fill its vectors: 4 to 5 times the rate of one after the other. */
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define LANES 16

typedef uint32_t words __attribute__((vector_size(4 * LANES)));

static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

struct lane {
    const uint8_t *at;  /* the next block */
    size_t blocks;      /* left at `at` */
    uint8_t tail[128];  /* the message's end, with what MD5 puts after it … */
    size_t tail_blocks; /* … 1 or 2; 0: it is under way, or done */
    uint8_t *out;       /* NULL: the lane is idle */
};

struct lanes {
    words state[4];
    struct lane lane[LANES];
};

#define ROTATE(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define STEP(f, a, b, c, d, word, i, n)                                                                                \
    do {                                                                                                               \
        a += (f) + m[word] + sines[i];                                                                                 \
        a = b + ROTATE(a, n);                                                                                          \
    } while (0)
#define FOUR(f1, f2, f3, f4, w1, w2, w3, w4, i, n1, n2, n3, n4)                                                        \
    STEP(f1, a, b, c, d, w1, i, n1);                                                                                   \
    STEP(f2, d, a, b, c, w2, (i) + 1, n2);                                                                             \
    STEP(f3, c, d, a, b, w3, (i) + 2, n3);                                                                             \
    STEP(f4, b, c, d, a, w4, (i) + 3, n4)

#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))
#define ROUND(f, i, w1, w2, w3, w4, n1, n2, n3, n4)                                                                    \
    FOUR(f(b, c, d), f(a, b, c), f(d, a, b), f(c, d, a), w1, w2, w3, w4, i, n1, n2, n3, n4)

/* n blocks of every lane. */
static inline __attribute__((always_inline)) void run_blocks(struct lanes *l, size_t n)
{
    const uint8_t *at[LANES];
    for (int k = 0; k < LANES; k++)
        at[k] = l->lane[k].at;
    for (; n; n--) {
        words a = l->state[0];
        words b = l->state[1];
        words c = l->state[2];
        words d = l->state[3];
        words m[16];
        for (int k = 0; k < LANES; k++) {
            uint32_t block[16];
            memcpy(block, at[k], sizeof block);
            for (int w = 0; w < 16; w++)
                m[w][k] = block[w];
            at[k] += 64;
        }
        for (int i = 0; i < 16; i += 4) {
            ROUND(F, i, i, i + 1, i + 2, i + 3, 7, 12, 17, 22);
        }
        for (int i = 0; i < 16; i += 4) {
            ROUND(G, i + 16, (5 * i + 1) % 16, (5 * i + 6) % 16, (5 * i + 11) % 16, (5 * i + 16) % 16, 5, 9, 14, 20);
        }
        for (int i = 0; i < 16; i += 4) {
            ROUND(H, i + 32, (3 * i + 5) % 16, (3 * i + 8) % 16, (3 * i + 11) % 16, (3 * i + 14) % 16, 4, 11, 16, 23);
        }
        for (int i = 0; i < 16; i += 4) {
            ROUND(I, i + 48, (7 * i) % 16, (7 * i + 7) % 16, (7 * i + 14) % 16, (7 * i + 21) % 16, 6, 10, 15, 21);
        }
        l->state[0] += a;
        l->state[1] += b;
        l->state[2] += c;
        l->state[3] += d;
    }
}

#ifdef __clang__
#define FASTER /* it unrolls by itself */
#else
#define FASTER __attribute__((optimize("O3,unroll-loops")))
#endif

__attribute__((target("avx2"))) FASTER static void run_avx2(struct lanes *l, size_t n)
{
    run_blocks(l, n);
}

__attribute__((target("avx512f,avx512vl"))) FASTER static void run_avx512(struct lanes *l, size_t n)
{
    run_blocks(l, n);
}

static void put_word(struct lanes *l, int k, int word, uint32_t value)
{
    ((uint32_t *)&l->state[word])[k] = value;
}

static void begin(struct lanes *l, int k, const struct leat_md5_input *m)
{
    struct lane *lane = &l->lane[k];
    size_t rest = m->n % 64;
    lane->at = m->data;
    lane->blocks = m->n / 64;
    lane->tail_blocks = rest < 56 ? 1 : 2;
    memset(lane->tail, 0, sizeof lane->tail);
    if (rest)
        memcpy(lane->tail, (const uint8_t *)m->data + m->n - rest, rest);
    lane->tail[rest] = 0x80;
    leat_put_u64(lane->tail + 64 * lane->tail_blocks - 8, (uint64_t)m->n * 8);
    lane->out = m->out;
    put_word(l, k, 0, 0x67452301);
    put_word(l, k, 1, 0xefcdab89);
    put_word(l, k, 2, 0x98badcfe);
    put_word(l, k, 3, 0x10325476);
}

/* What comes after the lane's blocks: its tail, its digest, another message. True: the lane has blocks again. */
static bool go_on(struct lanes *l, int k, const struct leat_md5_input **next, const struct leat_md5_input *end)
{
    struct lane *lane = &l->lane[k];
    while (lane->blocks == 0) {
        if (lane->tail_blocks) {
            lane->at = lane->tail;
            lane->blocks = lane->tail_blocks;
            lane->tail_blocks = 0;
            return true;
        }
        for (int w = 0; lane->out && w < 4; w++)
            leat_put_u32(lane->out + 4 * w, ((uint32_t *)&l->state[w])[k]);
        lane->out = NULL;
        if (*next == end)
            return false;
        begin(l, k, (*next)++);
    }
    return true;
}

static void run_lanes(const struct leat_md5_input *inputs, size_t n, void (*run)(struct lanes *l, size_t blocks))
{
    static const uint8_t nothing[64];
    struct lanes l;
    const struct leat_md5_input *next = inputs;
    memset(&l, 0, sizeof l);
    for (;;) {
        size_t blocks = SIZE_MAX;
        bool busy = false;
        for (int k = 0; k < LANES; k++) {
            if (!go_on(&l, k, &next, inputs + n))
                continue;
            busy = true;
            blocks = l.lane[k].blocks < blocks ? l.lane[k].blocks : blocks;
        }
        if (!busy)
            return;
        bool idle = false;
        for (int k = 0; k < LANES; k++) {
            if (!l.lane[k].out) {
                l.lane[k].at = nothing;
                idle = true;
            }
        }
        if (idle)
            blocks = 1; /* an idle lane has one block to look at */
        run(&l, blocks);
        for (int k = 0; k < LANES; k++) {
            if (!l.lane[k].out)
                continue;
            l.lane[k].at += 64 * blocks;
            l.lane[k].blocks -= blocks;
        }
    }
}
#endif

void leat_md5_many(const struct leat_md5_input *inputs, size_t n)
{
#if defined(LANES)
    /* With few messages most lanes would be idle. */
    if (n >= LANES / 2 && __builtin_cpu_supports("avx512vl")) {
        run_lanes(inputs, n, run_avx512);
        return;
    }
    if (n >= LANES / 2 && __builtin_cpu_supports("avx2")) {
        run_lanes(inputs, n, run_avx2);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++)
        leat_md5(inputs[i].data, inputs[i].n, inputs[i].out);
}
