#include "dataset/piece.h"

#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"

leat_status leat_pieces_of(const struct leat_home *home, const char *name, uint64_t offset, uint64_t length,
                           uint64_t object_bytes, struct leat_pieces *out, struct leat_error *err)
{
    size_t prefix = strlen(home->prefix);
    size_t n = strlen(name);
    struct leat_piece *piece = malloc(sizeof *piece + prefix + n + 1); /* the key lies after it */
    if (!piece)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the name of '%s'", name);
    char *key = (char *)(piece + 1);
    memcpy(key, home->prefix, prefix);
    memcpy(key + prefix, name, n + 1);
    *piece = (struct leat_piece){.key = key, .offset = offset, .length = length, .object_bytes = object_bytes};
    *out = (struct leat_pieces){.list = piece, .n = 1, .bytes = length};
    return LEAT_OK;
}

leat_status leat_dataset_pieces(const struct leat_dataset *d, uint32_t chunk, struct leat_pieces *out,
                                struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    char name[LEAT_NAME_MAX];
    leat_name_chunk(leat_root_chunk_name(root, chunk), name);
    return leat_pieces_of(leat_dataset_home(d), name, 0, root->sizes[chunk], root->sizes[chunk], out, err);
}

void leat_pieces_free(struct leat_pieces *p)
{
    if (!p)
        return;
    free(p->list);
    *p = (struct leat_pieces){0};
}
