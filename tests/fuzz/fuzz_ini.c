#include "base/ini.h"

#include "fuzz.h"

struct seen {
    unsigned line;
    unsigned lines;
};

static leat_status look(const char *section, const char *key, const char *value, unsigned line, void *user,
                        struct leat_error *err)
{
    struct seen *seen = user;
    PROMISE(key[0] || (leat_ini_names_store(section) && !value[0])); /* … which arrives by itself first */
    PROMISE(strlen(section) < 256);
    PROMISE(!strpbrk(section, "\n") && !strpbrk(key, "\n=") && !strpbrk(value, "\n"));
    PROMISE(line > seen->line && line <= seen->lines);
    seen->line = line;
    return strcmp(key, "stop") == 0 ? leat_fail(err, LEAT_BUSY, "stop") : LEAT_OK;
}

FUZZ(ini)
{
    struct leat_error err;
    struct seen seen = {.lines = 1};
    for (size_t i = 0; i < size; i++)
        seen.lines += data[i] == '\n';
    leat_status rc = leat_ini_parse("fuzz", (const char *)data, size, look, &seen, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_INVALID || rc == LEAT_BUSY);
}
