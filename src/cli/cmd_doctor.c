/* SPDX-License-Identifier: Apache-2.0
 *
 * muster doctor: checks whether this machine is fit for the work. Each finding says what it means and how to
 * cure it.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "cli/verbs.h"
#include "doctor/doctor.h"
#include "doctor/smoke.h"
#include "store/runs.h"

enum {
    PATIENCE_MS = 4200,    /* so that the whole verb ends within five seconds */
    PATIENCE_MIN_MS = 100, /* a healthy driver must have time to answer */
    PATIENCE_MAX_MS = 24 * 3600 * 1000,
    SMOKE_LIMIT_MS = 90000,
    TEXT_COLUMN = 16,
    TEXT_WIDTH = 100,
};

struct doctor_request {
    const char *gpus, *runs_dir;
    bool json, strict, smoke, quiet, list;
    uint64_t patience_ms;
};

#define FIELD(name) offsetof(struct doctor_request, name)

static const struct opt doctor_opts[] = {
    {OPT_TEXT, 'g', "gpus", "SPEC",
     "only these devices (0,2,5-7, a UUID, cpu:N, sim:…; default: the whole machine)", FIELD(gpus)},
    {OPT_FLAG, 's', "smoke", NULL,
     "also run a small muster map with two workers on each device, and check each byte they make",
     FIELD(smoke)},
    {OPT_FLAG, 0, "strict", NULL, "also make warnings an exit status of 1", FIELD(strict)},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object per finding, each on a line", FIELD(json)},
    {OPT_FLAG, 'q', "quiet", NULL, "print only warnings and failures", FIELD(quiet)},
    {OPT_PATH, 0, "runs-dir", "DIR", "the folder for runs that is looked at (default muster-runs)",
     FIELD(runs_dir)},
    {OPT_DURATION, 0, "patience", "DURATION",
     "time limit for all queries together, at least 100ms; one query of a GPU may take a sixth of it "
     "(default 4.2s)",
     FIELD(patience_ms)},
    {OPT_FLAG, 0, "list", NULL, "list the checks and what they look at, and end", FIELD(list)},
    {OPT_END},
};

static const char *const doctor_examples[] = {
    "muster doctor",
    "everything that is known about this machine",
    "muster doctor shm limits disk",
    "three checks alone",
    "muster doctor --smoke -g 0-3",
    "and let two workers work on each of four GPUs",
    "muster doctor --json | jq -r 'select(.level == \"fail\") | .cure'",
    "what to do",
    NULL,
};

static void doctor_defaults(void *request)
{
    ((struct doctor_request *)request)->patience_ms = PATIENCE_MS;
}

/* ---- what people read ---- */

struct paint {
    const char *begin, *end;
};

static struct paint paint_of(enum finding_level level, bool color)
{
    static const char *const begins[] = {
        [FINDING_OK] = "\033[32m", [FINDING_WARN] = "\033[33m", [FINDING_FAIL] = "\033[1;31m"};
    return color ? (struct paint){begins[level], "\033[0m"} : (struct paint){"", ""};
}

/* Adds "  means: " and the text, wrapped. */
static void advice_add(struct buf *out, const char *name, const char *text)
{
    size_t column = TEXT_COLUMN + 7;
    buf_addf(out, "%*s%-6s", TEXT_COLUMN, "", name);
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column + len > TEXT_WIDTH) {
            buf_addf(out, "\n%*s", TEXT_COLUMN + 6, "");
            column = TEXT_COLUMN + 7;
        }
        buf_addf(out, " %.*s", (int)len, text);
        column += len + 1;
        text += len + strspn(text + len, " ");
    }
    buf_add_char(out, '\n');
}

/* Names of processes and values of variables may hold escape sequences: these are made harmless. */
static void words_add(struct buf *out, const struct finding *finding)
{
    console_text_add(out, str_of(finding->subject), false);
    buf_add_text(out, finding->subject[0] ? ": " : "");
    console_text_add(out, str_of(finding->found), false);
}

