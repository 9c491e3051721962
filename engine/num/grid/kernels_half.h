/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for the 16-bit formats, with float32 only, written with the macros of grid.h.
 */

GRID_FUNCTION float magnitude(float x)
{
    return isfinite(x) ? fabsf(x) : 0;
}

/* largest[0] becomes the largest element of `largest`. */
#define BLOCK_LARGEST(largest)                                           \
    for (unsigned half = GRID_THREADS / 2; half > 0; half /= 2) {        \
        GRID_SYNC();                                                     \
        EACH_THREAD (t)                                                  \
            if (t < half)                                                \
                (largest)[t] = fmaxf((largest)[t], (largest)[t + half]); \
    }                                                                    \
    GRID_SYNC()

/* largest[0] becomes the largest finite magnitude of a row. */
#define ROW_LARGEST(largest, x, len)                               \
    EACH_THREAD (t) {                                              \
        (largest)[t] = 0;                                          \
        for (size_t j = t; j < (len); j += GRID_THREADS)           \
            (largest)[t] = fmaxf((largest)[t], magnitude((x)[j])); \
    }                                                              \
    BLOCK_LARGEST(largest)

GRID_KERNEL(round, struct num_round)
{
    GRID_SHARED float largest[GRID_THREADS];
    EACH_GROUP (i, op.n) {
        float *x = (float *)op.x + i * op.len;
        ROW_LARGEST(largest, x, op.len);
        EACH_THREAD (t) {
            int shift = format_shift(op.format, largest[0], FORMAT_TOP);
            float up = ldexpf(1, shift), down = ldexpf(1, -shift);
            for (size_t j = t; j < op.len; j += GRID_THREADS)
                x[j] = format_round(op.format, x[j] * up) * down;
        }
        GRID_SYNC();
    }
}

/* op.largest[g] becomes the largest magnitude of rows g, g + n_largest, g + 2 n_largest, ... */
GRID_KERNEL(half_largest, struct half_pack)
{
    GRID_SHARED float largest[GRID_THREADS];
    EACH_GROUP (group, op.n_largest) {
        EACH_THREAD (t) {
            largest[t] = 0;
            for (size_t i = group; i < op.n; i += op.n_largest)
                for (size_t j = t; j < op.len; j += GRID_THREADS)
                    largest[t] = fmaxf(largest[t], magnitude(op.x[i * op.stride + j]));
        }
        BLOCK_LARGEST(largest);
        EACH_THREAD (t)
            if (t == 0)
                op.largest[group] = largest[0];
        GRID_SYNC();
    }
}

/*
 * Packs rows as 16-bit numbers, and stores the shift of each; with op.largest all rows have the
 * same shift.
 */
GRID_KERNEL(half_pack, struct half_pack)
{
    GRID_SHARED float largest[GRID_THREADS];
    EACH_GROUP (i, op.n) {
        const float *x = op.x + i * op.stride, *among = op.largest ? op.largest : x;
        ROW_LARGEST(largest, among, op.largest ? op.n_largest : op.shift ? op.len : 0);
        EACH_THREAD (t) {
            int shift = format_shift(op.format, largest[0], op.top);
            float up = ldexpf(1, shift);
            if (t == 0 && op.shift)
                op.shift[i] = shift;
            for (size_t j = t; j < op.len; j += GRID_THREADS)
                op.to[i * op.to_stride + j] =
                    format_encode(op.format, format_round(op.format, x[j] * up));
        }
        GRID_SYNC();
    }
}

/*
 * Computes c = the product of such rows with their shifts undone, + beta c. With beta 0, product
 * may be c.
 */
GRID_KERNEL(half_unshift, struct half_unshift)
{
    EACH_THREAD (t)
        EACH_ELEMENT (at, t, op.m * op.n) {
            size_t i = at / op.n, j = at % op.n;
            float *c = &op.c[i * op.ldc + j], x = op.product[i * op.product_stride + j];
            x = ldexpf(x, -(op.a_shift[i * op.shift_stride] + op.b_shift[j * op.shift_stride]));
            *c = op.beta == 0 ? x : x + op.beta * *c;
        }
}
