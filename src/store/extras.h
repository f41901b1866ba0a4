/* Headers that a bucket's requests carry because somebody asked for them: who pays, how objects are encrypted, and any
 * others. They are made once, into one text: lines "SCOPE NAME: VALUE", where the scope says which requests. */
#ifndef LEAT_STORE_EXTRAS_H
#define LEAT_STORE_EXTRAS_H

#include "base/buf.h"
#include "base/error.h"

#define LEAT_EXTRAS_MAX   (16u << 10)
#define LEAT_EXTRAS_LINES 24u

#define LEAT_EXTRA_ALWAYS 'a'
#define LEAT_EXTRA_WRITE  'w' /* that make an object: put, the beginning of one in parts, copy */
#define LEAT_EXTRA_KEY    'k' /* that read or write an object's bytes or head */
#define LEAT_EXTRA_SOURCE 's' /* that copy */

/* What is not said here is in variables: LEAT_REQUESTER_PAYS, LEAT_SSE, LEAT_SSE_KMS_KEY, LEAT_SSE_C_KEY_FILE,
 * LEAT_HEADER. */
struct leat_extras {
    bool alone; /* variables do not count */
    bool requester_pays;
    const char *sse;          /* "AES256", "aws:kms", "aws:kms:dsse"; NULL: what the bucket does by itself */
    const char *sse_kms_key;  /* its id; NULL: the account's own */
    const char *sse_c_file;   /* holds 32 bytes, or their base64; NULL: LEAT_SSE_C_KEY has the base64, else none */
    const char *const *lines; /* "Name: value" */
    size_t lines_n;
};

/* Appends to *out, which the caller frees with leat_extras_free(): there may be a key in it. */
leat_status leat_extras_make(const struct leat_extras *extras, struct leat_buf *out, struct leat_error *err);
/* The same as a text, NULL where there is nothing to send; the caller wipes and frees it. */
leat_status leat_extras_text(const struct leat_extras *extras, char **out, struct leat_error *err);
void leat_extras_free(struct leat_buf *text);

#endif
