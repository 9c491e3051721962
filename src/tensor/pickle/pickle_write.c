/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/pickle/pickle_write.h"

#include <endian.h>

#include "base/cleanup.h"
#include "tensor/bytes.h"
#include "tensor/grow.h"
#include "tensor/pickle/pickle_callable.h"
#include "tensor/pickle/pickle_copy.h"
#include "tensor/pickle/pickle_names.h"

enum {
    FLUSH_BYTES = 64 * 1024,
    ONCE = 1,
    OFTEN = 2,
    ON_PATH = 4, /* while marking: the walk is at this node or within it */
    MEMO_NONE = UINT32_MAX,
    MEMO_PAGE = 1024,       /* nodes in a page */
    PICKLE_BATCH = 1000,    /* items or pairs in a batch, as in CPython */
    HAS_SPLICES = UINT8_MAX /* `step` of a list with splices */
};

/* What the writer knows about the objects of one input. */
struct seen {
    uint8_t *met;    /* by node: 0, ONCE, OFTEN, ON_PATH */
    uint32_t **memo; /* by node, in pages: its number in the new memo + 1; 0 for most nodes */
    size_t n_pages;
    uint32_t *splice_memo;  /* the same by index in the memo of its pickle; NULL: no splices */
    uint32_t *storage_memo; /* by storage: its number in the new file, or MEMO_NONE */
};

struct visit {
    uint32_t file;
    pickle_id id;
    bool is_left;
};

/* A container or a call that is partly written. 28 bytes, because a file may nest a million. */
struct frame {
    uint32_t file;
    pickle_id id;
    struct pickle_walk walk;
    uint32_t n_left;     /* ids; two for a pair of a dictionary */
    uint16_t n_in_batch; /* at most 2 * PICKLE_BATCH */
    uint8_t step;
    bool has_mark;
};
_Static_assert(sizeof(struct frame) == 28, "as small as it can be");

struct pickle_writer {
    const struct pickle *const *files; /* graphs */
    size_t n_files;
    const struct pickle_sink *sink;
    struct seen *seen;
    struct pickle_names names;
    struct written_storage *storages;
    struct frame *frames;
    struct visit *todo;
    size_t n_storages, cap_storages, n_frames, cap_frames, n_todo, cap_todo;
    uint32_t n_memo;
    bool has_cycles;       /* an object contains itself: all containers are put into the memo */
    uint32_t word_memo[2]; /* "storage" and "cpu" */
    struct buf out;
};

static void writer_init(struct pickle_writer *w, const struct pickle *const *files, size_t n_files)
{
    w->seen = xcalloc(n_files, sizeof(*w->seen));
    for (size_t i = 0; i < n_files; i++) {
        struct seen *seen = &w->seen[i];
        seen->met = xcalloc(files[i]->n_nodes, 1);
        seen->n_pages = files[i]->n_nodes / MEMO_PAGE + 1;
        seen->memo = xcalloc(seen->n_pages, sizeof(*seen->memo));
        seen->storage_memo = xmalloc(files[i]->n_storages * sizeof(*seen->storage_memo));
        memset(seen->storage_memo, 0xff, files[i]->n_storages * sizeof(*seen->storage_memo));
    }
}

static void writer_release(struct pickle_writer *w)
{
    for (size_t i = 0; i < w->n_files; i++) {
        free(w->seen[i].met);
        for (size_t k = 0; k < w->seen[i].n_pages; k++)
            free(w->seen[i].memo[k]);
        free(w->seen[i].memo);
        free(w->seen[i].splice_memo);
        free(w->seen[i].storage_memo);
    }
    free(w->seen);
    pickle_names_release(&w->names);
    free(w->frames);
    free(w->todo);
    buf_release(&w->out);
}

/* ---- what is met twice ---- */

static void visit_push(struct pickle_writer *w, uint32_t file, pickle_id id, bool is_left)
{
    PUSH(w->todo, w->n_todo, w->cap_todo, (struct visit){file, id, is_left});
}

static void mark_items(struct pickle_writer *w, uint32_t file, const struct pickle_node *node)
{
    struct pickle_walk walk = pickle_items(node);
    for (pickle_id id; (id = pickle_next(w->files[file], &walk)) != 0;)
        visit_push(w, file, id, false);
}

