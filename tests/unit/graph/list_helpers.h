/* SPDX-License-Identifier: Apache-2.0
 *
 * Wishes from texts, and plans as texts.
 */
#pragma once

#include "base/shell.h"
#include "graph/list/list.h"
#include "list_cases.h"

struct wish_of_case {
    struct env_list words;
    struct graph_list_wish wish;
};

/* The wish of a case; its input is a file that is open. */
void wish_open(struct wish_of_case *out, const struct list_case *row);
void wish_close(struct wish_of_case *wish);
/* A descriptor of a file with these bytes. */
int bytes_open(struct str bytes);
/* The jobs as in struct list_case, with is_shell of the row. */
void plan_print(struct buf *out, const struct plan *plan, bool is_shell);
