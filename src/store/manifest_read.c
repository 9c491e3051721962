/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "store/manifest.h"

enum {
    MANIFEST_MAX = 64 << 20
};

/* {"bytes": "<hex>"} back to a string that holds those bytes. NULL if it is something else. */
static json_t *bytes_decoded(const json_t *value)
{
    const char *hex = json_string_value(json_object_get(value, "bytes"));
    if (!hex || json_object_size(value) != 1)
        return NULL;
    cleanup_buf struct buf bytes = BUF_INIT;
    return buf_add_unhex(&bytes, str_of(hex)) ? json_stringn_nocheck(buf_text(&bytes), bytes.len)
                                              : NULL;
}

/* The text of a member, which lives as long as the tree does; NULL if it is absent or null. */
static const char *text_of(json_t *root, const char *key)
{
    json_t *value = json_object_get(root, key);
    json_t *decoded = json_is_object(value) ? bytes_decoded(value) : NULL;
    if (decoded) {
        json_object_set_new(root, key, decoded);
        value = decoded;
    }
    return json_string_value(value);
}

/* A member that is an array of texts, as a NULL-terminated array of our own; NULL if it is not. */
static const char **texts_of(json_t *root, const char *key)
{
    json_t *array = json_object_get(root, key);
    if (!json_is_array(array))
        return NULL;
    size_t n = json_array_size(array);
    const char **texts = xcalloc(n + 1, sizeof(*texts));
    for (size_t i = 0; i < n; i++) {
        json_t *decoded = bytes_decoded(json_array_get(array, i));
        if (decoded)
            json_array_set_new(array, i, decoded);
        const char *text = json_string_value(json_array_get(array, i));
        texts[i] = text ? text : "";
    }
    return texts;
}

static int64_t number_of(const json_t *root, const char *key)
{
    return json_integer_value(json_object_get(root, key));
}

/* What manifest_read allocates beside the tree. */
struct owner {
    json_t *root;
    char *options_json, *input_json;
    struct manifest_device *devices;
    const char **texts[3];
};

static void devices_of(struct owner *owner, struct manifest *out)
{
    json_t *array = json_object_get(owner->root, "devices");
    out->n_devices = json_array_size(array);
    owner->devices = xcalloc(out->n_devices + 1, sizeof(*owner->devices));
    for (size_t i = 0; i < out->n_devices; i++) {
        json_t *device = json_array_get(array, i);
        owner->devices[i] = (struct manifest_device){
            .name = text_of(device, "name"),
            .uuid = text_of(device, "uuid"),
            .index = (uint32_t)number_of(device, "index"),
            .memory_bytes = (uint64_t)number_of(device, "memory_bytes"),
        };
    }
    out->devices = owner->devices;
}

static void fields_of(struct owner *owner, struct manifest *out)
{
    json_t *root = owner->root;
    const char *seed = json_string_value(json_object_get(root, "seed"));
    const json_t *input = json_object_get(root, "input");
    owner->options_json = json_dumps(json_object_get(root, "options"), JSON_COMPACT);
    owner->input_json = input ? json_dumps(input, JSON_COMPACT) : NULL;
    owner->texts[0] = texts_of(root, "argv");
    owner->texts[1] = texts_of(root, "command");
    owner->texts[2] = texts_of(root, "inputs");
    *out = (struct manifest){
        .verb = text_of(root, "verb"),
        .argv = owner->texts[0],
        .command = owner->texts[1],
        .cwd = text_of(root, "cwd"),
        .folder = text_of(root, "folder"),
        .inputs = owner->texts[2],
        .output = text_of(root, "output"),
        .version = text_of(root, "muster"),
        .driver = text_of(root, "driver"),
        .options_json = owner->options_json,
        .input_json = owner->input_json,
        .seed = seed ? strtoull(seed, NULL, 10) : 0,
        .started_wall_ms = number_of(root, "started_ms"),
        .order_wall_ms = number_of(root, "order_ms"),
        .git_commit = text_of(root, "git_commit"),
        .host = text_of(root, "host"),
        .user = text_of(root, "user"),
        .kernel = text_of(root, "kernel"),
        .cpu_count = (uint32_t)number_of(root, "cpu_count"),
        .owner = owner,
    };
    devices_of(owner, out);
}

/* A run writes status.json only after its manifest. */
static int missing_fail(const char *dir, const char *path, struct err *err)
{
    cleanup_free char *status = path_join(dir, "status.json");
    int rc = path_exists(status)
                 ? fail(err, ERR_USAGE,
                        "%s is not there; put a copy in its place, or " START_OVER
                        " (muster results prints what is done)",
                        path)
                 : fail(err, ERR_USAGE,
                        "%s is not there: the run ended before it had begun; start it again by "
                        "muster map",
                        path);
    err->sys = ENOENT; /* for callers that pass over such a run */
    return rc;
}

int manifest_read(const char *dir, struct manifest *out, struct err *err)
{
    cleanup_free char *path = path_join(dir, "manifest.json");
    cleanup_buf struct buf text = BUF_INIT;
    int rc = plain_file_read(path, MANIFEST_MAX, &text, err);
    if (rc && err && err->sys == ENOENT)
        rc = missing_fail(dir, path, err);
    if (rc)
        return rc;
    json_error_t why;
    json_t *root = json_loadb(buf_text(&text), text.len, 0, &why);
    if (!root)
        return fail(err, ERR_DATA,
                    "%s is damaged (line %d: %s); " START_OVER " (muster results prints what is "
                    "done)",
                    path, why.line, why.text);
    struct owner *owner = xcalloc(1, sizeof(*owner));
    owner->root = root;
    fields_of(owner, out);
    if (number_of(root, "manifest") == MANIFEST_VERSION && out->argv && out->cwd && out->verb &&
        json_is_object(json_object_get(root, "options")))
        return 0;
    manifest_release(out);
    return fail(err, ERR_DATA, "%s is not a manifest that this muster understands", path);
}

void manifest_release(struct manifest *manifest)
{
    struct owner *owner = manifest->owner;
    if (owner) {
        for (size_t i = 0; i < countof(owner->texts); i++)
            free(owner->texts[i]);
        free(owner->options_json);
        free(owner->input_json);
        free(owner->devices);
        json_decref(owner->root);
        free(owner);
    }
    *manifest = (struct manifest){0};
}
