/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of the channel, on any bytes: the lines of a worker as muster takes them apart, with
 * metrics and --key; and the lines of muster, or of a person by hand, as libmuster reads them,
 * however the bytes are cut on the way.
 */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "channel.h"
#include "fuzz.h"
#include "map/key_index.h"
#include "map/ledger.h"
#include "map/message.h"
#include "message.h"

static void check_metrics(struct str object)
{
    struct metrics sums = {0}, twice = {0};
    cleanup_buf struct buf text = BUF_INIT, again = BUF_INIT;
    (void)metrics_add(&sums, object);
    metrics_format(&sums, &text);
    if (!json_is_object(buf_str(&text)))
        BUG("metrics become %s", buf_text(&text));
    if (!metrics_add(&twice, buf_str(&text)))
        BUG("of the metrics %s some are left out", buf_text(&text));
    metrics_format(&twice, &again);
    if (!str_equal(buf_str(&text), buf_str(&again)))
        BUG("metrics %s read back as %s", buf_text(&text), buf_text(&again));
    metrics_sum(&sums, &twice);
    buf_reset(&text);
    metrics_format(&sums, &text);
    ASSERT(json_is_object(buf_str(&text)));
}

/* What people read of it: a short text, whatever the line is. */
static void check_flaw(const char *flaw, struct str flaw_at, struct str line)
{
    cleanup_buf struct buf why = BUF_INIT;
    ASSERT(flaw);
    ASSERT(flaw_at.len == 0 ||
           (flaw_at.at >= line.at && flaw_at.at + flaw_at.len <= line.at + line.len));
    message_flaw_add(flaw, flaw_at, line, &why);
    ASSERT(why.len < 512 && utf8_is_valid(buf_str(&why)));
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check_from_worker(struct str line)
{
    enum {
        NS_PER_BYTE = 5000, /* with sanitizers and coverage; it is about 5 without */
        NS_LEAST = 50000000
    };
    struct message message;
    struct failed_line failed;
    uint64_t item = 0, began_ns = cpu_ns();
    enum message_form form = message_parse(line, &message);
    if (failed_line_parse(line, NULL, &failed) && !json_is_object(line))
        check_flaw(failed.flaw, failed.flaw_at, line);
    if (cpu_ns() - began_ns > NS_LEAST + NS_PER_BYTE * line.len)
        BUG("%zu bytes took %lu ns", line.len, cpu_ns() - began_ns);
    ASSERT(json_is_object(line) ? form != MESSAGE_NONE : form != MESSAGE_WHOLE);
    if (form == MESSAGE_FLAWED)
        check_flaw(message.flaw, message.flaw_at, line);
    bool has_item = message_item(&message, &item);
    ASSERT(!has_item || !message.done.at || !message.fail.at);
    if (form != MESSAGE_WHOLE)
        return;
    ASSERT(!message.result.at || json_is_value(message.result));
    if (message.metrics.at)
        check_metrics(message.metrics);
}

/* Every item that was noted is found once by its own line, and no more; a value that is in flight is noted once. */
static void check_keyed(struct str text)
{
    struct key_index *key_index = NULL;
    struct str rest = text, line, value;
    uint64_t n_lines = 0, n_found = 0, item;
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        size_t bytes = 0;
        uint64_t n_added = 0;
        bool has_key = line.len > 0 && json_get(line, "k", &value);
        enum key_end end = key_index_add(&key_index, "k", n_lines, line, &n_added, &bytes);
        ASSERT(has_key ? end != KEY_MISSING : end == (line.len > 0 ? KEY_MISSING : KEY_ALL));
        ASSERT(n_added == (has_key && end == KEY_ALL));
        ASSERT(bytes == (n_added ? line.len + 1 : 0));
        n_lines += n_added;
    }
    for (rest = text; rest.len > 0 && str_next(&rest, '\n', &line);)
        n_found += key_index_take(key_index, "k", line, &item) && item < n_lines;
    ASSERT(n_found == n_lines);
    for (rest = text; rest.len > 0 && str_next(&rest, '\n', &line);)
        ASSERT(!key_index_take(key_index, "k", line, &item));
    key_index_free(key_index);
}

static void check_from_muster(const struct muster_text *line, struct str expected, bool by_hand,
                              uint64_t number)
{
    struct mw_message message;
    if (!by_hand)
        ASSERT(str_equal((struct str){line->at, line->len}, expected));
    bool is_message = mw_message_read(*line, &message);
    if (by_hand)
        ASSERT(is_message && message.is_item && message.item.index == number);
    if (is_message && message.is_item && !message.item.is_bytes)
        ASSERT(mw_json_is_value(message.item.data));
}

/* At most one line more than there are newlines: by hand the last one may lack its own. */
static void take_lines(struct mw_channel *channel, struct str *expected_rest, uint64_t *n_lines)
{
    struct muster_text line;
    while (mw_channel_line(channel, &line)) {
        struct str expected = {0};
        str_next(expected_rest, '\n', &expected);
        check_from_muster(&line, expected, channel->by_hand, (*n_lines)++);
    }
    mw_channel_reclaim(channel);
}

static void check_channel(struct str text, bool by_hand, size_t step)
{
    int ends[2];
    char error[256] = "";
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    struct mw_channel channel = {.in_fd = ends[0], .out_fd = -1, .by_hand = by_hand};
    struct str rest = text, expected = text;
    uint64_t n_lines = 0, n_newlines = 0;
    for (size_t i = 0; i < text.len; i++)
        n_newlines += text.at[i] == '\n';
    while (!channel.has_ended) {
        size_t len = MIN(step, rest.len);
        ASSERT(write(ends[1], rest.at, len) == (ssize_t)len);
        rest.at += len;
        rest.len -= len;
        if (rest.len == 0 && ends[1] >= 0) {
            close(ends[1]);
            ends[1] = -1;
        }
        ASSERT(mw_channel_fill(&channel, -1, error, sizeof(error)) == 1);
        take_lines(&channel, &expected, &n_lines);
        if (ends[1] < 0 && !channel.has_ended)
            ASSERT(mw_channel_fill(&channel, -1, error, sizeof(error)) == 1);
        take_lines(&channel, &expected, &n_lines);
    }
    bool is_cut = text.len > 0 && text.at[text.len - 1] != '\n';
    ASSERT(n_lines == n_newlines + (by_hand && is_cut));
    ASSERT(mw_channel_is_midline(&channel) == (!by_hand && is_cut));
    mw_channel_close(&channel);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, MIN(size, (size_t)32768)}, line;
    unsigned choice = fuzz_choice(&text);
    if (text.len == 0)
        return 0;
    for (struct str rest = text; rest.len > 0 && str_next(&rest, '\n', &line);)
        if (str_trim(line).len > 0)
            check_from_worker(line);
    check_keyed(text);
    check_channel(text, choice & 1, text.len / (1 + choice / 2 % 8) + 1);
    return 0;
}
