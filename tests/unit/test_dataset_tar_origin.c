/* Tar shards on disk, through the real file store, as the origin of samples. */

#include <unistd.h>

#include "base/hash.h"
#include "dataset/chunk.h"
#include "dataset/tar_origin.h"
#include "tar_writer.h"
#include "unit_place.h"

static char paths[32][128]; /* of shards */

static const char *path_of(unsigned i, const char *name)
{
    snprintf(paths[i], sizeof paths[i], "%s/%s", unit_place, name);
    return paths[i];
}

/* Ends the archive and stores it. */
static const char *store(unsigned i, const char *name, struct tar_archive *a)
{
    const char *path = path_of(i, name);
    tar_end(a);
    write_file(path, a->buf.data, a->buf.len);
    leat_buf_free(&a->buf);
    return path;
}

static leat_status open_tar(const char *url, const struct leat_tar_opts *opts, struct leat_tar_counts *counts,
                            struct leat_origin **out, struct leat_error *err)
{
    static const struct leat_tar_opts defaults;
    return leat_origin_tar_open(&url, 1, opts ? opts : &defaults, NULL, counts, out, err);
}

/* The bytes that a value says it has, as text. */
static void assert_value(const struct leat_origin *o, const struct leat_origin_value *v, const char *expected)
{
    struct leat_origin_object object;
    struct leat_error err;
    char text[256] = {0};
    assert_false(v->absent);
    assert_int_equal(v->size, strlen(expected));
    assert_ok(o->ops->object(o, v->object, &object, &err), err);
    FILE *f = fopen(object.key, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)v->offset, SEEK_SET), 0);
    assert_int_equal(fread(text, 1, v->size, f), v->size);
    assert_string_equal(text, expected);
    fclose(f);
}

/* Chunks tile the samples, each sample's values lie in its chunk, and sums are those of the stretches. */
static void check_chunks(const struct leat_origin *o)
{
    struct leat_origin_room room = {0};
    struct leat_error err;
    uint64_t sample = 0;
    for (uint32_t c = 0; c < o->chunks; c++) {
        struct leat_origin_chunk chunk;
        struct leat_origin_chunk next = {.first = o->samples};
        struct leat_origin_object object;
        assert_ok(o->ops->chunk(o, c, &chunk, &err), err);
        if (c + 1 < o->chunks)
            assert_ok(o->ops->chunk(o, c + 1, &next, &err), err);
        assert_int_equal(chunk.first, sample);
        assert_true(next.first > chunk.first);
        for (; sample < next.first; sample++) {
            struct leat_origin_sample s;
            assert_ok(leat_origin_sample(o, sample, &room, &s, &err), err);
            for (uint32_t f = 0; f < o->schema.n; f++) {
                const struct leat_origin_value *v = &s.values[f];
                if (v->absent)
                    continue;
                assert_int_equal(v->object, chunk.object);
                assert_true(v->offset >= chunk.offset && v->offset + v->size <= chunk.offset + chunk.length);
            }
        }
        assert_ok(o->ops->object(o, chunk.object, &object, &err), err);
        FILE *f = fopen(object.key, "rb");
        uint8_t *bytes = malloc(chunk.length + 1);
        assert_true(f && bytes);
        assert_int_equal(fseek(f, (long)chunk.offset, SEEK_SET), 0);
        assert_int_equal(fread(bytes, 1, chunk.length, f), chunk.length);
        assert_true(leat_xxh3(bytes, chunk.length) == chunk.sum);
        fclose(f);
        free(bytes);
    }
    assert_int_equal(sample, o->samples);
    leat_origin_room_free(&room);
}

