/* Names of views, and the packing of documents. Blocks themselves are read by tests/py/test_tokens.py. */

#include "base/hash.h"
#include "base/random.h"
#include "dataset/view_fit.h"
#include "dataset/view_text.h"
#include "unit.h"

#define GOLDEN_BLOCKS 1440
#define GOLDEN_STARTS 0x1a8d20c8bfa39f73ull
#define GOLDEN_PARTS  0xb006dcc50c627d7full

static void assert_name(const char *text, const char *name)
{
    struct leat_view_text t;
    struct leat_error err;
    char out[LEAT_VIEW_NAME_MAX];
    assert_ok(leat_view_text_read(text, &t, &err), err);
    assert_ok(leat_view_text_write(&t, out, &err), err);
    assert_string_equal(out, name);
}

TEST(a_view_has_one_name)
{
    assert_name(NULL, "samples");
    assert_name("", "samples");
    assert_name(" samples ", "samples");
    assert_name("blocks=2048", "blocks=2048 shift=1");
    assert_name("shift=0 blocks=0008", "blocks=8 shift=0");
    assert_name("documents=cut  blocks=5", "blocks=5 shift=1");
    assert_name("field=a.b-c documents=fit blocks=5", "blocks=5 shift=1 documents=fit field=a.b-c");
}

TEST(a_name_too_long_for_states_is_refused)
{
    struct leat_view_text t;
    struct leat_error err;
    char out[LEAT_VIEW_NAME_MAX] = "as it was";
    assert_ok(leat_view_text_read("blocks=2048 documents=fit field=a_name_of_thirty_letters_and_more", &t, &err), err);
    assert_int_equal(leat_view_text_write(&t, out, &err), LEAT_LIMIT);
    assert_string_equal(out, "as it was");
}

/* Packing */

struct packed {
    uint32_t blocks;
    uint32_t parts;
    uint32_t *starts;
    struct leat_fit_part *list;
};

static struct packed pack(struct leat_fitter *f, const uint32_t *tokens, uint32_t n)
{
    struct leat_error err;
    assert_ok(leat_fitter_pack(f, tokens, n, &err), err);
    struct packed p = {.blocks = leat_fitter_blocks(f), .parts = leat_fitter_parts(f)};
    p.starts = malloc(((size_t)p.blocks + 1) * sizeof *p.starts);
    p.list = malloc(((size_t)p.parts + 1) * sizeof *p.list);
    assert_non_null(p.starts);
    assert_non_null(p.list);
    leat_fitter_write(f, p.starts, p.list);
    return p;
}

static void packed_free(struct packed *p)
{
    free(p->starts);
    free(p->list);
}

static uint32_t part_size(uint32_t room, const uint32_t *tokens, struct leat_fit_part part)
{
    uint32_t left = tokens[part.document] - part.part * room;
    return left < room ? left : room;
}

/* Every part once, none over the end of its block, blocks in the order of their first parts, parts in their own. */
static void assert_packed(uint32_t room, const uint32_t *tokens, uint32_t n, const struct packed *p)
{
    uint32_t *seen = calloc((size_t)n + 1, sizeof *seen);
    struct leat_fit_part before = {0};
    uint64_t sum = 0;
    assert_non_null(seen);
    assert_int_equal(p->starts[0], 0);
    assert_int_equal(p->starts[p->blocks], p->parts);
    for (uint32_t b = 0; b < p->blocks; b++) {
        uint64_t used = 0;
        assert_true(p->starts[b] < p->starts[b + 1]);
        struct leat_fit_part first = p->list[p->starts[b]];
        assert_true(b == 0 || first.document > before.document ||
                    (first.document == before.document && first.part > before.part));
        before = first;
        for (uint32_t i = p->starts[b]; i < p->starts[b + 1]; i++) {
            struct leat_fit_part part = p->list[i];
            assert_true(i == p->starts[b] || part.document > p->list[i - 1].document);
            assert_true(part.part * (uint64_t)room < tokens[part.document]);
            seen[part.document]++;
            used += part_size(room, tokens, part);
        }
        assert_true(used <= room);
        sum += used;
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], (tokens[i] + room - 1) / room);
        sum -= tokens[i];
    }
    assert_int_equal(sum, 0);
    free(seen);
}

TEST(documents_are_packed_once_and_within_their_blocks)
{
    static const uint32_t rooms[] = {1, 2, 63, 64, 65, 100, 2049, 4097, 300000};
    struct leat_error err;
    for (size_t r = 0; r < COUNT(rooms); r++) {
        struct leat_fitter *f;
        assert_ok(leat_fitter_open(rooms[r], &f, &err), err);
        for (uint32_t round = 0; round < 20; round++) { /* the same fitter: nothing may be left of the last round */
            uint32_t tokens[500];
            uint32_t n = round * 25;
            struct leat_rng draws = leat_rng(leat_key("fit", r, round, NULL, 0), 0);
            for (uint32_t i = 0; i < n; i++)
                tokens[i] = (uint32_t)leat_rng_below(&draws, (round % 3 + 1) * rooms[r]);
            struct packed p = pack(f, tokens, n);
            assert_packed(rooms[r], tokens, n, &p);
            packed_free(&p);
        }
        leat_fitter_close(f);
    }
}

TEST(best_fit_is_as_the_page_says)
{
    /* The longest first: 7 and 6 open blocks, the first 4 fills that of 6, the second 4 opens another, 3 fills that of
     * 7, 2 and the last token of 21 go to the one that is left. */
    static const uint32_t tokens[] = {4, 3, 0, 7, 6, 2, 4, 21};
    static const struct {
        uint32_t block;
        struct leat_fit_part part;
    } want[] = {{0, {0, 0}}, {0, {4, 0}}, {1, {1, 0}}, {1, {3, 0}}, {2, {5, 0}},
                {2, {6, 0}}, {2, {7, 2}}, {3, {7, 0}}, {4, {7, 1}}};
    struct leat_fitter *f;
    struct leat_error err;
    assert_ok(leat_fitter_open(10, &f, &err), err);
    struct packed p = pack(f, tokens, 8);
    assert_int_equal(p.blocks, 5);
    assert_int_equal(p.parts, 9);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(p.list[i].document, want[i].part.document);
        assert_int_equal(p.list[i].part, want[i].part.part);
        assert_true(p.starts[want[i].block] <= i && i < p.starts[want[i].block + 1]);
    }
    packed_free(&p);
    leat_fitter_close(f);
}

/* Positions in saved states count these blocks: a release that packs otherwise would resume in the wrong place. */
TEST(packing_stays_the_same_for_ever)
{
    struct leat_fitter *f;
    struct leat_error err;
    uint32_t tokens[4000];
    uint64_t at = 1;
    for (size_t i = 0; i < 4000; i++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (uint32_t)((at >> 40) % 3000 * ((at >> 33) % 5) / 4);
    }
    assert_ok(leat_fitter_open(2049, &f, &err), err);
    struct packed p = pack(f, tokens, 4000);
    assert_packed(2049, tokens, 4000, &p);
    assert_int_equal(p.blocks, GOLDEN_BLOCKS);
    assert_int_equal(leat_xxh3(p.starts, ((size_t)p.blocks + 1) * sizeof *p.starts), GOLDEN_STARTS);
    assert_int_equal(leat_xxh3(p.list, (size_t)p.parts * sizeof *p.list), GOLDEN_PARTS);
    packed_free(&p);
    leat_fitter_close(f);
}
