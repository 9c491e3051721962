/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz targets share. A target takes any bytes, hands them to a parser and states what must
 * hold whatever they are; ASSERT and BUG say so. Built twice: with libFuzzer (tools/fuzz), and with
 * fuzz_main.c as a test that replays the corpus and its mutations.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* What a file fuzz_NAME.c defines. Returns 0. */
int fuzz_target(const uint8_t *data, size_t size);
/*
 * Runs the target, and stops with a message if the target takes more time than the input's length accounts for,
 * twice: what is quadratic, or worse, in a few kilobytes.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* The target was refused at a limit on work that the manual names. */
void fuzz_cost_forgive(void);
/* Forgives a Zstandard frame in these bytes that asks for a window of more than 64 MiB: the window is memory that is
 * used as it is filled, but AddressSanitizer marks all of it. */
void fuzz_cost_forgive_windows(struct str bytes);

/* The first byte of the input, as a choice; 0 when there is none. */
static inline unsigned fuzz_choice(struct str *input)
{
    if (input->len == 0)
        return 0;
    unsigned choice = (unsigned char)input->at[0];
    input->at++;
    input->len--;
    return choice;
}

/* Does it begin as UTF-8 or UTF-16 with a byte-order mark does? Bytes that come to be the first of a
 * file, which they were not, are read as such a mark. */
static inline bool fuzz_has_mark(struct str text)
{
    static const char *const marks[] = {"\xEF\xBB\xBF", "\xFF\xFE", "\xFE\xFF"};
    for (size_t i = 0; i < countof(marks); i++)
        if (str_starts_with(text, str_of(marks[i])))
            return true;
    return false;
}

/* A folder of this process's own, made at the first call and removed at exit. */
const char *fuzz_folder(void);
/* <fuzz_folder()>/name, which then holds these bytes. Borrowed until the next call. */
const char *fuzz_file(const char *name, struct str content);
