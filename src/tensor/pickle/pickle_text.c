/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts: the UTF-8 that Python accepts, and the escapes of protocol 0.
 */
#include "base/hex.h"
#include "tensor/pickle/pickle_impl.h"

/* Length of the UTF-8 character at `at`, 0 if it is malformed. Surrogates are accepted, overlong
 * forms are not. */
static size_t character_len(const unsigned char *at, size_t len)
{
    static const struct {
        unsigned char mask, lead, len;
        uint32_t least;
    } forms[] = {{0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (size_t i = 0; i < countof(forms); i++) {
        if ((at[0] & forms[i].mask) != forms[i].lead)
            continue;
        uint32_t point = at[0] & (unsigned char)~forms[i].mask;
        for (size_t k = 1; k < forms[i].len; k++) {
            if (k >= len || (at[k] & 0xc0) != 0x80)
                return 0;
            point = point << 6 | (at[k] & 0x3f);
        }
        return point >= forms[i].least && point <= 0x10ffff ? forms[i].len : 0;
    }
    return 0;
}

bool text_is_python(struct str text)
{
    size_t i = 0;
    while (i < text.len) {
        uint64_t word;
        if (text.len - i >= sizeof(word)) {
            memcpy(&word, text.at + i, sizeof(word));
            if ((word & 0x8080808080808080) == 0) {
                i += sizeof(word);
                continue;
            }
        }
        const unsigned char *at = (const unsigned char *)text.at + i;
        size_t len = at[0] < 0x80 ? 1 : character_len(at, text.len - i);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

void text_point_add(struct buf *out, uint32_t point)
{
    if (point < 0x80) {
        buf_add_char(out, (char)point);
        return;
    }
    size_t n_more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    buf_add_char(out, (char)(leads[n_more] | point >> (6 * n_more)));
    while (n_more-- > 0)
        buf_add_char(out, (char)(0x80 | (point >> (6 * n_more) & 0x3f)));
}

/* Parses `n` hex digits; false if text does not begin with so many. */
static bool hex_parse(struct str text, size_t n, uint32_t *out)
{
    *out = 0;
    if (text.len < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool is_capital = text.at[i] >= 'A' && text.at[i] <= 'F';
        int digit = hex_digit((char)(text.at[i] | (is_capital ? 0x20 : 0)));
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return *out <= 0x10ffff;
}

static pickle_id decoded_node(struct pickle_vm *vm, size_t begin)
{
    const struct buf *decoded = &vm->pickle->decoded;
    return vm_node(vm, (struct pickle_node){.kind = PICKLE_TEXT,
                                            .at = vm->pickle->text.len + begin,
                                            .count = (uint32_t)(decoded->len - begin)});
}

/*
 * Each byte is a character of Latin-1; \uXXXX and \UXXXXXXXX are the other characters; any other
 * backslash is a plain character.
 */
pickle_id vm_text_escaped(struct pickle_vm *vm, struct str text)
{
    struct buf *out = &vm->pickle->decoded;
    size_t begin = out->len;
    decoded_reserve(vm->pickle, 2 * text.len); /* a byte becomes a character of at most two bytes */
    for (size_t i = 0; i < text.len; i++) {
        uint32_t point = (unsigned char)text.at[i];
        char kind = point == '\\' && i + 1 < text.len ? text.at[i + 1] : '\0';
        size_t n_digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
        if (n_digits > 0) {
            if (!hex_parse((struct str){text.at + i + 2, text.len - i - 2}, n_digits, &point))
                return 0;
            i += 1 + n_digits;
        }
        text_point_add(out, point);
    }
    return decoded_node(vm, begin);
}

/* A text as repr() writes it, between two quotes of the same kind. */
pickle_id vm_text_quoted(struct pickle_vm *vm, struct str text)
{
    static const char names[] = "\\'\"nrtabfv", values[] = "\\'\"\n\r\t\a\b\f\v";
    struct buf *out = &vm->pickle->decoded;
    size_t begin = out->len;
    decoded_reserve(vm->pickle, 2 * text.len); /* a byte becomes a character of at most two bytes */
    if (text.len < 2 || (text.at[0] != '\'' && text.at[0] != '"') ||
        text.at[text.len - 1] != text.at[0])
        return 0;
    for (size_t i = 1; i + 1 < text.len; i++) {
        uint32_t point = (unsigned char)text.at[i];
        if (point == (unsigned char)text.at[0] || point >= 0x80)
            return 0;
        if (point == '\\') {
            const char *name = i + 2 < text.len ? strchr(names, text.at[i + 1]) : NULL;
            if (name && *name) {
                point = (unsigned char)values[name - names];
                i++;
            } else if (i + 4 < text.len && text.at[i + 1] == 'x' &&
                       hex_parse((struct str){text.at + i + 2, 2}, 2, &point) && point < 0x80) {
                i += 3;
            } else {
                return 0;
            }
        }
        text_point_add(out, point);
    }
    return decoded_node(vm, begin);
}
