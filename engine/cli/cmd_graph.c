/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge graph: counts what is in files of triples, and writes dictionaries for them.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/json_out.h"
#include "cli/kge_data.h"
#include "cli/kge_full.h"
#include "cli/kge_verbs.h"
#include "graph/adjacency.h"
#include "graph/known.h"

struct graph_request {
    struct kge_files files;
    const char *write_dicts;
    bool overwrite, json;
};

/* X(member, "words for people") */
#define FACTS(X)                                                      \
    X(entities, "entities")                                           \
    X(relations, "relations")                                         \
    X(train, "training triples")                                      \
    X(train_repeated, "of them repeat an earlier one")                \
    X(train_loops, "of them lead from an entity to itself")           \
    X(edges, "pairs of entities that a training triple connects")     \
    X(idle, "entities of the dictionary that no training triple has") \
    X(degree_max, "neighbours of the entity that has most")           \
    X(test, "test triples")                                           \
    X(test_known, "of them are training triples too")                 \
    X(test_turned, "of them have a training triple the other way round")

struct facts {
#define X(member, words) uint64_t member;
    FACTS(X)
#undef X
};

static void train_look(struct facts *facts, const struct kge_data *data)
{
    struct adjacency adjacency;
    adjacency_build(&adjacency, data->train.at, data->train.n, data->entities.len);
    facts->edges = adjacency.n_edges;
    for (size_t e = 0; e < adjacency.n_entities; e++) {
        uint64_t degree = adjacency.begins[e + 1] - adjacency.begins[e];
        facts->idle += degree == 0;
        facts->degree_max = MAX(facts->degree_max, degree);
    }
    for (size_t i = 0; i < data->train.n; i++)
        facts->train_loops += data->train.at[i].head == data->train.at[i].tail;
    adjacency_release(&adjacency);
}

/* True if a training triple of any relation leads from the test triple's tail to its head. */
static bool is_turned(const struct known *known, struct triple test, size_t n_relations)
{
    for (uint32_t r = 0; r < n_relations; r++)
        if (known_has(known, (struct triple){test.tail, r, test.head}))
            return true;
    return false;
}

static struct facts facts_of(const struct kge_data *data)
{
    struct facts facts = {.entities = data->entities.len,
                          .relations = data->relations.len,
                          .train = data->train.n,
                          .test = data->test.n};
    struct known known;
    known_build(&known, data->train.at, data->train.n);
    facts.train_repeated = data->train.n - known.n;
    train_look(&facts, data);
    for (size_t i = 0; i < data->test.n; i++) {
        facts.test_known += known_has(&known, data->test.at[i]);
        facts.test_turned += is_turned(&known, data->test.at[i], data->relations.len);
    }
    known_release(&known);
    return facts;
}

static void facts_add(struct buf *out, const struct facts *facts, bool is_json)
{
    struct json_out json = {.to = out};
    if (is_json) {
        json_out_open(&json, '{');
#define X(member, words) json_out_u64(&json, #member, facts->member);
        FACTS(X)
#undef X
        json_out_close(&json, '}');
        buf_add_char(out, '\n');
        return;
    }
#define X(member, words) buf_addf(out, "%12lu  %s\n", (unsigned long)facts->member, words);
    FACTS(X)
#undef X
}

static int dicts_write(const struct graph_request *ask, const struct kge_data *data,
                       struct err *err)
{
    cleanup_free char *nodes = path_join(ask->write_dicts, "node_dict.txt");
    cleanup_free char *relations = path_join(ask->write_dicts, "rel_dict.txt");
    int rc = mkdir_parents(ask->write_dicts, 0777, err);
    if (rc == 0)
        rc = names_write(&data->entities, nodes, ask->overwrite, err);
    return rc ? rc : names_write(&data->relations, relations, ask->overwrite, err);
}

static int graph_run(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    (void)command;
    struct graph_request *ask = request;
    struct kge_data data = {0};
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    int rc = kge_data_read(&data, &ask->files, app, err);
    if (rc == 0 && ask->write_dicts)
        rc = dicts_write(ask, &data, err);
    if (rc == 0) {
        cleanup_buf struct buf text = BUF_INIT;
        const struct facts facts = facts_of(&data);
        facts_add(&text, &facts, ask->json);
        rc = stdout_put(buf_str(&text), err);
    }
    kge_data_release(&data);
    return kge_full_say(rc, ask->write_dicts ? KGE_FULL_FORCE : KGE_FULL_AGAIN, err);
}

#define FIELD(member) offsetof(struct graph_request, member)

static const struct opt graph_opts[] = {
    KGE_FILES_OPTS(struct graph_request),
    KGE_LABELS_OPTS(struct graph_request),
    {OPT_PATH, 0, "write-dicts", "DIR",
     "write node_dict.txt and rel_dict.txt, in the order of the indices", FIELD(write_dicts)},
    {OPT_FLAG, 0, "force", NULL, "replace the files if they exist", FIELD(overwrite)},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object", FIELD(json)},
    {.kind = OPT_END},
};

static const char *const graph_examples[] = {
    "muster kge graph --train train.txt --test test.txt --write-dicts dicts",
    "look at the triples, and number their names",
    NULL,
};

const struct cmd cmd_kge_graph = {
    .name = "graph",
    .family = "kge",
    .args = "[OPTION]... --train FILE",
    .summary = "look at files of triples, and make dictionaries",
    .opts = graph_opts,
    .examples = graph_examples,
    .request_size = sizeof(struct graph_request),
    .run = graph_run,
};
