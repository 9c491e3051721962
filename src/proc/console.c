/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines wait in one queue, in the order they came, each for at most fold_ms, so that equal lines of
 * other workers can join them. The order of each stream is kept: a line may join only a queued line
 * that is behind the latest line of its own stream.
 *
 * Memory is bounded: LINE_MAX_BYTES for each stream, WAITING_MAX lines in the queue. The bytes of a
 * stream above lines_per_s are only searched for line ends: the last line is kept, all are counted.
 */
#include "proc/logfile.h"

#include "base/console_text.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    LINE_MAX_BYTES = 4096,
    WAITING_MAX = 1024,
    PREFIX_MAX_BYTES = 64,
    WINDOW_MS = 1000
};
enum {
    LINES_PER_S_DEFAULT = 20,
    FOLD_DEFAULT_MS = 200
};

struct stream {
    uint32_t id;
    char prefix[PREFIX_MAX_BYTES];
    char *file;
    struct buf partial; /* raw bytes of the unfinished line, at most LINE_MAX_BYTES */
    bool cut;           /* more came than fits */
    bool at_cr;         /* a \r ended what is in partial: the next visible byte overwrites it */
    bool overwritten;   /* at least once in this line */
    struct buf last;
    uint64_t window_ms;    /* when the current second began */
    unsigned window_lines; /* shown in the current second */
    uint64_t hidden;       /* lines not shown since the last note about them */
    uint64_t latest;       /* number of the queued line that it added or joined last */
};

struct member {
    uint32_t stream;
    char prefix[PREFIX_MAX_BYTES];
};

struct waiting {
    struct buf text;
    uint64_t number; /* ascending, from 1 */
    uint64_t since_ms;
    bool is_note; /* muster's own line; no line joins it */
    struct member *members;
    size_t n_members;
};

struct console {
    struct console_opts opts;
    struct stream **streams;
    size_t n_streams;
    struct waiting *queue;
    size_t n_queue;
    uint64_t next_number;
    struct buf scratch, out;
};

struct console *console_new(const struct console_opts *opts)
{
    struct console *console = xcalloc(1, sizeof(*console));
    console->opts = *opts;
    if (console->opts.lines_per_s == 0)
        console->opts.lines_per_s = LINES_PER_S_DEFAULT;
    if (console->opts.fold_ms == 0)
        console->opts.fold_ms = FOLD_DEFAULT_MS;
    console->queue = xcalloc(WAITING_MAX, sizeof(*console->queue));
    console->next_number = 1;
    return console;
}

static void waiting_release(struct waiting *waiting)
{
    buf_release(&waiting->text);
    free(waiting->members);
}

static void stream_free(struct stream *stream)
{
    buf_release(&stream->partial);
    buf_release(&stream->last);
    free(stream->file);
    free(stream);
}

void console_free(struct console *console)
{
    if (!console)
        return;
    for (size_t i = 0; i < console->n_streams; i++)
        stream_free(console->streams[i]);
    for (size_t i = 0; i < console->n_queue; i++)
        waiting_release(&console->queue[i]);
    free(console->streams);
    free(console->queue);
    buf_release(&console->scratch);
    buf_release(&console->out);
    free(console);
}

static struct stream *stream_find(const struct console *console, uint32_t id)
{
    for (size_t i = 0; i < console->n_streams; i++)
        if (console->streams[i]->id == id)
            return console->streams[i];
    return NULL;
}

static struct stream *stream_get(struct console *console, uint32_t id)
{
    struct stream *stream = stream_find(console, id);
    if (stream)
        return stream;
    console->streams =
        xrealloc(console->streams, (console->n_streams + 1) * sizeof(*console->streams));
    stream = xcalloc(1, sizeof(*stream));
    stream->id = id;
    console->streams[console->n_streams++] = stream;
    return stream;
}

static void member_add(struct waiting *waiting, const struct stream *stream)
{
    waiting->members =
        xrealloc(waiting->members, (waiting->n_members + 1) * sizeof(*waiting->members));
    struct member *member = &waiting->members[waiting->n_members++];
    member->stream = stream->id;
    memcpy(member->prefix, stream->prefix, sizeof(member->prefix));
}

