#include "store/access.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "net/http.h"
#include "store/apart.h"
#include "store/aws_keys.h"
#include "store/kind.h"

/* Bytes: fields, each a tag (u8), flags (u8), the number of its bytes (u32) and the bytes. A place begins an entry.
 * Flag 1: who does not know the tag must not go on. Tags are never used again for something else. */
#define FIELD_HEAD 6u
#define NEEDED     1u

enum tag {
    PLACE = 1,
    ENDPOINT,
    ENDPOINT_FROM,
    REGION,
    KEY_ID,
    SECRET,
    TOKEN,
    KEYS_FROM,
    EXPIRES,
    SINCE,
    HEADERS,
    CA_BUNDLE,
    ADDRESSING,
    HEDGE,
    APART
};

enum type { TEXT, WORDS, NUMBER, CHOICE }; /* char *, char[80], uint64_t, an enum */
enum about { THE_PLACE, THE_KEYS, PEOPLE };

#define WORDS_MAX sizeof((struct leat_aws *)0)->keys_from
#define AT(field) offsetof(struct leat_aws, field)

static const struct row {
    enum tag tag;
    enum type type;
    enum about about;
    size_t at;     /* in struct leat_aws */
    uint32_t most; /* of a choice */
} rows[] = {
    {ENDPOINT, TEXT, THE_PLACE, AT(endpoint_url), 0},
    {ENDPOINT_FROM, WORDS, PEOPLE, AT(endpoint_from), 0},
    {REGION, TEXT, THE_PLACE, AT(region), 0},
    {KEY_ID, TEXT, THE_KEYS, AT(access_key), 0},
    {SECRET, TEXT, THE_KEYS, AT(secret_key), 0},
    {TOKEN, TEXT, THE_KEYS, AT(session_token), 0},
    {KEYS_FROM, WORDS, PEOPLE, AT(keys_from), 0},
    {EXPIRES, NUMBER, PEOPLE, AT(expires_s), 0},
    {SINCE, NUMBER, PEOPLE, AT(since_s), 0},
    {HEADERS, TEXT, THE_PLACE, AT(headers), 0},
    {CA_BUNDLE, TEXT, THE_PLACE, AT(ca_bundle), 0},
    {ADDRESSING, CHOICE, THE_PLACE, AT(addressing), LEAT_ADDRESSING_VIRTUAL},
    {HEDGE, CHOICE, THE_PLACE, AT(hedge), LEAT_HEDGE_OFF},
};

#define ROWS (sizeof rows / sizeof *rows)

static_assert(sizeof(enum leat_store_addressing) == 4 && sizeof(enum leat_store_hedge) == 4, "choices are 4 bytes");
static_assert(sizeof((struct leat_aws *)0)->endpoint_from == WORDS_MAX, "words are of one size");

enum apart {
    COMMON, /* a place of its kind */
    NAMED,  /* a store by itself, and nothing else is known */
    KNOWN   /* a store by itself */
};

struct entry {
    char place[LEAT_ACCESS_PLACE];
    enum apart apart;
    struct leat_aws aws;
};

struct leat_access {
    struct leat_apart *sections; /* of the process that resolves; NULL: none */
    size_t n;
    struct entry entries[LEAT_ACCESS_MAX]; /* by their places */
};

leat_status leat_access_new(struct leat_access **out, struct leat_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for the settings of stores");
}

void leat_access_free(struct leat_access *access)
{
    for (size_t i = 0; access && i < access->n; i++)
        leat_aws_free(&access->entries[i].aws);
    if (access)
        leat_apart_free(access->sections);
    free(access);
}

/* The entry of a place; *at: where it is, or belongs. */
static const struct entry *find(const struct leat_access *access, const char *place, size_t *at)
{
    size_t i = 0;
    while (i < access->n && strcmp(access->entries[i].place, place) < 0)
        i++;
    if (at)
        *at = i;
    return i < access->n && strcmp(access->entries[i].place, place) == 0 ? &access->entries[i] : NULL;
}