TEST_IN_PLACE(members_with_one_stem_are_one_sample)
{
    struct leat_origin *o;
    struct leat_error err;
    struct leat_tar_counts counts;
    struct tar_archive a = tar_begin();
    tar_member(&a, "a/", '5', "");
    tar_member(&a, "a/0001.seg.png", '0', "mask");
    tar_member(&a, "a/0001.JPEG", '0', "picture");
    tar_member(&a, "README", '0', "not a part");
    tar_member(&a, "a/0002.seg.png", '0', "mask2");
    tar_member(&a, "a/0002.jpg", '0', "picture2");
    tar_member(&a, "a/0002.txt", '0', "words");
    assert_ok(open_tar(store(0, "x.tar", &a), NULL, &counts, &o, &err), err);
    assert_int_equal(o->samples, 2);
    assert_int_equal(o->objects, 1);
    assert_int_equal(o->bytes, 29);
    assert_int_equal(counts.skipped, 1);
    assert_string_equal(counts.skipped_name, "README");
    assert_int_equal(o->schema.n, 3);
    assert_string_equal(o->schema.fields[0].name, "seg.png");
    assert_string_equal(o->schema.fields[1].name, "jpg");
    assert_string_equal(o->schema.fields[2].name, "txt");
    assert_int_equal(o->schema.fields[1].type, LEAT_FIELD_IMAGE);
    assert_int_equal(o->schema.fields[2].type, LEAT_FIELD_STRING);
    assert_int_equal(o->schema.fields[0].needs & LEAT_FIELD_OPTIONAL, 0);
    assert_int_equal(o->schema.fields[2].needs & LEAT_FIELD_OPTIONAL, LEAT_FIELD_OPTIONAL);
    struct leat_origin_room room = {0};
    struct leat_origin_sample s;
    assert_ok(leat_origin_sample(o, 0, &room, &s, &err), err);
    assert_int_equal(s.key_n, 6);
    assert_memory_equal(s.key, "a/0001", 6);
    assert_value(o, &s.values[0], "mask");
    assert_value(o, &s.values[1], "picture");
    assert_true(s.values[2].absent);
    assert_ok(leat_origin_sample(o, 1, &room, &s, &err), err);
    assert_value(o, &s.values[2], "words");
    leat_origin_room_free(&room);
    check_chunks(o);
    leat_origin_close(o);
}

/* This many samples in this many shards, of growing sizes. */
static void write_many(unsigned shards, unsigned samples)
{
    static char data[3000];
    unsigned number = 0;
    memset(data, 'd', sizeof data - 1);
    for (unsigned i = 0; i < shards; i++) {
        struct tar_archive a = tar_begin();
        char name[64];
        for (unsigned k = 0; k < samples; k++, number++) {
            snprintf(name, sizeof name, "s/%06u.cls", number);
            tar_member(&a, name, '0', number % 2 ? "7\n" : "-12");
            snprintf(name, sizeof name, "s/%06u.bin", number);
            tar_member(&a, name, '0', data + number % 2999);
        }
        snprintf(name, sizeof name, "many-%03u.tar", i);
        store(i, name, &a);
    }
}

TEST_IN_PLACE(chunks_tile_the_shards_and_know_their_sums)
{
    struct leat_error err;
    static const struct leat_type_wish wishes[] = {{"cls", LEAT_FIELD_INT}};
    static const uint64_t sizes[] = {1, 4096, 100000, 8 << 20};
    write_many(7, 100);
    char url[128];
    snprintf(url, sizeof url, "%s/many-{000..006}.tar", unit_place);
    uint32_t before = UINT32_MAX;
    for (unsigned i = 0; i < COUNT(sizes); i++) {
        struct leat_tar_opts opts = {.chunk_bytes = sizes[i], .wishes = wishes, .wishes_n = 1, .threads = i};
        struct leat_origin *o;
        struct leat_origin_room room = {0};
        struct leat_origin_sample s;
        assert_ok(open_tar(url, &opts, NULL, &o, &err), err);
        assert_int_equal(o->samples, 700);
        assert_int_equal(o->objects, 7);
        assert_int_equal(o->schema.fields[0].type, LEAT_FIELD_INT);
        assert_true(o->chunks >= 7 && o->chunks <= before);
        before = o->chunks;
        check_chunks(o);
        for (uint64_t k = 0; k < 700; k += 33) { /* in any order, with one room */
            uint64_t sample = k * 271 % 700;
            char key[32];
            snprintf(key, sizeof key, "s/%06u", (unsigned)sample);
            assert_ok(leat_origin_sample(o, sample, &room, &s, &err), err);
            assert_int_equal(s.key_n, strlen(key));
            assert_memory_equal(s.key, key, s.key_n);
            assert_true(s.values[0].number == (sample % 2 ? 7 : -12));
            assert_int_equal(s.values[1].size, 2999 - sample % 2999);
        }
        leat_origin_room_free(&room);
        leat_origin_close(o);
    }
    assert_int_equal(before, 7);
}

static bool probe(const void *data, size_t n, struct leat_picture *out)
{
    const char *text = data;
    *out = (struct leat_picture){.width = (uint32_t)n, .height = 2, .kind = LEAT_PICTURE_JPEG, .channels = 3};
    return n > 0 && text[0] == 'P' && text[n - 1] == 'P';
}

