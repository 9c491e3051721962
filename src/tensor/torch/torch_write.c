/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch_write.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "tensor/crc.h"
#include "tensor/pickle/pickle_write.h"
#include "tensor/pread.h"
#include "tensor/writer_thread.h"
#include "tensor/zip/zip_out.h"

enum {
    WINDOW_BYTES = 256 * 1024,
    SHARED_LEAST_BYTES = 64 * 1024 /* smaller storages are copied, which is cheaper than another
                                    * extent */
};

struct writing {
    const struct torch_new *what;
    struct zip_out zip;
    struct buf prefix;
    char *window;
    uint64_t shared_bytes;        /* in all storages */
    struct writer_thread *writer; /* NULL except while a long pickle is written */
};

void torch_part_close(struct torch_part *part)
{
    torch_release(&part->file);
    fd_close(&part->fd);
    free(steal_ptr(&part->are_verified));
}

static int bytes_pass(void *context, struct str bytes, struct err *err)
{
    struct writing *w = context;
    return zip_out_add(&w->zip, bytes, err);
}

static int bytes_queue(void *context, struct str bytes, struct err *err)
{
    const struct writing *w = context;
    return writer_thread_write(w->writer, bytes, err);
}

static void name_make(const struct writing *w, const char *record, struct buf *name)
{
    buf_add_str(name, buf_str(&w->prefix));
    buf_add_text(name, record);
}

static int record_write(struct writing *w, const char *record, struct str content, struct err *err)
{
    cleanup_buf struct buf name = BUF_INIT;
    name_make(w, record, &name);
    struct zip_new_entry entry = {.name = buf_str(&name), .bytes = content.len};
    int rc = zip_out_begin(&w->zip, &entry, err);
    if (rc == 0)
        rc = zip_out_add(&w->zip, content, err);
    return rc ? rc : zip_out_end(&w->zip, &entry, err);
}

static int splice_read(void *context, uint32_t graph, uint64_t at, char *out, size_t len,
                       struct err *err)
{
    const struct writing *w = context;
    const struct torch_part *part = &w->what->parts[graph];
    int rc = stop_check(w->what->stop, err);
    if (rc)
        return rc;
    return pread_exact(part->fd, out, len, part->file.pickle_at + at, part->file.path, err);
}

static const char *part_name(void *context, uint32_t graph)
{
    const struct writing *w = context;
    return w->what->parts[graph].file.path;
}

/* Writes the pickle to the sink. *storages: the storages that the pickle names, in order. */
static int pickle_pass(const struct torch_new *what, const struct pickle_sink *sink,
                       struct written_storages *storages, struct err *err)
{
    const struct pickle **graphs = xcalloc(what->n_parts + 1, sizeof(struct pickle *));
    for (size_t i = 0; i < what->n_parts; i++)
        graphs[i] = &what->parts[i].file.pickle;
    graphs[what->n_parts] = what->made;
    int rc = pickle_write((const struct pickle *const *)graphs, what->n_parts + 1,
                          (uint32_t)what->n_parts, what->root, sink, storages, err);
    free(graphs);
    return rc;
}

static bool has_splices(const struct torch_new *what)
{
    for (size_t i = 0; i < what->n_parts; i++)
        if (what->parts[i].file.pickle.splices.len > 0)
            return true;
    return false;
}

/*
 * Makes the pickle on this thread, which renumbers the memo indices of copied bytes, while the
 * writer thread writes the bytes that were made before.
 */
static int pickle_write_threaded(struct writing *w, struct written_storages *storages,
                                 struct err *err)
{
    const struct pickle_sink sink = {bytes_queue, w, splice_read, part_name};
    w->writer = writer_thread_open(bytes_pass, w);
    int rc = pickle_pass(w->what, &sink, storages, err);
    int passed = writer_thread_close(w->writer, rc ? NULL : err);
    w->writer = NULL;
    return rc ? rc : passed;
}

