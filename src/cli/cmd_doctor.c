/* SPDX-License-Identifier: Apache-2.0
 *
 * muster doctor: checks whether this machine is fit for the work. Each finding says what it means and how to
 * cure it.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/doctor_hosts.h"
#include "cli/doctor_print.h"
#include "cli/doctor_ranks.h"
#include "cli/run_arg.h"
#include "cli/verbs.h"
#include "doctor/doctor.h"
#include "doctor/smoke.h"
#include "node/allocation_arg.h"
#include "store/runs.h"
#include "version.h"

enum {
    PATIENCE_MS = 4200,    /* so that the whole verb ends within five seconds */
    PATIENCE_MIN_MS = 100, /* a healthy driver must have time to answer */
    PATIENCE_MAX_MS = 24 * 3600 * 1000,
    SMOKE_LIMIT_MS = 90000,
    SMOKE_OF_HOST_MS = 20 * 60 * 1000, /* for all devices of a host, one after the other */
    RANKS_MAX = 1024
};

struct doctor_request {
    const char *gpus, *runs_dir, *python;
    bool json, strict, smoke, quiet, list, wants_traits;
    uint64_t patience_ms;
    struct allocation_wish hosts;
    uint64_t n_ranks; /* 0: no ranks are started */
    const char *master_addr;
    uint64_t master_port;
};

#define FIELD(name) offsetof(struct doctor_request, name)

/* clang-format off */
static const struct opt doctor_opts[] = {
    {OPT_TEXT, 'g', "gpus", "SPEC",
     "only these devices (0,2,5-7, a UUID, cpu:N, sim:…; default: the whole machine)", FIELD(gpus)},
    {OPT_FLAG, 's', "smoke", NULL,
     "also run a small muster map with two workers on each device, and compare every byte of the result",
     FIELD(smoke)},
    {OPT_FLAG, 0, "strict", NULL, "end with status 1 if there are warnings, not only if there are failures", FIELD(strict)},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object per line, one for each finding", FIELD(json)},
    {OPT_FLAG, 'q', "quiet", NULL, "print only warnings and failures", FIELD(quiet)},
    {OPT_PATH, 0, "runs-dir", "DIR", "the folder for runs that is looked at (default muster-runs)",
     FIELD(runs_dir)},
    {OPT_DURATION, 0, "patience", "DURATION",
     "time limit for all queries together, at least 100ms; one query of a GPU may take at most a sixth of this time (default 4.2s)",
     FIELD(patience_ms)},
    {OPT_FLAG, 0, "list", NULL, "list the checks and what they look at, and end", FIELD(list)},
    LOOK_OPTS(FIELD(hosts)),
    {OPT_FLAG, 0, "traits", NULL, "also print the traits by which --hosts compares machines: versions, devices, limits, the interpreter and its packages", FIELD(wants_traits)},
    {OPT_TEXT, 0, "python", "PROGRAM", "the workers' interpreter, whose packages are compared (default python3)", FIELD(python)},
    {OPT_HEADING, .help = "Ranks"},
    {OPT_U64, 0, "ranks", "N", "instead of the checks: start N ranks as muster launch does (with --hosts N on each host), and measure the links between them", FIELD(n_ranks), 1, RANKS_MAX},
    {OPT_TEXT, 0, "master-addr", "HOST", "with --ranks: the address of rank 0 (default: with --hosts one that all hosts reach, else localhost)", FIELD(master_addr)},
    {OPT_U64, 0, "master-port", "PORT", "with --ranks: the port at which the ranks meet (default: a free one)", FIELD(master_port), 1, 65535},
    {OPT_END},
};
/* clang-format on */

static const char *const doctor_examples[] = {
    "muster doctor",
    "everything that is known about this machine",
    "muster doctor shm limits disk",
    "three checks alone",
    "muster doctor --smoke -g 0-3",
    "and let two workers work on each of four GPUs",
    "muster doctor --json | jq -r 'select(.level == \"fail\") | .cure'",
    "what to do",
    "muster doctor --hosts lab1,lab2,local",
    "three machines, and what differs between them",
    "muster doctor --ranks 8 --hosts lab1,lab2",
    "sixteen ranks of two machines: do they meet, and how fast are the links?",
    NULL,
};

static void doctor_defaults(void *request)
{
    *(struct doctor_request *)request =
        (struct doctor_request){.patience_ms = PATIENCE_MS, .python = "python3"};
}

