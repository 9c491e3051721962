/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that a shard leaves: its name (node/left_file.h), and how many records it holds. These
 * functions use no session, and may run on any thread.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/texts.h"
#include "data/source.h"
#include "node/left_file.h"
#include "tensor/kind.h"

struct collect {
    struct left_ask left;
    bool is_counted;           /* the file's records are counted, and must be `expect` … */
    bool takes_any;            /* … or any number of them */
    const char *uncounted;     /* the option that allows any number, for messages */
    enum tensor_kind tensors;  /* the kind that the files' names promise */
    bool is_as_it_is;          /* the file is not parsed, so its extension does not matter */
    const struct texts *rules; /* PATH=VERB for counts that are taken as they are; NULL: none */
    const char *rules_path;    /* a file with further rules; NULL: none */
    const char *passing_path;  /* the {input} that muster removes at the end; NULL: none */
    enum record_format format;
    uint64_t expect;
};

struct collected {
    bool is_absent; /* no new file has such a name; one may be there under another name */
    char *path;     /* absolute */
    char *name;     /* as matched by the pattern */
    char *origin;   /* HOST:PATH, if the program left it on another host; NULL: at `path` */
    uint64_t bytes;
    uint64_t records; /* UINT64_MAX: not counted */
};
void collected_release(struct collected *collected);

/*
 * Notes the files that exist before the program starts; they do not count unless they are written
 * again.
 */
MUST_CHECK int collect_before(const struct collect *ask, struct file_traces *before,
                              struct err *err);
/*
 * Finds the file that the program left, and syncs it to disk. ERR_DATA, with the cure, if there is
 * none, only an old one, more than one, or one with another number of records.
 */
MUST_CHECK int collect_find(const struct collect *ask, const struct file_traces *before,
                            struct collected *out, struct err *err);
/*
 * Counts the records of out->path, and sets out->records. ERR_DATA if they are not as many as is
 * asked for.
 */
MUST_CHECK int collect_count(const struct collect *ask, struct collected *out, struct err *err);
