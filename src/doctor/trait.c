/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/trait.h"

#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "doctor/checks.h"

enum {
    OS_RELEASE_MAX_BYTES = 1 << 16
};

static const char *const names[] = {
#define X(name) [TRAIT_##name] = #name,
    TRAITS(X)
#undef X
};

const char *trait_name(enum trait trait)
{
    return names[trait];
}

bool trait_find(const char *name, enum trait *out)
{
    for (int trait = 0; trait < TRAITS_COUNT; trait++) {
        *out = (enum trait)trait;
        if (strcmp(names[trait], name) == 0)
            return true;
    }
    return false;
}

void traits_release(struct traits *traits)
{
    for (size_t i = 0; i < TRAITS_COUNT; i++)
        free(traits->at[i]);
    *traits = (struct traits){0};
}

/* PRETTY_NAME="Debian GNU/Linux 12 (bookworm)" */
static char *system_new(void)
{
    static const char key[] = "PRETTY_NAME=";
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read("/etc/os-release", OS_RELEASE_MAX_BYTES, &text, NULL) != 0)
        return NULL;
    struct str rest = buf_str(&text), line;
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        if (!str_starts_with(line, STR(key)))
            continue;
        struct str name = str_trim((struct str){line.at + strlen(key), line.len - strlen(key)});
        bool is_quoted = name.len >= 2 && name.at[0] == '"';
        return xstrndup(name.at + is_quoted, name.len - (is_quoted ? 2 : 0));
    }
    return NULL;
}

static char *driver_new(const struct facts *facts)
{
    for (size_t i = 0; i < facts->machine.len; i++)
        if (facts->machine.at[i].details.driver[0])
            return xstrdup(facts->machine.at[i].details.driver);
    return xstrdup(facts->driver.module_version);
}

/* "4 x NVIDIA H200 (141 GiB), 4 x NVIDIA H100 (80 GiB)", in the order of the devices; "" without a GPU. */
static char *devices_new(const struct device_list *devices)
{
    struct buf out = BUF_INIT;
    for (size_t i = 0, n_like; are_gpus(devices) && i < devices->len; i += n_like) {
        const struct device *device = &devices->at[i];
        char size[16];
        for (n_like = 1; i + n_like < devices->len; n_like++)
            if (strcmp(devices->at[i + n_like].name, device->name) != 0 ||
                devices->at[i + n_like].mem_total_bytes != device->mem_total_bytes)
                break;
        size_format(size, device->mem_total_bytes);
        buf_addf(&out, "%s%zu x %s (%s)", i ? ", " : "", n_like, device->name, size);
    }
    return out.at ? buf_steal(&out) : xstrdup("");
}

static void python_take(const struct facts *facts, struct traits *out)
{
    const struct python_facts *python = &facts->python;
    if (!facts->has_python)
        return;
    out->at[TRAIT_python] = xstrdup(python->version);
    out->at[TRAIT_python_path] = xstrdup(python->path);
    for (size_t i = 0; i < PYTHON_PACKAGES_COUNT; i++) {
        enum trait trait;
        if (trait_find(python_package_name(i), &trait))
            out->at[trait] = xstrdup(python->packages[i]);
    }
}

/* Variables in the environment, whose traits have their names. */
static void variables_take(const struct facts *facts, struct traits *out)
{
    for (int trait = TRAIT_CUDA_VISIBLE_DEVICES; trait < TRAITS_COUNT; trait++) {
        const char *value = env_value(&facts->env, names[trait]);
        out->at[trait] = xstrdup(value ? value : "");
    }
}

void traits_take(const struct facts *facts, const char *version, struct traits *out)
{
    struct utsname name = {0};
    (void)uname(&name);
    *out = (struct traits){0};
    out->at[TRAIT_muster] = xstrdup(version);
    out->at[TRAIT_machine] = xstrdup(name.machine);
    out->at[TRAIT_kernel] = xstrdup(name.release);
    out->at[TRAIT_system] = system_new();
    out->at[TRAIT_driver] = driver_new(facts);
    out->at[TRAIT_devices] = devices_new(&facts->machine);
    out->at[TRAIT_cores] = xasprintf("%u", cores_usable(facts));
    out->at[TRAIT_memory_free] = xasprintf("%lu", facts->host.mem_available_bytes);
    if (facts->has_folder && facts->folder.sys == 0)
        out->at[TRAIT_disk_free] = xasprintf("%lu", facts->folder.free_bytes);
    out->at[TRAIT_open_files] = facts->host.open_files == UINT64_MAX
                                    ? xstrdup("unlimited")
                                    : xasprintf("%lu", facts->host.open_files);
    out->at[TRAIT_folder] = path_cwd();
    python_take(facts, out);
    variables_take(facts, out);
}
