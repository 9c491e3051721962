/* SPDX-License-Identifier: Apache-2.0
 *
 * What the NVML helper says, or whoever sits in its place: devices, samples and announcements. What
 * is understood is written and read again as the same.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "device/helper.h"
#include "device/wire.h"
#include "fuzz.h"

static void check_device(struct str line)
{
    static struct device device, again;
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
    device = (struct device){0};
    again = (struct device){0};
    if (!device_parse_json(line, &device))
        return;
    ASSERT(device.n_processes <= DEVICE_PROCESSES_MAX);
    ASSERT(device.kind >= DEVICE_CPU && device.kind <= DEVICE_SIM);
    device_format_json(&device, &first);
    if (!json_is_object(buf_str(&first)) || !device_parse_json(buf_str(&first), &again))
        BUG("written as %s", buf_text(&first));
    device_format_json(&again, &second);
    if (!str_equal(buf_str(&first), buf_str(&second)))
        BUG("%s\nreads back as\n%s", buf_text(&first), buf_text(&second));
}

static void check_sample(struct str line)
{
    struct device_sample sample = {0}, again = {0};
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
    if (!sample_parse_json(line, &sample))
        return;
    sample_format_json(&sample, &first);
    if (!sample_parse_json(buf_str(&first), &again))
        BUG("written as %s", buf_text(&first));
    sample_format_json(&again, &second);
    if (!str_equal(buf_str(&first), buf_str(&second)))
        BUG("%s\nreads back as\n%s", buf_text(&first), buf_text(&second));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct helper helper = HELPER_INIT;
    struct str line;
    buf_add(&helper.pending, data, size);
    while (helper_line(&helper, &line)) {
        ASSERT(line.len > 0);
        check_device(line);
        check_sample(line);
    }
    ASSERT(helper.used <= size);
    buf_release(&helper.pending);
    return 0;
}
