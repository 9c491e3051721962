/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's end of the channel, as lines. It is the socket that MUSTER_CHANNEL names or, if the worker is run by
 * hand without MUSTER_CHANNEL, stdin and stdout: then each line of stdin becomes the message that muster would have
 * sent. This layer does not interpret lines, and does not count credits.
 */
#pragma once

#include "text.h"

struct mw_channel {
    int in_fd, out_fd; /* the same socket, or 0 and 1 by hand; -1: not open */
    bool by_hand;      /* stdin and stdout */
    bool has_ended;    /* no more input will come */
    struct mw_buf in;  /* bytes received; in.at[begin..] is not taken yet */
    size_t begin;
    size_t searched;     /* no newline in in.at[begin..searched) */
    struct mw_buf out;   /* bytes to be written */
    struct mw_buf raw;   /* by hand: a line of stdin that is not complete yet */
    size_t raw_searched; /* no newline in raw.at[..raw_searched) */
    uint64_t n_by_hand;  /* by hand: how many lines have come; the next item's index */
    uint64_t base_seed;  /* by hand */
    uint64_t flushed_ns;
};

/* Returns 0, or a negative enum muster_worker_code with its message in error. */
int mw_channel_open(struct mw_channel *channel, char *error, size_t error_cap);
void mw_channel_close(struct mw_channel *channel);

/* The next complete line, without its newline; false if there is none yet. Valid until fill. */
bool mw_channel_line(struct mw_channel *channel, struct muster_text *line);
/* Drop the lines that were taken. Views of them become invalid. */
void mw_channel_reclaim(struct mw_channel *channel);
/* True if part of a line has been received, so that the rest must be on its way. */
bool mw_channel_is_midline(const struct mw_channel *channel);
/*
 * Wait for input (timeout_ms < 0: for ever) and read it. Returns 1 after input or at its end, 0 after
 * the timeout, negative on error. May move in.at.
 */
int mw_channel_fill(struct mw_channel *channel, int timeout_ms, char *error, size_t error_cap);

/* Write all that is in out. */
int mw_channel_flush(struct mw_channel *channel, char *error, size_t error_cap);

uint64_t mw_now_ns(void);
