/* SPDX-License-Identifier: Apache-2.0
 *
 * The two small grammars of a file. Conditions, of `when`:
 *
 *     or   = and { "or" and }          and = not { "and" not }
 *     not  = "not" not | "(" or ")" | "true" | "false" | comparison
 *     comparison = operand ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand
 *                | operand [ "not" ] "in" "[" operand { "," operand } "]"
 *
 * and numbers, of `priority`:
 *
 *     sum  = product { ( "+" | "-" ) product }        product = factor { "*" factor }
 *     factor = "-" factor | "(" sum ")" | number | variable
 */
#include "base/parse.h"
#include "graph/file/file_impl.h"

enum {
    EXPR_DEPTH_MAX = 64,
    EXPR_BYTES_MAX = 4096
};

enum op {
    OP_OR,
    OP_AND,
    OP_NOT,
    OP_CONSTANT, /* true or false: number */
    OP_EQUAL,
    OP_UNEQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_MORE,
    OP_MORE_EQUAL,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_COORD,
    OP_VALUE,
    OP_IN /* a among those that b, b->next … are */
};

struct expr {
    enum op op;
    struct expr *a, *b, *next;
    uint32_t coord, value;
    double number;   /* of a value, or 0 and 1 */
    bool is_guessed; /* a word that is no variable: then it has to be a value of the other side */
};

struct parser {
    struct graph_file *file;
    const struct file_stage *stage;
    const struct yaml_node *node;
    struct str rest;
    struct str token; /* the one that is looked at; empty at the end */
    char quote;       /* of the token, or 0 */
    bool is_number;   /* the grammar of numbers: a word has no '-' in it */
    int depth;
};

static struct expr *expr_new(struct parser *parser, enum op op, struct expr *a, struct expr *b)
{
    struct expr *expr = arena_alloc(&parser->file->arena, sizeof(*expr));
    *expr = (struct expr){.op = op, .a = a, .b = b};
    return expr;
}

/* ---- tokens ---- */

static bool is_word_char(const struct parser *parser, char c)
{
    bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '.' || (unsigned char)c >= 0x80;
    return is_plain || (!parser->is_number && c && strchr("-+@%/:", c));
}

static size_t token_len(const struct parser *parser, struct str rest)
{
    static const char *const doubles[] = {"==", "!=", "<=", ">=", "&&", "||"};
    size_t len = 0;
    while (len < rest.len && is_word_char(parser, rest.at[len]))
        len++;
    for (size_t i = 0; i < countof(doubles) && len == 0; i++)
        if (str_starts_with(rest, str_of(doubles[i])))
            return 2;
    return MAX(len, (size_t)1);
}

static int token_next(struct parser *parser)
{
    struct str rest = str_trim(parser->rest);
    parser->quote = 0;
    if (rest.len > 0 && (rest.at[0] == '\'' || rest.at[0] == '"')) {
        const char *end = memchr(rest.at + 1, rest.at[0], rest.len - 1);
        if (!end)
            return file_fail(parser->file, parser->node, "in '%s' a quote is not closed",
                             parser->node->text.at);
        parser->quote = rest.at[0];
        parser->token = (struct str){rest.at + 1, (size_t)(end - rest.at) - 1};
        parser->rest = (struct str){end + 1, rest.len - parser->token.len - 2};
        return 0;
    }
    size_t len = rest.len > 0 ? token_len(parser, rest) : 0;
    parser->token = (struct str){rest.at, len};
    parser->rest = (struct str){rest.at + len, rest.len - len};
    return 0;
}

static bool is_token(const struct parser *parser, const char *text)
{
    return !parser->quote && str_equal(parser->token, str_of(text));
}

static int unexpected(struct parser *parser, const char *expected)
{
    bool is_end = parser->token.len == 0 && !parser->quote;
    const char *cure = is_token(parser, "&&")   ? "; write `and`"
                       : is_token(parser, "||") ? "; write `or`"
                       : is_token(parser, "!")  ? "; write `not`"
                       : is_token(parser, "=")  ? "; write =="
                                                : "";
    return file_fail(parser->file, parser->node, "in '%.100s': expected %s, found %s%.*s%s%s",
                     parser->node->text.at, expected, is_end ? "the end" : "'",
                     (int)MIN(parser->token.len, 60ul), parser->token.at, is_end ? "" : "'", cure);
}

static int expect(struct parser *parser, const char *text, const char *expected)
{
    return is_token(parser, text) ? token_next(parser) : unexpected(parser, expected);
}

