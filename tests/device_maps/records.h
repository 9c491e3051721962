/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded models and their device maps, as README.md beside this file describes them, read into
 * what core/partition.h takes.
 */
#pragma once

#include "core/partition.h"

struct record_case {
    struct str line; /* the line of the file, without its map */
    struct str keys; /* the map: words KEY=DEVICE */
    enum partition_method method;
    bool fallback, pieces, free;
    struct partition_device *devices;
    uint32_t n_devices;
};

struct record {
    struct str name;   /* of the model */
    struct str class;  /* of transformers */
    struct str config; /* the text of its config.json; empty for drawn trees */
    struct str whole;  /* words: the classes that are not cut */
    struct partition_module *modules;
    size_t n_modules;
    struct str *classes; /* [n_modules] */
    struct partition_tensor *tensors;
    size_t n_tensors;
    struct str *dtypes; /* [n_tensors] as torch names them; with the shape: "float16 [4096,4096]" */
    bool *are_fleeting; /* [n_tensors] buffers that no checkpoint has */
    struct record_case *cases;
    size_t n_cases;
    char **names; /* [n_names] what those of modules and tensors point to */
    size_t n_names;
};

/*
 * All records of a text, which must stay. Aborts at what is not in the format. *n: how many. What
 * is allocated lives until records_free().
 */
struct record *records_read(struct str text, size_t *n);
void records_free(struct record *records, size_t n);

/*
 * The next key of a map, which is written as one with others that differ in a number: those come
 * one after the other.
 */
struct key_reader {
    struct str rest;                  /* words that are still to come */
    struct str before, after, device; /* of the word that is being read */
    uint64_t number, last;
    bool has_number, is_open;
};

/* False: there are no more. `key` is overwritten by each. */
bool key_next(struct key_reader *reader, struct buf *key, struct str *device);
/* The device of a word, in the order of a case: numbers are GPUs. */
uint32_t record_device(const struct record_case *c, struct str device);
