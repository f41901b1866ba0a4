/* Which parts of a large copy have arrived: a small file of JSON lines, one for each part, written as they do. */
#ifndef LEAT_STORE_JOURNAL_H
#define LEAT_STORE_JOURNAL_H

#include "store/store.h"

struct leat_journal;

struct leat_journal_head {
    uint64_t size; /* of the object */
    uint64_t part_size;
    char etag[LEAT_ETAG_MAX];
    char upload[LEAT_UPLOAD_ID_MAX];
};

/* The journal of copying `from` to `to`, which name both ends in full. Reads one that is there when its head fits
 * *head in size, part size and ETag: then head->upload and the parts that have arrived (ETag not "") are filled
 * in. *journal is NULL after LEAT_OK when there is none that fits. */
leat_status leat_journal_find(const char *folder, const char *from, const char *to, struct leat_journal_head *head,
                              struct leat_store_part *parts, uint32_t parts_n, struct leat_journal **journal,
                              struct leat_error *err);

/* Begins a new one, in place of any that was there. */
leat_status leat_journal_begin(const char *folder, const char *from, const char *to,
                               const struct leat_journal_head *head, struct leat_journal **journal,
                               struct leat_error *err);

/* Notes a part that has arrived. A full disk only costs the resume: errors are not reported. Thread-safe. */
void leat_journal_note(struct leat_journal *journal, uint32_t part, const char *etag);

void leat_journal_close(struct leat_journal *journal, bool remove); /* NULL is allowed */

#endif
