/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as other programs read it: a checkpoint of torch.save, as train_pytorch.py has it, or the state dict of PyKEEN's
 * ConvE, of torch.save or in safetensors. What is written is read back to the same bits.
 */
#pragma once

#include "base/outfile.h"
#include "conve/model.h"

/* ERR_USAGE: PyKEEN has no such model. */
MUST_CHECK int conve_check_pykeen(const struct conve *model, struct err *err);
/* An archive of torch.save. `folder` is the name of its records' folder. */
MUST_CHECK int conve_export_torch(const struct conve *model, bool is_pykeen, const char *folder,
                                  struct outfile *out, struct err *err);
/* With PyKEEN's names; the plain ones are conve_save()'s. */
MUST_CHECK int conve_export_safetensors(const struct conve *model, struct outfile *out,
                                        struct err *err);
