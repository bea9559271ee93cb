"""Vectors with ids in scoring: a statement's replacements for the version's own, and the network over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from ...algorithms.inputs import SideVectors
from ...algorithms.layers.side_network import SideNetwork
from ..engines.base import Engine
from ..errors import StatementError, suggestion
from ..input.columns import columns_from
from ..input.side.table import FIRST, LACKING, NONE, SideRows
from ..input.side.versions import vectors_of
from ..input.side.writing import VECTORS
from ..ps.compiled.ladder import rung

if TYPE_CHECKING:
    from ...warehouse.version import Version


class SideOutputs:
    """The outputs of the network over vectors of one kind, each computed when a row first needs it; threads may share it.

    Args:
        dim: elements of an output.
    """

    def __init__(self, network: SideNetwork, dim: int) -> None:
        self._apply = jax.jit(network.apply)
        self._dim = dim
        self._outputs = np.empty((0, dim), np.float32)
        self._known = np.empty(0, np.bool_)

    def of(self, rows: SideRows, size: int, dense: Mapping[str, object]) -> SideVectors:
        """Return the network's outputs for the vectors that rows have, padded to a size.

        Args:
            dense: the version's dense parameters.
        """
        if not len(self._known):
            count = FIRST + len(rows.table)
            self._outputs, self._known = np.zeros((count, self._dim), np.float32), np.zeros(count, np.bool_)
        wanted = np.unique(rows.codes)
        if len(new := wanted[np.logical_not(self._known[wanted])]):
            vectors = new[new >= FIRST]
            found = np.asarray(self._apply(dense, rows.table.values(vectors, rung(FIRST + len(vectors)))))
            for code in (NONE, LACKING):
                self._outputs[code] = found[code]
            self._outputs[vectors] = found[FIRST : FIRST + len(vectors)]
            self._known[new] = True
        outputs = np.zeros((size, self._dim), np.float32)
        outputs[: len(rows.codes)] = self._outputs[rows.codes]
        return SideVectors(None, None, outputs)  # type: ignore[arg-type]


def replaced(version: Version, name: str, query: str, engine: Engine, folder: Path) -> Version:
    """Return a version with the vectors of a name replaced.

    Args:
        query: of ids and vectors.
        folder: where they go, on all machines.

    Raises:
        StatementError: the version has no such vectors, or the query cannot run.
        DataError: their length differs, or see write_side.
    """
    columns = columns_from(version.manifest)
    sides = {side.name: side for side in columns.sides}
    if name not in sides:
        known = suggestion(name, sides)
        raise StatementError(f"{VECTORS} names {name!r}, and model {version.manifest.model} has no such vectors.{known}")
    vectors_of(sides[name], query, columns, engine, folder)
    return replace(version, replaced=(*version.replaced, (name, folder)))
