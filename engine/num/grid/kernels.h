/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of backend.h as kernels over REAL, written with the macros of grid.h. A long sum
 * is computed as 256 partial sums, which are then added as a tree.
 */

/* ---- element by element ---- */

GRID_KERNEL(multiply, struct num_multiply)
{
    const REAL *a = (const REAL *)op.a, *b = (const REAL *)op.b;
    REAL *y = (REAL *)op.y, alpha = (REAL)op.alpha, beta = (REAL)op.beta;
    EACH_THREAD (t)
        EACH_ELEMENT (i, t, op.n) {
            REAL product = alpha * a[i] * b[i];
            y[i] = op.beta == 0 ? product : product + beta * y[i];
        }
}

GRID_KERNEL(drop, struct num_drop)
{
    REAL *x = (REAL *)op.x, kept = (REAL)(1 / (1 - op.probability));
    EACH_THREAD (t)
        EACH_ELEMENT (i, t, op.n * op.groups * op.len) {
            size_t group = i / op.len;
            uint64_t seed = item_seed(op.seed, op.first + group / op.groups);
            x[i] *= rng_unit_at(seed, group % op.groups) < op.probability ? 0 : kept;
        }
}

/* A product with k = 0: c = beta c. */
GRID_KERNEL(scale, struct num_gemm)
{
    REAL *c = (REAL *)op.c, beta = (REAL)op.beta;
    EACH_THREAD (t)
        EACH_ELEMENT (i, t, op.m * op.n) {
            REAL *at = &c[i / op.n * op.ldc + i % op.n];
            *at = op.beta == 0 ? 0 : beta * *at;
        }
}

GRID_KERNEL(logistic, struct num_logistic)
{
    const REAL *score = (const REAL *)op.score;
    REAL *loss = (REAL *)op.loss, *slope = (REAL *)op.slope;
    EACH_THREAD (t)
        EACH_ELEMENT (i, t, op.n) {
            double s = (double)score[i], e = exp(-fabs(s));
            double sigmoid = (s < 0 ? e : 1) / (1 + e), other = (s < 0 ? 1 : e) / (1 + e);
            if (loss)
                loss[i] = (REAL)(op.factor * (fmax(s, 0.0) + log1p(e) - op.label * s));
            if (slope)
                slope[i] = (REAL)(op.factor * ((1 - op.label) * sigmoid - op.label * other));
        }
}

