/* SPDX-License-Identifier: Apache-2.0
 *
 * One function per verb: each merges the values of one path.
 */
#include <math.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "rule/names.h"
#include "tensor/torch/torch_merge_impl.h"

/* ---- what a user may do about it ---- */

#define KIND(name) (1U << PICKLE_##name)

enum {
    NUMBERS = KIND(INT) | KIND(FLOAT)
};

static const struct {
    const char *verb;
    unsigned kinds; /* the kinds that all values must have; 0: any */
} cures[] = {
    {"concat", KIND(TUPLE)}, {"concat", KIND(LIST)}, {"first", 0},     {"collect", 0}, {"drop", 0},
    {"max", NUMBERS},        {"max", KIND(TEXT)},    {"sum", NUMBERS},
};

static unsigned kinds_of(const struct merge_state *merge, value_ids ids)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < merge->n_parts; i++)
        kinds |= 1U << torch_merge_node(merge, i, ids)->kind;
    return kinds;
}

/*
 * Adds the path as a rule's pattern, quoted for a shell; false if no pattern fits only these keys.
 */
static bool pattern_add(struct str path, struct buf *out)
{
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.at[i];
        bool is_end = i == 0 || i + 1 == path.len; /* rules are trimmed */
        if (c < ' ' || c == 0x7f || c == '\'' || (is_end && c == ' '))
            buf_add_text(out, path.len == 1 ? "[!.]" : "?"); /* "?" fits the root */
        else if (strchr("*?[\\", c) || (i == 0 && c == '+'))
            buf_addf(out, "\\%c", c);
        else
            buf_add_char(out, (char)c);
    }
    return path.len > 0;
}

/* Adds "--rule 'PATH=first', collect or drop", or a sentence that no rule can help. */
static void cure_add(const struct merge_state *merge, unsigned kinds, struct buf *out)
{
    const char *verbs[countof(cures)];
    size_t n_verbs = 0;
    bool is_root = str_equal(buf_str(&merge->path), STR("."));
    for (size_t i = 0; i < countof(cures); i++) {
        bool fits = cures[i].kinds == 0 || (kinds & ~cures[i].kinds) == 0;
        if (fits && !(is_root && strcmp(cures[i].verb, "drop") == 0))
            verbs[n_verbs++] = cures[i].verb;
    }
    size_t before = out->len;
    buf_add_text(out, "say what becomes of it: --rule '");
    if (!pattern_add(buf_str(&merge->path), out)) {
        out->len = before;
        buf_add_text(out, "no rule can name an empty key");
        return;
    }
    for (size_t i = 0; i < n_verbs; i++)
        buf_addf(out, "%s%s%s",
                 i == 0             ? "="
                 : i + 1 == n_verbs ? " or "
                                    : ", ",
                 verbs[i], i == 0 ? "'" : "");
}

int torch_merge_same(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    for (size_t i = 1; i < merge->n_parts; i++) {
        enum sameness sameness = values_same(merge, 0, ids[0], i, ids[i]);
        if (sameness == SAME)
            continue;
        cleanup_buf struct buf cure = BUF_INIT;
        cure_add(merge, kinds_of(merge, ids), &cure);
        if (sameness == UNTOLD)
            return torch_merge_fail(merge, "in %s and in %s %s; %s",
                                    torch_merge_file_name(merge, 0),
                                    torch_merge_file_name(merge, i), UNTOLD_WHY, buf_text(&cure));
        return torch_merge_fail(merge, "differs between %s and %s; %s",
                                torch_merge_file_name(merge, 0), torch_merge_file_name(merge, i),
                                buf_text(&cure));
    }
    *out = torch_merge_node_of(merge, 0, ids[0]);
    return 0;
}

int torch_merge_merged_name(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    struct str stem = {NULL, 0};
    cleanup_buf struct buf name = BUF_INIT;
    for (size_t i = 0; i < merge->n_parts; i++) {
        const struct pickle_node *node = torch_merge_node(merge, i, ids);
        if (node->kind != PICKLE_TEXT)
            return torch_merge_fail(merge, "is no text in %s, so it names no share of anything",
                                    torch_merge_file_name(merge, i));
        struct str here = share_stem(pickle_bytes(torch_merge_graph(merge, i), node));
        if (i > 0 && !str_equal(stem, here)) {
            cleanup_buf struct buf cure = BUF_INIT;
            cure_add(merge, kinds_of(merge, ids), &cure);
            return torch_merge_fail(merge, "is not of one job in %s and %s; %s",
                                    torch_merge_file_name(merge, 0),
                                    torch_merge_file_name(merge, i), buf_text(&cure));
        }
        stem = here;
    }
    merged_name_add(stem, &name);
    *out = pickle_add_bytes(&merge->made, PICKLE_TEXT, buf_str(&name));
    return 0;
}

/* A splice is one item of the list but stands for many; this adds the others to the count. */
static void splice_count(struct merge_state *merge, pickle_id list, const struct pickle_node *item)
{
    if (item->kind != PICKLE_SPLICE)
        return;
    merge->made.nodes[list].truth = true;
    merge->made.nodes[list].count += item->count - 1;
}

