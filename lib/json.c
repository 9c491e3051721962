/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "text.h"

enum {
    DEPTH_MAX = 512
};

/*
 * Returns the length of the UTF-8 sequence at `at`, or 0 if there is none (overlong, surrogate,
 * cut). RFC 3629.
 */
static size_t utf8_len(const unsigned char *at, const unsigned char *end)
{
    size_t left = (size_t)(end - at);
    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] < 0xe0)
        return left >= 2 && (at[1] & 0xc0) == 0x80 ? 2 : 0;
    if (at[0] >= 0xe0 && at[0] < 0xf0) {
        unsigned char low = at[0] == 0xe0 ? 0xa0 : 0x80, high = at[0] == 0xed ? 0x9f : 0xbf;
        return left >= 3 && at[1] >= low && at[1] <= high && (at[2] & 0xc0) == 0x80 ? 3 : 0;
    }
    if (at[0] >= 0xf0 && at[0] < 0xf5) {
        unsigned char low = at[0] == 0xf0 ? 0x90 : 0x80, high = at[0] == 0xf4 ? 0x8f : 0xbf;
        return left >= 4 && at[1] >= low && at[1] <= high && (at[2] & 0xc0) == 0x80 &&
                       (at[3] & 0xc0) == 0x80
                   ? 4
                   : 0;
    }
    return 0;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* Returns the code unit after "\u", or -1 if the four digits are not there. */
static int hex4(const char *at, const char *end)
{
    if (end - at < 4)
        return -1;
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* The position after an escape whose backslash is at `at`. */
static const char *skip_escape(const char *at, const char *end)
{
    if (end - at < 2)
        return NULL;
    if (at[1] == 'u')
        return hex4(at + 2, end) < 0 ? NULL : at + 6;
    return at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) ? at + 2 : NULL;
}

static const char *skip_string(const char *at, const char *end)
{
    if (at == end || *at != '"')
        return NULL;
    at++;
    while (at < end) {
        unsigned char c = (unsigned char)*at;
        if (c == '"')
            return at + 1;
        if (c == '\\') {
            at = skip_escape(at, end);
            if (!at)
                return NULL;
        } else if (c >= 0x80) {
            size_t len = utf8_len((const unsigned char *)at, (const unsigned char *)end);
            if (len == 0)
                return NULL;
            at += len;
        } else if (c < 0x20) {
            return NULL;
        } else {
            at++;
        }
    }
    return NULL;
}

static const char *skip_digits(const char *at, const char *end)
{
    const char *first = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == first ? NULL : at;
}

static const char *skip_number(const char *at, const char *end)
{
    if (at < end && *at == '-')
        at++;
    const char *first = at;
    at = skip_digits(at, end);
    if (!at || (*first == '0' && at - first > 1))
        return NULL;
    if (at < end && *at == '.') {
        at = skip_digits(at + 1, end);
        if (!at)
            return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        at = skip_digits(at, end);
    }
    return at;
}

static const char *skip_scalar(const char *at, const char *end)
{
    static const struct muster_text words[] = {{"true", 4}, {"false", 5}, {"null", 4}};
    if (*at == '"')
        return skip_string(at, end);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if ((size_t)(end - at) >= words[i].len && memcmp(at, words[i].at, words[i].len) == 0)
            return at + words[i].len;
    return skip_number(at, end);
}

/* The position after a member's key and colon, with the white space around them. */
static const char *skip_key(const char *at, const char *end)
{
    at = skip_string(skip_space(at, end), end);
    if (!at)
        return NULL;
    at = skip_space(at, end);
    return at < end && *at == ':' ? at + 1 : NULL;
}

/* The open containers, the innermost one last: one bit each, set for an object. */
struct nest {
    uint64_t objects[DEPTH_MAX / 64];
    size_t depth;
};

static bool nest_push(struct nest *nest, bool is_object)
{
    if (nest->depth == DEPTH_MAX)
        return false;
    uint64_t bit = UINT64_C(1) << (nest->depth % 64);
    uint64_t *word = &nest->objects[nest->depth++ / 64];
    *word = is_object ? *word | bit : *word & ~bit;
    return true;
}

