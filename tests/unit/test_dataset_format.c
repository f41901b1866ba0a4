/* Chunks, roots, sections and keys in memory: round trips, and what damaged or hostile bytes may not do. */

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/chunk.h"
#include "dataset/keys.h"
#include "dataset/names.h"
#include "dataset/root.h"
#include "dataset/snapshot.h"
#include "fail_alloc.h"
#include "unit.h"

static const uint8_t pack_id[LEAT_PACK_ID_BYTES] = "the pack id 16 b";

static struct leat_schema make_schema(void)
{
    struct leat_schema s = {0};
    struct leat_error err;
    assert_ok(leat_schema_add(&s, "jpg", LEAT_FIELD_IMAGE, NULL, &err), err);
    assert_ok(leat_schema_add(&s, "cls", LEAT_FIELD_INT, "{\"names\": [\"cat\", \"dog\"]}", &err), err);
    assert_ok(leat_schema_add(&s, "text", LEAT_FIELD_STRING, NULL, &err), err);
    assert_ok(leat_schema_add(&s, "raw", LEAT_FIELD_BYTES, NULL, &err), err);
    return s;
}

static void fill_values(uint32_t i, char text[32], struct leat_value values[4])
{
    static uint8_t pixels[300];
    for (size_t k = 0; k < sizeof pixels; k++)
        pixels[k] = (uint8_t)(k * 7);
    snprintf(text, 32, "text of %u", i);
    memset(values, 0, 4 * sizeof *values);
    values[0].data = pixels;
    values[0].size = 3 + i * 13 % 200;
    values[0].image = (struct leat_picture){.width = 100 + i, .height = 50, .kind = LEAT_PICTURE_JPEG, .channels = 3};
    values[0].image.decoded_bytes = values[0].image.width * 150;
    values[1].number = (int64_t)i - 1;
    values[2].data = text;
    values[2].size = strlen(text);
    values[3].data = pixels;
    values[3].size = i % 3; /* empty ones among them */
}

/* A chunk of samples first … first+n-1. */
static void make_chunk(uint32_t number, uint32_t first, uint32_t n, struct leat_buf *out)
{
    struct leat_schema schema = make_schema();
    struct leat_chunk_builder *b;
    struct leat_error err;
    assert_ok(leat_chunk_builder_open(&schema, &b, &err), err);
    for (uint32_t i = first; i < first + n; i++) {
        char text[32];
        char key[40];
        struct leat_value values[4];
        fill_values(i, text, values);
        snprintf(key, sizeof key, "folder/%u.jpg", i);
        assert_ok(leat_chunk_builder_add(b, key, strlen(key), values, &err), err);
    }
    size_t expected = leat_chunk_builder_size(b);
    assert_ok(leat_chunk_builder_finish(b, pack_id, number, number == 2 ? 3 : 0, out, &err), err);
    assert_int_equal(out->len, expected);
    assert_int_equal(leat_chunk_builder_samples(b), 0);
    leat_chunk_builder_close(b);
}

TEST(without_memory_for_a_sample_the_error_says_how_much_it_takes)
{
    static char large[1000000];
    struct leat_schema schema = {0};
    struct leat_chunk_builder *b;
    struct leat_error err;
    struct leat_value value = {.data = large, .size = sizeof large};
    assert_ok(leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, &err), err);
    assert_ok(leat_chunk_builder_open(&schema, &b, &err), err);
    fail_alloc_at(0, true);
    leat_status rc = leat_chunk_builder_add(b, "key", 3, &value, &err);
    assert_true(fail_alloc_stop());
    assert_int_equal(rc, LEAT_NO_MEMORY);
    const char *of = strstr(err.text, "a chunk of ");
    assert_non_null(of);
    assert_true(strtoul(of + strlen("a chunk of "), NULL, 10) >= sizeof large);
    leat_chunk_builder_close(b);
}

