/* Packing into a folder and reading it back, through the real file store. */

#include <pthread.h>
#include <unistd.h>

#include "base/bytes.h"
#include "dataset/dataset.h"
#include "dataset/pack.h"
#include "dataset/pack_origin.h"
#include "dataset/raw_origin.h"
#include "unit_place.h"

#define SAMPLES 3000u
#define THREADS 4u

struct place {
    char dir[64];
    struct leat_home home;
};
static struct place place;

static void open_place(struct place *p)
{
    struct leat_error err;
    assert_ok(leat_home_open(folder_make(p->dir), NULL, &p->home, &err), err);
}

static void close_place(struct place *p)
{
    leat_home_close(&p->home);
    folder_remove(p->dir);
}

static void setup(void)
{
    open_place(&place);
}

static void teardown(void)
{
    close_place(&place);
}

static struct leat_schema make_schema(void)
{
    struct leat_schema s = {0};
    struct leat_error err;
    assert_ok(leat_schema_add(&s, "data", LEAT_FIELD_BYTES, NULL, &err), err);
    assert_ok(leat_schema_add(&s, "number", LEAT_FIELD_INT, NULL, &err), err);
    return s;
}

static size_t sample_size(uint32_t i)
{
    return 100 + i * 37 % 400;
}

static void make_sample(uint32_t i, char key[32], uint8_t data[512], struct leat_value values[2])
{
    snprintf(key, 32, "k/%06u", i);
    for (size_t k = 0; k < sample_size(i); k++)
        data[k] = (uint8_t)(i + k);
    memset(values, 0, 2 * sizeof *values);
    values[0].data = data;
    values[0].size = sample_size(i);
    values[1].number = i;
}

static leat_status add_sample(struct leat_pack *p, uint32_t i, struct leat_error *err)
{
    char key[32];
    uint8_t data[512];
    struct leat_value values[2];
    make_sample(i, key, data, values);
    return leat_pack_add(p, key, strlen(key), values, err);
}

static struct leat_pack *open_pack(struct place *p, const struct leat_schema *schema, bool replace)
{
    struct leat_pack_opts opts = {.schema = schema, .chunk_bytes = 20000, .id = "pack", .publish.replace = replace};
    struct leat_pack *pack;
    struct leat_error err;
    assert_ok(leat_pack_open(&p->home, &opts, &pack, &err), err);
    return pack;
}

/* Packs all samples in order and returns the dataset's id. */
static void pack_all(struct place *p, uint8_t id[LEAT_SHA256_SIZE])
{
    struct leat_schema schema = make_schema();
    struct leat_pack *pack = open_pack(p, &schema, true);
    struct leat_error err;
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_ok(add_sample(pack, i, &err), err);
    assert_ok(leat_pack_finish(pack, id, &err), err);
    leat_pack_close(pack);
}

