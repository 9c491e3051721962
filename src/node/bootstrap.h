/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of an agent on a machine where muster need not be installed. The transport runs `sh` there, which reads a
 * script (bootstrap.sh) from its standard input: the same bytes for every transport, and no shell on the way takes words apart.
 *
 * The script starts muster at the head's own path if that is the head's own program; else a program that is kept in a
 * cache folder under the name of its bundle (bundle.h); else it asks for the bundle, keeps it, and starts that. What
 * it says are lines that begin with BOOTSTRAP_MARK, between whatever a login shell prints:
 *
 *     need MACHINE [gzip]     send the bundle for such a machine, as bundle_pack() makes it
 *     go HOW [FOLDER]         the program is started now: its own bytes follow (wire.h)
 *     fail WHAT [WORDS]       the program cannot be started
 *
 * After the script the head sends nothing before `need`, and after a bundle nothing before the script's next line:
 * shells and `head -c` may read more than they use. This is the head's side of it, pure.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "node/bundle.h"

#define BOOTSTRAP_MARK "\n\001muster-start "
/* The cure for a program that does not start there. */
#define BOOTSTRAP_CURE \
    " (a portable build beside muster would, or --agent-path names one that is installed there)"

enum {
    BOOTSTRAP_LINE_MAX_BYTES = 4096,
    BOOTSTRAP_NEEDS_MAX =
        8, /* a bundle is asked for again if the first folder has no room for it */
    BOOTSTRAP_BYTES_PER_S = 16 * 1024 /* a connection that is slower for a bundle is given up */
};

/* Facts for the script. */
struct bootstrap_opts {
    const struct bundles *bundles;
    const char *self_path, *boot_id; /* of this machine; NULL or "": not known */
    uint64_t pid;                    /* of this process */
    uint64_t nonce;                  /* different for each start of a transport */
};
void bootstrap_script_add(const struct bootstrap_opts *opts, struct buf *out);

/* noise: the beginning of the bytes between the lines, for a message. */
struct bootstrap {
    struct buf in;
    struct buf noise;
    uint64_t n_noise_bytes;
    unsigned n_needs;
    bool is_over; /* `go` or `fail` came, or malformed bytes */
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
    bool was_installed; /* of BOOTSTRAP_GO: the program was installed just now */
    char folder[512];   /* with the program; "": it is at the head's own path */
};

void bootstrap_feed(struct bootstrap *bootstrap, struct str bytes);
/* Takes the next line. After BOOTSTRAP_GO, bootstrap->in has the program's first bytes. */
enum bootstrap_result bootstrap_next(struct bootstrap *bootstrap, struct bootstrap_line *line,
                                     struct err *err);
void bootstrap_release(struct bootstrap *bootstrap);
