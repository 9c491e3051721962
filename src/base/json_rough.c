/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_rough.h"

static struct str rest_from(struct str text, size_t at)
{
    return (struct str){text.at + at, text.len - at};
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

static size_t space_len(struct str text)
{
    size_t at = 0;
    while (at < text.len && is_one_of(text.at[at], " \t\r\n"))
        at++;
    return at;
}

/* Length of a string up to and with its closing quote; the whole rest if there is none. */
static size_t text_len(struct str text)
{
    for (size_t at = 1; at < text.len; at++) {
        if (text.at[at] == '\\')
            at++;
        else if (text.at[at] == '"')
            return at + 1;
    }
    return text.len;
}

static size_t word_len(struct str text)
{
    size_t at = 0;
    while (at < text.len && !is_one_of(text.at[at], " \t\r\n\",:[]{}"))
        at++;
    return at;
}

/* Length of the piece at the start of text, which is not empty: a bracket, a separator, a string,
 * or the word between those. */
static size_t piece_len(struct str text)
{
    if (text.at[0] == '"')
        return text_len(text);
    size_t len = word_len(text);
    return len > 0 ? len : 1;
}

/* Length of a value up to the comma or bracket that ends it; the whole rest if there is none. */
static size_t value_len(struct str text)
{
    size_t depth = 0;
    for (size_t at = 0; at < text.len; at += piece_len(rest_from(text, at))) {
        char c = text.at[at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return at;
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
    }
    return text.len;
}

static bool walk_end(struct json_members *walk, bool malformed)
{
    walk->malformed = malformed;
    walk->rest.len = 0;
    return false;
}

static bool is_next(struct str *rest, char wanted)
{
    *rest = rest_from(*rest, space_len(*rest));
    bool is_there = rest->len > 0 && rest->at[0] == wanted;
    *rest = rest_from(*rest, is_there);
    return is_there;
}

bool json_rough_next(struct json_members *walk, struct str *key, struct str *value)
{
    struct str rest = walk->rest;
    bool is_first = !walk->begun;
    if (is_first && !is_next(&rest, '{'))
        return walk_end(walk, true);
    if (is_next(&rest, '}'))
        return walk_end(walk, space_len(rest) < rest.len);
    if (!is_first && !is_next(&rest, ','))
        return walk_end(walk, true);
    rest = rest_from(rest, space_len(rest));
    size_t len = rest.len > 0 && rest.at[0] == '"' ? text_len(rest) : 0;
    if (len < 2 || rest.at[len - 1] != '"')
        return walk_end(walk, true);
    *key = (struct str){rest.at + 1, len - 2};
    rest = rest_from(rest, len);
    if (!is_next(&rest, ':'))
        return walk_end(walk, true);
    len = value_len(rest);
    if (len == rest.len) /* cut off */
        return walk_end(walk, true);
    *value = str_trim((struct str){rest.at, len});
    walk->begun = true;
    walk->rest = rest_from(rest, len);
    return true;
}

/* ---- what is wrong ---- */

static bool is_not_finite(struct str word)
{
    static const char *const names[] = {"NaN", "Infinity", "-Infinity", "nan",
                                        "inf", "-inf",     "-nan",      "-NaN"};
    for (size_t i = 0; i < countof(names); i++)
        if (str_equal(word, str_of(names[i])))
            return true;
    return false;
}

static bool has_control(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20)
            return true;
    return false;
}

static const char too_deep[] = "is nested deeper than 512 levels";

static const char *piece_flaw(struct str piece)
{
    if (is_one_of(piece.at[0], ",:[]{}") || json_is_value(piece))
        return NULL;
    if (is_not_finite(piece))
        return "has NaN or infinity, which JSON has no word for (null or a text can stand for it)";
    if (!utf8_is_valid(piece))
        return "is not UTF-8";
    if (piece.at[0] != '"')
        return "has a word that is no JSON";
    return has_control(piece) ? "has a control character within a text"
                              : "has a text with a wrong escape or without an end";
}

const char *json_flaw(struct str text, struct str *where)
{
    size_t depth = 0;
    *where = (struct str){text.at, 0};
    for (size_t at = space_len(text); at < text.len; at += space_len(rest_from(text, at))) {
        struct str piece = {text.at + at, piece_len(rest_from(text, at))};
        const char *flaw = piece_flaw(piece);
        char c = piece.at[0];
        depth += c == '[' || c == '{';
        depth -= depth > 0 && (c == ']' || c == '}');
        if (depth > JSON_DEPTH_MAX)
            flaw = too_deep;
        *where = piece;
        if (flaw)
            return flaw;
        at += piece.len;
    }
    where->len = 0;
    return NULL;
}

int json_refuse(struct str text, int code, struct err *err)
{
    struct str where;
    const char *flaw = json_flaw(text, &where);
    if (flaw == too_deep) /* it may well be a value */
        return fail(err, code, "it %s", flaw);
    return flaw ? fail(err, code, "not a JSON value: it %s", flaw)
                : fail(err, code, "not a JSON value");
}

bool json_is_whole_but_flawed(struct str text)
{
    struct str where;
    text = str_trim(text);
    return text.len > 0 && is_one_of(text.at[text.len - 1], "]}") && json_flaw(text, &where);
}
