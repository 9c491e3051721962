/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor_ranks.h"

#include <dirent.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "cli/doctor_print.h"
#include "cli/meeting_arg.h"
#include "cli/ranks_print.h"
#include "cli/run_arg.h"
#include "mesh/judge.h"
#include "node/host_list.h"
#include "node/wire_body.h"

enum {
    ID_BYTES = 16,
    GRACE_MS = 3000,
    LIMIT_MS = 15 * 60 * 1000, /* for the whole measurement; every part has a deadline of its own */
    TOLD_MAX_BYTES = 64 * 1024 * 1024
};

static const struct trouble
    not_started = {FINDING_FAIL, "The ranks of a training would not start, or not meet.",
                   "Cure the error above; muster doctor --hosts LIST checks each host by itself"},
    ended_early = {FINDING_FAIL, "A rank of the test itself was ended, and the others with it.",
                   "Read what is said of it on stderr; was it killed, for memory or by a limit?"};

struct names {
    const char **at;
    size_t n;
    struct host_list list;
    char own[HOST_NAME_BYTES];
};

/* ---- the hosts, in the order in which launch numbers them ---- */

static int names_make(const struct allocation_wish *wish, struct names *out, struct err *err)
{
    host_name(out->own);
    int rc = wish->hosts ? host_list_parse(wish->hosts, &out->list, err) : 0;
    out->n = wish->hosts ? out->list.len : 1;
    out->at = xcalloc(out->n + 1, sizeof(*out->at));
    for (size_t i = 0; i < out->n; i++)
        out->at[i] = wish->hosts ? out->list.at[i].name : out->own;
    return rc;
}

static void names_release(struct names *names)
{
    free(names->at);
    host_list_release(&names->list);
}

/* ---- what the ranks told ---- */

/* Returns the folder that launch has made in `folder`; NULL: there is none. */
static char *attempt_find(const char *folder)
{
    DIR *entries = opendir(folder);
    char *found = NULL;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));)
        if (entry->d_name[0] != '.')
            found = xasprintf("%s/%s/attempt_0", folder, entry->d_name);
    if (entries)
        closedir(entries);
    return found;
}

static void told_read(const char *folder, uint32_t n_ranks, struct told *told)
{
    cleanup_free char *attempt = attempt_find(folder);
    told_init(told, n_ranks);
    for (uint32_t i = 0; attempt && i < n_ranks; i++) {
        cleanup_free char *path = xasprintf("%s/%u/stdout.log", attempt, i);
        cleanup_buf struct buf text = BUF_INIT;
        if (file_read(path, TOLD_MAX_BYTES, &text, NULL) == 0)
            told_take(told, i, buf_str(&text));
    }
}

/* ---- the ranks ---- */

static int request_settle(struct app *app, const struct doctor_ranks *opts,
                          struct launch_request *request, struct meeting_texts *texts,
                          struct err *err)
{
    const struct meeting_options options = {.nnodes = opts->wish->hosts ? NULL : "1",
                                            .backend = "static",
                                            .node_rank = UINT64_MAX,
                                            .master_addr = opts->master_addr,
                                            .master_port = opts->master_port};
    request->allocation = *opts->wish;
    if (opts->wish->hosts)
        request->allocation.gpus = WISH_NO_DEVICES;
    return meeting_settle(&options, request, texts, &app->log, err);
}

