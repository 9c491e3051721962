/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "data/result_merge_impl.h"

/* The decoded key, so that two spellings of one key are equal. */
static struct str key_text(struct str key, struct buf *text)
{
    buf_reset(text);
    return json_key_to_text(key, text) ? buf_str(text) : key;
}

static void keys_read(struct str object, struct name_index *keys)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value))
        (void)name_index_number(keys, key_text(key, &text));
}

static void members_add(struct str object, const struct name_index *but_not, bool *is_first,
                        struct buf *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value)) {
        if (but_not && name_index_find(but_not, key_text(key, &text)) != NAME_NONE)
            continue;
        buf_add_text(out, *is_first ? "{\"" : ",\"");
        buf_add_str(out, key);
        buf_add_text(out, "\":");
        buf_add_str(out, value);
        *is_first = false;
    }
}

int join_records(struct str input, struct str result, struct buf *out, struct err *err)
{
    cleanup_name_index struct name_index keys = NAME_INDEX_INIT;
    bool is_first = true;
    if (!json_is_value(input))
        return fail(err, ERR_DATA, "its input is not a JSON value");
    if (json_is_object(input) && json_is_object(result)) {
        keys_read(result, &keys);
        members_add(input, &keys, &is_first, out);
        members_add(result, NULL, &is_first, out);
        buf_add_text(out, is_first ? "{}" : "}");
        return 0;
    }
    buf_add_text(out, "{\"input\":");
    buf_add_str(out, input);
    buf_add_text(out, ",\"result\":");
    buf_add_str(out, result);
    buf_add_char(out, '}');
    return 0;
}
