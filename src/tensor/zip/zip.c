/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/zip/zip.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pread.h"

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    LOCAL_MARK = 0x04034b50,
    CENTRAL_MARK = 0x02014b50,
    END_MARK = 0x06054b50,
    END64_MARK = 0x06064b50,
    LOCATOR_MARK = 0x07064b50,
    EXTRA_ZIP64 = 1,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    /* bit 3: sizes follow the data; bit 11: names are UTF-8; bits 1 and 2: the compression level */
    FLAGS_KNOWN = 0x080e,
    NAME_MAX_BYTES = 4096
};

struct directory {
    uint64_t offset, bytes, n_entries;
};

static int zip_fail(const struct zip *zip, uint64_t offset, const char *what, struct err *err)
{
    return fail(err, ERR_DATA, "%s: byte %lu: %s", zip->path, offset, what);
}

bool zip_is_one(struct str head)
{
    return head.len >= 4 && le32_get(head.at) == LOCAL_MARK;
}

struct str zip_first_name(struct str head)
{
    size_t len = zip_is_one(head) && head.len >= LOCAL_BYTES ? le16_get(head.at + 26) : 0;
    if (len > head.len - MIN(head.len, (size_t)LOCAL_BYTES))
        len = 0;
    return len > 0 ? (struct str){head.at + LOCAL_BYTES, len} : STR("");
}

/* ---- where the directory is ---- */

static int end64_read(const struct zip *zip, uint64_t locator_at, const char *locator,
                      struct directory *out, uint64_t *end_at, struct err *err)
{
    char end[END64_BYTES];
    if (locator_at < END64_BYTES || le64_get(locator + 8) != locator_at - END64_BYTES)
        return zip_fail(zip, locator_at, "the zip64 end record is not where it should be", err);
    *end_at = locator_at - END64_BYTES;
    int rc = pread_exact(zip->fd, end, sizeof(end), *end_at, zip->path, err);
    if (rc)
        return rc;
    if (le32_get(end) != END64_MARK || le64_get(end + 4) != END64_BYTES - 12)
        return zip_fail(zip, *end_at, "the zip64 end record is malformed", err);
    if (le32_get(end + 16) != 0 || le32_get(end + 20) != 0 ||
        le64_get(end + 24) != le64_get(end + 32))
        return zip_fail(zip, *end_at, "a zip of several volumes is not read", err);
    *out = (struct directory){
        .n_entries = le64_get(end + 32), .bytes = le64_get(end + 40), .offset = le64_get(end + 48)};
    return 0;
}

/*
 * A field of the small record has the same value as in the large record, or all ones if the value
 * does not fit.
 */
static bool ends_agree(const struct directory *small, const struct directory *large)
{
    return (small->n_entries == large->n_entries || small->n_entries == UINT16_MAX) &&
           (small->bytes == large->bytes || small->bytes == UINT32_MAX) &&
           (small->offset == large->offset || small->offset == UINT32_MAX);
}

static int end_read(const struct zip *zip, struct directory *out, struct err *err)
{
    char end[END_BYTES], locator[LOCATOR_BYTES];
    if (zip->file_bytes < END_BYTES)
        return zip_fail(zip, 0, "too short for a zip", err);
    uint64_t end_at = zip->file_bytes - END_BYTES;
    int rc = pread_exact(zip->fd, end, sizeof(end), end_at, zip->path, err);
    if (rc)
        return rc;
    if (le32_get(end) != END_MARK || le16_get(end + 20) != 0)
        return zip_fail(zip, end_at,
                        "there is no zip end record: the file was cut off, or something was added "
                        "behind its end",
                        err);
    if (le16_get(end + 4) != 0 || le16_get(end + 6) != 0 || le16_get(end + 8) != le16_get(end + 10))
        return zip_fail(zip, end_at, "a zip of several volumes is not read", err);
    *out = (struct directory){
        .n_entries = le16_get(end + 10), .bytes = le32_get(end + 12), .offset = le32_get(end + 16)};
    if (end_at >= LOCATOR_BYTES) {
        uint64_t locator_at = end_at - LOCATOR_BYTES;
        rc = pread_exact(zip->fd, locator, sizeof(locator), locator_at, zip->path, err);
        if (rc)
            return rc;
        if (le32_get(locator) == LOCATOR_MARK) {
            struct directory small = *out;
            rc = end64_read(zip, locator_at, locator, out, &end_at, err);
            if (rc)
                return rc;
            if (!ends_agree(&small, out))
                return zip_fail(zip, end_at, "the two end records of the zip differ", err);
        }
    }
    if (out->bytes > end_at || out->offset != end_at - out->bytes)
        return zip_fail(zip, end_at, "the zip's directory does not end where its end record begins",
                        err);
    if (out->n_entries > out->bytes / CENTRAL_BYTES)
        return zip_fail(zip, end_at, "the zip's directory is too short for its entries", err);
    return 0;
}

