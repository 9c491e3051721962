/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's options for merging files of records and files of tensors. `muster merge` and the
 * shards of `muster map` share them.
 */
#pragma once

#include <stdbool.h>

#include "base/texts.h"

struct merge_options {
    const char *id_field;      /* unique in every record; .pt: a path pattern; NULL: unchecked */
    bool is_union;             /* CSV: columns that only some files have are empty elsewhere */
    struct texts rules;        /* PATH=VERB */
    const char *rules_path;    /* a file with more rules; NULL: no such file */
    struct texts referred;     /* PATH=REFERENCE,… */
    bool is_renumbered;        /* give new numbers to ids if they are not unique */
    bool is_plain, is_compact; /* .pt: no numpy objects; no unused parts of storages */
    bool pass_through;         /* .pt: copy unknown callables as they are */
};
