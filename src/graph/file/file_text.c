/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts with {names}. `{{` and `}}` are braces. A brace that is neither is refused: if it were taken as it is, a second
 * one beside it, as in JSON, would be lost without a word.
 */
#include "graph/file/file_impl.h"

/* What the run fills in when a job starts (plan.h). */
static const char *const placeholders[] = {"batch",   "gpu", "gpus",    "gpu_uuid", "seed",
                                           "attempt", "job", "run_dir", "muster"};
/* What muster map fills in in the command of a worker, by itself (muster-map(1)). */
static const char *const worker_placeholders[] = {
    "start", "count", "end",      "shard",  "input", "output",  "shards",
    "gpu",   "seed",  "gpu_uuid", "suffix", "run",   "run_dir", "attempt"};

static bool is_one_of(struct str word, const char *const *names, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++)
        if (str_equal(word, str_of(names[i])))
            return true;
    return false;
}

bool is_placeholder(struct str word)
{
    return is_one_of(word, placeholders, countof(placeholders));
}

/* A text while it is compiled. */
struct compiler {
    struct graph_file *file;
    const struct file_stage *stage;
    struct text *out;
    struct buf literal; /* since the last coordinate */
    size_t longest;     /* bytes of all before that, at most */
    uint32_t cap;
};

static void piece_add(struct compiler *compiler, struct text_piece piece)
{
    struct text *out = compiler->out;
    if (out->n_pieces == compiler->cap) {
        compiler->cap = MAX(compiler->cap * 2, 4u);
        struct text_piece *grown =
            arena_alloc(&compiler->file->arena, compiler->cap * sizeof(*grown));
        if (out->n_pieces > 0)
            memcpy(grown, out->pieces, out->n_pieces * sizeof(*grown));
        out->pieces = grown;
    }
    out->pieces[out->n_pieces++] = piece;
}

static void literal_end(struct compiler *compiler)
{
    struct str text = buf_str(&compiler->literal);
    if (text.len > 0)
        piece_add(compiler, (struct text_piece){
                                .literal = {arena_text(&compiler->file->arena, text), text.len},
                                .coord = NONE});
    buf_reset(&compiler->literal);
}

/* Text that stands for itself. */
void text_escape(struct buf *out, struct str text, enum text_mode mode)
{
    if (mode == TEXT_VALUE) {
        buf_add_str(out, text);
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '{' || text.at[i] == '}')
            buf_add_char(out, text.at[i]);
        buf_add_char(out, text.at[i]);
    }
}

static int unknown_fail(struct compiler *compiler, struct str word)
{
    struct graph_file *file = compiler->file;
    const char *like = var_like(file, word);
    if (!*like)
        like = name_like(file, word, placeholders, countof(placeholders));
    return file_fail(file, compiler->out->node,
                     "{%.*s} is no variable%s; braces that stand for themselves are doubled: "
                     "{{%.*s}}",
                     (int)MIN(word.len, 64ul), word.at, like, (int)MIN(word.len, 64ul), word.at);
}

/* A variable that is no coordinate: its text, now. */
static int constant_add(struct compiler *compiler, struct str word)
{
    struct graph_file *file = compiler->file;
    struct var *var = var_find(file, word);
    if (!var)
        return unknown_fail(compiler, word);
    int rc = var_evaluate(file, var);
    if (rc)
        return rc;
    if (!var->list.is_text && !compiler->stage)
        return file_fail(file, compiler->out->node,
                         "{%s} is a list; only a variable with one text can be a part of another",
                         var->name.at);
    if (!var->list.is_text)
        return file_fail(file, compiler->out->node,
                         "{%s} is a list of values, and no variable of '%s'; add it to its `for`",
                         var->name.at, compiler->stage->name.at);
    text_escape(&compiler->literal, value_text(file, var->list.at[0]), compiler->out->mode);
    return 0;
}

static int name_add(struct compiler *compiler, struct str word)
{
    enum text_mode mode = compiler->out->mode;
    uint32_t coord = compiler->stage ? coord_find(compiler->stage, word) : NONE;
    if (coord != NONE) {
        compiler->longest += compiler->literal.len + compiler->stage->coords[coord].longest;
        literal_end(compiler);
        piece_add(compiler, (struct text_piece){.coord = coord});
        return 0;
    }
    if (mode == TEXT_WORKER && !var_find(compiler->file, word) &&
        is_one_of(word, worker_placeholders, countof(worker_placeholders))) {
        buf_addf(&compiler->literal, "{{%.*s}}", (int)word.len, word.at);
        return 0;
    }
    if (!is_placeholder(word))
        return constant_add(compiler, word);
    if (mode == TEXT_VALUE)
        return file_fail(
            compiler->file, compiler->out->node,
            "{%.*s} is known only when a job runs; it can stand in commands and in `env`",
            (int)word.len, word.at);
    buf_addf(&compiler->literal, "{%.*s}", (int)word.len, word.at);
    return 0;
}

