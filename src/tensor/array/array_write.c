/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a plan as a file of each kind, with the same bytes as the reference writers: safetensors
 * as its library writes it, npy as numpy.save does, npz as a zip whose entries are stored.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "tensor/array/array_plan.h"
#include "tensor/bytes.h"
#include "tensor/zip/zip_out.h"

enum {
    SAFETENSORS_ALIGN = 8,
    SAFETENSORS_LENGTH_BYTES = 8,
    NPY_ALIGN = 64,
    NPY_LENGTH_AT = 8,
    NPY_GROWTH_DIGITS = 21 /* numpy leaves room for this many digits of the dimension that may
                            * grow */
};

struct writing {
    struct array_plan *plan;
    struct outfile *out; /* NULL: nothing is written, only measured */
    struct zip_out zip;  /* npz only */
    uint64_t n_bytes;
    struct err *err;
};

/*
 * If no other plan needs the arrays, compares them with their checksums and frees their unpacked
 * bytes.
 */
static int pieces_rest(const struct array_plan *plan, const struct array_new *made, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < made->n_pieces && rc == 0; i++) {
        const struct array_piece *piece = &plan->pieces[made->first_piece + i];
        struct array *array = array_of_piece(plan, piece);
        struct array_file *file = &plan->set->files[piece->file];
        rc = array_verify(file, array, err);
        array_rest(file, array);
    }
    return rc;
}

static int bytes_put(void *context, struct str bytes, struct err *err)
{
    struct writing *w = context;
    int rc = stop_check(w->plan->stop, err);
    if (rc)
        return rc;
    return w->zip.file ? zip_out_add(&w->zip, bytes, err) : outfile_write(w->out, bytes, err);
}

static int array_put(struct writing *w, const struct array_new *made)
{
    const struct array_sink sink = {bytes_put, w};
    w->n_bytes += made->bytes;
    int rc = w->out ? array_copy(w->plan, made, &sink, w->err) : 0;
    return rc || !w->plan->is_only ? rc : pieces_rest(w->plan, made, w->err);
}

static int head_put(struct writing *w, struct str head)
{
    w->n_bytes += head.len;
    return w->out ? outfile_write(w->out, head, w->err) : 0;
}

/* ---- safetensors ---- */

static void tensor_describe(const struct array_new *made, uint64_t at, struct buf *out)
{
    buf_add_json(out, made->like->name);
    buf_addf(out, ":{\"dtype\":\"%.*s\",\"shape\":[", (int)made->like->dtype.len,
             made->like->dtype.at);
    for (size_t i = 0; i < made->like->n_dims; i++)
        buf_addf(out, i > 0 ? ",%lu" : "%lu", i > 0 ? made->like->shape[i] : made->n_rows);
    buf_addf(out, "],\"data_offsets\":[%lu,%lu]}", at, at + made->bytes);
}

uint64_t array_head_bytes(const struct array_plan *plan)
{
    size_t padding = SAFETENSORS_ALIGN - 1;
    return SAFETENSORS_LENGTH_BYTES + strlen("{}") + padding +
           (plan->metadata.len > 0 ? strlen("\"__metadata__\":") + plan->metadata.len : 0);
}

uint64_t array_head_more(const struct array_new *made, uint64_t at)
{
    cleanup_buf struct buf text = BUF_INIT;
    tensor_describe(made, at, &text);
    return text.len + strlen(",");
}

static int safetensors_head(struct writing *w, struct buf *head)
{
    const struct array_plan *plan = w->plan;
    uint64_t at = 0;
    char length[SAFETENSORS_LENGTH_BYTES] = {0};
    buf_add(head, length, sizeof(length));
    buf_add_char(head, '{');
    if (plan->metadata.len > 0) {
        buf_add_text(head, "\"__metadata__\":");
        buf_add_str(head, buf_str(&plan->metadata));
    }
    for (size_t i = 0; i < plan->len; i++) {
        if (i > 0 || plan->metadata.len > 0)
            buf_add_char(head, ',');
        tensor_describe(&plan->at[i], at, head);
        at += plan->at[i].bytes;
    }
    buf_add_char(head, '}');
    while (head->len % SAFETENSORS_ALIGN != 0)
        buf_add_char(head, ' ');
    uint64_t header_bytes = head->len - sizeof(length);
    le_put(head->at, header_bytes, sizeof(length));
    return header_bytes <= SAFETENSORS_HEADER_BYTES_MAX
               ? 0
               : fail(w->err, ERR_DATA,
                      "a header of %lu bytes for %zu tensors, and readers take %d at most; merge "
                      "fewer files",
                      header_bytes, plan->len, SAFETENSORS_HEADER_BYTES_MAX);
}

