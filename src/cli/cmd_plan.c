/* SPDX-License-Identifier: Apache-2.0
 *
 * muster plan: which part of a model goes to which device. The plan is made in src/plan.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/named_files.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "cli/plan_devices.h"
#include "cli/verbs.h"
#include "device/spec.h"
#include "opt/say.h"
#include "plan/plan.h"
#include "tensor/kind.h"

#define RESERVE_DEFAULT ((uint64_t)512 << 20)

struct plan_options {
    struct plan_devices_wish devices;
    struct plan_wish of;
    const char *layout, *out, *plot, *check;
    uint64_t reserve_bytes; /* UINT64_MAX: the default of the method */
    bool is_json, explains, is_quiet, overwrite;
};

/* ---- values of options ---- */

static const struct choice methods[] = {
    {"optimal", PARTITION_OPTIMAL},       {"balanced", PARTITION_BALANCED},
    {"auto", PARTITION_BALANCED},         {"balanced_low_0", PARTITION_BALANCED_LOW_0},
    {"sequential", PARTITION_SEQUENTIAL}, {0},
};
static const struct choice goals[] = {
    {"memory", PARTITION_LEAST_MEMORY},
    {"stage", PARTITION_LEAST_STAGE},
    {"latency", PARTITION_LEAST_LATENCY},
    {0},
};
static const struct choice types[] = {
    {"auto", 0}, {"bfloat16", 2}, {"float16", 2}, {"float32", 4}, {"float64", 8}, {0},
};

/* ---- what it does ---- */

static int outputs_write(const struct plan_options *options, const char *path,
                         const struct model_plan *plan, struct err *err)
{
    cleanup_buf struct buf map = BUF_INIT, svg = BUF_INIT;
    int rc = 0;
    if (options->plot) {
        plan_svg_add(plan, path, &svg);
        rc = outfile_put(options->plot, buf_str(&svg), err);
    }
    if (rc == 0 && options->out && plan_has_map(plan)) {
        plan_map_add(plan, &map);
        rc = strcmp(options->out, "-") == 0 ? stdout_put(buf_str(&map), err)
                                            : outfile_put(options->out, buf_str(&map), err);
    }
    return rc;
}

/* Adds what Accelerate would do, for comparison. */
static int explanation_add(const struct model_plan *plan, struct buf *out, struct err *err)
{
    struct plan_wish wish = plan->wish;
    struct model_plan other;
    wish.method = PARTITION_BALANCED;
    if (plan->wish.method != PARTITION_OPTIMAL) {
        plan_explanation_add(plan, NULL, out);
        return 0;
    }
    int rc = model_plan_make(plan->model, &wish, &other, err);
    if (rc == 0)
        plan_explanation_add(plan, &other, out);
    model_plan_release(&other);
    return rc;
}

static int report(const struct plan_options *options, const char *path,
                  const struct model_plan *plan, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT, cures = BUF_INIT;
    bool is_map_on_stdout = options->out && strcmp(options->out, "-") == 0;
    int rc = 0;
    if (options->is_json) {
        plan_json_add(plan, &out);
        return objects_put(buf_str(&out), err);
    }
    if (is_map_on_stdout)
        return 0;
    plan_table_add(plan, path, &out);
    buf_add_char(&out, '\n');
    plan_picture_add(plan, &out);
    if (options->explains) {
        buf_add_char(&out, '\n');
        rc = explanation_add(plan, &out, err);
    }
    if (plan_missing_bytes(plan) > 0 && !options->check)
        plan_cures_add(plan, &cures);
    if (cures.len > 0)
        buf_addf(&out, "\nIt would fit with one of these:\n%s", buf_text(&cures));
    return rc ? rc : stdout_put(buf_str(&out), err);
}

static int missing_fail(const struct model_plan *plan, struct err *err)
{
    char missing[16], unit[16];
    struct str name = plan->map->missing_name;
    size_format(missing, plan_missing_bytes(plan));
    size_format(unit, plan->map->missing_unit_bytes);
    return name.len > 0
               ? fail(err, ERR_FAILED,
                      "it does not fit: %s are missing; %.*s, of %s, is the largest part without a "
                      "place",
                      missing, (int)MIN(name.len, (size_t)120), name.at, unit)
               : fail(err, ERR_FAILED, "it does not fit: %s are missing", missing);
}

