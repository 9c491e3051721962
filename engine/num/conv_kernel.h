/* SPDX-License-Identifier: Apache-2.0
 *
 * num_conv and num_conv_back in float32 by vectors of LANES (fast_kernel.h).
 *
 * An image is treated as one long row. For place p of the output, kernel element k then meets
 * element p + offset[k] of the image, whatever the row of p. The places between the end of a map's
 * row and the end of the image's row are computed like all others, and are left out when the map is
 * stored. With a 3 x 3 kernel this is a twentieth more work, and the loops over places run over the
 * whole image instead of single rows.
 */
#include "num/fast.h"
#include "num/vec.h"

enum {
    FILTERS = 4, /* filters that are computed at a time */
    TAPS = 3,    /* elements of a kernel that are computed at a time */
    PAD = 2 * LANES,
    ROW_MAX = CONV_FAST_IMAGE_MAX + PAD,
    SPREAD_MAX = 2 * CONV_FAST_IMAGE_MAX + PAD
};

/* The sizes that all samples and filters share. */
struct places {
    size_t map_h, map_w, width, image, n_flat, kernel;
    size_t offset[CONV_FAST_KERNEL_MAX], offset_last;
};

static struct places places_of(size_t height, size_t width, size_t kernel_h, size_t kernel_w)
{
    struct places at = {.map_h = height - kernel_h + 1,
                        .map_w = width - kernel_w + 1,
                        .width = width,
                        .image = height * width,
                        .kernel = kernel_h * kernel_w};
    at.n_flat = (at.map_h - 1) * width + at.map_w;
    for (size_t k = 0; k < at.kernel; k++)
        at.offset[k] = at.offset_last = k / kernel_w * width + k % kernel_w;
    return at;
}

/* Weights times scale; the weights after those of the last filter are zero. */
struct filters {
    float weight[CONV_FAST_FILTERS_MAX + FILTERS][CONV_FAST_KERNEL_MAX];
};

static void filters_scale(struct filters *filters, const float *weight, const float *scale,
                          size_t n, size_t kernel)
{
    for (size_t f = 0; f < n; f++)
        for (size_t k = 0; k < kernel; k++)
            filters->weight[f][k] = weight[f * kernel + k] * (scale ? scale[f] : 1);
}

/* ---- forward ---- */

/* Computes to[f][p] = bias[f] + sum over k of weight[f][k] x[p + offset[k]]. */
static inline void conv_filters(const struct places *at, const float *x,
                                float (*weight)[CONV_FAST_KERNEL_MAX], const float *bias,
                                float (*to)[ROW_MAX])
{
    for (size_t p = 0; p < at->n_flat; p += (size_t)2 * LANES) {
        vec sum[FILTERS][2];
        for (int f = 0; f < FILTERS; f++)
            sum[f][0] = sum[f][1] = (vec){0} + bias[f];
        for (size_t k = 0; k < at->kernel; k++) {
            vec x0 = load(x + p + at->offset[k]), x1 = load(x + p + at->offset[k] + LANES);
            for (int f = 0; f < FILTERS; f++) {
                sum[f][0] += weight[f][k] * x0;
                sum[f][1] += weight[f][k] * x1;
            }
        }
        for (int f = 0; f < FILTERS; f++) {
            store(to[f] + p, sum[f][0]);
            store(to[f] + p + LANES, sum[f][1]);
        }
    }
}

/* Stores a map row by row, without the places between its rows. */
static inline void map_store(const struct places *at, const float *from, bool relu, float *y)
{
    for (size_t row = 0; row < at->map_h; row++, from += at->width, y += at->map_w) {
        size_t col = 0;
        for (; col + LANES <= at->map_w; col += LANES)
            store(y + col, relu ? positive(load(from + col)) : load(from + col));
        for (; col < at->map_w; col++)
            y[col] = relu && from[col] < 0 ? 0 : from[col];
    }
}

static void conv(const struct num_conv *op)
{
    struct places at = places_of(op->height, op->width, op->kernel_height, op->kernel_width);
    const float *bias = op->bias, *scale = op->scale, *shift = op->shift;
    struct filters filters = {0};
    filters_scale(&filters, op->weight, scale, op->n_filters, at.kernel);
    float b[CONV_FAST_FILTERS_MAX + FILTERS] = {0};
    for (size_t f = 0; f < op->n_filters; f++)
        b[f] = (bias ? bias[f] : 0) * (scale ? scale[f] : 1) + (shift ? shift[f] : 0);
    float x[ROW_MAX] = {0}, maps[FILTERS][ROW_MAX];
    size_t map = at.map_h * at.map_w;
    for (size_t i = 0; i < op->n; i++) {
        memcpy(x, (const float *)op->x + i * at.image, at.image * sizeof(float));
        float *y = (float *)op->y + i * op->n_filters * map;
        for (size_t f = 0; f < op->n_filters; f += FILTERS) {
            conv_filters(&at, x, filters.weight + f, b + f, maps);
            for (size_t j = 0; j < FILTERS && f + j < op->n_filters; j++)
                map_store(&at, maps[j], op->relu, y + (f + j) * map);
        }
    }
}

/* ---- backward ---- */

/*
 * Writes dz at its places in the image; the places between are zero already. Returns the sum of dz.
 */
