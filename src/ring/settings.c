#include "ring/settings.h"

#include <inttypes.h>
#include <string.h>

#include "base/abi.h"
#include "base/guess.h"
#include "base/parse.h"

#define WORLD_MAX (1u << 20) /* ranks; more than any job has had */
#define BATCH_MAX (1u << 24) /* samples of a global batch */

enum store { STORE_U32, STORE_U64, STORE_BOOL, STORE_TEXT };

struct row {
    const char *name;
    uint32_t tag; /* on the wire: never another setting's */
    uint32_t type;
    enum store store;
    size_t offset;
    uint64_t least; /* of what may be said; 0 in the struct is the default in any case */
    uint64_t most;
    const char *choices;
    const char *help;
};

#define AT(member)                    offsetof(struct leat_loader_opts, member)
#define NUMBER32(member, least, most) LEAT_SETTING_NUMBER, STORE_U32, AT(member), least, most, NULL
#define NUMBER64(member)              LEAT_SETTING_NUMBER, STORE_U64, AT(member), 0, INT64_MAX, NULL
#define WORDS(member)                 LEAT_SETTING_TEXT, STORE_TEXT, AT(member), 0, 0, NULL
#define FLAG(member)                  LEAT_SETTING_FLAG, STORE_BOOL, AT(member), 0, 1, NULL
#define BYTES(member)                 LEAT_SETTING_SIZE, STORE_U64, AT(member), 1, INT64_MAX, NULL
#define TIME(member)                  LEAT_SETTING_DURATION, STORE_U64, AT(member), 1, INT64_MAX, NULL
#define CHOICE(member, n, words)      LEAT_SETTING_CHOICE, STORE_U32, AT(member), 0, (n)-1, words

static const struct row rows[] = {
    {"version", 1, WORDS(version), "which version of the dataset: a content id in hexadecimal digits, or a name"},
    {"batch_size", 2, NUMBER32(batch, 1, BATCH_MAX), "samples per batch on each rank"},
    {"global_batch_size", 3, NUMBER32(global_batch, 1, BATCH_MAX), "samples per batch on all ranks together"},
    {"rank", 4, NUMBER32(rank, 0, WORLD_MAX - 1), "this rank; else torch.distributed or RANK says"},
    {"world_size", 5, NUMBER32(world, 1, WORLD_MAX),
     "how many ranks there are; else torch.distributed or WORLD_SIZE says"},
    {"local_world_size", 6, NUMBER32(local_world, 0, WORLD_MAX),
     "ranks of the job on this machine, which wait for each other"},
    {"job", 7, WORDS(job), "loaders of different ranks with the same text must agree"},
    {"last", 8, CHOICE(last, 3, "drop pad short"), "what happens to samples that do not fill the last batch"},
    {"on_error", 9, CHOICE(on_error, 2, "raise skip"), "what happens when a sample cannot be decoded"},
    {"shuffle", 10, FLAG(shuffle), "whether the order is shuffled"},
    {"seed", 12, NUMBER64(seed), "seed of the shuffle and of random draws"},
    {"window", 13, NUMBER32(window, 0, 65536), "how many chunks are mixed; else the dataset's default"},
    {"epoch", 14, NUMBER64(epoch), "to begin with"},
    {"ram", 15, BYTES(ram), "the agent's memory for chunks"},
    {"threads", 16, NUMBER32(threads, 0, 1024), "the agent's threads that prepare samples"},
    {"slots", 17, NUMBER32(slots, 2, 64), "batches in shared memory, including those you hold"},
    {"timeout", 18, TIME(timeout_ns), "how long any call waits"},
    {"linger", 19, TIME(linger_ns), "how long a new agent outlives its last loader"},
    {"scope", 20, WORDS(scope), "which agent of this machine"},
    {"agent", 21, WORDS(agent), "path of the leat command"},
    {"endpoint_url", 22, WORDS(endpoint_url), "of an S3 server"},
    {"region", 23, WORDS(region), "of the bucket"},
    {"profile", 24, WORDS(profile), "of ~/.aws"},
    {"anonymous", 25, FLAG(anonymous), "do not sign requests"},
    {"cache_dir", 26, WORDS(cache_dir), "folder of the agent's cache on disk"},
    {"cache", 27, BYTES(cache), "how much of the disk that cache may take"},
    {"purpose", 28, CHOICE(purpose, 2, "train warm"), "what the batches are for: warm fills the cache on disk"},
    {"view", 29, WORDS(view), "what is counted: samples, or blocks of tokens such as 'blocks=2048 shift=1'"},
    {"mix", 30, WORDS(mix), "datasets to read in proportion, as JSON"},
    {"epoch_size", 31, NUMBER64(epoch_size), "samples of all ranks in an epoch; else as many as there are"},
    {"metrics", 32, WORDS(metrics), "where the agent serves its metrics for Prometheus: '127.0.0.1:9100'"},
    {"name", 33, WORDS(name),
     "what leat top, metrics and traces call this loader; else the end of the dataset's address"},
    {"members", 34, WORDS(members), "the machines of the job that share what they fetch, as JSON (docs/job.md)"},
    {"share", 35, CHOICE(share, 2, "on off"),
     "decode once for all loaders of this machine that ask for the same samples"},
    {"draw_seed", 36, NUMBER64(draw_seed), "seed of random draws alone; else the seed"},
    /* Nobody says these: leat_loader_set() does, with the seeds. */
    {"seed_given", 11, FLAG(seed_given), NULL},
    {"draw_seed_given", 37, FLAG(draw_seed_given), NULL},
};

