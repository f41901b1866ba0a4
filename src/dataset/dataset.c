#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/prefix.h"
#include "dataset/fetch.h"
#include "dataset/identity.h"
#include "dataset/keys.h"
#include "dataset/recipes.h"
#include "dataset/sections.h"
#include "dataset/selection.h"

/* Before memory is set aside for a chunk larger than any usual one, the store is asked whether it is that large. */
#define CHUNK_UNUSUAL (64u << 20)

#define ROOT_FIRST (64u << 10) /* asked for first: most roots are shorter */

struct leat_dataset {
    struct leat_home home;
    struct leat_pointer version;
    char *root_data;
    struct leat_root root;
    struct leat_prefix by_chunk;     /* samples that count */
    struct leat_prefix all_by_chunk; /* all of them: sections know no selection */
    struct leat_sections *sections;
    struct leat_recipes *recipes;     /* NULL: all chunks are stored */
    struct leat_selection *selection; /* NULL: all samples count */
    struct leat_identities identities;
};

/* The rest of a root, after its first `got` bytes: in ranges, since a bucket gives one connection far less than the
 * line carries, and nothing can begin before the root is here. */
static leat_status load_rest(struct leat_dataset *d, struct leat_piece *piece, size_t got,
                             const struct leat_object *object, struct leat_error *err)
{
    char *more = realloc(d->root_data, (size_t)object->size);
    if (!more)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a root of %" PRIu64 " bytes", object->size);
    d->root_data = more;
    piece->offset = got;
    piece->length = object->size - got;
    piece->object_bytes = object->size;
    piece->pin = object->etag[0] ? object->etag : NULL;
    struct leat_pieces rest = {.list = piece, .n = 1, .bytes = piece->length};
    struct leat_fetch_opts opts = {.store = d->home.store,
                                   .pieces = &rest,
                                   .into = d->root_data + got,
                                   .ranges = LEAT_STORE_HURRY,
                                   .urgent = true};
    return leat_fetch_run(&opts, err);
}

