/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "store/status.h"

enum {
    STATUS_MAX = 64 << 20
};

struct owner {
    json_t *root;
    struct worker_status *workers;
    struct host_status *hosts;
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static uint64_t count_of(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void workers_of(struct owner *owner, struct run_status *out)
{
    json_t *array = json_object_get(owner->root, "workers");
    out->n_workers = json_array_size(array);
    owner->workers = xcalloc(out->n_workers + 1, sizeof(*owner->workers));
    for (size_t i = 0; i < out->n_workers; i++) {
        const json_t *worker = json_array_get(array, i);
        owner->workers[i] = (struct worker_status){
            .label = text_of(worker, "label"),
            .state = text_of(worker, "state"),
            .done = count_of(worker, "done"),
            .rate = json_number_value(json_object_get(worker, "rate")),
            .mem_bytes = count_of(worker, "mem_bytes"),
            .last_word = text_of(worker, "last_word"),
        };
    }
    out->workers = owner->workers;
}

static void hosts_of(struct owner *owner, struct run_status *out)
{
    json_t *array = json_object_get(owner->root, "hosts");
    out->n_hosts = json_array_size(array);
    owner->hosts = xcalloc(out->n_hosts + 1, sizeof(*owner->hosts));
    for (size_t i = 0; i < out->n_hosts; i++) {
        const json_t *host = json_array_get(array, i);
        owner->hosts[i] = (struct host_status){
            .name = text_of(host, "name"),
            .state = text_of(host, "state"),
            .done = count_of(host, "done"),
            .rate = json_number_value(json_object_get(host, "rate")),
            .away_ms = count_of(host, "away_ms"),
            .lost_ms = count_of(host, "lost_ms"),
            .round_trip_ms = count_of(host, "round_trip_ms"),
            .sent_bytes = count_of(host, "sent_bytes"),
            .received_bytes = count_of(host, "received_bytes"),
            .n_devices = count_of(host, "devices"),
            .n_workers = count_of(host, "workers"),
            .why = text_of(host, "why"),
        };
    }
    out->hosts = owner->hosts;
}

static void fields_of(struct owner *owner, struct run_status *out)
{
    const json_t *root = owner->root, *eta = json_object_get(root, "eta_ms");
    *out = (struct run_status){
        .verb = text_of(root, "verb"),
        .state = text_of(root, "state"),
        .host = text_of(root, "host"),
        .message = text_of(root, "message"),
        .pid = (pid_t)count_of(root, "pid"),
        .items_total = count_of(root, "items"),
        .is_total_known = json_is_integer(json_object_get(root, "items")),
        .done = count_of(root, "done"),
        .aside = count_of(root, "aside"),
        .answered = count_of(root, "answered"),
        .running = count_of(root, "running"),
        .rate = json_number_value(json_object_get(root, "rate")),
        .eta_ms = json_is_integer(eta) ? (int64_t)json_integer_value(eta) : -1,
        .started_wall_ms = (int64_t)count_of(root, "started_ms"),
        .updated_wall_ms = (int64_t)count_of(root, "updated_ms"),
        .owner = owner,
    };
    workers_of(owner, out);
    hosts_of(owner, out);
}

int status_read(const char *dir, struct run_status *out, struct err *err)
{
    cleanup_free char *path = path_join(dir, "status.json");
    cleanup_buf struct buf text = BUF_INIT;
    int rc = plain_file_read(path, STATUS_MAX, &text, err);
    if (rc)
        return rc;
    json_error_t why;
    json_t *root = json_loadb(buf_text(&text), text.len, 0, &why);
    if (!json_is_object(root)) {
        json_decref(root);
        return fail(err, ERR_DATA, "%s: %s", path, root ? "expected an object" : why.text);
    }
    struct owner *owner = xcalloc(1, sizeof(*owner));
    owner->root = root;
    fields_of(owner, out);
    return 0;
}

void status_release(struct run_status *status)
{
    struct owner *owner = status->owner;
    if (owner) {
        free(owner->workers);
        free(owner->hosts);
        json_decref(owner->root);
        free(owner);
    }
    *status = (struct run_status){0};
}
