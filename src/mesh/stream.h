/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP connections whose every step has a deadline, in milliseconds of clock_now_ms(). All sockets are non-blocking.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "rendezvous/address.h"

/* How it went; what a link can do to a connection. */
#define LINK_STATES(X)                                                   \
    X(FINE, "fine", "all is well")                                       \
    X(REFUSED, "refused", "the connection was refused")                  \
    X(UNREACHABLE, "unreachable", "there is no route")                   \
    X(SILENT, "silent", "no answer came")                                \
    X(MUTE, "mute", "it was connected, and then no byte came back")      \
    X(STRANGER, "stranger", "another program answered")                  \
    X(BROKEN, "broken", "the connection broke")                          \
    X(LARGE_LOST, "large_lost", "small packets pass, large ones do not") \
    X(CORRUPTED, "corrupted", "bytes were changed on the way")

enum link_state {
#define X(name, word, text) LINK_##name,
    LINK_STATES(X)
#undef X
};

/* "refused"; and what it means. */
const char *link_state_word(enum link_state state);
const char *link_state_text(enum link_state state);
bool link_state_find(struct str word, enum link_state *out);

/* What became of a connection attempt, by its errno. */
enum link_state link_state_of(int sys);

/* -1, with errno. */
int stream_connect_begin(const struct address *to);
/* 0, or the errno of a connection that stream_connect_begin() began and that became writable. */
int stream_connect_error(int fd);
/* -1: nobody is waiting. */
int stream_accept(int listener);
/* The connected address of the far end, or of this one. False: it is not connected any more. */
bool stream_peer(int fd, struct address *out);
bool stream_own(int fd, struct address *out);

/* LINK_FINE; LINK_SILENT: the deadline passed; LINK_BROKEN. */
enum link_state stream_write(int fd, const void *at, size_t len, uint64_t end_ms);
enum link_state stream_read(int fd, void *at, size_t len, uint64_t end_ms);

/* Waits until it can be read or written (POLLIN, POLLOUT), or the deadline passes (false). */
bool stream_await(int fd, short events, uint64_t end_ms);
/* A line of at most max bytes, without its end; `rest` keeps what follows it. */
enum link_state stream_line(int fd, struct buf *rest, size_t max, struct buf *line,
                            uint64_t end_ms);
