/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge export: writes a model in the forms that other programs read.
 */
#include <strings.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/kge_full.h"
#include "cli/kge_models.h"
#include "cli/kge_verbs.h"
#include "conve/export.h"

struct export_request {
    const char *model_path, *output;
    uint64_t embedding_height, embedding_width;
    enum conve_layout layout;
    bool is_pykeen, is_reciprocal, overwrite, is_quiet;
};

enum export_form {
    EXPORT_TORCH,
    EXPORT_SAFETENSORS,
    EXPORT_UNKNOWN
};

static enum export_form form_of(const char *path)
{
    const char *extension = path_extension(path);
    if (strcasecmp(extension, ".pt") == 0 || strcasecmp(extension, ".pth") == 0)
        return EXPORT_TORCH;
    return strcasecmp(extension, ".safetensors") == 0 ? EXPORT_SAFETENSORS : EXPORT_UNKNOWN;
}

static int request_check(const struct export_request *ask, struct err *err)
{
    static const struct kge_files no_files;
    if (!ask->model_path || !ask->output)
        return fail(err, ERR_USAGE, "--model-path and --output are needed");
    if (form_of(ask->output) == EXPORT_UNKNOWN)
        return fail(err, ERR_USAGE, "%s: expected a name that ends in .pt, .pth or .safetensors",
                    ask->output);
    return kge_output_check(
        ask->output, &no_files,
        &(struct texts){.at = (const char **)(uintptr_t)&ask->model_path, .len = 1}, err);
}

/* PyKEEN's files do not say whether it trained with inverse triples; --reciprocal does. */
static int reciprocal_take(struct conve *model, struct err *err)
{
    if (model->is_reciprocal)
        return 0;
    if (model->naming == NAMING_PLAIN)
        return fail(err, ERR_USAGE,
                    "--reciprocal is for models that PyKEEN wrote; %s has the plain names of "
                    "train_pytorch.py",
                    model->path);
    if (model->shape.n_relations % 2 != 0)
        return fail(err, ERR_USAGE,
                    "--reciprocal: PyKEEN's models with inverse triples have an even number of "
                    "relations; %s has %zu",
                    model->path, model->shape.n_relations);
    conve_relations_unweave(model);
    model->is_reciprocal = true;
    return 0;
}

/*
 * The folder of the records in the archive is named like the file without its extension, as
 * torch.save does.
 */
static int torch_put(const struct conve *model, const struct export_request *ask,
                     struct outfile *out, struct err *err)
{
    const char *name = path_basename(ask->output), *extension = path_extension(name);
    cleanup_free char *folder = xstrndup(name, strlen(name) - strlen(extension));
    return conve_export_torch(model, ask->is_pykeen, folder, out, err);
}

static int plain_safetensors_put(const struct conve *model, const struct export_request *ask,
                                 struct err *err)
{
    cleanup_buf struct buf metadata = BUF_INIT;
    if (model->learning_rate > 0)
        buf_addf(&metadata, ",\"" CONVE_LEARNING_RATE "\":\"%.17g\"", model->learning_rate);
    const struct conve_extra extra = {.metadata = buf_str(&metadata)};
    return conve_save(model, ask->output, ask->overwrite, &extra, err);
}

static int model_put(const struct conve *model, const struct export_request *ask, struct err *err)
{
    bool is_torch = form_of(ask->output) == EXPORT_TORCH;
    struct outfile out = OUTFILE_INIT;
    if (!is_torch && !ask->is_pykeen)
        return plain_safetensors_put(model, ask, err);
    int rc = outfile_open(&out, ask->output, ask->overwrite, err);
    if (rc == 0)
        rc = is_torch ? torch_put(model, ask, &out, err)
                      : conve_export_safetensors(model, &out, err);
    if (rc == 0)
        rc = outfile_commit(&out, err);
    outfile_close(&out);
    return rc;
}

