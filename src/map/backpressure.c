/* SPDX-License-Identifier: Apache-2.0
 *
 * While rows wait for a disk that stalls, workers' answers are left in their pipes: memory stays bounded, and the
 * workers wait in write(2), as for any slow reader. Since muster causes their silence then, the feeder's clock, which
 * their time limits use, stands still.
 */
#include "map/session_impl.h"

void session_backpressure(struct session *s, bool is_held)
{
    uint64_t now_ms = shell_now(s->shell);
    if (s->backpressure.is_held == is_held)
        return;
    s->backpressure.is_held = is_held;
    if (is_held)
        s->backpressure.since_ms = now_ms;
    else
        s->backpressure.total_ms += now_ms - s->backpressure.since_ms;
    for (uint32_t p = 0; p < s->n_seats; p++) {
        if (s->seats[p].worker)
            s->seats[p].worker->last_output_ms = now_ms;
    }
    node_hold(shell_node(s->shell), is_held);
    log_add(shell_log(s->shell), LOG_INFO, "map",
            is_held ? "the disk does not keep up: workers' answers wait until it has taken those "
                      "that are there"
                    : "the disk has taken them: answers are read again");
}

uint64_t feed_now(struct session *s)
{
    uint64_t now_ms = shell_now(s->shell);
    return (s->backpressure.is_held ? s->backpressure.since_ms : now_ms) - s->backpressure.total_ms;
}
