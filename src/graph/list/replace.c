/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/list/replace.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/shell.h"
#include "base/xalloc.h"

/* A text in braces without others in it, and the text before it. */
struct scan {
    struct str rest, before, inner;
    bool is_shells; /* ${inner} */
};

/* False at the end; then `before` is what is left. */
static bool scan_next(struct scan *scan)
{
    const char *begin = scan->rest.at, *end = begin + scan->rest.len, *open = NULL;
    for (const char *at = begin; at < end; at++) {
        if (*at == '{')
            open = at;
        if (*at != '}' || !open)
            continue;
        scan->before = (struct str){begin, open - begin};
        scan->inner = (struct str){open + 1, at - open - 1};
        scan->is_shells = open > begin && open[-1] == '$';
        scan->rest = (struct str){at + 1, end - at - 1};
        return true;
    }
    scan->before = scan->rest;
    scan->rest = (struct str){end, 0};
    return false;
}

static const struct {
    struct str suffix;
    enum arg_form form;
} forms[] = {/* the longer ones first */
             {{"//", 2}, ARG_FOLDER},
             {{"/.", 2}, ARG_BASE_STEM},
             {{"/", 1}, ARG_BASE},
             {{".", 1}, ARG_STEM}};

static struct str form_cut(struct str inner, enum arg_form *form)
{
    *form = ARG_WHOLE;
    for (size_t i = 0; i < countof(forms); i++)
        if (str_ends_with(inner, forms[i].suffix)) {
            *form = forms[i].form;
            return (struct str){inner.at, inner.len - forms[i].suffix.len};
        }
    return inner;
}

bool command_has_name(const char *const *words, size_t n_words, struct str name)
{
    enum arg_form form;
    for (size_t i = 0; i < n_words; i++) {
        struct scan scan = {.rest = str_of(words[i])};
        while (scan_next(&scan))
            if (!scan.is_shells &&
                (str_equal(scan.inner, name) || str_equal(form_cut(scan.inner, &form), name)))
                return true;
    }
    return false;
}

/* A name may itself end as a form does: the whole text decides before its parts. */
static bool named_parse(const struct graph_list *list, struct str inner,
                        struct replace_piece *piece)
{
    struct str cut = form_cut(inner, &piece->form);
    size_t found = SOURCES_ALL;
    for (size_t i = 0; i < list->n_sources; i++) {
        struct str name = list->sources[i].name;
        if (name.len == 0)
            continue;
        if (str_equal(name, inner)) {
            found = i;
            piece->form = ARG_WHOLE;
            break;
        }
        if (str_equal(name, cut))
            found = i;
    }
    piece->kind = PIECE_ARG;
    piece->source = found;
    return found != SOURCES_ALL;
}

/* "3" or "-1", as long as no count of sources is. */
static bool position_read(struct str text, long *position)
{
    bool is_negative = text.len > 0 && text.at[0] == '-';
    *position = 0;
    if (text.len == is_negative || text.len > 10)
        return false;
    for (size_t i = is_negative; i < text.len; i++) {
        if (!isdigit((unsigned char)text.at[i]))
            return false;
        *position = *position * 10 + (text.at[i] - '0');
    }
    if (is_negative)
        *position = -*position;
    return true;
}