/* Into d->root_data, n bytes. One round trip for a small root. */
static leat_status fetch_root(struct leat_dataset *d, const char *name, size_t *n, struct leat_error *err)
{
    struct leat_pieces first = {0};
    leat_status rc = leat_pieces_of(&d->home, name, 0, ROOT_FIRST, 0, &first, err);
    if (rc != LEAT_OK)
        return rc;
    free(d->root_data); /* of an earlier attempt */
    d->root_data = malloc(ROOT_FIRST);
    struct leat_object object = {0};
    struct leat_store_op op = {.verb = LEAT_STORE_GET,
                               .key = first.list[0].key,
                               .length = ROOT_FIRST,
                               .into = d->root_data,
                               .short_ok = true,
                               .object = &object};
    rc =
        d->root_data ? leat_store_run(d->home.store, &op, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a root");
    if (rc == LEAT_OK && object.size == UINT64_MAX)
        rc = leat_fail(err, LEAT_UNSUPPORTED, "cannot read '%s': the server does not say how long it is", op.key);
    if (rc == LEAT_OK && object.size > LEAT_ROOT_MAX)
        rc = leat_fail(err, LEAT_LIMIT, "'%s' holds %" PRIu64 " bytes, more than the %zu that a root may have", op.key,
                       object.size, LEAT_ROOT_MAX);
    if (rc == LEAT_OK && object.size > op.got)
        rc = load_rest(d, &first.list[0], (size_t)op.got, &object, err);
    leat_pieces_free(&first);
    if (rc == LEAT_OK)
        *n = (size_t)object.size;
    return rc;
}

static leat_status load_root(struct leat_dataset *d, struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    uint8_t sha[LEAT_SHA256_SIZE];
    size_t n;
    leat_name_root(d->version.root, name);
    leat_status rc = fetch_root(d, name, &n, err);
    if (rc != LEAT_OK)
        return rc;
    leat_sha256(d->root_data, n, sha);
    if (memcmp(sha, d->version.root, sizeof sha) != 0)
        return leat_fail(err, LEAT_CORRUPT, "the root %s does not hold the bytes that its name stands for", name);
    rc = leat_root_read(d->root_data, n, &d->root, err);
    if (rc == LEAT_OK && memcmp(d->root.id, d->version.id, sizeof d->version.id) != 0)
        rc = leat_fail(err, LEAT_CORRUPT, "the root %s has another content id than the pointer to it", name);
    return rc;
}

/* The pointer has no checksum: when the root that it names is not there, or is another, either of them may have been
 * damaged on the way. So both are read once more. */
static leat_status load_version(struct leat_dataset *d, const uint8_t *id, struct leat_error *err)
{
    leat_status rc = LEAT_CORRUPT;
    for (int i = 0; i < 2 && (rc == LEAT_CORRUPT || rc == LEAT_NOT_FOUND); i++) {
        rc = leat_home_resolve(&d->home, id, &d->version, err);
        if (rc != LEAT_OK)
            return rc;
        rc = load_root(d, err);
    }
    return rc;
}

/* Which samples count, where that is not all of them. */
static leat_status load_selection(struct leat_dataset *d, struct leat_error *err)
{
    const struct leat_section *s = leat_root_section(&d->root, LEAT_SECTION_SELECTION);
    if (!s)
        return LEAT_OK;
    if (s->size > leat_selection_most(&d->root))
        return leat_fail(err, LEAT_CORRUPT, "the selection of %s has %" PRIu64 " bytes, more than it can need",
                         d->home.url, s->size);
    void *data = malloc(s->size ? (size_t)s->size : 1);
    if (!data)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a selection of %" PRIu64 " bytes", s->size);
    leat_status rc = leat_sections_read(d->sections, s, 0, data, (size_t)s->size, err);
    if (rc != LEAT_OK) {
        free(data);
        return rc;
    }
    return leat_selection_read(data, (size_t)s->size, &d->root, &d->selection, err);
}

leat_status leat_dataset_open(const char *url, const struct leat_store_opts *opts, const uint8_t *id,
                              struct leat_dataset **out, struct leat_error *err)
{
    struct leat_dataset *d = calloc(1, sizeof *d);
    if (!d)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
    leat_status rc = leat_home_open(url, opts, &d->home, err);
    if (rc == LEAT_OK)
        rc = load_version(d, id, err);
    if (rc == LEAT_OK)
        rc = leat_sections_open(&d->home, &d->root, &d->sections, err);
    if (rc == LEAT_OK && leat_root_indexed(&d->root))
        rc = leat_recipes_open(&d->home, opts, &d->root, d->sections, &d->recipes, err);
    if (rc == LEAT_OK)
        rc = load_selection(d, err);
    if (rc == LEAT_OK)
        rc = leat_prefix_make(leat_dataset_counts(d), NULL, d->root.chunks, &d->by_chunk, err);
    if (rc == LEAT_OK)
        rc = leat_prefix_make(d->root.counts, NULL, d->root.chunks, &d->all_by_chunk, err);
    if (rc != LEAT_OK) {
        leat_dataset_close(d); /* accepts a half-built one */
        return rc;
    }
    *out = d;
    return LEAT_OK;
}

void leat_dataset_close(struct leat_dataset *d)
{
    if (!d)
        return;
    leat_recipes_close(d->recipes);
    leat_sections_close(d->sections);
    leat_prefix_free(&d->by_chunk);
    leat_prefix_free(&d->all_by_chunk);
    leat_selection_free(d->selection);
    leat_identities_free(&d->identities);
    free(d->root_data);
    leat_home_close(&d->home);
    free(d);
}

const struct leat_root *leat_dataset_root(const struct leat_dataset *d)
{
    return &d->root;
}

const uint8_t *leat_dataset_id(const struct leat_dataset *d)
{
    return d->version.id;
}

const uint8_t *leat_dataset_root_id(const struct leat_dataset *d)
{
    return d->version.root;
}

leat_status leat_dataset_identify(struct leat_dataset *d, struct leat_error *err)
{
    return d->identities.chunks ? LEAT_OK : leat_identities_make(&d->root, d->recipes, &d->identities, err);
}

const uint8_t *leat_dataset_identity(const struct leat_dataset *d)
{
    return d->identities.whole;
}

const uint8_t *leat_dataset_identities(const struct leat_dataset *d)
{
    return d->identities.chunks;
}

const struct leat_home *leat_dataset_home(const struct leat_dataset *d)
{
    return &d->home;
}

uint64_t leat_dataset_samples(const struct leat_dataset *d)
{
    return d->root.selected;
}

const uint32_t *leat_dataset_counts(const struct leat_dataset *d)
{
    return d->selection ? leat_selection_counts(d->selection) : d->root.counts;
}

uint32_t leat_dataset_index(const struct leat_dataset *d, uint32_t chunk, uint32_t i)
{
    return d->selection ? leat_selection_index(d->selection, chunk, i) : i;
}

uint32_t leat_dataset_locate(const struct leat_dataset *d, uint64_t sample, uint32_t *index)
{
    uint32_t chunk = leat_prefix_find(&d->by_chunk, sample);
    *index = leat_dataset_index(d, chunk, (uint32_t)(sample - leat_prefix_before(&d->by_chunk, chunk)));
    return chunk;
}

uint64_t leat_dataset_number(const struct leat_dataset *d, uint64_t sample)
{
    uint32_t index;
    uint32_t chunk = d->selection ? leat_dataset_locate(d, sample, &index) : 0;
    return d->selection ? leat_prefix_before(&d->all_by_chunk, chunk) + index : sample;
}

uint32_t leat_dataset_chunk(const struct leat_dataset *d, uint64_t number)
{
    return leat_prefix_find(&d->all_by_chunk, number);
}

uint64_t leat_dataset_first(const struct leat_dataset *d, uint32_t chunk)
{
    return leat_prefix_before(&d->all_by_chunk, chunk);
}

bool leat_dataset_counted(const struct leat_dataset *d, uint64_t number, uint64_t *sample)
{
    *sample = number;
    if (!d->selection)
        return true;
    uint32_t i;
    uint32_t chunk = leat_dataset_chunk(d, number);
    uint32_t index = (uint32_t)(number - leat_prefix_before(&d->all_by_chunk, chunk));
    if (!leat_selection_rank(d->selection, chunk, index, &i))
        return false;
    *sample = leat_prefix_before(&d->by_chunk, chunk) + i;
    return true;
}

/* Sections */

/* Whether there is such a section, and it can be read. out may be NULL. */
static leat_status check_section(const struct leat_dataset *d, enum leat_section_kind kind,
                                 const struct leat_section **out, struct leat_error *err)
{
    const struct leat_section *s = leat_root_section(&d->root, kind);
    if (!s)
        return leat_fail(err, LEAT_NOT_FOUND, "the dataset at %s has no %s", d->home.url,
                         kind == LEAT_SECTION_KEYS ? "keys" : "table of samples");
    if (out)
        *out = s;
    return leat_section_check(s, err);
}

leat_status leat_dataset_read(struct leat_dataset *d, enum leat_section_kind kind, uint64_t at, void *into, size_t n,
                              struct leat_error *err)
{
    const struct leat_section *s = NULL;
    leat_status rc = check_section(d, kind, &s, err);
    if (rc != LEAT_OK)
        return rc;
    if (at > s->size || n > s->size - at)
        return leat_fail(err, LEAT_CORRUPT, "the snapshot has no byte %" PRIu64 " in section %d", at, kind);
    return leat_sections_read(d->sections, s, at, into, n, err);
}

leat_status leat_dataset_check_section(struct leat_dataset *d, const struct leat_section *s, struct leat_error *err)
{
    return leat_sections_check(d->sections, s, err);
}

static leat_status check_sample(const struct leat_dataset *d, uint64_t sample, struct leat_error *err)
{
    if (sample < d->root.selected)
        return LEAT_OK;
    return leat_fail(err, LEAT_NOT_FOUND, "there is no sample %" PRIu64 ": the dataset has %" PRIu64, sample,
                     d->root.selected);
}

leat_status leat_dataset_row(struct leat_dataset *d, uint64_t sample, uint8_t *row, struct leat_error *err)
{
    uint32_t n = d->root.schema.row_bytes;
    leat_status rc = check_sample(d, sample, err);
    if (rc != LEAT_OK)
        return rc;
    return leat_dataset_read(d, LEAT_SECTION_SAMPLES, leat_dataset_number(d, sample) * n, row, n, err);
}

static leat_status fetch_keys(void *user, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    return leat_dataset_read(user, LEAT_SECTION_KEYS, at, into, n, err);
}

static bool counts(void *user, uint64_t number)
{
    uint64_t sample;
    return leat_dataset_counted(user, number, &sample);
}

static struct leat_keys keys_of(struct leat_dataset *d)
{
    const struct leat_section *s = leat_root_section(&d->root, LEAT_SECTION_KEYS);
    return (struct leat_keys){
        .samples = s ? d->root.samples : 0, .size = s ? s->size : 0, .fetch = fetch_keys, .counts = counts, .user = d};
}

leat_status leat_dataset_key(struct leat_dataset *d, uint64_t sample, struct leat_buf *out, struct leat_error *err)
{
    struct leat_keys keys = keys_of(d);
    leat_status rc = check_sample(d, sample, err);
    if (rc == LEAT_OK)
        rc = check_section(d, LEAT_SECTION_KEYS, NULL, err);
    return rc == LEAT_OK ? leat_keys_get(&keys, leat_dataset_number(d, sample), out, err) : rc;
}

leat_status leat_dataset_find(struct leat_dataset *d, const void *key, size_t n, uint64_t *sample, uint64_t *count,
                              struct leat_error *err)
{
    struct leat_keys keys = keys_of(d);
    leat_status rc = check_section(d, LEAT_SECTION_KEYS, NULL, err);
    uint64_t number;
    if (rc == LEAT_OK)
        rc = leat_keys_find(&keys, key, n, &number, count, err);
    if (rc == LEAT_OK)
        leat_dataset_counted(d, number, sample);
    return rc;
}

leat_status leat_dataset_keys_repeat(struct leat_dataset *d, bool *out, struct leat_error *err)
{
    struct leat_keys keys = keys_of(d);
    leat_status rc = check_section(d, LEAT_SECTION_KEYS, NULL, err);
    return rc == LEAT_OK ? leat_keys_repeat(&keys, out, err) : rc;
}

/* Chunks */

uint32_t leat_dataset_recipe_bytes(const struct leat_dataset *d, uint32_t chunk)
{
    return d->recipes ? leat_recipes_bytes(d->recipes, chunk) : 0;
}

leat_status leat_dataset_recipe_pieces(const struct leat_dataset *d, uint32_t chunk, struct leat_pieces *out,
                                       struct leat_error *err)
{
    return leat_recipes_place(d->recipes, chunk, out, err);
}

leat_status leat_dataset_recipe(struct leat_dataset *d, uint32_t chunk, uint8_t **out, uint32_t *n,
                                struct leat_error *err)
{
    uint8_t at[8];
    uint32_t bytes = leat_dataset_recipe_bytes(d, chunk);
    uint8_t *recipe = bytes ? malloc(bytes) : NULL;
    leat_status rc = LEAT_OK;
    if (bytes && !recipe)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a recipe of %" PRIu32 " bytes", bytes);
    if (bytes)
        rc = leat_dataset_read(d, LEAT_SECTION_RECIPES, 8 * (uint64_t)chunk, at, sizeof at, err);
    if (rc == LEAT_OK && bytes)
        rc = leat_dataset_read(d, LEAT_SECTION_RECIPES, leat_get_u64(at), recipe, bytes, err);
    if (rc != LEAT_OK) {
        free(recipe);
        return rc;
    }
    *out = recipe;
    *n = bytes;
    return LEAT_OK;
}

leat_status leat_dataset_begin(const struct leat_dataset *d, uint32_t chunk, const void *recipe, void *into,
                               struct leat_pieces *pieces, struct leat_store **store, struct leat_error *err)
{
    return leat_recipes_begin(d->recipes, chunk, recipe, into, pieces, store, err);
}

leat_status leat_dataset_open_chunk(const struct leat_dataset *d, uint32_t chunk, const void *data, size_t n,
                                    struct leat_chunk *out, struct leat_error *err)
{
    leat_status rc = leat_root_open_chunk(&d->root, chunk, data, n, out, err);
    return rc == LEAT_OK && d->recipes ? leat_recipes_check(d->recipes, chunk, out, err) : rc;
}

uint64_t leat_dataset_learned(const struct leat_dataset *d, uint32_t chunk)
{
    return d->recipes ? leat_recipes_learned(d->recipes, chunk) : 0;
}

bool leat_dataset_known(const struct leat_dataset *d, uint32_t chunk)
{
    return leat_recipes_known(d->recipes, chunk);
}

leat_status leat_dataset_judge(const struct leat_dataset *d, uint32_t chunk, const void *recipe, void *data,
                               uint64_t *doubt, struct leat_error *err)
{
    return leat_recipes_judge(d->recipes, chunk, recipe, data, doubt, err);
}

void leat_dataset_pins_prove_nothing(const struct leat_dataset *d)
{
    leat_recipes_pins_prove_nothing(d->recipes);
}

leat_status leat_dataset_explain(const struct leat_dataset *d, uint32_t chunk, struct leat_error *err)
{
    return leat_recipes_explain(d->recipes, chunk, err);
}

const struct leat_sources_list *leat_dataset_sources(const struct leat_dataset *d)
{
    return d->recipes ? leat_recipes_sources(d->recipes) : NULL;
}

/* A store in the same place is in the list already: what is found for one is good for all. */
static bool is_listed(const struct leat_sources_list *l, const struct leat_access *access, const struct leat_url *url)
{
    char place[LEAT_ACCESS_PLACE];
    bool found = false;
    leat_access_place(access, url, place);
    for (uint32_t i = 0; i < l->n && !found; i++) {
        struct leat_url other = {0};
        char its[LEAT_ACCESS_PLACE] = "";
        if (leat_url_parse(l->urls[i], &other, NULL) == LEAT_OK)
            leat_access_place(access, &other, its);
        found = strcmp(its, place) == 0;
        leat_url_free(&other);
    }
    return found;
}

static leat_status pick(const char *text, const struct leat_access *access, struct leat_access *out,
                        struct leat_sources_list *lacks, struct leat_error *err)
{
    struct leat_url url = {0};
    uint32_t number;
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc != LEAT_OK)
        leat_fail_context(err, rc, "source '%s'", text);
    if (rc == LEAT_OK && leat_access_has(access, &url))
        rc = leat_access_add(out, access, &url, err);
    else if (rc == LEAT_OK && !is_listed(lacks, access, &url))
        rc = leat_sources_list_add(lacks, text, &number, err);
    leat_url_free(&url);
    return rc;
}

