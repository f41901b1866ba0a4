#include "dataset/sections.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "dataset/fetch.h"
#include "dataset/piece.h"

/* Sections are read in runs of blocks: a request for 64 KiB takes as long as one for 1 MiB. Blocks divide it. */
#define RUN_BYTES (1u << 20)
#define RUNS      32u /* kept at most; of each section's as they come */

struct run {
    const struct leat_section *section; /* NULL: empty */
    uint64_t number;
    uint64_t used; /* counts up: the smallest is replaced first */
    uint8_t *data; /* NULL: somebody fetches it, and the place is his */
};

struct leat_sections {
    const struct leat_home *home; /* constant after open, as the next */
    const struct leat_root *root;
    pthread_mutex_t mutex; /* not held while anything is fetched */
    pthread_cond_t settled;
    struct { /* hold mutex */
        struct run runs[RUNS];
        uint64_t uses;
    } locked;
};

leat_status leat_sections_open(const struct leat_home *home, const struct leat_root *root, struct leat_sections **out,
                               struct leat_error *err)
{
    struct leat_sections *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a snapshot's sections");
    s->home = home;
    s->root = root;
    pthread_mutex_init(&s->mutex, NULL);
    leat_cond_init(&s->settled);
    *out = s;
    return LEAT_OK;
}

void leat_sections_close(struct leat_sections *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < RUNS; i++)
        free(s->locked.runs[i].data);
    pthread_cond_destroy(&s->settled);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* Fetching */

static size_t run_size(const struct leat_section *section, uint64_t number)
{
    uint64_t left = section->size - number * RUN_BYTES;
    return left < RUN_BYTES ? (size_t)left : RUN_BYTES;
}

static leat_status fetch_once(const struct leat_sections *s, const struct leat_section *section, uint64_t number,
                              const struct leat_pieces *pieces, uint8_t *data, struct leat_error *err)
{
    size_t size = run_size(section, number);
    struct leat_fetch_opts opts = {.store = s->home->store, .pieces = pieces, .into = data};
    leat_status rc = leat_fetch_run(&opts, err);
    for (size_t at = 0; rc == LEAT_OK && at < size; at += s->root->block_bytes) {
        uint64_t block = (number * RUN_BYTES + at) / s->root->block_bytes;
        size_t n = leat_root_block_size(s->root, section, block);
        rc = leat_root_check_block(s->root, section, block, data + at, n, err);
        if (rc != LEAT_OK)
            leat_fail_context(err, rc, "'%s'", pieces->list[0].key);
    }
    return rc;
}

/* Into memory that the caller frees. */
static leat_status fetch_run(const struct leat_sections *s, const struct leat_section *section, uint64_t number,
                             uint8_t **out, struct leat_error *err)
{
    size_t size = run_size(section, number);
    char name[LEAT_NAME_MAX];
    struct leat_pieces pieces = {0};
    leat_name_section(section->name, name);
    leat_status rc = leat_pieces_of(s->home, name, number * RUN_BYTES, size, section->size, &pieces, err);
    if (rc != LEAT_OK)
        return rc;
    uint8_t *data = malloc(size);
    if (!data)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu bytes", size);
    if (rc == LEAT_OK)
        rc = fetch_once(s, section, number, &pieces, data, err);
    if (rc == LEAT_CORRUPT)
        rc = fetch_once(s, section, number, &pieces, data, err); /* damaged on the way, perhaps */
    leat_pieces_free(&pieces);
    if (rc != LEAT_OK) {
        free(data);
        return rc;
    }
    *out = data;
    return LEAT_OK;
}

/* The runs that are kept */

/* Hold the mutex: the run, or NULL. `place` gets the one to use for it: empty, or used least recently; NULL when all
 * are being fetched. */
static struct run *find(struct leat_sections *s, const struct leat_section *section, uint64_t number,
                        struct run **place)
{
    *place = NULL;
    for (struct run *r = s->locked.runs; r < s->locked.runs + RUNS; r++) {
        if (r->section == section && r->number == number)
            return r;
        if ((!r->section || r->data) && (!*place || r->used < (*place)->used))
            *place = r;
    }
    return NULL;
}

/* Copies what of a run is wanted. The first thread fetches it, without the mutex. When it fails, each of those who
 * waited tries for himself, all at once: one after the other they would wait for many deadlines. */
static leat_status read_run(struct leat_sections *s, const struct leat_section *section, uint64_t number, size_t from,
                            uint8_t *into, size_t n, struct leat_error *err)
{
    struct run *place;
    struct run *r;
    uint8_t *fresh = NULL;
    bool waited = false;
    pthread_mutex_lock(&s->mutex);
    for (; (r = find(s, section, number, &place)) && !r->data; waited = true)
        leat_cond_wait(&s->settled, &s->mutex, LEAT_NEVER); /* as long as the fetch takes, which has a deadline */
    if (r) {
        r->used = ++s->locked.uses;
        memcpy(into, r->data + from, n);
        pthread_mutex_unlock(&s->mutex);
        return LEAT_OK;
    }
    if (waited)
        place = NULL;
    if (place) {
        free(place->data);
        *place = (struct run){.section = section, .number = number};
    }
    pthread_mutex_unlock(&s->mutex);
    leat_status rc = fetch_run(s, section, number, &fresh, err);
    if (rc == LEAT_OK)
        memcpy(into, fresh + from, n);
    if (!place) {
        free(fresh);
        return rc;
    }
    pthread_mutex_lock(&s->mutex);
    *place = rc == LEAT_OK ? (struct run){.section = section, .number = number, .data = fresh, .used = ++s->locked.uses}
                           : (struct run){0};
    pthread_cond_broadcast(&s->settled);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

leat_status leat_sections_read(struct leat_sections *s, const struct leat_section *section, uint64_t at, void *into,
                               size_t n, struct leat_error *err)
{
    uint8_t *to = into;
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && n) {
        uint64_t number = at / RUN_BYTES;
        size_t from = (size_t)(at % RUN_BYTES);
        size_t left = run_size(section, number) - from;
        size_t take = left < n ? left : n;
        rc = read_run(s, section, number, from, to, take, err);
        to += take;
        at += take;
        n -= take;
    }
    return rc;
}

leat_status leat_sections_check(const struct leat_sections *s, const struct leat_section *section,
                                struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint64_t run = 0; rc == LEAT_OK && run * RUN_BYTES < section->size; run++) {
        uint8_t *data;
        rc = fetch_run(s, section, run, &data, err);
        if (rc == LEAT_OK)
            free(data);
    }
    return rc;
}
