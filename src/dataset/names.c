#include "dataset/names.h"

#include <stdio.h>

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

void leat_pointer_write(const uint8_t id[LEAT_SHA256_SIZE], char out[LEAT_POINTER_MAX])
{
    char hex[HEX_SIZE];
    leat_hex(id, LEAT_SHA256_SIZE, hex);
    snprintf(out, LEAT_POINTER_MAX, "{\"format\": %d, \"root\": \"%s\"}\n", LEAT_FORMAT_VERSION, hex);
}

leat_status leat_pointer_read(const char *text, size_t n, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    json_t *pointer = NULL;
    leat_status rc = LEAT_OK;
    if (n < LEAT_POINTER_MAX && leat_json_read(text, n, JSON_REJECT_DUPLICATES, &pointer, NULL) == LEAT_NO_MEMORY)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read " LEAT_NAME_POINTER);
    const json_t *format = json_object_get(pointer, "format");
    const char *root = json_string_value(json_object_get(pointer, "root"));
    uint8_t sha[LEAT_SHA256_SIZE] = {0};
    if (!json_is_integer(format))
        rc = leat_fail(err, LEAT_CORRUPT, LEAT_NAME_POINTER " is not the pointer of a dataset");
    else if (json_integer_value(format) != LEAT_FORMAT_VERSION)
        rc = leat_fail(err, LEAT_VERSION, "the dataset has format %lld, this Leat reads %d",
                       (long long)json_integer_value(format), LEAT_FORMAT_VERSION);
    else if (!root || !leat_unhex(root, sha, sizeof sha))
        rc = leat_fail(err, LEAT_CORRUPT, LEAT_NAME_POINTER " names no root");
    for (size_t i = 0; rc == LEAT_OK && i < sizeof sha; i++)
        id[i] = sha[i];
    json_decref(pointer);
    return rc;
}
