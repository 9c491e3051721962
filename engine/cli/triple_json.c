/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/triple_json.h"

#include "base/json.h"

enum {
    KEY_MAX = 48
};

static const char *const places[] = {"head", "relation", "tail"};

/* Returns "train_head_label" for "train", "head", "_label". */
static const char *key_of(char key[KEY_MAX], const char *prefix, size_t place, const char *suffix)
{
    const char *const pieces[] = {prefix, prefix[0] ? "_" : "", places[place], suffix};
    char *at = key, *end = key + KEY_MAX - 1;
    for (size_t i = 0; i < countof(pieces); i++) {
        size_t len = MIN(strlen(pieces[i]), (size_t)(end - at));
        memcpy(at, pieces[i], len);
        at += len;
    }
    *at = '\0';
    return key;
}

void triple_json_indices(struct json_out *json, const char *prefix, struct triple triple)
{
    const uint32_t indices[] = {triple.head, triple.relation, triple.tail};
    char key[KEY_MAX];
    for (size_t i = 0; i < countof(places); i++)
        json_out_u64(json, key_of(key, prefix, i, ""), indices[i]);
}

/* Returns the readable name, or `label` if there is none. */
static struct str name_or(const struct labels *labels, uint32_t index, struct str label)
{
    struct str name;
    return labels_get(labels, index, &name) ? name : label;
}

void triple_json_labels(struct json_out *json, const char *prefix, const struct kge_data *data,
                        struct triple triple)
{
    const struct str labels[] = {kge_entity(data, triple.head), kge_relation(data, triple.relation),
                                 kge_entity(data, triple.tail)};
    char key[KEY_MAX];
    for (size_t i = 0; i < countof(places); i++)
        json_out_text(json, key_of(key, prefix, i, "_label"), labels[i]);
    if (data->entity_labels.n > 0) {
        json_out_text(json, key_of(key, prefix, 0, "_name"),
                      name_or(&data->entity_labels, triple.head, labels[0]));
        json_out_text(json, key_of(key, prefix, 2, "_name"),
                      name_or(&data->entity_labels, triple.tail, labels[2]));
    }
    if (data->relation_labels.n > 0)
        json_out_text(json, key_of(key, prefix, 1, "_name"),
                      name_or(&data->relation_labels, triple.relation, labels[1]));
}

void triple_json_names(struct json_out *json, const char *key, const struct kge_data *data,
                       struct triple triple)
{
    const struct str names[] = {kge_entity(data, triple.head), kge_relation(data, triple.relation),
                                kge_entity(data, triple.tail)};
    json_out_key(json, key);
    json_out_open(json, '[');
    for (size_t i = 0; i < countof(names); i++) {
        json_out_element(json);
        buf_add_json(json->to, names[i]);
    }
    json_out_close(json, ']');
}

void triple_json_ids(struct json_out *json, const char *key, struct triple triple)
{
    const uint32_t ids[] = {triple.head, triple.relation, triple.tail};
    json_out_key(json, key);
    json_out_open(json, '[');
    for (size_t i = 0; i < countof(ids); i++) {
        json_out_element(json);
        buf_addf(json->to, "%u", ids[i]);
    }
    json_out_close(json, ']');
}
