/* Lines of the input are words of the command line; those after a line "%" are variables. */

#include "base/option.h"

#include "fuzz.h"

struct settings {
    bool json;
    const char *profile;
    uint64_t connections;
    uint64_t part_size;
    uint64_t timeout;
    uint64_t bandwidth;
    double share;
};

#define AT(field) offsetof(struct settings, field)

static const struct leat_option options[] = {
    {"json", 'j', LEAT_OPTION_FLAG, AT(json), NULL, NULL, "LEAT_JSON", "x"},
    {"profile", 'p', LEAT_OPTION_STRING, AT(profile), "NAME", "none", "LEAT_PROFILE", "x"},
    {"connections", 'n', LEAT_OPTION_U64, AT(connections), "N", "16", "LEAT_CONNECTIONS", "x"},
    {"part-size", 0, LEAT_OPTION_SIZE, AT(part_size), "SIZE", "8MiB", "LEAT_PART_SIZE", "x"},
    {"timeout", 't', LEAT_OPTION_DURATION, AT(timeout), "TIME", "30s", "LEAT_TIMEOUT", "x"},
    {"bandwidth", 0, LEAT_OPTION_RATE, AT(bandwidth), "RATE", NULL, NULL, "x"},
    {"share", 0, LEAT_OPTION_DOUBLE, AT(share), "X", "0.5", "LEAT_SHARE", "x"},
    {0},
};

static const struct leat_command command = {
    .name = "try",
    .arguments = "[X]…",
    .summary = "x",
    .options = options,
    .settings_size = sizeof(struct settings),
    .arguments_max = 5,
};

#define WORDS 32

FUZZ(option)
{
    char *text = fuzz_text(data, size);
    char *argv[WORDS];
    char *environ_list[WORDS + 1];
    int argc = 0;
    int variables = -1;
    for (char *word = text; word && argc < WORDS && variables < WORDS;) {
        char *end = strchr(word, '\n');
        if (end)
            *end = '\0';
        if (variables >= 0)
            environ_list[variables++] = word;
        else if (strcmp(word, "%") == 0)
            variables = 0;
        else
            argv[argc++] = word;
        word = end ? end + 1 : NULL;
    }
    if (variables >= 0)
        environ_list[variables] = NULL;
    struct leat_settings_source source = {.argc = argc, .argv = argv, .environ = variables >= 0 ? environ_list : NULL};
    struct leat_settings *settings = NULL;
    struct leat_error err;
    bool help = false;
    leat_status rc = leat_settings_read(&command, &source, &settings, &help, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_INVALID);
    PROMISE((rc == LEAT_OK) == (settings != NULL));
    if (rc == LEAT_OK) {
        const struct settings *s = leat_settings_get(settings);
        PROMISE(leat_settings_argc(settings) <= 5);
        PROMISE(s->profile && strlen(s->profile) <= size + 4);
        PROMISE(s->part_size <= INT64_MAX);
    }
    leat_settings_free(settings);
    free(text);
}