static void finding_add(struct buf *out, const struct finding *finding, bool color)
{
    struct paint paint = paint_of(finding->level, color);
    buf_addf(out, "%s%-4s%s  %-9s ", paint.begin, finding_level_name(finding->level), paint.end,
             finding->check);
    words_add(out, finding);
    buf_add_char(out, '\n');
    if (finding->level == FINDING_OK)
        return;
    advice_add(out, "means", finding->means);
    advice_add(out, "cure", finding->cure);
}

static void count_add(struct buf *out, const struct findings *findings, enum finding_level level,
                      const char *one, const char *many)
{
    size_t count = findings_count(findings, level);
    if (count > 0)
        buf_addf(out, ", %zu %s", count, count == 1 ? one : many);
}

/* The counts of findings, the worst level first. */
static void summary_add(struct buf *out, const struct findings *findings, bool color)
{
    static const char *const verdicts[] = {
        [FINDING_OK] = "fit", [FINDING_WARN] = "fit, with warnings", [FINDING_FAIL] = "not fit"};
    const struct finding *worst = findings_worst(findings);
    enum finding_level level = worst ? worst->level : FINDING_OK;
    struct paint paint = paint_of(level, color);
    if (!worst) {
        buf_add_text(out, "there is nothing of that on this machine\n");
        return;
    }
    buf_addf(out, "\n%s%s%s", paint.begin, verdicts[level], paint.end);
    count_add(out, findings, FINDING_FAIL, "failure", "failures");
    count_add(out, findings, FINDING_WARN, "warning", "warnings");
    count_add(out, findings, FINDING_OK, "ok", "ok");
    if (level != FINDING_OK) {
        buf_addf(out, "; first of all %s: ", worst->check);
        words_add(out, worst);
    }
    buf_add_char(out, '\n');
}

static void object_add(struct buf *out, const struct finding *finding)
{
    cleanup_buf struct buf object = BUF_INIT;
    char time[40];
    clock_rfc3339(time, clock_wall_ms());
    finding_format_json(finding, &object);
    buf_addf(out, "{\"time\":\"%s\",%s\n", time, buf_text(&object) + 1);
}

static int print(const struct app *app, const struct doctor_request *request,
                 const struct findings *findings, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    bool color = app->color && isatty(STDOUT_FILENO);
    for (size_t i = 0; i < findings->len; i++) {
        const struct finding *finding = &findings->at[i];
        if (request->quiet && finding->level == FINDING_OK)
            continue;
        if (request->json)
            object_add(&out, finding);
        else
            finding_add(&out, finding, color);
    }
    bool has_summary = !request->json && !(request->quiet && out.len == 0);
    if (has_summary)
        summary_add(&out, findings, color);
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

static int list_checks(struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    for (size_t i = 0; i < checks_count(); i++)
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
                   struct err *err)
{
    cleanup_free struct facts *facts = xcalloc(1, sizeof(*facts));
    cleanup_free char *runs_dir = runs_root(request->runs_dir);
    struct doctor_opts opts = {.self_path = app->self_path,
                               .spec = spec,
                               .runs_dir = runs_dir,
                               .deadline_ms = request->patience_ms};
    int rc = doctor_gather(&opts, facts, err);
    if (rc == 0)
        doctor_judge(facts, chosen, findings);
    if (rc == 0 && request->smoke)
        smoke(app, request, facts, findings);
    facts_release(facts);
    return rc;
}

static int doctor_run(struct app *app, void *request_, int argc, char **argv, char **command,
                      struct err *err)
{
    (void)command;
    const struct doctor_request *request = request_;
    cleanup_free struct device_spec *spec = xcalloc(1, sizeof(*spec));
    cleanup_free bool *chosen = xcalloc(checks_count(), sizeof(bool));
    struct findings findings = {0};
    if (request->list)
        return list_checks(err);
    int rc = choose_checks(argc, argv, chosen, err);
    if (rc == 0)
        rc = patience_check(request->patience_ms, err);
    if (rc == 0)
        rc = spec_parse(request->gpus, spec, err);
    if (rc == 0)
        rc = examine(app, request, spec, argc > 0 ? chosen : NULL, &findings, err);
    if (rc == 0)
        rc = print(app, request, &findings, err);
    bool is_bad = findings_count(&findings, FINDING_FAIL) > 0 ||
                  (request->strict && findings_count(&findings, FINDING_WARN) > 0);
    findings_release(&findings);
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
