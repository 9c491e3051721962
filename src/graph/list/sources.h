/* SPDX-License-Identifier: Apache-2.0
 *
 * The sources of arguments that words and files give: `:::`, `::::`, their linked forms, names and
 * columns.
 */
#pragma once

#include "graph/list/list.h"

/* The position of the next `:::` or its like, or n_words. */
size_t mark_find(const struct graph_list_wish *wish, size_t from);
/* Fills in the sources; command and n_command are known. Their lengths are as they were given. */
MUST_CHECK int sources_read(struct graph_list *list, const struct graph_list_wish *wish,
                            struct err *err);
/* A new source at the end, valid until the next one. NULL: ERR_USAGE, there are too many. */
struct list_source *source_add(struct graph_list *list, bool is_linked, struct err *err);
void source_push(struct list_source *source, struct str argument);
/* Makes sources of the columns of each source that has no name. ERR_USAGE if there are too many. */
MUST_CHECK int columns_split(struct graph_list *list, const char *separator, struct err *err);
