/* SPDX-License-Identifier: Apache-2.0 */
#include "base/share.h"

#include "base/attr.h"

struct share share_of(uint64_t total, uint64_t n_shares, uint64_t index)
{
    ASSERT(index < n_shares);
    uint64_t each = total / n_shares, remainder = total % n_shares;
    return (struct share){index * each + MIN(index, remainder), each + (index < remainder)};
}
