/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of backend.h as plain loops over REAL; KERNEL() appends the type to their names.
 * Sums over many terms are kept in double, so that the float32 form is accurate as well.
 */

static void KERNEL(gemm)(const struct num_gemm *op)
{
    const REAL *a = op->a, *b = op->b;
    REAL *c = op->c;
    size_t a_row = op->trans_a ? 1 : op->lda, a_col = op->trans_a ? op->lda : 1;
    size_t b_row = op->trans_b ? 1 : op->ldb, b_col = op->trans_b ? op->ldb : 1;
    for (size_t i = 0; i < op->m; i++)
        for (size_t j = 0; j < op->n; j++) {
            double sum = 0;
            for (size_t p = 0; p < op->k; p++)
                sum += (double)a[i * a_row + p * a_col] * (double)b[p * b_row + j * b_col];
            REAL *out = &c[i * op->ldc + j];
            *out = (REAL)(op->alpha * sum + (op->beta == 0 ? 0 : op->beta * (double)*out));
        }
}

static void KERNEL(rows)(const struct num_rows *op)
{
    size_t n = op->len > 0 ? op->n : 0; /* without elements, arrays may be NULL */
    for (size_t i = 0; i < n; i++) {
        size_t from_row = op->from_ids ? op->from_ids[i * op->ids_stride] : i;
        size_t to_row = op->to_ids ? op->to_ids[i * op->ids_stride] : i;
        REAL factor = op->factor ? ((const REAL *)op->factor)[i] : 1;
        for (size_t p = 0; p < op->pieces; p++) {
            const REAL *from =
                (const REAL *)op->from + from_row * op->from_stride + p * op->from_pitch;
            REAL *to = (REAL *)op->to + to_row * op->to_stride + p * op->to_pitch;
            if (op->add)
                for (size_t j = 0; j < op->len; j++)
                    to[j] += factor * from[j];
            else
                for (size_t j = 0; j < op->len; j++)
                    to[j] = factor * from[j];
        }
    }
}

static void KERNEL(dots)(const struct num_dots *op)
{
    REAL *out = op->out;
    for (size_t i = 0; i < op->n; i++) {
        size_t a_row = op->a_ids ? op->a_ids[i * op->ids_stride] : i;
        size_t b_row = op->b_ids ? op->b_ids[i * op->ids_stride] : i;
        const REAL *a = (const REAL *)op->a + a_row * op->a_stride;
        const REAL *b = (const REAL *)op->b + b_row * op->b_stride;
        double sums[8] = {0}; /* eight, so that the compiler may use vectors */
        size_t j = 0;
        for (; j + countof(sums) <= op->len; j += countof(sums))
            for (size_t s = 0; s < countof(sums); s++)
                sums[s] += (double)a[j + s] * (double)b[j + s];
        for (; j < op->len; j++)
            sums[0] += (double)a[j] * (double)b[j];
        for (size_t s = 1; s < countof(sums); s++)
            sums[0] += sums[s];
        out[i] += (REAL)sums[0];
    }
}

static void KERNEL(drop)(const struct num_drop *op)
{
    REAL *x = op->x, kept = (REAL)(1 / (1 - op->probability));
    for (size_t i = 0; i < op->n; i++) {
        struct rng rng = {.state = item_seed(op->seed, op->first + i)};
        for (size_t g = 0; g < op->groups; g++, x += op->len) {
            REAL factor = rng_unit(&rng) < op->probability ? 0 : kept;
            for (size_t j = 0; j < op->len; j++)
                x[j] *= factor;
        }
    }
}

static void KERNEL(multiply)(const struct num_multiply *op)
{
    const REAL *a = op->a, *b = op->b;
    REAL *y = op->y, alpha = (REAL)op->alpha, beta = (REAL)op->beta;
    if (op->beta == 0)
        for (size_t i = 0; i < op->n; i++)
            y[i] = alpha * a[i] * b[i];
    else
        for (size_t i = 0; i < op->n; i++)
            y[i] = alpha * a[i] * b[i] + beta * y[i];
}

