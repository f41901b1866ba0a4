#include "base/option.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "base/guess.h"
#include "base/ini.h"
#include "base/parse.h"

struct leat_settings {
    char *values; /* the command's struct */
    const struct leat_option *options;
    uint8_t *rank;  /* by option: who set it: 0 default, 1 config, 2 environment, 3 command line */
    char **strings; /* owned copies */
    size_t strings_n;
    int argc;
    char **argv;
    struct leat_buf problems; /* "; "-separated */
    bool no_memory;           /* not the user's mistake, so not among the problems */
};

enum { RANK_PRESET, RANK_CONFIG, RANK_ENV, RANK_LINE };

static size_t options_count(const struct leat_option *o)
{
    size_t n = 0;
    while (o && o[n].name)
        n++;
    return n;
}

void leat_settings_free(struct leat_settings *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->strings_n; i++)
        free(s->strings[i]);
    free(s->strings);
    free(s->argv);
    free(s->rank);
    free(s->values);
    leat_buf_free(&s->problems);
    free(s);
}

const void *leat_settings_get(const struct leat_settings *s)
{
    return s->values;
}

int leat_settings_argc(const struct leat_settings *s)
{
    return s->argc;
}

char **leat_settings_argv(const struct leat_settings *s)
{
    return s->argv;
}

bool leat_settings_said(const struct leat_settings *s, const char *option)
{
    for (size_t i = 0; s->options && s->options[i].name; i++) {
        if (strcmp(s->options[i].name, option) == 0)
            return s->rank[i] == RANK_LINE;
    }
    return false;
}

static void problem(struct leat_settings *s, const char *text)
{
    if (s->problems.len)
        leat_buf_str(&s->problems, "; ");
    leat_buf_str(&s->problems, text);
}

static const char *keep(struct leat_settings *s, const char *text)
{
    char **more = realloc(s->strings, (s->strings_n + 1) * sizeof *more);
    if (!more)
        return NULL;
    s->strings = more;
    char *copy = strdup(text);
    if (copy)
        s->strings[s->strings_n++] = copy;
    return copy;
}

static leat_status parse_value(struct leat_settings *s, const struct leat_option *o, const char *text, const char *what,
                               struct leat_error *err)
{
    void *at = s->values + o->offset;
    switch (o->type) {
    case LEAT_OPTION_FLAG:
        return leat_parse_flag(text, what, at, err);
    case LEAT_OPTION_STRING: {
        const char *copy = keep(s, text);
        if (!copy)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", what);
        memcpy(at, &copy, sizeof copy);
        return LEAT_OK;
    }
    case LEAT_OPTION_LIST: {
        struct leat_option_list *list = at;
        if (list->count == LEAT_OPTION_LIST_MAX)
            return leat_fail(err, LEAT_INVALID, "%s is given more than %d times", what, LEAT_OPTION_LIST_MAX);
        const char *copy = keep(s, text);
        if (!copy)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", what);
        list->item[list->count++] = copy;
        return LEAT_OK;
    }
    case LEAT_OPTION_U64:
        return leat_parse_u64(text, what, at, err);
    case LEAT_OPTION_SIZE:
        return leat_parse_size(text, what, at, err);
    case LEAT_OPTION_DURATION:
        return leat_parse_duration(text, what, at, err);
    case LEAT_OPTION_RATE:
        return leat_parse_rate(text, what, at, err);
    case LEAT_OPTION_DOUBLE:
        return leat_parse_double(text, what, at, err);
    }
    return leat_fail(err, LEAT_INTERNAL, "option type %d", (int)o->type);
}

static void set(struct leat_settings *s, const struct leat_option *o, const char *text, const char *what, uint8_t rank)
{
    struct leat_error err;
    size_t i = (size_t)(o - s->options);
    if (s->rank[i] > rank)
        return;
    if (o->type == LEAT_OPTION_LIST && s->rank[i] < rank)
        memset(s->values + o->offset, 0, sizeof(struct leat_option_list));
    leat_status rc = parse_value(s, o, text, what, &err);
    if (rc == LEAT_OK)
        s->rank[i] = rank;
    else if (rc == LEAT_NO_MEMORY)
        s->no_memory = true;
    else
        problem(s, err.text);
}

static const struct leat_option *find_long(const struct leat_option *options, const char *name, size_t n)
{
    for (const struct leat_option *o = options; o && o->name; o++) {
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    }
    return NULL;
}

static const struct leat_option *find_letter(const struct leat_option *options, char letter)
{
    for (const struct leat_option *o = options; o && o->name; o++) {
        if (o->letter == letter)
            return o;
    }
    return NULL;
}