static bool nest_is_object(const struct nest *nest)
{
    return nest->objects[(nest->depth - 1) / 64] >> ((nest->depth - 1) % 64) & 1;
}

/*
 * Called when a value has just ended: closes the containers that end after it. Returns where the
 * next value begins, or where the whole value ended if nest->depth is 0; NULL if the text is
 * malformed.
 */
static const char *after_value(struct nest *nest, const char *at, const char *end)
{
    while (nest->depth > 0) {
        bool in_object = nest_is_object(nest);
        at = skip_space(at, end);
        if (at == end)
            return NULL;
        if (*at == ',')
            return in_object ? skip_key(at + 1, end) : at + 1;
        if (*at != (in_object ? '}' : ']'))
            return NULL;
        nest->depth--;
        at++;
    }
    return at;
}

/* Opens the container at `at`. Returns where its first value begins, or its end if it is empty. */
static const char *open_container(struct nest *nest, const char *at, const char *end,
                                  bool *is_empty)
{
    bool is_object = *at == '{';
    at = skip_space(at + 1, end);
    *is_empty = at < end && *at == (is_object ? '}' : ']');
    if (*is_empty)
        return nest->depth < DEPTH_MAX ? at + 1 : NULL;
    if (!nest_push(nest, is_object))
        return NULL;
    return is_object ? skip_key(at, end) : at;
}

const char *mw_json_skip(const char *at, const char *end)
{
    struct nest nest = {0};
    do {
        bool is_ended = true;
        at = skip_space(at, end);
        if (at == end)
            return NULL;
        if (*at == '{' || *at == '[')
            at = open_container(&nest, at, end, &is_ended);
        else
            at = skip_scalar(at, end);
        if (at && is_ended)
            at = after_value(&nest, at, end);
    } while (at && nest.depth > 0);
    return at;
}

bool mw_json_is_value(struct muster_text text)
{
    const char *end = text.at + text.len, *at = mw_json_skip(text.at, end);
    return at && skip_space(at, end) == end;
}

const char *mw_json_member(const char *at, const char *end, struct muster_text *key,
                           struct muster_text *value, bool *ok)
{
    *ok = false;
    at = skip_space(at, end);
    if (at == end)
        return NULL;
    char sign = *at;
    if (sign == ',' || sign == '{')
        at = skip_space(at + 1, end);
    else if (sign != '}')
        return NULL;
    if (sign != ',' && at < end && *at == '}') {
        *ok = skip_space(at + 1, end) == end;
        return NULL;
    }
    const char *key_end = skip_string(at, end);
    if (!key_end)
        return NULL;
    *key = (struct muster_text){at + 1, (size_t)(key_end - at) - 2};
    at = skip_key(at, end);
    if (!at)
        return NULL;
    at = skip_space(at, end);
    const char *value_end = mw_json_skip(at, end);
    if (!value_end)
        return NULL;
    *value = (struct muster_text){at, (size_t)(value_end - at)};
    at = skip_space(value_end, end);
    return at < end && (*at == ',' || *at == '}') ? at : NULL;
}

bool muster_json_member(struct muster_text object, const char *name, struct muster_text *value)
{
    struct muster_text key, found;
    const char *at = object.at, *end = at + object.len;
    size_t name_len = strlen(name);
    bool ok = false;
    at = skip_space(at, end);
    if (at == end || *at != '{')
        return false;
    while ((at = mw_json_member(at, end, &key, &found, &ok)) != NULL) {
        if (key.len == name_len && memcmp(key.at, name, name_len) == 0) {
            *value = found;
            return true;
        }
    }
    return false;
}

