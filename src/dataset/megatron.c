#include "dataset/megatron.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/tokens.h"

#define HEAD_BYTES   34u
#define WINDOW_BYTES (1u << 20)

/* One of the three tables, read from front to back. */
struct window {
    uint64_t at;  /* of the next number in the .idx */
    uint64_t end; /* of the table */
    uint8_t *data;
    size_t used;
    size_t n;
};

leat_status leat_megatron_open(const struct leat_megatron *m, struct leat_megatron_head *out, struct leat_error *err)
{
    uint8_t bytes[HEAD_BYTES];
    if (m->idx_bytes < HEAD_BYTES)
        return leat_fail(err, LEAT_CORRUPT, "it has %" PRIu64 " bytes, less than the header of an .idx", m->idx_bytes);
    leat_status rc = m->fetch(m->user, 0, bytes, sizeof bytes, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_reader r = leat_reader(bytes, sizeof bytes);
    const uint8_t *magic = leat_read_bytes(&r, 9);
    uint64_t version = leat_read_u64(&r);
    uint8_t code = leat_read_u8(&r);
    struct leat_megatron_head h = {.sequences = leat_read_u64(&r)};
    uint64_t borders = leat_read_u64(&r);
    if (memcmp(magic, "MMIDIDX\0", 9) != 0)
        return leat_fail(err, LEAT_CORRUPT, "it does not begin as an .idx of Megatron does (MMIDIDX)");
    if (version != 1)
        return leat_fail(err, LEAT_UNSUPPORTED, "it is of version %" PRIu64 "; 1 is known", version);
    h.dtype = code == 4 ? LEAT_I32 : code == 8 ? LEAT_U16 : 0;
    if (!h.dtype)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "its tokens are of the type with code %u; known are 4 (int32) and 8 (uint16)", code);
    /* Lengths first: what follows may then be added up without overflow. */
    if (h.sequences > m->idx_bytes / 12 || borders > m->idx_bytes / 8)
        return leat_fail(err, LEAT_CORRUPT,
                         "it says %" PRIu64 " sequences and %" PRIu64 " borders of documents, and has "
                         "%" PRIu64 " bytes",
                         h.sequences, borders, m->idx_bytes);
    uint64_t tables = HEAD_BYTES + 12 * h.sequences + 8 * borders;
    if (m->idx_bytes != tables && m->idx_bytes != tables + h.sequences)
        return leat_fail(err, LEAT_CORRUPT,
                         "it has %" PRIu64 " bytes and should have %" PRIu64 " for %" PRIu64 " sequences and %" PRIu64
                         " borders of documents",
                         m->idx_bytes, tables, h.sequences, borders);
    if (borders < 2)
        return leat_fail(err, LEAT_CORRUPT, "it has no documents");
    uint32_t token = leat_tokens_bytes(h.dtype);
    if (m->bin_bytes == 0 || m->bin_bytes % token)
        return leat_fail(err, LEAT_CORRUPT, "the .bin has %" PRIu64 " bytes; a token has %u", m->bin_bytes, token);
    h.documents = borders - 1;
    h.tokens = m->bin_bytes / token;
    *out = h;
    return LEAT_OK;
}

static leat_status next(const struct leat_megatron *m, struct window *w, size_t width, uint64_t *out,
                        struct leat_error *err)
{
    if (w->used == w->n) {
        uint64_t left = w->end - w->at;
        w->n = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        w->used = 0;
        leat_status rc = m->fetch(m->user, w->at, w->data, w->n, err);
        if (rc != LEAT_OK)
            return rc;
        w->at += w->n;
    }
    if (w->n - w->used < width) /* the tables' lengths are multiples of their numbers' */
        return leat_fail(err, LEAT_INTERNAL, "a table of an .idx ends within a number");
    *out = width == 4 ? leat_get_u32(w->data + w->used) : leat_get_u64(w->data + w->used);
    w->used += width;
    return LEAT_OK;
}

