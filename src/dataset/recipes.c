#include "dataset/recipes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/url.h"
#include "dataset/layout.h"
#include "dataset/recipe.h"

enum { ENDPOINT, REGION, PROFILE, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, CA_BUNDLE, TEXTS };

struct learned {
    _Atomic uint64_t sum; /* XXH3 of the pieces' data; 0: not yet */
};

struct opened {
    _Atomic(struct leat_store *) store; /* NULL: not yet, or the dataset's own. Set under the mutex, once */
};

struct leat_recipes {
    const struct leat_home *home; /* constant after open, as the next five */
    const struct leat_root *root;
    const struct leat_section *section;
    uint64_t *starts; /* chunks + 1: where each recipe lies in the section */
    struct leat_sources_list sources;
    struct learned *learned; /* of each chunk; NULL: the snapshot knows all */
    struct opened *opened;   /* by source */
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        struct leat_store_opts opts;
        char *texts[TEXTS]; /* what opts points to */
    } locked;
};

/* Copied options */

static leat_status copy_opts(struct leat_recipes *r, const struct leat_store_opts *opts, struct leat_error *err)
{
    const char *const from[TEXTS] = {opts->endpoint_url, opts->region,        opts->profile,  opts->access_key,
                                     opts->secret_key,   opts->session_token, opts->ca_bundle};
    for (int i = 0; i < TEXTS; i++) {
        r->locked.texts[i] = from[i] ? strdup(from[i]) : NULL;
        if (from[i] && !r->locked.texts[i])
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the settings of a store");
    }
    r->locked.opts = *opts;
    return LEAT_OK;
}

static struct leat_store_opts opts_now(const struct leat_recipes *r)
{
    struct leat_store_opts o = r->locked.opts;
    char *const *t = r->locked.texts;
    o.endpoint_url = t[ENDPOINT];
    o.region = t[REGION];
    o.profile = t[PROFILE];
    o.access_key = t[ACCESS_KEY];
    o.secret_key = t[SECRET_KEY];
    o.session_token = t[SESSION_TOKEN];
    o.ca_bundle = t[CA_BUNDLE];
    return o;
}

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* Opening */

static leat_status read_starts(struct leat_recipes *r, struct leat_sections *sections, struct leat_error *err)
{
    uint64_t n = (uint64_t)r->root->chunks + 1; /* the root was checked to have room for them */
    r->starts = malloc((size_t)n * 8);
    if (!r->starts)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the places of %" PRIu64 " recipes", n - 1);
    leat_status rc = leat_sections_read(sections, r->section, 0, r->starts, (size_t)n * 8, err);
    uint64_t least = 8 * n;
    for (uint64_t i = 0; rc == LEAT_OK && i < n; i++) {
        uint64_t at = leat_get_u64(&r->starts[i]);
        uint64_t bytes = at - least;
        if (at < least || at > r->section->size || at % 8 || (i == 0 ? bytes != 0 : bytes && bytes < RECIPE_HEAD) ||
            bytes > UINT32_MAX)
            rc = leat_fail(err, LEAT_CORRUPT, "the recipe of chunk %" PRIu64 " cannot lie at byte %" PRIu64, i, at);
        r->starts[i] = least = at;
    }
    return rc;
}

