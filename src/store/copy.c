/* Copying. A job is an object, a unit one of its parts on its way: a read, then a write. The caller's thread makes
 * units as memory allows; their later steps run on the two stores' threads.
 *
 * A unit's op changes hands only under the lock, together with `busy`, which says whose it is: so that the one that
 * cancels knows which store to ask, and after `failed` is set no unit takes another step. */
#include "store/copy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "store/attributes.h"
#include "store/copy_impl.h"
#include "store/exchange.h"

#define PART_DEFAULT   (8ull << 20)
#define MEMORY_DEFAULT (256ull << 20)
#define UNITS_MAX      1024u       /* small objects: bounds what is in flight when their bytes do not */
#define UNIT_COST      (16u << 10) /* of a unit besides its data */

struct unit {
    struct leat_store_op op; /* first member */
    struct leat_error err;
    struct leat_object object;
    struct unit *prev, *next;
    struct job *job;
    struct leat_store *busy; /* hold mu */
    bool pinned;             /* hold mu: a canceller looks at it */
    bool ended;              /* hold mu */
    bool cancelled;          /* hold mu */
    uint32_t part;           /* 1, 2, …; 0: the whole object */
    uint64_t offset;
    size_t size;
    size_t moved; /* hold mu: for progress */
    char *data;
    struct leat_buf found;       /* the source's attributes */
    struct leat_store_sums sums; /* of data */
    uint64_t sum;                /* of the kind that the source states, where it can be put together */
};

static void set_failed(struct leat_copy *c, const struct leat_error *err)
{
    if (!c->failed) {
        c->failed = true;
        c->err = *err;
    }
}

static void job_free(struct job *job, bool finished)
{
    if (!job)
        return;
    leat_journal_close(job->journal, finished);
    leat_buf_free(&job->attributes);
    free(job->parts);
    free(job->from_key);
    free(job->to_key);
    free(job);
}

/* Hold mu. */
static void job_end(struct job *job, bool finished)
{
    struct leat_copy *c = job->copy;
    *(job->prev ? &job->prev->next : &c->jobs) = job->next;
    if (job->next)
        job->next->prev = job->prev;
    c->progress.objects += finished;
    job_free(job, finished);
}

static void on_finished(struct leat_store_op *op)
{
    struct job *job = op->user;
    struct leat_copy *c = job->copy;
    pthread_mutex_lock(&c->mu);
    job->finishing = false;
    job->finished = op->status == LEAT_OK;
    job->useless |= op->status == LEAT_NOT_FOUND || op->status == LEAT_INVALID || op->status == LEAT_CORRUPT;
    if (!job->finished)
        set_failed(c, &job->finish_err);
    else if (!c->failed) /* else leat_copy_close() walks the list and frees it */
        job_end(job, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mu);
}

/* Hold mu. Whether the parts make the whole that the source states. */
static bool sums_fit(const struct job *job)
{
    const struct leat_checksum *sum = &job->object.checksum;
    uint64_t all = 0;
    for (uint32_t i = 0; i < job->parts_n; i++) {
        if (job->parts[i].sum_kind != sum->kind) /* none are taken over without it */
            return false;
        all = sum->parts ? leat_checksum_nest(sum->kind, all, job->parts[i].sum)
                         : leat_checksum_join(sum->kind, all, job->parts[i].sum, job->parts[i].size);
    }
    return leat_checksum_fits_piece(sum, all);
}

/* Hold mu. When the last part is there the object is put together. */
static void check_job(struct job *job)
{
    if (job->adding || job->parts_left || job->finishing || job->copy->failed)
        return;
    if (!job->parts) {
        job_end(job, !job->skipped);
        return;
    }
    if (job->summed && !sums_fit(job)) {
        struct leat_error err;
        leat_fail(&err, LEAT_CORRUPT, "the bytes of '%s' do not have the checksum that the server states (%s)",
                  job->from_key, leat_checksum_name(job->object.checksum.kind));
        job->useless = true;
        set_failed(job->copy, &err);
        return;
    }
    job->finishing = true;
    job->finish = (struct leat_store_op){
        .verb = LEAT_STORE_UPLOAD_FINISH,
        .key = job->to_key,
        .upload = job->upload,
        .parts = job->parts,
        .parts_n = job->parts_n,
        .err = &job->finish_err,
        .done = on_finished,
        .user = job,
    };
    leat_store_submit(job->copy->opts.to, &job->finish);
}

