/* SPDX-License-Identifier: Apache-2.0
 *
 * What the jobs of a stage are made of, when its settings are compiled: shared by file_job.c, file_command.c and
 * file_out.c.
 */
#pragma once

#include "graph/file/file_number.h"

/* NULL-terminated texts that become a job's. */
struct words {
    const char **at;
    size_t len, cap;
};

void words_add(struct words *words, const char *text);
/* A copy in the plan's memory; `words` is empty afterwards. */
const char *const *words_take(struct graph_file *file, struct words *words);

/* ---- file_command.c ---- */

struct option {
    struct str name; /* without dashes */
    struct stage_setting *value;
};

struct command {
    enum plan_kind kind;
    bool is_shell;
    struct job_setting words; /* of `run`: struct text_list */
    /* Of map, launch and merge, which have one mapping. */
    struct stage_setting *inputs, *output, *worker;
    bool is_program; /* launch: `command` instead of `script` */
    struct option *options;
    uint32_t n_options;
};

MUST_CHECK int command_compile(struct graph_file *file, struct file_stage *stage,
                               struct command *command);
/* job->argv; also job->outs, if only the command says what they are. */
MUST_CHECK int command_make(struct graph_file *file, const struct file_stage *stage,
                            const struct command *command, const uint32_t *row,
                            struct plan_job *job);

/* ---- file_out.c ---- */

extern const struct leaf_kind out_kind;
struct out_list;
MUST_CHECK int outs_make(struct graph_file *file, const struct file_stage *stage,
                         struct out_list *outs, const uint32_t *row, struct plan_job *job);

/* ---- file_job.c ---- */

struct env_entry {
    struct str name;
    struct stage_setting *own, *inherited;
};

struct job_def {
    struct command command;
    struct job_setting cpus, retries, timeout, batch, gpus, priority, cwd, hosts, devices, in, out;
    struct env_entry *env;
    uint32_t n_env;
    struct words words; /* while a job is made */
};
