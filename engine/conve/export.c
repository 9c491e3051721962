/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/export.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "conve/state_list.h"
#include "tensor/bytes.h"
#include "tensor/zip/zip_out.h"

enum {
    COUNT_BYTES = 8, /* bytes of an int64 */
    CHUNK_FLOATS = 16384
};

static const double bn_eps_pykeen = 1e-5; /* torch's default; a state dict does not hold it */

int conve_check_pykeen(const struct conve *model, struct err *err)
{
    const struct conve_shape *shape = &model->shape;
    if (shape->layout != LAYOUT_HEIGHT)
        return fail(err, ERR_USAGE,
                    "%s has head and relation side by side, and PyKEEN's ConvE has them one below "
                    "the other: train with --layout height, or export without --pykeen",
                    model->path);
    if (!shape->lacks_norms && shape->bn_eps != bn_eps_pykeen)
        return fail(err, ERR_USAGE,
                    "%s has norms with eps %g, and those of PyKEEN's ConvE have %g: it would score "
                    "otherwise there",
                    model->path, shape->bn_eps, bn_eps_pykeen);
    return 0;
}

/* ---- numbers ---- */

typedef int bytes_sink(void *to, struct str bytes, struct err *err);

static size_t tensor_bytes(const struct state_tensor *tensor)
{
    return tensor->at ? tensor->dims.n_elements * sizeof(float) : COUNT_BYTES;
}

static int tensor_write(const struct state_tensor *tensor, bytes_sink *sink, void *to,
                        struct err *err)
{
    static const char no_batches[COUNT_BYTES];
    cleanup_buf struct buf chunk = BUF_INIT;
    int rc = 0;
    if (!tensor->at)
        return sink(to, (struct str){no_batches, sizeof(no_batches)}, err);
    for (size_t i = 0; rc == 0 && i < tensor->dims.n_elements; i++) {
        char bytes[4];
        uint32_t bits;
        memcpy(&bits, &tensor->at[i], sizeof(bits));
        le_put(bytes, bits, sizeof(bytes));
        buf_add(&chunk, bytes, sizeof(bytes));
        if (i % CHUNK_FLOATS == CHUNK_FLOATS - 1) {
            rc = sink(to, buf_str(&chunk), err);
            buf_reset(&chunk);
        }
    }
    return rc == 0 && chunk.len > 0 ? sink(to, buf_str(&chunk), err) : rc;
}

/* ---- facts ---- */

enum {
    FACTS_MAX = 5
};

struct fact {
    const char *key;
    char value[32];
};

static size_t facts_of(const struct conve *model, struct fact facts[FACTS_MAX])
{
    size_t n = 0;
    facts[n].key = CONVE_LAYOUT;
    snprintf(facts[n++].value, sizeof(facts->value), "%s", conve_layout_name(model->shape.layout));
    facts[n].key = CONVE_HEIGHT;
    snprintf(facts[n++].value, sizeof(facts->value), "%zu", model->shape.height);
    if (!model->shape.lacks_norms) {
        facts[n].key = CONVE_BN_EPS;
        snprintf(facts[n++].value, sizeof(facts->value), "%.17g", model->shape.bn_eps);
    }
    if (model->is_reciprocal) {
        facts[n].key = CONVE_RECIPROCAL;
        snprintf(facts[n++].value, sizeof(facts->value), "true");
    }
    if (model->learning_rate > 0) {
        facts[n].key = CONVE_LEARNING_RATE;
        snprintf(facts[n++].value, sizeof(facts->value), "%.17g", model->learning_rate);
    }
    return n;
}

/* ---- safetensors ---- */

static int to_outfile(void *to, struct str bytes, struct err *err)
{
    struct outfile *out = to;
    buf_add_str(&out->pending, bytes);
    return outfile_pump(out, err);
}

