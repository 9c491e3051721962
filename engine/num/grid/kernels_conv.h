/* SPDX-License-Identifier: Apache-2.0
 *
 * The convolution as kernels over REAL, written with the macros of grid.h.
 */

/* One block for each sample: the image is read once, the maps are written one after another. */
GRID_KERNEL(conv, struct num_conv)
{
    GRID_SHARED REAL shared[GRID_IMAGE_MAX];
    const REAL *bias = (const REAL *)op.bias, *scale = (const REAL *)op.scale;
    const REAL *shift = (const REAL *)op.shift;
    size_t image = op.height * op.width, out_w = op.width - op.kernel_width + 1;
    unsigned map = (unsigned)((op.height - op.kernel_height + 1) * out_w), width = (unsigned)out_w;
    bool is_shared = image <= GRID_IMAGE_MAX;
    EACH_GROUP (i, op.n) {
        const REAL *x = (const REAL *)op.x + i * image;
        REAL *y = (REAL *)op.y + i * op.n_filters * map;
        EACH_THREAD (t)
            for (size_t p = t; is_shared && p < image; p += GRID_THREADS)
                shared[p] = x[p];
        GRID_SYNC();
        EACH_THREAD (t)
            for (unsigned at = t; at < op.n_filters * map; at += GRID_THREADS) {
                unsigned f = at / map, row = at % map / width, col = at % map % width;
                const REAL *w = (const REAL *)op.weight + f * op.kernel_height * op.kernel_width;
                const REAL *from = (is_shared ? shared : x) + row * op.width + col;
                REAL sum = bias ? bias[f] : 0;
                for (size_t r = 0; r < op.kernel_height; r++, from += op.width)
                    for (size_t c = 0; c < op.kernel_width; c++)
                        sum += *w++ * from[c];
                sum = sum * (scale ? scale[f] : 1) + (shift ? shift[f] : 0);
                y[at] = op.relu && sum < 0 ? 0 : sum;
            }
        GRID_SYNC();
    }
}

/* dz of filter f at place p of sample i */
GRID_FUNCTION REAL KERNEL(conv_dz)(const struct num_conv_back *op, size_t map, size_t i, size_t f,
                                   size_t p)
{
    size_t y_row = op->y_rows ? op->y_rows[i] : i;
    const REAL *y = (const REAL *)op->y;
    REAL dy = ((const REAL *)op->dy)[(i * op->n_filters + f) * map + p];
    return !y || y[(y_row * op->n_filters + f) * map + p] > 0 ? dy : 0;
}

/*
 * For any sizes, and for sums over all samples: one block for each element of d_weight and d_sum,
 * of one sample or with is_all of all.
 */
GRID_KERNEL(conv_back_sums, struct conv_back_sums)
{
    GRID_SHARED REAL partial[GRID_THREADS];
    const struct num_conv_back *back = &op.back;
    size_t kernel = back->kernel_height * back->kernel_width, image = back->height * back->width;
    size_t out_w = back->width - back->kernel_width + 1;
    size_t map = (back->height - back->kernel_height + 1) * out_w;
    size_t n_sums = back->n_filters * (kernel + 1), n_together = op.is_all ? back->n : 1;
    EACH_GROUP (group, n_sums * (op.is_all ? 1 : back->n)) {
        size_t first = group / n_sums, f = group % n_sums / (kernel + 1);
        size_t k = group % n_sums % (kernel + 1);
        size_t shift = k / back->kernel_width * back->width + k % back->kernel_width;
        REAL *d_weight = (REAL *)back->d_weight + first * back->d_weight_stride + f * kernel + k;
        REAL *d_sum = (REAL *)back->d_sum + first * back->d_sum_stride + f;
        bool is_sum = k == kernel, is_wanted = is_sum ? op.has_sum : op.has_weight;
        EACH_THREAD (t) {
            partial[t] = 0;
            for (size_t e = t; is_wanted && e < n_together * map; e += GRID_THREADS) {
                size_t i = first + e / map, p = e % map;
                REAL dz = KERNEL(conv_dz)(back, map, i, f, p);
                size_t at = i * image + p / out_w * back->width + p % out_w + shift;
                partial[t] += is_sum ? dz : dz * ((const REAL *)back->x)[at];
            }
        }
        GRID_SUM(partial);
        EACH_THREAD (t)
            if (t == 0 && is_wanted)
                *(is_sum ? d_sum : d_weight) = partial[0];
        GRID_SYNC();
    }
}

