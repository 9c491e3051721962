/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_bytes.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/json.h"

void buf_add_json_bytes(struct buf *out, const char *text)
{
    if (!text) {
        buf_add_text(out, "null");
        return;
    }
    if (utf8_is_valid(str_of(text))) {
        buf_add_json(out, str_of(text));
        return;
    }
    buf_add_text(out, "{\"bytes\":\"");
    buf_add_hex(out, str_of(text));
    buf_add_text(out, "\"}");
}

bool json_to_bytes(struct str value, struct buf *out)
{
    struct str bytes;
    cleanup_buf struct buf hex = BUF_INIT;
    if (json_kind_of(value) == JSON_STRING)
        return json_to_text(value, out);
    return json_get(value, "bytes", &bytes) && json_to_text(bytes, &hex) &&
           buf_add_unhex(out, buf_str(&hex));
}
