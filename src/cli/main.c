#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/guess.h"
#include "base/ini.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "leat/leat.h"

static const struct leat_command *const commands[] = {
    /* One a line, so that lists merge. */
    /* clang-format off */
    &leat_command_ls,
    &leat_command_cat,
    &leat_command_cp,
    &leat_command_rm,
    &leat_command_pack,
    &leat_command_index,
    &leat_command_info,
    &leat_command_job,
    &leat_command_name,
    &leat_command_show,
    &leat_command_select,
    &leat_command_diff,
    &leat_command_gc,
    &leat_command_verify,
    &leat_command_warm,
    &leat_command_unpack,
    &leat_command_mount,
    &leat_command_read,
    &leat_command_rebuild,
    &leat_command_order,
    &leat_command_serve,
    &leat_command_image,
    &leat_command_plan,
    &leat_command_simulate,
    &leat_command_profile,
    &leat_command_whatif,
    &leat_command_bench,
    &leat_command_doctor,
    &leat_command_agent,
    &leat_command_top,
    &leat_command_trace,
    &leat_command_cache,
    &leat_command_help_command,
    NULL,
    /* clang-format on */
};

const struct leat_command *const *leat_commands(void)
{
    return commands;
}

const struct leat_command *leat_command_find(const char *name)
{
    for (const struct leat_command *const *c = commands; *c; c++) {
        if (strcmp((*c)->name, name) == 0)
            return *c;
    }
    return NULL;
}

int leat_command_unknown(const char *name)
{
    struct leat_guess g = leat_guess_of(name);
    for (const struct leat_command *const *c = commands; *c; c++)
        leat_guess_try(&g, (*c)->name);
    if (g.word)
        return leat_cli_failf(LEAT_INVALID, "'%s' is not a command: did you mean 'leat %s'?", name, g.word);
    return leat_cli_failf(LEAT_INVALID, "'%s' is not a command; 'leat help' lists them", name);
}

static void print_log(enum leat_log_level level, const char *line, void *user)
{
    (void)user;
    /* On a terminal there may be a line of progress where the message goes. */
    fprintf(stderr, "%sleat: %s: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", leat_log_level_name(level), line);
}

static int open_log(const char *name)
{
    for (int level = LEAT_LOG_ERROR; level <= LEAT_LOG_DEBUG; level++) {
        if (strcmp(name, leat_log_level_name(level)) == 0) {
            leat_log_open(level, print_log, NULL);
            return LEAT_EXIT_OK;
        }
    }
    return leat_cli_failf(LEAT_INVALID, "log level '%s' is not one of error, warning, info, debug", name);
}

static int run_command(const struct leat_command *command, int argc, char **argv)
{
    char config[4096];
    bool required = leat_ini_own(config, sizeof config);
    struct leat_settings_source source = {
        .argc = argc,
        .argv = argv,
        .environ = environ,
        .config = *config ? config : NULL,
        .config_required = required,
        .commands = commands,
    };
    struct leat_settings *settings;
    struct leat_error err;
    char strange[LEAT_ENVIRONMENT_TEXT];
    bool help = false;
    for (size_t i = 0; leat_environment_strange(environ, &i, strange);)
        leat_log(LEAT_LOG_WARN, "%s", strange);
    if (leat_settings_read(command, &source, &settings, &help, &err) != LEAT_OK) {
        int status = leat_cli_fail(&err);
        if (status == LEAT_EXIT_USAGE)
            fprintf(stderr, "Try 'leat %s --help'.\n", command->name);
        return status;
    }
    int status;
    if (help) {
        leat_command_help(command, stdout);
        status = leat_cli_finish();
    } else {
        leat_cli_catch_signals();
        leat_cli_run_with(settings);
        status = command->run(leat_settings_get(settings), leat_settings_argc(settings), leat_settings_argv(settings));
    }
    leat_settings_free(settings);
    return status;
}

int main(int argc, char **argv)
{
    leat_cli_hold_streams();
    const char *level = getenv("LEAT_LOG");
    int i = 1;
    if (argc > 2 && strcmp(argv[1], "--log") == 0) {
        level = argv[2];
        i = 3;
    }
    int status = open_log(level && *level ? level : "warning");
    if (status != LEAT_EXIT_OK)
        return status;
    const char *name = i < argc ? argv[i] : "--help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("leat %s\n", leat_version());
        return leat_cli_finish();
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        run_command(&leat_command_help_command, 0, NULL);
        return i < argc ? leat_cli_finish() : LEAT_EXIT_USAGE;
    }
    const struct leat_command *command = leat_command_find(name);
    if (!command)
        return leat_command_unknown(name);
    return run_command(command, argc - i - 1, argv + i + 1);
}
