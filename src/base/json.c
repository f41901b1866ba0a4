/* When the buffer of a token cannot grow, jansson 2.14 drops the character and goes on: numbers and names lose digits
 * and letters, and a string that lost its end is copied from after it, beyond the memory made for it. So no allocation
 * fails inside these functions: when memory runs out they go on with a reserve, and throw the result away. */
#include "base/json.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t mu;
    _Alignas(16) char bytes[1 << 20]; /* touched by nobody until it is needed; a message has up to 64 KiB */
    size_t used;
} reserve = {.mu = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool inside; /* one of our functions, on this thread */
static _Thread_local bool failed; /* and it has the reserve */

static void *get(size_t n)
{
    void *p = malloc(n);
    if (p || !inside)
        return p;
    if (!failed) {
        pthread_mutex_lock(&reserve.mu);
        reserve.used = 0;
        failed = true;
    }
    size_t at = (reserve.used + 15) & ~(size_t)15;
    if (n > sizeof reserve.bytes - at)
        return NULL;
    reserve.used = at + n;
    return reserve.bytes + at;
}

static void give(void *p)
{
    uintptr_t at = (uintptr_t)p - (uintptr_t)reserve.bytes;
    if (at >= sizeof reserve.bytes)
        free(p);
}

/* Before any thread can be inside jansson. It is the same memory as before, so other code that uses jansson in this
 * process sees no difference; functions that were set before stay. */
__attribute__((constructor)) static void watch(void)
{
    json_malloc_t theirs;
    json_free_t theirs_free;
    json_get_alloc_funcs(&theirs, &theirs_free);
    if (theirs == malloc && theirs_free == free)
        json_set_alloc_funcs(get, give);
}

/* Where this library is unloaded and jansson is not, it must not call what is gone. What we hand out is malloc's. */
__attribute__((destructor)) static void unwatch(void)
{
    json_malloc_t now;
    json_free_t now_free;
    json_get_alloc_funcs(&now, &now_free);
    if (now == get && now_free == give)
        json_set_alloc_funcs(malloc, free);
}

static void enter(void)
{
    inside = true;
    failed = false;
}

/* True: memory ran out. Whatever was made must be given back before. */
static bool leave(void)
{
    bool without = failed;
    inside = failed = false;
    if (without)
        pthread_mutex_unlock(&reserve.mu);
    return without;
}

leat_status leat_json_read(const char *text, size_t n, size_t flags, json_t **out, json_error_t *why)
{
    enter();
    json_t *value = json_loadb(text, n, flags, why);
    if (failed)
        json_decref(value);
    if (leave())
        return LEAT_NO_MEMORY;
    if (!value)
        return LEAT_INVALID;
    *out = value;
    return LEAT_OK;
}

char *leat_json_write(const json_t *value, size_t flags)
{
    enter();
    char *text = value ? json_dumps(value, flags) : NULL;
    if (failed)
        give(text);
    return leave() ? NULL : text;
}
