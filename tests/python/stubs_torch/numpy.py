# SPDX-License-Identifier: Apache-2.0
"""As much of numpy as examples/latentmas uses, for where it is not installed."""


def mean(values):
    return sum(values) / len(values)
