/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_tracin_settings.txt: what the results in the folder of a batch depend on, a line for each
 * option, checkpoint and file of triples. So a folder holds results of one kind only.
 */
#pragma once

#include "cli/kge_data.h"
#include "cli/tracin_request.h"

/*
 * The results that this command may write: those of --start-index and of the following test
 * triples.
 */
struct batch_names {
    const char *(*base_name)(const void *context, size_t index); /* NULL: not of this command */
    const void *context;
};

/*
 * ERR_USAGE if the folder has results of a batch with other settings, unless --force replaces them;
 * or if it has results of which no file says what they depend on, unless --force is given and this
 * command replaces them. Changes nothing.
 */
MUST_CHECK int batch_settings_check(const struct tracin_request *ask, const struct kge_data *data,
                                    const struct batch_names *names, struct err *err);
/*
 * To be called before the first result is written; the folder exists. With --force, removes the
 * results of a batch with other settings.
 */
MUST_CHECK int batch_settings_begin(const struct tracin_request *ask, const struct kge_data *data,
                                    struct err *err);
