/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies a splice. Its bytes are read again, a window at a time, so a file of any size is written
 * with little memory. They were parsed once, but may have changed since, so this file relies only
 * on what it checks itself.
 */
#include "tensor/pickle/pickle_copy.h"

#include <xxhash.h>

#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pickle/pickle_impl.h"

enum {
    WINDOW_BYTES = 256 * 1024,
    SLACK_BYTES = 64, /* zero bytes behind the window that may be read */
    GROWTH = 3,       /* an opcode of 2 bytes may become one of 5 */
    PIECE_BYTES = 32,
    LINES_MAX_BYTES = 4096
};

struct copying {
    const struct pickle_copy *what;
    char *window;
    size_t cap, len;
    const char *at, *run; /* the current opcode; the first byte that is not copied yet */
    uint64_t next, end;   /* offsets in the pickle: of the next read; of the splice's end */
    XXH3_state_t *hash;
    char *to; /* write position in `out`, which has room for the whole window */
    struct err *err;
};

static int changed(const struct copying *c)
{
    const struct pickle_sink *sink = c->what->sink;
    return fail(c->err, ERR_DATA, "%s: its pickle changed while it was read",
                sink->name(sink->context, c->what->graph));
}

/* Sets the buffer's length to the bytes that were written through c->to. */
static void out_sync(struct copying *c)
{
    struct buf *out = c->what->out;
    out->len = (size_t)(c->to - out->at);
    out->at[out->len] = '\0';
}

static void out_reserve(struct copying *c, size_t more)
{
    struct buf *out = c->what->out;
    buf_reserve(out, more + SLACK_BYTES);
    c->to = out->at + out->len;
}

/*
 * Copies in pieces of fixed size, the last of which goes beyond the end. Most runs are so short
 * that a call of memcpy() would take longer.
 */
static void run_copy(struct copying *c)
{
    const char *from = c->run;
    char *to = c->to;
    size_t len = (size_t)(c->at - c->run);
    c->to += len;
    if (len > 4 * (size_t)PIECE_BYTES) {
        memcpy(to, from, len);
        return;
    }
    for (char *end = to + len; to < end; to += PIECE_BYTES, from += PIECE_BYTES)
        memcpy(to, from, PIECE_BYTES);
}

static void memo_write(struct copying *c, char op_1, char op_4, uint32_t number)
{
    bool is_small = number < 256;
    *c->to = is_small ? op_1 : op_4;
    le_put(c->to + 1, number, 4);
    c->to += is_small ? 2 : 5;
}

static int sink_flush(struct copying *c)
{
    struct buf *out = c->what->out;
    const struct pickle_sink *sink = c->what->sink;
    int rc = sink->write(sink->context, buf_str(out), c->err);
    buf_reset(out);
    return rc;
}

/*
 * Reads more of the pickle behind the rest of the window, until the window has at least `least`
 * bytes.
 */
static int window_fill(struct copying *c, size_t least)
{
    const struct pickle_sink *sink = c->what->sink;
    run_copy(c);
    out_sync(c);
    size_t left = (size_t)(c->window + c->len - c->at);
    if (least - left > c->end - c->next)
        return changed(c);
    memmove(c->window, c->at, left);
    if (least > c->cap) {
        c->cap = least;
        c->window = xrealloc(c->window, c->cap + SLACK_BYTES);
    }
    size_t more = (size_t)MIN((uint64_t)(c->cap - left), c->end - c->next);
    int rc = sink_flush(c);
    if (rc == 0)
        rc = sink->read(sink->context, c->what->graph, c->next, c->window + left, more, c->err);
    if (rc)
        return rc;
    XXH3_64bits_update(c->hash, c->window + left, more);
    c->next += more;
    c->len = left + more;
    memset(c->window + c->len, 0, SLACK_BYTES);
    c->at = c->run = c->window;
    out_reserve(c, GROWTH * c->len);
    return 0;
}

/* ---- opcodes ---- */

