/* SPDX-License-Identifier: Apache-2.0 */
#include "map/outputs.h"

#include <xxhash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "map/template.h"
#include "map/work.h"

enum {
    NUMBER_LEN_MAX = 8
};

static const char digits[] = "0123456789";

/* "-2" of 20260131_090807-map-2, as store/runs.h names the second run of a second; else "". */
static const char *number_of(const char *name)
{
    const char *dash = strrchr(name, '-');
    bool is_number = dash && dash != strchr(name, '-') && dash[1] != '\0' &&
                     dash[1 + strspn(dash + 1, digits)] == '\0' && strlen(dash) <= NUMBER_LEN_MAX;
    return is_number ? dash : "";
}

bool run_stamp_read(const char *run_dir, char out[RUN_STAMP_BYTES])
{
    const char *name = path_basename(run_dir);
    if (strspn(name, "0123456789_") != RUN_STAMP_LEN || name[8] != '_')
        return false;
    snprintf(out, RUN_STAMP_BYTES, "%.*s%s", RUN_STAMP_LEN, name, number_of(name));
    return true;
}

void run_stamp_make(const char *run_dir, int64_t wall_ms, char out[RUN_STAMP_BYTES])
{
    char stamp[20];
    cleanup_free char *path = path_absolute(run_dir);
    clock_stamp(stamp, wall_ms);
    snprintf(out, RUN_STAMP_BYTES, "%s-%08x", stamp, (uint32_t)XXH3_64bits(path, strlen(path)));
}

/* ---- --also GLOB=FILE ---- */

size_t also_len(const struct map_request *r)
{
    return r->shards.also.len + r->shards.also_counted.len;
}

const char *also_text(const struct map_request *r, size_t index)
{
    return index < r->shards.also.len ? r->shards.also.at[index]
                                      : r->shards.also_counted.at[index - r->shards.also.len];
}

/* GLOB and FILE are separated at the last =, since a folder may be called lr=0.1. */
const char *also_path(const struct map_request *r, size_t index)
{
    const char *text = also_text(r, index), *equals = strrchr(text, '=');
    return equals && equals > text && equals[1] ? equals + 1 : NULL;
}

bool output_is_folder(const char *path)
{
    return path && str_ends_with(str_of(path), STR("/"));
}

/* ---- {run} in their names ---- */

/* The outputs by number, that of -o first; NULL after the last. */
static const char *output_at(const struct map_request *r, size_t index)
{
    if (index == 0)
        return r->out_path ? r->out_path : "";
    return index <= also_len(r) ? also_path(r, index - 1) : NULL;
}

bool outputs_have_run(const struct map_request *r)
{
    uint32_t uses = 0;
    const char *path;
    for (size_t i = 0; !r->work->keeps_workers && (path = output_at(r, i)) != NULL; i++)
        uses |= template_uses(str_of(path));
    return uses & 1u << PLACE_RUN;
}

int outputs_check_names(const struct map_request *r, struct err *err)
{
    const char *path;
    for (size_t i = 0; (path = output_at(r, i)) != NULL; i++) {
        int rc = template_check(str_of(path), err);
        if (rc)
            return rc;
        if (template_uses(str_of(path)) & ~(1u << PLACE_RUN))
            return fail(err, ERR_USAGE,
                        "%s: all shards become this one file, so {run} alone can stand in its name",
                        path);
    }
    if (outputs_have_run(r) && r->run.run_dir)
        return fail(err, ERR_USAGE,
                    "{run} in an output's name is the time in the name of the run's folder, and "
                    "--run-dir names another; say the output's name as well");
    return 0;
}

char *output_path_new(const char *path, const char *run_dir)
{
    char stamp[RUN_STAMP_BYTES];
    struct template_values values = {0};
    struct buf name = BUF_INIT;
    if (!(template_uses(str_of(path)) & 1u << PLACE_RUN))
        return xstrdup(path);
    if (!run_stamp_read(run_dir, stamp))
        return NULL;
    values.of[PLACE_RUN] = str_of(stamp);
    template_fill(str_of(path), &values, &name);
    return buf_steal(&name);
}

int outputs_settle(struct map_request *r, const char *run_dir, char **name, struct err *err)
{
    char stamp[RUN_STAMP_BYTES];
    *name = NULL;
    if (!outputs_have_run(r))
        return 0;
    if (!run_stamp_read(run_dir, stamp))
        return fail(err, ERR_USAGE,
                    "the name of the run's folder, %s, does not begin with the time that {run} in "
                    "its outputs' names stands for; give it back its name",
                    run_dir);
    r->out_path = *name = output_path_new(r->out_path, run_dir);
    return 0;
}
