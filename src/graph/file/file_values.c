/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/parse.h"
#include "base/suggest.h"
#include "graph/file/file_impl.h"

enum {
    SUGGESTIONS_MAX = 1000 /* names that are compared for "did you mean" */
};

/* ---- values ---- */

static double number_or_nan(struct str text, bool is_plain)
{
    double number = 0;
    bool is_decimal = text.len > 0 && strchr("+-.0123456789", text.at[0]);
    for (size_t i = 0; i < text.len; i++)
        is_decimal = is_decimal && strchr("+-.0123456789eE", text.at[i]);
    return is_plain && is_decimal && double_parse(text, &number, NULL) == 0 ? number : (double)NAN;
}

static uint32_t value_number(struct graph_file *file, struct str text, bool is_plain)
{
    struct buf key = BUF_INIT;
    buf_add_char(&key, is_plain ? '#' : '$');
    buf_add_str(&key, text);
    uint32_t number = (uint32_t)name_index_number(&file->value_texts, buf_str(&key));
    buf_release(&key);
    return number;
}

/* NOLINTNEXTLINE(misc-no-recursion): once, since the canonical text of a number is that of itself */
uint32_t value_add(struct graph_file *file, struct str text, bool is_plain)
{
    double number = number_or_nan(text, is_plain);
    size_t n_before = file->value_texts.len;
    uint32_t value = value_number(file, text, !isnan(number));
    if (value < n_before)
        return value;
    if (value >= file->values_cap) {
        file->values_cap = MAX(file->values_cap * 2, (size_t)64);
        file->values = xrealloc(file->values, file->values_cap * sizeof(*file->values));
    }
    file->values[value] = (struct value){number, value};
    if (!isnan(number)) {
        char canonical[32];
        snprintf(canonical, sizeof(canonical), "%.17g", number == 0 ? 0 : number);
        if (!str_equal(str_of(canonical), text))
            file->values[value].same = value_add(file, str_of(canonical), true);
    }
    return value;
}

struct str value_text(const struct graph_file *file, uint32_t value)
{
    struct str text = name_index_get(&file->value_texts, value);
    return (struct str){text.at + 1, text.len - 1};
}

/* ---- lists ---- */

static uint32_t *slot_of(const struct graph_file *file, const struct list *list, uint32_t same)
{
    uint32_t i = same * 2654435761u & (list->n_slots - 1);
    while (list->slots[i] && value_same(file, list->at[list->slots[i] - 1]) != same)
        i = (i + 1) & (list->n_slots - 1);
    return &list->slots[i];
}

static void list_index(struct graph_file *file, struct list *list, uint32_t cap)
{
    uint32_t n_slots = 8;
    while (n_slots < cap * 2)
        n_slots *= 2;
    if (n_slots <= list->n_slots)
        return;
    list->slots = arena_alloc(&file->arena, n_slots * sizeof(*list->slots));
    list->n_slots = n_slots;
    for (uint32_t i = 0; i < list->len; i++) {
        uint32_t *slot = slot_of(file, list, value_same(file, list->at[i]));
        if (*slot == 0)
            *slot = i + 1;
    }
}

uint32_t list_find(const struct graph_file *file, const struct list *list, uint32_t value)
{
    uint32_t position = list->n_slots > 0 ? *slot_of(file, list, value_same(file, value)) : 0;
    return position > 0 ? position - 1 : NONE;
}

/* The memory doubles at powers of 2. */
static void list_push(struct graph_file *file, struct list *list, uint32_t value)
{
    if ((list->len & (list->len - 1)) == 0) {
        uint32_t *grown = arena_alloc(&file->arena, MAX(list->len * 2, 1u) * sizeof(*grown));
        if (list->len > 0)
            memcpy(grown, list->at, list->len * sizeof(*grown));
        list->at = grown;
    }
    list->at[list->len++] = value;
}

uint32_t list_add(struct graph_file *file, struct list *list, uint32_t value)
{
    list_push(file, list, value);
    if (list->n_slots < list->len * 2)
        list_index(file, list, list->len);
    else
        *slot_of(file, list, value_same(file, value)) = list->len;
    return list->len - 1;
}

void list_copy(struct graph_file *file, const struct list *from, struct list *to)
{
    *to = (struct list){.node = from->node, .is_counter = from->is_counter};
    for (uint32_t i = 0; i < from->len; i++)
        list_push(file, to, from->at[i]);
    list_index(file, to, to->len);
}

/* ---- from nodes ---- */

static bool integer_take(struct str *text, int64_t *out)
{
    size_t used = text->len > 0 && (text->at[0] == '-' || text->at[0] == '+');
    bool is_negative = used && text->at[0] == '-';
    size_t begin = used;
    int64_t value = 0;
    for (; used < text->len && text->at[used] >= '0' && text->at[used] <= '9'; used++) {
        if (used - begin > 15)
            return false;
        value = value * 10 + (text->at[used] - '0');
    }
    if (used == begin)
        return false;
    *out = is_negative ? -value : value;
    *text = (struct str){text->at + used, text->len - used};
    return true;
}

