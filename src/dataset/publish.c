#include "dataset/publish.h"

#include <string.h>

static leat_status put_section(const struct leat_home *h, const struct leat_buf *data, struct leat_error *err)
{
    uint8_t sha[LEAT_SHA256_SIZE];
    char name[LEAT_NAME_MAX];
    leat_sha256(data->data, data->len, sha);
    leat_name_section(sha, name);
    return leat_home_put(h, name, data->data, data->len, err);
}

static leat_status put_pointer(const struct leat_home *h, const char *name, const struct leat_pointer *pointer,
                               struct leat_error *err)
{
    char text[LEAT_POINTER_MAX];
    leat_pointer_write(pointer, text);
    return leat_home_put(h, name, text, strlen(text), err);
}

leat_status leat_home_publish(const struct leat_home *h, const struct leat_snapshot *const *packings, uint32_t n,
                              struct leat_pointer *out, struct leat_error *err)
{
    struct leat_snapshot_files files;
    char name[LEAT_NAME_MAX];
    leat_status rc = leat_snapshot_write(packings, n, &files, err);
    if (rc == LEAT_OK)
        rc = put_section(h, &files.samples, err);
    if (rc == LEAT_OK)
        rc = put_section(h, &files.keys, err);
    if (rc == LEAT_OK) {
        leat_name_root(files.pointer.root, name);
        rc = leat_home_put(h, name, files.root.data, files.root.len, err);
    }
    if (rc == LEAT_OK) {
        leat_name_version(files.pointer.id, name);
        rc = put_pointer(h, name, &files.pointer, err);
    }
    if (rc == LEAT_OK)
        rc = put_pointer(h, LEAT_NAME_POINTER, &files.pointer, err);
    if (rc == LEAT_OK)
        *out = files.pointer;
    leat_snapshot_files_free(&files);
    return rc;
}
