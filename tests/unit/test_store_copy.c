/* Reading in order and copying, ended at any moment. */
#include "store/copy.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "store/journal.h"
#include "store/stream.h"
#include "store_bench.h"
#include "unit.h"

#define SIZE (1 << 20)

static char folder[64];
static struct leat_store *files;
static char *data;

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

static struct leat_object put(const char *name, size_t n)
{
    struct leat_error err;
    struct leat_object object;
    assert_ok(leat_store_put(files, at(name), data, n, &object, &err), err);
    return object;
}

TEST_WITH(open_all, close_all, a_stream_hands_out_every_byte_in_order)
{
    struct leat_error err;
    struct leat_object object = put("x", SIZE);
    struct leat_rng rng = leat_rng(1, 0);
    for (int i = 0; i < 60; i++) {
        uint64_t offset = leat_rng_u32(&rng) % (SIZE + 10);
        uint64_t length = i % 5 ? leat_rng_u32(&rng) % SIZE : UINT64_MAX;
        struct leat_stream *s;
        assert_ok(leat_stream_open(files, at("x"), &object, offset, length, 1 + leat_rng_u32(&rng) % 100000,
                                   1 + leat_rng_u32(&rng) % 5, &s, &err),
                  err);
        uint64_t got = offset < SIZE ? offset : SIZE;
        uint64_t end = got + (length < SIZE - got ? length : SIZE - got);
        size_t n = 1;
        while (n) {
            const void *piece;
            assert_ok(leat_stream_next(s, &piece, &n, &err), err);
            assert_memory_equal(n ? piece : data, data + (n ? got : 0), n);
            got += n;
        }
        assert_int_equal(got, end);
        leat_stream_close(s);
    }
    leat_stream_close(NULL);
}

TEST_WITH(open_all, close_all, a_stream_that_failed_stays_failed)
{
    struct leat_error err;
    struct leat_object object = put("x", SIZE);
    struct leat_stream *s;
    const void *piece;
    size_t n;
    assert_ok(leat_stream_open(files, at("x"), &object, 0, UINT64_MAX, 100000, 1, &s, &err), err);
    assert_ok(leat_stream_next(s, &piece, &n, &err), err);
    put("x", SIZE); /* another one, with the same bytes */
    assert_int_equal(leat_stream_next(s, &piece, &n, &err), LEAT_CHANGED);
    assert_fails(leat_stream_next(s, &piece, &n, &err), err, LEAT_CHANGED, "changed"); /* no piece is left out */
    leat_stream_close(s);
}

static bool serve_object(struct peer_request *r, void *user)
{
    (void)user;
    usleep(300);
    return peer_object(r, data, SIZE, "\"tag\"");
}

TEST_WITH(open_all, close_all, a_stream_can_be_closed_at_any_moment)
{
    struct leat_error err;
    struct leat_object object = {.size = SIZE, .etag = "\"tag\""};
    struct peer *peer = peer_open(serve_object, NULL);
    struct leat_store *bucket = bench_open_bucket(peer, (struct leat_store_opts){0});
    for (unsigned i = 0; i < 100; i++) {
        struct leat_stream *s;
        const void *piece;
        size_t n;
        assert_ok(leat_stream_open(bucket, "key", &object, 0, UINT64_MAX, 50000, 8, &s, &err), err);
        for (unsigned pieces = 0; pieces < i % 4; pieces++)
            assert_ok(leat_stream_next(s, &piece, &n, &err), err);
        if (i % 2)
            usleep(i * 10);
        leat_stream_close(s);
    }
    leat_store_close(bucket);
    peer_close(peer);
}

/* A peer that takes uploads in parts and throws them away. */
struct uploads {
    pthread_mutex_t mu;
    bool open[1000]; /* by number */
    unsigned begun;
    unsigned finished;
    unsigned fail_part; /* this part is refused */
};

static unsigned open_uploads(struct uploads *u)
{
    unsigned n = 0;
    pthread_mutex_lock(&u->mu);
    for (unsigned i = 0; i < COUNT(u->open); i++)
        n += u->open[i];
    pthread_mutex_unlock(&u->mu);
    return n;
}

static bool begin_upload(struct uploads *u, struct peer_request *r)
{
    char text[128];
    unsigned id = u->begun++ % COUNT(u->open);
    u->open[id] = true;
    snprintf(text, sizeof text,
             "<InitiateMultipartUploadResult><UploadId>%u</UploadId></InitiateMultipartUploadResult>", id);
    return peer_answer(r, 200, text);
}

