/* SPDX-License-Identifier: Apache-2.0
 *
 * --dry-run: the ranks that would be started, with what is added to their environment, and their commands.
 */
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"

/* False for an entry whose value only the start decides: a free port, the folder of error files. */
static bool is_known(const struct launch *launch, const char *entry)
{
    return strncmp(entry, "TORCHELASTIC_ERROR_FILE=", 24) != 0 &&
           (launch->request->master_port > 0 || strncmp(entry, "MASTER_PORT=", 12) != 0) &&
           (launch->request->master_addr || strncmp(entry, "MASTER_ADDR=", 12) != 0);
}

static int rank_print(const struct rank *rank, struct err *err)
{
    const struct launch *launch = rank->launch;
    struct env_list contract = {0}, words = {0};
    cleanup_buf struct buf line = BUF_INIT;
    int rc = rank_command(launch, rank->local_rank, &words, err);
    rank_contract(rank, &contract);
    buf_addf(&line, "rank %u%s%s:", rank->number, rank->machine->name ? " on " : "",
             rank->machine->name ? rank->machine->name : "");
    for (size_t i = 0; i < contract.len; i++)
        if (is_known(launch, contract.at[i]))
            buf_addf(&line, " %s", contract.at[i]);
    for (size_t i = 0; i < words.len; i++) {
        buf_add_char(&line, ' ');
        buf_add_shell_word(&line, words.at[i]);
    }
    if (rc == 0)
        print_line("%s", buf_text(&line));
    env_list_release(&contract);
    env_list_release(&words);
    return rc;
}

static int machine_print(struct launch *launch, struct machine *machine, uint32_t first,
                         struct err *err)
{
    static char no_file[] = "";
    int rc = 0;
    machine->part.master_port = (uint16_t)launch->request->master_port;
    machine->part.n_restarts_max = (uint32_t)launch->request->restarts.n;
    for (uint32_t i = 0; rc == 0 && i < machine->n_ranks; i++) {
        const struct rank rank = {.launch = launch,
                                  .machine = machine,
                                  .number = first + i,
                                  .local_rank = i,
                                  .error_path = no_file};
        rc = rank_print(&rank, err);
    }
    return rc;
}

/* On one of several machines without --hosts: prints its own ranks, as it knows of no others. */
static int own_print(struct launch *launch, const struct launch_meeting *meeting, struct err *err)
{
    struct machine *own = &launch->own;
    uint32_t n_nodes = meeting->n_nodes_max;
    uint32_t node = n_nodes == 1 || meeting->node == RENDEZVOUS_ANY_NODE ? 0 : meeting->node;
    if (n_nodes > 1)
        print_line("as machine %u of %u with %u rank%s each:", node, n_nodes, own->n_ranks,
                   plural(own->n_ranks));
    own->part = (struct rendezvous_start){
        .group_rank = node, .n_members = n_nodes, .world_size = n_nodes * own->n_ranks};
    return machine_print(launch, own, node * own->n_ranks, err);
}

int launch_dry_run(struct launch *launch, const struct launch_meeting *meeting, struct err *err)
{
    struct rendezvous_start part = {0};
    uint32_t first = 0;
    int rc = 0;
    if (!launch->fleet)
        return own_print(launch, meeting, err);
    for (uint32_t i = 0; i < fleet_len(launch->fleet); i++) {
        part.n_members += fleet_machine(launch->fleet, i)->n_ranks > 0;
        part.world_size += fleet_machine(launch->fleet, i)->n_ranks;
    }
    for (uint32_t i = 0; rc == 0 && i < fleet_len(launch->fleet); i++) {
        struct machine *machine = fleet_machine(launch->fleet, i);
        machine->part = part;
        rc = machine_print(launch, machine, first, err);
        first += machine->n_ranks;
        part.group_rank += machine->n_ranks > 0;
    }
    return rc;
}
