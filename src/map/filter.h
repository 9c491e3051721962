/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters: item lines into stdin, result lines out of stdout, in the same order or, with --key, in any.
 *
 * A filter is given ranges of items. The lines of a range are fetched when the filter's pipe takes them. So
 * a range may be long, which keeps the ledger's rows few, and memory holds one load of lines for each worker.
 */
#pragma once

#include "base/buf.h"

struct item_span;
struct key_index;
struct worker;

/*
 * A range of items that were sent and not answered. Unfit items were not written; they keep their place in the order
 * until all items before them are answered.
 */
struct sent_items {
    uint64_t first, count;
    bool is_unfit;
};

struct filter {
    /* to the worker */

    /* items given to the worker whose lines are not in to_worker yet */
    struct item_span *unwritten;
    size_t n_unwritten, cap_unwritten;
    bool is_loading;
    bool room_is_due;   /* ask the feeder for more when everything given is in the pipe */
    bool room_is_asked; /* the feeder was asked, and has not handled that yet */
    bool has_read;      /* it has read some of its stdin */
    uint64_t bytes_in_flight;
    struct sent_items *sent;
    size_t n_sent, cap_sent;
    struct key_index *key_index; /* NULL: answers are matched by their order */

    /* from the worker */
    struct buf from_worker;   /* an unfinished line of stdout */
    struct buf early_stdout;  /* printed before the worker was known to be a filter */
    char first_line[120];     /* often a banner */
    uint64_t part_line_begin; /* where the unfinished line begins in the part */
    uint64_t n_unsaid;        /* matched answers that the feeder has not been told of */
};

void filter_send(struct worker *worker, uint64_t first, uint64_t count);
/* Puts the next lines into to_worker, which must be empty. False: there are none now. */
bool filter_load(struct worker *worker);
void filter_read(struct worker *worker, struct str bytes);
void filter_eof(struct worker *worker);
/* The worker has sent a message on the channel, so it is not a filter. */
void filter_to_channel(struct worker *worker);
void filter_release(struct filter *filter);
