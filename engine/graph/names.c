/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/names.h"

#include <xxhash.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/lines.h"

enum {
    SLOTS_MIN = 64
};

void names_release(struct names *names)
{
    buf_release(&names->text);
    free(names->ends);
    free(names->hashes);
    free(names->slots);
    *names = (struct names)NAMES_INIT;
}

struct str names_at(const struct names *names, size_t index)
{
    ASSERT(index < names->n);
    uint64_t begin = index > 0 ? names->ends[index - 1] : 0;
    return (struct str){buf_text(&names->text) + begin, (size_t)(names->ends[index] - begin)};
}

static uint32_t name_hash(struct str name)
{
    return (uint32_t)XXH3_64bits(name.at, name.len);
}

/* The slot that holds the name, or the free one where it belongs. */
static size_t slot_of(const struct names *names, struct str name, uint32_t hash)
{
    size_t mask = names->n_slots - 1, slot = hash & mask;
    for (;; slot = (slot + 1) & mask) {
        uint32_t index = names->slots[slot];
        if (index == NO_NAME ||
            (names->hashes[index] == hash && str_equal(names_at(names, index), name)))
            return slot;
    }
}

/* Never more than half full. */
static void slots_grow(struct names *names)
{
    if (names->n_slots > 0 && names->n * 2 < names->n_slots)
        return;
    names->n_slots = names->n_slots > 0 ? names->n_slots * 2 : SLOTS_MIN;
    names->slots = xrealloc(names->slots, names->n_slots * sizeof(*names->slots));
    memset(names->slots, 0xff, names->n_slots * sizeof(*names->slots));
    for (size_t i = 0; i < names->n; i++) {
        size_t mask = names->n_slots - 1, slot = names->hashes[i] & mask;
        while (names->slots[slot] != NO_NAME)
            slot = (slot + 1) & mask;
        names->slots[slot] = (uint32_t)i;
    }
}

uint32_t names_find(const struct names *names, struct str name)
{
    return names->n_slots > 0 ? names->slots[slot_of(names, name, name_hash(name))] : NO_NAME;
}

uint32_t names_add(struct names *names, struct str name)
{
    slots_grow(names);
    uint32_t hash = name_hash(name);
    size_t slot = slot_of(names, name, hash);
    if (names->slots[slot] != NO_NAME)
        return names->slots[slot];
    ASSERT(names->n < NO_NAME);
    if (names->n == names->cap) {
        names->cap = names->cap > 0 ? names->cap * 2 : SLOTS_MIN;
        names->ends = xrealloc(names->ends, names->cap * sizeof(*names->ends));
        names->hashes = xrealloc(names->hashes, names->cap * sizeof(*names->hashes));
    }
    buf_add_str(&names->text, name);
    names->ends[names->n] = names->text.len;
    names->hashes[names->n] = hash;
    names->slots[slot] = (uint32_t)names->n;
    return (uint32_t)names->n++;
}

/* ---- files ---- */

/* A dictionary as it stands in its file: names in the order of the lines, and the index of each. */
struct draft {
    struct names names;
    uint32_t *indices;
    size_t cap;
};

static void draft_add(struct draft *draft, struct str name, uint32_t index)
{
    uint32_t at = names_add(&draft->names, name);
    if (at == draft->cap) {
        draft->cap = draft->cap > 0 ? draft->cap * 2 : SLOTS_MIN;
        draft->indices = xrealloc(draft->indices, draft->cap * sizeof(*draft->indices));
    }
    draft->indices[at] = index;
}

static void draft_line(struct draft *draft, struct str line, uint64_t number, struct flaws *flaws)
{
    struct str fields[FIELDS_MAX];
    uint64_t index;
    size_t n_fields = line_fields(line, fields);
    if (line.len == 0) {
        flaw_add(flaws, FLAW_BLANK, number, line);
    } else if (n_fields != 2) {
        flaw_add(flaws, FLAW_FIELDS, number, line);
    } else if (u64_parse(fields[1], 0, NO_NAME - 1, &index, NULL) != 0) {
        flaw_add(flaws, FLAW_INDEX, number, fields[1]);
    } else {
        uint32_t known = names_find(&draft->names, fields[0]);
        if (known == NO_NAME)
            draft_add(draft, fields[0], (uint32_t)index);
        else if (draft->indices[known] == index)
            flaw_add(flaws, FLAW_DUPLICATE, number, line);
        else
            flaw_add(flaws, FLAW_REPEATED_NAME, number, line);
    }
}

static int draft_read(struct draft *draft, const char *path, struct flaws *flaws, struct err *err)
{
    cleanup_lines struct lines lines = LINES_INIT;
    struct str line;
    int rc = lines_open(&lines, path, err);
    while (rc == 0 && (rc = lines_next(&lines, &line, err)) > 0) {
        draft_line(draft, line, lines.number, flaws);
        rc = 0;
    }
    lines_notes(&lines, flaws);
    return rc;
}

/* The indices are 0 … n-1, each once; *order[i] is then the place of index i in the file. */
static int draft_order(const struct draft *draft, const char *path, uint32_t *order,
                       struct err *err)
{
    size_t n = draft->names.n;
    memset(order, 0xff, n * sizeof(*order));
    for (size_t i = 0; i < n; i++) {
        uint32_t index = draft->indices[i];
        struct str name = names_at(&draft->names, i);
        if (index >= n)
            return fail(
                err, ERR_DATA,
                "%s: '%.*s' has index %u, but %zu names have the indices 0 to %zu: names are "
                "missing, or were left out",
                path, (int)MIN(name.len, 80u), name.at, index, n, n - 1);
        if (order[index] != NO_NAME) {
            struct str other = names_at(&draft->names, order[index]);
            return fail(err, ERR_DATA, "%s: '%.*s' and '%.*s' have the same index %u", path,
                        (int)MIN(other.len, 80u), other.at, (int)MIN(name.len, 80u), name.at,
                        index);
        }
        order[index] = (uint32_t)i;
    }
    return 0;
}

static int draft_settle(const struct draft *draft, const char *path, struct names *names,
                        struct err *err)
{
    size_t n = draft->names.n;
    if (n == 0)
        return fail(err, ERR_DATA, "%s: no names in it", path);
    cleanup_free uint32_t *order = xmalloc(n * sizeof(*order));
    int rc = draft_order(draft, path, order, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        names_add(names, names_at(&draft->names, order[i]));
    return rc;
}

int names_read(struct names *names, const char *path, bool is_lenient, struct flaws *flaws,
               struct err *err)
{
    struct draft draft = {.names = NAMES_INIT};
    int rc = draft_read(&draft, path, flaws, err);
    if (rc == 0)
        rc = flaws_check(flaws, path, is_lenient, err);
    if (rc == 0)
        rc = draft_settle(&draft, path, names, err);
    names_release(&draft.names);
    free(draft.indices);
    return rc;
}

int names_write(const struct names *names, const char *path, bool overwrite, struct err *err)
{
    struct outfile file = OUTFILE_INIT;
    int rc = outfile_open(&file, path, overwrite, err);
    for (size_t i = 0; rc == 0 && i < names->n; i++) {
        buf_add_str(&file.pending, names_at(names, i));
        buf_addf(&file.pending, "\t%zu\n", i);
        rc = outfile_pump(&file, err);
    }
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}
