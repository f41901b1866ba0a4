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
#include "store/checksum.h"

struct learned {
    _Atomic uint64_t sum;  /* XXH3 of the pieces' data; 0: not yet, or the root has it */
    _Atomic uint64_t lead; /* … and of what lies before them; 0: not yet */
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
    struct learned *learned;   /* of each chunk */
    struct opened *opened;     /* by source */
    enum leat_scheme owner;    /* the kind of buckets that the options were said of … */
    bool owned;                /* … if there is one */
    _Atomic bool pins_are_md5; /* as far as is known. Relaxed: one that comes late costs a request */
    pthread_mutex_t mutex;
    struct {                         /* hold mutex */
        struct leat_store_opts opts; /* a copy, but for its access … */
        struct leat_access *access;  /* … which may be renewed; NULL: none */
    } locked;
};

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

/* The options are said of the dataset's own kind of bucket, else of its sources'. */
static leat_status find_owner(struct leat_recipes *r, struct leat_error *err)
{
    const struct leat_store_opts *opts = &r->locked.opts;
    const char *const home = r->home->url;
    leat_status rc = leat_store_opts_owner(opts, &home, 1, &r->owner, &r->owned, err);
    if (rc == LEAT_OK && !r->owned)
        rc = leat_store_opts_owner(opts, (const char *const *)r->sources.urls, r->sources.n, &r->owner, &r->owned, err);
    return rc;
}

/* The copy of the access is one that can be renewed. */
static leat_status copy_opts(struct leat_recipes *r, const struct leat_store_opts *opts, struct leat_error *err)
{
    struct leat_store_opts plain = opts ? *opts : (struct leat_store_opts){0};
    plain.access = NULL;
    leat_status rc = leat_store_opts_copy(&plain, &r->locked.opts, err);
    if (rc == LEAT_OK && opts && opts->access)
        rc = leat_access_copy(opts->access, &r->locked.access, err);
    return rc;
}

