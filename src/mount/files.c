#include "mount/files.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "dataset/npy.h"
#include "dataset/slice.h"
#include "mount/chunks.h"
#include "mount/path.h"

#define VALUE    ((uint64_t)1 << 63) /* of the hold's numbers: a value that was made; else a chunk */
#define NPY      (1u << 15)          /* of a tree's fields: the file is a .npy */
#define HEAD_MAX 4096u               /* bytes of its head */

static_assert(LEAT_FIELDS_MAX <= NPY, "the bit is free");

struct leat_files {
    struct leat_files_opts opts;
    struct leat_tree *tree;
    struct leat_chunks *chunks;
    struct leat_hold *hold;
    uint64_t left_out;
    uint64_t bytes;
    int64_t time_s;
};

const struct leat_tree *leat_files_tree(const struct leat_files *f)
{
    return f->tree;
}

uint64_t leat_files_left_out(const struct leat_files *f)
{
    return f->left_out;
}

uint64_t leat_files_bytes(const struct leat_files *f)
{
    return f->bytes;
}

int64_t leat_files_time(const struct leat_files *f)
{
    return f->time_s;
}

void leat_files_stats(struct leat_files *f, struct leat_hold_stats *out)
{
    leat_hold_stats(f->hold, out);
}

/* The catalog */

static void leave_out(struct leat_files *f, const char *why)
{
    f->left_out++;
    f->opts.left_out(f->opts.user, why);
}

/* A key or path for people, cut to fit. */
static const char *shown(const char *key, size_t n, char out[301])
{
    size_t fit = n < 300 ? n : 300;
    memcpy(out, key, fit);
    for (size_t i = 0; i < fit; i++)
        out[i] = (unsigned char)out[i] < ' ' || out[i] == 127 ? '?' : out[i];
    out[fit] = '\0';
    return out;
}

static leat_status refuse(void *user, enum leat_tree_why why, const struct leat_tree_file *file,
                          const struct leat_tree_file *other, struct leat_error *err)
{
    struct leat_files *f = user;
    char name[301];
    char text[500];
    (void)err;
    shown(file->path, file->path_n, name);
    if (why == LEAT_TREE_SAME)
        snprintf(text, sizeof text, "sample %" PRIu64 " is the file '%s', as sample %" PRIu64 " is", file->sample, name,
                 other->sample);
    else
        snprintf(text, sizeof text,
                 "sample %" PRIu64 " is the file '%s', which is a folder too: sample %" PRIu64 " lies in it",
                 file->sample, name, other->sample);
    f->bytes -= file->bytes;
    leave_out(f, text);
    return LEAT_OK;
}

struct sample {
    uint64_t number;
    const char *key;
    size_t key_n;
    const uint8_t *row;
};

static const struct leat_field *field_of(const struct leat_files *f, uint32_t field)
{
    return &leat_dataset_root(f->opts.dataset)->schema.fields[field & ~NPY];
}

/* Bytes of the file with that value in it. */
static leat_status file_bytes(const struct leat_files *f, uint32_t field, const struct leat_cell *cell, uint64_t *out,
                              struct leat_error *err)
{
    struct leat_buf head;
    leat_status rc = LEAT_OK;
    leat_buf_init(&head, HEAD_MAX);
    if (field & NPY)
        rc = leat_npy_head(field_of(f, field), cell, &head, err);
    *out = (uint64_t)head.len + cell->raw;
    leat_buf_free(&head);
    return rc;
}