static void traits_json(struct buf *out, const struct traits *traits)
{
    traits_objects_add(out, traits, NULL);
}

static void traits_text(struct buf *out, const struct traits *traits)
{
    buf_add_char(out, '\n');
    traits_add(out, traits);
}

static int print(const struct app *app, const struct doctor_request *request,
                 const struct findings *findings, const struct traits *traits, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    bool color = app->color && isatty(STDOUT_FILENO);
    for (size_t i = 0; i < findings->len; i++) {
        const struct finding *finding = &findings->at[i];
        if (request->quiet && finding->level == FINDING_OK)
            continue;
        if (request->json)
            finding_object_add(&out, finding, NULL);
        else
            finding_add(&out, finding, color);
    }
    bool has_summary = !request->json && !(request->quiet && out.len == 0);
    if (request->wants_traits)
        (request->json ? traits_json : traits_text)(&out, traits);
    if (has_summary)
        findings_summary_add(&out, findings, color);
    return stdout_put(buf_str(&out), err);
}

/* ---- the self-test ---- */

/*
 * True for a variable such as MUSTER_WORKERS_PER_GPU, which map takes for an option: it would change the smoke
 * test's runs, so it is left out.
 */
static bool is_default_of_map(const char *entry)
{
    for (const struct opt *opt = cmd_map.opts; opt->kind != OPT_END; opt++) {
        char variable[OPT_VARIABLE_MAX];
        if (!opt->name)
            continue;
        opt_variable(&cmd_map, opt, variable);
        size_t len = strlen(variable);
        if (strncmp(entry, variable, len) == 0 && entry[len] == '=')
            return true;
    }
    return false;
}

static char **environment_new(void)
{
    size_t n_entries = 0, n_kept = 0;
    while (environ[n_entries])
        n_entries++;
    char **kept = xcalloc(n_entries + 1, sizeof(*kept));
    for (size_t i = 0; i < n_entries; i++)
        if (!is_default_of_map(environ[i]))
            kept[n_kept++] = environ[i];
    return kept;
}

static void smoke(const struct app *app, const struct doctor_request *request,
                  const struct facts *facts, struct findings *findings)
{
    cleanup_free char **environment = environment_new();
    struct smoke_opts opts = {.self_path = app->self_path,
                              .gpus = request->gpus,
                              .driver_said = facts->driver.said,
                              .environment = environment,
                              .limit_ms = SMOKE_LIMIT_MS};
    struct device_list devices = runnable_devices(facts);
    smoke_run(&opts, &devices, findings);
    device_list_release(&devices);
}

/* ---- the verb ---- */

static int list_checks(bool is_json, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    for (size_t i = 0; i < checks_count(); i++)
        if (is_json)
            check_object_add(&out, check_name(i), check_purpose(i));
        else
            buf_addf(&out, "%-10s %s\n", check_name(i), check_purpose(i));
    return stdout_put(buf_str(&out), err);
}

static int patience_check(uint64_t patience_ms, struct err *err)
{
    if (patience_ms < PATIENCE_MIN_MS)
        return fail(err, ERR_USAGE, "--patience is too short for an answer: give at least 100ms");
    if (patience_ms > PATIENCE_MAX_MS)
        return fail(err, ERR_USAGE, "--patience is at most a day");
    return 0;
}

static int choose_checks(int argc, char **argv, bool *chosen, struct err *err)
{
    for (int i = 0; i < argc; i++) {
        size_t check;
        int rc = check_find(argv[i], &check, err);
        if (rc)
            return rc;
        chosen[check] = true;
    }
    return 0;
}

static int examine(struct app *app, const struct doctor_request *request,
                   const struct device_spec *spec, const bool *chosen, struct findings *findings,
                   struct traits *traits, struct err *err)
{
    cleanup_free struct facts *facts = xcalloc(1, sizeof(*facts));
    cleanup_free char *runs_dir = runs_root(request->runs_dir);
    struct doctor_opts opts = {.self_path = app->self_path,
                               .spec = spec,
                               .runs_dir = runs_dir,
                               .python = request->wants_traits ? request->python : NULL,
                               .deadline_ms = request->patience_ms};
    int rc = doctor_gather(&opts, facts, err);
    if (rc == 0)
        doctor_judge(facts, chosen, findings);
    if (rc == 0 && request->wants_traits)
        traits_take(facts, MUSTER_VERSION, traits);
    if (rc == 0 && request->smoke)
        smoke(app, request, facts, findings);
    facts_release(facts);
    return rc;
}

