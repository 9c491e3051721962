/* SPDX-License-Identifier: Apache-2.0
 *
 * Magic numbers from the formats' own documents: Apache Parquet (file layout), Apache Arrow (IPC
 * file format), APPNOTE.TXT 4.3.7 (zip), the SQLite file format 1.3, RFC 1952, RFC 8878, HDF5
 * (superblock).
 */
#include "data/container.h"

#define AS_JSON_LINES \
    "write its rows as JSON Lines first (pandas: to_json(…, orient='records', lines=True))"
#define UNPACKED_BY(program) "unpack it on its way, by " program " FILE | muster ..."

static const struct {
    const char *magic;
    size_t len;
    const char *name, *cure, *stream_cure; /* stream_cure: NULL where it is the same */
} containers[] = {
    {"PAR1", 4, "Parquet", AS_JSON_LINES, NULL},
    {"ARROW1", 6, "Arrow", AS_JSON_LINES, NULL},
    {"\x89HDF\r\n\x1a\n", 8, "HDF5", AS_JSON_LINES, NULL},
    {"SQLite format 3", 16, "a SQLite database",
     "write its rows as CSV first (sqlite3 -header -csv)", NULL},
    {"PK\x03\x04", 4, "a zip file (or a spreadsheet, or tensors)",
     "unpack it, or write its rows as CSV first", NULL},
    {"\x1f\x8b\x08", 3, "compressed by gzip", "give it a name that ends in .gz, or unpack it",
     UNPACKED_BY("zcat")},
    {"\x28\xb5\x2f\xfd", 4, "compressed by zstd", "give it a name that ends in .zst, or unpack it",
     UNPACKED_BY("zstdcat")},
    {"BZh", 3, "compressed by bzip2", "unpack it first", UNPACKED_BY("bzcat")},
    {"\xfd"
     "7zXZ",
     6, "compressed by xz", "unpack it first", UNPACKED_BY("xzcat")},
    {"\x04\x22\x4d\x18", 4, "compressed by lz4", "unpack it first", UNPACKED_BY("lz4cat")},
};

/* A file that begins like a container may still be text, which has no control characters except
 * white space. */
static bool is_binary(struct str head)
{
    for (size_t i = 0; i < head.len; i++)
        if ((unsigned char)head.at[i] < '\t')
            return true;
    return false;
}

int container_refuse(const char *name, struct str head, bool is_stream, struct err *err)
{
    for (size_t i = 0; i < countof(containers); i++) {
        struct str magic = {containers[i].magic, containers[i].len};
        if (!str_starts_with(head, magic) || !is_binary(head))
            continue;
        bool has_own = is_stream && containers[i].stream_cure;
        return fail(err, ERR_DATA,
                    "%s is %s, which holds no text records; %s (--format lines cuts it at its "
                    "newline bytes all the same)",
                    name, containers[i].name,
                    has_own ? containers[i].stream_cure : containers[i].cure);
    }
    return 0;
}
