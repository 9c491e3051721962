/* SPDX-License-Identifier: Apache-2.0
 *
 * Readable names of entities and relations, besides their names in the files of triples.
 */
#pragma once

#include "base/err.h"
#include "graph/flaws.h"
#include "graph/names.h"

/* A text for some of the indices 0 … n-1. */
struct labels {
    struct buf text;
    struct label {
        uint64_t begin; /* in `text` */
        uint32_t len;
        bool is_there;
    } * at;
    size_t n;
};

#define LABELS_INIT      \
    {                    \
        .text = BUF_INIT \
    }

void labels_release(struct labels *labels);
#define cleanup_labels __attribute__((cleanup(labels_release)))
/* Sets *text; false if there is none. labels->n is 0 if no file was read. */
bool labels_get(const struct labels *labels, size_t index, struct str *text);

/*
 * Reads a node_name_dict: lines of `readable name<TAB>index`. A name may have several indices. If
 * an index has several names, the last one counts.
 */
MUST_CHECK int labels_read_names(struct labels *labels, const char *path, size_t n_entities,
                                 bool is_lenient, struct flaws *flaws, struct err *err);

/*
 * Reads an edge_map.json: {"<JSON text with a member predicate>": "<name of a relation>", …}. The
 * label is the predicate. Members whose key has no predicate, or whose value is no relation of the
 * dictionary, are counted in *n_unknown.
 */
MUST_CHECK int labels_read_edge_map(struct labels *labels, const char *path,
                                    const struct name_index *relations, uint64_t *n_unknown,
                                    struct err *err);
/* Like labels_read_edge_map(), for a text that was read before. */
MUST_CHECK int labels_parse_edge_map(struct labels *labels, struct str text,
                                     const struct name_index *relations, uint64_t *n_unknown,
                                     struct err *err);
/*
 * Adds the member `predicate` of a JSON object to out. Returns false if the text is no object with
 * this member.
 */
bool predicate_of(struct str text, struct buf *out);