/* ---- the directory ---- */

static bool is_name_harmless(struct str name)
{
    if (name.len == 0 || name.len > NAME_MAX_BYTES || name.at[0] == '/' ||
        memchr(name.at, '\0', name.len) || memchr(name.at, '\\', name.len))
        return false;
    struct str piece, rest = name;
    while (str_next(&rest, '/', &piece))
        if (str_equal(piece, STR("..")) || str_equal(piece, STR(".")))
            return false;
    return true;
}

/* The zip64 field has only the values that are all ones in the record itself, in this order. */
static bool zip64_apply(struct zip_entry *entry, struct str field)
{
    uint64_t *const wide[] = {&entry->bytes, &entry->packed_bytes, &entry->header_at};
    for (size_t i = 0; i < countof(wide); i++) {
        if (*wide[i] != UINT32_MAX)
            continue;
        if (field.len < 8)
            return false;
        *wide[i] = le64_get(field.at);
        field = (struct str){field.at + 8, field.len - 8};
    }
    return true;
}

static bool extra_apply(struct zip_entry *entry, struct str extra)
{
    while (extra.len >= 4) {
        size_t len = le16_get(extra.at + 2);
        if (len > extra.len - 4)
            return false;
        if (le16_get(extra.at) == EXTRA_ZIP64 &&
            !zip64_apply(entry, (struct str){extra.at + 4, len}))
            return false;
        extra = (struct str){extra.at + 4 + len, extra.len - 4 - len};
    }
    return extra.len == 0;
}

/* Parses the record at the start of `rest`. Returns what is wrong with it, or NULL; *len is its
 * length. */
static const char *central_parse(struct str rest, struct zip_entry *entry, size_t *len)
{
    const char *at = rest.at;
    if (rest.len < CENTRAL_BYTES || le32_get(at) != CENTRAL_MARK)
        return "the zip's directory is malformed";
    size_t name_len = le16_get(at + 28), extra_len = le16_get(at + 30);
    unsigned bits = le16_get(at + 8), method = le16_get(at + 10);
    *len = CENTRAL_BYTES + name_len + extra_len;
    if (*len > rest.len || le16_get(at + 32) != 0 || le16_get(at + 34) != 0)
        return "the zip's directory is malformed";
    if (bits & 1)
        return "the entry is encrypted";
    if (bits & ~FLAGS_KNOWN)
        return "the entry has flags of an unknown kind";
    if (method != METHOD_STORED && method != METHOD_DEFLATED)
        return "the entry is packed in a way that is not read";
    *entry = (struct zip_entry){
        .name = {at + CENTRAL_BYTES, name_len},
        .crc = le32_get(at + 16),
        .packed_bytes = le32_get(at + 20),
        .bytes = le32_get(at + 24),
        .header_at = le32_get(at + 42),
        .is_deflated = method == METHOD_DEFLATED,
    };
    if (!extra_apply(entry, (struct str){at + CENTRAL_BYTES + name_len, extra_len}))
        return "the entry's extra field is malformed";
    if (!is_name_harmless(entry->name))
        return "the entry's name leads out of the file, or is none";
    if (!entry->is_deflated && entry->bytes != entry->packed_bytes)
        return "the entry is stored, and yet has two sizes";
    return NULL;
}

