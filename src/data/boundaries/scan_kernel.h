/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of every kernel. The including file defines `struct block`, block_load(), block_eq() (a
 * mask of the bytes that equal c), block_has_nul() and prefix_xor(), then names the resulting
 * function with SCAN_RUN.
 */
#include "data/boundaries/boundary_scan.h"

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
 * The ends that have content before them. Content at a bit generates a carry, and every bit that is
 * no end passes the carry on. So one addition finds, for all ends at once, whether there was
 * content since the end before.
 */
INLINE uint64_t ends_with_content(struct boundary_scan *s, uint64_t ends, uint64_t content)
{
    uint64_t pass = ~ends;
    uint64_t sum = add_carry(pass, content, s->has_content, &s->has_content);
    return ends & (pass ^ content ^ sum);
}

INLINE struct marks marks_lines(struct boundary_scan *s, const struct block *b)
{
    struct marks m = {.cr = block_eq(b, '\r')};
    m.ends = m.newlines = block_eq(b, '\n');
    s->has_content = !(m.ends >> 63);
    return m;
}

INLINE struct marks marks_jsonl(struct boundary_scan *s, const struct block *b)
{
    struct marks m = {.newlines = block_eq(b, '\n'), .cr = block_eq(b, '\r')};
    uint64_t blank = m.newlines | m.cr | block_eq(b, ' ') | block_eq(b, '\t');
    m.ends = ends_with_content(s, m.newlines, ~blank);
    return m;
}

INLINE struct marks marks_csv(struct boundary_scan *s, const struct block *b)
{
    struct marks m = {.newlines = block_eq(b, '\n'), .cr = block_eq(b, '\r')};
    uint64_t inside = prefix_xor(block_eq(b, '"')) ^ s->inside;
    s->inside = (uint64_t)((int64_t)inside >> 63);
    if (block_has_nul(b))
        s->flaws |= SCAN_NUL;
    uint64_t ends = m.newlines & ~inside;
    m.ends = ends_with_content(s, ends, ~ends & ~(m.cr & ~inside));
    return m;
}

/*
 * Bytes behind a backslash that is not itself escaped (the carry method of simdjson, VLDB J. 2019).
 */
INLINE uint64_t escaped_bytes(struct boundary_scan *s, uint64_t backslash)
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
INLINE uint64_t separators(struct boundary_scan *s, uint64_t open, uint64_t close, uint64_t comma,
                           uint64_t *end)
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

INLINE struct marks marks_json(struct boundary_scan *s, const struct block *b)
{
    struct marks m = {.newlines = block_eq(b, '\n'), .cr = block_eq(b, '\r')};
    uint64_t content = ~(m.newlines | m.cr | block_eq(b, ' ') | block_eq(b, '\t'));
    if (s->depth == 0) {
        if (content)
            s->flaws |= SCAN_AFTER_END;
        return m;
    }
    uint64_t quotes = block_eq(b, '"') & ~escaped_bytes(s, block_eq(b, '\\'));
    uint64_t inside = prefix_xor(quotes) ^ s->inside, end = 0;
    s->inside = (uint64_t)((int64_t)inside >> 63);
    uint64_t open = (block_eq(b, '[') | block_eq(b, '{')) & ~inside;
    uint64_t close = (block_eq(b, ']') | block_eq(b, '}')) & ~inside;
    uint64_t comma = separators(s, open, close, block_eq(b, ',') & ~inside, &end);
    if (end && (content & ~(end | (end - 1))))
        s->flaws |= SCAN_AFTER_END;
    uint64_t all = comma | end;
    m.ends = ends_with_content(s, all, content & ~all);
    if ((all & ~m.ends) && !(end && all == end && s->is_first))
        s->flaws |= SCAN_EMPTY_ELEMENT;
    if (all)
        s->is_first = false;
    return m;
}

/* The block of the last end so far; computed once, after the loop. */
struct last_end {
    struct marks marks; /* ends: 0 if there was none in this run */
    uint64_t n_seen;
    size_t n_bytes;
};

INLINE void tally_last(struct boundary_tally *t, const struct last_end *last)
{
    if (!last->marks.ends)
        return;
    unsigned bit = 63 - (unsigned)__builtin_clzll(last->marks.ends);
    uint64_t up_to = UINT64_MAX >> (63 - bit);
    t->after_end = last->n_bytes + bit + 1;
    t->n_newlines = last->n_seen + (uint64_t)__builtin_popcountll(last->marks.newlines & up_to);
}

