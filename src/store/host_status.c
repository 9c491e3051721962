/* SPDX-License-Identifier: Apache-2.0 */
#include "store/host_status.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"

static void text_add(struct buf *out, const char *before, const char *text)
{
    buf_add_text(out, before);
    if (text)
        buf_add_json(out, str_of(text));
    else
        buf_add_text(out, "null");
}

void hosts_status_format(const struct hosts_status *status, struct buf *out)
{
    buf_add_text(out, "{\"hosts\":[");
    for (size_t i = 0; i < status->n_hosts; i++) {
        const struct host_status *host = &status->hosts[i];
        text_add(out, i > 0 ? ",{\"name\":" : "{\"name\":", host->name);
        text_add(out, ",\"state\":", host->state);
        buf_addf(out, ",\"devices\":%lu,\"workers\":%lu,\"round_trip_ms\":%lu,\"done\":%lu",
                 host->n_devices, host->n_workers, host->round_trip_ms, host->items_done);
        text_add(out, ",\"why\":", host->why);
        buf_add_char(out, '}');
    }
    buf_add_text(out, "],\"answers\":[");
    for (size_t i = 0; i < status->n_answers; i++) {
        text_add(out, i > 0 ? ",{\"order\":" : "{\"order\":", status->answers[i].order);
        text_add(out, ",\"refused\":", status->answers[i].refused);
        buf_add_char(out, '}');
    }
    buf_add_text(out, "]}");
}

int hosts_status_write(const char *dir, const struct hosts_status *status, struct err *err)
{
    cleanup_free char *path = path_join(dir, "hosts.json");
    cleanup_buf struct buf text = BUF_INIT;
    hosts_status_format(status, &text);
    buf_add_char(&text, '\n');
    return file_replace_fast(path, buf_str(&text), err);
}

void hosts_status_drop(const char *dir)
{
    cleanup_free char *path = path_join(dir, "hosts.json");
    unlink(path);
}
