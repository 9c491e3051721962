/* SPDX-License-Identifier: Apache-2.0
 *
 * A model in a form that other programs read: a torch.save checkpoint as train_pytorch.py writes
 * it, or the state dict of PyKEEN's ConvE, by torch.save or in safetensors. conve_load() reads a
 * written file back to the same bits.
 */
#pragma once

#include "base/outfile.h"
#include "conve/model.h"

/* ERR_USAGE: PyKEEN's ConvE cannot represent the model. */
MUST_CHECK int conve_check_pykeen(const struct conve *model, struct err *err);
/* Writes an archive of torch.save. `folder` is the name of its records' folder. */
MUST_CHECK int conve_export_torch(const struct conve *model, bool is_pykeen, const char *folder,
                                  struct outfile *out, struct err *err);
/* Writes PyKEEN's names; conve_save() writes plain ones. */
MUST_CHECK int conve_export_safetensors(const struct conve *model, struct outfile *out,
                                        struct err *err);
