#include "order/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define PAUSES 4 /* rounds at most in which slots with fewer chunks than others pause */

/* The j-th of a slot's n chunks comes in round floor((j·rounds + offset) / n): every round one, or as evenly
 * as it goes. Kept as a running quotient and remainder. */
struct slot {
    uint32_t *chunks; /* permuted, those still to come; into struct maker's table */
    uint32_t n;
    uint32_t left;
    uint32_t due; /* round of the next chunk */
    uint32_t due_rest;
    uint32_t hop;
    uint32_t hop_rest;
};

struct maker {
    const struct leat_order_spec *spec;
    uint64_t slots_key;
    uint64_t rounds_key;
    uint32_t slots_n;
    uint32_t rounds;
    struct slot *slots;
    uint32_t *table;    /* chunks, slot by slot */
    uint32_t *sequence; /* the slots of a round */
    uint32_t *merged;   /* scratch of arrange() */
    uint32_t *draws;    /* of a round, by node of the binary tree over the slots; the root is 1 */
};

/* The order in which a round visits its slots: low-discrepancy, so that a stretch of it draws evenly from any
 * run of slots, and freshly scrambled. Every node of the binary tree over the slots mixes the sequences of its
 * two halves in proportion to their lengths, beginning at a random point of the pattern. */

/* A subtree with all of its slots: its halves alternate and only which begins is random. Made by doubling:
 * each level's second half visits the other children. */
static void arrange_all(const struct maker *m, uint32_t node, uint32_t first, uint32_t size, uint32_t *slots)
{
    slots[0] = 0;
    for (uint32_t half = 1; half < size; half *= 2) {
        for (uint32_t i = 0; i < half; i++) {
            uint32_t begin = m->draws[node * half + slots[i]] >> 31;
            uint32_t child = 2 * slots[i];
            slots[i] = child + begin;
            slots[i + half] = child + 1 - begin;
        }
    }
    for (uint32_t i = 0; i < size; i++)
        slots[i] += first;
}

/* `slots` holds n slots of the subtree below `node`, ascending, and gets them in their order. The subtree spans
 * `size` slots from `first` on. */
static void arrange(const struct maker *m, uint32_t node, uint32_t first, uint32_t size, uint32_t *slots, uint32_t n)
{
    if (n < 2)
        return;
    if (n == size) {
        arrange_all(m, node, first, size, slots);
        return;
    }
    uint32_t left = 0; /* slots in the left half */
    while (left < n && slots[left] < first + size / 2)
        left++;
    uint32_t right = n - left;
    arrange(m, 2 * node, first, size / 2, slots, left);
    arrange(m, 2 * node + 1, first + size / 2, size / 2, slots + left, right);
    uint32_t sum = (uint32_t)(((uint64_t)m->draws[node] * n) >> 32);
    const uint32_t *l = slots;
    const uint32_t *r = slots + left;
    for (uint32_t i = 0; i < n; i++) {
        sum += right;
        m->merged[i] = sum >= n ? *r++ : *l++;
        sum -= sum >= n ? n : 0;
    }
    memcpy(slots, m->merged, n * sizeof *slots);
}

static void draw_round(const struct maker *m, uint64_t round)
{
    for (uint32_t i = 0; i < LEAT_ORDER_SLOTS_MAX / 4; i++)
        leat_random_block(m->rounds_key, round, i, m->draws + 4 * (size_t)i);
}

static void slot_start(struct slot *s, uint32_t rounds, uint32_t offset)
{
    s->left = s->n;
    if (s->n == 0)
        return;
    s->due = offset / s->n;
    s->due_rest = offset % s->n;
    s->hop = rounds / s->n;
    s->hop_rest = rounds % s->n;
}

static uint32_t slot_take(struct slot *s)
{
    s->left--;
    s->due += s->hop;
    s->due_rest += s->hop_rest;
    if (s->due_rest >= s->n) {
        s->due_rest -= s->n;
        s->due++;
    }
    return *s->chunks++;
}