static void header_add(struct buf *header, const struct conve *model, const struct state_list *list)
{
    struct fact facts[FACTS_MAX];
    uint64_t at = 0;
    buf_add_text(header, "{\"__metadata__\":{\"format\":\"pt\"");
    for (size_t i = 0, n = facts_of(model, facts); i < n; i++)
        buf_addf(header, ",\"%s\":\"%s\"", facts[i].key, facts[i].value);
    buf_add_char(header, '}');
    for (size_t i = 0; i < list->n; i++) {
        const struct state_tensor *tensor = &list->at[i];
        uint64_t end = at + tensor_bytes(tensor);
        buf_addf(header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", tensor->name,
                 tensor->at ? "F32" : "I64");
        for (size_t d = 0; d < tensor->dims.n_dims; d++)
            buf_addf(header, "%s%zu", d ? "," : "", tensor->dims.at[d]);
        buf_addf(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
    buf_add_char(header, '}');
    while (header->len % 8)
        buf_add_char(header, ' ');
}

int conve_export_safetensors(const struct conve *model, struct outfile *out, struct err *err)
{
    cleanup_buf struct buf header = BUF_INIT;
    struct state_list list;
    char length[8];
    state_list_init(&list, model, true);
    header_add(&header, model, &list);
    le_put(length, header.len, sizeof(length));
    buf_add(&out->pending, length, sizeof(length));
    buf_add_str(&out->pending, buf_str(&header));
    int rc = outfile_pump(out, err);
    for (size_t i = 0; rc == 0 && i < list.n; i++)
        rc = tensor_write(&list.at[i], to_outfile, out, err);
    state_list_release(&list);
    return rc;
}

/* ---- pickle, protocol 2 ---- */

static void text_add(struct buf *out, const char *text)
{
    char length[4];
    le_put(length, strlen(text), sizeof(length));
    buf_add_char(out, 'X');
    buf_add(out, length, sizeof(length));
    buf_add_text(out, text);
}

static void integer_add(struct buf *out, uint64_t value)
{
    char bytes[8];
    le_put(bytes, value, sizeof(bytes));
    if (value <= UINT8_MAX) {
        buf_add_char(out, 'K');
        buf_add(out, bytes, 1);
    } else if (value <= INT32_MAX) {
        buf_add_char(out, 'J');
        buf_add(out, bytes, 4);
    } else {
        ASSERT(value <= INT64_MAX);
        buf_add(out, "\x8a\x08", 2); /* LONG1 of eight bytes */
        buf_add(out, bytes, sizeof(bytes));
    }
}

static void global_add(struct buf *out, const char *module, const char *name)
{
    buf_addf(out, "c%s\n%s\n", module, name);
}

static void ordered_dict_add(struct buf *out)
{
    global_add(out, "collections", "OrderedDict");
    buf_add_text(out, ")R"); /* the type is called without arguments */
}

/* Adds sizes and strides of a C-contiguous tensor, each as a tuple. */
static void dims_add(struct buf *out, const struct conve_param_dims *dims)
{
    buf_add_char(out, '(');
    for (size_t d = 0; d < dims->n_dims; d++)
        integer_add(out, dims->at[d]);
    buf_add_text(out, "t(");
    for (size_t d = 0; d < dims->n_dims; d++) {
        size_t stride = 1;
        for (size_t inner = d + 1; inner < dims->n_dims; inner++)
            stride *= dims->at[inner];
        integer_add(out, stride);
    }
    buf_add_char(out, 't');
}

/* Adds torch._utils._rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()). */
static void tensor_pickle(struct buf *out, const struct state_tensor *tensor, size_t index)
{
    char key[24];
    snprintf(key, sizeof(key), "%zu", index);
    global_add(out, "torch._utils", "_rebuild_tensor_v2");
    buf_add_text(out, "((");
    text_add(out, "storage");
    global_add(out, "torch", tensor->at ? "FloatStorage" : "LongStorage");
    text_add(out, key);
    text_add(out, "cpu");
    integer_add(out, tensor->dims.n_elements);
    buf_add_text(out, "tQ");
    integer_add(out, 0);
    dims_add(out, &tensor->dims);
    buf_add_char(out, '\x89'); /* requires_grad: False */
    ordered_dict_add(out);
    buf_add_text(out, "tR");
}

static void facts_pickle(struct buf *out, const struct conve *model)
{
    struct fact facts[FACTS_MAX];
    for (size_t i = 0, n = facts_of(model, facts); i < n; i++) {
        text_add(out, facts[i].key);
        text_add(out, facts[i].value);
    }
}

/*
 * Adds the model as state_dict() makes it. The attribute _metadata has a dictionary for each
 * module; torch reads the version of the module's format from it and ignores the rest. The facts
 * are in the dictionary of the model itself.
 */
static void state_pickle(struct buf *out, const struct conve *model, const struct state_list *list,
                         bool has_facts)
{
    ordered_dict_add(out);
    buf_add_char(out, '(');
    for (size_t i = 0; i < list->n; i++) {
        text_add(out, list->at[i].name);
        tensor_pickle(out, &list->at[i], i);
    }
    buf_add_char(out, 'u');
    if (!has_facts)
        return;
    buf_add_text(out, "}(");
    text_add(out, "_metadata");
    ordered_dict_add(out);
    buf_add_char(out, '(');
    text_add(out, "");
    buf_add_text(out, "}(");
    text_add(out, "version");
    integer_add(out, 1);
    facts_pickle(out, model);
    buf_add_text(out, "uuub");
}

/* Adds {'epoch': 0, 'model_state_dict': …, 'model_config': {…}}, as train_pytorch.py saves it. */
static void checkpoint_pickle(struct buf *out, const struct conve *model,
                              const struct state_list *list)
{
    const struct conve_shape *shape = &model->shape;
    const struct {
        const char *key;
        size_t value;
    } sizes[] = {
        {"num_entities", shape->n_entities},     {"num_relations", shape->n_relations},
        {"embedding_dim", conve_dim(shape)},     {"output_channels", shape->n_filters},
        {"kernel_height", shape->kernel_height}, {"kernel_width", shape->kernel_width},
        {"embedding_height", shape->height},     {"embedding_width", shape->width},
    };
    buf_add_text(out, "}(");
    text_add(out, "epoch");
    integer_add(out, 0);
    text_add(out, "model_state_dict");
    state_pickle(out, model, list, false);
    text_add(out, "model_config");
    buf_add_text(out, "}(");
    for (size_t i = 0; i < countof(sizes); i++) {
        text_add(out, sizes[i].key);
        integer_add(out, sizes[i].value);
    }
    facts_pickle(out, model);
    buf_add_text(out, "uu");
}

/* ---- the archive ---- */

struct record {
    struct zip_out *zip;
    const char *folder;
};

static int record_begin(const struct record *to, const char *name, size_t bytes,
                        struct zip_new_entry *entry, struct buf *path, struct err *err)
{
    buf_addf(path, "%s/%s", to->folder, name);
    *entry = (struct zip_new_entry){.name = buf_str(path), .bytes = bytes};
    return zip_out_begin(to->zip, entry, err);
}

static int record_put(const struct record *to, const char *name, struct str content,
                      struct err *err)
{
    cleanup_buf struct buf path = BUF_INIT;
    struct zip_new_entry entry;
    int rc = record_begin(to, name, content.len, &entry, &path, err);
    if (rc == 0)
        rc = zip_out_add(to->zip, content, err);
    return rc ? rc : zip_out_end(to->zip, &entry, err);
}

static int to_zip(void *to, struct str bytes, struct err *err)
{
    return zip_out_add(to, bytes, err);
}

static int storage_put(const struct record *to, const struct state_tensor *tensor, size_t index,
                       struct err *err)
{
    cleanup_buf struct buf path = BUF_INIT;
    struct zip_new_entry entry;
    char name[32];
    snprintf(name, sizeof(name), "data/%zu", index);
    int rc = record_begin(to, name, tensor_bytes(tensor), &entry, &path, err);
    if (rc == 0)
        rc = tensor_write(tensor, to_zip, to->zip, err);
    return rc ? rc : zip_out_end(to->zip, &entry, err);
}

int conve_export_torch(const struct conve *model, bool is_pykeen, const char *folder,
                       struct outfile *out, struct err *err)
{
    cleanup_buf struct buf pickle = BUF_INIT;
    struct zip_out zip = {.file = out};
    const struct record to = {&zip, folder};
    struct state_list list;
    state_list_init(&list, model, is_pykeen);
    buf_add(&pickle, "\x80\x02", 2); /* protocol 2 */
    if (is_pykeen)
        state_pickle(&pickle, model, &list, true);
    else
        checkpoint_pickle(&pickle, model, &list);
    buf_add_char(&pickle, '.');
    int rc = record_put(&to, "data.pkl", buf_str(&pickle), err);
    if (rc == 0)
        rc = record_put(&to, "byteorder", STR("little"), err);
    for (size_t i = 0; rc == 0 && i < list.n; i++)
        rc = storage_put(&to, &list.at[i], i, err);
    if (rc == 0)
        rc = record_put(&to, "version", STR("3\n"), err);
    if (rc == 0)
        rc = zip_out_finish(&zip, err);
    zip_out_release(&zip);
    state_list_release(&list);
    return rc;
}