/* Every sample is there once with its bytes, by chunk, by number and by key. */
static void check_all(struct place *p)
{
    struct leat_dataset *d;
    struct leat_error err;
    uint8_t *seen = calloc(SAMPLES, 1);
    assert_ok(leat_dataset_open(p->dir, NULL, NULL, &d, &err), err);
    const struct leat_root *root = leat_dataset_root(d);
    assert_int_equal(root->samples, SAMPLES);
    uint64_t sample = 0;
    for (uint32_t c = 0; c < root->chunks; c++) {
        void *bytes;
        struct leat_chunk chunk;
        assert_ok(leat_dataset_load(d, c, &bytes, &chunk, &err), err);
        assert_true(chunk.size <= 20000);
        for (uint32_t i = 0; i < chunk.samples; i++, sample++) {
            char key[32];
            uint8_t data[512];
            struct leat_value values[2];
            uint8_t row[16];
            struct leat_buf found;
            uint64_t by_key;
            uint64_t count;
            uint32_t index;
            struct leat_cell cell = leat_chunk_cell(&chunk, i, 0);
            uint32_t number = (uint32_t)leat_chunk_cell(&chunk, i, 1).number;
            assert_true(number < SAMPLES && !seen[number]++);
            make_sample(number, key, data, values);
            assert_int_equal(cell.size, values[0].size);
            assert_memory_equal(leat_chunk_data(&chunk, &cell), data, cell.size);
            assert_int_equal(leat_dataset_locate(d, sample, &index), c);
            assert_int_equal(index, i);
            assert_ok(leat_dataset_row(d, sample, row, &err), err);
            assert_memory_equal(row, leat_chunk_row(&chunk, i), sizeof row);
            leat_buf_init(&found, LEAT_KEY_MAX);
            assert_ok(leat_dataset_key(d, sample, &found, &err), err);
            assert_string_equal(found.data, key);
            leat_buf_free(&found);
            assert_ok(leat_dataset_find(d, key, strlen(key), &by_key, &count, &err), err);
            assert_true(by_key == sample && count == 1);
        }
        free(bytes);
    }
    assert_true(sample == SAMPLES);
    uint8_t row[16];
    assert_fails(leat_dataset_row(d, SAMPLES, row, &err), err, LEAT_NOT_FOUND, "no sample 3000");
    leat_dataset_close(d);
    free(seen);
}

TEST_WITH(setup, teardown, what_was_packed_is_read_back)
{
    struct place *p = &place;
    uint8_t id[LEAT_SHA256_SIZE];
    uint8_t again[LEAT_SHA256_SIZE];
    struct leat_error err;
    pack_all(p, id);
    check_all(p);
    struct leat_pointer pointer;
    assert_ok(leat_home_resolve(&p->home, NULL, &pointer, &err), err);
    assert_memory_equal(id, pointer.id, sizeof id);
    pack_all(p, again); /* the same input gives the same dataset */
    assert_memory_equal(id, again, sizeof id);
}

TEST_WITH(setup, teardown, tables_that_go_through_files_come_to_the_same_dataset)
{
    struct place *p = &place;
    struct leat_schema schema = make_schema();
    struct leat_pack_opts opts = {
        .schema = &schema, .chunk_bytes = 20000, .id = "pack", .publish.replace = true, .memory = 5000};
    struct leat_pack *pack;
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    uint8_t again[LEAT_SHA256_SIZE];
    struct leat_pointer before;
    struct leat_pointer after;
    pack_all(p, id);
    assert_ok(leat_home_resolve(&p->home, NULL, &before, &err), err);
    assert_ok(leat_pack_open(&p->home, &opts, &pack, &err), err);
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_ok(add_sample(pack, i, &err), err);
    assert_ok(leat_pack_finish(pack, again, &err), err);
    leat_pack_close(pack);
    assert_ok(leat_home_resolve(&p->home, NULL, &after, &err), err);
    assert_memory_equal(&before, &after, sizeof before); /* the root names the sections by their digests */
    check_all(p);
}

struct worker {
    struct leat_pack *pack;
    uint32_t first;
    leat_status rc;
    struct leat_error err;
};

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    for (uint32_t i = w->first; i < SAMPLES && w->rc == LEAT_OK; i += THREADS)
        w->rc = add_sample(w->pack, i, &w->err);
    return NULL;
}

TEST_WITH(setup, teardown, several_threads_may_add)
{
    struct place *p = &place;
    struct leat_schema schema = make_schema();
    struct leat_pack *pack = open_pack(p, &schema, false);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    for (uint32_t t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.pack = pack, .first = t};
        assert_int_equal(pthread_create(&threads[t], NULL, run_worker, &workers[t]), 0);
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        assert_ok(workers[t].rc, workers[t].err);
    }
    assert_ok(leat_pack_finish(pack, id, &err), err);
    assert_int_equal(leat_pack_totals(pack).samples, SAMPLES);
    leat_pack_close(pack);
    check_all(p);
}

