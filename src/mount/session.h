/* A mount: files as the kernel asks for them, by libfuse3's low-level interface, which is loaded when it is needed.
 * Without libfuse3 at build time every call says so. */
#ifndef LEAT_MOUNT_SESSION_H
#define LEAT_MOUNT_SESSION_H

#include <stdbool.h>

#include "base/error.h"
#include "mount/files.h"

struct leat_session;

struct leat_session_opts {
    struct leat_files *files; /* borrowed */
    const char *dir;
    const char *source;       /* what `mount` and `df` show: the dataset's address */
    bool allow_other;         /* users other than this one may read */
    unsigned threads;         /* requests that are answered at a time */
    bool (*stop)(void *user); /* asked several times a second; true ends leat_session_run() */
    void *user;
};

/* Whether a mount is possible: library, device and folder, before anything is fetched. */
leat_status leat_session_check(const char *dir, struct leat_error *err);

/* Mounts. */
leat_status leat_session_open(const struct leat_session_opts *opts, struct leat_session **out, struct leat_error *err);

/* Answers until it is told to stop or somebody unmounts the folder. */
leat_status leat_session_run(struct leat_session *s, struct leat_error *err);

void leat_session_close(struct leat_session *s); /* unmounts; NULL is allowed */

#endif
