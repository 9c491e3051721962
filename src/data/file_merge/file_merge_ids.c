/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that each id occurs once, with 16 bytes per id: a hash, and where in the files the id is.
 * Two ids with one hash are read again, so that a collision is never taken for a duplicate.
 *
 * A slot of the table is hardly ever in the cache. So ids are added in batches whose slots are
 * prefetched, and the table is on large pages where the system has them. Two million ids took 0.6 s
 * one by one on small pages, and less than 0.1 s with batches and large pages (2 cores, Xeon).
 */
#include <sys/mman.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_identity.h"
#include "base/xalloc.h"
#include "data/file_merge/file_merge_impl.h"

enum {
    SLOTS_MIN = 1 << 16,
    SLOTS_EXPECTED_MAX = 1 << 22, /* 64 MiB at most are allocated on the basis of an estimate */
    WAITING_MAX = 32,
    LARGE_PAGE_BYTES = 2 << 20,
    ID_BYTES = 512 /* first read; more if the id is longer */
};

struct id_slot {
    uint64_t hash;
    uint64_t place; /* 1 + begins of the file + offset of the id's text; 0: free */
};

struct id_table {
    uint64_t hash_mask;
    struct id_slot *slots; /* a power of two of them, at most three quarters in use */
    size_t n_slots, n_ids;
    struct id_slot waiting[WAITING_MAX];
    size_t n_waiting;
    struct buf value, other; /* scratch */
};

static struct id_slot *slots_new(size_t n_slots)
{
    size_t bytes = n_slots * sizeof(struct id_slot);
    if (bytes < LARGE_PAGE_BYTES)
        return xcalloc(n_slots, sizeof(struct id_slot));
    cleanup_free void *at = NULL;
    if (posix_memalign(&at, LARGE_PAGE_BYTES, bytes) != 0)
        return xcalloc(n_slots, sizeof(struct id_slot));
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    memset(at, 0, bytes);
    return steal_ptr(&at);
}

