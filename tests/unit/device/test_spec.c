/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "device/spec.h"
#include "devices.h"

static void specs_are_read_and_written_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *back; /* back NULL: the same */
        enum spec_kind kind;
        uint32_t count;
    } cases[] = {
        {"0,2,5-7", NULL, SPEC_LIST, 0},
        {"3,1", NULL, SPEC_LIST, 0},
        {" 4 ", "4", SPEC_LIST, 0},
        {"0-1", "0,1", SPEC_LIST, 0},
        {"phys:0,2", NULL, SPEC_LIST, 0},
        {"any:4", NULL, SPEC_ANY, 4},
        {"any:2:20GiB", NULL, SPEC_ANY, 2},
        {"all", NULL, SPEC_ALL, 0},
        {"free", NULL, SPEC_FREE, 0},
        {"free:20GiB", NULL, SPEC_FREE, 0},
        {"free:1536M", "free:1536MiB", SPEC_FREE, 0},
        {"none", NULL, SPEC_NONE, 0},
        {"cpu", NULL, SPEC_CPU, 0},
        {"cpu:16", NULL, SPEC_CPU, 16},
        {"sim:8xH200:141GiB", NULL, SPEC_SIM, 8},
        {"sim:2", "sim:2xGPU:80GiB", SPEC_SIM, 2},
        {"sim:2xA100:40GiB,lost@1:30s,ill@0", NULL, SPEC_SIM, 2},
        {"GPU-4f2a", NULL, SPEC_LIST, 0},
        {"MIG-4f2a,0", NULL, SPEC_LIST, 0},
        {"0000:3b:00.0", NULL, SPEC_LIST, 0},
        {"3b:00.0,5", NULL, SPEC_LIST, 0},
    };
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        struct buf back = BUF_INIT;
        int rc = spec_parse(cases[i].text, spec, &err);
        if (rc == 0)
            spec_format(spec, &back);
        const char *wanted = cases[i].back ? cases[i].back : cases[i].text;
        if (rc != 0 || spec->kind != cases[i].kind || spec->count != cases[i].count ||
            spec->is_default || strcmp(buf_text(&back), wanted) != 0)
            fail_msg("spec \"%s\": rc %d (%s), \"%s\"", cases[i].text, rc, err.text,
                     buf_text(&back));
        buf_release(&back);
    }
    free(spec);
}

static void wrong_specs_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "is empty"},
        {"  ", "is empty"},
        {"1,,2", "is empty"},
        {"1,", "is empty"},
        {"1,1", "listed twice"},
        {"1-3,2", "listed twice"},
        {"GPU-ab,gpu-AB", "listed twice"},
        {"7-5", "backwards"},
        {"-1", "unknown device '-1'"},
        {"fre", "did you mean 'free'"},
        {"al", "did you mean 'all'"},
        {"cup:4", "did you mean 'cpu'"},
        {"all,0", "'all' stands alone, not in a list"},
        {"0,cpu:1", "'cpu' stands alone, not in a list"},
        {"0,phys:1", "unknown device 'phys' (expected"},
        {"free:20", "20 bytes are no memory of a device; give a unit: 20GiB"},
        {"any:2:20", "give a unit"},
        {"sim:2xH200:141", "give a unit"},
        {"zebra", "expected ids"},
        {"any", "how many"},
        {"any:0", ""},
        {"any:x", ""},
        {"all:3", "no value"},
        {"free:lots", ""},
        {"cpu:0", ""},
        {"cpu:9999999", ""},
        {"sim", "which machine"},
        {"sim:0xH200", ""},
        {"sim:2xH 200", "' ' in the name"},
        {"sim:2x:1GiB", "name"},
        {"sim:2xH200,", "fault is missing"},
        {"sim:2xH200,lsot@1", "did you mean 'lost'"},
        {"sim:2xH200,lost@2", ""},
        {"sim:2xH200,lost", "no device"},
        {"sim:2xH200,lost@1:5s-3s", "ends before"},
        {"phys:", "unknown device 'phys'"},
        {"phys:GPU-ab", "unknown device"},
        {"999999999", ""},
    };
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        int rc = spec_parse(cases[i].text, spec, &err);
        if (rc != ERR_USAGE || err.code != ERR_USAGE || !strstr(err.text, cases[i].reason))
            fail_msg("spec \"%s\": rc %d, \"%s\"", cases[i].text, rc, err.text);
    }
    free(spec);
}

/* Eight GPUs: 2 busy, 3 ill, 4 lost, 5 with 10 GiB free and nobody to be seen. */
static struct device_list troubled(void)
{
    struct device_list list = gpus(8);
    list.at[2].n_processes = 1;
    list.at[2].processes[0] =
        (struct device_process){.pid = 77, .mem_bytes = 3ull << 30, .name = "python"};
    snprintf(list.at[3].ill, sizeof(list.at[3].ill), "row remapping pending");
    list.at[4].is_lost = true;
    list.at[5].mem_free_bytes = 10ull << 30;
    list.at[6].mem_free_bytes = 79ull << 30;
    return list;
}

static void format_choice(struct buf *out, int rc, const size_t *chosen, size_t n_chosen)
{
    for (size_t i = 0; i < n_chosen && rc == 0; i++)
        buf_addf(out, i > 0 ? ",%zu" : "%zu", chosen[i]);
}

