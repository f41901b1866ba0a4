#include "net/http.h"

#include "fuzz.h"

#define ENDS(field) PROMISE(memchr(head.field, '\0', sizeof head.field))

/* The input is a head: line after line. */
FUZZ(http_header)
{
    struct leat_http_head head = {0};
    const char *p = (const char *)data;
    const char *end = p + size;
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl + 1 - p) : (size_t)(end - p);
        char *line = malloc(n ? n : 1); /* of its own, so that reading after it is seen */
        PROMISE(line);
        memcpy(line, p, n);
        leat_http_parse_header(&head, line, n);
        free(line);
        p += n;
        ENDS(etag);
        ENDS(region);
        ENDS(location);
        ENDS(content_type);
        ENDS(encoding);
        ENDS(checksum_kind);
        ENDS(checksum);
        PROMISE(!head.has_range || head.range_first <= head.range_last);
        PROMISE(!head.has_range || head.range_last < head.range_total);
        PROMISE(head.modified_s >= 0);
        PROMISE(head.date_s >= 0);
        PROMISE(head.retry_at_s >= 0);
    }
}
