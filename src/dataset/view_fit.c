#include "dataset/view_fit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE   UINT32_MAX
#define LEVELS 4 /* 64 to the 4th are more than any block has tokens */

struct leat_fitter {
    uint32_t room;
    /* Open blocks by the tokens that are free in them: a stack for each number, and a tree of bits that says which
     * stacks are not empty. */
    uint32_t *top;
    uint64_t *bits[LEVELS];
    uint32_t *first; /* documents by the length of their last part: room + 1 counts */

    /* Of the last packing; each has `cap` elements. */
    uint32_t *sizes; /* of the documents, in tokens */
    uint32_t n;
    uint32_t cap;
    uint32_t *order;    /* documents with a last part that fills no block, the longest part first */
    uint32_t *block_of; /* by document: the block its last part went to, as they were opened */
    uint32_t *below;    /* by block: the next one of its stack */
    uint32_t *number;   /* by block: what it is called in the end */
    uint32_t opened;
    uint32_t blocks;
    uint32_t parts;
};

leat_status leat_fitter_open(uint32_t room, struct leat_fitter **out, struct leat_error *err)
{
    struct leat_fitter *f = calloc(1, sizeof *f);
    size_t n = (size_t)room + 1;
    bool ok = f != NULL;
    if (ok) {
        f->room = room;
        f->top = malloc(n * sizeof *f->top);
        f->first = calloc(n + 1, sizeof *f->first);
        ok = f->top && f->first;
    }
    for (int l = 0; ok && l < LEVELS; l++) {
        n = n / 64 + 1;
        f->bits[l] = calloc(n, sizeof **f->bits);
        ok = f->bits[l] != NULL;
    }
    if (!ok) {
        leat_fitter_close(f);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to pack documents into blocks of %u tokens", room);
    }
    memset(f->top, 0xff, ((size_t)room + 1) * sizeof *f->top);
    *out = f;
    return LEAT_OK;
}

void leat_fitter_close(struct leat_fitter *f)
{
    if (!f)
        return;
    for (int l = 0; l < LEVELS; l++)
        free(f->bits[l]);
    free(f->top);
    free(f->first);
    free(f->sizes);
    free(f->order);
    free(f->block_of);
    free(f->below);
    free(f->number);
    free(f);
}

/* The open blocks */

static void push(struct leat_fitter *f, uint32_t spare, uint32_t block)
{
    f->below[block] = f->top[spare];
    f->top[spare] = block;
    for (int l = 0; l < LEVELS; l++, spare /= 64)
        f->bits[l][spare / 64] |= 1ull << spare % 64;
}

static uint32_t pop(struct leat_fitter *f, uint32_t spare)
{
    uint32_t block = f->top[spare];
    f->top[spare] = f->below[block];
    if (f->top[spare] != NONE)
        return block;
    for (int l = 0; l < LEVELS; l++, spare /= 64) {
        f->bits[l][spare / 64] &= ~(1ull << spare % 64);
        if (f->bits[l][spare / 64])
            break;
    }
    return block;
}

/* The smallest number, at least `spare`, of which there is an open block; NONE. */
static uint32_t least(const struct leat_fitter *f, uint32_t spare)
{
    uint64_t at = spare;
    uint64_t end = f->room;
    int l = 0;
    for (;; l++, at = at / 64 + 1, end /= 64) { /* up, until something lies to the right */
        if (l == LEVELS || at > end)
            return NONE;
        uint64_t word = f->bits[l][at / 64] >> at % 64;
        if (word) {
            at += (uint64_t)__builtin_ctzll(word);
            break;
        }
    }
    while (l-- > 0) /* and down again, to the left */
        at = at * 64 + (uint64_t)__builtin_ctzll(f->bits[l][at]);
    return (uint32_t)at;
}

/* Packing */

static leat_status reserve(struct leat_fitter *f, uint32_t n, struct leat_error *err)
{
    uint32_t **arrays[] = {&f->sizes, &f->order, &f->block_of, &f->below, &f->number};
    if (n <= f->cap)
        return LEAT_OK;
    f->cap = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        uint32_t *more = realloc(*arrays[i], (size_t)n * sizeof *more);
        if (!more)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory to pack %u documents", n);
        *arrays[i] = more;
    }
    f->cap = n;
    return LEAT_OK;
}

