/* SPDX-License-Identifier: Apache-2.0 */
#include "train/state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/json.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/rng.h"
#include "conve/tensors.h"
#include "tensor/safetensors.h"

enum {
    WORDS_SHOWN = 3, /* so that the message has room for the remedy */
    WORD_SHOWN = 40
};

static const char *const moment_prefixes[N_MOMENTS] = {"adam.exp_avg.", "adam.exp_avg_sq."};

enum member_kind {
    MEMBER_U64,
    MEMBER_DOUBLE
};

/* The members of struct train_progress. Doubles are written so that every bit is kept. */
static const struct member {
    const char *key;
    size_t offset;
    enum member_kind kind;
} members[] = {
    {"train.epoch", offsetof(struct train_progress, epoch), MEMBER_U64},
    {"train.batch", offsetof(struct train_progress, batch), MEMBER_U64},
    {"train.n_updates", offsetof(struct train_progress, n_updates), MEMBER_U64},
    {"train.n_questions", offsetof(struct train_progress, n_questions), MEMBER_U64},
    {"train.loss_sum", offsetof(struct train_progress, loss_sum), MEMBER_DOUBLE},
    {"train.best", offsetof(struct train_progress, best), MEMBER_DOUBLE},
    {"train.best_epoch", offsetof(struct train_progress, best_epoch), MEMBER_U64},
    {"train.n_worse", offsetof(struct train_progress, n_worse), MEMBER_U64},
};

static const char training_key[] = "train.settings", validation_key[] = "train.validation",
                  id_key[] = "train.id";

static void metadata_add(struct buf *metadata, const struct train_progress *at,
                         const struct train_settings *settings)
{
    for (size_t i = 0; i < countof(members); i++) {
        const void *from = (const char *)at + members[i].offset;
        buf_addf(metadata, ",\"%s\":\"", members[i].key);
        if (members[i].kind == MEMBER_U64)
            buf_addf(metadata, "%" PRIu64 "\"", *(const uint64_t *)from);
        else
            buf_addf(metadata, "%a\"", *(const double *)from);
    }
    buf_addf(metadata, ",\"%s\":", training_key);
    buf_add_json(metadata, settings->training);
    buf_addf(metadata, ",\"%s\":", validation_key);
    buf_add_json(metadata, settings->validation);
}

int train_state_save(struct trainer *trainer, const struct train_settings *settings,
                     const char *path, struct err *err)
{
    cleanup_buf struct buf metadata = BUF_INIT;
    struct conve_extra extra = {.n_groups = N_MOMENTS};
    int rc = trainer_fetch(trainer, err);
    if (rc != 0)
        return rc;
    for (unsigned i = 0; i < N_MOMENTS; i++) {
        extra.groups[i].prefix = moment_prefixes[i];
        for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
            extra.groups[i].at[param] = trainer_moment(trainer, (enum train_moment)i)[param];
    }
    trainer_learning_rate_add(trainer, &metadata);
    metadata_add(&metadata, &trainer->at, settings);
    extra.metadata = buf_str(&metadata);
    return conve_save(trainer->model, path, true, &extra, err);
}

/* ---- loading ---- */

static int member_get(struct str metadata, const char *key, struct buf *text, struct err *err)
{
    struct str value;
    buf_reset(text);
    if (!json_get(metadata, key, &value) || !json_to_text(value, text))
        return fail(err, ERR_DATA, "no state of training: __metadata__ has no %s", key);
    return 0;
}

static int progress_read(struct train_progress *at, struct str metadata, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(members); i++) {
        void *to = (char *)at + members[i].offset;
        rc = member_get(metadata, members[i].key, &text, err);
        if (rc == 0 &&
            (members[i].kind == MEMBER_U64 ? u64_parse(buf_str(&text), 0, UINT64_MAX, to, err)
                                           : double_parse(buf_str(&text), to, err)) != 0)
            rc = wrap(err, ERR_DATA, "%s", members[i].key);
    }
    return rc;
}

/* Adds a word, shortened and made printable, because a file may hold anything. */
static void word_add(struct buf *out, struct str word)
{
    size_t n = console_text_cut(word, WORD_SHOWN);
    console_text_add(out, (struct str){word.at, n}, false);
    if (n < word.len)
        buf_add_text(out, "...");
}

