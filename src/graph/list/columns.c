/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of lines as sources that are linked to each other.
 */
#include <string.h>

#include "graph/list/sources.h"

enum {
    COLUMNS_MAX = 1000,
    CELLS_MAX = 16000000
};

/* Cuts the next column off the front of *rest, whose `at` is NULL behind the last one. */
static bool column_next(struct str *rest, struct str separator, struct str *column)
{
    if (!rest->at)
        return false;
    const char *found = memmem(rest->at, rest->len, separator.at, separator.len);
    *column = *rest;
    *rest = (struct str){0};
    if (found) {
        size_t len = found - column->at, taken = len + separator.len;
        *rest = (struct str){found + separator.len, column->len - taken};
        column->len = len;
    }
    return true;
}

static size_t columns_max(const struct list_source *source, struct str separator)
{
    size_t most = 1;
    for (size_t i = 0; i < source->len; i++) {
        struct str rest = source->at[i], column;
        size_t n = 0;
        while (column_next(&rest, separator, &column))
            n++;
        most = MAX(most, n);
    }
    return most;
}

/* Lines with fewer columns get some without text (NULL). */
static void source_split(struct list_source *sources, size_t n_columns,
                         const struct list_source *whole, struct str separator)
{
    for (size_t i = 0; i < whole->len; i++) {
        struct str rest = whole->at[i], column;
        for (size_t k = 0; k < n_columns; k++) {
            bool is_there = column_next(&rest, separator, &column);
            source_push(&sources[k], is_there ? column : (struct str){0});
        }
    }
}

static int source_columns(struct graph_list *list, const struct list_source *whole,
                          struct str separator, struct err *err)
{
    size_t n = columns_max(whole, separator), begin = list->n_sources;
    if (n > COLUMNS_MAX || n * whole->len > CELLS_MAX)
        return fail(err, ERR_USAGE,
                    "there are %zu columns in %zu lines of arguments, at most %d in a line and %d "
                    "in all can be used; leave out those that the command does not need",
                    n, whole->len, COLUMNS_MAX, CELLS_MAX);
    for (size_t k = 0; k < n; k++)
        if (!source_add(list, k > 0 || whole->is_linked, err))
            return ERR_USAGE;
    source_split(list->sources + begin, n, whole, separator);
    return 0;
}

/* As it is. */
static int source_copy(struct graph_list *list, const struct list_source *whole, struct err *err)
{
    struct list_source *copy = source_add(list, whole->is_linked, err);
    if (!copy)
        return ERR_USAGE;
    copy->name = whole->name;
    for (size_t i = 0; i < whole->len; i++)
        source_push(copy, whole->at[i]);
    return 0;
}

int columns_split(struct graph_list *list, const char *separator, struct err *err)
{
    struct str text = strcmp(separator, "\\t") == 0 ? STR("\t") : str_of(separator);
    struct list_source *whole = list->sources;
    size_t n_whole = list->n_sources;
    int rc = 0;
    if (text.len == 0)
        return fail(err, ERR_USAGE, "the separator of columns is empty; give one, such as ,");
    list->sources = NULL;
    list->n_sources = 0;
    for (size_t i = 0; i < n_whole; i++) {
        if (rc == 0)
            rc = whole[i].name.len > 0 ? source_copy(list, &whole[i], err)
                                       : source_columns(list, &whole[i], text, err);
        free(whole[i].at);
    }
    free(whole);
    return rc;
}
