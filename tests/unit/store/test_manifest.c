/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "store/git.h"
#include "store/manifest.h"
#include "temp.h"

static void put_file(const char *folder, const char *name, const char *content)
{
    struct err err = {0};
    cleanup_free char *path = path_join(folder, name), *parent = path_dirname(path);
    if (mkdir_parents(parent, 0777, &err) != 0 ||
        file_replace_fast(path, str_of(content), &err) != 0)
        fail_msg("%s", err.text);
}

static void a_manifest_comes_back_as_it_was_written(void **state)
{
    const char *const argv[] = {"muster",       "map", "-o", "out \xff\xfe.jsonl",
                                "\"quoted\"\n", "",    NULL};
    const char *const command[] = {"python", "worker.py", NULL};
    const char *const inputs[] = {"/data/a.jsonl", "/data/\xe9t\xe9.jsonl", NULL};
    const struct manifest_device devices[] = {{"H200", "GPU-1", 0, 150ull << 30},
                                              {"H200", "GPU-2", 3, 1}};
    const struct manifest written = {
        .verb = "map",
        .argv = argv,
        .command = command,
        .cwd = "/home/\xff",
        .inputs = inputs,
        .output = "/data/out \xff\xfe.jsonl",
        .version = "0.1.0",
        .driver = "550.54",
        .options_json = "{\"retries\":3}",
        .input_json = "{\"bytes\":12}",
        .seed = 0xfedcba9876543210u,
        .started_wall_ms = 1769846887123,
        .devices = devices,
        .n_devices = 2,
    };
    struct err err = {0};
    struct manifest read;
    if (manifest_write(*state, &written, &err) != 0 || manifest_read(*state, &read, &err) != 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < countof(argv) - 1; i++)
        assert_string_equal(read.argv[i], argv[i]);
    assert_null(read.argv[countof(argv) - 1]);
    assert_string_equal(read.command[1], "worker.py");
    assert_string_equal(read.inputs[1], inputs[1]);
    assert_string_equal(read.cwd, written.cwd);
    assert_string_equal(read.output, written.output);
    assert_string_equal(read.options_json, "{\"retries\":3}");
    assert_string_equal(read.input_json, "{\"bytes\":12}");
    assert_true(read.seed == written.seed);
    assert_true(read.started_wall_ms == written.started_wall_ms);
    assert_int_equal(read.n_devices, 2);
    assert_string_equal(read.devices[1].uuid, "GPU-2");
    assert_int_equal(read.devices[1].index, 3);
    assert_true(read.devices[0].memory_bytes == 150ull << 30);
    assert_non_null(read.host);
    assert_true(read.cpu_count > 0);
    manifest_release(&read);
}

static void what_is_absent_comes_back_as_null(void **state)
{
    const char *const argv[] = {"muster", NULL};
    const struct manifest written = {.verb = "map", .argv = argv, .cwd = "/"};
    struct manifest read;
    assert_int_equal(manifest_write(*state, &written, NULL), 0);
    assert_int_equal(manifest_read(*state, &read, NULL), 0);
    assert_null(read.command);
    assert_null(read.output);
    assert_null(read.input_json);
    assert_string_equal(read.options_json, "{}");
    manifest_release(&read);
}

static void the_environment_is_noted_without_its_secrets(void **state)
{
    static const struct {
        const char *name;
        bool is_noted;
    } cases[] = {
        {"CUDA_VISIBLE_DEVICES", true}, {"SLURM_JOB_ID", true},   {"OMP_NUM_THREADS", true},
        {"HIP_VISIBLE_DEVICES", true},  {"HF_TOKEN", false},      {"AWS_SECRET_ACCESS_KEY", false},
        {"MUSTER_API_TOKEN", false},    {"SLURM_JWT_KEY", false}, {"SOMETHING_ELSE", false},
        {"MUSTER_API_KEYS", false},     {"SLURM_JWT", false},
    };
    for (size_t i = 0; i < countof(cases); i++)
        assert_int_equal(setenv(cases[i].name, "seen-value", 1), 0);
    const char *const argv[] = {"muster", NULL};
    assert_int_equal(
        manifest_write(*state, &(struct manifest){.verb = "map", .argv = argv, .cwd = "/"}, NULL),
        0);
    cleanup_free char *path = path_join(*state, "manifest.json");
    cleanup_buf struct buf text = BUF_INIT;
    assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_free char *entry = xasprintf("\"%s\": \"seen-value\"", cases[i].name);
        if ((strstr(buf_text(&text), entry) != NULL) != cases[i].is_noted)
            fail_msg("%s should %s be in the manifest", cases[i].name,
                     cases[i].is_noted ? "" : "not");
        unsetenv(cases[i].name);
    }
}

