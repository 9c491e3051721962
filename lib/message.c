/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <stdlib.h>
#include <string.h>

static bool read_seed(struct muster_text value, uint64_t *seed)
{
    char hex[17] = {0}, *end;
    if (value.len < 3 || value.len > 18 || value.at[0] != '"')
        return false;
    memcpy(hex, value.at + 1, value.len - 2);
    *seed = strtoull(hex, &end, 16);
    return *end == '\0';
}

/* Decodes in place: the value is in the channel's buffer, which may be changed. */
static bool read_bytes(struct muster_text value, struct muster_item *item)
{
    if (value.len < 2 || value.at[0] != '"')
        return false;
    char *at = (char *)(uintptr_t)value.at + 1;
    size_t len = value.len - 2;
    item->is_bytes = mw_base64_decode(at, &len);
    item->data = (struct muster_text){at, len};
    return item->is_bytes;
}

static bool read_member(struct mw_message *message, struct muster_text key,
                        struct muster_text value)
{
    static const struct {
        const char *name;
        enum field {
            ITEM,
            SEED,
            ATTEMPT,
            DATA,
            DATA_B64,
            BATCH,
            STOP
        } field;
    } known[] = {{"item", ITEM},         {"seed", SEED},   {"attempt", ATTEMPT}, {"data", DATA},
                 {"data_b64", DATA_B64}, {"batch", BATCH}, {"stop", STOP}};
    struct muster_item *item = &message->item;
    size_t i = 0;
    uint64_t attempt = 0;
    while (i < sizeof(known) / sizeof(known[0]) &&
           !(strlen(known[i].name) == key.len && memcmp(known[i].name, key.at, key.len) == 0))
        i++;
    /* A member that this library does not know is for a newer one, and is ignored. */
    if (i == sizeof(known) / sizeof(known[0]))
        return true;
    switch (known[i].field) {
    case ITEM:
        message->is_item = true;
        return mw_json_u64(value, &item->index);
    case SEED:
        return read_seed(value, &item->seed);
    case ATTEMPT:
        if (!mw_json_u64(value, &attempt) || attempt > UINT32_MAX)
            return false;
        item->attempt = (uint32_t)attempt;
        return true;
    case DATA:
        item->data = value;
        return true;
    case DATA_B64:
        return read_bytes(value, item);
    case BATCH:
        return mw_json_u64(value, &message->batch);
    case STOP:
        message->is_stop = *value.at == 't';
        return true;
    }
    return false;
}

bool mw_message_read(struct muster_text line, struct mw_message *message)
{
    struct muster_text key, value;
    const char *at = line.at, *end = at + line.len;
    bool ok = false;
    *message = (struct mw_message){.item = {.attempt = 1}};
    while (at < end && *at == ' ')
        at++;
    if (at == end || *at != '{')
        return false;
    while ((at = mw_json_member(at, end, &key, &value, &ok)) != NULL)
        if (!read_member(message, key, value))
            return false;
    return ok && (!message->is_item || message->item.data.at);
}