#define ROWS  (sizeof rows / sizeof *rows)
#define NAMED (ROWS - 2) /* those with a name for people */

/* Access by row */

static uint64_t get(const struct leat_loader_opts *o, const struct row *row)
{
    const char *at = (const char *)o + row->offset;
    uint32_t narrow;
    uint64_t wide;
    bool flag;
    switch (row->store) {
    case STORE_U32:
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    case STORE_U64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    default:
        memcpy(&flag, at, sizeof flag);
        return flag;
    }
}

static void put(struct leat_loader_opts *o, const struct row *row, uint64_t value)
{
    char *at = (char *)o + row->offset;
    uint32_t narrow = (uint32_t)value;
    bool flag = value != 0;
    switch (row->store) {
    case STORE_U32:
        memcpy(at, &narrow, sizeof narrow);
        break;
    case STORE_U64:
        memcpy(at, &value, sizeof value);
        break;
    default:
        memcpy(at, &flag, sizeof flag);
    }
}

static const char *get_text(const struct leat_loader_opts *o, const struct row *row)
{
    const char *text;
    memcpy(&text, (const char *)o + row->offset, sizeof text);
    return text;
}

static void put_text(struct leat_loader_opts *o, const struct row *row, const char *text)
{
    memcpy((char *)o + row->offset, &text, sizeof text);
}

static size_t end_of(const struct row *row)
{
    static const size_t bytes[] = {
        [STORE_U32] = sizeof(uint32_t),
        [STORE_U64] = sizeof(uint64_t),
        [STORE_BOOL] = sizeof(bool),
        [STORE_TEXT] = sizeof(char *),
    };
    return row->offset + bytes[row->store];
}

static bool allowed(const struct row *row, uint64_t value)
{
    return value <= row->most && (value >= row->least || value == 0);
}

/* By name */

size_t leat_loader_settings(void)
{
    return NAMED;
}

leat_status leat_loader_setting(size_t i, struct leat_setting *out, struct leat_error *err)
{
    if (i >= NAMED)
        return leat_fail(err, LEAT_INVALID, "there is no setting %zu: there are %zu", i, (size_t)NAMED);
    const struct row *r = &rows[i];
    struct leat_setting mine = {sizeof mine, r->name, r->type, r->least, r->most, r->choices, r->help};
    return leat_abi_give(&mine, sizeof mine, "leat_setting", out, err);
}

static leat_status fail_unknown(const char *name, struct leat_error *err)
{
    char meant[LEAT_GUESS_TEXT];
    struct leat_guess g = leat_guess_of(name);
    for (size_t i = 0; i < NAMED; i++)
        leat_guess_try(&g, rows[i].name);
    return leat_fail(err, LEAT_INVALID, "there is no setting '%.60s'%s", name, leat_guess_text(&g, meant));
}

static leat_status choose(const struct row *row, const char *value, uint64_t *out, struct leat_error *err)
{
    const char *at = row->choices;
    size_t n = strlen(value);
    for (uint64_t i = 0; *at; i++) {
        size_t len = strcspn(at, " ");
        if (len == n && strncmp(at, value, n) == 0) {
            *out = i;
            return LEAT_OK;
        }
        at += len + (at[len] == ' ');
    }
    return leat_fail(err, LEAT_INVALID, "%s='%.60s' is not one of: %s", row->name, value, row->choices);
}

static leat_status parse(const struct row *row, const char *value, uint64_t *out, struct leat_error *err)
{
    leat_status rc;
    switch (row->type) {
    case LEAT_SETTING_FLAG:
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return leat_fail(err, LEAT_INVALID, "%s='%.60s' is neither true nor false", row->name, value);
        *out = value[0] == 't';
        return LEAT_OK;
    case LEAT_SETTING_CHOICE:
        return choose(row, value, out, err);
    case LEAT_SETTING_SIZE:
        rc = leat_parse_size(value, row->name, out, err);
        break;
    case LEAT_SETTING_DURATION:
        rc = leat_parse_duration(value, row->name, out, err);
        break;
    default:
        rc = leat_parse_u64(value, row->name, out, NULL);
        if (rc != LEAT_OK)
            rc = leat_fail(err, LEAT_INVALID, "%s='%.60s' is not a whole number from %" PRIu64 " to %" PRIu64,
                           row->name, value, row->least, row->most);
    }
    return rc;
}

/* Limits of sizes and times are 0 and what fits into a number: they say nothing in bytes and nanoseconds. */
static leat_status fail_range(const struct row *row, const char *value, bool more, struct leat_error *err)
{
    if (row->type == LEAT_SETTING_SIZE || row->type == LEAT_SETTING_DURATION)
        return leat_fail(err, LEAT_INVALID, "%s='%.60s' is too %s", row->name, value,
                         more ? "much" : "little: it must be greater than 0");
    return leat_fail(err, LEAT_INVALID, "%s='%.60s' is not between %" PRIu64 " and %" PRIu64, row->name, value,
                     row->least, row->most);
}

