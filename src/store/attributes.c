#include "store/attributes.h"

#include <string.h>
#include <strings.h>

static const char *const plain[] = {"content-type",  "content-language", "content-disposition", "content-encoding",
                                    "cache-control", "expires",          "storage-class"};

static bool is_plain(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strlen(plain[i]) == n && strncasecmp(plain[i], name, n) == 0)
            return true;
    }
    return n > 5 && strncasecmp(name, "meta-", 5) == 0;
}

void leat_attributes_take(struct leat_buf *out, const char *line, size_t n)
{
    static const char *const vendors[] = {"x-amz-", "x-goog-", "x-ms-"};
    const char *end = line + n;
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return;
    bool owned = false;
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors && !owned; i++) {
        size_t m = strlen(vendors[i]);
        owned = (size_t)(colon - line) > m && strncasecmp(line, vendors[i], m) == 0;
        line += owned ? m : 0;
    }
    size_t name_n = (size_t)(colon - line);
    bool plain_name = is_plain(line, name_n) && (owned || strncasecmp(line, "meta-", 5) != 0);
    if (!plain_name || (owned && strncasecmp(line, "meta-", 5) != 0 && strncasecmp(line, "storage-", 8) != 0))
        return;
    const char *p = colon + 1;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r' || end[-1] == '\n'))
        end--;
    for (size_t i = 0; i < name_n; i++)
        leat_buf_char(out, (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] - 'A' + 'a' : line[i]));
    leat_buf_printf(out, ": %.*s\n", (int)(end - p), p);
}

bool leat_attributes_next(const char **text, const char **name, size_t *name_n, const char **value, size_t *value_n)
{
    const char *at = *text;
    const char *end = at ? strchr(at, '\n') : NULL;
    const char *colon = end ? memchr(at, ':', (size_t)(end - at)) : NULL;
    if (!colon || colon[1] != ' ')
        return false;
    *name = at;
    *name_n = (size_t)(colon - at);
    *value = colon + 2;
    *value_n = (size_t)(end - colon - 2);
    *text = end + 1;
    return true;
}

bool leat_attributes_has(const char *text, const char *name)
{
    const char *found;
    const char *value;
    size_t n;
    size_t value_n;
    while (leat_attributes_next(&text, &found, &n, &value, &value_n)) {
        if (strlen(name) == n && strncmp(found, name, n) == 0)
            return true;
    }
    return false;
}

/* As HTTP allows them: a value without line breaks, and a name that is one. */
static bool can_be_sent(const char *name, size_t name_n, const char *value, size_t value_n)
{
    for (size_t i = 0; i < name_n; i++) {
        if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] >= 0x7f || strchr(":;,\"()<>@\\/[]?={}", name[i]))
            return false;
    }
    for (size_t i = 0; i < value_n; i++) {
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
            return false;
    }
    return name_n != 0;
}

static leat_status set(struct leat_buf *text, const char *name, size_t name_n, const char *value, size_t value_n,
                       struct leat_error *err)
{
    struct leat_buf kept;
    const char *at = text->data;
    const char *was;
    const char *was_value;
    size_t was_n;
    size_t was_value_n;
    uint32_t lines = 0;
    if (!can_be_sent(name, name_n, value, value_n))
        return leat_fail(err, LEAT_INVALID,
                         "'%.*s' cannot be an attribute of an object: a bad name, or a control "
                         "character in its value",
                         (int)(name_n > 80 ? 80 : name_n), name);
    leat_buf_init(&kept, LEAT_ATTRIBUTES_MAX);
    while (text->len && leat_attributes_next(&at, &was, &was_n, &was_value, &was_value_n)) {
        if (was_n != name_n || strncasecmp(was, name, name_n) != 0) {
            leat_buf_printf(&kept, "%.*s: %.*s\n", (int)was_n, was, (int)was_value_n, was_value);
            lines++;
        }
    }
    for (size_t i = 0; i < name_n; i++)
        leat_buf_char(&kept, (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]));
    leat_buf_printf(&kept, ": %.*s\n", (int)value_n, value);
    leat_status rc = lines < LEAT_ATTRIBUTES_LINES
                         ? leat_buf_check(&kept, "an object's attributes", err)
                         : leat_fail(err, LEAT_LIMIT, "more than %u attributes of an object", LEAT_ATTRIBUTES_LINES);
    if (rc == LEAT_OK) {
        leat_buf_free(text);
        *text = kept;
    } else {
        leat_buf_free(&kept);
    }
    return rc;
}

leat_status leat_attributes_set(struct leat_buf *text, const char *name, const char *value, struct leat_error *err)
{
    return set(text, name, strlen(name), value, strlen(value), err);
}

leat_status leat_attributes_merge(struct leat_buf *text, const char *lines, struct leat_error *err)
{
    const char *name;
    const char *value;
    size_t name_n;
    size_t value_n;
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && leat_attributes_next(&lines, &name, &name_n, &value, &value_n))
        rc = set(text, name, name_n, value, value_n, err);
    return rc;
}

const char *leat_attributes_guess(const char *name)
{
    static const struct {
        const char *end;
        const char *type;
    } types[] = {
        {".avif", "image/avif"},       {".bmp", "image/bmp"},           {".css", "text/css"},
        {".csv", "text/csv"},          {".flac", "audio/flac"},         {".gif", "image/gif"},
        {".gz", "application/gzip"},   {".htm", "text/html"},           {".html", "text/html"},
        {".jpeg", "image/jpeg"},       {".jpg", "image/jpeg"},          {".js", "text/javascript"},
        {".json", "application/json"}, {".jsonl", "application/jsonl"}, {".md", "text/markdown"},
        {".mp3", "audio/mpeg"},        {".mp4", "video/mp4"},           {".parquet", "application/vnd.apache.parquet"},
        {".pdf", "application/pdf"},   {".png", "image/png"},           {".svg", "image/svg+xml"},
        {".tar", "application/x-tar"}, {".tif", "image/tiff"},          {".tiff", "image/tiff"},
        {".txt", "text/plain"},        {".wav", "audio/wav"},           {".webm", "video/webm"},
        {".webp", "image/webp"},       {".xml", "application/xml"},     {".yaml", "application/yaml"},
        {".yml", "application/yaml"},  {".zip", "application/zip"},     {".zst", "application/zstd"},
    };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++) {
        if (strcasecmp(dot, types[i].end) == 0)
            return types[i].type;
    }
    return NULL;
}
