/* Writes a dataset of numbers, squares and texts, then reads it back by number and by key.
 *
 * cc write_dataset.c $(pkg-config --cflags --libs leat) && ./a.out /tmp/squares 1000 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat/dataset.h>
#include <leat/writer.h>

static int fail(const struct leat_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static leat_status write_samples(struct leat_packer *packer, long n, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (long i = 0; rc == LEAT_OK && i < n; i++) {
        char key[40];
        char text[40];
        float square = (float)i * (float)i;
        snprintf(key, sizeof key, "n/%06ld", i);
        snprintf(text, sizeof text, "number %ld", i);
        struct leat_packer_value values[4] = {
            {.size = sizeof values[0], .number = i},
            {.size = sizeof values[0], .data = &square, .bytes = sizeof square, .dims_n = 1, .dims = {1}},
            {.size = sizeof values[0], .data = text, .bytes = strlen(text)},
            {.size = sizeof values[0], .absent = i % 2 == 0, .real = (double)i / 2},
        };
        rc = leat_packer_add(packer, key, strlen(key), values, err);
    }
    return rc;
}

static int write_dataset(const char *url, long n)
{
    struct leat_packer_field fields[4] = {
        {.size = sizeof fields[0], .name = "n", .type = LEAT_DATA_INT},
        {.size = sizeof fields[0],
         .name = "square",
         .type = LEAT_DATA_ARRAY,
         .about = "{\"dtype\": \"float32\", \"shape\": [1]}"},
        {.size = sizeof fields[0], .name = "text", .type = LEAT_DATA_STRING, .zstd = 1},
        {.size = sizeof fields[0], .name = "half", .type = LEAT_DATA_FLOAT, .optional = 1},
    };
    struct leat_packer_opts opts = {.size = sizeof opts, .url = url, .fields = fields, .fields_n = 4};
    struct leat_packer *packer = NULL;
    struct leat_error err;
    char version[LEAT_PACKER_VERSION];
    leat_status rc = leat_packer_open(&opts, &packer, &err);
    if (rc == LEAT_OK)
        rc = write_samples(packer, n, &err);
    if (rc == LEAT_OK)
        rc = leat_packer_finish(packer, version, &err);
    leat_packer_close(packer);
    if (rc != LEAT_OK)
        return fail(&err);
    printf("wrote %ld samples, version %s\n", n, version);
    return 0;
}

static leat_status show(struct leat_data *data, uint64_t number, struct leat_error *err)
{
    struct leat_data_sample *sample;
    leat_status rc = leat_data_get(data, number, &sample, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_data_value v[4];
    for (size_t f = 0; rc == LEAT_OK && f < 4; f++) {
        v[f].size = sizeof v[f];
        rc = leat_data_value(sample, f, &v[f], err);
    }
    if (rc == LEAT_OK) {
        float square;
        memcpy(&square, v[1].data, sizeof square);
        printf("sample %" PRIu64 ": n %" PRId64 ", square %g, text '%.*s', half ", number, v[0].number, (double)square,
               (int)v[2].bytes, (const char *)v[2].data);
        if (v[3].absent)
            printf("none\n");
        else
            printf("%g\n", v[3].real);
    }
    leat_data_release(sample);
    return rc;
}

static int read_dataset(const char *url, long n)
{
    struct leat_data_opts opts = {.size = sizeof opts, .url = url};
    struct leat_data *data = NULL;
    struct leat_error err;
    uint64_t number = 0;
    char key[40];
    leat_status rc = leat_data_open(&opts, &data, &err);
    if (rc == LEAT_OK) {
        printf("%" PRIu64 " samples, version %s\n", leat_data_samples(data), leat_data_version(data));
        for (size_t f = 0; rc == LEAT_OK && f < leat_data_fields(data); f++) {
            struct leat_data_field field = {.size = sizeof field};
            rc = leat_data_field(data, f, &field, &err);
            if (rc == LEAT_OK)
                printf("field %s: type %u%s\n", field.name, field.type, field.optional ? ", optional" : "");
        }
    }
    snprintf(key, sizeof key, "n/%06ld", n / 2);
    if (rc == LEAT_OK)
        rc = leat_data_find(data, key, strlen(key), &number, &err);
    if (rc == LEAT_OK)
        rc = show(data, number, &err);
    if (rc == LEAT_OK)
        rc = show(data, leat_data_samples(data) - 1, &err);
    leat_data_close(data);
    return rc == LEAT_OK ? 0 : fail(&err);
}

int main(int argc, char **argv)
{
    long n = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
    if (argc < 2 || n < 1) {
        fprintf(stderr, "usage: write_dataset URL [SAMPLES]\n");
        return 2;
    }
    int status = write_dataset(argv[1], n);
    return status ? status : read_dataset(argv[1], n);
}
