#include "order/state.h"

#include <dirent.h>

#include "unit.h"

static struct leat_order_stream sample(void)
{
    struct leat_order_stream s = {.view = "samples",
                                  .units = 1281167,
                                  .shuffle = true,
                                  .seed = LEAT_ORDER_NUMBER_MAX,
                                  .window = LEAT_ORDER_WINDOW_MAX,
                                  .epoch = 89,
                                  .position = 1281167};
    memset(s.dataset, 0xa7, sizeof s.dataset);
    return s;
}

TEST(a_state_survives_the_round_trip)
{
    static struct leat_order_state s;
    static struct leat_order_state back;
    struct leat_error err;
    memset(&s, 0, sizeof s);
    for (uint32_t n = 1; n <= LEAT_ORDER_STREAMS_MAX; n += n < 3 ? 1 : 61) {
        s.streams_n = n;
        s.draws_apart = n != 2;
        s.draw_seed = n == 1 ? LEAT_ORDER_NUMBER_MAX : 0;
        for (uint32_t i = 0; i < n; i++) {
            s.streams[i] = sample();
            s.streams[i].dataset[0] = (uint8_t)i;
            if (i % 3 == 1)
                s.streams[i].units = s.streams[i].epoch = s.streams[i].position = LEAT_ORDER_NUMBER_MAX;
            if (i % 3 == 2) /* the longest view, every byte of which needs quoting */
                memset(s.streams[i].view, '"', sizeof s.streams[i].view - 1);
        }
        char *text = NULL;
        assert_ok(leat_order_state_write(&s, &text, &err), err);
        assert_true(strlen(text) < 110 + n * 500);
        assert_null(strchr(text, '\n'));
        memset(&back, 0, sizeof back);
        assert_ok(leat_order_state_read(text, strlen(text), &back, &err), err);
        assert_memory_equal(&s, &back, sizeof s);
        free(text);
    }
}

/* A mixture's place says where its streams are. */
TEST(a_mixture_survives_the_round_trip)
{
    static struct leat_order_state s;
    static struct leat_order_state back;
    struct leat_mixture_part parts[2] = {{.shares = {7, 3}}, {.from = 1000, .shares = {1, 4}}};
    struct leat_mixture *m = NULL;
    struct leat_error err;
    char *text = NULL;
    s = (struct leat_order_state){
        .streams_n = 2, .streams = {sample(), sample()}, .parts = parts, .parts_n = 2, .epoch_units = 600};
    s.streams[0].units = 100;
    s.streams[1].units = 900;
    assert_ok(leat_mixture_open(2, parts, 2, &m, &err), err);
    leat_order_state_move(&s, m, 2, 300); /* 1,500 in all: 700 + 100 and 300 + 400 */
    assert_true(s.streams[0].epoch == 8 && s.streams[0].position == 0);
    assert_true(s.streams[1].epoch == 0 && s.streams[1].position == 700);
    assert_ok(leat_order_state_write(&s, &text, &err), err);
    assert_ok(leat_order_state_read(text, strlen(text), &back, &err), err);
    assert_ok(leat_order_state_fits(&back, &s, "the state", &err), err);
    assert_true(back.epoch == 2 && back.position == 300 && back.epoch_units == 600);
    assert_memory_equal(s.streams, back.streams, 2 * sizeof *s.streams);
    back.parts[1].shares[1] = 5;
    assert_fails(leat_order_state_fits(&back, &s, "the state", &err), err, LEAT_INVALID, "other weights");
    back.parts[1].shares[1] = 4;
    back.epoch_units = 601;
    assert_fails(leat_order_state_fits(&back, &s, "the state", &err), err, LEAT_INVALID,
                 "601 samples per epoch (here 600");
    back.epoch_units = 600;
    back.streams[1].seed = 5;
    assert_fails(leat_order_state_fits(&back, &s, "the state", &err), err, LEAT_INVALID,
                 "stream 1 of the state does not");
    back.streams[1].seed = s.streams[1].seed;
    back.streams_n = 1;
    assert_fails(leat_order_state_fits(&back, &s, "the state", &err), err, LEAT_INVALID, "of 1 datasets (here 2)");
    leat_order_state_free(&back);
    leat_mixture_close(m);
    /* One stream, with and without epochs of another size. */
    static struct leat_order_state plain;
    plain = s;
    plain.streams_n = s.streams_n = 1;
    plain.parts_n = 0;
    assert_fails(leat_order_state_fits(&plain, &s, "the state", &err), err, LEAT_INVALID, "epochs of its own size");
    assert_fails(leat_order_state_fits(&s, &plain, "the state", &err), err, LEAT_INVALID, "epoch_size");
    free(text);
    static const char *const bad[] = {
        "\"mixture\": {\"epoch_size\": 0, \"epoch\": 0, \"position\": 0, \"parts\": [{\"from\": 0, \"shares\": [1]}]}",
        "\"mixture\": {\"epoch_size\": 5, \"epoch\": 0, \"position\": 6, \"parts\": [{\"from\": 0, \"shares\": [1]}]}",
        "\"mixture\": {\"epoch_size\": 5, \"epoch\": 0, \"position\": 0, \"parts\": [{\"from\": 0, \"shares\": [1, "
        "2]}]}",
        "\"mixture\": {\"epoch_size\": 5, \"epoch\": 0, \"position\": 0, \"parts\": []}",
        "\"mixture\": 3",
        "\"other\": 3",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char whole[900];
        snprintf(whole, sizeof whole,
                 "{\"state\": 1, \"needs\": [\"order 1\", \"mixture 1\"], \"streams\": [{\"dataset\": "
                 "\"a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7\", \"view\": \"samples\", "
                 "\"units\": 9, \"shuffle\": true, \"seed\": 1, \"window\": 3, \"epoch\": 0, \"position\": 0}], %s}",
                 bad[i]);
        assert_fails(leat_order_state_read(whole, strlen(whole), &back, &err), err, LEAT_INVALID, "mixture");
    }
}

