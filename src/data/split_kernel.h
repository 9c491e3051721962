/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of every kernel. The including file defines `struct block`, block_load(), block_eq() (a
 * mask of the bytes that equal c) and prefix_xor(), then names the result through SPLIT_RUN.
 */
#include "data/split.h"

#define INLINE static inline __attribute__((always_inline))

struct marks {
    uint64_t ends, newlines, cr;
};

INLINE uint64_t add_carry(uint64_t a, uint64_t b, uint64_t carry_in, uint64_t *carry_out)
{
    uint64_t sum;
    bool first = __builtin_add_overflow(a, b, &sum);
    *carry_out = first | __builtin_add_overflow(sum, carry_in, &sum);
    return sum;
}

/*
 * Ends with content before them. Content at a bit generates a carry, every bit that is no end passes
 * it on: one addition finds, for all ends at once, whether anything stood since the end before.
 */
INLINE uint64_t ends_with_content(struct split *s, uint64_t ends, uint64_t content)
{
    uint64_t pass = ~ends;
    uint64_t sum = add_carry(pass, content, s->has_content, &s->has_content);
    return ends & (pass ^ content ^ sum);
}

INLINE struct marks marks_lines(struct split *s, const struct block *b)
{
    struct marks m = {.cr = block_eq(b, '\r')};
    m.ends = m.newlines = block_eq(b, '\n');
    s->has_content = !(m.ends >> 63);
    return m;
}

INLINE struct marks marks_jsonl(struct split *s, const struct block *b)
{
    struct marks m = {.newlines = block_eq(b, '\n'), .cr = block_eq(b, '\r')};
    uint64_t blank = m.newlines | m.cr | block_eq(b, ' ') | block_eq(b, '\t');
    m.ends = ends_with_content(s, m.newlines, ~blank);
    return m;
}

INLINE struct marks marks_csv(struct split *s, const struct block *b)
{
    struct marks m = {.newlines = block_eq(b, '\n'), .cr = block_eq(b, '\r')};
    uint64_t inside = prefix_xor(block_eq(b, '"')) ^ s->inside;
    s->inside = (uint64_t)((int64_t)inside >> 63);
    if (block_eq(b, '\0'))
        s->flaws |= SPLIT_NUL;
    uint64_t ends = m.newlines & ~inside;
    m.ends = ends_with_content(s, ends, ~ends & ~(m.cr & ~inside));
    return m;
}

/* Bytes behind a backslash that is not itself behind one (the carry trick of simdjson, VLDB J. 2019). */
INLINE uint64_t escaped_bytes(struct split *s, uint64_t backslash)
{
    static const uint64_t even_bits = 0x5555555555555555u;
    if (!backslash) {
        uint64_t first = s->is_escaped;
        s->is_escaped = 0;
        return first;
    }
    backslash &= ~s->is_escaped;
    uint64_t follows = backslash << 1 | s->is_escaped;
    uint64_t odd_starts = backslash & ~even_bits & ~follows;
    uint64_t even_runs = add_carry(odd_starts, backslash, 0, &s->is_escaped);
    return (even_bits ^ even_runs << 1) & follows;
}

/* Separators of elements: commas at depth 1, and the bracket that closes the array. */
INLINE uint64_t separators(struct split *s, uint64_t open, uint64_t close, uint64_t comma, uint64_t *end)
{
    uint64_t done = 0, found = 0;
    for (uint64_t rest = open | close; rest; rest &= rest - 1) {
        uint64_t bit = rest & -rest;
        if (s->depth == 1)
            found |= comma & (bit - 1) & ~done;
        done = bit | (bit - 1);
        s->depth += open & bit ? 1 : -1;
        if (s->depth == 0 && !*end)
            *end = bit;
    }
    if (s->depth == 1)
        found |= comma & ~done;
    return found;
}

INLINE struct marks marks_json(struct split *s, const struct block *b)
{
    struct marks m = {.newlines = block_eq(b, '\n'), .cr = block_eq(b, '\r')};
    uint64_t content = ~(m.newlines | m.cr | block_eq(b, ' ') | block_eq(b, '\t'));
    if (s->depth == 0) {
        if (content)
            s->flaws |= SPLIT_AFTER_END;
        return m;
    }
    uint64_t quotes = block_eq(b, '"') & ~escaped_bytes(s, block_eq(b, '\\'));
    uint64_t inside = prefix_xor(quotes) ^ s->inside, end = 0;
    s->inside = (uint64_t)((int64_t)inside >> 63);
    uint64_t open = (block_eq(b, '[') | block_eq(b, '{')) & ~inside;
    uint64_t close = (block_eq(b, ']') | block_eq(b, '}')) & ~inside;
    uint64_t comma = separators(s, open, close, block_eq(b, ',') & ~inside, &end);
    if (end && (content & ~(end | (end - 1))))
        s->flaws |= SPLIT_AFTER_END;
    uint64_t all = comma | end;
    m.ends = ends_with_content(s, all, content & ~all);
    if ((all & ~m.ends) && !(end && all == end && s->is_first))
        s->flaws |= SPLIT_EMPTY_ELEMENT;
    if (all)
        s->is_first = false;
    return m;
}

INLINE void tally_last(struct split_tally *t, const struct marks *m, unsigned bit)
{
    t->after_end = t->n_bytes + bit + 1;
    t->n_newlines = t->n_seen + (uint64_t)__builtin_popcountll(m->newlines & (UINT64_MAX >> (63 - bit)));
}

INLINE void run(struct split *split, const unsigned char *at, size_t n_blocks, struct split_tally *tally,
                struct marks (*find)(struct split *, const struct block *))
{
    struct split s = *split;
    struct split_tally t = *tally;
    uint64_t cr = 0;
    for (size_t i = 0; i < n_blocks; i++, t.n_bytes += SPLIT_BLOCK_BYTES) {
        struct block block = block_load(at + i * SPLIT_BLOCK_BYTES);
        struct marks m = find(&s, &block);
        uint64_t found = (uint64_t)__builtin_popcountll(m.ends);
        cr |= m.cr;
        if (s.flaws)
            break;
        if (found >= t.ends_max - t.n_ends) {
            uint64_t ends = m.ends;
            for (; t.n_ends + 1 < t.ends_max; t.n_ends++)
                ends &= ends - 1;
            t.n_ends++;
            tally_last(&t, &m, (unsigned)__builtin_ctzll(ends));
            break;
        }
        if (m.ends) {
            t.n_ends += found;
            tally_last(&t, &m, 63 - (unsigned)__builtin_clzll(m.ends));
        }
        t.n_seen += (uint64_t)__builtin_popcountll(m.newlines);
    }
    t.has_cr |= cr != 0;
    *split = s;
    *tally = t;
}

static void SPLIT_RUN(struct split *split, const unsigned char *at, size_t n_blocks,
                      struct split_tally *tally)
{
    switch (split->format) {
    case FORMAT_LINES:
        run(split, at, n_blocks, tally, marks_lines);
        return;
    case FORMAT_JSONL:
        run(split, at, n_blocks, tally, marks_jsonl);
        return;
    case FORMAT_JSON:
        run(split, at, n_blocks, tally, marks_json);
        return;
    case FORMAT_CSV:
    case FORMAT_TSV:
        run(split, at, n_blocks, tally, marks_csv);
        return;
    case FORMAT_AUTO:
        break;
    }
    BUG("format %d", split->format);
}