static int ranks_start(struct app *app, const struct doctor_ranks *opts, const char *folder,
                       struct err *err)
{
    const char *const command[] = {AGENT_PROGRAM, "rank-check", opts->quiet ? "-q" : NULL, NULL};
    unsigned char bytes[ID_BYTES] = {0};
    cleanup_buf struct buf id = BUF_INIT;
    char n_ranks[24];
    struct meeting_texts texts = {0};
    (void)!getrandom(bytes, sizeof(bytes), 0); /* a request for so few bytes always succeeds */
    buf_add_hex(&id, (struct str){(const char *)bytes, sizeof(bytes)});
    snprintf(n_ranks, sizeof(n_ranks), "%lu", (unsigned long)opts->n_ranks);
    struct launch_request request = {.nproc = n_ranks,
                                     .run_id = buf_text(&id),
                                     .role = "doctor",
                                     .signals.names = "",
                                     .is_program = true,
                                     .log_dir = folder,
                                     .redirects = {.all = STD_OUT},
                                     .grace_ms = GRACE_MS,
                                     .limit_ms = LIMIT_MS};
    int rc = request_settle(app, opts, &request, &texts, err);
    rc = rc ? rc : launch_run(&app->log, app->self_path, &request, command, err);
    meeting_texts_release(&texts);
    return rc;
}

/* ---- what is said ---- */

static int print(const struct app *app, const struct doctor_ranks *opts, const struct told *told,
                 const struct mesh_hosts *hosts, const struct findings *findings, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    bool has_color = app->color && isatty(STDOUT_FILENO);
    if (opts->json)
        ranks_objects_add(&out, told, hosts);
    else if (!opts->quiet)
        ranks_tables_add(&out, told, hosts);
    for (size_t i = 0; i < findings->len; i++) {
        if (opts->quiet && findings->at[i].level == FINDING_OK)
            continue;
        if (opts->json)
            finding_object_add(&out, &findings->at[i], NULL);
        else
            finding_add(&out, &findings->at[i], has_color);
    }
    if (!opts->json && !(opts->quiet && out.len == 0))
        findings_summary_add(&out, findings, has_color);
    return stdout_put(buf_str(&out), err);
}

static bool is_finding(int rc)
{
    return rc == ERR_UNAVAILABLE || rc == ERR_TIMEOUT;
}

/* True if a signal has ended launch itself. A rank that died by another signal is a finding. */
static bool is_stopped(int rc)
{
    return rc == 128 + SIGHUP || rc == 128 + SIGINT || rc == 128 + SIGTERM;
}

static int examine(struct app *app, const struct doctor_ranks *opts, const struct names *names,
                   const char *folder, struct err *err)
{
    const struct mesh_hosts hosts = {.names = names->at, .n = names->n};
    struct findings findings = {.check = "meeting"};
    struct told told = {0};
    int rc = ranks_start(app, opts, folder, err);
    if (is_stopped(rc) || (rc < 0 && !is_finding(rc)))
        return rc;
    if (rc >= 0)
        told_read(folder, (uint32_t)(opts->n_ranks * names->n), &told);
    if (rc < 0)
        found(&findings, &not_started, "", "%s", err->text);
    else if (rc > 0)
        found(&findings, &ended_early, "", "a rank ended with status %d", rc);
    else
        mesh_judge(&told, &hosts, &findings);
    *err = (struct err){0};
    rc = print(app, opts, &told, &hosts, &findings, err);
    bool is_bad = findings_count(&findings, FINDING_FAIL) > 0 ||
                  (opts->strict && findings_count(&findings, FINDING_WARN) > 0);
    findings_release(&findings);
    told_release(&told);
    return rc ? rc : is_bad;
}

int doctor_ranks_run(struct app *app, const struct doctor_ranks *opts, struct err *err)
{
    const char *base = getenv("TMPDIR");
    struct names names = {0};
    app->log.console_quiet = opts->quiet;
    int rc = names_make(opts->wish, &names, err);
    cleanup_free char *folder = path_join(base && *base ? base : "/tmp", "muster-doctor-XXXXXX");
    if (rc == 0 && !mkdtemp(folder))
        rc = fail_errno_as(err, ERR_UNAVAILABLE, "make folder %s", folder);
    if (rc == 0) {
        rc = examine(app, opts, &names, folder, err);
        struct err unwanted = {0};
        (void)!remove_tree(folder, &unwanted);
    }
    names_release(&names);
    return rc;
}
