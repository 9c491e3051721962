/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_tests.h"

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/tracin_job.h"

enum {
    TRIPLE_WORDS = 3,
    PLACES_SAID_MAX = 8
};

/* ---- --test-triple ---- */

const char *tracin_triple_file(const struct tracin_request *ask)
{
    return ask->test_triple.len == 1 ? ask->test_triple.at[0] : NULL;
}

/* The index of a word that is a name in the dictionary, or an index itself. */
static int word_resolve(const struct name_index *names, const char *what, const char *word,
                        uint32_t *index, struct err *err)
{
    uint64_t number = 0;
    size_t named = name_index_find(names, str_of(word));
    bool is_index =
        names->len > 0 && u64_parse(str_of(word), 0, names->len - 1, &number, NULL) == 0;
    if (named == NAME_NONE && !is_index)
        return fail(err, ERR_USAGE,
                    "--test-triple: '%s' is no %s of the dictionary, and no index below %zu", word,
                    what, names->len);
    if (named != NAME_NONE && is_index && named != number)
        return fail(err, ERR_USAGE,
                    "--test-triple: '%s' is the name of %s %zu, and %s %s has another name: give a "
                    "file with the triple's names instead",
                    word, what, named, what, word);
    *index = (uint32_t)(named != NAME_NONE ? named : number);
    return 0;
}

static int words_take(struct kge_data *data, const struct texts *words, struct err *err)
{
    struct triple triple = {0};
    int rc = word_resolve(&data->entities, "entity", words->at[0], &triple.head, err);
    if (rc == 0)
        rc = word_resolve(&data->relations, "relation", words->at[1], &triple.relation, err);
    if (rc == 0)
        rc = word_resolve(&data->entities, "entity", words->at[2], &triple.tail, err);
    if (rc == 0)
        triples_add(&data->test, triple);
    return rc;
}

static int file_take(struct kge_data *data, const struct tracin_request *ask, const struct app *app,
                     struct err *err)
{
    const char *path = tracin_triple_file(ask);
    int rc = kge_test_read(data, path, ask->files.is_lenient, app, err);
    if (rc == 0 && data->test.n != 1)
        rc = fail(err, ERR_DATA,
                  "--test-triple: %s holds %zu triples, expected one; --test %s takes all", path,
                  data->test.n, path);
    return rc;
}

/* ---- the order ---- */

static void order_take(struct triples *triples, const char *what, const struct app *app)
{
    size_t n = triples->n;
    triples_sort_unique(triples);
    if (triples->n < n)
        say(app, "--triples-order pykeen: %zu %s triples are left of %zu; duplicates are dropped",
            triples->n, what, n);
}

int tracin_tests_take(struct kge_data *data, const struct tracin_request *ask,
                      const struct app *app, struct err *err)
{
    if (ask->triples_order == TRIPLES_AS_IN_PYKEEN) {
        order_take(&data->train, "training", app);
        order_take(&data->test, "test", app);
    }
    if (ask->test_triple.len == TRIPLE_WORDS)
        return words_take(data, &ask->test_triple, err);
    return tracin_triple_file(ask) ? file_take(data, ask, app, err) : 0;
}

/* ---- places ---- */

static int place_add(struct str text, size_t n_tests, size_t **places, size_t *n_places,
                     struct err *err)
{
    uint64_t place;
    int rc = u64_parse(str_trim(text), 0, UINT64_MAX, &place, err);
    if (rc)
        return wrap(err, rc, "--test-indices");
    if (place >= n_tests)
        return fail(err, ERR_USAGE,
                    "--test-indices: there is no test triple %lu: there are %zu, from 0",
                    (unsigned long)place, n_tests);
    *places = xrealloc(*places, (*n_places + 1) * sizeof(**places));
    (*places)[(*n_places)++] = (size_t)place;
    return 0;
}

static int places_parse(const struct tracin_request *ask, size_t n_tests, size_t **places,
                        size_t *n_places, struct err *err)
{
    static const char *first[] = {"0"};
    const struct texts words = ask->test_indices.len > 0
                                   ? ask->test_indices
                                   : (struct texts){.at = first, .len = countof(first)};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < words.len; i++) {
        struct str rest = str_of(words.at[i]), piece;
        while (rc == 0 && str_next(&rest, ',', &piece))
            rc = place_add(piece, n_tests, places, n_places, err);
    }
    return rc;
}