/* Finds the word with the same key as `word`. False: there is none, and *out is "nothing". */
static bool word_find(struct str words, struct str word, struct str *out)
{
    const char *sign = memchr(word.at, '=', word.len);
    const struct str key = {word.at, sign ? (size_t)(sign - word.at) + 1 : word.len};
    while (str_next(&words, ' ', out))
        if (str_starts_with(*out, key))
            return true;
    *out = STR("nothing");
    return false;
}

static void difference_add(struct buf *out, struct str was, struct str is, size_t *n)
{
    if (str_equal(was, is) || ++*n > WORDS_SHOWN)
        return;
    buf_add_text(out, out->len ? ", " : "");
    word_add(out, was);
    buf_add_text(out, " there and ");
    word_add(out, is);
    buf_add_text(out, " here");
}

void train_settings_differ(struct buf *out, struct str there, struct str here)
{
    struct str rest = there, was, is;
    size_t n = 0;
    while (str_next(&rest, ' ', &was)) {
        (void)word_find(here, was, &is);
        difference_add(out, was, is, &n);
    }
    for (rest = here; str_next(&rest, ' ', &is);)
        if (!word_find(there, is, &was))
            difference_add(out, was, is, &n);
    if (n > WORDS_SHOWN)
        buf_addf(out, ", and %zu more", n - WORDS_SHOWN);
}

static int words_compare(struct str there, struct str here, struct err *err)
{
    cleanup_buf struct buf differences = BUF_INIT;
    if (str_equal(there, here))
        return 0;
    train_settings_differ(&differences, there, here);
    return fail(err, ERR_USAGE, "training began with other settings: %s; --force begins anew",
                buf_text(&differences));
}

static int settings_compare(struct str metadata, const struct train_settings *settings,
                            struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    int rc = member_get(metadata, training_key, &text, err);
    if (rc == 0)
        rc = words_compare(buf_str(&text), settings->training, err);
    if (rc == 0 && member_get(metadata, validation_key, &text, NULL) == 0)
        rc = words_compare(buf_str(&text), settings->validation, err);
    return rc;
}

/* ---- whose file it is ---- */

uint64_t train_settings_id(struct str training)
{
    uint64_t id = training.len;
    for (size_t i = 0; i < training.len; i++)
        id = item_seed(id, (unsigned char)training.at[i]);
    return id;
}

int train_model_save(const struct trainer *trainer, uint64_t id, const char *path, struct err *err)
{
    cleanup_buf struct buf metadata = BUF_INIT;
    trainer_learning_rate_add(trainer, &metadata);
    buf_addf(&metadata, ",\"%s\":\"%016" PRIx64 "\"", id_key, id);
    const struct conve_extra extra = {.metadata = buf_str(&metadata)};
    return conve_save(trainer->model, path, true, &extra, err);
}

static bool id_of_metadata(struct str metadata, uint64_t *id)
{
    cleanup_buf struct buf text = BUF_INIT;
    char *end;
    if (member_get(metadata, training_key, &text, NULL) == 0) {
        *id = train_settings_id(buf_str(&text));
        return true;
    }
    if (member_get(metadata, id_key, &text, NULL) != 0 || text.len != 16)
        return false;
    *id = strtoull(buf_text(&text), &end, 16);
    return *end == '\0';
}

bool train_file_id(const char *path, uint64_t *id)
{
    struct safetensors in = {0};
    struct stat st;
    cleanup_fd int fd = -1;
    if (plain_file_open(path, &fd, NULL) != 0 || fstat(fd, &st) != 0)
        return false;
    bool has = safetensors_read(&in, path, fd, (uint64_t)st.st_size, NULL) == 0 &&
               in.metadata.len > 0 && id_of_metadata(in.metadata, id);
    safetensors_release(&in);
    return has;
}

/* ---- what it holds ---- */

static int tensor_take(const struct tensor_file *file, const char *prefix, enum conve_param param,
                       const struct conve_shape *shape, float *out, struct err *err)
{
    const char *name = conve_param_name(param, NAMING_PLAIN);
    const struct named_tensor *tensor = tensor_file_find(file, prefix, name);
    size_t n = conve_param_dims(shape, param).n_elements;
    if (!tensor || tensor_n_elements(file, tensor) != n)
        return fail(err, ERR_DATA, "%s%s %s", prefix, name,
                    tensor ? "is of another model" : "is missing");
    return tensor_read(file, tensor, out, err);
}

