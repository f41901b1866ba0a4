#include "ring/parcel.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/ring.h"

int leat_parcel_file(const void *data, size_t n)
{
    struct leat_error err;
    void *map;
    int fd;
    if (leat_shared_create("leat-text", n, &fd, &map, &err) != LEAT_OK)
        return -1;
    memcpy(map, data, n);
    munmap(map, n);
    return fd;
}

leat_status leat_parcel_send(int fd, const char *text, size_t n, const int *fds, size_t fds_n, struct leat_error *err)
{
    struct leat_buf b;
    if (n <= LEAT_WIRE_MAX || n > LEAT_PARCEL_MAX || fds_n)
        return leat_wire_send(fd, text, n, fds, fds_n, err);
    int parcel = leat_parcel_file(text, n);
    if (parcel < 0)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a message of %zu bytes", n);
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_LONG);
    leat_status rc = leat_buf_check(&b, "a message", err);
    if (rc == LEAT_OK)
        rc = leat_wire_send(fd, b.data, b.len, &parcel, 1, err);
    leat_buf_free(&b);
    close(parcel);
    return rc;
}

/* Sealed: it is memory, which is read without waiting and does not become less meanwhile. */
static leat_status read_parcel(int fd, struct leat_parcel *out, struct leat_error *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size < 1 || st.st_size > LEAT_PARCEL_MAX)
        return leat_fail(err, LEAT_INVALID, "a long message without a descriptor that holds one");
    char *bytes = malloc((size_t)st.st_size + 1);
    if (!bytes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a message");
    if (pread(fd, bytes, (size_t)st.st_size, 0) != (ssize_t)st.st_size) {
        free(bytes);
        return leat_fail(err, LEAT_IO, "a long message cannot be read");
    }
    bytes[st.st_size] = '\0';
    out->data = bytes;
    out->n = (size_t)st.st_size;
    return LEAT_OK;
}

leat_status leat_parcel_open(const char *packet, size_t n, int *fds, size_t *fds_n, struct leat_parcel *parcel,
                             enum leat_message_kind *kind, struct leat_part *out, struct leat_error *err)
{
    *parcel = (struct leat_parcel){0};
    leat_status rc = leat_message_open(packet, n, kind, out, err);
    if (rc != LEAT_OK || *kind != LEAT_MESSAGE_LONG)
        return rc;
    rc = read_parcel(*fds_n ? fds[0] : -1, parcel, err);
    while (*fds_n)
        close(fds[--*fds_n]);
    if (rc == LEAT_OK)
        rc = leat_message_open(parcel->data, parcel->n, kind, out, err);
    if (rc == LEAT_OK && *kind == LEAT_MESSAGE_LONG)
        rc = leat_fail(err, LEAT_INVALID, "a long message in a long message");
    if (rc != LEAT_OK) {
        free(parcel->data);
        *parcel = (struct leat_parcel){0};
    }
    return rc;
}
