/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/fs.h"
#include "base/rng.h"
#include "graph/adjacency.h"
#include "graph/known.h"
#include "graph/labels.h"
#include "graph/lines.h"
#include "graph/triples.h"
#include "unit/data/scratch.h"

static const char *file(const char *text)
{
    return scratch_file("x.tsv", str_of(text));
}

static void names_are(const struct name_index *names, const char *expected)
{
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < names->len; i++) {
        buf_add_str(&text, name_index_get(names, i));
        buf_add_char(&text, ' ');
        assert_int_equal(name_index_find(names, name_index_get(names, i)), i);
    }
    assert_string_equal(buf_text(&text), expected);
}

static void a_dictionary_may_be_in_any_order(void **state)
{
    (void)state;
    cleanup_name_index struct name_index names = NAME_INDEX_INIT;
    struct flaws flaws = {0};
    struct err err = {0};
    assert_int_equal(names_read(&names, file("b c\t1\n\nd\t2\r\na\t0"), false, &flaws, &err), 0);
    names_are(&names, "a b c d ");
    assert_int_equal(name_index_find(&names, STR("b")), NAME_NONE);
    assert_int_equal(flaws.of[FLAW_BLANK].line, 2);
    assert_int_equal(flaws.of[FLAW_CRLF].line, 3);
}

static void many_names_are_found_again(void **state)
{
    (void)state;
    cleanup_name_index struct name_index names = NAME_INDEX_INIT, back = NAME_INDEX_INIT;
    cleanup_buf struct buf name = BUF_INIT;
    struct flaws flaws = {0};
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 20000; i++) {
            buf_reset(&name);
            buf_addf(&name, "entity %zu", i * i);
            assert_int_equal(name_index_number(&names, buf_str(&name)), i);
        }
    }
    assert_int_equal(names.len, 20000);
    const char *path = scratch_path("names.txt");
    assert_int_equal(names_write(&names, path, true, NULL), 0);
    assert_int_equal(names_read(&back, path, false, &flaws, NULL), 0);
    assert_int_equal(back.len, names.len);
    assert_true(str_equal(buf_str(&back.text), buf_str(&names.text)));
    assert_int_equal(names_write(&names, path, false, NULL), ERR_USAGE);
}

static const struct bad_dictionary {
    const char *text, *words;
    int lenient_rc;
} bad_dictionaries[] = {
    {"a\t0\nb\n", "1 line without the right number of fields: line 2, 'b'", 0},
    {"a\t0\nb\t1\tc\n", "line 2, 'b\t1\tc'", 0},
    {"a\t0\nb\tone\n",
     "1 line with an index that is no whole number, or that nothing has: line 2, 'one'", 0},
    {"a\t0\nb\t-1\n", "line 2, '-1'", 0},
    {"a\t0\nb\t4294967295\n", "line 2, '4294967295'", 0},
    {"a\t0\na\t1\n", "with a name that an earlier line gives another index: line 2", 0},
    {"a\t0\nb\t0\n", "'a' and 'b' have the same index 0", ERR_DATA},
    {"a\t0\nb\t2\n", "'b' has index 2, but 2 names have the indices 0 to 1", ERR_DATA},
    {"", "no names in it", ERR_DATA},
    {"\xff\xfe"
     "a\t0\n",
     "line 1 is not UTF-8", ERR_DATA},
};

static void a_dictionary_that_is_wrong_is_refused_with_the_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(bad_dictionaries); i++) {
        const struct bad_dictionary *bad = &bad_dictionaries[i];
        const char *path = file(bad->text);
        for (int lenient = 0; lenient < 2; lenient++) {
            cleanup_name_index struct name_index names = NAME_INDEX_INIT;
            struct flaws flaws = {0};
            struct err err = {0};
            int rc = names_read(&names, path, lenient, &flaws, &err);
            assert_int_equal(rc, lenient ? bad->lenient_rc : ERR_DATA);
            if (rc && !strstr(err.text, bad->words))
                fail_msg("expected '%s', found '%s'", bad->words, err.text);
        }
    }
}