/* Of memory, for what is under way. */
static uint64_t cost(const struct job *job, uint64_t size)
{
    return (job->by_server ? 0 : size) + UNIT_COST;
}

/* Hold mu. */
static void unit_end(struct unit *u)
{
    struct leat_copy *c = u->job->copy;
    free(u->data);
    leat_buf_free(&u->found);
    u->data = NULL;
    c->memory -= cost(u->job, u->size);
    c->units_n--;
    c->progress.bytes_moving -= u->moved;
    u->ended = true;
    *(u->prev ? &u->prev->next : &c->units) = u->next;
    if (u->next)
        u->next->prev = u->prev;
    if (!u->pinned)
        free(u);
    pthread_cond_broadcast(&c->changed);
}

static void on_written(struct leat_store_op *op)
{
    struct unit *u = (struct unit *)op;
    struct job *job = u->job;
    struct leat_copy *c = job->copy;
    struct leat_store_part part = {.size = u->size,
                                   .summed = !job->by_server,
                                   .crc32c = u->sums.crc32c,
                                   .sum_kind = job->summed ? job->object.checksum.kind : LEAT_CHECKSUM_NONE,
                                   .sum = u->sum};
    memcpy(part.etag, u->object.etag, sizeof part.etag);
    if (op->status == LEAT_OK && u->part)
        leat_journal_note(job->journal, u->part, &part);
    pthread_mutex_lock(&c->mu);
    if (op->status == LEAT_OK) {
        c->progress.bytes += u->size;
        if (u->part)
            job->parts[u->part - 1] = part;
        job->parts_left--;
    } else {
        set_failed(c, &u->err);
        /* An upload that was taken up may want of its parts what the server no longer takes. */
        job->useless |= u->part && (op->status == LEAT_NOT_FOUND || op->status == LEAT_CHANGED ||
                                    (job->taken_up && op->status == LEAT_INVALID));
    }
    unit_end(u);
    check_job(job);
    pthread_mutex_unlock(&c->mu);
}

static void on_moved(struct leat_store_op *op, size_t n)
{
    struct unit *u = (struct unit *)op;
    struct leat_copy *c = u->job->copy;
    pthread_mutex_lock(&c->mu);
    size_t left = u->size - u->moved; /* nothing, where an attempt begins again */
    u->moved += n < left ? n : left;
    c->progress.bytes_moving += n < left ? n : left;
    pthread_mutex_unlock(&c->mu);
}

/* Progress goes by the end that takes time: reading a file does not. */
static bool counts_reading(const struct leat_copy *c)
{
    return !leat_store_can(c->opts.from, LEAT_STORE_LOCAL);
}

/* What the other ends compare with: here, on the source's thread and without the lock, rather than on the busier one
 * that sends. */
static void sum_unit(struct unit *u)
{
    const struct job *job = u->job;
    u->sums.md5_known = u->size && leat_store_wants_md5(job->copy->opts.to);
    u->sums.crc_known = u->part || leat_store_wants_crc32c(job->copy->opts.to);
    if (u->sums.md5_known)
        leat_md5(u->data, u->size, u->sums.md5);
    if (u->sums.crc_known)
        u->sums.crc32c = leat_crc32c(0, u->data, u->size);
    if (u->part && job->summed)
        u->sum = job->object.checksum.kind == LEAT_CHECKSUM_CRC32C
                     ? u->sums.crc32c
                     : leat_checksum_piece(job->object.checksum.kind, u->data, u->size);
}

