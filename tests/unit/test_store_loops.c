/* The threads that stores share. */
#include "store/loops.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store_bench.h"
#include "unit.h"

static char data[4096];

static bool serve_object(struct peer_request *r, void *user)
{
    (void)user;
    return peer_object(r, data, sizeof data, "\"tag\"");
}

/* Threads of this process that are called "leat-store". */
static unsigned store_threads(void)
{
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *e; (e = readdir(tasks));) {
        char path[300];
        char name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (!f)
            continue;
        n += fgets(name, sizeof name, f) && strcmp(name, "leat-store\n") == 0;
        fclose(f);
    }
    closedir(tasks);
    return n;
}

TEST(many_stores_share_a_few_threads)
{
    enum { STORES = 64 };
    struct leat_error err;
    struct leat_store *stores[STORES];
    char into[100];
    struct peer *peer = peer_open(serve_object, NULL);
    for (int i = 0; i < STORES; i++)
        stores[i] = bench_open_bucket(peer, (struct leat_store_opts){0});
    assert_in_range(store_threads(), 1, LEAT_LOOPS_MAX);
    for (int i = 0; i < STORES; i++)
        assert_ok(leat_store_get(stores[i], "key", 0, sizeof into, into, NULL, &err), err);
    for (int i = 0; i < STORES; i += 2) /* the others go on */
        leat_store_close(stores[i]);
    for (int i = 1; i < STORES; i += 2)
        assert_ok(leat_store_get(stores[i], "key", 0, sizeof into, into, NULL, &err), err);
    for (int i = 1; i < STORES; i += 2)
        leat_store_close(stores[i]);
    assert_int_equal(store_threads(), 0);
    peer_close(peer);
}

/* ThreadSanitizer allows no threads after such a fork, and AddressSanitizer's allocator may stay locked in the child.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(a_child_has_loops_of_its_own)
{
    struct leat_error err;
    char into[100];
    struct peer *peer = peer_open(serve_object, NULL);
    struct leat_store *store = bench_open_bucket(peer, (struct leat_store_opts){0});
    assert_ok(leat_store_get(store, "key", 0, sizeof into, into, NULL, &err), err);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120);
        struct leat_store *own = bench_open_bucket(peer, (struct leat_store_opts){0});
        leat_status rc = leat_store_get(own, "key", 0, sizeof into, into, NULL, &err);
        leat_store_close(own);
        _exit(rc == LEAT_OK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_ok(leat_store_get(store, "key", 0, sizeof into, into, NULL, &err), err);
    leat_store_close(store);
    peer_close(peer);
}
#endif

static void begin(void)
{
    bench_fill(data, sizeof data, 1);
}

TEST_GROUP(begin, NULL);