struct graph {
    struct name_index entities, relations;
    struct triples triples;
};

static void graph_release(struct graph *graph)
{
    name_index_release(&graph->entities);
    name_index_release(&graph->relations);
    triples_release(&graph->triples);
}

static int read_again(struct graph *graph, const char *text, bool makes_names, bool is_lenient,
                      struct flaws *flaws, struct err *err)
{
    const struct triples_opts opts = {.entities = &graph->entities,
                                      .relations = &graph->relations,
                                      .makes_names = makes_names,
                                      .is_lenient = is_lenient};
    *flaws = (struct flaws){0};
    return triples_read(&graph->triples, file(text), &opts, flaws, err);
}

static void names_alone_make_dictionaries_in_the_order_of_first_sight(void **state)
{
    (void)state;
    struct graph graph = {0};
    struct flaws flaws;
    assert_int_equal(read_again(&graph,
                                "\xEF\xBB\xBF"
                                "x\tlikes\ty\r\ny\thas\tx\r\n",
                                true, false, &flaws, NULL),
                     0);
    names_are(&graph.entities, "x y ");
    names_are(&graph.relations, "likes has ");
    assert_int_equal(graph.triples.n, 2);
    assert_memory_equal(&graph.triples.at[1], (&(struct triple){1, 1, 0}), sizeof(struct triple));
    assert_int_equal(flaws.of[FLAW_MARK].count, 1);
    assert_int_equal(flaws.of[FLAW_CRLF].count, 2);
    graph_release(&graph);
}

static void every_line_that_is_lost_is_counted_and_the_first_of_a_kind_named(void **state)
{
    (void)state;
    static const char text[] =
        "x\tr\ty\nx\tr\nx r y\nz\tr\tx\nx\tq\ty\nx\tr\ty\n x\tr\ty\n\ny\tr\tx\n";
    struct graph graph = {0};
    struct flaws flaws;
    struct err err = {0};
    name_index_number(&graph.entities, STR("x"));
    name_index_number(&graph.entities, STR("y"));
    name_index_number(&graph.relations, STR("r"));
    assert_int_equal(read_again(&graph, text, false, false, &flaws, &err), ERR_DATA);
    assert_non_null(strstr(
        err.text, "2 lines without the right number of fields: the first is line 2, 'x\tr'"));
    assert_non_null(
        strstr(err.text,
               "2 lines with an entity that is not in the dictionary: the first is line 4, 'z'"));
    assert_non_null(
        strstr(err.text, "1 line with a relation that is not in the dictionary: line 5, 'q'"));
    assert_non_null(strstr(err.text, "--lenient"));
    triples_release(&graph.triples);
    assert_int_equal(read_again(&graph, text, false, true, &flaws, &err), 0);
    assert_int_equal(graph.triples.n, 3);
    assert_int_equal(flaws_count(&flaws), 5);
    assert_int_equal(flaws.of[FLAW_DUPLICATE].count, 1);
    assert_int_equal(flaws.of[FLAW_DUPLICATE].line, 6);
    cleanup_buf struct buf notes = BUF_INIT;
    flaws_format(&flaws, "t", &notes);
    assert_non_null(
        strstr(buf_text(&notes),
               "t: left out: 1 line with a relation that is not in the dictionary: line 5, 'q'\n"));
    assert_non_null(strstr(buf_text(&notes), "t: 1 line repeated from earlier (and kept): line 6"));
    assert_non_null(strstr(buf_text(&notes), "t: 1 line blank: line 8\n"));
    graph_release(&graph);
}

static void a_file_without_a_triple_is_refused(void **state)
{
    (void)state;
    struct graph graph = {0};
    struct flaws flaws;
    struct err err = {0};
    assert_int_equal(read_again(&graph, "\n", true, false, &flaws, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "no triple in it"));
    assert_int_equal(read_again(&graph, "a b c\n", true, true, &flaws, &err), ERR_DATA);
    graph_release(&graph);
}

