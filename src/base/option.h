/* Settings: one table of options feeds the command line, the environment (LEAT_*), the config file,
 * --help and the man page. Values land, typed and checked, in one plain struct.
 *
 * What wins: command line, then environment, then config file, then the table's own default. An empty variable
 * counts as not set. In the config file, lines before the first section are for every command, a section [cp] is
 * for `leat cp`. */
#ifndef LEAT_BASE_OPTION_H
#define LEAT_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

enum leat_option_type {
    LEAT_OPTION_FLAG,     /* bool */
    LEAT_OPTION_STRING,   /* const char * */
    LEAT_OPTION_LIST,     /* struct leat_option_list: every occurrence adds one */
    LEAT_OPTION_U64,      /* uint64_t */
    LEAT_OPTION_SIZE,     /* uint64_t, bytes */
    LEAT_OPTION_DURATION, /* uint64_t, nanoseconds */
    LEAT_OPTION_RATE,     /* uint64_t, bytes a second */
    LEAT_OPTION_DOUBLE    /* double */
};

#define LEAT_OPTION_LIST_MAX 32

/* What LEAT_OPTION_LIST fills in. A command line's list stands instead of one from the environment. */
struct leat_option_list {
    const char *item[LEAT_OPTION_LIST_MAX];
    size_t count;
};

struct leat_option {
    const char *name; /* "part-size": --part-size, "part-size = …" in a config file */
    char letter;      /* -r, or 0 */
    enum leat_option_type type;
    size_t offset;        /* into the settings struct */
    const char *argument; /* what --help calls the value: "SIZE"; NULL for flags */
    const char *preset;   /* the default, as a user would write it; NULL: zero, false, none */
    const char *env;      /* "LEAT_PART_SIZE"; NULL: neither environment nor config file may set it */
    const char *help;     /* one sentence, without the default */
};

/* A command: what it takes, and the texts about it. Tables end with an option without a name. */
struct leat_command {
    const char *name;
    const char *arguments; /* "SRC DST" */
    const char *summary;   /* half a sentence, for the list of commands */
    const char *details;   /* paragraphs separated by empty lines, for --help and the man page; may be NULL */
    const char *examples;  /* lines; may be NULL */
    const struct leat_option *options;
    size_t settings_size;
    unsigned arguments_min;
    unsigned arguments_max;
    int (*run)(const void *settings, int argc, char **argv); /* argv: the arguments only. Returns the exit status. */
};

struct leat_settings; /* owns a settings struct and the strings in it */

struct leat_settings_source {
    int argc; /* after the command's name */
    char **argv;
    char *const *environ; /* NULL: none */
    const char *config;   /* path; NULL: none. A missing file is an error only when config_required. */
    bool config_required;
    /* Every command there is, up to a NULL: what the config file says must be meant for one. NULL: not checked. */
    const struct leat_command *const *commands;
};

/* Reads all sources. `-h`/`--help` sets *help and ignores whatever else is wrong.
 * Names every unknown option, missing value and out-of-range value it finds, all in one error. */
leat_status leat_settings_read(const struct leat_command *command, const struct leat_settings_source *source,
                               struct leat_settings **out, bool *help, struct leat_error *err);
void leat_settings_free(struct leat_settings *s);
const void *leat_settings_get(const struct leat_settings *s); /* the command's own struct */
int leat_settings_argc(const struct leat_settings *s);
char **leat_settings_argv(const struct leat_settings *s);                   /* arguments that are not options */
bool leat_settings_said(const struct leat_settings *s, const char *option); /* on the command line */

void leat_command_help(const struct leat_command *command, FILE *out);
void leat_command_man(const struct leat_command *command, const char *version, FILE *out); /* man(7) source */

#endif