static bool is_container(const struct pickle_node *node)
{
    return node->kind >= PICKLE_TUPLE && node->kind <= PICKLE_FROZENSET;
}

static bool is_call(const struct pickle_node *node)
{
    return node->kind == PICKLE_CALL || node->kind == PICKLE_NEW;
}

/* A node without parts. */
static bool is_scalar(const struct pickle_node *node)
{
    return !is_container(node) && !is_call(node);
}

/*
 * Pushes the node itself, to be visited again when the walk leaves it, and then its parts: nodes
 * that are visited in between are within it.
 */
static void parts_mark(struct pickle_writer *w, uint32_t file, pickle_id id)
{
    const struct pickle *pickle = w->files[file];
    const struct pickle_node *node = pickle_node(pickle, id);
    if (node->kind == PICKLE_OF)
        visit_push(w, node->of.graph, node->of.id, false);
    if (is_scalar(node))
        return;
    visit_push(w, file, id, true);
    if (is_container(node)) {
        mark_items(w, file, node);
        return;
    }
    const struct pickle_later *later = pickle_later(pickle, node);
    visit_push(w, file, node->call.args, false);
    mark_items(w, file, &later->items);
    mark_items(w, file, &later->pairs);
    mark_items(w, file, &later->states);
}

/* Finds the nodes that are referred to several times, and whether an object contains itself. */
static void all_mark(struct pickle_writer *w, uint32_t file, pickle_id root)
{
    size_t n_on_path = 0, deepest = 0;
    visit_push(w, file, root, false);
    while (w->n_todo > 0) {
        struct visit visit = w->todo[--w->n_todo];
        uint8_t *state = &w->seen[visit.file].met[visit.id];
        const struct pickle_node *node = pickle_node(w->files[visit.file], visit.id);
        if (visit.is_left) {
            *state &= (uint8_t)~ON_PATH;
            n_on_path--;
        } else if (*state != 0) {
            w->has_cycles = w->has_cycles || *state & ON_PATH;
            *state |= OFTEN;
        } else {
            *state = is_scalar(node) ? ONCE : ONCE | ON_PATH;
            n_on_path += !is_scalar(node);
            deepest = MAX(deepest, n_on_path);
            parts_mark(w, visit.file, visit.id);
        }
    }
    /*
     * `frames` replaces `todo` and has its final size: for deeply nested files these two are most
     * of the memory.
     */
    free(steal_ptr(&w->todo));
    w->cap_todo = 0;
    w->cap_frames = deepest + 1;
    w->frames = xmalloc(w->cap_frames * sizeof(*w->frames));
}

/* ---- bytes ---- */

/* Adds up to 8 bytes of a number, the lowest first. Most of a pickle is written in such small
 * pieces. */
static inline void le_add(struct pickle_writer *w, uint64_t value, size_t n_bytes)
{
    struct buf *out = &w->out;
    if (out->cap - out->len <= sizeof(value))
        buf_reserve(out, FLUSH_BYTES);
    value = htole64(value);
    memcpy(out->at + out->len, &value, sizeof(value));
    buf_extend(out, n_bytes);
}

static inline void code(struct pickle_writer *w, char opcode)
{
    le_add(w, (unsigned char)opcode, 1);
}

/* Adds an opcode and the number of an object in the memo. */
static void memo_add(struct pickle_writer *w, char opcode_1, char opcode_4, uint32_t memo)
{
    bool is_small = memo < 256;
    le_add(w, (unsigned char)(is_small ? opcode_1 : opcode_4) | (uint64_t)memo << 8,
           is_small ? 2 : 5);
}

static void get_add(struct pickle_writer *w, uint32_t memo)
{
    memo_add(w, 'h', 'j', memo);
}

static uint32_t put_add(struct pickle_writer *w)
{
    memo_add(w, 'q', 'r', w->n_memo);
    return w->n_memo++;
}

