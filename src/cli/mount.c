#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "mount/session.h"

#define SAID_MAX 20u /* samples that are left out and named one by one */
#define POLL_MS  100

struct mount_settings {
    struct leat_cli_store store;
    const char *field;
    bool leave_out;
    bool foreground;
    bool allow_other;
    bool quiet;
    uint64_t memory;
    uint64_t ahead;
    uint64_t threads;
    const char *cache_dir;
    uint64_t cache;
    const char *log_file;
};

#define AT(name) offsetof(struct mount_settings, name)

static const struct leat_option options[] = {
    {"foreground", 'f', LEAT_OPTION_FLAG, AT(foreground), NULL, NULL, NULL,
     "stay in the foreground, with messages on standard error; Ctrl-C unmounts"},
    {"allow-other", 0, LEAT_OPTION_FLAG, AT(allow_other), NULL, NULL, NULL,
     "let other users read too (needs user_allow_other in /etc/fuse.conf, unless root mounts)"},
    {"field", 0, LEAT_OPTION_STRING, AT(field), "NAME", NULL, NULL,
     "the only field to show, in files with the paths of the keys (default: all that hold bytes)"},
    {"leave-out", 0, LEAT_OPTION_FLAG, AT(leave_out), NULL, NULL, NULL,
     "mount although some samples cannot be files, without those"},
    {"memory", 'm', LEAT_OPTION_SIZE, AT(memory), "SIZE", "256MiB", NULL, "chunks kept in memory"},
    {"ahead", 0, LEAT_OPTION_U64, AT(ahead), "N", "2", NULL,
     "chunks fetched ahead when chunks are read in their order; 0: none"},
    {"threads", 't', LEAT_OPTION_U64, AT(threads), "N", "8", NULL, "requests answered at the same time"},
    {"cache-dir", 0, LEAT_OPTION_STRING, AT(cache_dir), "DIR", NULL, NULL,
     "keep chunks in this folder too, a cache as loaders have it, which may be the same one"},
    {"cache", 0, LEAT_OPTION_SIZE, AT(cache), "SIZE", NULL, NULL,
     "most bytes of --cache-dir (default: half of what is free)"},
    {"log-file", 0, LEAT_OPTION_STRING, AT(log_file), "FILE", NULL, NULL,
     "where messages go while in the background (default: syslog)"},
    {"quiet", 'q', LEAT_OPTION_FLAG, AT(quiet), NULL, NULL, NULL, "print nothing but errors"},
    LEAT_STORE_OPTIONS(AT(store)),
    {0},
};

struct mounting {
    const struct mount_settings *settings;
    uint64_t said;
};

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static void say_left_out(void *user, const char *why)
{
    struct mounting *m = user;
    if (m->said++ < SAID_MAX)
        fprintf(stderr, "leat: %s\n", why);
}

static void say_failed(void *user, const char *why)
{
    (void)user;
    leat_log(LEAT_LOG_ERROR, "%s", why);
}

/* The log in the background. The sink is set before there are threads; where lines go changes when the terminal is let
 * go of. */
struct where {
    FILE *file; /* NULL: syslog */
    _Atomic bool behind;
};

static void log_line(enum leat_log_level level, const char *line, void *user)
{
    static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    struct where *w = user;
    char at[LEAT_CLI_TIME];
    if (!atomic_load(&w->behind)) {
        fprintf(stderr, "leat: %s: %s\n", leat_log_level_name(level), line);
    } else if (w->file) {
        leat_cli_format_time((int64_t)time(NULL), at);
        fprintf(w->file, "%s %s: %s\n", at, leat_log_level_name(level), line);
        fflush(w->file);
    } else {
        syslog(levels[level], "%s", line);
    }
}

/* A file that cannot be written to is an error while somebody sees it. */
static leat_status open_log(const struct mount_settings *s, struct where *w, struct leat_error *err)
{
    int level = LEAT_LOG_DEBUG;
    while (level > LEAT_LOG_ERROR && !leat_log_wants(level))
        level--;
    if (s->log_file && !(w->file = fopen(s->log_file, "ae")))
        return leat_fail_errno(err, errno, "cannot write to '%s'", s->log_file);
    if (!w->file)
        openlog("leat-mount", LOG_PID, LOG_DAEMON);
    if (!w->file && !s->quiet && access("/dev/log", F_OK) != 0)
        fprintf(stderr, "leat: there is no syslog here: give --log-file, or messages about failures are lost (readers "
                        "get EIO all the same)\n");
    leat_log_open(level, log_line, w);
    return LEAT_OK;
}

/* Opening */

