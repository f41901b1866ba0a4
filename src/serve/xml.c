#include "serve/xml.h"

#include <expat.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

/* Bytes of the UTF-8 sequence at p, or 0 when it is none that XML may hold. */
static size_t sequence(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80                   ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                 : (p[0] & 0xf0) == 0xe0       ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    bool surrogate = len == 3 && p[0] == 0xed && p[1] >= 0xa0;
    bool too_long = (len == 3 && p[0] == 0xe0 && p[1] < 0xa0) || (len == 4 && p[0] == 0xf0 && p[1] < 0x90);
    bool too_large = len == 4 && p[0] == 0xf4 && p[1] >= 0x90;
    bool no_character = len == 3 && p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe;
    return surrogate || too_long || too_large || no_character ? 0 : len;
}

static const char *entity(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    default:
        return NULL;
    }
}

static bool is_ordinary(unsigned char c)
{
    return c >= ' ' && c < 0x7f && !entity(c);
}

void leat_serve_xml_text(struct leat_buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t plain = i;
        while (plain < n && is_ordinary((unsigned char)text[plain]))
            plain++;
        leat_buf_add(out, text + i, plain - i);
        if (plain == n)
            return;
        i = plain;
        unsigned char c = (unsigned char)text[i];
        size_t len = sequence((const unsigned char *)text + i, n - i);
        if (len == 0)
            leat_buf_str(out, "\xef\xbf\xbd");
        else if (entity(c))
            leat_buf_str(out, entity(c));
        else if (len == 1)
            leat_buf_printf(out, "&#x%x;", c); /* strictly XML 1.1, and what S3 sends */
        else
            leat_buf_add(out, text + i, len);
        i += len ? len : 1;
    }
}

/* Listings are made of these: no format strings. */
void leat_serve_xml_open(struct leat_buf *out, const char *name)
{
    leat_buf_char(out, '<');
    leat_buf_str(out, name);
    leat_buf_char(out, '>');
}

void leat_serve_xml_close(struct leat_buf *out, const char *name)
{
    leat_buf_str(out, "</");
    leat_buf_str(out, name);
    leat_buf_char(out, '>');
}

void leat_serve_xml_element(struct leat_buf *out, const char *name, const char *text, size_t n)
{
    leat_serve_xml_open(out, name);
    leat_serve_xml_text(out, text, n);
    leat_serve_xml_close(out, name);
}

void leat_serve_xml_string(struct leat_buf *out, const char *name, const char *text)
{
    leat_serve_xml_element(out, name, text, strlen(text));
}

void leat_serve_xml_number(struct leat_buf *out, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    leat_serve_xml_string(out, name, text);
}

void leat_serve_xml_time(struct leat_buf *out, const char *name, int64_t time_ns)
{
    char text[40];
    struct tm tm;
    time_t s = (time_t)(time_ns / (int64_t)LEAT_S);
    gmtime_r(&s, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof text - n, ".%03dZ", (int)(time_ns % (int64_t)LEAT_S / (int64_t)LEAT_MS));
    leat_serve_xml_string(out, name, text);
}

#define PATH_MAX_BYTES 256
#define TEXT_MAX_BYTES 4096

struct reader {
    XML_Parser parser;
    leat_serve_xml_each *each;
    void *user;
    struct leat_error *err;
    leat_status rc;
    struct leat_buf path;
    struct leat_buf text;
    bool leaf; /* no element has ended inside the open one */
};

static void stop(struct reader *r, leat_status rc)
{
    if (r->rc == LEAT_OK)
        r->rc = rc;
    XML_StopParser(r->parser, XML_FALSE);
}

static void on_start(void *user, const char *name, const char **attributes)
{
    struct reader *r = user;
    const char *local = strrchr(name, ':');
    (void)attributes;
    if (r->path.len)
        leat_buf_char(&r->path, '/');
    leat_buf_str(&r->path, local ? local + 1 : name);
    leat_buf_clear(&r->text);
    r->leaf = true;
    if (r->path.failed)
        stop(r, leat_fail(r->err, LEAT_INVALID, "the XML is nested too deep"));
}

static void on_end(void *user, const char *name)
{
    struct reader *r = user;
    (void)name;
    if (r->rc != LEAT_OK)
        return;
    leat_status rc = r->each(r->path.data, r->leaf ? r->text.data : NULL, r->leaf ? r->text.len : 0, r->user, r->err);
    char *slash = strrchr(r->path.data, '/');
    r->path.len = slash ? (size_t)(slash - r->path.data) : 0;
    r->path.data[r->path.len] = '\0';
    r->leaf = false;
    leat_buf_clear(&r->text);
    if (rc != LEAT_OK)
        stop(r, rc);
}

static void on_text(void *user, const char *text, int n)
{
    struct reader *r = user;
    if (!leat_buf_add(&r->text, text, (size_t)n))
        stop(r, leat_fail(r->err, LEAT_INVALID, "a text in the XML is too long"));
}

/* Entities are the one way for a small document to become a large one. */
static void on_doctype(void *user, const char *name, const char *system, const char *public, int internal)
{
    struct reader *r = user;
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    stop(r, leat_fail(r->err, LEAT_INVALID, "the XML has a document type"));
}

leat_status leat_serve_xml_read(const char *data, size_t n, leat_serve_xml_each *each, void *user,
                                struct leat_error *err)
{
    struct reader r = {.each = each, .user = user, .err = err};
    r.parser = XML_ParserCreate("UTF-8");
    if (!r.parser)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read XML");
    leat_buf_init(&r.path, PATH_MAX_BYTES);
    leat_buf_init(&r.text, TEXT_MAX_BYTES);
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    if (XML_Parse(r.parser, data, (int)n, XML_TRUE) != XML_STATUS_OK && r.rc == LEAT_OK)
        r.rc =
            leat_fail(err, LEAT_INVALID, "the XML is not well-formed: %s at line %lu",
                      XML_ErrorString(XML_GetErrorCode(r.parser)), (unsigned long)XML_GetCurrentLineNumber(r.parser));
    XML_ParserFree(r.parser);
    leat_buf_free(&r.path);
    leat_buf_free(&r.text);
    return r.rc;
}
