#include "dataset/tar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Where fields stand in a header: POSIX ustar. */
#define NAME_AT     0u
#define NAME_N      100u
#define SIZE_AT     124u
#define SIZE_N      12u
#define CHECKSUM_AT 148u
#define CHECKSUM_N  8u
#define TYPE_AT     156u
#define MAGIC_AT    257u
#define PREFIX_AT   345u
#define PREFIX_N    155u
#define PREFIX_STAR 131u /* star keeps times after a shorter prefix … */
#define STAR_AT     508u /* … and says so here: "tar\0" */

#define SIZE_MAX_TAR ((uint64_t)1 << 62) /* whatever an archive says, no object is as large */

enum state {
    AT_HEADER,
    IN_EXTRA, /* bytes of a header that says more about the next one */
    IN_DATA,
    IN_PAD,  /* up to the next block */
    AT_END,  /* one block of zeros was there */
    PAST_END /* two: the rest must be zeros */
};

/* What a pax header says. */
struct pax {
    struct leat_buf path;
    bool path_set;
    bool size_set;
    bool sparse;
    uint64_t size;
};

struct leat_tar {
    enum state state;
    uint64_t at;        /* bytes fed so far */
    bool seen;          /* a sound header: it is a tar archive */
    uint8_t block[512]; /* the header that is being gathered */
    size_t block_n;
    char extra_type;
    uint64_t left; /* of the data, the padding or the extra header's bytes */
    struct leat_buf extra;
    struct leat_buf long_name; /* GNU's */
    bool long_name_set;
    struct pax global;
    struct pax local;
    bool begun;     /* headers of the next member have come: first_header is set */
    uint64_t first; /* where the first of them begins */
    struct leat_buf name;
    struct leat_tar_member member;
};

static void reset_pax(struct pax *p)
{
    leat_buf_clear(&p->path);
    p->path_set = p->size_set = p->sparse = false;
}

leat_status leat_tar_open(struct leat_tar **out, struct leat_error *err)
{
    struct leat_tar *t = calloc(1, sizeof *t);
    if (!t)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for reading a tar archive");
    leat_buf_init(&t->extra, LEAT_TAR_EXTRA_MAX);
    leat_buf_init(&t->long_name, LEAT_TAR_NAME_MAX);
    leat_buf_init(&t->global.path, LEAT_TAR_NAME_MAX);
    leat_buf_init(&t->local.path, LEAT_TAR_NAME_MAX);
    leat_buf_init(&t->name, LEAT_TAR_NAME_MAX);
    *out = t;
    return LEAT_OK;
}

void leat_tar_close(struct leat_tar *t)
{
    if (!t)
        return;
    leat_buf_free(&t->extra);
    leat_buf_free(&t->long_name);
    leat_buf_free(&t->global.path);
    leat_buf_free(&t->local.path);
    leat_buf_free(&t->name);
    free(t);
}

const struct leat_tar_member *leat_tar_member(const struct leat_tar *t)
{
    return &t->member;
}

uint64_t leat_tar_left(const struct leat_tar *t)
{
    return t->state == IN_DATA ? t->left : 0;
}

bool leat_tar_ended(const struct leat_tar *t)
{
    return t->state == PAST_END;
}

/* Octal digits, with spaces before and a space or NUL after them; or, in GNU's way, the number itself, big-endian, with
 * the highest bit set. False when it is neither, is negative or too large. */
static bool read_number(const uint8_t *field, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    if (field[0] & 0x80) {
        v = field[0] & 0x7f; /* 0xff: negative, and too large below */
        for (i = 1; i < n; i++) {
            if (v >> 55)
                return false;
            v = v << 8 | field[i];
        }
        *out = v;
        return v < SIZE_MAX_TAR;
    }
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0'); /* 12 digits at most: 36 bits */
    if (i < n && field[i] != ' ' && field[i] != '\0')
        return false;
    *out = v;
    return true;
}

/* The sum of all bytes, the checksum's own taken as spaces. Some old programs added them as signed ones. */
static bool checksum_fits(const uint8_t *block)
{
    uint64_t said;
    uint32_t sum = 0;
    int32_t as_signed = 0;
    for (size_t i = 0; i < LEAT_TAR_BLOCK; i++) {
        uint8_t byte = i >= CHECKSUM_AT && i < CHECKSUM_AT + CHECKSUM_N ? ' ' : block[i];
        sum += byte;
        as_signed += (int8_t)byte;
    }
    return read_number(block + CHECKSUM_AT, CHECKSUM_N, &said) &&
           (said == sum || (as_signed >= 0 && said == (uint64_t)as_signed));
}

static bool all_zeros(const uint8_t *data, size_t n)
{
    return n == 0 || (data[0] == 0 && memcmp(data, data + 1, n - 1) == 0);
}

