"""Calls out of a program that XLA compiled, into Python, by a number: so the compiled program can be kept on disk."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..layers import lookups  # which registers the call

CALL = lookups.PREFIX + "outside"
ANSWERING: weakref.WeakValueDictionary[int, Answers] = weakref.WeakValueDictionary()
NUMBERS = itertools.count()


class Answers:
    """What computes outside of XLA. A program calls it while it lives, so whoever traced the call must keep it."""

    def __init__(self) -> None:
        self.number = next(NUMBERS)
        ANSWERING[self.number] = self

    def answer(self, what: int, given: Sequence[Any], into: Sequence[Any]) -> None:
        """Compute results from arguments, arrays of numpy that are valid as long as this runs."""
        raise NotImplementedError

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
    ANSWERING[number].answer(what, given, into)
