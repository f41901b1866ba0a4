/* Files as a store: whole or not at all, and listed as a bucket would. */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "fail_io.h"
#include "store_bench.h"
#include "unit.h"

static char folder[64];
static struct leat_store *files;

static void open_all(void)
{
    folder_make(folder);
    files = bench_open_files();
}

static void close_all(void)
{
    leat_store_close(files);
    folder_remove(folder);
}

static const char *at(const char *name)
{
    return path_in(folder, name);
}

static void put(const char *name, const char *text)
{
    struct leat_error err;
    assert_ok(leat_store_put(files, at(name), text, strlen(text), NULL, &err), err);
}

TEST_WITH(open_all, close_all, what_is_put_is_there_with_its_parents_and_no_leftovers)
{
    struct leat_error err;
    struct leat_object object;
    struct leat_object again;
    assert_ok(leat_store_put(files, at("a/b/c"), "hello", 5, &object, &err), err);
    assert_int_equal(object.size, 5);
    assert_true(object.modified_s > 0);
    assert_ok(leat_store_stat(files, at("a/b/c"), &again, &err), err);
    assert_string_equal(object.etag, again.etag);
    char text[6] = "";
    assert_ok(leat_store_get(files, at("a/b/c"), 1, 4, text, object.etag, &err), err);
    assert_string_equal(text, "ello");
    put("empty", "");
    assert_ok(leat_store_stat(files, at("empty"), &object, &err), err);
    assert_int_equal(object.size, 0);
    assert_ok(leat_store_delete(files, at("a/b/c"), &err), err);
    assert_ok(leat_store_delete(files, at("a/b/c"), &err), err); /* gone already */
    assert_ok(leat_store_delete(files, at("none/none"), &err), err);
    assert_fails(leat_store_stat(files, at("a/b/c"), &object, &err), err, LEAT_NOT_FOUND, "a/b/c");
    assert_int_equal(bench_leftovers(folder), 0);
}

TEST_WITH(open_all, close_all, a_changed_file_is_noticed_by_its_tag)
{
    struct leat_error err;
    struct leat_object object;
    char text[10];
    put("x", "one");
    assert_ok(leat_store_stat(files, at("x"), &object, &err), err);
    put("x", "two");
    assert_fails(leat_store_get(files, at("x"), 0, 3, text, object.etag, &err), err, LEAT_CHANGED, "changed");
    struct leat_store_op op = {.verb = LEAT_STORE_STAT, .key = at("x"), .if_match = object.etag};
    assert_int_equal(leat_store_run(files, &op, &err), LEAT_CHANGED);
}

TEST_WITH(open_all, close_all, reading_past_the_end_is_an_error_unless_short_is_fine)
{
    struct leat_error err;
    char text[10];
    put("x", "12345");
    assert_fails(leat_store_get(files, at("x"), 3, 3, text, NULL, &err), err, LEAT_INVALID, "5 bytes");
    assert_fails(leat_store_get(files, at("x"), 100, 1, text, NULL, &err), err, LEAT_INVALID, "5 bytes");
    struct leat_object object;
    struct leat_store_op op = {.verb = LEAT_STORE_GET,
                               .key = at("x"),
                               .offset = 3,
                               .length = 10,
                               .into = text,
                               .short_ok = true,
                               .object = &object};
    assert_ok(leat_store_run(files, &op, &err), err);
    assert_int_equal(op.got, 2);
    assert_int_equal(object.size, 5);
    assert_int_not_equal(leat_store_get(files, at("x"), UINT64_MAX - 5, 3, text, NULL, &err), LEAT_OK);
}

TEST_WITH(open_all, close_all, what_is_no_regular_file_is_no_object)
{
    struct leat_error err;
    struct leat_object object;
    char text[1];
    assert_int_equal(mkdir(at("folder"), 0755), 0);
    assert_int_equal(mkfifo(at("pipe"), 0644), 0);
    assert_int_equal(symlink("loop", at("loop")), 0);
    assert_fails(leat_store_stat(files, at("folder"), &object, &err), err, LEAT_NOT_FOUND, "folder");
    assert_fails(leat_store_get(files, at("folder"), 0, 1, text, NULL, &err), err, LEAT_NOT_FOUND, "folder");
    assert_fails(leat_store_get(files, at("pipe"), 0, 1, text, NULL, &err), err, LEAT_INVALID, "regular");
    assert_int_not_equal(leat_store_get(files, at("loop"), 0, 1, text, NULL, &err), LEAT_OK);
    assert_fails(leat_store_put(files, at("folder"), "x", 1, NULL, &err), err, LEAT_INVALID, "folder");
    assert_fails(leat_store_put(files, at("folder/"), "x", 1, NULL, &err), err, LEAT_INVALID, "folder");
    assert_fails(leat_store_put(files, at("folder/.."), "x", 1, NULL, &err), err, LEAT_INVALID, "folder");
    assert_int_equal(bench_leftovers(folder), 0);
}

