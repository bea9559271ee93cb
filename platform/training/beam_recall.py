"""Whether a beam search reaches the items of rows held out, with the weights of a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ...algorithms.inputs import Inputs
from ...algorithms.learns import Parameters
from ...algorithms.trees import TreeSearch
from ..input.batches import Batch
from ..ps.messages import Keys, Pulled
from ..trees.descent import Descent
from ..trees.tree import Tree

PULLED = 1 << 16


class BeamRecall:
    """The search for the items of batches.

    Args:
        line: of the item among the categorical slots.
        pull: gives the parameters of unique keys, padded to a size.
    """

    def __init__(self, search: TreeSearch, tree: Tree, line: int, pull: Callable[[Keys, int], Pulled]) -> None:
        self._search, self._tree, self._line, self._asked = search, tree, line, jax.jit(search.asked)

        def rows(keys: Keys) -> NDArray[np.float32]:
            parts = [keys[start : start + PULLED] for start in range(0, len(keys), PULLED)]
            return np.concatenate([pull(part, len(part) + 1).weights[search.table][: len(part)] for part in parts])

        self._descent = Descent(search, tree, tree.places, rows)

    def of(self, batch: Batch, parameters: Parameters, inputs: Inputs) -> NDArray[np.bool_]:
        """Return whether the item of each example is among as many best leaves as the beam is wide."""
        beam, examples = self._search.beam, batch.examples
        scores, places = self._descent.leaves(self._dense(parameters), self._asked(parameters, inputs), beam)
        own = np.append(self._tree.find(batch.keys), -1)[batch.scalar[self._line, :examples]]
        here = places[:examples] == own[:, None]
        best = np.where(here, scores[:examples], -np.inf).max(axis=1)
        found: NDArray[np.bool_] = (own >= 0) & here.any(axis=1) & ((scores[:examples] > best[:, None]).sum(axis=1) < beam)
        return found

    def _dense(self, parameters: Parameters) -> dict[str, Any]:
        return {name: value for name, value in parameters.items() if name != self._search.table}
