/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of `muster doctor --ranks` say to each other, and what they print: the lines after the first byte, as one
 * of these. What a rank printed is judged and shown, without a control character, whatever it claims.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/doctor_print.h"
#include "cli/ranks_print.h"
#include "fuzz.h"
#include "mesh/order.h"

static void check_printable(const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->at[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            BUG("byte %u at %zu of %s", c, i, text->at);
    }
    ASSERT(utf8_is_valid(buf_str(text)));
}

/* Each of so many ranks prints all of the lines; a line that is no object of its own is passed over. */
static void check_ranks(uint32_t n_ranks, struct str text)
{
    static const char *const names[] = {"one", "two"};
    static const struct mesh_hosts hosts = {names, countof(names)};
    struct findings findings = {0};
    struct told told;
    cleanup_buf struct buf out = BUF_INIT;
    told_init(&told, n_ranks);
    for (uint32_t i = 0; i < n_ranks; i++)
        told_take(&told, i, text);
    mesh_judge(&told, &hosts, &findings);
    ranks_tables_add(&out, &told, &hosts);
    ranks_objects_add(&out, &told, &hosts);
    for (size_t i = 0; i < findings.len; i++)
        finding_add(&out, &findings.at[i], false);
    check_printable(&out);
    findings_release(&findings);
    told_release(&told);
}

/* Few ranks are shown one by one, more by their hosts. */
static void check_told(struct str text)
{
    check_ranks(4, text);
    check_ranks(14, text);
}

static void check_order(struct str line)
{
    struct order order, again;
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
    struct target target;
    if (!order_parse(line, &order))
        return;
    order_format(&order, &first);
    ASSERT(order_parse((struct str){first.at, first.len - 1}, &again));
    order_format(&again, &second);
    ASSERT(str_equal(buf_str(&first), buf_str(&second)));
    while (target_next(&order.targets, &target))
        ;
}

static void check_arrival(struct str line)
{
    struct arrival arrival, again;
    cleanup_buf struct buf text = BUF_INIT;
    if (!arrival_parse(line, "token", &arrival))
        return;
    arrival_format(&arrival, "token", &text);
    ASSERT(arrival_parse((struct str){text.at, text.len - 1}, "token", &again));
    ASSERT(again.rank == arrival.rank && again.port == arrival.port);
    ASSERT(str_equal(again.addresses, arrival.addresses));
}

int fuzz_target(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct str) = {check_told, check_order, check_arrival};
    struct str text = {(const char *)data, size};
    checks[fuzz_choice(&text) % countof(checks)](text);
    return 0;
}
