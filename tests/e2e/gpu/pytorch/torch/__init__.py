# SPDX-License-Identifier: Apache-2.0
"""Stands in for PyTorch with a GPU, as far as tests/gpu/nccl_ranks.py uses it: tensors are lists of
numbers. The program that imports it measures few and small sizes."""
import sys

import __main__

__version__ = "0.1"
float32 = "float32"
__main__.SIZES = (8, 1 << 10)
__main__.SECONDS = 0.01


class cuda:  # pylint: disable=invalid-name
    """One GPU."""
    is_available = staticmethod(lambda: True)

    @staticmethod
    def set_device(device):
        assert device == 0

    @staticmethod
    def synchronize():
        sys.stdout.flush()


class Tensor:
    """Numbers of one dimension."""

    def __init__(self, values):
        self.values = [float(value) for value in values]

    def __mod__(self, divisor):
        return Tensor(value % divisor for value in self.values)

    def __add__(self, other):
        if not isinstance(other, Tensor):
            return Tensor(value + other for value in self.values)
        assert len(other.values) == len(self.values)
        return Tensor(map(sum, zip(self.values, other.values)))

    def __getitem__(self, place):
        return Tensor(self.values[place])

    def clone(self):
        return Tensor(self.values)

    contiguous = clone

    def copy_(self, other):
        assert len(other.values) == len(self.values)
        self.values[:] = other.values

    def item(self):
        (value,) = self.values
        return value


def check_device(device):
    assert device == "cuda"


def arange(count, device, dtype):
    check_device(device)
    assert dtype == float32
    return Tensor(range(count))


def zeros(count, device):
    check_device(device)
    return Tensor([0] * count)


def tensor(values, device):
    check_device(device)
    return Tensor(values)


def cat(tensors):
    return Tensor(value for each in tensors for value in each.values)


def equal(first, second):
    return first.values == second.values
