/* SPDX-License-Identifier: Apache-2.0
 *
 * What muster has sent to workers on hosts, whether it has arrived there or not: that is what the death of a worker may
 * be held against.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "node/remote_impl.h"
#include "sim/shell/fake_agent.h"

#define ENTRY "SIM_HEAD="

struct head_worker {
    struct head_worker *next;
    uint32_t number;
    const struct node_worker *remote;
    const struct fake_worker *actor; /* NULL: it was not started yet */
    struct buf line;                 /* the unfinished last one that was sent */
    bool is_sent[ITEMS_MAX];
    bool has_ended, is_faulty; /* it was told to; its death is held against its items */
};

static struct head_worker *all;

void heads_begin(void)
{
    while (all) {
        struct head_worker *head = all;
        all = head->next;
        buf_release(&head->line);
        free(head);
    }
}

static struct head_worker *head_of(const struct node_worker *remote)
{
    struct head_worker *head = all;
    while (head && head->remote != remote)
        head = head->next;
    return head;
}

struct head_worker *head_worker_of(const struct spawn_request *request, struct fake_worker *actor)
{
    struct head_worker *head = NULL;
    for (size_t i = 0; request->envp[i]; i++)
        if (strncmp(request->envp[i], ENTRY, strlen(ENTRY)) == 0) {
            uint32_t number = (uint32_t)strtoul(request->envp[i] + strlen(ENTRY), NULL, 10);
            for (head = all; head && head->number != number;)
                head = head->next;
        }
    if (!head || head->actor)
        broken("a worker is started on a host, and muster has not asked for it");
    head->actor = actor;
    return head;
}

bool head_has_ended(const struct head_worker *head)
{
    return head->has_ended;
}

static void fault_note(const struct head_worker *head, uint32_t item)
{
    const struct worker_exit *exit = &head->actor->exit;
    bool is_clean = exit->has_exited && exit->exit_code == 0 && exit->exit_signal == 0;
    world.truth->faults[item] += !is_clean || !head->actor->has_answered[item];
}

void head_faults_note(struct head_worker *head)
{
    head->is_faulty = true;
    for (uint32_t item = 0; item < world.scene.n_items; item++)
        if (head->is_sent[item])
            fault_note(head, item);
}

static void sent_note(struct head_worker *head, struct str bytes)
{
    while (bytes.len > 0) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        size_t len = end ? (size_t)(end + 1 - bytes.at) : bytes.len;
        uint32_t item;
        buf_add(&head->line, bytes.at, len);
        bytes.at += len, bytes.len -= len;
        if (!end)
            return;
        if (item_in(buf_str(&head->line), &item) && item < ITEMS_MAX) {
            head->is_sent[item] = true;
            if (head->is_faulty)
                fault_note(head, item);
        }
        buf_reset(&head->line);
    }
}

/* ---- the functions of remote_worker.c, listened to ---- */

int __real_remote_spawn(struct node *node, const struct spawn_request *request,
                        struct node_worker **out, struct err *err);
int __wrap_remote_spawn(struct node *node, const struct spawn_request *request,
                        struct node_worker **out, struct err *err);
ssize_t __real_remote_write(struct node_worker *worker, enum worker_stream stream,
                            struct str bytes);
ssize_t __wrap_remote_write(struct node_worker *worker, enum worker_stream stream,
                            struct str bytes);
void __real_remote_end(struct node_worker *worker, enum worker_end how);
void __wrap_remote_end(struct node_worker *worker, enum worker_end how);
void __real_remote_release(struct node_worker *worker);
void __wrap_remote_release(struct node_worker *worker);

static void shard_note(struct head_worker *head, const struct spawn_request *request)
{
    uint64_t first = strtoull(request->argv[1], NULL, 10);
    uint64_t count = strtoull(request->argv[2], NULL, 10);
    for (uint64_t item = first; item < first + count && item < ITEMS_MAX; item++)
        head->is_sent[item] = true;
}

int __wrap_remote_spawn(struct node *node, const struct spawn_request *request,
                        struct node_worker **out, struct err *err)
{
    struct head_worker *head = xcalloc(1, sizeof(*head));
    struct spawn_request with = *request;
    char entry[32];
    size_t n = 0;
    *head = (struct head_worker){.next = all, .number = all ? all->number + 1 : 1};
    all = head;
    if (world.scene.kind == KIND_SHARD)
        shard_note(head, request);
    while (request->envp[n])
        n++;
    const char **envp = xcalloc(n + 2, sizeof(*envp));
    memcpy(envp, request->envp, n * sizeof(*envp));
    snprintf(entry, sizeof(entry), ENTRY "%u", head->number);
    envp[n] = entry;
    with.envp = envp;
    int rc = __real_remote_spawn(node, &with, out, err);
    head->remote = rc == 0 ? *out : NULL;
    free(envp);
    return rc;
}

ssize_t __wrap_remote_write(struct node_worker *worker, enum worker_stream stream, struct str bytes)
{
    ssize_t put = __real_remote_write(worker, stream, bytes);
    if (put > 0 && stream == fake_input())
        sent_note(head_of(worker), (struct str){bytes.at, (size_t)put});
    return put;
}

void __wrap_remote_end(struct node_worker *worker, enum worker_end how)
{
    head_of(worker)->has_ended = true;
    __real_remote_end(worker, how);
}

/* Its address may be given to the next one. */
void __wrap_remote_release(struct node_worker *worker)
{
    struct head_worker *head = head_of(worker);
    if (head)
        head->remote = NULL;
    __real_remote_release(worker);
}