static leat_status no_tar(const uint8_t *block, struct leat_error *err)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *kind;
        const char *undo;
    } packers[] = {
        {"\x1f\x8b", 2, "gzip", "gunzip"},
        {"\x28\xb5\x2f\xfd", 4, "zstd", "zstd -d"},
        {"BZh", 3, "bzip2", "bunzip2"},
        {"\xfd"
         "7zXZ",
         5, "xz", "unxz"},
        {"\x04\x22\x4d\x18", 4, "lz4", "lz4 -d"},
    };
    for (size_t i = 0; i < sizeof packers / sizeof *packers; i++) {
        if (memcmp(block, packers[i].magic, packers[i].n) == 0)
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "it is compressed with %s, and samples cannot be read out of the middle of it: unpack it "
                             "(%s) and index the .tar",
                             packers[i].kind, packers[i].undo);
    }
    return leat_fail(err, LEAT_INVALID, "it is not a tar archive: there is no header at byte 0");
}

/* The name that the header itself has, where no other says one. */
static void header_name(const uint8_t *block, struct leat_buf *out)
{
    const char *name = (const char *)block + NAME_AT;
    const char *prefix = (const char *)block + PREFIX_AT;
    /* "ustar\0": POSIX. GNU's "ustar  \0" has other things where the prefix would be. */
    size_t prefix_max = memcmp(block + STAR_AT, "tar", 4) == 0 ? PREFIX_STAR : PREFIX_N;
    size_t prefix_n = memcmp(block + MAGIC_AT, "ustar", 6) == 0 ? strnlen(prefix, prefix_max) : 0;
    leat_buf_add(out, prefix, prefix_n);
    if (prefix_n)
        leat_buf_char(out, '/');
    leat_buf_add(out, name, strnlen(name, NAME_N));
}

/* One record, "LENGTH KEY=VALUE\n", the length counting all of it. */
static leat_status pax_record(struct leat_tar *t, struct pax *pax, const char *key, size_t key_n, const char *value,
                              size_t value_n, struct leat_error *err)
{
    if (key_n == 4 && memcmp(key, "path", 4) == 0) {
        if (memchr(value, '\0', value_n))
            return leat_fail(err, LEAT_CORRUPT, "the name in the pax header at byte %" PRIu64 " has a NUL in it",
                             t->first);
        leat_buf_clear(&pax->path);
        leat_buf_add(&pax->path, value, value_n);
        pax->path_set = value_n > 0; /* an empty value takes back what was said */
    } else if (key_n == 4 && memcmp(key, "size", 4) == 0) {
        uint64_t v = 0;
        size_t i = 0;
        for (; i < value_n && value[i] >= '0' && value[i] <= '9' && v < SIZE_MAX_TAR / 10; i++)
            v = v * 10 + (uint64_t)(value[i] - '0');
        if (i < value_n)
            return leat_fail(err, LEAT_CORRUPT, "the size in the pax header at byte %" PRIu64 " is not a number",
                             t->first);
        pax->size = v;
        pax->size_set = value_n > 0;
    } else if (key_n > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        pax->sparse = true;
    }
    return leat_buf_check(&pax->path, "a name in a tar archive", err);
}

static leat_status bad_pax(const struct leat_tar *t, struct leat_error *err)
{
    return leat_fail(err, LEAT_CORRUPT, "the pax header at byte %" PRIu64 " is damaged", t->first);
}

static leat_status read_pax(struct leat_tar *t, struct pax *pax, struct leat_error *err)
{
    const char *p = t->extra.data;
    size_t left = t->extra.len;
    while (left && *p) { /* some writers end with NULs */
        size_t length = 0;
        size_t i = 0;
        for (; i < left && i < 8 && p[i] >= '0' && p[i] <= '9'; i++)
            length = length * 10 + (size_t)(p[i] - '0');
        if (i == 0 || i >= left || p[i] != ' ' || length > left || length < i + 3 || p[length - 1] != '\n')
            return bad_pax(t, err);
        const char *key = p + i + 1;
        const char *equals = memchr(key, '=', length - i - 2);
        if (!equals)
            return bad_pax(t, err);
        size_t value_n = (size_t)(p + length - 1 - (equals + 1));
        leat_status rc = pax_record(t, pax, key, (size_t)(equals - key), equals + 1, value_n, err);
        if (rc != LEAT_OK)
            return rc;
        p += length;
        left -= length;
    }
    return LEAT_OK;
}

