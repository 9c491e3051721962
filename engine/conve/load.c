/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a model of named tensors: finds out which tensors belong to it, then its shape and its
 * numbers.
 */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "conve/model.h"
#include "conve/tensors.h"
#include "tensor/pread.h"
#include "tensor/safetensors.h"
#include "tensor/torch/torch.h"

enum {
    HEAD_BYTES = 16,
    FITS_MAX = 16,
    NAMES_SHOWN = 6
};

/* The default of torch, which the plain implementation and PyKEEN keep. */
static const double bn_eps_default = 1e-5;

/* ---- the names ---- */

/*
 * Returns what precedes the name of the entities' table in `name`: nothing, or text that ends with
 * a dot. NULL if `name` is not of that table. free() it.
 */
static char *prefix_new(const char *name, enum conve_naming naming)
{
    struct str whole = str_of(name);
    struct str own = str_of(conve_param_name(PARAM_ENTITY, naming));
    if (!str_ends_with(whole, own))
        return NULL;
    size_t len = whole.len - own.len;
    return len == 0 || name[len - 1] == '.' ? xstrndup(name, len) : NULL;
}

/*
 * True if none of the norms' names is there. Always false for NAMING_PYKEEN, whose layer numbers
 * count norms: a model of PyKEEN without norms has NAMING_PYKEEN_BARE.
 */
static bool lacks_norms(const struct tensor_file *file, const char *prefix,
                        enum conve_naming naming)
{
    for (unsigned param = 0; param < PARAM_N; param++) {
        const char *name = conve_param_name((enum conve_param)param, naming);
        if (name && conve_param_is_norm((enum conve_param)param) &&
            tensor_file_find(file, prefix, name))
            return false;
    }
    return naming != NAMING_PYKEEN;
}

/*
 * Returns the first missing name, or NULL. The entity bias is optional, and so are all norms
 * together.
 */
static const char *missing_name(const struct tensor_file *file, const char *prefix,
                                enum conve_naming naming)
{
    bool is_bare = lacks_norms(file, prefix, naming);
    for (unsigned param = 0; param < PARAM_N; param++) {
        const char *name = conve_param_name((enum conve_param)param, naming);
        if (param != PARAM_ENTITY_BIAS &&
            !(is_bare && conve_param_is_norm((enum conve_param)param)) &&
            !tensor_file_find(file, prefix, name))
            return name;
    }
    return NULL;
}

static int no_model(const struct tensor_file *file, struct err *err)
{
    cleanup_buf struct buf names = BUF_INIT;
    for (size_t i = 0; i < MIN(file->n_tensors, (size_t)NAMES_SHOWN); i++)
        buf_addf(&names, "%s%s", i ? ", " : "", file->tensors[i].name);
    return fail(err, ERR_DATA,
                "%s: no ConvE: neither %s nor %s is in it, but %zu other tensors%s%s", file->path,
                conve_param_name(PARAM_ENTITY, NAMING_PLAIN),
                conve_param_name(PARAM_ENTITY, NAMING_PYKEEN), file->n_tensors,
                file->n_tensors ? ": " : "", buf_text(&names));
}

/* Of several models in a file, finds the one called model_state_dict. free() *prefix. */
static int model_find(const struct tensor_file *file, char **prefix, enum conve_naming *naming,
                      struct err *err)
{
    cleanup_free char *found = NULL;
    int rc = no_model(file, err);
    for (size_t i = 0; i < file->n_tensors * NAMING_N; i++) {
        enum conve_naming which = (enum conve_naming)(i % NAMING_N);
        cleanup_free char *here = prefix_new(file->tensors[i / NAMING_N].name, which);
        if (!here)
            continue;
        const char *missing = missing_name(file, here, which);
        if (missing && !found && which != NAMING_PYKEEN_BARE)
            rc = fail(err, ERR_DATA, "%s: %s%s is not in it (a model of another kind?)", file->path,
                      here, missing);
        if (missing)
            continue;
        if (found && strcmp(here, "model_state_dict.") != 0) {
            if (strcmp(found, "model_state_dict.") == 0)
                continue;
            return fail(err, ERR_USAGE,
                        "%s: two models are in it, '%s' and '%s': save the one that is meant in "
                        "a file of its own",
                        file->path, found, here);
        }
        free(found);
        found = steal_ptr(&here);
        *naming = which;
        rc = 0;
    }
    *prefix = steal_ptr(&found);
    return rc;
}

