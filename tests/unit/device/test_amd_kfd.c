/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "device/amd_kfd.h"

static void a_node_is_read_line_by_line(void **state)
{
    (void)state;
    struct kfd_node node;
    assert_true(kfd_node_parse(STR("cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\n"
                                   "gfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\n"
                                   "location_id 1280\ndomain 0\ndrm_render_minor 128\n"
                                   "hive_id 4118041294374218466\nunique_id 8807904021434238464\n"
                                   "num_xcc 8\nmax_engine_clk_ccompute 3700\n"),
                               &node));
    assert_int_equal(node.simd_count, 1216);
    assert_int_equal(node.cpu_cores_count, 0);
    assert_int_equal(node.gfx_target_version, 90402);
    assert_int_equal(node.device_id, 0x74a1);
    assert_int_equal(node.location_id, 0x0500);
    assert_true(node.unique_id == 8807904021434238464ull);
}

static void whatever_a_node_holds_it_is_not_believed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_node;
        uint64_t simds, location;
    } cases[] = {
        {"", false, 0, 0},
        {"\n\n\n", false, 0, 0},
        {"simd_count", false, 0, 0},
        {"simd_count ", false, 0, 0},
        {"simd_count 0\n", false, 0, 0},
        {"simd_count -4\n", false, 0, 0},
        {"simd_count 99999999999999999999999\n", false, 0, 0},
        {"simd_count 0x10\n", false, 0, 0},
        {"simd_count\t16\n", false, 0, 0},
        {"simd_count16\n", false, 0, 0},
        {"simd_count 16", true, 16, 0},
        {"simd_count 16\r\n", true, 16, 0},
        {"  simd_count   16\n", true, 16, 0},
        {"simd_count 16\nlocation_id x\n", true, 16, 0},
        {"simd_count 16\nlocation_id 18446744073709551615\n", true, 16, UINT64_MAX},
        {"garbage\xff\n\x01 2\nsimd_count 16\n", true, 16, 0},
        {"simd_counts 7\nsimd_count 16\n", true, 16, 0},
        {"cpu_cores_count 64\n", true, 0, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct kfd_node node;
        bool is_node = kfd_node_parse(str_of(cases[i].text), &node);
        if (is_node != cases[i].is_node || node.simd_count != cases[i].simds ||
            node.location_id != cases[i].location)
            fail_msg("node \"%s\": %d, %lu SIMDs at %lx", cases[i].text, is_node,
                     (unsigned long)node.simd_count, (unsigned long)node.location_id);
    }
}

static void links_and_banks_are_read_alike(void **state)
{
    (void)state;
    struct kfd_link link;
    struct kfd_bank bank;
    assert_true(kfd_link_parse(STR("type 11\nnode_from 2\nnode_to 5\nweight 15\n"), &link));
    assert_int_equal(link.type, KFD_LINK_XGMI);
    assert_int_equal(link.node_to, 5);
    assert_int_equal(link.weight, 15);
    assert_false(kfd_link_parse(STR("node_to 5\n"), &link));
    assert_true(kfd_bank_parse(STR("heap_type 1\nsize_in_bytes 206141652992\n"), &bank));
    assert_true(bank.size_in_bytes == 206141652992);
    assert_false(kfd_bank_parse(STR(""), &bank));
}

static void numbers_end_where_the_file_does(void **state)
{
    (void)state;
    uint64_t number = 77;
    assert_true(amd_number_parse(STR("42\n"), &number));
    assert_int_equal(number, 42);
    assert_true(amd_number_parse(STR("0"), &number));
    assert_true(amd_hex_parse(STR("0x744c\n"), &number));
    assert_int_equal(number, 0x744c);
    assert_true(amd_hex_parse(STR("C1D2e3f405162738"), &number));
    assert_true(number == 0xc1d2e3f405162738);
    static const char *const bad[] = {"", "\n", "x", "0x", "1 2", "-1", "10000000000000000f"};
    for (size_t i = 0; i < countof(bad); i++) {
        assert_false(amd_number_parse(str_of(bad[i]), &number));
        assert_false(amd_hex_parse(str_of(bad[i]), &number));
    }
    assert_false(amd_hex_parse((struct str){"\0", 1}, &number));
}

static void errors_are_the_uncorrectable_ones(void **state)
{
    (void)state;
    assert_int_equal(amd_errors_parse(STR("ue: 0\nce: 7\n")), 0);
    assert_int_equal(amd_errors_parse(STR("ue: 3\nce: 0\nde: 9\n")), 3);
    assert_int_equal(amd_errors_parse(STR("ce: 7\nue:12")), 12);
    assert_int_equal(amd_errors_parse(STR("")), -1);
    assert_int_equal(amd_errors_parse(STR("ue: many\n")), -1);
    assert_int_equal(amd_errors_parse(STR("Query currently inaccessible\n")), -1);
    assert_true(amd_errors_parse(STR("ue: 18446744073709551615\n")) > 0);
}

static void a_bad_page_in_use_is_found_among_retired_ones(void **state)
{
    (void)state;
    assert_false(amd_bad_page_is_in_use(STR("")));
    assert_false(amd_bad_page_is_in_use(STR("0x00000001 : 0x00001000 : R\n"
                                            "0x00000002 : 0x00001000 : P\n")));
    assert_true(amd_bad_page_is_in_use(STR("0x00000001 : 0x00001000 : R\n"
                                           "0x0000000F : 0x00001000 : F")));
}

static void chips_have_the_names_that_people_know(void **state)
{
    (void)state;
    static const struct {
        uint64_t version;
        const char *name;
    } cases[] = {
        {90402, "gfx942"},   {90010, "gfx90a"},   {90006, "gfx906"},
        {110000, "gfx1100"}, {100306, "gfx1036"}, {120001, "gfx1201"},
    };
    char name[16];
    for (size_t i = 0; i < countof(cases); i++) {
        amd_gfx_format(cases[i].version, name);
        assert_string_equal(name, cases[i].name);
    }
    amd_gfx_format(UINT64_MAX, name); /* must only end */
    struct str found;
    static const char ids[] = "# comment, with, commas\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n"
                              "744C,\tCC,\tAMD Radeon RX 7900 XT\n744C,CD,\n744C";
    assert_true(amd_name_find(str_of(ids), 0x744c, 0xcc, &found));
    assert_true(str_equal(found, STR("AMD Radeon RX 7900 XT")));
    assert_false(amd_name_find(str_of(ids), 0x744c, 0xcd, &found));
    assert_false(amd_name_find(str_of(ids), 0x744d, 0xcc, &found));
    assert_false(amd_name_find(STR(""), 0, 0, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_read_line_by_line),
        cmocka_unit_test(whatever_a_node_holds_it_is_not_believed),
        cmocka_unit_test(links_and_banks_are_read_alike),
        cmocka_unit_test(numbers_end_where_the_file_does),
        cmocka_unit_test(errors_are_the_uncorrectable_ones),
        cmocka_unit_test(a_bad_page_in_use_is_found_among_retired_ones),
        cmocka_unit_test(chips_have_the_names_that_people_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
