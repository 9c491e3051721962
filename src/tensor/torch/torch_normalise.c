/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch_normalise.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

void torch_merge_note(const struct merge_state *merge, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    cleanup_free char *text = xvasprintf(fmt, args);
    va_end(args);
    merge->opts->note(merge->opts->context, text);
}

static void plain_parts(struct merge_state *merge)
{
    struct plain_stats stats = {0};
    for (size_t i = 0; i < merge->n_parts; i++)
        plain_part(merge, i, &stats);
    torch_merge_note(
        merge, "--plain: %lu scalar%s and %lu array%s of numpy in the files are plain now",
        stats.n_scalars, plural(stats.n_scalars), stats.n_arrays, plural(stats.n_arrays));
}

int torch_normalise_parts(struct merge_state *merge)
{
    if (merge->opts->is_plain)
        plain_parts(merge);
    return merge->opts->referred ? refer_parts(merge) : 0;
}

int torch_normalise_output(struct merge_state *merge, pickle_id root)
{
    int rc = merge->opts->is_plain ? plain_check(merge, root) : 0;
    if (rc == 0 && merge->opts->id_path)
        rc = ids_look(merge, root);
    if (rc == 0)
        rc = expect_check(merge);
    if (rc == 0 && merge->opts->is_compact)
        rc = compact_make(merge, root);
    return rc;
}
