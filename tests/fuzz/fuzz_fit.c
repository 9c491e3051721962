/* SPDX-License-Identifier: Apache-2.0
 *
 * What muster fit reads: by the first byte its memory (fit.json), a model's config.json, or what
 * a trial prints. What is understood of the memory reads back as the same; whatever a config
 * says, an estimate is refused or adds up.
 */
#include "base/cleanup.h"
#include "fit/memo.h"
#include "fuzz.h"
#include "model/estimate.h"
#include "trial/output.h"

static void check_memos(struct str text)
{
    struct fit_memos memos, again;
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
    if (!fit_memos_parse(text, &memos)) {
        ASSERT(memos.len == 0 && !memos.at);
        return;
    }
    ASSERT(memos.len <= FIT_MEMOS_MAX);
    fit_memos_format(&memos, &first);
    if (!fit_memos_parse(buf_str(&first), &again) || again.len != memos.len)
        BUG("%s", buf_text(&first));
    fit_memos_format(&again, &second);
    if (!str_equal(buf_str(&first), buf_str(&second)))
        BUG("%s\nreads back as\n%s", buf_text(&first), buf_text(&second));
    fit_memos_release(&memos);
    fit_memos_release(&again);
}

static void check_config(struct str text, unsigned bits)
{
    struct model model = {.n_parts = 1};
    struct estimate e;
    struct estimate_wish wish = {.is_training = bits & 1,
                                 .optimizer = (enum estimate_optimizer)(bits >> 1 & 3),
                                 .recompute = (enum estimate_recompute)((bits >> 3) % 3),
                                 .context = bits & 64 ? 1000000000 : 4096,
                                 .batch = 3};
    model.parts[0] = (struct model_part){"F16", 16, 1000, 2000};
    if (model_config_parse(text, &model.config, NULL) != 0 ||
        estimate_make(&model, &wish, &e, NULL) != 0)
        return;
    ASSERT(e.total_bytes == e.weight_bytes + e.cache_bytes + e.gradient_bytes + e.optimizer_bytes +
                                e.activation_bytes);
    ASSERT(e.total_bytes >= 2000 && e.total_bytes < (uint64_t)1 << 63);
    bool is_bare = model.config.n_bare_layers == model.config.n_layers;
    ASSERT(e.is_partial || is_bare || (wish.is_training ? e.activation_bytes : e.cache_bytes) > 0);
    ASSERT(model.config.n_window_layers + model.config.n_bare_layers <= model.config.n_layers);
}

static void check_output(struct str text)
{
    struct output_pattern pattern;
    struct output whole = {0}, pieces = {0};
    struct output_match match = {.pattern = &pattern}, same = match;
    struct output_matches matches = {&match, 1}, in_pieces = {&same, 1};
    if (output_pattern_make(&pattern, "--rate-pattern", "([-0-9.e+]+) it/s", NULL) != 0)
        BUG("the pattern is one");
    output_take(&whole, text, matches, 1);
    for (size_t i = 0; i < text.len; i++)
        output_take(&pieces, (struct str){text.at + i, 1}, in_pieces, 1);
    output_end(&whole, matches, 1);
    output_end(&pieces, in_pieces, 1);
    ASSERT(match.number == same.number && match.number >= 0 && match.at_us == same.at_us);
    ASSERT(str_equal(output_tail(&whole), output_tail(&pieces)));
    ASSERT(str_equal(output_last_line(&whole), output_last_line(&pieces)));
    output_release(&whole);
    output_release(&pieces);
    output_pattern_release(&pattern);
}

int fuzz_target(const uint8_t *data, size_t len)
{
    struct str text = {(const char *)data + 1, len - 1};
    if (len == 0)
        return 0;
    if (data[0] == 'm')
        check_memos(text);
    else if (data[0] == 'o')
        check_output(text);
    else
        check_config(text, data[0]);
    return 0;
}