static void KERNEL(logistic)(const struct num_logistic *op)
{
    const REAL *score = op->score;
    for (size_t i = 0; i < op->n; i++) {
        double s = (double)score[i], e = exp(-fabs(s));
        double sigmoid = s < 0 ? e / (1 + e) : 1 / (1 + e);
        /*
         * sigmoid - 1 is computed as -sigmoid(-s): as a difference it would be 0 for a triple that
         * the model is sure of.
         */
        double other = s < 0 ? 1 / (1 + e) : e / (1 + e);
        if (op->loss)
            ((REAL *)op->loss)[i] = (REAL)(op->factor * (fmax(s, 0) + log1p(e) - op->label * s));
        if (op->slope)
            ((REAL *)op->slope)[i] =
                (REAL)(op->factor * ((1 - op->label) * sigmoid - op->label * other));
    }
}

static void KERNEL(conv)(const struct num_conv *op)
{
    const REAL *weight = op->weight, *bias = op->bias, *scale = op->scale, *shift = op->shift;
    size_t out_h = op->height - op->kernel_height + 1, out_w = op->width - op->kernel_width + 1;
    REAL *y = op->y;
    for (size_t i = 0; i < op->n; i++)
        for (size_t f = 0; f < op->n_filters; f++)
            for (size_t row = 0; row < out_h; row++)
                for (size_t col = 0; col < out_w; col++) {
                    const REAL *x = (const REAL *)op->x + (i * op->height + row) * op->width + col;
                    const REAL *w = weight + f * op->kernel_height * op->kernel_width;
                    double sum = bias ? (double)bias[f] : 0;
                    for (size_t r = 0; r < op->kernel_height; r++)
                        for (size_t c = 0; c < op->kernel_width; c++)
                            sum += (double)*w++ * (double)x[r * op->width + c];
                    sum = sum * (scale ? (double)scale[f] : 1) + (shift ? (double)shift[f] : 0);
                    *y++ = (REAL)(op->relu && sum < 0 ? 0 : sum);
                }
}

/* Computes one filter of one sample. */
static void KERNEL(conv_back_one)(const struct num_conv_back *op, size_t i, size_t f,
                                  REAL *d_weight, REAL *d_sum)
{
    size_t out_h = op->height - op->kernel_height + 1, out_w = op->width - op->kernel_width + 1;
    size_t kernel = op->kernel_height * op->kernel_width, map = out_h * out_w;
    const REAL *dy = (const REAL *)op->dy + (i * op->n_filters + f) * map;
    size_t y_row = op->y_rows ? op->y_rows[i] : i;
    const REAL *y = op->y ? (const REAL *)op->y + (y_row * op->n_filters + f) * map : NULL;
    const REAL *x = (const REAL *)op->x + i * op->height * op->width;
    REAL *dx = op->dx ? (REAL *)op->dx + i * op->height * op->width : NULL;
    const REAL *weight = (const REAL *)op->weight + f * kernel;
    double scale = op->scale ? (double)((const REAL *)op->scale)[f] : 1;
    for (size_t k = 0; k < kernel; k++) {
        size_t shift = k / op->kernel_width * op->width + k % op->kernel_width;
        double sum = 0, w = scale * (double)weight[k];
        for (size_t p = 0; p < map; p++) {
            size_t at = p / out_w * op->width + p % out_w + shift;
            if (y && !(y[p] > 0))
                continue;
            sum += (double)dy[p] * (double)x[at];
            if (dx)
                dx[at] += (REAL)(w * (double)dy[p]);
        }
        d_weight[k] += (REAL)sum;
    }
    double sum = 0;
    for (size_t p = 0; p < map; p++)
        sum += !y || y[p] > 0 ? (double)dy[p] : 0;
    *d_sum += (REAL)sum;
}

