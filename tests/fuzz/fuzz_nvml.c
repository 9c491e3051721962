/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device helper says, or whoever sits in its place: devices, distances, samples, announcements and
 * reasons. What is understood is written and read again as the same; the listing that it all goes into
 * is in order after every line. A line of `~` stands for a helper that falls silent, one of `$` for its end.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "device/listing.h"
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

/* Each GPU is asked less after its first silence and not at all after its second. */
static void fall_silent(struct listing *listing, struct helper *helper, bool is_eof)
{
    int before = 0, after = 0;
    for (size_t i = 0; i < listing->n_hung; i++)
        before += listing->hung[i].n_times;
    helper->is_eof = is_eof;
    bool is_noted = listing_note_hung(listing, helper, 300, false);
    ASSERT(listing->n_hung <= LISTING_HUNG_MAX);
    for (size_t i = 0; i < listing->n_hung; i++) {
        ASSERT(listing->hung[i].n_times >= 1 && listing->hung[i].n_times <= 2);
        ASSERT(listing->hung[i].why[0]);
        after += listing->hung[i].n_times;
        for (size_t j = 0; j < i; j++)
            ASSERT(listing->hung[i].number != listing->hung[j].number);
    }
    ASSERT(after == before + is_noted && (!is_noted || helper->query_number >= 0));
}

static void check_distances(struct listing *listing)
{
    const struct device_list *list = &listing->devices;
    listing_distances(listing);
    ASSERT(list->len <= DEVICES_MAX);
    for (size_t i = 0; list->distance && i < list->len; i++) {
        ASSERT(list->distance[i * list->len + i] == 0);
        for (size_t j = 0; j < i; j++)
            ASSERT(list->distance[i * list->len + j] == list->distance[j * list->len + i]);
    }
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct helper helper = HELPER_INIT;
    struct listing listing = {0};
    struct str line;
    buf_add(&helper.pending, data, size);
    while (helper_line(&helper, &line)) {
        ASSERT(line.len > 0);
        check_device(line);
        check_sample(line);
        listing_take(&listing, line);
        ASSERT(memchr(listing.said, '\0', sizeof(listing.said)));
        if (line.at[0] == '~' || line.at[0] == '$')
            fall_silent(&listing, &helper, line.at[0] == '$');
    }
    ASSERT(helper.used <= size);
    check_distances(&listing);
    listing_release(&listing);
    buf_release(&helper.pending);
    return 0;
}
