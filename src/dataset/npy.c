#include "dataset/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/dtype.h"
#include "leat/loader.h"

static const char magic[] = "\x93NUMPY";
#define MAGIC_N     6u
#define NPY_VERSION "\x93NUMPY\x01\x00" /* format 1.0 */

/* The header is a Python dict of three keys, as repr() writes it: {'descr': '<u2', 'fortran_order': False, 'shape':
 * (5,), }. */
struct text {
    const char *at;
    const char *end;
};

bool leat_npy_is(const void *data, size_t n)
{
    return n >= MAGIC_N && memcmp(data, magic, MAGIC_N) == 0;
}

static void skip_space(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t'))
        t->at++;
}

static bool take(struct text *t, char c)
{
    skip_space(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_word(struct text *t, const char *word)
{
    size_t n = strlen(word);
    skip_space(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

/* 'text' or "text", without escapes. */
static bool take_string(struct text *t, const char **out, size_t *n)
{
    skip_space(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    char quote = *t->at++;
    const char *close = memchr(t->at, quote, (size_t)(t->end - t->at));
    if (!close)
        return false;
    *out = t->at;
    *n = (size_t)(close - t->at);
    t->at = close + 1;
    return true;
}

static bool take_number(struct text *t, uint64_t *out)
{
    uint64_t v = 0;
    skip_space(t);
    const char *start = t->at;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        if (v > (UINT64_MAX >> 8) / 10)
            return false;
        v = v * 10 + (uint64_t)(*t->at - '0');
    }
    take_word(t, "L"); /* Python 2 */
    *out = v;
    return t->at > start;
}

/* "<u2": byte order, kind, bytes. */
static bool read_descr(const char *text, size_t n, struct leat_npy *out)
{
    struct text number = {text + 2, text + n};
    uint64_t bytes;
    if (n < 3 || !strchr("<>|=", text[0]) || text[0] == '\0' || !take_number(&number, &bytes) ||
        number.at != number.end)
        return false;
    out->order = text[0];
    out->kind = text[1];
    out->bytes = bytes <= 4096 ? (uint32_t)bytes : 0;
    return out->bytes > 0;
}

static bool read_shape(struct text *t, struct leat_npy *out)
{
    if (!take(t, '('))
        return false;
    out->dims_n = 0;
    while (!take(t, ')')) {
        if (out->dims_n == LEAT_NPY_DIMS_MAX || !take_number(t, &out->dims[out->dims_n]))
            return false;
        out->dims_n++;
        if (!take(t, ',')) {
            return take(t, ')');
        }
    }
    return true;
}

/* One "key: value" of the dict; *seen has a bit for each key. *structured: the type is a list of fields. */
static bool read_entry(struct text *t, struct leat_npy *out, unsigned *seen, bool *structured)
{
    const char *key;
    size_t n;
    if (!take_string(t, &key, &n) || !take(t, ':'))
        return false;
    if (n == 5 && memcmp(key, "descr", 5) == 0) {
        const char *descr;
        *seen |= 1;
        skip_space(t);
        *structured = t->at < t->end && *t->at == '[';
        return !*structured && take_string(t, &descr, &n) && read_descr(descr, n, out);
    }
    if (n == 13 && memcmp(key, "fortran_order", 13) == 0) {
        *seen |= 2;
        out->fortran = take_word(t, "True");
        return out->fortran || take_word(t, "False");
    }
    if (n == 5 && memcmp(key, "shape", 5) == 0) {
        *seen |= 4;
        return read_shape(t, out);
    }
    return false;
}

static bool read_dict(struct text *t, struct leat_npy *out, bool *structured)
{
    unsigned seen = 0;
    if (!take(t, '{'))
        return false;
    while (!take(t, '}')) {
        if (!read_entry(t, out, &seen, structured))
            return false;
        if (!take(t, ',') && !(take(t, '}') && (t->at--, true)))
            return false;
    }
    skip_space(t);
    return seen == 7 && t->at == t->end;
}

leat_status leat_npy_read(const void *data, size_t n, struct leat_npy *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_npy h = {0};
    bool structured = false;
    if (!leat_npy_is(data, n))
        return leat_fail(err, LEAT_CORRUPT, "it is not a .npy file");
    leat_read_bytes(&r, MAGIC_N);
    uint8_t major = leat_read_u8(&r);
    leat_read_u8(&r);
    if (!r.bad && (major < 1 || major > 3))
        return leat_fail(err, LEAT_UNSUPPORTED, "its .npy header is of version %u; 1 to 3 are known", major);
    uint32_t length = major == 1 ? leat_read_u16(&r) : leat_read_u32(&r);
    const uint8_t *text = leat_read_bytes(&r, length);
    if (r.bad)
        return leat_fail(err, LEAT_CORRUPT, "it ends within its .npy header, or the header is too long");
    struct text t = {(const char *)text, (const char *)text + length};
    h.offset = r.at;
    if (!read_dict(&t, &h, &structured))
        return structured ? leat_fail(err, LEAT_UNSUPPORTED, "its numbers have fields; store each in a file of its own")
                          : leat_fail(err, LEAT_CORRUPT, "its .npy header is damaged");
    *out = h;
    return LEAT_OK;
}

leat_status leat_npy_head(const struct leat_field *f, const struct leat_cell *cell, struct leat_buf *out,
                          struct leat_error *err)
{
    static const uint8_t size_later[2];
    uint32_t bytes = leat_dtype_bytes(f->dtype);
    char kind = leat_dtype_is_float(f->dtype) ? 'f' : leat_dtype_is_signed(f->dtype) ? 'i' : 'u';
    if (f->dtype == LEAT_BF16 || !bytes)
        return leat_fail(err, LEAT_UNSUPPORTED, "field '%s' holds %s, which .npy files cannot hold", f->name,
                         leat_dtype_name(f->dtype));
    leat_buf_add(out, NPY_VERSION, 8);
    leat_buf_add(out, size_later, sizeof size_later);
    leat_buf_printf(out, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (", bytes == 1 ? '|' : '<',
                    f->dtype == LEAT_BOOL ? 'b' : kind, bytes);
    if (f->type == LEAT_FIELD_TOKENS)
        leat_buf_printf(out, "%" PRIu32 ",", cell->raw / bytes);
    for (uint32_t i = 0; f->type != LEAT_FIELD_TOKENS && i < f->dims_n; i++)
        leat_buf_printf(out, "%s%" PRIu32 "%s", i ? " " : "", cell->dims[i], i + 1 < f->dims_n || i == 0 ? "," : "");
    leat_buf_str(out, "), }");
    while (!out->failed && (out->len + 1) % 64)
        leat_buf_char(out, ' ');
    leat_buf_char(out, '\n');
    leat_status rc = leat_buf_check(out, "the head of a .npy file", err);
    if (rc == LEAT_OK) {
        out->data[8] = (char)((out->len - 10) & 255);
        out->data[9] = (char)((out->len - 10) >> 8);
    }
    return rc;
}
