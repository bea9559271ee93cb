"""Callbacks of programs that XLA compiled into Python, by a number: so the compiled program can be kept on disk, which JAX does
not do with its own callbacks."""

from __future__ import annotations

import itertools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..layers import lookups  # which registers the call

CALL = lookups.PREFIX + "callback"
CALLBACKS: weakref.WeakValueDictionary[int, Callback] = weakref.WeakValueDictionary()
NUMBERS = itertools.count()


class Callback(ABC):
    """What computes in Python. A program calls it while it lives, so whoever traced the call must keep it."""

    def __init__(self) -> None:
        self.number = next(NUMBERS)
        CALLBACKS[self.number] = self

    @abstractmethod
    def answer(self, what: int, given: Sequence[Any], into: Sequence[Any]) -> None:
        """Compute results from arguments, NumPy arrays that are valid as long as this runs."""

    def called(self, what: int, results: Any, *arguments: Any) -> Any:
        """Return what `answer` computes where a program runs that traces this.

        Args:
            what: which of its functions.
            results: a tree of shapes, float32, int32, uint32 or bool as arguments are; `into` has its leaves.
            arguments: trees of arrays; `given` has their leaves.
        """
        shapes, tree = jax.tree.flatten(results)
        call = jax.ffi.ffi_call(CALL, shapes)
        found = call(*jax.tree.leaves(arguments), number=np.int64(self.number), what=np.int64(what))
        return jax.tree.unflatten(tree, found)


def answer(number: int, what: int, given: Sequence[Any], into: Sequence[Any]) -> None:
    """Answer a program's call."""
    CALLBACKS[number].answer(what, given, into)
