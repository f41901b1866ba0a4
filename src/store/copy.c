/* Copying. A job is an object, a unit one of its parts on its way: a read, then a write. The caller's thread makes
 * units as memory allows; their later steps run on the two stores' threads.
 *
 * A unit's op changes hands only under the lock, together with `busy`, which says whose it is: so that whoever
 * cancels knows which store to ask, and after `failed` is set no unit takes another step. */
#include "store/copy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/journal.h"

#define PART_DEFAULT   (8ull << 20)
#define MEMORY_DEFAULT (256ull << 20)
#define UNITS_MAX      1024u       /* small objects: bounds what is in flight when their bytes do not */
#define UNIT_COST      (16u << 10) /* of a unit besides its data */

struct job {
    struct leat_copy *copy;
    struct job *prev, *next;
    char *from_key;
    char *to_key;
    struct leat_object object;
    uint64_t part_size;
    struct leat_store_part *parts; /* NULL: in one piece */
    uint32_t parts_n;
    uint32_t parts_left; /* hold mu */
    bool adding;         /* hold mu: the caller is still making its units */
    char upload[LEAT_UPLOAD_ID_MAX];
    struct leat_journal *journal;
    struct leat_store_op finish;
    bool finishing; /* hold mu: the op above is on its way */
    bool finished;  /* hold mu */
};

struct unit {
    struct leat_store_op op; /* first member */
    struct unit *prev, *next;
    struct job *job;
    struct leat_store *busy; /* hold mu */
    bool pinned;             /* hold mu: a canceller looks at it */
    bool ended;              /* hold mu */
    bool cancelled;          /* hold mu */
    uint32_t part;           /* 1, 2, …; 0: the whole object */
    uint64_t offset;
    size_t size;
    char *data;
};

struct leat_copy {
    struct leat_copy_opts opts; /* constant after open, as `journal` */
    char *journal;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct job *jobs;
    struct unit *units;
    uint32_t units_n;
    uint64_t memory;
    bool failed;
    struct leat_error err;
    struct leat_copy_progress progress;
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
    if (!job->finished)
        set_failed(c, &op->err);
    else if (!c->failed) /* else leat_copy_close() walks the list and frees it */
        job_end(job, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mu);
}

/* Hold mu. When the last part is there the object is put together. */
static void check_job(struct job *job)
{
    if (job->adding || job->parts_left || job->finishing || job->copy->failed)
        return;
    if (!job->parts) {
        job_end(job, true);
        return;
    }
    job->finishing = true;
    job->finish = (struct leat_store_op){
        .verb = LEAT_STORE_UPLOAD_FINISH,
        .key = job->to_key,
        .upload = job->upload,
        .parts = job->parts,
        .parts_n = job->parts_n,
        .done = on_finished,
        .user = job,
    };
    leat_store_submit(job->copy->opts.to, &job->finish);
}

/* Hold mu. */
static void unit_end(struct unit *u)
{
    struct leat_copy *c = u->job->copy;
    free(u->data);
    u->data = NULL;
    c->memory -= u->size + UNIT_COST;
    c->units_n--;
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
    if (op->status == LEAT_OK && u->part)
        leat_journal_note(job->journal, u->part, op->object.etag);
    pthread_mutex_lock(&c->mu);
    if (op->status == LEAT_OK) {
        c->progress.bytes += u->size;
        if (u->part)
            job->parts[u->part - 1] = (struct leat_store_part){.size = u->size};
        if (u->part)
            memcpy(job->parts[u->part - 1].etag, op->object.etag, LEAT_ETAG_MAX);
        job->parts_left--;
    } else {
        set_failed(c, &op->err);
    }
    unit_end(u);
    check_job(job);
    pthread_mutex_unlock(&c->mu);
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
        .upload = job->upload,
        .part = u->part,
        .offset = u->offset,
        .done = on_written,
    };
    u->busy = job->copy->opts.to;
    leat_store_submit(u->busy, &u->op);
}

