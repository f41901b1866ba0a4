#include "dataset/raw_origin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/ending.h"
#include "dataset/raw_inside.h"

uint32_t raw_first_member(const struct raw *r, uint64_t i)
{
    uint32_t f = 0;
    while (raw_member(r, i, f) == RAW_NONE)
        f++;
    return raw_member(r, i, f);
}

size_t raw_stem(const struct raw *r, const char *key)
{
    char field[LEAT_FIELD_NAME_MAX];
    size_t n = strlen(key);
    if (r->grouped)
        leat_ending_split(key, n, &n, field); /* all have one: grouping has looked */
    return n;
}

/* What the origin says */

static leat_status key_of(const struct raw *r, uint64_t i, struct leat_origin_room *room,
                          struct leat_origin_sample *out, struct leat_error *err)
{
    uint32_t object = raw_first_member(r, i);
    const char *key = leat_listing_key(&r->list, object);
    uint32_t home = leat_listing_home(&r->list, object);
    size_t n = raw_stem(r, key);
    if (!r->origin.many_stores) {
        out->key = key + r->cut[home];
        out->key_n = n - r->cut[home];
        return LEAT_OK;
    }
    /* Keys of several buckets begin with the bucket. */
    const char *host = leat_store_host(r->list.homes[home].store);
    size_t host_n = strlen(host);
    leat_status rc = leat_origin_room_text(room, host_n + n + 2, err);
    if (rc != LEAT_OK)
        return rc;
    memcpy(room->text, host, host_n);
    room->text[host_n] = '/';
    memcpy(room->text + host_n + (host_n > 0), key, n);
    out->key = room->text;
    out->key_n = host_n + (host_n > 0) + n;
    return LEAT_OK;
}

static struct leat_origin_value column_value(const struct leat_manifest *m, uint32_t column, uint64_t row)
{
    const struct leat_manifest_column *c = &m->columns[column];
    struct leat_origin_value v = {.absent = !c->there[row]};
    if (v.absent)
        return v;
    if (c->type == LEAT_FIELD_STRING) {
        v.data = m->text.data + c->cells[row];
        v.size = strlen(v.data);
    } else if (c->type == LEAT_FIELD_INT) {
        v.number = (int64_t)c->cells[row];
    } else {
        memcpy(&v.real, &c->cells[row], sizeof v.real);
    }
    return v;
}

static leat_status sample(const struct leat_origin *o, uint64_t i, struct leat_origin_room *room,
                          struct leat_origin_sample *out, struct leat_error *err)
{
    const struct raw *r = (const struct raw *)o;
    for (uint32_t f = 0; f < o->schema.n; f++) {
        struct leat_origin_value *v = &room->values[f];
        *v = (struct leat_origin_value){0};
        if (f < r->files) {
            uint32_t object = raw_member(r, i, f);
            v->absent = object == RAW_NONE;
            v->object = object;
            v->size = v->absent ? 0 : r->list.sizes[object];
        } else if (f == r->label) {
            v->number = r->labels.of[i];
        } else {
            *v = column_value(r->manifest, r->column[f], i);
        }
    }
    out->values = room->values;
    return key_of(r, i, room, out, err);
}

static leat_status object(const struct leat_origin *o, uint32_t i, struct leat_origin_object *out,
                          struct leat_error *err)
{
    const struct raw *r = (const struct raw *)o;
    (void)err;
    *out = (struct leat_origin_object){.home = &r->list.homes[leat_listing_home(&r->list, i)],
                                       .key = leat_listing_key(&r->list, i),
                                       .size = r->list.sizes[i],
                                       .etag = leat_listing_etag(&r->list, i)};
    return LEAT_OK;
}

static void close_raw(struct leat_origin *o)
{
    struct raw *r = (struct raw *)o;
    leat_listing_close(&r->list);
    leat_labels_close(&r->labels);
    free(r->members);
    free(r->cut);
    free(r);
}

static const struct leat_origin_ops ops = {.sample = sample, .object = object, .close = close_raw};

int64_t leat_origin_raw_label(const struct leat_origin *o, uint64_t i)
{
    const struct raw *r = (const struct raw *)o;
    return r->labels.of ? (int64_t)r->labels.of[i] : -1;
}

/* Opening one */