/* The one for the store by itself. */
static const struct entry *find_apart(const struct leat_access *access, const struct leat_url *url)
{
    const struct entry *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < access->n; i++) {
        const struct entry *e = &access->entries[i];
        size_t n = e->apart == COMMON ? 0 : leat_apart_fits(e->place, url);
        if (n > longest)
            best = e;
        longest = n > longest ? n : longest;
    }
    return best;
}

void leat_access_place(const struct leat_access *access, const struct leat_url *url, char out[LEAT_ACCESS_PLACE])
{
    const struct leat_kind *kind = leat_kind(url->scheme);
    const struct entry *e = find_apart(access, url);
    size_t n = kind->place ? kind->place(url->host) : 0;
    if (e)
        snprintf(out, LEAT_ACCESS_PLACE, "%s", e->place);
    else
        snprintf(out, LEAT_ACCESS_PLACE, "%s://%.*s", leat_scheme_name(url->scheme), (int)n, url->host);
}

/* NULL where nothing but the name is known. */
static const struct entry *find_known(const struct leat_access *access, const char *place)
{
    const struct entry *e = find(access, place, NULL);
    return e && e->apart != NAMED ? e : NULL;
}

static const struct entry *find_url(const struct leat_access *access, const struct leat_url *url)
{
    char place[LEAT_ACCESS_PLACE];
    leat_access_place(access, url, place);
    return find_known(access, place);
}

/* Takes *aws over, also when it fails. */
static leat_status put(struct leat_access *access, const char *place, enum apart apart, struct leat_aws *aws,
                       struct leat_error *err)
{
    size_t at;
    bool known = find(access, place, &at) != NULL;
    struct entry *e = &access->entries[at];
    if (!known && access->n == LEAT_ACCESS_MAX) {
        leat_aws_free(aws);
        return leat_fail(err, LEAT_LIMIT, "a job reaches at most %u kinds of stores and accounts", LEAT_ACCESS_MAX);
    }
    if (known) {
        leat_aws_free(&e->aws);
    } else {
        memmove(e + 1, e, (access->n - at) * sizeof *e);
        access->n++;
    }
    snprintf(e->place, sizeof e->place, "%s", place);
    e->apart = apart;
    e->aws = *aws;
    return LEAT_OK;
}

leat_status leat_access_begin(struct leat_access **out, struct leat_error *err)
{
    struct leat_access *access;
    leat_status rc = leat_access_new(&access, err);
    if (rc == LEAT_OK)
        rc = leat_apart_read(&access->sections, err);
    for (size_t i = 0; rc == LEAT_OK && i < leat_apart_count(access->sections); i++)
        rc = put(access, leat_apart_name(access->sections, i), NAMED, &(struct leat_aws){0}, err);
    if (rc == LEAT_OK)
        *out = access;
    else
        leat_access_free(access);
    return rc;
}

leat_status leat_access_resolve(struct leat_access *access, const struct leat_url *url,
                                const struct leat_store_opts *opts, bool fresh, struct leat_error *err)
{
    struct leat_store_opts o = *opts;
    struct leat_aws aws = {0};
    char place[LEAT_ACCESS_PLACE];
    if (leat_store_url_can(url, LEAT_STORE_LOCAL))
        return LEAT_OK; /* there is nothing to know */
    leat_access_place(access, url, place);
    leat_status rc = access->sections ? leat_apart_opts(access->sections, url, opts, &o, err) : LEAT_OK;
    if (rc != LEAT_OK)
        return rc;
    aws.addressing = o.addressing;
    const char *bundle = o.ca_bundle ? o.ca_bundle : leat_http_ca_bundle();
    if (leat_kind(url->scheme)->keys)
        rc = leat_kind_keys(url, &o, fresh, &aws, err);
    if (rc == LEAT_OK)
        rc = leat_kind_headers(url->scheme, &o, &aws.headers, err);
    if (rc == LEAT_OK && bundle && !(aws.ca_bundle = strdup(bundle)))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the settings of stores");
    aws.hedge = o.hedge;
    if (rc == LEAT_OK)
        return put(access, place, o.apart ? KNOWN : COMMON, &aws, err);
    leat_aws_free(&aws);
    return rc;
}