/* ---- operands ---- */

static int operand_word(struct parser *parser, struct expr *out)
{
    struct graph_file *file = parser->file;
    uint32_t coord = coord_find(parser->stage, parser->token);
    struct var *var = var_find(file, parser->token);
    if (coord != NONE) {
        out->op = OP_COORD;
        out->coord = coord;
        return 0;
    }
    if (var && !var->list.is_text)
        return file_fail(file, parser->node,
                         "'%s' is a list of values, and no variable of '%s'; add it to its `for`",
                         var->name.at, parser->stage->name.at);
    out->value = var ? var->list.at[0] : value_add(file, parser->token, true);
    out->is_guessed = !var;
    return 0;
}

static int operand_parse(struct parser *parser, struct expr **out)
{
    *out = expr_new(parser, OP_VALUE, NULL, NULL);
    bool is_word = parser->token.len > 0 && is_word_char(parser, parser->token.at[0]);
    int rc = 0;
    if (!parser->quote && !is_word)
        return unexpected(parser, "a variable or a value");
    if (parser->quote)
        (*out)->value = value_add(parser->file, parser->token, true);
    else
        rc = operand_word(parser, *out);
    if (rc == 0 && (*out)->op == OP_VALUE) {
        (*out)->number = parser->file->values[(*out)->value].number;
        (*out)->is_guessed = (*out)->is_guessed && isnan((*out)->number);
    }
    return rc ? rc : token_next(parser);
}

/* A word that is no variable has to be a value of the variable on the other side. */
static int guess_check(struct parser *parser, const struct expr *guess, const struct expr *other)
{
    struct graph_file *file = parser->file;
    if (!guess->is_guessed)
        return 0;
    struct str word = str_of(arena_text(&file->arena, value_text(file, guess->value)));
    if (other->op != OP_COORD)
        return file_fail(
            file, parser->node,
            "'%.64s' is no variable%s; a text that is compared with another stands in quotes",
            word.at, var_like(file, word));
    const struct coord *coord = &parser->stage->coords[other->coord];
    if (list_find(file, &coord->list, guess->value) != NONE ||
        (coord->known && list_find(file, coord->known, guess->value) != NONE))
        return 0;
    return file_fail(file, parser->node, "'%.64s' is no value of '%s'%s", word.at, coord->name.at,
                     list_like(file, &coord->list, word));
}

/* Only numbers have an order. */
static int number_check(struct parser *parser, const struct expr *operand)
{
    struct graph_file *file = parser->file;
    const struct coord *coord =
        operand->op == OP_COORD ? &parser->stage->coords[operand->coord] : NULL;
    uint32_t n = coord ? coord->list.len : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = coord ? coord->list.at[i] : operand->value;
        if (isnan(file->values[value].number))
            return file_fail(file, parser->node, "in '%.100s': '%.64s' is no number",
                             parser->node->text.at,
                             arena_text(&file->arena, value_text(file, value)));
    }
    return 0;
}

/* ---- conditions ---- */

static int or_parse(struct parser *parser, struct expr **out);

static int in_parse(struct parser *parser, struct expr *operand, bool is_not, struct expr **out)
{
    struct expr *in = expr_new(parser, OP_IN, operand, NULL), **last = &in->b;
    int rc = token_next(parser);
    if (rc == 0 && !is_token(parser, "["))
        rc = unexpected(parser, "a list, [a, b]");
    do {
        if (rc == 0)
            rc = token_next(parser);
        if (rc == 0)
            rc = operand_parse(parser, last);
        if (rc == 0)
            rc = guess_check(parser, *last, operand);
        if (rc)
            return rc;
        last = &(*last)->next;
    } while (is_token(parser, ","));
    *out = is_not ? expr_new(parser, OP_NOT, in, NULL) : in;
    return expect(parser, "]", "] or ,");
}

