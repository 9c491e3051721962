/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/tree.h"

#include "base/json.h"
#include "base/parse.h"

enum {
    KEY_MAX_BYTES = 60,
    SCALAR_MAX_BYTES = 80
};

/* At most the first `max` bytes of a text, without a part of a character at the end. */
static struct str cut(struct str text, size_t max)
{
    if (text.len <= max)
        return text;
    while (max > 0 && ((unsigned char)text.at[max] & 0xc0) == 0x80)
        max--;
    return (struct str){text.at, max};
}

/* Adds a key: as it is if it is a plain word, else as a JSON string, so that no escape sequence
 * reaches the terminal. */
static void key_add(struct buf *out, struct str key)
{
    struct str shown = cut(key, KEY_MAX_BYTES);
    bool is_plain = shown.len > 0;
    for (size_t i = 0; i < shown.len && is_plain; i++)
        is_plain = (unsigned char)shown.at[i] > ' ' && (unsigned char)shown.at[i] < 0x7f;
    if (is_plain)
        buf_add_str(out, shown);
    else
        buf_add_json(out, shown);
    if (shown.len < key.len)
        buf_add_text(out, "...");
}

static void shape_add(struct buf *out, const struct tree_value *value)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < value->n_dims; i++)
        buf_addf(out, "%s%lu", i ? "," : "", value->shape[i]);
    buf_add_char(out, ']');
}

static void line_add(struct tree *tree, struct str key, const struct tree_value *value)
{
    struct buf *out = tree->out;
    for (unsigned i = 0; i < tree->depth; i++)
        buf_add_text(out, "  ");
    if (key.len > 0) {
        key_add(out, key);
        buf_add_text(out, ": ");
    }
    key_add(out, value->type);
    if (value->shape) {
        buf_add_char(out, ' ');
        shape_add(out, value);
    }
    if (value->scalar.len > 0) {
        struct str shown = cut(value->scalar, SCALAR_MAX_BYTES);
        buf_add_char(out, ' ');
        buf_add_str(out, shown);
        buf_add_text(out, shown.len < value->scalar.len ? "..." : "");
    }
    if (value->count != TREE_UNSAID) {
        char count[32];
        count_format(count, value->count);
        buf_addf(out, " of %s", count);
    }
    if (value->bytes != TREE_UNSAID) {
        char size[16];
        size_format(size, value->bytes);
        buf_addf(out, ", %s", size);
    }
    if (value->note.len > 0) {
        buf_add_text(out, ", ");
        buf_add_str(out, value->note);
    }
    buf_add_char(out, '\n');
}

static void object_add(struct tree *tree, struct str key, const struct tree_value *value)
{
    struct buf *out = tree->out;
    if (tree->depth > 0)
        buf_add_text(out, tree->has_items[tree->depth] ? "," : "");
    tree->has_items[tree->depth] = true;
    buf_add_char(out, '{');
    if (key.len > 0) {
        buf_add_text(out, "\"key\":");
        buf_add_json(out, key);
        buf_add_char(out, ',');
    }
    buf_add_text(out, "\"type\":");
    buf_add_json(out, value->type);
    if (value->shape) {
        buf_add_text(out, ",\"shape\":");
        shape_add(out, value);
    }
    if (value->scalar.len > 0) {
        buf_add_text(out, ",\"value\":");
        buf_add_str(out, value->scalar);
    }
    if (value->count != TREE_UNSAID)
        buf_addf(out, ",\"count\":%lu", value->count);
    if (value->bytes != TREE_UNSAID)
        buf_addf(out, ",\"bytes\":%lu", value->bytes);
    if (value->note.len > 0) {
        buf_add_text(out, ",\"note\":");
        buf_add_json(out, value->note);
    }
}

void tree_leaf(struct tree *tree, struct str key, const struct tree_value *value)
{
    tree->n_lines++;
    if (!tree->is_json) {
        line_add(tree, key, value);
        return;
    }
    object_add(tree, key, value);
    buf_add_char(tree->out, '}');
}

bool tree_open(struct tree *tree, struct str key, const struct tree_value *value)
{
    if (tree->depth >= TREE_DEPTH_MAX || tree->n_lines >= TREE_LINES_MAX) {
        struct tree_value closed = *value;
        closed.note = STR("not shown");
        tree_leaf(tree, key, &closed);
        return false;
    }
    tree->n_lines++;
    if (tree->is_json) {
        object_add(tree, key, value);
        buf_add_text(tree->out, ",\"items\":[");
    } else {
        line_add(tree, key, value);
    }
    tree->has_items[++tree->depth] = false;
    return true;
}

void tree_close(struct tree *tree)
{
    tree->depth--;
    if (tree->is_json)
        buf_add_text(tree->out, "]}");
}

void tree_more(struct tree *tree, uint64_t count)
{
    char text[32];
    count_format(text, count);
    if (count == 0)
        return;
    if (!tree->is_json) {
        for (unsigned i = 0; i < tree->depth; i++)
            buf_add_text(tree->out, "  ");
        buf_addf(tree->out, "... %s more\n", text);
        return;
    }
    buf_addf(tree->out, "%s{\"more\":%lu}", tree->has_items[tree->depth] ? "," : "", count);
    tree->has_items[tree->depth] = true;
}