static void a_malformed_manifest_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *says;
    } cases[] = {
        {"{\n\"manifest\": 1,\n oops}", ERR_DATA, "line 3"},
        {"[]", ERR_DATA, "understands"},
        {"{\"manifest\": 99, \"argv\": [], \"cwd\": \"/\", \"verb\": \"map\"}", ERR_DATA,
         "understands"},
        {"{\"manifest\": 1}", ERR_DATA, "understands"},
        {"", ERR_DATA, "manifest.json"},
    };
    struct manifest read;
    struct err err = {0};
    assert_int_equal(manifest_read(*state, &read, &err), ERR_USAGE);
    for (size_t i = 0; i < countof(cases); i++) {
        put_file(*state, "manifest.json", cases[i].text);
        if (manifest_read(*state, &read, &err) != cases[i].rc || !strstr(err.text, cases[i].says))
            fail_msg("%s: %d %s", cases[i].text, err.code, err.text);
    }
    const char *const argv[] = {"muster", NULL};
    const struct manifest bad = {.verb = "map", .argv = argv, .cwd = "/", .options_json = "{"};
    assert_int_equal(manifest_write(*state, &bad, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "options"));
}

#define COMMIT_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define COMMIT_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void the_commit_is_found_however_git_keeps_it(void **state)
{
    static const struct {
        const char *folder, *commit;
    } cases[] = {
        {"detached", COMMIT_A}, {"branch/deep/below", COMMIT_B},
        {"packed", COMMIT_A},   {"tree", COMMIT_B},
        {"broken", NULL},       {"loop", NULL},
    };
    put_file(*state, "detached/.git/HEAD", COMMIT_A "\n");
    put_file(*state, "branch/.git/HEAD", "ref: refs/heads/main\n");
    put_file(*state, "branch/.git/refs/heads/main", COMMIT_B "\n");
    put_file(*state, "branch/deep/below/x", "");
    put_file(*state, "packed/.git/HEAD", "ref: refs/heads/a/b\n");
    put_file(*state, "packed/.git/packed-refs",
             "# pack-refs with: peeled\n" COMMIT_B " refs/heads/a/bc\n" COMMIT_A
             " refs/heads/a/b\n");
    put_file(*state, "branch/.git/worktrees/tree/HEAD", "ref: refs/heads/main\n");
    put_file(*state, "branch/.git/worktrees/tree/commondir", "../..\n");
    cleanup_free char *pointer =
        xasprintf("gitdir: %s/branch/.git/worktrees/tree\n", (char *)*state);
    put_file(*state, "tree/.git", pointer);
    put_file(*state, "broken/.git/HEAD", "not a commit\n");
    put_file(*state, "loop/.git/HEAD", "ref: HEAD\n");
    for (size_t i = 0; i < countof(cases); i++) {
        cleanup_free char *folder = path_join(*state, cases[i].folder);
        cleanup_free char *commit = git_commit_of(folder);
        if (!commit != !cases[i].commit || (commit && strcmp(commit, cases[i].commit) != 0))
            fail_msg("%s: %s", cases[i].folder, commit ? commit : "none");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_manifest_comes_back_as_it_was_written),
        TEST(what_is_absent_comes_back_as_null),
        TEST(the_environment_is_noted_without_its_secrets),
        TEST(a_malformed_manifest_is_refused_with_its_place),
        TEST(the_commit_is_found_however_git_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
