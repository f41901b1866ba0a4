/* Looking at datasets and writing them, through the public interface: include/leat/dataset.h, writer.h. */
#include <sys/wait.h>
#include <unistd.h>

#include "leat/dataset.h"
#include "leat/writer.h"
#include "unit_place.h"

static struct leat_packer *open_packer(const char *url, uint32_t part, uint32_t parts)
{
    static const struct leat_packer_field fields[2] = {
        {.size = sizeof fields[0], .name = "n", .type = LEAT_DATA_INT},
        {.size = sizeof fields[0], .name = "b", .type = LEAT_DATA_BYTES, .zstd = 1},
    };
    struct leat_packer_opts o = {.size = sizeof o,
                                 .url = url,
                                 .fields = fields,
                                 .fields_n = 2,
                                 .chunk_bytes = 4096,
                                 .part = part,
                                 .parts = parts};
    struct leat_packer *packer = NULL;
    struct leat_error err;
    assert_ok(leat_packer_open(&o, &packer, &err), err);
    return packer;
}

static leat_status add(struct leat_packer *packer, int64_t n, struct leat_error *err)
{
    char data[600];
    char key[20];
    memset(data, 'a' + (int)(n % 26), sizeof data);
    snprintf(key, sizeof key, "k%lld", (long long)n);
    struct leat_packer_value values[2] = {{.size = sizeof values[0], .number = n},
                                          {.size = sizeof values[0], .data = data, .bytes = (uint64_t)(n % 600)}};
    return leat_packer_add(packer, key, strlen(key), values, err);
}

static void write_numbers(int64_t from, int64_t to, uint32_t part, uint32_t parts)
{
    struct leat_packer *packer = open_packer(unit_place, part, parts);
    struct leat_error err;
    char version[LEAT_PACKER_VERSION];
    for (int64_t n = from; n < to; n++)
        assert_ok(add(packer, n, &err), err);
    assert_int_equal(leat_packer_samples(packer), to - from);
    assert_ok(leat_packer_finish(packer, version, &err), err);
    assert_int_equal(strlen(version), 64);
    assert_fails(add(packer, 1, &err), err, LEAT_INVALID, "finished");
    leat_packer_close(packer);
}

static struct leat_data *open_data(void)
{
    struct leat_data_opts o = {.size = sizeof o, .url = unit_place, .cache = 1};
    struct leat_data *data = NULL;
    struct leat_error err;
    assert_ok(leat_data_open(&o, &data, &err), err);
    return data;
}

/* 0: it is the one that was written. */
static int check_sample(struct leat_data *data, uint64_t number)
{
    struct leat_data_sample *sample;
    struct leat_data_value n = {.size = sizeof n};
    struct leat_data_value b = {.size = sizeof b};
    size_t key_n;
    if (leat_data_get(data, number, &sample, NULL) != LEAT_OK)
        return 1;
    int wrong = leat_data_value(sample, 0, &n, NULL) != LEAT_OK || leat_data_value(sample, 1, &b, NULL) != LEAT_OK ||
                n.number != (int64_t)number || b.bytes != number % 600;
    const char *bytes = b.data;
    for (uint64_t i = 0; !wrong && i < b.bytes; i++)
        wrong = bytes[i] != 'a' + (int)(number % 26);
    leat_data_key(sample, &key_n);
    leat_data_release(sample);
    return wrong || key_n < 2;
}

TEST_IN_PLACE(samples_are_found_by_number_and_key)
{
    struct leat_error err;
    uint64_t found;
    write_numbers(0, 2000, 0, 0);
    struct leat_data *data = open_data();
    assert_int_equal(leat_data_samples(data), 2000);
    for (uint64_t i = 0; i < 2000; i += 7)
        assert_int_equal(check_sample(data, i), 0);
    assert_ok(leat_data_find(data, "k1234", 5, &found, &err), err);
    assert_int_equal(found, 1234);
    assert_fails(leat_data_find(data, "none", 4, &found, &err), err, LEAT_NOT_FOUND, "none");
    struct leat_data_sample *sample;
    assert_fails(leat_data_get(data, 2000, &sample, &err), err, LEAT_NOT_FOUND, "2000");
    leat_data_close(data);
}

TEST_IN_PLACE(a_sample_outlives_its_dataset)
{
    struct leat_error err;
    struct leat_data_sample *sample;
    struct leat_data_value b = {.size = sizeof b};
    write_numbers(0, 2000, 0, 0);
    struct leat_data *data = open_data();
    assert_ok(leat_data_get(data, 599, &sample, &err), err);
    assert_int_equal(check_sample(data, 1900), 0); /* pushes its chunk out */
    leat_data_close(data);
    assert_ok(leat_data_value(sample, 1, &b, &err), err);
    assert_int_equal(b.bytes, 599);
    assert_int_equal(((const char *)b.data)[598], 'a' + 599 % 26);
    leat_data_release(sample);
}

/* A sanitizer's allocator may stay locked in the child, by a thread that the child does not have. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_IN_PLACE(a_forked_child_opens_anew_and_may_not_write)
{
    write_numbers(0, 500, 0, 0);
    struct leat_data *data = open_data();
    struct leat_packer *packer = open_packer(place_path("other"), 0, 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct leat_error err;
        int wrong = add(packer, 1, &err) != LEAT_INVALID || !strstr(err.text, "part");
        for (uint64_t i = 0; i < 500; i++)
            wrong |= check_sample(data, i);
        leat_data_close(data);
        _exit(wrong);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(check_sample(data, 3), 0);
    leat_packer_close(packer);
    leat_data_close(data);
}
#endif

TEST_IN_PLACE(parts_become_one_dataset)
{
    struct leat_error err;
    char version[LEAT_PACKER_VERSION];
    struct leat_packer_opts o = {.size = sizeof o, .url = unit_place, .parts = 3};
    write_numbers(400, 900, 1, 3);
    write_numbers(0, 400, 0, 3);
    assert_fails(leat_packer_merge(&o, version, &err), err, LEAT_NOT_FOUND, "part 2 of 3");
    write_numbers(900, 1000, 2, 3);
    assert_ok(leat_packer_merge(&o, version, &err), err);
    struct leat_data *data = open_data();
    assert_string_equal(leat_data_version(data), version);
    assert_int_equal(leat_data_samples(data), 1000);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(check_sample(data, i), 0);
    leat_data_close(data);
}

TEST_IN_PLACE(bad_arguments_are_named)
{
    struct leat_error err;
    struct leat_packer *packer;
    struct leat_data *data;
    struct leat_packer_field field = {.size = sizeof field, .name = "x", .type = 77};
    struct leat_packer_opts o = {.size = sizeof o, .url = unit_place, .fields = &field, .fields_n = 1};
    assert_fails(leat_packer_open(&o, &packer, &err), err, LEAT_INVALID, "x");
    field.type = LEAT_DATA_ARRAY;
    assert_fails(leat_packer_open(&o, &packer, &err), err, LEAT_INVALID, "x");
    field.type = LEAT_DATA_INT;
    o.no_current = 1;
    assert_fails(leat_packer_open(&o, &packer, &err), err, LEAT_INVALID, "name");
    o.no_current = 0;
    o.fields_n = 0;
    assert_fails(leat_packer_open(&o, &packer, &err), err, LEAT_INVALID, "fields");
    struct leat_data_opts d = {.size = sizeof d};
    assert_fails(leat_data_open(&d, &data, &err), err, LEAT_INVALID, "URL");
    d.size = 3;
    assert_fails(leat_data_open(&d, &data, &err), err, LEAT_INVALID, "leat_data_opts");
}
