/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

/* A cursor over the text; every scan_* returns false on malformed or incomplete input. */
struct cursor {
    const unsigned char *at, *end;
};

/* Handles an empty text too, whose pointer may be NULL. */
static struct cursor cursor_of(struct str text)
{
    const unsigned char *at = (const unsigned char *)(text.len > 0 ? text.at : "");
    return (struct cursor){at, at + text.len};
}

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

/* Length of the valid UTF-8 sequence at `at` (1..4), or 0. RFC 3629: no overlong, no surrogates. */
static size_t utf8_sequence(const unsigned char *at, const unsigned char *end)
{
    static const struct {
        unsigned char lead_min, lead_max, second_min, second_max, len;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t f = 0; f < countof(forms); f++) {
        if (at[0] < forms[f].lead_min || at[0] > forms[f].lead_max)
            continue;
        size_t len = forms[f].len;
        if ((size_t)(end - at) < len)
            return 0;
        if (len > 1 && (at[1] < forms[f].second_min || at[1] > forms[f].second_max))
            return 0;
        for (size_t i = 2; i < len; i++)
            if (at[i] < 0x80 || at[i] > 0xbf)
                return 0;
        return len;
    }
    return 0;
}

/* Eight bytes of ASCII at once. */
static const unsigned char *skip_ascii(const unsigned char *at, const unsigned char *end)
{
    uint64_t text;
    while (end - at >= (ptrdiff_t)sizeof(text)) {
        memcpy(&text, at, sizeof(text));
        if (text & 0x8080808080808080u)
            break;
        at += sizeof(text);
    }
    return at;
}

