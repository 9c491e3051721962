/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/list/sources.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/list/replace.h"

/* What follows one separator, up to the next. */
struct group {
    const char *mark;
    const char *const *words;
    size_t n_words;
    bool is_linked, is_files;
};

struct list_source *source_add(struct graph_list *list, bool is_linked, struct err *err)
{
    if (list->n_sources == LIST_SOURCES_MAX) {
        fail(err, ERR_USAGE,
             "there are more than %d sources of arguments; put them together, as columns of a "
             "file or as several arguments behind one :::",
             LIST_SOURCES_MAX);
        return NULL;
    }
    size_t bytes = (list->n_sources + 1) * sizeof(*list->sources);
    list->sources = xrealloc(list->sources, bytes);
    struct list_source *source = &list->sources[list->n_sources++];
    *source = (struct list_source){.is_linked = is_linked};
    return source;
}

void source_push(struct list_source *source, struct str argument)
{
    if (source->len == source->cap) {
        source->cap = source->cap ? 2 * source->cap : 16;
        source->at = xrealloc(source->at, source->cap * sizeof(*source->at));
    }
    source->at[source->len++] = argument;
}

static bool is_mark(const char *word)
{
    return strcmp(word, ":::") == 0 || strcmp(word, "::::") == 0 || strcmp(word, ":::+") == 0 ||
           strcmp(word, "::::+") == 0;
}

size_t mark_find(const struct graph_list_wish *wish, size_t from)
{
    while (from < wish->n_words && !is_mark(wish->words[from]))
        from++;
    return from;
}

static bool has_command(struct str line)
{
    struct str trimmed = str_trim(line);
    return trimmed.len > 0 && trimmed.at[0] != '#';
}

static int line_check(struct str line, const char *path, size_t number, struct err *err)
{
    if (line.len > LIST_LINE_BYTES_MAX)
        return fail(err, ERR_DATA, "%s: line %zu has more than %d bytes", path, number,
                    LIST_LINE_BYTES_MAX);
    if (line.len > 0 && memchr(line.at, 0, line.len))
        return fail(err, ERR_DATA, "%s: line %zu has a NUL byte, but must be text", path, number);
    return 0;
}

/* Lines end with LF or CR LF, or with the text. Whole commands may have empty lines and comments
 * between them. */
static int lines_push(struct list_source *source, struct str text, const char *path,
                      bool is_commands, struct err *err)
{
    struct str rest = str_unmarked(text);
    for (size_t number = 1; rest.len > 0; number++) {
        const char *end = memchr(rest.at, '\n', rest.len);
        struct str line = {rest.at, end ? (size_t)(end - rest.at) : rest.len};
        size_t taken = line.len + (end != NULL);
        rest = (struct str){rest.at + taken, rest.len - taken};
        if (line.len > 0 && line.at[line.len - 1] == '\r')
            line.len--;
        int rc = line_check(line, path, number, err);
        if (rc != 0)
            return rc;
        if (is_commands && !has_command(line))
            continue;
        if (source->len > PLAN_JOBS_MAX)
            return fail(err, ERR_USAGE, "%s has more than %d lines; split it", path, PLAN_JOBS_MAX);
        source_push(source, line);
    }
    return 0;
}

/* path "-": the input. */
static int file_push(struct graph_list *list, const struct graph_list_wish *wish, const char *path,
                     bool is_linked, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    bool is_input = strcmp(path, "-") == 0;
    const char *name = is_input ? "stdin" : path;
    int rc = is_input ? file_read_fd(wish->input_fd, name, LIST_INPUT_BYTES_MAX, &text, err)
                      : file_read(path, LIST_INPUT_BYTES_MAX, &text, err);
    if (rc != 0)
        return rc;
    list->text_bytes += text.len;
    if (list->text_bytes > LIST_INPUT_BYTES_MAX)
        return fail(err, ERR_USAGE,
                    "the files of arguments up to %s have more than %d bytes; split the list", name,
                    LIST_INPUT_BYTES_MAX);
    struct str view = buf_str(&text);
    env_list_add(&list->texts, buf_steal(&text));
    view.at = list->texts.at[list->texts.len - 1];
    list->input = is_input ? view : list->input;
    struct list_source *source = source_add(list, is_linked, err);
    return source ? lines_push(source, view, name, list->n_command == 0, err) : ERR_USAGE;
}

