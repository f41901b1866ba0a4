/* What the beginnings of token files say, Megatron's .idx, and files on disk as the origin of samples. */

#include <unistd.h>

#include "base/bytes.h"
#include "dataset/megatron.h"
#include "dataset/npy.h"
#include "dataset/token_origin.h"
#include "dataset/tokens.h"
#include "unit_place.h"

/* An .npy file's beginning, of version 1; the length of it. */
static size_t npy(uint8_t *out, const char *dict)
{
    size_t n = strlen(dict);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (uint8_t)n;
    out[9] = (uint8_t)(n >> 8);
    memcpy(out + 10, dict, n);
    return n + 10;
}

TEST(npy_headers_of_numpy_are_read)
{
    static const struct {
        const char *dict;
        char kind;
        uint32_t bytes;
        bool fortran;
        uint32_t dims_n;
        uint64_t first;
    } cases[] = {
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }          \n", 'u', 2, false, 1, 1000},
        {"{'descr': '<i4', 'fortran_order': True, 'shape': (3, 4), }\n", 'i', 4, true, 2, 3},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", 'u', 1, false, 0, 0},
        {"{'shape': (7L,), 'fortran_order': False, 'descr': '>f8'}\n", 'f', 8, false, 1, 7},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t file[300];
        struct leat_npy h;
        struct leat_error err;
        size_t n = npy(file, cases[i].dict);
        assert_ok(leat_npy_read(file, n, &h, &err), err);
        assert_int_equal(h.kind, cases[i].kind);
        assert_int_equal(h.bytes, cases[i].bytes);
        assert_int_equal(h.fortran, cases[i].fortran);
        assert_int_equal(h.dims_n, cases[i].dims_n);
        assert_int_equal(h.dims[0], cases[i].first);
        assert_int_equal(h.offset, n);
        for (size_t cut = 0; cut < n; cut++)
            assert_fails(leat_npy_read(file, cut, &h, &err), err, LEAT_CORRUPT, "");
    }
}

TEST(damaged_npy_headers_are_refused)
{
    static const char *const bad[] = {
        "",
        "{}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (1000,)",
        "{'descr': '<u2', 'fortran_order': False}",
        "{'descr': '<u2', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': 'u2', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<u0', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (1,), 'more': 1}",
    };
    uint8_t file[300];
    struct leat_npy h;
    struct leat_error err;
    for (size_t i = 0; i < COUNT(bad); i++) {
        size_t n = npy(file, bad[i]);
        if (leat_npy_read(file, n, &h, &err) != LEAT_CORRUPT)
            fail_msg("'%s'", bad[i]);
    }
    size_t n = npy(file, "{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (1,)}");
    assert_fails(leat_npy_read(file, n, &h, &err), err, LEAT_UNSUPPORTED, "fields");
    file[6] = 9;
    assert_fails(leat_npy_read(file, n, &h, &err), err, LEAT_UNSUPPORTED, "version 9");
}

static size_t llmc(uint8_t *out, uint32_t magic, uint32_t version, uint32_t tokens)
{
    memset(out, 0, 1024);
    leat_put_u32(out, magic);
    leat_put_u32(out + 4, version);
    leat_put_u32(out + 8, tokens);
    return 1024;
}

TEST(beginnings_say_type_place_and_number_of_tokens)
{
    uint8_t head[2000] = {0};
    struct leat_tokens_file f;
    struct leat_error err;
    assert_ok(leat_tokens_look(head, 1000, 1000, LEAT_U16, &f, &err), err);
    assert_true(f.dtype == LEAT_U16 && f.offset == 0 && f.tokens == 500);
    assert_ok(leat_tokens_look(head, 1000, 1000, LEAT_I32, &f, &err), err);
    assert_true(f.dtype == LEAT_I32 && f.offset == 0 && f.tokens == 250);
    llmc(head, 20240520, 1, 7);
    assert_ok(leat_tokens_look(head, 1038, 1038, 0, &f, &err), err);
    assert_true(f.dtype == LEAT_U16 && f.offset == 1024 && f.tokens == 7);
    llmc(head, 20240801, 7, 7);
    assert_ok(leat_tokens_look(head, 1052, 1052, LEAT_U32, &f, &err), err);
    assert_true(f.dtype == LEAT_U32 && f.offset == 1024 && f.tokens == 7);
    size_t n = npy(head, "{'descr': '<u4', 'fortran_order': False, 'shape': (9,)}");
    assert_ok(leat_tokens_look(head, n + 36, n + 36, 0, &f, &err), err);
    assert_true(f.dtype == LEAT_U32 && f.offset == n && f.tokens == 9);
}

