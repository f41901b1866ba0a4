/* The Python that is put in front of a training script (src/profile/observer), as the command
 * carries it: the script's own Python may have no Leat. */
#ifndef LEAT_PROFILE_OBSERVER_H
#define LEAT_PROFILE_OBSERVER_H

#include <stddef.h>

struct leat_observer_file {
    const char *name;
    const char *text;
    size_t n;
};

/* Ends with a file without a name. */
extern const struct leat_observer_file leat_observer_files[];

#endif
