/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <strings.h>

#include "base/buf.h"

int u64_parse(struct str text, uint64_t min, uint64_t max, uint64_t *out, struct err *err)
{
    uint64_t value = 0;
    if (text.len == 0)
        return fail(err, ERR_USAGE, "expected a whole number, found nothing");
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c < '0' || c > '9')
            return fail(err, ERR_USAGE, "expected a whole number, found '%.*s'", (int)text.len,
                        text.at);
        uint64_t digit = (uint64_t)(c - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return fail(err, ERR_USAGE, "'%.*s' is too large", (int)text.len, text.at);
        value = value * 10 + digit;
    }
    if (value < min && max == UINT64_MAX)
        return fail(err, ERR_USAGE, "%" PRIu64 " is too small, the least is %" PRIu64, value, min);
    if (value < min || value > max)
        return fail(err, ERR_USAGE, "%" PRIu64 " is not between %" PRIu64 " and %" PRIu64, value,
                    min, max);
    *out = value;
    return 0;
}

int python_u64_parse(struct str text, uint64_t min, uint64_t max, uint64_t *out, struct err *err)
{
    cleanup_buf struct buf digits = BUF_INIT;
    struct str number = str_trim(text);
    bool has_sign = number.len > 1 && number.at[0] == '+';
    for (size_t i = has_sign; i < number.len; i++) {
        const char *c = &number.at[i];
        bool is_between = i > has_sign && i + 1 < number.len && c[-1] != '_' && c[1] != '_';
        if (*c != '_' || !is_between)
            buf_add_char(&digits, *c);
    }
    return u64_parse(buf_str(&digits), min, max, out, err);
}

/* The longest prefix that is a plain decimal number; its length, 0 if there is none. */
static size_t decimal_prefix(struct str text, double *out)
{
    size_t len = 0;
    double value = 0.0, scale = 1.0;
    bool point = false, digits = false;
    for (; len < text.len; len++) {
        char c = text.at[len];
        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9') {
            digits = true;
            /* Further digits are beyond a double's precision, and would make `scale` infinite. */
            if (point && scale >= 1e18)
                continue;
            value = value * 10.0 + (c - '0');
            scale *= point ? 10.0 : 1.0;
        } else {
            break;
        }
    }
    *out = value / scale;
    return digits ? len : 0;
}

int double_parse(struct str text, double *out, struct err *err)
{
    char copy[64];
    if (text.len == 0 || text.len >= sizeof(copy))
        return fail(err, ERR_USAGE, "expected a number, found '%.*s'", (int)text.len, text.at);
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    char *end = NULL;
    double value = strtod(copy, &end);
    if (*end != '\0' || !isfinite(value))
        return fail(err, ERR_USAGE, "expected a number, found '%s'", copy);
    *out = value;
    return 0;
}

static const struct unit {
    const char *name;
    double factor;
} size_units[] =
    {
        {"", 1},        {"b", 1},        {"k", 0x1p10},   {"kib", 0x1p10}, {"ki", 0x1p10},
        {"m", 0x1p20},  {"mib", 0x1p20}, {"mi", 0x1p20},  {"g", 0x1p30},   {"gib", 0x1p30},
        {"gi", 0x1p30}, {"t", 0x1p40},   {"tib", 0x1p40}, {"ti", 0x1p40},  {"kb", 1e3},
        {"mb", 1e6},    {"gb", 1e9},     {"tb", 1e12},
},
  duration_units[] = {
      {"", 1e3},   {"ms", 1},     {"s", 1e3},    {"sec", 1e3},
      {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3},
};

static const struct unit *unit_find(const struct unit *units, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == name.len && strncasecmp(units[i].name, name.at, name.len) == 0)
            return &units[i];
    return NULL;
}

int size_parse(struct str text, uint64_t *out_bytes, struct err *err)
{
    double value = 0;
    struct str all = str_trim(text);
    size_t used = decimal_prefix(all, &value);
    const struct unit *unit = NULL;
    if (used > 0)
        unit = unit_find(size_units, countof(size_units),
                         str_trim((struct str){all.at + used, all.len - used}));
    if (!unit)
        return fail(err, ERR_USAGE, "expected a size such as 16GiB, found '%.*s'", (int)text.len,
                    text.at);
    if (value * unit->factor >= 0x1p63)
        return fail(err, ERR_USAGE, "size '%.*s' is too large", (int)text.len, text.at);
    /* A whole number is exact to the byte; a double holds only 53 bits of it. */
    uint64_t whole = 0;
    if (u64_parse((struct str){all.at, used}, 0, INT64_MAX, &whole, NULL) == 0) {
        *out_bytes = whole * (uint64_t)unit->factor;
        return 0;
    }
    *out_bytes = (uint64_t)(value * unit->factor + 0.5);
    return 0;
}

void size_format(char out[16], uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1023.5 && unit + 1 < countof(names)) {
        value /= 1024.0;
        unit++;
    }
    snprintf(out, 16, unit > 0 && value < 99.95 ? "%.1f %s" : "%.0f %s", value, names[unit]);
}

int duration_parse(struct str text, uint64_t *out_ms, struct err *err)
{
    struct str rest = str_trim(text);
    double total_ms = 0.0;
    if (rest.len == 0)
        goto malformed;
    while (rest.len > 0) {
        double value;
        size_t used = decimal_prefix(rest, &value);
        size_t end = used;
        while (end < rest.len && (rest.at[end] < '0' || rest.at[end] > '9'))
            end++;
        const struct unit *unit = unit_find(duration_units, countof(duration_units),
                                            str_trim((struct str){rest.at + used, end - used}));
        if (used == 0 || !unit)
            goto malformed;
        total_ms += value * unit->factor;
        rest.at += end;
        rest.len -= end;
    }
    if (total_ms >= 0x1p53)
        return fail(err, ERR_USAGE, "duration '%.*s' is too long", (int)text.len, text.at);
    *out_ms = (uint64_t)(total_ms + 0.5);
    return 0;
malformed:
    return fail(err, ERR_USAGE, "expected a duration such as 90s or 2h, found '%.*s'",
                (int)text.len, text.at);
}

void duration_format(char out[24], uint64_t ms)
{
    uint64_t s = ms / 1000;
    if (ms < 1000)
        snprintf(out, 24, "%" PRIu64 " ms", ms);
    else if (s < 100)
        snprintf(out, 24, "%.1f s", (double)ms / 1000.0);
    else if (s < 3600)
        snprintf(out, 24, "%" PRIu64 " m %02" PRIu64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, 24, "%" PRIu64 " h %02" PRIu64 " m", s / 3600, s / 60 % 60);
    else
        snprintf(out, 24, "%" PRIu64 " d %02" PRIu64 " h", s / 86400, s / 3600 % 24);
}

void count_format(char out[32], uint64_t count)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    size_t used = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
}

void figures_format(char out[24], double value)
{
    snprintf(out, 24, value < 100 ? "%.3g" : "%.0f", value);
}

double percent_of(uint64_t part, uint64_t whole)
{
    double tenths = part < whole ? MIN((double)part * 1000.0 / (double)whole, 999.0) : 1000.0;
    return (double)(uint64_t)tenths / 10;
}
