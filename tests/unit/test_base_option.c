#include "base/option.h"

#include <unistd.h>

#include "unit.h"

struct settings {
    bool json;
    bool quiet;
    const char *profile;
    uint64_t connections;
    uint64_t part_size;
    uint64_t timeout;
    uint64_t bandwidth;
    double share;
    struct leat_option_list files;
};

#define AT(field) offsetof(struct settings, field)

static const struct leat_option options[] = {
    {"json", 'j', LEAT_OPTION_FLAG, AT(json), NULL, NULL, "LEAT_JSON", "print JSON"},
    {"quiet", 'q', LEAT_OPTION_FLAG, AT(quiet), NULL, "true", NULL, "say less"},
    {"profile", 'p', LEAT_OPTION_STRING, AT(profile), "NAME", NULL, "LEAT_PROFILE", "whose keys"},
    {"connections", 'n', LEAT_OPTION_U64, AT(connections), "N", "16", "LEAT_CONNECTIONS", "how many at once"},
    {"part-size", 0, LEAT_OPTION_SIZE, AT(part_size), "SIZE", "8MiB", "LEAT_PART_SIZE", "bytes a part"},
    {"timeout", 't', LEAT_OPTION_DURATION, AT(timeout), "TIME", "30s", "LEAT_TIMEOUT", "give up after"},
    {"bandwidth", 0, LEAT_OPTION_RATE, AT(bandwidth), "RATE", NULL, NULL, "no faster than this"},
    {"share", 0, LEAT_OPTION_DOUBLE, AT(share), "X", "0.5", "LEAT_SHARE", "of something"},
    {"file", 'f', LEAT_OPTION_LIST, AT(files), "FILE", NULL, "LEAT_FILE", "several"},
    {0},
};

static const struct leat_command command = {
    .name = "try",
    .arguments = "SRC [DST]",
    .summary = "a command for tests",
    .details =
        "The first paragraph.\n\nThe second paragraph, which is long enough to be wrapped somewhere around here, "
        "and then some more of it to be sure.",
    .examples = "  leat try a b\n",
    .options = options,
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 2,
};

struct reading {
    const char *line[10]; /* the command line; NULL-terminated */
    const char *environ[6];
    const char *config; /* the file's text; NULL: no file */
};

static leat_status read_it(const struct reading *from, struct leat_settings **out, bool *help, struct leat_error *err)
{
    char path[] = "/tmp/leat-option-XXXXXX";
    char *argv[10];
    char *environ_copy[6] = {0};
    int argc = 0;
    while (argc < 10 && from->line[argc]) {
        argv[argc] = strdup(from->line[argc]);
        argc++;
    }
    for (size_t i = 0; i < 5 && from->environ[i]; i++)
        environ_copy[i] = strdup(from->environ[i]);
    if (from->config) {
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, from->config, strlen(from->config)), strlen(from->config));
        close(fd);
    }
    struct leat_settings_source source = {
        .argc = argc, .argv = argv, .environ = environ_copy, .config = from->config ? path : NULL};
    leat_status rc = leat_settings_read(&command, &source, out, help, err);
    if (from->config)
        unlink(path);
    for (size_t i = 0; i < 5; i++)
        free(environ_copy[i]);
    if (rc == LEAT_OK) {
        /* Arguments point into argv, which belongs to main() and lives long enough there; values are copies. */
        for (int i = 0; i < leat_settings_argc(*out); i++)
            assert_string_equal(leat_settings_argv(*out)[i], i == 0 ? "src" : "dst");
    }
    while (argc)
        free(argv[--argc]);
    return rc;
}

static const struct settings *good(const struct reading *from, struct leat_settings **keep)
{
    struct leat_error err;
    bool help;
    assert_ok(read_it(from, keep, &help, &err), err);
    assert_false(help);
    return leat_settings_get(*keep);
}

#define assert_refused(says, ...)                                                                                      \
    do {                                                                                                               \
        struct reading refused_reading = {__VA_ARGS__};                                                                \
        struct leat_settings *refused = NULL;                                                                          \
        struct leat_error err;                                                                                         \
        bool help;                                                                                                     \
        assert_fails(read_it(&refused_reading, &refused, &help, &err), err, LEAT_INVALID, says);                       \
        assert_null(refused);                                                                                          \
    } while (0)