leat_status leat_dataset_access(const struct leat_dataset *d, const struct leat_access *access,
                                struct leat_access **out, struct leat_sources_list *lacks, struct leat_error *err)
{
    const struct leat_sources_list *l = leat_dataset_sources(d);
    struct leat_access *picked;
    *lacks = (struct leat_sources_list){0};
    leat_status rc = leat_access_new(&picked, err);
    if (rc == LEAT_OK)
        rc = pick(d->home.url, access, picked, lacks, err);
    for (uint32_t i = 0; rc == LEAT_OK && l && i < l->n; i++)
        rc = pick(l->urls[i], access, picked, lacks, err);
    if (rc == LEAT_OK) {
        *out = picked;
        return rc;
    }
    leat_access_free(picked);
    leat_sources_list_free(lacks);
    return rc;
}

void leat_dataset_renew(const struct leat_dataset *d, const struct leat_access *access)
{
    leat_store_renew(d->home.store, access);
    if (d->recipes)
        leat_recipes_renew(d->recipes, access);
}

void leat_dataset_stats(const struct leat_dataset *d, struct leat_store_stats *out)
{
    leat_store_stats(d->home.store, out);
    if (d->recipes)
        leat_recipes_stats(d->recipes, out);
}

/* A chunk that is being loaded. */
struct load {
    const struct leat_dataset *dataset;
    uint32_t chunk;
    void *recipe; /* NULL: it is stored */
    struct leat_pieces pieces;
    struct leat_store *store; /* that they are in */
    uint8_t *data;            /* the whole chunk */
    size_t size;
};

