/* Memory runs out at every single allocation: a clean error each time, nothing leaked, nothing half-written. */

#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/ini.h"
#include "base/option.h"
#include "base/pool.h"
#include "base/prefix.h"
#include "base/url.h"
#include "fail_alloc.h"
#include "unit.h"

static leat_status fill_buffer(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_buf b;
    leat_buf_init(&b, 1 << 20);
    for (int i = 0; i < 2000; i++)
        leat_buf_printf(&b, "line %d\n", i);
    leat_status rc = leat_buf_check(&b, "the text", err);
    size_t len = b.len;
    char *text = leat_buf_take(&b);
    assert_int_equal(text != NULL, rc == LEAT_OK);
    if (text)
        assert_int_equal(strlen(text), len);
    free(text);
    return rc;
}

TEST(buffers)
{
    assert_true(fail_alloc_each(fill_buffer, NULL) > 5);
}

static leat_status take_empty(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_buf b;
    leat_buf_init(&b, 10);
    char *text = leat_buf_take(&b);
    if (!text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory");
    free(text);
    return LEAT_OK;
}

TEST(taking_an_empty_buffer)
{
    assert_int_equal(fail_alloc_each(take_empty, NULL), 1);
}

static leat_status parse_url(void *user, struct leat_error *err)
{
    struct leat_url url = {.host = (char *)1};
    leat_status rc = leat_url_parse(user, &url, err);
    if (rc == LEAT_OK)
        leat_url_free(&url);
    else
        assert_ptr_equal(url.host, (char *)1);
    return rc;
}

TEST(urls)
{
    static char texts[][40] = {"s3://bucket/key", "/path", "file:///path", "https://host:1/path?query#fragment"};
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(fail_alloc_each(parse_url, texts[i]), 3);
}

static leat_status count_line(const char *section, const char *key, const char *value, unsigned line, void *user,
                              struct leat_error *err)
{
    (void)section, (void)key, (void)value, (void)line, (void)err;
    ++*(int *)user;
    return LEAT_OK;
}

static leat_status read_ini(void *user, struct leat_error *err)
{
    int lines = 0;
    leat_status rc = leat_ini_read(user, count_line, &lines, err);
    assert_int_equal(lines, rc == LEAT_OK ? 2 : 0);
    return rc;
}

struct settings {
    const char *name;
    const char *other;
    uint64_t n;
};

static const struct leat_option options[] = {
    {"name", 0, LEAT_OPTION_STRING, offsetof(struct settings, name), "X", "preset", "LEAT_NAME", "x"},
    {"other", 0, LEAT_OPTION_STRING, offsetof(struct settings, other), "X", "preset", "LEAT_OTHER", "x"},
    {"n", 0, LEAT_OPTION_U64, offsetof(struct settings, n), "N", "1", "LEAT_N", "x"},
    {0},
};

static const struct leat_command command = {
    .name = "try",
    .arguments = "",
    .summary = "",
    .options = options,
    .settings_size = sizeof(struct settings),
    .arguments_max = 5,
};

static leat_status read_settings(void *user, struct leat_error *err)
{
    static char words[][16] = {"--name=line", "a", "b", "--n", "2"};
    static char variables[][24] = {"LEAT_NAME=environment"};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4]};
    char *environ_list[] = {variables[0], NULL};
    struct leat_settings_source source = {.argc = 5, .argv = argv, .environ = environ_list, .config = user};
    struct leat_settings *settings = NULL;
    bool help;
    leat_status rc = leat_settings_read(&command, &source, &settings, &help, err);
    if (rc == LEAT_OK) {
        const struct settings *s = leat_settings_get(settings);
        assert_string_equal(s->name, "line");
        assert_string_equal(s->other, "file");
        assert_int_equal(s->n, 2);
        leat_settings_free(settings);
    } else {
        assert_null(settings);
    }
    return rc;
}

TEST(config_files_and_settings)
{
    char path[] = "/tmp/leat-alloc-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "name = file\nother = file\n", 25), 25);
    close(fd);
    assert_int_equal(fail_alloc_each(read_ini, path), 1);
    assert_true(fail_alloc_each(read_settings, path) > 10);
    unlink(path);
}

/* The buffer that collects problems may itself find no memory. */
static leat_status read_wrong_settings(void *user, struct leat_error *err)
{
    (void)user;
    static char word[] = "--wrong";
    char *argv[] = {word, word};
    struct leat_settings_source source = {.argc = 2, .argv = argv};
    struct leat_settings *settings = NULL;
    bool help;
    leat_status rc = leat_settings_read(&command, &source, &settings, &help, err);
    assert_null(settings);
    assert_int_not_equal(rc, LEAT_OK);
    return rc == LEAT_INVALID ? LEAT_OK : rc;
}

TEST(settings_that_are_wrong)
{
    assert_true(fail_alloc_each(read_wrong_settings, NULL) > 5);
}

static leat_status digest(void *user, struct leat_error *err)
{
    (void)user;
    uint8_t out[LEAT_SHA256_SIZE];
    leat_sha256("abc", 3, out); /* cannot fail, whatever malloc does */
    assert_int_equal(out[0], 0xba);
    struct leat_sha256 *h = leat_sha256_open();
    if (!h)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory");
    leat_sha256_finish(h, NULL);
    return LEAT_OK;
}

TEST(digests)
{
    assert_int_equal(fail_alloc_each(digest, NULL), 1);
}

static leat_status open_pool(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_pool *pool = NULL;
    leat_status rc = leat_pool_open("pool", 2, &pool, err);
    assert_int_equal(pool != NULL, rc == LEAT_OK);
    leat_pool_close(pool);
    return rc;
}

static leat_status make_prefix(void *user, struct leat_error *err)
{
    (void)user;
    static const uint32_t counts[] = {1, 2, 3};
    struct leat_prefix p = {0};
    leat_status rc = leat_prefix_make(counts, NULL, 3, &p, err);
    leat_prefix_free(&p);
    return rc;
}

TEST(pools_and_sums)
{
    assert_int_equal(fail_alloc_each(open_pool, NULL), 2);
    assert_int_equal(fail_alloc_each(make_prefix, NULL), 1);
}