enum leat_field_type raw_seems(const char *ending)
{
    const char *dot = strrchr(ending, '.');
    return strcmp(dot ? dot + 1 : ending, "json") == 0 ? LEAT_FIELD_JSON : leat_ending_type(ending);
}

leat_status raw_file_type(const struct leat_raw_opts *opts, const char *field, enum leat_field_type seems,
                          enum leat_field_type *out, struct leat_error *err)
{
    *out = seems;
    for (uint32_t i = 0; i < opts->wishes_n; i++) {
        if (strcmp(opts->wishes[i].name, field) != 0)
            continue;
        *out = opts->wishes[i].type;
        if (*out != LEAT_FIELD_BYTES && *out != LEAT_FIELD_IMAGE && *out != LEAT_FIELD_STRING &&
            *out != LEAT_FIELD_JSON)
            return leat_fail(
                err, LEAT_INVALID,
                "the field '%s' holds files as they are: it can be bytes, image, string or json, but not %s. "
                "Numbers come from a manifest",
                field, leat_field_type_name(*out));
    }
    return LEAT_OK;
}

/* One object a sample: its field is called as all of them end. What a manifest does not name is no sample, and does not
 * count: a README beside pictures. */
static leat_status single_field(struct raw *r, struct leat_error *err)
{
    char first[LEAT_ENDING_MAX] = "";
    bool same = true;
    bool pictures = true;
    for (uint64_t i = 0; i < r->origin.samples; i++) {
        char other[LEAT_ENDING_MAX];
        const char *key = leat_listing_key(&r->list, raw_member(r, i, 0));
        leat_ending(key, strlen(key), i ? other : first);
        same = same && (i == 0 || strcmp(first, other) == 0);
        pictures = pictures && leat_ending_type(i ? other : first) == LEAT_FIELD_IMAGE;
    }
    enum leat_field_type type = pictures ? LEAT_FIELD_IMAGE : same ? raw_seems(first) : LEAT_FIELD_BYTES;
    const char *name = r->opts->field ? r->opts->field : same && *first ? first : pictures ? "image" : "data";
    leat_status rc = raw_file_type(r->opts, name, type, &type, err);
    return rc == LEAT_OK ? leat_schema_add(&r->origin.schema, name, type, NULL, err) : rc;
}

/* Keys of samples begin where the places differ: below the one place, or below the last folder that all share. */
static leat_status cut_keys(struct raw *r, struct leat_error *err)
{
    const struct leat_home *homes = r->list.homes;
    r->cut = calloc(r->list.homes_n, sizeof *r->cut);
    if (!r->cut)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the places");
    size_t common = strlen(homes[0].prefix);
    for (uint32_t h = 1; h < r->list.homes_n; h++) {
        size_t same = 0;
        size_t folder = 0;
        r->origin.many_stores = r->origin.many_stores || !leat_origin_same_store(&homes[0], &homes[h]);
        for (; same < common && homes[h].prefix[same] == homes[0].prefix[same]; same++)
            folder = homes[0].prefix[same] == '/' ? same + 1 : folder;
        common = folder;
    }
    for (uint32_t h = 0; h < r->list.homes_n && !r->origin.many_stores; h++)
        r->cut[h] = common;
    return LEAT_OK;
}

static leat_status column_fields(struct raw *r, struct leat_error *err)
{
    const struct leat_manifest *m = r->manifest;
    for (uint32_t c = 0; m && c < m->columns_n; c++) {
        uint32_t f = r->origin.schema.n;
        if (r->opts->label_column && strcmp(m->columns[c].name, r->opts->label_column) == 0)
            continue;
        leat_status rc = leat_schema_add(&r->origin.schema, m->columns[c].name, m->columns[c].type, NULL, err);
        if (rc != LEAT_OK)
            return leat_fail_context(err, rc, "%s", m->what);
        r->column[f] = c;
        if (m->columns[c].optional)
            r->origin.schema.fields[f].needs |= LEAT_FIELD_OPTIONAL;
    }
    return LEAT_OK;
}

/* A wish for a field that is not there would be ignored without a word. */
static leat_status check_wishes(const struct raw *r, struct leat_error *err)
{
    for (uint32_t i = 0; i < r->opts->wishes_n; i++) {
        const char *name = r->opts->wishes[i].name;
        uint32_t f = leat_schema_find(&r->origin.schema, name);
        bool label = r->opts->label_column && strcmp(name, r->opts->label_column) == 0;
        if ((f == LEAT_FIELDS_MAX && !label) || (f < LEAT_FIELDS_MAX && f == r->label))
            return leat_fail(err, LEAT_INVALID, "--type %s=%s: there is no such field or column", name,
                             leat_field_type_name(r->opts->wishes[i].type));
    }
    return LEAT_OK;
}