/* Puts documents whose last part does not fill a block into f->order: the longest part first, then as they come. */
static uint32_t sort(struct leat_fitter *f)
{
    uint32_t rests = 0;
    memset(f->first, 0, ((size_t)f->room + 1) * sizeof *f->first);
    for (uint32_t i = 0; i < f->n; i++)
        f->first[f->sizes[i] % f->room]++;
    f->first[0] = 0; /* nothing is left of those */
    for (uint32_t size = f->room; size-- > 1;) {
        uint32_t n = f->first[size];
        f->first[size] = rests;
        rests += n;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t rest = f->sizes[i] % f->room;
        if (rest)
            f->order[f->first[rest]++] = i;
    }
    return rests;
}

static void place(struct leat_fitter *f, uint32_t rests)
{
    f->opened = 0;
    for (uint32_t i = 0; i < rests; i++) {
        uint32_t document = f->order[i];
        uint32_t size = f->sizes[document] % f->room;
        uint32_t spare = least(f, size);
        uint32_t block = spare == NONE ? f->opened++ : pop(f, spare);
        spare = (spare == NONE ? f->room : spare) - size;
        f->block_of[document] = block;
        if (spare)
            push(f, spare, block);
    }
    for (uint32_t spare = least(f, 1); spare != NONE; spare = least(f, spare))
        pop(f, spare); /* for the next packing */
}

static uint32_t parts_of(const struct leat_fitter *f, uint32_t document)
{
    return f->sizes[document] / f->room + (f->sizes[document] % f->room > 0);
}

leat_status leat_fitter_pack(struct leat_fitter *f, const uint32_t *tokens, uint32_t n, struct leat_error *err)
{
    leat_status rc = reserve(f, n ? n : 1, err);
    if (rc != LEAT_OK)
        return rc;
    f->n = n;
    if (n)
        memcpy(f->sizes, tokens, (size_t)n * sizeof *tokens);
    place(f, sort(f));
    f->parts = 0;
    f->blocks = f->opened;
    for (uint32_t i = 0; i < n; i++) {
        f->blocks += f->sizes[i] / f->room;
        f->parts += parts_of(f, i);
    }
    return LEAT_OK;
}

uint32_t leat_fitter_blocks(const struct leat_fitter *f)
{
    return f->blocks;
}

uint32_t leat_fitter_parts(const struct leat_fitter *f)
{
    return f->parts;
}

/* Says the number of each part's block, one part after the other. Blocks are numbered as their first parts come in the
 * chunk, and their parts stay in that order: so a reading without shuffling goes through the chunk about as it lies. */
static uint32_t number_of(const struct leat_fitter *f, uint32_t document, uint32_t part, uint32_t *next)
{
    if (part < f->sizes[document] / f->room)
        return (*next)++;
    uint32_t *number = &f->number[f->block_of[document]];
    if (*number == NONE)
        *number = (*next)++;
    return *number;
}

void leat_fitter_write(const struct leat_fitter *f, uint32_t *starts, struct leat_fit_part *parts)
{
    uint32_t next = 0;
    memset(starts, 0, ((size_t)f->blocks + 1) * sizeof *starts);
    memset(f->number, 0xff, (size_t)f->opened * sizeof *f->number);
    for (uint32_t i = 0; i < f->n; i++) {
        for (uint32_t p = 0; p < parts_of(f, i); p++)
            starts[number_of(f, i, p, &next) + 1]++;
    }
    for (uint32_t b = 0; b < f->blocks; b++)
        starts[b + 1] += starts[b];
    memset(f->number, 0xff, (size_t)f->opened * sizeof *f->number);
    next = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        for (uint32_t p = 0; p < parts_of(f, i); p++)
            parts[starts[number_of(f, i, p, &next)]++] = (struct leat_fit_part){i, p};
    }
    memmove(starts + 1, starts, (size_t)f->blocks * sizeof *starts); /* each is where the next one begins */
    starts[0] = 0;
}
