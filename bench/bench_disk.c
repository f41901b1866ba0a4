/* The disk cache beside plain reads of the same files: one JSON object a line.
 *
 *   bench_disk fill FOLDER CHUNKS BYTES    stores chunks
 *   bench_disk read FOLDER                 reads all of them through the cache, in random order, 8 at a time
 *   bench_disk write FOLDER CHUNKS BYTES   as fill, and says how fast
 *   bench_disk plain FOLDER THREADS        reads all segments with O_DIRECT, a mebibyte a call, and does nothing with
 * it bench_disk buffered FOLDER THREADS     the same through the page cache bench_disk sparse FOLDER CHUNKS BYTES makes
 * segments with a table and no data bench_disk open FOLDER                 opens and closes it */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "cache/disk.h"
#include "cache/segment.h"

#define DEPTH 8u
#define PIECE (1u << 20)
#define FILES 4096u

static double cpu_s(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static int die(const char *what)
{
    fprintf(stderr, "bench_disk: %s\n", what);
    exit(1);
}

static void report(const char *what, uint64_t bytes, uint64_t start_ns, double start_cpu)
{
    double s = (double)(leat_now_ns() - start_ns) / 1e9;
    printf("{\"what\":\"%s\",\"bytes\":%" PRIu64 ",\"seconds\":%.4f,\"cpu_s\":%.4f}\n", what, bytes, s,
           cpu_s() - start_cpu);
}

static struct leat_disk *open_cache(const char *folder, uint64_t budget)
{
    struct leat_disk *d = NULL;
    struct leat_error err;
    struct leat_disk_opts opts = {.dir = folder, .budget = budget};
    if (leat_disk_open(&opts, &d, &err) != LEAT_OK)
        die(err.text);
    return d;
}

/* --- through the cache --- */

struct chunk {
    uint8_t name[32];
    uint64_t bytes;
};

static struct {
    struct leat_disk *disk;
    enum leat_disk_kind kind;
    struct chunk *chunks;
    size_t n;
    atomic_size_t next;
    atomic_size_t done;
    pthread_mutex_t mu;
    pthread_cond_t all;
} work = {.mu = PTHREAD_MUTEX_INITIALIZER, .all = PTHREAD_COND_INITIALIZER};

static void next_op(struct leat_disk_op *op)
{
    size_t i = atomic_fetch_add(&work.next, 1);
    if (i >= work.n)
        return;
    op->kind = work.kind;
    op->bytes = work.chunks[i].bytes;
    memcpy(op->name, work.chunks[i].name, sizeof op->name);
    if (op->kind == LEAT_DISK_WRITE)
        memcpy(op->data, op->name, sizeof op->name); /* chunks differ; the cache takes the name's word */
    leat_disk_submit(work.disk, op);
}

static void on_done(struct leat_disk_op *op)
{
    if (op->err.status != LEAT_OK)
        die(op->err.text);
    next_op(op);
    if (atomic_fetch_add(&work.done, 1) + 1 == work.n) {
        pthread_mutex_lock(&work.mu);
        pthread_cond_signal(&work.all);
        pthread_mutex_unlock(&work.mu);
    }
}

static void run_all(const char *what, uint64_t largest)
{
    static struct leat_disk_op ops[DEPTH];
    uint64_t bytes = 0;
    for (size_t i = 0; i < work.n; i++)
        bytes += work.chunks[i].bytes;
    for (unsigned i = 0; i < DEPTH; i++) {
        ops[i].done = on_done;
        ops[i].data = malloc(largest);
        if (!ops[i].data)
            die("no memory");
        memset(ops[i].data, (int)i, largest);
    }
    uint64_t start = leat_now_ns();
    double cpu = cpu_s();
    for (unsigned i = 0; i < DEPTH; i++)
        next_op(&ops[i]);
    pthread_mutex_lock(&work.mu);
    while (work.done < work.n)
        pthread_cond_wait(&work.all, &work.mu);
    pthread_mutex_unlock(&work.mu);
    report(what, bytes, start, cpu);
}

static void take(void *user, const uint8_t name[32], uint64_t bytes)
{
    (void)user;
    work.chunks = realloc(work.chunks, (work.n + 1) * sizeof *work.chunks);
    if (!work.chunks)
        die("no memory");
    memcpy(work.chunks[work.n].name, name, 32);
    work.chunks[work.n++].bytes = bytes;
}

static void read_all(const char *folder)
{
    uint64_t largest = 0;
    work.disk = open_cache(folder, 1ull << 40);
    work.kind = LEAT_DISK_READ;
    leat_disk_each(work.disk, take, NULL); /* by their names, which is no order at all */
    for (size_t i = 0; i < work.n; i++)
        largest = work.chunks[i].bytes > largest ? work.chunks[i].bytes : largest;
    if (!work.n)
        die("nothing to read");
    run_all("cache", largest);
    leat_disk_close(work.disk);
}

static void name_chunks(size_t n, uint64_t bytes)
{
    work.chunks = calloc(n, sizeof *work.chunks);
    if (!work.chunks)
        die("no memory");
    work.n = n;
    for (size_t i = 0; i < n; i++) {
        leat_sha256(&i, sizeof i, work.chunks[i].name);
        work.chunks[i].bytes = bytes;
    }
}

static void write_all(const char *folder, size_t n, uint64_t bytes)
{
    name_chunks(n, bytes);
    work.disk = open_cache(folder, n * leat_disk_footprint(bytes) + (64u << 20));
    work.kind = LEAT_DISK_WRITE;
    run_all("write", bytes);
    leat_disk_close(work.disk);
}

/* --- the plain way --- */

static struct {
    char *paths[FILES];
    size_t n;
    atomic_size_t next;
    int flags;
    atomic_uint_fast64_t bytes;
} plain;

static void *read_files(void *arg)
{
    void *piece = NULL;
    (void)arg;
    if (posix_memalign(&piece, 4096, PIECE) != 0)
        die("no memory");
    for (size_t i; (i = atomic_fetch_add(&plain.next, 1)) < plain.n;) {
        int fd = open(plain.paths[i], O_RDONLY | O_CLOEXEC | plain.flags);
        off_t at = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
        off_t end = at;
        if (at < 0)
            die("cannot open a segment");
        if (!plain.flags)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        /* The chunks only: the same bytes as through the cache. */
        for (at = end % PIECE ? end % PIECE : 0; at < end; at += PIECE) {
            if (pread(fd, piece, PIECE, at) != PIECE)
                die("cannot read a segment");
            plain.bytes += PIECE;
        }
        close(fd);
    }
    free(piece);
    return NULL;
}

static void find_files(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        if (!leat_segment_is_name(e->d_name) || plain.n == FILES)
            continue;
        if (asprintf(&plain.paths[plain.n++], "%s/%s", folder, e->d_name) < 0)
            die("no memory");
    }
    if (dir)
        closedir(dir);
}