static void count_bytes(struct raw *r)
{
    r->origin.bytes = 0;
    for (uint64_t i = 0; i < r->origin.samples; i++) {
        for (uint32_t f = 0; f < r->files; f++)
            r->origin.bytes += raw_member(r, i, f) == RAW_NONE ? 0 : r->list.sizes[raw_member(r, i, f)];
    }
}

/* Leaves out the samples whose keys are known. */
static leat_status drop_known(struct raw *r, struct leat_error *err)
{
    struct leat_origin_room room = {0};
    struct leat_origin_sample sample;
    uint64_t kept = 0;
    uint32_t *members = malloc((size_t)r->origin.samples * r->files * sizeof *members);
    leat_status rc =
        members ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " samples", r->origin.samples);
    for (uint64_t i = 0; rc == LEAT_OK && i < r->origin.samples; i++) {
        rc = key_of(r, i, &room, &sample, err);
        if (rc != LEAT_OK || r->opts->known(r->opts->known_user, sample.key, sample.key_n))
            continue;
        for (uint32_t f = 0; f < r->files; f++)
            members[kept * r->files + f] = raw_member(r, i, f);
        kept++;
    }
    leat_origin_room_free(&room);
    if (rc == LEAT_OK && kept == 0)
        rc =
            leat_fail(err, LEAT_EXISTS, "nothing is new: all %" PRIu64 " samples are there already", r->origin.samples);
    if (rc != LEAT_OK) {
        free(members);
        return rc;
    }
    r->counts.known = r->origin.samples - kept;
    free(r->members);
    r->members = members;
    r->origin.samples = kept;
    return LEAT_OK;
}

static leat_status make(struct raw *r, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (r->list.n == 0)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there are no objects in %s", r->list.homes[0].url);
    if (rc == LEAT_OK && r->list.n >= RAW_NONE)
        rc = leat_fail(err, LEAT_LIMIT,
                       "there are %" PRIu64 " objects; an index has less than 2^32: index parts of them", r->list.n);
    if (rc == LEAT_OK && r->grouped && r->opts->field)
        rc = leat_fail(err, LEAT_INVALID, "--field names the only file of a sample, and --group gives it several");
    if (rc == LEAT_OK)
        rc = cut_keys(r, err);
    if (!r->grouped) {
        r->files = 1;
        r->origin.samples = r->list.n;
    }
    if (rc == LEAT_OK && r->grouped)
        rc = raw_group(r, err);
    if (rc == LEAT_OK && r->manifest)
        rc = raw_take_rows(r, err);
    if (rc == LEAT_OK && r->opts->known)
        rc = drop_known(r, err);
    if (rc == LEAT_OK && !r->grouped)
        rc = single_field(r, err);
    if (rc == LEAT_OK)
        rc = raw_label(r, err);
    if (rc == LEAT_OK)
        rc = column_fields(r, err);
    if (rc == LEAT_OK)
        rc = check_wishes(r, err);
    return rc;
}

leat_status leat_origin_raw_open(struct leat_listing *list, const struct leat_raw_opts *opts,
                                 struct leat_raw_counts *counts, struct leat_origin **out, struct leat_error *err)
{
    struct raw *r = calloc(1, sizeof *r);
    if (!r) {
        leat_listing_close(list);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an origin");
    }
    r->origin.ops = &ops;
    r->origin.kind = "raw";
    r->list = *list;
    *list = (struct leat_listing){0};
    r->opts = opts;
    r->manifest = opts->manifest;
    r->grouped = opts->grouped;
    r->label = LEAT_FIELDS_MAX;
    r->counts.objects = r->list.n;
    r->counts.hidden = r->list.hidden;
    r->origin.requests = r->list.requests;
    leat_status rc = make(r, err);
    if (rc != LEAT_OK) {
        close_raw(&r->origin);
        return rc;
    }
    r->opts = NULL;
    r->origin.objects = (uint32_t)r->list.n;
    count_bytes(r);
    *counts = r->counts;
    *out = &r->origin;
    return LEAT_OK;
}
