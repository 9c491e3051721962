/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/known.h"

#include <string.h>

#include "base/xalloc.h"

/* Compares three keys one after the other. */
static int compare(const uint32_t a[3], const uint32_t b[3])
{
    for (size_t i = 0; i < 3; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int by_head(const void *a, const void *b)
{
    const struct triple *x = a, *y = b;
    return compare((uint32_t[]){x->head, x->relation, x->tail},
                   (uint32_t[]){y->head, y->relation, y->tail});
}

static int by_tail(const void *a, const void *b)
{
    const struct triple *x = a, *y = b;
    return compare((uint32_t[]){x->tail, x->relation, x->head},
                   (uint32_t[]){y->tail, y->relation, y->head});
}

typedef int order_fn(const void *a, const void *b);

void known_build(struct known *known, const struct triple *triples, size_t n)
{
    size_t bytes = MAX(n, 1u) * sizeof(*triples);
    *known = (struct known){.by_head = xmalloc(bytes), .by_tail = xmalloc(bytes)};
    if (n > 0)
        memcpy(known->by_head, triples, n * sizeof(*triples));
    qsort(known->by_head, n, sizeof(*triples), by_head);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_head(&known->by_head[i], &known->by_head[known->n - 1]) != 0)
            known->by_head[known->n++] = known->by_head[i];
    if (known->n > 0)
        memcpy(known->by_tail, known->by_head, known->n * sizeof(*triples));
    qsort(known->by_tail, known->n, sizeof(*triples), by_tail);
}

void known_release(struct known *known)
{
    free(known->by_head);
    free(known->by_tail);
    *known = (struct known){0};
}

/* Returns the first place whose triple is not before `bound`. */
static size_t place_of(const struct triple *at, size_t n, struct triple bound, order_fn *order)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (order(&at[middle], &bound) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct known_answers known_tails(const struct known *known, uint32_t head, uint32_t relation)
{
    size_t begin = place_of(known->by_head, known->n, (struct triple){head, relation, 0}, by_head);
    size_t end = begin;
    while (end < known->n && known->by_head[end].head == head &&
           known->by_head[end].relation == relation)
        end++;
    return (struct known_answers){known->by_head + begin, end - begin};
}

struct known_answers known_heads(const struct known *known, uint32_t relation, uint32_t tail)
{
    size_t begin = place_of(known->by_tail, known->n, (struct triple){0, relation, tail}, by_tail);
    size_t end = begin;
    while (end < known->n && known->by_tail[end].tail == tail &&
           known->by_tail[end].relation == relation)
        end++;
    return (struct known_answers){known->by_tail + begin, end - begin};
}

bool known_has(const struct known *known, struct triple triple)
{
    size_t at = place_of(known->by_head, known->n, triple, by_head);
    return at < known->n && by_head(&known->by_head[at], &triple) == 0;
}
