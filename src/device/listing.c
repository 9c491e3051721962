/* SPDX-License-Identifier: Apache-2.0 */
#include "device/listing.h"

#include "base/xalloc.h"
#include "device/wire.h"

static void take_device(struct listing *listing, struct str line)
{
    struct device *device = xcalloc(1, sizeof(*device));
    struct device_list *list = &listing->devices;
    if (list->len < DEVICES_MAX && device_parse_json(line, device)) {
        for (size_t i = 0; i < listing->n_hung; i++)
            if ((int)listing->hung[i].number == device->physical)
                snprintf(device->ill, sizeof(device->ill), "%s", listing->hung[i].why);
        list->at = xrealloc(list->at, (list->len + 1) * sizeof(*list->at));
        list->at[list->len++] = *device;
    }
    free(device);
}

static void take_distance(struct listing *listing, struct str line)
{
    char text[64];
    unsigned a, b, distance;
    snprintf(text, sizeof(text), "%.*s", (int)line.len, line.at);
    if (sscanf(text, "#%u %u %u", &a, &b, &distance) != 3 || a >= LISTING_SIDE || b >= LISTING_SIDE)
        return;
    if (!listing->distance) {
        listing->distance = xmalloc((size_t)LISTING_SIDE * LISTING_SIDE);
        memset(listing->distance, DISTANCE_UNKNOWN, (size_t)LISTING_SIDE * LISTING_SIDE);
    }
    listing->distance[a * LISTING_SIDE + b] = (uint8_t)MIN(distance, (unsigned)DISTANCE_UNKNOWN);
    listing->distance[b * LISTING_SIDE + a] = (uint8_t)MIN(distance, (unsigned)DISTANCE_UNKNOWN);
}

void listing_take(struct listing *listing, struct str line)
{
    switch (line.at[0]) {
    case '{':
        take_device(listing, line);
        break;
    case '#':
        take_distance(listing, line);
        break;
    case '.':
        listing->is_complete = true;
        break;
    case '-':
    case '!':
        listing->is_none = line.at[0] == '-';
        snprintf(listing->said, sizeof(listing->said), "%.*s", (int)line.len - 1, line.at + 1);
        break;
    default: /* a line of a newer helper, or one that the driver printed */
        break;
    }
}

bool listing_note_hung(struct listing *listing, const struct helper *helper, uint64_t waited_ms,
                       bool is_hurried)
{
    struct hung_gpu *hung = NULL;
    if (helper->query_number < 0)
        return false;
    for (size_t i = 0; i < listing->n_hung; i++)
        if (listing->hung[i].number == (uint32_t)helper->query_number)
            hung = &listing->hung[i];
    if (!hung && listing->n_hung < LISTING_HUNG_MAX)
        hung = &listing->hung[listing->n_hung++];
    if (!hung || hung->n_times >= 2)
        return false;
    hung->number = (uint32_t)helper->query_number;
    hung->n_times = is_hurried ? 2 : hung->n_times + 1;
    if (helper->is_eof)
        snprintf(hung->why, sizeof(hung->why), "%s crashed", helper->query);
    else
        snprintf(hung->why, sizeof(hung->why), "%s did not answer within %lu ms", helper->query,
                 (unsigned long)waited_ms);
    return true;
}

void listing_distances(struct listing *listing)
{
    struct device_list *list = &listing->devices;
    if (!listing->distance || list->len > LISTING_SIDE)
        return;
    list->distance = xcalloc(list->len * list->len + 1, 1);
    for (size_t i = 0; i < list->len; i++) {
        for (size_t j = 0; j < list->len; j++) {
            size_t a = (size_t)list->at[i].physical, b = (size_t)list->at[j].physical;
            bool is_known = a != b && a < LISTING_SIDE && b < LISTING_SIDE;
            list->distance[i * list->len + j] = is_known ? listing->distance[a * LISTING_SIDE + b]
                                                         : (uint8_t)(a == b ? 0 : DISTANCE_UNKNOWN);
        }
    }
}

void listing_release(struct listing *listing)
{
    device_list_release(&listing->devices);
    free(listing->distance);
    *listing = (struct listing){0};
}