/* Pauses are gathered in few rounds, so that nearly all rounds are whole; which slots pause in which of them is
 * drawn for the epoch, evenly over runs of slots. */
static void start_slots(struct maker *m)
{
    uint32_t pauses = m->rounds < PAUSES ? m->rounds : PAUSES;
    for (uint32_t s = 0; s < m->slots_n; s++)
        m->sequence[s] = s;
    draw_round(m, UINT64_MAX);
    arrange(m, 1, 0, LEAT_ORDER_SLOTS_MAX, m->sequence, m->slots_n);
    for (uint32_t i = 0; i < m->slots_n; i++) {
        uint64_t group = (uint64_t)i * pauses / m->slots_n;
        slot_start(&m->slots[m->sequence[i]], m->rounds, pauses ? (uint32_t)(group * m->rounds / pauses) : 0);
    }
}

static void fill_slots(struct maker *m)
{
    const struct leat_order_spec *spec = m->spec;
    const uint32_t mask = LEAT_ORDER_SLOTS_MAX - 1;
    uint32_t at[LEAT_ORDER_SLOTS_MAX] = {
        0}; /* by the low bits of a chunk's number: chunks, then a place in the table */
    uint32_t sum = 0;
    for (uint32_t c = 0; c < spec->chunks; c++)
        at[c & mask] += spec->counts[c] != 0;
    for (uint32_t low = 0; low < m->slots_n; low++) {
        struct slot *s = &m->slots[leat_order_slot_of(low, spec->chunks)];
        s->chunks = m->table + sum;
        s->n = at[low];
        at[low] = sum;
        sum += s->n;
        if (s->n > m->rounds)
            m->rounds = s->n;
    }
    for (uint32_t c = 0; c < spec->chunks; c++) {
        if (spec->counts[c])
            m->table[at[c & mask]++] = c;
    }
    for (uint32_t s = 0; s < m->slots_n; s++)
        leat_shuffle_u32(m->slots_key, s, m->slots[s].chunks, m->slots[s].n);
}

/* Returns the length of the list. */
static uint32_t make_list(struct maker *m, uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t round = 0; round < m->rounds; round++) {
        uint32_t active = 0;
        for (uint32_t s = 0; s < m->slots_n; s++) {
            m->sequence[active] = s;
            active += m->slots[s].due == round && m->slots[s].left;
        }
        draw_round(m, round);
        arrange(m, 1, 0, LEAT_ORDER_SLOTS_MAX, m->sequence, active);
        for (uint32_t i = 0; i < active; i++)
            list[n++] = slot_take(&m->slots[m->sequence[i]]);
    }
    return n;
}

leat_status leat_order_make_list(const struct leat_order_spec *spec, uint64_t slots_key, uint64_t rounds_key,
                                 uint32_t *list, uint32_t *n, struct leat_error *err)
{
    struct maker m = {.spec = spec, .slots_key = slots_key, .rounds_key = rounds_key};
    m.slots_n = leat_order_slots(spec->chunks);
    leat_status rc = LEAT_OK;
    m.slots = calloc((size_t)m.slots_n + 1, sizeof *m.slots);
    m.table = malloc(((size_t)spec->chunks + 1) * sizeof *m.table);
    m.sequence = malloc(LEAT_ORDER_SLOTS_MAX * sizeof *m.sequence);
    m.merged = malloc(LEAT_ORDER_SLOTS_MAX * sizeof *m.merged);
    m.draws = malloc(LEAT_ORDER_SLOTS_MAX * sizeof *m.draws);
    if (m.slots && m.table && m.sequence && m.merged && m.draws) {
        fill_slots(&m);
        start_slots(&m);
        *n = make_list(&m, list);
    } else {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the order of %u chunks", spec->chunks);
    }
    free(m.draws);
    free(m.merged);
    free(m.sequence);
    free(m.table);
    free(m.slots);
    return rc;
}
