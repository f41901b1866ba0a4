#include "cache/disk_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define RESERVE_MAX (1ull << 30)

leat_status leat_disk_default_dir(char out[LEAT_DISK_PATH], struct leat_error *err)
{
    const char *set = getenv("LEAT_CACHE_DIR");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n;
    if (set && *set)
        n = snprintf(out, LEAT_DISK_PATH, "%s", set);
    else if (xdg && xdg[0] == '/')
        n = snprintf(out, LEAT_DISK_PATH, "%s/leat", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, LEAT_DISK_PATH, "%s/.cache/leat", home);
    else
        return leat_fail(err, LEAT_INVALID, "no folder for the disk cache: HOME is not set; set LEAT_CACHE_DIR");
    if (n >= LEAT_DISK_PATH)
        return leat_fail(err, LEAT_INVALID, "the path of the cache folder is longer than %d bytes", LEAT_DISK_PATH - 1);
    return LEAT_OK;
}

static leat_status make_parents(const char *dir, struct leat_error *err)
{
    char path[LEAT_DISK_PATH];
    snprintf(path, sizeof path, "%s", dir);
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST && (!slash || access(path, F_OK) < 0))
            return leat_fail_errno(err, errno, "cannot make the cache folder '%s'", path);
        if (!slash)
            return LEAT_OK;
        *slash = '/';
    }
}

/* A link of our own is a user's way to say where things are; anybody else's is a trick. */
static bool led_astray(const char *dir)
{
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid();
}

leat_status leat_disk_folder_open(const char *dir, bool make, int *fd, struct leat_error *err)
{
    struct stat st;
    if (!dir || !*dir || strlen(dir) >= LEAT_DISK_PATH)
        return leat_fail(err, LEAT_INVALID, "the cache folder has no name, or one of %d bytes or more", LEAT_DISK_PATH);
    if (led_astray(dir))
        return leat_fail(err, LEAT_DENIED, "the cache folder '%s' is a symbolic link of another user", dir);
    leat_status rc = LEAT_OK;
    int found = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (found < 0 && errno == ENOENT && make) {
        rc = make_parents(dir, err);
        if (rc == LEAT_OK)
            found = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (rc == LEAT_OK && found < 0)
        rc = leat_fail_errno(err, errno, "cannot open the cache folder '%s'", dir);
    else if (rc == LEAT_OK && fstat(found, &st) < 0)
        rc = leat_fail_errno(err, errno, "cannot inspect the cache folder '%s'", dir);
    else if (rc == LEAT_OK && st.st_uid != geteuid())
        rc = leat_fail(err, LEAT_DENIED,
                       "the cache folder '%s' belongs to another user (%u): a cache is private, choose another folder",
                       dir, (unsigned)st.st_uid);
    else if (rc == LEAT_OK && (st.st_mode & 0077))
        rc = leat_fail(err, LEAT_DENIED,
                       "other users can reach the cache folder '%s': make it private (chmod 700 "
                       "'%s')",
                       dir, dir);
    if (rc != LEAT_OK) {
        if (found >= 0)
            close(found);
        return rc;
    }
    *fd = found;
    return LEAT_OK;
}

leat_status leat_disk_folder_space(int fd, struct leat_disk_folder_space *out, struct leat_error *err)
{
    struct statvfs v;
    if (fstatvfs(fd, &v) < 0)
        return leat_fail_errno(err, errno, "cannot find out the free space of the cache folder");
    out->total = (uint64_t)v.f_blocks * v.f_frsize;
    out->free = (uint64_t)v.f_bavail * v.f_frsize;
    out->reserve = out->total / 20 < RESERVE_MAX ? out->total / 20 : RESERVE_MAX;
    return LEAT_OK;
}

const char *leat_disk_folder_caveat(int fd)
{
    static const struct {
        unsigned type;
        const char *text;
    } known[] = {
    /* The numbers are those of statfs(2); <linux/magic.h> lacks some. */
#define NETWORK                                                                                                        \
    "is on a network file system: reading it may be slower than the bucket, and the machines that share it share its " \
    "space; a local disk is better"
        {0x6969, NETWORK},     /* NFS */
        {0xff534d42, NETWORK}, /* CIFS */
        {0xfe534d42, NETWORK}, /* SMB2 */
        {0x517b, NETWORK},     /* SMB */
        {0x0bd00bd0, NETWORK}, /* Lustre */
        {0x00c36400, NETWORK}, /* Ceph */
        {0x47504653, NETWORK}, /* GPFS */
        {0x19830326, NETWORK}, /* BeeGFS */
        {0x01021997, NETWORK}, /* 9p */
        {0x5346414f, NETWORK}, /* AFS */
        {0x01021994, "is in memory (tmpfs): what is cached there uses up memory and is gone after a restart"},
        {0x858458f6, "is in memory (ramfs): what is cached there uses up memory and is gone after a restart"},
        {0x794c7630, "is in a container's own layer (overlay): it goes with the container; mount a volume to keep it"},
    };
    struct statfs s;
    if (fstatfs(fd, &s) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if ((unsigned)s.f_type == known[i].type)
            return known[i].text;
    }
    return NULL;
}