/* Length of two lines; 0 if they do not end within the bytes that a name may have. */
static size_t lines_len(const char *at, const char *end)
{
    size_t left = MIN((size_t)(end - at), (size_t)LINES_MAX_BYTES);
    const char *line = memchr(at, '\n', left);
    const char *last = line ? memchr(line + 1, '\n', left - (size_t)(line + 1 - at)) : NULL;
    if (last)
        return (size_t)(last + 1 - at);
    return left < LINES_MAX_BYTES ? left + 1 : 0;
}

/* Length of the current opcode; more than the window has left if the opcode is not complete in
 * it. */
static inline size_t op_len(const struct copying *c)
{
    switch (*c->at) {
    case 'X':
        return 5 + (size_t)le32_get(c->at + 1);
    case (char)0x8a:
        return 2 + (size_t)(unsigned char)c->at[1];
    case 'c':
        return lines_len(c->at, c->window + c->len);
    default:
        return splice_op_bytes[(unsigned char)*c->at];
    }
}

static void put_copy(struct copying *c, uint32_t index, size_t len)
{
    const struct pickle_splices *splices = &c->what->from->splices;
    run_copy(c);
    c->at += len;
    c->run = c->at;
    if (index >= splices->n_indices || !(splices->used[index / 64] >> index % 64 & 1))
        return;
    uint32_t number = (*c->what->n_memo)++;
    c->what->memo[index] = number + 1;
    memo_write(c, 'q', 'r', number);
}

