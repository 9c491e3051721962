/* SPDX-License-Identifier: Apache-2.0
 *
 * The convolution as kernels over REAL, written with the macros of grid.h.
 */

/*
 * Returns the sum over a filter's elements of weight times the number of the image at that place.
 */
GRID_FUNCTION REAL KERNEL(conv_window)(const REAL *weight, const REAL *x, unsigned height,
                                       unsigned width, unsigned x_width)
{
    REAL sum = 0;
    for (unsigned r = 0; r < height; r++)
        for (unsigned c = 0; c < width; c++)
            sum += weight[r * width + c] * x[r * x_width + c];
    return sum;
}

GRID_FUNCTION REAL KERNEL(conv_end)(const struct num_conv *op, size_t f, REAL sum)
{
    const REAL *bias = (const REAL *)op->bias, *scale = (const REAL *)op->scale;
    const REAL *shift = (const REAL *)op->shift;
    sum = (sum + (bias ? bias[f] : 0)) * (scale ? scale[f] : 1) + (shift ? shift[f] : 0);
    return op->relu && sum < 0 ? 0 : sum;
}

/* For any sizes: one thread for each element of y. */
GRID_KERNEL(conv_any, struct num_conv)
{
    size_t image = op.height * op.width, out_w = op.width - op.kernel_width + 1;
    size_t map = (op.height - op.kernel_height + 1) * out_w;
    EACH_THREAD (t)
        EACH_ELEMENT (at, t, op.n * op.n_filters * map) {
            size_t i = at / map / op.n_filters, f = at / map % op.n_filters, p = at % map;
            const REAL *weight = (const REAL *)op.weight + f * op.kernel_height * op.kernel_width;
            const REAL *x = (const REAL *)op.x + i * image + p / out_w * op.width + p % out_w;
            REAL sum = KERNEL(conv_window)(weight, x, (unsigned)op.kernel_height,
                                           (unsigned)op.kernel_width, (unsigned)op.width);
            ((REAL *)op.y)[at] = KERNEL(conv_end)(&op, f, sum);
        }
}

/*
 * For filters of 3 x 3: one block for each sample. A thread computes eight maps at a place, so that
 * it reads the part of the image at that place once.
 */
GRID_KERNEL(conv_3x3, struct num_conv)
{
    enum {
        TOGETHER = 8,
        KERNEL_SIZE = 9
    };
    GRID_SHARED REAL x[GRID_IMAGE_MAX];
    unsigned image = (unsigned)(op.height * op.width), width = (unsigned)op.width;
    unsigned out_w = width - 2, map = (unsigned)(op.height - 2) * out_w;
    unsigned n_filters = (unsigned)op.n_filters, n_groups = (n_filters + TOGETHER - 1) / TOGETHER;
    EACH_GROUP (i, op.n) {
        REAL *y = (REAL *)op.y + i * n_filters * map;
        EACH_THREAD (t)
            for (unsigned p = t; p < image; p += GRID_THREADS)
                x[p] = ((const REAL *)op.x)[i * image + p];
        GRID_SYNC();
        EACH_THREAD (t)
            for (unsigned at = t; at < n_groups * map; at += GRID_THREADS) {
                unsigned p = at % map, first = at / map * TOGETHER;
                unsigned end = first + TOGETHER < n_filters ? first + TOGETHER : n_filters;
                const REAL *weight = (const REAL *)op.weight + first * KERNEL_SIZE;
                REAL below[KERNEL_SIZE];
                for (unsigned k = 0; k < KERNEL_SIZE; k++)
                    below[k] = x[(p / out_w + k / 3) * width + p % out_w + k % 3];
                for (unsigned f = first; f < end; f++, weight += KERNEL_SIZE)
                    y[f * map + p] =
                        KERNEL(conv_end)(&op, f, KERNEL(conv_window)(weight, below, 3, 3, 3));
            }
        GRID_SYNC();
    }
}

/* Returns dz of filter f at place p of sample i. */
GRID_FUNCTION REAL KERNEL(conv_dz)(const struct num_conv_back *op, size_t map, size_t i, size_t f,
                                   size_t p)
{
    size_t y_row = op->y_rows ? op->y_rows[i] : i;
    const REAL *y = (const REAL *)op->y;
    REAL dy = ((const REAL *)op->dy)[(i * op->n_filters + f) * map + p];
    return !y || y[(y_row * op->n_filters + f) * map + p] > 0 ? dy : 0;
}