static void int_add(struct pickle_writer *w, int64_t value)
{
    if (value >= 0 && value <= UINT8_MAX) {
        code(w, 'K');
        le_add(w, (uint64_t)value, 1);
    } else if (value >= 0 && value <= UINT16_MAX) {
        code(w, 'M');
        le_add(w, (uint64_t)value, 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        code(w, 'J');
        le_add(w, (uint64_t)value, 4);
    } else {
        code(w, (char)0x8a);
        le_add(w, 8, 1);
        le_add(w, (uint64_t)value, 8);
    }
}

static void double_add(struct pickle_writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    code(w, 'G');
    le_add(w, __builtin_bswap64(bits), sizeof(bits));
}

static void text_add(struct pickle_writer *w, struct str text)
{
    code(w, 'X');
    le_add(w, text.len, 4);
    buf_add_str(&w->out, text);
}

static void long_add(struct pickle_writer *w, struct str digits)
{
    bool is_short = digits.len <= UINT8_MAX;
    code(w, is_short ? (char)0x8a : (char)0x8b);
    le_add(w, digits.len, is_short ? 1 : 4);
    buf_add_str(&w->out, digits);
}

static int flush(struct pickle_writer *w, size_t least, struct err *err)
{
    if (w->out.len < least)
        return 0;
    int rc = w->sink->write(w->sink->context, buf_str(&w->out), err);
    buf_reset(&w->out);
    return rc;
}

/* ---- names, bytes and storages ---- */

/* Writes the name of a callable or class as it is given. The writer's own names are those of Python
 * 2 (__builtin__), as protocol 2 requires. */
static void name_add(struct pickle_writer *w, struct str module, struct str name)
{
    uint32_t *memo = pickle_names_at(&w->names, module, name);
    if (*memo != 0) {
        get_add(w, *memo - 1);
        return;
    }
    *memo = w->n_memo + 1;
    code(w, 'c');
    buf_add_str(&w->out, module);
    code(w, '\n');
    buf_add_str(&w->out, name);
    code(w, '\n');
    put_add(w);
}

/* Protocol 2 has no bytes: they are written as a text that has a character with the value of each
 * byte. */
static void bytes_add(struct pickle_writer *w, struct str bytes)
{
    size_t n_high = 0;
    for (size_t i = 0; i < bytes.len; i++)
        n_high += (unsigned char)bytes.at[i] >= 0x80;
    name_add(w, STR("_codecs"), STR("encode"));
    code(w, 'X');
    le_add(w, bytes.len + n_high, 4);
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.at[i];
        if (byte >= 0x80)
            code(w, (char)(0xc0 | byte >> 6));
        code(w, (char)(byte < 0x80 ? byte : 0x80 | (byte & 0x3f)));
    }
    text_add(w, STR("latin1"));
    buf_add_text(&w->out, "\x86R");
}

static void word_add(struct pickle_writer *w, struct str word, uint32_t *memo)
{
    if (*memo != MEMO_NONE) {
        get_add(w, *memo);
        return;
    }
    text_add(w, word);
    *memo = put_add(w);
}

static void storage_add(struct pickle_writer *w, uint32_t file, uint32_t index)
{
    const struct pickle_storage *storage = &w->files[file]->storages[index];
    uint32_t *number = &w->seen[file].storage_memo[index];
    char key[16];
    if (*number == MEMO_NONE) {
        struct written_storage written = {file, index};
        *number = (uint32_t)w->n_storages;
        PUSH(w->storages, w->n_storages, w->cap_storages, written);
    }
    snprintf(key, sizeof(key), "%u", *number);
    code(w, '(');
    word_add(w, STR("storage"), &w->word_memo[0]);
    name_add(w, storage->module, storage->type);
    text_add(w, str_of(key));
    if (str_equal(storage->location, STR("cpu")))
        word_add(w, storage->location, &w->word_memo[1]);
    else
        text_add(w, storage->location);
    int_add(w, (int64_t)storage->n_elements);
    buf_add_text(&w->out, "tQ");
}

/* ---- values ---- */

static int no_words(const char *what, struct err *err)
{
    return fail(err, ERR_DATA, "%s has no form in a pickle of protocol 2", what);
}

/* A name with a dot is an attribute of an attribute, which GLOBAL cannot name. */
static int global_write(struct pickle_writer *w, const struct pickle_global *global,
                        struct err *err)
{
    if (memchr(global->name.at, '.', global->name.len) ||
        memchr(global->name.at, '\n', global->name.len) ||
        memchr(global->module.at, '\n', global->module.len))
        return fail(
            err, ERR_DATA,
            "the name %.*s of %.*s has no form in a pickle of protocol 2: it is a nested one",
            (int)global->name.len, global->name.at, (int)global->module.len, global->module.at);
    name_add(w, global->module, global->name);
    return 0;
}