TEST(files_that_do_not_fit_their_words_are_refused)
{
    uint8_t head[2000] = {0};
    struct leat_tokens_file f;
    struct leat_error err;
    assert_fails(leat_tokens_look(head, 0, 0, LEAT_U16, &f, &err), err, LEAT_INVALID, "empty");
    assert_fails(leat_tokens_look(head, 1001, 1001, LEAT_U16, &f, &err), err, LEAT_CORRUPT, "1001 bytes");
    assert_fails(leat_tokens_look(head, 1002, 1002, LEAT_U32, &f, &err), err, LEAT_CORRUPT, "uint32");
    assert_fails(leat_tokens_look(head, 1000, 1000, 0, &f, &err), err, LEAT_INVALID, "--dtype");
    llmc(head, 20240520, 1, 7);
    assert_fails(leat_tokens_look(head, 1036, 1036, 0, &f, &err), err, LEAT_CORRUPT, "says 7 tokens");
    assert_fails(leat_tokens_look(head, 500, 500, 0, &f, &err), err, LEAT_CORRUPT, "says 7 tokens");
    assert_fails(leat_tokens_look(head, 1038, 1038, LEAT_U32, &f, &err), err, LEAT_INVALID, "uint16, not uint32");
    llmc(head, 20240520, 1, 0);
    assert_fails(leat_tokens_look(head, 1024, 1024, 0, &f, &err), err, LEAT_INVALID, "no token");
    llmc(head, 20240520, 2, 7);
    assert_fails(leat_tokens_look(head, 1038, 1038, 0, &f, &err), err, LEAT_UNSUPPORTED, "version 2");
    size_t n = npy(head, "{'descr': '<i8', 'fortran_order': False, 'shape': (9,)}");
    assert_fails(leat_tokens_look(head, n + 72, n + 72, 0, &f, &err), err, LEAT_UNSUPPORTED, "'<i8'");
    n = npy(head, "{'descr': '>u2', 'fortran_order': False, 'shape': (9,)}");
    assert_fails(leat_tokens_look(head, n + 18, n + 18, 0, &f, &err), err, LEAT_UNSUPPORTED, "little-endian");
    n = npy(head, "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 3)}");
    assert_fails(leat_tokens_look(head, n + 18, n + 18, 0, &f, &err), err, LEAT_UNSUPPORTED, "reshape(-1)");
    n = npy(head, "{'descr': '<u2', 'fortran_order': False, 'shape': (9,)}");
    assert_fails(leat_tokens_look(head, n + 17, n + 17, 0, &f, &err), err, LEAT_CORRUPT, "says 9 numbers");
}

/* An .idx in memory, of documents of one sequence each unless borders are given. */
struct idx {
    uint8_t data[4096];
    size_t n;
};

static struct idx make_idx(uint8_t code, const int32_t *lengths, uint64_t sequences, const uint64_t *borders,
                           uint64_t borders_n)
{
    struct idx x = {.n = 0};
    struct leat_writer w = leat_writer(x.data, sizeof x.data);
    uint64_t at = 0;
    leat_write_bytes(&w, "MMIDIDX\0", 9);
    leat_write_u64(&w, 1);
    leat_write_u8(&w, code);
    leat_write_u64(&w, sequences);
    leat_write_u64(&w, borders_n);
    for (uint64_t i = 0; i < sequences; i++)
        leat_write_u32(&w, (uint32_t)lengths[i]);
    for (uint64_t i = 0; i < sequences; i++) {
        leat_write_u64(&w, at);
        at += (uint64_t)lengths[i] * (code == 8 ? 2 : 4);
    }
    for (uint64_t i = 0; i < borders_n; i++)
        leat_write_u64(&w, borders ? borders[i] : i);
    assert_false(w.bad);
    x.n = w.at;
    return x;
}

static leat_status fetch(void *user, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    const struct idx *x = user;
    if (at > x->n || n > x->n - at)
        return leat_fail(err, LEAT_INTERNAL, "outside");
    memcpy(into, x->data + at, n);
    return LEAT_OK;
}

