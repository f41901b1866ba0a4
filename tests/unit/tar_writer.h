/* A small writer of tar archives: what is wrong can be put in. */
#ifndef LEAT_TESTS_TAR_WRITER_H
#define LEAT_TESTS_TAR_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

struct tar_archive {
    struct leat_buf buf;
};

static inline void tar_pad(struct tar_archive *a)
{
    while (a->buf.len % 512)
        leat_buf_char(&a->buf, '\0');
}

static inline void tar_checksum(char *block)
{
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    block[155] = ' ';
}

static inline void tar_header(struct tar_archive *a, const char *name, char type, uint64_t size)
{
    char block[512] = {0};
    size_t n = strlen(name);
    memcpy(block, name, n < 100 ? n : 100);
    memcpy(block + 100, "0000644", 8);
    snprintf(block + 124, 12, "%011llo", (unsigned long long)size);
    block[156] = type;
    memcpy(block + 257, "ustar\00000", 8);
    tar_checksum(block);
    leat_buf_add(&a->buf, block, sizeof block);
}

static inline void tar_member(struct tar_archive *a, const char *name, char type, const char *data)
{
    tar_header(a, name, type, strlen(data));
    leat_buf_str(&a->buf, data);
    tar_pad(a);
}

static inline void tar_end(struct tar_archive *a)
{
    char zeros[1024] = {0};
    leat_buf_add(&a->buf, zeros, sizeof zeros);
}

static inline char *tar_last(struct tar_archive *a)
{
    return a->buf.data + a->buf.len - 512;
}

static inline struct tar_archive tar_begin(void)
{
    struct tar_archive a;
    leat_buf_init(&a.buf, 16 << 20);
    return a;
}

#endif
