/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/json.h"
#include "device/wire.h"
#include "devices.h"

static void a_device_reads_back_as_it_was_written(void **state)
{
    (void)state;
    struct device_list list = gpus(2);
    struct device *device = &list.at[0], *back = &list.at[1];
    struct buf text = BUF_INIT, again = BUF_INIT;
    snprintf(device->name, sizeof(device->name), "odd \"name\"\\");
    device->mem_total_bytes = UINT64_MAX / 2;
    device->busy_percent = -1;
    device->power_w = 75.5;
    device->ecc_uncorrected_count = 5000000000;
    device->is_lost = device->details.is_persistence_off = true;
    device->details.clock_reasons = 0x1ff;
    snprintf(device->details.driver, sizeof(device->details.driver), "550.54.15");
    CPU_SET(3, &device->cpus);
    CPU_SET(1000, &device->cpus);
    device->n_processes = 2;
    device->processes[0] = (struct device_process){.pid = 1, .uid = (uid_t)-1, .name = "a,}]\""};
    device->processes[1] = (struct device_process){.pid = 2, .uid = 1000, .mem_bytes = 1ull << 40};
    device_format_json(device, &text);
    assert_true(json_is_object(buf_str(&text)));
    *back = (struct device){0};
    assert_true(device_parse_json(buf_str(&text), back));
    assert_int_equal(back->n_processes, 2);
    assert_true(back->processes[0].uid == (uid_t)-1);
    assert_string_equal(back->processes[0].name, "a,}]\"");
    assert_true(back->mem_total_bytes == UINT64_MAX / 2 && CPU_ISSET(1000, &back->cpus));
    assert_true(back->ecc_uncorrected_count == 5000000000);
    device_format_json(back, &again);
    assert_string_equal(buf_text(&again), buf_text(&text));
    buf_release(&text);
    buf_release(&again);
    device_list_release(&list);
}

static void a_sample_reads_back_as_it_was_written(void **state)
{
    (void)state;
    struct device_sample sample = {.device = 7,
                                   .mem_used_bytes = 5,
                                   .power_w = 1.5,
                                   .ill = "x",
                                   .n_uses = 2,
                                   .uses = {{11, 1ull << 40}, {12, 0}}},
                         back = {0};
    struct buf text = BUF_INIT;
    sample_format_json(&sample, &text);
    assert_true(sample_parse_json(buf_str(&text), &back));
    assert_memory_equal(&sample, &back, sizeof(back));
    buf_release(&text);
}

/* Anybody may call his process so, and root looks at it. */
static void a_name_cannot_speak_to_the_terminal(void **state)
{
    (void)state;
    struct device_list list = gpus(1);
    const char *line = "{\"kind\":\"cuda\",\"ill\":\"a\\nb\\u007f\",\"processes\":"
                       "[{\"pid\":1,\"name\":\"\\u001b[2J\\u009b1m\\u00e9\"}]}";
    assert_true(device_parse_json(str_of(line), &list.at[0]));
    assert_string_equal(list.at[0].ill, "a?b?");
    assert_string_equal(list.at[0].processes[0].name, "?[2J??1m\xc3\xa9");
    device_list_release(&list);
}

static void broken_lines_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"kind\":\"toaster\"}",
        "{\"kind\":\"cuda\",\"index\":\"x\"}",
        "{\"kind\":\"cuda\",\"index\":1e99}",
        "{\"kind\":\"cuda\",\"cpus\":\"x-\"}",
        "{\"kind\":\"cuda\",\"processes\":[3]}",
        "{\"kind\":cuda}",
    };
    struct device_list list = gpus(1);
    for (size_t i = 0; i < countof(lines); i++)
        if (device_parse_json(str_of(lines[i]), &list.at[0]))
            fail_msg("accepted: %s", lines[i]);
    device_list_release(&list);
}

static void processes_beyond_the_table_are_dropped(void **state)
{
    (void)state;
    struct device_list list = gpus(1);
    struct buf text = BUF_INIT;
    buf_add_text(&text, "{\"kind\":\"cuda\",\"processes\":[");
    for (int i = 0; i < 100; i++)
        buf_addf(&text, "%s{\"pid\":%d}", i ? "," : "", i);
    buf_add_text(&text, "]}");
    assert_true(device_parse_json(buf_str(&text), &list.at[0]));
    assert_int_equal(list.at[0].n_processes, DEVICE_PROCESSES_MAX);
    assert_int_equal(list.at[0].processes[DEVICE_PROCESSES_MAX - 1].pid, DEVICE_PROCESSES_MAX - 1);
    buf_release(&text);
    device_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_reads_back_as_it_was_written),
        cmocka_unit_test(a_sample_reads_back_as_it_was_written),
        cmocka_unit_test(a_name_cannot_speak_to_the_terminal),
        cmocka_unit_test(broken_lines_are_refused),
        cmocka_unit_test(processes_beyond_the_table_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