struct id_table *id_table_new(uint64_t hash_mask)
{
    struct id_table *table = xcalloc(1, sizeof(*table));
    table->hash_mask = hash_mask;
    table->n_slots = SLOTS_MIN;
    table->slots = slots_new(table->n_slots);
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

static void table_grow(struct id_table *table, size_t n_slots)
{
    struct id_slot *slots = slots_new(n_slots);
    for (size_t i = 0; i < table->n_slots; i++)
        if (table->slots[i].place)
            slot_put(slots, n_slots, table->slots[i]);
    free(table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
}

void id_table_expect(struct id_table *table, uint64_t n_ids)
{
    size_t n_slots = table->n_slots;
    while (n_slots < SLOTS_EXPECTED_MAX && n_ids / 3 > n_slots / 4)
        n_slots *= 2;
    if (table->n_ids == 0 && n_slots > table->n_slots)
        table_grow(table, n_slots);
}

/* ---- what an id stands for ---- */

/*
 * Adds the value of the field that `text` begins with, and returns the field's length with its
 * quotes; 0 if the field is cut off.
 */
static size_t field_decode(struct str text, char separator, struct buf *out)
{
    size_t i = 0;
    if (text.len == 0 || text.at[0] != '"') {
        const char ends[] = {separator, '\n', '\r'};
        while (i < text.len && !memchr(ends, text.at[i], sizeof(ends)))
            i++;
        buf_add(out, text.at, i);
        return i;
    }
    for (i = 1; i < text.len; i++) {
        if (text.at[i] == '"' && (++i == text.len || text.at[i] != '"'))
            return i;
        buf_add_char(out, text.at[i]);
    }
    return 0;
}

/*
 * Adds the value of the id whose text begins at raw.at, in a form for comparisons: a letter for its
 * kind, since "1" and 1 differ, then the decoded text or number. Returns the length of the id's
 * text; 0 if the id is neither text nor number.
 */
static size_t value_decode(const struct file_merge_input *file, struct str raw, struct buf *out)
{
    buf_reset(out);
    if (file->separator) {
        buf_add_char(out, 's');
        size_t len = field_decode(raw, file->separator, out);
        return out->len > 1 ? len : 0;
    }
    size_t begin, len = json_value(raw, &begin);
    struct str value = {raw.at + begin, len};
    enum json_kind kind = json_kind_of(value);
    buf_add_char(out, kind == JSON_STRING ? 's' : 'n');
    if (kind == JSON_STRING)
        return json_to_wide_text(value, out) ? begin + len : 0;
    return buf_add_number_identity(out, value) ? begin + len : 0;
}

static struct file_merge_input *file_of(struct file_merge *merge, uint64_t place)
{
    size_t low = 0, high = merge->n_files;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (merge->files[middle].begins <= place)
            low = middle;
        else
            high = middle;
    }
    return &merge->files[low];
}

/* Reads the id at a place again: its text as it is written, and its value. */
static int place_read(struct file_merge *merge, uint64_t place, struct buf *raw, struct buf *value,
                      struct err *err)
{
    struct file_merge_input *file = file_of(merge, place);
    uint64_t offset = place - file->begins, left = file->head.input.text_bytes - offset;
    for (size_t want = ID_BYTES;; want *= 8) {
        size_t len = (size_t)MIN(left, (uint64_t)want);
        buf_reset(raw);
        buf_reserve(raw, len);
        int rc = input_read(&file->head.input, offset, raw->at, len, err);
        if (rc)
            return rc;
        raw->len = value_decode(file, (struct str){raw->at, len}, value);
        if ((raw->len > 0 && raw->len < len) || len == left)
            return 0; /* an id that ends with the piece may be cut off */
    }
}

/* ---- the table ---- */

static int twice(struct file_merge *merge, uint64_t place, uint64_t before, struct str raw,
                 struct err *err)
{
    cleanup_buf struct buf other = BUF_INIT;
    struct file_merge_input *file = file_of(merge, place), *first = file_of(merge, before);
    file_merge_place(first, before - first->begins, &other);
    return file_merge_fail(file, place - file->begins, err, "its '%s' is %.*s, as that of %s",
                           merge->opts->id_field, (int)MIN(raw.len, (size_t)80), raw.at,
                           buf_text(&other));
}

/* Compares two ids that have one hash; ERR_DATA if they are the same. */
static int pair_look(struct file_merge *merge, uint64_t place, uint64_t before, struct err *err)
{
    struct id_table *table = merge->ids;
    cleanup_buf struct buf raw = BUF_INIT, other_raw = BUF_INIT;
    int rc = place_read(merge, place, &raw, &table->value, err);
    if (rc == 0)
        rc = place_read(merge, before, &other_raw, &table->other, err);
    if (rc || !str_equal(buf_str(&table->value), buf_str(&table->other)))
        return rc;
    return twice(merge, place, before, buf_str(&raw), err);
}

static int slot_add(struct file_merge *merge, struct id_slot slot, struct err *err)
{
    struct id_table *table = merge->ids;
    size_t i = slot.hash & (table->n_slots - 1);
    for (; table->slots[i].place; i = (i + 1) & (table->n_slots - 1)) {
        if (table->slots[i].hash != slot.hash)
            continue;
        int rc = pair_look(merge, slot.place - 1, table->slots[i].place - 1, err);
        if (rc)
            return rc;
    }
    table->slots[i] = slot;
    if (++table->n_ids * 4 > table->n_slots * 3)
        table_grow(table, table->n_slots * 2);
    return 0;
}

int ids_settle(struct file_merge *merge, struct err *err)
{
    struct id_table *table = merge->ids;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < table->n_waiting; i++)
        rc = slot_add(merge, table->waiting[i], err);
    table->n_waiting = 0;
    return rc;
}

static int no_id(const struct file_merge *merge, struct file_merge_input *file, struct str raw,
                 uint64_t offset, struct err *err)
{
    const char *field = merge->opts->id_field;
    if (file->separator)
        return file_merge_fail(file, offset, err, "its '%s' is empty", field);
    return file_merge_fail(file, offset, err, "its '%s' is no text and no number: %.*s", field,
                           (int)MIN(raw.len, (size_t)80), raw.at);
}

int id_add(struct file_merge *merge, struct file_merge_input *file, struct str raw, uint64_t offset,
           struct err *err)
{
    struct id_table *table = merge->ids;
    if (value_decode(file, raw, &table->value) == 0)
        return no_id(merge, file, raw, offset, err);
    uint64_t hash = XXH3_64bits(table->value.at, table->value.len) & table->hash_mask;
    __builtin_prefetch(&table->slots[hash & (table->n_slots - 1)], 1);
    table->waiting[table->n_waiting++] = (struct id_slot){hash, file->begins + offset + 1};
    return table->n_waiting == WAITING_MAX ? ids_settle(merge, err) : 0;
}
