/* SPDX-License-Identifier: Apache-2.0
 *
 * One form for each value: a text with `"` and `\` escaped and nothing else, a number as its digits
 * without zeros at either end and a power of ten, the members of an object in the order of their keys.
 */
#include "base/json_identity.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/xalloc.h"

enum {
    PLAIN_DIGITS_MAX = 40,    /* most digits of a number that is added without a power of ten */
    PLAIN_ZEROS_MAX = 6,      /* most zeros right behind its point */
    EXPONENT_DIGITS_MAX = 17, /* so that sums with lengths of texts stay within 64 bits */
};

/* ---- texts ---- */

void buf_add_text_identity(struct buf *out, struct str text)
{
    buf_add_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"' || text.at[i] == '\\')
            buf_add_char(out, '\\');
        buf_add_char(out, text.at[i]);
    }
    buf_add_char(out, '"');
}

static void string_add(struct buf *out, struct str value)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (!memchr(value.at, '\\', value.len))
        buf_add_str(out, value);
    else if (json_to_wide_text(value, &text))
        buf_add_text_identity(out, buf_str(&text));
}

/* ---- numbers ---- */

struct decimal {
    struct str digits; /* may hold a point */
    size_t n_digits;   /* without it */
    int64_t exponent;  /* of the last digit */
    bool is_negative;
};

static size_t digits_count(struct str text, struct str *rest)
{
    size_t n = 0;
    while (n < text.len && text.at[n] >= '0' && text.at[n] <= '9')
        n++;
    *rest = (struct str){text.at + n, text.len - n};
    return n;
}

/* False if it has more digits than fit. */
static bool exponent_read(struct str text, int64_t *out)
{
    bool is_negative = text.len > 0 && text.at[0] == '-';
    size_t sign = is_negative || (text.len > 0 && text.at[0] == '+');
    struct str digits = {text.at + sign, text.len - sign};
    uint64_t value = 0;
    while (digits.len > 1 && digits.at[0] == '0')
        digits = (struct str){digits.at + 1, digits.len - 1};
    if (digits.len > EXPONENT_DIGITS_MAX || !json_to_u64(digits, &value))
        return false;
    *out = is_negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* False if the exponent has too many digits: the number then has no canonical form. */
static bool decimal_read(struct str number, struct decimal *out)
{
    struct str rest = number;
    int64_t exponent = 0;
    *out = (struct decimal){.is_negative = number.at[0] == '-'};
    if (out->is_negative)
        rest = (struct str){rest.at + 1, rest.len - 1};
    out->digits.at = rest.at;
    out->n_digits = digits_count(rest, &rest);
    if (rest.len > 0 && rest.at[0] == '.') {
        size_t n_behind = digits_count((struct str){rest.at + 1, rest.len - 1}, &rest);
        out->n_digits += n_behind;
        out->exponent = -(int64_t)n_behind;
    }
    out->digits.len = (size_t)(rest.at - out->digits.at);
    if (rest.len > 0 && !exponent_read((struct str){rest.at + 1, rest.len - 1}, &exponent))
        return false;
    out->exponent += exponent;
    return true;
}

static void zeros_drop(struct decimal *d)
{
    while (d->digits.len > 0 && (d->digits.at[0] == '0' || d->digits.at[0] == '.')) {
        d->n_digits -= d->digits.at[0] == '0';
        d->digits = (struct str){d->digits.at + 1, d->digits.len - 1};
    }
    while (d->digits.len > 0) {
        char last = d->digits.at[d->digits.len - 1];
        if (last != '0' && last != '.')
            return;
        d->n_digits -= last == '0';
        d->exponent += last == '0';
        d->digits.len--;
    }
}

static void digits_add(struct buf *out, struct str digits, size_t point)
{
    size_t n = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] == '.')
            continue;
        if (n++ == point)
            buf_add_char(out, '.');
        buf_add_char(out, digits.at[i]);
    }
}

static void decimal_add(struct buf *out, const struct decimal *d)
{
    int64_t point = (int64_t)d->n_digits + d->exponent; /* digits before it */
    bool is_plain = point >= -PLAIN_ZEROS_MAX && point <= PLAIN_DIGITS_MAX;
    if (d->is_negative)
        buf_add_char(out, '-');
    if (is_plain && point <= 0)
        buf_add_text(out, "0.");
    for (int64_t i = point; is_plain && i < 0; i++)
        buf_add_char(out, '0');
    digits_add(out, d->digits, is_plain && point > 0 ? (size_t)point : SIZE_MAX);
    for (int64_t i = 0; is_plain && i < d->exponent; i++)
        buf_add_char(out, '0');
    if (!is_plain)
        buf_addf(out, "e%ld", d->exponent);
}

/* A plain whole number, as most ids are. */
static bool is_plain_whole(struct str number)
{
    struct str rest;
    size_t n_digits = digits_count(number, &rest);
    return rest.len == 0 && n_digits <= PLAIN_DIGITS_MAX && number.at[0] != '0';
}

static void number_add(struct buf *out, struct str value)
{
    struct decimal d;
    if (is_plain_whole(value)) {
        buf_add_str(out, value);
        return;
    }
    bool is_whole = decimal_read(value, &d);
    zeros_drop(&d);
    if (d.n_digits == 0)
        buf_add_char(out, '0');
    else if (is_whole)
        decimal_add(out, &d);
    else
        buf_add_str(out, value);
}

bool buf_add_number_identity(struct buf *out, struct str value)
{
    struct str number = str_trim(value);
    bool is_plain = number.len > 0 && is_plain_whole(number);
    if (!is_plain && (json_kind_of(number) != JSON_NUMBER || !json_is_value(number)))
        return false;
    number_add(out, number);
    return true;
}

/* ---- the order of numbers ---- */

