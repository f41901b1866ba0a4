/* The Hugging Face Hub, read-only: a dialect of buckets. A store is one repository at one revision, which is resolved
 * to a commit before anything else and stays with it. hf.c asks and follows, hf_list.c lists, hf_keys.c finds the
 * token. */
#ifndef LEAT_STORE_HF_H
#define LEAT_STORE_HF_H

#include "store/aws.h"
#include "store/backend.h"

#define LEAT_HF_TOKEN "hf-token:" /* what the access key begins with */

/* Listing, as in struct leat_backend_ops. The page of an operation is the next one's query, a line end, and JSON. */
leat_status leat_hf_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                              struct leat_error *err);

struct leat_s3_page;

/* Appends the entries of a page of JSON. For the list and its fuzzer. */
leat_status leat_hf_parse_page(const char *text, size_t n, struct leat_s3_page *page, struct leat_error *err);

/* The query of the address that a Link header calls "next"; "": there is none. False: it is there and cannot be used.
 */
bool leat_hf_parse_link(const char *value, size_t n, char *out, size_t size);

#endif
