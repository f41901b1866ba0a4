#include "base/crc.h"

#include "base/hash.h"
#include "unit.h"

/* The check values of the catalogues: "123456789". */
TEST(check_values_are_the_published_ones)
{
    assert_int_equal(leat_crc32(0, "123456789", 9), 0xcbf43926);
    assert_true(leat_crc64nvme(0, "123456789", 9) == 0xae8b14860a799888ull);
    assert_int_equal(leat_crc32(0, "", 0), 0);
    assert_true(leat_crc64nvme(0, "", 0) == 0);
}

TEST(pieces_of_any_length_go_on_and_join)
{
    uint8_t data[300];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37 + i / 7);
    uint32_t all32 = leat_crc32(0, data, sizeof data);
    uint32_t all32c = leat_crc32c(0, data, sizeof data);
    uint64_t all64 = leat_crc64nvme(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        size_t rest = sizeof data - cut;
        assert_int_equal(leat_crc32(leat_crc32(0, data, cut), data + cut, rest), all32);
        assert_true(leat_crc64nvme(leat_crc64nvme(0, data, cut), data + cut, rest) == all64);
        assert_int_equal(
            leat_crc_combine(LEAT_CRC32_POLYNOMIAL, leat_crc32(0, data, cut), leat_crc32(0, data + cut, rest), rest),
            all32);
        assert_int_equal(
            leat_crc_combine(LEAT_CRC32C_POLYNOMIAL, leat_crc32c(0, data, cut), leat_crc32c(0, data + cut, rest), rest),
            all32c);
        assert_true(leat_crc_combine(LEAT_CRC64NVME_POLYNOMIAL, leat_crc64nvme(0, data, cut),
                                     leat_crc64nvme(0, data + cut, rest), rest) == all64);
    }
}
