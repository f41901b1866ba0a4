/* Looking at a dataset: samples by number and by key, read directly, without an agent. For training use leat/loader.h,
 * which reads ahead and shares; this fetches a chunk when a sample of it is asked for and keeps a few.
 *
 * Any thread may call. After a fork the child may go on using its copy, which opens the same version of the dataset
 * again by itself. Structs begin with their size, as in leat/loader.h. All strings are copied. */
#ifndef LEAT_DATASET_H
#define LEAT_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_data;
struct leat_data_sample;

struct leat_data_opts {
    size_t size;
    const char *url;          /* "?id=HEX" or "?name=NAME" at its end names a version */
    const char *version;      /* content id in hexadecimal digits, or a name; NULL: what the URL says */
    const char *endpoint_url; /* of an S3 server, and below: NULL means what the environment and ~/.aws say */
    const char *region;
    const char *profile;
    uint64_t timeout_ns;      /* of one request with all its attempts; 0: 5 minutes */
    uint64_t cache;           /* bytes of chunks that are kept, at least the last one; 0: 64 MiB */
    bool (*stop)(void *user); /* asked several times a second by waiting calls; true ends them with LEAT_CANCELLED */
    void *stop_user;
    uint32_t anonymous; /* 1: do not sign requests, whatever keys there are */
    uint32_t reserved;  /* 0 */
};

LEAT_API leat_status leat_data_open(const struct leat_data_opts *opts, struct leat_data **out, struct leat_error *err);

/* When no other call is running. Samples that are still held stay valid. NULL is allowed. */
LEAT_API void leat_data_close(struct leat_data *data);

LEAT_API uint64_t leat_data_samples(const struct leat_data *data);
LEAT_API const char *leat_data_version(const struct leat_data *data); /* the content id: 64 digits */

/* What fields hold. Values are part of the ABI; programs must expect numbers they do not know. */
enum leat_data_type {
    LEAT_DATA_BYTES = 1,
    LEAT_DATA_IMAGE = 2,  /* an encoded file */
    LEAT_DATA_INT = 3,    /* 64 bits */
    LEAT_DATA_STRING = 4, /* UTF-8 by convention */
    LEAT_DATA_FLOAT = 5,  /* 64 bits */
    LEAT_DATA_JSON = 6,   /* a text */
    LEAT_DATA_ARRAY = 7,  /* numbers, row by row */
    LEAT_DATA_TOKENS = 8  /* numbers in a row */
};

/* The types by name, so that front ends need no list of their own. Texts are static. */
#define LEAT_DATA_TYPE_BYTES 1u /* flags: values have bytes of their own … */
#define LEAT_DATA_TYPE_ZSTD  2u /* … which may be compressed … */
#define LEAT_DATA_TYPE_TYPED 4u /* … and are numbers of one type, which the field's description names */
struct leat_data_type_info {
    size_t size;      /* of this struct */
    const char *name; /* "image" */
    uint32_t type;    /* enum leat_data_type */
    uint32_t flags;
};

LEAT_API size_t leat_data_types(void); /* how many there are */
LEAT_API leat_status leat_data_type(size_t i, struct leat_data_type_info *out, struct leat_error *err);

struct leat_data_field {
    size_t size; /* set it before the call, which leaves it alone */
    const char *name;
    const char
        *about; /* a JSON object that says more: {"names": […]} of labels, {"dtype": …, "shape": …}; "": nothing */
    uint32_t type;     /* enum leat_data_type */
    uint32_t optional; /* 1: samples may lack a value */
};

LEAT_API size_t leat_data_fields(const struct leat_data *data);
LEAT_API leat_status leat_data_field(const struct leat_data *data, size_t i, struct leat_data_field *out,
                                     struct leat_error *err); /* the strings are the dataset's */

/* The number of the first sample with this key. LEAT_NOT_FOUND if no sample has it, or the dataset has no keys. */
LEAT_API leat_status leat_data_find(struct leat_data *data, const void *key, size_t n, uint64_t *out,
                                    struct leat_error *err);

/* A sample. It keeps its chunk in memory until it is released, which any thread may do. */
LEAT_API leat_status leat_data_get(struct leat_data *data, uint64_t number, struct leat_data_sample **out,
                                   struct leat_error *err);
LEAT_API void leat_data_release(struct leat_data_sample *sample); /* NULL is allowed */

LEAT_API const void *leat_data_key(const struct leat_data_sample *sample, size_t *n); /* *n 0: it has none */

struct leat_data_value {
    size_t size;      /* set it before the call, which leaves it alone */
    uint32_t type;    /* enum leat_data_type */
    uint32_t absent;  /* 1: the sample has no value of this field, and the rest is zero */
    const void *data; /* all but int and float; the sample's memory, valid until it is released */
    uint64_t bytes;
    int64_t number; /* int */
    double real;    /* float */
    uint32_t width; /* image: what its header says, before it is turned; 0: it could not be read */
    uint32_t height;
    uint32_t dtype;  /* array and tokens: enum leat_dtype_code of leat/loader.h */
    uint32_t dims_n; /* array: and its shape */
    uint64_t dims[8];
};

LEAT_API leat_status leat_data_value(struct leat_data_sample *sample, size_t field, struct leat_data_value *out,
                                     struct leat_error *err);

/* Pixels, rows of width × channels bytes one after the other. */
struct leat_data_pixels {
    size_t size; /* set it before the call, which leaves it alone */
    uint32_t width;
    uint32_t height;
    uint32_t channels;
    uint32_t reserved;
    uint8_t *pixels; /* the caller frees it with free() */
};

/* Decodes an image with the decoders that loaders use. `pipeline` is the text form of the steps (docs/prep.md); "" or
 * NULL: no steps, three channels. Only uint8 in rows is possible here. */
LEAT_API leat_status leat_data_decode(const void *image, size_t bytes, const char *pipeline,
                                      struct leat_data_pixels *out, struct leat_error *err);

/* Pixels as a PNG file, which the caller frees with free(). */
LEAT_API leat_status leat_data_png(const struct leat_data_pixels *pixels, void **out, size_t *bytes,
                                   struct leat_error *err);

#ifdef __cplusplus
}
#endif
#endif
