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

TEST(without_a_sink_nothing_is_wanted)
{
    leat_log_open(LEAT_LOG_DEBUG, NULL, NULL);
    assert_false(leat_log_wants(LEAT_LOG_ERROR));
    leat_log(LEAT_LOG_ERROR, "%s", "lost");
}

TEST(messages_up_to_the_level_arrive)
{
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

TEST(a_message_is_one_short_clean_line)
{
    struct seen seen = {0};
    leat_log_open(LEAT_LOG_INFO, keep, &seen);
    leat_log(LEAT_LOG_INFO, "key '%s'", "a\nb\x1b[2J\xff");
    assert_string_equal(seen.last, "key 'a b [2J?'");
    leat_log(LEAT_LOG_INFO, "%05000d", 0);
    assert_int_equal(strlen(seen.last), 1023);
    leat_log_open(LEAT_LOG_ERROR, NULL, NULL);
}

TEST(levels_have_names)
{
    assert_string_equal(leat_log_level_name(LEAT_LOG_ERROR), "error");
    assert_string_equal(leat_log_level_name(LEAT_LOG_WARN), "warning");
    assert_string_equal(leat_log_level_name(LEAT_LOG_INFO), "info");
    assert_string_equal(leat_log_level_name(LEAT_LOG_DEBUG), "debug");
    assert_string_equal(leat_log_level_name((enum leat_log_level)4), "?");
    assert_string_equal(leat_log_level_name((enum leat_log_level) - 1), "?");
}
