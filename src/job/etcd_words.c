#include "job/etcd_words.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"

#define MEMBERS "/members"
#define ALIVE   "/alive/"

#define DECODE_MAX (16u << 20)

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for etcd's answer");
}

static leat_status no_answer(struct leat_error *err, const char *what)
{
    return leat_fail(err, LEAT_SERVER, "this is not what etcd answers: %s", what);
}

/* Keys and values go in base64, numbers of 64 bits as text. */

static json_t *coded(const char *a, const char *b)
{
    size_t n = strlen(a) + strlen(b);
    unsigned char *plain = malloc(n + 1);
    unsigned char *out = malloc(4 * (n / 3 + 1) + 1);
    json_t *j = NULL;
    if (plain && out) {
        memcpy(plain, a, strlen(a));
        memcpy(plain + strlen(a), b, strlen(b) + 1);
        EVP_EncodeBlock(out, plain, (int)n);
        j = json_string((const char *)out);
        explicit_bzero(plain, n);
    }
    free(plain);
    free(out);
    return j;
}

/* *out is the caller's to free(), with a NUL after its n bytes. */
static leat_status decode(const json_t *j, char **out, size_t *n, struct leat_error *err)
{
    const char *text = json_string_value(j);
    size_t length = text ? json_string_length(j) : 1;
    if (length % 4 || length > DECODE_MAX)
        return no_answer(err, "what should be in base64 is not");
    unsigned char *bytes = malloc(length + 1);
    if (!bytes)
        return no_memory(err);
    int got = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length);
    if (got < 0) {
        free(bytes);
        return no_answer(err, "what should be in base64 is not");
    }
    for (size_t i = length; i && got && text[i - 1] == '='; i--)
        got--;
    bytes[got] = '\0';
    *out = (char *)bytes;
    *n = (size_t)got;
    return LEAT_OK;
}

static json_t *number_text(int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return json_string(text);
}

static bool read_number(const json_t *j, int64_t *out)
{
    const char *text = json_string_value(j);
    char *end;
    errno = 0;
    long long n = text ? strtoll(text, &end, 10) : 0;
    if (!text || !*text || *end || errno)
        return false;
    *out = n;
    return true;
}

static char *written(json_t *j)
{
    char *text = leat_json_write(j, JSON_COMPACT);
    json_decref(j);
    return text;
}

static leat_status read_json(const char *text, size_t n, json_t **out, struct leat_error *err)
{
    leat_status rc = leat_json_read(text, n, JSON_DISABLE_EOF_CHECK, out, NULL);
    return rc == LEAT_OK ? LEAT_OK : rc == LEAT_NO_MEMORY ? no_memory(err) : no_answer(err, "no JSON");
}

/* Looking: all keys from PREFIX/ on, up to PREFIX0, since 0 follows /. */

char *leat_etcd_ask_look(const char *prefix)
{
    return written(json_pack("{s:o,s:o}", "key", coded(prefix, "/"), "range_end", coded(prefix, "0")));
}

char *leat_etcd_ask_watch(const char *prefix, int64_t from)
{
    return written(json_pack("{s:{s:o,s:o,s:o}}", "create_request", "key", coded(prefix, "/"), "range_end",
                             coded(prefix, "0"), "start_revision", number_text(from)));
}

/* Keys and values are in base64, so the word is etcd's own. Without memory to read the line it counts. */
bool leat_etcd_watch_is_over(const char *line, size_t n)
{
    static const char word[] = "\"canceled\"";
    json_t *j = NULL;
    if (!memmem(line, n, word, sizeof word - 1))
        return false;
    bool over = leat_json_read(line, n, JSON_DISABLE_EOF_CHECK, &j, NULL) != LEAT_OK ||
                json_is_true(json_object_get(json_object_get(j, "result"), "canceled"));
    json_decref(j);
    return over;
}

/* False: no list of sets. One that is longer than this release makes counts as far as it knows. */
static leat_status read_sets(const json_t *list, struct leat_etcd_record *r, bool *good, struct leat_error *err)
{
    uint8_t id[8];
    size_t n = json_array_size(list);
    n = n < LEAT_ETCD_SETS ? n : LEAT_ETCD_SETS;
    uint64_t *sets = malloc((n + 1) * sizeof *sets);
    if (!sets)
        return no_memory(err);
    *good = true;
    for (size_t i = 0; *good && i < n; i++) {
        const char *set = json_string_value(json_array_get(list, i));
        *good = set && leat_unhex(set, id, sizeof id);
        sets[i] = *good ? strtoull(set, NULL, 16) : 0;
    }
    if (!*good) {
        free(sets);
        return LEAT_OK;
    }
    r->sets = sets;
    r->sets_n = (uint32_t)n;
    return LEAT_OK;
}