static int comparison_parse(struct parser *parser, struct expr **out)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    struct expr *left = NULL, *right = NULL;
    int rc = operand_parse(parser, &left);
    if (rc)
        return rc;
    bool is_not = is_token(parser, "not");
    if (is_not)
        rc = token_next(parser);
    if (rc == 0 && is_token(parser, "in"))
        return in_parse(parser, left, is_not, out);
    size_t sign = 0;
    while (sign < countof(signs) && !is_token(parser, signs[sign]))
        sign++;
    if (rc || is_not || sign == countof(signs))
        return rc ? rc : unexpected(parser, is_not ? "`in`" : "==, !=, <, <=, >, >= or `in`");
    rc = token_next(parser);
    if (rc == 0)
        rc = operand_parse(parser, &right);
    if (rc == 0)
        rc = guess_check(parser, left, right);
    if (rc == 0)
        rc = guess_check(parser, right, left);
    if (rc == 0 && sign >= 2)
        rc = number_check(parser, left);
    if (rc == 0 && sign >= 2)
        rc = number_check(parser, right);
    *out = expr_new(parser, (enum op)(OP_EQUAL + sign), left, right);
    return rc;
}

/* NOLINTBEGIN(misc-no-recursion): EXPR_DEPTH_MAX deep; what is long, EXPR_BYTES_MAX */
static int not_parse(struct parser *parser, struct expr **out)
{
    int rc;
    if (parser->depth >= EXPR_DEPTH_MAX)
        return file_fail(parser->file, parser->node, "the condition is more than %d deep",
                         EXPR_DEPTH_MAX);
    parser->depth++;
    if (is_token(parser, "not")) {
        rc = token_next(parser);
        if (rc == 0)
            rc = not_parse(parser, out);
        *out = expr_new(parser, OP_NOT, *out, NULL);
    } else if (is_token(parser, "(")) {
        rc = token_next(parser);
        if (rc == 0)
            rc = or_parse(parser, out);
        if (rc == 0)
            rc = expect(parser, ")", ")");
    } else if (is_token(parser, "true") || is_token(parser, "false")) {
        *out = expr_new(parser, OP_CONSTANT, NULL, NULL);
        (*out)->number = is_token(parser, "true");
        rc = token_next(parser);
    } else {
        rc = comparison_parse(parser, out);
    }
    parser->depth--;
    return rc;
}

static int and_parse(struct parser *parser, struct expr **out)
{
    struct expr *right = NULL;
    int rc = not_parse(parser, out);
    while (rc == 0 && is_token(parser, "and")) {
        rc = token_next(parser);
        if (rc == 0)
            rc = not_parse(parser, &right);
        *out = expr_new(parser, OP_AND, *out, right);
    }
    return rc;
}

static int or_parse(struct parser *parser, struct expr **out)
{
    struct expr *right = NULL;
    int rc = and_parse(parser, out);
    while (rc == 0 && is_token(parser, "or")) {
        rc = token_next(parser);
        if (rc == 0)
            rc = and_parse(parser, &right);
        *out = expr_new(parser, OP_OR, *out, right);
    }
    return rc;
}

/* ---- numbers ---- */

static int sum_parse(struct parser *parser, struct expr **out);

static int factor_parse(struct parser *parser, struct expr **out)
{
    int rc;
    if (parser->depth >= EXPR_DEPTH_MAX)
        return file_fail(parser->file, parser->node, "the expression is more than %d deep",
                         EXPR_DEPTH_MAX);
    parser->depth++;
    if (is_token(parser, "-")) {
        struct expr *zero = expr_new(parser, OP_VALUE, NULL, NULL);
        rc = token_next(parser);
        if (rc == 0)
            rc = factor_parse(parser, out);
        *out = expr_new(parser, OP_SUBTRACT, zero, *out);
    } else if (is_token(parser, "(")) {
        rc = token_next(parser);
        if (rc == 0)
            rc = sum_parse(parser, out);
        if (rc == 0)
            rc = expect(parser, ")", ")");
    } else {
        struct str word = parser->token;
        rc = operand_parse(parser, out);
        if (rc == 0 && (*out)->is_guessed)
            rc = file_fail(parser->file, parser->node, "'%.*s' is no variable%s",
                           (int)MIN(word.len, 64ul), word.at, var_like(parser->file, word));
        if (rc == 0)
            rc = number_check(parser, *out);
    }
    parser->depth--;
    return rc;
}

static int product_parse(struct parser *parser, struct expr **out)
{
    struct expr *right = NULL;
    int rc = factor_parse(parser, out);
    while (rc == 0 && is_token(parser, "*")) {
        rc = token_next(parser);
        if (rc == 0)
            rc = factor_parse(parser, &right);
        *out = expr_new(parser, OP_MULTIPLY, *out, right);
    }
    return rc;
}

