/* SPDX-License-Identifier: Apache-2.0 */
#include "data/format.h"

#include "base/fs.h"

static const struct {
    const char *extension;
    enum record_format format;
    enum out_format out;
} extensions[] = {
    {".jsonl", FORMAT_JSONL, OUT_JSONL}, {".ndjson", FORMAT_JSONL, OUT_JSONL},
    {".json", FORMAT_JSON, OUT_JSON},    {".csv", FORMAT_CSV, OUT_CSV},
    {".tsv", FORMAT_TSV, OUT_TSV},
};

static const struct {
    const char *extension;
    enum packing packing;
} packings[] = {{".gz", PACK_GZIP}, {".zst", PACK_ZSTD}};

/* Of files that are no text. */
static const char *const foreign_extensions[] = {
    ".parquet", ".arrow", ".feather", ".orc", ".avro", ".xlsx",        ".xls",
    ".ods",     ".pkl",   ".pickle",  ".h5",  ".hdf5", ".db",          ".sqlite",
    ".sqlite3", ".pt",    ".pth",     ".npy", ".npz",  ".safetensors",
};

const struct choice record_formats[] = {{"auto", FORMAT_AUTO},
#define X(id, name) {(name), FORMAT_##id},
                                        RECORD_FORMATS(X)
#undef X
                                            {0}};

const struct choice out_formats[] = {
    {"auto", OUT_AUTO},
    {"lines", OUT_LINES},
    {"jsonl", OUT_JSONL},
    {"json", OUT_JSON},
    {"csv", OUT_CSV},
    {"tsv", OUT_TSV},
    {0},
};

const char *record_format_name(enum record_format format)
{
    return choice_word(record_formats, (int)format);
}

const char *out_format_name(enum out_format format)
{
    return choice_word(out_formats, (int)format);
}

static bool has_extension(struct str name, const char *extension)
{
    struct str end = str_of(extension);
    return name.len > end.len && strncasecmp(name.at + name.len - end.len, extension, end.len) == 0;
}

enum record_format record_format_of_path(const char *path)
{
    struct str name = str_of(path_basename(path));
    for (size_t i = 0; i < countof(packings); i++)
        if (has_extension(name, packings[i].extension))
            name.len -= strlen(packings[i].extension);
    for (size_t i = 0; i < countof(extensions); i++)
        if (has_extension(name, extensions[i].extension))
            return extensions[i].format;
    return FORMAT_LINES;
}

enum out_format out_format_of_path(const char *path)
{
    struct str name = str_of(path_basename(path));
    for (size_t i = 0; i < countof(extensions); i++)
        if (has_extension(name, extensions[i].extension))
            return extensions[i].out;
    return OUT_LINES;
}

int out_format_check_path(const char *path, struct err *err)
{
    const char *extension = path_extension(path);
    for (size_t i = 0; i < countof(foreign_extensions); i++)
        if (strcasecmp(extension, foreign_extensions[i]) == 0)
            return fail(err, ERR_USAGE,
                        "%s: results are not written as %s; name the output .jsonl, .json, .csv or "
                        ".tsv and convert it afterwards (--format-out writes any of these under "
                        "any name)",
                        path, extension);
    return 0;
}

enum packing packing_of_path(const char *path)
{
    struct str name = str_of(path_basename(path));
    for (size_t i = 0; i < countof(packings); i++)
        if (has_extension(name, packings[i].extension))
            return packings[i].packing;
    return PACK_NONE;
}
