/* SPDX-License-Identifier: Apache-2.0
 *
 * One file on its way over a link: a sender at one end, a receiver at the other. The disk is read and written by threads,
 * so a slow disk holds back its own file alone; each end holds at most FILE_WINDOW_BYTES of it, and twice that while a
 * transfer is resumed.
 *
 * The receiver grants bytes as it has written them. The last message has the size and the hash of the whole file; the
 * file gets its name only if both are right. A receiver outlives the link: over a new one, another sender goes on where
 * the bytes ended.
 */
#pragma once

#include <uv.h>

#include "node/left_file.h"
#include "node/wire.h"

enum {
    FILE_WINDOW_BYTES = 1 << 20,
    FILE_PIECE_BYTES = 256 * 1024 /* read and written at once */
};
#define FILE_ANY_BYTES UINT64_MAX /* the size of a file is not known before its end */

/* Called on the loop's thread, never from within a function of this header but file_sender_pump. */
struct file_flow_handlers {
    void (*send)(void *context, enum frame_type type, struct str body);
    /* NULL for a receiver. */
    bool (*has_room)(void *context);
    /* Called once, and last. code 0: all bytes were sent; or the received file is whole and has its name. */
    void (*ended)(void *context, const struct err *why);
};

/* ---- from here ---- */

struct file_sender;
/* Takes the descriptor over. Leaves out the first `from` bytes, which the receiver has. */
struct file_sender *file_sender_new(uv_loop_t *loop, int fd, const struct file_trace *trace,
                                    uint64_t from, const struct file_flow_handlers *handlers,
                                    void *context);
/* Sends as much as credit and link allow: to be called at the start, and when the link has room again. */
void file_sender_pump(struct file_sender *sender);
/* False: the grant is for more than was sent. */
bool file_sender_grant(struct file_sender *sender, uint64_t n_bytes);
/* May be NULL. */
void file_sender_free(struct file_sender *sender);

/* ---- to here ---- */

struct file_receiver;
/* Receives a file of n_bytes. is_durable: the file and its name are synced before `ended`. */
struct file_receiver *file_receiver_new(uv_loop_t *loop, const char *path, uint64_t n_bytes,
                                        bool is_durable, const struct file_flow_handlers *handlers,
                                        void *context);
/* False: more bytes came than were granted, or than the file has. */
bool file_receiver_take(struct file_receiver *receiver, struct str bytes);
/* The sender has sent all. False: it had said so before, or with another size. */
bool file_receiver_end(struct file_receiver *receiver, uint64_t n_bytes, uint64_t hash);
/* Did all bytes come? They may not be written yet. */
bool file_receiver_is_whole(const struct file_receiver *receiver);
/* Goes on over another link: returns how many bytes are here already. */
uint64_t file_receiver_resume(struct file_receiver *receiver);
/* Removes the file, unless it is whole. May be NULL. */
void file_receiver_free(struct file_receiver *receiver);