static int scalar_write(struct pickle_writer *w, uint32_t file, const struct pickle_node *node,
                        struct err *err)
{
    const struct pickle *pickle = w->files[file];
    switch ((enum pickle_kind)node->kind) {
    case PICKLE_NONE:
        code(w, 'N');
        return 0;
    case PICKLE_BOOL:
        code(w, node->truth ? (char)0x88 : (char)0x89);
        return 0;
    case PICKLE_INT:
        int_add(w, node->integer);
        return 0;
    case PICKLE_LONG:
        long_add(w, pickle_bytes(pickle, node));
        return 0;
    case PICKLE_FLOAT:
        double_add(w, node->real);
        return 0;
    case PICKLE_TEXT:
        text_add(w, pickle_bytes(pickle, node));
        return 0;
    case PICKLE_BYTES:
        bytes_add(w, pickle_bytes(pickle, node));
        return 0;
    case PICKLE_BYTEARRAY:
        name_add(w, STR("__builtin__"), STR("bytearray"));
        bytes_add(w, pickle_bytes(pickle, node));
        buf_add_text(&w->out, "\x85R");
        return 0;
    case PICKLE_GLOBAL:
        return global_write(w, &pickle->globals[node->global], err);
    case PICKLE_STORAGE:
        storage_add(w, file, node->storage);
        return 0;
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_DICT:
    case PICKLE_SET:
    case PICKLE_FROZENSET:
    case PICKLE_CALL:
    case PICKLE_NEW:
    case PICKLE_SPLICE:
    case PICKLE_OF:
        break;
    }
    BUG("kind %d is no scalar", node->kind);
}

/* Is the node referred to again, and is it longer than a reference to the memo? */
static bool wants_memo(const struct pickle_writer *w, uint32_t file, pickle_id id)
{
    const struct pickle_node *node = pickle_node(w->files[file], id);
    bool is_small = node->kind <= PICKLE_INT || node->kind == PICKLE_GLOBAL ||
                    node->kind == PICKLE_STORAGE ||
                    (node->kind == PICKLE_TUPLE && node->count == 0);
    return !is_small && (w->seen[file].met[id] & OFTEN || (w->has_cycles && !is_scalar(node)));
}

static void memo_put(struct pickle_writer *w, uint32_t file, pickle_id id)
{
    uint32_t **page = &w->seen[file].memo[id / MEMO_PAGE];
    if (!wants_memo(w, file, id))
        return;
    if (!*page)
        *page = xcalloc(MEMO_PAGE, sizeof(**page));
    (*page)[id % MEMO_PAGE] = put_add(w) + 1;
}

/* The node's number in the new memo; MEMO_NONE if the node is not in it. */
static uint32_t memo_of(const struct pickle_writer *w, uint32_t file, pickle_id id)
{
    const uint32_t *page = w->seen[file].memo[id / MEMO_PAGE];
    return page ? page[id % MEMO_PAGE] - 1 : MEMO_NONE;
}

static struct frame *frame_push(struct pickle_writer *w, uint32_t file, pickle_id id)
{
    struct frame frame = {.file = file, .id = id};
    PUSH(w->frames, w->n_frames, w->cap_frames, frame);
    return &w->frames[w->n_frames - 1];
}

static void items_begin(const struct pickle_writer *w, struct frame *frame,
                        const struct pickle_node *node)
{
    bool has_splices = node->kind == PICKLE_LIST && node->truth;
    frame->walk = pickle_items(node);
    frame->n_left = node->kind == PICKLE_DICT ? node->count * 2 : node->count;
    if (has_splices) {
        frame->n_left = pickle_n_ids(w->files[frame->file], node);
        frame->step = HAS_SPLICES;
    }
    frame->n_in_batch = 0;
}

