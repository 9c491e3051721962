/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch_mend.h"

#include <stdarg.h>

#include "base/parse.h"

void graft_note(const struct graft *graft, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    graft->opts->note(graft->opts->context, text);
}

static void plain_parts(struct graft *graft)
{
    struct plain_stats stats = {0};
    for (size_t i = 0; i < graft->n_parts; i++)
        plain_part(graft, i, &stats);
    graft_note(graft, "--plain: %lu scalar%s and %lu array%s of numpy in the files are plain now",
               stats.n_scalars, plural(stats.n_scalars), stats.n_arrays, plural(stats.n_arrays));
}

int mend_parts(struct graft *graft)
{
    if (graft->opts->is_plain)
        plain_parts(graft);
    return graft->opts->referred ? refer_parts(graft) : 0;
}

int mend_made(struct graft *graft, pickle_id root)
{
    int rc = graft->opts->is_plain ? plain_check(graft, root) : 0;
    if (rc == 0 && graft->opts->id_path)
        rc = ids_look(graft, root);
    if (rc == 0)
        rc = expect_check(graft);
    if (rc == 0 && graft->opts->is_compact)
        rc = compact_make(graft, root);
    return rc;
}
