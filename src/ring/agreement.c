#include "ring/agreement.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

/* A value as people would write it. */
static void show(struct leat_buf *b, const json_t *value)
{
    char *text = value ? leat_json_write(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (json_is_string(value))
        leat_buf_printf(b, "%.80s", json_string_value(value));
    else
        leat_buf_printf(b, "%.80s", text ? text : "none");
    free(text);
}

static void name_difference(struct leat_buf *b, const char *name, const json_t *theirs, const json_t *mine)
{
    leat_buf_printf(b, "%s%s ", b->len ? ", " : "", name);
    show(b, theirs);
    leat_buf_str(b, " (here ");
    show(b, mine);
    leat_buf_str(b, ")");
}

leat_status leat_agreement_compare(const char *mine, const char *theirs, const char *who, struct leat_error *err)
{
    json_t *a = NULL;
    json_t *b = NULL;
    struct leat_buf differences;
    leat_buf_init(&differences, 400);
    leat_status rc = leat_json_read(mine, strlen(mine), 0, &a, NULL);
    if (rc == LEAT_OK)
        rc = leat_json_read(theirs, strlen(theirs), 0, &b, NULL);
    if (rc != LEAT_OK || !json_is_object(a) || !json_is_object(b)) {
        rc = leat_fail(err, rc == LEAT_NO_MEMORY ? rc : LEAT_INVALID, "what %s is about to read cannot be parsed", who);
    } else {
        const char *name;
        json_t *value;
        json_object_foreach (a, name, value) {
            if (!json_equal(value, json_object_get(b, name)))
                name_difference(&differences, name, json_object_get(b, name), value);
        }
        json_object_foreach (b, name, value) {
            if (!json_object_get(a, name))
                name_difference(&differences, name, value, NULL);
        }
        if (differences.len || differences.failed)
            rc = leat_fail(err, LEAT_INVALID, "the ranks of this job do not agree: %s has %s", who, differences.data);
    }
    leat_buf_free(&differences);
    json_decref(a);
    json_decref(b);
    return rc;
}
