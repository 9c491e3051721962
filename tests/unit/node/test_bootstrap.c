/* SPDX-License-Identifier: Apache-2.0
 *
 * The head's side of an agent's start: what the script says between whatever else is printed; bundles; the hello.
 */
#include "unit/test.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/bootstrap.h"
#include "node/hello.h"
#include "node/wire.h"

/* ---- lines ---- */

static enum bootstrap_result feed(struct bootstrap *bootstrap, const char *text,
                                  struct bootstrap_line *line, struct err *err)
{
    bootstrap_feed(bootstrap, str_of(text));
    return bootstrap_next(bootstrap, line, err);
}

static void lines_are_found_between_noise_in_any_pieces(void **state)
{
    (void)state;
    static const char text[] = "Welcome!\nLast login" BOOTSTRAP_MARK "need x86_64 gzip\n"
                               "motd" BOOTSTRAP_MARK "go new /home/a b/muster\nand its bytes";
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct bootstrap bootstrap = {0};
        struct bootstrap_line line;
        struct err err = {0};
        unsigned n_needs = 0;
        for (size_t at = 0; at < sizeof(text) - 1; at += piece) {
            bootstrap_feed(&bootstrap, (struct str){text + at, MIN(piece, sizeof(text) - 1 - at)});
            enum bootstrap_result result = BOOTSTRAP_NEED;
            while (!bootstrap.is_over && result == BOOTSTRAP_NEED) {
                result = bootstrap_next(&bootstrap, &line, &err);
                assert_true(result != BOOTSTRAP_FAILED);
                if (result == BOOTSTRAP_NEED) {
                    assert_string_equal(line.machine, "x86_64");
                    assert_true(line.has_gzip);
                    n_needs++;
                }
            }
        }
        assert_true(bootstrap.is_over);
        assert_int_equal(n_needs, 1);
        assert_true(line.was_installed);
        assert_string_equal(line.folder, "/home/a b/muster");
        assert_string_equal(buf_text(&bootstrap.in), "and its bytes");
        assert_string_equal(buf_text(&bootstrap.noise), "Welcome!\nLast loginmotd");
        bootstrap_release(&bootstrap);
    }
}

static void refused(const char *text, int code, const char *words)
{
    struct bootstrap bootstrap = {0};
    struct bootstrap_line line;
    struct err err = {0};
    assert_int_equal(feed(&bootstrap, text, &line, &err), BOOTSTRAP_FAILED);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, words))
        fail_msg("expected: %s\nfound: %s", words, err.text);
    bootstrap_release(&bootstrap);
}

static void what_the_script_cannot_do_is_a_sentence(void **state)
{
    (void)state;
    refused(BOOTSTRAP_MARK "go own\r\n", ERR_UNAVAILABLE, "leave -t out");
    refused(BOOTSTRAP_MARK "need x86_64 gzip\r\n", ERR_UNAVAILABLE, "leave -t out");
    refused(BOOTSTRAP_MARK "fail damaged\n", ERR_DATA, "arrived there damaged");
    refused(BOOTSTRAP_MARK "fail unfit no such library\n", ERR_UNAVAILABLE,
            "does not start there: no such library (a portable build");
    refused(BOOTSTRAP_MARK "fail folders /a (no room), /b (x)\n", ERR_UNAVAILABLE,
            "no folder there can keep the program: /a (no room), /b (x); --agent-path");
    refused(BOOTSTRAP_MARK "fail\n", ERR_DATA, "said 'fail'");
    refused(BOOTSTRAP_MARK "fail other\n", ERR_DATA, "said 'fail other'");
    refused(BOOTSTRAP_MARK "need\n", ERR_DATA, "said 'need'");
    refused(BOOTSTRAP_MARK "need ../../x\n", ERR_DATA, "said 'need ../../x'");
    refused(BOOTSTRAP_MARK "need a-name-of-a-machine-that-is-too-long-for-uname\n", ERR_DATA,
            "said");
    refused(BOOTSTRAP_MARK "go away\n", ERR_DATA, "said 'go away'");
    refused(BOOTSTRAP_MARK "\n", ERR_DATA, "said ''");
}

