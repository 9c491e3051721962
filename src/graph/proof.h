/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a job was to leave, and those that it read: are they there, and which are they? A file is known by its
 * size and a hash of its content; a folder by those of all files in it, with their names. Times and inodes only tell when
 * nothing has to be read again.
 */
#pragma once

#include <stdatomic.h>
#include <sys/stat.h>

#include "base/name_index.h"
#include "graph/plan.h"

struct file_mark {
    char *path;       /* absolute */
    uint64_t n_bytes; /* of a folder: of all its files */
    int64_t mtime_ns; /* of a folder: the latest of it and all in it */
    uint64_t hash;
    /* For looks within one session, not written down: a copy of a project has others. 0: not compared. */
    int64_t ctime_ns; /* likewise */
    uint64_t inodes;  /* the sum of the numbers */
};

struct job_proof {
    struct file_mark *outs, *inputs;
    size_t n_outs, n_inputs;
    struct err why; /* code 0: the job has left what it was to leave */
};

struct proof_ask {
    const struct plan_job *job;
    const char *cwd;                /* of relative paths; absolute */
    int64_t since_ns;               /* the outs have to be written after this; 0: no matter when */
    const struct stat *outs_before; /* by outs_look(), when the job started; NULL: not looked */
    const atomic_bool
        *is_given_up; /* once another thread sets it, the proof fails with ERR_STOPPED; or NULL */
    uint64_t patience_ms; /* how long to wait for files that were written on another machine */
};

/* The path of an out in the folder `cwd`, as marks have it: free() it. */
char *out_path_new(const char *cwd, const char *path);
/* Looks at the places of the outs; before[i] is zero where nothing is. */
void outs_look(const struct proof_ask *ask, struct stat *before);

/* Reads all files; takes as long as that takes. `out` must be empty. */
void job_proof_take(const struct proof_ask *ask, struct job_proof *out);
void job_proof_release(struct job_proof *proof);
/* Takes the marks of the outs, without their paths: free() them. NULL: there are none. */
struct file_mark *job_proof_steal(struct job_proof *proof);
/* Of the outs alone. */
uint64_t job_proof_digest(const struct job_proof *proof);
/* A JSON array. */
void marks_format(const struct file_mark *marks, size_t n_marks, struct buf *out);

enum mark_change {
    MARK_SAME,
    MARK_GONE,
    MARK_CHANGED,
    MARK_UNKNOWN,   /* it could not be read, as without a free descriptor */
    MARK_UNREADABLE /* the text is none of marks_format() */
};
/* Adds the paths of the marks of a text. */
void marks_paths(const char *text, struct name_index *out);
/*
 * Compares what is at this path now with its mark. Content is read only where times or inodes
 * differ. *now, if MARK_SAME: the present mark, without a path. `is_given_up` as in struct
 * proof_ask; once it is set, the result is MARK_UNKNOWN.
 */
enum mark_change mark_compare(const struct file_mark *before, const char *path,
                              const atomic_bool *is_given_up, struct file_mark *now);
/*
 * By the inode of a regular file, without reading it: was it not written or touched since the mark
 * was taken, or was it? Both are false for all else, such as a folder.
 */
bool mark_is_untouched(const struct file_mark *before, const char *path);
bool mark_is_touched(const struct file_mark *before, const char *path);
/*
 * mark_compare() for all marks of a text. *path: of the first that is not MARK_SAME, a new string.
 */
enum mark_change marks_compare(const char *text, char **path);
/*
 * Also fills now[n_now] as mark_compare() does. *n_marks: the marks in the text, which may be more
 * than n_now; *now then lacks the last ones.
 */
enum mark_change marks_renew(const char *text, char **path, struct file_mark *now, size_t n_now,
                             size_t *n_marks);
