/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of file.h share. All of it is in the file's arena, and is gone when the plan is made.
 */
#pragma once

#include <math.h>

#include "base/name_index.h"
#include "graph/file/file.h"
#include "graph/file/yaml.h"

#define NONE UINT32_MAX

enum {
    COORDS_MAX = 32, /* of a stage */
    CANDIDATES_FACTOR =
        16, /* combinations for each job, which exclude, only and when may leave out */
    EDGES_FACTOR = PLAN_EDGES_MAX / PLAN_JOBS_MAX,
    NAME_MAX_BYTES = 64, /* of a stage or variable */
    TEXT_MAX_BYTES =
        128 * 1024, /* of a text whose variables are filled in; Linux takes no longer arguments */
    NESTED_MAX = 64,
    STAGE_TEXTS_MAX_MIB =
        16, /* of one job, if each of its settings had the longest text that it can have */
    TEXTS_MAX_GIB = 2 /* of all jobs */
};

/* ---- values ---- */

/* What a variable can be. Equal texts of one sort have one number; quoted ones are never numbers. */
struct value {
    double number; /* NAN: a text */
    uint32_t
        same; /* the first value that compares as equal: 1 and 1.0 are different texts of one number */
};

struct list {
    const struct yaml_node *node; /* where it is written */
    uint32_t *at;                 /* numbers of values */
    uint32_t len;
    uint32_t *slots; /* a hash table over `same`: 0, or a position + 1 */
    uint32_t n_slots;
    bool is_text; /* one value, and no list */
    bool
        is_counter; /* a range, or a whole number by itself: its values have a letter in names of jobs */
};

enum var_state {
    VAR_NEW,
    VAR_BUSY, /* is being evaluated: a reference to it now is a circle */
    VAR_DONE
};

struct var {
    struct str name;
    const struct yaml_node *node; /* its value, perhaps that of an override */
    const struct yaml_node
        *declared; /* what the file says, if that was overridden: its values are known ones */
    struct list list, declared_list;
    enum var_state state;
};

/* ---- stages ---- */

/* A variable of a stage. */
struct coord {
    struct str name;
    struct list list;         /* of the variable, or the stage's own; `include` may add to it */
    const struct list *known; /* other values that may be written; NULL: none */
    size_t longest;           /* bytes of its longest value */
    uint32_t n_base;          /* values without those that `include` added */
    uint32_t axis;            /* coordinates of one axis advance together */
    bool has_letter;          /* "r1" in names instead of "round=1" */
};

struct file_stage {
    struct str name;
    const struct yaml_node *key, *node; /* its name and its mapping */
    struct coord *coords;
    uint32_t n_coords;
    uint32_t n_axes;
    uint32_t axis_len[COORDS_MAX];
    /* Row r, of n_coords positions in the coordinates' lists, is the job `first` + r in the order of the file. */
    uint32_t *rows;
    uint32_t n_rows, first;
    uint64_t n_candidates;
    struct stage_setting **needs; /* leaves: struct need */
    uint32_t n_needs;
    struct job_def *def;
};

struct graph_file {
    const char *path;
    char *cwd; /* where muster was started; NULL: not asked for yet */
    struct arena arena;
    struct plan *plan;
    struct err *err;
    struct graph_file_opts opts;
    const struct yaml_node *root, *defaults;
    struct name_index var_names;
    struct var *vars;              /* [var_names.len] */
    struct name_index value_texts; /* '#' before plain ones, '$' before quoted ones */
    struct value *values;
    size_t values_cap;
    struct name_index stage_names;
    struct file_stage *stages; /* [stage_names.len] */
    uint32_t n_jobs, n_jobs_max;
    uint64_t n_candidates; /* of all stages */
    /* The needs of job j, in the order of the file, are edges[edges_begin[j]] … */
    uint64_t *edges_begin;
    uint32_t *edges;
    size_t n_edges, edges_cap;
    uint32_t n_nested;    /* variables that refer to each other and are being evaluated */
    uint64_t stage_bytes; /* of the stage that is compiled: see STAGE_TEXTS_MAX_MIB */
    uint64_t text_bytes;  /* of the jobs' texts */
    uint32_t *order;      /* jobs, such that each comes after those that it needs */
    uint32_t *place;      /* of a job in order */
    uint32_t *needs;      /* the rest of the plan's array of all needs */
    struct buf scratch;
};

/* ERR_USAGE, as yaml_fail() into the file's error. */
#define file_fail(file, at, ...) yaml_fail((file)->err, at, __VA_ARGS__)

static inline const uint32_t *stage_row(const struct file_stage *stage, uint32_t row)
{
    return stage->rows + (size_t)row * stage->n_coords;
}

/* ---- file_values.c ---- */