static void lines_of_any_length_up_to_the_bound_are_read(void **state)
{
    (void)state;
    static const size_t lengths[] = {
        0, 1, 262143, 262144, 262145, LINE_BYTES_MAX, LINE_BYTES_MAX + 1};
    for (size_t i = 0; i < countof(lengths); i++) {
        cleanup_buf struct buf text = BUF_INIT;
        buf_add_text(&text, "first\n");
        for (size_t k = 0; k < lengths[i]; k++)
            buf_add_char(&text, (char)('a' + k % 26));
        buf_add_text(&text, "\nlast");
        cleanup_lines struct lines lines = LINES_INIT;
        struct str line;
        struct err err = {0};
        assert_int_equal(lines_open(&lines, scratch_file("long", buf_str(&text)), NULL), 0);
        assert_int_equal(lines_next(&lines, &line, &err), 1);
        int rc = lines_next(&lines, &line, &err);
        if (lengths[i] > LINE_BYTES_MAX) {
            assert_int_equal(rc, ERR_DATA);
            assert_non_null(strstr(err.text, "line 2: more than 1048576 bytes"));
            continue;
        }
        assert_int_equal(rc, 1);
        assert_int_equal(line.len, lengths[i]);
        assert_memory_equal(line.at, text.at + 6, line.len);
        assert_int_equal(lines_next(&lines, &line, &err), 1);
        assert_true(str_equal(line, STR("last")));
        assert_int_equal(lines_next(&lines, &line, &err), 0);
        assert_int_equal(lines.number, 3);
    }
}

static void edge_map_gives_relations_their_predicates(void **state)
{
    (void)state;
    cleanup_name_index struct name_index relations = NAME_INDEX_INIT;
    cleanup_labels struct labels labels = LABELS_INIT;
    uint64_t n_unknown;
    struct str label;
    struct err err = {0};
    name_index_number(&relations, STR("predicate:0"));
    name_index_number(&relations, STR("predicate:1"));
    static const char map[] =
        "{\"{\\\"qualifier\\\": \\\"x\\\", \\\"predicate\\\": \\\"biolink:tr\\u0065ats\\\"}\": \"predicate:1\","
        " \"no json\": \"predicate:0\", \"{\\\"predicate\\\": 3}\": \"predicate:0\","
        " \"{\\\"predicate\\\": \\\"a\\\"}\": \"predicate:9\", \"{}\": 5}";
    assert_int_equal(labels_parse_edge_map(&labels, str_of(map), &relations, &n_unknown, &err), 0);
    assert_int_equal(n_unknown, 4);
    assert_false(labels_get(&labels, 0, &label));
    assert_true(labels_get(&labels, 1, &label));
    assert_true(str_equal(label, STR("biolink:treats")));
    assert_false(labels_get(&labels, 2, &label));
    struct labels none = LABELS_INIT;
    assert_int_equal(labels_parse_edge_map(&none, STR("[]"), &relations, &n_unknown, &err),
                     ERR_DATA);
    assert_int_equal(labels_read_edge_map(&none, file("{\"a\": 1"), &relations, &n_unknown, &err),
                     ERR_DATA);
    assert_non_null(strstr(err.text, "x.tsv: expected a JSON object"));
}

static void entities_have_readable_names(void **state)
{
    (void)state;
    cleanup_labels struct labels labels = LABELS_INIT;
    struct flaws flaws = {0};
    struct str label;
    struct err err = {0};
    const char *path = file("a cat\t1\nthe cat\t1\nfar\t7\n");
    assert_int_equal(labels_read_names(&labels, path, 3, false, &flaws, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "line 3, '7'"));
    labels_release(&labels);
    assert_int_equal(labels_read_names(&labels, path, 3, true, &flaws, &err), 0);
    assert_true(labels_get(&labels, 1, &label) && str_equal(label, STR("the cat")));
    assert_false(labels_get(&labels, 0, &label));
}

