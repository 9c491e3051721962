/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/inspect.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "tensor/kind.h"
#include "tensor/npy.h"
#include "tensor/pickle/pickle_callable.h"
#include "tensor/pread.h"
#include "tensor/safetensors.h"
#include "tensor/torch/torch.h"

struct inspection {
    const char *path;
    int fd;
    uint64_t file_bytes;
    struct buf *out;
    bool is_json;
};

static struct tree tree_of(const struct inspection *in)
{
    return (struct tree){.out = in->out, .is_json = in->is_json};
}

/* Prints the kind and the size of the file, before the tree. */
static void begin(const struct inspection *in, const char *kind)
{
    char size[16];
    if (in->is_json) {
        buf_add_text(in->out, "{\"file\":");
        buf_add_json(in->out, str_of(in->path));
        buf_addf(in->out, ",\"kind\":\"%s\",\"bytes\":%lu", kind, in->file_bytes);
        return;
    }
    size_format(size, in->file_bytes);
    console_visible_add(in->out, str_of(in->path));
    buf_addf(in->out, ": %s, %s", kind, size);
}

/* Prints a number about the whole file: `"storages":12` or ", 12 storages". */
static void figure(const struct inspection *in, const char *name, uint64_t value)
{
    char count[32];
    count_format(count, value);
    if (in->is_json)
        buf_addf(in->out, ",\"%s\":%lu", name, value);
    else
        buf_addf(in->out, ", %s %s", count, name);
}

static void tree_begin(const struct inspection *in)
{
    buf_add_text(in->out, in->is_json ? ",\"root\":" : "\n");
}

static void end(const struct inspection *in)
{
    if (in->is_json)
        buf_add_text(in->out, "}\n");
}

/* ---- torch ---- */

static int global_order(const void *a, const void *b)
{
    const struct pickle_global *left = a, *right = b;
    int order = str_compare(left->module, right->module);
    return order ? order : str_compare(left->name, right->name);
}

static bool is_loaded_by_default(const struct pickle_global *global)
{
    return global->known && global->known->is_loaded_by_default;
}

static void name_add(struct buf *out, const struct pickle_global *global)
{
    cleanup_buf struct buf name = BUF_INIT;
    buf_add_str(&name, global->module);
    buf_add_char(&name, '.');
    buf_add_str(&name, global->name);
    buf_add_json(out, buf_str(&name));
}

