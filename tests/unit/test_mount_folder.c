/* Where a mount is not possible, and what is said then. */
#include <sys/stat.h>
#include <unistd.h>

#include "mount/folder.h"
#include "unit.h"

TEST(a_device_that_is_missing_or_closed_says_what_to_do)
{
    struct leat_error err;
    assert_fails(leat_mount_check_device("/dev/no-such-fuse", &err), err, LEAT_UNSUPPORTED, "modprobe fuse");
    assert_fails(leat_mount_check_device("/dev/null/fuse", &err), err, LEAT_NOT_FOUND, "/dev/null/fuse");
    assert_ok(leat_mount_check_device("/dev/null", &err), err);
    if (geteuid() == 0) /* who may do everything is not refused */
        return;
    assert_fails(leat_mount_check_device("/etc/shadow", &err), err, LEAT_DENIED, "--cap-add SYS_ADMIN");
}

TEST(only_an_empty_folder_is_mounted_on)
{
    struct leat_error err;
    char dir[] = "/tmp/leat-folder-XXXXXX";
    char below[64];
    assert_non_null(mkdtemp(dir));
    assert_ok(leat_mount_check_folder(dir, &err), err);
    snprintf(below, sizeof below, "%s/.hidden", dir);
    assert_fails(leat_mount_check_folder(below, &err), err, LEAT_NOT_FOUND, "make it first");
    FILE *file = fopen(below, "w");
    assert_non_null(file);
    fclose(file);
    assert_fails(leat_mount_check_folder(dir, &err), err, LEAT_INVALID, "is not empty");
    assert_fails(leat_mount_check_folder(below, &err), err, LEAT_INVALID, "is not a folder");
    unlink(below);
    rmdir(dir);
}

TEST(the_helper_is_looked_for_on_the_path)
{
    char dir[] = "/tmp/leat-path-XXXXXX";
    char file[64];
    const char *path = getenv("PATH");
    char *before = path ? strdup(path) : NULL;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "::/nowhere:%s", dir);
    setenv("PATH", file, 1);
    assert_false(leat_mount_has_helper());
    snprintf(file, sizeof file, "%s/fusermount3", dir);
    FILE *helper = fopen(file, "w");
    assert_non_null(helper);
    fclose(helper);
    chmod(file, 0755);
    assert_true(leat_mount_has_helper());
    unlink(file);
    rmdir(dir);
    if (before)
        setenv("PATH", before, 1);
    free(before);
}
