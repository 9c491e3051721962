/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/output.h"

#include "base/parse.h"

int output_pattern_make(struct output_pattern *pattern, const char *option, const char *text,
                        struct err *err)
{
    char why[160];
    *pattern = (struct output_pattern){0};
    if (!text)
        return 0;
    int code = regcomp(&pattern->regex, text, REG_EXTENDED);
    pattern->is_set = code == 0;
    if (code == 0)
        return 0;
    regerror(code, &pattern->regex, why, sizeof(why));
    return fail(err, ERR_USAGE,
                "%s '%s': %s; expected an extended regular expression with the number in brackets, "
                "such as 'rate: ([0-9.]+)'",
                option, text, why);
}

void output_pattern_release(struct output_pattern *pattern)
{
    if (pattern->is_set)
        regfree(&pattern->regex);
    pattern->is_set = false;
}

/* The only number among the words of the text; empty if there is no number, or more than one. */
static struct str number_in(struct str text)
{
    static const char digits[] = "0123456789", parts[] = "0123456789.,eE+-";
    struct str found = {0};
    for (size_t at = 0, len; at < text.len; at += MAX(len, (size_t)1)) {
        bool has_digit = false;
        for (len = 0; at + len < text.len && memchr(parts, text.at[at + len], sizeof(parts) - 1);
             len++)
            has_digit = has_digit || memchr(digits, text.at[at + len], sizeof(digits) - 1);
        if (has_digit && found.at)
            return (struct str){0};
        if (has_digit)
            found = (struct str){text.at + at, len};
    }
    return found;
}

bool output_pattern_find(const struct output_pattern *pattern, const char *line, double *number)
{
    regmatch_t found[2];
    *number = 0;
    if (!pattern->is_set || regexec(&pattern->regex, line, 2, found, 0) != 0)
        return false;
    const regmatch_t *at = &found[pattern->regex.re_nsub > 0 && found[1].rm_so >= 0];
    struct str text = str_trim((struct str){line + at->rm_so, (size_t)(at->rm_eo - at->rm_so)});
    if (pattern->regex.re_nsub == 0 && double_parse(text, number, NULL) != 0)
        text = number_in(text);
    if (double_parse(text, number, NULL) != 0 || !(*number > 0))
        *number = 0;
    return true;
}

static void match_take(struct output_match *match, const char *line, uint64_t now_us)
{
    double number;
    if (!match->pattern || !output_pattern_find(match->pattern, line, &number))
        return;
    match->at_us = now_us;
    match->number = number > 0 ? number : match->number;
}

static void line_end(struct output *output, struct output_matches matches, uint64_t now_us)
{
    for (size_t i = 0; output->line.len > 0 && i < matches.len; i++)
        match_take(&matches.at[i], buf_text(&output->line), now_us);
    buf_reset(&output->line);
}

static bool has_pattern(struct output_matches matches)
{
    bool has = false;
    for (size_t i = 0; i < matches.len; i++)
        has = has || (matches.at[i].pattern && matches.at[i].pattern->is_set);
    return has;
}

void output_take(struct output *output, struct str bytes, struct output_matches matches,
                 uint64_t now_us)
{
    bool is_watched = has_pattern(matches);
    for (size_t i = 0; is_watched && i < bytes.len; i++) {
        char c = bytes.at[i];
        if (c == '\n' || c == '\r')
            line_end(output, matches, now_us);
        else if (c != '\0' && output->line.len < OUTPUT_LINE_BYTES)
            buf_add_char(&output->line, c);
    }
    struct buf *tail = &output->tail;
    size_t kept = MIN(bytes.len, (size_t)OUTPUT_TAIL_BYTES);
    buf_add(tail, bytes.at + bytes.len - kept, kept);
    if (tail->len > 2 * (size_t)OUTPUT_TAIL_BYTES)
        buf_consume(tail, tail->len - OUTPUT_TAIL_BYTES);
}

void output_end(struct output *output, struct output_matches matches, uint64_t now_us)
{
    line_end(output, matches, now_us);
}

struct str output_tail(const struct output *output)
{
    struct str all = buf_str(&output->tail);
    size_t kept = MIN(all.len, (size_t)OUTPUT_TAIL_BYTES);
    return (struct str){all.at + all.len - kept, kept};
}

struct str output_last_line(const struct output *output)
{
    struct str rest = output_tail(output), line, last = STR("");
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        if (str_trim(line).len > 0)
            last = str_trim(line);
    return last;
}

void output_release(struct output *output)
{
    buf_release(&output->tail);
    buf_release(&output->line);
}
