/* SPDX-License-Identifier: Apache-2.0 */
#include "store/manifest.h"

#include <jansson.h>
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/env_list.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "store/git.h"

/* How the variables begin that control devices, threads and ranks. Any other may be a secret and is
 * not recorded; nor is one of these whose name is that of a secret. */
static const char *const env_allowed[] = {
    "CUDA_",
    "HIP_",
    "ROCR_",
    "GPU_DEVICE_ORDINAL",
    "ZE_",
    "ONEAPI_",
    "SLURM_",
    "OMP_",
    "PYTORCH_",
    "TORCH_",
    "NCCL_",
    "XLA_",
    "JAX_",
    "TF_",
    "MUSTER_",
    "TZ=",
    "LANG=",
    "LC_",
    "CONDA_DEFAULT_ENV=",
    "VIRTUAL_ENV=",
    "HF_HOME=",
    "MKL_",
    "OPENBLAS_",
};

static json_t *text_json(const char *text)
{
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    if (value) /* it is UTF-8 */
        return value;
    cleanup_buf struct buf hex = BUF_INIT;
    buf_add_hex(&hex, str_of(text));
    return json_pack("{s:s}", "bytes", buf_text(&hex));
}

static json_t *texts_json(const char *const *texts)
{
    json_t *array = json_array();
    for (; texts && *texts; texts++)
        json_array_append_new(array, text_json(*texts));
    return array;
}

static bool is_allowed(const char *entry)
{
    for (size_t i = 0; i < countof(env_allowed); i++)
        if (strncmp(entry, env_allowed[i], strlen(env_allowed[i])) == 0)
            return true;
    return false;
}

static json_t *environment_json(void)
{
    json_t *object = json_object();
    for (char **at = environ; at && *at; at++) {
        const char *equals = strchr(*at, '=');
        if (!equals || !is_allowed(*at) || env_is_secret(*at))
            continue;
        cleanup_free char *name = xstrndup(*at, (size_t)(equals - *at));
        json_object_set_new(object, name, text_json(equals + 1)); /* refuses a name not in UTF-8 */
    }
    return object;
}

static json_t *devices_json(const struct manifest *manifest)
{
    json_t *array = json_array();
    for (size_t i = 0; i < manifest->n_devices; i++) {
        const struct manifest_device *device = &manifest->devices[i];
        json_t *object = json_object();
        json_object_set_new(object, "index", json_integer(device->index));
        json_object_set_new(object, "name", text_json(device->name));
        json_object_set_new(object, "uuid", text_json(device->uuid));
        json_object_set_new(object, "memory_bytes", json_integer((json_int_t)device->memory_bytes));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *user_json(const char *given)
{
    const char *login = getenv("LOGNAME");
    if (given || login)
        return text_json(given ? given : login);
    char space[1024];
    struct passwd entry, *found = NULL;
    getpwuid_r(getuid(), &entry, space, sizeof(space), &found);
    return found ? text_json(found->pw_name) : json_sprintf("%u", (unsigned)getuid());
}

/* Host, user, kernel, commit: the given value, or what this process sees. */
static void surroundings_add(json_t *root, const struct manifest *manifest)
{
    struct utsname system = {0};
    uname(&system);
    cleanup_free char *kernel =
        xasprintf("%s %s %s", system.sysname, system.release, system.machine);
    cleanup_free char *commit =
        manifest->git_commit || !manifest->cwd ? NULL : git_commit_of(manifest->cwd);
    json_object_set_new(root, "git_commit", text_json(commit ? commit : manifest->git_commit));
    json_object_set_new(root, "host", text_json(manifest->host ? manifest->host : system.nodename));
    json_object_set_new(root, "user", user_json(manifest->user));
    json_object_set_new(root, "kernel", text_json(manifest->kernel ? manifest->kernel : kernel));
    json_object_set_new(
        root, "cpu_count",
        json_integer(manifest->cpu_count ? manifest->cpu_count : processors_allowed()));
    json_object_set_new(root, "driver", text_json(manifest->driver));
    json_object_set_new(root, "devices", devices_json(manifest));
    json_object_set_new(root, "environment", environment_json());
}

/* Raw JSON, given as text by the module that knows what it means. */
static int raw_add(json_t *root, const char *key, const char *json, struct err *err)
{
    json_error_t why;
    json_t *value = json_loads(json, 0, &why);
    if (!value)
        return fail(err, ERR_DATA, "%s: %s", key, why.text);
    json_object_set_new(root, key, value);
    return 0;
}

static int manifest_json(json_t *root, const char *dir, const struct manifest *manifest,
                         struct err *err)
{
    char started[40];
    cleanup_free char *folder = path_absolute(dir);
    clock_rfc3339(started, manifest->started_wall_ms);
    json_object_set_new(root, "manifest", json_integer(MANIFEST_VERSION));
    json_object_set_new(root, "muster", text_json(manifest->version));
    json_object_set_new(root, "verb", text_json(manifest->verb));
    json_object_set_new(root, "started", json_string(started));
    json_object_set_new(root, "started_ms", json_integer(manifest->started_wall_ms));
    if (manifest->order_wall_ms > 0)
        json_object_set_new(root, "order_ms", json_integer(manifest->order_wall_ms));
    json_object_set_new(root, "argv", texts_json(manifest->argv));
    json_object_set_new(root, "command",
                        manifest->command ? texts_json(manifest->command) : json_null());
    json_object_set_new(root, "cwd", text_json(manifest->cwd));
    json_object_set_new(root, "folder", text_json(folder));
    json_object_set_new(root, "inputs", texts_json(manifest->inputs));
    json_object_set_new(root, "output", text_json(manifest->output));
    /* As text: a seed has 64 bits, JSON readers keep 53. */
    json_object_set_new(root, "seed", json_sprintf("%llu", (unsigned long long)manifest->seed));
    int rc = raw_add(root, "options", manifest->options_json ? manifest->options_json : "{}", err);
    if (rc == 0 && manifest->input_json)
        rc = raw_add(root, "input", manifest->input_json, err);
    surroundings_add(root, manifest);
    return rc;
}

int manifest_write(const char *dir, const struct manifest *manifest, struct err *err)
{
    cleanup_free char *path = path_join(dir, "manifest.json");
    json_t *root = json_object();
    int rc = manifest_json(root, dir, manifest, err);
    cleanup_free char *text = rc ? NULL : json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(root);
    if (rc)
        return wrap(err, rc, "%s", path);
    if (!text)
        BUG("manifest of %s cannot be written as JSON", dir);
    cleanup_buf struct buf content = BUF_INIT;
    buf_addf(&content, "%s\n", text);
    /* The first durable commit syncs it, with all else that a run depends on (store/commit.c). */
    return path_exists(path) ? file_replace(path, buf_str(&content), err)
                             : file_replace_fast(path, buf_str(&content), err);
}
