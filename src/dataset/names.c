#include "dataset/names.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "dataset/schema.h"

#define HEX_SIZE (2 * LEAT_SHA256_SIZE + 1)

static void name(const char *folder, const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX])
{
    char hex[HEX_SIZE];
    leat_hex(sha, LEAT_SHA256_SIZE, hex);
    snprintf(out, LEAT_NAME_MAX, "%s%s", folder, hex);
}

void leat_name_root(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX])
{
    name("leat/roots/", sha, out);
}

void leat_name_section(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX])
{
    name("leat/sections/", sha, out);
}

void leat_name_chunk(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX])
{
    char folder[sizeof LEAT_NAME_CHUNKS + 3];
    snprintf(folder, sizeof folder, LEAT_NAME_CHUNKS "%02x/", sha[0]);
    name(folder, sha, out);
}

void leat_name_version(const uint8_t id[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX])
{
    name(LEAT_NAME_VERSIONS, id, out);
}

leat_status leat_name_named(const char *text, char out[LEAT_NAME_MAX], struct leat_error *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t n = strlen(text);
    if (n == 0 || n >= LEAT_VERSION_NAME_MAX || strspn(text, allowed) != n || strchr("_.-", text[0]))
        return leat_fail(err, LEAT_INVALID,
                         "'%.80s' cannot be the name of a version: 1 to %d letters, digits, '_', '.', '-', the first a "
                         "letter or digit",
                         text, LEAT_VERSION_NAME_MAX - 1);
    snprintf(out, LEAT_NAME_MAX, LEAT_NAME_NAMES "%s", text);
    return LEAT_OK;
}

void leat_pointer_write(const struct leat_pointer *p, char out[LEAT_POINTER_MAX])
{
    char root[HEX_SIZE];
    char id[HEX_SIZE];
    leat_hex(p->root, LEAT_SHA256_SIZE, root);
    leat_hex(p->id, LEAT_SHA256_SIZE, id);
    snprintf(out, LEAT_POINTER_MAX, "{\"format\": %d, \"root\": \"%s\", \"id\": \"%s\"}\n", LEAT_FORMAT_VERSION, root,
             id);
}

/* Nothing that can be needed is known yet. */
static leat_status check_needs(const char *what, const json_t *needs, struct leat_error *err)
{
    if (!needs || (json_is_array(needs) && json_array_size(needs) == 0))
        return LEAT_OK;
    const char *first = json_string_value(json_array_get(needs, 0));
    if (!first)
        return leat_fail(err, LEAT_CORRUPT, "%s: \"needs\" is not a list of words", what);
    return leat_fail(err, LEAT_VERSION, "%s needs a newer Leat: it uses '%.60s', which this one does not know", what,
                     first);
}

static leat_status check_pointer(const char *what, const json_t *json, struct leat_pointer *out, struct leat_error *err)
{
    const json_t *format = json_object_get(json, "format");
    const char *root = json_string_value(json_object_get(json, "root"));
    const char *id = json_string_value(json_object_get(json, "id"));
    struct leat_pointer p;
    if (!json_is_integer(format))
        return leat_fail(err, LEAT_CORRUPT, "%s is not the pointer of a dataset", what);
    if (json_integer_value(format) != LEAT_FORMAT_VERSION)
        return leat_fail(err, LEAT_VERSION, "%s has format %lld, this Leat reads %d: it needs a newer Leat", what,
                         (long long)json_integer_value(format), LEAT_FORMAT_VERSION);
    leat_status rc = check_needs(what, json_object_get(json, "needs"), err);
    if (rc != LEAT_OK)
        return rc;
    if (!root || !leat_unhex(root, p.root, sizeof p.root))
        return leat_fail(err, LEAT_CORRUPT, "%s names no root", what);
    if (!id || !leat_unhex(id, p.id, sizeof p.id))
        return leat_fail(err, LEAT_CORRUPT, "%s names no content id", what);
    *out = p;
    return LEAT_OK;
}

leat_status leat_pointer_read(const char *what, const char *text, size_t n, struct leat_pointer *out,
                              struct leat_error *err)
{
    json_t *json = NULL;
    if (n < LEAT_POINTER_MAX && leat_json_read(text, n, JSON_REJECT_DUPLICATES, &json, NULL) == LEAT_NO_MEMORY)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read %s", what);
    leat_status rc = check_pointer(what, json, out, err);
    json_decref(json);
    return rc;
}