/* One field of a sample as the file `path`. */
static leat_status add_file(struct leat_files *f, const struct sample *s, uint32_t field, const char *path, size_t n,
                            struct leat_error *err)
{
    char name[301];
    char text[500];
    struct leat_error why;
    uint64_t bytes = 0;
    const struct leat_field *of = field_of(f, field);
    struct leat_cell cell = leat_cell_read(of, s->row);
    if (cell.absent && f->opts.several) /* there was no such file */
        return LEAT_OK;
    leat_status rc = cell.absent ? LEAT_OK : file_bytes(f, field, &cell, &bytes, &why);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory for a file");
    shown(path, n, name);
    if (n == 0)
        snprintf(text, sizeof text, "sample %" PRIu64 " has no key", s->number);
    else if (!leat_path_good(path, n))
        snprintf(text, sizeof text, "key '%s' of sample %" PRIu64 " cannot be a path", name, s->number);
    else if (cell.absent)
        snprintf(text, sizeof text, "sample %" PRIu64 " ('%s') has no '%s'", s->number, name, of->name);
    else if (rc != LEAT_OK)
        snprintf(text, sizeof text, "sample %" PRIu64 " ('%s'): %.150s", s->number, name, why.text);
    else if (bytes > UINT32_MAX)
        snprintf(text, sizeof text, "sample %" PRIu64 " ('%s') is larger than 4 GiB", s->number, name);
    else {
        struct leat_tree_file file = {
            .path = path, .path_n = n, .sample = s->number, .field = field, .bytes = (uint32_t)bytes};
        f->bytes += bytes;
        return leat_tree_add(f->tree, &file, err);
    }
    leave_out(f, text);
    return LEAT_OK;
}

static leat_status add_sample(struct leat_files *f, const struct sample *s, struct leat_buf *path,
                              struct leat_error *err)
{
    const struct leat_schema *schema = &leat_dataset_root(f->opts.dataset)->schema;
    leat_status rc = LEAT_OK;
    if (!f->opts.several || s->key_n == 0)
        return add_file(f, s, f->opts.field, s->key, s->key_n, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < schema->n; i++) {
        if (!leat_field_has_data(&schema->fields[i]))
            continue;
        leat_buf_clear(path);
        leat_buf_add(path, s->key, s->key_n);
        bool npy = leat_path_add_field(path, &schema->fields[i], i == f->opts.field);
        rc = leat_buf_check(path, "a path", err);
        if (rc == LEAT_OK)
            rc = add_file(f, s, i | (npy ? NPY : 0), path->data, path->len, err);
    }
    return rc;
}

static leat_status read_catalog(struct leat_files *f, struct leat_error *err)
{
    struct leat_dataset *d = f->opts.dataset;
    const uint32_t *counts = leat_dataset_counts(d);
    struct leat_buf path;
    uint64_t number = 0;
    leat_status rc = LEAT_OK;
    leat_buf_init(&path, LEAT_KEY_MAX + 128);
    for (uint32_t c = 0; rc == LEAT_OK && c < leat_dataset_root(d)->chunks; c++) {
        struct leat_slice slice = {0};
        if (counts[c] == 0)
            continue;
        rc = f->opts.stop && f->opts.stop(f->opts.user)
                 ? leat_fail(err, LEAT_CANCELLED, "interrupted")
                 : leat_slice_open(d, c, LEAT_SLICE_KEYS | LEAT_SLICE_ROWS, &slice, err);
        for (uint32_t i = 0; rc == LEAT_OK && i < counts[c]; i++) {
            uint32_t index = leat_dataset_index(d, c, i);
            struct sample s = {.number = number, .row = leat_slice_row(&slice, index)};
            number++;
            s.key = leat_slice_key(&slice, index, &s.key_n);
            rc = add_sample(f, &s, &path, err);
        }
        leat_slice_close(&slice);
    }
    leat_buf_free(&path);
    return rc == LEAT_OK ? leat_tree_build(f->tree, refuse, f, err) : rc;
}

/* When the version's root was written. A store that does not say so: 1970. */
static leat_status find_time(struct leat_files *f, struct leat_error *err)
{
    const struct leat_home *home = leat_dataset_home(f->opts.dataset);
    struct leat_object object = {0};
    char name[LEAT_NAME_MAX];
    leat_name_root(leat_dataset_root_id(f->opts.dataset), name);
    char *key = leat_home_key(home, name);
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    leat_status rc = leat_store_stat(home->store, key, &object, err);
    free(key);
    f->time_s = object.modified_s;
    return rc;
}