uint32_t value_add(struct graph_file *file, struct str text, bool is_plain);
struct str value_text(const struct graph_file *file, uint32_t value);
static inline uint32_t value_same(const struct graph_file *file, uint32_t value)
{
    return file->values[value].same;
}
/* Makes a list of a node: a list, a range, or a text. ERR_USAGE: a value stands twice. */
MUST_CHECK int list_read(struct graph_file *file, const struct yaml_node *node, struct list *out);
/* The position of a value that compares as equal, or NONE. */
uint32_t list_find(const struct graph_file *file, const struct list *list, uint32_t value);
/* Adds a value; its position. The list must not share its memory. */
uint32_t list_add(struct graph_file *file, struct list *list, uint32_t value);
void list_copy(struct graph_file *file, const struct list *from, struct list *to);
/* The value of a list nearest to a text, quoted for a message: " (did you mean 'x'?)"; "" if none is near. */
const char *list_like(struct graph_file *file, const struct list *list, struct str text);

/* ---- file_vars.c ---- */

/* Refuses what cannot be in braces, and what the run fills in. */
MUST_CHECK int var_name_check(struct graph_file *file, const struct yaml_node *node);
MUST_CHECK int vars_read(struct graph_file *file, const struct yaml_node *declared);
/* NULL: there is none. */
struct var *var_find(struct graph_file *file, struct str name);
MUST_CHECK int var_evaluate(struct graph_file *file, struct var *var);
/* "(did you mean 'x'?)" for a variable. */
const char *var_like(struct graph_file *file, struct str name);
/* The length of a word at the beginning: a letter or _, then letters, digits and _. */
size_t word_len(struct str text);
bool is_word(struct str text);
/* The same for one of `n` names; "" if none is near. */
const char *name_like(struct graph_file *file, struct str name, const char *const *names, size_t n);
const char *index_like(struct graph_file *file, struct str name, const struct name_index *names);

/* ---- file_text.c ---- */

enum text_mode {
    TEXT_VALUE,    /* becomes a text as it is: a path, a number, a value */
    TEXT_TEMPLATE, /* an argument or variable of the environment: the run fills in the rest */
    TEXT_WORKER    /* an argument that muster map fills in after that */
};

struct text_piece {
    struct str literal;
    uint32_t coord; /* NONE: the literal */
};

/* A text with {names}; those of variables that are no coordinates are filled in already. */
struct text {
    const struct yaml_node *node;
    enum text_mode mode;
    struct text_piece *pieces;
    uint32_t n_pieces;
    const char *constant; /* the text, in the plan's memory; NULL: it has coordinates */
};

/* Is {word} filled in when a job runs? */
bool is_placeholder(struct str word);
/* `stage` may be NULL: then there are no coordinates. */
MUST_CHECK int text_compile(struct graph_file *file, const struct file_stage *stage,
                            const struct yaml_node *node, struct str text, enum text_mode mode,
                            struct text *out);
/* ERR_USAGE if all texts together are too long. */
MUST_CHECK int texts_check(struct graph_file *file);
/* Adds a text with its braces doubled, if the mode asks for that. */
void text_escape(struct buf *out, struct str text, enum text_mode mode);
void text_render(const struct graph_file *file, const struct file_stage *stage,
                 const struct text *text, const uint32_t *row, struct buf *out);
/* The same in the plan's memory. */
const char *text_make(struct graph_file *file, const struct file_stage *stage,
                      const struct text *text, const uint32_t *row);

/* ---- file_choice.c ---- */

/* A setting that is one for all jobs of a stage, or differs by the values of variables. */
struct stage_setting {
    const struct yaml_node *node;
    void *leaf; /* coord == NONE */
    uint32_t coord;
    struct stage_setting **by_position; /* of the coordinate's value; NULL: not set for it */
};

struct leaf_kind {
    const char *name;     /* of the key, for messages */
    const char *expected; /* "a number" */
    /* Is this mapping, or list, the thing itself? NULL: a mapping never is, a list always. */
    bool (*is_leaf)(struct graph_file *file, const struct file_stage *stage,
                    const struct yaml_node *node);
    int (*compile)(struct graph_file *file, struct file_stage *stage, const struct yaml_node *node,
                   const struct leaf_kind *kind, void **leaf);
    /* Of numbers (file_number.c). */
    int (*parse)(struct str text, uint64_t *out, struct err *err);
};

MUST_CHECK int choice_compile(struct graph_file *file, struct file_stage *stage,
                              const struct yaml_node *node, const struct leaf_kind *kind,
                              struct stage_setting **out);
/* What holds for a row; NULL: nothing is set. `choice` may be NULL. */
void *choice_at(const struct stage_setting *choice, const uint32_t *row);
/* The number of coordinates of which all keys of a mapping are values; *coord is the last of them. */
uint32_t choice_coords(struct graph_file *file, const struct file_stage *stage,
                       const struct yaml_node *mapping, uint32_t *coord);

/* ---- file_expr.c ---- */

struct expr;
/* A condition over coordinates and variables: ==, !=, <, <=, >, >=, in, and, or, not. */
MUST_CHECK int condition_compile(struct graph_file *file, const struct file_stage *stage,
                                 const struct yaml_node *node, struct expr **out);