/* The lowest `count` bits that are set. */
INLINE uint64_t lowest_bits(uint64_t bits, uint64_t count)
{
    uint64_t above = bits;
    for (; count > 0; count--)
        above &= above - 1;
    return bits & ~above;
}

typedef struct marks find_fn(struct boundary_scan *, const struct block *);

/* Goes block by block: stops at ends_max and at a flaw, and knows the last end. */
INLINE void run_blocks(struct boundary_scan *scan, const unsigned char *at, size_t n_blocks,
                       struct boundary_tally *tally, find_fn *find)
{
    struct boundary_scan s = *scan;
    struct last_end last = {0};
    uint64_t cr = 0, n_ends = tally->n_ends, n_seen = tally->n_seen, ends_max = tally->ends_max;
    size_t n_bytes = tally->n_bytes;
    for (size_t i = 0; i < n_blocks; i++, n_bytes += SCAN_BLOCK_BYTES) {
        struct block block = block_load(at + i * SCAN_BLOCK_BYTES);
        struct marks m = find(&s, &block);
        uint64_t found = (uint64_t)__builtin_popcountll(m.ends);
        cr |= m.cr;
        if (s.flaws)
            break;
        bool is_enough = found >= ends_max - n_ends;
        if (is_enough)
            m.ends = lowest_bits(m.ends, found = ends_max - n_ends);
        if (m.ends)
            last = (struct last_end){m, n_seen, n_bytes};
        n_ends += found;
        if (is_enough)
            break;
        n_seen += (uint64_t)__builtin_popcountll(m.newlines);
    }
    tally->n_ends = n_ends;
    tally->n_seen = n_seen;
    tally->n_bytes = n_bytes;
    tally->has_cr |= cr != 0;
    tally_last(tally, &last);
    *scan = s;
}

enum {
    GROUP_BLOCKS = 32,
    GROUP_BYTES = GROUP_BLOCKS * SCAN_BLOCK_BYTES
};

struct counts {
    uint64_t n_ends, n_newlines, cr;
};

/* Only counts, so that the loop has nothing but the work that every block needs. */
INLINE struct counts group_count(struct boundary_scan *scan, const unsigned char *at, find_fn *find)
{
    struct boundary_scan s = *scan;
    struct counts c = {0};
    for (size_t i = 0; i < GROUP_BLOCKS; i++) {
        struct block block = block_load(at + i * SCAN_BLOCK_BYTES);
        struct marks m = find(&s, &block);
        c.n_ends += (uint64_t)__builtin_popcountll(m.ends);
        c.n_newlines += (uint64_t)__builtin_popcountll(m.newlines);
        c.cr |= m.cr;
    }
    *scan = s;
    return c;
}

/*
 * As group_count(), for a plain group, as most groups are: it has no CR, and a content byte right
 * before every end, so that no record in it is blank. Then each block needs little work, and only
 * the quotes' state is carried from block to block. False, with nothing changed, if the group is
 * not plain.
 */
typedef bool plain_fn(struct boundary_scan *, const unsigned char *, struct counts *);

INLINE bool plain_count_csv(struct boundary_scan *scan, const unsigned char *at, struct counts *out)
{
    uint64_t inside = scan->inside, after_end = !scan->has_content, rare = 0;
    struct counts c = {0};
    for (size_t i = 0; i < GROUP_BLOCKS; i++) {
        struct block block = block_load(at + i * SCAN_BLOCK_BYTES);
        uint64_t newlines = block_eq(&block, '\n');
        uint64_t parity = prefix_xor(block_eq(&block, '"')) ^ inside;
        uint64_t ends = newlines & ~parity;
        rare |= (ends & (ends << 1 | after_end)) | block_eq(&block, '\r');
        rare |= block_has_nul(&block);
        inside = (uint64_t)((int64_t)parity >> 63);
        after_end = ends >> 63;
        c.n_ends += (uint64_t)__builtin_popcountll(ends);
        c.n_newlines += (uint64_t)__builtin_popcountll(newlines);
    }
    if (rare)
        return false;
    scan->inside = inside;
    scan->has_content = !after_end;
    *out = c;
    return true;
}

/* Is there content behind the last newline of this block? 1: yes, 0: no, -1: the block does not
 * tell. */
