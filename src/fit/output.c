/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/output.h"

#include "base/parse.h"

int rate_pattern_make(struct rate_pattern *pattern, const char *text, struct err *err)
{
    char why[160];
    *pattern = (struct rate_pattern){0};
    if (!text)
        return 0;
    int code = regcomp(&pattern->regex, text, REG_EXTENDED);
    pattern->is_set = code == 0;
    if (code == 0)
        return 0;
    regerror(code, &pattern->regex, why, sizeof(why));
    return fail(err, ERR_USAGE,
                "--rate-pattern '%s': %s; expected an extended regular expression with the number "
                "in brackets, such as 'rate: ([0-9.]+)'",
                text, why);
}

void rate_pattern_release(struct rate_pattern *pattern)
{
    if (pattern->is_set)
        regfree(&pattern->regex);
    pattern->is_set = false;
}

double rate_pattern_find(const struct rate_pattern *pattern, const char *line)
{
    regmatch_t found[2];
    double rate = 0;
    if (!pattern->is_set || regexec(&pattern->regex, line, 2, found, 0) != 0)
        return 0;
    const regmatch_t *number = &found[pattern->regex.re_nsub > 0 && found[1].rm_so >= 0];
    struct str text = {line + number->rm_so, (size_t)(number->rm_eo - number->rm_so)};
    return double_parse(str_trim(text), &rate, NULL) == 0 && rate > 0 ? rate : 0;
}

static void line_end(struct output *output, const struct rate_pattern *pattern, double *rate)
{
    double found = output->line.len > 0 ? rate_pattern_find(pattern, buf_text(&output->line)) : 0;
    *rate = found > 0 ? found : *rate;
    buf_reset(&output->line);
}

void output_take(struct output *output, struct str bytes, const struct rate_pattern *pattern,
                 double *rate)
{
    for (size_t i = 0; pattern->is_set && i < bytes.len; i++) {
        char c = bytes.at[i];
        if (c == '\n' || c == '\r')
            line_end(output, pattern, rate);
        else if (c != '\0' && output->line.len < OUTPUT_LINE_BYTES)
            buf_add_char(&output->line, c);
    }
    struct buf *tail = &output->tail;
    size_t kept = MIN(bytes.len, (size_t)OUTPUT_TAIL_BYTES);
    buf_add(tail, bytes.at + bytes.len - kept, kept);
    if (tail->len > 2 * (size_t)OUTPUT_TAIL_BYTES)
        buf_consume(tail, tail->len - OUTPUT_TAIL_BYTES);
}

void output_end(struct output *output, const struct rate_pattern *pattern, double *rate)
{
    line_end(output, pattern, rate);
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