int torch_merge_concat(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    enum pickle_kind kind = torch_merge_node(merge, 0, ids)->kind;
    for (size_t i = 0; i < merge->n_parts; i++) {
        enum pickle_kind other = torch_merge_node(merge, i, ids)->kind;
        if (other != kind || (kind != PICKLE_LIST && kind != PICKLE_TUPLE))
            return torch_merge_fail(merge,
                                    "is no list in %s, so it cannot be put behind the others'",
                                    torch_merge_file_name(merge, i));
    }
    *out = pickle_add(&merge->made, (struct pickle_node){.kind = (uint8_t)kind});
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct pickle_walk walk = pickle_items(torch_merge_node(merge, i, ids));
        for (pickle_id id; (id = pickle_next(torch_merge_graph(merge, i), &walk)) != 0;) {
            pickle_id of = torch_merge_node_of(merge, i, id);
            pickle_add_items(&merge->made, *out, &of, 1);
            splice_count(merge, *out, pickle_node(torch_merge_graph(merge, i), id));
        }
    }
    tally_add(merge, &merge->lists, pickle_node(&merge->made, *out)->count);
    return 0;
}

/* ---- numbers ---- */

/* A sum: a whole number while all numbers are whole, a float from the first float on. */
struct sum {
    int64_t whole;
    double real;
    bool is_real;
};

static int sum_add(struct merge_state *merge, struct sum *sum, size_t part,
                   const struct pickle_node *node)
{
    if (node->kind == PICKLE_LONG)
        return torch_merge_fail(merge, "is beyond 64 bits in %s, so it cannot be added",
                                torch_merge_file_name(merge, part));
    if (node->kind != PICKLE_INT && node->kind != PICKLE_FLOAT)
        return torch_merge_fail(merge, "is no number in %s, so it cannot be added",
                                torch_merge_file_name(merge, part));
    if (node->kind == PICKLE_FLOAT) {
        sum->is_real = true;
        sum->real += node->real;
        return 0;
    }
    sum->real += (double)node->integer;
    if (__builtin_add_overflow(sum->whole, node->integer, &sum->whole) && !sum->is_real)
        return torch_merge_fail(merge, "adds up to more than 64 bits hold");
    return 0;
}

static pickle_id sum_node(struct merge_state *merge, const struct sum *sum)
{
    return pickle_add(&merge->made,
                      sum->is_real
                          ? (struct pickle_node){.kind = PICKLE_FLOAT, .real = sum->real}
                          : (struct pickle_node){.kind = PICKLE_INT, .integer = sum->whole});
}

int torch_merge_sum(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    struct sum sum = {0};
    int rc = 0;
    for (size_t i = 0; i < merge->n_parts && rc == 0; i++)
        rc = sum_add(merge, &sum, i, torch_merge_node(merge, i, ids));
    if (rc == 0)
        *out = sum_node(merge, &sum);
    return rc;
}

/* Compares exactly: not every 64-bit integer can be a float. */
static int integer_order(int64_t integer, double real)
{
    const double beyond = -(double)INT64_MIN; /* 2^63 */
    if (real >= beyond || real < -beyond)
        return real < 0 ? 1 : -1;
    int64_t whole = (int64_t)real; /* towards 0 */
    double rest = real - (double)whole;
    if (integer != whole)
        return integer > whole ? 1 : -1;
    return (rest < 0) - (rest > 0);
}

/* Compares numbers by size and texts by their bytes. */
static int order_of(struct merge_state *merge, size_t part_a, const struct pickle_node *a,
                    size_t part_b, const struct pickle_node *b, int *order)
{
    if (a->kind == PICKLE_TEXT && b->kind == PICKLE_TEXT) {
        struct str left = pickle_bytes(torch_merge_graph(merge, part_a), a);
        struct str right = pickle_bytes(torch_merge_graph(merge, part_b), b);
        *order = str_compare(left, right);
        return 0;
    }
    bool is_int = a->kind == PICKLE_INT && b->kind == PICKLE_INT;
    bool is_real = (a->kind == PICKLE_INT || a->kind == PICKLE_FLOAT) &&
                   (b->kind == PICKLE_INT || b->kind == PICKLE_FLOAT);
    if (a->kind == PICKLE_LONG || b->kind == PICKLE_LONG)
        return torch_merge_fail(merge,
                                "is beyond 64 bits in some file, so none is taken as greatest");
    if (!is_real)
        return torch_merge_fail(merge,
                                "is neither a number nor a text in all files, so none is greatest");
    if ((a->kind == PICKLE_FLOAT && isnan(a->real)) || (b->kind == PICKLE_FLOAT && isnan(b->real)))
        return torch_merge_fail(merge, "is NaN in some file, which is neither greater nor less");
    if (is_int || (a->kind == PICKLE_FLOAT && b->kind == PICKLE_FLOAT))
        *order = is_int ? (a->integer > b->integer) - (a->integer < b->integer)
                        : (a->real > b->real) - (a->real < b->real);
    else
        *order = a->kind == PICKLE_INT ? integer_order(a->integer, b->real)
                                       : -integer_order(b->integer, a->real);
    return 0;
}