static leat_status fetch_recipe(struct load *l, struct leat_error *err)
{
    struct leat_pieces place = {0};
    leat_status rc = leat_dataset_recipe_pieces(l->dataset, l->chunk, &place, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_fetch_opts opts = {.store = l->dataset->home.store, .pieces = &place, .into = l->recipe};
    rc = leat_fetch_run(&opts, err);
    if (rc != LEAT_OK)
        rc = leat_fail_context(err, rc, "the recipe of chunk %" PRIu32 " of %s", l->chunk, l->dataset->home.url);
    if (rc == LEAT_OK)
        rc = leat_dataset_begin(l->dataset, l->chunk, l->recipe, l->data, &l->pieces, &l->store, err);
    leat_pieces_free(&place);
    return rc;
}

static leat_status fetch_pieces(struct load *l, struct leat_chunk *out, struct leat_error *err)
{
    const struct leat_dataset *d = l->dataset;
    struct leat_fetch_opts opts = {.store = l->store,
                                   .pieces = &l->pieces,
                                   .into = l->data + (l->size - l->pieces.bytes),
                                   .foreign = l->recipe != NULL};
    char name[LEAT_NAME_MAX];
    leat_status rc = leat_fetch_run(&opts, err);
    if (rc != LEAT_OK && !l->recipe)
        return leat_fail_context(err, rc, "chunk %" PRIu32 " of %s", l->chunk, d->home.url);
    if (rc == LEAT_OK)
        rc = leat_dataset_open_chunk(d, l->chunk, l->data, l->size, out, err);
    if (rc == LEAT_CORRUPT && l->recipe && l->pieces.n)
        return leat_fail_context(err, rc, "'%s'%s", l->pieces.list[0].key,
                                 l->pieces.n > 1 ? " or another of the chunk's objects" : "");
    if (rc == LEAT_OK || l->recipe)
        return rc;
    leat_name_chunk(leat_root_chunk_name(&d->root, l->chunk), name);
    return leat_fail_context(err, rc, "chunk %" PRIu32 " of %s (%s)", l->chunk, d->home.url, name);
}

/* What the store says about the pieces of a chunk that would need much memory. */
static leat_status check_sizes(const struct leat_dataset *d, uint32_t chunk, const struct leat_pieces *pieces,
                               struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && pieces->bytes > CHUNK_UNUSUAL && i < pieces->n; i++) {
        const struct leat_piece *p = &pieces->list[i];
        struct leat_object object;
        rc = leat_store_stat(d->home.store, p->key, &object, err);
        if (rc == LEAT_OK && (p->object_bytes ? object.size != p->object_bytes : object.size < p->offset + p->length))
            rc = leat_fail(err, LEAT_CORRUPT, "'%s' has %" PRIu64 " bytes, the snapshot says %" PRIu64, p->key,
                           object.size, p->object_bytes ? p->object_bytes : p->offset + p->length);
    }
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "chunk %" PRIu32 " of %s", chunk, d->home.url);
}

