/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of inputs and outputs: their names, and what the name of a file says about its
 * format. No file is opened. Extensions may be in capitals.
 */
#pragma once

#include "base/choice.h"

/* id, name */
#define RECORD_FORMATS(X) \
    X(LINES, "lines")     \
    X(JSONL, "jsonl")     \
    X(JSON, "json")       \
    X(CSV, "csv")         \
    X(TSV, "tsv")

enum record_format {
    FORMAT_AUTO, /* by extension, before .gz/.zst: .jsonl .ndjson .json .csv .tsv; else lines */
#define X(id, name) FORMAT_##id,
    RECORD_FORMATS(X)
#undef X
};
extern const struct choice record_formats[];
const char *record_format_name(enum record_format format);
enum record_format record_format_of_path(const char *path);
/* Does the extension tell the format? The extension .txt tells lines. */
bool record_format_is_named(const char *path);

enum out_format {
    OUT_AUTO, /* by extension: .jsonl .ndjson .json .csv .tsv; else lines as workers wrote them */
    OUT_JSONL,
    OUT_JSON,
    OUT_CSV,
    OUT_TSV,
    OUT_LINES,
};
extern const struct choice out_formats[];
const char *out_format_name(enum out_format format);
enum out_format out_format_of_path(const char *path);
/*
 * ERR_USAGE if an output of this name would be taken for a file that is not text, such as .parquet
 * or .pt.
 */
MUST_CHECK int out_format_check_path(const char *path, struct err *err);

enum packing {
    PACK_NONE,
    PACK_GZIP,
    PACK_ZSTD
};
/*
 * How a file of this name is unpacked when it is read. PACK_NONE also for .xz and other packings
 * that muster does not read.
 */
enum packing packing_of_path(const char *path);
/* ERR_USAGE if an output of this name would be taken for a packed file, whatever the packing. */
MUST_CHECK int out_packing_refuse(const char *path, struct err *err);
