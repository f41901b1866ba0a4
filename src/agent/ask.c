#include "agent/ask.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/json.h"
#include "prep/kernels.h"

void leat_ask_put_real(double number, uint32_t dtype, uint8_t to[8])
{
    float narrow = (float)number;
    uint16_t half = dtype == LEAT_F16 ? leat_f16_of(narrow) : leat_bf16_of(narrow);
    if (dtype == LEAT_F64)
        memcpy(to, &number, sizeof number);
    else if (dtype == LEAT_F32)
        memcpy(to, &narrow, sizeof narrow);
    else
        memcpy(to, &half, sizeof half);
}

bool leat_ask_put_int(int64_t number, uint32_t dtype, uint8_t to[8])
{
    uint32_t bits = 8 * leat_dtype_bytes(dtype);
    if (leat_dtype_is_float(dtype)) {
        leat_ask_put_real((double)number, dtype, to);
        return true;
    }
    bool sign = leat_dtype_is_signed(dtype);
    if (dtype == LEAT_BOOL)
        bits = 1;
    if (!sign && (number < 0 || (bits < 64 && (uint64_t)number >> bits)))
        return false;
    if (sign && bits < 64 && (number < -(INT64_C(1) << (bits - 1)) || number >= INT64_C(1) << (bits - 1)))
        return false;
    leat_put_u64(to, (uint64_t)number); /* little-endian: its first bytes are the narrow one */
    return true;
}

static bool is(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

leat_status leat_ask_number(const char *text, size_t n, uint32_t dtype, uint8_t to[8], struct leat_error *err)
{
    bool real = leat_dtype_is_float(dtype);
    bool odd = is(text, n, "nan") || is(text, n, "inf") || is(text, n, "-inf");
    if (real && odd) {
        leat_ask_put_real(*text == 'n' ? NAN : *text == '-' ? -INFINITY : INFINITY, dtype, to);
        return LEAT_OK;
    }
    json_t *number = NULL;
    leat_status rc = leat_json_read(text, n, JSON_DECODE_ANY, &number, NULL);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory for a number");
    bool good = json_is_integer(number) && leat_ask_put_int(json_integer_value(number), dtype, to);
    if (real && json_is_real(number)) {
        leat_ask_put_real(json_real_value(number), dtype, to);
        good = true;
    }
    json_decref(number);
    return good ? LEAT_OK
                : leat_fail(err, LEAT_INVALID, "'%.*s' is not a number of type %s", (int)(n > 40 ? 40 : n), text,
                            leat_dtype_name(dtype));
}

/* 512, or 512x3x64. */
static bool read_pad(const char *text, size_t n, struct leat_ask *a)
{
    uint64_t number = 0;
    bool digit = false;
    for (size_t i = 0; i <= n; i++) {
        if (i == n || text[i] == 'x') {
            if (!digit || number < 1 || a->pad_n == LEAT_DIMS_MAX)
                return false;
            a->pad[a->pad_n++] = (uint32_t)number;
            number = 0;
            digit = false;
            continue;
        }
        number = 10 * number + (uint64_t)(text[i] - '0');
        digit = text[i] >= '0' && text[i] <= '9' && number <= UINT32_MAX;
        if (!digit)
            return false;
    }
    return true;
}

static leat_status read_word(const struct leat_output_kind_row *row, const char *word, size_t n, struct leat_ask *a,
                             struct leat_error *err)
{
    size_t name = 0;
    while (name < n && word[name] != '=')
        name++;
    const char *value = word + name + (name < n);
    size_t value_n = n - name - (name < n);
    if (!leat_kind_list_has(row->words, word, name))
        return leat_fail(err, LEAT_INVALID, "%s has no setting '%.*s'; it has: %s", row->name,
                         (int)(name > 40 ? 40 : name), word, *row->words ? row->words : "none");
    bool good = true;
    if (is(word, name, "dtype"))
        good = (a->dtype = leat_dtype_find(value, value_n)) != 0;
    else if (is(word, name, "pad"))
        good = !a->pad_n && read_pad(value, value_n, a);
    else if (is(word, name, "cut"))
        a->cut = good = name == n;
    else {
        a->value = value;
        a->value_n = value_n;
    }
    return good ? LEAT_OK : leat_fail(err, LEAT_INVALID, "'%.*s' is not valid", (int)(n > 60 ? 60 : n), word);
}

leat_status leat_ask_read(const struct leat_output *output, const struct leat_output_kind_row *row,
                          struct leat_ask *out, struct leat_error *err)
{
    static const char last[] = "default=";
    struct leat_ask a = {0};
    const char *text = output->pipeline ? output->pipeline : "";
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && *(text += strspn(text, " "))) {
        size_t n = strcspn(text, " ");
        if (strncmp(text, last, sizeof last - 1) == 0 && leat_kind_list_has(row->words, last, sizeof last - 2)) {
            a.fallback = text + sizeof last - 1;
            break;
        }
        rc = read_word(row, text, n, &a, err);
        text += n;
    }
    if (rc == LEAT_OK && !a.pad_n && (a.value || a.cut))
        rc = leat_fail(err, LEAT_INVALID, "'%s' is for padding and needs pad", a.cut ? "cut" : "value");
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "output '%s'", output->name);
    *out = a;
    return LEAT_OK;
}