static void on_read(struct leat_store_op *op)
{
    struct unit *u = (struct unit *)op;
    struct leat_copy *c = u->job->copy;
    pthread_mutex_lock(&c->mu);
    if (op->status != LEAT_OK)
        set_failed(c, &op->err);
    if (c->failed)
        unit_end(u);
    else
        write_unit(u);
    pthread_mutex_unlock(&c->mu);
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
    while (!c->failed && c->units_n && (c->units_n >= UNITS_MAX || c->memory + size + UNIT_COST > c->opts.memory))
        wait_change(c);
    leat_status rc = c->failed ? failure(c, err) : LEAT_OK;
    if (rc == LEAT_OK) {
        u = calloc(1, sizeof *u);
        char *data = malloc(size + 1);
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
            u->next = c->units;
            if (u->next)
                u->next->prev = u;
            c->units = u;
            c->units_n++;
            c->memory += size + UNIT_COST;
            u->op = (struct leat_store_op){
                .verb = LEAT_STORE_GET,
                .key = job->from_key,
                .offset = offset,
                .length = size,
                .into = data,
                .if_match = job->object.etag[0] ? job->object.etag : NULL,
                .done = on_read,
            };
            u->busy = c->opts.from;
            if (size)
                leat_store_submit(u->busy, &u->op);
            else
                write_unit(u);
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

static void describe_end(struct leat_store *store, const char *key, struct leat_buf *out)
{
    leat_buf_printf(out, "%s://%s/%s", leat_scheme_name(leat_store_scheme(store)), leat_store_host(store), key);
}

static uint64_t part_offset(const struct job *job, uint32_t index)
{
    return index * job->part_size;
}

static size_t part_bytes(const struct job *job, uint32_t index)
{
    uint64_t left = job->object.size - part_offset(job, index);
    return (size_t)(left < job->part_size ? left : job->part_size);
}

/* Goes on with the upload in the journal: sends its first missing part (the last one again when none is missing).
 * That also shows whether the server still has the upload; many drop unfinished ones after some days. */
static leat_status try_upload(struct job *job, bool *gone, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    uint32_t i = 0;
    while (i + 1 < job->parts_n && job->parts[i].etag[0])
        i++;
    size_t n = part_bytes(job, i);
    char *data = malloc(n);
    if (!data)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to copy '%s'", job->from_key);
    leat_status rc = leat_store_get(c->opts.from, job->from_key, part_offset(job, i), n, data, job->object.etag, err);
    if (rc == LEAT_OK) {
        struct leat_store_op op = {
            .verb = LEAT_STORE_UPLOAD_PART,
            .key = job->to_key,
            .upload = job->upload,
            .part = i + 1,
            .offset = part_offset(job, i),
            .data = data,
            .data_n = n,
        };
        rc = leat_store_run(c->opts.to, &op, err);
        *gone = rc == LEAT_NOT_FOUND;
        if (rc == LEAT_OK) {
            memcpy(job->parts[i].etag, op.object.etag, sizeof job->parts[i].etag);
            leat_journal_note(job->journal, i + 1, op.object.etag);
        }
    }
    free(data);
    return rc;
}

static leat_status begin_upload(struct job *job, const char *from, const char *to, struct leat_journal_head *head,
                                bool keep, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_OPEN, .key = job->to_key};
    leat_status rc = leat_store_run(c->opts.to, &op, err);
    if (rc != LEAT_OK)
        return rc;
    memcpy(job->upload, op.upload_id, sizeof job->upload);
    memcpy(head->upload, op.upload_id, sizeof head->upload);
    if (keep) /* without one the copy goes on; it only cannot be taken up again */
        leat_journal_begin(c->journal, from, to, head, &job->journal, NULL);
    return LEAT_OK;
}

/* Finds the upload to go on with, or begins one. */
static leat_status open_upload(struct job *job, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    struct leat_journal_head head = {.size = job->object.size, .part_size = job->part_size};
    memcpy(head.etag, job->object.etag, sizeof head.etag);
    struct leat_buf from;
    struct leat_buf to;
    leat_buf_init(&from, 16 << 10);
    leat_buf_init(&to, 16 << 10);
    describe_end(c->opts.from, job->from_key, &from);
    describe_end(c->opts.to, job->to_key, &to);
    bool keep = c->journal && job->object.etag[0] && !from.failed && !to.failed;
    bool gone = false;
    leat_status rc = LEAT_OK;
    if (keep && c->opts.resume)
        leat_journal_find(c->journal, from.data, to.data, &head, job->parts, job->parts_n, &job->journal, NULL);
    if (job->journal) {
        memcpy(job->upload, head.upload, sizeof job->upload);
        rc = try_upload(job, &gone, err);
    }
    if (gone) {
        leat_journal_close(job->journal, true);
        job->journal = NULL;
        memset(job->parts, 0, job->parts_n * sizeof *job->parts);
        job->upload[0] = '\0';
        rc = LEAT_OK;
    }
    if (rc == LEAT_OK && !job->journal)
        rc = begin_upload(job, from.data, to.data, &head, keep, err);
    leat_buf_free(&from);
    leat_buf_free(&to);
    return rc;
}

static leat_status send_parts(struct job *job, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < job->parts_n && rc == LEAT_OK; i++) {
        size_t size = part_bytes(job, i);
        pthread_mutex_lock(&c->mu);
        bool there = job->parts[i].etag[0] != '\0';
        if (there) {
            c->progress.bytes += size;
            job->parts_left--;
        }
        pthread_mutex_unlock(&c->mu);
        if (!there)
            rc = send_unit(job, i + 1, part_offset(job, i), size, err);
    }
    return rc;
}