/* For any sizes: one block for each element of d_weight and d_sum of a sample. */
GRID_KERNEL(conv_back_sums, struct num_conv_back)
{
    GRID_SHARED REAL partial[GRID_THREADS];
    size_t kernel = op.kernel_height * op.kernel_width, out_w = op.width - op.kernel_width + 1;
    size_t map = (op.height - op.kernel_height + 1) * out_w, n_sums = op.n_filters * (kernel + 1);
    EACH_GROUP (group, n_sums * op.n) {
        size_t i = group / n_sums, f = group % n_sums / (kernel + 1);
        size_t k = group % n_sums % (kernel + 1);
        const REAL *x = (const REAL *)op.x + i * op.height * op.width +
                        k / op.kernel_width * op.width + k % op.kernel_width;
        REAL *d_weight = (REAL *)op.d_weight + i * op.d_weight_stride + f * kernel + k;
        REAL *d_sum = (REAL *)op.d_sum + i * op.d_sum_stride + f;
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t p = t; p < map; p += GRID_THREADS) {
                REAL dz = KERNEL(conv_dz)(&op, map, i, f, p);
                partial[t] += k == kernel ? dz : dz * x[p / out_w * op.width + p % out_w];
            }
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0)
                *(k == kernel ? d_sum : d_weight) = partial[0];
        GRID_SYNC();
    }
}

/* Adds what a row of a filter of `size` columns sums up over a map dz, for each of its elements. */
GRID_FUNCTION void KERNEL(conv_back_row)(const REAL *dz, const REAL *x, unsigned out_h,
                                         unsigned out_w, unsigned size, REAL *sums)
{
    for (unsigned c = 0; c < size; c++) {
        REAL sum = 0;
        for (unsigned row = 0; row < out_h; row++)
            for (unsigned col = 0; col < out_w; col++)
                sum += dz[row * out_w + col] * x[row * (out_w + size - 1) + c + col];
        sums[c] = sum;
    }
}

/* Does the same for three columns: two elements of x stay with the thread as it goes along. */
GRID_FUNCTION void KERNEL(conv_back_row_3)(const REAL *dz, const REAL *x, unsigned out_h,
                                           unsigned out_w, REAL *sums)
{
    REAL first = 0, second = 0, third = 0;
    for (unsigned row = 0; row < out_h; row++, x += 2) {
        REAL left = x[0], middle = x[1];
        for (unsigned col = 0; col < out_w; col++, x++, dz++) {
            REAL right = x[2];
            first += *dz * left;
            second += *dz * middle;
            third += *dz * right;
            left = middle;
            middle = right;
        }
    }
    sums[0] = first;
    sums[1] = second;
    sums[2] = third;
}

/* Returns what the map dz of a filter adds to dx at a place. */
GRID_FUNCTION REAL KERNEL(conv_back_place)(const REAL *weight, const REAL *dz, int row, int col,
                                           int out_h, int out_w, int height, int width)
{
    REAL sum = 0;
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) {
            bool is_in = row >= r && row - r < out_h && col >= c && col - c < out_w;
            sum += is_in ? weight[r * width + c] * dz[(row - r) * out_w + col - c] : 0;
        }
    return sum;
}

/* Does the same for 3 x 3 at two places, one below the other, which share what they read. */
GRID_FUNCTION void KERNEL(conv_back_places_3x3)(const REAL *weight, const REAL *dz, int row,
                                                int col, int out_h, int out_w, REAL *sums)
{
    REAL near[4][3], upper = 0, lower = 0; /* dz of rows from row - 2 on and of columns from col
                                            * - 2 on */
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 3; c++) {
            int at_row = row - 2 + r, at_col = col - 2 + c;
            bool is_in = at_row >= 0 && at_row < out_h && at_col >= 0 && at_col < out_w;
            near[r][c] = is_in ? dz[at_row * out_w + at_col] : 0;
        }
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            upper += weight[r * 3 + c] * near[2 - r][2 - c];
            lower += weight[r * 3 + c] * near[3 - r][2 - c];
        }
    sums[0] = upper;
    sums[1] = lower;
}

/* Adds to dx, at two places one below the other, what n filters add. */
GRID_FUNCTION void KERNEL(conv_back_add)(const struct num_conv_back *op, const REAL *weight,
                                         const REAL *scale, const REAL *dz, unsigned dz_stride,
                                         unsigned n, int row, int col, REAL *dx)
{
    int height = (int)op->kernel_height, width = (int)op->kernel_width;
    int out_h = (int)op->height - height + 1, out_w = (int)op->width - width + 1;
    REAL upper = 0, lower = 0;
    for (unsigned f = 0; f < n; f++, weight += height * width, dz += dz_stride) {
        REAL sums[2], factor = scale ? scale[f] : 1;
        if (height == 3 && width == 3)
            KERNEL(conv_back_places_3x3)(weight, dz, row, col, out_h, out_w, sums);
        else
            for (int i = 0; i < 2; i++)
                sums[i] =
                    KERNEL(conv_back_place)(weight, dz, row + i, col, out_h, out_w, height, width);
        upper += sums[0] * factor;
        lower += sums[1] * factor;
    }
    dx[row * (int)op->width + col] += upper;
    if (row + 1 < (int)op->height)
        dx[(row + 1) * (int)op->width + col] += lower;
}

