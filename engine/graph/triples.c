/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/triples.h"

#include <stdlib.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "graph/lines.h"

enum {
    CAP_MIN = 1024
};

void triples_release(struct triples *triples)
{
    free(triples->at);
    *triples = (struct triples){0};
}

void triples_add(struct triples *triples, struct triple triple)
{
    if (triples->n == triples->cap) {
        triples->cap = triples->cap > 0 ? triples->cap * 2 : CAP_MIN;
        triples->at = xrealloc(triples->at, triples->cap * sizeof(*triples->at));
    }
    ASSERT(triples->n < UINT32_MAX); /* training triples are numbered by 32 bits */
    triples->at[triples->n++] = triple;
}

static int by_indices(const void *a, const void *b)
{
    const struct triple *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    if (x->relation != y->relation)
        return x->relation < y->relation ? -1 : 1;
    return (x->tail > y->tail) - (x->tail < y->tail);
}

void triples_sort_unique(struct triples *triples)
{
    size_t n_kept = 0;
    if (triples->n > 0)
        qsort(triples->at, triples->n, sizeof(*triples->at), by_indices);
    for (size_t i = 0; i < triples->n; i++)
        if (n_kept == 0 || by_indices(&triples->at[n_kept - 1], &triples->at[i]) != 0)
            triples->at[n_kept++] = triples->at[i];
    triples->n = n_kept;
}

uint64_t triples_hash(const struct triples *triples)
{
    uint64_t hash = triples->n;
    for (size_t i = 0; i < triples->n; i++)
        hash = item_seed(hash ^ (uint64_t)triples->at[i].head << 32 ^ triples->at[i].tail,
                         triples->at[i].relation);
    return hash;
}

/* The set of triples read from this file: a hash table with open addressing. */
struct seen {
    uint32_t *slots; /* place + 1; 0: free */
    size_t n_slots, begin;
};

static size_t triple_slot(const struct seen *seen, const struct triple *at, struct triple triple)
{
    size_t mask = seen->n_slots - 1;
    uint64_t hash = mix64(mix64((uint64_t)triple.head << 32 | triple.tail) + triple.relation);
    size_t slot = (size_t)hash & mask;
    while (seen->slots[slot] != 0) {
        const struct triple *other = &at[seen->slots[slot] - 1];
        if (other->head == triple.head && other->relation == triple.relation &&
            other->tail == triple.tail)
            break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static void seen_grow(struct seen *seen, const struct triples *triples)
{
    if (seen->n_slots > 2 * (triples->n - seen->begin))
        return;
    seen->n_slots = seen->n_slots > 0 ? seen->n_slots * 4 : (size_t)4 * CAP_MIN;
    free(seen->slots);
    seen->slots = xcalloc(seen->n_slots, sizeof(*seen->slots));
    for (size_t i = seen->begin; i < triples->n; i++) {
        size_t slot = triple_slot(seen, triples->at, triples->at[i]);
        if (seen->slots[slot] == 0)
            seen->slots[slot] = (uint32_t)i + 1;
    }
}

/* Adds the last of `triples` to the set; false if the set had an equal one. */
static bool seen_add(struct seen *seen, const struct triples *triples)
{
    seen_grow(seen, triples);
    size_t slot = triple_slot(seen, triples->at, triples->at[triples->n - 1]);
    if (seen->slots[slot] == 0)
        seen->slots[slot] = (uint32_t)triples->n;
    return seen->slots[slot] == triples->n;
}

static bool name_resolve(struct name_index *names, bool makes_names, struct str name,
                         uint32_t *index)
{
    size_t number = makes_names ? name_index_number(names, name) : name_index_find(names, name);
    *index = (uint32_t)number;
    return number != NAME_NONE;
}

/* Parses a line; if it has no triple, returns false and adds a flaw. */
static bool line_parse(struct str line, uint64_t number, const struct triples_opts *opts,
                       struct flaws *flaws, struct triple *triple)
{
    struct str fields[FIELDS_MAX];
    if (line.len == 0) {
        flaw_add(flaws, FLAW_BLANK, number, line);
        return false;
    }
    if (line_fields(line, fields) != 3) {
        flaw_add(flaws, FLAW_FIELDS, number, line);
        return false;
    }
    const struct {
        struct name_index *names;
        uint32_t *index;
        enum flaw flaw;
    } places[] = {{opts->entities, &triple->head, FLAW_ENTITY},
                  {opts->relations, &triple->relation, FLAW_RELATION},
                  {opts->entities, &triple->tail, FLAW_ENTITY}};
    for (size_t i = 0; i < countof(places); i++) {
        if (!name_resolve(places[i].names, opts->makes_names, fields[i], places[i].index)) {
            flaw_add(flaws, places[i].flaw, number, fields[i]);
            return false;
        }
    }
    return true;
}

static int file_parse(struct triples *triples, struct lines *lines, const struct triples_opts *opts,
                      struct flaws *flaws, struct err *err)
{
    struct seen seen = {.begin = triples->n};
    struct str line;
    struct triple triple;
    int rc;
    while ((rc = lines_next(lines, &line, err)) > 0) {
        if (!line_parse(line, lines->number, opts, flaws, &triple))
            continue;
        triples_add(triples, triple);
        if (!seen_add(&seen, triples))
            flaw_add(flaws, FLAW_DUPLICATE, lines->number, line);
    }
    free(seen.slots);
    return rc;
}

int triples_read(struct triples *triples, const char *path, const struct triples_opts *opts,
                 struct flaws *flaws, struct err *err)
{
    cleanup_lines struct lines lines = LINES_INIT;
    size_t before = triples->n;
    int rc = lines_open(&lines, path, err);
    if (rc == 0)
        rc = file_parse(triples, &lines, opts, flaws, err);
    if (rc)
        return rc;
    lines_notes(&lines, flaws);
    rc = flaws_check(flaws, path, opts->is_lenient, err);
    if (rc == 0 && triples->n == before)
        return fail(
            err, ERR_DATA,
            "%s: no triple in it: expected lines of head, relation and tail, separated by tabs",
            path);
    return rc;
}