static int directory_read(struct zip *zip, const struct directory *where, struct err *err)
{
    buf_reserve(&zip->directory, where->bytes);
    int rc = pread_exact(zip->fd, zip->directory.at, where->bytes, where->offset, zip->path, err);
    if (rc)
        return rc;
    buf_extend(&zip->directory, where->bytes);
    zip->entries = xcalloc(where->n_entries, sizeof(*zip->entries));
    struct str rest = buf_str(&zip->directory);
    for (; zip->n_entries < where->n_entries; zip->n_entries++) {
        size_t len;
        struct zip_entry *entry = &zip->entries[zip->n_entries];
        const char *wrong = central_parse(rest, entry, &len);
        if (wrong)
            return zip_fail(zip, where->offset + where->bytes - rest.len, wrong, err);
        rest = (struct str){rest.at + len, rest.len - len};
        zip->has_crcs = zip->has_crcs || entry->crc != 0;
    }
    return rest.len == 0 ? 0
                         : zip_fail(zip, where->offset + where->bytes - rest.len,
                                    "the zip's directory holds more than its entries", err);
}

/* ---- the entries ---- */

static int name_compare(struct str left, struct str right)
{
    if (left.len != right.len)
        return left.len < right.len ? -1 : 1;
    return memcmp(left.at, right.at, left.len);
}

static int name_order(const void *a, const void *b, void *context)
{
    const struct zip_entry *entries = context;
    return name_compare(entries[*(const uint32_t *)a].name, entries[*(const uint32_t *)b].name);
}

static int place_order(const void *a, const void *b, void *context)
{
    const struct zip_entry *entries = context;
    uint64_t left = entries[*(const uint32_t *)a].header_at;
    uint64_t right = entries[*(const uint32_t *)b].header_at;
    return (left > right) - (left < right);
}

static void indices_sort(const struct zip *zip, uint32_t *indices,
                         int (*order)(const void *, const void *, void *))
{
    for (size_t i = 1; i < zip->n_entries; i++) {
        if (order(&indices[i - 1], &indices[i], zip->entries) <= 0)
            continue;
        qsort_r(indices, zip->n_entries, sizeof(*indices), order, zip->entries);
        return;
    }
}

/*
 * The entries by the lengths of their names. torch writes names with equally many digits in order,
 * so the entries of one length are usually sorted already.
 */
static uint32_t *indices_by_length(const struct zip *zip)
{
    uint32_t *indices = xmalloc(zip->n_entries * sizeof(*indices));
    uint32_t *ends = xcalloc(NAME_MAX_BYTES + 2, sizeof(*ends));
    for (size_t i = 0; i < zip->n_entries; i++)
        ends[zip->entries[i].name.len + 1]++;
    for (size_t len = 1; len <= NAME_MAX_BYTES; len++)
        ends[len] += ends[len - 1];
    for (size_t i = 0; i < zip->n_entries; i++)
        indices[ends[zip->entries[i].name.len]++] = (uint32_t)i;
    free(ends);
    return indices;
}

static int names_check(struct zip *zip, struct err *err)
{
    zip->by_name = indices_by_length(zip);
    indices_sort(zip, zip->by_name, name_order);
    for (size_t i = 1; i < zip->n_entries; i++) {
        const struct zip_entry *entry = &zip->entries[zip->by_name[i]];
        if (str_equal(entry->name, zip->entries[zip->by_name[i - 1]].name))
            return fail(err, ERR_DATA, "%s: the entry %.*s is there twice", zip->path,
                        (int)entry->name.len, entry->name.at);
    }
    return 0;
}

static int entry_fail(const struct zip *zip, const struct zip_entry *entry, const char *what,
                      struct err *err)
{
    return fail(err, ERR_DATA, "%s: byte %lu, entry %.*s: %s", zip->path, entry->header_at,
                (int)entry->name.len, entry->name.at, what);
}

