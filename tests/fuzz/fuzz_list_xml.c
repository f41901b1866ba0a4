#include "store/s3_xml.h"

#include "fuzz.h"

FUZZ(list_xml)
{
    struct leat_s3_page page;
    struct leat_error err;
    leat_status rc = leat_s3_parse_page((const char *)data, size, &page, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_SERVER);
    if (rc != LEAT_OK)
        return;
    for (size_t i = 0; i < page.n; i++) {
        const struct leat_s3_entry *e = &page.entries[i];
        PROMISE(e->key < page.strings.len);
        PROMISE(e->etag < page.strings.len);
        PROMISE(memchr(leat_s3_page_string(&page, e->key), '\0', page.strings.len - e->key));
        PROMISE(memchr(leat_s3_page_string(&page, e->etag), '\0', page.strings.len - e->etag));
        PROMISE(e->modified_s >= 0);
        PROMISE(i == 0 ||
                strcmp(leat_s3_page_string(&page, page.entries[i - 1].key), leat_s3_page_string(&page, e->key)) <= 0);
    }
    leat_s3_page_free(&page);
}
