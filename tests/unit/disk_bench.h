/* What the tests of the disk cache share: a folder, chunks that are named by their content, and operations waited for.
 */
#ifndef LEAT_TESTS_DISK_BENCH_H
#define LEAT_TESTS_DISK_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/disk.h"

/* A new private folder under $TMPDIR; and away with it and all that is in it. */
void disk_folder(char out[64]);
void disk_folder_remove(const char *folder);

/* Opens it with this budget (0: 1 GiB) or fails the test. */
struct leat_disk *disk_open(const char *folder, uint64_t budget);

/* The seed-th chunk: this many bytes that follow from the seed, and their SHA-256. The caller frees it. */
uint8_t *disk_chunk(uint32_t seed, uint64_t bytes, uint8_t name[32]);

/* Submits and waits. `data` of a read becomes what was read. */
leat_status disk_run(struct leat_disk *d, enum leat_disk_kind kind, const uint8_t name[32], void *data, uint64_t bytes,
                     struct leat_error *err);

leat_status disk_write_seed(struct leat_disk *d, uint32_t seed, uint64_t bytes, struct leat_error *err);

/* Reads and compares with what it must be; fails the test when wrong bytes come with LEAT_OK. */
leat_status disk_read_seed(struct leat_disk *d, uint32_t seed, uint64_t bytes, struct leat_error *err);

void disk_remove_seed(struct leat_disk *d, uint32_t seed, uint64_t bytes);

uint32_t disk_count(struct leat_disk *d); /* chunks that each() shows */

/* Reads every chunk that is shown and compares its SHA-256 with its name; fails the test at a wrong byte. Returns how
 * many were right. */
uint32_t disk_verify(struct leat_disk *d);

/* The only, or first, segment file of the folder. */
void disk_segment_file(const char *folder, char out[128]);
unsigned disk_segment_count(const char *folder);

uint64_t disk_allocated(const char *folder); /* bytes that the segments take on the disk */

/* Waits until it holds, a minute at the most. */
bool disk_wait(bool (*holds)(void *user), void *user);

#endif
