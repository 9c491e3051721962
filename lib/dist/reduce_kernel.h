/* SPDX-License-Identifier: Apache-2.0
 *
 * md_reduce for one type; compiled once for each by reduce.c, which defines
 *
 *     NAME          of the function
 *     VALUE, SUM    the type in memory, and the one that values are combined in
 *     WIDEN(value), NARROW(sum), ADD(a, b), TIMES(sum, weight), MEAN(sum, n), IS_NAN(sum)
 *
 * Blocks of sums stay in the first-level cache.
 */

#define PASTE_(a, b)   a##_##b
#define PASTE(a, b)    PASTE_(a, b)
#define FUNCTION(part) PASTE(NAME, part)

/* sums[i] = sums[i] op value[i] */
static void FUNCTION(fold)(SUM *restrict sums, const VALUE *restrict values, size_t count,
                           enum muster_op op)
{
    if (op == MUSTER_MIN) {
        EACH_ELEMENT (i, count) {
            SUM value = WIDEN(values[i]);
            sums[i] = sums[i] < value || IS_NAN(sums[i]) ? sums[i] : value;
        }
    } else if (op == MUSTER_MAX) {
        EACH_ELEMENT (i, count) {
            SUM value = WIDEN(values[i]);
            sums[i] = sums[i] > value || IS_NAN(sums[i]) ? sums[i] : value;
        }
    } else {
        EACH_ELEMENT (i, count)
            sums[i] = ADD(sums[i], WIDEN(values[i]));
    }
}

static void FUNCTION(finish)(VALUE *out, const SUM *restrict sums, size_t count, uint32_t n,
                             enum muster_op op)
{
    if (op == MUSTER_MEAN)
        EACH_ELEMENT (i, count)
            out[i] = NARROW(MEAN(sums[i], n));
    else
        EACH_ELEMENT (i, count)
            out[i] = NARROW(sums[i]);
}

/* The sum or the mean of two, which is the most frequent case, without a pass over `sums`. */
static void FUNCTION(pair)(VALUE *out, const VALUE *a, const VALUE *b, size_t count,
                           enum muster_op op)
{
    if (op == MUSTER_MEAN)
        EACH_ELEMENT (i, count)
            out[i] = NARROW(MEAN(ADD(WIDEN(a[i]), WIDEN(b[i])), 2));
    else
        EACH_ELEMENT (i, count)
            out[i] = NARROW(ADD(WIDEN(a[i]), WIDEN(b[i])));
}

/* sums[i] += value[i] * weight, or, of the first, = */
static void FUNCTION(weigh)(SUM *restrict sums, const VALUE *restrict values, size_t count,
                            SUM weight, bool is_first)
{
    if (is_first)
        EACH_ELEMENT (i, count)
            sums[i] = TIMES(WIDEN(values[i]), weight);
    else
        EACH_ELEMENT (i, count)
            sums[i] = ADD(sums[i], TIMES(WIDEN(values[i]), weight));
}

/* One block: the sums of `len` values from `begin` on. */
static void FUNCTION(block)(const struct md_call *call, SUM *sums, const void *const *sources,
                            uint32_t n, size_t begin, size_t len)
{
    const VALUE *first = (const VALUE *)sources[0] + begin;
    if (call->weights) {
        for (uint32_t r = 0; r < n; r++) {
            const VALUE *values = (const VALUE *)sources[r] + begin;
            FUNCTION(weigh)(sums, values, len, (SUM)call->weights[r], r == 0);
        }
        return;
    }
    EACH_ELEMENT (i, len)
        sums[i] = WIDEN(first[i]);
    for (uint32_t r = 1; r < n; r++)
        FUNCTION(fold)(sums, (const VALUE *)sources[r] + begin, len, call->what.op);
}

static void NAME(const struct md_call *call, void *out, const void *const *sources, uint32_t n,
                 size_t count)
{
    SUM sums[BLOCK];
    enum muster_op op = call->weights ? MUSTER_SUM : call->what.op;
    if (n == 2 && !call->weights && (op == MUSTER_SUM || op == MUSTER_MEAN)) {
        FUNCTION(pair)(out, sources[0], sources[1], count, op);
        return;
    }
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t len = count - begin < BLOCK ? count - begin : BLOCK;
        FUNCTION(block)(call, sums, sources, n, begin, len);
        FUNCTION(finish)((VALUE *)out + begin, sums, len, n, op);
    }
}

#undef PASTE_
#undef PASTE
#undef FUNCTION
#undef NAME
#undef VALUE
#undef SUM
#undef WIDEN
#undef NARROW
#undef ADD
#undef TIMES
#undef MEAN
#undef IS_NAN
