/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kge_data.h"

#include <sys/stat.h>

#include "base/console_text.h"

void kge_data_release(struct kge_data *data)
{
    name_index_release(&data->entities);
    name_index_release(&data->relations);
    triples_release(&data->train);
    triples_release(&data->test);
    triples_release(&data->valid);
    labels_release(&data->entity_labels);
    labels_release(&data->relation_labels);
}

struct str kge_entity(const struct kge_data *data, uint32_t index)
{
    return name_index_get(&data->entities, index);
}

struct str kge_relation(const struct kge_data *data, uint32_t index)
{
    return name_index_get(&data->relations, index);
}

void kge_triple_line(const struct kge_data *data, struct triple triple, struct buf *out)
{
    buf_add_str(out, kge_entity(data, triple.head));
    buf_add_char(out, '\t');
    buf_add_str(out, kge_relation(data, triple.relation));
    buf_add_char(out, '\t');
    buf_add_str(out, kge_entity(data, triple.tail));
    buf_add_char(out, '\n');
}

/* Prints what the user should know about a file, one line for each kind. */
static void flaws_say(const struct app *app, const struct flaws *flaws, const char *path)
{
    cleanup_buf struct buf notes = BUF_INIT, clean = BUF_INIT;
    struct str line;
    flaws_format(flaws, path, &notes);
    struct str rest = buf_str(&notes);
    while (str_next(&rest, '\n', &line) && line.len > 0) {
        buf_reset(&clean);
        console_text_add(&clean, line, false);
        say(app, "%s", buf_text(&clean));
    }
}

static int dictionary_read(struct name_index *names, const char *path,
                           const struct kge_files *files, const struct app *app, struct err *err)
{
    struct flaws flaws = {0};
    int rc = names_read(names, path, files->is_lenient, &flaws, err);
    if (rc == 0)
        flaws_say(app, &flaws, path);
    return rc;
}

static int file_read_triples(struct kge_data *data, struct triples *triples, const char *path,
                             bool makes_names, bool is_lenient, const struct app *app,
                             struct err *err)
{
    struct flaws flaws = {0};
    const struct triples_opts opts = {.entities = &data->entities,
                                      .relations = &data->relations,
                                      .makes_names = makes_names,
                                      .is_lenient = is_lenient};
    int rc = triples_read(triples, path, &opts, &flaws, err);
    if (rc == 0)
        flaws_say(app, &flaws, path);
    return rc;
}

static int labels_read(struct kge_data *data, const struct kge_files *files, const struct app *app,
                       struct err *err)
{
    int rc = 0;
    if (files->node_name_dict) {
        struct flaws flaws = {0};
        rc = labels_read_names(&data->entity_labels, files->node_name_dict, data->entities.len,
                               files->is_lenient, &flaws, err);
        if (rc == 0)
            flaws_say(app, &flaws, files->node_name_dict);
    }
    if (rc == 0 && files->edge_map) {
        uint64_t n_unknown = 0;
        rc = labels_read_edge_map(&data->relation_labels, files->edge_map, &data->relations,
                                  &n_unknown, err);
        if (rc == 0 && n_unknown > 0)
            say(app,
                "%s: %lu members give no relation of the dictionary a predicate and are not used",
                files->edge_map, (unsigned long)n_unknown);
    }
    return rc;
}

static int files_check(const struct kge_files *files, struct err *err)
{
    if (!files->train)
        return fail(err, ERR_USAGE, "--train is needed: the file of training triples");
    if (!files->entity_to_id != !files->relation_to_id)
        return fail(err, ERR_USAGE,
                    "--entity-to-id and --relation-to-id go together: one without the other leaves "
                    "open how the model numbers its tables");
    return 0;
}

static bool is_file(const struct stat *st, const char *path)
{
    struct stat other;
    return path && stat(path, &other) == 0 && other.st_dev == st->st_dev &&
           other.st_ino == st->st_ino;
}

int kge_output_check(const char *output, const struct kge_files *files, const struct texts *models,
                     struct err *err)
{
    const char *const paths[] = {files->train,         files->test,           files->valid,
                                 files->entity_to_id,  files->relation_to_id, files->edge_map,
                                 files->node_name_dict};
    struct stat st;
    bool is_read = false;
    if (!output || stat(output, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    for (size_t i = 0; i < countof(paths); i++)
        is_read |= is_file(&st, paths[i]);
    for (size_t i = 0; i < models->len; i++)
        is_read |= is_file(&st, models->at[i]);
    return is_read ? fail(err, ERR_USAGE,
                          "%s is read by this command, and its result would replace it: name "
                          "another file",
                          output)
                   : 0;
}

int kge_test_read(struct kge_data *data, const char *path, bool is_lenient, const struct app *app,
                  struct err *err)
{
    return file_read_triples(data, &data->test, path, false, is_lenient, app, err);
}

int kge_data_read(struct kge_data *data, const struct kge_files *files, const struct app *app,
                  struct err *err)
{
    bool makes_names = !files->entity_to_id;
    int rc = files_check(files, err);
    if (rc == 0 && !makes_names)
        rc = dictionary_read(&data->entities, files->entity_to_id, files, app, err);
    if (rc == 0 && !makes_names)
        rc = dictionary_read(&data->relations, files->relation_to_id, files, app, err);
    if (rc == 0 && makes_names)
        say(app, "no dictionaries are given: names are numbered as they are first seen in %s",
            files->train);
    if (rc == 0)
        rc = file_read_triples(data, &data->train, files->train, makes_names, files->is_lenient,
                               app, err);
    if (rc == 0 && files->test)
        rc = kge_test_read(data, files->test, files->is_lenient, app, err);
    if (rc == 0 && files->valid)
        rc =
            file_read_triples(data, &data->valid, files->valid, false, files->is_lenient, app, err);
    return rc ? rc : labels_read(data, files, app, err);
}

void kge_known_build(struct known *known, const struct kge_data *data)
{
    cleanup_triples struct triples all = {0};
    const struct triples *parts[] = {&data->train, &data->valid, &data->test};
    for (size_t part = 0; part < countof(parts); part++)
        for (size_t i = 0; i < parts[part]->n; i++)
            triples_add(&all, parts[part]->at[i]);
    known_build(known, all.at, all.n);
}
