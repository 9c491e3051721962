/* SPDX-License-Identifier: Apache-2.0
 *
 * libfyaml reads the events; the tree is made of them here. Its own documents are not used, since they copy what aliases
 * stand for.
 */
#include "graph/file/yaml.h"

#include <libfyaml.h>
#include <stdarg.h>

#include "base/json.h"
#include "base/name_index.h"

enum {
    MERGED_KEYS_MAX = 200 /* each is looked for among those that are there */
};

/* A list or mapping whose end is not read yet. */
struct level {
    struct yaml_node *node;
    struct yaml_item *items;
    size_t cap;
    const struct yaml_node *key; /* waits for its value */
    bool is_flow;                /* {…} or […] */
};

struct reader {
    struct arena *arena;
    const char *source;
    struct str text;
    struct fy_parser *parser;
    struct level levels[YAML_DEPTH_MAX + 1];
    size_t n_levels;
    struct name_index anchor_names;
    const struct yaml_node **anchors; /* [anchor_names.len] */
    const struct yaml_node *root;
    uint64_t weight; /* of all nodes that were made */
    bool is_ended;   /* the end of the text was read */
    uint32_t line, column;
};

int yaml_fail(struct err *err, const struct yaml_node *at, const char *fmt, ...)
{
    char text[sizeof(((struct err *)NULL)->text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return fail(err, ERR_USAGE, "%s:%u:%u: %s", at->source, at->line, at->column, text);
}

const struct yaml_node *yaml_get(const struct yaml_node *mapping, struct str key)
{
    for (uint32_t i = 0; i < mapping->len; i++)
        if (str_equal(mapping->items[i].key->text, key))
            return mapping->items[i].value;
    return NULL;
}

bool yaml_is_empty(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && node->is_plain && node->text.len == 0;
}

const char *yaml_kind_name(const struct yaml_node *node)
{
    static const char *const names[] = {"a text", "a list", "a mapping"};
    return yaml_is_empty(node) ? "nothing" : names[node->kind];
}

/* ---- nodes ---- */

/* Releases of libfyaml differ in what they give for it: no token, or an empty one. */
static bool is_left_out(struct fy_event *event)
{
    if (event->type != FYET_SCALAR)
        return false;
    struct fy_token *value = event->scalar.value;
    return !value ||
           (fy_token_scalar_style(value) == FYSS_PLAIN && fy_token_get_text_length(value) == 0);
}

static struct yaml_node *node_new(struct reader *reader, enum yaml_kind kind,
                                  struct fy_event *event)
{
    struct yaml_node *node = arena_alloc(reader->arena, sizeof(*node));
    const struct fy_mark *mark = fy_event_start_mark(event);
    *node = (struct yaml_node){.kind = kind, .source = reader->source, .depth = 1, .weight = 1};
    /* What is left out has no place of its own: it is where the last thing is. */
    if (mark && !is_left_out(event)) {
        reader->line = (uint32_t)mark->line + 1;
        reader->column = (uint32_t)mark->column + 1;
    }
    node->line = reader->line;
    node->column = reader->column;
    return node;
}

/* Counts a node that was made, or is shared by one more alias. */
static int weigh(struct reader *reader, const struct yaml_node *node, struct err *err)
{
    reader->weight += node->weight;
    if (reader->weight > YAML_WEIGHT_MAX)
        return yaml_fail(
            err, node,
            "with its aliases filled in, the file has more than 16 million parts; make "
            "it smaller, with variables and ranges");
    return 0;
}

static int item_add(struct reader *reader, struct level *level, const struct yaml_node *key,
                    const struct yaml_node *value, struct err *err)
{
    struct yaml_node *node = level->node;
    if (node->len == level->cap) {
        level->cap = MAX(level->cap * 2, (size_t)8);
        level->items = xrealloc(level->items, level->cap * sizeof(*level->items));
    }
    level->items[node->len++] = (struct yaml_item){key, value};
    node->weight += value->weight + (key ? 1 : 0);
    node->depth = MAX(node->depth, value->depth + 1);
    if (node->depth + reader->n_levels - 1 > YAML_DEPTH_MAX)
        return yaml_fail(err, value, "lists and mappings are more than %d deep; make them flatter",
                         YAML_DEPTH_MAX);
    return 0;
}

static int put(struct reader *reader, const struct yaml_node *node, struct err *err)
{
    if (reader->n_levels == 0) {
        reader->root = node;
        return 0;
    }
    struct level *level = &reader->levels[reader->n_levels - 1];
    if (level->node->kind == YAML_LIST)
        return item_add(reader, level, NULL, node, err);
    if (!level->key) {
        if (node->kind != YAML_SCALAR)
            return yaml_fail(err, node, "%s is a key here; a key has to be a text",
                             yaml_kind_name(node));
        level->key = node;
        return 0;
    }
    const struct yaml_node *key = level->key;
    level->key = NULL;
    return item_add(reader, level, key, node, err);
}

/* ---- the end of a mapping ---- */

static int item_compare(const void *a, const void *b)
{
    const struct yaml_node *first = (*(const struct yaml_item *const *)a)->key;
    const struct yaml_node *second = (*(const struct yaml_item *const *)b)->key;
    int by_text = str_compare(first->text, second->text);
    if (by_text != 0)
        return by_text;
    return *(const struct yaml_item *const *)a < *(const struct yaml_item *const *)b ? -1 : 1;
}

/* Keys in order of their texts, so that equal ones stand together. */
static int keys_check(const struct yaml_node *mapping, struct err *err)
{
    int rc = 0;
    const struct yaml_item **sorted = xmalloc((mapping->len + 1) * sizeof(*sorted));
    for (uint32_t i = 0; i < mapping->len; i++)
        sorted[i] = &mapping->items[i];
    qsort(sorted, mapping->len, sizeof(*sorted), item_compare);
    for (uint32_t i = 1; i < mapping->len && rc == 0; i++) {
        const struct yaml_node *key = sorted[i]->key, *before = sorted[i - 1]->key;
        if (str_equal(key->text, before->text))
            rc = yaml_fail(err, key, "the key '%s' is in line %u already; remove one of them",
                           key->text.at, before->line);
    }
    free(sorted);
    return rc;
}

/* Adds what is not there yet of a mapping, or a list of them, that stands at `<<`. */
static int merge_key_fill(struct reader *reader, struct level *level,
                          const struct yaml_node *merged, struct err *err)
{
    if (merged->kind == YAML_LIST) {
        for (uint32_t i = 0; i < merged->len; i++) {
            if (merged->items[i].value->kind != YAML_MAPPING)
                return yaml_fail(err, merged->items[i].value, "'<<' takes mappings, found %s",
                                 yaml_kind_name(merged->items[i].value));
            int rc = merge_key_fill(reader, level, merged->items[i].value, err);
            if (rc)
                return rc;
        }
        return 0;
    }
    if (merged->kind != YAML_MAPPING)
        return yaml_fail(err, merged, "'<<' takes a mapping, such as *name, found %s",
                         yaml_kind_name(merged));
    if (merged->len > MERGED_KEYS_MAX)
        return yaml_fail(err, merged, "'<<' takes mappings of at most %d keys, found %u",
                         MERGED_KEYS_MAX, merged->len);
    for (uint32_t i = 0; i < merged->len; i++) {
        const struct yaml_item *item = &merged->items[i];
        level->node->items = level->items;
        if (yaml_get(level->node, item->key->text))
            continue;
        int rc = item_add(reader, level, item->key, item->value, err);
        if (rc == 0)
            rc = weigh(reader, item->value, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int merge_keys_fill(struct reader *reader, struct level *level, struct err *err)
{
    uint32_t n_own = level->node->len;
    for (uint32_t i = 0; i < n_own; i++) {
        struct yaml_item item = level->items[i];
        if (!item.key->is_plain || !str_equal(item.key->text, STR("<<")))
            continue;
        level->node->len--;
        memmove(level->items + i, level->items + i + 1,
                (level->node->len - i) * sizeof(*level->items));
        return merge_key_fill(reader, level, item.value, err);
    }
    return 0;
}

static int level_end(struct reader *reader, struct err *err)
{
    struct level *level = &reader->levels[reader->n_levels - 1];
    struct yaml_node *node = level->node;
    bool is_mapping = node->kind == YAML_MAPPING;
    int rc = 0;
    node->items = level->items;
    if (is_mapping)
        rc = keys_check(node, err);
    if (rc == 0 && is_mapping)
        rc = merge_keys_fill(reader, level, err);
    node->items = arena_alloc(reader->arena, node->len * sizeof(*node->items));
    if (node->len > 0)
        memcpy(node->items, level->items, node->len * sizeof(*node->items));
    free(level->items);
    *level = (struct level){0};
    node->is_open = false;
    reader->n_levels--;
    return rc ? rc : put(reader, node, err);
}

/* ---- events ---- */

static int anchor_add(struct reader *reader, struct fy_token *anchor, const struct yaml_node *node)
{
    if (!anchor)
        return 0;
    struct str name = {0};
    name.at = fy_token_get_text(anchor, &name.len);
    size_t number = name_index_number(&reader->anchor_names, name);
    reader->anchors = xrealloc(reader->anchors, reader->anchor_names.len * sizeof(node));
    reader->anchors[number] = node;
    return 0;
}

static int tag_refuse(struct fy_token *tag, const struct yaml_node *node, struct err *err)
{
    if (!tag)
        return 0;
    return yaml_fail(err, node,
                     "a tag (!…) has no meaning here; remove it, or put the text in quotes");
}

/* Takes line breaks with the blanks around them: one is a space, n are n - 1 breaks. */
static void fold(struct str *rest, struct buf *out)
{
    size_t n_breaks = 0;
    while (out->len > 0 && strchr(" \t", out->at[out->len - 1]))
        out->len--;
    while (rest->len > 0 && strchr(" \t\r\n", rest->at[0])) {
        bool is_pair = str_starts_with(*rest, STR("\r\n"));
        n_breaks += rest->at[0] == '\n' || (rest->at[0] == '\r' && !is_pair);
        *rest = (struct str){rest->at + 1, rest->len - 1};
    }
    if (n_breaks == 1)
        buf_add_char(out, ' ');
    for (; n_breaks > 1; n_breaks--)
        buf_add_char(out, '\n');
}

/* libfyaml 0.7.12 reads two doubled quotes in a row as something else, and loses memory on the way: it is done here. */
static void single_quoted_read(const struct reader *reader, struct fy_token *token, struct buf *out)
{
    size_t begin = fy_token_start_mark(token)->input_pos, end = fy_token_end_mark(token)->input_pos;
    ASSERT(begin <= end && end <= reader->text.len);
    struct str rest = {reader->text.at + begin, end - begin};
    while (rest.len > 0) {
        if (strchr("\r\n", rest.at[0])) {
            fold(&rest, out);
            continue;
        }
        size_t used = str_starts_with(rest, STR("''")) ? 2 : 1;
        buf_add_char(out, rest.at[0]);
        rest = (struct str){rest.at + used, rest.len - used};
    }
}

static struct str scalar_text(const struct reader *reader, struct fy_token *value, struct buf *own)
{
    struct str text = {"", 0};
    if (value && fy_token_scalar_style(value) == FYSS_SINGLE_QUOTED) {
        single_quoted_read(reader, value, own);
        return (struct str){buf_text(own), own->len};
    }
    if (value)
        text.at = fy_token_get_text(value, &text.len);
    return text;
}

static int scalar_read(struct reader *reader, struct fy_event *event, struct err *err)
{
    struct yaml_node *node = node_new(reader, YAML_SCALAR, event);
    struct fy_token *value = event->scalar.value;
    cleanup_buf struct buf own = BUF_INIT;
    struct str text = scalar_text(reader, value, &own);
    if (!text.at)
        return yaml_fail(err, node, "the text cannot be read; write it in quotes");
    if (memchr(text.at, '\0', text.len))
        return yaml_fail(err, node, "there is a NUL character in the text; remove it");
    node->text = (struct str){arena_text(reader->arena, text), text.len};
    enum fy_scalar_style style = value ? fy_token_scalar_style(value) : FYSS_PLAIN;
    node->is_plain = style == FYSS_PLAIN;
    /* The mark is behind the quote. */
    node->column -=
        node->column > 1 && (style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED);
    node->weight += (uint32_t)(text.len / 16);
    int rc = tag_refuse(event->scalar.tag, node, err);
    if (rc == 0)
        rc = weigh(reader, node, err);
    if (rc == 0)
        rc = anchor_add(reader, event->scalar.anchor, node);
    return rc ? rc : put(reader, node, err);
}

static bool is_flow(const struct reader *reader, struct fy_event *event)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    return mark && mark->input_pos < reader->text.len &&
           strchr("{[", reader->text.at[mark->input_pos]);
}

static int level_begin(struct reader *reader, struct fy_event *event, struct err *err)
{
    bool is_list = event->type == FYET_SEQUENCE_START;
    struct yaml_node *node = node_new(reader, is_list ? YAML_LIST : YAML_MAPPING, event);
    struct fy_token *anchor = is_list ? event->sequence_start.anchor : event->mapping_start.anchor;
    struct fy_token *tag = is_list ? event->sequence_start.tag : event->mapping_start.tag;
    if (reader->n_levels >= YAML_DEPTH_MAX)
        return yaml_fail(err, node, "lists and mappings are more than %d deep; make them flatter",
                         YAML_DEPTH_MAX);
    node->is_open = true;
    int rc = tag_refuse(tag, node, err);
    if (rc == 0)
        rc = weigh(reader, node, err);
    if (rc == 0)
        rc = anchor_add(reader, anchor, node);
    if (rc == 0)
        reader->levels[reader->n_levels++] =
            (struct level){.node = node, .is_flow = is_flow(reader, event)};
    return rc;
}

static int alias_read(struct reader *reader, struct fy_event *event, struct err *err)
{
    const struct yaml_node *here = node_new(reader, YAML_SCALAR, event);
    struct str name = {0};
    name.at = fy_token_get_text(event->alias.anchor, &name.len);
    size_t number = name.at ? name_index_find(&reader->anchor_names, name) : NAME_NONE;
    if (number == NAME_NONE)
        return yaml_fail(err, here, "there is no anchor &%.*s before this", (int)name.len, name.at);
    const struct yaml_node *node = reader->anchors[number];
    if (node->is_open)
        return yaml_fail(err, here, "*%.*s stands inside of &%.*s, which has no end", (int)name.len,
                         name.at, (int)name.len, name.at);
    int rc = weigh(reader, node, err);
    return rc ? rc : put(reader, node, err);
}

static int event_read(struct reader *reader, struct fy_event *event, struct err *err)
{
    switch ((int)event->type) {
    case FYET_SCALAR:
        return scalar_read(reader, event, err);
    case FYET_SEQUENCE_START:
    case FYET_MAPPING_START:
        return level_begin(reader, event, err);
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END:
        return level_end(reader, err);
    case FYET_ALIAS:
        return alias_read(reader, event, err);
    case FYET_STREAM_END:
        reader->is_ended = true;
        return 0;
    case FYET_DOCUMENT_START:
        if (reader->root)
            return yaml_fail(err, node_new(reader, YAML_SCALAR, event),
                             "a second document begins here; a file has one");
        return 0;
    default:
        return 0;
    }
}

/* ---- the text ---- */

/* What libfyaml says about a malformed text; in a list or mapping in brackets, a brace in a text is what people miss. */
static int syntax_fail(struct reader *reader, struct fy_diag *diag, struct err *err)
{
    void *walk = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &walk);
    if (!error || !error->msg)
        return fail(err, ERR_USAGE, "%s: malformed YAML", reader->source);
    const char *cure = "";
    for (size_t i = 0; i < reader->n_levels; i++)
        if (reader->levels[i].is_flow && reader->levels[i].node->line == (uint32_t)error->line)
            cure = "; inside of {…} and […], put a text that has one of {}[], in quotes";
    return fail(err, ERR_USAGE, "%s:%d:%d: malformed YAML: %s%s", reader->source, error->line,
                error->column, error->msg, cure);
}

static int events_read(struct reader *reader, struct fy_diag *diag, struct err *err)
{
    for (;;) {
        struct fy_event *event = fy_parser_parse(reader->parser);
        if (!event) {
            /* Without memory, libfyaml ends early and says nothing. */
            bool is_whole = reader->is_ended && !fy_parser_get_stream_error(reader->parser) &&
                            !fy_diag_got_error(diag);
            return is_whole ? 0 : syntax_fail(reader, diag, err);
        }
        int rc = event_read(reader, event, err);
        fy_parser_event_free(reader->parser, event);
        if (rc)
            return rc;
    }
}

static uint32_t line_at(struct str text, size_t offset)
{
    uint32_t line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text.at[i] == '\n';
    return line;
}

/* YAML allows no other control characters. Binary files are found here. */
static int characters_check(const char *source, struct str text, struct err *err)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            return fail(err, ERR_USAGE,
                        "%s:%u: there is a control character (0x%02x), so this is no YAML text",
                        source, line_at(text, i), c);
    }
    if (utf8_is_valid(text))
        return 0;
    size_t low = 0, high = text.len; /* the longest well-formed beginning */
    while (low + 1 < high) {
        size_t middle = (low + high) / 2, end = middle;
        while (end > low && ((unsigned char)text.at[end] & 0xc0) == 0x80)
            end--;
        if (utf8_is_valid((struct str){text.at, end}))
            low = middle;
        else
            high = middle;
    }
    return fail(err, ERR_USAGE, "%s:%u: this is not UTF-8; convert the file, as with iconv", source,
                line_at(text, low));
}

static void reader_release(struct reader *reader, struct fy_diag *diag)
{
    while (reader->n_levels > 0)
        free(reader->levels[--reader->n_levels].items);
    fy_parser_destroy(reader->parser);
    fy_diag_destroy(diag);
    name_index_release(&reader->anchor_names);
    free(reader->anchors);
}

int yaml_parse(struct arena *arena, const char *source, struct str text,
               const struct yaml_node **out, struct err *err)
{
    struct fy_diag_cfg diag_config;
    struct str unmarked = str_unmarked(text);
    struct reader reader = {.arena = arena,
                            .source = source,
                            .text = unmarked,
                            .anchor_names = NAME_INDEX_INIT,
                            .line = 1,
                            .column = 1};
    *out = NULL;
    int rc = characters_check(source, unmarked, err);
    if (rc)
        return rc;
    fy_diag_cfg_default(&diag_config);
    diag_config.fp = NULL;
    diag_config.output_fn = NULL;
    struct fy_diag *diag = xalloc_checked(fy_diag_create(&diag_config), 1);
    fy_diag_set_collect_errors(diag, true);
    const struct fy_parse_cfg config = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_JSON_NONE,
                                        .diag = diag};
    reader.parser = xalloc_checked(fy_parser_create(&config), 1);
    /* libfyaml does not take an empty text for one. */
    if (fy_parser_set_string(reader.parser, unmarked.len > 0 ? unmarked.at : "\n",
                             MAX(unmarked.len, (size_t)1)))
        rc = fail(err, ERR_USAGE, "%s: the YAML reader cannot begin", source);
    if (rc == 0)
        rc = events_read(&reader, diag, err);
    if (rc == 0 && !reader.root)
        rc = fail(err, ERR_USAGE, "%s: nothing stands in it", source);
    reader_release(&reader, diag);
    *out = rc ? NULL : reader.root;
    return rc;
}
