/* Things worth telling that stop nothing: collected while reading, told by the code that talks to people. */
#ifndef LEAT_PLAN_NOTES_H
#define LEAT_PLAN_NOTES_H

#include <stddef.h>

#define LEAT_PLAN_NOTES_MAX 50

struct leat_plan_notes {
    char line[LEAT_PLAN_NOTES_MAX][400];
    size_t times[LEAT_PLAN_NOTES_MAX]; /* that the same was noted */
    size_t count;
    size_t more; /* beyond the maximum */
};

void leat_plan_note(struct leat_plan_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The end of a path, from the first slash on that leaves at most 60 letters: enough to know a file by. */
const char *leat_plan_tail(const char *path);

#endif