/* Reads a number without the zeros at its ends. One whose exponent has too many digits counts as 0:
 * it is that close to 0, since the others are infinite as floats. */
static struct decimal decimal_of(struct str number)
{
    struct decimal d;
    if (!decimal_read(number, &d))
        d.digits.len = d.n_digits = 0;
    zeros_drop(&d);
    return d;
}

/* The next digit, past the point; '0' behind the last one. */
static char digit_next(struct str *digits)
{
    char digit = '0';
    if (digits->len > 0 && digits->at[0] == '.')
        *digits = (struct str){digits->at + 1, digits->len - 1};
    if (digits->len == 0)
        return digit;
    digit = digits->at[0];
    *digits = (struct str){digits->at + 1, digits->len - 1};
    return digit;
}

/* Of numbers that are not 0, without their signs. */
static int magnitude_order(struct decimal a, struct decimal b)
{
    int64_t point_a = (int64_t)a.n_digits + a.exponent, point_b = (int64_t)b.n_digits + b.exponent;
    if (point_a != point_b)
        return point_a > point_b ? 1 : -1;
    for (size_t i = 0; i < MAX(a.n_digits, b.n_digits); i++) {
        char digit_a = digit_next(&a.digits), digit_b = digit_next(&b.digits);
        if (digit_a != digit_b)
            return digit_a > digit_b ? 1 : -1;
    }
    return 0;
}

int json_number_order(struct str a, struct str b)
{
    struct decimal left = decimal_of(a), right = decimal_of(b);
    int sign_left = left.n_digits == 0 ? 0 : left.is_negative ? -1 : 1;
    int sign_right = right.n_digits == 0 ? 0 : right.is_negative ? -1 : 1;
    if (sign_left != sign_right)
        return sign_left > sign_right ? 1 : -1;
    return sign_left * magnitude_order(left, right);
}

bool json_to_whole(struct str value, uint64_t *out)
{
    cleanup_buf struct buf number = BUF_INIT;
    if (json_to_u64(value, out) && (value.len == 1 || value.at[0] != '0'))
        return true;
    if (!buf_add_number_identity(&number, value))
        return false;
    struct str digits = buf_str(&number), rest;
    size_t n_digits = digits_count(digits, &rest);
    bool is_large = rest.len > 1 && rest.at[0] == 'e' && rest.at[1] != '-';
    if (n_digits == 0 || (rest.len > 0 && !is_large))
        return false;
    if (is_large || !json_to_u64(digits, out))
        *out = UINT64_MAX;
    return true;
}

/* ---- objects and arrays ---- */

/* Where a member stands in a buffer; its key comes first. */
struct span {
    size_t at, len;
};

static int span_order(const void *a, const void *b, void *bytes)
{
    const struct span *left = a, *right = b;
    const char *at = bytes;
    int order = str_compare((struct str){at + left->at, left->len},
                            (struct str){at + right->at, right->len});
    return order ? order : (left->at > right->at) - (left->at < right->at);
}

static void sorted_add(struct buf *out, struct span *spans, size_t n_spans, const struct buf *bytes)
{
    if (n_spans > 0)
        qsort_r(spans, n_spans, sizeof(*spans), span_order, bytes->at);
    for (size_t i = 0; i < n_spans; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        buf_add(out, bytes->at + spans[i].at, spans[i].len);
    }
}

/* NOLINTBEGIN(misc-no-recursion): JSON_DEPTH_MAX deep */

static void value_add(struct buf *out, struct str value);

static void object_add(struct buf *out, struct str value)
{
    struct json_members walk = json_members(value);
    cleanup_buf struct buf bytes = BUF_INIT;
    struct span *spans = NULL;
    size_t n_spans = 0, cap = 0;
    struct str key, child;
    while (json_next(&walk, &key, &child)) {
        if (n_spans == cap) {
            cap = cap ? cap * 2 : 8;
            spans = xrealloc(spans, cap * sizeof(*spans));
        }
        size_t begin = bytes.len;
        string_add(&bytes, (struct str){key.at - 1, key.len + 2});
        buf_add_char(&bytes, ':');
        value_add(&bytes, child);
        spans[n_spans++] = (struct span){begin, bytes.len - begin};
    }
    buf_add_char(out, '{');
    sorted_add(out, spans, n_spans, &bytes);
    buf_add_char(out, '}');
    free(spans);
}

static void array_add(struct buf *out, struct str value)
{
    bool is_begun = false;
    struct str element;
    buf_add_char(out, '[');
    for (size_t i = 0; json_element(&value, &is_begun, &element); i++) {
        if (i > 0)
            buf_add_char(out, ',');
        value_add(out, element);
    }
    buf_add_char(out, ']');
}

static void value_add(struct buf *out, struct str value)
{
    switch (json_kind_of(value)) {
    case JSON_OBJECT:
        object_add(out, value);
        return;
    case JSON_ARRAY:
        array_add(out, value);
        return;
    case JSON_STRING:
        string_add(out, value);
        return;
    case JSON_NUMBER:
        number_add(out, value);
        return;
    case JSON_BOOL:
    case JSON_NULL:
    case JSON_INVALID:
        buf_add_str(out, value);
        return;
    }
}

/* NOLINTEND(misc-no-recursion) */

void buf_add_json_identity(struct buf *out, struct str value)
{
    struct str trimmed = str_trim(value);
    bool is_plain =
        trimmed.len > 0 &&
        (trimmed.at[0] == '"' ? !memchr(trimmed.at, '\\', trimmed.len) : is_plain_whole(trimmed));
    if (is_plain) /* as most values are: they are in canonical form already */
        buf_add_str(out, trimmed);
    else if (json_is_value(trimmed))
        value_add(out, trimmed);
    else
        buf_add_str(out, value);
}