/* Bytes */

static void add_field(struct leat_buf *out, enum tag tag, bool needed, const void *data, size_t n)
{
    uint8_t head[FIELD_HEAD];
    struct leat_writer w = leat_writer(head, sizeof head);
    leat_write_u8(&w, (uint8_t)tag);
    leat_write_u8(&w, needed ? NEEDED : 0);
    leat_write_u32(&w, (uint32_t)n);
    leat_buf_add(out, head, sizeof head);
    leat_buf_add(out, data, n);
}

/* Fields that have nothing to say are left out. */
static void add_row(struct leat_buf *out, const struct row *row, const struct leat_aws *aws)
{
    const char *at = (const char *)aws + row->at;
    const char *text = at;
    uint8_t bytes[8];
    uint64_t number = 0;
    uint32_t choice;
    if (row->type == TEXT)
        memcpy(&text, at, sizeof text);
    if (row->type == NUMBER)
        memcpy(&number, at, sizeof number);
    if (row->type == CHOICE) {
        memcpy(&choice, at, sizeof choice);
        number = choice;
    }
    leat_put_u64(bytes, number);
    if (row->type == NUMBER || row->type == CHOICE)
        text = number ? (const char *)bytes : NULL;
    if (text && (row->type != WORDS || *text))
        add_field(out, row->tag, row->about != PEOPLE, text, text == (const char *)bytes ? 8 : strlen(text));
}

static void add_place(struct leat_buf *out, const struct entry *e)
{
    const uint8_t apart = (uint8_t)e->apart;
    add_field(out, PLACE, true, e->place, strlen(e->place));
    if (apart)
        add_field(out, APART, true, &apart, 1);
}

static void add_entry(struct leat_buf *out, const struct entry *e)
{
    add_place(out, e);
    for (size_t i = 0; i < ROWS; i++)
        add_row(out, &rows[i], &e->aws);
}

void leat_access_write(const struct leat_access *access, struct leat_buf *out)
{
    for (size_t i = 0; i < access->n; i++)
        add_entry(out, &access->entries[i]);
}

static const struct row *find_row(uint32_t tag)
{
    for (size_t i = 0; i < ROWS; i++) {
        if ((uint32_t)rows[i].tag == tag)
            return &rows[i];
    }
    return NULL;
}

static leat_status damaged(struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "the settings of stores are damaged");
}

static leat_status take_row(const struct row *row, const uint8_t *data, size_t n, struct leat_aws *aws,
                            struct leat_error *err)
{
    char *at = (char *)aws + row->at;
    char *text = NULL;
    if (row->type == NUMBER || row->type == CHOICE) {
        uint64_t number = n == 8 ? leat_get_u64(data) : UINT64_MAX;
        uint32_t choice = (uint32_t)number;
        if (n != 8 || (row->type == CHOICE && number > row->most))
            return damaged(err);
        memcpy(at, row->type == NUMBER ? (const void *)&number : &choice, row->type == NUMBER ? 8 : 4);
        return LEAT_OK;
    }
    if (memchr(data, '\0', n) || (row->type == WORDS && n >= WORDS_MAX))
        return damaged(err);
    if (row->type == WORDS) {
        memcpy(at, data, n);
        at[n] = '\0';
        return LEAT_OK;
    }
    memcpy(&text, at, sizeof text);
    if (text)
        return damaged(err); /* said twice */
    text = leat_bytes_text((const char *)data, n);
    memcpy(at, &text, sizeof text);
    return text ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for the settings of stores");
}

