/* leat doctor: what runs on the machine and where it keeps things: proxies, the agent, the cache folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "cache/disk_folder.h"
#include "cli/doctor.h"
#include "client/connect.h"
#include "leat/leat.h"

#define BLOCK     (1u << 20)
#define SPACE_MIN (10ull << 30)
#define RATE_SLOW 200e6 /* bytes per second: less than a fair line brings */

void leat_doctor_proxy(struct leat_doctor *d, struct leat_findings *f)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    char list[300] = "";
    size_t n = 0;
    (void)d;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *set = getenv(names[i]);
        if (!set || !*set)
            continue;
        const char *at = strrchr(set, '@'); /* what stands before it is a name and a password */
        int w = snprintf(list + n, sizeof list - n, "%s%s=%s%.80s", n ? ", " : "", names[i], at ? "…@" : "",
                         at ? at + 1 : set);
        n = w > 0 && n + (size_t)w < sizeof list ? n + (size_t)w : sizeof list - 1;
    }
    const char *upper = getenv("HTTP_PROXY");
    const char *lower = getenv("http_proxy");
    const char *except = getenv("no_proxy");
    if (!except || !*except)
        except = getenv("NO_PROXY");
    if (n)
        leat_findings_say(
            f, LEAT_HEALTH_NOTE, "proxy",
            "A proxy is seldom as fast as a line to a bucket: put the endpoint's host into no_proxy if it "
            "can be reached without",
            "%s; exceptions: %.100s", list, except && *except ? except : "none");
    else if (upper && *upper && !(lower && *lower))
        leat_findings_say(f, LEAT_HEALTH_NOTE, "proxy", "Set http_proxy, in small letters, if it is meant",
                          "HTTP_PROXY is set, which is not used");
    else
        leat_findings_say(f, LEAT_HEALTH_OK, "proxy", "", "none in the environment");
}

/* What an agent says of itself; NULL: it does not answer. The caller lets go of it. */
static json_t *ask_agent(const struct leat_wire_paths *paths, uint64_t deadline_ns, struct leat_error *err)
{
    struct leat_connection c;
    struct leat_incoming answer = {0};
    struct leat_buf b;
    json_t *about = NULL;
    leat_status rc = leat_connect_existing(paths, &c, err);
    if (rc != LEAT_OK)
        return NULL;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_DESCRIBE);
    rc = leat_connection_send(&c, &b, err);
    if (rc == LEAT_OK)
        rc = leat_connection_receive(&c, deadline_ns, NULL, NULL, &answer, err);
    const char *text = rc == LEAT_OK ? leat_part_text(answer.part, LEAT_TAG_TEXT) : NULL;
    if (text && leat_json_read(text, strlen(text), 0, &about, NULL) != LEAT_OK)
        about = NULL;
    leat_buf_free(&b);
    leat_incoming_free(&answer);
    leat_connection_close(&c);
    return about;
}

static void say_agent(struct leat_findings *f, const struct leat_wire_paths *paths, const json_t *about,
                      const struct leat_error *err)
{
    if (!about && err->status == LEAT_NOT_FOUND)
        return; /* the socket of one that has ended */
    if (!about) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "agent", "Look at its log; 'leat agent stop' or a kill ends it", "%s: %s",
                          paths->socket, err->text);
        return;
    }
    const char *version = json_string_value(json_object_get(about, "version"));
    const char *log = json_string_value(json_object_get(about, "log"));
    bool other = !version || strcmp(version, leat_version()) != 0;
    leat_findings_say(f, other ? LEAT_HEALTH_NOTE : LEAT_HEALTH_OK, "agent",
                      other ? "It goes on with its own release until its last loader has ended" : "",
                      "leat %s runs as process %d, %d loaders, log %s", version ? version : "?",
                      (int)json_integer_value(json_object_get(about, "pid")),
                      (int)json_integer_value(json_object_get(about, "sessions")) - 1, log ? log : "?");
}

void leat_doctor_agent(struct leat_doctor *d, struct leat_findings *f)
{
    struct leat_wire_paths paths;
    struct leat_error err = {0};
    struct stat st;
    time_t began = time(NULL);
    unsigned sockets = 0;
    unsigned said = 0;
    if (leat_wire_find(NULL, &paths, &err) != LEAT_OK) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "agent",
                          "Set LEAT_RUNTIME_DIR to a folder of this user's own, with a short path", "%s", err.text);
        return;
    }
    bool made_now = stat(paths.folder, &st) == 0 && st.st_ctime >= began;
    DIR *dir = opendir(paths.folder);
    const struct dirent *e;
    while (dir && said < 4 && (e = readdir(dir))) {
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".sock") != 0 ||
            (size_t)snprintf(paths.socket, sizeof paths.socket, "%s/%s", paths.folder, e->d_name) >=
                sizeof paths.socket)
            continue;
        sockets++;
        uint64_t soon = leat_after(3 * LEAT_S);
        err = (struct leat_error){0};
        json_t *about = ask_agent(&paths, soon < d->deadline_ns ? soon : d->deadline_ns, &err);
        say_agent(f, &paths, about, &err);
        said += about || err.status != LEAT_NOT_FOUND;
        json_decref(about);
    }
    if (dir)
        closedir(dir);
    if (made_now && !sockets)
        rmdir(paths.folder); /* ours, for looking; one that holds something stays */
    if (!said)
        leat_findings_say(f, LEAT_HEALTH_OK, "agent", "", "none runs; the first loader starts one in %s", paths.folder);
}

