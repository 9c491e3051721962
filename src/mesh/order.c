/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/order.h"

#include "base/parse.h"

static const struct str order_words[] = {
    [ORDER_PAIR] = {"pair", 4}, [ORDER_RING] = {"ring", 4}, [ORDER_END] = {"end", 3}};

void order_format(const struct order *order, struct buf *out)
{
    buf_add_str(out, order_words[order->kind]);
    buf_addf(out, " %u %u %u %u %u %u %u %s ", order->round, order->to, order->from, order->index,
             order->count, order->stream_ms, order->port, order->address[0] ? order->address : "-");
    buf_add_str(out, order->targets);
    buf_add_char(out, '\n');
}

static bool number_next(struct str *rest, uint64_t max, uint64_t *out)
{
    struct str word;
    return rest->len > 0 && str_next(rest, ' ', &word) && u64_parse(word, 0, max, out, NULL) == 0;
}

static bool numbers_next(struct str *rest, uint32_t *const *to, size_t n)
{
    uint64_t number = 0;
    for (size_t i = 0; i < n; i++) {
        if (!number_next(rest, UINT32_MAX, &number))
            return false;
        *to[i] = (uint32_t)number;
    }
    return true;
}

static bool port_next(struct str *rest, uint16_t *out)
{
    uint64_t number = 0;
    bool is_there = number_next(rest, UINT16_MAX, &number);
    *out = (uint16_t)number;
    return is_there;
}

bool order_parse(struct str line, struct order *out)
{
    struct str word = {0};
    *out = (struct order){0};
    if (line.len == 0 || !str_next(&line, ' ', &word))
        return false;
    size_t kind = 0;
    while (kind < countof(order_words) && !str_equal(word, order_words[kind]))
        kind++;
    out->kind = (enum order_kind)kind;
    uint32_t *const numbers[] = {&out->round, &out->to,    &out->from,
                                 &out->index, &out->count, &out->stream_ms};
    if (kind == countof(order_words) || !numbers_next(&line, numbers, countof(numbers)) ||
        !port_next(&line, &out->port) || line.len == 0 || !str_next(&line, ' ', &word) ||
        word.len >= sizeof(out->address))
        return false;
    memcpy(out->address, word.at, word.len);
    out->targets = line;
    bool is_ring = out->kind == ORDER_RING;
    return !is_ring || (out->count > 0 && out->index < out->count);
}

void arrival_format(const struct arrival *arrival, const char *token, struct buf *out)
{
    buf_addf(out, "muster-rank %s %u %u %u %u ", token, arrival->rank, arrival->world_size,
             arrival->group, arrival->port);
    buf_add_str(out, arrival->addresses);
    buf_add_char(out, '\n');
}

bool arrival_parse(struct str line, const char *token, struct arrival *out)
{
    struct str name = {0}, secret = {0};
    *out = (struct arrival){0};
    if (line.len == 0 || !str_next(&line, ' ', &name) || line.len == 0 ||
        !str_next(&line, ' ', &secret))
        return false;
    uint32_t *const numbers[] = {&out->rank, &out->world_size, &out->group};
    bool is_it = str_equal(name, STR("muster-rank")) && str_equal(secret, str_of(token)) &&
                 numbers_next(&line, numbers, countof(numbers)) && port_next(&line, &out->port);
    out->addresses = line;
    return is_it;
}
