/* `leat serve` of a command that was built without it, as a wheel's is. */
#include "cli/cli.h"
#include "cli/commands.h"

static const struct leat_option options[] = {{0}};

static int run(const void *settings, int argc, char **argv)
{
    struct leat_error err;
    (void)settings;
    (void)argc;
    (void)argv;
    leat_fail(&err, LEAT_UNSUPPORTED,
              "this command has no bucket in a box: a wheel comes without. A build from source has it (`make`, then "
              "build/release/src/cli/leat serve)");
    return leat_cli_fail(&err);
}

const struct leat_command leat_command_serve = {
    .name = "serve",
    .arguments = "DIR",
    .summary = "serve a folder as a bucket; only in builds from source",
    .details = "The bucket in a box is in builds from source: `make`, then build/release/src/cli/leat serve.",
    .examples = "  build/release/src/cli/leat serve /data --port 8000\n",
    .options = options,
    .arguments_min = 0,
    .arguments_max = 64,
    .run = run,
};
