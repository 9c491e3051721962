/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/pickle/pickle_callable.h"

/* clang-format off */
static const struct pickle_callable callables[] = {
    {"collections", "OrderedDict", RESULT_DICT, true},
    {"collections", "Counter", RESULT_DICT, true},
    {"collections", "defaultdict", RESULT_DICT, false},
    {"torch._utils", "_rebuild_tensor", RESULT_TENSOR, true},
    {"torch._utils", "_rebuild_tensor_v2", RESULT_TENSOR, true},
    {"torch._utils", "_rebuild_tensor_v3", RESULT_TENSOR, true},
    {"torch._utils", "_rebuild_qtensor", RESULT_TENSOR, true},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", RESULT_OBJECT, true},
    {"torch._utils", "_rebuild_sparse_tensor", RESULT_OBJECT, true},
    {"torch._utils", "_rebuild_sparse_csr_tensor", RESULT_OBJECT, false},
    {"torch._utils", "_rebuild_parameter", RESULT_PARAMETER, true},
    {"torch._utils", "_rebuild_parameter_with_state", RESULT_PARAMETER, true},
    {"torch._utils", "_rebuild_wrapper_subclass", RESULT_OBJECT, true},
    {"torch._utils", "_rebuild_device_tensor_from_numpy", RESULT_OBJECT, true},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", RESULT_OBJECT, true},
    {"torch._tensor", "_rebuild_from_type_v2", RESULT_OBJECT, true},
    {"torch.serialization", "_get_layout", RESULT_OBJECT, true},
    {"torch", "Size", RESULT_SIZE, true},
    {"torch", "device", RESULT_OBJECT, true},
    {"torch", "Tensor", RESULT_OBJECT, true},
    {"torch.nn.parameter", "Parameter", RESULT_OBJECT, true},
    {"_codecs", "encode", RESULT_TEXT_AS_BYTES, true},
    {"__builtin__", "bytearray", RESULT_OBJECT, true},
    {"__builtin__", "set", RESULT_OBJECT, true},
    {"__builtin__", "complex", RESULT_OBJECT, true},
    {"__builtin__", "bytes", RESULT_OBJECT, false},
    {"__builtin__", "frozenset", RESULT_OBJECT, false},
    {"__builtin__", "slice", RESULT_OBJECT, false},
    {"__builtin__", "xrange", RESULT_OBJECT, false},
    {"builtins", "bytearray", RESULT_OBJECT, true},
    {"builtins", "set", RESULT_OBJECT, true},
    {"builtins", "complex", RESULT_OBJECT, true},
    {"builtins", "bytes", RESULT_OBJECT, false},
    {"builtins", "frozenset", RESULT_OBJECT, false},
    {"builtins", "slice", RESULT_OBJECT, false},
    {"builtins", "range", RESULT_OBJECT, false},
    {"numpy", "dtype", RESULT_OBJECT, false},
    {"numpy", "ndarray", RESULT_OBJECT, false},
    {"numpy.core.multiarray", "scalar", RESULT_NUMPY_SCALAR, false},
    {"numpy._core.multiarray", "scalar", RESULT_NUMPY_SCALAR, false},
    {"numpy.core.multiarray", "_reconstruct", RESULT_NUMPY_ARRAY, false},
    {"numpy._core.multiarray", "_reconstruct", RESULT_NUMPY_ARRAY, false},
    {"numpy.core.numeric", "_frombuffer", RESULT_NUMPY_ARRAY, false},
    {"numpy._core.numeric", "_frombuffer", RESULT_NUMPY_ARRAY, false},
};

static const struct {
    const char *type, *dtype;
    unsigned bytes;
} storages[] = {
    {"DoubleStorage", "float64", 8}, {"FloatStorage", "float32", 4},
    {"HalfStorage", "float16", 2}, {"BFloat16Storage", "bfloat16", 2},
    {"LongStorage", "int64", 8}, {"IntStorage", "int32", 4}, {"ShortStorage", "int16", 2},
    {"CharStorage", "int8", 1}, {"ByteStorage", "uint8", 1}, {"BoolStorage", "bool", 1},
    {"ComplexFloatStorage", "complex64", 8}, {"ComplexDoubleStorage", "complex128", 16},
    {"QInt8Storage", "qint8", 1}, {"QUInt8Storage", "quint8", 1}, {"QInt32Storage", "qint32", 4},
    {"QUInt4x2Storage", "quint4x2", 1}, {"QUInt2x4Storage", "quint2x4", 1},
    {"UntypedStorage", "untyped", 1},
};

/* The types of elements that have no storage class of their own. */
static const struct {
    const char *dtype;
    unsigned bytes;
} dtypes[] = {
    {"uint16", 2}, {"uint32", 4}, {"uint64", 8}, {"complex32", 4}, {"float8_e4m3fn", 1},
    {"float8_e5m2", 1}, {"float8_e4m3fnuz", 1}, {"float8_e5m2fnuz", 1}, {"float8_e8m0fnu", 1},
};
/* clang-format on */

static bool is_dtype(struct str name)
{
    return dtype_bytes(name) > 0;
}

static const struct pickle_callable type_of_data = {"torch", "", RESULT_OBJECT, true};

const struct pickle_callable *pickle_callable_find(struct str module, struct str name)
{
    for (size_t i = 0; i < countof(callables); i++)
        if (str_equal(name, str_of(callables[i].name)) &&
            str_equal(module, str_of(callables[i].module)))
            return &callables[i];
    bool is_torch = str_equal(module, STR("torch")) || str_equal(module, STR("torch.storage")) ||
                    str_equal(module, STR("torch.cuda"));
    return is_torch && (storage_element_bytes(name) > 0 || is_dtype(name) ||
                        str_starts_with(name, STR("per_")))
               ? &type_of_data
               : NULL;
}

unsigned storage_element_bytes(struct str type)
{
    for (size_t i = 0; i < countof(storages); i++)
        if (str_equal(type, str_of(storages[i].type)))
            return storages[i].bytes;
    return 0;
}

const char *storage_dtype(struct str type)
{
    for (size_t i = 0; i < countof(storages); i++)
        if (str_equal(type, str_of(storages[i].type)))
            return storages[i].dtype;
    return "?";
}

unsigned dtype_bytes(struct str dtype)
{
    for (size_t i = 0; i < countof(storages); i++)
        if (str_equal(dtype, str_of(storages[i].dtype)))
            return storages[i].bytes;
    for (size_t i = 0; i < countof(dtypes); i++)
        if (str_equal(dtype, str_of(dtypes[i].dtype)))
            return dtypes[i].bytes;
    return 0;
}