static void what_has_no_end_is_given_up(void **state)
{
    (void)state;
    struct bootstrap bootstrap = {0};
    struct bootstrap_line line;
    struct err err = {0};
    cleanup_free char *piece = xmalloc(65537);
    memset(piece, 'x', 65536);
    piece[65536] = '\0';
    enum bootstrap_result result = BOOTSTRAP_MORE;
    unsigned n = 0;
    for (; result == BOOTSTRAP_MORE && n < 100; n++)
        result = feed(&bootstrap, piece, &line, &err);
    assert_int_equal(result, BOOTSTRAP_FAILED);
    assert_int_equal(n, WIRE_NOISE_MAX_BYTES / 65536 + 1);
    assert_true(bootstrap.noise.len <= WIRE_NOISE_KEPT_BYTES);
    bootstrap_release(&bootstrap);
    assert_int_equal(feed(&bootstrap, BOOTSTRAP_MARK "need ", &line, &err), BOOTSTRAP_MORE);
    assert_int_equal(feed(&bootstrap, piece, &line, &err), BOOTSTRAP_FAILED);
    bootstrap_release(&bootstrap);
    for (n = 0;
         (result = feed(&bootstrap, BOOTSTRAP_MARK "need x\n", &line, &err)) == BOOTSTRAP_NEED;)
        n++;
    assert_int_equal(result, BOOTSTRAP_FAILED);
    assert_int_equal(n, BOOTSTRAP_NEEDS_MAX);
    bootstrap_release(&bootstrap);
}

static void the_script_says_its_lines_with_the_mark(void **state)
{
    (void)state;
    struct bundle bundle = {.machine = "m68k", .name = "0123"};
    const struct bundles bundles = {.at = &bundle, .len = 1};
    struct bootstrap_opts opts = {
        .bundles = &bundles, .self_path = "/a b/it's", .boot_id = "id", .pid = 7, .nonce = 0xabc};
    cleanup_buf struct buf script = BUF_INIT;
    bootstrap_script_add(&opts, &script);
    assert_non_null(strstr(buf_text(&script), "printf '\\n\\001muster-start %s\\n'"));
    assert_string_equal(BOOTSTRAP_MARK, "\n\001muster-start ");
    assert_non_null(strstr(buf_text(&script), "\nms_own='/a b/it'\\''s'\n"));
    assert_non_null(strstr(buf_text(&script), "\nms_bundles=m68k:0123\n"));
    assert_non_null(strstr(buf_text(&script), "\nms_pid=7\nms_new=new-0000000000000abc\n"));
    assert_null(strstr(buf_text(&script), "\n#"));
    buf_reset(&script);
    opts.self_path = NULL;
    bootstrap_script_add(&opts, &script);
    assert_non_null(strstr(buf_text(&script), "\nms_own=''\n"));
}

/* ---- bundles ---- */

static void file_make(const char *folder, const char *name, struct str content)
{
    struct err err = {0};
    cleanup_free char *path = path_join(folder, name), *above = path_dirname(path);
    assert_int_equal(mkdir_parents(above, 0755, &err), 0);
    assert_int_equal(file_replace_fast(path, content, &err), 0);
}

