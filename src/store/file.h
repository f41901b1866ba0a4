/* The file backend's two halves: operations (file.c) and walking folders (file_list.c). */
#ifndef LEAT_STORE_FILE_H
#define LEAT_STORE_FILE_H

#include <sys/stat.h>

#include "store/backend.h"

/* A strong tag for a file's content as far as a file system tells: it changes with size, time and identity. */
void leat_file_etag(const struct stat *st, char out[LEAT_ETAG_MAX]);

/* Names of files that are being written: never listed. */
#define LEAT_FILE_TEMPORARY ".leat-part-"

leat_status leat_file_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                                struct leat_error *err);

#endif