/* The first equal line in the queue behind this stream's own latest one; NULL if there is none. */
static struct waiting *like_find(struct console *console, const struct stream *stream,
                                 struct str text)
{
    struct waiting *found = NULL;
    for (size_t i = console->n_queue; i-- > 0 && console->queue[i].number > stream->latest;)
        if (!console->queue[i].is_note && str_equal(buf_str(&console->queue[i].text), text))
            found = &console->queue[i];
    return found;
}

static struct waiting *queue_add(struct console *console, struct str text, uint64_t now_ms)
{
    struct waiting *waiting = &console->queue[console->n_queue++];
    *waiting = (struct waiting){.number = console->next_number++, .since_ms = now_ms};
    buf_add_str(&waiting->text, text);
    return waiting;
}

/* Queues a complete raw line of a stream, or counts it if the queue is full. */
static void line_queue(struct console *console, struct stream *stream, struct str line, bool cut,
                       uint64_t now_ms)
{
    struct buf *text = &console->scratch;
    buf_reset(text);
    console_text_add(text, line, !console->opts.plain);
    if (cut)
        buf_add_str(text, STR("…"));
    struct waiting *waiting = like_find(console, stream, buf_str(text));
    if (!waiting && console->n_queue == WAITING_MAX) {
        stream->hidden++;
        return;
    }
    if (!waiting)
        waiting = queue_add(console, buf_str(text), now_ms);
    member_add(waiting, stream);
    stream->latest = waiting->number;
    stream->window_lines++;
}

static void last_set(struct stream *stream, struct str line)
{
    buf_reset(&stream->last);
    line.len = console_text_cut(line, LINE_MAX_BYTES);
    console_text_add(&stream->last, line, false);
}

static void partial_reset(struct stream *stream)
{
    buf_reset(&stream->partial);
    stream->cut = stream->at_cr = stream->overwritten = false;
}

static void partial_append(struct stream *stream, struct str piece)
{
    size_t room = LINE_MAX_BYTES - stream->partial.len;
    size_t len = stream->cut ? 0 : console_text_cut(piece, room);
    stream->cut = stream->cut || len < piece.len;
    buf_add(&stream->partial, piece.at, len);
}

/* Keeps the unfinished line, which the next bytes overwrite, as the last state of the bar. */
static void partial_overwrite(struct stream *stream)
{
    if (stream->partial.len > 0)
        last_set(stream, buf_str(&stream->partial));
    partial_reset(stream);
    stream->overwritten = true;
}

/*
 * Adds a piece without a newline to the unfinished line. Only the last `\r` followed by text
 * counts.
 */
static void partial_add(struct stream *stream, struct str piece)
{
    size_t shown = piece.len;
    while (shown > 0 && piece.at[shown - 1] == '\r')
        shown--;
    bool ends_in_cr = shown < piece.len;
    if (shown > 0 && stream->at_cr)
        partial_overwrite(stream);
    const char *cr = shown > 0 ? memrchr(piece.at, '\r', shown) : NULL;
    if (cr) {
        struct str before = {piece.at, (size_t)(cr - piece.at)};
        while (before.len > 0 && before.at[before.len - 1] == '\r')
            before.len--;
        const char *earlier = before.len > 0 ? memrchr(before.at, '\r', before.len) : NULL;
        if (earlier) {
            before = (struct str){earlier + 1, before.len - (size_t)(earlier + 1 - before.at)};
            partial_reset(stream);
        }
        partial_append(stream, before);
        partial_overwrite(stream);
        shown -= (size_t)(cr + 1 - piece.at);
        piece.at = cr + 1;
    }
    partial_append(stream, (struct str){piece.at, shown});
    stream->at_cr = stream->at_cr || ends_in_cr;
}