/*
 * Computes the sums of each sample from shared memory, for as many filters at a time as fit there.
 */
GRID_KERNEL(conv_back, struct num_conv_back)
{
    GRID_SHARED REAL x[GRID_IMAGE_MAX], dx[GRID_IMAGE_MAX], dz[GRID_STAGE];
    unsigned height = (unsigned)op.kernel_height, width = (unsigned)op.kernel_width;
    unsigned image = (unsigned)(op.height * op.width), n_filters = (unsigned)op.n_filters;
    unsigned out_h = (unsigned)op.height - height + 1, out_w = (unsigned)op.width - width + 1;
    unsigned map = out_h * out_w, image_w = (unsigned)op.width;
    unsigned stride = map | 1; /* from map to map; odd, because maps are read side by side */
    unsigned n_staged = GRID_STAGE / stride, n_pairs = ((unsigned)op.height + 1) / 2 * image_w;
    EACH_GROUP (i, op.n) {
        EACH_THREAD (t)
            for (unsigned p = t; p < image; p += GRID_THREADS) {
                x[p] = ((const REAL *)op.x)[i * image + p];
                dx[p] = 0;
            }
        for (unsigned first = 0; first < n_filters; first += n_staged) {
            unsigned n = n_filters - first < n_staged ? n_filters - first : n_staged;
            REAL *d_weight = (REAL *)op.d_weight + i * op.d_weight_stride + first * height * width;
            REAL *d_sum = (REAL *)op.d_sum + i * op.d_sum_stride + first;
            const REAL *weight = (const REAL *)op.weight + first * height * width;
            const REAL *scale = op.scale ? (const REAL *)op.scale + first : NULL;
            GRID_SYNC();
            EACH_THREAD (t)
                for (unsigned e = t; e < n * map; e += GRID_THREADS)
                    dz[e / map * stride + e % map] = KERNEL(conv_dz)(&op, map, i, first, e);
            GRID_SYNC();
            EACH_THREAD (t) {
                /*
                 * This begins with the last thread, because the first threads have more places
                 * below.
                 */
                for (unsigned e = GRID_THREADS - 1 - t; e < n * (height + 1); e += GRID_THREADS) {
                    unsigned f = e / (height + 1), r = e % (height + 1);
                    const REAL *from = x + r * image_w, *of = dz + f * stride;
                    REAL sum = 0, *to = d_weight + (f * height + r) * width;
                    if (r == height) {
                        for (unsigned p = 0; p < map; p++)
                            sum += of[p];
                        d_sum[f] = sum;
                    } else if (width == 3) {
                        KERNEL(conv_back_row_3)(of, from, out_h, out_w, to);
                    } else {
                        KERNEL(conv_back_row)(of, from, out_h, out_w, width, to);
                    }
                }
                for (unsigned p = t; op.dx && p < n_pairs; p += GRID_THREADS)
                    KERNEL(conv_back_add)
                (&op, weight, scale, dz, stride, n, (int)(p / image_w * 2), (int)(p % image_w), dx);
            }
        }
        GRID_SYNC();
        EACH_THREAD (t)
            for (unsigned p = t; op.dx && p < image; p += GRID_THREADS)
                ((REAL *)op.dx)[i * image + p] = dx[p];
        GRID_SYNC();
    }
}

/* Computes dx for any sizes. */
GRID_KERNEL(conv_back_image, struct num_conv_back)
{
    size_t image = op.height * op.width, kernel = op.kernel_height * op.kernel_width;
    size_t out_h = op.height - op.kernel_height + 1, out_w = op.width - op.kernel_width + 1;
    EACH_THREAD (t)
        EACH_ELEMENT (at, t, op.n * image) {
            size_t i = at / image, row = at % image / op.width, col = at % image % op.width;
            REAL all = 0;
            for (size_t f = 0; f < op.n_filters; f++) {
                const REAL *w = (const REAL *)op.weight + f * kernel;
                REAL sum = 0;
                for (size_t r = 0; r < op.kernel_height; r++)
                    for (size_t c = 0; c < op.kernel_width; c++, w++)
                        if (r <= row && row - r < out_h && c <= col && col - c < out_w)
                            sum += *w * KERNEL(conv_dz)(&op, out_h * out_w, i, f,
                                                        (row - r) * out_w + col - c);
                all += sum * (op.scale ? ((const REAL *)op.scale)[f] : 1);
            }
            ((REAL *)op.dx)[at] = all;
        }
}