TEST(a_chunk_gives_back_what_was_put_in)
{
    struct leat_buf bytes;
    struct leat_chunk c;
    struct leat_error err;
    leat_buf_init(&bytes, 1 << 20);
    make_chunk(7, 100, 20, &bytes);
    assert_ok(leat_chunk_read(bytes.data, bytes.len, &c, &err), err);
    assert_ok(leat_chunk_check(&c, &err), err);
    assert_int_equal(c.number, 7);
    assert_int_equal(c.samples, 20);
    assert_memory_equal(c.pack, pack_id, sizeof pack_id);
    assert_int_equal(c.schema.n, 4);
    assert_string_equal(c.schema.fields[1].name, "cls");
    assert_int_equal(c.schema.fields[1].about_n, strlen("{\"names\": [\"cat\", \"dog\"]}"));
    for (uint32_t i = 0; i < 20; i++) {
        char text[32];
        char key[40];
        struct leat_value values[4];
        size_t n;
        fill_values(100 + i, text, values);
        snprintf(key, sizeof key, "folder/%u.jpg", 100 + i);
        const char *found = leat_chunk_key(&c, i, &n);
        assert_int_equal(n, strlen(key));
        assert_memory_equal(found, key, n);
        for (uint32_t f = 0; f < 4; f++) {
            struct leat_cell cell = leat_chunk_cell(&c, i, f);
            assert_int_equal(cell.size, values[f].size);
            assert_true(cell.number == values[f].number);
            assert_memory_equal(&cell.image, &values[f].image, sizeof cell.image);
            if (cell.size)
                assert_memory_equal(leat_chunk_data(&c, &cell), values[f].data, cell.size);
        }
    }
    leat_buf_free(&bytes);
}

/* Reads what a damaged chunk claims to hold; the sanitizer sees whether that stays inside. */
static leat_status read_all(const void *data, size_t n)
{
    struct leat_chunk c;
    leat_status rc = leat_chunk_read(data, n, &c, NULL);
    if (rc != LEAT_OK)
        return rc;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c.samples; i++) {
        size_t key_n;
        const char *key = leat_chunk_key(&c, i, &key_n);
        sum += leat_xxh3(key, key_n);
        for (uint32_t f = 0; f < c.schema.n; f++) {
            struct leat_cell cell = leat_chunk_cell(&c, i, f);
            sum += leat_xxh3(leat_chunk_data(&c, &cell), cell.size);
        }
    }
    (void)sum;
    return leat_chunk_check(&c, NULL);
}

TEST(a_truncated_chunk_is_corrupt_at_every_length)
{
    struct leat_buf bytes;
    leat_buf_init(&bytes, 1 << 20);
    make_chunk(0, 0, 5, &bytes);
    for (size_t n = 0; n < bytes.len; n++) {
        void *copy = malloc(n ? n : 1); /* its own allocation: a read after it is seen */
        memcpy(copy, bytes.data, n);
        assert_int_equal(read_all(copy, n), LEAT_CORRUPT);
        if (n >= 32) { /* also when the length it claims fits */
            leat_put_u64((uint8_t *)copy + 16, n);
            assert_int_not_equal(read_all(copy, n), LEAT_OK);
        }
        free(copy);
    }
    leat_buf_free(&bytes);
}

TEST(a_flipped_bit_in_any_byte_of_a_chunk_is_noticed)
{
    struct leat_buf bytes;
    leat_buf_init(&bytes, 1 << 20);
    make_chunk(0, 0, 5, &bytes);
    for (size_t i = 0; i < 8 * bytes.len; i++) {
        bytes.data[i / 8] ^= (char)(1 << i % 8);
        assert_int_not_equal(read_all(bytes.data, bytes.len), LEAT_OK);
        bytes.data[i / 8] ^= (char)(1 << i % 8);
    }
    assert_int_equal(read_all(bytes.data, bytes.len), LEAT_OK);
    leat_buf_free(&bytes);
}

TEST(a_chunk_of_another_format_is_refused_by_that_name)
{
    struct leat_buf bytes;
    struct leat_chunk c;
    struct leat_error err;
    leat_buf_init(&bytes, 1 << 20);
    make_chunk(0, 0, 5, &bytes);
    leat_put_u32(bytes.data + 8, 2);
    assert_fails(leat_chunk_read(bytes.data, bytes.len, &c, &err), err, LEAT_VERSION, "format 2");
    leat_buf_free(&bytes);
}

