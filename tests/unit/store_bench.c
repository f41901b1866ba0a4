#include "store_bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "store/file.h"
#include "unit.h"

struct leat_store *bench_open(const char *text, const struct leat_store_opts *opts)
{
    struct leat_error err;
    struct leat_url url;
    struct leat_store *store = NULL;
    assert_ok(leat_url_parse(text, &url, &err), err);
    assert_ok(leat_store_open(&url, opts, &store, &err), err);
    leat_url_free(&url);
    return store;
}

struct leat_store *bench_open_bucket(const struct peer *peer, struct leat_store_opts opts)
{
    opts.endpoint_url = peer_url(peer);
    opts.anonymous = true;
    if (opts.hedge == LEAT_HEDGE_AUTO)
        opts.hedge = LEAT_HEDGE_OFF; /* tests count requests, and on a busy machine some are late */
    return bench_open("s3://bucket", &opts);
}

struct leat_store *bench_open_files(void)
{
    return bench_open("/", NULL);
}

struct leat_store *bench_open_files_with(struct leat_store_opts opts)
{
    return bench_open("/", &opts);
}

unsigned bench_leftovers(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    unsigned n = 0;
    for (struct dirent *d; (d = readdir(dir));)
        n += strncmp(d->d_name, LEAT_FILE_TEMPORARY, strlen(LEAT_FILE_TEMPORARY)) == 0;
    closedir(dir);
    return n;
}

bool peer_file(const struct peer_request *r, const char *path, long flip, size_t cut, const char *etag)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return peer_answer(r, 404, "<Error><Code>NoSuchKey</Code></Error>");
    size_t n = (size_t)st.st_size;
    uint8_t *data = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return false;
    if (flip >= 0)
        data[(r->has_range ? r->first : 0) + (uint64_t)flip] ^= 4;
    bool ok = peer_object(r, data, n - cut, etag);
    munmap(data, n);
    return ok;
}

void bench_on_done(struct leat_store_op *op)
{
    ((struct bench_op *)op)->done++;
}

void bench_wait(const struct bench_op *op)
{
    if (!wait_until(&op->done, 1))
        fail_msg("an operation did not end within a minute");
}

void bench_fill(void *data, size_t n, uint64_t seed)
{
    struct leat_rng rng = leat_rng(seed, 0);
    unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)leat_rng_u32(&rng);
}
