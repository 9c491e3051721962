/* SPDX-License-Identifier: Apache-2.0
 *
 * muster submit --stage: jobs of which each begins when the one before it has ended well.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/submit_follow.h"
#include "cli/submit_impl.h"
#include "opt/say.h"
#include "store/runs.h"
#include "submit/stage.h"

struct planned_stage {
    struct stage stage;
    struct submitted verb;
};

static int stage_plan(struct app *app, const struct submit_options *options, const char *text,
                      const struct env_list *common, bool is_later, struct planned_stage *out,
                      struct err *err)
{
    struct stage *stage = &out->stage;
    out->verb = (struct submitted){
        .options = options, .is_later = is_later, .check = {.has_setup = options->setup != NULL}};
    int rc = stage_parse(text, common, stage, err);
    if (rc)
        return rc;
    out->verb.stage = stage->name;
    rc = submitted_plan(&out->verb, app, &stage->options, stage->argc, stage->argv, err);
    return rc ? wrap(err, rc, "--stage %s", stage->name) : 0;
}

static int stages_plan(struct app *app, const struct submit_options *options,
                       const struct env_list *common, struct planned_stage *stages, struct err *err)
{
    cleanup_free char *here =
        path_cwd(); /* each stage enters the folder of its --chdir from here */
    int rc = 0;
    if (!here)
        return fail_errno(err, "the working folder");
    for (size_t i = 0; rc == 0 && i < options->stages.len; i++) {
        rc = stage_plan(app, options, options->stages.at[i], common, i > 0, &stages[i], err);
        for (size_t k = 0; rc == 0 && k < i; k++)
            if (strcmp(stages[k].stage.name, stages[i].stage.name) == 0)
                rc = fail(err, ERR_USAGE, "there are two stages '%s'", stages[i].stage.name);
        if (rc == 0 && chdir(here) != 0)
            rc = fail_errno(err, "return to %s", here);
    }
    return rc;
}

static int stages_script(const struct app *app, const char *dir, struct planned_stage *stages,
                         size_t n, struct jobs *jobs, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct submitted *verb = &stages[i].verb;
        free(verb->run_dir);
        const char *given = verb->cmd ? cmd_text(verb->cmd, verb->request, "run-dir") : NULL;
        verb->run_dir = given ? path_absolute(given) : xasprintf("%s/stages/%s", dir, verb->stage);
        verb->script_dir = dir;
        rc = jobs_add(verb, app, false, stages[i].stage.argc, stages[i].stage.argv, jobs, err);
    }
    return rc;
}

static int stages_submit(const struct app *app, const struct submit_options *options,
                         struct planned_stage *stages, int64_t wall_ms, struct err *err)
{
    struct jobs jobs = {0};
    uint64_t numbers[STAGES_MAX];
    cleanup_free char *root = runs_root(NULL), *dir = NULL, *below = NULL;
    char stamp[20];
    clock_stamp(stamp, wall_ms);
    int rc = 0;
    if (options->dry_run)
        dir = xasprintf("%s/%s-stages", root, stamp);
    else
        rc = run_create(root, "stages", wall_ms, &dir, err);
    if (rc)
        return rc;
    below = path_join(dir, "stages");
    rc = stages_script(app, dir, stages, options->stages.len, &jobs, err);
    if (rc == 0 && options->dry_run)
        rc = jobs_print(&jobs, err);
    else if (rc == 0 && (rc = mkdir_parents(below, 0775, err)) == 0)
        rc = jobs_submit(dir, &jobs, numbers, err);
    if (!options->dry_run && rc == 0 && run_mark_latest(dir, NULL) != 0)
        say(app, "muster-runs/latest does not point at this run");
    if (!options->dry_run && rc == 0)
        jobs_numbers_say(app, dir, &jobs, numbers);
    else if (!options->dry_run)
        jobs_folder_drop(app, dir);
    jobs_release(&jobs);
    return rc == 0 && !options->dry_run && options->follow ? submit_follow(app, dir, err) : rc;
}

int submit_stages(struct app *app, const struct submit_options *options,
                  const struct env_list *common, int argc, char **argv, struct err *err)
{
    size_t n = options->stages.len;
    int64_t wall_ms = clock_wall_ms();
    if (argc > 0)
        return fail(err, ERR_USAGE,
                    "with --stage the commands stand in the stages: '%s' is too much", argv[0]);
    if (options->array)
        return fail(err, ERR_USAGE,
                    "--array is not for --stage: a stage is one job, on whose end the next one "
                    "waits");
    if (n > STAGES_MAX)
        return fail(err, ERR_USAGE, "more than %d stages", STAGES_MAX);
    cleanup_free struct planned_stage *stages = xcalloc(n, sizeof(*stages));
    int rc = stages_plan(app, options, common, stages, err);
    if (rc == 0)
        rc = stages_submit(app, options, stages, wall_ms, err);
    for (size_t i = 0; i < n; i++) {
        submitted_release(&stages[i].verb);
        stage_release(&stages[i].stage);
    }
    return rc;
}