static leat_status note(void *user, uint64_t begin, uint64_t end, struct leat_error *err)
{
    char *text = user;
    (void)err;
    size_t n = strlen(text);
    snprintf(text + n, 1000 - n, "%llu-%llu ", (unsigned long long)begin, (unsigned long long)end);
    return LEAT_OK;
}

static leat_status walk(struct idx *x, uint64_t bin_bytes, char text[1000], struct leat_error *err)
{
    struct leat_megatron m = {.fetch = fetch, .user = x, .idx_bytes = x->n, .bin_bytes = bin_bytes};
    struct leat_megatron_head head;
    text[0] = '\0';
    leat_status rc = leat_megatron_open(&m, &head, err);
    return rc == LEAT_OK ? leat_megatron_each(&m, &head, note, text, err) : rc;
}

TEST(documents_of_an_idx_are_found)
{
    static const int32_t lengths[] = {5, 0, 7, 3};
    static const uint64_t borders[] = {0, 1, 3, 3, 4};
    char text[1000];
    struct leat_error err;
    struct idx x = make_idx(8, lengths, 4, NULL, 5);
    assert_ok(walk(&x, 30, text, &err), err);
    assert_string_equal(text, "0-5 5-5 5-12 12-15 ");
    x = make_idx(4, lengths, 4, borders, 5);
    assert_ok(walk(&x, 60, text, &err), err);
    assert_string_equal(text, "0-5 5-12 12-12 12-15 ");
    x.n += 4; /* modes */
    assert_ok(walk(&x, 60, text, &err), err);
}

TEST(an_idx_that_lies_is_refused_with_the_place)
{
    static const int32_t lengths[] = {5, 0, 7, 3};
    static const int32_t negative[] = {5, -1, 7, 3};
    static const uint64_t backwards[] = {0, 3, 1, 4};
    static const uint64_t beyond[] = {0, 3, 5};
    static const uint64_t less[] = {0, 3};
    static const uint64_t late[] = {1, 4};
    char text[1000];
    struct leat_error err;
    struct idx x = make_idx(8, lengths, 4, NULL, 5);
    const struct idx good = x;
    assert_fails(walk(&x, 28, text, &err), err, LEAT_CORRUPT,
                 "sequence 3 has 3 tokens from token 12 on, and the .bin has 14");
    assert_fails(walk(&x, 32, text, &err), err, LEAT_CORRUPT, "have 15 tokens, and the .bin has 16");
    assert_fails(walk(&x, 31, text, &err), err, LEAT_CORRUPT, "the .bin has 31 bytes");
    x.data[34 + 16 + 8 * 2] ^= 2; /* where the third sequence begins */
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "sequence 2 begins at byte 8 of the .bin and not at 10");
    x = make_idx(8, negative, 4, NULL, 5);
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "sequence 1 has -1 tokens");
    x = make_idx(8, lengths, 4, backwards, 4);
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "document 1 ends before sequence 1");
    x = make_idx(8, lengths, 4, beyond, 3);
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "document 1 ends before sequence 5");
    x = make_idx(8, lengths, 4, less, 2);
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "end with sequence 3, and there are 4");
    x = make_idx(8, lengths, 4, late, 2);
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "begins with sequence 1");
    x = make_idx(7, lengths, 4, NULL, 5);
    assert_fails(walk(&x, 30, text, &err), err, LEAT_UNSUPPORTED, "code 7");
    x = good;
    x.data[3] = 'X';
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "MMIDIDX");
    x = good;
    x.data[9] = 2;
    assert_fails(walk(&x, 30, text, &err), err, LEAT_UNSUPPORTED, "version 2");
    x = good;
    memset(x.data + 18, 0xff, 8);
    assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "18446744073709551615 sequences");
    for (size_t n = 0; n < good.n; n++) {
        x = good;
        x.n = n;
        assert_fails(walk(&x, 30, text, &err), err, LEAT_CORRUPT, "bytes");
    }
}

/* Files on disk */

static leat_status open_tokens(const char *name, const struct leat_token_opts *opts, struct leat_token_counts *counts,
                               struct leat_origin **out, struct leat_error *err)
{
    static const struct leat_token_opts defaults;
    const char *url = place_path(name);
    return leat_origin_tokens_open(&url, 1, opts ? opts : &defaults, counts, out, err);
}

