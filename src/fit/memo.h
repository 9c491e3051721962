/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers what muster fit found: the best batch size for a command, its program and a kind of device. The file is
 * fit.json in MUSTER_CACHE_DIR, else in muster/ of XDG_CACHE_HOME or ~/.cache. It is replaced as a whole, under a
 * lock. If the file is damaged or belongs to another user, it is ignored, with a sentence on stderr; muster works
 * without it.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "node/environment.h"

enum {
    FIT_MEMOS_MAX = 256, /* beyond that, the oldest one is dropped */
    FIT_MEMO_BYTES_MAX = 4 << 20,
    FIT_TEXT_BYTES_MAX = 32768 /* a longer command is not remembered */
};

/* What a result holds for. The struct owns all its texts. */
struct fit_signature {
    char *command; /* as typed, with {batch}, after the words of --env and --setup */
    char *program; /* path, size and time of change of each file of the program */
    char *device;  /* the name; devices of the same name and size are equal */
    uint64_t device_bytes;
};

struct fit_memo {
    struct fit_signature of;
    char *wish;                              /* the options that the result depends on */
    char *when;                              /* RFC 3339 */
    uint64_t batch, peak_bytes, limit_bytes; /* peak 0: not known */
    double rate, fixed_bytes, item_bytes;    /* rate, item_bytes 0: not known */
};

struct fit_memos {
    struct fit_memo *at; /* ordered by age, the oldest first */
    size_t len;
};

void fit_signature_make(struct fit_signature *out, const char *const *command,
                        const struct environment_wish *environment, const char *device,
                        uint64_t device_bytes);
void fit_signature_release(struct fit_signature *signature);
void fit_memo_release(struct fit_memo *memo);

/*
 * Finds the newest result for this signature with these options; `wish` NULL: with any options. Returns false if
 * there is no result, or if the file cannot be used; in the latter case it prints a sentence about the cause. For any
 * verb.
 */
bool fit_recall(const struct fit_signature *signature, const char *wish, struct fit_memo *out);
/*
 * Remembers a result in place of an older one with the same signature and options. ERR_SYS, ERR_USAGE if the result
 * cannot be kept.
 */
MUST_CHECK int fit_remember(const struct fit_memo *memo, struct err *err);
/* Forgets the results of a command on all devices; `signature` NULL: all results. *n_forgotten gets their number. */
MUST_CHECK int fit_forget(const struct fit_signature *signature, size_t *n_forgotten,
                          struct err *err);
void fit_memos_read(struct fit_memos *out);
void fit_memos_release(struct fit_memos *memos);

/*
 * Reads and writes the text of the file. Returns false if fit_memos_format() cannot have written the text; *out is
 * then empty. Pure.
 */
bool fit_memos_parse(struct str text, struct fit_memos *out);
void fit_memos_format(const struct fit_memos *memos, struct buf *out);