static void partial_finish(struct console *console, struct stream *stream, uint64_t now_ms)
{
    struct str line = buf_str(&stream->partial);
    /* A bar that wiped itself leaves a line of blanks, or none: nothing to show. */
    bool wiped = stream->overwritten && str_trim(line).len == 0;
    if (!wiped) {
        line_queue(console, stream, line, stream->cut, now_ms);
        last_set(stream, line);
    }
    partial_reset(stream);
}

static void note_queue(struct console *console, struct stream *stream, uint64_t now_ms)
{
    char count[32];
    if (console->n_queue == WAITING_MAX)
        return;
    count_format(count, stream->hidden);
    buf_reset(&console->scratch);
    buf_addf(&console->scratch, "%s line%s more%s%s", count, stream->hidden == 1 ? "" : "s",
             stream->file ? " in " : "", stream->file ? stream->file : "");
    struct waiting *waiting = queue_add(console, buf_str(&console->scratch), now_ms);
    waiting->is_note = true;
    member_add(waiting, stream);
    stream->latest = waiting->number;
    stream->hidden = 0;
}

static void window_roll(struct console *console, struct stream *stream, uint64_t now_ms, bool force)
{
    if (!force && now_ms - stream->window_ms < WINDOW_MS)
        return;
    if (stream->hidden > 0)
        note_queue(console, stream, now_ms);
    stream->window_ms = now_ms;
    stream->window_lines = 0;
}

/*
 * For a stream above lines_per_s: counts all lines of `bytes` and keeps only the last one. Returns
 * the bytes after it.
 */
static struct str lines_hide(struct stream *stream, struct str bytes)
{
    const char *end = memrchr(bytes.at, '\n', bytes.len);
    if (!end)
        return bytes;
    struct str all = {bytes.at, (size_t)(end - bytes.at)};
    const char *before = all.len > 0 ? memrchr(all.at, '\n', all.len) : NULL;
    stream->hidden += 1 + (before ? count_newlines(all) : 0);
    if (before)
        partial_reset(stream);
    const char *begin = before ? before + 1 : all.at;
    partial_add(stream, (struct str){begin, (size_t)(end - begin)});
    last_set(stream, buf_str(&stream->partial));
    partial_reset(stream);
    return (struct str){end + 1, bytes.len - all.len - 1};
}

void console_add(struct console *console, uint32_t id, const char *prefix, struct str bytes,
                 uint64_t now_ms)
{
    struct stream *stream = stream_get(console, id);
    snprintf(stream->prefix, sizeof(stream->prefix), "%s", prefix);
    window_roll(console, stream, now_ms, false);
    while (bytes.len > 0 && stream->window_lines < console->opts.lines_per_s) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        if (!end)
            break;
        size_t len = (size_t)(end - bytes.at);
        partial_add(stream, (struct str){bytes.at, len});
        partial_finish(console, stream, now_ms);
        bytes.at += len + 1;
        bytes.len -= len + 1;
        if (console->n_queue == WAITING_MAX)
            break;
    }
    if (bytes.len > 0)
        bytes = lines_hide(stream, bytes);
    if (bytes.len > 0)
        partial_add(stream, bytes);
}

void console_name_file(struct console *console, uint32_t id, const char *file)
{
    struct stream *stream = stream_get(console, id);
    free(stream->file);
    stream->file = xstrdup(file);
}

static void stream_settle(struct console *console, struct stream *stream, uint64_t now_ms)
{
    if (stream->partial.len > 0)
        partial_finish(console, stream, now_ms);
    window_roll(console, stream, now_ms, true);
}

void console_end(struct console *console, uint32_t id, uint64_t now_ms)
{
    for (size_t i = 0; i < console->n_streams; i++) {
        if (console->streams[i]->id != id)
            continue;
        stream_settle(console, console->streams[i], now_ms);
        stream_free(console->streams[i]);
        console->streams[i] = console->streams[--console->n_streams];
        return;
    }
}

