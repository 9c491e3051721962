/* SPDX-License-Identifier: Apache-2.0 */
#include "train/batches.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "graph/known.h"

static void question_add(struct batches *batches, struct triple triple, bool is_new)
{
    size_t at = batches->begins[batches->n];
    if (is_new) {
        batches->questions[batches->n++] = triple;
        batches->begins[batches->n] = at;
    }
    batches->tails[batches->begins[batches->n]++] = triple.tail;
}

static void questions_group(struct batches *batches, const struct triple *triples, size_t n)
{
    struct known known;
    known_build(&known, triples, n);
    for (size_t i = 0; i < known.n; i++) {
        const struct triple *last = i > 0 ? &known.by_head[i - 1] : NULL;
        struct triple triple = known.by_head[i];
        question_add(batches, triple,
                     !last || last->head != triple.head || last->relation != triple.relation);
    }
    known_release(&known);
}

int batches_init(struct batches *batches, const struct triple *triples, size_t n_triples,
                 bool is_grouped, size_t size, struct err *err)
{
    *batches = (struct batches){
        .size = size,
        .questions = xcalloc(n_triples, sizeof(struct triple)),
        .begins = xcalloc(n_triples + 1, sizeof(size_t)),
        .tails = xcalloc(n_triples, sizeof(uint32_t)),
    };
    if (is_grouped)
        questions_group(batches, triples, n_triples);
    else
        for (size_t i = 0; i < n_triples; i++)
            question_add(batches, triples[i], true);
    if (batches->n < 2 || size < 2) {
        size_t n = batches->n;
        batches_release(batches);
        return fail(err, ERR_USAGE,
                    "batch norm needs two questions in a batch: there %s %zu in the training "
                    "triples, and a batch is of %zu; %s",
                    n == 1 ? "is" : "are", n, size,
                    n < n_triples && size > 1
                        ? "with --one-positive each triple is a question of its own"
                        : "more triples or a larger --batch-size give that");
    }
    batches->n_batches = MAX((batches->n + size - 1) / size - (batches->n % size == 1), (size_t)1);
    batches->order = xcalloc(batches->n, sizeof(*batches->order));
    for (size_t i = 0; i < batches->n; i++)
        batches->order[i] = (uint32_t)i;
    size_t n_max = batches_n_max(batches), tails_max = 0;
    batches->batch_questions = xcalloc(n_max, sizeof(struct triple));
    batches->batch_begins = xcalloc(n_max + 1, sizeof(size_t));
    for (size_t i = 0; i < batches->n; i++)
        tails_max = MAX(tails_max, batches->begins[i + 1] - batches->begins[i]);
    batches->batch_tails_max = MIN(tails_max * n_max, n_triples);
    batches->batch_tails = xcalloc(batches->batch_tails_max, sizeof(uint32_t));
    return 0;
}

void batches_release(struct batches *batches)
{
    void *arrays[] = {batches->questions,      batches->begins,       batches->tails,
                      batches->order,          batches->batch_begins, batches->batch_tails,
                      batches->batch_questions};
    for (size_t i = 0; i < countof(arrays); i++)
        free(arrays[i]);
    *batches = (struct batches){0};
}

size_t batches_n_max(const struct batches *batches)
{
    return MIN(batches->size + (batches->n % batches->size == 1), batches->n);
}

struct train_limits batches_limits(const struct batches *batches)
{
    return (struct train_limits){batches_n_max(batches), batches->batch_tails_max};
}

void batches_shuffle(struct batches *batches, uint64_t seed, uint64_t epoch)
{
    struct rng rng = {.state = item_seed(seed, epoch)};
    for (size_t i = 0; i < batches->n; i++)
        batches->order[i] = (uint32_t)i;
    for (size_t i = batches->n; i > 1; i--) {
        size_t other = rng_below(&rng, i);
        uint32_t kept = batches->order[i - 1];
        batches->order[i - 1] = batches->order[other];
        batches->order[other] = kept;
    }
}

struct train_batch batches_at(struct batches *batches, size_t index)
{
    size_t begin = index * batches->size;
    size_t end = index + 1 == batches->n_batches ? batches->n : begin + batches->size;
    size_t n_tails = 0;
    for (size_t i = begin; i < end; i++) {
        uint32_t question = batches->order[i];
        batches->batch_questions[i - begin] = batches->questions[question];
        for (size_t t = batches->begins[question]; t < batches->begins[question + 1]; t++)
            batches->batch_tails[n_tails++] = batches->tails[t];
        batches->batch_begins[i - begin + 1] = n_tails;
    }
    return (struct train_batch){batches->batch_questions, end - begin, batches->batch_begins,
                                batches->batch_tails};
}
