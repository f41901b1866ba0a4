/* Raw objects before they are a dataset: endings, labels, manifests, groups, saved listings. */

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/ending.h"
#include "dataset/labels.h"
#include "dataset/listing_save.h"
#include "dataset/raw_origin.h"
#include "unit.h"

static char prefix[] = "data/";
static char url[] = "s3://bucket/data";
static const struct leat_home home = {.prefix = prefix, .url = url};

/* A listing of these keys, up to a NULL; object i has i + 1 bytes. */
static struct leat_listing list_of(const char *const *keys)
{
    struct leat_listing l;
    struct leat_error err;
    assert_ok(leat_listing_begin(&l, &home, 1, &err), err);
    for (uint64_t i = 0; keys[i]; i++)
        assert_ok(leat_listing_add(&l, keys[i], i + 1, "\"tag\"", &err), err);
    l.home_ends[0] = l.n;
    return l;
}

TEST(stems_end_at_the_first_dot_of_the_name)
{
    static const struct {
        const char *path;
        const char *stem; /* NULL: it cannot be split */
        const char *field;
    } cases[] = {
        {"0001.jpg", "0001", "jpg"},
        {"a/b.c/0001.JPEG", "a/b.c/0001", "jpg"},
        {"a.seg.PNG", "a", "seg.png"},
        {"a.tiff", "a", "tif"},
        {"a.x.jpeg", "a", "x.jpg"},
        {"a..jpg", "a", ".jpg"},
        {"a", NULL, NULL},
        {"a.b/c", NULL, NULL},
        {"a.", NULL, NULL},
        {".jpg", NULL, NULL},
        {"a/.jpg", NULL, NULL},
        {"a.j g", NULL, NULL},
        {"a.j\xff", NULL, NULL},
        {"", NULL, NULL},
        {"a.tar.gz", "a", "tar.gz"},
        {"\xff\n.jpg", "\xff\n", "jpg"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char field[LEAT_FIELD_NAME_MAX];
        size_t n;
        bool split = leat_ending_split(cases[i].path, strlen(cases[i].path), &n, field);
        assert_int_equal(split, cases[i].stem != NULL);
        if (!split)
            continue;
        assert_int_equal(n, strlen(cases[i].stem));
        assert_memory_equal(cases[i].path, cases[i].stem, n);
        assert_string_equal(field, cases[i].field);
    }
}

static const char *name_at(const void *user, uint64_t i, size_t *n)
{
    const char *const *names = user;
    *n = strlen(names[i]);
    return names[i];
}

TEST(labels_are_numbered_by_the_bytes_of_their_names)
{
    static const char *const names[] = {"b", "a-x", "b", "a", "B", "a"};
    static const uint32_t wanted[] = {3, 2, 3, 1, 0, 1};
    struct leat_labels_opts opts = {.noun = "folder", .numbers = true};
    struct leat_labels l;
    struct leat_error err;
    assert_ok(leat_labels_make(6, name_at, names, &opts, &l, &err), err);
    assert_memory_equal(l.of, wanted, sizeof wanted);
    assert_string_equal(l.about.data, "{\"names\": [\"B\", \"a\", \"a-x\", \"b\"]}");
    leat_labels_close(&l);

    static const char *const numbers[] = {"007", "12", "0", "7"};
    static const uint32_t same[] = {7, 12, 0, 7};
    assert_ok(leat_labels_make(4, name_at, numbers, &opts, &l, &err), err);
    assert_memory_equal(l.of, same, sizeof same);
    assert_int_equal(l.n, 13);
    assert_int_equal(l.about.len, 0);
    leat_labels_close(&l);
    opts.numbers = false; /* folders called "007" are names */
    assert_ok(leat_labels_make(4, name_at, numbers, &opts, &l, &err), err);
    assert_int_equal(l.n, 4);
    leat_labels_close(&l);

    static const char *const odd[] = {"fine", "\xff"};
    assert_fails(leat_labels_make(2, name_at, odd, &opts, &l, &err), err, LEAT_INVALID, "not UTF-8");
}

static const char *text_at(const struct leat_manifest *m, uint32_t column, uint64_t row)
{
    return m->text.data + m->columns[column].cells[row];
}

TEST(what_would_not_come_back_as_it_was_written_is_text)
{
    static const struct {
        const char *cell;
        enum leat_field_type type;
    } cases[] = {
        {"0", LEAT_FIELD_INT},
        {"-1", LEAT_FIELD_INT},
        {"9223372036854775807", LEAT_FIELD_INT},
        {"-9223372036854775808", LEAT_FIELD_INT},
        {"9223372036854775808", LEAT_FIELD_STRING},
        {"007", LEAT_FIELD_STRING},
        {"-0", LEAT_FIELD_STRING},
        {"+1", LEAT_FIELD_STRING},
        {"1.5", LEAT_FIELD_FLOAT},
        {"1e-3", LEAT_FIELD_FLOAT},
        {"1e999", LEAT_FIELD_STRING},
        {"0x10", LEAT_FIELD_STRING},
        {"nan", LEAT_FIELD_STRING},
        {" 1", LEAT_FIELD_STRING},
        {"1 ", LEAT_FIELD_STRING},
    };
    struct leat_manifest_opts opts = {.what = "m.csv"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[100];
        struct leat_manifest m;
        struct leat_error err;
        int n = snprintf(text, sizeof text, "path,x\na,%s\n", cases[i].cell);
        assert_ok(leat_manifest_read(text, (size_t)n, &opts, &m, &err), err);
        if (m.columns[0].type != cases[i].type)
            fail_msg("'%s' has type %d", cases[i].cell, (int)m.columns[0].type);
        if (cases[i].type == LEAT_FIELD_STRING)
            assert_string_equal(text_at(&m, 0, 0), cases[i].cell);
        if (cases[i].type == LEAT_FIELD_INT) {
            char back[32];
            snprintf(back, sizeof back, "%lld", (long long)m.columns[0].cells[0]);
            assert_string_equal(back, cases[i].cell);
        }
        leat_manifest_close(&m);
    }
}

TEST(a_column_has_one_type_and_lines_are_counted_through_quotes)
{
    static const char text[] = "\xef\xbb\xbfpath;,a,b,c\r\n\"x\n1\",1,2,\"q \"\"z\"\"\"\r\n\r\ny,2.5,w,\r\n";
    struct leat_manifest_opts opts = {.what = "m.csv", .path = "path;"};
    struct leat_manifest m;
    struct leat_error err;
    assert_ok(leat_manifest_read(text, sizeof text - 1, &opts, &m, &err), err);
    assert_int_equal(m.rows, 2);
    assert_int_equal(m.lines[0], 2);
    assert_int_equal(m.lines[1], 5);
    assert_string_equal(leat_manifest_path(&m, 0), "x\n1");
    assert_int_equal(m.columns[0].type, LEAT_FIELD_FLOAT);
    double one;
    memcpy(&one, &m.columns[0].cells[0], sizeof one);
    assert_true(one == 1.0);
    assert_int_equal(m.columns[1].type, LEAT_FIELD_STRING);
    assert_string_equal(text_at(&m, 1, 0), "2");
    assert_string_equal(text_at(&m, 2, 0), "q \"z\"");
    assert_true(m.columns[2].optional && !m.columns[2].there[1]);
    leat_manifest_close(&m);
}

TEST(samples_of_groups_have_their_files_by_field)
{
    static const char *const keys[] = {"data/1.jpg", "data/1.txt",     "data/2-x.jpg",
                                       "data/2.txt", "data/2.x/1.txt", NULL};
    struct leat_raw_opts opts = {.grouped = true, .missing = LEAT_MISSING_OPTIONAL};
    struct leat_raw_counts counts;
    struct leat_listing l = list_of(keys);
    struct leat_origin_room room = {0};
    struct leat_origin *o;
    struct leat_error err;
    assert_ok(leat_origin_raw_open(&l, &opts, &counts, &o, &err), err);
    assert_int_equal(o->samples, 4);
    assert_int_equal(o->bytes, 15);
    assert_string_equal(o->schema.fields[0].name, "jpg");
    assert_true(o->schema.fields[1].needs & LEAT_FIELD_OPTIONAL);
    static const struct {
        const char *key;
        int jpg; /* object, or -1 */
        int txt;
    } wanted[] = {{"1", 0, 1}, {"2-x", 2, -1}, {"2", -1, 3}, {"2.x/1", -1, 4}};
    for (uint64_t i = 0; i < 4; i++) {
        struct leat_origin_sample s;
        assert_ok(leat_origin_sample(o, i, &room, &s, &err), err);
        assert_int_equal(s.key_n, strlen(wanted[i].key));
        assert_memory_equal(s.key, wanted[i].key, s.key_n);
        assert_int_equal(s.values[0].absent ? -1 : (int)s.values[0].object, wanted[i].jpg);
        assert_int_equal(s.values[1].absent ? -1 : (int)s.values[1].object, wanted[i].txt);
    }
    leat_origin_room_free(&room);
    leat_origin_close(o);
}

TEST(keys_that_are_listed_twice_are_noticed_in_any_order)
{
    static const char *const twice[] = {"data/b", "data/a", "data/c", "data/a", NULL};
    static const char *const mixed[] = {"data/b", "data/a", "data/c", NULL};
    struct leat_listing l = list_of(twice);
    struct leat_error err;
    assert_fails(leat_listing_finish(&l, &err), err, LEAT_CORRUPT, "'data/a' twice");
    leat_listing_close(&l);
    l = list_of(mixed);
    assert_ok(leat_listing_finish(&l, &err), err);
    assert_string_equal(leat_listing_path(&l, 0), "a");
    assert_int_equal(l.sizes[0], 2); /* goes with its key */
    leat_listing_close(&l);
}

TEST(a_saved_part_is_damaged_when_a_byte_is_missing_or_other)
{
    static const char *const keys[] = {"data/a", "data/b.jpg", NULL};
    struct leat_listing l = list_of(keys);
    struct leat_saved_head head = {.part = 1, .parts = 3};
    struct leat_saved_page page = {.end = 2, .hidden = 7, .after = "data/b.jpg"};
    struct leat_saved s = {0};
    struct leat_error err;
    struct leat_buf out;
    leat_buf_init(&out, 1 << 20);
    assert_ok(leat_saved_write(&l, &head, &page, 1, &out, &err), err);
    for (size_t n = 0; n < out.len; n++) {
        uint8_t *copy = malloc(n + 1); /* of its own size, for the sanitizer */
        memcpy(copy, out.data, n);
        assert_int_equal(leat_saved_read(copy, n, &s, &err), LEAT_CORRUPT);
        leat_saved_close(&s);
        free(copy);
    }
    for (size_t i = 0; i < out.len; i++) {
        out.data[i] = (char)(out.data[i] ^ 1);
        leat_status rc = leat_saved_read(out.data, out.len, &s, &err);
        assert_true(rc == LEAT_CORRUPT || rc == LEAT_VERSION);
        leat_saved_close(&s);
        out.data[i] = (char)(out.data[i] ^ 1);
    }
    assert_ok(leat_saved_read(out.data, out.len, &s, &err), err);
    assert_true(s.parts[1] && !s.parts[0] && s.head.parts == 3);
    assert_string_equal(s.urls[0], url);
    assert_string_equal(s.after[0], "data/b.jpg");
    assert_int_equal(s.lists[0].n, 2);
    assert_int_equal(s.lists[0].hidden, 7);
    assert_string_equal(leat_listing_etag(&s.lists[0], 1), "\"tag\"");
    leat_saved_close(&s);
    leat_buf_free(&out);
    leat_listing_close(&l);
}
