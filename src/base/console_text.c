/* SPDX-License-Identifier: Apache-2.0
 *
 * Escape sequences after ECMA-48: CSI is `ESC [` parameters 0x30-0x3f, intermediates 0x20-0x2f, a
 * final byte 0x40-0x7e; SGR is the CSI with final byte m. OSC, DCS, SOS, PM and APC carry a string
 * up to BEL or ST (`ESC \`). The 8-bit forms of C1 are U+0080-U+009F in UTF-8 and are dropped with
 * the other controls. U+202A-U+202E and U+2066-U+2069 (UAX #9) would show the text behind them in
 * another order, U+2028 and U+2029 end a line in some programs.
 */
#include "base/console_text.h"

enum {
    ESC = 0x1b,
    BEL = 0x07,
    SGR_MAX_BYTES = 48
};

static bool is_between(char c, unsigned char low, unsigned char high)
{
    return (unsigned char)c >= low && (unsigned char)c <= high;
}

/* Length of a CSI sequence: `ESC [` and what belongs to it. */
static size_t csi_len(struct str text, bool *sgr)
{
    bool plain = true;
    size_t i = 2;
    for (; i < text.len && is_between(text.at[i], 0x20, 0x3f); i++)
        plain =
            plain && (is_between(text.at[i], '0', '9') || text.at[i] == ';' || text.at[i] == ':');
    *sgr = i < text.len && text.at[i] == 'm' && plain && i < SGR_MAX_BYTES;
    /* A sequence without a final byte is broken: the byte there is not part of it. */
    return i < text.len && is_between(text.at[i], 0x40, 0x7e) ? i + 1 : i;
}

/* Length of a control string, which ends with BEL or ST. */
static size_t control_string_len(struct str text)
{
    for (size_t i = 2; i < text.len; i++) {
        if (text.at[i] == BEL)
            return i + 1;
        if (text.at[i] == ESC)
            return i + 1 < text.len && text.at[i + 1] == '\\' ? i + 2 : i;
    }
    return text.len;
}

/* Length of the escape sequence at the start of text (an unfinished one takes the rest). */
static size_t escape_len(struct str text, bool *sgr)
{
    static const char strings[] = {']', 'P', 'X', '^', '_'};
    *sgr = false;
    if (text.len < 2)
        return text.len;
    if (text.at[1] == '[')
        return csi_len(text, sgr);
    if (memchr(strings, text.at[1], sizeof(strings)))
        return control_string_len(text);
    /* ESC, intermediates, one final byte: `ESC ( B`, `ESC c`. */
    size_t i = 1;
    while (i < text.len && is_between(text.at[i], 0x20, 0x2f))
        i++;
    return i < text.len && is_between(text.at[i], 0x30, 0x7e) ? i + 1 : i;
}

/* Length of the well-formed UTF-8 character (above ASCII) at the start of text; 0 if it is none. */
static size_t utf8_len(struct str text)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high, len;
    } forms[] = {
        /* table 3-7 of the Unicode standard */
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < countof(forms); i++) {
        if (!is_between(text.at[0], forms[i].first_low, forms[i].first_high))
            continue;
        if (text.len < forms[i].len ||
            !is_between(text.at[1], forms[i].second_low, forms[i].second_high))
            return 0;
        for (size_t k = 2; k < forms[i].len; k++)
            if (!is_between(text.at[k], 0x80, 0xbf))
                return 0;
        return forms[i].len;
    }
    return 0;
}

static bool is_c1_control(struct str text)
{
    return (unsigned char)text.at[0] == 0xc2 && text.len > 1 && is_between(text.at[1], 0x80, 0x9f);
}

/* Characters above ASCII that change the order or the lines of the text around them. */
static bool turns_text(struct str text)
{
    bool is_2000s = text.len > 2 && (unsigned char)text.at[0] == 0xe2;
    return is_2000s && (((unsigned char)text.at[1] == 0x80 && is_between(text.at[2], 0xa8, 0xae)) ||
                        ((unsigned char)text.at[1] == 0x81 && is_between(text.at[2], 0xa6, 0xa9)));
}

/* The code point of the character of `len` bytes at the start of text. */
static unsigned codepoint_of(struct str text, size_t len)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned code = (unsigned char)text.at[0] & masks[len];
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)text.at[i] & 0x3fu);
    return code;
}