/* All bytes of a header that says more about the next one are there. */
static leat_status end_extra(struct leat_tar *t, struct leat_error *err)
{
    leat_status rc = leat_buf_check(&t->extra, "a header in a tar archive", err);
    if (rc != LEAT_OK)
        return rc;
    switch (t->extra_type) {
    case 'x': /* several before one member add up, and the last word counts; begin_member() forgets them */
    case 'X':
        return read_pax(t, &t->local, err);
    case 'g':
        return read_pax(t, &t->global, err);
    case 'L':
        leat_buf_clear(&t->long_name);
        leat_buf_add(&t->long_name, t->extra.data, strnlen(t->extra.data, t->extra.len));
        t->long_name_set = true;
        return leat_buf_check(&t->long_name, "a name in a tar archive", err);
    default: /* 'K': where a link leads does not matter here */
        return LEAT_OK;
    }
}

static enum leat_tar_kind kind_of(char type, const char *name, size_t name_n)
{
    switch (type) {
    case '1':
    case '2':
        return LEAT_TAR_LINK;
    case '3':
    case '4':
    case '5':
    case '6':
    case 'V': /* the label of a volume */
    case 'D': /* GNU's list of what a folder held: has bytes */
        return LEAT_TAR_FOLDER;
    default: /* '0', NUL, '7'; POSIX has unknown ones read as files. Old archives end folders' names with a slash. */
        return name_n && name[name_n - 1] == '/' ? LEAT_TAR_FOLDER : LEAT_TAR_FILE;
    }
}

/* The header of a member; what was said before it is used up. */
static leat_status begin_member(struct leat_tar *t, uint64_t size, struct leat_error *err)
{
    char type = (char)t->block[TYPE_AT];
    leat_buf_clear(&t->name);
    if (t->local.path_set)
        leat_buf_add(&t->name, t->local.path.data, t->local.path.len);
    else if (t->long_name_set)
        leat_buf_add(&t->name, t->long_name.data, t->long_name.len);
    else if (t->global.path_set)
        leat_buf_add(&t->name, t->global.path.data, t->global.path.len);
    else
        header_name(t->block, &t->name);
    leat_status rc = leat_buf_check(&t->name, "a name in a tar archive", err);
    if (rc != LEAT_OK)
        return rc;
    if (type == 'S' || t->local.sparse || t->global.sparse)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "'%.200s' at byte %" PRIu64 " is a sparse file: write the archive without --sparse",
                         t->name.data, t->first);
    if (type == 'M' || type == 'N')
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "'%.200s' at byte %" PRIu64 " is part of an archive in several volumes: join them first",
                         t->name.data, t->first);
    if (t->local.size_set || t->global.size_set)
        size = t->local.size_set ? t->local.size : t->global.size;
    enum leat_tar_kind kind = kind_of(type, t->name.data, t->name.len);
    if (kind == LEAT_TAR_LINK || (kind == LEAT_TAR_FOLDER && type != 'D'))
        size = 0;
    t->member = (struct leat_tar_member){
        .kind = kind, .name = t->name.data, .name_n = t->name.len, .header = t->first, .offset = t->at, .size = size};
    reset_pax(&t->local);
    t->long_name_set = false;
    t->begun = false;
    t->left = size;
    t->state = IN_DATA;
    return LEAT_OK;
}

/* A whole block stands where a header may. */
static leat_status take_header(struct leat_tar *t, bool *member, struct leat_error *err)
{
    uint64_t here = t->at - LEAT_TAR_BLOCK;
    uint64_t size;
    *member = false;
    if (all_zeros(t->block, LEAT_TAR_BLOCK)) {
        if (t->begun)
            return leat_fail(err, LEAT_CORRUPT, "the header at byte %" PRIu64 " is not followed by its member",
                             t->first);
        t->state = t->state == AT_END ? PAST_END : AT_END;
        return LEAT_OK;
    }
    if (!checksum_fits(t->block))
        return !t->seen && here == 0 ? no_tar(t->block, err)
                                     : leat_fail(err, LEAT_CORRUPT,
                                                 "there is no valid header at byte %" PRIu64
                                                 ": the archive is damaged, or was cut before it",
                                                 here);
    if (t->state == AT_END)
        return leat_fail(err, LEAT_CORRUPT,
                         "a block of zeros at byte %" PRIu64
                         " and another member after it: archives were joined end to "
                         "end; index them one by one, or join them with tar --concatenate",
                         here - LEAT_TAR_BLOCK);
    t->seen = true;
    if (!t->begun)
        t->first = here;
    t->begun = true;
    if (!read_number(t->block + SIZE_AT, SIZE_N, &size))
        return leat_fail(err, LEAT_CORRUPT, "the header at byte %" PRIu64 " has a size that is not a number", here);
    char type = (char)t->block[TYPE_AT];
    if (!type || !strchr("xXgLK", type)) {
        *member = true;
        return begin_member(t, size, err);
    }
    if (size > LEAT_TAR_EXTRA_MAX)
        return leat_fail(err, LEAT_LIMIT, "the header at byte %" PRIu64 " says more than %u bytes about a member", here,
                         LEAT_TAR_EXTRA_MAX);
    t->extra_type = type;
    t->left = size;
    leat_buf_clear(&t->extra);
    t->state = IN_EXTRA;
    return LEAT_OK;
}