static void KERNEL(conv_back)(const struct num_conv_back *op)
{
    size_t kernel = op->kernel_height * op->kernel_width, image = op->height * op->width;
    for (size_t i = 0; i < op->n; i++) {
        REAL *d_weight = (REAL *)op->d_weight + i * op->d_weight_stride;
        REAL *d_sum = (REAL *)op->d_sum + i * op->d_sum_stride;
        if (i == 0 || op->d_weight_stride)
            memset(d_weight, 0, op->n_filters * kernel * sizeof(REAL));
        if (i == 0 || op->d_sum_stride)
            memset(d_sum, 0, op->n_filters * sizeof(REAL));
        if (op->dx)
            memset((REAL *)op->dx + i * image, 0, image * sizeof(REAL));
        for (size_t f = 0; f < op->n_filters; f++)
            KERNEL(conv_back_one)(op, i, f, d_weight + f * kernel, d_sum + f);
    }
}

static void KERNEL(conv_norm)(const struct num_conv_norm *op)
{
    const REAL *sums = op->d_weight_sum, *d_sum = op->d_sum;
    const REAL *weight = op->weight, *bias = op->bias, *mean = op->mean, *inv_std = op->inv_std;
    const REAL *norm_weight = op->norm_weight;
    REAL *d_weight = op->d_weight, *d_bias = op->d_bias;
    REAL *d_norm_weight = op->d_norm_weight, *d_norm_bias = op->d_norm_bias;
    for (size_t i = 0; i < op->n; i++)
        for (size_t f = 0; f < op->n_filters; f++, d_sum++, sums += op->kernel) {
            const REAL *w = weight + f * op->kernel;
            REAL scale = norm_weight[f] * inv_std[f];
            double along = ((double)bias[f] - (double)mean[f]) * (double)*d_sum;
            for (size_t k = 0; k < op->kernel; k++) {
                along += (double)w[k] * (double)sums[k];
                if (d_weight)
                    d_weight[i * op->stride + f * op->kernel + k] = scale * sums[k];
            }
            if (d_bias)
                d_bias[i * op->stride + f] = scale * *d_sum;
            if (d_norm_weight)
                d_norm_weight[i * op->stride + f] = (REAL)((double)inv_std[f] * along);
            if (d_norm_bias)
                d_norm_bias[i * op->stride + f] = *d_sum;
        }
}

static void KERNEL(add_where)(const struct num_add_where *op)
{
    const REAL *a = op->a, *b = op->b;
    REAL *y = op->y, alpha = (REAL)op->alpha;
    for (size_t i = 0; i < op->m; i++, a += b ? op->len : op->n, y += op->n)
        for (size_t j = 0; j < op->n; j++) {
            if (op->row_ids[i * op->ids_stride] != op->col_ids[j * op->ids_stride])
                continue;
            double sum = 0;
            for (size_t k = 0; b && k < op->len; k++)
                sum += (double)a[k] * (double)b[j * op->len + k];
            y[j] += alpha * (b ? (REAL)sum : a[j]);
        }
}

static void KERNEL(norm)(const struct num_norm *op)
{
    const REAL *mean = op->mean, *inv_std = op->inv_std, *weight = op->weight, *bias = op->bias;
    const REAL *x = op->x;
    REAL *y = op->y;
    for (size_t i = 0; i < op->n; i++)
        for (size_t c = 0; c < op->channels; c++)
            for (size_t p = 0; p < op->places; p++) {
                REAL value = (*x++ - mean[c]) * inv_std[c] * weight[c] + bias[c];
                *y++ = op->relu && value < 0 ? 0 : value;
            }
}

static void KERNEL(norm_stats)(const struct num_norm_stats *op)
{
    const REAL *x = op->x;
    REAL *mean = op->mean, *var = op->var;
    size_t count = op->n * op->places, stride = op->channels * op->places;
    for (size_t c = 0; c < op->channels; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < op->n; i++)
            for (size_t p = 0; p < op->places; p++)
                sum += (double)x[i * stride + c * op->places + p];
        double middle = sum / (double)count;
        for (size_t i = 0; i < op->n; i++)
            for (size_t p = 0; p < op->places; p++) {
                double off = (double)x[i * stride + c * op->places + p] - middle;
                squares += off * off;
            }
        mean[c] = (REAL)middle;
        var[c] = (REAL)(squares / (double)count);
    }
}