/* Hold mu. */
static void copy_unit(struct unit *u)
{
    struct job *job = u->job;
    u->op = (struct leat_store_op){
        .verb = u->part ? LEAT_STORE_UPLOAD_COPY : LEAT_STORE_COPY,
        .key = job->to_key,
        .source = &job->source,
        .attributes = job->attributes.len ? job->attributes.data : NULL,
        .upload = job->upload,
        .part = u->part,
        .offset = u->offset,
        .length = u->size,
        .err = &u->err,
        .object = &u->object,
        .done = on_written,
    };
    u->busy = job->copy->opts.to;
    leat_store_submit(u->busy, &u->op);
}

/* Hold mu. */
static void write_unit(struct unit *u)
{
    struct job *job = u->job;
    u->op = (struct leat_store_op){
        .verb = u->part ? LEAT_STORE_UPLOAD_PART : LEAT_STORE_PUT,
        .key = job->to_key,
        .data = u->data,
        .data_n = u->size,
        .sums = &u->sums,
        .attributes = u->part || !u->found.len ? NULL : u->found.data,
        .upload = job->upload,
        .part = u->part,
        .offset = u->offset,
        .moved = counts_reading(job->copy) ? NULL : on_moved,
        .err = &u->err,
        .object = &u->object,
        .done = on_written,
    };
    u->busy = job->copy->opts.to;
    leat_store_submit(u->busy, &u->op);
}

static void on_read(struct leat_store_op *op)
{
    struct unit *u = (struct unit *)op;
    struct leat_copy *c = u->job->copy;
    leat_status rc = op->status;
    /* Its ETag has the time of its last modification, which programs set as they like. */
    if (rc == LEAT_OK && u->part && u->object.changed_ns != u->job->object.changed_ns)
        rc = leat_fail(&u->err, LEAT_CHANGED, "'%s' was changed while it was copied", u->job->from_key);
    if (rc == LEAT_OK)
        sum_unit(u);
    if (rc == LEAT_OK && !u->part)
        rc = leat_copy_attributes(u->job, &u->found, &u->err);
    pthread_mutex_lock(&c->mu);
    u->job->useless |= rc == LEAT_CHANGED; /* there is no more of what the parts are of */
    if (rc != LEAT_OK)
        set_failed(c, &u->err);
    if (c->failed)
        unit_end(u);
    else
        write_unit(u);
    pthread_mutex_unlock(&c->mu);
}

static bool keeps_attributes(const struct leat_copy *c)
{
    return leat_store_can(c->opts.to, LEAT_STORE_ATTRIBUTES);
}

/* Hold mu. */
static void read_unit(struct unit *u)
{
    struct job *job = u->job;
    bool wanted = keeps_attributes(job->copy) && !u->part;
    if (job->by_server) {
        copy_unit(u);
        return;
    }
    bool local = leat_store_can(job->copy->opts.from, LEAT_STORE_LOCAL);
    if (!u->size && wanted && local && leat_copy_attributes(job, &u->found, &u->err) != LEAT_OK) {
        set_failed(job->copy, &u->err);
        unit_end(u);
        return;
    }
    if (!u->size && (!wanted || local)) {
        write_unit(u);
        return;
    }
    u->op = (struct leat_store_op){
        .verb = LEAT_STORE_GET,
        .key = job->from_key,
        .offset = u->offset,
        .length = u->size,
        .into = u->data,
        .if_match = job->object.etag[0] ? job->object.etag : NULL,
        .known = &job->object,
        .verify = u->size != 0,
        .found = wanted && !local ? &u->found : NULL,
        .moved = counts_reading(job->copy) ? on_moved : NULL,
        .err = &u->err,
        .object = &u->object,
        .done = on_read,
    };
    u->busy = job->copy->opts.from;
    leat_store_submit(u->busy, &u->op);
}

static void on_looked(struct leat_store_op *op)
{
    struct unit *u = (struct unit *)op;
    struct job *job = u->job;
    struct leat_copy *c = job->copy;
    bool there = op->status == LEAT_OK && leat_copy_same(&job->object, &u->object);
    if (there)
        leat_copy_forget_journal(job);
    pthread_mutex_lock(&c->mu);
    if (c->failed) {
        unit_end(u);
    } else if (there) {
        job->skipped = true;
        job->parts_left = 0;
        c->progress.skipped++;
        c->progress.bytes_planned -= u->size;
        unit_end(u);
        check_job(job);
    } else {
        read_unit(u); /* if looking failed for another reason, writing will say it */
    }
    pthread_mutex_unlock(&c->mu);
}

