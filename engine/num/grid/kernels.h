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

/* Computes c = beta c, for a product with k = 0. */
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
    REAL sums[4] = {0}; /* the sums are independent of each other, so that loads need not wait */
    size_t k = 0;
    for (; k + 4 <= len; k += 4)
        for (size_t s = 0; s < 4; s++)
            sums[s] += a[k + s] * b[k + s];
    for (; k < len; k++)
        sums[0] += a[k] * b[k];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* One thread for each column of some rows. */
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
            w[i] -= rate * m[i] / (GRID_MATH(sqrt)(v[i]) * scale + eps);
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
 * it for all i that name it, in order; most rows are named once. Without `add`, the block of the
 * last i that names a row sets it.
 */
GRID_KERNEL(rows_scatter, struct num_rows)
{
    GRID_SHARED unsigned is_before[1], is_after[1];
    EACH_GROUP (i, op.n) {
        uint32_t row = op.to_ids[i * op.ids_stride];
        EACH_THREAD (t)
            if (t == 0)
                is_before[0] = is_after[0] = 0;
        GRID_SYNC();
        EACH_THREAD (t)
            for (size_t j = t; j < op.n; j += GRID_THREADS)
                if (j != i && op.to_ids[j * op.ids_stride] == row)
                    *(j < i ? is_before : is_after) = 1;
        GRID_SYNC();
        EACH_THREAD (t) {
            bool is_mine = op.add ? !is_before[0] : !is_after[0];
            size_t end = op.add && is_after[0] ? op.n : i + 1;
            for (size_t e = t; is_mine && e < op.pieces * op.len; e += GRID_THREADS)
                for (size_t j = i; j < end; j++)
                    if (op.to_ids[j * op.ids_stride] == row)
                        KERNEL(rows_move)(&op, j, e, row);
        }
        GRID_SYNC();
    }
}

