#include "base/environment.h"

#include "unit.h"

/* What is wrong with an environment of one variable. */
static void assert_problem(const char *entry, const char *part)
{
    char *environment[] = {(char *)(uintptr_t)entry, NULL};
    struct leat_buf b;
    leat_buf_init(&b, 4096);
    leat_environment_check(environment, &b);
    if (part ? !strstr(b.data, part) : b.len > 0)
        fail_msg("%s: '%s'", entry, b.data);
    leat_buf_free(&b);
}

TEST(every_wrong_value_is_named_with_its_variable)
{
    assert_problem("LEAT_RAM=1xb", "LEAT_RAM");
    assert_problem("LEAT_CACHE=lots", "LEAT_CACHE");
    assert_problem("LEAT_THREADS=-1", "LEAT_THREADS");
    assert_problem("LEAT_THREADS=1025", "LEAT_THREADS: 1025 is more than 1024");
    assert_problem("LEAT_LINGER=soon", "LEAT_LINGER");
    assert_problem("LEAT_AGENT=/dev/null/leat", "LEAT_AGENT: '/dev/null/leat' is not a program");
    assert_problem("LEAT_CA_BUNDLE=/nowhere.pem", "LEAT_CA_BUNDLE: the file '/nowhere.pem'");
    assert_problem("LEAT_CONFIG=/nowhere", "LEAT_CONFIG");
    assert_problem("LEAT_LOG=loud", "LEAT_LOG: 'loud' is not one of error");
    assert_problem("LEAT_NO_SIGN_REQUEST=perhaps", "LEAT_NO_SIGN_REQUEST");
    assert_problem("LEAT_METRICS=everywhere", "LEAT_METRICS");
    assert_problem("LEAT_ADDRESSING=street", "LEAT_ADDRESSING: 'street'");
}

TEST(right_values_empty_ones_and_those_of_others_are_left_alone)
{
    static const char *const good[] = {"LEAT_RAM=2gb",
                                       "LEAT_RAM=",
                                       "LEAT_THREADS=1024",
                                       "LEAT_AGENT=/bin/sh",
                                       "LEAT_LINGER=5s",
                                       "LEAT_LOG=warning",
                                       "LEAT_CONFIG=/dev/null",
                                       "LEAT_ADDRESSING=path",
                                       "LEAT_RAMM=1xb",
                                       "RAM=1xb",
                                       "LEAT_RAM"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_problem(good[i], NULL);
}

TEST(all_that_is_wrong_is_said_at_once)
{
    char *environment[] = {(char *)(uintptr_t) "LEAT_RAM=1xb", (char *)(uintptr_t) "PATH=/bin",
                           (char *)(uintptr_t) "LEAT_THREADS=many", NULL};
    struct leat_buf b;
    leat_buf_init(&b, 4096);
    leat_environment_check(environment, &b);
    assert_non_null(strstr(b.data, "LEAT_RAM"));
    assert_non_null(strstr(b.data, "; LEAT_THREADS"));
    leat_environment_check(NULL, &b);
    leat_buf_free(&b);
}

TEST(a_variable_that_nothing_reads_is_named_with_what_was_meant)
{
    char *environment[] = {(char *)(uintptr_t) "LEAT_RAMM=2gb", (char *)(uintptr_t) "LEAT_RAM=2gb",
                           (char *)(uintptr_t) "LEATHER=1", (char *)(uintptr_t) "LEAT_FAVOURITE_TREE=oak", NULL};
    char text[LEAT_ENVIRONMENT_TEXT];
    size_t i = 0;
    assert_true(leat_environment_strange(environment, &i, text));
    assert_string_equal(text, "the environment has LEAT_RAMM, which nothing reads: did you mean 'LEAT_RAM'?");
    assert_true(leat_environment_strange(environment, &i, text));
    assert_string_equal(text, "the environment has LEAT_FAVOURITE_TREE, which nothing reads");
    assert_false(leat_environment_strange(environment, &i, text));
    i = 0;
    assert_false(leat_environment_strange(NULL, &i, text));
}
