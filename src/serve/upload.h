/* Uploads in parts. An upload is a folder in the bucket's reserved folder, "uploads/ID": the file "info" holds the
 * key and the headers to keep, and each part is a file "part-NNNNN-MD5", or "block-NAME" in hexadecimal (Azure's), so
 * that everything survives a restart. Hold the bucket's lock where names change: make, place, remove. */
#ifndef LEAT_SERVE_UPLOAD_H
#define LEAT_SERVE_UPLOAD_H

#include "serve/digest.h"
#include "serve/object.h"

#define LEAT_SERVE_UPLOAD_ID 33 /* with the NUL */
#define LEAT_SERVE_MD5_HEX   (2 * LEAT_SERVE_MD5)
#define LEAT_SERVE_PARTS_MAX 10000
#define LEAT_SERVE_BLOCK_MAX 88 /* of a block's name: 64 bytes in base64 */

struct leat_serve_part {
    unsigned number; /* 0: a block */
    uint64_t size;
    int64_t modified_ns;
    char md5[LEAT_SERVE_MD5_HEX + 1];
    char block[LEAT_SERVE_BLOCK_MAX + 1];
};

struct leat_serve_upload {
    int dir; /* -1: none */
    char id[LEAT_SERVE_UPLOAD_ID];
    struct leat_buf key;
    struct leat_buf headers;      /* "name: value\n" lines to keep with the object */
    struct leat_serve_part *part; /* those that are there, by number */
    size_t parts;
    int64_t started_ns;
};

leat_status leat_serve_upload_new_id(char id[LEAT_SERVE_UPLOAD_ID], struct leat_error *err); /* a random one */

leat_status leat_serve_upload_make(struct leat_serve_bucket *b, struct leat_serve_key key, const char *headers,
                                   const char id[LEAT_SERVE_UPLOAD_ID], struct leat_error *err);

/* LEAT_NOT_FOUND for one that is not there (id NULL included). Needs closing on success only. */
leat_status leat_serve_upload_open(struct leat_serve_bucket *b, const char *id, struct leat_serve_upload *out,
                                   struct leat_error *err);
void leat_serve_upload_close(struct leat_serve_upload *u);

/* Makes what was written the part with this number, or the block of this name, instead of any earlier one. */
leat_status leat_serve_upload_place(struct leat_serve_upload *u, struct leat_serve_writer *w,
                                    const struct leat_serve_part *part, struct leat_error *err);

/* Appends a part of the upload to what is being written. */
leat_status leat_serve_upload_append(const struct leat_serve_upload *u, const struct leat_serve_part *part,
                                     struct leat_serve_writer *to, struct leat_error *err);

void leat_serve_upload_remove(struct leat_serve_bucket *b, const struct leat_serve_upload *u);

#endif
