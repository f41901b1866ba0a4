#include "mount/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

leat_status leat_mount_check_device(const char *path, struct leat_error *err)
{
    if (access(path, R_OK | W_OK) == 0)
        return LEAT_OK;
    int why = errno;
    if (why == ENOENT)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "there is no %s: load the kernel's module (modprobe fuse), or start the container with "
                         "--device /dev/fuse --cap-add SYS_ADMIN",
                         path);
    if (why == EACCES || why == EPERM)
        return leat_fail(err, LEAT_DENIED,
                         "%s may not be used by this user: its mode should be 0666; a container needs --device "
                         "/dev/fuse --cap-add SYS_ADMIN",
                         path);
    return leat_fail_errno(err, why, "%s cannot be used", path);
}

leat_status leat_mount_check_folder(const char *dir, struct leat_error *err)
{
    DIR *d = opendir(dir);
    if (!d && errno == ENOTDIR)
        return leat_fail(err, LEAT_INVALID, "'%s' is not a folder", dir);
    if (!d && errno == ENOENT)
        return leat_fail(err, LEAT_NOT_FOUND, "there is no folder '%s' to mount on: make it first", dir);
    if (!d && errno == ENOTCONN)
        return leat_fail(err, LEAT_BUSY, "'%s' is a mount whose process has ended: 'fusermount3 -u %s' frees it", dir,
                         dir);
    if (!d)
        return leat_fail_errno(err, errno, "cannot open '%s'", dir);
    bool empty = true;
    const struct dirent *e;
    while (empty && (e = readdir(d)))
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(d);
    if (!empty)
        return leat_fail(err, LEAT_INVALID, "'%s' is not empty: what is in it could not be seen under a mount", dir);
    return LEAT_OK;
}

bool leat_mount_has_helper(void)
{
    const char *path = getenv("PATH");
    char file[4096];
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        size_t n = strcspn(at, ":");
        int length = snprintf(file, sizeof file, "%.*s/fusermount3", (int)n, at);
        if (n && length > 0 && (size_t)length < sizeof file && access(file, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}