TEST(fields_that_cannot_be_are_refused)
{
    struct leat_schema s = make_schema();
    struct leat_error err;
    assert_fails(leat_schema_add(&s, "jpg", LEAT_FIELD_INT, NULL, &err), err, LEAT_INVALID, "two fields");
    assert_fails(leat_schema_add(&s, "", LEAT_FIELD_INT, NULL, &err), err, LEAT_INVALID, "name");
    assert_fails(leat_schema_add(&s, "a b", LEAT_FIELD_INT, NULL, &err), err, LEAT_INVALID, "name");
    assert_fails(leat_schema_add(&s, "x", (enum leat_field_type)99, NULL, &err), err, LEAT_INVALID, "type");
    for (uint32_t i = s.n; i < LEAT_FIELDS_MAX; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%u", i);
        assert_ok(leat_schema_add(&s, name, LEAT_FIELD_INT, NULL, &err), err);
    }
    assert_fails(leat_schema_add(&s, "more", LEAT_FIELD_INT, NULL, &err), err, LEAT_LIMIT, "at most 64");
    assert_int_equal(s.n, LEAT_FIELDS_MAX);
}

TEST(a_field_of_an_unknown_type_leaves_the_others_readable)
{
    struct leat_schema s = make_schema();
    struct leat_schema back;
    struct leat_buf bytes;
    struct leat_error err;
    leat_buf_init(&bytes, LEAT_SCHEMA_MAX);
    s.fields[1].type = 77;
    s.fields[1].cell_bytes = 40;
    assert_ok(leat_schema_write(&s, &bytes, &err), err);
    assert_ok(leat_schema_read(bytes.data, bytes.len, &back, &err), err);
    assert_int_equal(back.fields[1].type, 77);
    assert_int_equal(back.fields[2].cell_at, 24 + 40);
    assert_string_equal(leat_field_type_name(77), "unknown");
    leat_buf_free(&bytes);
}

/* A snapshot of three chunks. */
static struct leat_snapshot *made;

static void make_snapshot(struct leat_snapshot_files *files)
{
    struct leat_error err;
    assert_ok(leat_snapshot_open(100, 0, &made, &err), err);
    struct leat_snapshot *s = made;
    const uint32_t order[3] = {2, 0, 1};
    for (int k = 0; k < 3; k++) {
        struct leat_buf bytes;
        struct leat_chunk c;
        uint8_t sha[LEAT_SHA256_SIZE];
        leat_buf_init(&bytes, 1 << 20);
        make_chunk(order[k], order[k] * 100, 50 + order[k], &bytes);
        assert_ok(leat_chunk_read(bytes.data, bytes.len, &c, &err), err);
        leat_sha256(bytes.data, bytes.len, sha);
        assert_ok(leat_snapshot_add(s, &c, sha, &err), err);
        assert_true(leat_snapshot_has(s, order[k], sha));
        assert_fails(leat_snapshot_add(s, &c, sha, &err), err, LEAT_EXISTS, "two chunks");
        leat_buf_free(&bytes);
    }
    assert_int_equal(leat_snapshot_samples(s), 153);
    assert_ok(leat_snapshot_write((const struct leat_snapshot *const *)&made, 1, files, &err), err);
}

static void drop_snapshot(struct leat_snapshot_files *files)
{
    leat_snapshot_files_free(files);
    leat_snapshot_close(made);
}

static leat_status append(void *user, const void *data, size_t n, struct leat_error *err)
{
    leat_buf_add(user, data, n);
    return leat_buf_check(user, "a section", err);
}

