/* Writing a dataset, sample by sample, into any store that can be written to.
 *
 * Any thread may add samples: the thread that fills a chunk also encodes and stores it. The dataset cannot be seen
 * until finish() publishes it in one step; without finish(), what was stored stays invisible. A packer belongs to the
 * process that opened it. Several processes write one dataset in parts, each with its own packer, and one of them joins
 * the parts with leat_packer_merge(). Structs begin with their size, as in leat/loader.h. All arguments are copied. */
#ifndef LEAT_WRITER_H
#define LEAT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/dataset.h"
#include "leat/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_packer;

struct leat_packer_field {
    size_t size;
    const char *name;  /* letters, digits, '_', '.', '-' */
    const char *about; /* a JSON object: {"names": ["cat", "dog"]} of labels, {"dtype": "float32", "shape": [3, null]}
                          of arrays, {"dtype": "uint16"} of tokens; NULL: nothing */
    uint32_t type;     /* enum leat_data_type */
    uint32_t optional; /* 1: samples may lack a value */
    uint32_t zstd;     /* 1: compress values that become smaller; not for images and numbers */
    uint32_t reserved; /* 0 */
};

struct leat_packer_opts {
    size_t size;
    const char *url;
    const struct leat_packer_field *fields;
    size_t fields_n;
    uint64_t chunk_bytes;     /* largest size of a chunk, unless a sample is larger; 0: 8 MiB */
    const char *name;         /* name for the version; NULL: none */
    uint32_t no_current;      /* 1: the current version stays current; only with a name */
    uint32_t replace;         /* 1: an existing dataset or name is replaced */
    uint32_t part;            /* this is part 0 … parts-1 … */
    uint32_t parts;           /* … of this many, which leat_packer_merge() joins; 0: the whole dataset */
    const char *endpoint_url; /* of an S3 server, and below: NULL means what the environment and ~/.aws say */
    const char *region;
    const char *profile;
    uint64_t timeout_ns;      /* of one request with all its attempts; 0: 5 minutes */
    bool (*stop)(void *user); /* asked several times a second by waiting calls; true ends them with LEAT_CANCELLED */
    void *stop_user;
    uint32_t anonymous; /* 1: do not sign requests, whatever keys there are */
    uint32_t reserved;  /* 0 */
};

/* Fails with LEAT_EXISTS at once if there is a dataset that must not be replaced. */
LEAT_API leat_status leat_packer_open(const struct leat_packer_opts *opts, struct leat_packer **out,
                                      struct leat_error *err);
LEAT_API void leat_packer_close(struct leat_packer *packer); /* NULL is allowed */

struct leat_packer_value {
    size_t size;
    const void *data; /* all but int and float: the bytes; of an array row by row */
    uint64_t bytes;
    int64_t number;  /* int */
    double real;     /* float */
    uint32_t absent; /* 1: there is no value; only for optional fields */
    uint32_t dims_n; /* array: its shape */
    uint64_t dims[8];
};

/* Appends a sample with one value for each field, in their order. key_n 0: it has no key. LEAT_INVALID, naming key and
 * field, for a value that the field cannot hold, such as an image whose header cannot be read or invalid JSON: nothing
 * was added, and others may follow. */
LEAT_API leat_status leat_packer_add(struct leat_packer *packer, const void *key, size_t key_n,
                                     const struct leat_packer_value *values, struct leat_error *err);

LEAT_API uint64_t leat_packer_samples(const struct leat_packer *packer); /* added so far */

#define LEAT_PACKER_VERSION 65

/* Publishes the dataset. version: the content id, 64 digits and a NUL. LEAT_INVALID after a failure of add() that may
 * have lost samples, and if there are no samples. A part (opts.parts) may have none: version is then "". */
LEAT_API leat_status leat_packer_finish(struct leat_packer *packer, char version[LEAT_PACKER_VERSION],
                                        struct leat_error *err);

/* Joins the opts.parts parts that were finished at opts.url, in the order of their numbers, and publishes the whole
 * under name, no_current and replace. Chunks are not copied or read. fields, chunk_bytes and part do not matter.
 * LEAT_NOT_FOUND if a part is missing, which the error names. */
LEAT_API leat_status leat_packer_merge(const struct leat_packer_opts *opts, char version[LEAT_PACKER_VERSION],
                                       struct leat_error *err);

#ifdef __cplusplus
}
#endif
#endif
