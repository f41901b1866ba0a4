/* What `leat serve` reads of a request: four lines (signed headers, target, Range and ETags, nothing), then a body. */
#include "base/hash.h"
#include "serve/dialect.h"
#include "serve/key.h"
#include "serve/range.h"
#include "serve/target.h"
#include "serve/xml.h"
#include "store/sign.h"

#include "fuzz.h"

static void check_key(struct leat_serve_key key)
{
    struct leat_buf path;
    struct leat_buf back;
    PROMISE(key.n <= LEAT_SERVE_KEY_MAX);
    if (key.n == 0)
        return;
    if (leat_serve_key_plain(key)) {
        PROMISE(!memchr(key.data, '\0', key.n));
        PROMISE(key.data[0] != '/' && key.data[key.n - 1] != '/');
        PROMISE(!memmem(key.data, key.n, "//", 2) && !memmem(key.data, key.n, "/../", 4));
        PROMISE(key.n < 3 || memcmp(key.data, "../", 3) != 0);
    }
    leat_buf_init(&path, 8192);
    leat_buf_init(&back, 8192);
    PROMISE(leat_serve_key_escape(key, &path));
    PROMISE(leat_serve_key_unescape(path.data, &back));
    PROMISE(back.len == key.n && memcmp(back.data, key.data, key.n) == 0);
    leat_buf_free(&path);
    leat_buf_free(&back);
}

static void check_target(const char *signed_headers, const char *target, const struct leat_serve_dialect *dialect)
{
    struct leat_serve serve = {.dialect = dialect};
    struct leat_serve_call *c = calloc(1, sizeof *c);
    enum leat_serve_code why;
    char path[4096];
    snprintf(path, sizeof path, "%s", leat_serve_target_path(target));
    char *query = strchr(path, '?');
    if (query)
        *query++ = '\0';
    c->serve = &serve;
    if (leat_serve_target_parse(c, path, query ? query : "", &why)) {
        struct leat_sign_received r = {.method = "GET",
                                       .path = path,
                                       .query = query ? query : "",
                                       .signed_headers = signed_headers,
                                       .payload_hash = "x"};
        struct leat_buf canonical;
        PROMISE(c->bucket_name && c->key.data && c->args <= LEAT_SERVE_ARGS_MAX);
        check_key(c->key);
        /* What can be taken apart can be signed. */
        leat_buf_init(&canonical, 1 << 20);
        PROMISE(leat_sign_canonical_received(&r, &canonical, NULL) == LEAT_OK);
        leat_buf_free(&canonical);
    }
    leat_serve_target_free(c);
    free(c);
}

static void check_range(const char *header, uint64_t size)
{
    uint64_t offset;
    uint64_t n;
    enum leat_serve_range_kind kind = leat_serve_range(header, size, &offset, &n);
    if (kind == LEAT_SERVE_RANGE_OUTSIDE)
        return;
    PROMISE(offset <= size && n <= size - offset);
    PROMISE(kind == LEAT_SERVE_RANGE_ALL ? n == size : n > 0);
}

static leat_status on_element(const char *path, const char *text, size_t n, void *user, struct leat_error *err)
{
    size_t *elements = user;
    (void)err;
    PROMISE(*path);
    PROMISE(text || n == 0);
    ++*elements;
    return LEAT_OK;
}

static void check_xml(const char *data, size_t n)
{
    size_t elements = 0;
    struct leat_error err;
    struct leat_buf xml;
    leat_status rc = leat_serve_xml_read(data, n, on_element, &elements, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc != LEAT_OK || elements > 0);
    /* Whatever bytes are written as text are read back as a document. */
    leat_buf_init(&xml, 1 << 20);
    size_t less = n < 4000 ? n : 4000;
    leat_serve_xml_element(&xml, "Key", data, less);
    bool printable = true;
    for (size_t i = 0; i < less; i++)
        printable = printable && (unsigned char)data[i] >= ' ' && data[i] != 0x7f;
    if (printable)
        PROMISE(leat_serve_xml_read(xml.data, xml.len, on_element, &elements, &err) == LEAT_OK || less > 1000);
    leat_buf_free(&xml);
}

FUZZ(request)
{
    char *text = fuzz_text(data, size);
    char *line[4] = {0};
    char *rest = text;
    for (int i = 0; i < 4; i++) {
        char *end = strchr(rest, '\n');
        line[i] = rest;
        rest = end ? end + 1 : rest + strlen(rest);
        if (end)
            *end = '\0';
    }
    size_t used = (size_t)(rest - text);
    check_target(line[0], line[1], &leat_serve_s3);
    check_target(line[0], line[1], &leat_serve_azure);
    check_range(line[2], leat_crc32c(0, data, size) % 1000);
    leat_serve_etag_listed(line[2], "abc");
    check_xml((const char *)data + used, size - used);
    free(text);
}