TEST(a_root_gives_back_what_was_put_in)
{
    struct leat_snapshot_files files;
    struct leat_root r;
    struct leat_error err;
    make_snapshot(&files);
    assert_ok(leat_root_read(files.root.data, files.root.len, &r, &err), err);
    assert_int_equal(r.chunks, 3);
    assert_int_equal(r.samples, 153);
    assert_int_equal(r.counts[0] + r.counts[1] + r.counts[2], 153);
    assert_int_equal(r.counts[2], 52);
    for (uint32_t c = 0; c < 3; c++) {
        struct leat_buf bytes;
        uint8_t sha[LEAT_SHA256_SIZE];
        leat_buf_init(&bytes, 1 << 20);
        make_chunk(c, c * 100, 50 + c, &bytes);
        leat_sha256(bytes.data, bytes.len, sha);
        assert_memory_equal(leat_root_chunk_name(&r, c), sha, sizeof sha);
        assert_ok(leat_root_check_chunk(&r, c, bytes.data, bytes.len, &err), err);
        /* identity: the bytes of one chunk are not another's */
        assert_fails(leat_root_check_chunk(&r, (c + 1) % 3, bytes.data, bytes.len, &err), err, LEAT_CORRUPT, "chunk");
        bytes.data[bytes.len / 2] ^= 1;
        assert_fails(leat_root_check_chunk(&r, c, bytes.data, bytes.len, &err), err, LEAT_CORRUPT, "checksum");
        leat_buf_free(&bytes);
    }
    const struct leat_section *samples = leat_root_section(&r, LEAT_SECTION_SAMPLES);
    struct leat_buf bytes;
    leat_buf_init(&bytes, 1 << 20);
    assert_ok(leat_snapshot_emit(&files, LEAT_SECTION_SAMPLES, append, &bytes, &err), err);
    assert_int_equal(samples->size, bytes.len);
    assert_ok(leat_root_check_block(&r, samples, 0, bytes.data, bytes.len, &err), err);
    bytes.data[5] ^= 1;
    assert_fails(leat_root_check_block(&r, samples, 0, bytes.data, bytes.len, &err), err, LEAT_CORRUPT, "digest");
    leat_buf_free(&bytes);
    drop_snapshot(&files);
}

TEST(a_truncated_root_is_corrupt_at_every_length)
{
    struct leat_snapshot_files files;
    struct leat_root r;
    make_snapshot(&files);
    for (size_t n = 0; n < files.root.len; n++) {
        void *copy = malloc(n ? n : 1);
        memcpy(copy, files.root.data, n);
        assert_int_equal(leat_root_read(copy, n, &r, NULL), LEAT_CORRUPT);
        if (n >= 40) {
            leat_put_u64((uint8_t *)copy + 16, n);
            assert_int_equal(leat_root_read(copy, n, &r, NULL), LEAT_CORRUPT);
        }
        free(copy);
    }
    drop_snapshot(&files);
}

/* What the numbers of a root say stays inside it, whatever they say: every column and digest is touched. */
TEST(any_damage_to_a_root_keeps_reads_inside_it)
{
    struct leat_snapshot_files files;
    make_snapshot(&files);
    uint8_t id[LEAT_SHA256_SIZE];
    const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < files.root.len; i++) {
        for (size_t v = 0; v < sizeof values; v++) {
            struct leat_root r;
            char kept = files.root.data[i];
            if ((uint8_t)kept == values[v])
                continue;
            files.root.data[i] = (char)values[v];
            leat_sha256(files.root.data, files.root.len, id);
            assert_memory_not_equal(id, files.pointer.root, sizeof id); /* what an opener sees first */
            if (leat_root_read(files.root.data, files.root.len, &r, NULL) == LEAT_OK) {
                for (uint32_t c = 0; c < r.chunks; c++)
                    (void)leat_xxh3(leat_root_chunk_name(&r, c), LEAT_SHA256_SIZE);
                for (uint32_t s = 0; s < r.sections_n; s++)
                    (void)leat_xxh3(r.sections[s].digests, (size_t)r.sections[s].blocks * 16);
            }
            files.root.data[i] = kept;
        }
    }
    drop_snapshot(&files);
}

struct memory {
    const struct leat_buf *b;
    uint32_t fetches;
};

static leat_status fetch(void *user, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    struct memory *m = user;
    m->fetches++;
    if (at > m->b->len || n > m->b->len - at)
        return leat_fail(err, LEAT_CORRUPT, "outside");
    memcpy(into, m->b->data + at, n);
    return LEAT_OK;
}

