/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP connections. Every step has a deadline, in milliseconds of clock_now_ms(). All sockets are non-blocking.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "rendezvous/address.h"

/* The state of a connection: what a link can do to it. */
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

/* The word of a state, "refused"; and a text that explains the state. */
const char *link_state_word(enum link_state state);
const char *link_state_text(enum link_state state);
bool link_state_find(struct str word, enum link_state *out);

/* The state of a connection attempt, from its errno. */
enum link_state link_state_of(int sys);

/* Begins to connect. -1 with errno on a failure. */
int stream_connect_begin(const struct address *to);
/* The result of stream_connect_begin(), once the socket is writable: 0 or an errno. */
int stream_connect_error(int fd);
/* Accepts a connection; -1: none waits. */
int stream_accept(int listener);
/* The address of the far end, or of this end. Returns false if the socket is no longer connected. */
bool stream_peer(int fd, struct address *out);
bool stream_own(int fd, struct address *out);

/* Writes all bytes. LINK_FINE; LINK_SILENT: the deadline has passed; LINK_BROKEN. */
enum link_state stream_write(int fd, const void *at, size_t len, uint64_t end_ms);
enum link_state stream_read(int fd, void *at, size_t len, uint64_t end_ms);

/* Waits until the socket can be read or written (POLLIN, POLLOUT). Returns false if the deadline passes first. */
bool stream_await(int fd, short events, uint64_t end_ms);
/* Reads a line of at most max bytes, without its newline; `rest` keeps the bytes after the line. */
enum link_state stream_line(int fd, struct buf *rest, size_t max, struct buf *line,
                            uint64_t end_ms);