static void codepoint_add(struct buf *out, struct str text, size_t len)
{
    buf_addf(out, "\\u%04x", codepoint_of(text, len));
}

/* A character above ASCII; returns how many bytes it has. */
static size_t high_add(struct buf *out, struct str text, bool shows_controls)
{
    size_t len = utf8_len(text);
    if (len == 0)
        buf_addf(out, "\\x%02x", (unsigned char)text.at[0]);
    else if (turns_text(text) || (shows_controls && is_c1_control(text)))
        codepoint_add(out, text, len);
    else if (!is_c1_control(text))
        buf_add(out, text.at, len);
    return len == 0 ? 1 : len;
}

/* Add the character or escape sequence at the start of text; returns its length in bytes. *open: a
 * colour is on. */
static size_t add_one(struct buf *out, struct str text, bool colours, bool *open)
{
    if (text.at[0] == ESC) {
        bool sgr;
        size_t len = escape_len(text, &sgr);
        if (sgr && colours) {
            buf_add(out, text.at, len);
            *open = !(len == 3 || (len == 4 && text.at[2] == '0'));
        }
        return len;
    }
    if (is_between(text.at[0], 0, 0x7f)) {
        if (text.at[0] == '\t')
            buf_add_char(out, '\t');
        return 1;
    }
    return high_add(out, text, false);
}

void console_text_add(struct buf *out, struct str line, bool colours)
{
    bool open = false;
    while (line.len > 0) {
        size_t printable = 0;
        while (printable < line.len && is_between(line.at[printable], 0x20, 0x7e))
            printable++;
        buf_add(out, line.at, printable);
        size_t len = printable;
        if (len < line.len)
            len += add_one(out, (struct str){line.at + len, line.len - len}, colours, &open);
        line.at += len;
        line.len -= len;
    }
    if (open)
        buf_add_str(out, STR("\x1b[0m"));
}

static size_t visible_add_one(struct buf *out, struct str text)
{
    if (!is_between(text.at[0], 0, 0x7f))
        return high_add(out, text, true);
    if (text.at[0] == '\n' || text.at[0] == '\r')
        buf_add_text(out, text.at[0] == '\n' ? "\\n" : "\\r");
    else if (is_between(text.at[0], 0x20, 0x7e) || text.at[0] == '\t')
        buf_add_char(out, text.at[0]);
    else
        codepoint_add(out, text, 1);
    return 1;
}

void console_visible_add(struct buf *out, struct str text)
{
    while (text.len > 0) {
        size_t len = visible_add_one(out, text);
        text.at += len;
        text.len -= len;
    }
}

char *console_visible_new(const char *text)
{
    struct buf visible = BUF_INIT;
    if (!text)
        return NULL;
    console_visible_add(&visible, str_of(text));
    return buf_steal(&visible);
}

static void lines_add(struct buf *out, struct str text, bool keeps_all)
{
    while (text.len > 0) {
        bool is_end = text.at[0] == '\n' && (keeps_all || text.len == 1 || text.at[1] == ' ');
        size_t len = is_end ? 1 : visible_add_one(out, text);
        if (is_end)
            buf_add_char(out, '\n');
        text.at += len;
        text.len -= len;
    }
}

void console_lines_add(struct buf *out, struct str text)
{
    lines_add(out, text, false);
}

void console_objects_add(struct buf *out, struct str text)
{
    lines_add(out, text, true);
}

size_t console_text_cut(struct str text, size_t max)
{
    if (text.len <= max)
        return text.len;
    size_t len = max;
    /* A character has at most three continuation bytes: more are not UTF-8, and may be cut
     * anywhere. */
    while (len > 0 && max - len < 3 && is_between(text.at[len], 0x80, 0xbf))
        len--;
    return is_between(text.at[len], 0x80, 0xbf) ? max : len;
}

/*
 * wcwidth() knows ASCII alone, since muster sets no locale. These are the blocks of UAX #11 whose
 * characters are wide (East Asian scripts and emoji), and the marks that names in Latin, Japanese
 * and Korean have where files are named in decomposed form, as on macOS. Marks of other scripts,
 * and the few wide characters among narrow symbols, such as U+2705, count as a column.
 */