static int safetensors_write(struct writing *w)
{
    cleanup_buf struct buf head = BUF_INIT;
    int rc = safetensors_head(w, &head);
    if (rc == 0)
        rc = head_put(w, buf_str(&head));
    for (size_t i = 0; i < w->plan->len && rc == 0; i++)
        rc = array_put(w, &w->plan->at[i]);
    return rc;
}

/* ---- npy ---- */

static size_t digits_of(uint64_t value)
{
    char text[24];
    return (size_t)snprintf(text, sizeof(text), "%lu", value);
}

static void npy_head(const struct array_new *made, struct buf *out)
{
    const struct array *like = made->like;
    cleanup_free uint64_t *shape = xcalloc(like->n_dims, sizeof(*shape));
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < like->n_dims; i++)
        shape[i] = i > 0 ? like->shape[i] : made->n_rows;
    bool is_fortran = made->is_fortran && !array_order_is_free(shape, like->n_dims);
    bool is_list = like->dtype.at[0] == '[';
    buf_addf(&text, is_list ? "{'descr': %.*s" : "{'descr': '%.*s'", (int)like->dtype.len,
             like->dtype.at);
    buf_addf(&text, ", 'fortran_order': %s, 'shape': ", is_fortran ? "True" : "False");
    array_shape_add(&text, shape, like->n_dims);
    buf_add_text(&text, ", }");
    if (like->n_dims > 0)
        buf_addf(&text, "%*s",
                 (int)(NPY_GROWTH_DIGITS - digits_of(shape[is_fortran ? like->n_dims - 1 : 0])),
                 "");
    bool is_long = like->npy_version == 3 || text.len + NPY_ALIGN + 1 > UINT16_MAX;
    size_t prefix = NPY_LENGTH_AT + (is_long ? 4 : 2);
    size_t padding = NPY_ALIGN - (prefix + text.len + 1) % NPY_ALIGN;
    char length[4];
    le_put(length, text.len + padding + 1, sizeof(length));
    buf_addf(out, "\x93NUMPY%c", like->npy_version == 3 ? 3 : is_long ? 2 : 1);
    buf_add_char(out, '\0');
    buf_add(out, length, is_long ? 4 : 2);
    buf_add_str(out, buf_str(&text));
    buf_addf(out, "%*s\n", (int)padding, "");
}

static int npy_write(struct writing *w)
{
    cleanup_buf struct buf head = BUF_INIT;
    ASSERT(w->plan->len == 1);
    npy_head(&w->plan->at[0], &head);
    int rc = head_put(w, buf_str(&head));
    return rc ? rc : array_put(w, &w->plan->at[0]);
}

/* ---- npz ---- */

static int entry_write(struct writing *w, const struct array_new *made)
{
    struct zip_out *zip = &w->zip;
    cleanup_buf struct buf head = BUF_INIT, name = BUF_INIT;
    npy_head(made, &head);
    buf_add_str(&name, made->like->name);
    buf_add_text(&name, ".npy");
    struct zip_new_entry entry = {.name = buf_str(&name), .bytes = head.len + made->bytes};
    if (!w->out) {
        buf_reset(&zip->header);
        zip_header_add(&zip->zip, &entry, &zip->header);
        zip_entry_done(&zip->zip, &entry, zip->header.len);
        return array_put(w, made);
    }
    int rc = zip_out_begin(zip, &entry, w->err);
    if (rc == 0)
        rc = zip_out_add(zip, buf_str(&head), w->err);
    if (rc == 0)
        rc = array_put(w, made);
    return rc ? rc : zip_out_end(zip, &entry, w->err);
}

static int npz_write(struct writing *w)
{
    int rc = 0;
    w->zip.file = w->out;
    for (size_t i = 0; i < w->plan->len && rc == 0; i++)
        rc = entry_write(w, &w->plan->at[i]);
    if (w->out && rc == 0)
        rc = zip_out_finish(&w->zip, w->err);
    w->n_bytes = w->zip.zip.at + w->zip.zip.directory.len + ZIP_END_BYTES;
    zip_out_release(&w->zip);
    return rc;
}

static int (*const writers[N_TENSOR_KINDS])(struct writing *w) = {
    [TENSOR_SAFETENSORS] = safetensors_write,
    [TENSOR_NPY] = npy_write,
    [TENSOR_NPZ] = npz_write,
};

int array_write(struct array_plan *plan, struct outfile *out, uint64_t *n_bytes, struct err *err)
{
    struct writing w = {.plan = plan, .out = out, .err = err};
    int rc = writers[plan->set->kind](&w);
    *n_bytes = w.n_bytes;
    return rc;
}
