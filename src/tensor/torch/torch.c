/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch.h"

#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pread.h"

enum {
    SMALL_RECORD_BYTES = 64,
    LEGACY_FIRST_BYTES = 1 << 20,
    LEGACY_COUNT_BYTES = 8,
    LEGACY_PROTOCOL = 1001,
    LEGACY_HEAD_BYTES = 32, /* at least as long as its first pickle */
    PROTO_BYTES = 2,
    FRAME_BYTES = 9,
    LARGE_TEXT_BYTES = 16 << 20,
    PAGE_BYTES = 4096,
    ROOM_FOR_MORE = 4 /* the next pickle may be longer by 1/ROOM_FOR_MORE */
};

/* 0x1950a86a20f9469cfc6c, written as LONG1 by protocol 2 and newer, and as LONG by older
 * protocols */
static const char magic_binary[] = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
static const char magic_text[] = "L119547037146038801333356L\n.";

/* Length of the pickle of the magic number; 0 if there is none. */
static size_t legacy_magic_len(struct str head)
{
    size_t at = PROTO_BYTES;
    if (str_starts_with(head, STR(magic_text)))
        return sizeof(magic_text) - 1;
    if (!str_starts_with(head, STR("\x80")) || head.len < PROTO_BYTES + FRAME_BYTES)
        return 0;
    at += head.at[at] == '\x95' ? FRAME_BYTES : 0; /* protocol 4 and newer begin with a frame */
    struct str rest = {head.at + at, head.len - at};
    return str_starts_with(rest, STR(magic_binary)) ? at + sizeof(magic_binary) - 1 : 0;
}

bool torch_is_legacy(struct str head)
{
    return legacy_magic_len(head) > 0;
}

/* The first entry's name, up to and including its slash. */
static struct str prefix_of(const struct zip *zip)
{
    struct str name = zip->n_entries > 0 ? zip->entries[0].name : (struct str){"", 0};
    const char *slash = name.len > 0 ? memchr(name.at, '/', name.len) : NULL;
    return (struct str){name.at, slash ? (size_t)(slash - name.at) + 1 : 0};
}

static const struct zip_entry *record_find(const struct zip *zip, const char *name)
{
    cleanup_buf struct buf whole = BUF_INIT;
    buf_add_str(&whole, prefix_of(zip));
    buf_add_text(&whole, name);
    return zip_find(zip, buf_str(&whole));
}

/* ---- the zip ---- */

static int prefixes_check(const struct torch_file *file, struct err *err)
{
    struct str prefix = prefix_of(&file->zip);
    for (size_t i = 0; i < file->zip.n_entries; i++) {
        struct str name = file->zip.entries[i].name;
        if (!str_starts_with(name, prefix))
            return fail(err, ERR_DATA, "%s: entry %.*s is not in the folder %.*s with the others",
                        file->path, (int)name.len, name.at, (int)prefix.len, prefix.at);
    }
    return 0;
}

/* Reads a record of a few bytes; *out stays empty if there is no such record. */
static int small_read(const struct torch_file *file, const char *name, struct buf *out,
                      struct err *err)
{
    const struct zip_entry *entry = record_find(&file->zip, name);
    return entry ? zip_entry_read(&file->zip, entry, SMALL_RECORD_BYTES, out, err) : 0;
}

static int records_check(struct torch_file *file, struct err *err)
{
    cleanup_buf struct buf version = BUF_INIT, order = BUF_INIT;
    if (record_find(&file->zip, "constants.pkl") || record_find(&file->zip, "code/"))
        return fail(err, ERR_DATA,
                    "%s is a TorchScript archive, a program: torch.jit.load reads it, not muster",
                    file->path);
    if (!record_find(&file->zip, "data.pkl"))
        return fail(err, ERR_DATA, "%s: a zip like torch's, but without data.pkl", file->path);
    int rc = small_read(file, "version", &version, err);
    if (rc == 0)
        rc = small_read(file, "byteorder", &order, err);
    if (rc)
        return rc;
    struct str digits = str_trim(buf_str(&version));
    if (digits.len == 0 || strspn(buf_text(&version), "0123456789\n") < version.len)
        return fail(err, ERR_DATA, "%s: a zip like torch's, but its record \"version\" is %s",
                    file->path, version.len ? "no number" : "missing");
    file->is_big_endian = str_equal(buf_str(&order), STR("big"));
    if (order.len > 0 && !file->is_big_endian && !str_equal(buf_str(&order), STR("little")))
        return fail(err, ERR_DATA, "%s: its record \"byteorder\" says neither little nor big",
                    file->path);
    return 0;
}

