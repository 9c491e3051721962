/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/node_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    NAMES_MAX = 65536,
    BRACKETS_MAX = 8 /* in one name */
};

static int malformed(struct str text, struct err *err)
{
    return fail(err, ERR_DATA, "'%.*s' is no list of nodes as Slurm writes it", (int)text.len,
                text.at);
}

/* NOLINTBEGIN(misc-no-recursion): once for each bracket of a name, at most BRACKETS_MAX */
static int names_expand(struct str before, struct str rest, struct env_list *out, struct err *err);

/* Expands one number of a bracket. The number gets as many digits as the first number of its range. */
static int number_expand(struct str before, uint64_t number, size_t n_digits, struct str after,
                         struct env_list *out, struct err *err)
{
    cleanup_buf struct buf name = BUF_INIT;
    buf_add_str(&name, before);
    buf_addf(&name, "%0*lu", (int)n_digits, number);
    return names_expand(buf_str(&name), after, out, err);
}

/* Expands one range of a bracket, "1-3" or "07". */
static int range_expand(struct str before, struct str range, struct str after, struct env_list *out,
                        struct err *err)
{
    const char *dash = memchr(range.at, '-', range.len);
    struct str first = {range.at, dash ? (size_t)(dash - range.at) : range.len};
    struct str last = dash ? (struct str){dash + 1, range.len - first.len - 1} : first;
    uint64_t begin = 0, end = 0;
    if (u64_parse(first, 0, UINT32_MAX, &begin, NULL) != 0 ||
        u64_parse(last, begin, UINT32_MAX, &end, NULL) != 0)
        return malformed(range, err);
    int rc = 0;
    for (uint64_t number = begin; rc == 0 && number <= end; number++)
        rc = number_expand(before, number, first.len, after, out, err);
    return rc;
}

/* Expands `rest`. `before` is the part of the name that is expanded already. */
static int names_expand(struct str before, struct str rest, struct env_list *out, struct err *err)
{
    const char *open = memchr(rest.at, '[', rest.len);
    const char *close = open ? memchr(open, ']', rest.len - (size_t)(open - rest.at)) : NULL;
    cleanup_buf struct buf name = BUF_INIT;
    buf_add_str(&name, before);
    buf_add(&name, rest.at, open ? (size_t)(open - rest.at) : rest.len);
    if (open && !close)
        return malformed(rest, err);
    if (!open && out->len >= NAMES_MAX)
        return fail(err, ERR_DATA, "a list of more than %d nodes", NAMES_MAX);
    if (!open) {
        env_list_add(out, buf_steal(&name));
        return 0;
    }
    struct str ranges = {open + 1, (size_t)(close - open - 1)}, range;
    struct str after = {close + 1, rest.len - (size_t)(close + 1 - rest.at)};
    int rc = 0;
    while (rc == 0 && str_next(&ranges, ',', &range))
        rc = range_expand(buf_str(&name), range, after, out, err);
    return rc;
}

/* NOLINTEND(misc-no-recursion) */

/* Cuts off the piece before the next comma that is not inside brackets. */
static bool piece_next(struct str *rest, struct str *piece)
{
    size_t len = 0, depth = 0;
    if (rest->len == 0)
        return false;
    for (; len < rest->len && (depth > 0 || rest->at[len] != ','); len++)
        depth += (size_t)(rest->at[len] == '[') - (size_t)(rest->at[len] == ']' && depth > 0);
    *piece = (struct str){rest->at, len};
    rest->at += MIN(len + 1, rest->len);
    rest->len -= MIN(len + 1, rest->len);
    return true;
}

static bool is_name(struct str piece)
{
    bool is = piece.len > 0;
    unsigned n_brackets = 0;
    for (size_t i = 0; i < piece.len; i++) {
        is = is && (isalnum((unsigned char)piece.at[i]) || strchr("-._[],", piece.at[i]));
        n_brackets += piece.at[i] == '[';
    }
    return is && n_brackets <= BRACKETS_MAX;
}

int slurm_node_names(const char *list, struct env_list *out, struct err *err)
{
    struct str rest = str_of(list), piece;
    int rc = rest.len > 0 ? 0 : malformed(rest, err);
    while (rc == 0 && piece_next(&rest, &piece))
        rc = is_name(piece) ? names_expand(STR(""), piece, out, err) : malformed(piece, err);
    return rc;
}

/* Reads "2(x3)" (2 tasks on each of 3 nodes) or "1". */
static bool count_parse(struct str piece, uint64_t *n_tasks, uint64_t *n_nodes)
{
    const char *open = memchr(piece.at, '(', piece.len);
    struct str tasks = {piece.at, open ? (size_t)(open - piece.at) : piece.len};
    struct str nodes = {open, piece.len - tasks.len};
    *n_nodes = 1;
    if (u64_parse(tasks, 1, UINT32_MAX, n_tasks, NULL) != 0)
        return false;
    if (!open)
        return true;
    return nodes.len > 3 && str_starts_with(nodes, STR("(x")) && str_ends_with(nodes, STR(")")) &&
           u64_parse((struct str){open + 2, nodes.len - 3}, 1, NAMES_MAX, n_nodes, NULL) == 0;
}

int slurm_task_count(const char *list, uint32_t node, uint32_t *out, struct err *err)
{
    struct str rest = str_of(list), piece;
    uint64_t n_tasks, n_nodes, seen = 0;
    bool is_found = false;
    while (str_next(&rest, ',', &piece)) {
        if (!count_parse(piece, &n_tasks, &n_nodes))
            return fail(err, ERR_DATA, "'%.*s' is no count of tasks as Slurm writes it",
                        (int)piece.len, piece.at);
        if (!is_found && node < seen + n_nodes) {
            *out = (uint32_t)n_tasks;
            is_found = true;
        }
        seen += n_nodes;
    }
    return is_found ? 0 : fail(err, ERR_DATA, "it has no count of tasks for node %u", node);
}