static int files_push(struct graph_list *list, const struct graph_list_wish *wish,
                      const struct group *group, bool *has_input, struct err *err)
{
    if (group->n_words == 0)
        return fail(err, ERR_USAGE, "behind %s must stand a file of arguments, or - for stdin",
                    group->mark);
    for (size_t i = 0; i < group->n_words; i++) {
        bool is_input = strcmp(group->words[i], "-") == 0;
        if (is_input && *has_input)
            return fail(err, ERR_USAGE, "%s -: stdin is read already, and only once", group->mark);
        *has_input |= is_input;
        int rc = file_push(list, wish, group->words[i], group->is_linked, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Of `name=1,2`; empty for anything else. */
static struct str name_of(const char *word)
{
    size_t len = 0;
    while (isalnum((unsigned char)word[len]) || word[len] == '_')
        len++;
    bool is_name = len > 0 && !isdigit((unsigned char)word[0]) && word[len] == '=';
    return (struct str){word, is_name ? len : 0};
}

/* 1: its words are sources with names, since the command has them. */
static int group_is_named(const struct graph_list *list, const struct group *group, struct err *err)
{
    const char *absent = NULL;
    size_t n_found = 0;
    for (size_t i = 0; i < group->n_words; i++) {
        struct str name = name_of(group->words[i]);
        if (name.len == 0)
            return 0;
        if (command_has_name(list->command, list->n_command, name))
            n_found++;
        else if (!absent)
            absent = group->words[i];
    }
    if (n_found > 0 && absent)
        return fail(err, ERR_USAGE,
                    "%s: the command has no {%.*s}, though it has names of other sources beside "
                    "it; use it there, or leave the source out",
                    absent, (int)name_of(absent).len, absent);
    return n_found > 0;
}

static int named_push(struct graph_list *list, const char *word, bool is_linked, struct err *err)
{
    struct str name = name_of(word), value, rest = str_of(word + name.len + 1);
    for (size_t i = 0; i < list->n_sources; i++)
        if (str_equal(list->sources[i].name, name))
            return fail(err, ERR_USAGE,
                        "%s: there is a source %.*s already; give all its values there, as "
                        "%.*s=1,2",
                        word, (int)name.len, name.at, (int)name.len, name.at);
    struct list_source *source = source_add(list, is_linked, err);
    if (!source)
        return ERR_USAGE;
    source->name = name;
    while (str_next(&rest, ',', &value))
        source_push(source, value);
    return 0;
}

static int words_push(struct graph_list *list, const struct group *group, bool has_header,
                      struct err *err)
{
    int rc = has_header ? 0 : group_is_named(list, group, err);
    if (rc == 1) {
        rc = 0;
        for (size_t i = 0; i < group->n_words && rc == 0; i++)
            rc = named_push(list, group->words[i], group->is_linked, err);
        return rc;
    }
    if (rc != 0)
        return rc;
    struct list_source *source = source_add(list, group->is_linked, err);
    for (size_t i = 0; source && i < group->n_words; i++)
        source_push(source, str_of(group->words[i]));
    return source ? 0 : ERR_USAGE;
}

static int groups_read(struct graph_list *list, const struct graph_list_wish *wish, struct err *err)
{
    bool has_input = false;
    for (size_t at = mark_find(wish, 0), next; at < wish->n_words; at = next) {
        next = mark_find(wish, at + 1);
        struct group group = {.mark = wish->words[at],
                              .words = wish->words + at + 1,
                              .n_words = next - at - 1,
                              .is_files = wish->words[at][3] == ':'};
        group.is_linked = str_ends_with(str_of(group.mark), STR("+"));
        if (group.is_linked && list->n_sources == 0)
            return fail(err, ERR_USAGE,
                        "%s links arguments to those before it, and there are none; begin with "
                        ":::",
                        group.mark);
        int rc = group.is_files ? files_push(list, wish, &group, &has_input, err)
                                : words_push(list, &group, wish->has_header, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

bool graph_list_reads_input(const struct graph_list_wish *wish)
{
    bool are_files = false, has_marks = false;
    for (size_t i = 0; i < wish->n_words; i++) {
        bool begins = is_mark(wish->words[i]);
        has_marks |= begins;
        if (are_files && !begins && strcmp(wish->words[i], "-") == 0)
            return true;
        are_files = begins ? wish->words[i][3] == ':' : are_files;
    }
    return wish->takes_input && !has_marks;
}

static int headers_take(struct graph_list *list, struct err *err)
{
    for (size_t i = 0; i < list->n_sources; i++) {
        struct list_source *source = &list->sources[i];
        if (source->len == 0)
            return fail(err, ERR_USAGE, "source %zu of arguments is empty: it has no header",
                        i + 1);
        source->name = source->at[0];
        source->len--;
        memmove(source->at, source->at + 1, source->len * sizeof(*source->at));
        for (size_t before = 0; before < i; before++)
            if (source->name.len > 0 && str_equal(list->sources[before].name, source->name))
                return fail(err, ERR_USAGE, "two sources of arguments have the name %.*s",
                            (int)MIN(source->name.len, 100), source->name.at);
    }
    return 0;
}

/* Nobody who sits at a terminal knows that he is waited for; who does writes `:::: -`. */
static int input_read(struct graph_list *list, const struct graph_list_wish *wish, struct err *err)
{
    if (!isatty(wish->input_fd))
        return file_push(list, wish, "-", false, err);
    if (list->n_command > 0)
        return fail(err, ERR_USAGE,
                    "the command has no arguments: write them behind :::, or pipe them in, one a "
                    "line (a command alone is such a line: echo COMMAND | muster graph)");
    return fail(err, ERR_USAGE,
                "nothing to run: name a file, or a command behind --, or give commands on "
                "standard input, one a line");
}

int sources_read(struct graph_list *list, const struct graph_list_wish *wish, struct err *err)
{
    bool has_marks = mark_find(wish, 0) < wish->n_words;
    int rc = 0;
    if (has_marks)
        rc = groups_read(list, wish, err);
    else if (wish->takes_input)
        rc = input_read(list, wish, err);
    else if (list->n_command == 0)
        rc = fail(err, ERR_USAGE,
                  "there is no command: write one behind --, or give one a line on stdin");
    if (rc == 0 && wish->separator)
        rc = columns_split(list, wish->separator, err);
    if (rc == 0 && wish->has_header)
        rc = headers_take(list, err);
    return rc;
}
