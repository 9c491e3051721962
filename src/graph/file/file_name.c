/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of jobs: "train/phi,MATH,PITA,r1,eta=1.0". They name files of logs, so other characters than letters, digits and
 * ._+=@- are escaped.
 */
#include <xxhash.h>

#include "graph/file/file_impl.h"

/* Is there a counter of another name with the same letter? */
static bool is_letter_shared(const struct graph_file *file, struct str name)
{
    for (size_t i = 0; i < file->var_names.len; i++) {
        const struct var *var = &file->vars[i];
        const struct list *list = var->declared_list.len > 0 ? &var->declared_list : &var->list;
        if (list->is_counter && !list->is_text && var->name.at[0] == name.at[0] &&
            !str_equal(var->name, name))
            return true;
    }
    return false;
}

static bool is_letter_shared_here(const struct file_stage *stage, uint32_t number)
{
    for (uint32_t i = 0; i < stage->n_coords; i++)
        if (i != number && stage->coords[i].list.is_counter &&
            stage->coords[i].name.at[0] == stage->coords[number].name.at[0])
            return true;
    return false;
}

void letters_give(struct graph_file *file)
{
    for (size_t i = 0; i < file->stage_names.len; i++) {
        struct file_stage *stage = &file->stages[i];
        for (uint32_t k = 0; k < stage->n_coords; k++)
            stage->coords[k].has_letter = stage->coords[k].list.is_counter &&
                                          !is_letter_shared(file, stage->coords[k].name) &&
                                          !is_letter_shared_here(stage, k);
    }
}

static bool is_harmless(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._+=@-", c));
}

static void part_add(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool is_hidden = text.at[i] == '.' && out->at[out->len - 1] == '/';
        if (is_harmless(text.at[i]) && !is_hidden)
            buf_add_char(out, text.at[i]);
        else
            buf_addf(out, "%%%02X", (unsigned char)text.at[i]);
    }
}

/* A long name is cut, and told from others by a hash of the whole. */
static void name_shorten(struct buf *name)
{
    if (name->len <= PLAN_NAME_BYTES_MAX)
        return;
    char hash[24];
    int len = snprintf(hash, sizeof(hash), "@%016llx",
                       (unsigned long long)XXH3_64bits(name->at, name->len));
    name->len = PLAN_NAME_BYTES_MAX - (size_t)len;
    buf_add(name, hash, (size_t)len);
}

const char *job_name_make(struct graph_file *file, const struct file_stage *stage,
                          const uint32_t *row)
{
    struct buf *name = &file->scratch;
    buf_reset(name);
    buf_add_str(name, stage->name);
    for (uint32_t i = 0; i < stage->n_coords; i++) {
        const struct coord *coord = &stage->coords[i];
        uint32_t value = coord->list.at[row[i]];
        bool is_number = !isnan(file->values[value].number);
        buf_add_char(name, i == 0 ? '/' : ',');
        if (is_number && coord->has_letter) {
            buf_add(name, coord->name.at, 1);
        } else if (is_number) {
            buf_add_str(name, coord->name);
            buf_add_char(name, '=');
        }
        part_add(name, value_text(file, value));
    }
    name_shorten(name);
    return plan_text(file->plan, buf_str(name));
}