static size_t columns_of(unsigned code)
{
    static const struct {
        unsigned first, last;
        size_t columns;
    } ranges[] = {
        {0x300, 0x36f, 0},     {0x1100, 0x115f, 2},   {0x1160, 0x11ff, 0},   {0x1ab0, 0x1aff, 0},
        {0x1dc0, 0x1dff, 0},   {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},   {0x2e80, 0x303e, 2},
        {0x3040, 0x3098, 2},   {0x3099, 0x309a, 0},   {0x309b, 0xa4cf, 2},   {0xa960, 0xa97f, 2},
        {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe10, 0xfe1f, 2},
        {0xfe20, 0xfe2f, 0},   {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},
        {0x16fe0, 0x18d7f, 2}, {0x1aff0, 0x1b2ff, 2}, {0x1f200, 0x1f2ff, 2}, {0x1f300, 0x1f64f, 2},
        {0x1f680, 0x1f6ff, 2}, {0x1f7e0, 0x1f7f0, 2}, {0x1f900, 0x1f9ff, 2}, {0x1fa70, 0x1faff, 2},
        {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < countof(ranges) && code >= ranges[i].first; i++)
        if (code <= ranges[i].last)
            return ranges[i].columns;
    return 1;
}

/*
 * The bytes of the longest beginning of text that takes at most `max` columns. *width: the columns
 * that it takes.
 */
static size_t columns_len(struct str text, size_t max, size_t *width)
{
    size_t at = 0;
    for (*width = 0; at < text.len;) {
        struct str rest = {text.at + at, text.len - at};
        bool is_ascii = is_between(*rest.at, 0, 0x7f);
        size_t len = is_ascii ? 1 : utf8_len(rest);
        size_t columns = is_ascii || len == 0 ? 1 : columns_of(codepoint_of(rest, len));
        if (*width + columns > max)
            break;
        *width += columns;
        at += MAX(len, (size_t)1);
    }
    return at;
}

size_t console_text_width(struct str text)
{
    size_t width;
    (void)columns_len(text, SIZE_MAX, &width);
    return width;
}

void console_padded_add(struct buf *out, struct str text, size_t width)
{
    buf_add_str(out, text);
    buf_addf(out, "%*s", (int)(width - MIN(console_text_width(text), width)), "");
}

static const struct str cut_sign = {"...", 3};

void console_middle_add(struct buf *out, struct str text, size_t max)
{
    size_t width = console_text_width(text);
    if (width <= max) {
        buf_add_str(out, text);
        return;
    }
    size_t n_kept = max - MIN(max, cut_sign.len), n_front = n_kept / 2, used;
    size_t n_left_out = width - (n_kept - n_front), end = columns_len(text, n_left_out, &used);
    if (used < n_left_out) /* a wide character begins before that column and ends behind it */
        end = columns_len(text, n_left_out + 1, &used);
    buf_add_str(out, (struct str){text.at, columns_len(text, n_front, &used)});
    buf_add_str(out, cut_sign);
    buf_add_str(out, (struct str){text.at + end, text.len - end});
}

void console_words_add(struct buf *out, struct str text, size_t max)
{
    struct str shown = {text.at, text.len};
    if (text.len > max) {
        shown.len = console_text_cut(text, max - cut_sign.len);
        const char *space = memrchr(shown.at, ' ', shown.len);
        /* A path, or JSON without spaces, is cut where it must be. */
        if (space && (size_t)(space - shown.at) >= shown.len / 2)
            shown.len = (size_t)(space - shown.at) + 1;
    }
    buf_add_str(out, shown);
    if (shown.len < text.len)
        buf_add_str(out, cut_sign);
}

/* Eight bytes at a time: a byte of `x` is zero exactly where a newline stands. */
static uint64_t count_in_word(uint64_t word)
{
    const uint64_t low7 = 0x7f7f7f7f7f7f7f7full, ones = 0x0101010101010101ull;
    uint64_t x = word ^ (ones * '\n');
    uint64_t zero = ~(((x & low7) + low7) | x | low7);
    return ((zero >> 7) * ones) >> 56;
}

uint64_t count_newlines(struct str text)
{
    uint64_t count = 0;
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) {
        uint64_t word;
        memcpy(&word, text.at + i, sizeof(word));
        count += count_in_word(word);
    }
    for (; i < text.len; i++)
        count += text.at[i] == '\n';
    return count;
}