static uint64_t padding(uint64_t at)
{
    return (LEAT_TAR_BLOCK - at % LEAT_TAR_BLOCK) % LEAT_TAR_BLOCK;
}

/* Uses up to n bytes in the state it is in; *member: a member's headers are complete. */
static leat_status step(struct leat_tar *t, const uint8_t *data, size_t n, size_t *used, bool *member,
                        struct leat_error *err)
{
    size_t take = n;
    switch (t->state) {
    case AT_HEADER:
    case AT_END:
        if (take > LEAT_TAR_BLOCK - t->block_n)
            take = LEAT_TAR_BLOCK - t->block_n;
        memcpy(t->block + t->block_n, data, take);
        t->block_n += take;
        t->at += take;
        *used = take;
        if (t->block_n < LEAT_TAR_BLOCK)
            return LEAT_OK;
        t->block_n = 0;
        return take_header(t, member, err);
    case PAST_END:
        if (!all_zeros(data, n))
            return leat_fail(err, LEAT_CORRUPT,
                             "there is something after the end of the archive, beyond byte %" PRIu64
                             ": if archives were joined end to end, index them one by one, or join them with tar "
                             "--concatenate",
                             t->at);
        break;
    case IN_EXTRA:
    case IN_DATA:
    case IN_PAD:
        take = t->left < n ? (size_t)t->left : n;
        if (t->state == IN_EXTRA)
            leat_buf_add(&t->extra, data, take);
        t->left -= take;
        break;
    }
    t->at += take;
    *used = take;
    return LEAT_OK;
}

/* Goes from one state to the next while nothing is left of this one. */
static leat_status settle(struct leat_tar *t, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (t->state == IN_EXTRA && t->left == 0)
        rc = end_extra(t, err);
    if ((t->state == IN_DATA || t->state == IN_EXTRA) && t->left == 0) {
        t->left = padding(t->at);
        t->state = IN_PAD;
    }
    if (t->state == IN_PAD && t->left == 0)
        t->state = AT_HEADER;
    return rc;
}

leat_status leat_tar_feed(struct leat_tar *t, const void *data, size_t n, size_t *used, enum leat_tar_event *event,
                          struct leat_error *err)
{
    const uint8_t *bytes = data;
    size_t done = 0;
    leat_status rc = settle(t, err);
    while (rc == LEAT_OK && done < n) {
        bool member = false;
        bool was_data = t->state == IN_DATA;
        size_t now = 0;
        rc = step(t, bytes + done, n - done, &now, &member, err);
        if (rc != LEAT_OK)
            break;
        done += now;
        if (member || was_data) {
            *used = done;
            *event = member ? LEAT_TAR_MEMBER : LEAT_TAR_DATA;
            return LEAT_OK;
        }
        rc = settle(t, err);
    }
    *used = done;
    *event = LEAT_TAR_MORE;
    return rc;
}

leat_status leat_tar_finish(const struct leat_tar *t, struct leat_error *err)
{
    if (t->at == 0)
        return leat_fail(err, LEAT_INVALID, "it is empty: not a tar archive");
    if (!t->seen && t->at < LEAT_TAR_BLOCK)
        return leat_fail(err, LEAT_INVALID, "it is not a tar archive: it has %" PRIu64 " bytes", t->at);
    if (t->state == IN_DATA && t->left)
        return leat_fail(err, LEAT_CORRUPT,
                         "it ends at byte %" PRIu64 " in the middle of '%.200s', which has %" PRIu64
                         " bytes from byte %" PRIu64 " on: it was cut off; write or copy it again",
                         t->at, t->member.name, t->member.size, t->member.offset);
    if (t->state == PAST_END || (t->state == AT_END && t->block_n == 0))
        return LEAT_OK;
    return leat_fail(err, LEAT_CORRUPT,
                     "it ends at byte %" PRIu64 " without the mark that ends an archive (two blocks of zeros): it was "
                     "cut off, or its writer was not closed; write or copy it again",
                     t->at);
}

bool leat_tar_is_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');
    if (!dot || dot == base || !dot[1])
        return false;
    if (strncmp(name, "__", 2) != 0)
        return true;
    size_t first = strcspn(name, "/"); /* "__info__/…" are notes to readers */
    return first < 4 || memcmp(name + first - 2, "__", 2) != 0;
}