static void assert_sample(const struct leat_origin *o, uint64_t i, const char *key, uint64_t offset, uint64_t size)
{
    struct leat_origin_room room = {0};
    struct leat_origin_sample s;
    struct leat_error err;
    assert_ok(leat_origin_sample(o, i, &room, &s, &err), err);
    if (s.key_n != strlen(key) || memcmp(s.key, key, s.key_n) != 0)
        fail_msg("'%.*s', not '%s'", (int)s.key_n, (const char *)s.key, key);
    assert_int_equal(s.values[0].offset, offset);
    assert_int_equal(s.values[0].size, size);
    leat_origin_room_free(&room);
}

static void assert_chunk(const struct leat_origin *o, uint32_t i, uint64_t first, uint64_t offset, uint64_t length)
{
    struct leat_origin_chunk c;
    struct leat_error err;
    assert_ok(o->ops->chunk(o, i, &c, &err), err);
    assert_int_equal(c.first, first);
    assert_int_equal(c.offset, offset);
    assert_int_equal(c.length, length);
    assert_true(c.sum == 0);
}

TEST_IN_PLACE(a_chunk_is_a_power_of_two_and_one_token_more)
{
    static const struct leat_token_opts opts = {.dtype = "uint16", .chunk_bytes = 5000}; /* 2048 tokens */
    static uint8_t tokens[10000];
    struct leat_token_counts counts;
    struct leat_origin *o;
    struct leat_error err;
    place_write("train.bin", tokens, 10000);
    assert_ok(open_tokens("train.bin", &opts, &counts, &o, &err), err);
    assert_int_equal(counts.tokens, 5000);
    assert_int_equal(counts.documents, 0);
    assert_int_equal(o->chunks, 3);
    assert_int_equal(o->samples, 3);
    assert_string_equal(o->schema.fields[0].about, "{\"dtype\": \"uint16\", \"stretch\": 2048, \"overlap\": 1}");
    assert_chunk(o, 0, 0, 0, 4098);
    assert_chunk(o, 1, 1, 4096, 4098);
    assert_chunk(o, 2, 2, 8192, 1808);
    assert_sample(o, 0, "train.bin:0", 0, 4098);
    assert_sample(o, 1, "train.bin:2048", 4096, 4098);
    assert_sample(o, 2, "train.bin:4096", 8192, 1808);
    leat_origin_close(o);

    place_write("train.bin", tokens, 8192); /* exactly two */
    assert_ok(open_tokens("train.bin", &opts, &counts, &o, &err), err);
    assert_int_equal(o->chunks, 2);
    assert_chunk(o, 0, 0, 0, 4098);
    assert_chunk(o, 1, 1, 4096, 4096);
    leat_origin_close(o);

    place_write("train.bin", tokens, 8194); /* and one token more, which has a chunk of its own, too */
    assert_ok(open_tokens("train.bin", &opts, &counts, &o, &err), err);
    assert_int_equal(o->chunks, 3);
    assert_chunk(o, 1, 1, 4096, 4098);
    assert_chunk(o, 2, 2, 8192, 2);
    leat_origin_close(o);
}

TEST_IN_PLACE(headers_are_left_out_and_files_follow_each_other)
{
    static const struct leat_token_opts opts = {.chunk_bytes = 4096};
    static uint8_t file[6000];
    struct leat_token_counts counts;
    struct leat_origin *o;
    struct leat_error err;
    llmc(file, 20240520, 1, 2400);
    place_write("a.bin", file, 1024 + 4800);
    memset(file, 0, sizeof file);
    size_t n = npy(file, "{'descr': '<u2', 'fortran_order': False, 'shape': (100,)}");
    place_write("b.npy", file, n + 200);
    place_write("readme.txt", file, 5);
    assert_ok(open_tokens("", &opts, &counts, &o, &err), err);
    assert_int_equal(counts.files, 2);
    assert_int_equal(counts.other, 1);
    assert_int_equal(o->chunks, 3);
    assert_chunk(o, 0, 0, 1024, 4098);
    assert_chunk(o, 1, 1, 1024 + 4096, 704);
    assert_chunk(o, 2, 2, n, 200);
    assert_sample(o, 1, "a.bin:2048", 1024 + 4096, 704);
    assert_sample(o, 2, "b.npy:0", n, 200);
    leat_origin_close(o);
    static const struct leat_token_opts other = {.dtype = "uint32"};
    assert_fails(open_tokens("", &other, &counts, &o, &err), err, LEAT_INVALID,
                 "a.bin: its tokens are uint16, not uint32");
    n = npy(file, "{'descr': '<u4', 'fortran_order': False, 'shape': (100,)}");
    place_write("b.npy", file, n + 400);
    assert_fails(open_tokens("", &opts, &counts, &o, &err), err, LEAT_INVALID,
                 "b.npy: its tokens are uint32, but those of");
}

