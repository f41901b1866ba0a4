/* Structs of programs that were built for another release. */
#include "base/abi.h"

#include "unit.h"

struct old {
    size_t size;
    uint64_t a;
};
struct now {
    size_t size;
    uint64_t a;
    uint64_t b;
};
struct later {
    size_t size;
    uint64_t a;
    uint64_t b;
    uint64_t c;
};

TEST(a_shorter_struct_has_zeros_where_it_ends)
{
    struct {
        struct old given;
        uint64_t beyond;
    } program = {{sizeof(struct old), 5}, UINT64_MAX};
    struct now mine = {.b = 77};
    assert_int_equal(leat_abi_take(&program, "now", &mine, sizeof mine, NULL), LEAT_OK);
    assert_int_equal(mine.size, sizeof mine);
    assert_int_equal(mine.a, 5);
    assert_int_equal(mine.b, 0);
}

TEST(a_longer_struct_works_when_the_rest_is_zero)
{
    struct later given = {sizeof given, 1, 2, 0};
    struct now mine;
    assert_int_equal(leat_abi_take(&given, "now", &mine, sizeof mine, NULL), LEAT_OK);
    assert_int_equal(mine.size, sizeof mine);
    assert_int_equal(mine.b, 2);
}

TEST(a_longer_struct_that_says_more_is_refused_by_name_and_size)
{
    /* each single byte of what is not known */
    for (size_t i = sizeof(struct now); i < sizeof(struct later); i++) {
        struct later given = {sizeof given, 1, 2, 0};
        struct now mine = {.a = 9};
        struct leat_error err;
        ((char *)&given)[i] = 1;
        assert_int_equal(leat_abi_take(&given, "now", &mine, sizeof mine, &err), LEAT_VERSION);
        assert_non_null(strstr(err.text, "struct now of 32 bytes"));
        assert_int_equal(mine.a, 9); /* written only on success */
    }
}

TEST(a_size_that_cannot_be_one_is_refused)
{
    const size_t sizes[] = {0, 1, 7, 12, 25, LEAT_ABI_SIZE_MAX + 8, SIZE_MAX, SIZE_MAX - 7};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct now given = {sizes[i], 1, 2};
        struct now mine = {.a = 9};
        struct leat_error err;
        assert_int_equal(leat_abi_take(&given, "now", &mine, sizeof mine, &err), LEAT_INVALID);
        assert_non_null(strstr(err.text, "sizeof(struct now)"));
        assert_int_equal(leat_abi_give(&mine, sizeof mine, "now", &given, &err), LEAT_INVALID);
        assert_int_equal(mine.a, 9);
        assert_int_equal(given.a, 1);
    }
    struct now mine;
    assert_int_equal(leat_abi_take(NULL, "now", &mine, sizeof mine, NULL), LEAT_INVALID);
    assert_int_equal(leat_abi_give(&mine, sizeof mine, "now", NULL, NULL), LEAT_INVALID);
    assert_int_equal(leat_abi_take_array(NULL, 1, "now", &mine, sizeof mine, NULL), LEAT_INVALID);
}

TEST(arrays_step_by_the_callers_size)
{
    struct now mine[3];
    const struct old shorter[] = {{16, 1}, {16, 2}, {16, 3}};
    const struct later longer[] = {{32, 1, 4, 0}, {32, 2, 5, 0}, {32, 3, 6, 0}};
    assert_int_equal(leat_abi_take_array(shorter, 3, "now", mine, sizeof *mine, NULL), LEAT_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mine[i].a, i + 1);
        assert_int_equal(mine[i].b, 0);
    }
    assert_int_equal(leat_abi_take_array(longer, 3, "now", mine, sizeof *mine, NULL), LEAT_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mine[i].a, i + 1);
        assert_int_equal(mine[i].b, i + 4);
    }
    assert_int_equal(leat_abi_take_array(NULL, 0, "now", mine, sizeof *mine, NULL), LEAT_OK);
}

TEST(an_array_with_a_size_missing_is_refused_by_place)
{
    struct leat_error err;
    struct now mine[3];
    const struct now forgotten[] = {{24, 1, 0}, {24, 2, 0}, {0, 3, 0}};
    const struct later mixed[] = {{32, 1, 0, 0}, {24, 2, 0, 0}, {32, 3, 0, 0}};
    assert_int_equal(leat_abi_take_array(forgotten, 3, "now", mine, sizeof *mine, &err), LEAT_INVALID);
    assert_non_null(strstr(err.text, "element 2"));
    assert_int_equal(leat_abi_take_array(mixed, 3, "now", mine, sizeof *mine, &err), LEAT_INVALID);
    assert_non_null(strstr(err.text, "element 1"));
}

TEST(giving_fills_what_is_there_and_nothing_beyond)
{
    const struct now mine = {sizeof mine, 1, 2};
    struct {
        struct old given;
        uint64_t beyond;
    } shorter = {{sizeof(struct old), 0}, 77};
    struct later longer = {sizeof longer, 8, 8, 8};
    assert_int_equal(leat_abi_give(&mine, sizeof mine, "now", &shorter, NULL), LEAT_OK);
    assert_int_equal(shorter.given.size, sizeof(struct old));
    assert_int_equal(shorter.given.a, 1);
    assert_int_equal(shorter.beyond, 77);
    assert_int_equal(leat_abi_give(&mine, sizeof mine, "now", &longer, NULL), LEAT_OK);
    assert_int_equal(longer.size, sizeof longer);
    assert_int_equal(longer.b, 2);
    assert_int_equal(longer.c, 0);
}

TEST(changing_a_struct_needs_one_that_has_the_field)
{
    struct leat_error err;
    struct now given = {sizeof given, 1, 2};
    assert_int_equal(leat_abi_reaches(&given, "now", sizeof given, sizeof given, &err), LEAT_OK);
    given.size = sizeof(struct later);
    assert_int_equal(leat_abi_reaches(&given, "now", sizeof given, sizeof given, &err), LEAT_OK);
    given.size = sizeof(struct old);
    assert_int_equal(leat_abi_reaches(&given, "now", sizeof given, sizeof(struct old), &err), LEAT_OK);
    assert_fails(leat_abi_reaches(&given, "now", sizeof given, sizeof given, &err), err, LEAT_VERSION,
                 "struct now of 16");
    given.size = 0;
    assert_fails(leat_abi_reaches(&given, "now", sizeof given, 8, &err), err, LEAT_INVALID, "sizeof(struct now)");
    assert_fails(leat_abi_reaches(NULL, "now", sizeof given, 8, &err), err, LEAT_INVALID, "NULL");
}