/* The section of keys, as docs/format.md says. */
struct entry {
    uint64_t hash;
    uint64_t sample;
};

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->sample > y->sample) - (x->sample < y->sample);
}

static void add_u64(struct leat_buf *out, uint64_t v)
{
    uint8_t bytes[8];
    leat_put_u64(bytes, v);
    leat_buf_add(out, bytes, sizeof bytes);
}

static void write_keys(const char *keys, const uint64_t *ends, uint64_t n, struct leat_buf *out)
{
    struct entry *index = calloc(n, sizeof *index);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t start = i ? ends[i - 1] : 0;
        index[i] = (struct entry){leat_xxh3(keys + start, ends[i] - start), i};
        add_u64(out, ends[i]);
    }
    qsort(index, n, sizeof *index, by_hash);
    for (uint64_t i = 0; i < n; i++) {
        add_u64(out, index[i].hash);
        add_u64(out, index[i].sample);
    }
    leat_buf_add(out, keys, ends[n - 1]);
    free(index);
}

TEST(every_key_is_found_and_no_other)
{
    const uint64_t n = 20000;
    struct leat_buf keys;
    struct leat_buf section;
    struct leat_buf found;
    struct leat_error err;
    uint64_t *ends = malloc(n * sizeof *ends);
    leat_buf_init(&keys, 1 << 24);
    leat_buf_init(&section, 1 << 24);
    leat_buf_init(&found, LEAT_KEY_MAX);
    for (uint64_t i = 0; i < n; i++) {
        leat_buf_printf(&keys, "key-%u", (unsigned)(i * 7919));
        ends[i] = keys.len;
    }
    write_keys(keys.data, ends, n, &section);
    assert_int_equal(section.len, n * 24 + keys.len);
    struct memory memory = {&section, 0};
    struct leat_keys k = {.samples = n, .size = section.len, .fetch = fetch, .user = &memory};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sample;
        uint64_t count;
        char key[32];
        snprintf(key, sizeof key, "key-%u", (unsigned)(i * 7919));
        leat_buf_clear(&found);
        assert_ok(leat_keys_get(&k, i, &found, &err), err);
        assert_string_equal(found.data, key);
        assert_ok(leat_keys_find(&k, key, strlen(key), &sample, &count, &err), err);
        assert_true(sample == i && count == 1);
        if (i % 100 == 0) {
            snprintf(key, sizeof key, "kez-%u", (unsigned)i);
            assert_fails(leat_keys_find(&k, key, strlen(key), &sample, &count, &err), err, LEAT_NOT_FOUND, key);
        }
    }
    assert_true(memory.fetches < n * 25);
    leat_buf_free(&found);
    leat_buf_free(&section);
    leat_buf_free(&keys);
    free(ends);
}

TEST(lying_keys_cannot_be_read_outside_their_section)
{
    const uint64_t ends[] = {3, 6, 9};
    struct leat_buf section;
    struct leat_buf out;
    struct leat_error err;
    leat_buf_init(&section, 1 << 20);
    leat_buf_init(&out, LEAT_KEY_MAX);
    write_keys("abcdefghi", ends, 3, &section);
    struct memory memory = {&section, 0};
    struct leat_keys k = {.samples = 3, .size = section.len, .fetch = fetch, .user = &memory};
    leat_put_u64(section.data + 8, 1000);
    assert_fails(leat_keys_get(&k, 1, &out, &err), err, LEAT_CORRUPT, "outside its section");
    leat_put_u64(section.data + 8, 2);
    assert_fails(leat_keys_get(&k, 1, &out, &err), err, LEAT_CORRUPT, "outside its section");
    for (int i = 0; i < 3; i++) /* every entry of the index names a sample that is not there */
        leat_put_u64(section.data + 24 + 16 * i + 8, 3);
    uint64_t sample;
    uint64_t count;
    assert_fails(leat_keys_find(&k, "abc", 3, &sample, &count, &err), err, LEAT_CORRUPT, "names sample 3");
    leat_buf_free(&out);
    leat_buf_free(&section);
}

