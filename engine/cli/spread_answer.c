/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_answer.h"

#include "base/hex.h"
#include "base/json.h"
#include "cli/json_out.h"

void spread_answer_release(struct spread_answer *answer)
{
    buf_release(&answer->selves);
    buf_release(&answer->tops);
}

void spread_tops_add(struct buf *tops, const struct tracin_influence *at, size_t n)
{
    uint32_t count = (uint32_t)n;
    buf_add(tops, &count, sizeof(count));
    for (size_t i = 0; i < n; i++) {
        buf_add(tops, &at[i].train_index, sizeof(at[i].train_index));
        buf_add(tops, &at[i].value, sizeof(at[i].value));
    }
}

/* ---- as text ---- */

#define FIELD(name)                                 \
    {                                               \
#name, offsetof(struct spread_answer, name) \
    }
static const struct {
    const char *key;
    size_t offset;
} numbers[] = {FIELD(item), FIELD(worker), FIELD(life), FIELD(load_ms), FIELD(work_ms)},
  arrays[] = {FIELD(selves), FIELD(tops)};
#undef FIELD

void spread_answer_format(const struct spread_answer *answer, struct buf *out)
{
    struct json_out json = {.to = out};
    json_out_open(&json, '{');
    for (size_t i = 0; i < countof(numbers); i++)
        json_out_u64(&json, numbers[i].key,
                     *(const uint64_t *)(const void *)((const char *)answer + numbers[i].offset));
    for (size_t i = 0; i < countof(arrays); i++) {
        const char *field = (const char *)answer + arrays[i].offset;
        json_out_key(&json, arrays[i].key);
        buf_add_char(out, '"');
        buf_add_hex(out, buf_str((const struct buf *)(const void *)field));
        buf_add_char(out, '"');
    }
    json_out_close(&json, '}');
}

int spread_answer_parse(struct spread_answer *answer, struct str line, struct err *err)
{
    struct str value;
    bool is_one = json_is_object(line);
    for (size_t i = 0; i < countof(numbers); i++) {
        char *field = (char *)answer + numbers[i].offset;
        is_one = is_one && json_get(line, numbers[i].key, &value) &&
                 json_to_u64(value, (uint64_t *)(void *)field);
    }
    for (size_t i = 0; i < countof(arrays); i++) {
        struct buf *bytes = (struct buf *)(void *)((char *)answer + arrays[i].offset);
        buf_reset(bytes);
        is_one = is_one && json_get(line, arrays[i].key, &value) && value.len >= 2 &&
                 *value.at == '"' &&
                 buf_add_unhex(bytes, (struct str){value.at + 1, value.len - 2});
    }
    return is_one ? 0
                  : fail(err, ERR_DATA, "expected a worker's answer, found '%.*s'",
                         (int)MIN(line.len, (size_t)60), line.at);
}

/* ---- numbers of it ---- */

double spread_answer_self(const struct spread_answer *answer, size_t test)
{
    double self;
    ASSERT((test + 1) * sizeof(self) <= answer->selves.len);
    memcpy(&self, answer->selves.at + test * sizeof(self), sizeof(self));
    return self;
}

static bool bytes_take(struct spread_tops *tops, void *to, size_t len)
{
    if (tops->rest.len < len)
        return false;
    memcpy(to, tops->rest.at, len);
    tops->rest.at += len;
    tops->rest.len -= len;
    return true;
}

bool spread_tops_count(struct spread_tops *tops, size_t *n)
{
    uint32_t count;
    if (!bytes_take(tops, &count, sizeof(count)))
        return false;
    *n = count;
    return true;
}

bool spread_tops_next(struct spread_tops *tops, struct tracin_influence *next)
{
    return bytes_take(tops, &next->train_index, sizeof(next->train_index)) &&
           bytes_take(tops, &next->value, sizeof(next->value));
}
