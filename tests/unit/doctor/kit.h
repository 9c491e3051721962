/* SPDX-License-Identifier: Apache-2.0
 *
 * Invented machines for the judgements, and words for what is expected of them.
 */
#pragma once

#include "unit/device/devices.h"
#include "unit/test.h"

#include <unistd.h>

#include "base/fs.h"
#include "doctor/checks.h"
#include "doctor/doctor.h"

/* Eight like GPUs under a driver that answers, and nothing wrong anywhere. */
static inline struct facts *fit_machine(size_t n_gpus)
{
    struct facts *facts = xcalloc(1, sizeof(*facts));
    facts->devices = gpus(n_gpus);
    facts->driver = (struct driver_facts){.is_asked = true, .is_there = true, .took_ms = 40};
    facts->host = (struct host_facts){.mem_total_bytes = 64ull << 30,
                                      .mem_available_bytes = 60ull << 30,
                                      .has_shm = true,
                                      .shm_bytes = 32ull << 30,
                                      .shm_free_bytes = 32ull << 30,
                                      .open_files = 65536,
                                      .open_files_hard = 65536,
                                      .memlock_bytes = UINT64_MAX,
                                      .address_space_bytes = UINT64_MAX,
                                      .file_size_bytes = UINT64_MAX,
                                      .cpus_online = 32,
                                      .cpus_allowed = 32,
                                      .wall_ms = 1800000000000};
    facts->has_holders = facts->has_folder = facts->has_slurm = true;
    facts->deadline_ms = 4000;
    facts->folder = (struct folder_facts){.path = "/data/muster-runs",
                                          .existing = "/data",
                                          .size_bytes = 1ull << 40,
                                          .free_bytes = 1ull << 39,
                                          .written_bytes = 64 << 20,
                                          .took_ns = 100000000};
    return facts;
}

static inline void machine_free(struct facts *facts)
{
    facts_release(facts);
    free(facts);
}

/* Where a test does not tell the machine from what is visible and what is named, they are the same. */
static inline struct facts facts_whole(const struct facts *facts)
{
    struct facts whole = *facts;
    if (!whole.machine.at)
        whole.machine = facts->devices;
    if (!whole.visible.at)
        whole.visible = facts->devices;
    return whole;
}

/* "fail gpu 3: lost; warn …": every finding but those that are ok, which are counted only. */
static inline char *judged(void (*judge)(const struct facts *, struct findings *),
                           const struct facts *facts)
{
    struct findings findings = {0};
    struct buf text = BUF_INIT;
    const struct facts whole = facts_whole(facts);
    judge(&whole, &findings);
    for (size_t i = 0; i < findings.len; i++) {
        const struct finding *finding = &findings.at[i];
        bool is_ok = finding->level == FINDING_OK;
        buf_addf(&text, "%s%s %s%s%s", i ? "; " : "", finding_level_name(finding->level),
                 finding->subject, finding->subject[0] ? ": " : "", finding->found);
        if (is_ok != (finding->means[0] == '\0') || is_ok != (finding->cure[0] == '\0'))
            fail_msg("'%s' is %s, means '%s', cure '%s'", finding->found,
                     finding_level_name(finding->level), finding->means, finding->cure);
    }
    findings_release(&findings);
    return buf_steal(&text);
}

static inline void expect(void (*judge)(const struct facts *, struct findings *),
                          const struct facts *facts, const char *wanted)
{
    char *text = judged(judge, facts);
    if (strcmp(text, wanted) != 0)
        fail_msg("expected \"%s\"\nfound    \"%s\"", wanted, text);
    free(text);
}

/* The same, where only the beginning of the first finding matters. */
static inline void expect_begin(void (*judge)(const struct facts *, struct findings *),
                                const struct facts *facts, const char *wanted)
{
    char *text = judged(judge, facts);
    if (strncmp(text, wanted, strlen(wanted)) != 0)
        fail_msg("expected \"%s…\"\nfound    \"%s\"", wanted, text);
    free(text);
}

/* A folder to read instead of /, and files in it. */
static inline char *root_new(void)
{
    char *root = xstrdup("/tmp/muster-doctor-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    return root;
}

static inline void root_free(char *root)
{
    assert_int_equal(remove_tree(root, NULL), 0);
    free(root);
}

static inline void file_put(const char *root, const char *name, const char *text)
{
    char *path = xasprintf("%s%s", root, name);
    char *folder = path_dirname(path);
    assert_int_equal(mkdir_parents(folder, 0700, NULL), 0);
    assert_int_equal(file_replace_fast(path, str_of(text), NULL), 0);
    free(folder);
    free(path);
}

static inline void link_put(const char *root, const char *name, const char *target)
{
    char *path = xasprintf("%s%s", root, name);
    char *folder = path_dirname(path);
    assert_int_equal(mkdir_parents(folder, 0700, NULL), 0);
    assert_int_equal(symlink(target, path), 0);
    free(folder);
    free(path);
}