static leat_status check(const struct mount_settings *s, const char *dir, struct leat_error *err)
{
    if (s->threads == 0 || s->threads > 64)
        return leat_fail(err, LEAT_INVALID, "--threads: between 1 and 64");
    if (s->ahead > 16)
        return leat_fail(err, LEAT_INVALID, "--ahead: at most 16");
    if (!s->cache && leat_cli_said("cache"))
        return leat_fail(err, LEAT_INVALID, "--cache 0: without --cache and --cache-dir nothing is kept on disk");
    if (s->cache && !s->cache_dir)
        return leat_fail(err, LEAT_INVALID, "--cache needs --cache-dir");
    if (s->foreground && s->log_file)
        return leat_fail(err, LEAT_INVALID,
                         "--log-file is for the background; in the foreground messages go to "
                         "standard error");
    return leat_session_check(dir, err);
}

static leat_status pick_fields(const struct mount_settings *s, const struct leat_schema *schema,
                               struct leat_files_opts *opts, struct leat_error *err)
{
    uint32_t n = 0;
    leat_status rc = leat_cli_pick_field(schema, s->field, &opts->field, err);
    for (uint32_t i = 0; i < schema->n; i++)
        n += leat_field_has_data(&schema->fields[i]);
    opts->several = !s->field && n > 1;
    for (uint32_t i = 0; rc == LEAT_OK && i < schema->n; i++) {
        if (opts->several || i == opts->field)
            rc = leat_field_check(&schema->fields[i], err);
    }
    if (rc == LEAT_OK && !leat_field_has_data(&schema->fields[opts->field]))
        rc = leat_fail(err, LEAT_INVALID, "field '%s' has no bytes for files", schema->fields[opts->field].name);
    return rc;
}

static leat_status open_files(struct mounting *m, struct leat_dataset *d, struct leat_files **out,
                              struct leat_error *err)
{
    const struct mount_settings *s = m->settings;
    struct leat_files_opts opts = {
        .dataset = d,
        .memory = s->memory,
        .ahead = (unsigned)s->ahead,
        .cache_dir = s->cache_dir,
        .cache = s->cache,
        .stop = stop,
        .left_out = say_left_out,
        .failed = say_failed,
        .user = m,
    };
    leat_status rc = pick_fields(s, &leat_dataset_root(d)->schema, &opts, err);
    if (rc == LEAT_OK)
        rc = leat_files_open(&opts, out, err);
    if (rc != LEAT_OK || m->said == 0)
        return rc;
    if (m->said > SAID_MAX)
        fprintf(stderr, "leat: … and %" PRIu64 " more\n", m->said - SAID_MAX);
    if (s->leave_out)
        return LEAT_OK;
    return leat_fail(err, LEAT_INVALID, "%" PRIu64 " samples cannot be files: --leave-out mounts the others", m->said);
}

/* Whether files that follow each other by name mostly lie in different places of the dataset, by the first thousand. */
static bool is_permuted(const struct leat_tree *t)
{
    uint64_t first = leat_tree_folders(t) + 1;
    uint64_t n = leat_tree_files(t) < 1000 ? leat_tree_files(t) : 1000;
    uint64_t jumps = 0;
    for (uint64_t i = 1; i < n; i++) {
        uint64_t before = leat_tree_file(t, first + i - 1).sample;
        uint64_t sample = leat_tree_file(t, first + i).sample;
        jumps += sample < before || sample > before + 1;
    }
    return 2 * jumps > n;
}

/* Programs that read files by name would fetch a chunk for each of them: nobody would guess why that is slow. */
static void warn_of_order(const struct mount_settings *s, const struct leat_files *f)
{
    char size[LEAT_FORMAT_SIZE];
    uint64_t cache = !s->cache_dir ? 0 : s->cache ? s->cache : UINT64_MAX / 2;
    if (s->quiet || leat_files_bytes(f) <= s->memory + cache || !is_permuted(leat_files_tree(f)))
        return;
    fprintf(
        stderr,
        "leat: the samples were permuted, and do not fit into --memory %s: a program that reads them by name fetches "
        "a whole chunk for each file. Give more --memory or a --cache-dir for all of them, read in the order of "
        "'leat ls --samples', or pack with --keep-order\n",
        leat_format_size(s->memory, size));
}

static void say_mounted(const struct mount_settings *s, const struct leat_files *f, const char *dir)
{
    char size[LEAT_FORMAT_SIZE];
    if (s->quiet)
        return;
    printf("%" PRIu64 " files in %" PRIu64 " folders, %s, on %s\n", leat_tree_files(leat_files_tree(f)),
           leat_tree_folders(leat_files_tree(f)), leat_format_size(leat_files_bytes(f), size), dir);
    fflush(stdout);
    warn_of_order(s, f);
}

