/* Folders and files for tests, and waiting. */
#ifndef LEAT_TESTS_UNIT_PLACE_H
#define LEAT_TESTS_UNIT_PLACE_H

#include <stdatomic.h>

#include "unit.h"

/* A test with an empty folder of its own, unit_place, which is removed afterwards with all that is in it. */
#define TEST_IN_PLACE(test) TEST_WITH(place_open, place_close, test)
extern char unit_place[64];
void place_open(void);
void place_close(void);
const char *place_path(const char *name); /* path_in() it */
void place_write(const char *name, const void *data, size_t n);

/* An empty folder in memory where there is one, its path without a slash at the end. */
const char *folder_make(char path[64]);
void folder_remove(const char *path); /* with all that is in it */

/* "folder/name", in one of a few buffers that are used in turn. */
const char *path_in(const char *folder, const char *name);

void write_file(const char *path, const void *data, size_t n);
void write_text(const char *path, const char *text);

/* Waits until the number is at least that: true; or a minute, which only ends a hang. */
bool wait_until(const atomic_uint *number, unsigned wanted);

#endif
