/* SPDX-License-Identifier: Apache-2.0
 *
 * Bundles: the files that make an agent on a machine where nothing is installed, for one kind of machine (`uname
 * -m`). A bundle is a folder agents/MACHINE beside muster or in its libexec. If there is no such folder for the kind
 * of this machine, the bundle is the running program itself, with its companions and with the shared libraries that
 * do not belong to libc.
 *
 * Only the loaded part of an ELF file is sent: debug symbols and section headers stay here. A bundle's name is a hash
 * of the names and bytes of its files, so that the far side recognises it by its name.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    BUNDLE_HASH_BYTES = 33, /* hex, with the NUL */
    BUNDLE_MACHINE_BYTES = 32
};

struct bundle_file {
    char *name; /* in the bundle: "lib/libuv.so.1" */
    char *path; /* here */
    size_t n_bytes;
};

/* How a bundle is sent. */
enum bundle_form {
    BUNDLE_PLAIN,
    BUNDLE_GZIP,
    BUNDLE_FORMS
};

struct bundle {
    char machine[BUNDLE_MACHINE_BYTES];
    char name[BUNDLE_HASH_BYTES];
    char program[BUNDLE_HASH_BYTES]; /* the hash of its muster */
    struct bundle_file *files;       /* in the order of their names */
    size_t n_files;
    struct buf packed[BUNDLE_FORMS]; /* empty: not asked for yet */
};

struct bundles {
    const char *self_path; /* of the running program */
    struct bundle *at;
    size_t len;
    char program[BUNDLE_HASH_BYTES]; /* the hash of the running program; "": not known yet */
};

/*
 * Finds the bundles that can be sent from here, when it is called for the first time. ERR_USAGE if one cannot be
 * read.
 */
MUST_CHECK int bundles_find(struct bundles *bundles, struct err *err);
void bundles_release(struct bundles *bundles);
/* NULL: there is none for such a machine. */
struct bundle *bundles_get(const struct bundles *bundles, struct str machine);

/*
 * The bytes to send, borrowed: a line with the number of bytes that follow, the checksum that the command cksum gives
 * for the concatenated files, and NAME:BYTES of each file; then these bytes, plain or through gzip.
 */
MUST_CHECK int bundle_pack(struct bundle *bundle, enum bundle_form form, struct str *out,
                           struct err *err);

/* Makes a bundle of the files in a folder. */
MUST_CHECK int bundle_of_folder(const char *folder, struct bundle *out, struct err *err);
void bundle_release(struct bundle *bundle);
/* The hash of the running program. */
MUST_CHECK int program_hash(char out[BUNDLE_HASH_BYTES], struct err *err);
