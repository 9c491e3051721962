/* SPDX-License-Identifier: Apache-2.0 */
#include "map/message.h"

#include "base/console_text.h"
#include "base/json.h"
#include "base/json_identity.h"
#include "base/json_rough.h"

enum {
    BEFORE_BYTES = 30, /* of the line, shown before the flaw */
    SHOWN_BYTES = 60
};

static const struct {
    const char *key;
    size_t offset;
} members[] = {
    {"ready", offsetof(struct message, ready)},     {"done", offsetof(struct message, done)},
    {"fail", offsetof(struct message, fail)},       {"oom", offsetof(struct message, oom)},
    {"loaded", offsetof(struct message, loaded)},   {"result", offsetof(struct message, result)},
    {"metrics", offsetof(struct message, metrics)}, {"error", offsetof(struct message, error)},
    {"retry", offsetof(struct message, retry)},     {"batch", offsetof(struct message, batch)},
};

static struct str *member_find(struct message *message, struct str key)
{
    for (size_t i = 0; i < countof(members); i++)
        if (json_key_equal(key, str_of(members[i].key)))
            return (struct str *)((char *)message + members[i].offset);
    return NULL;
}

static void member_take(struct message *message, struct str key, struct str value)
{
    struct str *member = member_find(message, key);
    if (!member) {
        message->unknown = message->unknown.at ? message->unknown : key;
    } else if (member->at) {
        message->flaw = "has a member twice";
        message->flaw_at = key;
        message->names_twice |= member == &message->done || member == &message->fail;
    } else {
        *member = value;
    }
}

/* False if the line is not a whole JSON object. */
static bool members_take(struct str line, struct message *message,
                         bool (*next)(struct json_members *, struct str *, struct str *))
{
    struct json_members walk = json_members(line);
    struct str key, value;
    *message = (struct message){0};
    while (next(&walk, &key, &value))
        member_take(message, key, value);
    return !walk.malformed;
}

enum message_form message_parse(struct str line, struct message *message)
{
    if (members_take(line, message, json_next))
        return message->flaw ? MESSAGE_FLAWED : MESSAGE_WHOLE;
    if (!members_take(line, message, json_rough_next))
        return MESSAGE_NONE;
    const char *flaw = json_flaw(line, &message->flaw_at);
    message->flaw = flaw ? flaw : "is no JSON";
    return MESSAGE_FLAWED;
}

bool message_item(const struct message *message, uint64_t *item)
{
    const struct str *number = message->done.at ? &message->done : &message->fail;
    bool has_one = !message->done.at != !message->fail.at;
    return has_one && !message->names_twice && json_to_whole(*number, item);
}

bool message_lacks_item(const struct message *message)
{
    bool has_item = message->done.at || message->fail.at;
    return !has_item && (message->result.at || message->error.at);
}

bool failed_line_parse(struct str line, const char *key, struct failed_line *out)
{
    struct json_members walk = json_members(line);
    struct str name, value;
    *out = (struct failed_line){0};
    while (json_rough_next(&walk, &name, &value))
        if (key && !out->key_value.at && json_key_equal(name, str_of(key)) && json_is_value(value))
            out->key_value = value;
    const char *flaw = json_flaw(line, &out->flaw_at);
    out->flaw = flaw ? flaw : "is no JSON";
    return !walk.malformed && (!key || out->key_value.at);
}

void message_flaw_add(const char *flaw, struct str flaw_at, struct str line, struct buf *out)
{
    const char *at = flaw_at.at, *end = line.at + line.len;
    buf_addf(out, "it %s", flaw);
    if (flaw_at.len == 0)
        return;
    const char *begin = at - line.at > BEFORE_BYTES ? at - BEFORE_BYTES : line.at;
    while (begin < at && (*begin & 0xc0) == 0x80) /* not within a UTF-8 character */
        begin++;
    struct str shown = {begin, (size_t)(end - begin)};
    shown.len = console_text_cut(shown, SHOWN_BYTES);
    buf_addf(out, ": %s", begin > line.at ? "..." : "");
    console_text_add(out, shown, false);
    buf_add_text(out, shown.at + shown.len < end ? "..." : "");
}
