/* The shared-memory ring: its layout is an ABI, and what does not fit it is refused. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leat/loader.h"
#include "ring/ring.h"
#include "unit.h"

/* Numbers that another build of the same version relies on. */
TEST(offsets_are_those_of_version_1)
{
    assert_int_equal(LEAT_RING_VERSION, 1);
    assert_int_equal(offsetof(struct leat_ring_head, magic), 0);
    assert_int_equal(offsetof(struct leat_ring_head, version), 8);
    assert_int_equal(offsetof(struct leat_ring_head, slots), 12);
    assert_int_equal(offsetof(struct leat_ring_head, columns), 16);
    assert_int_equal(offsetof(struct leat_ring_head, samples_max), 20);
    assert_int_equal(offsetof(struct leat_ring_head, bytes), 24);
    assert_int_equal(offsetof(struct leat_ring_head, slot_offset), 32);
    assert_int_equal(offsetof(struct leat_ring_head, slot_bytes), 40);
    assert_int_equal(offsetof(struct leat_ring_head, published), 128);
    assert_int_equal(offsetof(struct leat_ring_head, next_ready_ns), 136);
    assert_int_equal(offsetof(struct leat_ring_head, waiting_since_ns), 256);
    assert_int_equal(offsetof(struct leat_ring_head, queue), 384);
    assert_int_equal(offsetof(struct leat_ring_head, column), 640);
    assert_int_equal(sizeof(struct leat_ring_head), 640 + 32 * 160);
    assert_int_equal(offsetof(struct leat_ring_column, kind), 48);
    assert_int_equal(offsetof(struct leat_ring_column, dtype), 52);
    assert_int_equal(offsetof(struct leat_ring_column, dims_n), 56);
    assert_int_equal(offsetof(struct leat_ring_column, dims), 64);
    assert_int_equal(offsetof(struct leat_ring_column, ragged), 60);
    assert_int_equal(offsetof(struct leat_ring_column, stride), 128);
    assert_int_equal(offsetof(struct leat_ring_column, offset), 136);
    assert_int_equal(offsetof(struct leat_ring_column, arena), 144);
    assert_int_equal(offsetof(struct leat_ring_column, arena_bytes), 152);
    assert_int_equal(offsetof(struct leat_ring_slot, samples), 4);
    assert_int_equal(offsetof(struct leat_ring_slot, epoch), 8);
    assert_int_equal(offsetof(struct leat_ring_slot, position), 16);
    assert_int_equal(offsetof(struct leat_ring_slot, batch), 24);
    assert_int_equal(offsetof(struct leat_ring_slot, end), 32);
    assert_int_equal(offsetof(struct leat_ring_slot, external), 36);
    assert_int_equal(offsetof(struct leat_ring_slot, arena_used), 40);
    assert_int_equal(offsetof(struct leat_ring_slot, ready_ns), 296);
    assert_int_equal(offsetof(struct leat_ring_slot, published_ns), 304);
    assert_true(sizeof(struct leat_ring_slot) <= 384); /* where the first column begins */
}

static uint32_t sample_columns(struct leat_ring_column *c)
{
    c[0] = (struct leat_ring_column){.name = "x", .dims_n = 3, .dims = {8, 8, 3}, .stride = 192};
    c[1] = (struct leat_ring_column){.name = "y", .stride = 8};
    c[2] = (struct leat_ring_column){.name = "k", .ragged = 1, .arena_bytes = 1000};
    c[3] = (struct leat_ring_column){.name = "v", .stride = 1};
    return 4;
}

TEST(layout_is_golden)
{
    struct leat_ring_column c[4];
    uint32_t n = sample_columns(c);
    assert_int_equal(leat_ring_layout(c, n, 10), 8192);
    assert_int_equal(c[0].offset, 4096); /* images begin on a page */
    assert_int_equal(c[1].offset, 6016);
    assert_int_equal(c[2].offset, 6144);
    assert_int_equal(c[2].arena, 6272);
    assert_int_equal(c[3].offset, 7296);
}

TEST(columns_never_overlap)
{
    uint64_t draw = 1;
    for (int round = 0; round < 2000; round++) {
        struct leat_ring_column c[LEAT_RING_COLUMNS_MAX] = {{{0}}};
        uint32_t n = 1 + (uint32_t)(draw % LEAT_RING_COLUMNS_MAX);
        uint32_t samples = (uint32_t)(draw >> 20) % 300;
        for (uint32_t i = 0; i < n; i++) {
            draw = draw * 6364136223846793005ull + 1442695040888963407ull;
            c[i].ragged = draw >> 60 & 1;
            c[i].dims_n = c[i].ragged ? 0 : (draw >> 61 & 1) * 3;
            c[i].stride = c[i].ragged ? 0 : (draw >> 33) % 5000;
            c[i].arena_bytes = c[i].ragged ? (draw >> 33) % 50000 : 0;
        }
        uint64_t bytes = leat_ring_layout(c, n, samples);
        uint64_t end = sizeof(struct leat_ring_slot);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(c[i].offset >= end);
            assert_int_equal(c[i].offset % (c[i].dims_n ? LEAT_RING_PAGE : LEAT_RING_LINE), 0);
            end = c[i].offset + samples * (c[i].ragged ? 8 : c[i].stride);
            if (c[i].ragged) {
                assert_true(c[i].arena >= end);
                end = c[i].arena + c[i].arena_bytes;
            }
        }
        assert_true(bytes >= end && bytes < end + LEAT_RING_PAGE + LEAT_RING_LINE && bytes % LEAT_RING_PAGE == 0);
    }
}

