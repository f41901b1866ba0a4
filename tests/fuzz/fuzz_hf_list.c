/* A page of the Hub's list: a Link header, a line end, and JSON. */
#include "fuzz.h"
#include "store/hf.h"
#include "store/s3_xml.h"

FUZZ(hf_list)
{
    struct leat_s3_page page = {0};
    struct leat_error err;
    char next[64];
    const uint8_t *line = memchr(data, '\n', size);
    size_t link_n = line ? (size_t)(line - data) : 0;
    if (leat_hf_parse_link((const char *)data, link_n, next, sizeof next))
        PROMISE(strlen(next) <= link_n && !strpbrk(next, "# "));
    const char *json = (const char *)data + (line ? link_n + 1 : 0);
    size_t n = size - (size_t)(json - (const char *)data);
    leat_buf_init(&page.strings, 1u << 20);
    leat_status rc = leat_hf_parse_page(json, n, &page, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_SERVER || rc == LEAT_LIMIT);
    for (size_t i = 0; rc == LEAT_OK && i < page.n; i++) {
        const struct leat_s3_entry *e = &page.entries[i];
        PROMISE(e->key < page.strings.len && e->etag < page.strings.len);
        PROMISE(*leat_s3_page_string(&page, e->key));
        PROMISE(memchr(leat_s3_page_string(&page, e->etag), '\0', page.strings.len - e->etag));
    }
    leat_s3_page_free(&page);
}
