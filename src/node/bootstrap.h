/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of an agent on a machine where muster need not be installed. The transport runs `sh` there, which reads a
 * script (bootstrap.sh) from its standard input: the same bytes for every transport, and no shell on the way takes words apart.
 *
 * The script starts muster at the head's own path if that is the head's own program; else a program that is kept in a
 * cache folder under the name of its bundle (bundle.h); else it asks for the bundle, keeps it, and starts that. What
 * it says are lines that begin with BOOTSTRAP_MARK, between whatever a login shell prints:
 *
 *     need MACHINE [gzip]     the bundle for such a machine is to be sent, as bundle_pack() makes it
 *     go HOW [FOLDER]         the program is started now: its own bytes follow (wire.h)
 *     fail WHAT [WORDS]       it cannot be
 *
 * Nothing is sent behind the script before `need`, and nothing behind a bundle before the next line of the script:
 * shells and `head -c` may read more than they use. This is the head's side of it, pure.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "node/bundle.h"

#define BOOTSTRAP_MARK "\n\001muster-start "
/* For a program that does not start there. */
#define BOOTSTRAP_CURE \
    " (a portable build beside muster would, or --agent-path names one that is installed there)"

enum {
    BOOTSTRAP_LINE_MAX_BYTES = 4096,
    BOOTSTRAP_NEEDS_MAX =
        8, /* a bundle is asked for again if the first folder has no room for it */
    BOOTSTRAP_BYTES_PER_S = 16 * 1024 /* a way that takes longer for a bundle is given up */
};

/* Facts for the script. */
struct bootstrap_opts {
    const struct bundles *bundles;
    const char *self_path, *boot_id; /* of this machine; NULL or "": not known */
    uint64_t pid;                    /* of this process */
    uint64_t nonce;                  /* another one for each start of a transport */
};
void bootstrap_script_add(const struct bootstrap_opts *opts, struct buf *out);

/* The beginning of what came between the lines, for a message; and how much it was. */
struct bootstrap {
    struct buf in;
    struct buf noise;
    uint64_t n_noise_bytes;
    unsigned n_needs;
    bool is_over; /* `go` or `fail` came, or bytes that cannot be understood */
};

enum bootstrap_result {
    BOOTSTRAP_MORE, /* bytes are needed */
    BOOTSTRAP_NEED,
    BOOTSTRAP_GO,
    BOOTSTRAP_FAILED /* err says why; ERR_UNAVAILABLE, ERR_DATA */
};

struct bootstrap_line {
    char machine[BUNDLE_MACHINE_BYTES]; /* of BOOTSTRAP_NEED */
    bool has_gzip;
    bool was_installed; /* of BOOTSTRAP_GO: just now */
    char folder[512];   /* where it is kept; "": at the head's own path */
};

void bootstrap_feed(struct bootstrap *bootstrap, struct str bytes);
/* The next line. After BOOTSTRAP_GO, bootstrap->in are the first bytes of the program. */
enum bootstrap_result bootstrap_next(struct bootstrap *bootstrap, struct bootstrap_line *line,
                                     struct err *err);
void bootstrap_release(struct bootstrap *bootstrap);
