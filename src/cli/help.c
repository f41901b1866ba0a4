#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "leat/leat.h"

struct help_settings {
    bool man;
};

static const struct leat_option options[] = {
    {"man", 0, LEAT_OPTION_FLAG, offsetof(struct help_settings, man), NULL, NULL, NULL,
     "print the source of the manual page instead"},
    {0},
};

/* Said in three places (help, man page, documents): one table. */
static const struct {
    const char *status;
    const char *meaning;
} exit_statuses[] = {
    {"0", "done"},
    {"1", "failed for any other reason"},
    {"2", "wrong option, argument, setting or address"},
    {"3", "no such object, bucket or file"},
    {"4", "denied: keys, permissions, certificate"},
    {"5", "network, server or timeout: trying again later may help"},
    {"6", "data is damaged or has changed"},
    {"7", "no space, no memory, or a limit reached"},
    {"130", "interrupted"},
};

static void print_overview(void)
{
    printf("leat %s: brings training data from a bucket to the GPUs\n\n"
           "usage: leat [--log LEVEL] COMMAND [options] [arguments]\n\ncommands:\n",
           leat_version());
    for (const struct leat_command *const *c = leat_commands(); *c; c++)
        printf("  %-12s %s\n", (*c)->name, (*c)->summary);
    fputs("\n'leat COMMAND --help' explains a command; 'leat --version' prints the version.\nSettings also come "
          "from LEAT_* variables and a config file: see leat(1).\n\nexit status:\n",
          stdout);
    for (size_t i = 0; i < sizeof exit_statuses / sizeof *exit_statuses; i++)
        printf("  %-4s %s\n", exit_statuses[i].status, exit_statuses[i].meaning);
}

static void print_main_man(void)
{
    printf(".TH LEAT 1 \"\" \"leat %s\" \"Leat\"\n"
           ".SH NAME\nleat \\- brings training data from a bucket to the GPUs\n"
           ".SH SYNOPSIS\n.B leat\n[\\fB\\-\\-log\\fR \\fILEVEL\\fR] \\fICOMMAND\\fR [\\fIoptions\\fR] "
           "[\\fIarguments\\fR]\n.SH COMMANDS\n",
           leat_version());
    for (const struct leat_command *const *c = leat_commands(); *c; c++)
        printf(".TP\n.BR leat\\-%s (1)\n%s\n", (*c)->name, (*c)->summary);
    fputs(".SH SETTINGS\nAn option marked with a LEAT_ name may also be set in the environment or in the config "
          "file, by its long name:\n.nf\n\n    connections = 32\n    [cp]\n    part\\-size = 64MiB\n\n.fi\nLines "
          "before the first section are for every command that has such an option, the others for the command "
          "named. A setting that no command has is an error. A section [store s3://BUCKET] is for one bucket, and for "
          "loaders too: endpoint\\-url, profile and the like (docs/stores.md). The command line overrides the "
          "environment, and the "
          "environment overrides the file.\n.SH ENVIRONMENT\n.TP\n.B LEAT_LOG\nerror, warning (the default), info "
          "or debug\n.TP\n.B LEAT_CONFIG\nthe config file, instead of $XDG_CONFIG_HOME/leat/config or "
          "~/.config/leat/config\n.TP\n.B AWS_*\nkeys, profile, region and endpoint, as in other S3 clients\n.SH "
          "EXIT STATUS\n",
          stdout);
    for (size_t i = 0; i < sizeof exit_statuses / sizeof *exit_statuses; i++)
        printf(".TP\n.B %s\n%s\n", exit_statuses[i].status, exit_statuses[i].meaning);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct help_settings *s = settings;
    const struct leat_command *command = argc ? leat_command_find(argv[0]) : NULL;
    if (argc && !command)
        return leat_command_unknown(argv[0]);
    if (command && s->man)
        leat_command_man(command, leat_version(), stdout);
    else if (command)
        leat_command_help(command, stdout);
    else if (s->man)
        print_main_man();
    else
        print_overview();
    return leat_cli_finish();
}

const struct leat_command leat_command_help_command = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "explain leat or one of its commands",
    .options = options,
    .settings_size = sizeof(struct help_settings),
    .arguments_max = 1,
    .run = run,
};