/* Writes the beginning of a value; a value with parts is continued in a frame. */
static int value_begin(struct pickle_writer *w, uint32_t file, pickle_id id, struct err *err)
{
    const struct pickle_node *node = pickle_node(w->files[file], id);
    if (node->kind == PICKLE_OF) {
        file = node->of.graph;
        id = node->of.id;
        node = pickle_node(w->files[file], id);
    }
    uint32_t memo = memo_of(w, file, id);
    if (memo != MEMO_NONE) {
        get_add(w, memo);
        return 0;
    }
    if (is_scalar(node)) {
        int rc = scalar_write(w, file, node, err);
        memo_put(w, file, id);
        return rc;
    }
    struct frame *frame = frame_push(w, file, id);
    if (is_container(node))
        items_begin(w, frame, node);
    if (node->kind == PICKLE_LIST || node->kind == PICKLE_DICT) {
        code(w, node->kind == PICKLE_LIST ? ']' : '}');
        memo_put(w, file, id);
    } else if (node->kind == PICKLE_SET || node->kind == PICKLE_FROZENSET) {
        name_add(w, STR("__builtin__"), node->kind == PICKLE_SET ? STR("set") : STR("frozenset"));
        code(w, ']');
    } else if (node->kind == PICKLE_TUPLE && node->count > 3) {
        code(w, '(');
        frame->has_mark = true;
    }
    return 0;
}

/* Writes a splice, which consists of whole batches. */
static int splice_write(struct pickle_writer *w, uint32_t file, const struct pickle_node *node,
                        struct err *err)
{
    const struct pickle_splices *splices = &w->files[file]->splices;
    uint32_t **memo = &w->seen[file].splice_memo;
    if (!*memo)
        *memo = xcalloc(splices->n_indices, sizeof(**memo));
    const struct pickle_copy copy = {.from = w->files[file],
                                     .graph = file,
                                     .sink = w->sink,
                                     .memo = *memo,
                                     .n_memo = &w->n_memo,
                                     .out = &w->out};
    return pickle_copy(&copy, &splices->at[node->splice], err);
}

/* Writes the next item, in batches as CPython writes them; *is_done: there are no more. */
static int items_step(struct pickle_writer *w, bool has_pairs, bool *is_done, struct err *err)
{
    struct frame *frame = &w->frames[w->n_frames - 1];
    uint32_t one = has_pairs ? 2 : 1, full = PICKLE_BATCH * one;
    uint32_t file = frame->file;
    const struct pickle_node *splice =
        frame->step == HAS_SPLICES ? pickle_splice_next(w->files, &file, frame->walk) : NULL;
    bool is_last = frame->n_left == 0 || splice;
    bool is_full = frame->n_in_batch == full || (is_last && frame->n_in_batch > 0);
    if (is_full) {
        if (frame->has_mark)
            code(w, has_pairs ? 'u' : 'e');
        else
            code(w, has_pairs ? 's' : 'a');
        frame->n_in_batch = 0;
        frame->has_mark = false;
    }
    *is_done = frame->n_left == 0;
    if (*is_done)
        return 0;
    if (splice) {
        frame->n_left--;
        pickle_next(w->files[frame->file], &frame->walk);
        return splice_write(w, file, splice, err);
    }
    if (frame->n_in_batch == 0 && frame->n_left > one) {
        code(w, '(');
        frame->has_mark = true;
    }
    frame->n_in_batch++;
    frame->n_left--;
    return value_begin(w, frame->file, pickle_next(w->files[frame->file], &frame->walk), err);
}

/*
 * A tuple is made after its items are written. If an item contained the tuple, the tuple was made
 * already; its items are then popped again.
 */
static int tuple_step(struct pickle_writer *w, bool *is_done, struct err *err)
{
    struct frame *frame = &w->frames[w->n_frames - 1];
    static const char codes[] = {')', (char)0x85, (char)0x86, (char)0x87};
    *is_done = frame->n_left == 0;
    if (!*is_done) {
        frame->n_left--;
        return value_begin(w, frame->file, pickle_next(w->files[frame->file], &frame->walk), err);
    }
    uint32_t count = pickle_node(w->files[frame->file], frame->id)->count;
    uint32_t memo = memo_of(w, frame->file, frame->id);
    if (memo != MEMO_NONE) {
        for (uint32_t i = 0; i < count && !frame->has_mark; i++)
            code(w, '0');
        buf_add_text(&w->out, frame->has_mark ? "1" : "");
        get_add(w, memo);
        return 0;
    }
    code(w, frame->has_mark ? 't' : codes[count]);
    memo_put(w, frame->file, frame->id);
    return 0;
}

static int set_step(struct pickle_writer *w, bool *is_done, struct err *err)
{
    int rc = items_step(w, false, is_done, err);
    const struct frame *frame = &w->frames[w->n_frames - 1];
    if (rc == 0 && *is_done) {
        buf_add_text(&w->out, "\x85R");
        memo_put(w, frame->file, frame->id);
    }
    return rc;
}