TEST(a_usual_state_has_less_than_1_kb)
{
    static struct leat_order_state s;
    char *text = NULL;
    s = (struct leat_order_state){.streams_n = 1, .streams = {sample()}};
    s.streams[0].units = s.streams[0].epoch = s.streams[0].position = LEAT_ORDER_NUMBER_MAX;
    assert_int_equal(leat_order_state_write(&s, &text, NULL), LEAT_OK);
    assert_true(strlen(text) < 500);
    free(text);
}

TEST(a_stream_begins_where_its_order_does)
{
    const uint32_t counts[3] = {4, 5, 6};
    struct leat_order_spec spec = {
        .view = "samples", .counts = counts, .chunks = 3, .shuffle = true, .seed = 5, .epoch = 2, .window = 3};
    struct leat_order *o;
    assert_int_equal(leat_order_open(&spec, &o, NULL), LEAT_OK);
    struct leat_order_stream s = leat_order_stream(&spec, o);
    assert_true(s.units == 15 && s.seed == 5 && s.epoch == 2 && s.window == 3 && s.position == 0);
    assert_string_equal(s.view, "samples");
    leat_order_close(o);
    spec.shuffle = false;
    assert_int_equal(leat_order_open(&spec, &o, NULL), LEAT_OK);
    s = leat_order_stream(&spec, o);
    assert_true(s.seed == 5 && s.window == 1); /* the seed counts without shuffle too */
    leat_order_close(o);
    spec.seed = LEAT_ORDER_NUMBER_MAX + 1; /* and must fit a state then too */
    assert_int_equal(leat_order_open(&spec, &o, NULL), LEAT_INVALID);
}

TEST(what_differs_is_named)
{
    struct leat_order_stream mine = sample();
    struct leat_error err;
    struct leat_order_stream other = mine;
    other.epoch = 3;
    other.position = 7;
    assert_ok(leat_order_stream_fits(&other, &mine, "the state", &err), err);
    const struct {
        const char *name;
        size_t offset;
    } members[] = {
        {"dataset", offsetof(struct leat_order_stream, dataset)},
        {"view", offsetof(struct leat_order_stream, view)},
        {"units", offsetof(struct leat_order_stream, units)},
        {"shuffle", offsetof(struct leat_order_stream, shuffle)},
        {"seed", offsetof(struct leat_order_stream, seed)},
        {"window", offsetof(struct leat_order_stream, window)},
    };
    for (size_t i = 0; i < COUNT(members); i++) {
        other = mine;
        ((uint8_t *)&other)[members[i].offset] ^= 1;
        assert_fails(leat_order_stream_fits(&other, &mine, "rank 3", &err), err, LEAT_INVALID, members[i].name);
        assert_non_null(strstr(err.text, "rank 3"));
        for (size_t k = 0; k < COUNT(members); k++) {
            if (k != i)
                assert_null(strstr(err.text, members[k].name));
        }
    }
    other = mine;
    other.seed = 1;
    other.window = 2;
    assert_fails(leat_order_stream_fits(&other, &mine, "the state", &err), err, LEAT_INVALID,
                 "seed 1 (here 9223372036854775807), window 2 (here 65536)");
    mine.shuffle = other.shuffle = false;
    mine.window = other.window = 1;
    assert_fails(leat_order_stream_fits(&other, &mine, "the state", &err), err, LEAT_INVALID, "seed 1");
}

