/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce.h"

#include "half.h"
#include "loop.h"

enum {
    BLOCK = 1024 /* values; the sums of a block are at most 8 KiB */
};

#define SAME(value)       (value)
#define ADD_FLOAT(a, b)   ((a) + (b))
#define ADD_INT(a, b)     ((int64_t)((uint64_t)(a) + (uint64_t)(b))) /* wraps around */
#define TIMES_FLOAT(s, w) ((s) * (w))
#define TIMES_INT(s, w)   ((void)(w), (s)) /* they have no weights */
#define MEAN_FLOAT(s, n)  ((s) / (float)(n))

#define NAME       reduce_float32
#define VALUE      float
#define SUM        float
#define WIDEN      SAME
#define NARROW     SAME
#define ADD        ADD_FLOAT
#define TIMES      TIMES_FLOAT
#define MEAN(s, n) MEAN_FLOAT(s, n)
#define IS_NAN(s)  (s) != (s)
#include "reduce_kernel.h"

#define NAME       reduce_float64
#define VALUE      double
#define SUM        double
#define WIDEN      SAME
#define NARROW     SAME
#define ADD        ADD_FLOAT
#define TIMES      TIMES_FLOAT
#define MEAN(s, n) ((s) / (double)(n))
#define IS_NAN(s)  (s) != (s)
#include "reduce_kernel.h"

#define NAME       reduce_bfloat16
#define VALUE      uint16_t
#define SUM        float
#define WIDEN      md_from_bfloat16
#define NARROW     md_to_bfloat16
#define ADD        ADD_FLOAT
#define TIMES      TIMES_FLOAT
#define MEAN(s, n) MEAN_FLOAT(s, n)
#define IS_NAN(s)  (s) != (s)
#include "reduce_kernel.h"

#define NAME       reduce_float16
#define VALUE      uint16_t
#define SUM        float
#define WIDEN      md_from_float16
#define NARROW     md_to_float16
#define ADD        ADD_FLOAT
#define TIMES      TIMES_FLOAT
#define MEAN(s, n) MEAN_FLOAT(s, n)
#define IS_NAN(s)  (s) != (s)
#include "reduce_kernel.h"

#define NAME       reduce_int32
#define VALUE      int32_t
#define SUM        int64_t
#define WIDEN      (int64_t)
#define NARROW     (int32_t)
#define ADD        ADD_INT
#define TIMES      TIMES_INT
#define MEAN(s, n) ((s) / (int64_t)(n))
#define IS_NAN(s)  false
#include "reduce_kernel.h"

#define NAME       reduce_int64
#define VALUE      int64_t
#define SUM        int64_t
#define WIDEN      SAME
#define NARROW     SAME
#define ADD        ADD_INT
#define TIMES      TIMES_INT
#define MEAN(s, n) ((s) / (int64_t)(n))
#define IS_NAN(s)  false
#include "reduce_kernel.h"

#define NAME       reduce_uint8
#define VALUE      uint8_t
#define SUM        int64_t
#define WIDEN      (int64_t)
#define NARROW     (uint8_t)
#define ADD        ADD_INT
#define TIMES      TIMES_INT
#define MEAN(s, n) ((s) / (int64_t)(n))
#define IS_NAN(s)  false
#include "reduce_kernel.h"

#define NAME       reduce_int8
#define VALUE      int8_t
#define SUM        int64_t
#define WIDEN      (int64_t)
#define NARROW     (int8_t)
#define ADD        ADD_INT
#define TIMES      TIMES_INT
#define MEAN(s, n) ((s) / (int64_t)(n))
#define IS_NAN(s)  false
#include "reduce_kernel.h"

static const struct {
    const char *name;
    size_t bytes;
    void (*reduce)(const struct md_call *call, void *out, const void *const *sources, uint32_t n,
                   size_t count);
} types[] = {
    [MUSTER_FLOAT32] = {"float32", 4, reduce_float32},
    [MUSTER_FLOAT64] = {"float64", 8, reduce_float64},
    [MUSTER_BFLOAT16] = {"bfloat16", 2, reduce_bfloat16},
    [MUSTER_FLOAT16] = {"float16", 2, reduce_float16},
    [MUSTER_INT32] = {"int32", 4, reduce_int32},
    [MUSTER_INT64] = {"int64", 8, reduce_int64},
    [MUSTER_UINT8] = {"uint8", 1, reduce_uint8},
    [MUSTER_INT8] = {"int8", 1, reduce_int8},
};

size_t muster_type_bytes(enum muster_type type)
{
    return (unsigned)type < sizeof(types) / sizeof(*types) ? types[type].bytes : 0;
}

const char *muster_type_name(enum muster_type type)
{
    return (unsigned)type < sizeof(types) / sizeof(*types) ? types[type].name : "";
}

void md_reduce(const struct md_call *call, void *out, const void *const *sources, uint32_t n,
               size_t count)
{
    types[call->what.type].reduce(call, out, sources, n, count);
}
