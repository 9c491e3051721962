/* SPDX-License-Identifier: Apache-2.0 */
#include "rule/path_pattern.h"

#include <fnmatch.h>

int path_pattern_parse(const char *text, struct path_pattern *out, struct err *err)
{
    struct str rest = str_of(text), key;
    out->len = 0;
    while (str_next(&rest, '.', &key)) {
        if (key.len == 0 || out->len == PATH_KEYS_MAX)
            return fail(err, ERR_USAGE, "'%s' is no path for --id", text);
        out->at[out->len++] = key;
    }
    return 0;
}

bool path_key_is_wildcard(struct str key)
{
    return memchr(key.at, '*', key.len) || memchr(key.at, '?', key.len) ||
           memchr(key.at, '[', key.len);
}

bool path_key_matches(struct str key, struct str name)
{
    if (!path_key_is_wildcard(key))
        return str_equal(key, name);
    if (str_equal(key, STR("*")))
        return true;
    cleanup_buf struct buf text = BUF_INIT, pattern = BUF_INIT;
    buf_add_str(&text, name);
    buf_add_str(&pattern, key);
    return fnmatch(buf_text(&pattern), buf_text(&text), 0) == 0;
}
