/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters: item lines into stdin, result lines out of stdout, in the same order or, with --key, in any.
 *
 * What a filter is given is a range of items. Their lines are fetched when its pipe takes them, so that
 * ranges may be long, and rows few, while memory holds one load of lines for each worker.
 */
#pragma once

#include "base/buf.h"

struct item_span;
struct key_index;
struct worker;

/* A run of items that were sent and not answered. Unfit ones were not written, and keep their turn in the order until
 * it comes to them. */
struct sent_items {
    uint64_t first, count;
    bool is_unfit;
};

struct filter {
    /* to it */
    struct item_span *unwritten; /* given to it; their lines are not in to_worker yet */
    size_t n_unwritten, cap_unwritten;
    bool is_loading;
    bool room_is_due;   /* to be asked for, when all that it was given is in its pipe */
    bool room_is_asked; /* of the feeder, which has not come to it yet */
    bool has_read;      /* something of its stdin */
    uint64_t bytes_in_flight;
    struct sent_items *sent;
    size_t n_sent, cap_sent;
    struct key_index *key_index; /* NULL: matched by their order */

    /* from it */
    struct buf from_worker;   /* of stdout, an unfinished line */
    struct buf early_stdout;  /* printed before it was known to be an answer */
    char first_line[120];     /* often a banner */
    uint64_t part_line_begin; /* offset in the part after the last whole line */
    uint64_t n_unsaid;        /* answers that were matched and not yet told to the feeder */
};

void filter_send(struct worker *worker, uint64_t first, uint64_t count);
/* The next lines into to_worker, which is empty. False: there are none now. */
bool filter_load(struct worker *worker);
void filter_read(struct worker *worker, struct str bytes);
void filter_eof(struct worker *worker);
/* The worker speaks on the channel: it was never a filter. */
void filter_to_channel(struct worker *worker);
void filter_release(struct filter *filter);
