#include "leat/writer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/abi.h"
#include "client/packer_part.h"
#include "client/probe.h"
#include "dataset/pack.h"

struct leat_packer {
    pid_t pid;
    struct leat_home home;
    struct leat_schema schema;
    char *abouts[LEAT_FIELDS_MAX]; /* what the schema points to */
    char part[LEAT_VERSION_NAME_MAX];
    uint32_t part_number;
    uint32_t parts; /* 0: the whole */
    char *name;
    struct leat_pack *pack;
    _Atomic uint64_t samples;
    _Atomic bool lost; /* a chunk could not be stored, and its samples are gone */
    _Atomic bool finished;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for writing a dataset");
}

/* Opening */

static leat_status add_field(struct leat_packer *p, const struct leat_packer_field *f, struct leat_error *err)
{
    char **about = &p->abouts[p->schema.n];
    if (!f->name)
        return leat_fail(err, LEAT_INVALID, "field %u has no name", p->schema.n);
    if (f->about && *f->about) {
        *about = strdup(f->about);
        if (!*about)
            return no_memory(err);
    }
    struct leat_field_choice choice = {.optional = f->optional, .zstd = f->zstd};
    return leat_schema_add_as(&p->schema, f->name, (enum leat_field_type)f->type, *about, choice, err);
}

static leat_status take_fields(struct leat_packer *p, const struct leat_packer_opts *o, struct leat_error *err)
{
    struct leat_packer_field fields[LEAT_FIELDS_MAX];
    if (!o->fields_n || o->fields_n > LEAT_FIELDS_MAX)
        return leat_fail(err, LEAT_INVALID, "%zu fields: between 1 and %u are possible", o->fields_n, LEAT_FIELDS_MAX);
    leat_status rc = leat_abi_take_array(o->fields, o->fields_n, "leat_packer_field", fields, sizeof *fields, err);
    for (size_t i = 0; rc == LEAT_OK && i < o->fields_n; i++)
        rc = add_field(p, &fields[i], err);
    return rc;
}

static leat_status check_opts(const struct leat_packer_opts *o, struct leat_error *err)
{
    if (!o->url || !*o->url)
        return leat_fail(err, LEAT_INVALID, "no dataset URL");
    if (o->chunk_bytes && (o->chunk_bytes < 4096 || o->chunk_bytes > 1u << 30))
        return leat_fail(err, LEAT_INVALID, "chunk_size: between 4KiB and 1GiB");
    if (o->no_current && !o->name)
        return leat_fail(err, LEAT_INVALID, "a version that does not become the current one needs a name");
    if (o->parts && o->part >= o->parts)
        return leat_fail(err, LEAT_INVALID, "part %u of %u: parts are numbered from 0", o->part, o->parts);
    if (o->parts > LEAT_PARTS_OF_ONE_MAX)
        return leat_fail(err, LEAT_INVALID, "%u parts: at most %u are possible", o->parts, LEAT_PARTS_OF_ONE_MAX);
    return LEAT_OK;
}

/* A part has a name of its own and is replaced by who writes it again; the dataset's name is for the whole. */
static struct leat_publish_opts publish_opts(const struct leat_packer *p, const struct leat_packer_opts *o)
{
    if (o->parts)
        return (struct leat_publish_opts){.name = p->part, .keep_current = true, .replace = true};
    return (struct leat_publish_opts){.name = p->name, .keep_current = o->no_current, .replace = o->replace};
}

static leat_status open_pack(struct leat_packer *p, const struct leat_packer_opts *o, struct leat_error *err)
{
    struct leat_store_opts store;
    struct leat_pack_opts opts = {.schema = &p->schema, .chunk_bytes = o->chunk_bytes};
    leat_status wrong = leat_packer_store(o, &store, err);
    if (wrong != LEAT_OK)
        return wrong;
    if (o->name && !(p->name = strdup(o->name)))
        return no_memory(err);
    /* Chunks are stored before the last sample is known, so nothing that is known covers the contents. */
    if (getrandom(opts.id, sizeof opts.id, 0) != sizeof opts.id)
        return leat_fail(err, LEAT_INTERNAL, "no random numbers for the packing's id");
    leat_part_name(o->part, o->parts, p->part);
    leat_status rc = leat_home_open(o->url, &store, &p->home, err);
    if (rc == LEAT_OK)
        rc = leat_home_check_plain(&p->home, err);
    if (rc == LEAT_OK && o->parts)
        rc = leat_part_begin(&p->home, o->part, o->parts, err);
    p->part_number = o->part;
    p->parts = o->parts;
    opts.publish = publish_opts(p, o);
    if (rc == LEAT_OK)
        rc = leat_pack_open(&p->home, &opts, &p->pack, err);
    return rc;
}