bool mw_json_u64(struct muster_text value, uint64_t *out)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < value.len; i++) {
        uint64_t digit = (uint64_t)(value.at[i] - '0');
        if (value.at[i] < '0' || value.at[i] > '9' || sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *out = sum;
    return value.len > 0;
}

/* Output that keeps counting when it is full, as snprintf does. */
struct sink {
    char *out;
    size_t cap, len;
};

static void sink_add(struct sink *sink, const char *at, size_t len)
{
    if (sink->len < sink->cap) {
        size_t room = sink->cap - sink->len;
        memcpy(sink->out + sink->len, at, len < room ? len : room);
    }
    sink->len += len;
}

static size_t sink_end(struct sink *sink)
{
    if (sink->cap > 0)
        sink->out[sink->len < sink->cap ? sink->len : sink->cap - 1] = '\0';
    return sink->len;
}

/* Adds the escape of one byte, or U+FFFD for a byte of 0x80 or above (malformed UTF-8). */
static void quote_one(struct sink *sink, unsigned char c)
{
    static const char short_from[] = "\"\\\b\f\n\r\t", short_to[] = "\"\\bfnrt",
                      hex[] = "0123456789abcdef";
    if (c >= 0x80) {
        sink_add(sink, "\xef\xbf\xbd", 3);
        return;
    }
    const char *found = c == 0 ? NULL : strchr(short_from, c);
    if (found) {
        char escape[2] = {'\\', short_to[found - short_from]};
        sink_add(sink, escape, 2);
    } else {
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        sink_add(sink, escape, 6);
    }
}

size_t muster_json_quote(struct muster_text text, char *out, size_t cap)
{
    struct sink sink = {.out = out, .cap = cap};
    const unsigned char *at = (const unsigned char *)text.at, *end = at + text.len, *plain = at;
    sink_add(&sink, "\"", 1);
    while (at < end) {
        size_t len = *at >= 0x20 && *at != '"' && *at != '\\' ? utf8_len(at, end) : 0;
        if (len > 0) {
            at += len;
            continue;
        }
        sink_add(&sink, (const char *)plain, (size_t)(at - plain));
        quote_one(&sink, *at++);
        plain = at;
    }
    sink_add(&sink, (const char *)plain, (size_t)(at - plain));
    sink_add(&sink, "\"", 1);
    return sink_end(&sink);
}

static void sink_add_code_point(struct sink *sink, uint32_t code)
{
    char utf8[4];
    if (code < 0x80) {
        utf8[0] = (char)code;
        sink_add(sink, utf8, 1);
    } else if (code < 0x800) {
        utf8[0] = (char)(0xc0 | code >> 6);
        utf8[1] = (char)(0x80 | (code & 0x3f));
        sink_add(sink, utf8, 2);
    } else if (code < 0x10000) {
        utf8[0] = (char)(0xe0 | code >> 12);
        utf8[1] = (char)(0x80 | (code >> 6 & 0x3f));
        utf8[2] = (char)(0x80 | (code & 0x3f));
        sink_add(sink, utf8, 3);
    } else {
        utf8[0] = (char)(0xf0 | code >> 18);
        utf8[1] = (char)(0x80 | (code >> 12 & 0x3f));
        utf8[2] = (char)(0x80 | (code >> 6 & 0x3f));
        utf8[3] = (char)(0x80 | (code & 0x3f));
        sink_add(sink, utf8, 4);
    }
}

/* Decodes the escape at `at`, known to be well-formed, or the surrogate pair. Returns its end. */
static const char *decode_escape(struct sink *sink, const char *at, const char *end)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (at[1] != 'u') {
        sink_add(sink, to + (strchr(from, at[1]) - from), 1);
        return at + 2;
    }
    uint32_t unit = (uint32_t)hex4(at + 2, end);
    at += 6;
    if (unit >= 0xd800 && unit < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        int low = hex4(at + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
            sink_add_code_point(sink, 0x10000 + ((unit - 0xd800) << 10) + ((uint32_t)low - 0xdc00));
            return at + 6;
        }
    }
    sink_add_code_point(sink, unit >= 0xd800 && unit < 0xe000 ? 0xfffd : unit);
    return at;
}

size_t muster_json_decode(struct muster_text value, char *out, size_t cap)
{
    struct sink sink = {.out = out, .cap = cap};
    const char *at = value.at, *end = at + value.len;
    if (skip_string(at, end) != end || value.len == 0) {
        sink_end(&sink);
        return SIZE_MAX;
    }
    at++;
    end--;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        const char *plain_end = escape ? escape : end;
        sink_add(&sink, at, (size_t)(plain_end - at));
        at = escape ? decode_escape(&sink, escape, end) : end;
    }
    return sink_end(&sink);
}
