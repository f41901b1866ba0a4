/* Any bytes as a list of classes: each name is found again under its number, and there are as many as lines. */
#include "dataset/classes.h"

#include "fuzz.h"

FUZZ(classes)
{
    struct leat_classes c;
    struct leat_error err;
    leat_status rc = leat_classes_read((const char *)data, size, &c, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK)
        return;
    uint32_t lines = size && data[size - 1] != '\n';
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    PROMISE(c.n == lines);
    for (uint32_t i = 0; i < c.n; i++) {
        size_t name_n;
        uint32_t number;
        const char *name = leat_classes_name(&c, i, &name_n);
        PROMISE(name_n > 0 && leat_classes_find(&c, name, name_n, &number) && number == i);
    }
    leat_classes_close(&c);
}