leat_status leat_packer_open(const struct leat_packer_opts *theirs, struct leat_packer **out, struct leat_error *err)
{
    struct leat_packer_opts o;
    leat_status rc = leat_abi_take(theirs, "leat_packer_opts", &o, sizeof o, err);
    if (rc == LEAT_OK)
        rc = check_opts(&o, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_packer *p = calloc(1, sizeof *p);
    if (!p)
        return no_memory(err);
    p->pid = getpid();
    rc = take_fields(p, &o, err);
    if (rc == LEAT_OK)
        rc = open_pack(p, &o, err);
    if (rc != LEAT_OK) {
        leat_packer_close(p);
        return rc;
    }
    *out = p;
    return LEAT_OK;
}

void leat_packer_close(struct leat_packer *p)
{
    if (!p || p->pid != getpid())
        return; /* the latter is a copy: its threads are its parent's */
    leat_pack_close(p->pack);
    leat_home_close(&p->home);
    for (uint32_t f = 0; f < LEAT_FIELDS_MAX; f++)
        free(p->abouts[f]);
    free(p->name);
    free(p);
}

static leat_status check_process(const struct leat_packer *p, struct leat_error *err)
{
    if (p->pid == getpid())
        return LEAT_OK;
    return leat_fail(
        err, LEAT_INVALID,
        "this was opened by another process (%ld): let each process write a part of its own and merge them",
        (long)p->pid);
}

/* Adding */

static leat_status take_shape(const struct leat_field *f, const struct leat_packer_value *v, struct leat_value *out,
                              struct leat_error *err)
{
    if (v->dims_n != f->dims_n)
        return leat_fail(err, LEAT_INVALID, "field '%s' has %u dimensions, the value has %u", f->name, f->dims_n,
                         v->dims_n);
    for (uint32_t i = 0; i < v->dims_n; i++) {
        if (v->dims[i] > UINT32_MAX)
            return leat_fail(err, LEAT_INVALID, "field '%s': a dimension of %" PRIu64 " is too large", f->name,
                             v->dims[i]);
        out->dims[i] = (uint32_t)v->dims[i];
    }
    return LEAT_OK;
}

static leat_status take_value(const struct leat_field *f, const struct leat_packer_value *v, struct leat_value *out,
                              struct leat_error *err)
{
    *out = (struct leat_value){
        .absent = v->absent, .data = v->data, .size = v->bytes, .number = v->number, .real = v->real};
    if (v->absent)
        return LEAT_OK;
    leat_status rc = LEAT_OK;
    switch (f->type) {
    case LEAT_FIELD_IMAGE:
        rc = leat_picture_probe(v->data, v->bytes, &out->image, err);
        return rc == LEAT_OK ? rc : leat_fail_context(err, LEAT_INVALID, "field '%s'", f->name);
    case LEAT_FIELD_ARRAY:
        return take_shape(f, v, out, err);
    default:
        return LEAT_OK;
    }
}

static leat_status add(struct leat_packer *p, const void *key, size_t key_n, const struct leat_packer_value *theirs,
                       struct leat_error *err)
{
    struct leat_packer_value given[LEAT_FIELDS_MAX];
    struct leat_value values[LEAT_FIELDS_MAX];
    leat_status rc = leat_abi_take_array(theirs, p->schema.n, "leat_packer_value", given, sizeof *given, err);
    for (uint32_t f = 0; rc == LEAT_OK && f < p->schema.n; f++)
        rc = take_value(&p->schema.fields[f], &given[f], &values[f], err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_pack_add(p->pack, key, key_n, values, err);
    if (rc != LEAT_OK && rc != LEAT_INVALID && rc != LEAT_LIMIT)
        atomic_store(&p->lost, true); /* a chunk of others' samples, perhaps */
    if (rc == LEAT_OK)
        atomic_fetch_add(&p->samples, 1);
    return rc;
}

leat_status leat_packer_add(struct leat_packer *p, const void *key, size_t key_n,
                            const struct leat_packer_value *values, struct leat_error *err)
{
    leat_status rc = check_process(p, err);
    if (rc == LEAT_OK && atomic_load(&p->finished))
        rc = leat_fail(err, LEAT_INVALID, "the dataset is finished: nothing can be added");
    if (rc == LEAT_OK)
        rc = add(p, key, key_n, values, err);
    if (rc == LEAT_OK || !key_n)
        return rc;
    return leat_fail_context(err, rc, "sample '%.*s'", key_n < 100 ? (int)key_n : 100, (const char *)key);
}

uint64_t leat_packer_samples(const struct leat_packer *p)
{
    return atomic_load(&p->samples);
}

leat_status leat_packer_finish(struct leat_packer *p, char version[LEAT_PACKER_VERSION], struct leat_error *err)
{
    uint8_t id[LEAT_SHA256_SIZE];
    leat_status rc = check_process(p, err);
    if (rc == LEAT_OK && atomic_exchange(&p->finished, true))
        rc = leat_fail(err, LEAT_INVALID, "the dataset is finished already");
    if (rc == LEAT_OK && atomic_load(&p->lost))
        rc = leat_fail(err, LEAT_INVALID,
                       "a sample could not be stored, and others may be lost with it: write the dataset again");
    if (rc == LEAT_OK && p->parts && atomic_load(&p->samples) == 0) {
        version[0] = '\0';
        return leat_part_is_empty(&p->home, p->part_number, p->parts, err);
    }
    if (rc == LEAT_OK)
        rc = leat_pack_finish(p->pack, id, err);
    if (rc == LEAT_OK)
        leat_hex(id, sizeof id, version);
    return rc;
}
