/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/influence_out.h"

#include "base/json.h"
#include "cli/triple_json.h"
#include "data/csv.h"

/* ---- JSON ---- */

/* Adds top_k: a number, or null for all. */
static void top_k_add(struct influence_out *out)
{
    json_out_key(&out->json, "top_k");
    if (out->scene->top_k > 0)
        buf_addf(out->json.to, "%zu", out->scene->top_k);
    else
        buf_add_text(out->json.to, "null");
}

/* Adds learning_rate: a number, or an array if there are several. */
static void learning_rate_add(struct influence_out *out)
{
    const struct influence_scene *scene = out->scene;
    if (scene->n_learning_rates == 1) {
        json_out_double(&out->json, "learning_rate", scene->learning_rates[0]);
        return;
    }
    json_out_key(&out->json, "learning_rate");
    json_out_open(&out->json, '[');
    for (size_t i = 0; i < scene->n_learning_rates; i++) {
        json_out_element(&out->json);
        buf_add_json_double(out->json.to, scene->learning_rates[i]);
    }
    json_out_close(&out->json, ']');
}

static int influences_add(struct influence_out *out, const char *key,
                          const struct influence_result *result, bool is_labelled, struct err *err)
{
    const struct kge_data *data = out->scene->data;
    struct json_out *json = &out->json;
    int rc = 0;
    json_out_key(json, key);
    json_out_open(json, '[');
    for (size_t i = 0; rc == 0 && i < result->n; i++) {
        struct triple train = data->train.at[result->at[i].train_index];
        json_out_element(json);
        json_out_open(json, '{');
        triple_json_indices(json, "train", train);
        json_out_double(json, "influence", result->at[i].value);
        if (is_labelled)
            triple_json_labels(json, "train", data, train);
        json_out_close(json, '}');
        rc = outfile_pump(&out->file, err);
    }
    json_out_close(json, ']');
    return rc;
}

static void test_begin(struct influence_out *out)
{
    struct json_out *json = &out->json;
    json_out_open(json, '{');
    json_out_u64(json, "num_test_triples", out->scene->n_tests);
    json_out_u64(json, "num_training_triples", out->scene->data->train.n);
    top_k_add(out);
    learning_rate_add(out);
    json_out_key(json, "results");
    json_out_open(json, '[');
}

static int test_add(struct influence_out *out, const struct influence_result *result,
                    struct err *err)
{
    json_out_element(&out->json);
    json_out_open(&out->json, '{');
    triple_json_indices(&out->json, "test", result->test);
    int rc = influences_add(out, "top_influences", result, false, err);
    json_out_close(&out->json, '}');
    return rc;
}

static void test_end(struct influence_out *out)
{
    json_out_close(&out->json, ']');
    json_out_close(&out->json, '}');
    buf_add_char(out->json.to, '\n');
}

static void single_begin(struct influence_out *out)
{
    json_out_open(&out->json, '[');
}

static int single_add(struct influence_out *out, const struct influence_result *result,
                      struct err *err)
{
    struct json_out *json = &out->json;
    json_out_element(json);
    json_out_open(json, '{');
    triple_json_ids(json, "test_triple", result->test);
    json_out_u64(json, "test_triple_index", result->test_index);
    triple_json_indices(json, "test", result->test);
    json_out_double(json, "self_influence", result->self_influence);
    triple_json_labels(json, "test", out->scene->data, result->test);
    int rc = influences_add(out, "influences", result, true, err);
    json_out_close(json, '}');
    return rc;
}

static void single_end(struct influence_out *out)
{
    json_out_close(&out->json, ']');
    buf_add_char(out->json.to, '\n');
}

static int lone_add(struct influence_out *out, const struct influence_result *result,
                    struct err *err)
{
    struct json_out *json = &out->json;
    json_out_open(json, '{');
    json_out_key(json, "test_triple");
    json_out_open(json, '{');
    triple_json_indices(json, "", result->test);
    json_out_close(json, '}');
    top_k_add(out);
    learning_rate_add(out);
    int rc = influences_add(out, "influences", result, false, err);
    json_out_close(json, '}');
    buf_add_char(json->to, '\n');
    return rc;
}

static void nothing(struct influence_out *out)
{
    (void)out;
}

static int per_triple_add(struct influence_out *out, const struct influence_result *result,
                          struct err *err)
{
    struct json_out *json = &out->json;
    json_out_open(json, '{');
    json_out_u64(json, "test_index", result->test_index);
    triple_json_indices(json, "test", result->test);
    triple_json_labels(json, "test", out->scene->data, result->test);
    json_out_double(json, "self_influence", result->self_influence);
    int rc = influences_add(out, "top_influences", result, true, err);
    top_k_add(out);
    learning_rate_add(out);
    json_out_close(json, '}');
    buf_add_char(json->to, '\n');
    return rc;
}

/* ---- CSV ---- */