static int pickle_record(struct writing *w, struct written_storages *storages, struct err *err)
{
    cleanup_buf struct buf name = BUF_INIT;
    name_make(w, "data.pkl", &name);
    struct zip_new_entry entry = {.name = buf_str(&name)};
    const struct pickle_sink sink = {bytes_pass, w, splice_read, part_name};
    int rc = zip_out_begin(&w->zip, &entry, err);
    if (rc == 0)
        rc = has_splices(w->what) ? pickle_write_threaded(w, storages, err)
                                  : pickle_pass(w->what, &sink, storages, err);
    if (rc == 0 && w->zip.bytes > TORCH_PICKLE_BYTES_MAX)
        rc = fail(err, ERR_DATA, "%s: its pickle would be larger than 2 GiB", w->zip.file->name);
    return rc ? rc : zip_out_end(&w->zip, &entry, err);
}

/* ---- storages ---- */

static bool is_held(const struct torch_file *file, uint32_t storage)
{
    return file->storage_held && file->storage_held[storage].at;
}

/*
 * Reads a piece of a storage of an input: from its file, or from the memory that replaces it
 * (storage_held).
 */
static int storage_read(const struct torch_new *what, const struct torch_segment *segment,
                        uint64_t offset, char *out, size_t len, struct err *err)
{
    const struct torch_part *part = &what->parts[segment->part];
    const struct torch_file *file = &part->file;
    uint32_t storage = segment->storage;
    int rc = stop_check(what->stop, err);
    if (rc)
        return rc;
    if (is_held(file, storage)) {
        memcpy(out, file->storage_held[storage].at + offset, len);
        return 0;
    }
    return pread_exact(part->fd, out, len, file->storage_at[storage] + offset, file->path, err);
}

/*
 * Copies a piece of an input to the output; *crc is the CRC of these bytes only. They are read
 * straight into the output's buffer. The buffer is written before the read and not after it, so
 * that the header of a small entry is still in the buffer and can be patched.
 */
static int segment_pass(struct writing *w, const struct torch_segment *segment, uint32_t *crc,
                        struct err *err)
{
    uint64_t at = segment->offset, end = at + segment->bytes;
    int rc = 0;
    *crc = 0;
    while (rc == 0 && at < end) {
        size_t len = (size_t)MIN(end - at, (uint64_t)WINDOW_BYTES);
        struct buf *pending = &w->zip.file->pending;
        rc = outfile_pump(w->zip.file, err);
        buf_reserve(pending, len);
        char *piece = pending->at + pending->len;
        if (rc == 0)
            rc = storage_read(w->what, segment, at, piece, len, err);
        if (rc == 0) {
            *crc = crc_of(*crc, (struct str){piece, len});
            buf_extend(pending, len);
        }
        at += len;
    }
    zip_out_passed(&w->zip, *crc, segment->bytes);
    return rc;
}

/* The storage from which the elements of a view are gathered. */
struct stored {
    const struct torch_new *what;
    const struct torch_segment *segment;
};

static int stored_read(void *context, uint64_t offset, char *out, size_t len, struct err *err)
{
    const struct stored *stored = context;
    return storage_read(stored->what, stored->segment, offset, out, len, err);
}

static int view_pass(struct writing *w, const struct torch_segment *segment, struct err *err)
{
    struct stored stored = {w->what, segment};
    const struct gather_source source = {stored_read, &stored, segment->offset};
    return torch_gather(segment->view, &source, bytes_pass, w, err);
}

static uint64_t storage_bytes(const struct pickle_storage *storage)
{
    return storage->n_elements * storage->element_bytes;
}

/* ERR_DATA if `crc`, computed from the segment's whole storage, is not the CRC in its file. */
static int crc_check(const struct writing *w, const struct torch_segment *segment, uint32_t crc,
                     struct err *err)
{
    const struct torch_file *file = &w->what->parts[segment->part].file;
    const struct pickle_storage *storage = &file->pickle.storages[segment->storage];
    if (!file->zip.has_crcs || crc == file->storage_crc[segment->storage])
        return 0;
    return fail(err, ERR_DATA,
                "%s: the bytes of storage %.*s are not those that were written (CRC-32): the file "
                "is damaged",
                file->path, (int)storage->key.len, storage->key.at);
}

