/* SPDX-License-Identifier: Apache-2.0
 *
 * What muster fit found is remembered: for a command, its program and a kind of device, the best
 * batch size. The file is fit.json in MUSTER_CACHE_DIR, else in muster/ of XDG_CACHE_HOME or
 * ~/.cache. It is replaced whole, under a lock; a file that is damaged or somebody else's is left
 * out of account, with a sentence on stderr, and nothing depends on it.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "node/environment.h"

enum {
    FIT_MEMOS_MAX = 256, /* the oldest is dropped */
    FIT_MEMO_BYTES_MAX = 4 << 20,
    FIT_TEXT_BYTES_MAX = 32768 /* a longer command is not remembered */
};

/* What a result is about. All texts are owned. */
struct fit_signature {
    char *command; /* as it is typed, with {batch}, behind what --env and --setup add */
    char *program; /* files of the program: path, size and time of change of each */
    char *device;  /* its name: all devices of a name and size are one */
    uint64_t device_bytes;
};

struct fit_memo {
    struct fit_signature of;
    char *wish;                              /* the options that decide the result */
    char *when;                              /* RFC 3339 */
    uint64_t batch, peak_bytes, limit_bytes; /* peak 0: not known */
    double rate, fixed_bytes, item_bytes;    /* rate, item_bytes 0: not known */
};

struct fit_memos {
    struct fit_memo *at; /* the oldest first */
    size_t len;
};

void fit_signature_make(struct fit_signature *out, const char *const *command,
                        const struct environment_wish *environment, const char *device,
                        uint64_t device_bytes);
void fit_signature_release(struct fit_signature *signature);
void fit_memo_release(struct fit_memo *memo);

/*
 * For any verb: the newest result for this signature, with these options (wish NULL: with any).
 * False if there is none, or what is there cannot be used; a sentence then says why, unless there
 * simply is nothing.
 */
bool fit_recall(const struct fit_signature *signature, const char *wish, struct fit_memo *out);
/*
 * Takes the place of an older result with the same signature and options. ERR_SYS, ERR_USAGE: it
 * could not be kept.
 */
MUST_CHECK int fit_remember(const struct fit_memo *memo, struct err *err);
/*
 * Forgets what is remembered of a command (NULL: all), on every device. *n_forgotten: how many
 * results.
 */
MUST_CHECK int fit_forget(const struct fit_signature *signature, size_t *n_forgotten,
                          struct err *err);
void fit_memos_read(struct fit_memos *out);
void fit_memos_release(struct fit_memos *memos);

/*
 * Text to value and back. False: the text is not what fit_memos_format() writes; *out is empty
 * then. Pure.
 */
bool fit_memos_parse(struct str text, struct fit_memos *out);
void fit_memos_format(const struct fit_memos *memos, struct buf *out);
