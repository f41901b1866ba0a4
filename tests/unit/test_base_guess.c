#include "base/guess.h"

#include "unit.h"

TEST(names_are_as_far_apart_as_their_letters)
{
    char name[LEAT_EDIT_MAX + 2];
    assert_int_equal(leat_edit_distance("blocks", 6, "blocks", 6), 0);
    assert_int_equal(leat_edit_distance("block", 5, "blocks", 6), 1);
    assert_int_equal(leat_edit_distance("bolcks", 6, "blocks", 6), 1); /* two letters swapped are one slip */
    assert_int_equal(leat_edit_distance("bolsck", 6, "blocks", 6), 3);
    assert_int_equal(leat_edit_distance("kitten", 6, "sitting", 7), 3);
    assert_int_equal(leat_edit_distance("", 0, "shift", 5), 5);
    assert_int_equal(leat_edit_distance("shift", 5, "", 0), 5);
    memset(name, 'a', sizeof name);
    assert_int_equal(leat_edit_distance(name, LEAT_EDIT_MAX, name, LEAT_EDIT_MAX), 0);
    assert_true(leat_edit_distance(name, LEAT_EDIT_MAX + 1, name, 1) == SIZE_MAX);
}

static const char *guess(const char *said)
{
    static const char *const words[] = {"ls", "cp", "pack", "plan", "batch_size", "global_batch_size", "resize"};
    struct leat_guess g = leat_guess_of(said);
    for (size_t i = 0; i < COUNT(words); i++)
        leat_guess_try(&g, words[i]);
    return g.word ? g.word : "";
}

TEST(the_closest_word_is_meant_and_a_far_one_is_not)
{
    assert_string_equal(guess("pakc"), "pack");
    assert_string_equal(guess("lss"), "ls");
    assert_string_equal(guess("bach_size"), "batch_size");
    assert_string_equal(guess("gobal_bach_sise"), "global_batch_size");
    assert_string_equal(guess("resise"), "resize");
    assert_string_equal(guess("pluck"), "pack");
    assert_string_equal(guess("xyz"), "");
    assert_string_equal(guess("ps"), ""); /* of two letters one is half */
    assert_string_equal(guess(""), "");
}

TEST(the_text_is_a_question_or_nothing)
{
    char out[LEAT_GUESS_TEXT];
    struct leat_guess g = leat_guess_of_bytes("ram=2", 3);
    assert_string_equal(leat_guess_text(&g, out), "");
    leat_guess_try(&g, "rom");
    assert_string_equal(leat_guess_text(&g, out), ": did you mean 'rom'?");
}
