/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <zlib.h>

#include "base/rng.h"
#include "tensor/crc.h"

enum {
    BYTES_MAX = 1500
};

static uint32_t by_zlib(uint32_t before, struct str bytes)
{
    return (uint32_t)crc32_z(before, (const unsigned char *)bytes.at, bytes.len);
}

static void every_length_and_place_as_zlib_has_it(void **state)
{
    static char bytes[BYTES_MAX + 64];
    struct rng rng = {7};
    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)rng_next(&rng);
    for (size_t len = 0; len <= BYTES_MAX; len++) {
        struct str piece = {bytes + len % 64, len};
        uint32_t before = len % 3 == 0 ? 0 : (uint32_t)rng_next(&rng);
        assert_int_equal(crc_of(before, piece), by_zlib(before, piece));
    }
}

static void pieces_make_the_whole(void **state)
{
    static const char text[] = "123456789";
    char zeros[1000] = {0};
    (void)state;
    assert_int_equal(crc_of(0, STR(text)), 0xcbf43926); /* the check value of CRC-32/ISO-HDLC */
    assert_int_equal(crc_of(crc_of(0, (struct str){zeros, 300}), (struct str){zeros, 700}),
                     by_zlib(0, (struct str){zeros, 1000}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_and_place_as_zlib_has_it),
        cmocka_unit_test(pieces_make_the_whole),
    };
    return cmocka_run_group_tests_name("crc", tests, NULL, NULL);
}
