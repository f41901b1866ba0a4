#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "serve/folder.h"
#include "serve/object.h"
#include "unit.h"

struct fixture {
    char dir[64];
    struct leat_serve_folder *folder;
    struct leat_serve_bucket *bucket;
};
static struct fixture fixture;

static void setup(void)
{
    struct fixture *f = &fixture;
    snprintf(f->dir, sizeof f->dir, "/tmp/leat-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(leat_serve_folder_open(f->dir, false, &f->folder, NULL), LEAT_OK);
    char bucket[sizeof f->dir + 2];
    snprintf(bucket, sizeof bucket, "%s/b", f->dir);
    assert_int_equal(mkdir(bucket, 0777), 0);
    assert_int_equal(leat_serve_bucket_get(f->folder, "b", &f->bucket, NULL), LEAT_OK);
}

static int remove_folder(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return rmdir(path);
}

static void teardown(void)
{
    struct fixture *f = &fixture;
    leat_serve_bucket_release(f->bucket);
    leat_serve_folder_close(f->folder);
    assert_int_equal(nftw(f->dir, remove_folder, 16, FTW_DEPTH | FTW_PHYS), 0); /* nothing is left but folders */
}

static struct leat_serve_key key(const char *text)
{
    return (struct leat_serve_key){text, strlen(text)};
}

static void put(struct fixture *f, struct leat_serve_key k)
{
    struct leat_serve_writer w;
    char etag[LEAT_SERVE_ETAG] = "0123";
    assert_int_equal(leat_serve_writer_open(f->bucket, &w, NULL), LEAT_OK);
    assert_int_equal(leat_serve_writer_add(&w, k.data, k.n, NULL), LEAT_OK);
    assert_int_equal(leat_serve_writer_commit(&w, k, NULL, "", etag, NULL), LEAT_OK);
    leat_serve_writer_close(&w);
}

/* All keys from `at` on, into out (NUL-separated); at most `max`. */
static size_t list(struct fixture *f, struct leat_serve_key at, bool fresh, size_t max, struct leat_buf *out)
{
    struct leat_serve_index *ix = f->bucket->index;
    size_t n = 0;
    bool more = true;
    pthread_mutex_lock(&f->bucket->mu);
    leat_serve_index_begin(ix, fresh, SIZE_MAX);
    assert_int_equal(leat_serve_index_seek(ix, at, NULL), LEAT_OK);
    while (n < max) {
        struct leat_serve_key k;
        assert_int_equal(leat_serve_index_next(ix, &k, &more, NULL), LEAT_OK);
        if (!more)
            break;
        leat_buf_add(out, k.data, k.n);
        leat_buf_char(out, '\n');
        n++;
    }
    leat_serve_index_end(ix);
    pthread_mutex_unlock(&f->bucket->mu);
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Some sixty keys of few letters, so that many are folders of others, blocked by others or no paths at all. */
#define KEYS 64

static size_t make_keys(char keys[KEYS][32])
{
    struct leat_rng r = leat_rng(5, 5);
    size_t n = 0;
    while (n < KEYS) {
        size_t len = 1 + (size_t)leat_rng_below(&r, 7);
        for (size_t i = 0; i < len; i++)
            keys[n][i] = "ab/.-0"[leat_rng_below(&r, 6)];
        keys[n][len] = '\0';
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known = known || strcmp(keys[i], keys[n]) == 0;
        n += !known;
    }
    return n;
}

static void expect(char keys[KEYS][32], const bool there[KEYS], const char *at, struct leat_buf *out)
{
    const char *sorted[KEYS];
    size_t n = 0;
    for (size_t i = 0; i < KEYS; i++) {
        if (there[i] && strcmp(keys[i], at) >= 0)
            sorted[n++] = keys[i];
    }
    qsort(sorted, n, sizeof *sorted, by_bytes);
    for (size_t i = 0; i < n; i++)
        leat_buf_printf(out, "%s\n", sorted[i]);
}

TEST_WITH(setup, teardown, keys_come_in_byte_order_from_anywhere_after_any_change)
{
    struct fixture *f = &fixture;
    char keys[KEYS][32];
    bool there[KEYS] = {false};
    struct leat_rng r = leat_rng(6, 6);
    make_keys(keys);
    for (int round = 0; round < 600; round++) {
        size_t i = (size_t)leat_rng_below(&r, KEYS);
        if (there[i])
            assert_int_equal(leat_serve_object_remove(f->bucket, key(keys[i]), NULL, NULL), LEAT_OK);
        else
            put(f, key(keys[i]));
        there[i] = !there[i];
        const char *at = round % 3 ? keys[leat_rng_below(&r, KEYS)] : "";
        struct leat_buf want;
        struct leat_buf got;
        leat_buf_init(&want, 1 << 20);
        leat_buf_init(&got, 1 << 20);
        expect(keys, there, at, &want);
        list(f, key(at), round % 2, SIZE_MAX, &got);
        assert_string_equal(got.data, want.data);
        leat_buf_free(&want);
        leat_buf_free(&got);
    }
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(leat_serve_object_remove(f->bucket, key(keys[i]), NULL, NULL), LEAT_OK);
}

TEST_WITH(setup, teardown, every_key_opens_with_what_was_put)
{
    struct fixture *f = &fixture;
    char keys[KEYS][32];
    make_keys(keys);
    for (size_t i = 0; i < KEYS; i++)
        put(f, key(keys[i]));
    for (size_t i = 0; i < KEYS; i++) {
        struct leat_serve_object o = {.fd = -1};
        char text[64];
        assert_int_equal(leat_serve_object_open(f->bucket, key(keys[i]), &o, NULL), LEAT_OK);
        assert_int_equal(o.size, strlen(keys[i]));
        assert_int_equal(pread(o.fd, text, sizeof text, 0), (ssize_t)strlen(keys[i]));
        assert_memory_equal(text, keys[i], strlen(keys[i]));
        leat_serve_object_close(&o);
        assert_int_equal(leat_serve_object_remove(f->bucket, key(keys[i]), NULL, NULL), LEAT_OK);
        assert_int_equal(leat_serve_object_open(f->bucket, key(keys[i]), &o, NULL), LEAT_NOT_FOUND);
    }
}

TEST_WITH(setup, teardown, a_writer_that_is_closed_leaves_nothing)
{
    struct fixture *f = &fixture;
    struct leat_serve_writer w = {.fd = -1};
    leat_serve_writer_close(&w);
    assert_int_equal(leat_serve_writer_open(f->bucket, &w, NULL), LEAT_OK);
    assert_int_equal(leat_serve_writer_add(&w, "x", 1, NULL), LEAT_OK);
    leat_serve_writer_close(&w);
    struct leat_buf got;
    leat_buf_init(&got, 100);
    assert_int_equal(list(f, key(""), true, 10, &got), 0);
    leat_buf_free(&got);
}

TEST(tags_are_found_in_lists)
{
    assert_true(leat_serve_etag_listed("\"abc\"", "abc"));
    assert_true(leat_serve_etag_listed("abc", "abc"));
    assert_true(leat_serve_etag_listed("*", "abc"));
    assert_true(leat_serve_etag_listed("\"x\", W/\"abc\" , \"y\"", "abc"));
    assert_false(leat_serve_etag_listed("\"abcd\"", "abc"));
    assert_false(leat_serve_etag_listed("\"ab\"", "abc"));
    assert_false(leat_serve_etag_listed("", "abc"));
    assert_false(leat_serve_etag_listed("\"", "abc"));
    assert_false(leat_serve_etag_listed(",,,", "abc"));
}