static void devices_are_chosen_as_told_and_free_ones_by_their_state(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        const char *chosen, *says; /* in the warnings, or in the error */
    } cases[] = {
        {NULL, 0, "0,1,6,7", ""},
        {"free", 0, "0,1,6,7", ""},
        {"free:80GiB", 0, "0,1,7", ""},
        {"free:200GiB", ERR_UNAVAILABLE, "", "only 80.0 GiB free"},
        {"any:2", 0, "0,1", ""},
        {"any:4", 0, "0,1,6,7", ""},
        {"any:5", ERR_UNAVAILABLE, "",
         "5 free GPUs wanted, 4 found (-g all takes them anyway, --wait"},
        {"any:9", ERR_UNAVAILABLE, "", "this machine has 8"},
        {"any:5", ERR_UNAVAILABLE, "", "gpu 2: python (pid 77, "},
        {"any:5", ERR_UNAVAILABLE, "", "gpu 5: 70.0 GiB held by processes that cannot be seen"},
        {"all", 0, "0,1,2,3,5,6,7", "gpu 4: lost"},
        {"7,0", 0, "7,0", ""},
        {"2", 0, "2", "gpu 2: python"},
        {"3", 0, "3", "gpu 3: row remapping pending"},
        {"4", ERR_UNAVAILABLE, "", "gpu 4 is lost"},
        {"8", ERR_UNAVAILABLE, "", "GPU 8 is not available: this machine has 0-7"},
        {"GPU-a7", 0, "7", ""},
        {"gpu-A7", 0, "7", ""},
        {"GPU-a", ERR_USAGE, "", "fits GPU-a0000000-1111 and GPU-a1000000-1111"},
        {"GPU-b", ERR_UNAVAILABLE, "", "GPU GPU-b is not available"},
        {"0,GPU-a0", ERR_USAGE, "", "gpu 0 is listed twice"},
        {"0000:20:00.0", 0, "1", ""},
        {"00000000:20:00.0", 0, "1", ""},
        {"20:00.0", 0, "1", ""},
        {"21:00.0", ERR_UNAVAILABLE, "", "not available"},
        {"phys:6", 0, "6", ""},
        {"none", 0, "", ""},
    };
    struct device_list list = troubled();
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        struct buf warnings = BUF_INIT, text = BUF_INIT;
        size_t chosen[8], n_chosen = 0;
        assert_int_equal(spec_parse(cases[i].text, spec, NULL), 0);
        int rc = spec_select(spec, &list, chosen, 8, &n_chosen, &warnings, &err);
        format_choice(&text, rc, chosen, n_chosen);
        const char *said = rc ? err.text : buf_text(&warnings);
        bool is_quiet = cases[i].says[0] != '\0' || said[0] == '\0';
        if (rc != cases[i].rc || strcmp(buf_text(&text), cases[i].chosen) != 0 || !is_quiet ||
            !strstr(said, cases[i].says))
            fail_msg("spec \"%s\": rc %d, \"%s\", says \"%s\"",
                     cases[i].text ? cases[i].text : "(default)", rc, buf_text(&text), said);
        buf_release(&warnings);
        buf_release(&text);
    }
    device_list_release(&list);
    free(spec);
}

static void ids_count_in_the_universe_and_physical_numbers_on_the_machine(void **state)
{
    (void)state;
    struct device_list list = gpus(2);
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    struct err err = {0};
    size_t chosen[4], n_chosen = 0;
    list.at[0].physical = 5;
    list.at[1].physical = 3;
    assert_int_equal(spec_parse("phys:3", spec, NULL), 0);
    assert_int_equal(spec_select(spec, &list, chosen, 4, &n_chosen, NULL, &err), 0);
    assert_int_equal(n_chosen, 1);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(spec_parse("3", spec, NULL), 0);
    assert_int_equal(spec_select(spec, &list, chosen, 4, &n_chosen, NULL, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.text, "GPU 3 is not available: this machine has 0,1");
    assert_int_equal(spec_parse("phys:0", spec, NULL), 0);
    assert_int_equal(spec_select(spec, &list, chosen, 4, &n_chosen, NULL, &err), ERR_UNAVAILABLE);
    device_list_release(&list);
    free(spec);
}

static void a_machine_without_gpus_says_so(void **state)
{
    (void)state;
    static const char *const texts[] = {"0", "all", "free", "any:1", "GPU-ab"};
    struct device_list list = {0};
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    for (size_t i = 0; i < countof(texts); i++) {
        struct err err = {0};
        size_t chosen[1], n_chosen = 0;
        assert_int_equal(spec_parse(texts[i], spec, NULL), 0);
        assert_int_equal(spec_select(spec, &list, chosen, 1, &n_chosen, NULL, &err),
                         ERR_UNAVAILABLE);
        assert_non_null(strstr(err.text, "this machine has no GPU"));
    }
    free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs_are_read_and_written_back),
        cmocka_unit_test(wrong_specs_are_refused_with_the_reason),
        cmocka_unit_test(devices_are_chosen_as_told_and_free_ones_by_their_state),
        cmocka_unit_test(ids_count_in_the_universe_and_physical_numbers_on_the_machine),
        cmocka_unit_test(a_machine_without_gpus_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
