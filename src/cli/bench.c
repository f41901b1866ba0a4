#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"

struct bench_settings {
    const char *shape;
    const char *data;
    const char *accelerator;
    uint64_t accelerators;
    double scale;
    uint64_t epochs;
    uint64_t epoch_ns;
    uint64_t workers;
    const char *bandwidth;
    const char *latency;
    const char *folder;
    const char *python;
    bool json;
};

#define AT(member) offsetof(struct bench_settings, member)

static const struct leat_option options[] = {
    {"shape", 0, LEAT_OPTION_STRING, AT(shape), "NAME", NULL, NULL,
     "which training: resnet50, unet3d, cosmoflow or retinanet, with the sizes and batches that DLIO gives them"},
    {"data", 0, LEAT_OPTION_STRING, AT(data), "URL", NULL, NULL,
     "read this dataset instead of data that is made; the store's settings are those of the environment and the config "
     "file"},
    {"accelerator", 0, LEAT_OPTION_STRING, AT(accelerator), "NAME", "h100", NULL,
     "whose computing is emulated, by sleeping: a100, h100 or b200, as far as the shape is known for it"},
    {"accelerators", 0, LEAT_OPTION_U64, AT(accelerators), "N", "1", NULL, "how many ranks train on this machine"},
    {"scale", 0, LEAT_OPTION_DOUBLE, AT(scale), "SHARE", "1", NULL,
     "samples have this share of the shape's bytes, for machines that are too small for it; it is said with the "
     "result"},
    {"epochs", 0, LEAT_OPTION_U64, AT(epochs), "N", "2", NULL, "number of epochs"},
    {"epoch-time", 0, LEAT_OPTION_DURATION, AT(epoch_ns), "TIME", "6s", NULL,
     "computing alone takes this long in an epoch: it has as many steps"},
    {"workers", 0, LEAT_OPTION_U64, AT(workers), "N", NULL, NULL,
     "workers of the DataLoader for each rank (default: the cores, divided by the ranks)"},
    {"bandwidth", 0, LEAT_OPTION_STRING, AT(bandwidth), "RATE", NULL, NULL, "of the bucket in a box, for all together"},
    {"latency", 0, LEAT_OPTION_STRING, AT(latency), "TIME", NULL, NULL, "of the bucket in a box"},
    {"folder", 0, LEAT_OPTION_STRING, AT(folder), "FOLDER", NULL, NULL,
     "where the data is made, and removed afterwards (default: $TMPDIR or /tmp)"},
    {"python", 0, LEAT_OPTION_STRING, AT(python), "PROGRAM", "python3", "LEAT_PYTHON",
     "the Python that has torch and leat's package"},
    {"json", 0, LEAT_OPTION_FLAG, AT(json), NULL, NULL, NULL, "print one JSON object"},
    {0},
};

/* Says in one line what is missing, instead of a traceback. */
static const char program[] =
    "import sys\n"
    "try:\n"
    "    import torch.utils.data\n"
    "    from leat import _shapes\n"
    "except ImportError as error:\n"
    "    sys.exit(f'leat: {sys.executable} has no torch or no package leat ({error}): name one that "
    "has both with --python')\n"
    "_shapes.main()\n";

static leat_status check(const struct bench_settings *s, struct leat_error *err)
{
    uint64_t number;
    leat_status rc = LEAT_OK;
    if (!s->shape)
        return leat_fail(err, LEAT_INVALID, "--shape: give one of resnet50, unet3d, cosmoflow, retinanet");
    if (!s->accelerators || s->accelerators > 64)
        return leat_fail(err, LEAT_INVALID, "--accelerators: from 1 to 64");
    if (!(s->scale > 0 && s->scale <= 1))
        return leat_fail(err, LEAT_INVALID, "--scale %g: above 0, up to 1", s->scale);
    if (s->data && !*s->data)
        return leat_fail(err, LEAT_INVALID, "--data: give the URL of a dataset");
    if (s->data && (s->scale < 1 || s->bandwidth || s->latency || s->folder))
        return leat_fail(err, LEAT_INVALID,
                         "--data: the dataset and its bucket are as they are; --scale, --bandwidth, --latency and "
                         "--folder are for data that is made");
    if (!s->epochs || s->epochs > 1000 || s->workers > 1024 || (!s->workers && leat_cli_said("workers")))
        return leat_fail(err, LEAT_INVALID, "--epochs from 1 to 1000, --workers from 1 to 1024");
    if (s->bandwidth)
        rc = leat_parse_rate(s->bandwidth, "--bandwidth", &number, err);
    if (rc == LEAT_OK && s->latency)
        rc = leat_parse_duration(s->latency, "--latency", &number, err);
    return rc;
}

