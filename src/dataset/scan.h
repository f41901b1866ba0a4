/* What is in a folder (of any store) before it is packed: the files, their labels, and what the fields will be. */
#ifndef LEAT_DATASET_SCAN_H
#define LEAT_DATASET_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "dataset/classes.h"
#include "dataset/home.h"
#include "dataset/schema.h"

enum leat_scan_labels {
    LEAT_LABELS_AUTO, /* when all files lie in folders, the first folder is the label */
    LEAT_LABELS_FOLDER,
    LEAT_LABELS_NONE
};

struct leat_scan_opts {
    const char *field; /* name of the field with the file; NULL: by its ending */
    enum leat_scan_labels labels;
    const struct leat_classes
        *classes;             /* numbers of the labels; NULL: the folders' own, by name. Borrowed until close */
    bool (*stop)(void *user); /* asked now and then; may be NULL */
    void *stop_user;
};

struct leat_scan {
    uint64_t n;
    uint64_t bytes;
    uint64_t skipped;     /* hidden files: a part of the path begins with '.' */
    struct leat_buf keys; /* relative paths, one after the other */
    uint64_t *ends;       /* where each ends */
    uint64_t *sizes;
    uint64_t *tags;                    /* XXH3 of each one's ETag: whether it is still the file that was listed */
    uint8_t (*digests)[LEAT_MD5_SIZE]; /* of each one's bytes, zeros where the list does not say: see leat_scan_known */
    uint32_t *labels;                  /* NULL: none */
    uint32_t labels_n;                 /* classes: those there, or all of the list */
    struct leat_schema schema;         /* the file, then the label where there is one */
    struct leat_buf about;             /* of the label; what the schema points to */
    uint64_t cap;
};

/* Files are sorted by the bytes of their paths. LEAT_NOT_FOUND when there are none; LEAT_LIMIT, naming the file, for
 * what no sample can be. Memory: the path and 44 bytes for each file. */
leat_status leat_scan_open(const struct leat_home *from, const struct leat_scan_opts *opts, struct leat_scan *out,
                           struct leat_error *err);
void leat_scan_close(struct leat_scan *s); /* zeroed ones are allowed */

/* Whether the bytes' MD5 is known without reading them, as it is for most objects of a bucket: it is their ETag. (Where
 * the bucket encrypts with a key of its own the ETag only looks like one. It still tells two contents apart.) */
bool leat_scan_known(const struct leat_scan *s, uint64_t i);
uint64_t leat_scan_tag(const char *etag); /* with or without its quotes */

const char *leat_scan_key(const struct leat_scan *s, uint64_t i, size_t *n);

#endif