struct walk {
    const struct leat_megatron *m;
    const struct leat_megatron_head *head;
    struct window lengths;
    struct window places;
    struct window borders;
    uint64_t sequence; /* the next … */
    uint64_t token;    /* … and where it should begin */
};

static leat_status take_sequence(struct walk *w, struct leat_error *err)
{
    uint64_t bytes = leat_tokens_bytes(w->head->dtype);
    uint64_t length = 0;
    uint64_t place = 0;
    leat_status rc = next(w->m, &w->lengths, 4, &length, err);
    if (rc == LEAT_OK)
        rc = next(w->m, &w->places, 8, &place, err);
    if (rc != LEAT_OK)
        return rc;
    if (place != w->token * bytes)
        return leat_fail(err, LEAT_CORRUPT,
                         "sequence %" PRIu64 " begins at byte %" PRIu64 " of the .bin and not at %" PRIu64
                         ", where the one before it ends",
                         w->sequence, place, w->token * bytes);
    if (length > INT32_MAX || length > w->head->tokens - w->token)
        return leat_fail(err, LEAT_CORRUPT,
                         "sequence %" PRIu64 " has %" PRId32 " tokens from token %" PRIu64
                         " on, and the .bin has %" PRIu64,
                         w->sequence, (int32_t)length, w->token, w->head->tokens);
    w->token += length;
    w->sequence++;
    return LEAT_OK;
}

static leat_status take_documents(struct walk *w, leat_megatron_visit *visit, void *user, struct leat_error *err)
{
    uint64_t border;
    leat_status rc = next(w->m, &w->borders, 8, &border, err);
    if (rc == LEAT_OK && border != 0)
        rc = leat_fail(err, LEAT_CORRUPT, "the first document begins with sequence %" PRIu64 ", not 0", border);
    for (uint64_t d = 0; rc == LEAT_OK && d < w->head->documents; d++) {
        uint64_t begin = w->token;
        rc = next(w->m, &w->borders, 8, &border, err);
        if (rc == LEAT_OK && (border < w->sequence || border > w->head->sequences))
            rc = leat_fail(err, LEAT_CORRUPT,
                           "document %" PRIu64 " ends before sequence %" PRIu64 "; it begins with %" PRIu64
                           ", and there are %" PRIu64,
                           d, border, w->sequence, w->head->sequences);
        while (rc == LEAT_OK && w->sequence < border)
            rc = take_sequence(w, err);
        if (rc == LEAT_OK)
            rc = visit(user, begin, w->token, err);
    }
    if (rc == LEAT_OK && w->sequence != w->head->sequences)
        return leat_fail(err, LEAT_CORRUPT, "its documents end with sequence %" PRIu64 ", and there are %" PRIu64,
                         w->sequence, w->head->sequences);
    if (rc == LEAT_OK && w->token != w->head->tokens)
        return leat_fail(err, LEAT_CORRUPT, "its documents have %" PRIu64 " tokens, and the .bin has %" PRIu64,
                         w->token, w->head->tokens);
    return rc;
}

leat_status leat_megatron_each(const struct leat_megatron *m, const struct leat_megatron_head *head,
                               leat_megatron_visit *visit, void *user, struct leat_error *err)
{
    struct walk w = {.m = m, .head = head};
    uint64_t places = HEAD_BYTES + 4 * head->sequences;
    uint64_t borders = places + 8 * head->sequences;
    uint8_t *room = malloc((size_t)3 * WINDOW_BYTES);
    if (!room)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for reading an .idx");
    w.lengths = (struct window){.at = HEAD_BYTES, .end = places, .data = room};
    w.places = (struct window){.at = places, .end = borders, .data = room + WINDOW_BYTES};
    w.borders = (struct window){
        .at = borders, .end = borders + 8 * (head->documents + 1), .data = room + (size_t)2 * WINDOW_BYTES};
    leat_status rc = take_documents(&w, visit, user, err);
    free(room);
    return rc;
}