static bool end_upload(struct uploads *u, struct peer_request *r, bool finish)
{
    const char *id = strstr(r->target, "uploadId=");
    unsigned n = id ? (unsigned)strtoul(id + 9, NULL, 10) % COUNT(u->open) : 0;
    bool was_open = u->open[n];
    u->open[n] = false;
    u->finished += finish && was_open;
    if (!was_open)
        return peer_answer(r, 404, "<Error><Code>NoSuchUpload</Code></Error>");
    return finish ? peer_answer(r, 200, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
                  : peer_say(r, "HTTP/1.1 204 Gone\r\n\r\n");
}

static bool take_part(struct uploads *u, struct peer_request *r)
{
    char part[32];
    snprintf(part, sizeof part, "partNumber=%u&", u->fail_part);
    if (u->fail_part && strstr(r->target, part))
        return peer_answer(r, 403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>");
    return peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"p\"\r\nContent-Length: 0\r\n\r\n");
}

static bool serve_uploads(struct peer_request *r, void *user)
{
    struct uploads *u = user;
    bool post = strcmp(r->method, "POST") == 0;
    pthread_mutex_lock(&u->mu);
    bool ok = post && strstr(r->target, "uploads")       ? begin_upload(u, r)
              : post || strcmp(r->method, "DELETE") == 0 ? end_upload(u, r, post)
                                                         : take_part(u, r);
    pthread_mutex_unlock(&u->mu);
    return ok;
}

TEST_WITH(open_all, close_all, copies_closed_at_any_moment_leave_no_upload_and_no_file)
{
    struct leat_error err;
    struct leat_rng rng = leat_rng(9, 0);
    struct uploads uploads = {.mu = PTHREAD_MUTEX_INITIALIZER};
    struct peer *peer = peer_open(serve_uploads, &uploads);
    struct leat_store *bucket = bench_open_bucket(peer, (struct leat_store_opts){0});
    char big[128];
    snprintf(big, sizeof big, "%s", at("big"));
    FILE *f = fopen(big, "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), 3 * (5 << 20)), 0);
    fclose(f);
    put("small", 1000);
    char small[128];
    snprintf(small, sizeof small, "%s", at("small"));
    for (unsigned i = 0; i < 30; i++) {
        struct leat_copy *copy;
        struct leat_copy_opts opts = {.from = files, .to = i % 2 ? files : bucket, .part_size = LEAT_PART_MIN};
        assert_ok(leat_copy_open(&opts, &copy, &err), err);
        assert_ok(leat_copy_add(copy, big, NULL, i % 2 ? at("copy-big") : "big", &err), err);
        for (unsigned k = 0; k < 10; k++) {
            char name[32];
            snprintf(name, sizeof name, "copy-%u", k);
            assert_ok(leat_copy_add(copy, small, NULL, i % 2 ? at(name) : name, &err), err);
        }
        if (i % 3 == 0)
            assert_ok(leat_copy_wait(copy, &err), err);
        else
            usleep(leat_rng_u32(&rng) % 20000);
        leat_copy_close(copy);
        assert_int_equal(bench_leftovers(folder), 0);
        assert_int_equal(open_uploads(&uploads), 0);
    }
    assert_true(uploads.finished >= 5);
    leat_store_close(bucket);
    peer_close(peer);
    leat_copy_close(NULL);
}

TEST_WITH(open_all, close_all, a_refused_part_fails_the_copy_and_drops_the_upload)
{
    struct leat_error err;
    struct uploads uploads = {.mu = PTHREAD_MUTEX_INITIALIZER, .fail_part = 2};
    struct peer *peer = peer_open(serve_uploads, &uploads);
    struct leat_store *bucket = bench_open_bucket(peer, (struct leat_store_opts){0});
    FILE *f = fopen(at("big"), "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), 20 * (5 << 20)), 0);
    fclose(f);
    for (int with_error = 0; with_error < 2; with_error++) {
        struct leat_copy *copy;
        struct leat_copy_opts opts = {
            .from = files, .to = bucket, .part_size = LEAT_PART_MIN, .memory = 2 * LEAT_PART_MIN};
        assert_ok(leat_copy_open(&opts, &copy, &err), err);
        leat_status rc = leat_copy_add(copy, at("big"), NULL, "big", with_error ? &err : NULL);
        assert_true(rc == LEAT_OK || rc == LEAT_DENIED);
        assert_fails(leat_copy_wait(copy, &err), err, LEAT_DENIED, "s3://bucket/big");
        assert_int_equal(leat_copy_add(copy, at("big"), NULL, "other", &err), LEAT_DENIED);
        leat_copy_close(copy);
        assert_int_equal(open_uploads(&uploads), 0);
        assert_int_equal(uploads.finished, 0);
    }
    leat_store_close(bucket);
    peer_close(peer);
}

TEST_WITH(open_all, close_all, journals_survive_what_a_crash_does_to_them)
{
    struct leat_error err;
    struct leat_journal *j;
    struct leat_journal *second;
    struct leat_journal_head head = {.size = 100, .part_size = 10, .etag = "\"e\"", .upload = "id"};
    struct leat_store_part parts[10] = {0};
    char path[512];
    assert_ok(leat_journal_open(at("j"), "from", "to", &j, &err), err);
    assert_false(leat_journal_read(j, &head, parts, 10)); /* empty */
    assert_string_equal(head.upload, "");
    memcpy(head.upload, "id", 3);
    leat_journal_begin(j, &head, "from\xff", "to");
    leat_journal_note(j, 3, &(struct leat_store_part){.etag = "\"three\""});
    leat_journal_note(j, 10, &(struct leat_store_part){.etag = "\"ten\""});
    leat_journal_note(j, 11, &(struct leat_store_part){.etag = "\"beyond\""});
    leat_journal_note(NULL, 1, &(struct leat_store_part){.etag = ""});
    assert_fails(leat_journal_open(at("j"), "from", "to", &second, &err), err, LEAT_BUSY, "another copy");
    leat_journal_close(j, false);
    DIR *dir = opendir(at("j"));
    assert_non_null(dir);
    struct dirent *d;
    while ((d = readdir(dir)) && d->d_name[0] == '.')
        ;
    assert_non_null(d);
    snprintf(path, sizeof path, "%s/%s", at("j"), d->d_name);
    closedir(dir);
    off_t full;
    {
        FILE *f = fopen(path, "a");
        fputs("{\"part\":4,\"et", f); /* cut off in the middle of a line */
        fclose(f);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        full = st.st_size;
    }
    for (off_t n = full; n >= 0; n--) { /* cut off anywhere: never a part that did not arrive */
        assert_int_equal(truncate(path, n), 0);
        assert_ok(leat_journal_open(at("j"), "from", "to", &j, &err), err);
        memset(parts, 0, sizeof parts);
        bool fits = leat_journal_read(j, &head, parts, 10);
        if (n == full) {
            assert_true(fits);
            assert_string_equal(head.upload, "id");
            assert_string_equal(parts[2].etag, "\"three\"");
            assert_string_equal(parts[9].etag, "\"ten\"");
        }
        for (unsigned i = 0; i < 10; i++)
            assert_true(!parts[i].etag[0] || (fits && (i == 2 || i == 9)));
        leat_journal_close(j, false);
    }
    leat_journal_close(NULL, true);
    leat_journal_forget(at("j"), "from", "to");
    assert_int_not_equal(access(path, F_OK), 0);
}

TEST_WITH(open_all, close_all, a_journal_of_another_object_or_part_size_does_not_fit_but_names_its_upload)
{
    struct leat_error err;
    struct leat_journal *j;
    const struct leat_journal_head head = {.size = 100, .part_size = 10, .etag = "\"e\"", .upload = "id"};
    struct leat_journal_head others[] = {head, head, head, head};
    struct leat_store_part parts[10] = {0};
    others[0].size = 101;
    others[1].part_size = 11;
    others[2].etag[1] = 'f';
    others[3].by_server = true;
    assert_ok(leat_journal_open(at("j"), "from", "to", &j, &err), err);
    leat_journal_begin(j, &head, "from", "to");
    leat_journal_note(j, 1, &(struct leat_store_part){.etag = "x"});
    for (size_t i = 0; i < COUNT(others); i++) {
        others[i].upload[0] = '\0';
        assert_false(leat_journal_read(j, &others[i], parts, 10));
        assert_string_equal(others[i].upload, "id");
        assert_string_equal(parts[0].etag, "");
    }
    leat_journal_close(j, true);
}

static void begin(void)
{
    data = malloc(SIZE);
    assert_non_null(data);
    bench_fill(data, SIZE, 2);
}

static void end(void)
{
    free(data);
}

TEST_GROUP(begin, end);
