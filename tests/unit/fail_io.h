/* A disk that fails: pread, pwrite, fallocate, openat, ftruncate, fstatvfs, link, linkat, renameat2 and flock of the
 * code under test come through here.
 * It can also lose power: what was written since the start is put back to
 * what was there before, page by page and sector by sector, as if the kernel had not come to it. */
#ifndef LEAT_TESTS_FAIL_IO_H
#define LEAT_TESTS_FAIL_IO_H

#include <stdbool.h>
#include <stdint.h>

enum fail_io_call {
    FAIL_IO_READ,
    FAIL_IO_WRITE,
    FAIL_IO_PUNCH,
    FAIL_IO_MAKE,
    FAIL_IO_DIRECT,
    FAIL_IO_LINK,
    FAIL_IO_RENAME_NEW,
    FAIL_IO_LOCK,
    FAIL_IO_CALLS
};

/* From now on every call of this kind fails with this errno, after `good` ones that do not; 0: none fails. Only what
 * transfers at least `least` bytes counts. (MAKE: openat with O_CREAT; DIRECT: with O_DIRECT; RENAME_NEW:
 * renameat2.) */
void fail_io(enum fail_io_call call, int os_error, long good, uint64_t least);

/* Calls of this kind hang until they are let go. */
void fail_io_hang(enum fail_io_call call, bool hang);
unsigned fail_io_hanging(enum fail_io_call call); /* calls that hang, or are delayed, now */

/* Calls of this kind take at least this long. */
void fail_io_delay(enum fail_io_call call, uint64_t ns);

/* What fstatvfs says is free; UINT64_MAX: the truth. */
void fail_io_free_space(uint64_t bytes);

void fail_io_reset(void);

/* Begins to note what is overwritten. The cut puts some of it back, by the seed, and ends it. */
void fail_io_power_on(void);
void fail_io_power_cut(uint64_t seed);

#endif
