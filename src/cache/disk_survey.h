/* A cache folder seen from outside, by a person's command and not by an agent: nothing is taken over. */
#ifndef LEAT_CACHE_DISK_SURVEY_H
#define LEAT_CACHE_DISK_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct leat_disk_segment_info {
    const char *file;
    uint64_t chunks;
    uint64_t bytes;     /* of the chunks */
    uint64_t allocated; /* of the disk */
    int64_t made_s;     /* seconds since 1970 */
    int64_t changed_s;
    bool in_use;
    uint32_t owner; /* process id of the agent that uses it */
    bool damaged;   /* or of another release: the numbers of chunks are not known */
};

/* Calls `each` for every segment. LEAT_NOT_FOUND when there is no such folder. */
leat_status leat_disk_survey(const char *dir, void (*each)(void *user, const struct leat_disk_segment_info *info),
                             void *user, struct leat_error *err);

struct leat_disk_cleared {
    uint64_t removed; /* segments */
    uint64_t freed;   /* bytes */
    uint64_t kept;    /* segments in use */
    uint64_t kept_bytes;
};

/* Removes the segments that no living agent uses; with `force` all of them: agents notice and go on without. Other
 * files in the folder are left alone. */
leat_status leat_disk_clear(const char *dir, bool force, struct leat_disk_cleared *out, struct leat_error *err);

#endif