/* Another entry, which must come after those that are there. */
static leat_status begin_entry(struct leat_access *access, const uint8_t *data, size_t n, struct leat_error *err)
{
    struct entry *e = &access->entries[access->n];
    if (access->n == LEAT_ACCESS_MAX || !n || n >= sizeof e->place || memchr(data, '\0', n))
        return damaged(err);
    memcpy(e->place, data, n);
    e->place[n] = '\0';
    if (access->n && strcmp(e->place, e[-1].place) <= 0)
        return damaged(err);
    access->n++;
    return LEAT_OK;
}

static leat_status take_apart(struct leat_access *access, const uint8_t *data, size_t n, struct leat_error *err)
{
    struct entry *e = access->n ? &access->entries[access->n - 1] : NULL;
    if (!e || e->apart != COMMON || n != 1 || (data[0] != NAMED && data[0] != KNOWN))
        return damaged(err);
    e->apart = (enum apart)data[0];
    return LEAT_OK;
}

static leat_status read_field(struct leat_reader *r, struct leat_access *access, struct leat_error *err)
{
    uint32_t tag = leat_read_u8(r);
    bool needed = leat_read_u8(r) & NEEDED;
    uint32_t n = leat_read_u32(r);
    const uint8_t *data = leat_read_bytes(r, n);
    const struct row *row = find_row(tag);
    if (r->bad)
        return damaged(err);
    if (tag == PLACE)
        return begin_entry(access, data, n, err);
    if (tag == APART)
        return take_apart(access, data, n, err);
    if (!row && needed)
        return leat_fail(err, LEAT_VERSION,
                         "the settings of stores have a part (%u) that leat of this version does not know", tag);
    if (!access->n)
        return damaged(err);
    return row ? take_row(row, data, n, &access->entries[access->n - 1].aws, err) : LEAT_OK;
}

leat_status leat_access_read(const void *data, size_t n, struct leat_access **out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_access *access;
    if (n > LEAT_ACCESS_BYTES)
        return leat_fail(err, LEAT_LIMIT, "the settings of stores have %zu bytes, more than %u", n, LEAT_ACCESS_BYTES);
    leat_status rc = leat_access_new(&access, err);
    while (rc == LEAT_OK && leat_reader_left(&r))
        rc = read_field(&r, access, err);
    for (size_t i = 0; rc == LEAT_OK && i < access->n; i++) {
        if (!access->entries[i].aws.access_key != !access->entries[i].aws.secret_key)
            rc = damaged(err);
        else
            rc = leat_aws_check_keys(&access->entries[i].aws, err); /* they become lines of requests */
    }
    if (rc == LEAT_OK)
        *out = access;
    else
        leat_access_free(access);
    return rc;
}

static leat_status copy_entry(const struct entry *e, struct leat_access *to, struct leat_error *err)
{
    struct leat_aws aws = {0};
    leat_status rc = leat_aws_copy(&e->aws, &aws, err);
    return rc == LEAT_OK ? put(to, e->place, e->apart, &aws, err) : rc;
}

leat_status leat_access_copy(const struct leat_access *access, struct leat_access **out, struct leat_error *err)
{
    struct leat_access *copy;
    leat_status rc = leat_access_new(&copy, err);
    for (size_t i = 0; rc == LEAT_OK && i < access->n; i++)
        rc = copy_entry(&access->entries[i], copy, err);
    if (rc == LEAT_OK)
        *out = copy;
    else
        leat_access_free(copy);
    return rc;
}

leat_status leat_access_add(struct leat_access *access, const struct leat_access *from, const struct leat_url *url,
                            struct leat_error *err)
{
    const struct entry *e = find_url(from, url);
    return e ? copy_entry(e, access, err) : LEAT_OK;
}

/* Looking */