INLINE int jsonl_tail(const unsigned char *at)
{
    struct block block = block_load(at);
    uint64_t newlines = block_eq(&block, '\n');
    uint64_t content = ~(newlines | block_eq(&block, ' ') | block_eq(&block, '\t'));
    if (newlines >> 63)
        return 0;
    unsigned n_behind = newlines ? (unsigned)__builtin_clzll(newlines) : 64;
    return content >> (64 - n_behind) ? 1 : -1;
}

INLINE bool plain_count_jsonl(struct boundary_scan *scan, const unsigned char *at,
                              struct counts *out)
{
    uint64_t before = scan->has_content, rare = 0, n_newlines = 0;
    int tail = jsonl_tail(at + GROUP_BYTES - SCAN_BLOCK_BYTES);
    for (size_t i = 0; i < GROUP_BLOCKS; i++) {
        struct block block = block_load(at + i * SCAN_BLOCK_BYTES);
        uint64_t newlines = block_eq(&block, '\n'), braces = block_eq(&block, '}');
        rare |= (newlines & ~(braces << 1 | before)) | block_eq(&block, '\r');
        before = braces >> 63;
        n_newlines += (uint64_t)__builtin_popcountll(newlines);
    }
    if (rare || tail < 0)
        return false;
    scan->has_content = (uint64_t)tail;
    *out = (struct counts){.n_ends = n_newlines, .n_newlines = n_newlines};
    return true;
}

INLINE bool plain_never(struct boundary_scan *scan, const unsigned char *at, struct counts *out)
{
    (void)scan, (void)at, (void)out;
    return false;
}

/*
 * Groups that cannot reach ends_max are only counted; a second scan of the last group with an end
 * then finds where its last end is. The rest is scanned block by block.
 */
INLINE void run(struct boundary_scan *scan, const unsigned char *at, size_t n_blocks,
                struct boundary_tally *tally, find_fn *find, plain_fn *plain)
{
    struct boundary_scan last_scan = *scan;
    struct boundary_tally last_tally = {0};
    const unsigned char *last_at = NULL;
    while (n_blocks >= GROUP_BLOCKS && tally->ends_max - tally->n_ends > GROUP_BYTES) {
        struct boundary_scan before = *scan;
        struct counts c;
        /* A file with one CR has more of them: its groups are not plain. */
        if (tally->has_cr || !plain(scan, at, &c))
            c = group_count(scan, at, find);
        if (scan->flaws) { /* scanned again below, block by block, to stop at the flaw */
            *scan = before;
            break;
        }
        if (c.n_ends > 0) {
            last_scan = before;
            last_tally = *tally;
            last_at = at;
        }
        tally->n_ends += c.n_ends;
        tally->n_seen += c.n_newlines;
        tally->n_bytes += GROUP_BYTES;
        tally->has_cr |= c.cr != 0;
        at += GROUP_BYTES;
        n_blocks -= GROUP_BLOCKS;
    }
    if (last_at) {
        run_blocks(&last_scan, last_at, GROUP_BLOCKS, &last_tally, find);
        tally->after_end = last_tally.after_end;
        tally->n_newlines = last_tally.n_newlines;
    }
    run_blocks(scan, at, n_blocks, tally, find);
}

/* One function per format instead of one for all: each loop then has all registers to itself. */
#define RUN_OF(format, plain)                                                                    \
    static __attribute__((noinline)) void run_##format(struct boundary_scan *scan,               \
                                                       const unsigned char *at, size_t n_blocks, \
                                                       struct boundary_tally *tally)             \
    {                                                                                            \
        run(scan, at, n_blocks, tally, marks_##format, plain);                                   \
    }
RUN_OF(lines, plain_never)
RUN_OF(jsonl, plain_count_jsonl)
RUN_OF(json, plain_never)
RUN_OF(csv, plain_count_csv)
#undef RUN_OF

static void SCAN_RUN(struct boundary_scan *scan, const unsigned char *at, size_t n_blocks,
                     struct boundary_tally *tally)
{
    switch (scan->format) {
    case FORMAT_LINES:
        run_lines(scan, at, n_blocks, tally);
        return;
    case FORMAT_JSONL:
        run_jsonl(scan, at, n_blocks, tally);
        return;
    case FORMAT_JSON:
        run_json(scan, at, n_blocks, tally);
        return;
    case FORMAT_CSV:
    case FORMAT_TSV:
        run_csv(scan, at, n_blocks, tally);
        return;
    case FORMAT_AUTO:
        break;
    }
    BUG("format %d", scan->format);
}