bool condition_holds(const struct graph_file *file, const struct file_stage *stage,
                     const struct expr *expr, const uint32_t *row);
/* A number from coordinates and variables: + - * and parentheses. */
MUST_CHECK int number_compile(struct graph_file *file, const struct file_stage *stage,
                              const struct yaml_node *node, struct expr **out);
double number_of(const struct graph_file *file, const struct file_stage *stage,
                 const struct expr *expr, const uint32_t *row);

/* ---- file_coords.c, file_match.c, file_rows.c ---- */

/* The coordinates of `for`, before anything is expanded. */
MUST_CHECK int coords_read(struct graph_file *file, struct file_stage *stage);
/* The number of a coordinate, or NONE. */
uint32_t coord_find(const struct file_stage *stage, struct str name);
/* ERR_USAGE: the stage has no coordinate of the name in this node. */
int coord_missing_fail(struct graph_file *file, const struct file_stage *stage,
                       const struct yaml_node *name);
/* "a, b and c", for messages. */
const char *coord_names(struct graph_file *file, const struct file_stage *stage);
/* The values in a node, a text or a list of them, as a true for each position of a coordinate's list. */
MUST_CHECK int positions_read(struct graph_file *file, const struct coord *coord,
                              const struct yaml_node *node, bool **out);
/* ERR_USAGE: a value that is not one of the coordinate's; otherwise its position, or NONE for one that was overridden. */
MUST_CHECK int position_read(struct graph_file *file, const struct coord *coord,
                             const struct yaml_node *node, uint32_t *out);
/* Values of coordinates, as `exclude` and `only` have them. */
struct match;
MUST_CHECK int match_read(struct graph_file *file, const struct file_stage *stage,
                          const struct yaml_node *node, bool is_only, struct match **out);
/* Does one of the mappings fit the row? */
bool match_holds(const struct match *match, const uint32_t *row);
MUST_CHECK int rows_make(struct graph_file *file, struct file_stage *stage);

/* ---- file_needs.c, file_edges.c, file_order.c ---- */

MUST_CHECK int needs_read(struct graph_file *file, struct file_stage *stage);
MUST_CHECK int edges_make(struct graph_file *file);
MUST_CHECK int order_make(struct graph_file *file);
void numbers_sort(uint32_t *at, size_t n);
/* The stage that a job, in the order of the file, belongs to. */
struct file_stage *stage_of_job(const struct graph_file *file, uint32_t job);

/* ---- file_keys.c ---- */

#define JOB_KEYS(X)         \
    X(FOR, "for")           \
    X(MATRIX, "matrix")     \
    X(EXCLUDE, "exclude")   \
    X(INCLUDE, "include")   \
    X(ONLY, "only")         \
    X(WHEN, "when")         \
    X(RUN, "run")           \
    X(SHELL, "shell")       \
    X(MAP, "map")           \
    X(LAUNCH, "launch")     \
    X(MERGE, "merge")       \
    X(NEEDS, "needs")       \
    X(AFTER, "after")       \
    X(GPUS, "gpus")         \
    X(CPUS, "cpus")         \
    X(HOSTS, "hosts")       \
    X(DEVICES, "devices")   \
    X(PRIORITY, "priority") \
    X(RETRIES, "retries")   \
    X(TIMEOUT, "timeout")   \
    X(ENV, "env")           \
    X(CWD, "cwd")           \
    X(BATCH, "batch")       \
    X(IN, "in")             \
    X(OUT, "out")

enum job_key {
#define X(id, name) KEY_##id,
    JOB_KEYS(X)
#undef X
    JOB_KEYS_COUNT
};

const char *job_key_name(enum job_key key);
/* Refuses unknown keys of a mapping, and what is no mapping; `what` is its name, as "a job". */
MUST_CHECK int keys_check(struct graph_file *file, const struct yaml_node *node, const char *what,
                          const char *const *names, size_t n_names);
MUST_CHECK int job_keys_check(struct graph_file *file, const struct yaml_node *node,
                              const char *what);
/* What the stage says, or else `defaults`; NULL: neither. */
const struct yaml_node *stage_key(const struct graph_file *file, const struct file_stage *stage,
                                  enum job_key key);

/* What the stage itself says; what `defaults` say. */
const struct yaml_node *own_key(const struct file_stage *stage, enum job_key key);
const struct yaml_node *default_key(const struct graph_file *file, enum job_key key);

/* ---- file_job.c ---- */

struct job_def;
MUST_CHECK int job_compile(struct graph_file *file, struct file_stage *stage);
void job_def_release(struct job_def *def);
/* Fills in the plan's job at `position` of the order. */
MUST_CHECK int job_make(struct graph_file *file, uint32_t position);

/* ---- file_name.c ---- */

/* Decides which coordinates have a letter in names. */
void letters_give(struct graph_file *file);
/* In the plan's memory. */
const char *job_name_make(struct graph_file *file, const struct file_stage *stage,
                          const uint32_t *row);