/* Hold mu. Many at a time, as everything here: one after the other, looking could take longer than copying. */
static void look_unit(struct unit *u)
{
    u->op =
        (struct leat_store_op){.verb = LEAT_STORE_STAT, .key = u->job->to_key, .object = &u->object, .done = on_looked};
    u->busy = u->job->copy->opts.to;
    leat_store_submit(u->busy, &u->op);
}

static bool stopped(const struct leat_copy *c)
{
    return c->opts.stop && c->opts.stop(c->opts.stop_user);
}

/* Hold mu. Waits for a change; notices Ctrl-C. */
static void wait_change(struct leat_copy *c)
{
    leat_cond_wait(&c->changed, &c->mu, leat_after(100 * LEAT_MS));
    if (!c->failed && stopped(c)) {
        struct leat_error err;
        leat_fail(&err, LEAT_CANCELLED, "interrupted");
        set_failed(c, &err);
    }
}

static leat_status failure(struct leat_copy *c, struct leat_error *err)
{
    if (err)
        *err = c->err;
    return c->err.status;
}

/* Waits for memory, then sends a unit on its way. */
static leat_status send_unit(struct job *job, uint32_t part, uint64_t offset, size_t size, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    struct unit *u = NULL;
    pthread_mutex_lock(&c->mu);
    while (!c->failed && c->units_n && (c->units_n >= UNITS_MAX || c->memory + cost(job, size) > c->opts.memory))
        wait_change(c);
    leat_status rc = c->failed ? failure(c, err) : LEAT_OK;
    if (rc == LEAT_OK) {
        u = calloc(1, sizeof *u);
        char *data = malloc(job->by_server ? 1 : size + 1);
        if (!u || !data) {
            free(u);
            free(data);
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to copy '%s'", job->from_key);
        } else {
            u->job = job;
            u->part = part;
            u->offset = offset;
            u->size = size;
            u->data = data;
            leat_buf_init(&u->found, LEAT_ATTRIBUTES_MAX);
            u->next = c->units;
            if (u->next)
                u->next->prev = u;
            c->units = u;
            c->units_n++;
            c->memory += cost(job, size);
            if (c->opts.resume && !part)
                look_unit(u);
            else
                read_unit(u);
        }
    }
    pthread_mutex_unlock(&c->mu);
    return rc;
}

static uint64_t choose_part_size(uint64_t wanted, uint64_t size)
{
    uint64_t least = size / LEAT_PARTS_MAX + 1;
    uint64_t part = wanted > least ? wanted : (least + (1u << 20) - 1) >> 20 << 20;
    return part < LEAT_PART_MIN ? LEAT_PART_MIN : part;
}

/* Hold mu. Whether a later resume could go on with what has arrived. A full disk gets its space back instead. */
static bool resumable(const struct job *job)
{
    return !job->finished && job->upload[0] && job->journal && !job->useless && job->copy->err.status != LEAT_NO_SPACE;
}

static leat_status send_parts(struct job *job, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < job->parts_n && rc == LEAT_OK; i++) {
        uint64_t offset = i * job->part_size;
        uint64_t left = job->object.size - offset;
        uint64_t size = left < job->part_size ? left : job->part_size;
        pthread_mutex_lock(&c->mu);
        bool there = job->parts[i].etag[0] != '\0';
        if (there) {
            c->progress.bytes += size;
            job->parts_left--;
        }
        pthread_mutex_unlock(&c->mu);
        if (!there)
            rc = send_unit(job, i + 1, offset, (size_t)size, err);
    }
    return rc;
}