TEST(defaults_come_from_the_table)
{
    struct leat_settings *keep;
    const struct settings *s = good(&(struct reading){.line = {"src"}}, &keep);
    assert_false(s->json);
    assert_true(s->quiet);
    assert_null(s->profile);
    assert_int_equal(s->connections, 16);
    assert_int_equal(s->part_size, 8 << 20);
    assert_true(s->timeout == 30000000000);
    assert_int_equal(s->bandwidth, 0);
    assert_true(s->share == 0.5);
    assert_int_equal(leat_settings_argc(keep), 1);
    leat_settings_free(keep);
    leat_settings_free(NULL);
}

TEST(every_way_to_write_an_option_works)
{
    static const struct reading ways[] = {
        {.line = {"--json", "--no-quiet", "--connections", "3", "--profile=me", "src", "dst"}},
        {.line = {"src", "-j", "--quiet=off", "-n3", "-p", "me", "dst"}},
        {.line = {"-jn", "3", "-pme", "--quiet=0", "--", "src", "dst"}},
        {.line = {"src", "dst", "--profile", "me", "--json=yes", "--connections=3", "--quiet=false"}},
        {.line = {"-n9", "src", "dst", "--connections=3", "-pyou", "-pme", "-j", "--quiet", "--no-quiet"}},
    };
    for (size_t i = 0; i < COUNT(ways); i++) {
        struct leat_settings *keep;
        const struct settings *s = good(&ways[i], &keep);
        assert_true(s->json);
        assert_false(s->quiet);
        assert_int_equal(s->connections, 3);
        assert_string_equal(s->profile, "me");
        assert_int_equal(leat_settings_argc(keep), 2);
        leat_settings_free(keep);
    }
}

TEST(a_list_holds_every_occurrence_and_the_line_replaces_the_environments)
{
    struct reading from = {.line = {"src", "-f", "a", "--file=b"}, .environ = {"LEAT_FILE=c"}};
    struct leat_settings *s = NULL;
    struct leat_error err;
    bool help;
    assert_ok(read_it(&from, &s, &help, &err), err);
    const struct leat_option_list *files = &((const struct settings *)leat_settings_get(s))->files;
    assert_int_equal(files->count, 2);
    assert_string_equal(files->item[0], "a");
    assert_string_equal(files->item[1], "b");
    leat_settings_free(s);
    from.line[1] = NULL;
    assert_ok(read_it(&from, &s, &help, &err), err);
    files = &((const struct settings *)leat_settings_get(s))->files;
    assert_int_equal(files->count, 1);
    assert_string_equal(files->item[0], "c");
    leat_settings_free(s);
}

TEST(two_dashes_end_the_options)
{
    struct leat_error err;
    bool help;
    struct leat_settings *keep;
    char *argv[] = {(char[]){"--"}, (char[]){"--json"}, (char[]){"-"}};
    struct leat_settings_source source = {.argc = 3, .argv = argv};
    assert_ok(leat_settings_read(&command, &source, &keep, &help, &err), err);
    assert_int_equal(leat_settings_argc(keep), 2);
    assert_string_equal(leat_settings_argv(keep)[0], "--json");
    assert_string_equal(leat_settings_argv(keep)[1], "-"); /* a lone dash is an argument too */
    assert_false(((const struct settings *)leat_settings_get(keep))->json);
    leat_settings_free(keep);
}

TEST(line_beats_environment_beats_file_beats_default)
{
    static const char config[] = "connections = 1\ntimeout = 1s\nshare = 0.25\n";
    static const struct {
        struct reading from;
        uint64_t connections;
    } rows[] = {
        {{.line = {"src"}}, 16},
        {{.line = {"src"}, .config = config}, 1},
        {{.line = {"src"}, .environ = {"LEAT_CONNECTIONS=2"}, .config = config}, 2},
        {{.line = {"src", "-n3"}, .environ = {"LEAT_CONNECTIONS=2"}, .config = config}, 3},
        {{.line = {"src", "-n3"}, .config = config}, 3},
        {{.line = {"src"}, .environ = {"LEAT_CONNECTIONS="}, .config = config}, 1}, /* empty is not set */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct leat_settings *keep;
        const struct settings *s = good(&rows[i].from, &keep);
        assert_int_equal(s->connections, rows[i].connections);
        leat_settings_free(keep);
    }
}