/* Makes the command line of the doctor on each host. */
static void words_make(const struct doctor_request *request, int argc, char **argv,
                       struct env_list *words)
{
    static const char *const always[] = {"doctor", "--json", "--traits", NULL};
    env_list_add_words(words, always);
    env_list_add(words, xasprintf("--python=%s", request->python));
    env_list_add(words, xasprintf("--patience=%lums", request->patience_ms));
    if (request->runs_dir)
        env_list_add(words, xasprintf("--runs-dir=%s", request->runs_dir));
    if (request->smoke)
        env_list_add(words, xstrdup("--smoke"));
    for (int i = 0; i < argc; i++)
        env_list_add(words, xstrdup(argv[i]));
    env_end(words);
}

static int hosts_examine(struct app *app, const struct doctor_request *request, int argc,
                         char **argv, struct err *err)
{
    struct doctor_hosts opts = {
        .wish = &request->hosts,
        .look = {.cmd = &cmd_doctor,
                 .gpus = request->gpus,
                 .limit_ms = request->patience_ms + (request->smoke ? SMOKE_OF_HOST_MS : 0)},
        .json = request->json,
        .strict = request->strict,
        .quiet = request->quiet,
        .wants_traits = request->wants_traits,
        .compares = argc == 0};
    words_make(request, argc, argv, &opts.look.words);
    int rc = doctor_hosts_run(app, &opts, err);
    env_list_release(&opts.look.words);
    return rc;
}

static int ranks_examine(struct app *app, const struct doctor_request *request, int argc,
                         struct err *err)
{
    const struct doctor_ranks opts = {.n_ranks = request->n_ranks,
                                      .wish = &request->hosts,
                                      .master_addr = request->master_addr,
                                      .master_port = request->master_port,
                                      .json = request->json,
                                      .strict = request->strict,
                                      .quiet = request->quiet};
    if (argc > 0 || request->smoke || request->wants_traits)
        return fail(err, ERR_USAGE,
                    "--ranks looks at the links between ranks alone: without CHECK, --smoke and "
                    "--traits");
    return doctor_ranks_run(app, &opts, err);
}

static int doctor_run(struct app *app, void *request_, int argc, char **argv, char **command,
                      struct err *err)
{
    (void)command;
    const struct doctor_request *request = request_;
    cleanup_free struct device_spec *spec = xcalloc(1, sizeof(*spec));
    cleanup_free bool *chosen = xcalloc(checks_count(), sizeof(bool));
    struct findings findings = {0};
    struct traits traits = {0};
    if (request->list)
        return list_checks(request->json, err);
    int rc = choose_checks(argc, argv, chosen, err);
    if (rc == 0)
        rc = patience_check(request->patience_ms, err);
    if (rc == 0)
        rc = spec_parse(request->gpus, spec, err);
    if (rc == 0 && request->n_ranks > 0)
        return ranks_examine(app, request, argc, err);
    if (rc == 0 && request->hosts.hosts)
        return hosts_examine(app, request, argc, argv, err);
    if (rc == 0)
        rc = examine(app, request, spec, argc > 0 ? chosen : NULL, &findings, &traits, err);
    if (rc == 0)
        rc = print(app, request, &findings, &traits, err);
    bool is_bad = findings_count(&findings, FINDING_FAIL) > 0 ||
                  (request->strict && findings_count(&findings, FINDING_WARN) > 0);
    findings_release(&findings);
    traits_release(&traits);
    return rc ? rc : is_bad;
}

const struct cmd cmd_doctor = {
    .name = "doctor",
    .args = "[OPTION]... [CHECK]...",
    .summary = "check whether this machine is fit for the work, and say how to cure each problem",
    .details =
        "Looks at the driver and the devices, at the processes on them and orphaned ones, at links, "
        "limits, memory, cores, the disk for runs, and at what the environment hides or sets. "
        "Nothing is changed; for a third of a second at most 64 MiB are written into the folder "
        "for runs, to a file without a name. Without a CHECK, all checks are made (--list).",
    .opts = doctor_opts,
    .examples = doctor_examples,
    .request_size = sizeof(struct doctor_request),
    .defaults = doctor_defaults,
    .run = doctor_run,
};
