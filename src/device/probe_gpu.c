/* SPDX-License-Identifier: Apache-2.0 */
#include "device/probe_gpu.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/helper.h"
#include "device/topology.h"
#include "device/wire.h"

enum {
    /* each costs a deadline; a machine with more GPUs hung at once has other troubles */
    RESTARTS_MAX = 8,
    /* a killed process is gone in a millisecond, unless it is in D state: then nobody can help */
    WAIT_MS = 1000,
};

bool gpu_driver_is_there(void)
{
    static const char *const signs[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version",
                                        "/dev/dxg"};
    const char *library = getenv("MUSTER_NVML");
    bool is_there = library && *library;
    for (size_t i = 0; i < countof(signs) && !is_there; i++)
        is_there = access(signs[i], F_OK) == 0;
    return is_there;
}

struct hung_gpu {
    uint32_t number;
    int n_times; /* 1: ask only its identity; 2: ask nothing */
    char why[128];
};

struct listing {
    struct device_list devices;
    struct hung_gpu hung[RESTARTS_MAX];
    size_t n_hung;
    uint8_t *distance; /* by physical number, DEVICE_SIDE squared; 255 unknown */
    bool is_complete;
    bool is_none; /* the helper said why there is no device */
    char said[256];
};

enum {
    DEVICE_SIDE = 128
};

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
    if (sscanf(text, "#%u %u %u", &a, &b, &distance) != 3 || a >= DEVICE_SIDE || b >= DEVICE_SIDE)
        return;
    if (!listing->distance) {
        listing->distance = xmalloc((size_t)DEVICE_SIDE * DEVICE_SIDE);
        memset(listing->distance, 255, (size_t)DEVICE_SIDE * DEVICE_SIDE);
    }
    listing->distance[a * DEVICE_SIDE + b] = (uint8_t)MIN(distance, 255u);
    listing->distance[b * DEVICE_SIDE + a] = (uint8_t)MIN(distance, 255u);
}

static void take_line(struct listing *listing, struct str line)
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
    default: /* a line of a newer helper, or noise of the driver */
        break;
    }
}

/* Note which GPU the helper was asking when it went silent. False: none, or too many already. */
static bool note_hung(struct listing *listing, const struct helper *helper, uint64_t deadline_ms)
{
    struct hung_gpu *hung = NULL;
    if (helper->query_number < 0)
        return false;
    for (size_t i = 0; i < listing->n_hung; i++)
        if (listing->hung[i].number == (uint32_t)helper->query_number)
            hung = &listing->hung[i];
    if (!hung && listing->n_hung < RESTARTS_MAX)
        hung = &listing->hung[listing->n_hung++];
    if (!hung || hung->n_times >= 2)
        return false;
    hung->number = (uint32_t)helper->query_number;
    hung->n_times++;
    if (helper->is_eof)
        snprintf(hung->why, sizeof(hung->why), "%s crashed", helper->query);
    else
        snprintf(hung->why, sizeof(hung->why), "%s did not answer within %lu ms", helper->query,
                 (unsigned long)deadline_ms);
    return true;
}

static char *hung_arg(const struct listing *listing, const char *name, int n_times)
{
    uint32_t numbers[RESTARTS_MAX];
    size_t n_numbers = 0;
    for (size_t i = 0; i < listing->n_hung; i++)
        if (listing->hung[i].n_times == n_times)
            numbers[n_numbers++] = listing->hung[i].number;
    struct buf text = BUF_INIT;
    buf_add_text(&text, name);
    idlist_format(&text, numbers, n_numbers);
    if (n_numbers > 0)
        return buf_steal(&text);
    buf_release(&text);
    return NULL;
}

static int start(struct helper *helper, const struct listing *listing,
                 const struct probe_opts *opts, struct err *err)
{
    char list[] = "list", detail[] = "detail";
    cleanup_free char *brief = hung_arg(listing, "brief=", 1);
    cleanup_free char *gone = hung_arg(listing, "gone=", 2);
    char *args[5] = {list};
    size_t n_args = 1;
    if (opts->wants_details)
        args[n_args++] = detail;
    if (brief)
        args[n_args++] = brief;
    if (gone)
        args[n_args++] = gone;
    return helper_start(helper, opts->self_path, args, err);
}

/* One helper from start to end. 0: it has said all it had to say, or one GPU was found hung. */
static int ask_once(struct listing *listing, const struct probe_opts *opts, uint64_t deadline_ms,
                    bool *again, struct err *err)
{
    struct helper helper = HELPER_INIT;
    struct str line;
    int rc = start(&helper, listing, opts, err);
    *again = false;
    if (rc)
        return rc;
    bool is_answering = true;
    while (is_answering && !listing->is_complete && !listing->said[0]) {
        is_answering = helper_wait(&helper, helper_patience_ms(&helper, deadline_ms));
        while (helper_line(&helper, &line))
            take_line(listing, line);
    }
    if (!listing->is_complete && !listing->said[0]) {
        *again = note_hung(listing, &helper, deadline_ms);
        if (!*again && helper.is_eof)
            rc = fail(err, ERR_UNAVAILABLE, "the NVML helper ended in %s", helper.query);
        else if (!*again)
            rc = fail(err, ERR_UNAVAILABLE,
                      "the NVIDIA driver did not answer %s (see dmesg for Xid)", helper.query);
    }
    (void)helper_stop(&helper, WAIT_MS);
    return rc;
}

static void set_distances(struct listing *listing)
{
    struct device_list *list = &listing->devices;
    if (!listing->distance || list->len > DEVICE_SIDE)
        return;
    list->distance = xcalloc(list->len * list->len + 1, 1);
    for (size_t i = 0; i < list->len; i++) {
        for (size_t j = 0; j < list->len; j++) {
            size_t a = (size_t)list->at[i].physical, b = (size_t)list->at[j].physical;
            bool is_known = a != b && a < DEVICE_SIDE && b < DEVICE_SIDE;
            list->distance[i * list->len + j] =
                is_known ? listing->distance[a * DEVICE_SIDE + b] : (uint8_t)(a == b ? 0 : 255);
        }
    }
}

int gpu_list(const struct probe_opts *opts, struct device_list *out, struct buf *notes,
             struct err *err)
{
    uint64_t deadline_ms = opts->deadline_ms ? opts->deadline_ms : PROBE_DEADLINE_MS;
    struct listing *listing = xcalloc(1, sizeof(*listing));
    bool again = true;
    int rc = 0;
    while (rc == 0 && again) {
        device_list_release(&listing->devices);
        rc = ask_once(listing, opts, deadline_ms, &again, err);
    }
    if (rc == 0 && listing->said[0] && !listing->is_none)
        rc = fail(err, ERR_UNAVAILABLE, "%s", listing->said);
    else if (rc == 0 && listing->said[0])
        buf_addf(notes, "%s\n", listing->said);
    else if (rc == 0 && listing->devices.len == 0)
        buf_add_text(notes, "the NVIDIA driver is there and has no GPU\n");
    if (rc == 0)
        set_distances(listing);
    for (size_t i = 0; i < listing->devices.len; i++) {
        listing->devices.at[i].index = (int)i;
        device_locate(&listing->devices.at[i]);
    }
    *out = listing->devices;
    if (rc)
        device_list_release(out);
    free(listing->distance);
    free(listing);
    return rc;
}