bool utf8_is_valid(struct str text)
{
    const unsigned char *at = (const unsigned char *)text.at, *end = at + text.len;
    while ((at = skip_ascii(at, end)) < end) {
        size_t len = *at < 0x80 ? 1 : utf8_sequence(at, end);
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex4(const unsigned char *at, const unsigned char *end, unsigned *out)
{
    if (end - at < 4)
        return false;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return false;
        *out = *out * 16 + (unsigned)digit;
    }
    return true;
}

static bool scan_escape(struct cursor *c)
{
    unsigned code;
    if (c->at >= c->end)
        return false;
    unsigned char e = *c->at++;
    if (e == 'u') {
        if (!hex4(c->at, c->end, &code))
            return false;
        c->at += 4;
        return true;
    }
    return e != '\0' && strchr("\"\\/bfnrt", e) != NULL;
}

/*
 * Skips plain characters eight bytes at a time, as long as none of them is a quote, a backslash, a
 * control character or beyond ASCII. Subtracting borrows only from a byte that is one of these, so
 * the lowest mark is right.
 */
static void skip_plain(struct cursor *c)
{
    static const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t text;
    while (c->end - c->at >= (ptrdiff_t)sizeof(text)) {
        memcpy(&text, c->at, sizeof(text));
        uint64_t quotes = (text ^ ones * '"') - ones, slashes = (text ^ ones * '\\') - ones;
        uint64_t marks = ((text - ones * 0x20) | quotes | slashes | text) & high;
        if (marks && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
            c->at += __builtin_ctzll(marks) / 8;
        if (marks)
            return;
        c->at += sizeof(text);
    }
}

/* Scans one part of a string that is not plain ASCII: an escape, or a UTF-8 sequence. */
static bool scan_special(struct cursor *c)
{
    if (*c->at < 0x20)
        return false;
    if (*c->at == '\\') {
        c->at++;
        return scan_escape(c);
    }
    size_t len = *c->at < 0x80 ? 1 : utf8_sequence(c->at, c->end);
    c->at += len;
    return len > 0;
}

static bool scan_string(struct cursor *c)
{
    if (c->at >= c->end || *c->at != '"')
        return false;
    c->at++;
    for (;;) {
        skip_plain(c);
        if (c->at >= c->end)
            return false;
        if (*c->at == '"') {
            c->at++;
            return true;
        }
        if (!scan_special(c))
            return false;
    }
}

static size_t scan_digits(struct cursor *c)
{
    const unsigned char *begin = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return (size_t)(c->at - begin);
}

static bool scan_number(struct cursor *c)
{
    if (c->at < c->end && *c->at == '-')
        c->at++;
    const unsigned char *whole = c->at;
    size_t digits = scan_digits(c);
    if (digits == 0 || (digits > 1 && *whole == '0'))
        return false;
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        if (scan_digits(c) == 0)
            return false;
    }
    if (c->at < c->end && (*c->at | 0x20) == 'e') {
        c->at++;
        if (c->at < c->end && (*c->at == '+' || *c->at == '-'))
            c->at++;
        if (scan_digits(c) == 0)
            return false;
    }
    return true;
}

static bool scan_char(struct cursor *c, char wanted)
{
    bool is_there = c->at < c->end && *c->at == (unsigned char)wanted;
    c->at += is_there;
    return is_there;
}

static bool scan_word(struct cursor *c, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

static bool scan_scalar(struct cursor *c)
{
    switch (*c->at) {
    case '"':
        return scan_string(c);
    case 't':
        return scan_word(c, "true");
    case 'f':
        return scan_word(c, "false");
    case 'n':
        return scan_word(c, "null");
    default:
        return scan_number(c);
    }
}

static bool scan_key(struct cursor *c)
{
    skip_space(c);
    if (!scan_string(c))
        return false;
    skip_space(c);
    return scan_char(c, ':');
}

/* The brackets that are open, innermost last, so that depth costs no recursion. */
struct nest {
    unsigned char is_object[JSON_DEPTH_MAX];
    size_t depth;
};

static bool in_object(const struct nest *nest)
{
    return nest->depth > 0 && nest->is_object[nest->depth - 1];
}

static bool scan_closing(struct nest *nest, struct cursor *c)
{
    if (nest->depth == 0 || !scan_char(c, in_object(nest) ? '}' : ']'))
        return false;
    nest->depth--;
    return true;
}

/* After a value: a comma, or any number of closing brackets. False if neither is there. */
static bool scan_after_value(struct nest *nest, struct cursor *c)
{
    while (nest->depth > 0) {
        skip_space(c);
        if (scan_char(c, ','))
            return true;
        if (!scan_closing(nest, c))
            return false;
    }
    return true;
}

/* An opening bracket; *is_empty: the closing one followed at once. */
static bool scan_opening(struct nest *nest, struct cursor *c, bool *is_empty)
{
    if (nest->depth == JSON_DEPTH_MAX)
        return false;
    nest->is_object[nest->depth++] = *c->at++ == '{';
    skip_space(c);
    *is_empty = scan_closing(nest, c);
    return true;
}

static bool scan_value(struct cursor *c)
{
    struct nest nest;
    nest.depth = 0;
    do {
        bool is_ended = true;
        if (in_object(&nest) && !scan_key(c))
            return false;
        skip_space(c);
        if (c->at >= c->end)
            return false;
        bool is_opening = *c->at == '{' || *c->at == '[';
        if (!(is_opening ? scan_opening(&nest, c, &is_ended) : scan_scalar(c)))
            return false;
        if (is_ended && !scan_after_value(&nest, c))
            return false;
    } while (nest.depth > 0);
    return true;
}

/* Only white space is left. */
static bool is_at_end(struct cursor *c)
{
    skip_space(c);
    return c->at == c->end;
}

size_t json_value(struct str text, size_t *begin)
{
    struct cursor c = cursor_of(text);
    const unsigned char *start = c.at;
    skip_space(&c);
    const unsigned char *first = c.at;
    *begin = (size_t)(first - start);
    return scan_value(&c) ? (size_t)(c.at - first) : 0;
}

bool json_is_value(struct str text)
{
    size_t begin, len = json_value(text, &begin);
    struct cursor c = cursor_of(text);
    c.at += begin + len;
    return len > 0 && is_at_end(&c);
}

bool json_is_object(struct str text)
{
    struct str trimmed = str_trim(text);
    return trimmed.len > 0 && trimmed.at[0] == '{' && json_is_value(trimmed);
}

enum json_kind json_kind_of(struct str value)
{
    struct str v = str_trim(value);
    if (v.len == 0)
        return JSON_INVALID;
    switch (v.at[0]) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    default:
        return v.at[0] == '-' || (v.at[0] >= '0' && v.at[0] <= '9') ? JSON_NUMBER : JSON_INVALID;
    }
}

struct json_members json_members(struct str object)
{
    return (struct json_members){.rest = object};
}

static bool members_end(struct json_members *walk, bool malformed)
{
    walk->malformed = malformed;
    walk->rest.len = 0;
    return false;
}

bool json_next(struct json_members *walk, struct str *key, struct str *value)
{
    struct cursor c = cursor_of(walk->rest);
    skip_space(&c);
    if (walk->begun && scan_char(&c, '}'))
        return members_end(walk, !is_at_end(&c));
    if (!scan_char(&c, walk->begun ? ',' : '{'))
        return members_end(walk, true);
    skip_space(&c);
    if (!walk->begun && scan_char(&c, '}'))
        return members_end(walk, !is_at_end(&c));
    walk->begun = true;
    const unsigned char *name = c.at;
    if (!scan_string(&c))
        return members_end(walk, true);
    *key = (struct str){(const char *)name + 1, (size_t)(c.at - name) - 2};
    skip_space(&c);
    if (!scan_char(&c, ':'))
        return members_end(walk, true);
    skip_space(&c);
    const unsigned char *first = c.at;
    if (!scan_value(&c))
        return members_end(walk, true);
    *value = (struct str){(const char *)first, (size_t)(c.at - first)};
    walk->rest = (struct str){(const char *)c.at, (size_t)(c.end - c.at)};
    return true;
}

static bool is_escaped(struct str key)
{
    return key.len > 0 && memchr(key.at, '\\', key.len);
}

bool json_key_to_text(struct str key, struct buf *out)
{
    return json_to_text((struct str){key.at - 1, key.len + 2}, out);
}

bool json_key_equal(struct str key, struct str name)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (key.len <= name.len) /* an escape is longer than the character it stands for */
        return str_equal(key, name) && !is_escaped(key);
    return is_escaped(key) && json_key_to_text(key, &text) && str_equal(buf_str(&text), name);
}