TEST(errors_say_what_is_needed)
{
    static struct leat_order_state s;
    struct leat_error err;
    const struct {
        const char *text, *says;
        leat_status status;
    } cases[] = {
        {"{\"state\": 2, \"something\": [\"new\"]}", "version 2", LEAT_VERSION},
        {"{\"state\": 1, \"needs\": [\"order 1\", \"weights\"], \"streams\": 7}", "\"weights\"", LEAT_VERSION},
        {"{\"order\": 1, \"dataset\": \"ab\", \"view\": \"samples\"}", "Leat 0.1", LEAT_VERSION},
        {"{\"state\": 1, \"needs\": [], \"streams\": []}", "\"order 1\"", LEAT_INVALID},
        {"{\"state\": 1, \"needs\": [\"order 1\"], \"streams\": [{}]}", "stream 0 of the state lacks \"dataset\"",
         LEAT_INVALID},
        {"{\"order\": 1}", "\"state\"", LEAT_INVALID},
        {"{", "not JSON", LEAT_INVALID},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_fails(leat_order_state_read(cases[i].text, strlen(cases[i].text), &s, &err), err, cases[i].status,
                     cases[i].says);
    char *large = malloc(LEAT_ORDER_STATE_MAX + 1);
    memset(large, ' ', LEAT_ORDER_STATE_MAX + 1);
    assert_fails(leat_order_state_read(large, LEAT_ORDER_STATE_MAX + 1, &s, &err), err, LEAT_LIMIT, "1048576");
    free(large);
}

TEST(what_could_not_be_read_again_is_not_written)
{
    static struct leat_order_state s;
    struct leat_error err;
    char *text = NULL;
    for (int k = 0; k < 7; k++) {
        s = (struct leat_order_state){.streams_n = 2, .streams = {sample(), sample()}};
        struct leat_order_stream *last = &s.streams[1];
        if (k == 0)
            s.streams_n = 0;
        else if (k == 1)
            s.streams_n = LEAT_ORDER_STREAMS_MAX + 1;
        else if (k == 2)
            last->window = 0;
        else if (k == 3)
            last->position = last->units + 1;
        else if (k == 4)
            last->seed = LEAT_ORDER_NUMBER_MAX + 1;
        else if (k == 5)
            last->view[0] = '\0';
        else
            last->shuffle = false;
        assert_int_equal(leat_order_state_write(&s, &text, &err), LEAT_INVALID);
        assert_null(text);
    }
}

/* Golden states */

static const char *golden(const char *name, char *out, size_t size)
{
    const char *root = getenv("LEAT_SOURCE_ROOT");
    snprintf(out, size, "%s/tests/golden/states-1/%s", root ? root : ".", name);
    return out;
}

static size_t read_golden(const char *name, char *out, size_t size)
{
    char path[600];
    FILE *f = fopen(golden(name, path, sizeof path), "rb");
    if (!f)
        fail_msg("no %s", path);
    size_t n = fread(out, 1, size, f);
    fclose(f);
    return n;
}

/* "good-…" is read and written again byte for byte; "good-NAME+HOW" means the same as "good-NAME" but is written
 * another way; any other name begins with the status it is refused with. */
static void check_golden(const char *name)
{
    static struct leat_order_state s;
    static struct leat_order_state same;
    static char text[1 << 16];
    struct leat_error err;
    size_t n = read_golden(name, text, sizeof text);
    memset(&s, 0x55, sizeof s);
    memset(&same, 0x55, sizeof same);
    leat_status rc = leat_order_state_read(text, n, &s, &err);
    if (strncmp(name, "good-", 5) != 0) {
        const char *status = leat_status_name(rc);
        if (rc == LEAT_OK || strncasecmp(name, status, strlen(status)) != 0)
            fail_msg("%s: %s %s", name, status, rc == LEAT_OK ? "" : err.text);
        assert_memory_equal(&s, &same, sizeof s); /* untouched */
        return;
    }
    if (rc != LEAT_OK)
        fail_msg("%s: %s", name, err.text);
    char *written = NULL;
    assert_ok(leat_order_state_write(&s, &written, &err), err);
    const char *plus = strchr(name, '+');
    char other[300];
    snprintf(other, sizeof other, "%.*s%s", plus ? (int)(plus - name) : (int)strlen(name), name, plus ? ".json" : "");
    n = read_golden(other, text, sizeof text);
    if (n != strlen(written) + 1 || memcmp(written, text, n - 1) != 0)
        fail_msg("%s is written as %s", name, written);
    leat_order_state_free(&s);
    free(written);
}

TEST(every_golden_state_is_read_or_refused_as_ever)
{
    char path[600];
    DIR *dir = opendir(golden("", path, sizeof path));
    if (!dir)
        fail_msg("no %s", path);
    int good = 0;
    int refused = 0;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (e->d_name[0] == '.')
            continue;
        check_golden(e->d_name);
        *(strncmp(e->d_name, "good-", 5) == 0 ? &good : &refused) += 1;
    }
    closedir(dir);
    assert_true(good >= 14 && refused >= 70);
}
