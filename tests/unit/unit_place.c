#include "unit_place.h"

#include <ftw.h>
#include <unistd.h>

char unit_place[64];

void place_open(void)
{
    folder_make(unit_place);
}

void place_close(void)
{
    folder_remove(unit_place);
}

const char *place_path(const char *name)
{
    return path_in(unit_place, name);
}

void place_write(const char *name, const void *data, size_t n)
{
    write_file(place_path(name), data, n);
}

const char *folder_make(char path[64])
{
    snprintf(path, 64, "%s/leat-test-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void folder_remove(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *path_in(const char *folder, const char *name)
{
    static _Thread_local char paths[8][4096];
    static _Thread_local unsigned turn;
    char *path = paths[turn++ % COUNT(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

bool wait_until(const atomic_uint *number, unsigned wanted)
{
    useconds_t pause_us = 50;
    for (unsigned waited_us = 0; *number < wanted && waited_us < 60000000; waited_us += pause_us) {
        usleep(pause_us);
        if (pause_us < 1000)
            pause_us += pause_us / 4;
    }
    return *number >= wanted;
}
