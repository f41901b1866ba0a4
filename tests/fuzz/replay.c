/* Runs a fuzz target over files and the files of folders: the corpus as a test, with any compiler. */

#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    PROMISE(f);
    PROMISE(fseek(f, 0, SEEK_END) == 0);
    long n = ftell(f);
    PROMISE(n >= 0);
    rewind(f);
    uint8_t *data = malloc((size_t)n + 1);
    PROMISE(data);
    PROMISE(fread(data, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    uint8_t *exact = malloc(n ? (size_t)n : 1); /* no spare byte after the input */
    PROMISE(exact);
    memcpy(exact, data, (size_t)n);
    free(data);
    LLVMFuzzerTestOneInput(exact, (size_t)n);
    free(exact);
}

static unsigned replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    unsigned n = 0;
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            replay_file(path);
            n++;
        }
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    unsigned n = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISREG(st.st_mode)) {
            replay_file(argv[i]);
            n++;
        } else {
            n += replay_folder(argv[i]);
        }
    }
    printf("%u inputs\n", n);
    return n ? 0 : 1; /* a corpus that is not there is no passed test */
}
