/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of torch.save around any bytes as its pickle.
 */
#pragma once

#include "base/buf.h"

/* Storages as large as the pickle wants them, if it is one and wants not much; no two elements next to one
 * another are alike, nor two storages. */
void torch_file_make(struct str text, struct buf *out);