static void unknown(struct leat_settings *s, const char *shown, const char *name)
{
    char text[300];
    struct leat_guess g = leat_guess_of_bytes(name, strcspn(name, "="));
    struct leat_guess first = leat_guess_of_bytes(name, strcspn(name, "-=")); /* --batch-size where there is --batch */
    for (const struct leat_option *o = s->options; o && o->name; o++) {
        leat_guess_try(&g, o->name);
        leat_guess_try(&first, o->name);
    }
    g = g.word ? g : first;
    if (g.word)
        snprintf(text, sizeof text, "unknown option '%.100s' (did you mean --%s?)", shown, g.word);
    else
        snprintf(text, sizeof text, "unknown option '%.100s'", shown);
    problem(s, text);
}

/* The word after an option is its value. Returns how many words were taken. */
static int take_next(struct leat_settings *s, const struct leat_option *o, const char *what, int argc, char **argv)
{
    char text[160];
    if (argc >= 2) {
        set(s, o, argv[1], what, RANK_LINE);
        return 2;
    }
    snprintf(text, sizeof text, "%s needs a value (%s)", what, o->argument ? o->argument : "VALUE");
    problem(s, text);
    return 1;
}

/* --name, --name=value, --name value, --no-name for flags. Returns how many words it took. */
static int take_long(struct leat_settings *s, int argc, char **argv)
{
    const char *name = argv[0] + 2;
    size_t n = strcspn(name, "=");
    const struct leat_option *o = find_long(s->options, name, n);
    char what[100];
    if (!o && strncmp(name, "no-", 3) == 0) {
        o = find_long(s->options, name + 3, n - 3);
        if (o && o->type == LEAT_OPTION_FLAG && !name[n]) {
            set(s, o, "false", o->name, RANK_LINE);
            return 1;
        }
        o = NULL;
    }
    if (!o) {
        unknown(s, argv[0], name);
        return 1;
    }
    snprintf(what, sizeof what, "--%s", o->name);
    if (name[n]) {
        set(s, o, name + n + 1, what, RANK_LINE);
        return 1;
    }
    if (o->type == LEAT_OPTION_FLAG) {
        set(s, o, "true", what, RANK_LINE);
        return 1;
    }
    return take_next(s, o, what, argc, argv);
}

/* -r, -rn, -o value, -ovalue. Returns how many words it took. */
static int take_letters(struct leat_settings *s, int argc, char **argv)
{
    char what[] = "-?";
    for (const char *p = argv[0] + 1; *p; p++) {
        const struct leat_option *o = find_letter(s->options, *p);
        what[1] = *p;
        if (!o) {
            unknown(s, what, "");
            continue;
        }
        if (o->type == LEAT_OPTION_FLAG) {
            set(s, o, "true", what, RANK_LINE);
            continue;
        }
        if (p[1]) {
            set(s, o, p + 1, what, RANK_LINE);
            return 1;
        }
        return take_next(s, o, what, argc, argv);
    }
    return 1;
}

static void take_line(struct leat_settings *s, int argc, char **argv)
{
    int i = 0;
    while (i < argc) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strncmp(argv[i], "--", 2) == 0)
            i += take_long(s, argc - i, argv + i);
        else if (argv[i][0] == '-' && argv[i][1])
            i += take_letters(s, argc - i, argv + i);
        else
            s->argv[s->argc++] = argv[i++];
    }
    while (i < argc)
        s->argv[s->argc++] = argv[i++];
}

static void take_environment(struct leat_settings *s, char *const *environ)
{
    for (const struct leat_option *o = s->options; environ && o && o->name; o++) {
        if (!o->env)
            continue;
        size_t n = strlen(o->env);
        for (char *const *e = environ; *e; e++) {
            if (strncmp(*e, o->env, n) == 0 && (*e)[n] == '=' && (*e)[n + 1])
                set(s, o, *e + n + 1, o->env, RANK_ENV);
        }
    }
}

struct config {
    struct leat_settings *s;
    const struct leat_command *command;
    const struct leat_command *const *commands;
    const char *path;
};

static const struct leat_option *find_setting(const struct leat_command *command, const char *key)
{
    const struct leat_option *o = find_long(command->options, key, strlen(key));
    return o && o->env ? o : NULL;
}

/* A section must be some command's, and a setting outside of them one that some command takes. */
static bool known_anywhere(const struct config *c, const char *section, const char *key)
{
    for (const struct leat_command *const *other = c->commands; other && *other; other++) {
        if (*section ? strcmp((*other)->name, section) == 0 : find_setting(*other, key) != NULL)
            return true;
    }
    return !c->commands;
}