static leat_status add_job(struct job *job, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    leat_status rc = LEAT_OK;
    job->part_size = choose_part_size(c->opts.part_size, job->object.size);
    job->parts_left = 1;
    if (job->object.size > job->part_size) {
        job->parts_n = (uint32_t)((job->object.size + job->part_size - 1) / job->part_size);
        job->parts_left = job->parts_n;
        job->parts = calloc(job->parts_n, sizeof *job->parts);
        rc = job->parts ? open_upload(job, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of parts");
    }
    if (rc == LEAT_OK)
        rc = job->parts ? send_parts(job, err) : send_unit(job, 0, 0, (size_t)job->object.size, err);
    return rc;
}

/* True when the destination has the object already: same size and not older than the source. */
static bool there_already(struct leat_copy *c, const struct leat_object *object, const char *to_key)
{
    struct leat_object there;
    return leat_store_stat(c->opts.to, to_key, &there, NULL) == LEAT_OK && there.size == object->size &&
           there.modified_s >= object->modified_s;
}

leat_status leat_copy_add(struct leat_copy *c, const char *from_key, const struct leat_object *known,
                          const char *to_key, struct leat_error *err)
{
    struct leat_object object;
    leat_status rc = LEAT_OK;
    if (known)
        object = *known;
    else
        rc = leat_store_stat(c->opts.from, from_key, &object, err);
    if (rc != LEAT_OK)
        return rc;
    if (c->opts.resume && there_already(c, &object, to_key)) {
        pthread_mutex_lock(&c->mu);
        c->progress.skipped++;
        pthread_mutex_unlock(&c->mu);
        return LEAT_OK;
    }
    struct job *job = calloc(1, sizeof *job);
    if (job) {
        job->copy = c;
        job->object = object;
        job->adding = true;
        job->from_key = strdup(from_key);
        job->to_key = strdup(to_key);
    }
    if (!job || !job->from_key || !job->to_key) {
        job_free(job, false);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to copy '%s'", from_key);
    }
    pthread_mutex_lock(&c->mu);
    job->next = c->jobs;
    if (job->next)
        job->next->prev = job;
    c->jobs = job;
    c->progress.bytes_planned += object.size;
    pthread_mutex_unlock(&c->mu);
    rc = add_job(job, err);
    pthread_mutex_lock(&c->mu);
    job->adding = false;
    if (rc != LEAT_OK && err)
        set_failed(c, err);
    check_job(job);
    pthread_mutex_unlock(&c->mu);
    return rc;
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

/* An upload that nobody can go on with only costs storage. */
static void drop_upload(struct job *job)
{
    if (!job->upload[0] || job->journal)
        return;
    struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_ABORT,
                               .key = job->to_key,
                               .upload = job->upload,
                               .timeout_ns = 2 * LEAT_S,
                               .ignore_stop = true};
    leat_store_run(job->copy->opts.to, &op, NULL);
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
        if (!job->finished)
            drop_upload(job);
        job_free(job, job->finished);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mu);
    free(c->journal);
    free(c);
}
