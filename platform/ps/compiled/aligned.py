"""Aligned arrays: XLA uses them in place, and copies unaligned ones before each call."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._native import memory
from ..messages import Counts, Keys

T = TypeVar("T", bound=np.generic)


def empty(shape: int | tuple[int, ...], kind: type[T] | np.dtype[T]) -> NDArray[T]:
    """Return an uninitialised array, as numpy.empty does."""
    dtype: np.dtype[Any] = np.dtype(kind)
    size = shape if isinstance(shape, int) else math.prod(shape)
    return memory(size * dtype.itemsize).view(dtype).reshape(shape)


def filled(values: NDArray[T], size: int, rest: int = 0) -> NDArray[T]:
    """Return values [n] as [size], with `rest` after the last."""
    whole = empty(size, values.dtype)
    whole[: len(values)] = values
    whole[len(values) :] = rest
    return whole


def padded(values: NDArray[T], size: int) -> NDArray[T]:
    """Return values [lines, n] as [lines, size], zeros after the last."""
    whole = empty((len(values), size), values.dtype)
    whole[:, : values.shape[1]] = values
    whole[:, values.shape[1] :] = 0
    return whole


def split_keys(keys: Keys, size: int) -> Counts:
    """Return keys as uint32[size, 2], low and high half, zeros after the last: JAX has no 64-bit integers."""
    whole = empty((size, 2), np.uint32)
    whole[: len(keys)] = keys.view(np.uint32).reshape(-1, 2)
    whole[len(keys) :] = 0
    return whole
