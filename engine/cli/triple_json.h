/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of JSON objects about triples, with the names and in the order of TiePin's programs.
 */
#pragma once

#include "cli/json_out.h"
#include "cli/kge_data.h"

/* Adds PREFIX_head, PREFIX_relation, PREFIX_tail: indices. Prefix "": head, relation, tail. */
void triple_json_indices(struct json_out *json, const char *prefix, struct triple triple);
/*
 * Adds PREFIX_head_label …: names in the files; and PREFIX_head_name …: readable names, if any were
 * read.
 */
void triple_json_labels(struct json_out *json, const char *prefix, const struct kge_data *data,
                        struct triple triple);
/* Adds "KEY": ["head", "relation", "tail"]: names in the files. */
void triple_json_names(struct json_out *json, const char *key, const struct kge_data *data,
                       struct triple triple);
/* Adds "key": [head, relation, tail], as indices. */
void triple_json_ids(struct json_out *json, const char *key, struct triple triple);