/* Tells the one that waits in the foreground that it is done, and lets go of the terminal. */
static void detach(struct where *w, int ready)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    atomic_store(&w->behind, true);
    fflush(NULL);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    while (write(ready, "", 1) < 0 && errno == EINTR)
        continue;
    close(ready);
}

/* w NULL: in the foreground. Else `ready` is who waits to hear that the mount is there. */
static int mount_and_answer(const struct mount_settings *s, char **argv, struct where *w, int ready)
{
    struct mounting m = {.settings = s};
    struct leat_dataset *d = NULL;
    struct leat_files *files = NULL;
    struct leat_session *session = NULL;
    struct leat_error err;
    leat_status rc = leat_cli_dataset_open(&s->store, argv[0], &d, &err);
    if (rc == LEAT_OK)
        rc = open_files(&m, d, &files, &err);
    if (rc == LEAT_OK) {
        struct leat_session_opts opts = {.files = files,
                                         .dir = argv[1],
                                         .source = leat_dataset_home(d)->url,
                                         .allow_other = s->allow_other,
                                         .threads = (unsigned)s->threads,
                                         .stop = stop};
        rc = leat_session_open(&opts, &session, &err);
    }
    if (rc == LEAT_OK) {
        say_mounted(s, files, argv[1]);
        if (w)
            detach(w, ready);
        rc = leat_session_run(session, &err);
        if (rc != LEAT_OK)
            leat_log(LEAT_LOG_ERROR, "%s", err.text);
    }
    leat_session_close(session);
    leat_files_close(files);
    leat_dataset_close(d);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

/* The child's exit status, once it has failed. */
static int status_of(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status)
               ? WEXITSTATUS(status)
               : leat_cli_failf(LEAT_INTERNAL, "the mount's process ended by signal %d", WTERMSIG(status));
}

/* In the background: a child does everything, so that its threads are its own; this process waits until the mount is
 * there or the child has said why not. */
static int mount_behind(const struct mount_settings *s, char **argv, struct where *w)
{
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) != 0)
        return leat_cli_failf(LEAT_IO, "cannot make a pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        return leat_cli_failf(LEAT_NO_MEMORY, "cannot start a process: %s", strerror(errno));
    if (child == 0) {
        close(ready[0]);
        setsid();
        return mount_and_answer(s, argv, w, ready[1]);
    }
    close(ready[1]);
    struct pollfd wait = {.fd = ready[0], .events = POLLIN};
    bool told = false;
    while (poll(&wait, 1, POLL_MS) <= 0) { /* Ctrl-C reaches this process only; a second signal would be too rude */
        if (leat_cli_interrupted() && !told)
            told = kill(child, SIGTERM) == 0;
    }
    ssize_t n = read(ready[0], &byte, 1);
    close(ready[0]);
    return n == 1 ? LEAT_EXIT_OK : status_of(child);
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct mount_settings *s = settings;
    struct where w = {.file = NULL};
    struct leat_error err;
    leat_status rc = check(s, argv[1], &err);
    if (rc == LEAT_OK && !s->foreground)
        rc = open_log(s, &w, &err);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    int status = s->foreground ? mount_and_answer(s, argv, NULL, -1) : mount_behind(s, argv, &w);
    if (w.file) {
        leat_log_open(LEAT_LOG_ERROR, NULL, NULL);
        fclose(w.file);
    }
    return status;
}

const struct leat_command leat_command_mount = {
    .name = "mount",
    .arguments = "DATASET DIR",
    .summary = "show a dataset as a folder of files, read-only",
    .details =
        "Mounts the samples of a dataset on the empty folder DIR (FUSE), for programs that read files. Paths are the "
        "keys, contents are what 'leat unpack' would write. Chunks are fetched when a file is read, verified, and kept "
        "within --memory.\n\nThe command returns when the folder can be used, and a process in the background answers; "
        "'fusermount3 -u DIR' ends it, as SIGTERM does. With --foreground it stays, and Ctrl-C unmounts.\n\nThe "
        "version "
        "is the one at the time of the mount. Samples that cannot be files (no key or value; a key that cannot be a "
        "path, that another sample has, or that is a folder too) are named, and nothing is mounted, unless "
        "--leave-out.\n\nA reader gets EIO for a chunk that is damaged or cannot be fetched within --timeout, and "
        "ESTALE where indexed objects have changed; the log says which chunk and object.",
    .examples = "  leat mount s3://bucket/photos /mnt/photos\n  fusermount3 -u /mnt/photos\n"
                "  leat mount -f 's3://bucket/pairs?name=v2' /mnt/pairs --memory 2GiB\n",
    .options = options,
    .settings_size = sizeof(struct mount_settings),
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
