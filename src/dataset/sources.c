#include "dataset/sources.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/url.h"
#include "dataset/layout.h"

leat_status leat_source_url(const char *url, char **out, struct leat_error *err)
{
    struct leat_url parsed = {0};
    struct leat_buf b;
    leat_status rc = leat_url_parse(url, &parsed, err);
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&b, LEAT_SOURCES_BYTES);
    leat_buf_printf(&b, "%s://%s", leat_scheme_name(parsed.scheme),
                    leat_store_url_can(&parsed, LEAT_STORE_LOCAL) ? "/" : parsed.host);
    leat_url_free(&parsed);
    rc = leat_buf_check(&b, "the URL of a source", err);
    if (rc == LEAT_OK)
        *out = leat_buf_take(&b);
    leat_buf_free(&b);
    return rc;
}

static leat_status append(struct leat_sources_list *l, const char *url, size_t n, struct leat_error *err)
{
    if (l->n == LEAT_SOURCES_MAX)
        return leat_fail(err, LEAT_LIMIT, "a dataset comes from %u buckets at most", LEAT_SOURCES_MAX);
    char **urls = realloc(l->urls, ((size_t)l->n + 1) * sizeof *urls);
    if (urls)
        l->urls = urls;
    char *copy = urls ? leat_bytes_text(url, n) : NULL;
    if (!copy)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the URL of a source");
    l->urls[l->n++] = copy;
    return LEAT_OK;
}

leat_status leat_sources_list_add(struct leat_sources_list *l, const char *url, uint32_t *out, struct leat_error *err)
{
    uint32_t i = 0;
    while (i < l->n && strcmp(l->urls[i], url) != 0)
        i++;
    leat_status rc = i < l->n ? LEAT_OK : append(l, url, strlen(url), err);
    if (rc == LEAT_OK)
        *out = i;
    return rc;
}

void leat_sources_list_free(struct leat_sources_list *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        free(l->urls[i]);
    free(l->urls);
    *l = (struct leat_sources_list){0};
}

static void add_record(struct leat_buf *out, const char *url)
{
    static const uint8_t zeros[8];
    uint8_t head[SOURCE_HEAD] = {0};
    size_t n = strlen(url);
    leat_put_u32(head, (uint32_t)layout_padded(SOURCE_HEAD + n));
    leat_put_u32(head + 8, (uint32_t)n);
    leat_buf_add(out, head, sizeof head);
    leat_buf_add(out, url, n);
    leat_buf_add(out, zeros, layout_padded(out->len) - out->len);
}

leat_status leat_sources_list_write(const struct leat_sources_list *l, struct leat_buf *out, struct leat_error *err)
{
    uint8_t head[8] = {0};
    leat_put_u32(head, l->n);
    leat_buf_clear(out);
    leat_buf_add(out, head, sizeof head);
    for (uint32_t i = 0; i < l->n; i++)
        add_record(out, l->urls[i]);
    return leat_buf_check(out, "the list of sources", err);
}

static leat_status read_record(struct leat_reader *all, struct leat_sources_list *l, struct leat_error *err)
{
    size_t at = all->at;
    uint32_t bytes = leat_read_u32(all);
    uint32_t needs = leat_read_u32(all);
    uint32_t url_n = leat_read_u32(all);
    leat_read_u32(all); /* spare */
    if (all->bad || bytes < SOURCE_HEAD || bytes % 8 || bytes - SOURCE_HEAD > leat_reader_left(all))
        return leat_fail(err, LEAT_CORRUPT, "the list of sources is damaged (byte %zu)", at);
    const char *url = (const char *)leat_read_bytes(all, bytes - SOURCE_HEAD);
    leat_status rc = layout_check_needs(needs, SOURCE_NEEDS, "a source of the dataset", err);
    if (rc != LEAT_OK)
        return rc;
    if (url_n > bytes - SOURCE_HEAD || memchr(url, 0, url_n))
        return leat_fail(err, LEAT_CORRUPT, "the URL of source %u is damaged (byte %zu)", l->n, at);
    return append(l, url, url_n, err);
}

leat_status leat_sources_list_read(const void *data, size_t n, struct leat_sources_list *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    *out = (struct leat_sources_list){0};
    uint32_t count = leat_read_u32(&r);
    leat_read_u32(&r); /* spare */
    if (r.bad || count > LEAT_SOURCES_MAX)
        return leat_fail(err, LEAT_CORRUPT, "the list of sources cannot have %u entries", count);
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < count; i++)
        rc = read_record(&r, out, err);
    return rc;
}