/* The package of a build folder lies beside the command; an installed one is found by Python itself. */
static void find_package(const char *command)
{
    char path[4200];
    const char *old = getenv("PYTHONPATH");
    const char *end = strrchr(command, '/');
    char *all = NULL;
    snprintf(path, sizeof path, "%.*s/../../python", (int)(end ? end - command : 0), command);
    char *folder = realpath(path, NULL);
    snprintf(path, sizeof path, "%s/leat", folder ? folder : "");
    if (folder && access(path, X_OK) == 0 &&
        asprintf(&all, "%s%s%s", folder, old && *old ? ":" : "", old ? old : "") >= 0) {
        setenv("PYTHONPATH", all, 1);
        free(all);
    }
    free(folder);
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct bench_settings *s = settings;
    struct leat_error err;
    char command[4096] = "";
    leat_status rc = check(s, &err);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    if (readlink("/proc/self/exe", command, sizeof command - 1) <= 0)
        return leat_cli_failf(LEAT_IO, "cannot find this command: %s", strerror(errno));
    const char *tmp = getenv("TMPDIR");
    uint64_t cores = leat_cpu_count() / s->accelerators;
    uint64_t workers = s->workers ? s->workers : cores ? cores : 1;
    json_t *job = json_pack("{s:s, s:s, s:s, s:I, s:f, s:I, s:f, s:I, s:s, s:s, s:s, s:s, s:b}", "shape", s->shape,
                            "data", s->data ? s->data : "", "accelerator", s->accelerator, "world",
                            (json_int_t)s->accelerators, "scale", s->scale, "epochs", (json_int_t)s->epochs, "epoch_s",
                            (double)s->epoch_ns / 1e9, "workers", (json_int_t)workers, "bandwidth",
                            s->bandwidth ? s->bandwidth : "", "latency", s->latency ? s->latency : "", "folder",
                            s->folder     ? s->folder
                            : tmp && *tmp ? tmp
                                          : "/tmp",
                            "command", command, "json", s->json);
    char *text = leat_json_write(job, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(job);
    if (!text)
        return leat_cli_failf(LEAT_INVALID, "--shape, --data, --accelerator, --folder: names have to be text");
    find_package(command);
    execlp(s->python, s->python, "-c", program, text, (char *)NULL);
    free(text);
    return leat_cli_failf(LEAT_NOT_FOUND, "cannot start %s: %s; --python names another", s->python, strerror(errno));
}

const struct leat_command leat_command_bench = {
    .name = "bench",
    .arguments = "",
    .summary = "emulate a training of a known shape and say how busy its accelerators are",
    .details =
        "Makes data of the sizes that a known training has, puts it into a bucket in a box, and feeds emulated "
        "accelerators from it, with leat.Loader and with a plain torch DataLoader that gets every sample by a request. "
        "Computing is emulated: a rank sleeps as long as a step takes on the accelerator.\n\nAccelerator utilisation "
        "(AU) is the time of computing over the whole time of an epoch without its first step; mean over ranks, then "
        "over epochs. Sizes, batches and times are those of DLIO's workloads. Data are removed afterwards.\n\nWith "
        "--data "
        "both read a dataset that is there already: batches and times are the shape's, samples your own, as they are "
        "stored. The DataLoader's workers then read chunk after chunk through leat.open().",
    .examples = "  leat bench --shape resnet50 --accelerator h100\n"
                "  leat bench --shape unet3d --scale 0.01 --accelerators 2 --bandwidth 1GB/s\n"
                "  leat bench --shape resnet50 --data s3://bucket/imagenet/train\n",
    .options = options,
    .settings_size = sizeof(struct bench_settings),
    .arguments_min = 0,
    .arguments_max = 0,
    .run = run,
};
