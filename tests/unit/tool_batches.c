/* A program of a user's, with the public headers and the shared library only: structs of other releases, batches that
 * are released after an event, states of batches. tests/py/test_c_batches.py runs it, one promise a run:
 *     tool_batches PROMISE DATASET
 * The dataset has at least 64 samples without damage. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "leat/leat.h"
#include "leat/loader.h"

#define EACH 4u /* samples in a batch */

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct leat_error ok_err;                                                                                      \
        struct leat_error *why = &ok_err;                                                                              \
        if ((call) != LEAT_OK) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ok_err.text);                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static const struct leat_output outputs[] = {
    {.size = sizeof *outputs, .name = "index", .kind = LEAT_OUTPUT_INDEX},
    {.size = sizeof *outputs, .name = "key", .kind = LEAT_OUTPUT_KEY},
};

static struct leat_loader_opts options(const char *url)
{
    return (struct leat_loader_opts){
        .size = sizeof(struct leat_loader_opts),
        .url = url,
        .outputs = outputs,
        .outputs_n = 2,
        .global_batch = EACH,
        .world = 1,
        .slots = 2,
        .timeout_ns = 60ull * 1000000000,
    };
}

static struct leat_loader *open_loader(const char *url)
{
    struct leat_loader_opts o = options(url);
    struct leat_loader *loader = NULL;
    OK(leat_loader_open(&o, &loader, why));
    return loader;
}

