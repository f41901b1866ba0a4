#include "disk_bench.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/thread.h"
#include "unit.h"

void disk_folder(char out[64])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(out, 64, "%s/leat-disk-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    assert_non_null(mkdtemp(out));
}

void disk_folder_remove(const char *folder)
{
    char path[512];
    DIR *dir = opendir(folder);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlink(path) < 0)
            rmdir(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

struct leat_disk *disk_open(const char *folder, uint64_t budget)
{
    struct leat_disk *d = NULL;
    struct leat_error err;
    struct leat_disk_opts opts = {.dir = folder, .budget = budget ? budget : 1ull << 30};
    assert_ok(leat_disk_open(&opts, &d, &err), err);
    return d;
}

uint8_t *disk_chunk(uint32_t seed, uint64_t bytes, uint8_t name[32])
{
    uint8_t *data = malloc(bytes + 16);
    struct leat_rng r = leat_rng(seed, bytes);
    if (!data)
        abort();
    for (uint64_t i = 0; i < bytes; i += 4) {
        uint32_t v = leat_rng_u32(&r);
        memcpy(data + i, &v, 4);
    }
    leat_sha256(data, bytes, name);
    return data;
}

struct waiting {
    struct leat_disk_op op;
    pthread_mutex_t mu;
    pthread_cond_t done;
    bool is_done;
};

static void wake(struct leat_disk_op *op)
{
    struct waiting *w = (struct waiting *)op;
    pthread_mutex_lock(&w->mu);
    w->is_done = true;
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->mu);
}

leat_status disk_run(struct leat_disk *d, enum leat_disk_kind kind, const uint8_t name[32], void *data, uint64_t bytes,
                     struct leat_error *err)
{
    struct waiting w = {.op = {.kind = kind, .data = data, .bytes = bytes, .done = wake},
                        .mu = PTHREAD_MUTEX_INITIALIZER};
    memcpy(w.op.name, name, 32);
    leat_cond_init(&w.done);
    uint64_t deadline = leat_after(60 * LEAT_S);
    leat_disk_submit(d, &w.op);
    pthread_mutex_lock(&w.mu);
    while (!w.is_done) {
        if (!leat_cond_wait(&w.done, &w.mu, deadline))
            fail_msg("the disk cache has not answered for a minute");
    }
    pthread_mutex_unlock(&w.mu);
    pthread_cond_destroy(&w.done);
    *err = w.op.err;
    return w.op.err.status;
}

leat_status disk_write_seed(struct leat_disk *d, uint32_t seed, uint64_t bytes, struct leat_error *err)
{
    uint8_t name[32];
    uint8_t *data = disk_chunk(seed, bytes, name);
    leat_status rc = disk_run(d, LEAT_DISK_WRITE, name, data, bytes, err);
    free(data);
    return rc;
}

leat_status disk_read_seed(struct leat_disk *d, uint32_t seed, uint64_t bytes, struct leat_error *err)
{
    uint8_t name[32];
    uint8_t *data = disk_chunk(seed, bytes, name);
    uint8_t *got = malloc(bytes);
    assert_non_null(got);
    memset(got, 0xa5, bytes);
    leat_status rc = disk_run(d, LEAT_DISK_READ, name, got, bytes, err);
    if (rc == LEAT_OK && memcmp(got, data, bytes) != 0)
        fail_msg("chunk %u was delivered with wrong bytes", seed);
    free(got);
    free(data);
    return rc;
}

void disk_remove_seed(struct leat_disk *d, uint32_t seed, uint64_t bytes)
{
    uint8_t name[32];
    free(disk_chunk(seed, bytes, name));
    leat_disk_remove(d, name);
}

static void count_one(void *user, const uint8_t name[32], uint64_t bytes)
{
    (void)name;
    (void)bytes;
    ++*(uint32_t *)user;
}

uint32_t disk_count(struct leat_disk *d)
{
    uint32_t n = 0;
    leat_disk_each(d, count_one, &n);
    return n;
}

struct shown {
    struct {
        uint8_t name[32];
        uint64_t bytes;
    } * chunks;
    uint32_t n;
};

static void note_chunk(void *user, const uint8_t name[32], uint64_t bytes)
{
    struct shown *s = user;
    s->chunks = realloc(s->chunks, (s->n + 1) * sizeof *s->chunks);
    if (!s->chunks)
        abort();
    memcpy(s->chunks[s->n].name, name, 32);
    s->chunks[s->n++].bytes = bytes;
}

uint32_t disk_verify(struct leat_disk *d)
{
    struct shown s = {0};
    uint32_t right = 0;
    leat_disk_each(d, note_chunk, &s);
    for (uint32_t i = 0; i < s.n; i++) {
        struct leat_error err;
        uint8_t digest[32];
        uint8_t *data = malloc(s.chunks[i].bytes);
        assert_non_null(data);
        if (disk_run(d, LEAT_DISK_READ, s.chunks[i].name, data, s.chunks[i].bytes, &err) == LEAT_OK) {
            leat_sha256(data, s.chunks[i].bytes, digest);
            assert_memory_equal(digest, s.chunks[i].name, 32);
            right++;
        }
        free(data);
    }
    free(s.chunks);
    return right;
}

/* Calls `each` for every segment file; returns how many there are. */
static unsigned segments(const char *folder, void (*each)(const char *path, void *user), void *user)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    struct dirent *e;
    char path[512];
    while (dir && (e = readdir(dir))) {
        if (!strstr(e->d_name, ".seg"))
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (each)
            each(path, user);
    }
    if (dir)
        closedir(dir);
    return n;
}

static void take_path(const char *path, void *user)
{
    snprintf(user, 128, "%s", path);
}

void disk_segment_file(const char *folder, char out[128])
{
    out[0] = '\0';
    segments(folder, take_path, out);
    assert_true(out[0]);
}

unsigned disk_segment_count(const char *folder)
{
    return segments(folder, NULL, NULL);
}

static void add_blocks(const char *path, void *user)
{
    struct stat st;
    if (stat(path, &st) == 0)
        *(uint64_t *)user += (uint64_t)st.st_blocks * 512;
}

uint64_t disk_allocated(const char *folder)
{
    uint64_t n = 0;
    segments(folder, add_blocks, &n);
    return n;
}

bool disk_wait(bool (*holds)(void *user), void *user)
{
    uint64_t deadline = leat_after(60 * LEAT_S);
    while (!holds(user)) {
        if (!leat_left(deadline))
            return false;
        leat_sleep_until(leat_after(5 * LEAT_MS));
    }
    return true;
}