/* The length of "{{word}}" at the beginning of a text; 0: it does not begin so. */
static size_t doubled_word_len(struct str text)
{
    size_t end = text.len > 2 ? 2 + word_len((struct str){text.at + 2, text.len - 2}) : 2;
    bool is_closed = str_starts_with((struct str){text.at + end, text.len - end}, STR("}}"));
    return end > 2 && is_closed ? end + 2 : 0;
}

static int braces_take(struct compiler *compiler, struct str *rest)
{
    enum text_mode mode = compiler->out->mode;
    bool is_doubled = rest->len > 1 && rest->at[1] == rest->at[0];
    size_t used = 2;
    if (is_doubled && mode == TEXT_WORKER && doubled_word_len(*rest) > 0) {
        /* muster map takes the doubled braces for single ones, after the run has done so. */
        used = doubled_word_len(*rest);
        text_escape(&compiler->literal, (struct str){rest->at, used}, mode);
    } else if (is_doubled) {
        text_escape(&compiler->literal, (struct str){rest->at, 1}, mode);
    } else {
        const char *end = memchr(rest->at, '}', rest->len);
        struct str word = {rest->at + 1, end && end > rest->at ? (size_t)(end - rest->at) - 1 : 0};
        if (!is_word(word))
            return file_fail(compiler->file, compiler->out->node,
                             "a single %c has to be a part of a {name}; braces that stand for "
                             "themselves are doubled: {{ and }}",
                             rest->at[0]);
        int rc = name_add(compiler, word);
        if (rc)
            return rc;
        used = word.len + 2;
    }
    *rest = (struct str){rest->at + used, rest->len - used};
    return 0;
}

static int pieces_read(struct compiler *compiler, struct str rest)
{
    int rc = 0;
    while (rest.len > 0 && rc == 0) {
        size_t plain = 0;
        while (plain < rest.len && rest.at[plain] != '{' && rest.at[plain] != '}')
            plain++;
        buf_add(&compiler->literal, rest.at, plain);
        rest = (struct str){rest.at + plain, rest.len - plain};
        if (rest.len > 0)
            rc = braces_take(compiler, &rest);
        if (rc == 0 && compiler->longest + compiler->literal.len > TEXT_MAX_BYTES)
            rc = file_fail(compiler->file, compiler->out->node,
                           "the text is longer than %d KiB; put it into a file",
                           TEXT_MAX_BYTES / 1024);
    }
    return rc;
}

int texts_check(struct graph_file *file)
{
    if (file->text_bytes <= (uint64_t)TEXTS_MAX_GIB << 30)
        return 0;
    return fail(file->err, ERR_USAGE,
                "%s: the texts of all jobs have more than %d GiB; make them "
                "shorter, or the jobs fewer",
                file->path, TEXTS_MAX_GIB);
}

/* A job is made of few texts or short ones, so that what is made before the next check is bounded. */
static int cost_check(struct compiler *compiler)
{
    enum {
        TEXT_COST = 16 /* of a text beside its bytes */
    };
    struct graph_file *file = compiler->file;
    file->text_bytes += compiler->literal.len + TEXT_COST;
    if (compiler->stage)
        file->stage_bytes += compiler->longest + compiler->literal.len + TEXT_COST;
    if (file->stage_bytes > (uint64_t)STAGE_TEXTS_MAX_MIB << 20)
        return file_fail(file, compiler->out->node,
                         "the texts of one stage have more than %d MiB; put them into a file",
                         STAGE_TEXTS_MAX_MIB);
    return texts_check(file);
}

int text_compile(struct graph_file *file, const struct file_stage *stage,
                 const struct yaml_node *node, struct str text, enum text_mode mode,
                 struct text *out)
{
    struct compiler compiler = {.file = file, .stage = stage, .out = out, .literal = BUF_INIT};
    *out = (struct text){.node = node, .mode = mode};
    int rc = pieces_read(&compiler, text);
    if (rc == 0)
        rc = cost_check(&compiler);
    if (rc == 0 && out->n_pieces == 0)
        out->constant = plan_text(file->plan, buf_str(&compiler.literal));
    if (rc == 0)
        literal_end(&compiler);
    buf_release(&compiler.literal);
    return rc;
}

void text_render(const struct graph_file *file, const struct file_stage *stage,
                 const struct text *text, const uint32_t *row, struct buf *out)
{
    for (uint32_t i = 0; i < text->n_pieces; i++) {
        const struct text_piece *piece = &text->pieces[i];
        if (piece->coord == NONE)
            buf_add_str(out, piece->literal);
        else
            text_escape(out,
                        value_text(file, stage->coords[piece->coord].list.at[row[piece->coord]]),
                        text->mode);
    }
}

const char *text_make(struct graph_file *file, const struct file_stage *stage,
                      const struct text *text, const uint32_t *row)
{
    if (text->constant)
        return text->constant;
    buf_reset(&file->scratch);
    text_render(file, stage, text, row, &file->scratch);
    file->text_bytes += file->scratch.len;
    return plan_text(file->plan, buf_str(&file->scratch));
}