int torch_merge_max(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    size_t greatest = 0;
    int rc = 0, order = 0;
    /* Begins at 0, so that a value of another kind is found even where there is a single file. */
    for (size_t i = 0; i < merge->n_parts && rc == 0; i++) {
        rc = order_of(merge, i, torch_merge_node(merge, i, ids), greatest,
                      torch_merge_node(merge, greatest, ids), &order);
        if (order > 0)
            greatest = i;
    }
    if (rc == 0)
        *out = torch_merge_node_of(merge, greatest, ids[greatest]);
    return rc;
}

/* ---- counters ---- */

/* The sum of one key. The value of the current part is added when the next part begins, because the
 * part may set the key again. */
struct counter {
    struct sum sum;
    uint32_t part;
    pickle_id value; /* 0: added */
};

struct counters {
    struct merge_state *merge;
    struct torch_key_index keys;
    struct counter *at; /* by key */
    size_t cap;
};

static int counter_settle(struct merge_state *merge, struct counter *counter)
{
    pickle_id value = counter->value;
    const struct pickle *graph = torch_merge_graph(merge, counter->part);
    counter->value = 0;
    return value ? sum_add(merge, &counter->sum, counter->part, pickle_node(graph, value)) : 0;
}

/*
 * Records the value that a part has for a key. If the part sets the key again, the last value
 * counts.
 */
static int counter_add(struct counters *c, uint32_t part, pickle_id key, pickle_id value)
{
    size_t n_known = c->keys.n_entries;
    uint32_t number = torch_key_index_add(&c->keys, (struct node_ref){part, key});
    if (number >= c->cap) {
        c->cap = MAX(c->cap + c->cap / 2, (size_t)16);
        c->at = xrealloc(c->at, c->cap * sizeof(*c->at));
    }
    struct counter *counter = &c->at[number];
    if (number == n_known)
        *counter = (struct counter){.part = part};
    bool is_again = counter->value && counter->part == part;
    if (is_again && torch_key_index_is_opaque(&c->keys, number))
        return keys_untold(c->merge, part);
    int rc = is_again ? 0 : counter_settle(c->merge, counter);
    counter->part = part;
    counter->value = value;
    return rc;
}

static int counters_add(struct counters *c, uint32_t part, pickle_id id)
{
    const struct pickle *graph = torch_merge_graph(c->merge, part);
    const struct pickle_node *pairs = dict_pairs(graph, id);
    if (!pairs)
        return torch_merge_fail(c->merge, "is no dictionary in %s",
                                torch_merge_file_name(c->merge, part));
    struct pickle_walk walk = pickle_items(pairs);
    int rc = 0;
    for (pickle_id key; rc == 0 && (key = pickle_next(graph, &walk)) != 0;)
        rc = counter_add(c, part, key, pickle_next(graph, &walk));
    return rc;
}

/* Makes a dictionary of the sums, of the same class as the first file's. */
static pickle_id counters_node(const struct counters *c, value_ids ids)
{
    struct merge_state *merge = c->merge;
    pickle_id dict = pickle_add(&merge->made, (struct pickle_node){.kind = PICKLE_DICT});
    for (size_t i = 0; i < c->keys.n_entries; i++) {
        struct node_ref key = c->keys.entries[i].ref;
        pickle_id pair[2] = {torch_merge_node_of(merge, key.part, key.id),
                             sum_node(merge, &c->at[i].sum)};
        pickle_add_items(&merge->made, dict, pair, 2);
    }
    const struct pickle_node *first = torch_merge_node(merge, 0, ids);
    if (first->kind == PICKLE_DICT)
        return dict;
    if (pickle_node(torch_merge_graph(merge, 0), first->call.args)->count > 0) /* a Counter */
        return torch_merge_call_like(merge, first, torch_merge_tuple(merge, &dict, 1));
    pickle_id call = torch_merge_call_like(merge, first, torch_merge_tuple(merge, NULL, 0));
    struct pickle_node pairs = *pickle_node(&merge->made, dict);
    pickle_add_later(&merge->made, call)->pairs = pairs;
    return call;
}

enum {
    STOP_EVERY = 1024 /* counts */
};

int torch_merge_sum_by_key(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    struct counters counters = {.merge = merge};
    int rc = 0;
    torch_key_index_init(&counters.keys, &merge->pool);
    for (size_t i = 0; i < merge->n_parts && rc == 0; i++)
        if ((rc = stop_check(merge->opts->stop, merge->err)) == 0)
            rc = counters_add(&counters, (uint32_t)i, ids[i]);
    for (size_t i = 0; i < counters.keys.n_entries && rc == 0; i++)
        if (i % STOP_EVERY > 0 || (rc = stop_check(merge->opts->stop, merge->err)) == 0)
            rc = counter_settle(merge, &counters.at[i]);
    *merge->met_splice |= merge->pool.met_splice;
    if (rc == 0)
        *out = counters_node(&counters, ids);
    torch_key_index_release(&counters.keys);
    free(counters.at);
    return rc;
}
