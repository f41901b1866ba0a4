/* What the two halves of copying share: copy.c moves the bytes, copy_upload.c begins and takes up what goes in parts.
 */
#ifndef LEAT_STORE_COPY_IMPL_H
#define LEAT_STORE_COPY_IMPL_H

#include <pthread.h>

#include "store/copy.h"
#include "store/journal.h"

struct unit;

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
    bool summed;         /* parts carry `sum`: the whole is compared with what the source states */
    char upload[LEAT_UPLOAD_ID_MAX];
    struct leat_journal *journal;
    struct leat_store_op finish;
    struct leat_error finish_err;
    bool finishing; /* hold mu: the op above is on its way */
    bool finished;  /* hold mu */
    bool useless;   /* hold mu: nothing could go on with this upload */
    bool skipped;   /* hold mu: it was there already */
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

/* Finds the upload to go on with, or begins one. On the caller's thread. */
leat_status leat_copy_open_upload(struct job *job, struct leat_error *err);

/* What an interruption between the object's end and the journal's left behind. */
void leat_copy_forget_journal(const struct job *job);

/* An upload that nobody can go on with only costs storage. */
void leat_copy_abort_upload(struct leat_copy *copy, const char *to_key, const char *upload);

#endif
