/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/end_words.h"

#include "base/console_text.h"

enum {
    LINE_SHOWN = 512 /* bytes: a sentence of muster's own may end with the path of a run */
};

/* The lines of one of muster's own verbs that matter; a line that is missing is empty. */
struct verb_lines {
    struct str own;      /* the last that muster itself said, without its name */
    struct str aside;    /* the first item that was set aside, of those in the tail */
    struct str died;     /* before it: "cpu_0 died (status 4) after 0 items; its last words: no" */
    struct str n_failed; /* "1 item, with reasons in out.failed.jsonl" */
    struct str said;     /* the last line of a rank, before muster's line that names the rank */
};

static void words_add(struct str line, struct buf *out)
{
    console_words_add(out, str_trim(line), LINE_SHOWN);
}

static void line_add(struct str line, struct buf *out)
{
    if (str_trim(line).len == 0)
        return;
    buf_add_text(out, ": ");
    words_add(line, out);
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

static void own_take(struct verb_lines *found, struct str line)
{
    static const struct str aside = {"set aside: ", 11};
    found->own = line;
    if (found->aside.len > 0)
        return;
    if (str_starts_with(line, aside))
        found->aside = behind(line, aside);
    else
        found->died = line;
}

static struct verb_lines lines_find(struct str tail)
{
    static const struct str own = {"muster: ", 8}, n_failed = {"  failed ", 9};
    struct verb_lines found = {0};
    struct str line, said = {0};
    while (tail.len > 0 && str_next(&tail, '\n', &line)) {
        if (str_starts_with(line, own)) {
            own_take(&found, behind(line, own));
            found.said = said;
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

/*
 * The last words of the worker whose item was set aside. The line about its death stands just before, with the same
 * label.
 */
static struct str died_words(const struct verb_lines *lines)
{
    static const struct str said = {"; its last words: ", 18};
    struct str label = {lines->died.at, 0};
    while (label.len < lines->died.len && label.at[label.len] != ' ')
        label.len++;
    const char *at =
        lines->died.len > 0 ? memmem(lines->died.at, lines->died.len, said.at, said.len) : NULL;
    if (!at || !str_ends_with(lines->aside, label))
        return (struct str){0};
    at += said.len;
    return (struct str){at, (size_t)(lines->died.at + lines->died.len - at)};
}

/* " 2 items failed, with reasons in out.failed.jsonl, such as" */
static void count_add(struct str n_failed, struct buf *out)
{
    struct str rest = n_failed, items = {0};
    str_next(&rest, ',', &items);
    buf_addf(out, ": %.*s failed", (int)MIN(items.len, (size_t)LINE_SHOWN), items.at);
    if (rest.at)
        buf_addf(out, ",%.*s", (int)MIN(rest.len, (size_t)LINE_SHOWN), rest.at);
    buf_add_text(out, str_starts_with(n_failed, STR("1 ")) ? ": " : ", such as ");
}

static void items_add(const struct verb_lines *lines, struct buf *out)
{
    if (lines->n_failed.len > 0) {
        count_add(lines->n_failed, out);
    } else { /* the summary is missing: the verb was ended */
        line_add(lines->own, out);
        buf_add_text(out, "; set aside: ");
    }
    words_add(lines->aside, out);
    line_add(died_words(lines), out);
}

void end_words_add(struct str tail, enum plan_kind kind, struct buf *out)
{
    if (kind == PLAN_RUN) {
        last_line_add(tail, out);
        return;
    }
    struct verb_lines lines = lines_find(tail);
    if (kind == PLAN_MAP && lines.aside.len > 0) {
        items_add(&lines, out);
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