static leat_status add_job(struct job *job, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    job->parts_left = 1;
    if (job->object.size > job->part_size) {
        job->parts_n = (uint32_t)((job->object.size + job->part_size - 1) / job->part_size);
        job->parts_left = job->parts_n;
        job->parts = calloc(job->parts_n, sizeof *job->parts);
        rc = job->parts ? leat_copy_open_upload(job, err)
                        : leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of parts");
    }
    if (rc == LEAT_OK)
        rc = job->parts ? send_parts(job, err) : send_unit(job, 0, 0, (size_t)job->object.size, err);
    return rc;
}

static void skip_job(struct job *job)
{
    struct leat_copy *c = job->copy;
    leat_copy_forget_journal(job);
    pthread_mutex_lock(&c->mu);
    c->progress.skipped++;
    pthread_mutex_unlock(&c->mu);
    job_free(job, false);
}

static struct job *job_new(struct leat_copy *c, const char *from_key, const char *to_key)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->copy = c;
    job->adding = true;
    job->from_key = strdup(from_key);
    job->to_key = strdup(to_key);
    leat_buf_init(&job->attributes, LEAT_ATTRIBUTES_MAX);
    if (job->from_key && job->to_key)
        return job;
    job_free(job, false);
    return NULL;
}

/* A source whose checksum is made of its parts' is read in these, unless they are too small for the other side, or too
 * large: then nothing could be compared. */
static uint64_t wanted_part_size(const struct job *job)
{
    const struct leat_checksum *sum = &job->object.checksum;
    uint64_t usual = job->copy->opts.part_size;
    return sum->parts && sum->part_size >= LEAT_PART_MIN && sum->part_size <= 8 * usual ? sum->part_size : usual;
}

static leat_status add(struct leat_copy *c, const char *from_key, const struct leat_object *known, const char *version,
                       const char *to_key, struct leat_error *err)
{
    struct leat_error why = {0};
    bool done = false;
    struct job *job = job_new(c, from_key, to_key);
    leat_status rc = LEAT_OK;
    if (!job)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to copy '%s'", from_key);
    /* What goes in parts is looked at by itself: a list has neither checksum nor ctime, and may lack the ETag. */
    if (known)
        job->object = *known;
    if (!known || known->size > c->opts.part_size || (c->by_server && c->opts.attributes))
        rc = leat_copy_look(c->opts.from, from_key, version, &job->object, &job->attributes, err);
    if (rc == LEAT_OK && stopped(c))
        rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    if (rc != LEAT_OK) {
        job_free(job, false);
        return rc;
    }
    if (rc == LEAT_OK && c->by_server)
        rc = leat_copy_by_server(job, &done, err);
    if (rc != LEAT_OK || done) {
        job_free(job, false);
        return rc;
    }
    job->part_size = choose_part_size(job->by_server ? COPY_PART : wanted_part_size(job), job->object.size);
    if (job->by_server && job->object.size <= c->server_whole)
        job->part_size = c->server_whole;
    if (!job->by_server && job->object.size > job->part_size && !leat_exchange_tells(job->object.etag)) {
        job->part_size = job->object.size; /* parts could be of two versions */
        if (job->object.size > c->opts.memory)
            rc = leat_fail(err, LEAT_UNSUPPORTED,
                           "cannot copy '%s': the server does not say which version it is (no ETag, no Last-Modified), "
                           "and it is too long to be read in one piece",
                           from_key);
    }
    if (rc == LEAT_OK && !job->by_server && keeps_attributes(c) && job->object.size > job->part_size)
        rc = leat_copy_attributes(job, &job->attributes, err);
    if (rc != LEAT_OK) {
        job_free(job, false);
        return rc;
    }
    job->summed = !job->by_server && leat_checksum_joins(job->object.checksum.kind) &&
                  (!job->object.checksum.parts || job->object.checksum.part_size == job->part_size);
    if (c->opts.resume && job->object.size > job->part_size && leat_copy_there_already(job)) {
        skip_job(job);
        return LEAT_OK;
    }
    pthread_mutex_lock(&c->mu);
    job->next = c->jobs;
    if (job->next)
        job->next->prev = job;
    c->jobs = job;
    c->progress.bytes_planned += job->object.size;
    pthread_mutex_unlock(&c->mu);
    rc = add_job(job, &why);
    pthread_mutex_lock(&c->mu);
    job->adding = false;
    if (rc != LEAT_OK)
        set_failed(c, &why);
    check_job(job);
    pthread_mutex_unlock(&c->mu);
    if (rc != LEAT_OK && err)
        *err = why;
    return rc;
}