TEST_IN_PLACE(documents_are_samples_and_go_on_in_the_next_chunk)
{
    static const struct leat_token_opts opts = {.chunk_bytes = 4096}; /* 2048 tokens of two bytes */
    /* The second goes over the first border, the fourth over two, one is empty at a border and one at the end. */
    static const int32_t lengths[] = {2000, 48, 0, 100, 4200, 1, 0};
    static uint8_t tokens[2 * 6349];
    struct leat_token_counts counts;
    struct leat_origin *o;
    struct leat_error err;
    struct idx x = make_idx(8, lengths, 7, NULL, 8);
    place_write("c.bin", tokens, sizeof tokens);
    place_write("c.idx", x.data, x.n);
    assert_ok(open_tokens("c.bin", &opts, &counts, &o, &err), err);
    assert_int_equal(counts.documents, 7);
    assert_int_equal(o->chunks, 4);
    assert_int_equal(o->samples, 9);
    assert_chunk(o, 0, 0, 0, 4098);
    assert_chunk(o, 1, 2, 4096, 4098);
    assert_chunk(o, 2, 5, 8192, 4098);
    assert_chunk(o, 3, 6, 12288, 2 * 205);
    assert_sample(o, 0, "c.bin#0", 0, 4000);
    assert_sample(o, 1, "c.bin#1", 4000, 96); /* ends at the border: the token beyond is not its own */
    assert_sample(o, 2, "c.bin#2", 4096, 0);
    assert_sample(o, 3, "c.bin#3", 4096, 200);
    assert_sample(o, 4, "c.bin#4", 4296, 2 * (1948 + 1)); /* goes on: has the first token of the next chunk */
    assert_sample(o, 5, "c.bin#4+1948", 8192, 2 * 2049);
    assert_sample(o, 6, "c.bin#4+3996", 12288, 2 * 204);
    assert_sample(o, 7, "c.bin#5", 12288 + 2 * 204, 2);
    assert_sample(o, 8, "c.bin#6", 2 * 6349, 0);
    leat_origin_close(o);
}

TEST_IN_PLACE(wrong_pairs_are_refused_by_name)
{
    static const int32_t lengths[] = {5};
    struct leat_token_counts counts;
    struct leat_origin *o;
    struct leat_error err;
    struct idx x = make_idx(8, lengths, 1, NULL, 2);
    place_write("c.bin", "0123456789AB", 12);
    place_write("c.idx", x.data, x.n);
    assert_fails(open_tokens("c.bin", NULL, &counts, &o, &err), err, LEAT_CORRUPT,
                 "c.idx: its documents have 5 tokens");
    place_write("c.idx", "nothing", 7);
    assert_fails(open_tokens("c.bin", NULL, &counts, &o, &err), err, LEAT_CORRUPT, "c.idx: it has 7 bytes");
    place_write("empty.bin", "", 0);
    static const struct leat_token_opts opts = {.dtype = "uint16"};
    assert_fails(open_tokens("empty.bin", &opts, &counts, &o, &err), err, LEAT_INVALID, "empty.bin: it is empty");
    static const struct leat_token_opts wrong = {.dtype = "int8"};
    assert_fails(open_tokens("empty.bin", &wrong, &counts, &o, &err), err, LEAT_INVALID,
                 "'int8' is not a type of tokens");
    assert_fails(open_tokens("missing.bin", &opts, &counts, &o, &err), err, LEAT_NOT_FOUND, "missing.bin");
    assert_fails(open_tokens("x.bin.gz", &opts, &counts, &o, &err), err, LEAT_UNSUPPORTED, "unpack it");
}
