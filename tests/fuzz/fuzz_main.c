/* SPDX-License-Identifier: Apache-2.0
 *
 * Where there is no libFuzzer a target is still a test:
 *
 *   fuzz_x [--rounds N] FILE|FOLDER...
 *
 * replays the corpus, then N inputs made of it from a fixed seed: pieces of files with bytes
 * changed, cut and doubled, and small ones of characters that parsers care about.
 */
#include <dirent.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "fuzz.h"

enum {
    INPUT_MAX_BYTES = 1 << 16,
    ROUNDS_DEFAULT = 20000
};

struct corpus {
    struct buf *files;
    size_t n_files;
};

static void corpus_add(struct corpus *corpus, const char *path)
{
    struct err err = {0};
    struct buf file = BUF_INIT;
    if (file_read(path, 64 << 20, &file, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    corpus->files = xrealloc(corpus->files, (corpus->n_files + 1) * sizeof(file));
    corpus->files[corpus->n_files++] = file;
}

/* In the order of the names, so that every machine sees the same inputs. */
static void corpus_add_path(struct corpus *corpus, const char *path)
{
    struct dirent **names;
    int n_names = scandir(path, &names, NULL, alphasort);
    if (n_names < 0) {
        corpus_add(corpus, path);
        return;
    }
    for (int i = 0; i < n_names; i++) {
        cleanup_free char *inside = path_join(path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            corpus_add(corpus, inside);
        free(names[i]);
    }
    free(names);
}

static void random_text(struct rng *rng, struct buf *out)
{
    static const char alphabet[] = "\n\n\n\r\"\"\"\\,,\t []{}:19ae-.@\x1b\xc3\xa9\xff\x00";
    size_t size = 1 + rng_below(rng, rng_below(rng, 10) == 0 ? 400 : 40);
    buf_add_char(out, (char)rng_next(rng));
    for (size_t i = 1; i < size; i++)
        buf_add_char(out, alphabet[rng_below(rng, sizeof(alphabet) - 1)]);
    if (size > 2 && rng_below(rng, 5) == 0) { /* an array more often than chance has it */
        out->at[1] = '[';
        out->at[size - 1] = ']';
    }
}

static struct str random_piece(const struct corpus *corpus, struct rng *rng)
{
    const struct buf *file = &corpus->files[rng_below(rng, corpus->n_files)];
    size_t begin = file->len > 0 ? (size_t)rng_below(rng, file->len) : 0;
    size_t len = file->len > begin ? 1 + (size_t)rng_below(rng, file->len - begin) : 0;
    return (struct str){file->at + begin, MIN(len, (size_t)INPUT_MAX_BYTES)};
}

static void mutate(const struct corpus *corpus, struct rng *rng, struct buf *out)
{
    const struct buf *file = &corpus->files[rng_below(rng, corpus->n_files)];
    buf_add(out, buf_text(file), MIN(file->len, (size_t)INPUT_MAX_BYTES));
    for (uint64_t n = 1 + rng_below(rng, 4); n > 0 && out->len > 0; n--) {
        size_t at = (size_t)rng_below(rng, out->len);
        switch (rng_below(rng, 4)) {
        case 0:
            out->at[at] = (char)(out->at[at] ^ (1 << rng_below(rng, 8)));
            break;
        case 1:
            out->at[at] = (char)rng_next(rng);
            break;
        case 2: /* goes on as another file does */
            out->len = at;
            buf_add_str(out, random_piece(corpus, rng));
            break;
        default: /* a piece is lost */
            buf_consume(out, rng_below(rng, 2) ? at : 1);
        }
    }
}

/* An exact copy, so that a sanitizer sees a read behind the end. */
static void run_one(struct str input)
{
    uint8_t *copy = xmalloc(input.len);
    if (input.len > 0)
        memcpy(copy, input.at, input.len);
    LLVMFuzzerTestOneInput(copy, input.len);
    free(copy);
}

static void run_random(const struct corpus *corpus, uint64_t rounds)
{
    struct rng rng = {4711};
    cleanup_buf struct buf input = BUF_INIT;
    for (uint64_t round = 0; round < rounds; round++) {
        buf_reset(&input);
        if (corpus->n_files == 0 || rng_below(&rng, 4) == 0)
            random_text(&rng, &input);
        else
            mutate(corpus, &rng, &input);
        run_one(buf_str(&input));
    }
}

int main(int argc, char **argv)
{
    struct corpus corpus = {0};
    uint64_t rounds = ROUNDS_DEFAULT;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = strtoull(argv[++i], NULL, 10);
        else
            corpus_add_path(&corpus, argv[i]);
    }
    for (size_t i = 0; i < corpus.n_files; i++)
        run_one(buf_str(&corpus.files[i]));
    run_random(&corpus, rounds);
    for (size_t i = 0; i < corpus.n_files; i++)
        buf_release(&corpus.files[i]);
    free(corpus.files);
    return 0;
}
