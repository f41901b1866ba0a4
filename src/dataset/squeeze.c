#include "dataset/squeeze.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "dataset/chunk.h"

#define LEVEL 3  /* zstd's own default: levels above it cost several times the time for a few percent */
#define LEAST 32 /* bytes: a frame has some 10 of its own */

void leat_squeeze_free(struct leat_squeeze *s)
{
    ZSTD_freeCCtx(s->context);
    free(s->out);
    *s = (struct leat_squeeze){0};
}

/* Room for what is worth keeping and no more: zstd stops when it is not enough. */
static bool find_room(struct leat_squeeze *s, size_t n)
{
    if (!s->context)
        s->context = ZSTD_createCCtx();
    if (s->out_bytes < n) {
        void *more = realloc(s->out, n);
        if (more) {
            s->out = more;
            s->out_bytes = n;
        }
    }
    s->failed = s->failed || !s->context || s->out_bytes < n;
    return !s->failed;
}

size_t leat_squeeze(struct leat_squeeze *s, const void *data, size_t n)
{
    size_t most = n - n / 20 - 1;
    if (n < LEAST || n > LEAT_RAW_MAX || !find_room(s, most))
        return 0;
    size_t made = ZSTD_compressCCtx(s->context, s->out, most, data, n, LEVEL);
    if (!ZSTD_isError(made))
        return made;
    s->failed = s->failed || ZSTD_getErrorCode(made) == ZSTD_error_memory_allocation;
    return 0;
}

static struct {
    pthread_once_t once;
    pthread_key_t key;   /* a thread's context */
    _Atomic bool usable; /* relaxed: whether there is a key; without it contexts are not kept */
} contexts = {.once = PTHREAD_ONCE_INIT};

static void drop_context(void *context)
{
    ZSTD_freeDCtx(context);
}

static void make_key(void)
{
    atomic_store_explicit(&contexts.usable, pthread_key_create(&contexts.key, drop_context) == 0, memory_order_relaxed);
}

/* Where this library is unloaded, threads that end later must not call what is gone. */
__attribute__((destructor)) static void forget_key(void)
{
    if (atomic_exchange_explicit(&contexts.usable, false, memory_order_relaxed))
        pthread_key_delete(contexts.key);
}

size_t leat_unsqueeze(void *to, size_t to_bytes, const void *frame, size_t n)
{
    pthread_once(&contexts.once, make_key);
    bool usable = atomic_load_explicit(&contexts.usable, memory_order_relaxed);
    ZSTD_DCtx *context = usable ? pthread_getspecific(contexts.key) : NULL;
    if (usable && !context) {
        context = ZSTD_createDCtx();
        if (context && pthread_setspecific(contexts.key, context) != 0) {
            ZSTD_freeDCtx(context);
            context = NULL;
        }
    }
    return context ? ZSTD_decompressDCtx(context, to, to_bytes, frame, n) : ZSTD_decompress(to, to_bytes, frame, n);
}
