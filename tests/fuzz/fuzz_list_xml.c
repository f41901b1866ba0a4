#include "store/list_check.h"
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
    struct leat_list_check check;
    leat_list_check_init(&check, "a/", 2, true, false);
    rc = leat_list_check_page(&check, &page, 0, page.token, &err);
    fuzz_check_error(rc, &err);
    for (size_t i = 0; rc == LEAT_OK && i < page.n; i++) {
        const char *key = leat_s3_page_string(&page, page.entries[i].key);
        PROMISE(strncmp(key, "a/", 2) == 0);
        PROMISE(i == 0 || strcmp(leat_s3_page_string(&page, page.entries[i - 1].key), key) < 0);
    }
    leat_list_check_free(&check);
    leat_s3_page_free(&page);
}
