/* SPDX-License-Identifier: Apache-2.0
 *
 * In which order a model's modules run, and which modules are never cut. The files of a model do not tell this: they
 * only have the sorted names of tensors. So there is a table of architectures, by the class in config.json. Its facts
 * come from the classes of transformers 5.24 (registration, _no_split_modules, _tied_weights_keys). Pure.
 *
 * A layout is a list of modules, separated by spaces, each a path in which "*" stands for numbers,
 * followed by marks in this order:
 *
 *   !          a block that is never cut, and keeps a KV cache
 *   #          a block that is never cut
 *   1 … 9      behind ! or #: blocks with the same digit are of one class
 *   -          it has no tensors of its own, and is a key of maps anyhow
 *   =PATH      its weight is that of module PATH, if config.json ties them, or the files have none
 *   {NAME}     it has buffers that files do not have (model/buffers.h)
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct architecture {
    const char *classes; /* words: "LlamaForCausalLM MistralForCausalLM" */
    const char *prefix;  /* of module names; a model saved without its head lacks it in its files */
    const char *renames; /* words "old.=new.", for the beginnings of names in files; NULL: none */
    const char *layout;
};

struct layout_module {
    struct str path, tied_to, buffers; /* empty: none */
    bool is_whole, has_cache, is_always;
    unsigned class_digit; /* 0: a class of its own */
};

/* The row of a class; NULL: the class is not in the table. */
const struct architecture *architecture_find(struct str class_name);
/* True if models of a class keep a KV cache. A class that is not in the table is assumed to keep one. */
bool architecture_keeps_cache(struct str class_name);
/* The architecture of files of llama.cpp. */
const struct architecture *architecture_gguf(void);
/* The i-th row, NULL behind the last. */
const struct architecture *architecture_row(size_t i);

/* Cuts the next module off a layout. Returns false at the end, and with ERR_USAGE if the text is no module. */
bool layout_next(struct str *rest, struct layout_module *out, struct err *err);
