#include "base/log.h"

#include "unit.h"

struct seen {
    int lines;
    enum leat_log_level level;
    char last[2000];
};

static void keep(enum leat_log_level level, const char *line, void *user)
{
    struct seen *seen = user;
    seen->lines++;
    seen->level = level;
    snprintf(seen->last, sizeof seen->last, "%s", line);
}

static void without_a_sink_nothing_is_wanted(void **state)
{
    (void)state;
    leat_log_open(LEAT_LOG_DEBUG, NULL, NULL);
    assert_false(leat_log_wants(LEAT_LOG_ERROR));
    leat_log(LEAT_LOG_ERROR, "%s", "lost");
}

static void messages_up_to_the_level_arrive(void **state)
{
    (void)state;
    for (int level = LEAT_LOG_ERROR; level <= LEAT_LOG_DEBUG; level++) {
        struct seen seen = {0};
        leat_log_open(level, keep, &seen);
        for (int l = LEAT_LOG_ERROR; l <= LEAT_LOG_DEBUG; l++) {
            assert_int_equal(leat_log_wants(l), l <= level);
            leat_log(l, "message %d", l);
        }
        assert_int_equal(seen.lines, level + 1);
        assert_int_equal(seen.level, level);
        char expected[20];
        snprintf(expected, sizeof expected, "message %d", level);
        assert_string_equal(seen.last, expected);
    }
    leat_log_open(LEAT_LOG_ERROR, NULL, NULL);
}

static void a_message_is_one_short_clean_line(void **state)
{
    (void)state;
    struct seen seen = {0};
    leat_log_open(LEAT_LOG_INFO, keep, &seen);
    leat_log(LEAT_LOG_INFO, "key '%s'", "a\nb\x1b[2J\xff");
    assert_string_equal(seen.last, "key 'a b [2J?'");
    leat_log(LEAT_LOG_INFO, "%05000d", 0);
    assert_int_equal(strlen(seen.last), 1023);
    leat_log_open(LEAT_LOG_ERROR, NULL, NULL);
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(leat_log_level_name(LEAT_LOG_ERROR), "error");
    assert_string_equal(leat_log_level_name(LEAT_LOG_WARN), "warning");
    assert_string_equal(leat_log_level_name(LEAT_LOG_INFO), "info");
    assert_string_equal(leat_log_level_name(LEAT_LOG_DEBUG), "debug");
    assert_string_equal(leat_log_level_name((enum leat_log_level)4), "?");
    assert_string_equal(leat_log_level_name((enum leat_log_level) - 1), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_sink_nothing_is_wanted),
        cmocka_unit_test(messages_up_to_the_level_arrive),
        cmocka_unit_test(a_message_is_one_short_clean_line),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