TEST_WITH(setup, teardown, nothing_is_published_before_finish)
{
    struct place *p = &place;
    struct leat_schema schema = make_schema();
    struct leat_pack *pack = open_pack(p, &schema, false);
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    struct leat_pointer pointer;
    assert_fails(leat_home_resolve(&p->home, NULL, &pointer, &err), err, LEAT_NOT_FOUND, "nothing is there");
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_ok(add_sample(pack, i, &err), err);
    leat_pack_close(pack);
    assert_fails(leat_home_resolve(&p->home, NULL, &pointer, &err), err, LEAT_NOT_FOUND, "not finished");
    leat_status rc = leat_pack_rebuild(&p->home, NULL, 0, NULL, NULL, id, &err); /* must not publish half a dataset */
    assert_int_equal(rc, LEAT_NOT_FOUND);
    assert_non_null(strstr(err.text, "missing"));
}

TEST_WITH(setup, teardown, a_dataset_is_not_replaced_unasked)
{
    struct place *p = &place;
    uint8_t id[LEAT_SHA256_SIZE];
    struct leat_schema schema = make_schema();
    struct leat_pack_opts opts = {.schema = &schema};
    struct leat_pack *pack;
    struct leat_error err;
    pack_all(p, id);
    assert_fails(leat_pack_open(&p->home, &opts, &pack, &err), err, LEAT_EXISTS, "already");
}

/* The path of chunk `c` of the dataset in the folder. */
static void chunk_path(struct place *p, uint32_t c, char *out, size_t n)
{
    struct leat_dataset *d;
    struct leat_error err;
    char name[LEAT_NAME_MAX];
    assert_ok(leat_dataset_open(p->dir, NULL, NULL, &d, &err), err);
    leat_name_chunk(leat_root_chunk_name(leat_dataset_root(d), c), name);
    snprintf(out, n, "%s/%s", p->dir, name);
    leat_dataset_close(d);
}

TEST_WITH(setup, teardown, a_lost_snapshot_is_rebuilt_from_the_chunks_alone)
{
    struct place *p = &place;
    uint8_t id[LEAT_SHA256_SIZE];
    uint8_t rebuilt[LEAT_SHA256_SIZE];
    struct leat_error err;
    char path[300];
    pack_all(p, id);
    chunk_path(p, 5, path, sizeof path);
    static const char *const lost[] = {"leat/current", "leat/roots", "leat/sections"};
    for (size_t i = 0; i < COUNT(lost); i++)
        folder_remove(path_in(p->dir, lost[i]));
    assert_ok(leat_pack_rebuild(&p->home, NULL, 0, NULL, NULL, rebuilt, &err), err);
    assert_memory_equal(id, rebuilt, sizeof id);
    check_all(p);
    assert_int_equal(unlink(path), 0);
    leat_status rc = leat_pack_rebuild(&p->home, NULL, 0, NULL, NULL, rebuilt, &err);
    assert_true(rc == LEAT_NOT_FOUND || rc == LEAT_INVALID);
    assert_non_null(strstr(err.text, "missing"));
}

TEST_WITH(setup, teardown, a_damaged_or_missing_chunk_is_named_and_not_delivered)
{
    struct place *p = &place;
    uint8_t id[LEAT_SHA256_SIZE];
    struct leat_dataset *d;
    struct leat_error err;
    struct leat_chunk chunk;
    char first[300];
    char second[300];
    char kept[310];
    void *bytes;
    pack_all(p, id);
    chunk_path(p, 1, first, sizeof first);
    chunk_path(p, 2, second, sizeof second);
    snprintf(kept, sizeof kept, "%s.kept", first);
    assert_ok(leat_dataset_open(p->dir, NULL, NULL, &d, &err), err);
    assert_int_equal(rename(first, kept), 0);
    assert_fails(leat_dataset_load(d, 1, &bytes, &chunk, &err), err, LEAT_NOT_FOUND, "chunk 1 of");
    assert_int_equal(link(second, first), 0); /* another chunk in its place */
    assert_fails(leat_dataset_load(d, 1, &bytes, &chunk, &err), err, LEAT_CORRUPT, "chunk 1 of");
    assert_int_equal(unlink(first), 0);
    assert_int_equal(rename(kept, first), 0);
    FILE *f = fopen(first, "r+b");
    assert_int_equal(fseek(f, 5000, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, 5000, SEEK_SET), 0);
    fputc(c ^ 4, f);
    fclose(f);
    assert_fails(leat_dataset_load(d, 1, &bytes, &chunk, &err), err, LEAT_CORRUPT, "checksum");
    assert_fails(leat_pack_rebuild(&p->home, NULL, 0, NULL, NULL, id, &err), err, LEAT_CORRUPT, "name stands for");
    leat_dataset_close(d);
}

