/* tool_disk DIR N: stores N chunks of 100,000 bytes in the cache folder as an agent would, says "ready", and holds the
 * folder until standard input ends. Run by tests/py. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cache/disk.h"

#define BYTES 100000u

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static unsigned left;
static int failed;

static void on_done(struct leat_disk_op *op)
{
    pthread_mutex_lock(&mu);
    if (op->err.status != LEAT_OK) {
        fprintf(stderr, "%s\n", op->err.text);
        failed = 1;
    }
    if (--left == 0)
        pthread_cond_signal(&done);
    pthread_mutex_unlock(&mu);
}

int main(int argc, char **argv)
{
    struct leat_disk *d = NULL;
    struct leat_error err;
    unsigned n = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    if (n == 0 || n > 100)
        return 2;
    struct leat_disk_opts opts = {.dir = argv[1], .budget = 1u << 30};
    if (leat_disk_open(&opts, &d, &err) != LEAT_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    static struct leat_disk_op ops[100];
    static uint8_t data[100][BYTES];
    left = n;
    for (unsigned i = 0; i < n; i++) {
        memset(data[i], (int)i, BYTES);
        ops[i] = (struct leat_disk_op){.kind = LEAT_DISK_WRITE, .data = data[i], .bytes = BYTES, .done = on_done};
        leat_sha256(data[i], BYTES, ops[i].name);
        leat_disk_submit(d, &ops[i]);
    }
    pthread_mutex_lock(&mu);
    while (left)
        pthread_cond_wait(&done, &mu);
    pthread_mutex_unlock(&mu);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    leat_disk_close(d);
    return failed;
}
