#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "profile/lane.h"

#define CAPACITY 4
#define WORDS    (64 + 5 * CAPACITY)

/* What a script would have written. */
struct file {
    char path[64];
    uint64_t words[WORDS];
};

static void save(struct file *f)
{
    int fd = open(f->path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, f->words, sizeof f->words), sizeof f->words);
    close(fd);
}

static void setup(struct file *f)
{
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/leat-lane-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    memcpy(&f->words[0], "LEATLANE", 8);
    f->words[1] = 1;
    f->words[2] = CAPACITY;
    f->words[3] = 77;
    f->words[5] = 3; /* rank 2 */
    memcpy(&f->words[32], "a GPU", 5);
}

static void put(struct file *f, uint64_t start, uint64_t end, uint64_t kind)
{
    uint64_t at = 64 + 5 * (f->words[12]++ % CAPACITY);
    f->words[at] = start;
    f->words[at + 1] = end;
    f->words[at + 2] = kind | (uint64_t)9 << 32;
    f->words[at + 3] = 42;
}

TEST(records_come_once_and_in_order)
{
    struct file f;
    struct leat_lane *lane;
    struct leat_lane_record r[8];
    struct leat_error err;
    setup(&f);
    put(&f, 10, 20, LEAT_LANE_WAIT);
    put(&f, 20, 30, LEAT_LANE_BACKWARD);
    put(&f, 30, 40, LEAT_LANE_OPTIM);
    save(&f);
    assert_ok(leat_lane_open(f.path, &lane, &err), err);
    struct leat_lane_head head = leat_lane_look(lane);
    assert_true(head.pid == 77 && head.rank == 2 && !head.worker);
    assert_string_equal(head.accelerator, "a GPU");
    assert_int_equal(leat_lane_take(lane, 35, r, 8), 2); /* the third is too young */
    assert_true(r[0].kind == LEAT_LANE_WAIT && r[0].loader == 9 && r[0].value == 42 && r[1].start_ns == 20);
    assert_int_equal(leat_lane_take(lane, 35, r, 8), 0);
    assert_int_equal(leat_lane_take(lane, UINT64_MAX, r, 8), 1);
    assert_int_equal(leat_lane_take(lane, UINT64_MAX, r, 8), 0);
    leat_lane_close(lane);
    unlink(f.path);
}

TEST(what_makes_no_sense_is_counted_and_not_used)
{
    struct file f;
    struct leat_lane *lane;
    struct leat_lane_record r[8];
    struct leat_error err;
    setup(&f);
    put(&f, 30, 20, LEAT_LANE_WAIT); /* ends before it begins */
    put(&f, 20, 30, 200);            /* no such kind */
    put(&f, 30, 40, LEAT_LANE_OPTIM);
    f.words[14] = 5;
    save(&f);
    assert_ok(leat_lane_open(f.path, &lane, &err), err);
    assert_int_equal(leat_lane_take(lane, UINT64_MAX, r, 8), 1);
    assert_int_equal(leat_lane_look(lane).dropped, 7);
    leat_lane_close(lane);
    f.words[12] = 1ULL << 60; /* a head that cannot be */
    save(&f);
    assert_ok(leat_lane_open(f.path, &lane, &err), err);
    assert_int_equal(leat_lane_take(lane, UINT64_MAX, r, 8), 0);
    leat_lane_close(lane);
    unlink(f.path);
}

TEST(other_files_are_refused)
{
    struct file f;
    struct leat_lane *lane;
    struct leat_error err;
    setup(&f);
    f.words[1] = 2;
    save(&f);
    assert_fails(leat_lane_open(f.path, &lane, &err), err, LEAT_VERSION, "version 2");
    f.words[1] = 1;
    f.words[2] = 1000; /* more than the file holds */
    save(&f);
    assert_fails(leat_lane_open(f.path, &lane, &err), err, LEAT_CORRUPT, "1000 records");
    f.words[0] = 0;
    save(&f);
    assert_fails(leat_lane_open(f.path, &lane, &err), err, LEAT_CORRUPT, "no lane");
    assert_int_equal(truncate(f.path, 100), 0);
    assert_fails(leat_lane_open(f.path, &lane, &err), err, LEAT_CORRUPT, "100 bytes");
    unlink(f.path);
    assert_fails(leat_lane_open(f.path, &lane, &err), err, LEAT_NOT_FOUND, f.path);
}
