/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/json.h"

enum {
    PIECE_BYTES = 256 * 1024
};

int lines_open(struct lines *lines, const char *path, struct err *err)
{
    *lines = (struct lines){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    buf_reserve(&lines->pending, PIECE_BYTES);
    return lines->fd < 0 ? fail_errno_as(err, ERR_USAGE, "open %s", path) : 0;
}

void lines_close(struct lines *lines)
{
    if (lines->fd >= 0)
        close(lines->fd);
    buf_release(&lines->pending);
    *lines = (struct lines)LINES_INIT;
}

static int piece_read(struct lines *lines, struct err *err)
{
    buf_consume(&lines->pending, lines->at);
    lines->at = 0;
    buf_reserve(&lines->pending, PIECE_BYTES);
    ssize_t got;
    do
        got = read(lines->fd, lines->pending.at + lines->pending.len, PIECE_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return fail_errno_as(err, ERR_USAGE, "read %s", lines->path);
    lines->pending.len += (size_t)got;
    lines->pending.at[lines->pending.len] = '\0';
    lines->is_at_end = got == 0;
    return 0;
}

/* Returns the line without a byte-order mark and without the CR of CRLF. */
static struct str line_clean(struct lines *lines, struct str line)
{
    if (lines->number == 1) {
        struct str unmarked = str_unmarked(line);
        lines->has_mark = unmarked.len != line.len;
        line = unmarked;
    }
    if (line.len > 0 && line.at[line.len - 1] == '\r') {
        if (lines->n_crlf++ == 0)
            lines->first_crlf = lines->number;
        line.len--;
    }
    return line;
}

static int too_long(const struct lines *lines, struct err *err)
{
    return fail(err, ERR_DATA,
                "%s: line %lu: more than %d bytes: is this a file of triples or names?",
                lines->path, (unsigned long)lines->number, LINE_BYTES_MAX);
}

int lines_next(struct lines *lines, struct str *line, struct err *err)
{
    size_t searched = 0;
    const char *end = NULL;
    for (;;) {
        struct str rest = {lines->pending.at + lines->at, lines->pending.len - lines->at};
        end = rest.len > searched ? memchr(rest.at + searched, '\n', rest.len - searched) : NULL;
        if (end || lines->is_at_end || rest.len > LINE_BYTES_MAX)
            break;
        searched = rest.len;
        int rc = piece_read(lines, err);
        if (rc)
            return rc;
    }
    struct str rest = {lines->pending.at + lines->at, lines->pending.len - lines->at};
    if (!end && rest.len == 0)
        return 0;
    size_t len = end ? (size_t)(end - rest.at) : rest.len;
    lines->at += len + (end ? 1 : 0);
    lines->number++;
    if (len > LINE_BYTES_MAX)
        return too_long(lines, err);
    *line = line_clean(lines, (struct str){rest.at, len});
    if (!utf8_is_valid(*line))
        return fail(err, ERR_DATA, "%s: line %lu is not UTF-8 (iconv -t UTF-8 converts it)",
                    lines->path, (unsigned long)lines->number);
    return 1;
}

void lines_notes(const struct lines *lines, struct flaws *flaws)
{
    flaws->of[FLAW_CRLF] = (struct flaw_count){.count = lines->n_crlf, .line = lines->first_crlf};
    if (lines->has_mark)
        flaw_add(flaws, FLAW_MARK, 1, STR(""));
}

size_t line_fields(struct str line, struct str fields[FIELDS_MAX])
{
    struct str field;
    size_t n_fields = 0;
    while (str_next(&line, '\t', &field)) {
        if (n_fields < FIELDS_MAX)
            fields[n_fields] = field;
        n_fields++;
    }
    return n_fields;
}
