/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/safetensors_index.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"

static bool map_find(struct str text, struct str *weight_map)
{
    return json_is_object(text) && json_get(text, "weight_map", weight_map) &&
           json_kind_of(*weight_map) == JSON_OBJECT;
}

bool safetensors_index_is_one(const char *path)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str weight_map;
    return str_ends_with(str_of(path), STR(".index.json")) &&
           file_read(path, SAFETENSORS_INDEX_BYTES_MAX, &text, NULL) == 0 &&
           map_find(buf_str(&text), &weight_map);
}

/* Some writers write the size as a float, such as 1.5e9. */
static bool total_parse(struct str value, uint64_t *out)
{
    double total;
    if (json_to_u64(value, out))
        return true;
    if (!json_to_double(value, &total) || total < 0 || total >= 0x1p63)
        return false;
    *out = (uint64_t)total;
    return true;
}

int safetensors_index_read(const char *path, struct buf *text, struct str *weight_map,
                           uint64_t *total_size, struct err *err)
{
    struct str metadata, total;
    int rc = file_read(path, SAFETENSORS_INDEX_BYTES_MAX, text, err);
    if (rc)
        return rc;
    *total_size = UINT64_MAX;
    if (!map_find(buf_str(text), weight_map))
        return fail(err, ERR_DATA, "%s: it has no weight_map", path);
    if (json_get(buf_str(text), "metadata", &metadata) && json_kind_of(metadata) == JSON_OBJECT &&
        json_get(metadata, "total_size", &total) && !total_parse(total, total_size))
        return fail(err, ERR_DATA, "%s: its total_size is no number of bytes", path);
    return 0;
}