GRID_FUNCTION REAL KERNEL(dot)(const REAL *a, const REAL *b, size_t len)
{
    REAL sums[4] = {0}; /* independent of each other, so that loads need not wait */
    size_t k = 0;
    for (; k + 4 <= len; k += 4)
        for (size_t s = 0; s < 4; s++)
            sums[s] += a[k + s] * b[k + s];
    for (; k < len; k++)
        sums[0] += a[k] * b[k];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* A thread for each column of some rows. */
GRID_KERNEL(add_where, struct num_add_where)
{
    const REAL *a = (const REAL *)op.a, *b = (const REAL *)op.b;
    REAL *y = (REAL *)op.y, alpha = (REAL)op.alpha;
    size_t n_columns = (op.n + GRID_THREADS - 1) / GRID_THREADS;
    EACH_GROUP (group, n_columns * ((op.m + WHERE_ROWS - 1) / WHERE_ROWS)) {
        size_t first = group / n_columns * WHERE_ROWS;
        size_t end = first + WHERE_ROWS < op.m ? first + WHERE_ROWS : op.m;
        EACH_THREAD (t) {
            size_t j = group % n_columns * GRID_THREADS + t;
            uint32_t id = j < op.n ? op.col_ids[j * op.ids_stride] : 0;
            for (size_t i = first; j < op.n && i < end; i++)
                if (op.row_ids[i * op.ids_stride] == id)
                    y[i * op.n + j] +=
                        alpha *
                        (b ? KERNEL(dot)(a + i * op.len, b + j * op.len, op.len) : a[i * op.n + j]);
        }
        GRID_SYNC();
    }
}

GRID_KERNEL(adam, struct adam_step)
{
    const REAL *g = (const REAL *)op.adam.g;
    REAL *m = (REAL *)op.adam.m, *v = (REAL *)op.adam.v, *w = (REAL *)op.adam.w;
    REAL beta1 = (REAL)op.adam.beta1, beta2 = (REAL)op.adam.beta2, eps = (REAL)op.adam.eps;
    REAL rest1 = (REAL)(1 - op.adam.beta1), rest2 = (REAL)(1 - op.adam.beta2);
    REAL rate = (REAL)op.rate, scale = (REAL)op.scale;
    EACH_THREAD (t)
        EACH_ELEMENT (i, t, op.adam.n) {
            m[i] = beta1 * m[i] + rest1 * g[i];
            v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
            w[i] -= rate * m[i] / (GRID_SQRT(v[i]) * scale + eps);
        }
}

GRID_KERNEL(conv_norm, struct num_conv_norm)
{
    EACH_THREAD (t)
        EACH_ELEMENT (at, t, op.n * op.n_filters) {
            size_t i = at / op.n_filters, f = at % op.n_filters, to = i * op.stride;
            const REAL *sums = (const REAL *)op.d_weight_sum + at * op.kernel;
            const REAL *weight = (const REAL *)op.weight + f * op.kernel;
            REAL d_sum = ((const REAL *)op.d_sum)[at], inv_std = ((const REAL *)op.inv_std)[f];
            REAL scale = ((const REAL *)op.norm_weight)[f] * inv_std;
            REAL along = (((const REAL *)op.bias)[f] - ((const REAL *)op.mean)[f]) * d_sum;
            for (size_t k = 0; k < op.kernel; k++) {
                along += weight[k] * sums[k];
                if (op.d_weight)
                    ((REAL *)op.d_weight)[to + f * op.kernel + k] = scale * sums[k];
            }
            if (op.d_bias)
                ((REAL *)op.d_bias)[to + f] = scale * d_sum;
            if (op.d_norm_weight)
                ((REAL *)op.d_norm_weight)[to + f] = inv_std * along;
            if (op.d_norm_bias)
                ((REAL *)op.d_norm_bias)[to + f] = d_sum;
        }
}

/* ---- rows ---- */

/* Copies or adds element e of row i, counted over its pieces. */
GRID_FUNCTION void KERNEL(rows_move)(const struct num_rows *op, size_t i, size_t e, size_t to_row)
{
    size_t piece = e / op->len, j = e % op->len;
    size_t from_row = op->from_ids ? op->from_ids[i * op->ids_stride] : i;
    const REAL *from =
        (const REAL *)op->from + from_row * op->from_stride + piece * op->from_pitch + j;
    REAL *to = (REAL *)op->to + to_row * op->to_stride + piece * op->to_pitch + j;
    REAL factor = op->factor ? ((const REAL *)op->factor)[i] : 1;
    *to = op->add ? *to + factor * *from : factor * *from;
}

/*
 * Without to_ids: each row is written once. Rows of one element are columns of a matrix: there i
 * runs fastest, so that neighbouring threads use neighbouring elements.
 */
GRID_KERNEL(rows, struct num_rows)
{
    size_t width = op.pieces * op.len;
    bool by_columns = op.len == 1;
    EACH_THREAD (t)
        EACH_ELEMENT (at, t, op.n * width) {
            size_t i = by_columns ? at % op.n : at / width;
            KERNEL(rows_move)(&op, i, by_columns ? at / op.n : at % width, i);
        }
}

/*
 * With to_ids, one block for each i. With `add`, the block of the first i that names a row adds to
 * it for all i that name it, in order. Without `add`, the block of the last i that names a row sets
 * it.
 */
GRID_KERNEL(rows_scatter, struct num_rows)
{
    GRID_SHARED unsigned is_other[1];
    EACH_GROUP (i, op.n) {
        uint32_t row = op.to_ids[i * op.ids_stride];
        size_t begin = op.add ? 0 : i + 1, end = op.add ? i : op.n;
        EACH_THREAD (t)
            if (t == 0)
                is_other[0] = 0;
        GRID_SYNC();
        EACH_THREAD (t)
            for (size_t j = begin + t; j < end; j += GRID_THREADS)
                if (op.to_ids[j * op.ids_stride] == row)
                    is_other[0] = 1;
        GRID_SYNC();
        EACH_THREAD (t)
            for (size_t e = t; !is_other[0] && e < op.pieces * op.len; e += GRID_THREADS)
                for (size_t j = i; j < (op.add ? op.n : i + 1); j++)
                    if (op.to_ids[j * op.ids_stride] == row)
                        KERNEL(rows_move)(&op, j, e, row);
        GRID_SYNC();
    }
}

GRID_KERNEL(dots, struct num_dots)
{
    GRID_SHARED REAL partial[GRID_THREADS];
    EACH_GROUP (i, op.n) {
        size_t a_row = op.a_ids ? op.a_ids[i * op.ids_stride] : i;
        size_t b_row = op.b_ids ? op.b_ids[i * op.ids_stride] : i;
        const REAL *a = (const REAL *)op.a + a_row * op.a_stride;
        const REAL *b = (const REAL *)op.b + b_row * op.b_stride;
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t j = t; j < op.len; j += GRID_THREADS)
                partial[t] += a[j] * b[j];
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                ((REAL *)op.out)[i] += partial[0];
        GRID_SYNC();
    }
}

