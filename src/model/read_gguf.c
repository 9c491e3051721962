/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/env_list.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "model/model_impl.h"
#include "tensor/gguf.h"

/* The keys of the shape. In the file they follow the architecture's name and a dot. */
static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    {"embedding_length", offsetof(struct model_config, hidden)},
    {"block_count", offsetof(struct model_config, n_layers)},
    {"attention.head_count", offsetof(struct model_config, n_heads)},
    {"attention.head_count_kv", offsetof(struct model_config, n_kv_heads)},
    {"attention.key_length", offsetof(struct model_config, head_dim)},
    {"vocab_size", offsetof(struct model_config, vocab)},
    {"feed_forward_length", offsetof(struct model_config, intermediate)},
    {"context_length", offsetof(struct model_config, context_max)},
    {"attention.sliding_window", offsetof(struct model_config, window)},
    {"attention.sliding_window_pattern", offsetof(struct model_config, window_period)},
};

/* Where layers have different numbers of heads, the largest one counts. */
static void config_take(struct model_config *config, const struct gguf *file)
{
    const struct gguf_value *kind = gguf_get(file, STR("general.architecture"));
    *config = (struct model_config){.element_bytes = 2};
    snprintf(config->kind, sizeof(config->kind), "%s", kind ? kind->text : "");
    for (size_t i = 0; i < countof(numbers); i++) {
        cleanup_buf struct buf key = BUF_INIT;
        buf_addf(&key, "%s.%s", config->kind, numbers[i].key);
        const struct gguf_value *value = gguf_get(file, buf_str(&key));
        if (value && value->is_number && value->number <= MODEL_NUMBER_MAX)
            *(uint64_t *)(void *)((char *)config + numbers[i].offset) = value->number;
    }
    const struct gguf_value *tokens = gguf_get(file, STR("tokenizer.ggml.tokens"));
    if (config->vocab == 0 && tokens)
        config->vocab = tokens->n_values;
    model_config_complete(config);
    model_config_windows_set(config, config->kind, config->window_period, false);
}

/* The bits of an element. Elements of a block type have no whole number of bits. */
static unsigned bits_of(const struct gguf_tensor *tensor)
{
    return tensor->n_elements > 0 && tensor->bytes % tensor->n_elements == 0
               ? (unsigned)MIN(8 * tensor->bytes / tensor->n_elements, (uint64_t)64)
               : 0;
}

int model_gguf_read(struct model *model, const struct model_file *in, struct err *err)
{
    struct gguf file = {0};
    int rc = gguf_read(&file, in->path, in->fd, in->bytes, err);
    for (size_t i = 0; rc == 0 && i < file.n_tensors; i++) {
        const struct gguf_tensor *tensor = &file.tensors[i];
        const struct model_found found = {.name = name_index_get(&file.names, i),
                                          .dtype = str_of(tensor->type),
                                          .bits = bits_of(tensor),
                                          .n_elements = tensor->n_elements,
                                          .bytes = tensor->bytes};
        rc = model_tensor_add(model, in, &found, err);
    }
    if (rc == 0 && !model->has_config && gguf_get(&file, STR("general.architecture"))) {
        config_take(&model->config, &file);
        model->has_config = true;
    }
    gguf_release(&file);
    model->format = MODEL_GGUF;
    return rc;
}

/* ---- files that were split ---- */

enum {
    SUFFIX_BYTES = sizeof("-00001-of-00003.gguf") - 1
};

/* True if the name is that of one file of several; *n gets how many. */
static bool split_is_one(struct str path, uint64_t *n)
{
    if (path.len < SUFFIX_BYTES)
        return false;
    const char *at = path.at + path.len - SUFFIX_BYTES;
    uint64_t which;
    return at[0] == '-' && memcmp(at + 6, "-of-", 4) == 0 && memcmp(at + 15, ".gguf", 5) == 0 &&
           u64_parse((struct str){at + 1, 5}, 1, MODEL_SHARDS_MAX, &which, NULL) == 0 &&
           u64_parse((struct str){at + 10, 5}, 1, MODEL_SHARDS_MAX, n, NULL) == 0;
}

int model_gguf_shards_list(const char *path, struct env_list *out, struct err *err)
{
    struct str whole = str_of(path);
    uint64_t n = 0;
    if (!split_is_one(whole, &n))
        return 0;
    int stem_len = (int)(whole.len - SUFFIX_BYTES);
    for (uint64_t i = 1; i <= n; i++) {
        cleanup_free char *one = xasprintf("%.*s-%05lu-of-%05lu.gguf", stem_len, path, i, n);
        if (!path_exists(one))
            return fail(err, ERR_DATA, "%s is one of %lu files, and %s is not there", path, n, one);
        env_list_add(out, steal_ptr(&one));
    }
    return 0;
}
