/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the sampler share.
 */
#pragma once

#include "unit/test.h"

#include "muster/sampler.h"

static inline struct muster_sampler *sampler_of(const struct muster_sampler_opts *opts)
{
    struct muster_sampler *sampler = muster_sampler_new(opts);
    assert_non_null(sampler);
    assert_string_equal(muster_sampler_error(sampler), "");
    return sampler;
}
