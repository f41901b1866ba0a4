/* Stores for tests: a bucket whose server is a peer, and files. */
#ifndef LEAT_TESTS_STORE_BENCH_H
#define LEAT_TESTS_STORE_BENCH_H

#include "peer.h"
#include "store/store.h"
#include "unit_place.h"

struct leat_store *bench_open(const char *url, const struct leat_store_opts *opts);
struct leat_store *bench_open_bucket(const struct peer *peer, struct leat_store_opts opts); /* s3://bucket, anonymous */
struct leat_store *bench_open_files(void);
struct leat_store *bench_open_files_with(struct leat_store_opts opts);

/* Names in the folder that begin with what temporary files begin with. */
unsigned bench_leftovers(const char *folder);

/* Answers with a file without its last bytes, or 404. The byte at `flip` of what was asked for is damaged; -1: none. */
bool peer_file(const struct peer_request *request, const char *path, long flip, size_t cut, const char *etag);

/* An op that counts its end. */
struct bench_op {
    struct leat_store_op op; /* first member */
    struct leat_error err;
    atomic_uint done;
    void *user;
};
void bench_on_done(struct leat_store_op *op);
void bench_wait(const struct bench_op *op);

/* Bytes that differ from place to place, the same in every run. */
void bench_fill(void *data, size_t n, uint64_t seed);

#endif