/* Ends, self-loops and parallel triples of a graph, against loops over all triples. */
static void adjacency_agrees_with_a_look_at_all_triples(void **state)
{
    (void)state;
    struct rng rng = {7};
    for (size_t round = 0; round < 40; round++) {
        size_t n = 1 + rng_below(&rng, 12), n_triples = rng_below(&rng, 40);
        struct triple triples[40];
        for (size_t i = 0; i < n_triples; i++)
            triples[i] = (struct triple){(uint32_t)rng_below(&rng, n), (uint32_t)rng_below(&rng, 2),
                                         (uint32_t)rng_below(&rng, n)};
        struct adjacency graph;
        adjacency_build(&graph, triples, n_triples, n);
        for (uint32_t a = 0; a < n; a++) {
            uint64_t k = graph.begins[a];
            for (uint32_t b = 0; b < n; b++) {
                uint32_t n_between = 0;
                for (uint32_t i = 0; i < n_triples; i++) {
                    bool is_between = (triples[i].head == a && triples[i].tail == b) ||
                                      (triples[i].head == b && triples[i].tail == a);
                    if (!is_between)
                        continue;
                    assert_int_equal(graph.neighbours[k].entity, b);
                    uint32_t edge = graph.neighbours[k].edge;
                    assert_int_equal(graph.triples[graph.edge_begins[edge] + n_between++], i);
                    assert_true(graph.edge_begins[edge] + n_between <= graph.edge_begins[edge + 1]);
                }
                k += n_between > 0;
            }
            assert_int_equal(k, graph.begins[a + 1]);
        }
        adjacency_release(&graph);
    }
}

static void known_answers_are_all_and_only_the_true_ones(void **state)
{
    (void)state;
    static const struct triple triples[] = {{1, 0, 5}, {1, 0, 2}, {1, 1, 2},
                                            {1, 0, 5}, {3, 0, 2}, {0, 0, 0}};
    struct known known;
    known_build(&known, triples, countof(triples));
    assert_int_equal(known.n, 5);
    struct known_answers tails = known_tails(&known, 1, 0), heads = known_heads(&known, 0, 2);
    assert_int_equal(tails.n, 2);
    assert_int_equal(tails.at[0].tail, 2);
    assert_int_equal(tails.at[1].tail, 5);
    assert_int_equal(heads.n, 2);
    assert_int_equal(heads.at[0].head, 1);
    assert_int_equal(heads.at[1].head, 3);
    assert_int_equal(known_tails(&known, 2, 0).n, 0);
    assert_int_equal(known_heads(&known, 7, 0).n, 0);
    assert_true(known_has(&known, (struct triple){3, 0, 2}));
    assert_false(known_has(&known, (struct triple){2, 0, 3}));
    known_release(&known);
    known_build(&known, NULL, 0);
    assert_int_equal(known_tails(&known, 0, 0).n, 0);
    known_release(&known);
}

static int remove_scratch(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dictionary_may_be_in_any_order),
        cmocka_unit_test(many_names_are_found_again),
        cmocka_unit_test(a_dictionary_that_is_wrong_is_refused_with_the_line),
        cmocka_unit_test(names_alone_make_dictionaries_in_the_order_of_first_sight),
        cmocka_unit_test(every_line_that_is_lost_is_counted_and_the_first_of_a_kind_named),
        cmocka_unit_test(a_file_without_a_triple_is_refused),
        cmocka_unit_test(lines_of_any_length_up_to_the_bound_are_read),
        cmocka_unit_test(edge_map_gives_relations_their_predicates),
        cmocka_unit_test(entities_have_readable_names),
        cmocka_unit_test(adjacency_agrees_with_a_look_at_all_triples),
        cmocka_unit_test(known_answers_are_all_and_only_the_true_ones),
    };
    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