static struct leat_batch *next(struct leat_loader *loader)
{
    struct leat_batch *batch = NULL;
    OK(leat_loader_next(loader, &batch, why));
    return batch;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static const volatile int64_t *numbers(const struct leat_batch *batch)
{
    struct leat_column c = {.size = sizeof c};
    OK(leat_batch_column(batch, 0, &c, why));
    CHECK(c.dtype == LEAT_I64 && c.bytes == EACH * sizeof(int64_t));
    return c.data;
}

/* Without shuffling a batch has the numbers from `first` on. */
static bool holds(const volatile int64_t *number, int64_t first)
{
    for (uint32_t i = 0; i < EACH; i++) {
        if (number[i] != first + i)
            return false;
    }
    return true;
}

/* An event: happens when it is told to, and counts who asks. */
struct event {
    _Atomic bool happened;
    _Atomic uint32_t asked;
};

static bool asked(void *user)
{
    struct event *e = user;
    atomic_fetch_add(&e->asked, 1);
    return atomic_load(&e->happened);
}

/* Options of this size, with one byte set at `at` unless that is 0. */
static leat_status open_sized(const char *url, size_t size, size_t at, struct leat_error *err)
{
    struct {
        struct leat_loader_opts o;
        char beyond[64];
    } given = {options(url), {0}};
    struct leat_loader *loader = NULL;
    given.o.size = size;
    if (at)
        ((char *)&given)[at] = 1;
    leat_status rc = leat_loader_open(&given.o, &loader, err);
    CHECK((rc == LEAT_OK) == (loader != NULL));
    leat_loader_close(loader);
    return rc;
}

static void options_of_other_releases(const char *url)
{
    const size_t size = sizeof(struct leat_loader_opts);
    const size_t first = offsetof(struct leat_loader_opts, timeout_ns); /* nothing after it is needed */
    struct leat_error err;
    CHECK(open_sized(url, (first + 7) / 8 * 8, 0, &err) == LEAT_OK);
    CHECK(open_sized(url, size + 8, 0, &err) == LEAT_OK);
    CHECK(open_sized(url, size + 64, 0, &err) == LEAT_OK);
    CHECK(open_sized(url, size + 64, size + 63, &err) == LEAT_VERSION);
    CHECK(strstr(err.text, "leat_loader_opts") && strstr(err.text, "newer"));
    CHECK(open_sized(url, size + 8, size, &err) == LEAT_VERSION);
    CHECK(open_sized(url, size, size, &err) == LEAT_OK); /* beyond its end is not its business */
    CHECK(open_sized(url, 0, 0, &err) == LEAT_INVALID);
    CHECK(strstr(err.text, "sizeof(struct leat_loader_opts)"));
    CHECK(open_sized(url, 8, 0, &err) == LEAT_INVALID); /* no dataset */
    CHECK(open_sized(url, size - 1, 0, &err) == LEAT_INVALID);
    CHECK(leat_loader_open(NULL, &(struct leat_loader *){NULL}, &err) == LEAT_INVALID);
}

static leat_status open_outputs(const char *url, const void *array, size_t n, struct leat_error *err)
{
    struct leat_loader_opts o = options(url);
    struct leat_loader *loader = NULL;
    o.outputs = array;
    o.outputs_n = n;
    leat_status rc = leat_loader_open(&o, &loader, err);
    if (rc == LEAT_OK) {
        struct leat_batch *batch = next(loader);
        CHECK(leat_batch_columns(batch) == n && holds(numbers(batch), 0));
        leat_batch_release(batch);
    }
    leat_loader_close(loader);
    return rc;
}

static void outputs_of_other_releases(const char *url)
{
    struct longer {
        struct leat_output known;
        uint64_t more;
    } later[] = {{outputs[0], 0}, {outputs[1], 0}};
    struct shorter { /* all that INDEX and KEY need */
        size_t size;
        const char *name;
        uint32_t kind, view;
    } older[] = {{sizeof *older, "index", LEAT_OUTPUT_INDEX, 0}, {sizeof *older, "key", LEAT_OUTPUT_KEY, 0}};
    struct leat_output broken[] = {outputs[0], outputs[1]};
    struct leat_error err;
    later[0].known.size = later[1].known.size = sizeof *later;
    CHECK(open_outputs(url, older, 2, &err) == LEAT_OK);
    CHECK(open_outputs(url, later, 2, &err) == LEAT_OK);
    later[1].more = 1;
    CHECK(open_outputs(url, later, 2, &err) == LEAT_VERSION);
    CHECK(strstr(err.text, "leat_output") && strstr(err.text, "element 1"));
    broken[1].size = 0;
    CHECK(open_outputs(url, broken, 2, &err) == LEAT_INVALID);
    CHECK(strstr(err.text, "sizeof(struct leat_output)"));
    CHECK(open_outputs(url, NULL, 1, &err) == LEAT_INVALID);
    CHECK(open_outputs(url, outputs, 33, &err) == LEAT_INVALID);
    CHECK(open_outputs(url, outputs, SIZE_MAX, &err) == LEAT_INVALID);
    broken[1] = (struct leat_output){
        .size = sizeof *broken, .name = "x", .kind = LEAT_OUTPUT_IMAGE, .field = "png", .view = LEAT_VIEW_MAX + 1};
    CHECK(open_outputs(url, broken, 2, &err) == LEAT_INVALID);
    CHECK(strstr(err.text, "'x'") && strstr(err.text, "view 256") && strstr(err.text, "255"));
}

static void columns_of_other_releases(const char *url)
{
    struct leat_loader *loader = open_loader(url);
    struct leat_batch *batch = next(loader);
    struct {
        struct leat_column c;
        uint64_t beyond[2];
    } given;
    const size_t size = sizeof given.c;
    struct leat_error err;
    memset(&given, 0xa5, sizeof given);
    given.c.size = offsetof(struct leat_column, stride);
    OK(leat_batch_column(batch, 0, &given.c, why));
    CHECK(strcmp(given.c.name, "index") == 0 && given.c.dtype == LEAT_I64 && given.c.dims_n == 0);
    CHECK(given.c.size == offsetof(struct leat_column, stride) && given.c.stride == 0xa5a5a5a5a5a5a5a5);
    given.c.size = sizeof given;
    OK(leat_batch_column(batch, 1, &given.c, why));
    CHECK(strcmp(given.c.name, "key") == 0 && given.c.ends && given.c.size == sizeof given);
    CHECK(given.beyond[0] == 0 && given.beyond[1] == 0);
    for (size_t bad = 0; bad < 8; bad++) {
        given.c.size = bad ? size + bad : 0;
        CHECK(leat_batch_column(batch, 0, &given.c, &err) == LEAT_INVALID);
        CHECK(strstr(err.text, "sizeof(struct leat_column)"));
    }
    CHECK(leat_batch_column(batch, 0, NULL, &err) == LEAT_INVALID);
    CHECK(leat_batch_column(batch, 2, &given.c, &err) == LEAT_INVALID);
    leat_batch_release(batch);
    leat_loader_close(loader);
}

/* Settings by name, in options and descriptions of any size. */
static void settings_of_other_releases(const char *url)
{
    struct {
        struct leat_loader_opts o;
        uint64_t beyond;
    } given = {options(url), UINT64_MAX};
    struct {
        struct leat_setting s;
        uint64_t beyond;
    } row = {{.size = sizeof row}, 1};
    struct leat_error err;
    OK(leat_loader_set(&given.o, "region", "here", why));
    CHECK(strcmp(given.o.region, "here") == 0);
    OK(leat_loader_check(&given.o, why));
    /* an older program's options end before the region */
    given.o.size = offsetof(struct leat_loader_opts, region);
    given.o.region = NULL;
    CHECK(leat_loader_set(&given.o, "region", "there", &err) == LEAT_VERSION && strstr(err.text, "region"));
    CHECK(!given.o.region);
    OK(leat_loader_set(&given.o, "slots", "7", why));
    CHECK(given.o.slots == 7);
    given.o.region = "not read";
    OK(leat_loader_check(&given.o, why));
    given.o.size = sizeof given;
    CHECK(leat_loader_check(&given.o, &err) == LEAT_VERSION && strstr(err.text, "leat_loader_opts"));
    given.o.size = 0;
    CHECK(leat_loader_check(&given.o, &err) == LEAT_INVALID);
    CHECK(leat_loader_set(&given.o, "slots", "8", &err) == LEAT_INVALID && given.o.slots == 7);
    OK(leat_loader_setting(0, &row.s, why));
    CHECK(row.s.name && row.s.help && row.s.size == sizeof row && row.beyond == 0);
    memset(&row, 0xa5, sizeof row);
    row.s.size = offsetof(struct leat_setting, choices);
    OK(leat_loader_setting(1, &row.s, why));
    CHECK(row.s.most > 0 && (uintptr_t)row.s.choices == 0xa5a5a5a5a5a5a5a5);
    row.s.size = 0;
    CHECK(leat_loader_setting(0, &row.s, &err) == LEAT_INVALID && strstr(err.text, "leat_setting"));
    CHECK(leat_loader_setting(leat_loader_settings(), &row.s, &err) == LEAT_INVALID);
}

/* The slot is given back when the event has happened, and not before. */
static void released_after_a_callback(const char *url)
{
    struct leat_loader *loader = open_loader(url);
    struct event e = {0};
    struct event late = {0};
    struct leat_batch *first = next(loader);
    struct leat_batch *second = next(loader);
    const volatile int64_t *number = numbers(first);
    OK(leat_batch_release_after(first, asked, &e, why));
    CHECK(atomic_load(&e.asked) == 1);
    for (int i = 0; i < 10; i++) {
        CHECK(!leat_loader_ready(loader));
        sleep_ms(20);
    }
    CHECK(atomic_load(&e.asked) == 11 && holds(number, 0));
    atomic_store(&e.happened, true);
    struct leat_batch *third = next(loader);
    CHECK(atomic_load(&e.asked) == 12 && holds(numbers(third), 2 * EACH));
    leat_batch_release(second);
    leat_batch_release(third);
    /* an event that has happened releases at once */
    third = next(loader);
    CHECK(leat_batch_release_after(third, asked, &e, NULL) == LEAT_OK && atomic_load(&e.asked) == 13);
    second = next(loader);
    CHECK(atomic_load(&e.asked) == 13); /* not asked again */
    OK(leat_batch_release_after(second, asked, &late, why));
    struct leat_error err;
    CHECK(leat_batch_release_after(NULL, asked, &e, &err) == LEAT_INVALID);
    first = next(loader);
    CHECK(leat_batch_release_after(first, NULL, &e, &err) == LEAT_INVALID);
    leat_batch_release(first); /* still ours */
    atomic_store(&late.happened, true);
    leat_loader_close(loader);
    CHECK(atomic_load(&late.asked) >= 2);
}

static struct leat_column column(const struct leat_batch *batch, size_t i)
{
    struct leat_column c = {.size = sizeof c};
    OK(leat_batch_column(batch, i, &c, why));
    return c;
}

static void same_state(const struct leat_batch *a, const struct leat_batch *b)
{
    char *first = NULL;
    char *second = NULL;
    OK(leat_batch_state(a, &first, why));
    OK(leat_batch_state(b, &second, why));
    CHECK(strcmp(first, second) == 0 && leat_batch_epoch(a) == leat_batch_epoch(b));
    CHECK(leat_batch_position(a) == leat_batch_position(b) && leat_batch_samples(a) == leat_batch_samples(b));
    free(first);
    free(second);
}

/* A copy holds what the batch holds, occupies no slot, and outlives batch, ring and loader. */
static void copied_batches_hold_the_same(const char *url)
{
    struct leat_loader *loader = open_loader(url);
    struct leat_batch *first = next(loader);
    struct leat_batch *copy = NULL;
    struct leat_batch *again = NULL;
    struct leat_batch *none = first;
    struct leat_error err;
    struct event e = {0};
    CHECK(!leat_loader_full(loader));
    struct leat_batch *second = next(loader);
    CHECK(leat_loader_full(loader));
    OK(leat_batch_copy(second, UINT64_MAX, &copy, why));
    same_state(second, copy);
    leat_batch_release(second);
    CHECK(!leat_loader_full(loader));
    second = next(loader); /* where there would have been none */
    CHECK(holds(numbers(second), 2 * EACH) && holds(numbers(copy), EACH));
    struct leat_column keys = column(first, 1);
    OK(leat_batch_copy(first, 0, &none, why));
    CHECK(!none); /* nothing is that small */
    OK(leat_batch_copy(first, EACH * sizeof(int64_t), &again, why));
    CHECK(leat_batch_columns(again) == 2 && holds(numbers(again), 0));
    CHECK(keys.bytes > EACH * sizeof(int64_t) && !column(again, 1).data && !column(again, 1).ends);
    leat_batch_release(again);
    OK(leat_batch_copy(first, keys.bytes, &again, why));
    struct leat_column copied = column(again, 1);
    CHECK(copied.data != keys.data && copied.bytes == keys.bytes && strcmp(copied.name, "key") == 0);
    CHECK(memcmp(copied.data, keys.data, keys.bytes) == 0);
    CHECK(memcmp(copied.ends, keys.ends, EACH * sizeof *keys.ends) == 0);
    CHECK(leat_batch_release_after(again, asked, &e, &err) == LEAT_INVALID && strstr(err.text, "copy"));
    struct leat_memory m = {.size = sizeof m};
    OK(leat_batch_memory(again, 1, &m, why));
    CHECK(m.id == 0 && m.fd == -1 && (char *)m.data < (const char *)copied.data &&
          (const char *)copied.data + copied.bytes <= (char *)m.data + m.bytes);
    CHECK(leat_batch_before_unmap(again, NULL, NULL, &err) == LEAT_INVALID && leat_batch_began(again) == 0);
    CHECK(leat_batch_copy(NULL, 1, &none, &err) == LEAT_INVALID && leat_batch_copy(first, 1, NULL, &err) != LEAT_OK);
    leat_batch_release(first);
    leat_batch_release(second);
    leat_loader_close(loader);
    OK(leat_batch_copy(again, UINT64_MAX, &first, why)); /* a copy of a copy */
    same_state(again, first);
    leat_batch_release(again);
    CHECK(holds(numbers(first), 0) && holds(numbers(copy), EACH) && column(first, 1).bytes == keys.bytes);
    leat_batch_release(first);
    leat_batch_release(copy);
}

static void *write_later(void *fd)
{
    sleep_ms(150);
    eventfd_write(*(int *)fd, 1);
    return NULL;
}

/* One eventfd for two batches; the caller's own descriptor is closed before it is written to through another. */
static void released_after_a_descriptor(const char *url)
{
    struct leat_loader *loader = open_loader(url);
    struct leat_batch *first = next(loader);
    struct leat_batch *second = next(loader);
    const volatile int64_t *number = numbers(second);
    struct leat_error err;
    pthread_t thread;
    int fd = eventfd(0, EFD_CLOEXEC);
    int other = dup(fd);
    CHECK(leat_batch_release_after_fd(first, -1, &err) != LEAT_OK && strstr(err.text, "-1"));
    OK(leat_batch_release_after_fd(first, fd, why));
    OK(leat_batch_release_after_fd(second, fd, why));
    close(fd);
    CHECK(!leat_loader_ready(loader));
    uint64_t began = now_ms();
    pthread_create(&thread, NULL, write_later, &other);
    struct leat_batch *third = next(loader); /* waits for the event */
    CHECK(now_ms() - began >= 140);
    CHECK(holds(numbers(third), 2 * EACH));
    struct leat_batch *fourth = next(loader);
    CHECK(holds(numbers(fourth), 3 * EACH) && (numbers(fourth) == number || numbers(third) == number));
    pthread_join(thread, NULL);
    eventfd_t value = 0;
    CHECK(eventfd_read(other, &value) == 0 && value == 1); /* nobody read from it */
    /* a pipe whose other end is closed */
    int ends[2];
    CHECK(pipe(ends) == 0);
    close(ends[1]);
    OK(leat_batch_release_after_fd(third, ends[0], why));
    close(ends[0]);
    leat_batch_release(fourth);
    third = next(loader);
    fourth = next(loader);
    leat_batch_release(third);
    leat_batch_release(fourth);
    close(other);
    leat_loader_close(loader);
}

static void waiting_for_an_event_times_out(const char *url)
{
    struct leat_loader_opts o = options(url);
    struct leat_loader *loader = NULL;
    struct leat_batch *batch = NULL;
    struct event e = {0};
    struct leat_error err;
    OK(leat_loader_open(&o, &loader, why));
    struct leat_batch *held = next(loader);
    leat_batch_release(next(loader));
    leat_loader_close(loader);
    o.timeout_ns = 300 * 1000000;
    OK(leat_loader_open(&o, &loader, why));
    OK(leat_batch_release_after(next(loader), asked, &e, why));
    OK(leat_batch_release_after(next(loader), asked, &e, why));
    CHECK(leat_loader_next(loader, &batch, &err) == LEAT_TIMEOUT);
    CHECK(strstr(err.text, "all 2 slots") && strstr(err.text, "events"));
    char *stats = NULL;
    double slots = 0;
    OK(leat_loader_stats(loader, &stats, why));
    CHECK(strstr(stats, "\"slots\":") && sscanf(strstr(stats, "\"slots\":") + 8, "%lf", &slots) == 1);
    CHECK(slots > 0.29 && slots < 0.5); /* that is what was waited for */
    free(stats);
    atomic_store(&e.happened, true);
    batch = next(loader); /* nothing is lost */
    CHECK(holds(numbers(batch), 2 * EACH));
    leat_batch_release(batch);
    leat_loader_close(loader);
    CHECK(holds(numbers(held), 0));
    leat_batch_release(held);
}

static bool stop_now(void *user)
{
    return atomic_load((_Atomic bool *)user);
}

/* Memory whose event has not happened stays where it is when the loader is closed, until a later release asks again. */
static void closing_keeps_what_is_still_read(const char *url)
{
    struct leat_loader_opts o = options(url);
    struct leat_loader *loader = NULL;
    _Atomic bool stop = false;
    struct event e = {0};
    o.stop = stop_now;
    o.stop_user = &stop;
    OK(leat_loader_open(&o, &loader, why));
    struct leat_batch *first = next(loader);
    struct leat_batch *second = next(loader);
    const volatile int64_t *number = numbers(first);
    OK(leat_batch_release_after(first, asked, &e, why));
    atomic_store(&stop, true);
    uint64_t began = now_ms();
    leat_loader_close(loader); /* would wait for ten seconds */
    CHECK(now_ms() - began < 5000 && atomic_load(&e.asked) > 2);
    CHECK(holds(number, 0) && holds(numbers(second), EACH));
    atomic_store(&e.happened, true);
    uint32_t before = atomic_load(&e.asked);
    leat_batch_release(second);
    CHECK(atomic_load(&e.asked) == before + 1);
    /* and one that happens while close() waits */
    int fd = eventfd(0, EFD_CLOEXEC);
    pthread_t thread;
    loader = open_loader(url);
    OK(leat_batch_release_after_fd(next(loader), fd, why));
    began = now_ms();
    pthread_create(&thread, NULL, write_later, &fd);
    leat_loader_close(loader);
    CHECK(now_ms() - began >= 140 && now_ms() - began < 5000);
    pthread_join(thread, NULL);
    close(fd);
}

/* A consumer on another thread: takes batches, checks for a while that nobody writes to them, lets the event happen. */
struct consumer {
    struct leat_loader *loader;
    _Atomic(struct leat_batch *) given;
    _Atomic bool over;
    struct event events[64];
    int64_t seen;
};

static void *consume(void *user)
{
    struct consumer *c = user;
    while (!atomic_load(&c->over) || atomic_load(&c->given)) {
        struct leat_batch *batch = atomic_exchange(&c->given, NULL);
        if (!batch)
            continue;
        const volatile int64_t *number = numbers(batch);
        int64_t first = number[0];
        struct event *e = &c->events[c->seen % 64];
        atomic_store(&e->happened, false);
        OK(leat_batch_release_after(batch, asked, e, why));
        for (int i = 0; i < 20; i++) {
            CHECK(holds(number, first));
            sched_yield();
        }
        c->seen++;
        atomic_store(&e->happened, true);
    }
    return NULL;
}

static void released_on_another_thread(const char *url)
{
    static struct consumer c;
    pthread_t thread;
    c.loader = open_loader(url);
    int64_t taken = 0;
    pthread_create(&thread, NULL, consume, &c);
    while (taken < 400) {
        struct leat_batch *batch = next(c.loader);
        if (!batch)
            continue;
        taken++;
        struct leat_batch *none = NULL;
        while (!atomic_compare_exchange_strong(&c.given, &none, batch)) {
            none = NULL;
            sched_yield();
        }
        /* not more at once than there are slots */
        while (atomic_load(&c.given))
            sched_yield();
    }
    atomic_store(&c.over, true);
    pthread_join(thread, NULL);
    CHECK(c.seen == taken);
    leat_loader_close(c.loader);
}

/* The child owns none of its parent's batches and asks none of its parent's events. */
static void fork_leaves_events_to_the_parent(const char *url)
{
    struct leat_loader *loader = open_loader(url);
    static struct event e;
    struct leat_batch *first = next(loader);
    struct leat_batch *second = next(loader);
    OK(leat_batch_release_after(first, asked, &e, why));
    uint32_t before = atomic_load(&e.asked);
    pid_t child = fork();
    if (child == 0) {
        struct leat_error err;
        CHECK(leat_batch_release_after(second, asked, &e, &err) == LEAT_INVALID && strstr(err.text, "fork"));
        struct leat_batch *batch = next(loader);
        CHECK(holds(numbers(batch), 2 * EACH));
        leat_batch_release(batch);
        leat_batch_release(second);
        uint64_t began = now_ms();
        leat_loader_close(loader);
        CHECK(now_ms() - began < 5000 && atomic_load(&e.asked) == before);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(!leat_loader_ready(loader));
    atomic_store(&e.happened, true);
    struct leat_batch *third = next(loader);
    CHECK(holds(numbers(third), 2 * EACH) && holds(numbers(second), EACH));
    leat_batch_release(second);
    leat_batch_release(third);
    leat_loader_close(loader);
}

/* A loader that goes on from a batch's state gives the batch that follows it, also when others were taken since. */
static void state_of_a_batch_is_the_state_after_it(const char *url)
{
    struct leat_loader *loader = open_loader(url);
    struct leat_loader *other = open_loader(url);
    char *states[6];
    for (int64_t i = 0; i < 6; i++) {
        struct leat_batch *batch = next(loader);
        if (i > 2)
            OK(leat_loader_set_epoch(loader, 7, why)); /* another ring: the batch stands where it stood */
        OK(leat_batch_state(batch, &states[i], why));
        leat_batch_release(batch);
        if (i > 2)
            OK(leat_loader_restore(loader, states[i], why));
    }
    for (int64_t i = 5; i >= 0; i--) {
        OK(leat_loader_restore(other, states[i], why));
        struct leat_batch *batch = next(other);
        CHECK(holds(numbers(batch), (i + 1) * EACH) && leat_batch_epoch(batch) == 0);
        leat_batch_release(batch);
        free(states[i]);
    }
    leat_loader_close(loader);
    leat_loader_close(other);
}

static void stands_at(struct leat_loader *loader, const char *expected)
{
    char *state = NULL;
    OK(leat_loader_state(loader, &state, why));
    CHECK(strcmp(state, expected) == 0);
    free(state);
}

/* peek() returns what is next until it is accepted, also after a jump, to the very end of an epoch. */
static void a_batch_that_is_not_accepted_comes_again(const char *url)
{
    struct leat_loader *loader = open_loader(url);
    struct leat_batch *batch = NULL;
    struct leat_batch *kept = NULL;
    struct leat_error err;
    char *begin = NULL;
    CHECK(leat_loader_accept(loader, &err) == LEAT_INVALID);
    OK(leat_loader_state(loader, &begin, why));
    OK(leat_loader_peek(loader, &kept, why));
    CHECK(holds(numbers(kept), 0));
    stands_at(loader, begin);
    CHECK(!leat_loader_ready(loader));
    for (int again = 0; again < 3; again++) {
        OK(leat_loader_peek(loader, &batch, why));
        CHECK(holds(numbers(batch), 0) && leat_batch_began(batch) == 0);
        leat_batch_release(batch);
        stands_at(loader, begin);
    }
    free(begin);
    CHECK(holds(numbers(kept), 0)); /* its memory is its own as long as it is held */
    leat_batch_release(kept);
    OK(leat_loader_accept(loader, why));
    CHECK(leat_loader_accept(loader, &err) == LEAT_INVALID);
    batch = next(loader);
    CHECK(holds(numbers(batch), EACH));
    leat_batch_release(batch);
    OK(leat_loader_peek(loader, &batch, why));
    leat_batch_release(batch);
    OK(leat_loader_set_epoch(loader, 3, why));
    CHECK(leat_loader_accept(loader, &err) == LEAT_INVALID); /* it was moved */
    for (int64_t at = 0;; at += EACH) {
        OK(leat_loader_peek(loader, &batch, why));
        leat_batch_release(batch);
        if (!batch)
            break;
        OK(leat_loader_peek(loader, &batch, why));
        CHECK(leat_loader_epoch(loader) == 3 && leat_batch_began(batch) == (uint64_t)at);
        leat_batch_release(batch);
        OK(leat_loader_accept(loader, why));
    }
    CHECK(leat_loader_epoch(loader) == 4);
    leat_loader_close(loader);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*keep)(const char *url);
    } promises[] = {
        {"options", options_of_other_releases},
        {"outputs", outputs_of_other_releases},
        {"settings", settings_of_other_releases},
        {"columns", columns_of_other_releases},
        {"copy", copied_batches_hold_the_same},
        {"callback", released_after_a_callback},
        {"descriptor", released_after_a_descriptor},
        {"timeout", waiting_for_an_event_times_out},
        {"close", closing_keeps_what_is_still_read},
        {"threads", released_on_another_thread},
        {"fork", fork_leaves_events_to_the_parent},
        {"state", state_of_a_batch_is_the_state_after_it},
        {"peek", a_batch_that_is_not_accepted_comes_again},
    };
    for (size_t i = 0; argc == 3 && i < sizeof promises / sizeof *promises; i++) {
        if (strcmp(argv[1], promises[i].name) == 0) {
            promises[i].keep(argv[2]);
            return 0;
        }
    }
    fprintf(stderr, "usage: tool_batches PROMISE DATASET\n");
    return 2;
}