bool json_keys_equal(struct str a, struct str b)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (str_equal(a, b))
        return true;
    if (!is_escaped(b))
        return json_key_equal(a, b);
    return json_key_to_text(b, &text) && json_key_equal(a, buf_str(&text));
}

bool json_get(struct str object, const char *key, struct str *value)
{
    struct json_members walk = json_members(object);
    struct str name, found, wanted = str_of(key);
    while (json_next(&walk, &name, &found)) {
        if (json_key_equal(name, wanted)) {
            *value = found;
            return true;
        }
    }
    return false;
}

bool json_element(struct str *array, bool *is_begun, struct str *element)
{
    struct cursor c = cursor_of(*array);
    skip_space(&c);
    if (!scan_char(&c, *is_begun ? ',' : '['))
        return false;
    *is_begun = true;
    skip_space(&c);
    const unsigned char *first = c.at;
    if (!scan_value(&c))
        return false;
    *element = (struct str){(const char *)first, (size_t)(c.at - first)};
    *array = (struct str){(const char *)c.at, (size_t)(c.end - c.at)};
    return true;
}

bool json_to_u64(struct str value, uint64_t *out)
{
    uint64_t number = 0;
    if (value.len == 0)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        uint64_t digit = (uint64_t)(c - '0');
        if (c < '0' || c > '9' || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

bool json_to_double(struct str value, double *out)
{
    char copy[64];
    cleanup_buf struct buf longer = BUF_INIT;
    if (json_kind_of(value) != JSON_NUMBER)
        return false;
    if (value.len < sizeof(copy))
        *(char *)mempcpy(copy, value.at, value.len) = '\0';
    else
        buf_add_str(&longer, value);
    *out = strtod(value.len < sizeof(copy) ? copy : buf_text(&longer), NULL);
    return isfinite(*out);
}

bool json_to_bool(struct str value, bool *out)
{
    *out = str_equal(value, STR("true"));
    return *out || str_equal(value, STR("false"));
}

static void buf_add_utf8(struct buf *out, unsigned code)
{
    if (code < 0x80) {
        buf_add_char(out, (char)code);
    } else if (code < 0x800) {
        buf_add_char(out, (char)(0xc0 | code >> 6));
        buf_add_char(out, (char)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        buf_add_char(out, (char)(0xe0 | code >> 12));
        buf_add_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
        buf_add_char(out, (char)(0x80 | (code & 0x3f)));
    } else {
        buf_add_char(out, (char)(0xf0 | code >> 18));
        buf_add_char(out, (char)(0x80 | (code >> 12 & 0x3f)));
        buf_add_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
        buf_add_char(out, (char)(0x80 | (code & 0x3f)));
    }
}

/* After "\u": decode one code point, joining a surrogate pair; returns bytes used after the 'u'. */
static size_t decode_unicode(const unsigned char *at, const unsigned char *end, bool keeps_lone,
                             struct buf *out)
{
    unsigned high, low;
    if (!hex4(at, end, &high))
        return 0;
    if (high >= 0xd800 && high < 0xdc00 && end - at >= 10 && at[4] == '\\' && at[5] == 'u' &&
        hex4(at + 6, end, &low) && low >= 0xdc00 && low < 0xe000) {
        buf_add_utf8(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        return 10;
    }
    buf_add_utf8(out, high >= 0xd800 && high < 0xe000 && !keeps_lone ? 0xfffd : high);
    return 4;
}

static bool text_decode(struct str value, bool keeps_lone, struct buf *out)
{
    struct cursor c = cursor_of(value);
    if (!scan_string(&c) || c.at != c.end)
        return false;
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const unsigned char *at = (const unsigned char *)value.at + 1, *end = c.end - 1;
    while (at < end) {
        if (*at != '\\') {
            const unsigned char *escape = memchr(at, '\\', (size_t)(end - at));
            size_t len = (size_t)((escape ? escape : end) - at);
            buf_add(out, at, len);
            at += len;
        } else if (at[1] == 'u') {
            at += 2 + decode_unicode(at + 2, end, keeps_lone, out);
        } else {
            buf_add_char(out, to[strchr(from, at[1]) - from]);
            at += 2;
        }
    }
    return true;
}

bool json_to_text(struct str value, struct buf *out)
{
    return text_decode(value, false, out);
}

char *json_text_new(struct str object, const char *key, size_t max_bytes)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str value;
    bool is_there = json_get(object, key, &value) && json_to_text(value, &text);
    return is_there && text.len <= max_bytes ? xstrdup(buf_text(&text)) : NULL;
}

bool json_to_wide_text(struct str value, struct buf *out)
{
    return text_decode(value, true, out);
}

static void buf_add_json_escape(struct buf *buf, unsigned char c)
{
    switch (c) {
    case '"':
        buf_add_text(buf, "\\\"");
        break;
    case '\\':
        buf_add_text(buf, "\\\\");
        break;
    case '\n':
        buf_add_text(buf, "\\n");
        break;
    case '\r':
        buf_add_text(buf, "\\r");
        break;
    case '\t':
        buf_add_text(buf, "\\t");
        break;
    default:
        buf_addf(buf, "\\u%04x", c);
    }
}

void buf_add_json(struct buf *buf, struct str text)
{
    const unsigned char *at = (const unsigned char *)text.at, *end = at + text.len;
    buf_reserve(buf, text.len + 2);
    buf_add_char(buf, '"');
    while (at < end) {
        struct cursor plain = {at, end};
        skip_plain(&plain);
        while (plain.at < end && *plain.at >= 0x20 && *plain.at != '"' && *plain.at != '\\' &&
               *plain.at < 0x80)
            plain.at++;
        buf_add(buf, at, (size_t)(plain.at - at));
        at = plain.at;
        if (at >= end)
            break;
        if (*at < 0x80) {
            buf_add_json_escape(buf, *at++);
            continue;
        }
        size_t len = utf8_sequence(at, end);
        if (len > 0)
            buf_add(buf, at, len);
        else
            buf_add_text(buf, "\xef\xbf\xbd");
        at += MAX(len, (size_t)1);
    }
    buf_add_char(buf, '"');
}

void buf_add_json_compact(struct buf *buf, struct str value)
{
    bool in_string = false;
    buf_reserve(buf, value.len);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (in_string && c == '\\' && i + 1 < value.len) {
            buf_add(buf, value.at + i, 2);
            i++;
            continue;
        }
        if (c == '"')
            in_string = !in_string;
        if (in_string || (c != ' ' && c != '\n' && c != '\r' && c != '\t'))
            buf_add_char(buf, c);
    }
}

static void line_begin(struct buf *buf, size_t level)
{
    buf_addf(buf, "\n%*s", (int)(2 * level), "");
}

void buf_add_json_indented(struct buf *buf, struct str value, size_t level)
{
    cleanup_buf struct buf compact = BUF_INIT;
    bool in_string = false;
    buf_add_json_compact(&compact, value);
    for (size_t i = 0; i < compact.len; i++) {
        char c = compact.at[i], before = i > 0 ? compact.at[i - 1] : '\0';
        bool is_opening = !in_string && (c == '{' || c == '['),
             is_closing = !in_string && (c == '}' || c == ']');
        if (is_closing && before != '{' && before != '[')
            line_begin(buf, --level);
        else if (is_closing)
            level--;
        buf_add_char(buf, c);
        level += is_opening;
        if (in_string && c == '\\')
            buf_add_char(buf, compact.at[++i]);
        else if (c == '"')
            in_string = !in_string;
        else if (is_opening ? !strchr("}]", compact.at[i + 1]) : c == ',' && !in_string)
            line_begin(buf, level);
        else if (c == ':' && !in_string)
            buf_add_char(buf, ' ');
    }
}

void buf_add_json_double(struct buf *buf, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_add_text(buf, text);
    if (!strpbrk(text, ".en"))
        buf_add_text(buf, ".0");
}

void buf_add_base64(struct buf *buf, struct str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = (const unsigned char *)bytes.at;
    buf_reserve(buf, (bytes.len + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        unsigned group = (unsigned)at[i] << 16;
        if (left > 1)
            group |= (unsigned)at[i + 1] << 8;
        if (left > 2)
            group |= at[i + 2];
        buf_add_char(buf, digits[group >> 18]);
        buf_add_char(buf, digits[group >> 12 & 63]);
        buf_add_char(buf, left > 1 ? digits[group >> 6 & 63] : '=');
        buf_add_char(buf, left > 2 ? digits[group & 63] : '=');
    }
}
