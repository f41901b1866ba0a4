/* Any text as a condition: it is parsed, or refused with a column inside it. */
#include <stdlib.h>

#include "dataset/where.h"

#include "fuzz.h"

FUZZ(where)
{
    struct leat_schema schema = {0};
    struct leat_error err = {0};
    struct leat_where *w = NULL;
    char *text = malloc(size + 1);
    PROMISE(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    PROMISE(leat_schema_add(&schema, "jpg", LEAT_FIELD_IMAGE, NULL, &err) == LEAT_OK);
    PROMISE(leat_schema_add(&schema, "cls", LEAT_FIELD_INT, "{\"names\": [\"cat\", \"dog\"]}", &err) == LEAT_OK);
    PROMISE(leat_schema_add(&schema, "a.b-c", LEAT_FIELD_STRING, NULL, &err) == LEAT_OK);
    PROMISE(leat_schema_add(&schema, "w", LEAT_FIELD_FLOAT, NULL, &err) == LEAT_OK);
    leat_status rc = leat_where_parse(text, &schema, &w, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_INVALID || rc == LEAT_LIMIT);
    if (rc == LEAT_INVALID) {
        const char *column = strstr(err.text, "column ");
        PROMISE(column != NULL);
        PROMISE(strtoul(column + 7, NULL, 10) >= 1 && strtoul(column + 7, NULL, 10) <= strlen(text) + 1);
    }
    leat_where_free(w);
    free(text);
}
