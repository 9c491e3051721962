/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "store/host_status.h"

enum {
    HOSTS_MAX_BYTES = 8 << 20
};

struct owner {
    json_t *root;
    struct host_status *hosts;
    struct order_answer *answers;
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static uint64_t count_of(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void hosts_of(struct owner *owner, struct hosts_status *out)
{
    const json_t *array = json_object_get(owner->root, "hosts");
    out->n_hosts = json_array_size(array);
    owner->hosts = xcalloc(out->n_hosts + 1, sizeof(*owner->hosts));
    for (size_t i = 0; i < out->n_hosts; i++) {
        const json_t *host = json_array_get(array, i);
        owner->hosts[i] = (struct host_status){.name = text_of(host, "name"),
                                               .state = text_of(host, "state"),
                                               .why = text_of(host, "why"),
                                               .n_devices = count_of(host, "devices"),
                                               .n_workers = count_of(host, "workers"),
                                               .items_done = count_of(host, "done"),
                                               .round_trip_ms = count_of(host, "round_trip_ms")};
    }
    out->hosts = owner->hosts;
}

static void answers_of(struct owner *owner, struct hosts_status *out)
{
    const json_t *array = json_object_get(owner->root, "answers");
    out->n_answers = json_array_size(array);
    owner->answers = xcalloc(out->n_answers + 1, sizeof(*owner->answers));
    for (size_t i = 0; i < out->n_answers; i++) {
        const json_t *answer = json_array_get(array, i);
        owner->answers[i] =
            (struct order_answer){text_of(answer, "order"), text_of(answer, "refused")};
    }
    out->answers = owner->answers;
}

int hosts_status_read(const char *dir, struct hosts_status *out, struct err *err)
{
    cleanup_free char *path = path_join(dir, "hosts.json");
    cleanup_buf struct buf text = BUF_INIT;
    json_error_t why;
    *out = (struct hosts_status){0};
    int rc = plain_file_read(path, HOSTS_MAX_BYTES, &text, err);
    if (rc)
        return rc;
    json_t *root = json_loadb(buf_text(&text), text.len, 0, &why);
    if (!json_is_object(root)) {
        json_decref(root);
        return fail(err, ERR_DATA, "%s: %s", path, root ? "expected an object" : why.text);
    }
    struct owner *owner = out->owner = xcalloc(1, sizeof(*owner));
    owner->root = root;
    hosts_of(owner, out);
    answers_of(owner, out);
    return 0;
}

void hosts_status_release(struct hosts_status *status)
{
    struct owner *owner = status->owner;
    if (owner) {
        free(owner->hosts);
        free(owner->answers);
        json_decref(owner->root);
        free(owner);
    }
    *status = (struct hosts_status){0};
}