TEST_WITH(open_all, close_all, only_regular_files_are_replaced_and_links_stay_links)
{
    struct leat_error err;
    struct stat st;
    char text[4] = "";
    assert_int_equal(mkfifo(at("pipe"), 0644), 0);
    assert_int_equal(symlink("/dev/null", at("device")), 0);
    assert_int_equal(symlink("nowhere", at("broken")), 0);
    put("real", "old");
    assert_int_equal(symlink("real", at("link")), 0);
    assert_fails(leat_store_put(files, at("pipe"), "x", 1, NULL, &err), err, LEAT_INVALID, "not replaced");
    assert_fails(leat_store_put(files, at("device"), "x", 1, NULL, &err), err, LEAT_INVALID, "not replaced");
    assert_fails(leat_store_put(files, at("broken"), "x", 1, NULL, &err), err, LEAT_INVALID, "nowhere");
    char id[LEAT_UPLOAD_ID_MAX];
    struct leat_store_op upload = {.verb = LEAT_STORE_UPLOAD_OPEN, .key = at("pipe"), .upload_id = id};
    assert_int_equal(leat_store_run(files, &upload, &err), LEAT_INVALID);
    assert_int_equal(lstat(at("pipe"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(lstat(at("device"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    put("link", "new");
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_ok(leat_store_get(files, at("real"), 0, 3, text, NULL, &err), err);
    assert_string_equal(text, "new");
    assert_int_equal(bench_leftovers(folder), 0);
}

TEST_WITH(open_all, close_all, what_must_not_be_replaced_is_not)
{
    struct leat_error err;
    struct leat_store_op op = {.verb = LEAT_STORE_PUT, .key = at("x"), .data = "new", .data_n = 3, .create_only = true};
    assert_ok(leat_store_run(files, &op, &err), err);
    assert_int_equal(leat_store_run(files, &op, &err), LEAT_EXISTS);
    assert_int_equal(bench_leftovers(folder), 0);
}

/* A file system without hard links: what link(), renameat2() and flock() answer there, and whether a file can be
 * created only where there is none. */
static const struct {
    int link;
    int rename_new;
    int lock;
    leat_status rc;
} file_systems[] = {
    {EPERM, 0, 0, LEAT_OK},                         /* vfat */
    {EOPNOTSUPP, EINVAL, 0, LEAT_OK},               /* FUSE, of most kinds */
    {ENOSYS, ENOSYS, 0, LEAT_OK},                   /* … and an old kernel */
    {EPERM, EPERM, 0, LEAT_OK},                     /* … and a container that allows few calls */
    {ENOSYS, EINVAL, EOPNOTSUPP, LEAT_UNSUPPORTED}, /* nothing to do it with */
    {ENOSPC, EINVAL, EOPNOTSUPP, LEAT_NO_SPACE},    /* another reason than the missing call */
};

TEST_WITH(open_all, close_all, without_hard_links_a_file_is_created_all_the_same)
{
    struct leat_error err;
    for (size_t i = 0; i < COUNT(file_systems); i++) {
        char name[24];
        char text[6] = "";
        struct leat_object stored;
        snprintf(name, sizeof name, "new%zu", i);
        fail_io(FAIL_IO_LINK, file_systems[i].link, 0, 0);
        fail_io(FAIL_IO_RENAME_NEW, file_systems[i].rename_new, 0, 0);
        fail_io(FAIL_IO_LOCK, file_systems[i].lock, 0, 0);
        leat_status rc = leat_store_put_if(files, at(name), "first", 5, NULL, &stored, &err);
        assert_int_equal(rc, file_systems[i].rc);
        if (rc == LEAT_OK) {
            assert_int_equal(stored.size, 5);
            assert_fails(leat_store_put_if(files, at(name), "other", 5, NULL, NULL, &err), err, LEAT_EXISTS, "exists");
            assert_ok(leat_store_get(files, at(name), 0, 5, text, NULL, &err), err);
            assert_string_equal(text, "first");
        }
        assert_int_equal(bench_leftovers(folder), 0);
    }
    fail_io_reset();
}

TEST_WITH(open_all, close_all, put_on_a_condition_replaces_only_what_was_seen)
{
    struct leat_error err;
    struct leat_object seen;
    struct leat_object now;
    assert_ok(leat_store_put_if(files, at("dir/x"), "first", 5, NULL, &seen, &err), err);
    assert_ok(leat_store_put_if(files, at("dir/x"), "first", 5, NULL, &now, &err), err); /* the very bytes: ours */
    assert_string_equal(seen.etag, now.etag);
    assert_fails(leat_store_put_if(files, at("dir/x"), "other", 5, NULL, NULL, &err), err, LEAT_EXISTS, "exists");
    assert_ok(leat_store_put_if(files, at("dir/x"), "second", 6, seen.etag, &now, &err), err);
    assert_fails(leat_store_put_if(files, at("dir/x"), "third", 5, seen.etag, NULL, &err), err, LEAT_CHANGED,
                 "changed");
    assert_int_equal(unlink(at("dir/x")), 0);
    assert_fails(leat_store_put_if(files, at("dir/x"), "third", 5, now.etag, NULL, &err), err, LEAT_CHANGED, "gone");
    assert_fails(leat_store_put_if(files, at("dir/x"), "third", 5, "", NULL, &err), err, LEAT_UNSUPPORTED, "ETag");
    assert_int_equal(bench_leftovers(folder), 0);
}

/* A counter that several raise, each from what it has seen. */
struct raiser {
    pthread_t thread;
    char path[128];
    unsigned raised;
};

static void *raise_counter(void *arg)
{
    struct raiser *r = arg;
    for (int i = 0; i < 200; i++) {
        struct leat_error err;
        struct leat_object seen;
        char *text;
        size_t n;
        char more[64];
        leat_status rc = leat_store_load(files, r->path, sizeof more, &text, &n, &seen, &err);
        if (rc == LEAT_CHANGED) /* replaced between two looks */
            continue;
        assert_ok(rc, err);
        snprintf(more, sizeof more, "%ld %p", strtol(text, NULL, 10) + 1, (void *)&r->raised);
        free(text);
        rc = leat_store_put_if(files, r->path, more, strlen(more), seen.etag, NULL, &err);
        assert_true(rc == LEAT_OK || rc == LEAT_CHANGED);
        r->raised += rc == LEAT_OK;
    }
    return NULL;
}

TEST_WITH(open_all, close_all, of_many_who_replace_what_they_saw_none_undoes_another)
{
    struct raiser raisers[4] = {0};
    struct leat_error err;
    unsigned raised = 0;
    char *text;
    size_t n;
    put("counter", "0");
    for (int i = 0; i < 4; i++) {
        snprintf(raisers[i].path, sizeof raisers[i].path, "%s", at("counter"));
        assert_int_equal(pthread_create(&raisers[i].thread, NULL, raise_counter, &raisers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(raisers[i].thread, NULL);
        raised += raisers[i].raised;
    }
    assert_ok(leat_store_load(files, at("counter"), 100, &text, &n, NULL, &err), err);
    assert_int_equal(strtol(text, NULL, 10), raised);
    assert_true(raised >= 200);
    free(text);
    assert_int_equal(bench_leftovers(folder), 0);
}

TEST_WITH(open_all, close_all, a_put_in_parts_appears_whole_at_its_end)
{
    struct leat_error err;
    struct leat_object object;
    char id[LEAT_UPLOAD_ID_MAX];
    struct leat_store_op open = {.verb = LEAT_STORE_UPLOAD_OPEN, .key = at("dir/big"), .upload_id = id};
    assert_ok(leat_store_run(files, &open, &err), err);
    char key[128];
    snprintf(key, sizeof key, "%s", open.key);
    for (unsigned part = 3; part >= 1; part--) { /* in any order */
        char text[4] = {(char)('a' + part), (char)('a' + part), (char)('a' + part), 0};
        struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_PART,
                                   .key = key,
                                   .upload = id,
                                   .part = part,
                                   .offset = (part - 1) * 3,
                                   .data = text,
                                   .data_n = 3,
                                   .object = &object};
        assert_ok(leat_store_run(files, &op, &err), err);
        assert_true(object.etag[0]);
        assert_int_equal(leat_store_stat(files, key, &object, &err), LEAT_NOT_FOUND);
    }
    struct leat_store_op stat = {.verb = LEAT_STORE_UPLOAD_STAT, .key = key, .upload = id};
    assert_ok(leat_store_run(files, &stat, &err), err);
    struct leat_store_op finish = {.verb = LEAT_STORE_UPLOAD_FINISH, .key = key, .upload = id};
    assert_ok(leat_store_run(files, &finish, &err), err);
    char text[10] = "";
    assert_ok(leat_store_get(files, key, 0, 9, text, NULL, &err), err);
    assert_string_equal(text, "bbbcccddd");
    assert_int_equal(leat_store_run(files, &stat, &err), LEAT_NOT_FOUND);
    assert_int_equal(leat_store_run(files, &finish, &err), LEAT_NOT_FOUND);
    struct leat_store_op second = {.verb = LEAT_STORE_UPLOAD_OPEN, .key = key, .upload_id = id};
    assert_ok(leat_store_run(files, &second, &err), err);
    assert_int_equal(bench_leftovers(at("dir")), 1);
    struct leat_store_op abort = {.verb = LEAT_STORE_UPLOAD_ABORT, .key = key, .upload = id};
    assert_ok(leat_store_run(files, &abort, &err), err);
    assert_ok(leat_store_run(files, &abort, &err), err);
    assert_int_equal(bench_leftovers(at("dir")), 0);
}

#define VERSION_SIZE (300 << 10)

struct flipping {
    char path[128];
    atomic_bool stop;
    atomic_uint puts;
};

static void *flip(void *arg)
{
    struct flipping *f = arg;
    struct leat_error err;
    char *data = malloc(VERSION_SIZE);
    for (unsigned i = 0; !f->stop; i++) {
        memset(data, 'a' + (int)(i % 26), VERSION_SIZE);
        if (leat_store_put(files, f->path, data, VERSION_SIZE - i % 100, NULL, &err) == LEAT_OK)
            f->puts++;
    }
    free(data);
    return NULL;
}

TEST_WITH(open_all, close_all, a_reader_sees_one_version_whole)
{
    struct flipping f = {.stop = false};
    pthread_t thread;
    snprintf(f.path, sizeof f.path, "%s", at("flip"));
    assert_int_equal(pthread_create(&thread, NULL, flip, &f), 0);
    while (!f.puts)
        usleep(100);
    unsigned last = 0;
    for (unsigned reads = 0; reads < 100 || f.puts < 50; reads++) {
        struct leat_error err;
        char *data;
        size_t n;
        leat_status rc = leat_store_load(files, f.path, VERSION_SIZE, &data, &n, NULL, &err);
        if (rc == LEAT_CHANGED)
            continue; /* replaced between the first piece and the rest: said, not mixed */
        assert_ok(rc, err);
        assert_true(n > VERSION_SIZE - 100);
        for (size_t i = 1; i < n; i++) {
            if (data[i] != data[0])
                fail_msg("two versions in one read");
        }
        last += data[0] != 0;
        free(data);
    }
    f.stop = true;
    pthread_join(thread, NULL);
    assert_true(last > 0);
    assert_int_equal(bench_leftovers(folder), 0);
}

struct writer {
    char path[128];
    atomic_bool stop;
};

static void *write_in_place(void *arg)
{
    struct writer *w = arg;
    int fd = open(w->path, O_WRONLY | O_CLOEXEC);
    for (char c = 'a'; fd >= 0 && !w->stop; c = c == 'z' ? 'a' : (char)(c + 1)) {
        if (pwrite(fd, &c, 1, 0) != 1)
            break;
        usleep(500);
    }
    close(fd);
    return NULL;
}

TEST_WITH(open_all, close_all, a_file_written_to_while_it_is_read_is_an_error)
{
    const size_t size = 64 << 20; /* long enough to read for its time of change to move on */
    struct writer w = {.stop = false};
    struct leat_error err;
    pthread_t thread;
    char *into = malloc(size);
    assert_non_null(into);
    snprintf(w.path, sizeof w.path, "%s", at("written"));
    put("written", "x");
    assert_int_equal(truncate(w.path, (off_t)size), 0);
    assert_ok(leat_store_get(files, w.path, 0, size, into, NULL, &err), err);
    assert_int_equal(pthread_create(&thread, NULL, write_in_place, &w), 0);
    leat_status rc = LEAT_OK;
    for (uint64_t deadline = leat_after(60 * LEAT_S); rc == LEAT_OK && leat_left(deadline);)
        rc = leat_store_get(files, w.path, 0, size, into, NULL, &err);
    w.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(rc, LEAT_CHANGED);
    free(into);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names made to sort badly: '/' comes after '-' and '.', and before letters. */
TEST_WITH(open_all, close_all, listings_are_sorted_as_a_buckets_are)
{
    static const char *const pieces[] = {"a", "b", "a-", "a.", "a0", "A", "\xc3\xa4", "a/", "b/", "a./", "-/", "\xff"};
    struct leat_rng rng = leat_rng(5, 0);
    struct leat_error err;
    char *keys[300];
    unsigned n = 0;
    while (n < COUNT(keys)) {
        char name[256] = "";
        for (unsigned i = 0, len = 1 + leat_rng_u32(&rng) % 5; i < len; i++) {
            const char *piece = pieces[leat_rng_u32(&rng) % COUNT(pieces)];
            strncat(name, piece, sizeof name - strlen(name) - 1);
        }
        strncat(name, "z", sizeof name - strlen(name) - 1);
        struct leat_object there;
        if (leat_store_stat(files, at(name), &there, NULL) == LEAT_OK)
            continue;
        if (leat_store_put(files, at(name), "x", 1, NULL, &err) != LEAT_OK)
            continue; /* a file where a folder should be */
        keys[n++] = strdup(at(name));
    }
    put(".leat-part-1-2", "never listed");
    qsort(keys, n, sizeof *keys, by_bytes);
    struct leat_list *list;
    struct leat_list_entry entry;
    bool end = false;
    assert_ok(leat_store_list_open(files, at(""), true, &list, &err), err);
    for (unsigned i = 0; i < n; i++) {
        assert_ok(leat_store_list_next(list, &entry, &end, &err), err);
        assert_false(end);
        assert_string_equal(entry.key, keys[i]);
        assert_int_equal(entry.size, 1);
        free(keys[i]);
    }
    assert_ok(leat_store_list_next(list, &entry, &end, &err), err);
    assert_true(end);
    leat_store_list_close(list);
    unlink(at(".leat-part-1-2"));
}

TEST_WITH(open_all, close_all, a_prefix_is_a_beginning_not_a_folder)
{
    struct leat_error err;
    struct leat_list *list;
    struct leat_list_entry entry;
    bool end = false;
    put("train/a", "");
    put("train2/b", "");
    put("trai", "");
    put("other", "");
    static const char *const expected[] = {"train/a", "train2/b"};
    assert_ok(leat_store_list_open(files, at("train"), true, &list, &err), err);
    for (size_t i = 0; i < COUNT(expected); i++) {
        assert_ok(leat_store_list_next(list, &entry, &end, &err), err);
        assert_false(end);
        assert_string_equal(entry.key, at(expected[i]));
    }
    assert_ok(leat_store_list_next(list, &entry, &end, &err), err);
    assert_true(end);
    leat_store_list_close(list);
    assert_ok(leat_store_list_open(files, at("none/at/all"), true, &list, &err), err);
    assert_ok(leat_store_list_next(list, &entry, &end, &err), err);
    assert_true(end);
    leat_store_list_close(list);
    assert_ok(leat_store_list_open(files, at("tr"), false, &list, &err), err);
    leat_store_list_close(list); /* unread */
    leat_store_list_close(NULL);
}

TEST_WITH(open_all, close_all, deep_folders_have_a_limit)
{
    struct leat_error err;
    struct leat_list *list;
    struct leat_list_entry entry;
    bool end = false;
    char path[1024];
    int n = snprintf(path, sizeof path, "%s", folder);
    for (int i = 0; i < 140; i++) {
        n += snprintf(path + n, sizeof path - (size_t)n, "/d");
        assert_int_equal(mkdir(path, 0755), 0);
    }
    assert_ok(leat_store_list_open(files, at(""), true, &list, &err), err);
    assert_fails(leat_store_list_next(list, &entry, &end, &err), err, LEAT_LIMIT, "deep");
    leat_store_list_close(list);
}

TEST_WITH(open_all, close_all, without_descriptors_operations_fail_and_work_again_later)
{
    struct leat_error err;
    char text[3];
    struct rlimit before;
    put("x", "abc");
    leat_store_close(files);
    files = bench_open_files_with((struct leat_store_opts){.attempts = 3}); /* which does not try for long */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    leat_status get = leat_store_get(files, at("x"), 0, 3, text, NULL, &err);
    leat_status write = leat_store_put(files, at("y"), "y", 1, NULL, &err);
    struct leat_list *list = NULL;
    leat_status listing = leat_store_list_open(files, at(""), true, &list, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(get, LEAT_LIMIT);
    assert_int_equal(write, LEAT_LIMIT);
    assert_int_equal(listing, LEAT_LIMIT);
    assert_ok(leat_store_get(files, at("x"), 0, 3, text, NULL, &err), err);
}
