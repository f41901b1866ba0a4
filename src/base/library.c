#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static leat_status find_calls(struct leat_library *l, void *handle, struct leat_error *err)
{
    for (size_t i = 0; l->names[i]; i++) {
        void *at = dlsym(handle, l->names[i]);
        if (!at)
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "%s has no function %s: it is not the version that Leat was "
                             "built for",
                             l->soname, l->names[i]);
        memcpy(&l->calls[i], &at, sizeof at); /* ISO C has no cast from one to the other */
    }
    return LEAT_OK;
}

leat_status leat_library_open(struct leat_library *l, struct leat_error *err)
{
    static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    if (atomic_load_explicit(&l->open, memory_order_acquire)) /* pairs with the release below: calls are filled in */
        return LEAT_OK;
    pthread_mutex_lock(&mu);
    leat_status rc = LEAT_OK;
    if (!atomic_load_explicit(&l->open, memory_order_relaxed)) {
        void *handle = dlopen(l->soname, RTLD_NOW | RTLD_LOCAL);
        rc = handle ? find_calls(l, handle, err)
                    : leat_fail(err, LEAT_UNSUPPORTED, "needs the library %s, which is missing: install %s", l->soname,
                                l->package);
        if (rc == LEAT_OK)
            atomic_store_explicit(&l->open, true, memory_order_release);
        else if (handle)
            dlclose(handle);
    }
    pthread_mutex_unlock(&mu);
    return rc;
}