/* *good false: it is none. */
static leat_status read_record(const char *address, const char *text, size_t n, struct leat_etcd_record *out,
                               bool *good, struct leat_error *err)
{
    struct leat_etcd_record r = {0};
    uint8_t id[(LEAT_ETCD_ID - 1) / 2];
    json_t *j;
    *good = false;
    if (!*address || strlen(address) >= sizeof r.address)
        return LEAT_OK;
    leat_status rc = leat_json_read(text, n, 0, &j, NULL);
    if (rc != LEAT_OK)
        return rc == LEAT_NO_MEMORY ? no_memory(err) : LEAT_OK;
    memcpy(r.address, address, strlen(address) + 1);
    const char *hex = json_string_value(json_object_get(j, "id"));
    if (hex && leat_unhex(hex, id, sizeof id)) {
        leat_hex(id, sizeof id, r.id);
        rc = read_sets(json_object_get(j, "sets"), &r, good, err);
    }
    json_decref(j);
    if (rc == LEAT_OK && *good)
        *out = r;
    return rc;
}

static leat_status take_value(const json_t *kv, const char *key, const char *value, size_t n,
                              struct leat_etcd_look *look, struct leat_error *err)
{
    bool good = false;
    if (strcmp(key, MEMBERS) == 0) {
        if (!read_number(json_object_get(kv, "mod_revision"), &look->members_at))
            return no_answer(err, "a key without a revision");
        return leat_members_read(value, n, &look->members, err);
    }
    if (strncmp(key, ALIVE, strlen(ALIVE)) != 0)
        return LEAT_OK;
    struct leat_etcd_record *r = &look->records[look->n];
    leat_status rc = read_record(key + strlen(ALIVE), value, n, r, &good, err);
    if (rc == LEAT_OK && !good) /* somebody is there, whatever he says */
        snprintf(r->address, sizeof r->address, "%s", key + strlen(ALIVE));
    look->n += rc == LEAT_OK;
    return rc;
}

static leat_status read_key(const json_t *kv, const char *prefix, struct leat_etcd_look *look, struct leat_error *err)
{
    char *key = NULL;
    char *value = NULL;
    size_t key_n = 0;
    size_t n = 0;
    leat_status rc = decode(json_object_get(kv, "key"), &key, &key_n, err);
    if (rc == LEAT_OK && (strlen(key) != key_n || strncmp(key, prefix, strlen(prefix)) != 0))
        rc = no_answer(err, "a key that was not asked for");
    if (rc == LEAT_OK && json_object_get(kv, "value"))
        rc = decode(json_object_get(kv, "value"), &value, &n, err);
    if (rc == LEAT_OK)
        rc = take_value(kv, key + strlen(prefix), value ? value : "", n, look, err);
    if (value)
        explicit_bzero(value, n);
    free(value);
    free(key);
    return rc;
}

static leat_status read_keys(const json_t *j, const char *prefix, struct leat_etcd_look *look, struct leat_error *err)
{
    const json_t *kvs = json_object_get(j, "kvs");
    size_t count = json_array_size(kvs);
    leat_status rc = LEAT_OK;
    if (!read_number(json_object_get(json_object_get(j, "header"), "revision"), &look->revision))
        return no_answer(err, "no revision");
    look->records = calloc(count + 1, sizeof *look->records);
    if (!look->records)
        return no_memory(err);
    for (size_t i = 0; rc == LEAT_OK && i < count; i++)
        rc = read_key(json_array_get(kvs, i), prefix, look, err);
    return rc;
}

leat_status leat_etcd_read_look(const char *text, size_t n, const char *prefix, struct leat_etcd_look *out,
                                struct leat_error *err)
{
    struct leat_etcd_look look = {0};
    json_t *j;
    leat_status rc = read_json(text, n, &j, err);
    if (rc != LEAT_OK)
        return rc;
    rc = read_keys(j, prefix, &look, err);
    json_decref(j);
    if (rc != LEAT_OK) {
        leat_etcd_look_free(&look);
        return rc;
    }
    *out = look;
    return LEAT_OK;
}

void leat_etcd_look_free(struct leat_etcd_look *look)
{
    leat_members_free(look->members);
    for (uint32_t i = 0; i < look->n; i++)
        free(look->records[i].sets);
    free(look->records);
    *look = (struct leat_etcd_look){0};
}

static int by_address(const void *key, const void *record)
{
    return strcmp(key, ((const struct leat_etcd_record *)record)->address);
}

const struct leat_etcd_record *leat_etcd_find(const struct leat_etcd_look *look, const char *address)
{
    return look->n ? bsearch(address, look->records, look->n, sizeof *look->records, by_address) : NULL;
}

/* Entering */

static char *record_text(const struct leat_etcd_record *r)
{
    json_t *sets = json_array();
    bool whole = sets != NULL;
    for (uint32_t i = 0; whole && i < r->sets_n; i++) {
        char hex[17];
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)r->sets[i]);
        whole = json_array_append_new(sets, json_string(hex)) == 0;
    }
    if (!whole) {
        json_decref(sets);
        return NULL;
    }
    return written(json_pack("{s:s,s:o}", "id", r->id, "sets", sets));
}