/* A program of one segment with something behind it. */
static struct str elf_make(char at[512], bool has_sections)
{
    Elf64_Ehdr header = {.e_ident = {0x7F, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                         .e_phoff = sizeof(header),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1,
                         .e_shoff = has_sections ? 300 : 0,
                         .e_shnum = has_sections ? 3 : 0};
    Elf64_Phdr segment = {.p_offset = 0, .p_filesz = 256};
    memset(at, 'd', 512);
    memcpy(at, &header, sizeof(header));
    memcpy(at + sizeof(header), &segment, sizeof(segment));
    return (struct str){at, has_sections ? 512 : 256};
}

static void a_bundle_is_named_by_what_is_loaded_of_its_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/test-bundle-XXXXXX", whole[512], bare[512];
    struct bundle a, b, c;
    struct err err = {0};
    struct str packed;
    assert_non_null(mkdtemp(folder));
    cleanup_free char *other = path_join(folder, "other"), *own = path_join(folder, "own");
    file_make(own, "muster", elf_make(whole, true));
    file_make(own, "lib/libx.so.1", STR("123456789"));
    file_make(other, "muster", elf_make(bare, false));
    file_make(other, "lib/libx.so.1", STR("123456789"));
    assert_int_equal(bundle_of_folder(own, &a, &err), 0);
    assert_int_equal(bundle_of_folder(other, &b, &err), 0);
    assert_string_equal(a.name, b.name);
    assert_string_equal(a.program, b.program);
    assert_int_equal(bundle_pack(&a, BUNDLE_PLAIN, &packed, &err), 0);
    assert_int_equal(packed.len, strlen("265 1234567890:265 lib/libx.so.1:9 muster:256\n") + 265);
    assert_non_null(
        memmem(packed.at, packed.len, " lib/libx.so.1:9 muster:256\n123456789\177ELF", 41));
    assert_int_equal(bundle_pack(&a, BUNDLE_GZIP, &packed, &err), 0);
    assert_non_null(memmem(packed.at, packed.len, "\n\x1f\x8b", 3));
    file_make(other, "lib/libx.so.1", STR("123456780"));
    assert_int_equal(bundle_of_folder(other, &c, &err), 0);
    assert_string_not_equal(a.name, c.name);
    assert_string_equal(a.program, c.program);
    bundle_release(&b);
    file_make(other, "what is this", STR(""));
    assert_int_equal(bundle_of_folder(other, &b, &err), ERR_USAGE);
    assert_int_equal(remove_tree(folder, &err), 0);
    bundle_release(&a);
    bundle_release(&c);
}

/* `printf 123456789 | cksum` and so on. */
static void the_checksum_is_that_of_cksum(void **state)
{
    (void)state;
    char folder[] = "/tmp/test-bundle-XXXXXX";
    struct bundle bundle;
    struct err err = {0};
    struct str packed;
    assert_non_null(mkdtemp(folder));
    file_make(folder, "muster", STR("123456789"));
    assert_int_equal(bundle_of_folder(folder, &bundle, &err), 0);
    assert_int_equal(bundle_pack(&bundle, BUNDLE_PLAIN, &packed, &err), 0);
    assert_string_equal(packed.at, "9 930766865:9 muster:9\n123456789");
    bundle_release(&bundle);
    assert_int_equal(remove_tree(folder, &err), 0);
}

/* ---- the hello ---- */

static void another_protocol_is_refused_with_both_programs(void **state)
{
    (void)state;
    const struct hello_facts there = {"1.2", "aaaa", 5}, here = {"3.4", "bbbb", 0};
    struct wire_hello hello;
    struct err err = {0};
    cleanup_buf struct buf bytes = BUF_INIT;
    hello_write(&bytes, &there);
    assert_int_equal(hello_read(buf_str(&bytes), &here, &hello, &err), 0);
    assert_string_equal(hello.program, "aaaa");
    bytes.at[0]++;
    assert_int_equal(hello_read(buf_str(&bytes), &here, &hello, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "muster 1.2 (aaaa) there"));
    assert_non_null(strstr(err.text, "muster 3.4 (bbbb) here"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_found_between_noise_in_any_pieces),
        cmocka_unit_test(what_the_script_cannot_do_is_a_sentence),
        cmocka_unit_test(what_has_no_end_is_given_up),
        cmocka_unit_test(the_script_says_its_lines_with_the_mark),
        cmocka_unit_test(a_bundle_is_named_by_what_is_loaded_of_its_files),
        cmocka_unit_test(the_checksum_is_that_of_cksum),
        cmocka_unit_test(another_protocol_is_refused_with_both_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