static const struct pickle_node *import_find(const struct pickle_splices *splices, uint32_t index)
{
    size_t low = 0, high = splices->n_imports;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (splices->imports[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_there = low < splices->n_imports && splices->imports[low].index == index;
    return is_there ? &splices->imports[low].node : NULL;
}

/* Writes a text or a name that was made outside the splice. */
static void import_write(struct copying *c, uint32_t index, const struct pickle_node *node)
{
    const struct pickle *from = c->what->from;
    struct buf *out = c->what->out;
    out_sync(c);
    if (node->kind == PICKLE_TEXT) {
        struct str text = pickle_bytes(from, node);
        char head[5] = "X";
        le_put(head + 1, text.len, 4);
        buf_add(out, head, sizeof(head));
        buf_add_str(out, text);
    } else {
        const struct pickle_global *global = &from->globals[node->global];
        buf_add_char(out, 'c');
        buf_add_str(out, global->module);
        buf_add_char(out, '\n');
        buf_add_str(out, global->name);
        buf_add_char(out, '\n');
    }
    out_reserve(c, GROWTH * (size_t)(c->window + c->len - c->at));
    c->what->memo[index] = (*c->what->n_memo)++ + 1;
    memo_write(c, 'q', 'r', c->what->memo[index] - 1);
}

static int get_copy(struct copying *c, uint32_t index, size_t len)
{
    const struct pickle_splices *splices = &c->what->from->splices;
    run_copy(c);
    c->at += len;
    c->run = c->at;
    if (index >= splices->n_indices)
        return changed(c);
    if (c->what->memo[index] != 0) {
        memo_write(c, 'h', 'j', c->what->memo[index] - 1);
        return 0;
    }
    const struct pickle_node *node = import_find(splices, index);
    if (!node)
        return changed(c);
    import_write(c, index, node);
    return 0;
}

static int op_copy(struct copying *c, size_t len)
{
    switch (*c->at) {
    case 'q':
        put_copy(c, (unsigned char)c->at[1], len);
        return 0;
    case 'r':
        put_copy(c, le32_get(c->at + 1), len);
        return 0;
    case 'h':
        return get_copy(c, (unsigned char)c->at[1], len);
    case 'j':
        return get_copy(c, le32_get(c->at + 1), len);
    default:
        c->at += len;
        return 0;
    }
}

/*
 * Copies opcodes that are complete in the window, up to one that may not be. Lengths are constants
 * where possible, so that the processor can start on the next opcode before it has decoded this
 * one.
 */
static void ops_run(struct copying *c)
{
    const struct pickle_splices *splices = &c->what->from->splices;
    const char *end = c->window + c->len;
    const char *at = c->at;
    uint32_t index;
    while ((size_t)(end - at) > SLACK_BYTES) {
        switch (*at) {
        case 'h':
        case 'j':
            index = *at == 'h' ? (unsigned char)at[1] : le32_get(at + 1);
            if (index >= splices->n_indices || c->what->memo[index] == 0)
                goto out;
            c->at = at;
            run_copy(c);
            memo_write(c, 'h', 'j', c->what->memo[index] - 1);
            at += *at == 'h' ? 2 : 5;
            c->run = at;
            continue;
        case 'q':
        case 'r':
            c->at = at;
            put_copy(c, *at == 'q' ? (unsigned char)at[1] : le32_get(at + 1), *at == 'q' ? 2 : 5);
            at = c->at;
            continue;
        case 'X':
            index = le32_get(at + 1);
            if (index > (size_t)(end - at) - 5)
                goto out;
            at += 5 + (size_t)index;
            continue;
        case '(':
        case ']':
        case '}':
        case 'u':
        case 'N':
        case (char)0x88:
        case (char)0x89:
            at += 1;
            continue;
        case 'K':
            at += 2;
            continue;
        case 'M':
            at += 3;
            continue;
        case 'J':
            at += 5;
            continue;
        case 'G':
            at += 9;
            continue;
        default:
            goto out;
        }
    }
out:
    c->at = at;
}

static int ops_copy(struct copying *c)
{
    int rc = 0;
    while (rc == 0) {
        ops_run(c);
        size_t left = (size_t)(c->window + c->len - c->at);
        if (left == 0 && c->next == c->end)
            break;
        size_t len = op_len(c);
        bool is_last = c->next == c->end;
        bool is_cut = len > left || (left < 5 && !is_last);
        if ((len == 0 && left > 0) || (is_last && len > left))
            rc = changed(c);
        else if (is_cut || left == 0)
            rc = window_fill(c, left < 5 ? MIN(left + (c->end - c->next), (uint64_t)5) : len);
        else
            rc = op_copy(c, len);
    }
    return rc;
}

int pickle_copy(const struct pickle_copy *copy, const struct pickle_splice *splice, struct err *err)
{
    struct copying c = {
        .what = copy, .cap = WINDOW_BYTES, .next = splice->begin, .end = splice->end, .err = err};
    c.window = xcalloc(WINDOW_BYTES + SLACK_BYTES, 1);
    c.at = c.run = c.window;
    c.hash = XXH3_createState();
    if (!c.hash) {
        free(c.window);
        return fail(err, ERR_STOPPED, "out of memory for the hash of a pickle");
    }
    XXH3_64bits_reset(c.hash);
    out_reserve(&c, 0);
    int rc = ops_copy(&c);
    if (rc == 0) {
        run_copy(&c);
        out_sync(&c);
        rc = XXH3_64bits_digest(c.hash) == splice->hash ? 0 : changed(&c);
    }
    XXH3_freeState(c.hash);
    free(c.window);
    return rc;
}

uint32_t pickle_n_ids(const struct pickle *pickle, const struct pickle_node *list)
{
    struct pickle_walk walk = pickle_items(list);
    uint32_t n_ids = 0;
    while (pickle_next(pickle, &walk) != 0)
        n_ids++;
    return n_ids;
}

const struct pickle_node *pickle_splice_next(const struct pickle *const *graphs, uint32_t *graph,
                                             struct pickle_walk walk)
{
    pickle_id id = pickle_next(graphs[*graph], &walk);
    const struct pickle_node *node = pickle_node(graphs[*graph], id);
    if (id != 0 && node->kind == PICKLE_OF) {
        *graph = node->of.graph;
        node = pickle_node(graphs[*graph], node->of.id);
    }
    return id != 0 && node->kind == PICKLE_SPLICE ? node : NULL;
}
