/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm as kernels over REAL, written with the macros of grid.h.
 */

GRID_KERNEL(norm, struct num_norm)
{
    const REAL *x = (const REAL *)op.x, *mean = (const REAL *)op.mean;
    const REAL *inv_std = (const REAL *)op.inv_std, *weight = (const REAL *)op.weight;
    const REAL *bias = (const REAL *)op.bias;
    REAL *y = (REAL *)op.y;
    EACH_THREAD (t)
        EACH_ELEMENT (i, t, op.n * op.channels * op.places) {
            size_t c = i / op.places % op.channels;
            REAL value = (x[i] - mean[c]) * inv_std[c] * weight[c] + bias[c];
            y[i] = op.relu && value < 0 ? 0 : value;
        }
}

/* One block for each channel. */
GRID_KERNEL(norm_stats, struct num_norm_stats)
{
    GRID_SHARED REAL partial[GRID_THREADS], middle[1];
    const REAL *x = (const REAL *)op.x;
    size_t count = op.n * op.places, stride = op.channels * op.places;
    EACH_GROUP (c, op.channels) {
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t e = t; e < count; e += GRID_THREADS)
                partial[t] += x[e / op.places * stride + c * op.places + e % op.places];
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                middle[0] = partial[0] / (REAL)count;
        GRID_SYNC();
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t e = t; e < count; e += GRID_THREADS) {
                REAL off = x[e / op.places * stride + c * op.places + e % op.places] - middle[0];
                partial[t] += off * off;
            }
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0) {
                ((REAL *)op.mean)[c] = middle[0];
                ((REAL *)op.var)[c] = partial[0] / (REAL)count;
            }
        GRID_SYNC();
    }
}

/* One thread for each channel. */
GRID_KERNEL(norm_merge, struct num_norm_merge)
{
    const REAL *means = (const REAL *)op.means, *vars = (const REAL *)op.vars;
    EACH_THREAD (t)
        EACH_ELEMENT (c, t, op.channels) {
            double count = 0, sum = 0, squares = 0;
            for (size_t i = 0; i < op.n_pieces; i++) {
                count += (double)op.counts[i];
                sum += (double)op.counts[i] * (double)means[i * op.channels + c];
            }
            for (size_t i = 0; i < op.n_pieces; i++) {
                double off = (double)means[i * op.channels + c] - sum / count;
                squares += (double)op.counts[i] * ((double)vars[i * op.channels + c] + off * off);
            }
            ((REAL *)op.mean)[c] = (REAL)(sum / count);
            ((REAL *)op.var)[c] = (REAL)(squares / count);
            ((REAL *)op.inv_std)[c] = (REAL)(1 / sqrt(squares / count + op.eps));
        }
}

GRID_FUNCTION REAL KERNEL(norm_dz)(const struct num_norm_back *op, size_t at)
{
    const REAL *y = (const REAL *)op->y;
    return !y || y[at] > 0 ? ((const REAL *)op->dy)[at] : 0;
}

GRID_FUNCTION REAL KERNEL(norm_xh)(const struct num_norm_back *op, size_t at, size_t c)
{
    return (((const REAL *)op->x)[at] - ((const REAL *)op->mean)[c]) *
           ((const REAL *)op->inv_std)[c];
}

/* The sums of each sample where there are few places: one thread for a sample and channel. */
GRID_KERNEL(norm_back_few, struct num_norm_back)
{
    EACH_THREAD (t)
        EACH_ELEMENT (group, t, op.n * op.channels) {
            size_t i = group / op.channels, c = group % op.channels;
            REAL bias = 0, weight = 0;
            for (size_t at = group * op.places; at < (group + 1) * op.places; at++) {
                REAL dz = KERNEL(norm_dz)(&op, at);
                bias += dz;
                weight += dz * KERNEL(norm_xh)(&op, at, c);
            }
            if (op.d_bias)
                ((REAL *)op.d_bias)[i * op.d_bias_stride + c] = bias;
            if (op.d_weight)
                ((REAL *)op.d_weight)[i * op.d_weight_stride + c] = weight;
        }
}

/* One block for each channel of one sample, or with is_all of all. */
GRID_KERNEL(norm_back_sums, struct norm_back_sums)
{
    GRID_SHARED REAL bias[GRID_THREADS], weight[GRID_THREADS];
    const struct num_norm_back *back = &op.back;
    size_t places = back->places, count = (op.is_all ? back->n : 1) * places;
    EACH_GROUP (group, back->channels * (op.is_all ? 1 : back->n)) {
        size_t first = group / back->channels, c = group % back->channels;
        EACH_THREAD (t) {
            bias[t] = weight[t] = 0;
            for (size_t e = t; e < count; e += GRID_THREADS) {
                size_t i = first + e / places;
                size_t at = (i * back->channels + c) * places + e % places;
                REAL dz = KERNEL(norm_dz)(back, at);
                bias[t] += dz;
                weight[t] += dz * KERNEL(norm_xh)(back, at, c);
            }
        }
        GRID_SUM(bias);
        GRID_SUM(weight);
        EACH_THREAD (t)
            if (t == 0) {
                if (op.has_bias)
                    ((REAL *)back->d_bias)[first * back->d_bias_stride + c] = bias[0];
                if (op.has_weight)
                    ((REAL *)back->d_weight)[first * back->d_weight_stride + c] = weight[0];
            }
        GRID_SYNC();
    }
}

GRID_FUNCTION void KERNEL(norm_back_add)(const struct num_norm_back_merge *op, size_t c,
                                         const void *sums, void *d, void *mean)
{
    REAL sum = ((const REAL *)sums)[c], *to = (REAL *)d + c;
    for (size_t i = 1; i < op->n_pieces; i++)
        sum += ((const REAL *)sums)[i * op->channels + c];
    *to = op->adds ? *to + sum : sum;
    ((REAL *)mean)[c] = (REAL)op->share * sum;
}

/* One thread for each channel. */
GRID_KERNEL(norm_back_merge, struct num_norm_back_merge)
{
    EACH_THREAD (t)
        EACH_ELEMENT (c, t, op.channels) {
            KERNEL(norm_back_add)(&op, c, op.sums_dz, op.d_bias, op.mean_dz);
            KERNEL(norm_back_add)(&op, c, op.sums_dz_xh, op.d_weight, op.mean_dz_xh);
        }
}

GRID_KERNEL(norm_back_x, struct num_norm_back)
{
    const REAL *mean_dz = (const REAL *)op.mean_dz, *mean_dz_xh = (const REAL *)op.mean_dz_xh;
    EACH_THREAD (t)
        EACH_ELEMENT (at, t, op.n * op.channels * op.places) {
            size_t c = at / op.places % op.channels;
            REAL dz = KERNEL(norm_dz)(&op, at);
            if (mean_dz)
                dz -= mean_dz[c] + KERNEL(norm_xh)(&op, at, c) * mean_dz_xh[c];
            ((REAL *)op.dx)[at] = ((const REAL *)op.weight)[c] * ((const REAL *)op.inv_std)[c] * dz;
        }
}