/*
 * Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", 1979
 */
static void KERNEL(norm_merge)(const struct num_norm_merge *op)
{
    const REAL *means = op->means, *vars = op->vars;
    REAL *mean = op->mean, *var = op->var, *inv_std = op->inv_std;
    double count = 0;
    for (size_t i = 0; i < op->n_pieces; i++)
        count += (double)op->counts[i];
    for (size_t c = 0; c < op->channels; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < op->n_pieces; i++)
            sum += (double)op->counts[i] * (double)means[i * op->channels + c];
        double middle = sum / count;
        for (size_t i = 0; i < op->n_pieces; i++) {
            double off = (double)means[i * op->channels + c] - middle;
            squares += (double)op->counts[i] * ((double)vars[i * op->channels + c] + off * off);
        }
        mean[c] = (REAL)middle;
        var[c] = (REAL)(squares / count);
        inv_std[c] = (REAL)(1 / sqrt(squares / count + op->eps));
    }
}

/* Adds the sums of one channel of one sample. */
static void KERNEL(norm_back_sums)(const struct num_norm_back *op, size_t i, size_t c,
                                   double *d_weight, double *d_bias)
{
    size_t at = (i * op->channels + c) * op->places;
    const REAL *x = (const REAL *)op->x + at, *dy = (const REAL *)op->dy + at;
    const REAL *y = op->y ? (const REAL *)op->y + at : NULL;
    double mean = (double)((const REAL *)op->mean)[c];
    double inv_std = (double)((const REAL *)op->inv_std)[c];
    for (size_t p = 0; p < op->places; p++) {
        double dz = !y || y[p] > 0 ? (double)dy[p] : 0;
        *d_bias += dz;
        *d_weight += dz * ((double)x[p] - mean) * inv_std;
    }
}

static void KERNEL(norm_back_x)(const struct num_norm_back *op, size_t i, size_t c, double mean_dz,
                                double mean_dz_xh)
{
    size_t at = (i * op->channels + c) * op->places;
    const REAL *x = (const REAL *)op->x + at, *dy = (const REAL *)op->dy + at;
    const REAL *y = op->y ? (const REAL *)op->y + at : NULL;
    REAL *dx = (REAL *)op->dx + at;
    double mean = (double)((const REAL *)op->mean)[c];
    double inv_std = (double)((const REAL *)op->inv_std)[c];
    double factor = (double)((const REAL *)op->weight)[c] * inv_std;
    for (size_t p = 0; p < op->places; p++) {
        double dz = !y || y[p] > 0 ? (double)dy[p] : 0;
        double xh = ((double)x[p] - mean) * inv_std;
        dx[p] = (REAL)(factor * (dz - mean_dz - xh * mean_dz_xh));
    }
}

static void KERNEL(norm_back)(const struct num_norm_back *op)
{
    REAL *d_weight = op->d_weight, *d_bias = op->d_bias;
    const REAL *mean_dz = op->mean_dz, *mean_dz_xh = op->mean_dz_xh;
    for (size_t c = 0; c < op->channels; c++) {
        double weight_sum = 0, bias_sum = 0;
        for (size_t i = 0; (d_weight || d_bias) && i < op->n; i++) {
            double of_weight = 0, of_bias = 0;
            KERNEL(norm_back_sums)(op, i, c, &of_weight, &of_bias);
            weight_sum += of_weight;
            bias_sum += of_bias;
            if (d_weight)
                d_weight[i * op->d_weight_stride + c] =
                    (REAL)(op->d_weight_stride ? of_weight : weight_sum);
            if (d_bias)
                d_bias[i * op->d_bias_stride + c] = (REAL)(op->d_bias_stride ? of_bias : bias_sum);
        }
        for (size_t i = 0; op->dx && i < op->n; i++)
            KERNEL(norm_back_x)
        (op, i, c, mean_dz ? (double)mean_dz[c] : 0, mean_dz ? (double)mean_dz_xh[c] : 0);
    }
}