/* Says how to construct the PyKEEN model that can load the file. */
static void pykeen_say(const struct app *app, const struct conve *model, const char *path)
{
    const struct conve_shape *shape = &model->shape;
    say(app,
        "%s is for ConvE(triples_factory=..., embedding_dim=%zu, output_channels=%zu, "
        "embedding_height=%zu, embedding_width=%zu, kernel_height=%zu, kernel_width=%zu%s), of "
        "%zu entities and %zu relations%s",
        path, conve_dim(shape), shape->n_filters, shape->height, shape->width, shape->kernel_height,
        shape->kernel_width, shape->lacks_norms ? ", apply_batch_normalization=False" : "",
        shape->n_entities, shape->n_relations / (model->is_reciprocal ? 2 : 1),
        model->is_reciprocal ? ", its factory with create_inverse_triples=True" : "");
    if (!shape->has_entity_bias)
        say(app, "%s has no entity bias: PyKEEN's is there, all zeros, and scores are the same",
            model->path);
}

static int export_run(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    (void)command;
    const struct export_request *ask = request;
    struct conve *model = NULL;
    const struct conve_load_opts opts = {.height = (size_t)ask->embedding_height,
                                         .width = (size_t)ask->embedding_width,
                                         .layout = ask->layout};
    app->quiet = ask->is_quiet;
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    int rc = request_check(ask, err);
    if (rc == 0)
        rc = conve_load(&model, ask->model_path, &opts, err);
    if (rc == 0 && ask->is_reciprocal)
        rc = reciprocal_take(model, err);
    if (rc == 0 && ask->is_pykeen)
        rc = conve_check_pykeen(model, err);
    if (rc == 0)
        rc = model_put(model, ask, err);
    if (rc == 0 && ask->is_pykeen)
        pykeen_say(app, model, ask->output);
    conve_free(model);
    return kge_full_say(rc, KGE_FULL_AGAIN, err);
}

#define FIELD(member) offsetof(struct export_request, member)

static const struct opt export_opts[] = {
    {OPT_PATH, 0, "model-path", "FILE", "checkpoint of a ConvE model, .pt, .pkl or .safetensors",
     FIELD(model_path)},
    {OPT_PATH, 'o', "output", "FILE",
     "by its extension: .pt or .pth as torch.save has it, or .safetensors", FIELD(output)},
    {OPT_FLAG, 0, "pykeen", NULL,
     "with the names of PyKEEN's ConvE, whose load_state_dict(strict=True) takes it (default: those of "
     "TiePin's train_pytorch.py, in .pt a checkpoint as it saves them)",
     FIELD(is_pykeen)},
    {OPT_FLAG, 0, "reciprocal", NULL,
     "the model is PyKEEN's, trained with create_inverse_triples: relations 2 r and 2 r + 1 are r "
     "and r the other way round",
     FIELD(is_reciprocal)},
    {OPT_FLAG, 0, "force", NULL, "replace the output if it exists", FIELD(overwrite)},
    {OPT_U64, 0, "embedding-height", "N",
     "rows of an embedding as an image, where the checkpoint leaves it open",
     FIELD(embedding_height), 1, UINT32_MAX},
    {OPT_U64, 0, "embedding-width", "N",
     "columns of an embedding as an image; give --embedding-height or --embedding-width",
     FIELD(embedding_width), 1, UINT32_MAX},
    {OPT_CHOICE, 0, "layout", "NAME", "width or height, where the checkpoint leaves it open",
     FIELD(layout), .choices = kge_layouts},
    {OPT_FLAG, 'q', "quiet", NULL, "print only errors on stderr", FIELD(is_quiet)},
    {.kind = OPT_END},
};

static const char *const export_examples[] = {
    "muster kge export --pykeen --model-path model/best_model.safetensors -o conve.pt",
    "for model.load_state_dict(torch.load('conve.pt')) of PyKEEN's ConvE",
    "muster kge export --model-path trained_model.pkl -o model.safetensors",
    "a model that PyKEEN saved, without pickle",
    NULL,
};

const struct cmd cmd_kge_export = {
    .name = "export",
    .family = "kge",
    .args = "[OPTION]... --model-path FILE -o FILE",
    .summary = "write a model as PyKEEN, torch or safetensors have it",
    .details = "The same numbers, bit for bit, under other names and in another form. muster kge "
               "reads what is written, with all that it knows of the model.",
    .opts = export_opts,
    .examples = export_examples,
    .request_size = sizeof(struct export_request),
    .run = export_run,
};
