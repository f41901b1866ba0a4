/* Which parts of a large copy have arrived: a small file of JSON lines, one for each part, written as they do. It is
 * locked while a copy uses it, so that two copies of the same object do not take each other's upload. */
#ifndef LEAT_STORE_JOURNAL_H
#define LEAT_STORE_JOURNAL_H

#include "store/store.h"

struct leat_journal;

struct leat_journal_head {
    uint64_t size; /* of the object */
    uint64_t part_size;
    bool by_server; /* the server copies the parts by itself: they are not sent with checksums */
    char etag[LEAT_ETAG_MAX];
    char upload[LEAT_UPLOAD_ID_MAX]; /* with the mark of the checksums that it was begun with; see s3_sums.h */
};

/* The journal of copying `from` to `to`, which name both ends in full: the one that is there, or a new one. The folder
 * is made when missing, with those above it. LEAT_BUSY when another copy is at work with it. */
leat_status leat_journal_open(const char *folder, const char *from, const char *to, struct leat_journal **out,
                              struct leat_error *err);

/* What was written into it before. True when its head fits *head in size, part size, ETag and who copies; then the
 * parts that have arrived (ETag not "") are filled in, less their sizes. In both cases head->upload becomes the upload
 * it is about, "": none. */
bool leat_journal_read(struct leat_journal *journal, struct leat_journal_head *head, struct leat_store_part *parts,
                       uint32_t parts_n);

/* Begins again, in place of what was there. A full disk only costs the resume: errors are not reported, here and in
 * leat_journal_note. */
void leat_journal_begin(struct leat_journal *journal, const struct leat_journal_head *head, const char *from,
                        const char *to);

/* Notes a part that has arrived: 1, 2, … Thread-safe. NULL is allowed. */
void leat_journal_note(struct leat_journal *journal, uint32_t number, const struct leat_store_part *part);

void leat_journal_close(struct leat_journal *journal, bool remove); /* NULL is allowed */

/* Removes the journal of a copy that turned out to be finished, if there is one. */
void leat_journal_forget(const char *folder, const char *from, const char *to);

#endif