static leat_status load_stored(struct load *l, struct leat_chunk *out, struct leat_error *err)
{
    leat_status rc = fetch_pieces(l, out, err);
    return rc == LEAT_CORRUPT ? fetch_pieces(l, out, err) : rc; /* damaged on the way, perhaps */
}

static leat_status load_made(struct load *l, struct leat_chunk *out, struct leat_error *err)
{
    struct leat_error why = {0};
    l->recipe = malloc(leat_dataset_recipe_bytes(l->dataset, l->chunk));
    if (!l->recipe)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the recipe of chunk %" PRIu32, l->chunk);
    leat_status rc = fetch_recipe(l, err);
    if (rc == LEAT_CORRUPT)
        rc = fetch_recipe(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = fetch_pieces(l, out, &why);
    if (rc == LEAT_CORRUPT)
        rc = fetch_pieces(l, out, &why);
    if (rc == LEAT_OK)
        return LEAT_OK;
    rc = leat_dataset_explain(l->dataset, l->chunk, &why);
    return err ? (*err = why, rc) : rc;
}

leat_status leat_dataset_load(struct leat_dataset *d, uint32_t chunk, void **data, struct leat_chunk *out,
                              struct leat_error *err)
{
    struct load l = {.dataset = d, .chunk = chunk, .store = d->home.store, .size = d->root.sizes[chunk]};
    bool made = leat_dataset_recipe_bytes(d, chunk) != 0;
    leat_status rc = LEAT_OK;
    if (!made)
        rc = leat_dataset_pieces(d, chunk, &l.pieces, err);
    if (rc == LEAT_OK && !made)
        rc = check_sizes(d, chunk, &l.pieces, err);
    if (rc == LEAT_OK) {
        l.data = malloc(l.size);
        if (!l.data)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the %zu bytes of chunk %" PRIu32, l.size, chunk);
    }
    if (rc == LEAT_OK)
        rc = made ? load_made(&l, out, err) : load_stored(&l, out, err);
    leat_pieces_free(&l.pieces);
    free(l.recipe);
    if (rc != LEAT_OK) {
        free(l.data);
        return rc;
    }
    *data = l.data;
    return LEAT_OK;
}
