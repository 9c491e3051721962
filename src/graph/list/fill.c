/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of single jobs. What is no template for the run has its braces doubled.
 */
#include <string.h>

#include "base/shell.h"
#include "graph/list/replace.h"

static struct str str_first(struct str s, size_t len)
{
    return (struct str){s.at, len};
}

/* The length of what is before the last of these characters, or SIZE_MAX. */
static size_t last_of(struct str s, char c)
{
    const char *found = s.len > 0 ? memrchr(s.at, c, s.len) : NULL;
    return found ? (size_t)(found - s.at) : SIZE_MAX;
}

static struct str base_of(struct str path)
{
    size_t slash = last_of(path, '/');
    return slash == SIZE_MAX ? path : (struct str){path.at + slash + 1, path.len - slash - 1};
}

static struct str stem_of(struct str path)
{
    size_t dot = last_of(path, '.'), slash = last_of(path, '/');
    return dot == SIZE_MAX || (slash != SIZE_MAX && slash > dot) ? path : str_first(path, dot);
}

static struct str without_slashes(struct str path)
{
    while (path.len > 1 && path.at[path.len - 1] == '/')
        path.len--;
    return path;
}

/* As dirname(1). */
static struct str folder_of(struct str path)
{
    path = without_slashes(path);
    size_t slash = last_of(path, '/');
    if (slash == SIZE_MAX)
        return STR(".");
    return without_slashes(str_first(path, slash > 0 ? slash : 1));
}

static struct str formed(struct str argument, enum arg_form form)
{
    switch (form) {
    case ARG_WHOLE:
        return argument;
    case ARG_STEM:
        return stem_of(argument);
    case ARG_BASE:
        return base_of(argument);
    case ARG_FOLDER:
        return folder_of(argument);
    case ARG_BASE_STEM:
        return stem_of(base_of(argument));
    }
    BUG("form %d", (int)form);
}

static void add_escaped(struct buf *out, struct str text)
{
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '{' || text.at[i] == '}') {
            buf_add(out, text.at + from, i + 1 - from);
            from = i; /* once more */
        }
    if (text.len > from)
        buf_add(out, text.at + from, text.len - from);
}

/* Of the text that the template stands for, in which braces are single. */
static size_t template_bytes(struct str text)
{
    size_t len = text.len;
    for (size_t i = 0; i + 1 < text.len; i++)
        if ((text.at[i] == '{' || text.at[i] == '}') && text.at[i] == text.at[i + 1]) {
            len--;
            i++;
        }
    return len;
}

/* Is the word that was begun too long already? The first comparison is enough most of the time. */
static int word_check(const struct replacer *replacer, struct err *err)
{
    struct str text = buf_str(&replacer->text);
    if (text.len <= LIST_WORD_BYTES_MAX || template_bytes(text) <= LIST_WORD_BYTES_MAX)
        return 0;
    return fail(err, ERR_USAGE,
                "a word of the command has more than %d bytes, which is what the system takes at "
                "most; pass what is longer in a file",
                LIST_WORD_BYTES_MAX);
}

/* Quoted for the shell if there is one, and if the argument is not the command itself. */
static int argument_add(struct replacer *replacer, struct str argument, struct err *err)
{
    if (!replacer->is_shell || replacer->is_whole) {
        add_escaped(&replacer->text, argument);
        return word_check(replacer, err);
    }
    buf_reset(&replacer->plain);
    if (argument.len > 0)
        buf_add_str(&replacer->plain, argument);
    buf_reset(&replacer->quoted);
    buf_add_shell_word(&replacer->quoted, buf_text(&replacer->plain));
    add_escaped(&replacer->text, buf_str(&replacer->quoted));
    return word_check(replacer, err);
}

/* Ends the word that was begun. */
static int word_put(struct replacer *replacer, struct plan *plan, struct err *err)
{
    int rc = word_check(replacer, err);
    if (rc != 0)
        return rc;
    replacer->argv[replacer->argv_len++] = plan_text(plan, buf_str(&replacer->text));
    replacer->job_bytes += replacer->text.len + 1 + sizeof(*replacer->argv);
    buf_reset(&replacer->text);
    if (replacer->job_bytes <= LIST_COMMAND_BYTES_MAX)
        return 0;
    return fail(err, ERR_USAGE,
                "the command has more than %d bytes, which is what the system takes at most; pass "
                "the arguments in a file",
                LIST_COMMAND_BYTES_MAX);
}