/* ---- the shape ---- */

struct found {
    const struct tensor_file *file;
    const char *prefix;
    enum conve_naming naming;
};

static const struct named_tensor *tensor_of(const struct found *found, enum conve_param param)
{
    const char *name = conve_param_name(param, found->naming);
    return name ? tensor_file_find(found->file, found->prefix, name) : NULL;
}

/* ERR_DATA unless a parameter has n_dims dimensions, and the file has room for all its elements. */
static int dims_count(const struct found *found, enum conve_param param, size_t n_dims,
                      struct err *err)
{
    const struct named_tensor *tensor = tensor_of(found, param);
    if (tensor->n_dims != n_dims)
        return fail(err, ERR_DATA, "%s: %s has %zu dimensions, expected %zu", found->file->path,
                    tensor->name, tensor->n_dims, n_dims);
    if (tensor_n_elements(found->file, tensor) == 0)
        return fail(err, ERR_DATA, "%s: %s has no elements, or more than the file has room for",
                    found->file->path, tensor->name);
    return 0;
}

/* Reads all of the shape but height, width and layout. */
static int sizes_read(const struct found *found, struct conve_shape *shape, size_t *dim,
                      struct err *err)
{
    int rc = dims_count(found, PARAM_ENTITY, 2, err);
    if (rc == 0)
        rc = dims_count(found, PARAM_RELATION, 2, err);
    if (rc == 0)
        rc = dims_count(found, PARAM_CONV_WEIGHT, 4, err);
    if (rc == 0)
        rc = dims_count(found, PARAM_FC_WEIGHT, 2, err);
    if (rc != 0)
        return rc;
    const struct named_tensor *conv = tensor_of(found, PARAM_CONV_WEIGHT);
    if (conv->dims[1] != 1)
        return fail(err, ERR_DATA, "%s: %s has %zu input channels; only 1 is supported",
                    found->file->path, conv->name, conv->dims[1]);
    shape->n_entities = tensor_of(found, PARAM_ENTITY)->dims[0];
    shape->n_relations = tensor_of(found, PARAM_RELATION)->dims[0];
    shape->n_filters = conv->dims[0];
    shape->kernel_height = conv->dims[2];
    shape->kernel_width = conv->dims[3];
    shape->has_entity_bias = tensor_of(found, PARAM_ENTITY_BIAS) != NULL;
    shape->lacks_norms = lacks_norms(found->file, found->prefix, found->naming);
    shape->bn_eps = shape->lacks_norms        ? 0
                    : found->file->bn_eps > 0 ? found->file->bn_eps
                                              : bn_eps_default;
    *dim = tensor_of(found, PARAM_ENTITY)->dims[1];
    return 0;
}

/* Finds every height and layout that give fc as many inputs as it has. */
static size_t shapes_fit(const struct conve_shape *known, size_t dim, size_t n_features,
                         const struct conve_load_opts *wanted, struct conve_shape fits[FITS_MAX])
{
    size_t n = 0;
    for (enum conve_layout layout = LAYOUT_WIDTH; layout <= LAYOUT_HEIGHT; layout++)
        for (size_t height = 1; height <= dim && n < FITS_MAX; height++) {
            struct conve_shape shape = *known;
            if (dim % height || (wanted->height && height != wanted->height) ||
                (wanted->layout != LAYOUT_AUTO && layout != wanted->layout))
                continue;
            shape.height = height;
            shape.width = dim / height;
            shape.layout = layout;
            if (conve_shape_check(&shape, NULL) == 0 && conve_n_features(&shape) == n_features)
                fits[n++] = shape;
        }
    return n;
}

static int shapes_many(const struct found *found, const struct conve_shape *fits, size_t n,
                       struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < n; i++)
        buf_addf(&text, "%s%zu x %zu along %s", i ? ", " : "", fits[i].height, fits[i].width,
                 conve_layout_name(fits[i].layout));
    return fail(err, ERR_USAGE,
                "%s does not say how embeddings become images, and its sizes fit %s: name one by "
                "--embedding-height N%s",
                found->file->path, buf_text(&text),
                fits[0].layout == fits[n - 1].layout ? "" : " and --layout NAME");
}

