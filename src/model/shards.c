/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that an index of Hugging Face names.
 */
#include <stdlib.h>

#include "base/env_list.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "model/model_impl.h"
#include "tensor/safetensors_index.h"

enum {
    SHARD_NAME_MAX = 255
};

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* True if the name is that of a file in the index's own folder. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

/* Adds the files that an index names, each once, in order. */
static int weight_map_list(const char *path, struct str weight_map, struct env_list *out,
                           struct err *err)
{
    struct json_members walk = json_members(weight_map);
    struct str key, value;
    struct env_list all = {0};
    int rc = 0;
    while (rc == 0 && json_next(&walk, &key, &value)) {
        cleanup_buf struct buf name = BUF_INIT;
        if (value.len > SHARD_NAME_MAX || !json_to_text(value, &name) ||
            strlen(buf_text(&name)) != name.len || !is_plain_name(buf_text(&name)))
            rc = fail(err, ERR_DATA, "%s: it names a file outside of its folder: %.*s", path,
                      (int)MIN(value.len, (size_t)80), value.at);
        else if (all.len == 0 || strcmp(all.at[all.len - 1], buf_text(&name)) != 0)
            env_list_add(&all, buf_steal(&name));
    }
    if (rc == 0 && walk.malformed)
        rc = fail(err, ERR_DATA, "%s: its weight_map is malformed", path);
    if (all.len > 0)
        qsort(all.at, all.len, sizeof(*all.at), name_order);
    for (size_t i = 0; rc == 0 && i < all.len; i++)
        if (i == 0 || strcmp(all.at[i - 1], all.at[i]) != 0)
            env_list_add(out, xstrdup(all.at[i]));
    env_list_release(&all);
    if (rc == 0 && out->len > MODEL_SHARDS_MAX)
        rc = fail(err, ERR_DATA, "%s: it names %zu files, at most %d", path, out->len,
                  MODEL_SHARDS_MAX);
    return rc;
}

int model_shards_list(const char *index, struct env_list *out, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str weight_map;
    uint64_t total_size;
    int rc = safetensors_index_read(index, &text, &weight_map, &total_size, err);
    return rc ? rc : weight_map_list(index, weight_map, out, err);
}
