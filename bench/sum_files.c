/* Reads files from front to back and prints XXH3 of all their bytes: what indexing tar shards cannot do without.
 *
 * sum_files FILE… */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"

#define AT_ONCE (128u << 10) /* as cat */

int main(int argc, char **argv)
{
    struct leat_xxh3 *h = leat_xxh3_open();
    char *data = malloc(AT_ONCE);
    if (!h || !data)
        return 1;
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
        ssize_t n = fd;
        while (n > 0 && (n = read(fd, data, AT_ONCE)) > 0)
            leat_xxh3_add(h, data, (size_t)n);
        if (fd < 0 || n < 0) {
            perror(argv[i]);
            return 1;
        }
        close(fd);
    }
    printf("%016" PRIx64 "\n", leat_xxh3_digest(h));
    leat_xxh3_close(h);
    free(data);
    return 0;
}