/*
 * Returns the height of an embedding that opts ask for, by a height or a width; 0: opts have
 * neither.
 */
static int height_asked(const struct conve_load_opts *opts, size_t dim, const char *path,
                        size_t *height, struct err *err)
{
    *height = opts->height;
    if (opts->width == 0)
        return 0;
    if (dim % opts->width != 0 || (opts->height && opts->height * opts->width != dim))
        return fail(
            err, ERR_USAGE,
            "%s: its embeddings have %zu numbers, which --embedding-width %zu%s does not fit", path,
            dim, opts->width, opts->height ? " with --embedding-height" : "");
    *height = dim / opts->width;
    return 0;
}

/* Options must not contradict what a file states. */
static int stated_check(const struct tensor_file *file, const struct conve_load_opts *opts,
                        size_t height, struct err *err)
{
    if (opts->layout && file->layout && opts->layout != file->layout)
        return fail(err, ERR_USAGE, "%s states layout %s, not %s: leave --layout out", file->path,
                    conve_layout_name(file->layout), conve_layout_name(opts->layout));
    if (height && file->height && height != file->height)
        return fail(err, ERR_USAGE,
                    "%s states that its embeddings are images of height %zu, not %zu: leave "
                    "--embedding-height and --embedding-width out",
                    file->path, file->height, height);
    return 0;
}

static int shape_none(const struct found *found, const struct conve_shape *shape, size_t dim,
                      const struct conve_load_opts *wanted, struct err *err)
{
    const struct named_tensor *fc = tensor_of(found, PARAM_FC_WEIGHT);
    char height[32] = "any height";
    if (wanted->height)
        snprintf(height, sizeof(height), "height %zu", wanted->height);
    return fail(err, ERR_DATA,
                "%s: %s has %zu inputs; embeddings of %zu numbers, as images of %s in %s%s, and "
                "%zu filters of %zu x %zu give another number",
                found->file->path, fc->name, fc->dims[1], dim, height,
                wanted->layout ? "layout " : "either layout",
                wanted->layout ? conve_layout_name(wanted->layout) : "", shape->n_filters,
                shape->kernel_height, shape->kernel_width);
}

/*
 * Takes what opts ask for, else what the file says, else what is usual for such files. PyKEEN has
 * only LAYOUT_HEIGHT. With plain names both layouts are tried, because models of PyKEEN are also
 * converted to plain names.
 */
static int shape_find(const struct found *found, const struct conve_load_opts *opts,
                      struct conve_shape *shape, struct err *err)
{
    size_t dim = 0;
    int rc = sizes_read(found, shape, &dim, err);
    if (rc != 0)
        return rc;
    const struct tensor_file *file = found->file;
    size_t n_features = tensor_of(found, PARAM_FC_WEIGHT)->dims[1], height = 0;
    enum conve_layout said = opts->layout ? opts->layout : file->layout;
    rc = height_asked(opts, dim, file->path, &height, err);
    if (rc == 0)
        rc = stated_check(file, opts, height, err);
    if (rc != 0)
        return rc;
    height = height ? height : file->height;
    bool is_pykeen = found->naming != NAMING_PLAIN;
    const struct conve_load_opts tries[] = {
        {.height = height, .layout = said ? said : (is_pykeen ? LAYOUT_HEIGHT : LAYOUT_WIDTH)},
        {.height = height, .layout = said || !is_pykeen ? said : LAYOUT_HEIGHT},
    };
    for (size_t i = 0; i < countof(tries); i++) {
        struct conve_shape fits[FITS_MAX];
        size_t n = shapes_fit(shape, dim, n_features, &tries[i], fits);
        if (n > 1)
            return shapes_many(found, fits, n, err);
        if (n == 1) {
            *shape = fits[0];
            return 0;
        }
    }
    return shape_none(found, shape, dim, &tries[countof(tries) - 1], err);
}

/* ---- the whole ---- */

static bool dims_equal(const struct named_tensor *tensor, const struct conve_param_dims *dims)
{
    if (tensor->n_dims != dims->n_dims)
        return false;
    for (size_t d = 0; d < dims->n_dims; d++)
        if (tensor->dims[d] != dims->at[d])
            return false;
    return true;
}