TEST_WITH(setup, teardown, damage_to_the_snapshot_is_noticed)
{
    struct place *p = &place;
    uint8_t id[LEAT_SHA256_SIZE];
    struct leat_dataset *d;
    struct leat_error err;
    char name[LEAT_NAME_MAX];
    char path[300];
    uint8_t row[16];
    pack_all(p, id);
    assert_ok(leat_dataset_open(p->dir, NULL, NULL, &d, &err), err);
    const struct leat_section *s = leat_root_section(leat_dataset_root(d), LEAT_SECTION_SAMPLES);
    assert_ok(leat_dataset_check_section(d, s, &err), err);
    leat_name_section(s->name, name);
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    FILE *f = fopen(path, "r+b");
    fputc('!', f);
    fclose(f);
    assert_fails(leat_dataset_check_section(d, s, &err), err, LEAT_CORRUPT, "digest");
    assert_fails(leat_dataset_row(d, 0, row, &err), err, LEAT_CORRUPT, "digest");
    uint8_t root_id[LEAT_SHA256_SIZE];
    memcpy(root_id, leat_dataset_root_id(d), sizeof root_id);
    leat_dataset_close(d);
    leat_name_root(root_id, name);
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    f = fopen(path, "r+b");
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    fputc('!', f);
    fclose(f);
    assert_fails(leat_dataset_open(p->dir, NULL, NULL, &d, &err), err, LEAT_CORRUPT, "name stands for");
}

TEST_WITH(setup, teardown, large_samples_get_chunks_of_their_own)
{
    struct place *p = &place;
    struct leat_schema schema = make_schema();
    struct leat_pack *pack = open_pack(p, &schema, false);
    struct leat_dataset *d;
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    uint8_t *large = calloc(1, 100000);
    struct leat_value values[2] = {{.data = large, .size = 100000}, {.number = 1}};
    assert_ok(leat_pack_add(pack, "a", 1, values, &err), err);
    assert_ok(leat_pack_add(pack, "b", 1, values, &err), err);
    assert_fails(leat_pack_add(pack, large, LEAT_KEY_MAX + 1, values, &err), err, LEAT_INVALID, "key");
    assert_ok(leat_pack_finish(pack, id, &err), err);
    leat_pack_close(pack);
    assert_ok(leat_dataset_open(p->dir, NULL, id, &d, &err), err);
    assert_int_equal(leat_dataset_root(d)->chunks, 2);
    leat_dataset_close(d);
    free(large);
}

TEST_WITH(setup, teardown, keys_may_repeat_and_may_be_none)
{
    struct place *p = &place;
    struct leat_schema schema = make_schema();
    struct leat_pack *pack = open_pack(p, &schema, false);
    struct leat_dataset *d;
    struct leat_error err;
    struct leat_value values[2] = {{.data = "x", .size = 1}, {.number = 1}};
    struct leat_buf key;
    uint8_t id[LEAT_SHA256_SIZE];
    uint64_t sample;
    uint64_t count;
    leat_buf_init(&key, LEAT_KEY_MAX);
    assert_ok(leat_pack_add(pack, "", 0, values, &err), err);
    for (uint32_t i = 0; i < 5; i++)
        assert_ok(add_sample(pack, 1 + i % 2, &err), err); /* 1, 2, 1, 2, 1 */
    assert_ok(leat_pack_finish(pack, id, &err), err);
    leat_pack_close(pack);
    assert_ok(leat_dataset_open(p->dir, NULL, id, &d, &err), err);
    assert_ok(leat_dataset_find(d, "k/000001", 8, &sample, &count, &err), err);
    assert_int_equal(sample, 1);
    assert_int_equal(count, 3);
    assert_ok(leat_dataset_find(d, "k/000002", 8, &sample, &count, &err), err);
    assert_int_equal(sample, 2);
    assert_int_equal(count, 2);
    assert_fails(leat_dataset_find(d, "", 0, &sample, &count, &err), err, LEAT_NOT_FOUND, "no sample");
    assert_ok(leat_dataset_key(d, 0, &key, &err), err);
    assert_int_equal(key.len, 0);
    leat_dataset_close(d);
}