leat_status leat_loader_set(struct leat_loader_opts *o, const char *name, const char *value, struct leat_error *err)
{
    const struct row *row = NULL;
    uint64_t number;
    for (size_t i = 0; i < NAMED && !row; i++)
        row = strcmp(rows[i].name, name) == 0 ? &rows[i] : NULL;
    if (!row)
        return fail_unknown(name, err);
    leat_status rc = leat_abi_reaches(o, "leat_loader_opts", sizeof *o, end_of(row), err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "%s", name);
    if (row->store == STORE_TEXT) {
        put_text(o, row, value);
        return LEAT_OK;
    }
    rc = parse(row, value, &number, err);
    if (rc != LEAT_OK)
        return rc;
    if (row->offset == AT(linger_ns) && number == 0)
        number = 1; /* in the struct 0 is "not said" */
    if (number < row->least || number > row->most)
        return fail_range(row, value, number > row->most, err);
    put(o, row, number);
    if (row->offset == AT(seed))
        o->seed_given = true;
    if (row->offset == AT(draw_seed))
        o->draw_seed_given = true;
    return LEAT_OK;
}

/* Checks */

static void problem(struct leat_buf *b, const char *text)
{
    leat_buf_printf(b, "%s%s", b->len ? "; " : "", text);
}

void leat_settings_check(const struct leat_loader_opts *o, struct leat_buf *b)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (r->store != STORE_TEXT && !allowed(r, get(o, r)))
            leat_buf_printf(b, "%s%s=%" PRIu64 " is not between %" PRIu64 " and %" PRIu64, b->len ? "; " : "", r->name,
                            get(o, r), r->least, r->most);
    }
    struct leat_error err;
    char address[LEAT_LISTEN_ADDRESS];
    unsigned port;
    if (o->metrics && leat_parse_listen(o->metrics, "metrics", address, &port, &err) != LEAT_OK)
        problem(b, err.text);
    if (o->name && (!*o->name || strlen(o->name) > LEAT_LOADER_NAME_MAX))
        leat_buf_printf(b, "%sname='%.60s' is empty, or longer than %d bytes", b->len ? "; " : "", o->name,
                        LEAT_LOADER_NAME_MAX);
    if (!o->batch == !o->global_batch)
        problem(b, "give exactly one of batch_size and global_batch_size");
    if (o->world && o->rank >= o->world)
        leat_buf_printf(b, "%srank %u is not in a world of %u", b->len ? "; " : "", o->rank, o->world);
    if (o->world && o->global_batch % o->world)
        leat_buf_printf(b, "%sglobal_batch_size %u is not a multiple of the world size %u", b->len ? "; " : "",
                        o->global_batch, o->world);
    if (o->world && (uint64_t)o->batch * o->world > BATCH_MAX)
        leat_buf_printf(b, "%sbatch_size %u of %u ranks is a global batch of more than %u", b->len ? "; " : "",
                        o->batch, o->world, BATCH_MAX);
}

leat_status leat_loader_check(const struct leat_loader_opts *theirs, struct leat_error *err)
{
    struct leat_loader_opts o;
    struct leat_buf problems;
    leat_status rc = leat_abi_take(theirs, "leat_loader_opts", &o, sizeof o, err);
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&problems, 4096);
    leat_settings_check(&o, &problems);
    rc = leat_buf_check(&problems, "the list of what is wrong", err);
    if (rc == LEAT_OK && problems.len)
        rc = leat_fail(err, LEAT_INVALID, "%s", problems.data);
    leat_buf_free(&problems);
    return rc;
}

/* The wire */

void leat_settings_write(const struct leat_loader_opts *o, struct leat_buf *b)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (r->store == STORE_TEXT)
            leat_message_text(b, LEAT_TAG_SETTING + r->tag, get_text(o, r));
        else if (get(o, r))
            leat_message_number(b, LEAT_TAG_SETTING + r->tag, get(o, r));
    }
}

leat_status leat_settings_read_message(struct leat_part p, struct leat_loader_opts *out, struct leat_error *err)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        uint32_t tag = LEAT_TAG_SETTING + r->tag;
        if (!leat_part_has(p, tag))
            continue;
        const char *text = leat_part_text(p, tag);
        uint64_t value = leat_part_number(p, tag, UINT64_MAX); /* more than any setting may be */
        if (r->store == STORE_TEXT ? !text : value == UINT64_MAX)
            return leat_fail(err, LEAT_INVALID, "%s is of another type, or out of range", r->name);
        if (r->store == STORE_TEXT) {
            put_text(out, r, text);
            continue;
        }
        if (!allowed(r, value))
            return leat_fail(err, LEAT_INVALID, "%s=%" PRIu64 " is not between %" PRIu64 " and %" PRIu64, r->name,
                             value, r->least, r->most);
        put(out, r, value);
    }
    return LEAT_OK;
}
