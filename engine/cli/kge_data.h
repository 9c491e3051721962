/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that the verbs read (dictionaries, triples, labels), and the options that name them.
 */
#pragma once

#include "graph/known.h"
#include "graph/labels.h"
#include "graph/names.h"
#include "graph/triples.h"
#include "opt/say.h"

struct kge_files {
    const char *train, *test, *valid;
    const char *entity_to_id, *relation_to_id; /* NULL: names are numbered as they are first seen
                                                * in `train` */
    const char *edge_map, *node_name_dict;
    bool is_lenient;
};

/* Rows of an option table, for a request with a member `struct kge_files files`. */
#define KGE_FILES_OPTS(request)                                                                    \
    {.kind = OPT_PATH,                                                                             \
     .name = "train",                                                                              \
     .arg = "FILE",                                                                                \
     .help = "training triples: lines of head, relation and tail, separated by tabs",              \
     .offset = offsetof(request, files.train)},                                                    \
        {.kind = OPT_PATH,                                                                         \
         .name = "test",                                                                           \
         .arg = "FILE",                                                                            \
         .help = "test triples, in the same form",                                                 \
         .offset = offsetof(request, files.test)},                                                 \
        {.kind = OPT_PATH,                                                                         \
         .name = "entity-to-id",                                                                   \
         .arg = "FILE",                                                                            \
         .help = "dictionary of entities, lines of name and index (default: numbered as they are " \
                 "first seen in --train)",                                                         \
         .offset = offsetof(request, files.entity_to_id)},                                         \
        {.kind = OPT_PATH,                                                                         \
         .name = "relation-to-id",                                                                 \
         .arg = "FILE",                                                                            \
         .help = "dictionary of relations, in the same form",                                      \
         .offset = offsetof(request, files.relation_to_id)},                                       \
    {                                                                                              \
        .kind = OPT_FLAG, .name = "lenient",                                                       \
        .help = "leave out lines without three fields or with unknown names, counted, instead of " \
                "refusing the file",                                                               \
        .offset = offsetof(request, files.is_lenient)                                              \
    }

#define KGE_VALID_OPT(request, text)                                    \
    {                                                                   \
        .kind = OPT_PATH, .name = "valid", .arg = "FILE", .help = text, \
        .offset = offsetof(request, files.valid)                        \
    }

#define KGE_LABELS_OPTS(request)                                                   \
    {.kind = OPT_PATH,                                                             \
     .name = "node-name-dict",                                                     \
     .arg = "FILE",                                                                \
     .help = "readable names of entities, lines of name and index",                \
     .offset = offsetof(request, files.node_name_dict)},                           \
        {.kind = OPT_ALIAS, .name = "entity-labels", .same_as = "node-name-dict"}, \
        {.kind = OPT_PATH,                                                         \
         .name = "edge-map",                                                       \
         .arg = "FILE",                                                            \
         .help = "edge_map.json: readable names of relations",                     \
         .offset = offsetof(request, files.edge_map)},                             \
    {                                                                              \
        .kind = OPT_ALIAS, .name = "relation-labels", .same_as = "edge-map"        \
    }

struct kge_data {
    struct name_index entities, relations;
    struct triples train, test, valid;
    struct labels entity_labels, relation_labels;
};

void kge_data_release(struct kge_data *data);
/* Reads all files that are named; prints notes about them on stderr. ERR_USAGE without --train. */
MUST_CHECK int kge_data_read(struct kge_data *data, const struct kge_files *files,
                             const struct app *app, struct err *err);
/*
 * ERR_USAGE if the result would replace a file that the command reads, which even --force does not
 * permit. output NULL: there is no result, and no error.
 */
MUST_CHECK int kge_output_check(const char *output, const struct kge_files *files,
                                const struct texts *models, struct err *err);
/* Reads the file of test triples alone, with the dictionaries that `data` holds already. */
MUST_CHECK int kge_test_read(struct kge_data *data, const char *path, bool is_lenient,
                             const struct app *app, struct err *err);
/* Collects the triples that count as true: those of training, validation and test. */
void kge_known_build(struct known *known, const struct kge_data *data);

/* The name of an entity or a relation in the files of triples. */
struct str kge_entity(const struct kge_data *data, uint32_t index);
struct str kge_relation(const struct kge_data *data, uint32_t index);
/* Adds a line `head<TAB>relation<TAB>tail`. */
void kge_triple_line(const struct kge_data *data, struct triple triple, struct buf *out);
