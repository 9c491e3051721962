/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that a shard leaves behind: which it is, whether it is new, how many records it holds.
 * Knows nothing of sessions, and may run on any thread.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/texts.h"
#include "data/source.h"
#include "tensor/kind.h"

/* A file as it was at one moment: when it is written to, or another takes its name, this changes. */
struct file_trace {
    char *path;
    uint64_t device, inode, bytes;
    int64_t mtime_ns;
};
struct file_traces {
    struct file_trace *at;
    size_t len;
};
void file_traces_release(struct file_traces *traces);

struct collect {
    const char *option;  /* "--collect", for messages */
    const char *pattern; /* of glob(); NULL: the file is `path` */
    const char *path;
    bool is_counted;           /* its records are to be counted, and be `expect` … */
    bool takes_any;            /* … or any number of them */
    const char *uncounted;     /* what asks for any number, for messages */
    enum tensor_kind tensors;  /* that they are, by their names */
    bool is_as_it_is;          /* nobody is going to read it: its name may say what it likes */
    const struct texts *rules; /* PATH=VERB: of counts that are taken as they are; NULL: none */
    const char *rules_path;    /* NULL, or of a file of more */
    enum record_format format;
    uint64_t expect;
    int64_t
        since_ns; /* what was written before is old (clock_file_ns); 0: `before` alone says it */
};

struct collected {
    bool is_absent; /* nothing new has such a name, and there may be something of another */
    char *path;     /* absolute */
    char *name;     /* as the pattern found it */
    uint64_t bytes;
    uint64_t records; /* UINT64_MAX: not counted */
};

/* What is there already, before the program starts, and will not count unless it is written anew. */
MUST_CHECK int collect_before(const struct collect *ask, struct file_traces *before,
                              struct err *err);
/*
 * The file that the program left behind, synced to disk. ERR_DATA, with the cure, when there is none,
 * an old one, more than one, or one with another number of records.
 */
MUST_CHECK int collect_find(const struct collect *ask, const struct file_traces *before,
                            struct collected *out, struct err *err);
