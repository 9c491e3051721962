/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/flaws.h"

#include "base/parse.h"

static const struct {
    bool is_flaw;
    const char *text;
} kinds[FLAW_N] = {
#define X(id, is_flaw, text) {is_flaw, text},
    FLAWS(X)
#undef X
};

void flaw_add(struct flaws *flaws, enum flaw flaw, uint64_t line, struct str found)
{
    struct flaw_count *of = &flaws->of[flaw];
    if (of->count++ > 0)
        return;
    of->line = line;
    size_t len = MIN(found.len, sizeof(of->example) - 1);
    while (len > 0 && len < found.len && ((unsigned char)found.at[len] & 0xc0) == 0x80)
        len--; /* do not cut a UTF-8 character */
    if (len > 0)
        memcpy(of->example, found.at, len);
    of->example[len] = '\0';
}

uint64_t flaws_count(const struct flaws *flaws)
{
    uint64_t count = 0;
    for (size_t i = 0; i < FLAW_N; i++)
        count += kinds[i].is_flaw ? flaws->of[i].count : 0;
    return count;
}

static void flaw_format(const struct flaw_count *of, const char *text, struct buf *out)
{
    char count[32];
    count_format(count, of->count);
    buf_addf(out, "%s line%s %s: %sline %lu", count, plural(of->count), text,
             of->count > 1 ? "the first is " : "", (unsigned long)of->line);
    if (of->example[0])
        buf_addf(out, ", '%s'", of->example);
}

int flaws_check(const struct flaws *flaws, const char *path, bool is_lenient, struct err *err)
{
    if (is_lenient || flaws_count(flaws) == 0)
        return 0;
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < FLAW_N; i++) {
        if (!kinds[i].is_flaw || flaws->of[i].count == 0)
            continue;
        if (text.len > 0)
            buf_add_text(&text, "; ");
        flaw_format(&flaws->of[i], kinds[i].text, &text);
    }
    return fail(err, ERR_DATA, "%s: %s (--lenient leaves such lines out)", path, buf_text(&text));
}

void flaws_format(const struct flaws *flaws, const char *path, struct buf *out)
{
    for (size_t i = 0; i < FLAW_N; i++) {
        if (flaws->of[i].count == 0)
            continue;
        buf_addf(out, "%s: %s", path, kinds[i].is_flaw ? "left out: " : "");
        flaw_format(&flaws->of[i], kinds[i].text, out);
        buf_add_char(out, '\n');
    }
}