/* With eps 0, a norm with these parameters changes no bit. */
static void identity_fill(enum conve_param param, float *at, size_t n)
{
    bool is_one = param == PARAM_BN0_WEIGHT || param == PARAM_BN0_VAR ||
                  param == PARAM_BN1_WEIGHT || param == PARAM_BN1_VAR ||
                  param == PARAM_BN2_WEIGHT || param == PARAM_BN2_VAR;
    for (size_t i = 0; i < n; i++)
        at[i] = is_one ? 1 : 0;
}

static int param_read(const struct found *found, struct conve *model, enum conve_param param,
                      struct err *err)
{
    struct conve_param_dims dims = conve_param_dims(&model->shape, param);
    const struct named_tensor *tensor = tensor_of(found, param);
    if (dims.n_elements == 0)
        return 0;
    if (model->shape.lacks_norms && conve_param_is_norm(param)) {
        identity_fill(param, model->at[param], dims.n_elements);
        return 0;
    }
    if (!dims_equal(tensor, &dims)) {
        cleanup_buf struct buf shapes = BUF_INIT;
        for (size_t d = 0; d < tensor->n_dims; d++)
            buf_addf(&shapes, "%s%zu", d ? " x " : "", tensor->dims[d]);
        buf_add_text(&shapes, ", expected ");
        for (size_t d = 0; d < dims.n_dims; d++)
            buf_addf(&shapes, "%s%zu", d ? " x " : "", dims.at[d]);
        return fail(err, ERR_DATA, "%s: %s is %s", found->file->path, tensor->name,
                    buf_text(&shapes));
    }
    return tensor_read(found->file, tensor, model->at[param], err);
}

static int model_read(struct conve **out, const struct tensor_file *file,
                      const struct conve_load_opts *opts, struct err *err)
{
    struct found found = {.file = file};
    struct conve_shape shape = {0};
    cleanup_free char *prefix = NULL;
    int rc = model_find(file, &prefix, &found.naming, err);
    found.prefix = prefix;
    if (rc == 0)
        rc = shape_find(&found, opts, &shape, err);
    if (rc != 0)
        return rc;
    struct conve *model = conve_new(&shape, file->path);
    model->naming = found.naming;
    model->is_reciprocal = file->is_reciprocal;
    model->learning_rate = file->learning_rate;
    for (unsigned param = 0; rc == 0 && param < PARAM_N; param++)
        rc = param_read(&found, model, (enum conve_param)param, err);
    if (rc == 0 && model->is_reciprocal && shape.n_relations % 2 != 0)
        rc = fail(err, ERR_DATA, "%s: " CONVE_RECIPROCAL ", but it has %zu relations", file->path,
                  shape.n_relations);
    if (rc == 0 && model->is_reciprocal && found.naming != NAMING_PLAIN)
        conve_relations_unweave(model);
    if (rc == 0)
        rc = conve_check_finite(model, err);
    if (rc == 0)
        *out = steal_ptr(&model);
    conve_free(model);
    return rc;
}

static int tensors_list(struct tensor_file *file, struct err *err)
{
    struct stat st;
    char bytes[HEAD_BYTES];
    if (fstat(file->fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", file->path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_USAGE,
                    S_ISDIR(st.st_mode)
                        ? "%s is a folder: expected a checkpoint, .pt or .safetensors"
                        : "%s is no file that can be read from any place",
                    file->path);
    file->file_bytes = (uint64_t)st.st_size;
    struct str head = {bytes, (size_t)MIN(file->file_bytes, (uint64_t)sizeof(bytes))};
    int rc = pread_exact(file->fd, bytes, head.len, 0, file->path, err);
    if (rc != 0)
        return rc;
    if (torch_is_legacy(head) || zip_is_one(head))
        return tensors_of_torch(file, err);
    if (safetensors_is_one(head, file->file_bytes))
        return tensors_of_safetensors(file, err);
    return fail(err, ERR_DATA, "%s: neither safetensors nor a file of torch.save", file->path);
}

int conve_load(struct conve **out, const char *path, const struct conve_load_opts *opts,
               struct err *err)
{
    *out = NULL;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would block */
    if (fd < 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    struct tensor_file file = {.path = path, .fd = fd};
    int rc = tensors_list(&file, err);
    if (rc == 0)
        rc = model_read(out, &file, opts, err);
    tensor_file_release(&file);
    return rc;
}