static bool dots_take(struct str *text)
{
    if (!str_starts_with(*text, STR("..")))
        return false;
    *text = (struct str){text->at + 2, text->len - 2};
    return true;
}

struct range {
    int64_t first, last, step;
};

/* "1..3" or "0..10..2". Neither is a number. */
static bool range_parse(struct str text, struct range *out)
{
    *out = (struct range){0};
    if (!integer_take(&text, &out->first) || !dots_take(&text) || !integer_take(&text, &out->last))
        return false;
    out->step = out->first <= out->last ? 1 : -1;
    return text.len == 0 || (dots_take(&text) && integer_take(&text, &out->step) && text.len == 0);
}

static int range_add(struct graph_file *file, const struct yaml_node *node,
                     const struct range *range, struct list *out)
{
    char text[24];
    if (range->step == 0 || (range->last > range->first) != (range->step > 0))
        if (range->step == 0 || range->last != range->first)
            return file_fail(
                file, node,
                "the range %s never ends; its step has to lead from the first number to "
                "the last",
                node->text.at);
    uint64_t count = (uint64_t)((range->last - range->first) / range->step) + 1;
    if (count + out->len > file->n_jobs_max)
        return file_fail(file, node, "the range %s has more than %u values; make it smaller",
                         node->text.at, file->n_jobs_max);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "%" PRId64, range->first + (int64_t)i * range->step);
        list_push(file, out, value_add(file, str_of(text), true));
    }
    return 0;
}

/* A range, or a text. */
static int element_add(struct graph_file *file, const struct yaml_node *node, struct list *out,
                       bool *is_range)
{
    struct range range;
    struct text text;
    *is_range = false;
    if (node->kind != YAML_SCALAR || yaml_is_empty(node))
        return file_fail(file, node, "expected a value of a variable, found %s; a value is a text",
                         yaml_kind_name(node));
    int rc = text_compile(file, NULL, node, node->text, TEXT_VALUE, &text);
    if (rc)
        return rc;
    struct str filled = str_of(text.constant);
    *is_range = node->is_plain && range_parse(filled, &range);
    if (*is_range)
        return range_add(file, node, &range, out);
    list_push(file, out, value_add(file, filled, node->is_plain));
    return 0;
}

static bool is_whole(struct str text)
{
    int64_t number;
    return integer_take(&text, &number) && text.len == 0;
}

/* Puts the values into the index, one by one, and finds those that are there already. */
static int list_close(struct graph_file *file, struct list *list)
{
    struct list indexed = *list;
    indexed.len = 0;
    list_index(file, &indexed, list->len);
    for (uint32_t i = 0; i < list->len; i++) {
        uint32_t *slot = slot_of(file, &indexed, value_same(file, list->at[i]));
        if (*slot)
            return file_fail(file, list->node, "the value '%s' stands twice; remove one of them",
                             arena_text(&file->arena, value_text(file, list->at[i])));
        *slot = i + 1;
    }
    list->slots = indexed.slots;
    list->n_slots = indexed.n_slots;
    return 0;
}

int list_read(struct graph_file *file, const struct yaml_node *node, struct list *out)
{
    bool is_range;
    int rc = 0;
    *out = (struct list){.node = node};
    if (node->kind == YAML_MAPPING)
        return file_fail(file, node, "expected a text, a list or a range, found a mapping");
    if (node->kind == YAML_SCALAR) {
        rc = element_add(file, node, out, &is_range);
        out->is_text = !is_range;
        if (rc == 0)
            out->is_counter =
                is_range || (node->is_plain && is_whole(value_text(file, out->at[0])));
    }
    for (uint32_t i = 0; node->kind == YAML_LIST && i < node->len && rc == 0; i++)
        rc = element_add(file, node->items[i].value, out, &is_range);
    return rc ? rc : list_close(file, out);
}

/* ---- did you mean ---- */

const char *name_like(struct graph_file *file, struct str name, const char *const *names, size_t n)
{
    const char *word = arena_text(&file->arena, name);
    const char *near = suggest(word, names, MIN(n, (size_t)SUGGESTIONS_MAX));
    char text[128];
    /* Any letter is near to any other. */
    if (!near || name.len < 2)
        return "";
    snprintf(text, sizeof(text), " (did you mean '%s'?)", near);
    return arena_text(&file->arena, str_of(text));
}

const char *index_like(struct graph_file *file, struct str name, const struct name_index *names)
{
    const char *texts[SUGGESTIONS_MAX];
    size_t n = MIN(names->len, (size_t)SUGGESTIONS_MAX);
    for (size_t i = 0; i < n; i++)
        texts[i] = arena_text(&file->arena, name_index_get(names, i));
    return name_like(file, name, texts, n);
}

const char *list_like(struct graph_file *file, const struct list *list, struct str text)
{
    const char *texts[SUGGESTIONS_MAX];
    size_t n = MIN(list->len, (uint32_t)SUGGESTIONS_MAX);
    for (size_t i = 0; i < n; i++)
        texts[i] = arena_text(&file->arena, value_text(file, list->at[i]));
    return name_like(file, text, texts, n);
}
