/* The stores that pieces of an indexed dataset come from: format 1, section kind 4 (docs/format.md). A recipe says by a
 * number which one its pieces are in. */
#ifndef LEAT_DATASET_SOURCES_H
#define LEAT_DATASET_SOURCES_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "store/store.h"

#define LEAT_SOURCES_MAX   256u
#define LEAT_SOURCES_BYTES ((size_t)1 << 20) /* of the section */

/* The URL of the store that `url` lies in: "s3://bucket", "file:///", "https://host". The caller frees it. */
leat_status leat_source_url(const char *url, char **out, struct leat_error *err);

/* A list of them, by number. Zeroed: empty. */
struct leat_sources_list {
    char **urls;
    uint32_t n;
};

/* The number of a store's URL, which is added if it is not there. LEAT_LIMIT when there are LEAT_SOURCES_MAX. */
leat_status leat_sources_list_add(struct leat_sources_list *l, const char *url, uint32_t *out, struct leat_error *err);
void leat_sources_list_free(struct leat_sources_list *l);

/* The section's bytes and back; what was read before is freed by the caller, also after a failure. */
leat_status leat_sources_list_write(const struct leat_sources_list *l, struct leat_buf *out, struct leat_error *err);
leat_status leat_sources_list_read(const void *data, size_t n, struct leat_sources_list *out, struct leat_error *err);

#endif