static void names_add_json(struct buf *out, const struct pickle_global *names, size_t n_names)
{
    buf_add_text(out, ",\"callables\":[");
    for (size_t i = 0; i < n_names; i++) {
        buf_add_text(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        name_add(out, &names[i]);
        buf_addf(out, ",\"is_data\":%s,\"weights_only\":%s}", names[i].known ? "true" : "false",
                 is_loaded_by_default(&names[i]) ? "true" : "false");
    }
    buf_add_char(out, ']');
}

static void names_add_text(struct buf *out, const struct pickle_global *names, size_t n_names)
{
    size_t n_loaded = 0;
    for (size_t i = 0; i < n_names; i++)
        n_loaded += is_loaded_by_default(&names[i]);
    buf_addf(out,
             "callables and classes: %zu, %zu of them taken by torch.load's weights_only=True\n",
             n_names, n_loaded);
    for (size_t i = 0; i < n_names; i++) {
        if (is_loaded_by_default(&names[i]))
            continue;
        buf_add_text(out, "  not taken: ");
        name_add(out, &names[i]);
        buf_add_text(out, names[i].known ? "\n" : ", which is not data: loading it runs code\n");
    }
}

/* Prints each name once, sorted. */
static void names_add(const struct inspection *in, const struct pickle *pickle)
{
    size_t n_names = 0;
    struct pickle_global *names = xcalloc(pickle->n_globals + 1, sizeof(*names));
    if (pickle->n_globals > 0) {
        memcpy(names, pickle->globals, pickle->n_globals * sizeof(*names));
        qsort(names, pickle->n_globals, sizeof(*names), global_order);
    }
    for (size_t i = 0; i < pickle->n_globals; i++)
        if (n_names == 0 || global_order(&names[n_names - 1], &names[i]) != 0)
            names[n_names++] = names[i];
    if (in->is_json)
        names_add_json(in->out, names, n_names);
    else
        names_add_text(in->out, names, n_names);
    free(names);
}

/* `zip` is the file's opened zip, which this function takes over; NULL if the file is not a zip. */
static int torch_show(const struct inspection *in, struct zip *zip, struct err *err)
{
    struct torch_file file;
    int rc = zip ? torch_read_zip(&file, zip, err)
                 : torch_read(&file, in->path, in->fd, in->file_bytes, err);
    if (rc == 0) {
        uint64_t storage_bytes = 0;
        for (size_t i = 0; i < file.pickle.n_storages; i++)
            storage_bytes +=
                file.pickle.storages[i].n_elements * file.pickle.storages[i].element_bytes;
        begin(in, file.is_legacy ? "torch (legacy)" : "torch");
        figure(in, "storages", file.pickle.n_storages);
        figure(in, in->is_json ? "storage_bytes" : "bytes in them", storage_bytes);
        figure(in, in->is_json ? "pickle_bytes" : "bytes of pickle", file.pickle.n_bytes);
        tree_begin(in);
        struct tree tree = tree_of(in);
        torch_tree(&file, &tree);
        names_add(in, &file.pickle);
        end(in);
    }
    torch_release(&file);
    return rc;
}

/* ---- arrays by name ---- */

static void safetensors_tree(const struct inspection *in, const struct safetensors *file)
{
    struct tree tree = tree_of(in);
    struct tree_value root = TREE_VALUE_INIT, value = TREE_VALUE_INIT;
    cleanup_buf struct buf name = BUF_INIT, quoted = BUF_INIT;
    root.type = STR("tensors");
    root.count = file->n_tensors;
    if (!tree_open(&tree, (struct str){"", 0}, &root))
        return;
    if (file->metadata.len > 0) {
        value.type = STR("metadata");
        value.scalar = file->metadata;
        tree_leaf(&tree, STR("__metadata__"), &value);
    }
    size_t i = 0;
    for (; i < file->n_tensors && tree.n_lines < TREE_LINES_MAX; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        buf_reset(&name);
        buf_reset(&quoted);
        buf_addf(&quoted, "\"%.*s\"", (int)tensor->name.len, tensor->name.at);
        json_to_text(buf_str(&quoted), &name);
        value = (struct tree_value)TREE_VALUE_INIT;
        value.type = tensor->dtype;
        value.shape = file->dims + tensor->dims_at;
        value.n_dims = tensor->n_dims;
        value.bytes = tensor->end - tensor->begin;
        tree_leaf(&tree, buf_str(&name), &value);
    }
    tree_more(&tree, file->n_tensors - i);
    tree_close(&tree);
}

static int safetensors_show(const struct inspection *in, struct err *err)
{
    struct safetensors file;
    int rc = safetensors_read(&file, in->path, in->fd, in->file_bytes, err);
    if (rc == 0) {
        begin(in, "safetensors");
        figure(in, "tensors", file.n_tensors);
        tree_begin(in);
        safetensors_tree(in, &file);
        end(in);
    }
    safetensors_release(&file);
    return rc;
}

static void npy_leaf(struct tree *tree, struct str key, const struct npy *npy)
{
    struct tree_value value = TREE_VALUE_INIT;
    value.type = npy->descr;
    value.shape = npy->shape;
    value.n_dims = npy->n_dims;
    value.bytes = npy->data_bytes;
    value.note = npy->is_fortran ? STR("Fortran order") : (struct str){"", 0};
    tree_leaf(tree, key, &value);
}

static int npy_show(const struct inspection *in, struct str head, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct npy npy;
    uint64_t len = npy_head_bytes(head);
    if (len == 0 || len > in->file_bytes || len > NPY_HEADER_BYTES_MAX)
        return npy_head_fail(in->path, err);
    buf_reserve(&text, len);
    int rc = pread_exact(in->fd, text.at, len, 0, in->path, err);
    buf_extend(&text, rc ? 0 : len);
    if (rc == 0)
        rc = npy_parse(&npy, in->path, buf_str(&text), in->file_bytes, err);
    if (rc)
        return rc;
    begin(in, "npy");
    tree_begin(in);
    struct tree tree = tree_of(in);
    npy_leaf(&tree, (struct str){"", 0}, &npy);
    end(in);
    return 0;
}

/* Reads only the head of each array; of a packed array only that much is inflated. */
static int npz_entry_show(const struct inspection *in, const struct zip *zip,
                          const struct zip_entry *entry, struct tree *tree, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct npy npy;
    struct str key = entry->name;
    cleanup_free char *name = xasprintf("%s: %.*s", in->path, (int)key.len, key.at);
    int rc = zip_entry_head(zip, entry, NPY_VERSION_BYTES, &text, err);
    uint64_t len = rc == 0 ? npy_head_bytes(buf_str(&text)) : 0;
    buf_reset(&text);
    if (rc == 0 && len <= NPY_HEADER_BYTES_MAX)
        rc = zip_entry_head(zip, entry, len, &text, err);
    if (rc == 0)
        rc = npy_parse(&npy, name, buf_str(&text), entry->bytes, err);
    if (rc)
        return rc;
    if (str_ends_with(key, STR(".npy")))
        key.len -= 4;
    npy_leaf(tree, key, &npy);
    return 0;
}

static int npz_show(const struct inspection *in, const struct zip *zip, struct err *err)
{
    struct tree tree = tree_of(in);
    struct tree_value root = TREE_VALUE_INIT;
    root.type = STR("arrays");
    root.count = zip->n_entries;
    begin(in, "npz");
    tree_begin(in);
    int rc = 0;
    if (tree_open(&tree, (struct str){"", 0}, &root)) {
        for (size_t i = 0; i < zip->n_entries && rc == 0; i++)
            rc = npz_entry_show(in, zip, &zip->entries[i], &tree, err);
        tree_close(&tree);
    }
    end(in);
    return rc;
}

/* ---- which of them ---- */

static int zip_show(const struct inspection *in, bool is_numpy, struct err *err)
{
    struct zip zip;
    int rc = zip_read(&zip, in->path, in->fd, in->file_bytes, err);
    if (rc == 0)
        rc = is_numpy ? npz_show(in, &zip, err) : torch_show(in, &zip, err);
    zip_release(&zip);
    return rc;
}

static int show(const struct inspection *in, struct err *err)
{
    char bytes[TENSOR_HEAD_BYTES];
    struct str head = {bytes, (size_t)MIN(in->file_bytes, (uint64_t)sizeof(bytes))};
    int rc = pread_exact(in->fd, bytes, head.len, 0, in->path, err);
    if (rc)
        return rc;
    enum tensor_kind kind = tensor_kind_of_head(in->path, head, in->file_bytes);
    switch (kind) {
    case TENSOR_TORCH:
        return zip_is_one(head) ? zip_show(in, false, err) : torch_show(in, NULL, err);
    case TENSOR_NPZ:
        return zip_show(in, true, err);
    case TENSOR_NPY:
        return npy_show(in, head, err);
    case TENSOR_SAFETENSORS:
        return safetensors_show(in, err);
    case TENSOR_NONE:
    case N_TENSOR_KINDS:
        break;
    }
    return fail(err, ERR_DATA,
                "%s is none of .pt, .safetensors, .npy and .npz (records of text: muster merge -n)",
                in->path);
}

int inspect_file(const char *path, bool is_json, struct buf *out, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_USAGE, "%s is no file that can be read from any place", path);
    if (st.st_size == 0)
        return fail(err, ERR_DATA, "%s is empty", path);
    struct inspection in = {path, fd, (uint64_t)st.st_size, out, is_json};
    return show(&in, err);
}
