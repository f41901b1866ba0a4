/* The XML that buckets speak: list pages, errors, the answers to multipart calls. Bytes from outside: bounded, no
 * entities, nothing fetched. */
#ifndef LEAT_STORE_S3_XML_H
#define LEAT_STORE_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct leat_s3_entry {
    size_t key; /* offsets into the page's strings */
    size_t etag;
    uint64_t size;
    int64_t modified_s;
    size_t storage_class;
    size_t version; /* as above; of a list of versions, as the next two */
    bool prefix;
    bool latest;
    bool deleted; /* a marker of deletion */
};

struct leat_s3_page {
    struct leat_buf strings;
    struct leat_s3_entry *entries; /* sorted by key */
    size_t n;
    size_t cap;
    char *token; /* of the next page; NULL: this was the last */
};

/* A ListObjectsV2 answer. *out is set on success only and freed with leat_s3_page_free. */
leat_status leat_s3_parse_page(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err);
/* A ListObjectVersions answer: markers of deletion too; the token is that of the key, a line break, and the version's.
 */
leat_status leat_s3_parse_versions(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err);
/* Google's, whose entries' etag is their generation: "gNUMBER" in quotes, as everywhere else. */
leat_status leat_s3_parse_generations(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err);
/* Azure's List Blobs; its directories, which are no objects, are left out. */
leat_status leat_az_parse_page(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err);
void leat_s3_page_free(struct leat_s3_page *page); /* NULL and zeroed ones are allowed */
static inline const char *leat_s3_page_string(const struct leat_s3_page *page, size_t offset)
{
    return page->strings.data + offset;
}

struct leat_s3_answer {
    char root[64];     /* "Error", "InitiateMultipartUploadResult", … */
    char code[64];     /* Error */
    char message[256]; /* Error */
    char region[32];   /* Error: where the bucket is */
    char etag[160];
    char crc32c[16]; /* of an object that was made of parts */
    char upload_id[1100];
};

/* Any small answer. False when it is not XML; what is missing or too long is "". */
bool leat_s3_parse_answer(const char *xml, size_t n, struct leat_s3_answer *out);

/* Any other document: calls back for every element that holds text. False when it is not XML. */
typedef void leat_xml_leaf(const char *parent, const char *name, const char *text, void *user);
bool leat_xml_leaves(const char *xml, size_t n, leat_xml_leaf *leaf, void *user);

/* "2013-09-17T18:07:53.000Z" in seconds since 1970; 0 when it is something else. */
int64_t leat_s3_parse_time(const char *text);

#endif