/*
 * The steps of a call: the callable, its arguments, the call; then the items, pairs and states that
 * are set in the result.
 */
enum call_step {
    CALL_NAME,
    CALL_ARGUMENTS,
    CALL_MADE,
    CALL_ITEMS,
    CALL_PAIRS,
    CALL_STATES
};

static int call_step(struct pickle_writer *w, bool *is_done, struct err *err)
{
    struct frame *frame = &w->frames[w->n_frames - 1];
    const struct pickle *pickle = w->files[frame->file];
    const struct pickle_node *node = pickle_node(pickle, frame->id);
    const struct pickle_later *later = pickle_later(pickle, node);
    const struct pickle_node *callee = pickle_node(pickle, node->call.callee);
    bool is_over = false;
    int rc = 0;
    *is_done = false;
    switch ((enum call_step)frame->step) {
    case CALL_NAME:
        frame->step = CALL_ARGUMENTS;
        return global_write(w, &pickle->globals[callee->global], err);
    case CALL_ARGUMENTS:
        frame->step = CALL_MADE;
        return value_begin(w, frame->file, node->call.args, err);
    case CALL_MADE:
        code(w, node->kind == PICKLE_CALL ? 'R' : (char)0x81);
        memo_put(w, frame->file, frame->id);
        frame->step = CALL_ITEMS;
        items_begin(w, frame, &later->items);
        return 0;
    case CALL_ITEMS:
        rc = items_step(w, false, &is_over, err);
        break;
    case CALL_PAIRS:
        rc = items_step(w, true, &is_over, err);
        break;
    case CALL_STATES:
        buf_add_text(&w->out, frame->n_in_batch > 0 ? "b" : "");
        *is_done = frame->n_left == 0;
        if (*is_done)
            return 0;
        frame->n_in_batch = 1;
        frame->n_left--;
        return value_begin(w, frame->file, pickle_next(pickle, &frame->walk), err);
    }
    if (rc == 0 && is_over) {
        frame = &w->frames[w->n_frames - 1];
        items_begin(w, frame, frame->step == CALL_ITEMS ? &later->pairs : &later->states);
        frame->step++;
    }
    return rc;
}

static int frame_step(struct pickle_writer *w, bool *is_done, struct err *err)
{
    const struct frame *frame = &w->frames[w->n_frames - 1];
    const struct pickle_node *node = pickle_node(w->files[frame->file], frame->id);
    if (is_call(node))
        return call_step(w, is_done, err);
    if (node->kind == PICKLE_TUPLE)
        return tuple_step(w, is_done, err);
    if (node->kind == PICKLE_SET || node->kind == PICKLE_FROZENSET)
        return set_step(w, is_done, err);
    return items_step(w, node->kind == PICKLE_DICT, is_done, err);
}

static int value_write(struct pickle_writer *w, uint32_t file, pickle_id id, size_t deepest,
                       struct err *err)
{
    int rc = value_begin(w, file, id, err);
    while (rc == 0 && w->n_frames > 0) {
        bool is_done;
        rc = frame_step(w, &is_done, err);
        w->n_frames -= rc == 0 && is_done;
        if (rc == 0 && w->n_frames > deepest)
            rc = no_words("an object that is made of itself", err);
        if (rc == 0)
            rc = flush(w, FLUSH_BYTES, err);
    }
    return rc;
}

int pickle_write(const struct pickle *const *graphs, size_t n_graphs, uint32_t graph,
                 pickle_id root, const struct pickle_sink *sink, struct written_storages *storages,
                 struct err *err)
{
    struct pickle_writer w = {
        .files = graphs, .n_files = n_graphs, .sink = sink, .word_memo = {MEMO_NONE, MEMO_NONE}};
    size_t deepest = 2; /* deeper only if an object contains itself without the memo */
    for (size_t i = 0; i < n_graphs; i++)
        deepest += 2 * graphs[i]->n_nodes;
    writer_init(&w, graphs, n_graphs);
    all_mark(&w, graph, root);
    buf_add_text(&w.out, "\x80\x02");
    int rc = value_write(&w, graph, root, deepest, err);
    code(&w, '.');
    if (rc == 0)
        rc = flush(&w, 1, err);
    *storages = (struct written_storages){w.storages, w.n_storages};
    writer_release(&w);
    return rc;
}