/* Settings before the first section are for every command that knows them; other commands' sections are theirs, and
 * checked when they run. */
static leat_status take_config_line(const char *section, const char *key, const char *value, unsigned line, void *user,
                                    struct leat_error *err)
{
    struct config *c = user;
    (void)err;
    bool own = strcmp(section, c->command->name) == 0;
    char what[300];
    char text[500];
    char meant[LEAT_GUESS_TEXT];
    struct leat_guess guess = leat_guess_of(*section && !own ? section : key);
    if (leat_ini_names_store(section))
        return LEAT_OK; /* read where the store is opened */
    if (*section && !own) {
        for (const struct leat_command *const *other = c->commands; other && *other; other++)
            leat_guess_try(&guess, (*other)->name);
        snprintf(text, sizeof text, "%.150s line %u: '%.80s' is not a command of leat%s", c->path, line, section,
                 leat_guess_text(&guess, meant));
        if (!known_anywhere(c, section, key))
            problem(c->s, text);
        return LEAT_OK;
    }
    const struct leat_option *o = find_setting(c->command, key);
    snprintf(what, sizeof what, "%.150s line %u: %.80s", c->path, line, key);
    if (o) {
        set(c->s, o, value, what, RANK_CONFIG);
    } else if (own || !known_anywhere(c, section, key)) {
        for (const struct leat_option *near = c->command->options; near && near->name; near++)
            leat_guess_try(&guess, near->env ? near->name : "");
        snprintf(text, sizeof text, "%s is not a setting of %s%s%s%s", what, own ? "'leat " : "any command",
                 own ? c->command->name : "", own ? "'" : "", leat_guess_text(&guess, meant));
        problem(c->s, text);
    }
    return LEAT_OK;
}

static leat_status take_config(struct leat_settings *s, const struct leat_command *command,
                               const struct leat_settings_source *source, struct leat_error *err)
{
    if (!source->config)
        return LEAT_OK;
    struct config c = {.s = s, .command = command, .commands = source->commands, .path = source->config};
    leat_status rc = leat_ini_read(source->config, take_config_line, &c, err);
    if (rc == LEAT_NOT_FOUND && !source->config_required)
        return LEAT_OK;
    if (rc == LEAT_INVALID) { /* one more thing to correct, beside those on the command line */
        problem(s, err->text);
        return LEAT_OK;
    }
    return rc;
}

static bool asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

static void check_arguments(struct leat_settings *s, const struct leat_command *command)
{
    char text[200];
    if ((unsigned)s->argc < command->arguments_min)
        snprintf(text, sizeof text, "too few arguments: leat %s %s", command->name, command->arguments);
    else if ((unsigned)s->argc > command->arguments_max)
        snprintf(text, sizeof text, "unexpected argument '%.80s'", s->argv[command->arguments_max]);
    else
        return;
    problem(s, text);
}

leat_status leat_settings_read(const struct leat_command *command, const struct leat_settings_source *source,
                               struct leat_settings **out, bool *help, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    struct leat_error unwanted;
    if (!err)
        err = &unwanted;
    size_t n = options_count(command->options);
    struct leat_settings *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for settings");
    leat_buf_init(&s->problems, 4096);
    s->options = command->options;
    s->values = calloc(1, command->settings_size + 1);
    s->rank = calloc(1, n + 1);
    s->argv = calloc((size_t)source->argc + 1, sizeof *s->argv);
    if (!s->values || !s->rank || !s->argv) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for settings");
        goto fail;
    }
    *help = asks_help(source->argc, source->argv);
    for (size_t i = 0; i < n; i++) {
        if (command->options[i].preset)
            set(s, &command->options[i], command->options[i].preset, command->options[i].name, RANK_PRESET);
    }
    if (!*help) {
        rc = take_config(s, command, source, err);
        if (rc != LEAT_OK)
            goto fail;
        take_environment(s, source->environ);
        take_line(s, source->argc, source->argv);
        check_arguments(s, command);
    }
    if (s->no_memory || (s->problems.failed && !s->problems.full)) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for settings");
        goto fail;
    }
    if (s->problems.len) {
        rc = leat_fail(err, LEAT_INVALID, "%s", s->problems.data);
        goto fail;
    }
    *out = s;
    return LEAT_OK;
fail:
    leat_settings_free(s);
    return rc;
}

