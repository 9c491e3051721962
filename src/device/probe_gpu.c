/* SPDX-License-Identifier: Apache-2.0 */
#include "device/probe_gpu.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/idlist.h"
#include "base/xalloc.h"
#include "device/listing.h"
#include "device/topology.h"

enum {
    /* a killed process is gone within a millisecond, unless it is in D state */
    WAIT_MS = 1000,
    WAIT_SHORT_MS = 100, /* the same with probe_opts.until_ms */
};

static char *hung_arg(const struct listing *listing, const char *name, int n_times)
{
    uint32_t numbers[LISTING_HUNG_MAX];
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

static int start(struct helper *helper, const struct vendor *vendor, const struct listing *listing,
                 const struct probe_opts *opts, struct err *err)
{
    char list[] = "list", detail[] = "detail", kind[16];
    snprintf(kind, sizeof(kind), "%s", device_kind_name(vendor->kind));
    cleanup_free char *brief = hung_arg(listing, "brief=", 1);
    cleanup_free char *gone = hung_arg(listing, "gone=", 2);
    char *args[6] = {list, kind};
    size_t n_args = 2;
    if (opts->wants_details)
        args[n_args++] = detail;
    if (brief)
        args[n_args++] = brief;
    if (gone)
        args[n_args++] = gone;
    return helper_start(helper, opts->self_path, args, err);
}

static uint64_t deadline_of(const struct probe_opts *opts)
{
    return opts->deadline_ms ? opts->deadline_ms : PROBE_DEADLINE_MS;
}

/*
 * How long to wait for the next answer. With until_ms, one answer gets at most a quarter of the
 * remaining time, so that the other GPUs get some however many hang; while the driver comes up, it
 * gets all of that time.
 */
static uint64_t patience_ms(const struct probe_opts *opts, const struct helper *helper)
{
    uint64_t wait_ms = helper_patience_ms(helper, deadline_of(opts)), now_ms = clock_now_ms();
    if (opts->until_ms == 0)
        return wait_ms;
    uint64_t left_ms = opts->until_ms - MIN(now_ms, opts->until_ms);
    return MIN(wait_ms, helper->is_up ? left_ms / 4 : left_ms);
}

/* Runs one helper to its end. 0: its answer is complete, or a GPU was found hung (*again). */
static int ask_once(const struct vendor *vendor, struct listing *listing,
                    const struct probe_opts *opts, bool *again, struct err *err)
{
    struct helper helper = HELPER_INIT;
    struct str line;
    int rc = start(&helper, vendor, listing, opts, err);
    *again = false;
    if (rc)
        return rc;
    bool is_answering = true;
    uint64_t wait_ms = 0;
    while (is_answering && !listing->is_complete && !listing->said[0]) {
        wait_ms = patience_ms(opts, &helper);
        is_answering = helper_wait(&helper, wait_ms);
        while (helper_line(&helper, &line))
            listing_take(listing, line);
    }
    if (!listing->is_complete && !listing->said[0]) {
        bool is_hurried = opts->until_ms && wait_ms < deadline_of(opts);
        *again = listing_note_hung(listing, &helper, wait_ms, is_hurried);
        if (!*again && helper.is_eof)
            rc = fail(err, ERR_UNAVAILABLE, "the helper that asks the %s driver ended in %s",
                      vendor->name, helper.query);
        else if (!*again)
            rc = fail(err, ERR_UNAVAILABLE, "the %s driver did not answer %s (%s)", vendor->name,
                      helper.query, vendor->trouble);
    }
    (void)helper_stop(&helper, opts->until_ms ? WAIT_SHORT_MS : WAIT_MS);
    return rc;
}

int gpu_list(const struct vendor *vendor, const struct probe_opts *opts, struct device_list *out,
             struct buf *notes, struct err *err)
{
    struct listing *listing = xcalloc(1, sizeof(*listing));
    bool again = true;
    int rc = 0;
    while (rc == 0 && again) {
        device_list_release(&listing->devices);
        rc = ask_once(vendor, listing, opts, &again, err);
    }
    if (rc == 0 && listing->said[0] && !listing->is_none)
        rc = fail(err, ERR_UNAVAILABLE, "%s", listing->said);
    else if (rc == 0 && listing->said[0])
        buf_addf(notes, "%s\n", listing->said);
    else if (rc == 0 && listing->devices.len == 0)
        buf_addf(notes, "the %s driver is there and has no GPU\n", vendor->name);
    if (rc == 0)
        listing_distances(listing);
    for (size_t i = 0; i < listing->devices.len; i++) {
        listing->devices.at[i].index = (int)i;
        device_locate(&listing->devices.at[i]);
    }
    *out = listing->devices;
    listing->devices = (struct device_list){0};
    if (rc)
        device_list_release(out);
    listing_release(listing);
    free(listing);
    return rc;
}