TEST(chunks_that_do_not_belong_together_are_refused)
{
    struct leat_snapshot *s;
    struct leat_snapshot_files files;
    struct leat_buf bytes;
    struct leat_chunk c;
    struct leat_error err;
    uint8_t sha[LEAT_SHA256_SIZE] = {0};
    leat_buf_init(&bytes, 1 << 20);
    assert_ok(leat_snapshot_open(10, 0, &s, &err), err);
    assert_fails(leat_snapshot_write((const struct leat_snapshot *const *)&s, 1, &files, &err), err, LEAT_INVALID,
                 "no samples");
    leat_snapshot_files_free(&files);
    make_chunk(3, 0, 5, &bytes);
    assert_ok(leat_chunk_read(bytes.data, bytes.len, &c, &err), err);
    assert_ok(leat_snapshot_add(s, &c, sha, &err), err);
    assert_fails(leat_snapshot_write((const struct leat_snapshot *const *)&s, 1, &files, &err), err, LEAT_NOT_FOUND,
                 "the last chunk is missing");
    leat_snapshot_files_free(&files);
    c.number = 4;
    c.pack[0] ^= 1;
    assert_fails(leat_snapshot_add(s, &c, sha, &err), err, LEAT_INVALID, "another packing");
    c.pack[0] ^= 1;
    bytes.data[LEAT_CHUNK_HEAD + 8 + 32] = 'x'; /* of the first field's name */
    assert_fails(leat_snapshot_add(s, &c, sha, &err), err, LEAT_INVALID, "other fields");
    bytes.data[LEAT_CHUNK_HEAD + 8 + 32] = 'j';
    c.number = UINT32_MAX;
    assert_fails(leat_snapshot_add(s, &c, sha, &err), err, LEAT_INVALID, "only 10 chunks");
    leat_snapshot_close(s);
    leat_buf_free(&bytes);
}

TEST(pointers_and_names)
{
    struct leat_pointer p;
    struct leat_pointer back;
    char text[LEAT_POINTER_MAX];
    char name[LEAT_NAME_MAX];
    struct leat_error err;
    memset(p.root, 0xab, sizeof p.root);
    memset(p.id, 0xcd, sizeof p.id);
    leat_pointer_write(&p, text);
    assert_ok(leat_pointer_read("it", text, strlen(text), &back, &err), err);
    assert_memory_equal(&p, &back, sizeof p);
    for (size_t n = 0; n + 1 < strlen(text); n++)
        assert_int_equal(leat_pointer_read("it", text, n, &back, &err), LEAT_CORRUPT);
    leat_name_chunk(p.root, name);
    assert_memory_equal(name, "leat/chunks/ab/abab", 19);
    assert_int_equal(strlen(name), 15 + 64);
    leat_name_version(p.id, name);
    assert_memory_equal(name, "leat/versions/cdcd", 18);
}

TEST(pointers_that_cannot_be_followed_say_why)
{
#define HEX "abababababababababababababababababababababababababababababababab"
    static const struct {
        const char *text;
        leat_status status;
        const char *says;
    } cases[] = {
        {"{\"format\": 2}", LEAT_VERSION, "format 2"},
        {"{\"format\": 1, \"root\": \"../x\", \"id\": \"" HEX "\"}", LEAT_CORRUPT, "no root"},
        {"{\"format\": 1, \"root\": \"" HEX "\"}", LEAT_CORRUPT, "no content id"},
        {"{\"format\": 1, \"needs\": [\"gold 2\"]}", LEAT_VERSION, "needs a newer Leat: it uses 'gold 2'"},
        {"{\"format\": 1, \"needs\": [7]}", LEAT_CORRUPT, "list of words"},
        {"{\"format\": 1, \"needs\": {}}", LEAT_CORRUPT, "list of words"},
    };
    struct leat_pointer p;
    struct leat_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(leat_pointer_read("leat/names/x", cases[i].text, strlen(cases[i].text), &p, &err), err,
                     cases[i].status, cases[i].says);
    static const char more[] =
        "{\"format\": 1, \"needs\": [], \"more\": {}, \"root\": \"" HEX "\", \"id\": \"" HEX "\"}";
    assert_ok(leat_pointer_read("it", more, strlen(more), &p, &err), err);
#undef HEX
}