/* Columns that UTF-8 takes on a terminal, near enough: characters. */
static size_t columns(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Prints the words of a text between two columns; the cursor is at column `at`. An empty line stays one. */
static void wrap(FILE *out, const char *text, size_t indent, size_t at, size_t width)
{
    bool first = true; /* on its line: needs no space before it */
    while (*text) {
        size_t n = strcspn(text, " \n");
        size_t wide = columns(text, n);
        if (n && !first && at + 1 + wide > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        if (n) {
            at += wide + !first;
            fprintf(out, "%s%.*s", first ? "" : " ", (int)n, text);
            first = false;
        }
        text += n;
        if (text[0] == '\n' && text[1] == '\n') {
            fprintf(out, "\n\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

static void option_words(const struct leat_option *o, char *out, size_t n)
{
    char letter[8] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(out, n, "%s--%s%s%s", letter, o->name, o->argument ? " " : "", o->argument ? o->argument : "");
}

static void option_text(const struct leat_option *o, char *out, size_t n)
{
    const char *opening = " [";
    snprintf(out, n, "%s", o->help);
    if (o->preset && *o->preset) {
        snprintf(out + strlen(out), n - strlen(out), "%sdefault: %s", opening, o->preset);
        opening = "; ";
    }
    if (o->env) {
        snprintf(out + strlen(out), n - strlen(out), "%s%s", opening, o->env);
        opening = "; ";
    }
    if (opening[0] == ';')
        snprintf(out + strlen(out), n - strlen(out), "]");
}

#define HELP_INDENT 30

/* Of the terminal, within what reads well; 80 columns elsewhere. */
static size_t help_width(FILE *out)
{
    struct winsize size;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || !size.ws_col)
        return 80;
    return size.ws_col < 60 ? 60 : size.ws_col > 100 ? 100 : size.ws_col;
}

void leat_command_help(const struct leat_command *command, FILE *out)
{
    char words[120];
    char text[1000];
    size_t width = help_width(out);
    fprintf(out, "leat %s: ", command->name);
    wrap(out, command->summary, 0, strlen(command->name) + 7, width);
    fprintf(out, "\nusage: leat %s [options]%s%s\n", command->name, *command->arguments ? " " : "", command->arguments);
    if (command->details) {
        fputc('\n', out);
        wrap(out, command->details, 0, 0, width);
    }
    fputs("\noptions:\n", out);
    for (const struct leat_option *o = command->options; o && o->name; o++) {
        option_words(o, words, sizeof words);
        option_text(o, text, sizeof text);
        size_t wide = columns(words, strlen(words));
        if (wide <= HELP_INDENT - 4)
            fprintf(out, "  %s%*s", words, (int)(HELP_INDENT - 2 - wide), "");
        else
            fprintf(out, "  %s\n%*s", words, HELP_INDENT, "");
        wrap(out, text, HELP_INDENT, HELP_INDENT, width);
    }
    fprintf(out, "  %-*s  show this\n", HELP_INDENT - 4, "-h, --help");
    if (command->examples)
        fprintf(out, "\nexamples:\n%s", command->examples);
}

/* man(7): a backslash and a leading dot or quote mean something; a hyphen would be set as a real hyphen. */
static void roff(FILE *out, const char *text, bool line_start)
{
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        line_start = *text == '\n';
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (line_start && text[1] == '\n')
            fputs("\n.PP", out);
        else
            fputc(*text, out);
    }
}

void leat_command_man(const struct leat_command *command, const char *version, FILE *out)
{
    char words[120];
    char text[1000];
    fputs(".TH LEAT\\-", out);
    for (const char *p = command->name; *p; p++)
        fputc(toupper((unsigned char)*p), out);
    fprintf(out, " 1 \"\" \"leat %s\" \"Leat\"\n.SH NAME\nleat\\-%s \\- ", version, command->name);
    roff(out, command->summary, false);
    fprintf(out, "\n.SH SYNOPSIS\n.B leat %s\n[\\fIoptions\\fR] ", command->name);
    roff(out, command->arguments, false);
    if (command->details) {
        fputs("\n.SH DESCRIPTION\n", out);
        roff(out, command->details, true);
    }
    fputs("\n.SH OPTIONS\n", out);
    for (const struct leat_option *o = command->options; o && o->name; o++) {
        option_words(o, words, sizeof words);
        option_text(o, text, sizeof text);
        fputs(".TP\n.B ", out);
        roff(out, words + strspn(words, " "), false);
        fputc('\n', out);
        roff(out, text, true);
        fputc('\n', out);
    }
    if (command->examples) {
        fputs(".SH EXAMPLES\n.nf\n", out);
        roff(out, command->examples, true);
        fputs(".fi\n", out);
    }
    fputs(".SH EXIT STATUS\nSee leat(1).\n.SH SEE ALSO\n.BR leat (1)\n", out);
}
