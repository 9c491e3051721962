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
} packings[] = {
    {".gz", PACK_GZIP},
    {".zst", PACK_ZSTD},
    /*
     * muster does not read these, so they are PACK_NONE. An output must still not have such a name,
     * because other programs would take it for a packed file.
     */
    {".bz2", PACK_NONE},
    {".xz", PACK_NONE},
    {".lz4", PACK_NONE},
    {".lzma", PACK_NONE},
    {".lz", PACK_NONE},
    {".lzo", PACK_NONE},
    {".br", PACK_NONE},
    {".z", PACK_NONE},
    {".zip", PACK_NONE},
    {".7z", PACK_NONE},
};

/* Extensions of files that are not text. */
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

/* The name without the extension of a packing that muster reads. */
static struct str name_unpacked(const char *path)
{
    struct str name = str_of(path_basename(path));
    if (packing_of_path(path) != PACK_NONE)
        name.len -= strlen(path_extension(path));
    return name;
}

enum record_format record_format_of_path(const char *path)
{
    struct str name = name_unpacked(path);
    for (size_t i = 0; i < countof(extensions); i++)
        if (has_extension(name, extensions[i].extension))
            return extensions[i].format;
    return FORMAT_LINES;
}

bool record_format_is_named(const char *path)
{
    return record_format_of_path(path) != FORMAT_LINES ||
           has_extension(name_unpacked(path), ".txt");
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

int out_packing_refuse(const char *path, struct err *err)
{
    struct str name = str_of(path_basename(path));
    for (size_t i = 0; i < countof(packings); i++)
        if (has_extension(name, packings[i].extension))
            return fail(err, ERR_USAGE,
                        "%s: the output is not packed; name it without %s and pack it afterwards, "
                        "or from -o -",
                        path, path_extension(path));
    return 0;
}