TEST(layouts_beyond_all_memory_are_refused)
{
    struct leat_ring_column wide = {.stride = UINT64_MAX / 2};
    assert_int_equal(leat_ring_layout(&wide, 1, 1), 0);
    wide.stride = 1ull << 39;
    assert_int_equal(leat_ring_layout(&wide, 1, 3), 0);
    struct leat_ring_column ragged = {.ragged = 1, .arena_bytes = UINT64_MAX - 5};
    assert_int_equal(leat_ring_layout(&ragged, 1, 1), 0);
}

static struct leat_ring make_ring(uint32_t slots)
{
    struct leat_ring_column c[4];
    struct leat_ring ring;
    struct leat_error err;
    uint32_t n = sample_columns(c);
    uint64_t bytes = leat_ring_layout(c, n, 10);
    if (leat_ring_create(c, n, 10, bytes, slots, &ring, &err) != LEAT_OK)
        fail_msg("%s", err.text);
    return ring;
}

TEST(both_sides_see_the_same)
{
    struct leat_ring agent = make_ring(3);
    struct leat_ring rank;
    assert_int_equal(leat_ring_attach(dup(agent.fd), &rank, NULL), LEAT_OK);
    assert_int_equal(rank.slots, 3);
    assert_int_equal(rank.columns, 4);
    assert_int_equal(rank.fd, -1);
    assert_string_equal(rank.head->column[2].name, "k");
    for (uint32_t i = 0; i < 3; i++) {
        leat_ring_slot(&agent, i)->position = 100 + i;
        assert_int_equal(leat_ring_slot(&rank, i)->position, 100 + i);
        assert_int_equal(atomic_load(&leat_ring_slot(&rank, i)->state), LEAT_SLOT_FREE);
    }
    leat_ring_close(&agent);
    leat_ring_slot(&rank, 2)->position = 7; /* the memory lives as long as one side does */
    leat_ring_close(&rank);
    leat_ring_close(&rank);
}

TEST(nobody_can_shrink_the_memory)
{
    struct leat_ring ring = make_ring(2);
    assert_int_equal(ftruncate(ring.fd, 4096), -1);
    assert_int_equal(ftruncate(ring.fd, (off_t)ring.bytes * 2), -1);
    leat_ring_close(&ring);
}

TEST(impossible_rings_are_refused)
{
    struct leat_ring ring = {.fd = -7};
    struct leat_error err;
    struct leat_ring_column c[LEAT_RING_COLUMNS_MAX + 1] = {{{0}}};
    assert_int_equal(leat_ring_create(c, 1, 1, 4096, 1, &ring, &err), LEAT_INVALID);
    assert_int_equal(leat_ring_create(c, 1, 1, 4096, 65, &ring, &err), LEAT_INVALID);
    assert_int_equal(leat_ring_create(c, 33, 1, 4096, 4, &ring, &err), LEAT_INVALID);
    assert_int_equal(leat_ring_create(c, 1, 1, 0, 4, &ring, &err), LEAT_INVALID);
    /* no memory for it is an error here, not a signal at the first touch */
    assert_fails(leat_ring_create(c, 1, 1, 1ull << 40, 4, &ring, &err), err, LEAT_LIMIT, "no memory");
    assert_int_equal(ring.fd, -7); /* written on success only */
}

static int open_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(heads_that_do_not_fit_are_refused_and_closed)
{
    int before = open_fds();
    struct leat_error err;
    for (int broken = 0; broken < 11; broken++) {
        struct leat_ring ring = make_ring(3);
        struct leat_ring out = {.fd = -7};
        struct leat_ring_head *h = ring.head;
        switch (broken) {
        case 0:
            h->magic ^= 1;
            break;
        case 1:
            h->version = 2;
            break;
        case 2:
            h->slots = 1;
            break;
        case 3:
            h->slots = 65;
            break;
        case 4:
            h->columns = 33;
            break;
        case 5:
            h->bytes += 4096;
            break;
        case 6:
            h->slot_bytes = 8;
            break;
        case 7:
            h->slot_offset = 8;
            break;
        case 8:
            h->slot_offset = h->bytes;
            break;
        case 9:
            h->slot_bytes = UINT64_MAX / 2;
            break;
        default:
            h->slot_offset = UINT64_MAX - 64;
            break;
        }
        assert_int_equal(leat_ring_attach(dup(ring.fd), &out, &err), LEAT_VERSION);
        assert_int_equal(out.fd, -7);
        leat_ring_close(&ring);
    }
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    struct leat_ring out;
    assert_int_equal(leat_ring_attach(pipes[0], &out, &err), LEAT_VERSION); /* no memory at all; taken over */
    close(pipes[1]);
    int tiny = memfd_create("tiny", MFD_CLOEXEC);
    assert_int_equal(ftruncate(tiny, 100), 0);
    assert_int_equal(leat_ring_attach(tiny, &out, &err), LEAT_VERSION);
    assert_int_equal(open_fds(), before);
}
