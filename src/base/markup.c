/* SPDX-License-Identifier: Apache-2.0 */
#include "base/markup.h"

void markup_text_add(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == '<' || c == '>' || c == '&' || c == '"' || c < ' ')
            buf_addf(out, "&#%u;", c < ' ' ? ' ' : c);
        else
            buf_add_char(out, (char)c);
    }
}
