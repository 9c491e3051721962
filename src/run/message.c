/* SPDX-License-Identifier: Apache-2.0 */
#include "run/message.h"

#include "base/json.h"

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

bool message_parse(struct str line, struct message *message)
{
    struct json_members walk = json_members(line);
    struct str key, value;
    *message = (struct message){0};
    while (json_next(&walk, &key, &value))
        for (size_t i = 0; i < countof(members); i++)
            if (str_equal(key, str_of(members[i].key)))
                *(struct str *)((char *)message + members[i].offset) = value;
    return !walk.malformed;
}
