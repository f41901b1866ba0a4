#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/profile.h"
#include "profile/observer.h"

#define PREFIX   "leat-profile-"
#define TICK_NS  (20 * LEAT_MS)
#define ROOM_MIN ((uint64_t)8 << 20) /* lanes of a few processes */
/* In shared memory, where a script that finds none for its batches dies: as much as many processes' lanes may take. */
#define ROOM_SHARED ((uint64_t)256 << 20)
#define TERMINALS   2 /* of the signals below, the last ones */

/* Signals that the script is to get. A terminal sends the last two to the script itself. */
static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT};
#define PASSED (sizeof passed / sizeof *passed)
static volatile sig_atomic_t passed_on[PASSED];

static void pass_on(int signal, siginfo_t *info, void *context)
{
    (void)context;
    for (size_t i = 0; i < PASSED; i++) {
        bool terminal = i >= PASSED - TERMINALS;
        if (passed[i] == signal && (!terminal || info->si_code <= 0))
            passed_on[i] = 1;
    }
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));)
        unlinkat(dirfd(dir), e->d_name, 0);
    /* What a Python has left of its own accord: compiled modules. */
    char cache[300];
    snprintf(cache, sizeof cache, "%s/__pycache__", folder);
    DIR *inner = opendir(cache);
    for (const struct dirent *e; inner && (e = readdir(inner));)
        unlinkat(dirfd(inner), e->d_name, 0);
    if (inner)
        closedir(inner);
    rmdir(cache);
    closedir(dir);
    rmdir(folder);
}

/* Folders of profilers that were killed: nobody holds their lock. */
static void sweep(const char *place)
{
    DIR *dir = opendir(place);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        char path[300];
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 || strlen(e->d_name) > 64)
            continue;
        int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        snprintf(path, sizeof path, "%.200s/%.64s", place, e->d_name);
        if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && time(NULL) - st.st_mtime > 10 &&
            flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_folder(path);
        close(fd);
    }
    closedir(dir);
}

static leat_status write_observer(const struct leat_profile_child *c, struct leat_error *err)
{
    for (const struct leat_observer_file *f = leat_observer_files; f->name; f++) {
        char path[300];
        const char *name = strcmp(f->name, "front.py") == 0 ? "sitecustomize.py" : f->name;
        snprintf(path, sizeof path, "%s/%s", c->folder, name);
        FILE *file = fopen(path, "wxe");
        bool written = file && fwrite(f->text, 1, f->n, file) == f->n;
        if (!file || fclose(file) != 0 || !written)
            return leat_fail_errno(err, errno, "cannot write %s", path);
    }
    return LEAT_OK;
}

static leat_status make_folder_in(const char *place, uint64_t room, struct leat_profile_child *c,
                                  struct leat_error *err)
{
    struct statvfs fs;
    if (statvfs(place, &fs) < 0)
        return leat_fail_errno(err, errno, "%s", place);
    if ((uint64_t)fs.f_bavail * fs.f_frsize < room)
        return leat_fail(err, LEAT_IO, "%s is full: the profiler needs %d MiB there", place, (int)(room >> 20));
    sweep(place);
    if (snprintf(c->folder, sizeof c->folder, "%s/%sXXXXXX", place, PREFIX) >= (int)sizeof c->folder ||
        !mkdtemp(c->folder)) {
        c->folder[0] = '\0';
        return leat_fail_errno(err, errno, "cannot make a folder in %s", place);
    }
    c->lock = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->lock < 0 || flock(c->lock, LOCK_EX | LOCK_NB) < 0)
        return leat_fail_errno(err, errno, "cannot lock %s", c->folder);
    return write_observer(c, err);
}

/* In memory, where there is such a place and it can be written to. */
static leat_status make_folder(struct leat_profile_child *c, struct leat_error *err)
{
    const char *tmp = getenv("TMPDIR");
    if (make_folder_in("/dev/shm", ROOM_SHARED, c, err) == LEAT_OK)
        return LEAT_OK;
    leat_profile_end(c);
    return make_folder_in(tmp && *tmp ? tmp : "/tmp", ROOM_MIN, c, err);
}