TEST(a_config_file_has_settings_for_all_and_for_one_command)
{
    struct leat_settings *keep;
    const struct settings *s =
        good(&(struct reading){.line = {"src"},
                               .config = "connections = 1\nsome-other-commands-option = 1\n[other]\nnonsense = 1\n"
                                         "connections = 77\n[try]\npart-size = 1MiB\njson = on\n"},
             &keep);
    assert_int_equal(s->connections, 1);
    assert_int_equal(s->part_size, 1 << 20);
    assert_true(s->json);
    leat_settings_free(keep);
    assert_refused("line 2: conections is not a setting of 'leat try'", .line = {"src"},
                   .config = "[try]\nconections = 1\n");
    /* Without a name for the environment an option is for the command line alone. */
    assert_refused("quiet is not a setting", .line = {"src"}, .config = "[try]\nquiet = 1\n");
    assert_refused("line 1: connections: 'x'", .line = {"src"}, .config = "connections = x\n");
}

TEST(a_missing_config_file_is_an_error_only_when_it_was_asked_for)
{
    struct leat_error err;
    bool help;
    struct leat_settings *keep;
    char *argv[] = {(char[]){"src"}};
    struct leat_settings_source source = {.argc = 1, .argv = argv, .config = "/nonexistent/leat.conf"};
    assert_ok(leat_settings_read(&command, &source, &keep, &help, &err), err);
    leat_settings_free(keep);
    source.config_required = true;
    assert_fails(leat_settings_read(&command, &source, &keep, &help, &err), err, LEAT_NOT_FOUND, "leat.conf");
}

TEST(everything_that_is_wrong_is_named_at_once)
{
    struct reading from = {
        .line = {"--conections=3", "--timeout", "soon", "-z", "--part-size=", "a", "b", "c", "--share"},
        .environ = {"LEAT_CONNECTIONS=many"},
        .config = "[try]\nwhat = 1\nbroken line\n",
    };
    struct leat_settings *keep;
    struct leat_error err;
    bool help;
    assert_int_equal(read_it(&from, &keep, &help, &err), LEAT_INVALID);
    static const char *const says[] = {
        "unknown option '--conections=3' (did you mean --connections?)",
        "--timeout: 'soon'",
        "unknown option '-z'",
        "unexpected argument 'c'",
        "--share needs a value (X)",
        "LEAT_CONNECTIONS: 'many'",
    };
    for (size_t i = 0; i < COUNT(says); i++) {
        if (!strstr(err.text, says[i]))
            fail_msg("'%s' does not say '%s'", err.text, says[i]);
    }
    assert_non_null(strstr(err.text, "what is not a setting"));
    assert_non_null(strstr(err.text, "line 3: not KEY = VALUE"));
}

TEST(wrong_options_are_refused)
{
    assert_refused("unknown option '--nope'", .line = {"src", "--nope"});
    assert_refused("unknown option '--no-connections'", .line = {"src", "--no-connections"});
    assert_refused("unknown option '--no-json=1'", .line = {"src", "--no-json=1"});
    assert_refused("unknown option '--no-'", .line = {"src", "--no-"});
    assert_refused("unknown option '--=x'", .line = {"src", "--=x"});
    assert_refused("did you mean --json?", .line = {"src", "--jsn"});
    assert_refused("did you mean --part-size?", .line = {"src", "--partsize=1"});
    assert_refused("unknown option '-x'; unknown option '-y'", .line = {"src", "-xy"});
    assert_refused("-n needs a value (N)", .line = {"src", "-jn"});
    assert_refused("--connections needs a value (N)", .line = {"src", "--connections"});
    assert_refused("--json: 'maybe' is neither", .line = {"src", "--json=maybe"});
    assert_refused("LEAT_JSON: 'maybe'", .line = {"src"}, .environ = {"LEAT_JSON=maybe"});
    assert_refused("--bandwidth: '10Gb/s'", .line = {"src", "--bandwidth=10Gb/s"});
    assert_refused("--share: 'x'", .line = {"src", "--share=x"});
    assert_refused("too few arguments: leat try SRC [DST]", .line = {"-j"});
    assert_refused("unexpected argument 'c'", .line = {"a", "b", "c"});
}

TEST(short_names_suggest_nothing_silly)
{
    struct reading from = {.line = {"src", "-z", "--xy"}};
    struct leat_settings *keep;
    struct leat_error err;
    bool help;
    assert_int_equal(read_it(&from, &keep, &help, &err), LEAT_INVALID);
    assert_null(strstr(err.text, "did you mean"));
}

