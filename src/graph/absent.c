/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that are not on all hosts. A program, or a folder, that one host lacks may be on another: the job is tried
 * there, and others with the same command are not tried on the first one any more.
 */
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

static uint64_t text_mix(uint64_t hash, struct str text)
{
    return XXH3_64bits_withSeed(text.at, text.len, hash + 1);
}

/* A hash of the stage, the program and the folder of a job. Of a shell command, the program is its first word. */
static uint64_t command_signature(const struct plan_job *plan)
{
    bool is_shell = strcmp(plan->argv[0], "sh") == 0 && plan->argv[1] && plan->argv[2] &&
                    strcmp(plan->argv[1], "-c") == 0;
    uint64_t hash = text_mix(plan->stage, str_of(plan->argv[0]));
    if (is_shell)
        hash = text_mix(hash, (struct str){plan->argv[2], strcspn(plan->argv[2], " \t\n")});
    return text_mix(hash, str_of(plan->cwd ? plan->cwd : ""));
}

static char *key_new(const struct graph *graph, uint32_t job, uint32_t node)
{
    return xasprintf("%016lx %u", command_signature(graph->jobs[job].plan), node);
}

/*
 * Without memory the program ends. The job would start again at once where it cannot run, and so on
 * without an end.
 */
static void job_move(struct graph *graph, uint32_t number, uint32_t place)
{
    graph->jobs[number].place = (uint16_t)place;
    if (!dag_move(graph->dag, number, place))
        xalloc_give_up(sizeof(struct dag_want));
}

/* The job does not use this host any more. False: it may use no other host. */
static bool job_leaves(struct graph *graph, uint32_t number, uint32_t node)
{
    uint32_t place;
    if (!host_place_without(graph, graph->jobs[number].place, node, &place))
        return false;
    job_move(graph, number, place);
    return true;
}

enum dag_end absent_note(struct graph *graph, uint32_t job, uint32_t node, const char *why)
{
    cleanup_free char *key = key_new(graph, job, node);
    bool is_news = name_index_find(&graph->fleet.absent, str_of(key)) == NAME_NONE;
    (void)name_index_number(&graph->fleet.absent, str_of(key));
    if (!job_leaves(graph, job, node))
        return DEND_FATAL;
    if (is_news)
        log_add(shell_log(graph->shell), LOG_WARN, "graph",
                "%s: %s; it goes to other hosts, and so do jobs with the same command",
                graph->jobs[job].plan->name, why);
    return DEND_ABSENT;
}

bool absent_is_known(struct graph *graph, uint32_t number, uint32_t node)
{
    struct graph_job *job = &graph->jobs[number];
    cleanup_free char *key = graph->fleet.absent.len > 0 ? key_new(graph, number, node) : NULL;
    if (!key || name_index_find(&graph->fleet.absent, str_of(key)) == NAME_NONE)
        return false;
    bool is_elsewhere = job_leaves(graph, number, node);
    free(job->end);
    job->end = xasprintf("%s is on none of the hosts that it may use", job->plan->argv[0]);
    graph_tell(graph, (struct dag_event){.kind = DEV_ENDED,
                                         .job = number,
                                         .end = is_elsewhere ? DEND_ABSENT : DEND_FATAL});
    return true;
}

void absent_forget(struct graph *graph, uint32_t number)
{
    struct err err = {0};
    uint32_t place;
    name_index_release(&graph->fleet.absent);
    if (job_place(graph, graph->jobs[number].plan, &place, &err) == 0)
        job_move(graph, number, place);
}