static void read_plain(const char *what, const char *folder, unsigned threads, int flags)
{
    pthread_t t[64];
    find_files(folder);
    plain.flags = flags;
    threads = threads < 64 ? threads : 64;
    uint64_t start = leat_now_ns();
    double cpu = cpu_s();
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&t[i], NULL, read_files, NULL) != 0)
            die("no thread");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
    report(what, plain.bytes, start, cpu);
}

/* --- reopening --- */

static void make_sparse(const char *folder, size_t n, uint64_t bytes)
{
    struct leat_segment *s = NULL;
    struct leat_error err;
    uint32_t slot;
    int fd;
    uint64_t segment = n * leat_disk_footprint(bytes) / 64;
    if (leat_disk_folder_open(folder, true, &fd, &err) != LEAT_OK)
        die(err.text);
    name_chunks(n, bytes);
    for (size_t i = 0; i < n; i++) {
        while (!s || !leat_segment_take(s, work.chunks[i].name, bytes, &slot)) {
            leat_segment_close(s);
            if (leat_segment_make(fd, segment < (64u << 20) ? 64u << 20 : segment, &s, &err) != LEAT_OK)
                die(err.text);
        }
        if (leat_segment_publish(s, slot, &s->slots[slot], &err) != LEAT_OK)
            die(err.text);
        leat_segment_set_live(s, slot);
    }
    leat_segment_close(s);
    close(fd);
}

static void count(void *user, const uint8_t name[32], uint64_t bytes)
{
    (void)name;
    *(uint64_t *)user += bytes;
}

static void open_once(const char *folder)
{
    uint64_t bytes = 0;
    sync();
    find_files(folder);
    for (size_t i = 0; i < plain.n; i++) { /* as after a restart of the machine */
        int fd = open(plain.paths[i], O_RDONLY | O_CLOEXEC);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    uint64_t start = leat_now_ns();
    double cpu = cpu_s();
    struct leat_disk *d = open_cache(folder, 1ull << 40);
    leat_disk_each(d, count, &bytes);
    report("open", bytes, start, cpu);
    leat_disk_close(d);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    size_t n = argc > 3 ? (size_t)strtoull(argv[3], NULL, 10) : 0;
    uint64_t bytes = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    if ((strcmp(what, "fill") == 0 || strcmp(what, "write") == 0) && n && bytes)
        write_all(argv[2], n, bytes);
    else if (strcmp(what, "read") == 0)
        read_all(argv[2]);
    else if (strcmp(what, "plain") == 0 && n)
        read_plain("plain", argv[2], (unsigned)n, O_DIRECT);
    else if (strcmp(what, "buffered") == 0 && n)
        read_plain("buffered", argv[2], (unsigned)n, 0);
    else if (strcmp(what, "sparse") == 0 && n && bytes)
        make_sparse(argv[2], n, bytes);
    else if (strcmp(what, "open") == 0)
        open_once(argv[2]);
    else
        die("fill|write FOLDER CHUNKS BYTES, read FOLDER, plain|buffered FOLDER THREADS, sparse FOLDER CHUNKS BYTES, "
            "open FOLDER");
    return 0;
}