static int storage_fail(const struct torch_file *file, const struct pickle_storage *storage,
                        const char *what, struct err *err)
{
    return fail(err, ERR_DATA, "%s: storage %.*s %s", file->path, (int)storage->key.len,
                storage->key.at, what);
}

/* Finds the entries of all storages; with `are_located` also their offsets in the file. */
static int storages_find(struct torch_file *file, bool are_located, struct err *err)
{
    const struct pickle *pickle = &file->pickle;
    cleanup_buf struct buf name = BUF_INIT;
    size_t place = 0;
    file->storage_at = xcalloc(pickle->n_storages, sizeof(*file->storage_at));
    file->storage_crc = xcalloc(pickle->n_storages, sizeof(*file->storage_crc));
    for (size_t i = 0; i < pickle->n_storages; i++) {
        const struct pickle_storage *storage = &pickle->storages[i];
        buf_reset(&name);
        buf_add_str(&name, prefix_of(&file->zip));
        buf_add_text(&name, "data/");
        buf_add_str(&name, storage->key);
        const struct zip_entry *entry = zip_find_next(&file->zip, buf_str(&name), &place);
        if (!entry)
            return storage_fail(file, storage, "is missing", err);
        if (entry->bytes != storage->n_elements * storage->element_bytes)
            return storage_fail(file, storage, "is not as long as the pickle says", err);
        file->storage_crc[i] = entry->crc;
        int rc = are_located ? zip_entry_locate(&file->zip, entry, &file->storage_at[i], err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

static int stored_check(const struct torch_file *file, struct err *err)
{
    for (size_t i = 0; i < file->zip.n_entries; i++) {
        const struct zip_entry *entry = &file->zip.entries[i];
        if (entry->is_deflated)
            return fail(err, ERR_DATA, "%s: entry %.*s is packed, which torch.save never does",
                        file->path, (int)entry->name.len, entry->name.at);
    }
    return 0;
}

/* Takes the buffer in `room`, or a larger one on large pages where the system has them: touching it
 * in pages of 4 KiB takes as long as reading the text. */
static void text_reserve(struct torch_file *file, struct buf *room, uint64_t bytes)
{
    file->text = *room;
    *room = (struct buf)BUF_INIT;
    if (bytes < file->text.cap || bytes < LARGE_TEXT_BYTES || bytes > TORCH_PICKLE_BYTES_MAX)
        return;
    buf_release(&file->text);
    buf_reserve(&file->text, (size_t)(bytes + bytes / ROOM_FOR_MORE));
    uintptr_t begin = ((uintptr_t)file->text.at + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)file->text.at + file->text.cap) & ~(uintptr_t)(PAGE_BYTES - 1);
    (void)madvise(file->text.at + (begin - (uintptr_t)file->text.at), end - begin, MADV_HUGEPAGE);
}

static int zip_take(struct torch_file *file, struct zip *zip, bool are_located,
                    struct torch_splicing *splicing, struct err *err)
{
    *file = (struct torch_file){.path = zip->path, .file_bytes = zip->file_bytes, .zip = *zip};
    *zip = (struct zip){.fd = -1};
    int rc = stored_check(file, err);
    if (rc == 0 && prefix_of(&file->zip).len == 0)
        rc = fail(err, ERR_DATA, "%s: a zip whose entries are in no folder, so not of torch.save",
                  file->path);
    if (rc == 0)
        rc = prefixes_check(file, err);
    if (rc == 0)
        rc = records_check(file, err);
    if (rc == 0)
        rc = zip_entry_locate(&file->zip, record_find(&file->zip, "data.pkl"), &file->pickle_at,
                              err);
    if (rc == 0)
        text_reserve(file, &splicing->room, record_find(&file->zip, "data.pkl")->bytes);
    if (rc == 0)
        rc = zip_entry_read(&file->zip, record_find(&file->zip, "data.pkl"), TORCH_PICKLE_BYTES_MAX,
                            &file->text, err);
    cleanup_free char *name = xasprintf("%s: data.pkl", file->path);
    if (rc == 0)
        rc = pickle_read(&file->pickle, buf_str(&file->text),
                         &(struct pickle_opts){.name = name,
                                               .own = &file->text,
                                               .splice_least_bytes = splicing->least_bytes,
                                               .room = &splicing->room},
                         err);
    if (rc == 0)
        rc = storages_find(file, are_located, err);
    if (rc == 0)
        zip_release(&file->zip); /* with many storages it is as large as everything else together */
    return rc;
}

int torch_read_zip(struct torch_file *file, struct zip *zip, struct err *err)
{
    struct torch_splicing none = {.room = BUF_INIT};
    return zip_take(file, zip, false, &none, err);
}

/* ---- the five pickles ---- */

/* Reads the next pickle behind `*at`. */
static int next_read(const struct torch_file *file, size_t *at, bool is_legacy,
                     struct pickle *pickle, struct err *err)
{
    struct str rest = {file->text.at + *at, file->text.len - *at};
    struct pickle_opts opts = {.name = file->path, .has_more = true, .is_legacy = is_legacy};
    int rc = pickle_read(pickle, rest, &opts, err);
    *at += pickle->n_bytes;
    return rc;
}

/*
 * Reads the protocol's number and the machine's description, of which only the byte order matters.
 */
static int legacy_head(struct torch_file *file, size_t *at, struct err *err)
{
    struct pickle protocol = {0}, machine = {0};
    uint64_t number = 0;
    *at = legacy_magic_len(buf_str(&file->text)); /* as bytes: it has more than 64 bits */
    int rc = next_read(file, at, false, &protocol, err);
    if (rc == 0 && (!pickle_to_u64(&protocol, protocol.root, &number) || number != LEGACY_PROTOCOL))
        rc = fail(err, ERR_DATA, "%s: a legacy file of torch with another protocol than %d",
                  file->path, LEGACY_PROTOCOL);
    if (rc == 0)
        rc = next_read(file, at, false, &machine, err);
    if (rc == 0 && pickle_node(&machine, machine.root)->kind == PICKLE_DICT) {
        pickle_id little =
            pickle_get(&machine, pickle_node(&machine, machine.root), STR("little_endian"));
        file->is_big_endian = little && !pickle_node(&machine, little)->truth;
    }
    pickle_release(&protocol);
    pickle_release(&machine);
    return rc;
}

static int number_order(const void *a, const void *b, void *context)
{
    const struct pickle_storage *storages = context;
    uint64_t left = storages[*(const uint32_t *)a].number;
    uint64_t right = storages[*(const uint32_t *)b].number;
    return (left > right) - (left < right);
}

/* The indices of the storages, sorted by the storages' numbers. */
static uint32_t *storages_sorted(const struct pickle *pickle)
{
    uint32_t *sorted = xmalloc(pickle->n_storages * sizeof(*sorted));
    for (size_t i = 0; i < pickle->n_storages; i++)
        sorted[i] = (uint32_t)i;
    if (pickle->n_storages > 0)
        qsort_r(sorted, pickle->n_storages, sizeof(*sorted), number_order, pickle->storages);
    return sorted;
}

/* The index of the storage with this key; false if there is none. */
static bool storage_of_key(const struct pickle *pickle, const uint32_t *sorted, struct str key,
                           uint32_t *index)
{
    size_t low = 0, high = pickle->n_storages;
    uint64_t number;
    if (u64_parse(key, 0, UINT64_MAX, &number, NULL) != 0)
        return false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pickle->storages[sorted[middle]].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low < pickle->n_storages ? sorted[low] : 0;
    return low < pickle->n_storages && str_equal(pickle->storages[*index].key, key);
}

/*
 * Takes the storages. Behind the list of keys the file has, for each key, the number of elements
 * and the elements.
 */
static int legacy_storages(struct torch_file *file, int fd, const struct pickle *keys, uint64_t at,
                           struct err *err)
{
    const struct pickle_node *list = pickle_node(keys, keys->root);
    char count[LEGACY_COUNT_BYTES];
    size_t n_storages = file->pickle.n_storages;
    if (list->kind != PICKLE_LIST || list->count != n_storages)
        return fail(err, ERR_DATA, "%s: its list of storages is not that of its tensors",
                    file->path);
    file->storage_at = xcalloc(n_storages, sizeof(*file->storage_at));
    cleanup_free uint32_t *sorted = storages_sorted(&file->pickle);
    struct pickle_walk walk = pickle_items(list);
    for (pickle_id id; (id = pickle_next(keys, &walk)) != 0;) {
        const struct pickle_node *key = pickle_node(keys, id);
        uint32_t i;
        if (key->kind != PICKLE_TEXT ||
            !storage_of_key(&file->pickle, sorted, pickle_bytes(keys, key), &i) ||
            file->storage_at[i] != 0)
            return fail(err, ERR_DATA, "%s: its list of storages is not that of its tensors",
                        file->path);
        const struct pickle_storage *storage = &file->pickle.storages[i];
        uint64_t bytes = storage->n_elements * storage->element_bytes;
        int rc = pread_exact(fd, count, sizeof(count), at, file->path, err);
        if (rc)
            return rc;
        if (le64_get(count) != storage->n_elements ||
            bytes > file->file_bytes - at - LEGACY_COUNT_BYTES)
            return storage_fail(file, storage, "is not as long as the pickle says", err);
        file->storage_at[i] = at + LEGACY_COUNT_BYTES;
        at += LEGACY_COUNT_BYTES + bytes;
    }
    return at == file->file_bytes
               ? 0
               : fail(err, ERR_DATA, "%s: byte %lu: something follows the end", file->path, at);
}

static int legacy_parse(struct torch_file *file, int fd, struct err *err)
{
    struct pickle keys = {0};
    size_t at = 0;
    int rc = legacy_head(file, &at, err);
    if (rc == 0)
        rc = next_read(file, &at, true, &file->pickle, err);
    if (rc == 0)
        rc = next_read(file, &at, false, &keys, err);
    if (rc == 0)
        rc = legacy_storages(file, fd, &keys, at, err);
    pickle_release(&keys);
    return rc;
}

/* The length of the pickles is stored nowhere, so this reads more until they are complete. */
static int legacy_load(struct torch_file *file, int fd, struct err *err)
{
    int rc = ERR_DATA;
    file->is_legacy = true;
    for (size_t len = LEGACY_FIRST_BYTES; rc == ERR_DATA; len *= 2) {
        size_t want = (size_t)MIN((uint64_t)len, file->file_bytes);
        pickle_release(&file->pickle);
        free(steal_ptr(&file->storage_at));
        buf_reset(&file->text);
        buf_reserve(&file->text, want);
        rc = pread_exact(fd, file->text.at, want, 0, file->path, err);
        if (rc)
            return rc;
        buf_extend(&file->text, want);
        rc = legacy_parse(file, fd, err);
        if (want == file->file_bytes || len >= TORCH_PICKLE_BYTES_MAX / 2)
            return rc;
    }
    return rc;
}

int torch_read_spliced(struct torch_file *file, const char *path, int fd, uint64_t file_bytes,
                       struct torch_splicing *splicing, struct err *err)
{
    char head[LEGACY_HEAD_BYTES];
    size_t len = (size_t)MIN(file_bytes, (uint64_t)sizeof(head));
    struct zip zip;
    *file = (struct torch_file){.path = path, .file_bytes = file_bytes};
    if (file_bytes == 0)
        return fail(err, ERR_DATA, "%s is empty", path);
    int rc = pread_exact(fd, head, len, 0, path, err);
    if (rc)
        return rc;
    if (torch_is_legacy((struct str){head, len}))
        return legacy_load(file, fd, err);
    rc = zip_read(&zip, path, fd, file_bytes, err);
    if (rc == 0)
        return zip_take(file, &zip, true, splicing, err);
    zip_release(&zip);
    return rc;
}

int torch_read(struct torch_file *file, const char *path, int fd, uint64_t file_bytes,
               struct err *err)
{
    struct torch_splicing none = {.room = BUF_INIT};
    return torch_read_spliced(file, path, fd, file_bytes, &none, err);
}

void torch_release(struct torch_file *file)
{
    for (size_t i = 0; file->storage_held && i < file->pickle.n_storages; i++)
        free((char *)(uintptr_t)file->storage_held[i].at);
    free(steal_ptr(&file->storage_held));
    pickle_release(&file->pickle);
    zip_release(&file->zip);
    buf_release(&file->text);
    free(steal_ptr(&file->storage_at));
    free(steal_ptr(&file->storage_crc));
}
