/* SPDX-License-Identifier: Apache-2.0
 *
 * What workers print, and names and messages, must be harmless on a terminal: printable characters, tabs and
 * newlines. Folding must not depend on how the bytes were cut on the way.
 */
#include "base/console_text.h"
#include "base/json.h"
#include "fuzz.h"
#include "proc/logfile.h"

static bool is_sgr(struct str text, size_t *len)
{
    size_t i = 2;
    if (text.len < 3 || text.at[0] != '\x1b' || text.at[1] != '[')
        return false;
    while (i < text.len && strchr("0123456789;:", text.at[i]) && text.at[i] != '\0')
        i++;
    *len = i + 1;
    return i < text.len && text.at[i] == 'm';
}

/* U+2028-U+202E, U+2066-U+2069 */
static bool turns_text(struct str text)
{
    return (str_starts_with(text, STR("\xe2\x80")) && text.len > 2 &&
            (unsigned char)text.at[2] >= 0xa8 && (unsigned char)text.at[2] <= 0xae) ||
           (str_starts_with(text, STR("\xe2\x81")) && text.len > 2 &&
            (unsigned char)text.at[2] >= 0xa6 && (unsigned char)text.at[2] <= 0xa9);
}

static void expect_harmless(struct str text, bool colours, bool lines)
{
    for (size_t i = 0, len; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (colours && is_sgr((struct str){text.at + i, text.len - i}, &len))
            i += len - 1;
        else if ((c < 0x20 && c != '\t' && !(lines && c == '\n')) || c == 0x7f ||
                 (c == 0xc2 && (unsigned char)text.at[i + 1] < 0xa0) ||
                 turns_text((struct str){text.at + i, text.len - i}))
            BUG("byte %#x of \"%.*s\" reaches the terminal", c, (int)text.len, text.at);
    }
    ASSERT(utf8_is_valid(text));
}

static void check_text(struct str text)
{
    cleanup_buf struct buf plain = BUF_INIT, coloured = BUF_INIT, again = BUF_INIT;
    console_text_add(&plain, text, false);
    console_text_add(&coloured, text, true);
    expect_harmless(buf_str(&plain), false, false);
    expect_harmless(buf_str(&coloured), true, false);
    console_text_add(&again, buf_str(&coloured), false);
    ASSERT(str_equal(buf_str(&plain), buf_str(&again)));
    for (size_t max = 0; max <= MIN(plain.len, (size_t)20); max++) {
        size_t len = console_text_cut(buf_str(&plain), max);
        ASSERT(len <= max && max - len < 4 && utf8_is_valid((struct str){plain.at, len}));
        ASSERT(console_text_cut(text, max) <= max);
    }
    uint64_t newlines = 0;
    for (size_t i = 0; i < text.len; i++)
        newlines += text.at[i] == '\n';
    ASSERT(count_newlines(text) == newlines);
}

/* Names and messages: nothing is lost, and no line can be made up. */
static void check_visible(struct str text)
{
    cleanup_buf struct buf visible = BUF_INIT, again = BUF_INIT, lines = BUF_INIT;
    console_visible_add(&visible, text);
    expect_harmless(buf_str(&visible), false, false);
    ASSERT(visible.len >= text.len || !utf8_is_valid(text));
    console_visible_add(&again, buf_str(&visible));
    ASSERT(str_equal(buf_str(&visible), buf_str(&again)));
    console_lines_add(&lines, text);
    expect_harmless(buf_str(&lines), false, true);
    for (size_t i = 0; i + 1 < lines.len; i++)
        ASSERT(lines.at[i] != '\n' || lines.at[i + 1] == ' ');
}

/* A string of JSON means the same afterwards. */
static void check_json(struct str text)
{
    cleanup_buf struct buf json = BUF_INIT, shown = BUF_INIT, before = BUF_INIT, after = BUF_INIT;
    if (!utf8_is_valid(text))
        return;
    buf_add_json(&json, text);
    console_visible_add(&shown, buf_str(&json));
    ASSERT(json_to_text(buf_str(&json), &before) && json_to_text(buf_str(&shown), &after));
    ASSERT(str_equal(buf_str(&before), buf_str(&after)));
}

static void emit(void *context, struct str lines)
{
    buf_add_str(context, lines);
}

static void print(struct str text, size_t step, unsigned lines_per_s, struct buf *out)
{
    const struct console_opts opts = {.emit = emit, .context = out, .lines_per_s = lines_per_s};
    struct console *console = console_new(&opts);
    for (size_t at = 0; at < text.len; at += step) {
        struct str piece = {text.at + at, MIN(step, text.len - at)};
        console_add(console, 1, "gpu 0", piece, 1000);
        expect_harmless(str_of(console_last(console, 1)), false, false);
    }
    console_end(console, 1, 1000);
    console_flush(console, 1000, true);
    console_free(console);
    expect_harmless(buf_str(out), true, true);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    if (text.len == 0)
        return 0;
    cleanup_buf struct buf whole = BUF_INIT, pieces = BUF_INIT, few = BUF_INIT;
    check_text(text);
    check_visible(text);
    check_json(text);
    /* All of the last line is looked at after each piece, so the pieces of a long text are not the smallest. */
    size_t step = MAX((size_t)(1 + choice % 32), text.len / 256);
    print(text, text.len, 1000000, &whole);
    print(text, step, 1000000, &pieces);
    if (!str_equal(buf_str(&whole), buf_str(&pieces)))
        BUG("whole: \"%s\" in pieces of %zu: \"%s\"", buf_text(&whole), step, buf_text(&pieces));
    print(text, step, 2, &few);
    ASSERT(few.len <= whole.len + 200);
    return 0;
}
