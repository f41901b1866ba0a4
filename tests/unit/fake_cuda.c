/* Stands in for libcuda.so.1 on machines without a GPU. "Device" memory is the host's. A stream does nothing until
 * fake_run() is called: a copy is then as late as a test wants it to be, and reads what its source holds by then. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOT_READY 600
#define FAILED    999
#define MOST      4096

struct event {
    int recorded, happened;
};

struct task {
    enum { COPY, RECORD, LAUNCH } kind;
    void *to;
    const void *from;
    size_t bytes;
    struct event *event;
    const char *function;
    uint64_t pixels, plane;
    float scale[4], shift[4];
};

static struct task queue[MOST];
static size_t queued, done;
static struct {
    void *data;
    size_t bytes;
} registered[64];
int fake_registered, fake_unregistered, fake_waits, fake_fail_in, fake_unmapped_too_early, fake_events;

static int fails(void)
{
    return fake_fail_in && --fake_fail_in == 0 ? FAILED : 0;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == FAILED ? "as the test wanted it" : NULL;
    return 0;
}

int cuCtxGetCurrent(void **context)
{
    static int here;
    *context = &here;
    return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
    return context ? 0 : FAILED;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = NULL;
    return 0;
}

int cuMemHostRegister_v2(void *data, size_t bytes, unsigned flags)
{
    (void)flags;
    int rc = fails();
    for (int i = 0; !rc && i < 64; i++) {
        if (registered[i].data)
            continue;
        registered[i].data = data;
        registered[i].bytes = bytes;
        fake_registered++;
        return 0;
    }
    return rc ? rc : FAILED;
}

int cuMemHostUnregister(void *data)
{
    unsigned char page;
    for (int i = 0; i < 64; i++) {
        if (registered[i].data != data)
            continue;
        if (mincore(data, 1, &page) != 0 && errno == ENOMEM)
            fake_unmapped_too_early++;
        registered[i].data = NULL;
        fake_unregistered++;
        return 0;
    }
    return FAILED;
}

static int add(struct task task)
{
    if (queued == MOST)
        abort();
    queue[queued++] = task;
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    int rc = fails();
    return rc ? rc : add((struct task){COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes});
}

int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(struct event));
    fake_events++;
    return *event ? 0 : FAILED;
}

int cuEventDestroy_v2(void *event)
{
    (void)event; /* it may still be in the queue */
    fake_events--;
    return 0;
}

int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    int rc = fails();
    if (rc)
        return rc;
    *(struct event *)event = (struct event){.recorded = 1};
    return add((struct task){RECORD, .event = event});
}

int cuEventQuery(void *event)
{
    const struct event *e = event;
    return e->recorded && !e->happened ? NOT_READY : 0;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    fake_waits++;
    return fails();
}

int cuModuleLoadData(void **module, const void *image)
{
    *module = (void *)(uintptr_t)image;
    return fails();
}

int cuModuleUnload(void *module)
{
    (void)module;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    *function = strdup(name);
    return fails();
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **p, void **extra)
{
    struct task t = {LAUNCH, .function = function};
    (void)shared, (void)stream, (void)extra;
    int rc = fails();
    if (rc || !gx || gy != 1 || gz != 1 || !bx || by != 1 || bz != 1)
        return rc ? rc : FAILED;
    t.from = *(void **)p[0];
    t.to = *(void **)p[1];
    t.pixels = *(uint64_t *)p[2];
    t.plane = *(uint64_t *)p[3];
    memcpy(t.scale, p[4], sizeof t.scale);
    memcpy(t.shift, (char *)p[4] + sizeof t.scale, sizeof t.shift);
    return add(t);
}

/* leat_float32_CHANNELS_pixels_N or …_planes_N. */
static void launch(const struct task *t)
{
    unsigned channels = 0;
    char order[8] = "";
    if (sscanf(t->function, "leat_float32_%u_%6[a-z]", &channels, order) != 2)
        abort();
    for (uint64_t i = 0; i < t->pixels * channels; i++) {
        uint64_t pixel = i / channels;
        uint64_t c = i % channels;
        uint64_t planar = pixel / t->plane * t->plane * channels + c * t->plane + pixel % t->plane;
        float x = ((const unsigned char *)t->from)[i];
        ((float *)t->to)[strcmp(order, "planes") == 0 ? planar : i] = x * t->scale[c] + t->shift[c];
    }
}

/* Does what was queued first; at most n things. */
void fake_run(size_t n)
{
    while (done < queued && n--) {
        const struct task *t = &queue[done++];
        if (t->kind == COPY)
            memcpy(t->to, t->from, t->bytes);
        else if (t->kind == LAUNCH)
            launch(t);
        else
            t->event->happened = 1;
    }
    if (done == queued)
        done = queued = 0;
}

int cuStreamSynchronize(void *stream)
{
    (void)stream;
    fake_run(SIZE_MAX);
    return 0;
}