/* ---- cross entropy ---- */

/* Is column `first + j` one of the positives of row i, which ascend? */
GRID_FUNCTION bool KERNEL(is_positive)(const struct num_bce *op, size_t i, size_t j)
{
    size_t low = op->begins[i], high = op->begins[i + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (op->positives[middle] < op->first + j)
            low = middle + 1;
        else
            high = middle;
    }
    return low < op->begins[i + 1] && op->positives[low] == op->first + j;
}

/* One block for each row, whose loss goes to row_loss. */
GRID_KERNEL(bce, struct bce_rows)
{
    GRID_SHARED double partial[GRID_THREADS];
    EACH_GROUP (i, op.bce.n) {
        const REAL *score = (const REAL *)op.bce.score + i * op.bce.m;
        REAL *slope = (REAL *)op.bce.slope + i * op.bce.m;
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t j = t; j < op.bce.m; j += GRID_THREADS) {
                double label =
                    KERNEL(is_positive)(&op.bce, i, j) ? op.bce.positive : op.bce.negative;
                double s = (double)score[j], e = exp(-fabs(s)), small = e / (1 + e);
                double sigmoid = s < 0 ? small : 1 / (1 + e), rest = s < 0 ? 1 / (1 + e) : small;
                partial[t] += fmax(s, 0.0) + log1p(e) - label * s;
                slope[j] = (REAL)(op.bce.factor * ((1 - label) * sigmoid - label * rest));
            }
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                op.row_loss[i] = partial[0];
        GRID_SYNC();
    }
}

/* Runs in one block. */
GRID_KERNEL(bce_sum, struct bce_rows)
{
    GRID_SHARED double partial[GRID_THREADS];
    EACH_THREAD (t) {
        partial[t] = 0;
        for (size_t i = t; i < op.bce.n; i += GRID_THREADS)
            partial[t] += op.row_loss[i];
    }
    GRID_SUM(partial);
    EACH_THREAD (t)
        if (t == 0)
            op.bce.loss[0] = partial[0];
}

/* ---- the strongest ---- */

/* The value to compare by: those that are not finite come first. */
GRID_FUNCTION REAL KERNEL(strength)(REAL x, bool is_magnitude)
{
    if (!isfinite(x))
        return (REAL)INFINITY;
    return is_magnitude && x < 0 ? -x : x;
}

/* Does column a of a row come before column b? GRID_NONE comes last. */
GRID_FUNCTION bool KERNEL(is_before)(const struct num_best *op, const REAL *x, uint32_t a,
                                     uint32_t b)
{
    if (a == GRID_NONE || b == GRID_NONE)
        return a != GRID_NONE;
    REAL of_a = KERNEL(strength)(x[a], op->is_magnitude);
    REAL of_b = KERNEL(strength)(x[b], op->is_magnitude);
    return of_a > of_b || (of_a == of_b && op->ids[a] < op->ids[b]);
}

/* The strongest of a thread's columns that come after `last`; last GRID_NONE: of all of them. */
GRID_FUNCTION uint32_t KERNEL(best_behind)(const struct num_best *op, const REAL *x, uint32_t last,
                                           unsigned t)
{
    uint32_t best = GRID_NONE;
    for (size_t j = t; j < op->n; j += GRID_THREADS)
        if ((last == GRID_NONE || KERNEL(is_before)(op, x, last, (uint32_t)j)) &&
            KERNEL(is_before)(op, x, (uint32_t)j, best))
            best = (uint32_t)j;
    return best;
}

/* Each row is searched k times. */
GRID_KERNEL(best, struct num_best)
{
    GRID_SHARED uint32_t column[GRID_THREADS], last[1];
    for (size_t row = GRID_BLOCK; row < op.m; row += GRID_BLOCKS) {
        const REAL *x = (const REAL *)op.x + row * op.n;
        EACH_THREAD (t)
            if (t == 0)
                last[0] = GRID_NONE;
        for (size_t to = row * op.k; to < (row + 1) * op.k; to++) {
            GRID_SYNC();
            EACH_THREAD (t)
                column[t] = KERNEL(best_behind)(&op, x, last[0], t);
            for (unsigned half = GRID_THREADS / 2; half > 0; half /= 2) {
                GRID_SYNC();
                EACH_THREAD (t)
                    if (t < half && KERNEL(is_before)(&op, x, column[t + half], column[t]))
                        column[t] = column[t + half];
            }
            GRID_SYNC();
            EACH_THREAD (t)
                if (t == 0) {
                    last[0] = column[0];
                    op.best_ids[to] = op.ids[column[0]];
                    ((REAL *)op.best)[to] = x[column[0]];
                }
        }
        GRID_SYNC();
    }
}