bool leat_access_has(const struct leat_access *access, const struct leat_url *url)
{
    return leat_store_url_can(url, LEAT_STORE_LOCAL) || find_url(access, url);
}

size_t leat_access_count(const struct leat_access *access)
{
    return access->n;
}

const char *leat_access_name(const struct leat_access *access, size_t i)
{
    return access->entries[i].place;
}

const char *leat_access_from(const struct leat_access *access, size_t i)
{
    return access->entries[i].aws.access_key ? access->entries[i].aws.keys_from : "";
}

const char *leat_access_endpoint(const struct leat_access *access, size_t i)
{
    return access->entries[i].aws.endpoint_url;
}

const char *leat_access_endpoint_of(const struct leat_access *access, const struct leat_url *url)
{
    const struct entry *e = leat_store_url_can(url, LEAT_STORE_LOCAL) ? NULL : find_url(access, url);
    return e ? e->aws.endpoint_url : NULL;
}

uint64_t leat_access_expires(const struct leat_access *access, size_t i)
{
    return access->entries[i].aws.expires_s;
}

bool leat_access_may_hedge(const struct leat_access *access)
{
    for (size_t i = 0; i < access->n; i++)
        if (access->entries[i].aws.hedge == LEAT_HEDGE_OFF)
            return false;
    return true;
}

static bool differs(const char *a, const char *b)
{
    return !a != !b || (a && strcmp(a, b) != 0);
}

static bool same_keys(const struct leat_aws *a, const struct leat_aws *b)
{
    return !differs(a->access_key, b->access_key) && !differs(a->secret_key, b->secret_key) &&
           !differs(a->session_token, b->session_token);
}

bool leat_access_covered(const struct leat_access *access, const struct leat_access *from)
{
    bool covered = true;
    for (size_t i = 0; covered && i < access->n; i++) {
        const struct entry *e = find_known(from, access->entries[i].place);
        covered = access->entries[i].apart == NAMED || (e && same_keys(&access->entries[i].aws, &e->aws));
    }
    return covered;
}

enum leat_access_renewal leat_access_renew(struct leat_access *access, size_t i, const struct leat_access *from)
{
    struct leat_aws *mine = &access->entries[i].aws;
    const struct entry *e = find_known(from, access->entries[i].place);
    struct leat_aws theirs = {0};
    if (access->entries[i].apart == NAMED || !e || leat_aws_copy(&e->aws, &theirs, NULL) != LEAT_OK)
        return LEAT_ACCESS_NONE;
    bool others = !same_keys(mine, &theirs);
    leat_aws_swap_keys(mine, &theirs);
    leat_aws_free(&theirs);
    return others ? LEAT_ACCESS_OTHERS : LEAT_ACCESS_SAME;
}

bool leat_access_digest(const struct leat_access *access, uint8_t out[LEAT_SHA256_SIZE])
{
    struct leat_buf b;
    leat_buf_init(&b, 2 * LEAT_ACCESS_BYTES);
    for (size_t i = 0; i < access->n; i++) {
        add_place(&b, &access->entries[i]);
        for (size_t k = 0; k < ROWS; k++) {
            if (rows[k].about == THE_PLACE)
                add_row(&b, &rows[k], &access->entries[i].aws);
        }
    }
    bool ok = !b.failed;
    if (ok)
        leat_sha256(b.data, b.len, out);
    if (b.cap)
        explicit_bzero(b.data, b.cap); /* there may be a key in the headers */
    leat_buf_free(&b);
    return ok;
}

leat_status leat_access_take(const struct leat_access *access, const struct leat_url *url, const char *place,
                             struct leat_aws *out, struct leat_error *err)
{
    const struct entry *e = place ? find_known(access, place) : find_url(access, url);
    if (!e)
        return leat_fail(err, LEAT_DENIED, "nobody has said how %s://%.100s is reached", leat_scheme_name(url->scheme),
                         url->host);
    return leat_aws_copy(&e->aws, out, err);
}
