/* SPDX-License-Identifier: Apache-2.0
 *
 * Each id once, in 16 bytes an id: a hash, and where the id is written. Two ids with one hash are read
 * again, so that a collision is never taken for a duplicate.
 */
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "data/join_impl.h"

enum {
    SLOTS_MIN = 1 << 16
};

struct id_slot {
    uint64_t hash;
    uint64_t place; /* of the id's text if the files stood one behind the other, plus 1; 0: free */
};

struct id_table {
    uint64_t hash_mask;
    struct id_slot *slots; /* a power of two of them, at most three quarters in use */
    size_t n_slots, n_ids;
    struct buf value, other; /* scratch */
};

struct id_table *id_table_new(uint64_t hash_mask)
{
    struct id_table *table = xcalloc(1, sizeof(*table));
    table->hash_mask = hash_mask;
    table->n_slots = SLOTS_MIN;
    table->slots = xcalloc(table->n_slots, sizeof(*table->slots));
    return table;
}

void id_table_free(struct id_table *table)
{
    if (!table)
        return;
    buf_release(&table->value);
    buf_release(&table->other);
    free(table->slots);
    free(table);
}

static void slot_put(struct id_slot *slots, size_t n_slots, struct id_slot slot)
{
    size_t i = slot.hash & (n_slots - 1);
    while (slots[i].place)
        i = (i + 1) & (n_slots - 1);
    slots[i] = slot;
}

static void table_grow(struct id_table *table)
{
    size_t n_slots = table->n_slots * 2;
    struct id_slot *slots = xcalloc(n_slots, sizeof(*slots));
    for (size_t i = 0; i < table->n_slots; i++)
        if (table->slots[i].place)
            slot_put(slots, n_slots, table->slots[i]);
    free(table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
}

/* The field that begins at text, without its quotes. */
static bool field_decode(struct str text, char separator, struct buf *out)
{
    if (text.len == 0 || text.at[0] != '"') {
        size_t len = 0;
        while (len < text.len && text.at[len] != separator && text.at[len] != '\n' &&
               text.at[len] != '\r')
            len++;
        buf_add(out, text.at, len);
        return true;
    }
    for (size_t i = 1; i < text.len; i++) {
        if (text.at[i] == '"' && (i + 1 == text.len || text.at[++i] != '"'))
            return true;
        buf_add_char(out, text.at[i]);
    }
    return false;
}

/*
 * The value of an id whose text begins at raw.at: with JSON a letter for its kind, since "1" and 1
 * differ, then what it stands for. False if it is neither text nor number.
 */
static bool value_decode(const struct join_file *file, struct str raw, struct buf *out)
{
    buf_reset(out);
    if (file->separator)
        return field_decode(raw, file->separator, out) && out->len > 0;
    size_t begin, len = json_value(raw, &begin);
    struct str value = {raw.at + begin, len};
    enum json_kind kind = json_kind_of(value);
    buf_add_char(out, kind == JSON_STRING ? 's' : 'n');
    if (kind == JSON_STRING)
        return json_to_text(value, out);
    buf_add_str(out, value);
    return kind == JSON_NUMBER;
}

static struct join_file *file_of(struct join *join, uint64_t place)
{
    size_t low = 0, high = join->n_files;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (join->files[middle].begins <= place)
            low = middle;
        else
            high = middle;
    }
    return &join->files[low];
}

/* Does what is written at `place` stand for table->value too? It is at most six times as long. */
static int is_same(struct join *join, uint64_t place, bool *out, struct err *err)
{
    struct id_table *table = join->ids;
    struct join_file *file = file_of(join, place);
    uint64_t offset = place - file->begins, left = file->head.input.text_bytes - offset;
    size_t len = (size_t)MIN(left, (uint64_t)table->value.len * 6 + 3);
    cleanup_buf struct buf text = BUF_INIT;
    buf_reserve(&text, len);
    int rc = input_read(&file->head.input, offset, text.at, len, err);
    *out = rc == 0 && value_decode(file, (struct str){text.at, len}, &table->other) &&
           str_equal(buf_str(&table->value), buf_str(&table->other));
    return rc;
}

static int twice(struct join *join, struct join_file *file, uint64_t offset, uint64_t place,
                 struct str raw, struct err *err)
{
    cleanup_buf struct buf before = BUF_INIT;
    struct join_file *other = file_of(join, place);
    join_place(join, other, place - other->begins, &before);
    return join_fail(join, file, offset, err, "its '%s' is %.*s, as that of %s",
                     join->opts->id_field, (int)MIN(raw.len, (size_t)80), raw.at,
                     buf_text(&before));
}

int id_add(struct join *join, struct join_file *file, struct str raw, uint64_t offset,
           struct err *err)
{
    struct id_table *table = join->ids;
    if (!value_decode(file, raw, &table->value))
        return join_fail(
            join, file, offset, err,
            file->separator ? "its '%s' is empty%.*s" : "its '%s' is no text and no number: %.*s",
            join->opts->id_field, (int)MIN(raw.len, (size_t)(file->separator ? 0 : 80)), raw.at);
    uint64_t hash = XXH3_64bits(table->value.at, table->value.len) & table->hash_mask;
    size_t i = hash & (table->n_slots - 1);
    for (; table->slots[i].place; i = (i + 1) & (table->n_slots - 1)) {
        bool is_duplicate = false;
        if (table->slots[i].hash != hash)
            continue;
        int rc = is_same(join, table->slots[i].place - 1, &is_duplicate, err);
        if (rc)
            return rc;
        if (is_duplicate)
            return twice(join, file, offset, table->slots[i].place - 1, raw, err);
    }
    table->slots[i] = (struct id_slot){hash, file->begins + offset + 1};
    if (++table->n_ids * 4 > table->n_slots * 3)
        table_grow(table);
    return 0;
}
