/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "device/visible.h"
#include "devices.h"

static const struct visible_rule cuda = {.may_sort_by_speed = true};

/* GPU 1 is cut into two MIG instances, so the universe is 0, 1a, 1b, 2, 3. */
static struct device_list machine(void)
{
    struct device_list list = gpus(5);
    static const char *const uuids[] = {"GPU-a0", "MIG-b10-77", "MIG-b11-77", "GPU-a2", "GPU-ab3"};
    static const int physical[] = {0, 1, 1, 2, 3};
    for (size_t i = 0; i < list.len; i++) {
        snprintf(list.at[i].uuid, sizeof(list.at[i].uuid), "%s", uuids[i]);
        list.at[i].physical = physical[i];
        if (physical[i] == 1)
            snprintf(list.at[i].parent_uuid, sizeof(list.at[i].parent_uuid), "GPU-a1");
    }
    return list;
}

static void the_list_is_read_as_cuda_reads_it(void **state)
{
    (void)state;
    static const struct {
        const char *list, *kept, *says;
    } cases[] = {
        {"0,2", "GPU-a0 GPU-a2 ", ""},
        {"3,0", "GPU-ab3 GPU-a0 ", ""},
        {" 3 , 0 ", "GPU-ab3 GPU-a0 ", ""},
        {"", "", "hides every GPU"},
        {" ", "", "hides every GPU"},
        {"-1", "", "hides every GPU"},
        {"0,2,-1,3", "GPU-a0 GPU-a2 ", ""},
        {"0,9,2", "GPU-a0 ", "'9' is not on this machine, which hides it and all after it"},
        {"0,x,2", "GPU-a0 ", "'x' is neither an index nor a UUID"},
        {"0,0,2", "GPU-a0 ", "'0' is listed twice"},
        {"0,,2", "GPU-a0 ", "'' is neither"},
        {"1,0", "", "'1' has MIG enabled"},
        {"GPU-a2", "GPU-a2 ", ""},
        {"gpu-AB", "GPU-ab3 ", ""},
        {"GPU-a,0", "", "'GPU-a' fits several GPUs"},
        {"MIG-b11", "MIG-b11-77 ", ""},
        {"MIG-b1", "", "fits several"},
        {"GPU-zz", "", "'GPU-zz' is not on this machine"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_list list = machine();
        struct buf notes = BUF_INIT, kept = BUF_INIT;
        visible_apply(&cuda, "CUDA_VISIBLE_DEVICES", cases[i].list, &list, &notes);
        for (size_t k = 0; k < list.len; k++) {
            buf_addf(&kept, "%s ", list.at[k].uuid);
            assert_int_equal(list.at[k].index, (int)k);
        }
        bool is_quiet = cases[i].says[0] != '\0' || notes.len == 0;
        if (strcmp(buf_text(&kept), cases[i].kept) != 0 || !is_quiet ||
            !strstr(buf_text(&notes), cases[i].says))
            fail_msg("list \"%s\": \"%s\", notes \"%s\"", cases[i].list, buf_text(&kept),
                     buf_text(&notes));
        buf_release(&notes);
        buf_release(&kept);
        device_list_release(&list);
    }
}

static void indices_among_different_gpus_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *order, *list;
        bool is_told;
    } cases[] = {
        {NULL, "0", true},
        {"FASTEST_FIRST", "0", true},
        {"PCI_BUS_ID", "0", false},
        {NULL, "GPU-a0", false},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_list list = machine();
        struct buf notes = BUF_INIT;
        snprintf(list.at[4].name, sizeof(list.at[4].name), "T4");
        unsetenv("CUDA_DEVICE_ORDER");
        if (cases[i].order)
            setenv("CUDA_DEVICE_ORDER", cases[i].order, 1);
        visible_apply(&cuda, "CUDA_VISIBLE_DEVICES", cases[i].list, &list, &notes);
        assert_int_equal(strstr(buf_text(&notes), "taken in PCI order") != NULL, cases[i].is_told);
        buf_release(&notes);
        device_list_release(&list);
    }
}

static void distances_follow_their_devices(void **state)
{
    (void)state;
    struct device_list list = gpus(3);
    struct buf notes = BUF_INIT;
    static const uint8_t distance[] = {0, 1, 2, 1, 0, 3, 2, 3, 0};
    list.distance = xmalloc(sizeof(distance));
    memcpy(list.distance, distance, sizeof(distance));
    visible_apply(&cuda, "CUDA_VISIBLE_DEVICES", "2,1", &list, &notes);
    static const uint8_t wanted[] = {0, 3, 3, 0};
    assert_memory_equal(list.distance, wanted, sizeof(wanted));
    device_list_release(&list);
    buf_release(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_is_read_as_cuda_reads_it),
        cmocka_unit_test(indices_among_different_gpus_are_explained),
        cmocka_unit_test(distances_follow_their_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
