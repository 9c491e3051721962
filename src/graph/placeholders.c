/* SPDX-License-Identifier: Apache-2.0
 *
 * Words with placeholders, of which the values are known when a job starts.
 */
#include "base/cleanup.h"
#include "graph/graph_impl.h"

static const char *value_of(const struct fill *fills, size_t n_fills, struct str name)
{
    for (size_t i = 0; i < n_fills; i++)
        if (str_equal(name, str_of(fills[i].name)))
            return fills[i].value;
    return NULL;
}

int placeholders_fill(const char *text, const struct fill *fills, size_t n_fills, struct buf *out,
                      struct err *err)
{
    for (const char *at = text; *at;) {
        size_t plain = strcspn(at, "{}");
        buf_add(out, at, plain);
        at += plain;
        if (!*at)
            break;
        if (at[0] == at[1]) { /* {{ or }} */
            buf_add_char(out, *at);
            at += 2;
            continue;
        }
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        struct str name = {at + 1, end ? (size_t)(end - at) - 1 : 0};
        const char *value = end ? value_of(fills, n_fills, name) : NULL;
        if (!value)
            return fail(err, ERR_USAGE, "'%s': no placeholder begins at '%.40s'", text, at);
        buf_add_text(out, value);
        at = end + 1;
    }
    return 0;
}
