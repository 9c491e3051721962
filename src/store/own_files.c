/* SPDX-License-Identifier: Apache-2.0 */
#include "store/own_files.h"

#include "base/cleanup.h"
#include "base/fs.h"

/* Files that a run makes in its folder, even in one that existed. */
static const char *const run_files[] = {"run.db",           "manifest.json", "status.json",
                                        "orchestrator.log", "failed.jsonl",  "output.id"};
/* Folders in the run's folder, whose files are removed after the merge, or overwritten. */
static const char *const run_folders[] = {"parts", "parts.gone",  "logs",
                                          "input", "shard-input", "shard-output"};

int own_files_check_input(const char *input, const char *run_dir, struct err *err)
{
    for (size_t i = 0; i < countof(run_files); i++) {
        cleanup_free char *path = path_join(run_dir, run_files[i]);
        if (path_is_same(input, path))
            return fail(err, ERR_USAGE,
                        "the input %s is where the run writes its own %s; name another --run-dir",
                        input, run_files[i]);
    }
    return 0;
}

int own_files_check_output(const struct named_file *output, const char *run_dir, struct err *err)
{
    bool is_own = false;
    for (size_t i = 0; i < countof(run_files); i++) {
        cleanup_free char *own = path_join(run_dir, run_files[i]);
        is_own = is_own || path_is_same(output->path, own);
    }
    for (size_t i = 0; i < countof(run_folders); i++) {
        cleanup_free char *own = path_join(run_dir, run_folders[i]);
        is_own = is_own || path_is_within(output->path, own);
    }
    return is_own ? fail(err, ERR_USAGE,
                         "%s (%s) is where the run keeps its own files; name another place",
                         output->path, output->name)
                  : 0;
}
