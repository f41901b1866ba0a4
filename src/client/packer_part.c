#include "client/packer_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/abi.h"
#include "client/opts.h"
#include "dataset/join.h"

#define SMALL_MAX 4096u /* bytes of a pointer, or of what stands for an empty part */

void leat_part_name(uint32_t part, uint32_t parts, char out[LEAT_VERSION_NAME_MAX])
{
    snprintf(out, LEAT_VERSION_NAME_MAX, "leat-part-%05u-of-%05u", part, parts);
}

leat_status leat_packer_store(const struct leat_packer_opts *o, struct leat_store_opts *out, struct leat_error *err)
{
    *out = (struct leat_store_opts){.endpoint_url = o->endpoint_url,
                                    .region = o->region,
                                    .profile = o->profile,
                                    .anonymous = o->anonymous,
                                    .timeout_ns = o->timeout_ns,
                                    .stop = o->stop,
                                    .stop_user = o->stop_user};
    return leat_opts_store(out, err);
}

/* The version that a part was finished as. */
static leat_status find_part(const struct leat_home *home, uint32_t part, uint32_t parts, uint8_t id[LEAT_SHA256_SIZE],
                             struct leat_error *err)
{
    char name[LEAT_VERSION_NAME_MAX];
    char object[LEAT_NAME_MAX];
    struct leat_pointer pointer;
    leat_part_name(part, parts, name);
    leat_status rc = leat_name_named(name, object, err);
    if (rc == LEAT_OK)
        rc = leat_home_pointer(home, object, &pointer, err);
    if (rc == LEAT_NOT_FOUND)
        return leat_fail(err, rc, "part %u of %u is not finished at %s", part, parts, home->url);
    if (rc == LEAT_OK)
        memcpy(id, pointer.id, sizeof pointer.id);
    return rc;
}

/* A part without samples cannot be a version. An object says that nothing is missing. The caller frees the key. */
static char *empty_key(const struct leat_home *home, uint32_t part, uint32_t parts)
{
    char object[LEAT_NAME_MAX];
    snprintf(object, sizeof object, "leat/partial/writer-%05u-of-%05u-empty", part, parts);
    return leat_home_key(home, object);
}

/* Asks first: who may not delete must still be able to write parts. Frees the key. */
static leat_status remove_key(const struct leat_home *home, char *key, struct leat_error *err)
{
    char *text = NULL;
    size_t n;
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    leat_status rc = leat_store_load(home->store, key, SMALL_MAX, &text, &n, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_store_delete(home->store, key, err);
    free(text);
    free(key);
    return rc == LEAT_NOT_FOUND ? LEAT_OK : rc;
}

leat_status leat_part_begin(const struct leat_home *home, uint32_t part, uint32_t parts, struct leat_error *err)
{
    return remove_key(home, empty_key(home, part, parts), err);
}

leat_status leat_part_is_empty(const struct leat_home *home, uint32_t part, uint32_t parts, struct leat_error *err)
{
    static const char text[] = "no samples\n";
    char name[LEAT_VERSION_NAME_MAX];
    char object[LEAT_NAME_MAX];
    snprintf(object, sizeof object, "leat/partial/writer-%05u-of-%05u-empty", part, parts);
    leat_status rc = leat_home_put(home, object, text, sizeof text - 1, err);
    leat_part_name(part, parts, name);
    if (rc == LEAT_OK)
        rc = leat_name_named(name, object, err);
    return rc == LEAT_OK ? remove_key(home, leat_home_key(home, object), err) : rc; /* of an attempt that had samples */
}

/* The same as find_part, but *there is false for one that was finished without samples. */
static leat_status look_for_part(const struct leat_home *home, uint32_t part, uint32_t parts,
                                 uint8_t id[LEAT_SHA256_SIZE], bool *there, struct leat_error *err)
{
    char *text = NULL;
    size_t n;
    leat_status rc = find_part(home, part, parts, id, err);
    *there = rc == LEAT_OK;
    if (rc != LEAT_NOT_FOUND)
        return rc;
    char *key = empty_key(home, part, parts);
    leat_status marked = key ? leat_store_load(home->store, key, SMALL_MAX, &text, &n, NULL, NULL) : LEAT_NO_MEMORY;
    free(text);
    free(key);
    return marked == LEAT_OK ? LEAT_OK : rc;
}

/* Names of parts are of no use when the whole is there; one that may not be removed harms nobody. */
static leat_status forget_parts(const struct leat_home *home, uint32_t parts, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < parts && rc != LEAT_NO_MEMORY; i++) {
        char name[LEAT_VERSION_NAME_MAX];
        char object[LEAT_NAME_MAX];
        leat_part_name(i, parts, name);
        rc = leat_name_named(name, object, err);
        char *key = rc == LEAT_OK ? leat_home_key(home, object) : NULL;
        rc = key ? leat_store_delete(home->store, key, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
        free(key);
        if (rc != LEAT_NO_MEMORY)
            rc = leat_part_begin(home, i, parts, err);
    }
    if (rc != LEAT_NO_MEMORY)
        return LEAT_OK;
    return leat_fail_context(err, rc, "the dataset is published, but the names of its parts could not be removed");
}

static leat_status merge(const struct leat_packer_opts *o, const struct leat_home *home,
                         const struct leat_store_opts *store, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    struct leat_publish_opts publish = {.name = o->name, .keep_current = o->no_current, .replace = o->replace};
    uint8_t(*ids)[LEAT_SHA256_SIZE] = calloc(o->parts, sizeof *ids);
    leat_status rc = ids ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %u parts", o->parts);
    uint32_t n = 0;
    for (uint32_t i = 0; rc == LEAT_OK && i < o->parts; i++) {
        bool there;
        rc = look_for_part(home, i, o->parts, ids[n], &there, err);
        n += rc == LEAT_OK && there;
    }
    if (rc == LEAT_OK && n == 0)
        rc = leat_fail(err, LEAT_INVALID, "none of the %u parts has samples", o->parts);
    if (rc == LEAT_OK)
        rc = leat_join(o->url, store, (const uint8_t(*)[LEAT_SHA256_SIZE])ids, n, &publish, id, err);
    free(ids);
    return rc == LEAT_OK ? forget_parts(home, o->parts, err) : rc;
}

leat_status leat_packer_merge(const struct leat_packer_opts *theirs, char version[LEAT_PACKER_VERSION],
                              struct leat_error *err)
{
    struct leat_packer_opts o;
    struct leat_home home = {0};
    uint8_t id[LEAT_SHA256_SIZE];
    leat_status rc = leat_abi_take(theirs, "leat_packer_opts", &o, sizeof o, err);
    if (rc == LEAT_OK && (!o.url || !*o.url || !o.parts || o.parts > LEAT_PARTS_OF_ONE_MAX))
        rc = leat_fail(err, LEAT_INVALID, "merging needs the dataset's URL and the number of parts, at most %u",
                       LEAT_PARTS_OF_ONE_MAX);
    if (rc == LEAT_OK && o.no_current && !o.name)
        rc = leat_fail(err, LEAT_INVALID, "a version that does not become the current one needs a name");
    struct leat_store_opts store;
    if (rc == LEAT_OK)
        rc = leat_packer_store(&o, &store, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_home_open(o.url, &store, &home, err);
    if (rc == LEAT_OK)
        rc = leat_home_check_plain(&home, err);
    if (rc == LEAT_OK)
        rc = merge(&o, &home, &store, id, err);
    if (rc == LEAT_OK)
        leat_hex(id, sizeof id, version);
    leat_home_close(&home);
    return rc;
}
