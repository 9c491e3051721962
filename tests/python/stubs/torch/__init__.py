# SPDX-License-Identifier: Apache-2.0
"""As much of PyTorch as the example workers touch, on lists: for machines without it."""

import contextlib


class OutOfMemoryError(RuntimeError):
    pass


class cuda:
    OutOfMemoryError = OutOfMemoryError
    emptied = 0

    @staticmethod
    def is_available():
        return False

    @classmethod
    def empty_cache(cls):
        cls.emptied += 1


class Tensor:
    """Two dimensions; rows of equal length."""

    def __init__(self, rows):
        self.rows = rows
        self.shape = (len(rows), len(rows[0]) if rows else 0)

    def __getitem__(self, key):
        rows, columns = key
        return Tensor([row[columns] for row in self.rows[rows]])

    def tolist(self):
        return self.rows


@contextlib.contextmanager
def inference_mode():
    yield


def manual_seed(seed):
    manual_seed.last = seed
