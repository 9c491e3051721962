/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as workers get them: CSV rows as objects, elements and lines as JSON for the channel,
 * weights, places, identities. What muster writes into a message libmuster reads back.
 *
 * The first byte chooses the format and whether records stay as they stand.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "data/source.h"
#include "fuzz.h"
#include "message.h"

enum {
    ITEMS_MAX = 64
};

static void expect_item(struct str line, uint64_t item, struct str plain, bool is_json)
{
    struct mw_message message;
    cleanup_buf struct buf text = BUF_INIT;
    if (!mw_message_read((struct muster_text){line.at, line.len}, &message))
        BUG("libmuster does not understand %.*s", (int)line.len, line.at);
    ASSERT(message.is_item && message.item.index == item);
    struct str data = {message.item.data.at, message.item.data.len};
    if (message.item.is_bytes || is_json)
        ASSERT(str_equal(data, is_json ? str_trim(plain) : plain));
    else
        ASSERT(json_to_text(data, &text) && str_equal(buf_str(&text), plain));
}

static void check_item(struct source *source, uint64_t item)
{
    cleanup_buf struct buf plain = BUF_INIT, json = BUF_INIT, line = BUF_INIT, place = BUF_INIT;
    const char *key = NULL;
    double weight;
    struct err err = {0};
    int rc = source_item(source, item, &plain, &err);
    int rc_json = source_item_json(source, item, &json, &key, &err);
    source_position(source, item, &place);
    ASSERT(place.len > 0);
    if (rc)
        ASSERT(rc_json && (err.code == ERR_DATA || err.code == ERR_RECORD));
    if (rc == 0)
        ASSERT(!memchr(buf_text(&plain), '\n', plain.len));
    if (rc_json == 0) {
        buf_addf(&line, "{\"item\":%lu,\"%s\":%s}", item, key, buf_text(&json));
        expect_item(buf_str(&line), item, buf_str(&plain), source_is_json(source));
    }
    if (source_weight(source, item, &weight, &err) == 0)
        ASSERT(weight - weight == 0);
}

static void check_items(struct source *source)
{
    uint64_t n_items = source_known(source), n_out = 0;
    cleanup_buf struct buf lines = BUF_INIT, item = BUF_INIT, identity = BUF_INIT;
    for (uint64_t i = 0; i < MIN(n_items, (uint64_t)ITEMS_MAX); i++)
        check_item(source, i);
    if (n_items > 0 && source_lines(source, 0, n_items, SIZE_MAX, &lines, &n_out, NULL) == 0) {
        struct str rest = buf_str(&lines), line;
        for (uint64_t i = 0; i < MIN(n_out, (uint64_t)ITEMS_MAX); i++) {
            buf_reset(&item);
            ASSERT(str_next(&rest, '\n', &line) && source_item(source, i, &item, NULL) == 0);
            ASSERT(str_equal(line, buf_str(&item)));
        }
    }
    source_identity(source, &identity);
    struct err err = {0};
    if (source_verify(source, buf_str(&identity), &err))
        BUG("%s", err.text);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    cleanup_fd int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct err err = {0};
    if (fd < 0 || write_all(fd, text.at, text.len, &err))
        return 0;
    char path[64];
    const char *paths[] = {path};
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const struct source_opts opts = {
        .paths = paths,
        .n_paths = 1,
        .format = (enum record_format)(FORMAT_LINES + choice % 5),
        .is_raw = choice / 5 % 4 == 3,
        .limit = choice / 20 % 4 == 3 ? 3 : 0,
        .weight_field = choice & 128 ? "w" : NULL,
    };
    struct source *source = NULL;
    int rc = source_open(&source, &opts, &err);
    while (rc == 0 && !source_is_complete(source))
        rc = source_scan(source, 1 << 16, &err);
    if (rc)
        ASSERT(err.code == ERR_DATA || err.code == ERR_USAGE);
    else
        check_items(source);
    source_close(source);
    return 0;
}
