/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_map.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "cli/spread_files.h"
#include "map/run_opts.h"
#include "map/work.h"
#include "store/runs.h"

/* The options of muster map that the user may set by variables, such as MUSTER_TIME_LIMIT. */
static const struct opt map_opts[] = {MAP_RUN_OPTS(0), {.kind = OPT_END}};
static const struct cmd map = {.name = "map",
                               .opts = map_opts,
                               .request_size = sizeof(struct map_request),
                               .defaults = map_request_defaults};

static int variables_read(struct map_request *request, struct err *err)
{
    static char name[] = "map";
    char *words[] = {name, NULL}, **operands, **command;
    int n_operands;
    return cmd_parse(&map, 1, words, request, &n_operands, &operands, &command, err);
}

/* The words that `muster resume` parses. */
static void words_add(const struct map_request *request, struct env_list *out)
{
    env_list_add_words(out, (const char *const[]){"muster", map.name, NULL});
    cmd_words(&map, request, out);
    env_list_add_words(out,
                       (const char *const[]){"--run-dir", request->run.run_dir, "-o",
                                             request->out_path, request->inputs[0], "--", NULL});
    env_list_add_words(out, request->command);
    env_end(out);
}

/* The command that continues the run: this one without --force, which would begin anew. */
static void command_typed_add(const struct app *app, struct buf *out)
{
    cleanup_buf struct buf command = BUF_INIT;
    buf_add_text(&command, "muster kge");
    for (int i = 1; i < app->argc; i++) {
        if (strcmp(app->argv[i], "--force") == 0)
            continue;
        buf_add_char(&command, ' ');
        buf_add_shell_word(&command, app->argv[i]);
    }
    console_text_add(out, buf_str(&command), false);
}

/* Sets the number of threads, which workers inherit. 0: as many as their seats have. */
static int threads_set(uint64_t n_threads, struct err *err)
{
    cleanup_free char *text = xasprintf("%lu", n_threads);
    bool is_set = n_threads == 0 || setenv("MUSTER_KGE_THREADS", text, 1) == 0;
    return is_set ? 0 : fail_errno(err, "set MUSTER_KGE_THREADS");
}

bool spread_map_has_begun(const char *dir)
{
    cleanup_free char *db = path_join(dir, SPREAD_MAP "/run.db");
    cleanup_free char *manifest = path_join(dir, SPREAD_MAP "/manifest.json");
    return path_exists(db) && path_exists(manifest);
}

/* True if the map is over. An earlier command was killed after that. */
static bool is_finished(const char *run_dir)
{
    struct run_summary run = {0};
    bool is = run_inspect(run_dir, &run, NULL) == 0 && run.state == RUN_FINISHED;
    run_summary_release(&run);
    return is;
}

/* For other hosts too, muster's own programs are those of the muster beside this program. */
static int request_run(const struct map_request *request, const struct app *app, int front_fd,
                       struct err *err)
{
    cleanup_free char *muster = program_find_beside(app->self_path, "muster");
    struct log log = LOG_INIT;
    const struct map_caller caller = {.log = &log,
                                      .self_path = muster ? muster : app->self_path,
                                      .is_quiet = app->quiet,
                                      .has_color = app->color,
                                      .front_fd = front_fd};
    return map_run(&caller, request, err);
}

int spread_map_run(const struct tracin_request *ask, const struct app *app, const char *dir,
                   int front_fd, struct err *err)
{
    cleanup_free char *run_dir = path_join(dir, SPREAD_MAP), *items = path_join(dir, SPREAD_ITEMS),
                      *answers = path_join(dir, SPREAD_ANSWERS);
    cleanup_buf struct buf go_on = BUF_INIT;
    struct map_request request = {0};
    struct env_list words = {0};
    bool has_begun = spread_map_has_begun(dir);
    if (has_begun && is_finished(run_dir))
        return 0;
    int rc = has_begun ? 0 : remove_tree(run_dir, err);
    if (rc == 0)
        rc = threads_set(ask->models.n_threads, err);
    if (rc == 0)
        rc = variables_read(&request, err);
    command_typed_add(app, &go_on);
    request.work = &record_work;
    request.inputs = (const char *const[]){items};
    request.n_inputs = 1;
    request.command = (const char *const[]){app->self_path, SPREAD_WORKER_VERB, NULL};
    request.out_path = answers;
    request.allocation.gpus = ask->gpus;
    request.schedule.failures_max = 1;
    request.schedule.failures_percent = 0;
    request.run.run_dir = run_dir;
    request.run.go_on = buf_text(&go_on);
    request.run.on_finish = NULL;
    request.run.detach = false;
    words_add(&request, &words);
    request.run.words = (const char *const *)words.at;
    request.resume_dir = has_begun ? run_dir : NULL;
    request.retry_failed = request.overwrite = has_begun;
    if (rc == 0)
        rc = request_run(&request, app, front_fd, err);
    env_list_release(&words);
    cmd_release(&map, &request);
    return rc;
}