/*
 * What filter f adds to dx at a place: the sum over the kernel elements that reach the place. dz is
 * the map of filter f.
 */
GRID_FUNCTION REAL KERNEL(conv_dx)(const struct num_conv_back *op, size_t f, size_t row, size_t col,
                                   const REAL *dz)
{
    size_t out_h = op->height - op->kernel_height + 1, out_w = op->width - op->kernel_width + 1;
    const REAL *w = (const REAL *)op->weight + f * op->kernel_height * op->kernel_width;
    REAL sum = 0;
    for (size_t r = 0; r < op->kernel_height; r++)
        for (size_t c = 0; c < op->kernel_width; c++, w++)
            if (r <= row && row - r < out_h && c <= col && col - c < out_w)
                sum += *w * dz[(row - r) * out_w + col - c];
    return sum * (op->scale ? ((const REAL *)op->scale)[f] : 1);
}

/* The sums of each sample, from shared memory, for as many filters at a time as fit there. */
GRID_KERNEL(conv_back, struct num_conv_back)
{
    GRID_SHARED REAL x[GRID_IMAGE_MAX], dx[GRID_IMAGE_MAX], dz[GRID_STAGE];
    size_t image = op.height * op.width, kernel = op.kernel_height * op.kernel_width;
    size_t out_h = op.height - op.kernel_height + 1, out_w = op.width - op.kernel_width + 1;
    size_t map = out_h * out_w, n_staged = GRID_STAGE / map;
    EACH_GROUP (i, op.n) {
        EACH_THREAD (t)
            for (size_t p = t; p < image; p += GRID_THREADS) {
                x[p] = ((const REAL *)op.x)[i * image + p];
                dx[p] = 0;
            }
        for (size_t first = 0; first < op.n_filters; first += n_staged) {
            size_t n = op.n_filters - first < n_staged ? op.n_filters - first : n_staged;
            GRID_SYNC();
            EACH_THREAD (t)
                for (size_t e = t; e < n * map; e += GRID_THREADS)
                    dz[e] = KERNEL(conv_dz)(&op, map, i, first, e);
            GRID_SYNC();
            EACH_THREAD (t) {
                for (size_t e = t; e < n * (kernel + 1); e += GRID_THREADS) {
                    size_t f = e / (kernel + 1), k = e % (kernel + 1);
                    const REAL *of = dz + f * map;
                    const REAL *from = x + k / op.kernel_width * op.width + k % op.kernel_width;
                    REAL sum = 0;
                    for (size_t row = 0; row < out_h; row++, of += out_w, from += op.width)
                        for (size_t col = 0; col < out_w; col++)
                            sum += k < kernel ? of[col] * from[col] : of[col];
                    if (k < kernel)
                        ((REAL *)op.d_weight)[i * op.d_weight_stride + (first + f) * kernel + k] =
                            sum;
                    else
                        ((REAL *)op.d_sum)[i * op.d_sum_stride + first + f] = sum;
                }
                for (size_t p = t; op.dx && p < image; p += GRID_THREADS)
                    for (size_t f = 0; f < n; f++)
                        dx[p] += KERNEL(conv_dx)(&op, first + f, p / op.width, p % op.width,
                                                 dz + f * map);
            }
        }
        GRID_SYNC();
        EACH_THREAD (t)
            for (size_t p = t; op.dx && p < image; p += GRID_THREADS)
                ((REAL *)op.dx)[i * image + p] = dx[p];
        GRID_SYNC();
    }
}

/* dx, for any sizes. */
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