TEST(thousands_of_problems_are_harmless)
{
    enum { N = 5000 };
    static char word[] = "--wrong-option-with-a-long-name";
    char **argv = calloc(N, sizeof *argv);
    for (size_t i = 0; i < N; i++)
        argv[i] = word;
    struct leat_settings_source source = {.argc = N, .argv = argv};
    struct leat_settings *keep;
    struct leat_error err;
    bool help;
    assert_fails(leat_settings_read(&command, &source, &keep, &help, &err), err, LEAT_INVALID, word);
    assert_int_equal(leat_settings_read(&command, &source, &keep, &help, NULL), LEAT_INVALID);
    free(argv);
}

TEST(help_is_given_whatever_else_is_wrong)
{
    static const struct reading ways[] = {
        {.line = {"--help"}},
        {.line = {"-h", "--nope"}},
        {.line = {"--nope", "--help"}, .environ = {"LEAT_CONNECTIONS=x"}, .config = "[try]\nwhat = 1\n"},
    };
    for (size_t i = 0; i < COUNT(ways); i++) {
        struct leat_settings *keep;
        struct leat_error err;
        bool help = false;
        assert_ok(read_it(&ways[i], &keep, &help, &err), err);
        assert_true(help);
        leat_settings_free(keep);
    }
    struct leat_settings *keep;
    struct leat_error err;
    bool help;
    char *argv[] = {(char[]){"--"}, (char[]){"--help"}};
    struct leat_settings_source source = {.argc = 2, .argv = argv};
    assert_ok(leat_settings_read(&command, &source, &keep, &help, &err), err);
    assert_false(help); /* after "--" it is an argument */
    leat_settings_free(keep);
}

static char *printed(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    print(out);
    fclose(out);
    return text;
}

static void print_help(FILE *out)
{
    leat_command_help(&command, out);
}

static void print_man(FILE *out)
{
    leat_command_man(&command, "1.2.3", out);
}

TEST(help_says_everything_within_80_columns)
{
    char *text = printed(print_help);
    static const char *const parts[] = {
        "leat try: a command for tests\n",
        "\nusage: leat try [options] SRC [DST]\n",
        "The first paragraph.\n\nThe second",
        "\n  -j, --json                  print JSON [LEAT_JSON]\n",
        "\n      --part-size SIZE        bytes a part [default: 8MiB; LEAT_PART_SIZE]\n",
        "\n      --bandwidth RATE        no faster than this\n",
        "\n  -h, --help                  show this\n",
        "\nexamples:\n  leat try a b\n",
    };
    for (size_t i = 0; i < COUNT(parts); i++) {
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is missing in\n%s", parts[i], text);
    }
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        assert_true(n <= 80);
        assert_true(n == 0 || line[n - 1] != ' ');
        line += n + 1;
    }
    free(text);
}

TEST(long_option_names_get_a_line_of_their_own)
{
    static const struct leat_option long_options[] = {
        {"a-name-of-20-letters", 0, LEAT_OPTION_FLAG, 0, NULL, NULL, NULL, "fits"},
        {"a-name-of-21-letters-", 0, LEAT_OPTION_FLAG, 0, NULL, NULL, NULL, "does not fit"},
        {"list", 0, LEAT_OPTION_STRING, 0, "ONE,TWO,THREE,…", NULL, NULL, "counts characters"},
        {0},
    };
    struct leat_command c = command;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    c.options = long_options;
    c.details = c.examples = NULL;
    leat_command_help(&c, out);
    fclose(out);
    assert_non_null(strstr(text, "\n      --a-name-of-20-letters  fits\n"));
    assert_non_null(strstr(text, "\n      --a-name-of-21-letters-\n                              does not fit\n"));
    assert_non_null(strstr(text, "\n      --list ONE,TWO,THREE,…  counts characters\n"));
    free(text);
}

TEST(the_manual_page_escapes_what_roff_would_read)
{
    char *text = printed(print_man);
    static const char *const parts[] = {
        ".TH LEAT\\-TRY 1 \"\" \"leat 1.2.3\" \"Leat\"\n",
        "leat\\-try \\- a command for tests\n",
        "The first paragraph.\n.PP\nThe second",
        ".TP\n.B \\-j, \\-\\-json\nprint JSON [LEAT_JSON]\n",
        "[default: 8MiB; LEAT_PART_SIZE]",
    };
    for (size_t i = 0; i < COUNT(parts); i++) {
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is missing in\n%s", parts[i], text);
    }
    free(text);
    struct leat_command c = command;
    c.details = ".dot\n'quote and a \\ backslash";
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    leat_command_man(&c, "1", out);
    fclose(out);
    assert_non_null(strstr(text, "\n\\&.dot\n\\&'quote and a \\e backslash\n"));
    free(text);
}
