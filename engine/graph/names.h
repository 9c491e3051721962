/* SPDX-License-Identifier: Apache-2.0
 *
 * A dictionary: names and their indices 0 … n-1, both ways. Entities have one, relations another. Made
 * of names in the order in which they are first seen, or read from a file `name<TAB>index`.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "graph/flaws.h"

struct names {
    struct buf text;  /* all names, one behind the other */
    uint64_t *ends;   /* name i ends at ends[i], and begins where i-1 ended */
    uint32_t *hashes; /* of name i */
    uint32_t *slots;  /* open addressing: an index, or NO_NAME */
    size_t n, cap, n_slots;
};

#define NAMES_INIT       \
    {                    \
        .text = BUF_INIT \
    }
#define NO_NAME UINT32_MAX

void names_release(struct names *names);
#define cleanup_names __attribute__((cleanup(names_release)))
/* The index of a name, which is added as the last one if it is not there yet. */
uint32_t names_add(struct names *names, struct str name);
/* NO_NAME if it is not there. */
uint32_t names_find(const struct names *names, struct str name);
/* Borrowed. Precondition: index < n. */
struct str names_at(const struct names *names, size_t index);

/*
 * A file of `name<TAB>index`, in any order, whose indices are 0 … n-1: a model's tables have a row for each.
 * What is wrong is counted in flaws; if lines are lost (is_lenient or not), and indices are missing
 * therefore, that is ERR_DATA.
 */
MUST_CHECK int names_read(struct names *names, const char *path, bool is_lenient,
                          struct flaws *flaws, struct err *err);
/* The same form, in the order of the indices. */
MUST_CHECK int names_write(const struct names *names, const char *path, bool overwrite,
                           struct err *err);