/* The sum of each column, with one block for each column. */
GRID_KERNEL(column_sums, struct column_sums)
{
    GRID_SHARED REAL partial[GRID_THREADS];
    EACH_GROUP (column, op.n_columns) {
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t i = t; i < op.n_rows; i += GRID_THREADS)
                partial[t] += ((const REAL *)op.from)[i * op.n_columns + column];
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                ((REAL *)op.to)[column] = partial[0];
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

/* Returns the first of positives [low, high), which ascend, that is no less than a column. */
GRID_FUNCTION size_t KERNEL(positive_from)(const uint32_t *positives, size_t low, size_t high,
                                           size_t column)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (positives[middle] < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One block for each part of a row. */
GRID_KERNEL(bce, struct bce_parts)
{
    GRID_SHARED double partial[GRID_THREADS];
    GRID_SHARED size_t positives[2]; /* the range of positives in this part */
    const uint32_t *of = op.bce.positives;
    REAL factor = (REAL)op.bce.factor;
    EACH_GROUP (group, op.bce.n * op.n_parts) {
        size_t i = group / op.n_parts, begin = group % op.n_parts * op.part_len;
        size_t end = begin + op.part_len < op.bce.m ? begin + op.part_len : op.bce.m;
        const REAL *score = (const REAL *)op.bce.score + i * op.bce.m;
        REAL *slope = (REAL *)op.bce.slope + i * op.bce.m;
        EACH_THREAD (t)
            if (t < 2)
                positives[t] = KERNEL(positive_from)(of, op.bce.begins[i], op.bce.begins[i + 1],
                                                     op.bce.first + (t == 0 ? begin : end));
        GRID_SYNC();
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t j = begin + t; j < end; j += GRID_THREADS) {
                size_t column = op.bce.first + j;
                size_t at = KERNEL(positive_from)(of, positives[0], positives[1], column);
                bool is_positive = at < positives[1] && of[at] == column;
                REAL label = (REAL)(is_positive ? op.bce.positive : op.bce.negative);
                REAL s = score[j], e = GRID_MATH(exp)(-GRID_MATH(fabs)(s));
                REAL large = 1 / (1 + e), small = e * large;
                REAL sigmoid = s < 0 ? small : large, rest = s < 0 ? large : small;
                partial[t] += (double)((s < 0 ? 0 : s) + GRID_MATH(log1p)(e) - label * s);
                slope[j] = factor * ((1 - label) * sigmoid - label * rest);
            }
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                op.losses[group] = partial[0];
        GRID_SYNC();
    }
}

/* Runs in one block. */
GRID_KERNEL(bce_sum, struct bce_parts)
{
    GRID_SHARED double partial[GRID_THREADS];
    EACH_THREAD (t) {
        partial[t] = 0;
        for (size_t i = t; i < op.bce.n * op.n_parts; i += GRID_THREADS)
            partial[t] += op.losses[i];
    }
    GRID_SUM(partial);
    EACH_THREAD (t)
        if (t == 0)
            op.bce.loss[0] = partial[0];
}

/* ---- the strongest ---- */

/* Returns the value to compare by: numbers that are not finite come first. */
GRID_FUNCTION REAL KERNEL(strength)(REAL x, bool is_magnitude)
{
    if (!isfinite(x))
        return (REAL)INFINITY;
    return is_magnitude && x < 0 ? -x : x;
}

/* A column of a row and its strength. All others come before an entry without a column. */
struct KERNEL(strong) {
    REAL strength;
    uint32_t column;
};

GRID_FUNCTION bool KERNEL(is_before)(const struct num_best *op, struct KERNEL(strong) a,
                                     struct KERNEL(strong) b)
{
    if (a.column == GRID_NONE || b.column == GRID_NONE)
        return a.column != GRID_NONE;
    return a.strength > b.strength ||
           (a.strength == b.strength && op->ids[a.column] < op->ids[b.column]);
}

/*
 * Returns the strongest of a thread's columns that come after `last`, or of all its columns if
 * there is no last. Some columns are read together, because each read takes longer than all
 * comparing.
 */
GRID_FUNCTION struct KERNEL(strong) KERNEL(best_behind)(const struct num_best *op, const REAL *x,
                                                        struct KERNEL(strong) last, unsigned t)
{
    enum {
        TOGETHER = 8
    };
    struct KERNEL(strong) best = {0, GRID_NONE};
    for (size_t first = t; first < op->n; first += TOGETHER * GRID_THREADS) {
        REAL read[TOGETHER];
        for (unsigned i = 0; i < TOGETHER; i++)
            read[i] = first + i * GRID_THREADS < op->n ? x[first + i * GRID_THREADS] : 0;
        for (unsigned i = 0; i < TOGETHER; i++) {
            struct KERNEL(strong) next = {KERNEL(strength)(read[i], op->is_magnitude),
                                          (uint32_t)(first + i * GRID_THREADS)};
            if (next.column < op->n && KERNEL(is_before)(op, next, best) &&
                (last.column == GRID_NONE || KERNEL(is_before)(op, last, next)))
                best = next;
        }
    }
    return best;
}

/*
 * Each thread has the strongest of its own columns that were not taken; the strongest of all
 * threads is taken k times, and only the thread that it is taken from searches its columns again.
 */
GRID_KERNEL(best, struct num_best)
{
    GRID_SHARED struct KERNEL(strong) own[GRID_THREADS], among[GRID_THREADS], last[1];
    for (size_t row = GRID_BLOCK; row < op.m; row += GRID_BLOCKS) {
        const REAL *x = (const REAL *)op.x + row * op.n;
        EACH_THREAD (t) {
            own[t].column = GRID_NONE;
            if (t == 0)
                last[0].column = GRID_NONE;
        }
        for (size_t to = row * op.k; to < (row + 1) * op.k; to++) {
            GRID_SYNC();
            EACH_THREAD (t) {
                if (own[t].column == last[0].column)
                    own[t] = KERNEL(best_behind)(&op, x, last[0], t);
                among[t] = own[t];
            }
            for (unsigned half = GRID_THREADS / 2; half > 0; half /= 2) {
                GRID_SYNC();
                EACH_THREAD (t)
                    if (t < half && KERNEL(is_before)(&op, among[t + half], among[t]))
                        among[t] = among[t + half];
            }
            GRID_SYNC();
            EACH_THREAD (t)
                if (t == 0) {
                    last[0] = among[0];
                    op.best_ids[to] = op.ids[among[0].column];
                    ((REAL *)op.best)[to] = x[among[0].column];
                }
        }
        GRID_SYNC();
    }
}