/* A piece has no checksum, so its whole storage is read and compared, once. */
static int storage_verify(struct writing *w, const struct torch_segment *segment, struct err *err)
{
    const struct torch_part *part = &w->what->parts[segment->part];
    uint8_t *is_verified = &part->are_verified[segment->storage];
    uint64_t at = 0, end = storage_bytes(&part->file.pickle.storages[segment->storage]);
    uint32_t crc = 0;
    int rc = 0;
    if (*is_verified || !part->file.zip.has_crcs)
        return 0;
    while (rc == 0 && at < end) {
        size_t len = (size_t)MIN(end - at, (uint64_t)WINDOW_BYTES);
        rc = storage_read(w->what, segment, at, w->window, len, err);
        if (rc == 0)
            crc = crc_of(crc, (struct str){w->window, len});
        at += len;
    }
    if (rc == 0)
        rc = crc_check(w, segment, crc, err);
    *is_verified = rc == 0;
    return rc;
}

static bool is_whole(const struct writing *w, const struct torch_segment *segment)
{
    const struct pickle *graph = &w->what->parts[segment->part].file.pickle;
    return !segment->view && segment->bytes == storage_bytes(&graph->storages[segment->storage]);
}

/*
 * Asserts that the segment is within its storage. Bytes behind the storage belong to another one,
 * and no checksum would detect that.
 */
static void extent_assert(const struct writing *w, const struct torch_segment *segment)
{
    const struct pickle *graph = &w->what->parts[segment->part].file.pickle;
    uint64_t extent = segment->view ? torch_view_extent(segment->view) : segment->bytes;
    uint64_t whole = storage_bytes(&graph->storages[segment->storage]);
    ASSERT(segment->bytes == 0 || (extent <= whole && segment->offset <= whole - extent));
}

/* Only whole storages can be shared: the checksum of a piece is not known without reading it. */
static bool can_share(const struct writing *w, const struct torch_segment *segment)
{
    const struct torch_file *file = &w->what->parts[segment->part].file;
    return w->what->are_shared && segment->bytes >= SHARED_LEAST_BYTES && is_whole(w, segment) &&
           !is_held(file, segment->storage) && file->zip.has_crcs &&
           file->storage_at[segment->storage] % ZIP_ALIGN_BYTES == 0;
}

static int segment_share(struct writing *w, const struct torch_segment *segment, bool *is_shared,
                         struct err *err)
{
    const struct torch_part *part = &w->what->parts[segment->part];
    uint32_t crc = part->file.storage_crc[segment->storage];
    int rc = outfile_share(w->zip.file, part->fd, part->file.storage_at[segment->storage],
                           segment->bytes, is_shared, err);
    if (rc || !*is_shared)
        return rc;
    zip_out_passed(&w->zip, crc, segment->bytes);
    w->shared_bytes += segment->bytes;
    return 0;
}

/*
 * Copies a segment's bytes into the output, and compares them with the checksum in the input's
 * file.
 */
static int segment_write(struct writing *w, const struct torch_segment *segment, struct err *err)
{
    uint32_t crc = 0;
    bool is_shared = false;
    extent_assert(w, segment);
    int rc = can_share(w, segment) ? segment_share(w, segment, &is_shared, err) : 0;
    if (rc || is_shared)
        return rc;
    rc = segment->view ? view_pass(w, segment, err) : segment_pass(w, segment, &crc, err);
    if (rc)
        return rc;
    return is_whole(w, segment) ? crc_check(w, segment, crc, err) : storage_verify(w, segment, err);
}

static int storage_write(struct writing *w, size_t number, const struct torch_segment *segments,
                         size_t n_segments, struct err *err)
{
    cleanup_buf struct buf name = BUF_INIT;
    char record[32];
    snprintf(record, sizeof(record), "data/%zu", number);
    name_make(w, record, &name);
    struct zip_new_entry entry = {.name = buf_str(&name)};
    for (size_t i = 0; i < n_segments; i++)
        entry.bytes += segments[i].bytes;
    if (n_segments > 0 && can_share(w, &segments[0])) {
        const struct torch_file *file = &w->what->parts[segments[0].part].file;
        entry.has_place = true;
        entry.in_block = (uint32_t)(file->storage_at[segments[0].storage] % ZIP_BLOCK_BYTES);
    }
    int rc = zip_out_begin(&w->zip, &entry, err);
    for (size_t i = 0; i < n_segments && rc == 0; i++)
        rc = segment_write(w, &segments[i], err);
    return rc ? rc : zip_out_end(&w->zip, &entry, err);
}

