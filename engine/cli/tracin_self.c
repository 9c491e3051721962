/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_self.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "cli/influence_matrix.h"
#include "cli/triple_json.h"

/* Puts the largest first, and equal values in the order of their index. */
static int by_value(const void *a, const void *b)
{
    const struct tracin_influence *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->train_index < y->train_index ? -1 : x->train_index > y->train_index;
}

static int on_piece(void *context, size_t begin, const double *values, size_t n, struct err *err)
{
    struct tracin_influence *all = context;
    (void)err;
    for (size_t i = 0; i < n; i++)
        all[begin + i] = (struct tracin_influence){(uint32_t)(begin + i), values[i]};
    return 0;
}

static int array_write(const char *path, bool overwrite, const struct tracin_influence *all,
                       size_t n, struct err *err)
{
    struct influence_matrix array = INFLUENCE_MATRIX_INIT;
    cleanup_free double *values = xmalloc(n * sizeof(*values));
    for (size_t i = 0; i < n; i++)
        values[i] = all[i].value;
    int rc = influence_matrix_open(&array, path, overwrite, 0, n, err);
    if (rc == 0)
        rc = influence_matrix_put(&array, 0, 0, values, n, err);
    if (rc == 0)
        rc = influence_matrix_commit(&array, err);
    influence_matrix_close(&array);
    return rc;
}

static void entry_add(struct json_out *json, const struct kge_data *data,
                      const struct tracin_influence *entry, bool is_line)
{
    struct triple triple = data->train.at[entry->train_index];
    json_out_open(json, '{');
    if (is_line) {
        json_out_u64(json, "train_index", entry->train_index);
        triple_json_names(json, "train", data, triple);
    } else {
        triple_json_indices(json, "", triple);
    }
    json_out_double(json, "self_influence", entry->value);
    json_out_close(json, '}');
}

static int list_write(const char *path, bool overwrite, bool is_lines, const struct kge_data *data,
                      const struct tracin_influence *all, struct err *err)
{
    struct outfile file = OUTFILE_INIT;
    int rc = outfile_open(&file, path, overwrite, err);
    struct json_out json = {.to = &file.pending, .is_indented = !is_lines};
    if (!is_lines)
        json_out_open(&json, '[');
    for (size_t i = 0; rc == 0 && i < data->train.n; i++) {
        if (!is_lines)
            json_out_element(&json);
        entry_add(&json, data, &all[i], is_lines);
        if (is_lines)
            buf_add_char(&file.pending, '\n');
        rc = outfile_pump(&file, err);
    }
    if (!is_lines) {
        json_out_close(&json, ']');
        buf_add_char(&file.pending, '\n');
    }
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}

static int result_write(const char *path, bool overwrite, const struct kge_data *data,
                        struct tracin_influence *all, struct err *err)
{
    enum result_form form = tracin_result_form(path);
    if (form == RESULT_ARRAY)
        return array_write(path, overwrite, all, data->train.n, err);
    qsort(all, data->train.n, sizeof(*all), by_value);
    return list_write(path, overwrite, form == RESULT_LINES, data, all, err);
}

static int devices_compute(struct tracin_spread *spread, const struct kge_data *data,
                           struct kge_models *models, struct tracin_influence *all, struct err *err)
{
    cleanup_free double *values = xmalloc(data->train.n * sizeof(*values));
    int rc = tracin_spread_self(spread, data, models, values, err);
    return rc ? rc : on_piece(all, 0, values, data->train.n, err);
}

int tracin_self_run(const struct tracin_request *ask, const struct kge_data *data,
                    struct kge_models *models, struct tracin_spread *spread, struct err *err)
{
    bool overwrite = ask->overwrite || tracin_spread_may_replace(spread);
    cleanup_free struct tracin_influence *all = xmalloc(data->train.n * sizeof(*all));
    int rc = output_check_free(ask->output, overwrite, err);
    if (rc == 0)
        rc = spread ? devices_compute(spread, data, models, all, err)
                    : tracin_self(models->checkpoints, models->n, &models->opts, data->train.at,
                                  data->train.n, on_piece, all, err);
    if (rc == 0)
        rc = result_write(ask->output, overwrite, data, all, err);
    if (rc < 0 && spread)
        tracin_spread_unplace(spread);
    return rc == 0 && spread ? tracin_spread_end(spread, err) : rc;
}
