/* Objects that are copied in parts: their journals, and the uploads that are begun or taken up. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/backend.h"
#include "store/copy_impl.h"

static void describe_end(struct leat_store *store, const char *key, struct leat_buf *out)
{
    leat_buf_init(out, 16 << 10);
    if (leat_store_can(store, LEAT_STORE_LOCAL) && *key != '/') { /* the same from wherever it is called */
        char *here = getcwd(NULL, 0);
        leat_buf_printf(out, "file://%s/%s", here ? here : ".", key);
        free(here);
    } else {
        int key_n =
            (int)(leat_store_can(store, LEAT_STORE_QUERIES) ? strcspn(key, "?")
                                                            : strlen(key)); /* a signature is to be kept nowhere */
        leat_buf_printf(out, "%s://%s/%.*s", leat_scheme_name(leat_store_scheme(store)), leat_store_host(store), key_n,
                        key);
    }
}

/* Both ends in full, for the journal. The caller frees them. */
static void describe_ends(const struct job *job, struct leat_buf *from, struct leat_buf *to)
{
    describe_end(job->copy->opts.from, job->from_key, from);
    describe_end(job->copy->opts.to, job->to_key, to);
}

void leat_copy_forget_journal(const struct job *job)
{
    struct leat_buf from;
    struct leat_buf to;
    if (!job->copy->journal || job->object.size <= LEAT_PART_MIN)
        return;
    describe_ends(job, &from, &to);
    if (!from.failed && !to.failed)
        leat_journal_forget(job->copy->journal, from.data, to.data);
    leat_buf_free(&from);
    leat_buf_free(&to);
}

void leat_copy_abort_upload(struct leat_copy *c, const char *to_key, const char *upload)
{
    struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_ABORT,
                               .key = to_key,
                               .upload = upload,
                               .timeout_ns = 2 * LEAT_S,
                               .ignore_stop = true};
    leat_store_run(c->opts.to, &op, NULL);
}

/* Parts whose checksum is not known of the kind that the source states now are moved again: without it the whole could
 * not be compared. */
static void drop_unsummed(struct job *job)
{
    enum leat_checksum_kind kind = job->object.checksum.kind;
    for (uint32_t i = 0; i < job->parts_n && job->summed; i++) {
        struct leat_store_part *part = &job->parts[i];
        if (part->sum_kind != kind && kind == LEAT_CHECKSUM_CRC32C && part->summed) { /* which goes with every part */
            part->sum_kind = kind;
            part->sum = part->crc32c;
        } else if (part->sum_kind != kind) {
            *part = (struct leat_store_part){0};
        }
    }
}

/* Where the journal tells of an upload: goes on with it, or has it dropped when it is no longer of use. */
static void take_up(struct job *job, const struct leat_journal_head *wanted)
{
    struct leat_copy *c = job->copy;
    struct leat_journal_head head = *wanted;
    bool fits = leat_journal_read(job->journal, &head, job->parts, job->parts_n) && c->opts.resume;
    drop_unsummed(job);
    for (uint32_t i = 0; i < job->parts_n; i++) {
        uint64_t left = job->object.size - i * job->part_size;
        job->parts[i].size = left < job->part_size ? left : job->part_size;
    }
    if (fits) {
        struct leat_store_op op = {
            .verb = LEAT_STORE_UPLOAD_STAT,
            .key = job->to_key,
            .upload = head.upload,
            .length = job->part_size,
            .parts = job->parts,
            .parts_n = job->parts_n,
        };
        leat_status rc = leat_store_run(c->opts.to, &op, NULL);
        fits = rc != LEAT_NOT_FOUND && rc != LEAT_CHANGED; /* whatever else is wrong, writing will say it */
    }
    if (fits) {
        memcpy(job->upload, head.upload, sizeof job->upload);
        job->taken_up = true;
        return;
    }
    memset(job->parts, 0, job->parts_n * sizeof *job->parts);
    if (head.upload[0]) /* also one that seems gone: its parts might not be */
        leat_copy_abort_upload(c, job->to_key, head.upload);
}

leat_status leat_copy_open_upload(struct job *job, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    struct leat_journal_head head = {
        .size = job->object.size, .part_size = job->part_size, .by_server = job->by_server};
    if (job->object.changed_ns) /* parts of a file are of one version only if its ctime is the same, too */
        snprintf(head.etag, sizeof head.etag, "%.100s-%" PRIx64, job->object.etag, (uint64_t)job->object.changed_ns);
    else
        memcpy(head.etag, job->object.etag, sizeof head.etag);
    struct leat_buf from;
    struct leat_buf to;
    describe_ends(job, &from, &to);
    leat_status rc = LEAT_OK;
    if (c->journal && job->object.etag[0] && !from.failed && !to.failed)
        rc = leat_journal_open(c->journal, from.data, to.data, &job->journal, err);
    if (rc != LEAT_BUSY || !c->opts.resume)
        rc = LEAT_OK; /* without a journal the copy goes on; it only cannot be taken up again */
    if (job->journal)
        take_up(job, &head);
    if (rc == LEAT_OK && !job->upload[0]) {
        struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_OPEN,
                                   .attributes = job->attributes.len ? job->attributes.data : NULL,
                                   .key = job->to_key,
                                   .source = job->by_server ? &job->source : NULL,
                                   .upload_id = job->upload};
        rc = leat_store_run(c->opts.to, &op, err);
        memcpy(head.upload, job->upload, sizeof head.upload);
        if (rc == LEAT_OK && job->journal)
            leat_journal_begin(job->journal, &head, from.data, to.data);
        job->useless = rc != LEAT_OK;
    }
    leat_buf_free(&from);
    leat_buf_free(&to);
    return rc;
}
