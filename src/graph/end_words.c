/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/end_words.h"

enum {
    LINE_SHOWN = 512 /* bytes: a sentence of muster's own may end with the path of a run */
};

/* What matters among the lines of one of muster's own verbs; empty: there is none. */
struct verb_lines {
    struct str own;      /* the last that muster itself said, without its name */
    struct str aside;    /* the last item that was set aside */
    struct str n_failed; /* "1 item, with reasons in out.failed.jsonl" */
    struct str said;     /* the last line of a rank, before the one of muster's that names it */
};

static void line_add(struct str line, struct buf *out)
{
    line = str_trim(line);
    if (line.len > 0)
        buf_addf(out, ": %.*s", (int)MIN(line.len, (size_t)LINE_SHOWN), line.at);
}

static struct str behind(struct str line, struct str beginning)
{
    return (struct str){line.at + beginning.len, line.len - beginning.len};
}

static bool is_said(struct str line)
{
    return line.len > 0 && line.at[0] != ' ' && line.at[0] != '\t' &&
           !str_starts_with(line, STR("==> "));
}

static struct verb_lines lines_find(struct str tail)
{
    static const struct str own = {"muster: ", 8}, aside = {"set aside: ", 11},
                            n_failed = {"  failed ", 9};
    struct verb_lines found = {0};
    struct str line, said = {0};
    while (tail.len > 0 && str_next(&tail, '\n', &line)) {
        if (str_starts_with(line, own)) {
            found.own = behind(line, own);
            found.said = said;
            if (str_starts_with(found.own, aside))
                found.aside = found.own;
        } else if (str_starts_with(line, n_failed)) {
            found.n_failed = str_trim(behind(line, n_failed));
        } else if (is_said(line)) {
            said = line;
        }
    }
    return found;
}

static void last_line_add(struct str tail, struct buf *out)
{
    struct str last = str_trim(tail);
    const char *line = last.len > 0 ? memrchr(last.at, '\n', last.len) : NULL;
    line = line ? line + 1 : last.at;
    if (last.len > 0)
        line_add((struct str){line, (size_t)(last.at + last.len - line)}, out);
}

void end_words_add(struct str tail, enum plan_kind kind, struct buf *out)
{
    if (kind == PLAN_RUN) {
        last_line_add(tail, out);
        return;
    }
    struct verb_lines lines = lines_find(tail);
    if (kind == PLAN_MAP && lines.aside.len > 0) {
        line_add(lines.aside, out);
        if (lines.n_failed.len > 0)
            buf_addf(out, "; %.*s", (int)MIN(lines.n_failed.len, (size_t)LINE_SHOWN),
                     lines.n_failed.at);
        return;
    }
    if (lines.own.len == 0) {
        last_line_add(tail, out);
        return;
    }
    line_add(lines.own, out);
    if (kind == PLAN_LAUNCH)
        line_add(lines.said, out);
}