/* A profiler around this one will see no steps, and should know why. */
static void tell_outer(void)
{
    const char *outer = getenv("LEAT_PROFILE");
    char path[300];
    snprintf(path, sizeof path, "%s/note-%d", outer ? outer : "", (int)getpid());
    FILE *file = outer && *outer ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fputs("another 'leat profile' ran inside this one: it has followed its processes, and this one has not\n", file);
    fclose(file);
}

static void set_environment(const struct leat_profile_child *c, double runs_s, double precision)
{
    const char *old = getenv("PYTHONPATH");
    char number[40];
    char *path = NULL;
    setenv("LEAT_PROFILE", c->folder, 1);
    unsetenv("LEAT_PROFILE_LOADER");
    unsetenv("LEAT_PROFILE_RUNS");
    if (runs_s > 0) {
        snprintf(number, sizeof number, "%.3f", runs_s);
        setenv("LEAT_PROFILE_RUNS", number, 1);
        snprintf(number, sizeof number, "%.6f", precision);
        setenv("LEAT_PROFILE_PRECISION", number, 1);
    }
    if (asprintf(&path, "%s%s%s", c->folder, old && *old ? ":" : "", old ? old : "") >= 0) {
        setenv("PYTHONPATH", path, 1);
        free(path);
    }
}

/* A pipe that exec closes tells whether the command could be started. */
static leat_status spawn(struct leat_profile_child *c, char **argv, double runs_s, double precision,
                         struct leat_error *err)
{
    int pipe_fd[2];
    int why = 0;
    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return leat_fail_errno(err, errno, "cannot make a pipe");
    c->pid = fork();
    if (c->pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        for (size_t i = 0; i < PASSED; i++)
            signal(passed[i], SIG_DFL);
        set_environment(c, runs_s, precision);
        execvp(argv[0], argv);
        why = errno;
        (void)!write(pipe_fd[1], &why, sizeof why);
        _exit(127);
    }
    close(pipe_fd[1]);
    if (c->pid < 0) {
        close(pipe_fd[0]);
        c->pid = 0;
        return leat_fail_errno(err, errno, "cannot start %s", argv[0]);
    }
    struct sigaction act = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    for (size_t i = 0; i < PASSED; i++)
        sigaction(passed[i], &act, NULL);
    bool failed = read(pipe_fd[0], &why, sizeof why) == (ssize_t)sizeof why;
    close(pipe_fd[0]);
    if (!failed)
        return LEAT_OK;
    waitpid(c->pid, &c->status, 0);
    c->pid = 0;
    return leat_fail_errno(err, why, "cannot start %s", argv[0]);
}

leat_status leat_profile_start(struct leat_profile_child *c, char **argv, double runs_s, double precision,
                               struct leat_error *err)
{
    *c = (struct leat_profile_child){.lock = -1};
    leat_status rc = make_folder(c, err);
    if (rc == LEAT_OK)
        tell_outer();
    if (rc == LEAT_OK)
        rc = spawn(c, argv, runs_s, precision, err);
    if (rc != LEAT_OK)
        leat_profile_end(c);
    return rc;
}

void leat_profile_wait(struct leat_profile_child *c, uint64_t ns)
{
    uint64_t deadline = leat_after(ns);
    while (!c->ended) {
        for (size_t i = 0; i < PASSED; i++) {
            if (passed_on[i]) {
                passed_on[i] = 0;
                kill(c->pid, passed[i]);
            }
        }
        if (waitpid(c->pid, &c->status, WNOHANG) == c->pid) {
            c->ended = true;
            return;
        }
        uint64_t left = leat_left(deadline);
        if (!left)
            return;
        leat_sleep_until(leat_after(left < TICK_NS ? left : TICK_NS));
    }
}

int leat_profile_exit(const struct leat_profile_child *c)
{
    return WIFSIGNALED(c->status) ? 128 + WTERMSIG(c->status) : WEXITSTATUS(c->status);
}

void leat_profile_end(struct leat_profile_child *c)
{
    if (*c->folder)
        remove_folder(c->folder);
    if (c->lock >= 0)
        close(c->lock);
    c->folder[0] = '\0';
    c->lock = -1;
}