leat_status leat_recipes_open(const struct leat_home *home, const struct leat_store_opts *opts,
                              const struct leat_root *root, struct leat_sections *sections, struct leat_recipes **out,
                              struct leat_error *err)
{
    struct leat_recipes *r = calloc(1, sizeof *r);
    if (!r)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for recipes");
    pthread_mutex_init(&r->mutex, NULL);
    r->home = home;
    r->root = root;
    atomic_store_explicit(&r->pins_are_md5, true, memory_order_relaxed);
    r->section = leat_root_section(root, LEAT_SECTION_RECIPES);
    leat_status rc = copy_opts(r, opts, err);
    if (rc == LEAT_OK)
        rc = read_starts(r, sections, err);
    if (rc == LEAT_OK)
        rc = read_sources(r, sections, err);
    if (rc == LEAT_OK && !r->locked.access)
        rc = find_owner(r, err);
    r->learned = calloc((size_t)root->chunks + 1, sizeof *r->learned);
    if (rc == LEAT_OK && !r->learned)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the checksums of %" PRIu32 " chunks", root->chunks);
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
    leat_access_free(r->locked.access);
    leat_store_opts_free(&r->locked.opts);
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

/* Where the options of a source come from what was said of another kind of buckets, that does not count. Hold the
 * mutex.
 */
static struct leat_store_opts opts_of(const struct leat_recipes *r, const struct leat_url *url)
{
    struct leat_store_opts opts = leat_store_opts_of(&r->locked.opts, r->owned && url->scheme != r->owner);
    opts.access = r->locked.access;
    return opts;
}

/* Hold the mutex. */
static leat_status open_source(struct leat_recipes *r, uint32_t source, struct leat_store **out, struct leat_error *err)
{
    struct leat_url url = {0};
    struct leat_store *own = r->home->store;
    leat_status rc = leat_url_parse(r->sources.urls[source], &url, err);
    if (rc == LEAT_OK && leat_store_holds(own, &url)) {
        *out = own;
    } else if (rc == LEAT_OK) {
        struct leat_store_opts opts = opts_of(r, &url);
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

/* Appends a source's URL, and its endpoint where that is not the provider's own. Hold the mutex. */
static leat_status add_place(const struct leat_recipes *r, const char *source, struct leat_access *found,
                             struct leat_buf *out, struct leat_error *err)
{
    struct leat_url url = {0};
    const struct leat_access *access = r->locked.access;
    leat_status rc = leat_url_parse(source, &url, err);
    if (rc == LEAT_OK && !access) {
        struct leat_store_opts opts = opts_of(r, &url);
        rc = leat_access_resolve(found, &url, &opts, false, err);
        access = found;
    }
    const char *endpoint = rc == LEAT_OK ? leat_access_endpoint_of(access, &url) : NULL;
    leat_buf_printf(out, "%s\n%s\n", source, endpoint ? endpoint : "");
    leat_url_free(&url);
    return rc;
}

leat_status leat_recipes_digest_place(struct leat_recipes *r, uint8_t out[LEAT_SHA256_SIZE], struct leat_error *err)
{
    struct leat_access *found = NULL;
    struct leat_buf places;
    leat_buf_init(&places, 2 * LEAT_SOURCES_BYTES);
    pthread_mutex_lock(&r->mutex);
    leat_status rc = r->locked.access ? LEAT_OK : leat_access_begin(&found, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < r->sources.n; i++) {
        rc = add_place(r, r->sources.urls[i], found, &places, err);
        if (rc != LEAT_OK)
            leat_fail_context(err, rc, "source '%s' of %s", r->sources.urls[i], r->home->url);
    }
    pthread_mutex_unlock(&r->mutex);
    leat_access_free(found);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&places, "the places of sources", err);
    if (rc == LEAT_OK)
        leat_sha256(places.data, places.len, out);
    leat_buf_free(&places);
    return rc;
}

void leat_recipes_renew(struct leat_recipes *r, const struct leat_access *access)
{
    pthread_mutex_lock(&r->mutex);
    for (size_t i = 0; r->locked.access && i < leat_access_count(r->locked.access); i++)
        leat_access_renew(r->locked.access, i, access); /* without memory: denied later, and said so */
    for (uint32_t i = 0; i < r->sources.n; i++) {
        struct leat_store *store = atomic_load(&r->opened[i].store);
        if (store)
            leat_store_renew(store, access);
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

/* 0 is "not yet". */
static uint64_t sum_of(const uint8_t *data, size_t from, size_t to)
{
    uint64_t sum = leat_xxh3(data + from, to - from);
    return sum + (sum == 0);
}

/* False: it was another. */
static bool learn(_Atomic uint64_t *known, uint64_t sum)
{
    uint64_t before = 0;
    return atomic_compare_exchange_strong(known, &before, sum) || before == sum;
}

leat_status leat_recipes_check(struct leat_recipes *r, uint32_t chunk, const struct leat_chunk *c,
                               struct leat_error *err)
{
    if ((c->lead_bytes != 0) != (leat_recipes_bytes(r, chunk) != 0))
        return leat_fail(err, LEAT_CORRUPT,
                         "chunk %" PRIu32 " is %smade from a recipe, but the snapshot says "
                         "otherwise",
                         chunk, c->lead_bytes ? "" : "not ");
    if (!c->lead_bytes)
        return LEAT_OK; /* the root has compared it */
    if (!learn(&r->learned[chunk].lead, sum_of(c->data, 0, c->lead_bytes)))
        return leat_fail(err, LEAT_CORRUPT, "chunk %" PRIu32 " does not begin as its recipe says", chunk);
    if (r->root->sums[chunk] || learn(&r->learned[chunk].sum, sum_of(c->data, c->lead_bytes, c->size)))
        return LEAT_OK; /* the root has compared its data */
    return leat_fail(err, LEAT_CORRUPT, "the data of chunk %" PRIu32 " are not the ones that were read first", chunk);
}

uint64_t leat_recipes_learned(const struct leat_recipes *r, uint32_t chunk)
{
    return atomic_load(&r->learned[chunk].sum);
}

/* Chunks that another machine has made */

bool leat_recipes_known(const struct leat_recipes *r, uint32_t chunk)
{
    return atomic_load(&r->learned[chunk].lead) && (r->root->sums[chunk] || leat_recipes_learned(r, chunk));
}

void leat_recipes_pins_prove_nothing(struct leat_recipes *r)
{
    atomic_store_explicit(&r->pins_are_md5, false, memory_order_relaxed);
}

/* Whether each piece that is a whole object has the MD5 that its ETag says, where that looks like one. */
static leat_status compare_pins(const struct leat_pieces *pieces, const uint8_t *data, bool *fit,
                                struct leat_error *err)
{
    struct compared {
        uint8_t says[LEAT_CHECKSUM_BYTES];
        uint8_t is[LEAT_MD5_SIZE];
    };
    struct compared *all = malloc((size_t)pieces->n * sizeof *all + 1);
    struct leat_md5_input *inputs = malloc((size_t)pieces->n * sizeof *inputs + 1);
    size_t n = 0;
    *fit = true;
    for (uint32_t i = 0; all && inputs && i < pieces->n; i++) {
        const struct leat_piece *p = &pieces->list[i];
        if (p->pin && !p->offset && p->length == p->object_bytes && leat_checksum_etag_md5(p->pin, all[n].says)) {
            inputs[n] = (struct leat_md5_input){data, (size_t)p->length, all[n].is};
            n++;
        }
        data += p->length;
    }
    bool memory = all && inputs;
    if (memory)
        leat_md5_many(inputs, n);
    for (size_t i = 0; memory && i < n; i++)
        *fit = *fit && memcmp(all[i].says, all[i].is, sizeof all[i].is) == 0;
    free(all);
    free(inputs);
    return memory ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory to compare %" PRIu32 " objects", pieces->n);
}

leat_status leat_recipes_judge(struct leat_recipes *r, uint32_t chunk, const void *recipe, void *data, uint64_t *doubt,
                               struct leat_error *err)
{
    struct leat_pieces pieces = {0};
    struct leat_store *store;
    bool fit = true;
    leat_status rc = leat_recipes_begin(r, chunk, recipe, data, &pieces, &store, err);
    size_t size = r->root->sizes[chunk];
    size_t lead = rc == LEAT_OK ? size - (size_t)pieces.bytes : 0;
    bool unknown = !r->root->sums[chunk] && !leat_recipes_learned(r, chunk);
    if (rc == LEAT_OK && unknown && atomic_load_explicit(&r->pins_are_md5, memory_order_relaxed))
        rc = compare_pins(&pieces, (const uint8_t *)data + lead, &fit, err);
    leat_pieces_free(&pieces);
    if (rc == LEAT_OK)
        *doubt = fit ? 0 : sum_of(data, lead, size);
    return rc;
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