static leat_status read_sources(struct leat_recipes *r, struct leat_sections *sections, struct leat_error *err)
{
    const struct leat_section *s = leat_root_section(r->root, LEAT_SECTION_SOURCES);
    if (s->size > LEAT_SOURCES_BYTES)
        return leat_fail(err, LEAT_LIMIT, "the list of sources has %" PRIu64 " bytes, more than %zu", s->size,
                         LEAT_SOURCES_BYTES);
    uint8_t *bytes = malloc((size_t)s->size + 1);
    if (!bytes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the list of sources");
    leat_status rc = leat_sections_read(sections, s, 0, bytes, (size_t)s->size, err);
    if (rc == LEAT_OK)
        rc = leat_sources_list_read(bytes, (size_t)s->size, &r->sources, err);
    free(bytes);
    if (rc != LEAT_OK)
        return rc;
    r->opened = calloc((size_t)r->sources.n + 1, sizeof *r->opened);
    return r->opened ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for the list of sources");
}

leat_status leat_recipes_open(const struct leat_home *home, const struct leat_store_opts *opts,
                              const struct leat_root *root, struct leat_sections *sections, struct leat_recipes **out,
                              struct leat_error *err)
{
    static const struct leat_store_opts defaults;
    struct leat_recipes *r = calloc(1, sizeof *r);
    if (!r)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for recipes");
    pthread_mutex_init(&r->mutex, NULL);
    r->home = home;
    r->root = root;
    r->section = leat_root_section(root, LEAT_SECTION_RECIPES);
    leat_status rc = copy_opts(r, opts ? opts : &defaults, err);
    if (rc == LEAT_OK)
        rc = read_starts(r, sections, err);
    if (rc == LEAT_OK)
        rc = read_sources(r, sections, err);
    if (rc == LEAT_OK && leat_root_unsummed(root)) {
        r->learned = calloc((size_t)root->chunks + 1, sizeof *r->learned);
        if (!r->learned)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the checksums of %" PRIu32 " chunks", root->chunks);
    }
    if (rc != LEAT_OK) {
        leat_recipes_close(r);
        return rc;
    }
    *out = r;
    return LEAT_OK;
}

void leat_recipes_close(struct leat_recipes *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->opened && i < r->sources.n; i++)
        leat_store_close(atomic_load(&r->opened[i].store));
    free(r->opened);
    for (int i = 0; i < TEXTS; i++)
        wipe(r->locked.texts[i]);
    leat_sources_list_free(&r->sources);
    free(r->starts);
    free(r->learned);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

const struct leat_sources_list *leat_recipes_sources(const struct leat_recipes *r)
{
    return &r->sources;
}

/* Sources */

/* Hold the mutex. */
static leat_status open_source(struct leat_recipes *r, uint32_t source, struct leat_store **out, struct leat_error *err)
{
    struct leat_url url = {0};
    struct leat_store *own = r->home->store;
    leat_status rc = leat_url_parse(r->sources.urls[source], &url, err);
    if (rc == LEAT_OK && leat_store_holds(own, &url)) {
        *out = own;
    } else if (rc == LEAT_OK) {
        struct leat_store_opts opts = opts_now(r);
        rc = leat_store_open(&url, &opts, out, err);
        if (rc == LEAT_OK)
            atomic_store(&r->opened[source].store, *out);
    }
    leat_url_free(&url);
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "source '%s' of %s", r->sources.urls[source], r->home->url);
}

static leat_status find_store(struct leat_recipes *r, uint32_t source, struct leat_store **out, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (source >= r->sources.n)
        return leat_fail(err, LEAT_CORRUPT, "a recipe names source %" PRIu32 ", and there are %" PRIu32, source,
                         r->sources.n);
    pthread_mutex_lock(&r->mutex);
    *out = atomic_load(&r->opened[source].store);
    if (!*out)
        rc = open_source(r, source, out, err);
    pthread_mutex_unlock(&r->mutex);
    return rc;
}

void leat_recipes_renew(struct leat_recipes *r, const char *access_key, const char *secret_key,
                        const char *session_token)
{
    const char *const keys[] = {access_key, secret_key, session_token};
    pthread_mutex_lock(&r->mutex);
    for (int i = 0; i < 3; i++) {
        wipe(r->locked.texts[ACCESS_KEY + i]);
        r->locked.texts[ACCESS_KEY + i] = keys[i] ? strdup(keys[i]) : NULL; /* without memory: denied, and said so */
    }
    for (uint32_t i = 0; i < r->sources.n; i++) {
        struct leat_store *store = atomic_load(&r->opened[i].store);
        if (store)
            leat_store_renew(store, access_key, secret_key, session_token);
    }
    pthread_mutex_unlock(&r->mutex);
}

void leat_recipes_stats(const struct leat_recipes *r, struct leat_store_stats *sum)
{
    for (uint32_t i = 0; i < r->sources.n; i++) {
        struct leat_store *store = atomic_load(&r->opened[i].store); /* without the mutex: an agent's loop asks */
        struct leat_store_stats s;
        if (!store)
            continue;
        leat_store_stats(store, &s);
        sum->operations += s.operations;
        sum->failures += s.failures;
        sum->requests += s.requests;
        sum->retries += s.retries;
        sum->throttled += s.throttled;
        sum->request_ns += s.request_ns;
        sum->bytes_in += s.bytes_in;
        sum->bytes_out += s.bytes_out;
        sum->hedges += s.hedges;
        sum->hedges_won += s.hedges_won;
        sum->hedged_bytes += s.hedged_bytes;
        sum->in_flight += s.in_flight;
        sum->in_flight_max += s.in_flight_max;
    }
}

