/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <string.h>

#include "base/attr.h"

enum {
    WORD_MAX = 48
};

/* Damerau-Levenshtein (optimal string alignment): a swap of neighbours counts one. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    size_t d[WORD_MAX + 1][WORD_MAX + 1];
    if (na > WORD_MAX || nb > WORD_MAX)
        return WORD_MAX;
    for (size_t i = 0; i <= na; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= nb; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        for (size_t j = 1; j <= nb; j++) {
            size_t replace = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = MIN(replace, MIN(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[na][nb];
}

const char *suggest(const char *word, const char *const *candidates, size_t n_candidates)
{
    size_t len = MAX(strlen(word), (size_t)1), most = MIN(MAX(len / 3, (size_t)1), (size_t)3);
    size_t best = MIN(most + 1, len); /* at least a letter is the same */
    const char *nearest = NULL;
    for (size_t i = 0; i < n_candidates; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}
