#include <string.h>
#include <strings.h>

#include "serve/ops.h"
#include "serve/xml.h"

#define KEYS_MAX 1000
#define XML_MAX  ((size_t)16 << 20)

void leat_serve_delete_object(struct leat_serve_call *c)
{
    struct leat_error err;
    if (leat_serve_object_remove(c->bucket, c->key, &err) == LEAT_OK)
        leat_serve_reply(c, 204, "", "", 0);
    else
        leat_serve_fail_status(c, &err);
}

struct batch {
    struct leat_serve_names keys;
    bool quiet;
};

static leat_status read_key(const char *path, const char *text, size_t n, void *user, struct leat_error *err)
{
    struct batch *b = user;
    if (strcmp(path, "Delete/Quiet") == 0 && text)
        b->quiet = strcmp(text, "true") == 0;
    if (strcmp(path, "Delete/Object/Key") != 0 || !text)
        return LEAT_OK;
    if (n == 0 || n > LEAT_SERVE_KEY_MAX || b->keys.n == KEYS_MAX)
        return leat_fail(err, LEAT_INVALID, "an empty or too long key, or more than %d", KEYS_MAX);
    return leat_serve_names_append(&b->keys, text, n, false) ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory");
}

static void add_failure(struct leat_buf *xml, struct leat_serve_key key, const struct leat_error *err)
{
    enum leat_serve_code code = err->status == LEAT_DENIED ? LEAT_SERVE_ACCESS_DENIED : LEAT_SERVE_INTERNAL_ERROR;
    leat_buf_str(xml, "<Error>");
    leat_serve_xml_element(xml, "Key", key.data, key.n);
    leat_serve_xml_string(xml, "Code", leat_serve_code_name(code));
    leat_serve_xml_string(xml, "Message", err->text);
    leat_buf_str(xml, "</Error>");
}

static void find_checksum(const char *name, const char *value, void *user)
{
    bool *found = user;
    if (strcasecmp(name, "content-md5") == 0 || strcasecmp(name, "x-amz-trailer") == 0)
        *found = true;
    if (strncasecmp(name, "x-amz-checksum-", 15) == 0 && *value)
        *found = true;
}

void leat_serve_delete_objects(struct leat_serve_call *c)
{
    struct batch b = {0};
    struct leat_error err;
    struct leat_buf xml;
    bool summed = false;
    /* S3 wants it so that no damaged list deletes others; a form on a web page cannot set it either. */
    leat_request_headers(c->x, find_checksum, &summed);
    if (!summed) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST,
                         "Missing required header for this request: Content-MD5 OR x-amz-checksum-*");
        return;
    }
    if (leat_serve_xml_read(c->body.data, c->body.len, read_key, &b, &err) != LEAT_OK || b.keys.n == 0) {
        leat_serve_names_free(&b.keys);
        leat_serve_fail(c, LEAT_SERVE_MALFORMED_XML);
        return;
    }
    leat_buf_init(&xml, XML_MAX);
    leat_buf_str(&xml, LEAT_SERVE_XML_HEAD "<DeleteResult" LEAT_SERVE_XML_NS ">");
    for (size_t i = 0; i < b.keys.n; i++) {
        struct leat_serve_key key = {b.keys.text + b.keys.entry[i].at, b.keys.entry[i].n};
        if (leat_serve_object_remove(c->bucket, key, &err) != LEAT_OK) {
            add_failure(&xml, key, &err);
        } else if (!b.quiet) {
            leat_buf_str(&xml, "<Deleted>");
            leat_serve_xml_element(&xml, "Key", key.data, key.n);
            leat_buf_str(&xml, "</Deleted>");
        }
    }
    leat_buf_str(&xml, "</DeleteResult>\n");
    leat_serve_names_free(&b.keys);
    leat_serve_reply_xml(c, 200, &xml);
}