/* Checks that the entries follow one another, with room for header, name and data. */
static int places_check(struct zip *zip, uint64_t directory_at, struct err *err)
{
    uint32_t *by_place = xmalloc(zip->n_entries * sizeof(*by_place));
    int rc = 0;
    for (size_t i = 0; i < zip->n_entries; i++)
        by_place[i] = (uint32_t)i;
    indices_sort(zip, by_place, place_order);
    for (size_t i = 0; i < zip->n_entries && rc == 0; i++) {
        struct zip_entry *entry = &zip->entries[by_place[i]];
        uint64_t head_bytes = LOCAL_BYTES + entry->name.len;
        entry->end_at =
            i + 1 < zip->n_entries ? zip->entries[by_place[i + 1]].header_at : directory_at;
        if (i == 0 && entry->header_at != 0)
            rc = entry_fail(zip, entry, "something stands before the first entry", err);
        else if (entry->header_at > entry->end_at || head_bytes > entry->end_at - entry->header_at)
            rc = entry_fail(zip, entry, "entries overlap", err);
        else if (entry->packed_bytes > entry->end_at - entry->header_at - head_bytes)
            rc = entry_fail(zip, entry, "the entry is longer than its place", err);
    }
    free(by_place);
    return rc;
}

/* Only the name in the entry's header is compared with the directory; the sizes there may be
 * anything. */
int zip_entry_locate(const struct zip *zip, const struct zip_entry *entry, uint64_t *data_at,
                     struct err *err)
{
    char header[LOCAL_BYTES + NAME_MAX_BYTES];
    int rc = pread_exact(zip->fd, header, LOCAL_BYTES + entry->name.len, entry->header_at,
                         zip->path, err);
    if (rc)
        return rc;
    size_t name_len = le16_get(header + 26), extra_len = le16_get(header + 28);
    if (le32_get(header) != LOCAL_MARK)
        return entry_fail(zip, entry, "there is no entry where the zip's directory has one", err);
    if (name_len != entry->name.len || memcmp(header + LOCAL_BYTES, entry->name.at, name_len) != 0)
        return entry_fail(zip, entry, "the entry has two names", err);
    *data_at = entry->header_at + LOCAL_BYTES + name_len + extra_len;
    if (*data_at > entry->end_at || entry->packed_bytes > entry->end_at - *data_at)
        return entry_fail(zip, entry, "the entry is longer than its place", err);
    return 0;
}

int zip_read(struct zip *zip, const char *path, int fd, uint64_t file_bytes, struct err *err)
{
    struct directory where = {0};
    *zip = (struct zip){.path = path, .fd = fd, .file_bytes = file_bytes};
    int rc = end_read(zip, &where, err);
    if (rc == 0 && where.n_entries > UINT32_MAX)
        rc = zip_fail(zip, where.offset, "more than 4,294,967,295 entries", err);
    if (rc == 0)
        rc = directory_read(zip, &where, err);
    if (rc == 0)
        rc = names_check(zip, err);
    return rc ? rc : places_check(zip, where.offset, err);
}

void zip_release(struct zip *zip)
{
    buf_release(&zip->directory);
    free(steal_ptr(&zip->entries));
    free(steal_ptr(&zip->by_name));
    zip->n_entries = 0;
}

const struct zip_entry *zip_find_next(const struct zip *zip, struct str name, size_t *place)
{
    size_t low = 0, high = zip->n_entries, middle = *place;
    while (low < high) {
        middle = middle >= low && middle < high ? middle : low + (high - low) / 2;
        const struct zip_entry *entry = &zip->entries[zip->by_name[middle]];
        int order = name_compare(entry->name, name);
        *place = middle + 1;
        if (order == 0)
            return entry;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
        middle = zip->n_entries; /* only the first try is a guess */
    }
    return NULL;
}

const struct zip_entry *zip_find(const struct zip *zip, struct str name)
{
    size_t place = zip->n_entries;
    return zip_find_next(zip, name, &place);
}
