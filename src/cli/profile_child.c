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
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/profile.h"
#include "profile/observer.h"

#define PREFIX  "leat-profile-"
#define TICK_NS (20 * LEAT_MS)

static volatile sig_atomic_t passed_on; /* a signal that the script is to get */

static void pass_on(int signal)
{
    passed_on = signal;
}

static const char *shared_place(void)
{
    static const char *const places[] = {"/dev/shm", NULL};
    if (access(places[0], W_OK | X_OK) == 0)
        return places[0];
    const char *tmp = getenv("TMPDIR");
    return tmp && *tmp ? tmp : "/tmp";
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

static leat_status make_folder(struct leat_profile_child *c, struct leat_error *err)
{
    const char *place = shared_place();
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
        static const int all[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            signal(all[i], SIG_DFL);
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
    struct sigaction act = {.sa_handler = pass_on};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGHUP, &act, NULL);
    signal(SIGINT, SIG_IGN); /* the terminal sends them to the script as well */
    signal(SIGQUIT, SIG_IGN);
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
        rc = spawn(c, argv, runs_s, precision, err);
    if (rc != LEAT_OK)
        leat_profile_end(c);
    return rc;
}

void leat_profile_wait(struct leat_profile_child *c, uint64_t ns)
{
    uint64_t deadline = leat_after(ns);
    while (!c->ended) {
        int signal = passed_on;
        passed_on = 0;
        if (signal)
            kill(c->pid, signal);
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