/* Chunks */

uint32_t leat_recipes_bytes(const struct leat_recipes *r, uint32_t chunk)
{
    return (uint32_t)(r->starts[chunk + 1] - r->starts[chunk]);
}

leat_status leat_recipes_place(const struct leat_recipes *r, uint32_t chunk, struct leat_pieces *out,
                               struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    leat_name_section(r->section->name, name);
    return leat_pieces_of(r->home, name, r->starts[chunk], leat_recipes_bytes(r, chunk), r->section->size, out, err);
}

leat_status leat_recipes_begin(struct leat_recipes *r, uint32_t chunk, const void *recipe, void *into,
                               struct leat_pieces *pieces, struct leat_store **store, struct leat_error *err)
{
    struct leat_recipe read;
    uint8_t sha[LEAT_SHA256_SIZE];
    uint32_t n = leat_recipes_bytes(r, chunk);
    leat_sha256(recipe, n, sha);
    if (memcmp(sha, leat_root_chunk_name(r->root, chunk), sizeof sha) != 0)
        return leat_fail(err, LEAT_CORRUPT,
                         "the recipe of chunk %" PRIu32 " of %s is not the one that its name "
                         "stands for",
                         chunk, r->home->url);
    leat_status rc = leat_recipe_read(recipe, n, &r->root->schema, &read, err);
    if (rc == LEAT_OK && read.lead_bytes + read.data_bytes != r->root->sizes[chunk])
        rc = leat_fail(err, LEAT_CORRUPT, "it makes %" PRIu64 " bytes, the snapshot says %" PRIu32,
                       read.lead_bytes + read.data_bytes, r->root->sizes[chunk]);
    if (rc == LEAT_OK)
        rc = find_store(r, read.source, store, err);
    if (rc == LEAT_OK)
        rc = leat_recipe_pieces(&read, pieces, err);
    if (rc == LEAT_OK)
        leat_recipe_lead(&read, &r->root->schema, into);
    return rc == LEAT_OK ? rc
                         : leat_fail_context(err, rc, "the recipe of chunk %" PRIu32 " of %s", chunk, r->home->url);
}

leat_status leat_recipes_check(struct leat_recipes *r, uint32_t chunk, const struct leat_chunk *c,
                               struct leat_error *err)
{
    if ((c->lead_bytes != 0) != (leat_recipes_bytes(r, chunk) != 0))
        return leat_fail(err, LEAT_CORRUPT,
                         "chunk %" PRIu32 " is %smade from a recipe, but the snapshot says "
                         "otherwise",
                         chunk, c->lead_bytes ? "" : "not ");
    if (!c->lead_bytes || r->root->sums[chunk])
        return LEAT_OK; /* the root has compared it */
    uint64_t sum = leat_xxh3(c->data + c->lead_bytes, c->size - c->lead_bytes);
    uint64_t before = 0;
    sum += sum == 0; /* 0 is "not yet" */
    if (atomic_compare_exchange_strong(&r->learned[chunk].sum, &before, sum) || before == sum)
        return LEAT_OK;
    return leat_fail(err, LEAT_CORRUPT, "the data of chunk %" PRIu32 " are not the ones that were read first", chunk);
}

uint64_t leat_recipes_learned(const struct leat_recipes *r, uint32_t chunk)
{
    return r->learned ? atomic_load(&r->learned[chunk].sum) : 0;
}

leat_status leat_recipes_explain(const struct leat_recipes *r, uint32_t chunk, struct leat_error *err)
{
    leat_status rc = err->status;
    if (rc == LEAT_CORRUPT)
        rc = LEAT_CHANGED;
    if (rc == LEAT_CHANGED || rc == LEAT_NOT_FOUND) {
        struct leat_error was = *err;
        return leat_fail(err, rc, "%s. %s was indexed before that: index it again (chunk %" PRIu32 ")", was.text,
                         r->home->url, chunk);
    }
    return leat_fail_context(err, rc, "chunk %" PRIu32 " of %s", chunk, r->home->url);
}
