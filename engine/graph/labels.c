/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/labels.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/lines.h"

enum {
    EDGE_MAP_BYTES_MAX = 256 << 20
};

void labels_release(struct labels *labels)
{
    buf_release(&labels->text);
    free(labels->at);
    *labels = (struct labels)LABELS_INIT;
}

static void labels_init(struct labels *labels, size_t n)
{
    *labels = (struct labels){.at = xcalloc(n, sizeof(*labels->at)), .n = n};
}

static void label_set(struct labels *labels, size_t index, struct str text)
{
    labels->at[index] =
        (struct label){.begin = labels->text.len, .len = (uint32_t)text.len, .is_there = true};
    buf_add_str(&labels->text, text);
}

bool labels_get(const struct labels *labels, size_t index, struct str *text)
{
    if (index >= labels->n || !labels->at[index].is_there)
        return false;
    *text = (struct str){buf_text(&labels->text) + labels->at[index].begin, labels->at[index].len};
    return true;
}

static void name_line(struct labels *labels, struct str line, uint64_t number, struct flaws *flaws)
{
    struct str fields[FIELDS_MAX];
    uint64_t index;
    if (line.len == 0)
        flaw_add(flaws, FLAW_BLANK, number, line);
    else if (line_fields(line, fields) != 2)
        flaw_add(flaws, FLAW_FIELDS, number, line);
    else if (u64_parse(fields[1], 0, UINT32_MAX, &index, NULL) != 0 || index >= labels->n)
        flaw_add(flaws, FLAW_INDEX, number, fields[1]);
    else
        label_set(labels, (size_t)index, fields[0]);
}

int labels_read_names(struct labels *labels, const char *path, size_t n_entities, bool is_lenient,
                      struct flaws *flaws, struct err *err)
{
    cleanup_lines struct lines lines = LINES_INIT;
    struct str line;
    int rc = lines_open(&lines, path, err);
    labels_init(labels, n_entities);
    while (rc == 0 && (rc = lines_next(&lines, &line, err)) > 0) {
        name_line(labels, line, lines.number, flaws);
        rc = 0;
    }
    lines_notes(&lines, flaws);
    return rc ? rc : flaws_check(flaws, path, is_lenient, err);
}

bool predicate_of(struct str text, struct buf *out)
{
    struct str value;
    return json_is_object(text) && json_get(text, "predicate", &value) &&
           json_kind_of(value) == JSON_STRING && json_to_text(value, out);
}

int labels_parse_edge_map(struct labels *labels, struct str text,
                          const struct name_index *relations, uint64_t *n_unknown, struct err *err)
{
    cleanup_buf struct buf inner = BUF_INIT, predicate = BUF_INIT, relation = BUF_INIT;
    struct str key, value;
    if (!json_is_object(text))
        return fail(err, ERR_DATA, "expected a JSON object, {\"{...}\": \"predicate:0\", ...}");
    labels_init(labels, relations->len);
    *n_unknown = 0;
    struct json_members walk = json_members(text);
    while (json_next(&walk, &key, &value)) {
        buf_reset(&inner);
        buf_reset(&predicate);
        buf_reset(&relation);
        json_key_to_text(key, &inner);
        size_t index = NAME_NONE;
        if (json_kind_of(value) == JSON_STRING && json_to_text(value, &relation))
            index = name_index_find(relations, buf_str(&relation));
        if (index != NAME_NONE && predicate_of(buf_str(&inner), &predicate))
            label_set(labels, index, buf_str(&predicate));
        else
            (*n_unknown)++;
    }
    return 0;
}

int labels_read_edge_map(struct labels *labels, const char *path,
                         const struct name_index *relations, uint64_t *n_unknown, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    int rc = file_read(path, EDGE_MAP_BYTES_MAX, &text, err);
    if (rc == 0)
        rc = labels_parse_edge_map(labels, str_unmarked(buf_str(&text)), relations, n_unknown, err);
    return rc == ERR_DATA ? wrap(err, rc, "%s", path) : rc;
}