static int tensors_take(struct trainer *trainer, const struct tensor_file *file, struct err *err)
{
    struct conve *model = trainer->model;
    int rc = 0;
    for (unsigned param = 0; rc == 0 && param < PARAM_N; param++)
        if (model->at[param])
            rc = tensor_take(file, "", (enum conve_param)param, &model->shape, model->at[param],
                             err);
    for (unsigned i = 0; rc == 0 && i < N_MOMENTS; i++) {
        float *const *moment = trainer_moment(trainer, (enum train_moment)i);
        for (unsigned param = 0; rc == 0 && param < PARAM_N_TRAINED; param++)
            if (moment[param])
                rc = tensor_take(file, moment_prefixes[i], (enum conve_param)param, &model->shape,
                                 moment[param], err);
    }
    return rc;
}

/*
 * True if the numbers of a state are such that a training can have reached them: a state is saved
 * only after an update, so some numbers follow from others.
 */
static bool is_reached(const struct trainer *trainer)
{
    const struct train_progress *at = &trainer->at;
    const struct batches *batches = &trainer->batches;
    uint64_t accumulate = trainer->opts.accumulate;
    uint64_t updates_per_epoch = (batches->n_batches + accumulate - 1) / accumulate;
    bool is_over = trainer_epoch_is_over(trainer);
    return (is_over || at->batch % accumulate == 0) &&
           at->n_questions == (is_over ? batches->n : at->batch * batches->size) &&
           at->n_updates ==
               at->epoch * updates_per_epoch + (at->batch + accumulate - 1) / accumulate &&
           at->best_epoch <= at->epoch && at->n_worse <= at->epoch && at->best >= 0 &&
           at->best <= 1;
}

static int moments_check(const struct trainer *trainer, struct err *err)
{
    for (unsigned i = 0; i < N_MOMENTS; i++)
        for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
            const float *at = trainer_moment(trainer, (enum train_moment)i)[param];
            size_t n = conve_param_dims(&trainer->model->shape, (enum conve_param)param).n_elements;
            for (size_t j = 0; at && j < n; j++)
                if (!isfinite(at[j]) || (i == EXP_AVG_SQ && at[j] < 0))
                    return fail(err, ERR_DATA, "%s%s[%zu] is %g", moment_prefixes[i],
                                conve_param_name((enum conve_param)param, NAMING_PLAIN), j,
                                (double)at[j]);
        }
    return 0;
}

static int state_check(const struct trainer *trainer, struct err *err)
{
    if (trainer->at.batch > trainer->batches.n_batches)
        return fail(err, ERR_DATA,
                    "it stands at batch %" PRIu64 " of %zu: the training triples are others",
                    trainer->at.batch, trainer->batches.n_batches);
    if (!is_reached(trainer))
        return fail(err, ERR_DATA, "no training comes to where it stands");
    int rc = conve_check_finite(trainer->model, err);
    return rc ? rc : moments_check(trainer, err);
}

static int metadata_take(struct trainer *trainer, const struct tensor_file *file,
                         const struct train_settings *settings, struct err *err)
{
    struct safetensors in = {0};
    int rc = safetensors_read(&in, file->path, file->fd, file->file_bytes, err);
    if (rc == 0)
        rc = settings_compare(in.metadata, settings, err);
    if (rc == 0)
        rc = progress_read(&trainer->at, in.metadata, err);
    safetensors_release(&in);
    return rc;
}

int train_state_load(struct trainer *trainer, const struct train_settings *settings,
                     const char *path, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    struct tensor_file file = {.path = path, .fd = fd, .file_bytes = (uint64_t)st.st_size};
    int rc = metadata_take(trainer, &file, settings, err);
    if (rc == 0)
        rc = tensors_of_safetensors(&file, err);
    if (rc == 0)
        rc = tensors_take(trainer, &file, err);
    if (rc == 0)
        rc = state_check(trainer, err);
    if (rc == 0)
        trainer_place(trainer);
    tensor_file_release(&file);
    return rc == 0 ? 0 : wrap(err, rc, "%s", path);
}
