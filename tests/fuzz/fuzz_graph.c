/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what the graph engine reads: triples with made names, triples with the names of a dictionary, a
 * dictionary, readable names, an edge map. What is accepted accounts for every line.
 */
#include "fuzz.h"

#include "graph/labels.h"
#include "graph/lines.h"
#include "graph/triples.h"

static void check_rc(int rc, const struct err *err)
{
    ASSERT(rc == 0 || ((rc == ERR_DATA || rc == ERR_USAGE) && err->text[0]));
}

static uint64_t count_lines(struct str text)
{
    uint64_t n = 0;
    struct str line;
    while (str_next(&text, '\n', &line))
        n += text.at || line.len > 0; /* behind the last newline there is no line */
    return n;
}

static void fuzz_triples(const char *path, struct str text, bool makes_names, bool is_lenient)
{
    cleanup_name_index struct name_index entities = NAME_INDEX_INIT, relations = NAME_INDEX_INIT;
    cleanup_triples struct triples triples = {0};
    struct flaws flaws = {0};
    struct err err = {0};
    name_index_number(&entities, STR("a"));
    name_index_number(&entities, STR("b"));
    name_index_number(&relations, STR("r"));
    const struct triples_opts opts = {&entities, &relations, makes_names, is_lenient};
    int rc = triples_read(&triples, path, &opts, &flaws, &err);
    check_rc(rc, &err);
    if (rc)
        return;
    ASSERT(triples.n + flaws_count(&flaws) + flaws.of[FLAW_BLANK].count == count_lines(text));
    ASSERT(is_lenient || flaws_count(&flaws) == 0);
    for (size_t i = 0; i < triples.n; i++)
        ASSERT(triples.at[i].head < entities.len && triples.at[i].tail < entities.len &&
               triples.at[i].relation < relations.len);
    cleanup_buf struct buf notes = BUF_INIT;
    flaws_format(&flaws, "x", &notes);
}

static void fuzz_names(const char *path, bool is_lenient)
{
    cleanup_name_index struct name_index names = NAME_INDEX_INIT, back = NAME_INDEX_INIT;
    struct flaws flaws = {0};
    struct err err = {0};
    int rc = names_read(&names, path, is_lenient, &flaws, &err);
    check_rc(rc, &err);
    if (rc)
        return;
    ASSERT(names_write(&names, path, true, &err) == 0);
    struct flaws none = {0};
    rc = names_read(&back, path, false, &none, &err);
    /* A name may end with CR, or begin with a mark, where it stood; not where it is written. */
    ASSERT(rc != 0 || none.of[FLAW_MARK].count > 0 ||
           (back.len == names.len && str_equal(buf_str(&back.text), buf_str(&names.text))));
}

static void fuzz_labels(const char *path, struct str text, bool is_map)
{
    cleanup_name_index struct name_index relations = NAME_INDEX_INIT;
    cleanup_labels struct labels labels = LABELS_INIT;
    struct flaws flaws = {0};
    struct err err = {0};
    struct str label;
    uint64_t n_unknown = 0;
    name_index_number(&relations, STR("predicate:0"));
    name_index_number(&relations, STR("predicate:1"));
    int rc = is_map ? labels_parse_edge_map(&labels, text, &relations, &n_unknown, &err)
                    : labels_read_names(&labels, path, 3, true, &flaws, &err);
    check_rc(rc, &err);
    for (size_t i = 0; rc == 0 && i < 4; i++)
        ASSERT(!labels_get(&labels, i, &label) || label.len <= labels.text.len);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    const char *path = fuzz_file("graph.tsv", text);
    switch (choice % 4) {
    case 0:
        fuzz_triples(path, text, choice & 4, choice & 8);
        break;
    case 1:
        fuzz_names(path, choice & 4);
        break;
    default:
        fuzz_labels(path, text, choice % 4 == 2);
    }
    return 0;
}