static const char csv_header[] =
    "TestHead,TestHead_label,TestRel,TestRel_label,TestTail,TestTail_label,"
    "TrainHead,TrainHead_label,TrainRel,TrainRel_label,TrainTail,TrainTail_label,"
    "TracInScore,SelfInfluence\r\n";

static void csv_begin(struct influence_out *out)
{
    buf_add_text(&out->file.pending, csv_header);
}

static void csv_entity_add(struct buf *row, const struct kge_data *data, uint32_t index)
{
    struct str name = kge_entity(data, index), label;
    csv_add_field(row, name, ',');
    buf_add_char(row, ',');
    csv_add_field(row, labels_get(&data->entity_labels, index, &label) ? label : name, ',');
    buf_add_char(row, ',');
}

/* If a relation has no label, and its name is itself JSON with a predicate, that is its label. */
static void csv_relation_add(struct buf *row, const struct kge_data *data, uint32_t index)
{
    struct str name = kge_relation(data, index), label;
    cleanup_buf struct buf predicate = BUF_INIT;
    csv_add_field(row, name, ',');
    buf_add_char(row, ',');
    if (!labels_get(&data->relation_labels, index, &label))
        label = predicate_of(name, &predicate) ? buf_str(&predicate) : name;
    csv_add_field(row, label, ',');
    buf_add_char(row, ',');
}

static void csv_triple_add(struct buf *row, const struct kge_data *data, struct triple triple)
{
    csv_entity_add(row, data, triple.head);
    csv_relation_add(row, data, triple.relation);
    csv_entity_add(row, data, triple.tail);
}

static int csv_add(struct influence_out *out, const struct influence_result *result,
                   struct err *err)
{
    const struct kge_data *data = out->scene->data;
    struct buf *pending = &out->file.pending;
    int rc = 0;
    buf_reset(&out->scratch);
    csv_triple_add(&out->scratch, data, result->test);
    for (size_t i = 0; rc == 0 && i < result->n; i++) {
        buf_add_str(pending, buf_str(&out->scratch));
        csv_triple_add(pending, data, data->train.at[result->at[i].train_index]);
        buf_add_json_double(pending, result->at[i].value);
        buf_add_char(pending, ',');
        buf_add_json_double(pending, result->self_influence);
        buf_add_text(pending, "\r\n");
        rc = outfile_pump(&out->file, err);
    }
    return rc;
}

/* ---- JSON lines ---- */

static int jsonl_add(struct influence_out *out, const struct influence_result *result,
                     struct err *err)
{
    const struct kge_data *data = out->scene->data;
    struct json_out json = {.to = out->json.to};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < result->n; i++) {
        uint32_t index = result->at[i].train_index;
        json_out_open(&json, '{');
        json_out_u64(&json, "test_index", result->test_index);
        triple_json_names(&json, "test", data, result->test);
        triple_json_ids(&json, "test_ids", result->test);
        json_out_double(&json, "self_influence", result->self_influence);
        json_out_u64(&json, "rank", i + 1);
        json_out_u64(&json, "train_index", index);
        triple_json_names(&json, "train", data, data->train.at[index]);
        json_out_double(&json, "influence", result->at[i].value);
        json_out_close(&json, '}');
        buf_add_char(json.to, '\n');
        rc = outfile_pump(&out->file, err);
    }
    return rc;
}

/* ---- all of them ---- */

static const struct {
    void (*begin)(struct influence_out *out);
    int (*add)(struct influence_out *out, const struct influence_result *result, struct err *err);
    void (*end)(struct influence_out *out);
} forms[] = {
    [INFLUENCES_TEST] = {test_begin, test_add, test_end},
    [INFLUENCES_SINGLE] = {single_begin, single_add, single_end},
    [INFLUENCES_LONE] = {nothing, lone_add, nothing},
    [INFLUENCES_PER_TRIPLE] = {nothing, per_triple_add, nothing},
    [INFLUENCES_CSV] = {csv_begin, csv_add, nothing},
    [INFLUENCES_JSONL] = {nothing, jsonl_add, nothing},
};

int influence_out_open(struct influence_out *out, const char *path, enum influence_form form,
                       bool overwrite, const struct influence_scene *scene, struct err *err)
{
    *out = (struct influence_out){.form = form, .scene = scene};
    int rc = outfile_open(&out->file, path, overwrite, err);
    out->json = (struct json_out){.to = &out->file.pending, .is_indented = true};
    if (rc == 0)
        forms[form].begin(out);
    return rc;
}

int influence_out_add(struct influence_out *out, const struct influence_result *result,
                      struct err *err)
{
    return forms[out->form].add(out, result, err);
}

int influence_out_commit(struct influence_out *out, struct err *err)
{
    forms[out->form].end(out);
    return outfile_commit(&out->file, err);
}

void influence_out_close(struct influence_out *out)
{
    outfile_close(&out->file);
    buf_release(&out->scratch);
}
