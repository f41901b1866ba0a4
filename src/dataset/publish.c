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

leat_status leat_home_publish(const struct leat_home *h, const struct leat_snapshot *s, uint8_t id[LEAT_SHA256_SIZE],
                              struct leat_error *err)
{
    struct leat_snapshot_files files;
    char name[LEAT_NAME_MAX];
    char pointer[LEAT_POINTER_MAX];
    leat_status rc = leat_snapshot_write(s, &files, err);
    if (rc == LEAT_OK)
        rc = put_section(h, &files.samples, err);
    if (rc == LEAT_OK)
        rc = put_section(h, &files.keys, err);
    if (rc == LEAT_OK) {
        leat_name_root(files.id, name);
        rc = leat_home_put(h, name, files.root.data, files.root.len, err);
    }
    if (rc == LEAT_OK) {
        leat_pointer_write(files.id, pointer);
        rc = leat_home_put(h, LEAT_NAME_POINTER, pointer, strlen(pointer), err);
    }
    if (rc == LEAT_OK)
        memcpy(id, files.id, sizeof files.id);
    leat_snapshot_files_free(&files);
    return rc;
}