TEST_IN_PLACE(images_are_probed_whole_wherever_they_lie)
{
    struct leat_error err;
    struct leat_origin *o;
    struct leat_tar_progress progress = {0};
    struct leat_tar_opts opts = {.probe = probe};
    struct leat_origin_room room = {0};
    struct leat_origin_sample s;
    static char data[700001];
    struct tar_archive a = tar_begin();
    memset(data, 'P', sizeof data - 1);
    for (unsigned i = 0; i < 12; i++) { /* more than a part of the stream */
        char name[32];
        snprintf(name, sizeof name, "%u.jpg", i);
        tar_member(&a, name, '0', data + i);
    }
    tar_member(&a, "bad.jpg", '0', "xx");
    const char *url = store(0, "x.tar", &a);
    assert_ok(leat_origin_tar_open(&url, 1, &opts, &progress, NULL, &o, &err), err);
    for (unsigned i = 0; i < 12; i++) {
        assert_ok(leat_origin_sample(o, i, &room, &s, &err), err);
        assert_int_equal(s.values[0].image.width, 700000 - i);
        assert_int_equal(s.values[0].image.kind, LEAT_PICTURE_JPEG);
    }
    assert_ok(leat_origin_sample(o, 12, &room, &s, &err), err);
    assert_int_equal(s.values[0].image.width, 0);
    assert_int_equal(progress.unreadable, 1);
    assert_int_equal(progress.samples, 13);
    assert_int_equal(progress.bytes, progress.total);
    check_chunks(o);
    leat_origin_room_free(&room);
    leat_origin_close(o);
}

TEST_IN_PLACE(addresses_are_braces_lists_and_prefixes)
{
    struct leat_error err;
    struct leat_origin *o;
    struct leat_tar_counts counts;
    char url[256];
    write_many(4, 3);
    write_file(path_of(10, "stats.json"), "{}", 2);
    snprintf(url, sizeof url, "%s/", unit_place);
    assert_ok(open_tar(url, NULL, &counts, &o, &err), err);
    assert_int_equal(o->samples, 12);
    assert_int_equal(counts.other, 1);
    leat_origin_close(o);
    assert_ok(open_tar(unit_place, NULL, &counts, &o, &err), err);
    assert_int_equal(o->samples, 12);
    leat_origin_close(o);
    snprintf(url, sizeof url, "%s/many-00{3,1}.tar", unit_place);
    assert_ok(open_tar(url, NULL, &counts, &o, &err), err);
    struct leat_origin_object object;
    assert_ok(o->ops->object(o, 0, &object, &err), err);
    assert_non_null(strstr(object.key, "many-003.tar"));
    assert_int_equal(o->samples, 6);
    leat_origin_close(o);
    int n = snprintf(url, sizeof url, "# two\n%s/many-{002..003}.tar\r\n\n%s/many-000.tar", unit_place, unit_place);
    write_file(path_of(11, "list.txt"), url, (size_t)n);
    snprintf(url, sizeof url, "@%s/list.txt", unit_place);
    assert_ok(open_tar(url, NULL, &counts, &o, &err), err);
    assert_int_equal(o->objects, 3);
    leat_origin_close(o);
    struct leat_tar_opts names = {.names_only = true};
    assert_ok(open_tar(url, &names, &counts, &o, &err), err);
    assert_int_equal(o->objects, 3);
    assert_int_equal(o->samples, 0);
    assert_true(o->bytes > 9000);
    leat_origin_close(o);

    snprintf(url, sizeof url, "%s/many-{002..005}.tar", unit_place);
    assert_fails(open_tar(url, NULL, &counts, &o, &err), err, LEAT_NOT_FOUND, "many-004.tar");
    snprintf(url, sizeof url, "%s/many-00{1,1}.tar", unit_place);
    assert_fails(open_tar(url, NULL, &counts, &o, &err), err, LEAT_INVALID, "many-001.tar' is named twice");
    snprintf(url, sizeof url, "%s/many-{3..1}.tar", unit_place);
    assert_fails(open_tar(url, NULL, &counts, &o, &err), err, LEAT_INVALID, "counts downwards");
    snprintf(url, sizeof url, "%s/nothing/", unit_place);
    assert_fails(open_tar(url, NULL, &counts, &o, &err), err, LEAT_NOT_FOUND, "nothing");
    n = snprintf(url, sizeof url, "%s/many-001.tar\n@other\n", unit_place);
    write_file(path_of(11, "list.txt"), url, (size_t)n);
    snprintf(url, sizeof url, "@%s/list.txt", unit_place);
    assert_fails(open_tar(url, NULL, &counts, &o, &err), err, LEAT_INVALID, "list.txt, line 2");
}

