/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user writes with placeholders, and what a program prints about its progress.
 */
#include "fuzz.h"
#include "map/template.h"
#include "shard/progress_parser.h"

/* Each placeholder stands for itself in braces, so that filling in changes nothing but doubled ones. */
static void values_make(struct template_values *values)
{
    static const char *const names[] = {
#define X(id, name, makes_shard, differs) "{" name "}",
        PLACEHOLDERS(X)
#undef X
    };
    for (size_t i = 0; i < PLACEHOLDERS_COUNT; i++)
        values->of[i] = str_of(names[i]);
}

static size_t braces(struct str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.at[i] == '{' || text.at[i] == '}';
    return n;
}

static void check_template(struct str text)
{
    struct template_values values;
    struct err err = {0};
    cleanup_buf struct buf once = BUF_INIT, glob = BUF_INIT;
    values_make(&values);
    template_fill(text, &values, &once);
    template_fill_glob(text, &values, &glob);
    ASSERT(str_equal(buf_str(&once), buf_str(&glob))); /* no value is special to glob() */
    size_t dropped = text.len - once.len;
    ASSERT(once.len <= text.len && braces(text) - braces(buf_str(&once)) == dropped);
    ASSERT(dropped > 0 || str_equal(text, buf_str(&once)));
    if (template_uses(text) == 0)
        ASSERT(!template_shard_word(0) && !template_tells_apart(0));
    if (template_check(text, &err) != 0)
        ASSERT(err.code == ERR_USAGE && strstr(err.text, "did you mean {"));
}

/* However it is cut: the same is known, and the same is shown. */
static void check_marker(struct str text, size_t step)
{
    struct progress_parser whole = {.n_items = 100}, cut = {.n_items = 100};
    cleanup_buf struct buf shown = BUF_INIT, shown_cut = BUF_INIT;
    progress_parser_feed(&whole, text, &shown);
    progress_parser_end(&whole, &shown);
    for (size_t at = 0; at < text.len; at += step)
        progress_parser_feed(&cut, (struct str){text.at + at, MIN(step, text.len - at)},
                             &shown_cut);
    progress_parser_end(&cut, &shown_cut);
    ASSERT(str_equal(buf_str(&shown), buf_str(&shown_cut)));
    ASSERT(whole.done == cut.done && whole.total == cut.total);
    ASSERT(whole.correct == cut.correct && whole.seen == cut.seen);
    ASSERT(whole.done <= whole.total && whole.correct <= whole.seen);
    ASSERT(progress_parser_items_done(&whole) <= whole.n_items && shown.len <= text.len);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    check_template(text);
    check_marker(text, 1 + choice % 64);
    return 0;
}
