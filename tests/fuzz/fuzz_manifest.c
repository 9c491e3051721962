/* SPDX-License-Identifier: Apache-2.0
 *
 * The small files of a run's folder: manifest.json, status.json, the lock, an order to stop. The
 * first byte chooses which of them holds the rest.
 */
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "fuzz.h"
#include "store/manifest.h"
#include "store/orders.h"
#include "store/runs.h"
#include "store/status.h"

static size_t n_words(const char *const *words)
{
    size_t n = 0, bytes = 0;
    for (; words && words[n]; n++)
        bytes += strlen(words[n]);
    return n + (bytes == SIZE_MAX);
}

static void expect_same(const char *a, const char *b)
{
    if (!a != !b || (a && strcmp(a, b) != 0))
        BUG("'%s' became '%s'", a ? a : "(none)", b ? b : "(none)");
}

static void expect_same_words(const char *const *a, const char *const *b)
{
    ASSERT(n_words(a) == n_words(b));
    for (size_t i = 0; a && a[i]; i++)
        expect_same(a[i], b[i]);
}

/* What was read is written and read again; what muster finds out by itself is left out. */
static void check_manifest_again(const char *dir, const struct manifest *manifest)
{
    struct manifest copy = *manifest, again;
    struct err err = {0};
    copy.git_commit = copy.git_commit ? copy.git_commit : "";
    if (manifest_write(dir, &copy, &err) || manifest_read(dir, &again, &err))
        BUG("what was read cannot be written: %s", err.text);
    expect_same(manifest->verb, again.verb);
    expect_same(manifest->cwd, again.cwd);
    expect_same(manifest->output, again.output);
    expect_same(manifest->driver, again.driver);
    expect_same_words(manifest->argv, again.argv);
    expect_same_words(manifest->command, again.command);
    expect_same_words(manifest->inputs, again.inputs);
    ASSERT(manifest->seed == again.seed && manifest->n_devices == again.n_devices);
    manifest_release(&again);
}

static void check_manifest(struct str text)
{
    struct manifest manifest;
    struct err err = {0};
    fuzz_file("manifest.json", text);
    if (manifest_read(fuzz_folder(), &manifest, &err) != 0) {
        ASSERT(err.code == ERR_DATA && err.text[0]);
        return;
    }
    /* Those who read it rely on these. */
    ASSERT(manifest.verb && manifest.argv && manifest.cwd);
    ASSERT(manifest.options_json && json_is_object(str_of(manifest.options_json)));
    for (size_t i = 0; i < manifest.n_devices; i++)
        n_words((const char *const[]){manifest.devices[i].name, manifest.devices[i].uuid, NULL});
    check_manifest_again(fuzz_folder(), &manifest);
    manifest_release(&manifest);
}

static void check_status(struct str text)
{
    struct run_status status, again;
    struct err err = {0};
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
    fuzz_file("status.json", text);
    if (status_read(fuzz_folder(), &status, &err) != 0) {
        ASSERT(err.code == ERR_DATA && err.text[0]);
        return;
    }
    status_format(&status, &first);
    fuzz_file("status.json", buf_str(&first));
    if (status_read(fuzz_folder(), &again, &err))
        BUG("written as %s: %s", buf_text(&first), err.text);
    status_format(&again, &second);
    if (!str_equal(buf_str(&first), buf_str(&second)))
        BUG("%s\nreads back as\n%s", buf_text(&first), buf_text(&second));
    status_release(&status);
    status_release(&again);
}

static void check_inspect(void)
{
    struct run_summary summary;
    enum stop_how how;
    ASSERT(run_inspect(fuzz_folder(), &summary, NULL) == 0);
    ASSERT(run_state_name(summary.state));
    run_summary_release(&summary);
    (void)run_stop_asked(fuzz_folder(), &how);
}

static void forget(const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", fuzz_folder(), name);
    unlink(path);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"manifest.json", "status.json", "lock", "stop"};
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text) % countof(names);
    if (choice == 0)
        check_manifest(text);
    else if (choice == 1)
        check_status(text);
    fuzz_file(names[choice], text);
    check_inspect();
    forget(names[choice]);
    return 0;
}