/* Takes "[gpu 3] " apart into its word and number. */
static bool prefix_parse(const char *prefix, struct str *word, uint32_t *number)
{
    struct str text = str_trim(str_of(prefix));
    if (text.len < 4 || text.at[0] != '[' || text.at[text.len - 1] != ']')
        return false;
    const char *space = memrchr(text.at, ' ', text.len);
    if (!space)
        return false;
    uint64_t value;
    struct str digits = {space + 1, (size_t)(text.at + text.len - 1 - (space + 1))};
    *word = (struct str){text.at + 1, (size_t)(space - text.at - 1)};
    if (u64_parse(digits, 0, UINT32_MAX, &value, NULL) != 0)
        return false;
    *number = (uint32_t)value;
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* "[gpu 0-7] " if all prefixes are of that form, "[8 workers] " if not. */
static void folded_prefix_add(struct buf *out, const struct waiting *waiting)
{
    uint32_t *numbers = xcalloc(waiting->n_members, sizeof(*numbers));
    struct str first = {0}, word;
    bool alike = true;
    for (size_t i = 0; alike && i < waiting->n_members; i++) {
        alike = prefix_parse(waiting->members[i].prefix, &word, &numbers[i]);
        first = i == 0 ? word : first;
        alike = alike && str_equal(first, word);
    }
    if (alike) {
        qsort(numbers, waiting->n_members, sizeof(*numbers), by_number);
        size_t n = 1;
        for (size_t i = 1; i < waiting->n_members; i++)
            if (numbers[i] != numbers[n - 1])
                numbers[n++] = numbers[i];
        buf_add_char(out, '[');
        buf_add_str(out, first);
        buf_add_char(out, ' ');
        idlist_format(out, numbers, n);
        buf_add_text(out, "] ");
    } else {
        buf_addf(out, "[%zu workers] ", waiting->n_members);
    }
    free(numbers);
}

static void line_emit(struct buf *out, const struct waiting *waiting)
{
    size_t begin = out->len;
    if (waiting->n_members == 1)
        buf_add_text(out, waiting->members[0].prefix);
    else
        folded_prefix_add(out, waiting);
    buf_add_str(out, buf_str(&waiting->text));
    if (waiting->n_members > 1)
        buf_addf(out, " (x%zu)", waiting->n_members);
    while (out->len > begin && out->at[out->len - 1] == ' ')
        out->len--;
    buf_add_char(out, '\n');
}

/* With a single stream there are no equal lines to wait for. */
static uint64_t wait_ms(const struct console *console)
{
    return console->n_streams > 1 ? console->opts.fold_ms : 0;
}

static void queue_emit(struct console *console, uint64_t now_ms, bool all)
{
    size_t due = 0;
    while (due < console->n_queue &&
           (all || now_ms - console->queue[due].since_ms >= wait_ms(console))) {
        line_emit(&console->out, &console->queue[due]);
        waiting_release(&console->queue[due++]);
    }
    console->n_queue -= due;
    memmove(console->queue, console->queue + due, console->n_queue * sizeof(*console->queue));
}

static uint64_t next_due_ms(const struct console *console, uint64_t now_ms)
{
    uint64_t due = UINT64_MAX;
    if (console->n_queue > 0)
        due = console->queue[0].since_ms + wait_ms(console);
    for (size_t i = 0; i < console->n_streams; i++)
        if (console->streams[i]->hidden > 0)
            due = MIN(due, console->streams[i]->window_ms + WINDOW_MS);
    return due == UINT64_MAX ? due : due > now_ms ? due - now_ms : 0;
}

uint64_t console_flush(struct console *console, uint64_t now_ms, bool all)
{
    if (all)
        queue_emit(console, now_ms, true); /* makes room for what settling adds */
    for (size_t i = 0; i < console->n_streams; i++)
        if (all)
            stream_settle(console, console->streams[i], now_ms);
        else if (console->streams[i]->hidden > 0)
            window_roll(console, console->streams[i], now_ms, false);
    queue_emit(console, now_ms, all);
    if (console->out.len > 0)
        console->opts.emit(console->opts.context, buf_str(&console->out));
    buf_reset(&console->out);
    return next_due_ms(console, now_ms);
}

const char *console_last(const struct console *console, uint32_t id)
{
    const struct stream *stream = stream_find(console, id);
    return stream ? buf_text(&stream->last) : "";
}