static json_t *put(json_t *key, json_t *value, int64_t lease)
{
    return lease
               ? json_pack("{s:{s:o,s:o,s:o}}", "request_put", "key", key, "value", value, "lease", number_text(lease))
               : json_pack("{s:{s:o,s:o}}", "request_put", "key", key, "value", value);
}

/* NULL in `part` is a failure of its making. */
static bool append(json_t *list, json_t *part)
{
    return part && json_array_append_new(list, part) == 0;
}

char *leat_etcd_ask_enter(const char *prefix, int64_t at, const char *members, bool alone,
                          const struct leat_etcd_record *self, int64_t lease)
{
    char address[sizeof ALIVE + LEAT_MEMBERS_ADDRESS];
    char *record = record_text(self);
    json_t *compare = json_array();
    json_t *puts = json_array();
    snprintf(address, sizeof address, ALIVE "%s", self->address);
    bool whole = record && compare && puts &&
                 append(compare, json_pack("{s:o,s:s,s:s,s:o}", "key", coded(prefix, MEMBERS), "target", "MOD",
                                           "result", "EQUAL", "mod_revision", number_text(at)));
    if (whole && alone) /* a range without keys counts as a key that was never made */
        whole = append(compare, json_pack("{s:o,s:o,s:s,s:s,s:s}", "key", coded(prefix, "/alive/"), "range_end",
                                          coded(prefix, "/alive0"), "target", "CREATE", "result", "EQUAL",
                                          "create_revision", "0"));
    if (whole && members)
        whole = append(puts, put(coded(prefix, MEMBERS), coded(members, ""), 0));
    if (whole)
        whole = append(puts, put(coded(prefix, address), coded(record, ""), lease));
    free(record);
    if (!whole) {
        json_decref(compare);
        json_decref(puts);
        return NULL;
    }
    return written(json_pack("{s:o,s:o}", "compare", compare, "success", puts));
}

leat_status leat_etcd_read_entered(const char *text, size_t n, bool *entered, struct leat_error *err)
{
    json_t *j;
    leat_status rc = read_json(text, n, &j, err);
    if (rc != LEAT_OK)
        return rc;
    if (json_is_object(json_object_get(j, "header")))
        *entered = json_is_true(json_object_get(j, "succeeded"));
    else
        rc = no_answer(err, "no transaction");
    json_decref(j);
    return rc;
}

/* Leases */

char *leat_etcd_ask_grant(unsigned seconds)
{
    return written(json_pack("{s:o}", "TTL", number_text(seconds)));
}

char *leat_etcd_ask_lease(int64_t id)
{
    return written(json_pack("{s:o}", "ID", number_text(id)));
}

leat_status leat_etcd_read_grant(const char *text, size_t n, int64_t *lease, struct leat_error *err)
{
    json_t *j;
    leat_status rc = read_json(text, n, &j, err);
    if (rc != LEAT_OK)
        return rc;
    if (!read_number(json_object_get(j, "ID"), lease) || !*lease)
        rc = no_answer(err, "no lease");
    json_decref(j);
    return rc;
}

leat_status leat_etcd_read_kept(const char *text, size_t n, bool *there, struct leat_error *err)
{
    json_t *j;
    int64_t ttl = 0;
    leat_status rc = read_json(text, n, &j, err);
    if (rc != LEAT_OK)
        return rc;
    const json_t *result = json_object_get(j, "result");
    if (json_is_object(result))
        *there = read_number(json_object_get(result, "TTL"), &ttl) && ttl > 0;
    else
        rc = no_answer(err, "no word about a lease");
    json_decref(j);
    return rc;
}

/* Who asks */

char *leat_etcd_ask_token(const char *user, const char *password)
{
    return written(json_pack("{s:s,s:s}", "name", user, "password", password));
}

leat_status leat_etcd_read_token(const char *text, size_t n, char **token, struct leat_error *err)
{
    json_t *j;
    leat_status rc = read_json(text, n, &j, err);
    if (rc != LEAT_OK)
        return rc;
    const char *said = json_string_value(json_object_get(j, "token"));
    char *copy = said ? strdup(said) : NULL;
    if (copy)
        *token = copy;
    else
        rc = said ? no_memory(err) : no_answer(err, "no token");
    json_decref(j);
    return rc;
}

void leat_etcd_read_problem(const char *text, size_t n, char *out, size_t size)
{
    json_t *j = NULL;
    const char *said = NULL;
    if (n && leat_json_read(text, n, JSON_DISABLE_EOF_CHECK, &j, NULL) == LEAT_OK) {
        said = json_string_value(json_object_get(j, "error"));
        said = said ? said : json_string_value(json_object_get(j, "message"));
    }
    snprintf(out, size, "%s", said ? said : "");
    json_decref(j);
}