/*
 * The segments that a storage of the output consists of. A storage that is one of an input has a
 * single segment, for which `whole` is room.
 */
static const struct torch_segment *segments_of(const struct torch_new *what,
                                               const struct written_storage *at,
                                               struct torch_segment *whole, size_t *n_segments)
{
    if (at->graph == what->n_parts) {
        size_t first = at->storage > 0 ? what->segment_ends[at->storage - 1] : 0;
        *n_segments = what->segment_ends[at->storage] - first;
        return what->segments + first;
    }
    const struct pickle *pickle = &what->parts[at->graph].file.pickle;
    *whole = (struct torch_segment){.part = at->graph,
                                    .storage = at->storage,
                                    .bytes = storage_bytes(&pickle->storages[at->storage])};
    *n_segments = 1;
    return whole;
}

static int storage_look(struct writing *w, size_t number, const struct torch_segment *segments,
                        size_t n_segments, struct err *err)
{
    int rc = 0;
    (void)number;
    for (size_t i = 0; i < n_segments && rc == 0; i++) {
        extent_assert(w, &segments[i]);
        rc = can_share(w, &segments[i]) ? 0 : storage_verify(w, &segments[i], err);
    }
    return rc;
}

typedef int storage_action(struct writing *w, size_t number, const struct torch_segment *segments,
                           size_t n_segments, struct err *err);

/* Calls `act` for each storage: storage_write(), or storage_look() if nothing is to be written. */
static int storages_each(struct writing *w, const struct written_storages *storages,
                         storage_action *act, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < storages->len && rc == 0; i++) {
        struct torch_segment whole;
        size_t n_segments;
        const struct torch_segment *segments =
            segments_of(w->what, &storages->at[i], &whole, &n_segments);
        rc = act(w, i, segments, n_segments, err);
    }
    return rc;
}

/* ---- the whole ---- */

static void writing_begin(struct writing *w)
{
    w->window = xmalloc(WINDOW_BYTES);
    for (size_t i = 0; i < w->what->n_parts; i++) {
        struct torch_part *part = &w->what->parts[i];
        if (!part->are_verified)
            part->are_verified = xcalloc(part->file.pickle.n_storages, 1);
    }
}

static void prefix_make(struct writing *w, const char *name)
{
    const char *stem = path_basename(name), *extension = path_extension(name);
    buf_add(&w->prefix, stem, strlen(stem) - strlen(extension));
    if (w->prefix.len == 0 || w->prefix.at[0] == '.' || strchr(w->prefix.at, '\\')) {
        buf_reset(&w->prefix); /* the prefix would not be a valid folder name */
        buf_add_text(&w->prefix, "archive");
    }
    buf_add_char(&w->prefix, '/');
}

int torch_write(const struct torch_new *what, const char *name, struct outfile *out,
                uint64_t *shared_bytes, struct err *err)
{
    struct writing w = {.what = what, .zip = {.file = out}};
    struct written_storages storages = {0};
    prefix_make(&w, name);
    writing_begin(&w);
    int rc = pickle_record(&w, &storages, err);
    if (rc == 0)
        rc = record_write(&w, "byteorder",
                          what->parts[0].file.is_big_endian ? STR("big") : STR("little"), err);
    if (rc == 0)
        rc = storages_each(&w, &storages, storage_write, err);
    if (rc == 0)
        rc = record_write(&w, "version", STR("3\n"), err);
    if (rc == 0)
        rc = zip_out_finish(&w.zip, err);
    free(w.window);
    if (shared_bytes)
        *shared_bytes = w.shared_bytes;
    free(storages.at);
    buf_release(&w.prefix);
    zip_out_release(&w.zip);
    return rc;
}

static int bytes_drop(void *context, struct str bytes, struct err *err)
{
    (void)context;
    (void)bytes;
    (void)err;
    return 0;
}

int torch_verify(const struct torch_new *what, struct err *err)
{
    struct writing w = {.what = what};
    struct written_storages storages = {0};
    const struct pickle_sink nowhere = {bytes_drop, &w, splice_read, part_name};
    writing_begin(&w);
    int rc = pickle_pass(what, &nowhere, &storages, err);
    if (rc == 0)
        rc = storages_each(&w, &storages, storage_look, err);
    free(w.window);
    free(storages.at);
    return rc;
}
