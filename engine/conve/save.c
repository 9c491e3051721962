/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/outfile.h"
#include "conve/model.h"
#include "tensor/bytes.h"

static void header_add(struct buf *header, const struct conve *model)
{
    const struct conve_shape *shape = &model->shape;
    uint64_t at = 0;
    buf_addf(
        header,
        "{\"__metadata__\":{\"format\":\"pt\",\"conve.layout\":\"%s\",\"conve.height\":\"%zu\","
        "\"conve.bn_eps\":\"%.17g\"}",
        conve_layout_name(shape->layout), shape->height, shape->bn_eps);
    for (unsigned param = 0; param < PARAM_N; param++) {
        struct conve_param_dims dims = conve_param_dims(shape, (enum conve_param)param);
        if (dims.n_elements == 0)
            continue;
        buf_addf(header, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[",
                 conve_param_name((enum conve_param)param, NAMING_PLAIN));
        for (size_t d = 0; d < dims.n_dims; d++)
            buf_addf(header, "%s%zu", d ? "," : "", dims.at[d]);
        uint64_t end = at + dims.n_elements * sizeof(float);
        buf_addf(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
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

int conve_save(const struct conve *model, const char *path, bool overwrite, struct err *err)
{
    struct outfile out = OUTFILE_INIT;
    cleanup_buf struct buf header = BUF_INIT;
    char length[8];
    int rc = outfile_open(&out, path, overwrite, err);
    if (rc != 0)
        return rc;
    header_add(&header, model);
    le_put(length, header.len, sizeof(length));
    buf_add(&out.pending, length, sizeof(length));
    buf_add_str(&out.pending, buf_str(&header));
    for (unsigned param = 0; rc == 0 && param < PARAM_N; param++)
        if (model->at[param])
            rc = floats_write(&out, model->at[param],
                              conve_param_dims(&model->shape, (enum conve_param)param).n_elements,
                              err);
    if (rc == 0)
        rc = outfile_commit(&out, err);
    outfile_close(&out);
    return rc;
}