TEST_WITH(setup, teardown, an_id_that_is_asked_for_must_fit_the_address_and_goes_before_a_name)
{
    struct place *p = &place;
    struct leat_dataset *d;
    struct leat_error err;
    uint8_t id[LEAT_SHA256_SIZE];
    uint8_t other[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    char url[300];
    pack_all(p, id);
    memcpy(other, id, sizeof id);
    other[0] ^= 1;
    leat_hex(id, sizeof id, hex);
    snprintf(url, sizeof url, "%s?id=%.9s", p->dir, hex);
    assert_ok(leat_dataset_open(url, NULL, id, &d, &err), err);
    assert_memory_equal(leat_dataset_id(d), id, sizeof id);
    assert_memory_not_equal(leat_dataset_root_id(d), id, sizeof id);
    leat_dataset_close(d);
    assert_fails(leat_dataset_open(url, NULL, other, &d, &err), err, LEAT_INVALID, "says ?id=");
    assert_fails(leat_dataset_open(p->dir, NULL, other, &d, &err), err, LEAT_NOT_FOUND, "has no version");
    snprintf(url, sizeof url, "%s?name=gone", p->dir); /* a name that has moved on does not matter to who has the id */
    assert_ok(leat_dataset_open(url, NULL, id, &d, &err), err);
    leat_dataset_close(d);
    assert_fails(leat_dataset_open(url, NULL, NULL, &d, &err), err, LEAT_NOT_FOUND, "none has a name");
}

TEST_WITH(setup, teardown, a_file_that_changes_while_it_is_packed_is_named_and_nothing_published)
{
    struct place *from = &place;
    static const char *const names[] = {"grown", "shorter", "emptied", "filled", "gone"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct leat_listing_opts list_opts = {0};
        struct leat_raw_opts raw = {.labels = LEAT_LABELS_NONE};
        struct leat_raw_counts counts;
        struct leat_pack_origin_opts opts = {.plain = true};
        struct leat_pack_progress progress = {0};
        struct leat_pack_result result;
        struct leat_listing list = {0};
        struct leat_origin *origin = NULL;
        struct leat_error err;
        struct place to;
        open_place(&to);
        write_text(path_in(from->dir, "other"), "here");
        const char *path = path_in(from->dir, names[i]);
        write_text(path, i == 3 ? "" : "0123456789");
        assert_ok(leat_listing_open(&from->home, 1, &list_opts, &list, &err), err);
        assert_ok(leat_origin_raw_open(&list, &raw, &counts, &origin, &err), err);
        if (i == 4)
            unlink(path);
        else
            write_text(path, i == 0 ? "0123456789a" : i == 1 ? "0123" : i == 2 ? "" : "text");
        leat_status rc = leat_pack_origin(origin, &to.home, &opts, &progress, &result, &err);
        assert_int_equal(rc, i == 4 ? LEAT_NOT_FOUND : LEAT_CHANGED);
        assert_non_null(strstr(err.text, names[i]));
        struct leat_pointer pointer;
        assert_int_equal(leat_home_resolve(&to.home, NULL, &pointer, &err), LEAT_NOT_FOUND);
        leat_origin_close(origin);
        unlink(path);
        close_place(&to);
    }
}