static int check(const struct plan_options *options, const char *path, struct model_plan *plan,
                 struct err *err)
{
    struct plan_check result = {0};
    cleanup_buf struct buf text = BUF_INIT;
    int rc = file_read(options->check, PLAN_MAP_BYTES_MAX, &text, err);
    if (rc == 0)
        rc = plan_map_take(plan, options->check, buf_str(&text), &result, err);
    struct str rest = buf_str(&result.problems), line;
    while (rc == 0 && str_next(&rest, '\n', &line))
        if (line.len > 0)
            talk("%.*s", (int)line.len, line.at);
    buf_release(&result.problems);
    if (rc == 0)
        rc = report(options, path, plan, err);
    if (rc == 0 && result.n_problems > 0)
        rc = fail(err, ERR_FAILED, "%s: %zu problem%s", options->check, result.n_problems,
                  plural(result.n_problems));
    return rc == 0 && plan_missing_bytes(plan) > 0 ? missing_fail(plan, err) : rc;
}

static void remarks_say(const struct app *app, const struct model *model,
                        const struct model_plan *plan)
{
    const struct model_config *config = &model->config;
    if (plan->tree.is_guessed)
        say(app,
            "%s%s: the order of modules is guessed from the files, and numbered modules are not "
            "cut; --layout says it better",
            config->class_name[0] ? config->class_name : "no config.json names an architecture",
            config->class_name[0] ? " is not in the table of architectures" : "");
    if (plan_is_partial(plan))
        say(app, "%s not counted: config.json %s",
            config->hidden > 0               ? "the KV cache is"
            : model_config_has_cache(config) ? "activations are"
                                             : "KV cache and activations are",
            model->has_config ? "does not say how the layers are made"
                              : "is not beside the weights");
    if (config->context_max > 0 && plan->wish.context > config->context_max)
        say(app, "--context %lu is more than the %lu tokens of config.json", plan->wish.context,
            config->context_max);
}

static int plan_of(const struct app *app, const struct plan_options *options, const char *path,
                   const struct model *model, struct err *err)
{
    struct model_plan plan = {0};
    int rc = model_plan_make(model, &options->of, &plan, err);
    if (rc == ERR_DATA)
        wrap(err, rc, "%s", path);
    if (rc == 0)
        remarks_say(app, model, &plan);
    if (rc == 0 && options->check)
        rc = check(options, path, &plan, err);
    else if (rc == 0) {
        rc = report(options, path, &plan, err);
        if (rc == 0)
            rc = outputs_write(options, path, &plan, err);
        if (rc == 0 && plan_missing_bytes(&plan) > 0)
            rc = missing_fail(&plan, err);
    }
    model_plan_release(&plan);
    return rc;
}

static bool is_of_model(const char *path, const char *model)
{
    const char *name = path_basename(path);
    cleanup_free char *folder = path_dirname(path);
    return path_is_same(path, model) ||
           (path_is_same(folder, model) &&
            (tensor_kind_of_name(name) != TENSOR_NONE || strcmp(name, "config.json") == 0 ||
             str_ends_with(str_of(name), STR(".index.json"))));
}

/* An output must not replace an input, and replaces another existing file only with --force. */
static int outputs_check(const struct plan_options *options, const char *model, struct err *err)
{
    const struct named_file files[] = {{options->out, "-o", true},
                                       {options->plot, "--plot", true},
                                       {options->check, "the map of --check", false}};
    for (size_t i = 0; i < countof(files); i++)
        if (files[i].is_written && files[i].path && is_of_model(files[i].path, model))
            return fail(err, ERR_USAGE, "%s: %s names a file of the model; name another one",
                        files[i].path, files[i].name);
    return named_files_free(files, countof(files), options->overwrite, err);
}

static int plan_run(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    struct plan_options *options = request;
    struct plan_device_list devices = {0};
    struct model model = {0};
    (void)command;
    app->quiet = options->is_quiet;
    if (argc != 1)
        return fail(err, ERR_USAGE, "give one model: a folder, or a file of tensors");
    if (options->is_json && options->out && strcmp(options->out, "-") == 0)
        return fail(err, ERR_USAGE,
                    "-o - and --json both write to standard output; the last object of --json has "
                    "device_map");
    int rc = outputs_check(options, argv[0], err);
    if (rc)
        return rc;
    bool is_optimal = options->of.method == PARTITION_OPTIMAL;
    options->of.reserve_bytes = options->reserve_bytes < UINT64_MAX ? options->reserve_bytes
                                : is_optimal                        ? RESERVE_DEFAULT
                                                                    : 0;
    options->of.layout = options->layout ? str_of(options->layout) : (struct str){"", 0};
    options->of.sets_no_limits = options->devices.gpus && !is_optimal;
    rc = plan_devices_make(app, &options->devices, &devices, err);
    if (rc == 0)
        rc = model_read(argv[0], &model, err);
    options->of.devices = devices.at;
    options->of.n_devices = devices.len;
    if (rc == 0)
        rc = plan_of(app, options, argv[0], &model, err);
    model_release(&model);
    plan_devices_release(&devices);
    return rc;
}

#define FIELD(name)   offsetof(struct plan_options, name)
#define OF(name)      offsetof(struct plan_options, of.name)
#define DEVICES(name) offsetof(struct plan_options, devices.name)