/* What is held */

static leat_status load_value(struct leat_files *f, uint64_t ino, void **out, struct leat_error *err);

static leat_status load(void *user, uint64_t id, void **out, struct leat_error *err)
{
    struct leat_files *f = user;
    if (id & VALUE)
        return load_value(f, id & ~VALUE, out, err);
    struct leat_loaded *chunk = NULL;
    leat_status rc = leat_chunks_load(f->chunks, (uint32_t)id, &chunk, err);
    if (rc == LEAT_OK)
        *out = chunk;
    else if (rc != LEAT_CANCELLED)
        f->opts.failed(f->opts.user, err->text);
    return rc;
}

static void drop(void *user, void *thing)
{
    (void)user;
    leat_loaded_free(thing);
}

static uint64_t count_bytes(void *user, uint64_t id)
{
    const struct leat_files *f = user;
    if (id & VALUE)
        return leat_tree_file(f->tree, id & ~VALUE).bytes;
    return leat_dataset_root(f->opts.dataset)->sizes[id];
}

/* Chunks are read in their order when the one before is still here. */
static void read_ahead(struct leat_files *f, uint32_t chunk)
{
    uint32_t chunks = leat_dataset_root(f->opts.dataset)->chunks;
    const uint32_t *counts = leat_dataset_counts(f->opts.dataset);
    if (chunk && !leat_hold_has(f->hold, chunk - 1))
        return;
    uint64_t room = f->opts.memory;
    for (uint32_t i = 1; i <= f->opts.ahead && i < chunks - chunk; i++) {
        uint64_t bytes = leat_dataset_root(f->opts.dataset)->sizes[chunk + i];
        if (bytes > room / 2) /* what is read now needs room too */
            return;
        room -= bytes;
        if (counts[chunk + i])
            leat_hold_ahead(f->hold, chunk + i);
    }
}

static leat_status take_chunk(struct leat_files *f, uint32_t chunk, struct leat_held **out, struct leat_error *err)
{
    bool fresh;
    leat_status rc = leat_hold_take(f->hold, chunk, out, &fresh, err);
    if (rc == LEAT_OK && fresh)
        read_ahead(f, chunk);
    return rc;
}

/* Where the file's value is, in a chunk that is held. */
static leat_status find_cell(struct leat_files *f, const struct leat_tree_file *file, struct leat_held **held,
                             struct leat_cell *cell, struct leat_error *err)
{
    uint32_t index;
    uint32_t chunk = leat_dataset_locate(f->opts.dataset, file->sample, &index);
    leat_status rc = take_chunk(f, chunk, held, err);
    if (rc != LEAT_OK)
        return rc;
    const struct leat_loaded *l = leat_held_thing(*held);
    *cell = leat_chunk_cell(&l->chunk, index, file->field & ~NPY);
    uint64_t bytes = 0;
    if (!cell->absent)
        rc = file_bytes(f, file->field, cell, &bytes, err);
    if (rc == LEAT_OK && !cell->absent && bytes == file->bytes)
        return LEAT_OK;
    leat_hold_give(f->hold, *held);
    if (rc == LEAT_OK)
        rc = leat_fail(err, LEAT_CORRUPT,
                       "chunk %" PRIu32 ": sample %" PRIu64 " has %" PRIu64 " bytes there and %" PRIu32
                       " in the table of samples",
                       chunk, file->sample, bytes, file->bytes);
    f->opts.failed(f->opts.user, err->text);
    return rc;
}

