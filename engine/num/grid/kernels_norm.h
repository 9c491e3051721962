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

/* One block for each channel of a part of the samples. */
GRID_KERNEL(norm_stats, struct norm_stats_parts)
{
    GRID_SHARED REAL partial[GRID_THREADS], middle[1];
    unsigned places = (unsigned)op.stats.places;
    EACH_GROUP (group, op.parts.n * op.stats.channels) {
        size_t c = group % op.stats.channels, first = group / op.stats.channels * op.parts.samples;
        size_t stride = op.stats.channels * places;
        const REAL *x = (const REAL *)op.stats.x + first * stride + c * places;
        unsigned count = (unsigned)part_samples(&op.parts, op.stats.n, first) * places;
        EACH_THREAD (t) {
            partial[t] = 0;
            for (unsigned e = t; e < count; e += GRID_THREADS)
                partial[t] += x[e / places * stride + e % places];
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                middle[0] = partial[0] / (REAL)count;
        GRID_SYNC();
        EACH_THREAD (t) {
            partial[t] = 0;
            for (unsigned e = t; e < count; e += GRID_THREADS) {
                REAL off = x[e / places * stride + e % places] - middle[0];
                partial[t] += off * off;
            }
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0) {
                ((REAL *)op.means)[group] = middle[0];
                ((REAL *)op.vars)[group] = partial[0] / (REAL)count;
            }
        GRID_SYNC();
    }
}

/* One block for each channel: mean and variance of all parts together. */
GRID_KERNEL(norm_stats_together, struct norm_stats_parts)
{
    GRID_SHARED double partial[GRID_THREADS], middle[1];
    const REAL *means = (const REAL *)op.means, *vars = (const REAL *)op.vars;
    EACH_GROUP (c, op.stats.channels) {
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t part = t; part < op.parts.n; part += GRID_THREADS)
                partial[t] += PART_SHARE(op, part) * (double)means[part * op.stats.channels + c];
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                middle[0] = partial[0];
        GRID_SYNC();
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t part = t; part < op.parts.n; part += GRID_THREADS) {
                double off = (double)means[part * op.stats.channels + c] - middle[0];
                double var = (double)vars[part * op.stats.channels + c];
                partial[t] += PART_SHARE(op, part) * (var + off * off);
            }
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0) {
                ((REAL *)op.stats.mean)[c] = (REAL)middle[0];
                ((REAL *)op.stats.var)[c] = (REAL)partial[0];
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

/* One block for each channel of a part of the samples. */
GRID_KERNEL(norm_back_sums, struct norm_back_parts)
{
    GRID_SHARED REAL bias[GRID_THREADS], weight[GRID_THREADS];
    const struct num_norm_back *back = &op.back;
    unsigned places = (unsigned)back->places;
    EACH_GROUP (group, op.parts.n * back->channels) {
        size_t part = group / back->channels, c = group % back->channels;
        size_t first = part * op.parts.samples;
        unsigned count = (unsigned)part_samples(&op.parts, back->n, first) * places;
        EACH_THREAD (t) {
            bias[t] = weight[t] = 0;
            for (unsigned e = t; e < count; e += GRID_THREADS) {
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
                if (op.d_bias)
                    ((REAL *)op.d_bias)[part * op.d_bias_stride + c] = bias[0];
                if (op.d_weight)
                    ((REAL *)op.d_weight)[part * op.d_weight_stride + c] = weight[0];
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