/* All arguments: words of their own, but for what stands before and behind them. */
static int all_add(struct replacer *replacer, enum arg_form form, struct plan *plan,
                   struct err *err)
{
    bool is_first = true;
    for (size_t i = 0; i < replacer->list->n_sources; i++) {
        struct str argument = replacer->arguments[i];
        if (!argument.at)
            continue;
        if (!is_first && replacer->is_shell)
            buf_add_char(&replacer->text, ' ');
        else if (!is_first) {
            int rc = word_put(replacer, plan, err);
            if (rc != 0)
                return rc;
        }
        int rc = argument_add(replacer, formed(argument, form), err);
        if (rc != 0)
            return rc;
        is_first = false;
    }
    return 0;
}

static int piece_add(struct replacer *replacer, const struct replace_piece *piece, size_t job,
                     struct plan *plan, struct err *err)
{
    switch (piece->kind) {
    case PIECE_TEXT:
        add_escaped(&replacer->text, piece->text);
        return 0;
    case PIECE_RUN:
        buf_add_str(&replacer->text, piece->text);
        return 0;
    case PIECE_SEQ:
        buf_addf(&replacer->text, "%0*zu", piece->width, job + 1);
        return 0;
    case PIECE_ARG:
        if (piece->source == SOURCES_ALL)
            return all_add(replacer, piece->form, plan, err);
        return argument_add(replacer, formed(replacer->arguments[piece->source], piece->form), err);
    }
    BUG("piece %d", (int)piece->kind);
}

static int pieces_add(struct replacer *replacer, const struct replace_word *word, size_t job,
                      struct plan *plan, struct err *err)
{
    for (size_t i = word->begin; i < word->end; i++) {
        int rc = piece_add(replacer, &replacer->pieces[i], job, plan, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static bool is_same_for_all(const struct replacer *replacer, const struct replace_word *word)
{
    for (size_t i = word->begin; i < word->end; i++)
        if (replacer->pieces[i].kind == PIECE_ARG || replacer->pieces[i].kind == PIECE_SEQ)
            return false;
    return true;
}

static int words_fill(struct replacer *replacer, size_t job, struct plan *plan, struct err *err)
{
    for (size_t i = 0; i < replacer->n_words; i++) {
        struct replace_word *word = &replacer->words[i];
        if (word->filled) {
            replacer->argv[replacer->argv_len++] = word->filled;
            continue;
        }
        int rc = pieces_add(replacer, word, job, plan, err);
        if (rc == 0)
            rc = word_put(replacer, plan, err);
        if (rc != 0)
            return rc;
        if (is_same_for_all(replacer, word))
            word->filled = replacer->argv[replacer->argv_len - 1];
    }
    return 0;
}

static int shell_fill(struct replacer *replacer, size_t job, struct plan *plan, struct err *err)
{
    replacer->argv[replacer->argv_len++] = "sh";
    replacer->argv[replacer->argv_len++] = "-c";
    for (size_t i = 0; i < replacer->n_words; i++) {
        if (i > 0)
            buf_add_char(&replacer->text, ' ');
        int rc = pieces_add(replacer, &replacer->words[i], job, plan, err);
        if (rc != 0)
            return rc;
    }
    return word_put(replacer, plan, err);
}

int replacer_fill(struct replacer *replacer, size_t job, struct plan *plan,
                  const char *const **argv, struct err *err)
{
    replacer->argv_len = 0;
    replacer->job_bytes = 0;
    buf_reset(&replacer->text);
    graph_list_arguments(replacer->list, job, replacer->arguments);
    int rc = replacer->is_shell ? shell_fill(replacer, job, plan, err)
                                : words_fill(replacer, job, plan, err);
    if (rc != 0)
        return wrap(err, rc, "job %zu", job + 1);
    size_t bytes = replacer->argv_len * sizeof(*replacer->argv);
    const char **copy = plan_alloc(plan, bytes + sizeof(*copy)); /* zeros: it ends with NULL */
    memcpy(copy, replacer->argv, bytes);
    *argv = copy;
    replacer->bytes += replacer->job_bytes;
    return 0;
}
