/* SPDX-License-Identifier: Apache-2.0
 *
 * Be a worker of `muster map`, in C:
 *
 *     struct muster_worker *worker = muster_worker_open(NULL);
 *     struct muster_item item;
 *     while (muster_worker_next(worker, &item) > 0)
 *         muster_item_done(worker, &item, item.data);
 *     return muster_worker_close(worker) == 0 ? 0 : 1;
 *
 * Load the model between open and next. Run by hand, without muster, the same program reads its
 * items as lines from stdin and writes its results as lines to stdout: `head -3 data | ./worker` (a
 * line that is a JSON object, array or string is taken as JSON, any other line as text).
 *
 * Errors are sticky: the first one is kept with its message, and every later call returns it and
 * does nothing. So a worker needs to check only next and close.
 *
 * Threads: one thread calls next, batch, open and close; the muster_item_ and the other
 * muster_worker_ calls may come from any thread. The data of an item is a view that is valid until
 * the next call of next or batch; a thread that needs it longer must copy it. Reporting needs only
 * item->index. A process forked from the worker must not use the handle.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define MUSTER_API __attribute__((visibility("default")))

/* A borrowed piece of text, not NUL-terminated. */
struct muster_text {
    const char *at;
    size_t len;
};

enum muster_worker_code {
    MUSTER_WORKER_EIO = -1,    /* the channel broke, or could not be opened */
    MUSTER_WORKER_EPROTO = -2, /* muster sent a message that is not in the protocol */
    MUSTER_WORKER_EUSE = -3,   /* wrong use: the worker finished an item twice, or never */
    MUSTER_WORKER_ENOMEM = -4,
};

struct muster_worker;

/* Zero means default. */
struct muster_worker_opts {
    /*
     * How many items to have in hand at once, for workers that finish them from several threads.
     * Default: one in hand; the next is fetched ahead if items take less than 50 ms, and about
     * 10 ms of work is fetched ahead if they are quicker still.
     */
    size_t concurrency;
};

struct muster_item {
    uint64_t index;          /* its place in the input, from 0 */
    uint64_t seed;           /* depends on the run's base seed and the index alone */
    uint32_t attempt;        /* from 1 */
    bool is_bytes;           /* the item is not UTF-8: data is its bytes, not JSON */
    struct muster_text data; /* JSON text: the record of a JSONL file, a line as a string, … */
};

struct muster_metric {
    const char *name; /* shown as it is: letters, digits, _ */
    double value;     /* finite; muster sums it over the committed items */
};

/* Where this worker runs. Strings are borrowed from the environment, "" for a variable not set. */
struct muster_place {
    const char *run_id, *run_dir;
    const char *devices;        /* UUIDs, comma separated */
    const char *device_indices; /* physical, PCI order, comma separated */
    const char *device_kind;    /* cuda, rocm, intel, cpu */
    size_t n_devices;           /* at least 1 */
    uint32_t worker, n_workers; /* this worker's number, from 0; how many there are */
    uint32_t attempt; /* the number of this start, counted over all workers of the run, from 1 */
    uint64_t seed;    /* the run's base seed */
    size_t batch;     /* the batch size asked for, 0 if none was */
};

/*
 * Become a worker, and tell muster so at once: from here on muster reads no results from stdout.
 * Returns NULL only for lack of memory; the other calls accept NULL. Any other error is kept, and
 * returned by next.
 */
MUSTER_API struct muster_worker *muster_worker_open(const struct muster_worker_opts *opts);

/* Write what is buffered and close. Returns 0, or the sticky error. */
MUSTER_API int muster_worker_close(struct muster_worker *worker);

/* The message of the sticky error, "" while there is none. Borrowed from the worker. */
MUSTER_API const char *muster_worker_error(const struct muster_worker *worker);

MUSTER_API void muster_worker_place(struct muster_place *place);

/*
 * Wait for the next item. Returns 1 with *item filled in; 0 when there is nothing more to do;
 * negative on error. Without opts.concurrency, the previous item must be finished first.
 */
MUSTER_API int muster_worker_next(struct muster_worker *worker, struct muster_item *item);

/*
 * Wait for up to items_max items. All items of the previous call must be finished first. Returns how
 * many came, 0 at the end, negative on error. Fewer than items_max come when muster limits the
 * batch, or when no further item comes within 10 ms, as at the end of the data.
 */
MUSTER_API int muster_worker_batch(struct muster_worker *worker, struct muster_item *items,
                                   size_t items_max);

/* The most items that muster now allows in hand at once; 0 means no limit. */
MUSTER_API size_t muster_worker_limit(struct muster_worker *worker);

/* Say that the model is loaded: the time limit for the start ends, and the limit for items begins. */
MUSTER_API int muster_worker_loaded(struct muster_worker *worker);

/*
 * Say that the device's memory ran out and that the worker goes on with `batch` items at once. The worker keeps its
 * items, and must still finish them.
 */
MUSTER_API int muster_worker_oom(struct muster_worker *worker, size_t batch);

/* Finish an item with a result: any JSON value, checked, or text, which becomes a JSON string. */
MUSTER_API int muster_item_done(struct muster_worker *worker, const struct muster_item *item,
                                struct muster_text result_json);
MUSTER_API int muster_item_done_text(struct muster_worker *worker, const struct muster_item *item,
                                     struct muster_text text);
MUSTER_API int muster_item_done_metrics(struct muster_worker *worker,
                                        const struct muster_item *item,
                                        struct muster_text result_json,
                                        const struct muster_metric *metrics, size_t n_metrics);

/* Finish an item without a result. retry: whether trying again, elsewhere, may help. */
MUSTER_API int muster_item_fail(struct muster_worker *worker, const struct muster_item *item,
                                const char *error, bool retry);

/*
 * The parts of JSON that most workers need. Pure functions.
 *
 * member   the raw value of one member of an object; false if there is none.
 * decode   the text of a JSON string, NUL-terminated and truncated to cap. Returns its whole length,
 *          as snprintf does, or SIZE_MAX if the value is no string. Lone surrogates become U+FFFD.
 * quote    text as a JSON string, quotes included; truncates, and returns the length, as decode does.
 *
 * A number in an item's data may be read with strtod: a character that ends it always follows.
 */
MUSTER_API bool muster_json_member(struct muster_text object, const char *name,
                                   struct muster_text *value);
MUSTER_API size_t muster_json_decode(struct muster_text value, char *out, size_t cap);
MUSTER_API size_t muster_json_quote(struct muster_text text, char *out, size_t cap);

#if defined(__cplusplus)
}
#endif
