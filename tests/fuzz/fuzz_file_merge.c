/* SPDX-License-Identifier: Apache-2.0
 *
 * Two files of any bytes, parted by 0xFF, in any format: they are merged, or refused with a
 * sentence and nothing put in place. What was merged has as many records as both had, and merged
 * again is the same.
 *
 *   byte 0   format, --union, --id, --check
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "data/container.h"
#include "data/file_merge/file_merge.h"
#include "fuzz.h"

static void content_read(const char *path, struct buf *out)
{
    struct err err = {0};
    if (file_read(path, 64 << 20, out, &err))
        BUG("%s", err.text);
}

static void check_again(const struct file_merge_opts *opts, const char *out,
                        const struct file_merge_stats *stats)
{
    cleanup_free char *again = xasprintf("%s/again", fuzz_folder());
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
    struct file_merge_opts other = *opts;
    struct file_merge_stats found = {0};
    struct err err = {0};
    other.expect = stats->n_records;
    unlink(again);
    content_read(out, &first);
    if (stats->format == FORMAT_JSON)
        ASSERT(json_is_value(buf_str(&first)));
    if (stats->is_metadata || fuzz_has_mark(buf_str(&first)))
        return;
    /* Records of control characters may begin as a container does, once they stand first. */
    struct str head = {first.at, MIN(first.len, (size_t)CONTAINER_HEAD_BYTES)};
    if (container_refuse(out, head, false, NULL) != 0)
        return;
    /* Lines are looked at one by one where there are CRs, else only the last one of a file. */
    if (!opts->is_checked && memchr(first.at, '\r', first.len))
        return;
    if (file_merge_write(&other, &out, 1, again, &found, &err))
        BUG("what was merged is refused: %s", err.text);
    content_read(again, &second);
    ASSERT(str_equal(buf_str(&first), buf_str(&second)));
}

int fuzz_target(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "b"};
    struct str input = {(const char *)data, size};
    unsigned choice = fuzz_choice(&input);
    cleanup_free char *out = xasprintf("%s/out", fuzz_folder());
    const struct file_merge_opts opts = {
        .format = (enum record_format)(FORMAT_LINES + choice % 5),
        .out_format =
            (enum out_format[]){OUT_LINES, OUT_JSONL, OUT_JSON, OUT_CSV, OUT_TSV}[choice % 5],
        .is_union = choice & 32,
        .id_field = choice & 64 ? "id" : NULL,
        .is_checked = choice & 128,
        .expect = UINT64_MAX,
    };
    const char *split = size > 1 ? memchr(input.at, 0xff, input.len) : NULL;
    size_t len = split ? (size_t)(split - input.at) : input.len;
    const struct str texts[] = {
        {input.at, len}, {input.at + len + (split != NULL), input.len - len - (split != NULL)}};
    char *paths[2];
    for (size_t i = 0; i < 2; i++)
        paths[i] = xstrdup(fuzz_file(names[i], texts[i]));
    struct file_merge_stats stats = {0};
    struct err err = {0};
    unlink(out);
    int rc = file_merge_write(&opts, (const char *const *)paths, 2, out, &stats, &err);
    if (rc == 0)
        check_again(&opts, out, &stats);
    else if (path_exists(out) || !err.text[0])
        BUG("refused, with an output: %s", err.text);
    free(paths[0]);
    free(paths[1]);
    return 0;
}
