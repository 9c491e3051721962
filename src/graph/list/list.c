/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/list/list.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "graph/list/replace.h"
#include "graph/list/sources.h"

/* The end of the sources that are linked to the one at `begin`. */
static size_t linked_end(const struct graph_list *list, size_t begin)
{
    size_t end = begin + 1;
    while (end < list->n_sources && list->sources[end].is_linked)
        end++;
    return end;
}

/* All linked sources get the length of the shortest one. */
static size_t linked_cut(struct graph_list *list, size_t begin, size_t end)
{
    size_t len = SIZE_MAX;
    for (size_t i = begin; i < end; i++)
        len = MIN(len, list->sources[i].len);
    for (size_t i = begin; i < end; i++)
        list->sources[i].len = len;
    return len;
}

static int jobs_count(struct graph_list *list, struct err *err)
{
    list->n_jobs = 1;
    for (size_t i = 0; i < list->n_sources; i++)
        if (list->sources[i].len == 0 && list->n_sources > 1)
            return fail(err, ERR_USAGE,
                        "source %zu of arguments is empty, and there are others; give it an "
                        "argument, or leave it out",
                        i + 1);
    for (size_t begin = 0, end; begin < list->n_sources; begin = end) {
        end = linked_end(list, begin);
        list->n_jobs *= linked_cut(list, begin, end);
        if (list->n_jobs > PLAN_JOBS_MAX)
            return fail(err, ERR_USAGE,
                        "the sources of arguments make more than %d jobs; split the list",
                        PLAN_JOBS_MAX);
    }
    return 0;
}

int graph_list_open(struct graph_list *list, const struct graph_list_wish *wish, struct err *err)
{
    *list = (struct graph_list){.command = wish->words, .n_command = mark_find(wish, 0)};
    if (list->n_command == 1 && strcmp(list->command[0], "{}") == 0)
        list->n_command = 0;
    int rc = sources_read(list, wish, err);
    if (rc == 0)
        rc = jobs_count(list, err);
    if (rc != 0)
        graph_list_release(list);
    return rc;
}

void graph_list_release(struct graph_list *list)
{
    for (size_t i = 0; i < list->n_sources; i++)
        free(list->sources[i].at);
    free(list->sources);
    env_list_release(&list->texts);
    *list = (struct graph_list){0};
}

void graph_list_arguments(const struct graph_list *list, size_t job, struct str *out)
{
    for (size_t end = list->n_sources, begin; end > 0; end = begin) {
        for (begin = end - 1; list->sources[begin].is_linked;)
            begin--;
        size_t len = list->sources[begin].len;
        for (size_t i = begin; i < end; i++)
            out[i] = list->sources[i].at[job % len];
        job /= len;
    }
}

int graph_list_read(const struct graph_list_wish *wish, struct plan *out, struct err *err)
{
    struct graph_list list;
    int rc = graph_list_open(&list, wish, err);
    if (rc != 0)
        return rc;
    rc = graph_list_plan(&list, wish, out, err);
    graph_list_release(&list);
    return rc;
}