static int sum_parse(struct parser *parser, struct expr **out)
{
    struct expr *right = NULL;
    int rc = product_parse(parser, out);
    while (rc == 0 && (is_token(parser, "+") || is_token(parser, "-"))) {
        enum op op = is_token(parser, "+") ? OP_ADD : OP_SUBTRACT;
        rc = token_next(parser);
        if (rc == 0)
            rc = product_parse(parser, &right);
        *out = expr_new(parser, op, *out, right);
    }
    return rc;
}

/* NOLINTEND(misc-no-recursion) */

/* ---- the whole ---- */

static int compile(struct graph_file *file, const struct file_stage *stage,
                   const struct yaml_node *node, bool is_number, struct expr **out)
{
    struct parser parser = {
        .file = file, .stage = stage, .node = node, .rest = node->text, .is_number = is_number};
    *out = NULL;
    if (node->kind != YAML_SCALAR || yaml_is_empty(node))
        return file_fail(file, node, "expected %s, found %s",
                         is_number ? "a number, or an expression such as -10 * round"
                                   : "a condition such as round > 1",
                         yaml_kind_name(node));
    /* What is deep on the left side is evaluated by recursion, too. */
    if (node->text.len > EXPR_BYTES_MAX)
        return file_fail(file, node, "the expression is longer than %d bytes", EXPR_BYTES_MAX);
    int rc = token_next(&parser);
    if (rc == 0)
        rc = is_number ? sum_parse(&parser, out) : or_parse(&parser, out);
    if (rc == 0 && (parser.token.len > 0 || parser.quote))
        rc = unexpected(&parser, is_number ? "+, -, * or the end" : "`and`, `or` or the end");
    return rc;
}

int condition_compile(struct graph_file *file, const struct file_stage *stage,
                      const struct yaml_node *node, struct expr **out)
{
    return compile(file, stage, node, false, out);
}

int number_compile(struct graph_file *file, const struct file_stage *stage,
                   const struct yaml_node *node, struct expr **out)
{
    return compile(file, stage, node, true, out);
}

static uint32_t value_of(const struct file_stage *stage, const struct expr *expr,
                         const uint32_t *row)
{
    return expr->op == OP_COORD ? stage->coords[expr->coord].list.at[row[expr->coord]]
                                : expr->value;
}

/* NOLINTBEGIN(misc-no-recursion): EXPR_BYTES_MAX, since each of its operators takes one */
double number_of(const struct graph_file *file, const struct file_stage *stage,
                 const struct expr *expr, const uint32_t *row)
{
    switch ((int)expr->op) {
    case OP_ADD:
        return number_of(file, stage, expr->a, row) + number_of(file, stage, expr->b, row);
    case OP_SUBTRACT:
        return number_of(file, stage, expr->a, row) - number_of(file, stage, expr->b, row);
    case OP_MULTIPLY:
        return number_of(file, stage, expr->a, row) * number_of(file, stage, expr->b, row);
    case OP_COORD:
        return file->values[value_of(stage, expr, row)].number;
    default:
        return expr->number;
    }
}

bool condition_holds(const struct graph_file *file, const struct file_stage *stage,
                     const struct expr *expr, const uint32_t *row)
{
    double a = 0, b = 0;
    uint32_t left = 0;
    if (expr->op >= OP_EQUAL) {
        left = value_same(file, value_of(stage, expr->a, row));
        a = file->values[left].number;
        b = expr->b->op == OP_COORD ? number_of(file, stage, expr->b, row) : expr->b->number;
    }
    switch ((int)expr->op) {
    case OP_OR:
        return condition_holds(file, stage, expr->a, row) ||
               condition_holds(file, stage, expr->b, row);
    case OP_AND:
        return condition_holds(file, stage, expr->a, row) &&
               condition_holds(file, stage, expr->b, row);
    case OP_NOT:
        return !condition_holds(file, stage, expr->a, row);
    case OP_EQUAL:
        return left == value_same(file, value_of(stage, expr->b, row));
    case OP_UNEQUAL:
        return left != value_same(file, value_of(stage, expr->b, row));
    case OP_LESS:
        return a < b;
    case OP_LESS_EQUAL:
        return a <= b;
    case OP_MORE:
        return a > b;
    case OP_MORE_EQUAL:
        return a >= b;
    case OP_IN:
        for (const struct expr *one = expr->b; one; one = one->next)
            if (left == value_same(file, value_of(stage, one, row)))
                return true;
        return false;
    default:
        return expr->number != 0;
    }
}
/* NOLINTEND(misc-no-recursion) */
