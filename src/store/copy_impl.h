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
    uint32_t parts_left;             /* hold mu */
    bool adding;                     /* hold mu: the caller is still making its units */
    bool by_server;                  /* the bytes do not come here */
    struct leat_store_source source; /* … but from there */
    struct leat_buf attributes;      /* of an object in parts, or that are to stand instead of the source's */
    bool summed;                     /* parts carry `sum`: the whole is compared with what the source states */
    bool taken_up;                   /* the upload is of an earlier copy */
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
    bool by_server;        /* both ends are of one server, and it can copy … */
    bool server_did;       /* … as the first object has shown: the caller's thread only */
    uint64_t server_whole; /* the largest that it copies at once … */
    bool server_parts;     /* … and larger ones in parts */
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

#define COPY_PART (512ull << 20) /* of what a server copies in parts */

/* In copy_server.c; what they are stands there. */
bool leat_copy_same(const struct leat_object *source, const struct leat_object *there);
leat_status leat_copy_attributes(const struct job *job, struct leat_buf *text, struct leat_error *err);
leat_status leat_copy_look(struct leat_store *store, const char *key, const char *version, struct leat_object *out,
                           struct leat_buf *attributes, struct leat_error *err);
bool leat_copy_there_already(const struct job *job);
leat_status leat_copy_by_server(struct job *job, bool *done, struct leat_error *err);
bool leat_copy_one_server(struct leat_copy *copy);

#endif