/* 1: it is {}, {2} or one of their forms. */
static int positional_parse(const struct graph_list *list, struct str inner,
                            struct replace_piece *piece, struct err *err)
{
    long position, n = (long)list->n_sources;
    struct str stem = form_cut(inner, &piece->form);
    piece->kind = PIECE_ARG;
    piece->source = SOURCES_ALL;
    if (stem.len == 0)
        return 1;
    if (!position_read(stem, &position))
        return 0;
    if (position < -n || position > n || position == 0)
        return fail(err, ERR_USAGE, "{%.*s}: there %s %ld source%s of arguments, {1} is the first",
                    (int)inner.len, inner.at, n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
    piece->source = position > 0 ? position - 1 : n + position;
    return 1;
}

static int digits_of(size_t number)
{
    int digits = 1;
    while (number /= 10)
        digits++;
    return digits;
}

static bool counter_parse(const struct replacer *replacer, struct str inner,
                          struct replace_piece *piece)
{
    if (str_equal(inner, STR("#")))
        *piece = (struct replace_piece){.kind = PIECE_SEQ, .width = 1};
    else if (str_equal(inner, STR("0#")))
        *piece =
            (struct replace_piece){.kind = PIECE_SEQ, .width = digits_of(replacer->list->n_jobs)};
    else if (str_equal(inner, STR("##")))
        *piece = (struct replace_piece){.kind = PIECE_TEXT, .text = str_of(replacer->total)};
    else if (str_equal(inner, STR("%")))
        *piece = (struct replace_piece){.kind = PIECE_RUN, .text = STR("{slot}")};
    else
        return false;
    return true;
}

static bool run_parse(struct str inner, struct replace_piece *piece)
{
    static const struct str names[] = {{"{batch}", 7},     {"{gpu}", 5},     {"{gpus}", 6},
                                       {"{gpu_uuid}", 10}, {"{seed}", 6},    {"{attempt}", 9},
                                       {"{job}", 5},       {"{run_dir}", 9}, {"{slot}", 6}};
    struct str braced = {inner.at - 1, inner.len + 2};
    for (size_t i = 0; i < countof(names); i++)
        if (str_equal(braced, names[i])) {
            *piece = (struct replace_piece){.kind = PIECE_RUN, .text = names[i]};
            return true;
        }
    return false;
}

static void piece_add(struct replacer *replacer, struct replace_piece piece)
{
    size_t n = replacer->n_pieces;
    if (piece.kind == PIECE_TEXT && piece.text.len == 0)
        return;
    if ((n & (n - 1)) == 0)
        replacer->pieces = xrealloc(replacer->pieces, (n ? 2 * n : 1) * sizeof(piece));
    replacer->pieces[replacer->n_pieces++] = piece;
}

/* *has_arguments: the word says where arguments go, or as GNU parallel sees it, does not want them
 * at the end. Without sources, only what is the run's is replaced. */
static int word_take(struct replacer *replacer, const char *text, bool *has_arguments,
                     struct err *err)
{
    struct scan scan = {.rest = str_of(text)};
    replacer->words[replacer->n_words].begin = replacer->n_pieces;
    while (scan_next(&scan)) {
        struct replace_piece piece = {0};
        bool is_name = !scan.is_shells, is_known = false;
        piece_add(replacer, (struct replace_piece){.kind = PIECE_TEXT, .text = scan.before});
        if (replacer->list->n_sources > 0) {
            int rc = is_name && named_parse(replacer->list, scan.inner, &piece)
                         ? 1
                         : positional_parse(replacer->list, scan.inner, &piece, err);
            if (rc < 0)
                return rc;
            is_known = rc == 1 || counter_parse(replacer, scan.inner, &piece);
            *has_arguments |= is_known;
        }
        if (!is_known && !(is_name && run_parse(scan.inner, &piece)))
            piece = (struct replace_piece){.kind = PIECE_TEXT,
                                           .text = {scan.inner.at - 1, scan.inner.len + 2}};
        piece_add(replacer, piece);
    }
    piece_add(replacer, (struct replace_piece){.kind = PIECE_TEXT, .text = scan.before});
    replacer->words[replacer->n_words++].end = replacer->n_pieces;
    return 0;
}

static void arguments_append(struct replacer *replacer)
{
    struct replace_word *word = &replacer->words[replacer->n_words++];
    word->begin = replacer->n_pieces;
    piece_add(replacer, (struct replace_piece){.kind = PIECE_ARG, .source = SOURCES_ALL});
    word->end = replacer->n_pieces;
}

static bool needs_shell(const char *word)
{
    return strpbrk(word, " \t\n|&;<>()$`\\\"'*?[]~!#") != NULL;
}

int replacer_open(struct replacer *replacer, const struct graph_list *list, bool is_shell,
                  struct err *err)
{
    bool has_arguments = false;
    size_t n = list->n_command, n_sources = list->n_sources;
    *replacer = (struct replacer){
        .list = list,
        .is_whole = n == 0,
        .is_shell = is_shell || n == 0 || (n == 1 && needs_shell(list->command[0])),
    };
    snprintf(replacer->total, sizeof(replacer->total), "%zu", list->n_jobs);
    replacer->words = xcalloc(n + 1, sizeof(*replacer->words));
    replacer->arguments = xcalloc(n_sources + 1, sizeof(*replacer->arguments));
    for (size_t i = 0; i < n; i++) {
        int rc = word_take(replacer, list->command[i], &has_arguments, err);
        if (rc != 0)
            return rc;
    }
    if (n_sources > 0 && !has_arguments)
        arguments_append(replacer);
    /* A piece adds as many words as there are sources at most, less the one that it stands in. */
    size_t argv_max = n + 4 + (replacer->n_pieces + 1) * (n_sources + 1);
    replacer->argv = xcalloc(argv_max, sizeof(*replacer->argv));
    return 0;
}

void replacer_close(struct replacer *replacer)
{
    free(replacer->pieces);
    free(replacer->words);
    free(replacer->arguments);
    free(replacer->argv);
    buf_release(&replacer->text);
    buf_release(&replacer->plain);
    buf_release(&replacer->quoted);
    *replacer = (struct replacer){0};
}
