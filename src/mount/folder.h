/* Whether a mount is possible here: the device, and the folder it goes on. Errors say what to do. */
#ifndef LEAT_MOUNT_FOLDER_H
#define LEAT_MOUNT_FOLDER_H

#include <stdbool.h>

#include "base/error.h"

leat_status leat_mount_check_device(const char *path, struct leat_error *err);

/* It must be there, be a folder, and be empty: what is in it could not be seen under a mount. */
leat_status leat_mount_check_folder(const char *dir, struct leat_error *err);

/* Whether fusermount3 is installed, which unmounts when this process dies without doing so. */
bool leat_mount_has_helper(void);

#endif