leat_status leat_copy_add(struct leat_copy *c, const char *from_key, const struct leat_object *known,
                          const char *to_key, struct leat_error *err)
{
    return add(c, from_key, known, "", to_key, err);
}

leat_status leat_copy_add_version(struct leat_copy *c, const char *from_key, const char *version, const char *to_key,
                                  struct leat_error *err)
{
    return add(c, from_key, NULL, version, to_key, err);
}

leat_status leat_copy_wait(struct leat_copy *c, struct leat_error *err)
{
    pthread_mutex_lock(&c->mu);
    while (!c->failed && c->jobs)
        wait_change(c);
    leat_status rc = c->failed ? failure(c, err) : LEAT_OK;
    pthread_mutex_unlock(&c->mu);
    return rc;
}

void leat_copy_progress(struct leat_copy *c, struct leat_copy_progress *out)
{
    pthread_mutex_lock(&c->mu);
    *out = c->progress;
    out->resumable = 0;
    for (const struct job *job = c->jobs; job; job = job->next)
        out->resumable += resumable(job);
    pthread_mutex_unlock(&c->mu);
}

leat_status leat_copy_open(const struct leat_copy_opts *opts, struct leat_copy **out, struct leat_error *err)
{
    struct leat_copy *c = calloc(1, sizeof *c);
    if (!c)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to copy");
    c->opts = *opts;
    c->opts.part_size = opts->part_size ? opts->part_size : PART_DEFAULT;
    c->opts.memory = opts->memory ? opts->memory : MEMORY_DEFAULT;
    pthread_mutex_init(&c->mu, NULL);
    leat_cond_init(&c->changed);
    c->by_server = !opts->through && leat_copy_one_server(c);
    if (opts->journal && !(c->journal = strdup(opts->journal))) {
        leat_copy_close(c);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to copy");
    }
    *out = c;
    return LEAT_OK;
}

/* Hold mu. Units end by themselves once their op has; this makes that soon. */
static void cancel_units(struct leat_copy *c)
{
    struct unit *u = c->units;
    while (u) {
        if (u->cancelled) {
            u = u->next;
            continue;
        }
        struct leat_store *store = u->busy;
        u->cancelled = u->pinned = true;
        pthread_mutex_unlock(&c->mu);
        leat_store_cancel(store, &u->op);
        pthread_mutex_lock(&c->mu);
        u->pinned = false;
        if (u->ended)
            free(u);
        u = c->units; /* the list may have changed meanwhile */
    }
}

void leat_copy_close(struct leat_copy *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mu);
    struct leat_error err;
    leat_fail(&err, LEAT_CANCELLED, "cancelled");
    set_failed(c, &err);
    cancel_units(c);
    for (struct job *job = c->jobs; job; job = job->next) { /* jobs stay on the list once `failed` is set */
        if (job->finishing) {
            pthread_mutex_unlock(&c->mu);
            leat_store_cancel(c->opts.to, &job->finish);
            pthread_mutex_lock(&c->mu);
        }
    }
    for (;;) {
        bool busy = c->units != NULL;
        for (struct job *job = c->jobs; job; job = job->next)
            busy |= job->finishing;
        if (!busy)
            break;
        leat_cond_wait(&c->changed, &c->mu, leat_after(LEAT_S));
    }
    pthread_mutex_unlock(&c->mu);
    while (c->jobs) {
        struct job *job = c->jobs;
        c->jobs = job->next;
        bool keep = resumable(job);
        if (!job->finished && job->upload[0] && !keep)
            leat_copy_abort_upload(c, job->to_key, job->upload);
        job_free(job, !keep);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mu);
    free(c->journal);
    free(c);
}