static leat_status load_value(struct leat_files *f, uint64_t ino, void **out, struct leat_error *err)
{
    struct leat_tree_file file = leat_tree_file(f->tree, ino);
    struct leat_held *held = NULL;
    struct leat_cell cell;
    struct leat_buf head;
    struct leat_loaded *l = calloc(1, sizeof *l);
    leat_status rc =
        l ? find_cell(f, &file, &held, &cell, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a file");
    if (rc != LEAT_OK) {
        free(l);
        return rc;
    }
    const struct leat_loaded *chunk = leat_held_thing(held);
    leat_buf_init(&head, HEAD_MAX);
    l->data = malloc(file.bytes ? file.bytes : 1);
    if (!l->data)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the %" PRIu32 " bytes of a file", file.bytes);
    else if (file.field & NPY)
        rc = leat_npy_head(field_of(f, file.field), &cell, &head, err);
    if (rc == LEAT_OK && head.len)
        memcpy(l->data, head.data, head.len);
    if (rc == LEAT_OK)
        rc = leat_chunk_value(&chunk->chunk, &cell, (uint8_t *)l->data + head.len, err);
    leat_buf_free(&head);
    leat_hold_give(f->hold, held);
    if (rc != LEAT_OK) {
        char name[301];
        rc = leat_fail_context(err, rc, "'%s'", shown(file.path, file.path_n, name));
        f->opts.failed(f->opts.user, err->text);
        leat_loaded_free(l);
        return rc;
    }
    *out = l;
    return LEAT_OK;
}

leat_status leat_files_read(struct leat_files *f, uint64_t ino, uint64_t at, size_t n, struct leat_files_part *out,
                            struct leat_error *err)
{
    struct leat_tree_file file = leat_tree_file(f->tree, ino);
    struct leat_held *held = NULL;
    struct leat_cell cell;
    bool fresh;
    *out = (struct leat_files_part){0};
    if (at >= file.bytes || n == 0)
        return LEAT_OK;
    bool value = leat_hold_has(f->hold, VALUE | ino); /* then its chunk is not needed, and may be gone */
    leat_status rc = value ? LEAT_OK : find_cell(f, &file, &held, &cell, err);
    if (rc == LEAT_OK && !value && (cell.zstd || file.field & NPY)) {
        leat_hold_give(f->hold, held);
        value = true;
    }
    if (rc == LEAT_OK && value)
        rc = leat_hold_take(f->hold, VALUE | ino, &held, &fresh, err);
    if (rc != LEAT_OK)
        return rc;
    const struct leat_loaded *l = leat_held_thing(held);
    const uint8_t *data = value ? l->data : leat_chunk_data(&l->chunk, &cell);
    out->data = data + at;
    out->n = n < file.bytes - at ? n : (size_t)(file.bytes - at);
    out->held = held;
    return LEAT_OK;
}

void leat_files_give(struct leat_files *f, struct leat_files_part *part)
{
    if (part->held)
        leat_hold_give(f->hold, part->held);
    *part = (struct leat_files_part){0};
}

/* Opening */

static leat_status open_hold(struct leat_files *f, struct leat_error *err)
{
    struct leat_hold_opts opts = {.budget = f->opts.memory,
                                  .threads = f->opts.ahead,
                                  .load = load,
                                  .drop = drop,
                                  .bytes = count_bytes,
                                  .user = f};
    return leat_hold_open(&opts, &f->hold, err);
}

leat_status leat_files_open(const struct leat_files_opts *opts, struct leat_files **out, struct leat_error *err)
{
    struct leat_files *f = calloc(1, sizeof *f);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mount");
    f->opts = *opts;
    leat_status rc = leat_tree_open(&f->tree, err);
    if (rc == LEAT_OK)
        rc = read_catalog(f, err);
    if (rc == LEAT_OK)
        rc = find_time(f, err);
    if (rc == LEAT_OK)
        rc = leat_chunks_open(opts->dataset, opts->cache_dir, opts->cache, &f->chunks, err);
    if (rc == LEAT_OK)
        rc = open_hold(f, err);
    if (rc != LEAT_OK) {
        leat_files_close(f);
        return rc;
    }
    *out = f;
    return LEAT_OK;
}

void leat_files_close(struct leat_files *f)
{
    if (!f)
        return;
    leat_hold_close(f->hold);
    leat_chunks_close(f->chunks);
    leat_tree_close(f->tree);
    free(f);
}