/* The nearest folder at or above `path` that is there, in place. */
static void climb(char *path)
{
    struct stat st;
    while (stat(path, &st) < 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash)
            snprintf(path, 2, ".");
        else if (slash == path)
            path[1] = '\0';
        else
            *slash = '\0';
    }
}

/* Bytes per second; 0: it could not be done. The file has no name, so that nothing can stay. */
static double write_and_read(const char *folder, uint64_t most, uint64_t time_ns, double *read_rate,
                             struct leat_error *err)
{
    void *block = NULL;
    double rates[2] = {0, 0};
    uint64_t written = 0;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
        fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || posix_memalign(&block, 4096, BLOCK) != 0) {
        leat_fail_errno(err, errno, "cannot write to '%s'", folder);
        if (fd >= 0)
            close(fd);
        return 0;
    }
    memset(block, 0x5a, BLOCK);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t began = leat_now_ns();
        uint64_t at = 0;
        uint64_t end = pass ? written : most;
        ssize_t n = BLOCK;
        while (at < end && leat_now_ns() - began < time_ns / 2) {
            n = pass ? pread(fd, block, BLOCK, (off_t)at) : pwrite(fd, block, BLOCK, (off_t)at);
            if (n != (ssize_t)BLOCK)
                break;
            at += BLOCK;
        }
        if (n != (ssize_t)BLOCK) {
            leat_fail_errno(err, n < 0 ? errno : ENOSPC, "cannot %s in '%s'", pass ? "read" : "write", folder);
            rates[0] = 0;
            break;
        }
        if (!pass)
            written = at;
        rates[pass] = (double)at * 1e9 / (double)(leat_now_ns() - began);
    }
    free(block);
    close(fd);
    *read_rate = rates[1];
    return rates[0];
}

void leat_doctor_cache(struct leat_doctor *d, struct leat_findings *f)
{
    char dir[LEAT_DISK_PATH];
    char near[LEAT_DISK_PATH];
    struct leat_error err = {0};
    struct leat_disk_folder_space space = {0};
    char rates[2][LEAT_FORMAT_SIZE];
    char free_text[LEAT_FORMAT_SIZE];
    double read_rate = 0;
    int fd = -1;
    leat_status rc = LEAT_OK;
    if (d->settings->cache_dir)
        snprintf(dir, sizeof dir, "%s", d->settings->cache_dir);
    else
        rc = leat_disk_default_dir(dir, &err);
    if (rc == LEAT_OK) {
        rc = leat_disk_folder_open(dir, false, &fd, &err);
        bool absent = rc == LEAT_NOT_FOUND;
        snprintf(near, sizeof near, "%s", dir);
        climb(near);
        if (absent)
            fd = open(near, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (absent && fd >= 0)
            rc = LEAT_OK;
    }
    if (rc == LEAT_OK)
        rc = leat_disk_folder_space(fd, &space, &err);
    const char *caveat = rc == LEAT_OK ? leat_disk_folder_caveat(fd) : NULL;
    if (fd >= 0)
        close(fd);
    uint64_t room = space.free > space.reserve ? space.free - space.reserve : 0;
    uint64_t most = d->settings->bytes < room / 2 ? d->settings->bytes : room / 2;
    double write_rate = 0;
    if (rc == LEAT_OK && most >= BLOCK) {
        write_rate = write_and_read(near, most, d->settings->time_ns, &read_rate, &err);
        rc = write_rate > 0 ? LEAT_OK : err.status;
    }
    if (rc != LEAT_OK) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "cache",
                          "Choose another folder, on a local disk: cache_dir= of the loader, or LEAT_CACHE_DIR", "%s",
                          err.text);
        return;
    }
    d->disk_rate = read_rate;
    bool slow = write_rate && (read_rate < RATE_SLOW || write_rate < RATE_SLOW);
    const char *advice = most < BLOCK || space.free < SPACE_MIN
                             ? "There is little room: a cache on another disk saves fetching things again"
                         : slow ? "A cache on a local NVMe disk would be faster"
                                : "";
    leat_findings_say(f, *advice || caveat ? LEAT_HEALTH_NOTE : LEAT_HEALTH_OK, "cache", advice,
                      "'%s'%s%s: %s free, writes %s, reads %s%s", dir, caveat ? " " : "", caveat ? caveat : "",
                      leat_format_size(space.free, free_text), leat_format_rate(write_rate, rates[0]),
                      leat_format_rate(read_rate, rates[1]), strcmp(dir, near) == 0 ? "" : "; it is made when needed");
    leat_findings_number(f, "free_bytes", (double)space.free);
    leat_findings_number(f, "write_bytes_per_s", write_rate);
    leat_findings_number(f, "read_bytes_per_s", read_rate);
}