static inline float dz_spread(const struct places *at, const float *dy, const float *y, float *to)
{
    vec sum = {0};
    float rest = 0;
    for (size_t row = 0; row < at->map_h; row++, dy += at->map_w, to += at->width) {
        size_t col = 0;
        for (; col + LANES <= at->map_w; col += LANES) {
            vec dz = load(dy + col);
            if (y)
                dz = (vec)((vec_int)dz & (load(y + col) > 0));
            sum += dz;
            store(to + col, dz);
        }
        for (; col < at->map_w; col++) {
            to[col] = !y || y[col] > 0 ? dy[col] : 0;
            rest += to[col];
        }
        y = y ? y + at->map_w : NULL;
    }
    return rest + sum_of(sum);
}

/*
 * Adds d_weight[f][k] += sum over p of dz[f][p] x[p + offset[k]], for up to TAPS elements of the
 * kernel.
 */
static inline void weight_sums(const struct places *at, const float *x, float (*dz)[SPREAD_MAX],
                               size_t k, size_t n_filters, float *d_weight)
{
    vec sum[FILTERS][TAPS] = {0};
    const float *from[TAPS];
    for (size_t t = 0; t < TAPS; t++)
        from[t] = x + at->offset[MIN(k + t, at->kernel - 1)];
    for (size_t p = 0; p < at->n_flat; p += LANES) {
        vec taps[TAPS];
        for (int t = 0; t < TAPS; t++)
            taps[t] = load(from[t] + p);
        for (int f = 0; f < FILTERS; f++) {
            vec d = load(dz[f] + at->offset_last + p);
            for (int t = 0; t < TAPS; t++)
                sum[f][t] += d * taps[t];
        }
    }
    for (size_t f = 0; f < n_filters; f++)
        for (size_t t = 0; t < TAPS && k + t < at->kernel; t++)
            d_weight[f * at->kernel + k + t] += sum_of(sum[f][t]);
}

/* Adds dx[q] += sum over f, k of weight[f][k] dz[f][q - offset[k]]. */
static inline void image_sums(const struct places *at, float (*weight)[CONV_FAST_KERNEL_MAX],
                              float (*dz)[SPREAD_MAX], float *dx)
{
    for (size_t q = 0; q < at->image; q += (size_t)2 * LANES) {
        vec sum0 = load(dx + q), sum1 = load(dx + q + LANES);
        for (int f = 0; f < FILTERS; f++)
            for (size_t k = 0; k < at->kernel; k++) {
                const float *from = dz[f] + at->offset_last - at->offset[k] + q;
                sum0 += weight[f][k] * load(from);
                sum1 += weight[f][k] * load(from + LANES);
            }
        store(dx + q, sum0);
        store(dx + q + LANES, sum1);
    }
}

/*
 * The room is zeroed once: samples do not write to the padding of x and dz, and dx is zeroed for
 * each sample.
 */
struct back_room {
    struct filters filters;
    float x[ROW_MAX], dx[ROW_MAX], dz[FILTERS][SPREAD_MAX];
};

/* Adds one sample to d_weight and d_sum, and sets its dx. */
static inline void conv_back_sample(const struct num_conv_back *op, const struct places *at,
                                    struct back_room *room, size_t i, float *d_weight, float *d_sum)
{
    float *x = room->x, *dx = room->dx;
    float(*dz)[SPREAD_MAX] = room->dz;
    size_t map = at->map_h * at->map_w, y_row = op->y_rows ? op->y_rows[i] : i;
    memcpy(x, (const float *)op->x + i * at->image, at->image * sizeof(float));
    memset(dx, 0, (at->image + PAD) * sizeof(float));
    for (size_t f = 0; f < op->n_filters; f += FILTERS) {
        size_t n = MIN((size_t)FILTERS, op->n_filters - f);
        for (size_t j = 0; j < n; j++) {
            size_t from = (i * op->n_filters + f + j) * map;
            size_t y_from = (y_row * op->n_filters + f + j) * map;
            d_sum[f + j] +=
                dz_spread(at, (const float *)op->dy + from,
                          op->y ? (const float *)op->y + y_from : NULL, dz[j] + at->offset_last);
        }
        for (size_t k = 0; k < at->kernel; k += TAPS)
            weight_sums(at, x, dz, k, n, d_weight + f * at->kernel);
        if (op->dx)
            image_sums(at, room->filters.weight + f, dz, dx);
    }
    if (op->dx)
        memcpy((float *)op->dx + i * at->image, dx, at->image * sizeof(float));
}

static void conv_back(const struct num_conv_back *op)
{
    struct places at = places_of(op->height, op->width, op->kernel_height, op->kernel_width);
    struct back_room room = {0};
    filters_scale(&room.filters, op->weight, op->scale, op->n_filters, at.kernel);
    for (size_t i = 0; i < op->n; i++) {
        float *d_weight = (float *)op->d_weight + i * op->d_weight_stride;
        float *d_sum = (float *)op->d_sum + i * op->d_sum_stride;
        if (i == 0 || op->d_weight_stride)
            memset(d_weight, 0, op->n_filters * at.kernel * sizeof(float));
        if (i == 0 || op->d_sum_stride)
            memset(d_sum, 0, op->n_filters * sizeof(float));
        conv_back_sample(op, &at, &room, i, d_weight, d_sum);
    }
}