/* clang-format off */
static const struct opt plan_opts[] = {
    {OPT_HEADING, .help = "Devices"},
    {OPT_TEXT, 'g', "gpus", "SPEC", "devices of this machine, with the memory that is free on them: all, 0,2, free:20GiB", DEVICES(gpus), .check = spec_check},
    {OPT_TEXT, 0, "devices", "SIZES", "memory of the GPUs 0, 1, …, which need not be on this machine: 24GiB,24GiB,80GiB; 4x24GiB: four GPUs; 80GiB=2: a GPU that is twice as fast as the others", DEVICES(sizes), .check = plan_sizes_check, .has_no_variable = true},
    {OPT_SIZE, 0, "cpu", "SIZE", "memory of the CPU for what fits on no GPU (default: none)", DEVICES(cpu_bytes), .has_no_variable = true},
    {OPT_FLAG, 0, "disk", NULL, "put what fits neither on a GPU nor in --cpu on the disk (default: such a model does not fit)", DEVICES(has_disk)},
    {OPT_SIZE, 0, "reserve", "SIZE", "memory of each GPU that is kept for the driver's context and workspaces (default 512MiB; 0 with Accelerate's methods, which take sizes as max_memory)", FIELD(reserve_bytes)},
    {OPT_HEADING, .help = "The model"},
    {OPT_CHOICE, 0, "dtype", "TYPE", "type in which floats are loaded: float16, bfloat16, float32; auto: the type that config.json names, else that of the files (default auto)", OF(type_bytes), .choices = types},
    {OPT_U64, 0, "context", "N", "tokens of a sequence (default: those of config.json, at most 4096)", OF(context), 1, 1000000000},
    {OPT_U64, 0, "batch", "N", "sequences at a time (default 1)", OF(batch), 1, 1000000000},
    {OPT_TEXT, 0, "layout", "MODULES", "for an architecture that muster does not know: the modules in their order, ! after a module that is never cut, such as 'model.embed_tokens model.layers.*! model.norm lm_head=model.embed_tokens'", FIELD(layout)},
    {OPT_HEADING, .help = "The map"},
    {OPT_CHOICE, 0, "method", "NAME", "optimal, or one of Accelerate's: balanced (also auto), balanced_low_0, sequential (default optimal)", OF(method), .choices = methods},
    {OPT_CHOICE, 0, "goal", "GOAL", "what the optimal map minimises: memory, the filled share of the fullest GPU; stage, the time of the slowest device; latency, the sum of the times of all devices (default memory)", OF(goal), .choices = goals},
    {OPT_PATH, 'o', "output", "FILE", "write the device_map, as transformers reads it; - for stdout", FIELD(out), .has_no_variable = true},
    {OPT_PATH, 0, "plot", "FILE", "draw the map as SVG", FIELD(plot)},
    {OPT_FLAG, 'f', "force", NULL, "replace files that exist", FIELD(overwrite)},
    {OPT_PATH, 0, "check", "FILE", "make no map; check whether the map in FILE fits the model and the devices", FIELD(check), .has_no_variable = true},
    {OPT_FLAG, 0, "explain", NULL, "print how the numbers are computed", FIELD(explains)},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object per line instead of a table", FIELD(is_json)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing on stderr but errors", FIELD(is_quiet)},
    {OPT_END},
};
/* clang-format on */

static void plan_defaults(void *request)
{
    struct plan_options *options = request;
    options->of.method = PARTITION_OPTIMAL;
    options->reserve_bytes = UINT64_MAX;
}

static const char *const plan_examples[] = {
    "muster plan models/gpt-neox-20b --devices 4x24GiB -o device_map.json",
    "a model of 20 billion parameters over four GPUs of 24 GiB",
    "muster plan models/Llama-3.1-70B -g all --context 8192 --batch 4 --explain",
    "over the GPUs of this machine, with the KV cache of four sequences",
    "muster plan models/Mixtral-8x7B --devices 2x24GiB --cpu 64GiB --method balanced -o -",
    "the map that Accelerate would make, with the rest in the memory of the CPU",
    NULL,
};

const struct cmd cmd_plan = {
    .name = "plan",
    .args = "[OPTION]... MODEL",
    .summary = "make a device map for a model that is too large for one GPU",
    .details =
        "MODEL is a folder with safetensors or pytorch_model.bin and config.json, or a file .safetensors, .bin, .pt or "
        ".gguf. Only headers are read. The map says for each module on which device it is, so that weights, KV cache "
        "and activations fit; transformers takes it as device_map.",
    .opts = plan_opts,
    .examples = plan_examples,
    .request_size = sizeof(struct plan_options),
    .defaults = plan_defaults,
    .run = plan_run,
};
