/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/outfile.h"
#include "conve/model.h"
#include "tensor/bytes.h"

static bool is_saved(const struct conve_shape *shape, enum conve_param param)
{
    return conve_param_dims(shape, param).n_elements > 0 &&
           !(shape->lacks_norms && conve_param_is_norm(param));
}

static void tensor_add(struct buf *header, const char *prefix, const struct conve_shape *shape,
                       enum conve_param param, uint64_t *at)
{
    struct conve_param_dims dims = conve_param_dims(shape, param);
    if (!is_saved(shape, param))
        return;
    buf_addf(header, ",\"%s%s\":{\"dtype\":\"F32\",\"shape\":[", prefix,
             conve_param_name(param, NAMING_PLAIN));
    for (size_t d = 0; d < dims.n_dims; d++)
        buf_addf(header, "%s%zu", d ? "," : "", dims.at[d]);
    uint64_t end = *at + dims.n_elements * sizeof(float);
    buf_addf(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *at, end);
    *at = end;
}

static void header_add(struct buf *header, const struct conve *model,
                       const struct conve_extra *extra)
{
    const struct conve_shape *shape = &model->shape;
    uint64_t at = 0;
    buf_addf(header,
             "{\"__metadata__\":{\"format\":\"pt\",\"" CONVE_LAYOUT "\":\"%s\",\"" CONVE_HEIGHT
             "\":\"%zu\",\"" CONVE_BN_EPS "\":\"%.17g\"",
             conve_layout_name(shape->layout), shape->height, shape->bn_eps);
    if (model->is_reciprocal)
        buf_add_text(header, ",\"" CONVE_RECIPROCAL "\":\"true\"");
    buf_add_str(header, extra->metadata);
    buf_add_char(header, '}');
    for (unsigned param = 0; param < PARAM_N; param++)
        tensor_add(header, "", shape, (enum conve_param)param, &at);
    for (size_t i = 0; i < extra->n_groups; i++)
        for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
            tensor_add(header, extra->groups[i].prefix, shape, (enum conve_param)param, &at);
    buf_add_char(header, '}');
    while (header->len % 8)
        buf_add_char(header, ' ');
}

static int floats_write(struct outfile *out, const float *at, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        char bytes[4];
        uint32_t bits;
        memcpy(&bits, &at[i], sizeof(bits));
        le_put(bytes, bits, sizeof(bytes));
        buf_add(&out->pending, bytes, sizeof(bytes));
        if (i % 16384 == 16383) {
            int rc = outfile_pump(out, err);
            if (rc != 0)
                return rc;
        }
    }
    return outfile_pump(out, err);
}

static int tensors_write(struct outfile *out, const struct conve_shape *shape,
                         const float *const *at, size_t n_params, struct err *err)
{
    int rc = 0;
    for (unsigned param = 0; rc == 0 && param < n_params; param++)
        if (at[param] && is_saved(shape, (enum conve_param)param))
            rc = floats_write(out, at[param],
                              conve_param_dims(shape, (enum conve_param)param).n_elements, err);
    return rc;
}

int conve_save(const struct conve *model, const char *path, bool overwrite,
               const struct conve_extra *extra, struct err *err)
{
    static const struct conve_extra nothing;
    struct outfile out = OUTFILE_INIT;
    cleanup_buf struct buf header = BUF_INIT;
    char length[8];
    extra = extra ? extra : &nothing;
    header_add(&header, model, extra);
    le_put(length, header.len, sizeof(length));
    int rc = outfile_open(&out, path, overwrite, err);
    buf_add(&out.pending, length, sizeof(length));
    buf_add_str(&out.pending, buf_str(&header));
    if (rc == 0)
        rc = tensors_write(&out, &model->shape, (const float *const *)model->at, PARAM_N, err);
    for (size_t i = 0; rc == 0 && i < extra->n_groups; i++)
        rc = tensors_write(&out, &model->shape, extra->groups[i].at, PARAM_N_TRAINED, err);
    if (rc == 0)
        rc = outfile_commit(&out, err);
    outfile_close(&out);
    return rc;
}
