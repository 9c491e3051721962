/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the metrics share.
 */
#pragma once

#include "unit/test.h"

#include <string.h>

#include "muster/metrics.h"

static const struct muster_metric_opts everything = {
    .has_variance = true, .has_percentiles = true, .n_bins = 20, .low = -5, .high = 5};

static inline struct muster_metrics *one_metric(const struct muster_metric_opts *opts)
{
    struct muster_metrics *metrics = muster_metrics_new();
    assert_non_null(metrics);
    assert_int_equal(muster_metrics_define(metrics, "loss", opts), 0);
    return metrics;
}

static inline struct muster_metric_result result_of(struct muster_metrics *metrics, int metric)
{
    struct muster_metric_result result;
    assert_int_equal(muster_metrics_get(metrics, metric, &result), 0);
    assert_string_equal(muster_metrics_error(metrics), "");
    return result;
}

static inline void assert_same_bits(double found, double expected, const char *what)
{
    if (memcmp(&found, &expected, sizeof(found)) != 0)
        fail_msg("%s: expected %a, found %a", what, expected, found);
}
