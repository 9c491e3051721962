/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads items by their numbers, with cursors that go through the files. The item at a cursor needs
 * no search. For any other item the cursor that was idle longest is moved to the nearest known
 * position before the item, and walks from there. Known positions are those of the index, and those
 * that a cursor left when it was moved.
 */
#include "base/json_rough.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "data/source_impl.h"

enum {
    LOAD_BYTES = 64 * 1024 /* read at a time; a record may need more */
};

static size_t file_of_item(const struct source *source, uint64_t item)
{
    size_t low = 0, high = MIN(source->scan_file + 1, source->n_files);
    while (high - low > 1) { /* the last file that begins at or before the item */
        size_t middle = low + (high - low) / 2;
        if (source->files[middle].first_item <= item)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/*
 * Reads until the window has `want` bytes from the cursor's offset on, or all bytes that are
 * available.
 */
static int cursor_load(struct source *source, struct cursor *c, size_t want, struct err *err)
{
    struct input *input = &source->files[c->file].input;
    ASSERT(c->base <= c->offset);
    size_t skip = (size_t)MIN(c->offset - c->base, (uint64_t)c->len);
    size_t have = c->len - skip;
    if (have >= want || c->base + c->len == input->text_bytes)
        return 0;
    size_t cap = MAX(want, MIN((size_t)LOAD_BYTES, source->window_bytes));
    if (have > 0)
        memmove(c->at, c->at + skip, have);
    /* The memory of a long record's window is freed once it is no longer needed. */
    if (cap > c->cap || (c->cap > 4 * (size_t)WINDOW_BYTES && cap < c->cap / 4)) {
        cap = MAX(cap, have);
        c->at = xrealloc(c->at, cap);
        c->cap = cap;
    }
    c->base = c->offset;
    c->len = have;
    size_t more = (size_t)MIN(cap - MIN(cap, have), input->text_bytes - c->base - have);
    int rc = input_read(input, c->base + have, c->at + have, more, err);
    if (rc == 0)
        c->len += more;
    return rc;
}

static const char *cursor_text(const struct cursor *c)
{
    return c->at + (c->offset - c->base);
}

/* Scans at most `look` bytes of the window. False if no record ends there. */
static bool cursor_look(const struct source *source, const struct cursor *c, struct find *find,
                        size_t look, bool is_all, bool *is_flawed)
{
    struct boundary_scan scan = boundary_scan_begin(source->format);
    find->has_end = true;
    find->tally = (struct boundary_tally){.ends_max = find->ends_max};
    (is_all ? boundary_scan_all : boundary_scan_blocks)(&scan, cursor_text(c), look, &find->tally);
    *is_flawed = scan.flaws != 0;
    return find->tally.n_ends > 0;
}

/*
 * A flaw hides the record ends before it in its block, and the cursor decides where blocks begin.
 * With --limit the caller may need only the records before the flaw, so this looks for them in the
 * longest text that is without the flaw.
 */
static bool cursor_look_before_flaw(const struct source *source, const struct cursor *c,
                                    struct find *find, size_t look)
{
    size_t well = 0;
    bool is_flawed;
    while (look - well > 1) {
        size_t middle = well + (look - well) / 2;
        cursor_look(source, c, find, middle, true, &is_flawed);
        *(is_flawed ? &look : &well) = middle;
    }
    return well > 0 && cursor_look(source, c, find, well, true, &is_flawed);
}

int cursor_find(struct source *source, struct cursor *c, struct find *find, struct err *err)
{
    const struct input *input = &source->files[c->file].input;
    size_t bytes_max = MAX(find->bytes_max, SCAN_BLOCK_BYTES);
    for (size_t want = SCAN_BLOCK_BYTES;;) {
        int rc = cursor_load(source, c, want, err);
        if (rc)
            return rc;
        size_t have = (size_t)(c->base + c->len - c->offset), look = MIN(have, bytes_max);
        bool is_all = look == have && c->base + c->len == input->text_bytes, is_flawed;
        if (cursor_look(source, c, find, look, is_all, &is_flawed))
            return 0;
        if (is_flawed && cursor_look_before_flaw(source, c, find, look))
            return 0;
        if (is_flawed)
            return fail(err, ERR_DATA, "%s is malformed near byte %lu", input->name, c->offset);
        if (is_all) {
            ASSERT(have > 0 && input->is_whole);
            find->has_end = false;
            find->tally.n_ends = 1;
            find->tally.after_end = have;
            return 0;
        }
        if (look < have && find->is_strict)
            return 0;
        if (look < have)
            bytes_max = have;
        else
            want = MAX(have * 2, source->window_bytes);
    }
}

void cursor_advance(struct cursor *c, const struct boundary_tally *tally)
{
    c->item += tally->n_ends;
    c->offset += tally->after_end;
    c->line += tally->n_newlines;
}

/*
 * Keeps the position of a cursor that is about to be moved, so that readers who take turns each
 * find their position again without a walk.
 */
static void place_keep(struct source *source, const struct cursor *c)
{
    if (c->is_set)
        source->places[source->n_places++ % N_PLACES] =
            (struct index_entry){c->item, c->offset, c->line};
}

/* The nearest known position at or before the item. */
static const struct index_entry *place_find(const struct source *source, uint64_t item)
{
    const struct index_entry *best = index_find(&source->index, item);
    for (uint64_t i = 0; i < MIN(source->n_places, (uint64_t)N_PLACES); i++) {
        const struct index_entry *place = &source->places[i];
        if (place->item <= item && (!best || place->item > best->item))
            best = place;
    }
    return best;
}

static void cursor_place(const struct source *source, struct cursor *c, uint64_t item)
{
    const struct source_file *file = &source->files[c->file];
    const struct index_entry *entry = place_find(source, item);
    struct index_entry first = {file->first_item, file->begin_at, file->begin_line};
    if (!entry || entry->item <= file->first_item)
        entry = &first;
    c->item = entry->item;
    c->offset = c->base = entry->offset;
    c->line = entry->line;
    c->len = 0;
}

int cursor_at(struct source *source, uint64_t item, struct cursor **out, struct err *err)
{
    ASSERT(item < source->n_known);
    size_t file = file_of_item(source, item);
    struct cursor *oldest = &source->cursors[0];
    for (struct cursor *c = source->cursors; c < source->cursors + N_CURSORS; c++) {
        if (c->is_set && c->file == file && c->item == item) {
            c->used_at = ++source->n_uses;
            *out = c;
            return 0;
        }
        if (c->used_at < oldest->used_at)
            oldest = c;
    }
    place_keep(source, oldest);
    oldest->is_set = false;
    oldest->file = file;
    cursor_place(source, oldest, item);
    while (oldest->item < item) {
        struct find find = {.ends_max = item - oldest->item, .bytes_max = SIZE_MAX};
        int rc = cursor_find(source, oldest, &find, err);
        if (rc)
            return rc;
        cursor_advance(oldest, &find.tally);
    }
    oldest->is_set = true;
    oldest->used_at = ++source->n_uses;
    *out = oldest;
    return 0;
}

static int record_take(struct source *source, struct cursor *c, bool keeps_cr, struct str *record,
                       uint64_t *line, struct err *err)
{
    struct find find = {.ends_max = 1, .bytes_max = SIZE_MAX};
    int rc = cursor_find(source, c, &find, err);
    if (rc)
        return rc;
    uint64_t n_lines_before;
    struct str whole = {cursor_text(c), find.tally.after_end - find.has_end};
    *record = record_trim(source, whole, find.has_end, keeps_cr, &n_lines_before);
    *line = c->line + n_lines_before;
    cursor_advance(c, &find.tally);
    return 0;
}

int cursor_take(struct source *source, struct cursor *c, struct str *record, uint64_t *line,
                struct err *err)
{
    return record_take(source, c, false, record, line, err);
}

/*
 * A raw text line includes a CR before its LF; in the other formats such a CR is not part of a
 * record.
 */
static bool has_raw_lines(const struct source *source)
{
    return source->opts.is_raw && source->format == FORMAT_LINES;
}

void cursor_seek(struct cursor *c, size_t file, uint64_t offset)
{
    bool is_near = c->is_set && c->file == file && c->base <= offset && offset <= c->base + c->len;
    if (!is_near) {
        c->base = offset;
        c->len = 0;
    }
    c->is_set = true;
    c->file = file;
    c->offset = offset;
    c->line = 1;
}

/* Adds the item at the cursor to `out`; errors name the item's place. */
static int item_take(struct source *source, struct cursor *c, struct buf *out, struct err *err)
{
    struct str record;
    uint64_t line, item = c->item;
    int rc = record_take(source, c, has_raw_lines(source), &record, &line, err);
    if (rc)
        return rc;
    rc = record_convert(source, record, out, err);
    if (rc == 0)
        return 0;
    struct buf place = BUF_INIT;
    place_add(source, &source->files[c->file], item, line, &place);
    rc = wrap(err, rc, "%s", buf_text(&place));
    buf_release(&place);
    return rc;
}

/* True if the found records can be copied byte for byte: plain lines, each ended by LF. */
static bool is_verbatim(const struct source *source, const struct find *find)
{
    return find->has_end && (!find->tally.has_cr || has_raw_lines(source)) &&
           find->tally.n_newlines == find->tally.n_ends && !source->is_converted &&
           source->format != FORMAT_JSON;
}

/*
 * Cuts the found lines of JSONL before the first malformed one; true if there is a malformed one.
 */
static bool verbatim_cut(const struct source *source, const struct cursor *c, struct find *find)
{
    struct str all = {cursor_text(c), find->tally.after_end}, rest = all, line;
    if (source->format != FORMAT_JSONL || source->opts.is_raw)
        return false;
    for (uint64_t n = 0; rest.len > 0; n++) {
        size_t before = all.len - rest.len;
        if (!str_next(&rest, '\n', &line) || !line_is_malformed(source, line))
            continue;
        find->tally.n_ends = find->tally.n_newlines = n;
        find->tally.after_end = before;
        return true;
    }
    return false;
}

/*
 * Adds the found records: in one copy if possible, else one by one until `out` has end_len bytes.
 * ERR_RECORD at the first malformed record.
 */
static int found_take(struct source *source, struct cursor *c, struct find *find, size_t end_len,
                      struct buf *out, uint64_t *n_out, struct err *err)
{
    if (is_verbatim(source, find)) {
        bool is_cut = verbatim_cut(source, c, find);
        buf_add(out, cursor_text(c), find->tally.after_end);
        cursor_advance(c, &find->tally);
        *n_out += find->tally.n_ends;
        return is_cut ? item_take(source, c, out, err) : 0;
    }
    uint64_t left = find->tally.n_ends;
    do {
        int rc = item_take(source, c, out, err);
        if (rc)
            return rc;
        buf_add_char(out, '\n');
        ++*n_out;
    } while (--left > 0 && out->len < end_len);
    return 0;
}

int source_lines(struct source *source, uint64_t first, uint64_t count, size_t bytes_max,
                 struct buf *out, uint64_t *n_out, struct err *err)
{
    ASSERT(first + count <= source->n_known);
    size_t end_len = out->len + MIN(bytes_max, SIZE_MAX - out->len);
    *n_out = 0;
    while (*n_out < count && (*n_out == 0 || out->len < end_len)) {
        struct cursor *c;
        struct find find = {
            .ends_max = count - *n_out,
            .bytes_max = end_len - MIN(out->len, end_len),
            .is_strict = *n_out > 0,
        };
        int rc = cursor_at(source, first + *n_out, &c, err);
        if (rc == 0)
            rc = cursor_find(source, c, &find, err);
        if (rc || find.tally.n_ends == 0)
            return rc;
        rc = found_take(source, c, &find, end_len, out, n_out, err);
        if (rc == ERR_RECORD && *n_out > 0)
            return 0; /* the call that begins with that record reports it */
        if (rc)
            return rc;
    }
    return 0;
}

int source_item(struct source *source, uint64_t item, struct buf *out, struct err *err)
{
    struct cursor *c;
    int rc = cursor_at(source, item, &c, err);
    return rc ? rc : item_take(source, c, out, err);
}

static int item_read(struct source *source, uint64_t item, struct err *err)
{
    buf_reset(&source->item);
    return source_item(source, item, &source->item, err);
}

static int item_fail(struct source *source, uint64_t item, struct err *err, int code,
                     const char *what)
{
    cleanup_buf struct buf place = BUF_INIT;
    source_position(source, item, &place);
    return fail(err, code, "%s: %s", buf_text(&place), what);
}

int source_item_json(struct source *source, uint64_t item, struct buf *out, const char **key_out,
                     struct err *err)
{
    int rc = item_read(source, item, err);
    if (rc)
        return rc;
    struct str text = buf_str(&source->item);
    *key_out = "data";
    if (source->is_converted || source->format == FORMAT_JSON) {
        buf_add_str(out, text); /* record_convert() has checked it */
    } else if (source->format == FORMAT_JSONL) {
        struct err why = {0};
        if (source->opts.is_raw && !json_is_value(text)) {
            rc = json_refuse(text, ERR_RECORD, &why);
            return item_fail(source, item, err, rc, why.text);
        }
        buf_add_str(out, str_trim(text));
    } else if (utf8_is_valid(text)) {
        buf_add_json(out, text);
    } else {
        *key_out = "data_b64";
        buf_add_char(out, '"');
        buf_add_base64(out, text);
        buf_add_char(out, '"');
    }
    return 0;
}

int source_record(struct source *source, uint64_t item, struct buf *out, struct err *err)
{
    struct cursor *c;
    struct str record;
    uint64_t line;
    int rc = cursor_at(source, item, &c, err);
    if (rc == 0)
        rc = record_take(source, c, source->format == FORMAT_LINES, &record, &line, err);
    if (rc == 0)
        buf_add_str(out, record);
    return rc;
}

void source_header(const struct source *source, struct buf *out)
{
    const struct csv_row *header = &source->header;
    for (size_t i = 0; i < header->n_fields; i++) {
        if (i > 0)
            buf_add_char(out, source->separator);
        csv_add_field(out, csv_field(header, i), source->separator);
    }
    if (header->n_fields > 0)
        buf_add_char(out, '\n');
}

const struct csv_row *source_columns(const struct source *source)
{
    return &source->header;
}

void source_position(struct source *source, uint64_t item, struct buf *out)
{
    struct cursor *c;
    struct str record;
    uint64_t line;
    if (cursor_at(source, item, &c, NULL) != 0 ||
        cursor_take(source, c, &record, &line, NULL) != 0) {
        buf_addf(out, "item %lu", item);
        return;
    }
    place_add(source, &source->files[c->file], item, line, out);
}

/* Takes a JSON number; from CSV, a string whose content is a number. */
static bool weight_of(const struct source *source, struct str value, double *out)
{
    if (!source->is_converted)
        return json_to_double(value, out);
    cleanup_buf struct buf text = BUF_INIT;
    return json_to_text(value, &text) && double_parse(str_trim(buf_str(&text)), out, NULL) == 0;
}

int source_weight(struct source *source, uint64_t item, double *out, struct err *err)
{
    int rc = item_read(source, item, err);
    *out = 0;
    if (rc) /* a malformed record weighs nothing */
        return rc == ERR_RECORD ? 0 : rc;
    const char *field = source->opts.weight_field;
    struct str text = buf_str(&source->item), value;
    *out = (double)text.len;
    if (!field)
        return 0;
    cleanup_buf struct buf what = BUF_INIT;
    if (!json_get(text, field, &value)) {
        buf_addf(&what, "no field '%s' to weigh it by", field);
        return item_fail(source, item, err, ERR_DATA, buf_text(&what));
    }
    if (weight_of(source, value, out) && *out >= 0)
        return 0;
    buf_addf(&what, "expected a number of at least 0 in '%s', found %.*s", field,
             (int)MIN(value.len, (size_t)40), value.at);
    return item_fail(source, item, err, ERR_DATA, buf_text(&what));
}
