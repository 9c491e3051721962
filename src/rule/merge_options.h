/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user says about how files become one, records and tensors alike: the options that `muster merge` and the
 * shards of `muster map` share.
 */
#pragma once

#include <stdbool.h>

#include "base/texts.h"

struct merge_options {
    const char *
        id_field; /* every record has it, each value once; of .pt files a path; NULL: not looked at */
    bool is_union;             /* CSV: columns that only some files have are empty elsewhere */
    struct texts rules;        /* PATH=VERB */
    const char *rules_path;    /* NULL, or a file of more */
    struct texts referred;     /* PATH=REFERENCE,… */
    bool is_renumbered;        /* ids that are not unique are numbered anew */
    bool is_plain, is_compact; /* .pt: without numpy's objects; without unused parts of storages */
    bool pass_through;         /* .pt: what is no data is carried over unseen */
};