TEST_IN_PLACE(packed_shards_are_refused_with_advice)
{
    struct leat_error err;
    struct leat_origin *o;
    write_many(1, 3);
    write_file(path_of(10, "more.tar.gz"), "\x1f\x8b", 2);
    assert_fails(open_tar(unit_place, NULL, NULL, &o, &err), err, LEAT_UNSUPPORTED, "more.tar.gz' is compressed");
    assert_fails(open_tar(paths[10], NULL, NULL, &o, &err), err, LEAT_UNSUPPORTED, "index the .tar");
}

/* The one archive `a` is refused with these words, and its name. */
static void check_refused(struct tar_archive *a, const struct leat_tar_opts *opts, leat_status status,
                          const char *words)
{
    struct leat_error err;
    struct leat_origin *o;
    const char *url = store(0, "bad.tar", a);
    assert_fails(open_tar(url, opts, NULL, &o, &err), err, status, words);
    assert_non_null(strstr(err.text, "bad.tar"));
}

TEST_IN_PLACE(bad_shards_are_refused_by_name)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "1.txt", '0', "a");
    tar_member(&a, "2.txt", '0', "a");
    tar_member(&a, "1.cls", '0', "3");
    check_refused(&a, NULL, LEAT_INVALID, "sample '1' occurs twice, as number 0 and 2");

    a = tar_begin();
    tar_member(&a, "1.txt", '0', "a");
    tar_member(&a, "1.TXT", '0', "a");
    check_refused(&a, NULL, LEAT_INVALID, "sample '1' has two members '.txt'; the second is at byte 1024");

    a = tar_begin();
    tar_member(&a, "1.txt", '0', "a");
    tar_member(&a, "1.cls", '1', "");
    check_refused(&a, NULL, LEAT_UNSUPPORTED, "'1.cls' at byte 1024 is a link");

    a = tar_begin();
    tar_member(&a, "1.wei rd", '0', "a");
    check_refused(&a, NULL, LEAT_INVALID, "'1.wei rd' at byte 0");

    a = tar_begin();
    tar_header(&a, "huge.mp4", '0', ((uint64_t)1 << 32) - 100);
    check_refused(&a, NULL, LEAT_LIMIT, "less than 4 GiB");

    static const struct leat_type_wish wishes[] = {{"cls", LEAT_FIELD_INT}};
    static const struct leat_type_wish wrong[] = {{"cls", LEAT_FIELD_TOKENS}};
    struct leat_tar_opts opts = {.wishes = wishes, .wishes_n = 1};
    a = tar_begin();
    tar_member(&a, "1.cls", '0', "three");
    check_refused(&a, &opts, LEAT_INVALID, "'1.cls' at byte 512 is not a whole number");

    a = tar_begin();
    check_refused(&a, NULL, LEAT_INVALID, "no sample");

    a = tar_begin();
    tar_member(&a, "1.txt", '0', "a");
    struct leat_error err;
    struct leat_origin *o;
    assert_fails(open_tar(store(0, "x.tar", &a), &opts, NULL, &o, &err), err, LEAT_INVALID,
                 "no sample has the field 'cls' that should be int");
    opts.wishes = wrong;
    assert_fails(open_tar(paths[0], &opts, NULL, &o, &err), err, LEAT_UNSUPPORTED, "cannot be tokens");

    a = tar_begin();
    tar_member(&a, "1.txt", '0', "a");
    tar_header(&a, "2.txt", '0', 100);
    write_file(path_of(0, "cut.tar"), a.buf.data, a.buf.len);
    leat_buf_free(&a.buf);
    assert_fails(open_tar(paths[0], NULL, NULL, &o, &err), err, LEAT_CORRUPT,
                 "it ends at byte 1536 in the middle of '2.txt'");
    assert_non_null(strstr(err.text, "cut.tar"));
}

TEST_IN_PLACE(the_sixty_fifth_field_is_named)
{
    struct tar_archive a = tar_begin();
    for (unsigned i = 0; i < 65; i++) {
        char name[32];
        snprintf(name, sizeof name, "1.f%u", i);
        tar_member(&a, name, '0', "a");
    }
    check_refused(&a, NULL, LEAT_LIMIT, "'.f64' would be field number 65");
}

static bool stop_at_once(void *user)
{
    (void)user;
    return true;
}

TEST_IN_PLACE(it_can_be_stopped)
{
    struct leat_error err;
    struct leat_origin *o;
    struct leat_tar_opts opts = {.stop = stop_at_once};
    write_many(2, 10);
    assert_fails(open_tar(unit_place, &opts, NULL, &o, &err), err, LEAT_CANCELLED, "interrupted");
}