/* "(0, 1, 4) is (aspirin, treats, headache)" */
static void triple_say(const struct app *app, const char *before, const struct kge_data *data,
                       struct triple triple, const char *after)
{
    cleanup_buf struct buf names = BUF_INIT, clean = BUF_INIT;
    tracin_triple_format(data, triple, &names);
    console_text_add(&clean, buf_str(&names), false);
    say(app, "%s(%u, %u, %u) is %s%s", before, triple.head, triple.relation, triple.tail,
        buf_text(&clean), after);
}

static bool triples_equal(struct triple a, struct triple b)
{
    return a.head == b.head && a.relation == b.relation && a.tail == b.tail;
}

/* Prints the first place at which PyKEEN would have another triple, and that triple. */
static void pykeen_say(const struct app *app, const struct kge_data *data, const size_t *places,
                       size_t n_places)
{
    cleanup_triples struct triples sorted = {0};
    for (size_t i = 0; i < data->test.n; i++)
        triples_add(&sorted, data->test.at[i]);
    triples_sort_unique(&sorted);
    for (size_t i = 0; i < n_places; i++) {
        char before[64];
        if (places[i] < sorted.n && triples_equal(sorted.at[places[i]], data->test.at[places[i]]))
            continue;
        snprintf(before, sizeof(before), "test triple %zu of PyKEEN: ", places[i]);
        if (places[i] < sorted.n)
            triple_say(app, before, data, sorted.at[places[i]],
                       ", as it sorts them by index and keeps each once; --triples-order pykeen "
                       "does so too");
        else
            say(app, "PyKEEN, which keeps each test triple once, has no test triple %zu",
                places[i]);
        return;
    }
}

static void places_say(const struct tracin_request *ask, const struct kge_data *data,
                       const struct app *app, const size_t *places, size_t n_places)
{
    for (size_t i = 0; i < MIN(n_places, (size_t)PLACES_SAID_MAX); i++) {
        char before[48];
        snprintf(before, sizeof(before), "test triple %zu: ", places[i]);
        triple_say(app, before, data, data->test.at[places[i]], "");
    }
    if (n_places > PLACES_SAID_MAX)
        say(app, "and %zu more test triples", n_places - PLACES_SAID_MAX);
    if (ask->triples_order == TRIPLES_AS_IN_FILES && ask->test_triple.len == 0)
        pykeen_say(app, data, places, n_places);
}

/* The test triples of a batch, or of all test triples: a range of their places. */
static int places_range(const struct tracin_request *ask, size_t n_tests, size_t **places,
                        size_t *n_places, struct err *err)
{
    uint64_t n_max = tracin_is_batch(ask) ? ask->max_triples : ask->max_test_triples;
    if (tracin_is_batch(ask) && ask->start_index >= n_tests)
        return fail(err, ERR_USAGE, "--start-index %lu: %s has %zu test triples, from 0",
                    (unsigned long)ask->start_index, ask->test_triples, n_tests);
    *n_places = n_tests - (size_t)ask->start_index;
    if (n_max > 0)
        *n_places = MIN(*n_places, (size_t)n_max);
    *places = xcalloc(*n_places, sizeof(**places));
    for (size_t i = 0; i < *n_places; i++)
        (*places)[i] = (size_t)ask->start_index + i;
    return 0;
}

int tracin_places_find(const struct tracin_request *ask, const struct kge_data *data,
                       const struct app *app, size_t **places, size_t *n_places, struct err *err)
{
    size_t n_tests = data->test.n;
    bool are_chosen = ask->mode == MODE_SINGLE || ask->test_triple.len > 0;
    int rc = 0;
    *places = NULL;
    *n_places = 0;
    if (ask->mode == MODE_SINGLE)
        rc = places_parse(ask, n_tests, places, n_places, err);
    else
        rc = places_range(ask, n_tests, places, n_places, err);
    if (rc == 0 && are_chosen)
        places_say(ask, data, app, *places, *n_places);
    return rc;
}
