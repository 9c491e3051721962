/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders about hosts (`muster hosts`).
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "shell/hosts_impl.h"

static bool is_active(const struct remote_host *h)
{
    return h->state != HOST_LEFT && h->state != HOST_FAILED;
}

/* The newest host of this name: a host may have left and been added again. */
static struct remote_host *host_named(const struct hosts *hosts, struct str name)
{
    for (size_t i = hosts->len; i-- > 0;)
        if (str_equal(name, str_of(hosts->at[i]->host.name)))
            return hosts->at[i];
    return NULL;
}

static struct remote_host *host_labelled(const struct hosts *hosts, struct str label)
{
    for (size_t i = hosts->len; i-- > 0;)
        if (str_equal(label, str_of(hosts->at[i]->host.label)))
            return hosts->at[i];
    return NULL;
}

static bool has_label(const void *context, const char *label)
{
    return host_labelled(context, str_of(label)) != NULL;
}

/* ---- adding ---- */

/* Is this machine in the run since its start? If it is added later, it is a host like others, with an agent. */
static bool has_local(const struct hosts *hosts)
{
    return hosts->has_local && hosts->local_state != HOST_LEFT;
}

static int addable_check(const struct hosts *hosts, const struct host_list *list, struct err *err)
{
    for (size_t i = 0; i < list->len; i++) {
        const struct remote_host *h = host_named(hosts, str_of(list->at[i].name));
        bool is_here = list->at[i].is_local && has_local(hosts);
        if (is_here || (h && is_active(h)))
            return fail(err, ERR_USAGE, "%s is a host of the run already", list->at[i].name);
    }
    return 0;
}

/* The number of jobs, with those that have left: the highest number of a job in the run. */
static size_t n_jobs(const struct hosts *hosts)
{
    size_t n = 0;
    for (size_t i = 0; i < hosts->len; i++)
        n += hosts->at[i]->host.is_job;
    return n;
}

/* Sets the label, which names logs. A host that has left and comes back keeps its label. */
static void label_settle(const struct hosts *hosts, struct host *host)
{
    const struct remote_host *earlier = host_named(hosts, str_of(host->name));
    if (!earlier) {
        host_label_settle(host, has_label, hosts);
        return;
    }
    free(host->label);
    host->label = xstrdup(earlier->host.label);
}

static int host_append(struct hosts *hosts, struct host *taken, bool are_some, struct err *err)
{
    cleanup_free char *name = xstrdup(taken->name);
    label_settle(hosts, taken);
    int rc = hosts_append(hosts, taken, err);
    if (rc)
        return wrap(err, rc, "%s%s", name, are_some ? ", after those before it were added" : "");
    host_log(hosts->at[hosts->len - 1], LOG_WARN, "", "it is asked to join");
    return 0;
}

/*
 * Does the list name a file? Files are read by the command that gives the order, since one may be a FIFO, or on a
 * server that does not answer.
 */
static bool names_file(const char *text)
{
    struct str rest = str_of(text), piece;
    bool does = false;
    while (rest.len > 0 && !does && str_next(&rest, ',', &piece))
        does = str_starts_with(str_trim(piece), STR("@"));
    return does;
}

static int hosts_add(struct hosts *hosts, const char *text, struct err *err)
{
    struct host_list list;
    if (names_file(text))
        return fail(err, ERR_USAGE, "an order names hosts, and not the file that lists them");
    if (hosts->shell->is_settled || shell_is_to_end(hosts->shell))
        return fail(err, ERR_STOPPED, "the run is ending");
    int rc = host_list_parse(text, &list, err);
    if (rc)
        return rc;
    host_list_number_jobs(&list, n_jobs(hosts));
    rc = addable_check(hosts, &list, err);
    if (rc == 0 && list.job.id) {
        slurm_job_release(&hosts->job);
        hosts->job = list.job;
        list.job = (struct slurm_job){0};
    }
    if (rc == 0)
        hosts_withheld_note(hosts, &list);
    if (rc == 0)
        shell_files_allow(hosts->shell,
                          hosts->allocation->n_seats + (uint32_t)(hosts->len + list.len));
    for (size_t i = 0; rc == 0 && i < list.len; i++)
        rc = host_append(hosts, &list.at[i], i > 0, err);
    hosts_arrivals_tell(hosts); /* so that the run does not end if its last host leaves now */
    host_list_release(&list);
    return rc;
}

/* ---- giving back ---- */

/* Does the run keep another host? `leaving` NULL: this machine leaves. */
static bool any_other(const struct hosts *hosts, const struct remote_host *leaving)
{
    bool any = leaving && hosts->has_local && hosts->local_state == HOST_UP;
    for (size_t i = 0; i < hosts->len; i++) {
        const struct remote_host *h = hosts->at[i];
        bool stays = h->state != HOST_DRAINING || h->slurm.is_renewed;
        any = any || (h != leaving && is_active(h) && stays);
    }
    return any;
}

static int host_drop(struct hosts *hosts, struct str name, bool now, struct err *err)
{
    struct remote_host *h = host_named(hosts, name);
    h = h ? h : host_labelled(hosts, name);
    bool is_local = has_local(hosts) && str_equal(name, STR("local"));
    if (!is_local && (!h || !is_active(h)))
        return fail(err, ERR_USAGE, "'%.*s' is no host of the run", (int)name.len, name.at);
    const char *shown = is_local ? "local" : h->host.name;
    if (!now && !any_other(hosts, is_local ? NULL : h))
        return fail(err, ERR_USAGE,
                    "%s is the run's last host; add another one first, or end its workers with "
                    "--now, which stops the run",
                    shown);
    log_add(hosts->shell->log, LOG_WARN, "host", "%s: it is given back %s", shown,
            now ? "at once" : "when its workers have finished");
    if (is_local)
        hosts_local_give_back(hosts, now);
    else
        host_give_back(h, now);
    return 0;
}

/* ---- an order ---- */

bool hosts_take_orders(const struct hosts *hosts)
{
    return !hosts->is_leaving && hosts->shell->machines.watch;
}

static int line_do(struct hosts *hosts, struct str line, struct err *err)
{
    struct str word;
    struct str rest = line;
    if (!str_next(&rest, ' ', &word) || rest.len == 0)
        return fail(err, ERR_DATA, "an order that cannot be understood");
    cleanup_free char *text = xstrndup(rest.at, rest.len);
    if (str_equal(word, STR("add")))
        return hosts_add(hosts, text, err);
    if (str_equal(word, STR("drop")) || str_equal(word, STR("drop-now")))
        return host_drop(hosts, str_of(text), str_equal(word, STR("drop-now")), err);
    return fail(err, ERR_DATA, "an order that cannot be understood");
}

/* muster hosts has checked the words, so a usage error here is a refusal by this run. */
int hosts_order(struct hosts *hosts, struct str line, struct err *err)
{
    int rc = line_do(hosts, line, err);
    if (rc == ERR_USAGE)
        err->code = rc = ERR_UNAVAILABLE;
    return rc;
}