static void KERNEL(bce)(const struct num_bce *op)
{
    double loss = 0;
    for (size_t i = 0; i < op->n; i++) {
        const REAL *score = (const REAL *)op->score + i * op->m;
        REAL *slope = (REAL *)op->slope + i * op->m;
        const uint32_t *next = op->positives + op->begins[i];
        const uint32_t *end = op->positives + op->begins[i + 1];
        while (next < end && *next < op->first)
            next++;
        for (size_t j = 0; j < op->m; j++) {
            bool is_positive = next < end && *next == op->first + j;
            double label = is_positive ? op->positive : op->negative;
            double s = (double)score[j], e = exp(-fabs(s)), other = e / (1 + e);
            /* Neither number is computed as 1 minus the other, which would lose digits. */
            double sigmoid = s < 0 ? other : 1 / (1 + e), complement = s < 0 ? 1 / (1 + e) : other;
            loss += fmax(s, 0) + log1p(e) - label * s;
            slope[j] = (REAL)(op->factor * ((1 - label) * sigmoid - label * complement));
            next += is_positive;
        }
    }
    *op->loss = loss;
}

static void KERNEL(norm_back_merge)(const struct num_norm_back_merge *op)
{
    const struct {
        const REAL *sums;
        REAL *d, *mean;
    } both[] = {{op->sums_dz, op->d_bias, op->mean_dz},
                {op->sums_dz_xh, op->d_weight, op->mean_dz_xh}};
    for (size_t b = 0; b < countof(both); b++)
        for (size_t c = 0; c < op->channels; c++) {
            REAL sum = both[b].sums[c];
            for (size_t i = 1; i < op->n_pieces; i++)
                sum += both[b].sums[i * op->channels + c];
            both[b].d[c] = op->adds ? both[b].d[c] + sum : sum;
            both[b].mean[c] = (REAL)op->share * sum;
        }
}

static void KERNEL(adam)(const struct num_adam *op)
{
    const REAL *g = op->g;
    REAL *m = op->m, *v = op->v, *w = op->w;
    REAL beta1 = (REAL)op->beta1, beta2 = (REAL)op->beta2, eps = (REAL)op->eps;
    REAL rest1 = (REAL)(1 - op->beta1), rest2 = (REAL)(1 - op->beta2);
    REAL rate = (REAL)(op->rate / (1 - pow(op->beta1, (double)op->step)));
    REAL scale = (REAL)(1 / sqrt(1 - pow(op->beta2, (double)op->step)));
    for (size_t i = 0; i < op->n; i++) {
        m[i] = beta1 * m[i] + rest1 * g[i];
        v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
        w[i] -= rate * m[i] / (SQRT(v[i]) * scale + eps);
    }
}

static REAL KERNEL(strength)(const struct num_best *op, REAL x)
{
    if (!isfinite(x))
        return (REAL)INFINITY;
    return op->is_magnitude && x < 0 ? -x : x;
}

/* Insertion sort: each value is put in its place among the k best so far. */
static void KERNEL(best_of_row)(const struct num_best *op, const REAL *x, REAL *best, uint32_t *ids)
{
    size_t n = 0;
    for (size_t j = 0; j < op->n; j++) {
        REAL strength = KERNEL(strength)(op, x[j]);
        size_t at = n;
        for (; at > 0; at--) {
            REAL other = KERNEL(strength)(op, best[at - 1]);
            if (other > strength || (other >= strength && ids[at - 1] < op->ids[j]))
                break;
        }
        if (at == op->k)
            continue;
        n = n < op->k ? n + 1 : n;
        memmove(best + at + 1, best + at, (n - at - 1) * sizeof(*best));
        memmove(ids + at + 1, ids + at, (n - at - 1) * sizeof(*ids));
        best[at] = x[j];
        ids[at] = op->ids[j];
    }
}

static void KERNEL(best)(const struct num_best *op)
{
    for (size_t i = 0; i < op->m; i++)
        KERNEL(best_of_row)
    (op, (const REAL *)op->x + i * op->n, (REAL *)op->best + i * op->k, op->best_ids + i * op->k);
}
