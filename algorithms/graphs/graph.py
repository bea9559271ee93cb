"""What all vertex programs of this package share: the part, the algorithm around a program, and how values are shown."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from ...platform.operators.base import Column, Operator, TableSpec
from ..base import Algorithm, Inputs, Output, Parameters, Traits
from ..over_graph import Graph
from ..vertex_program import FIXED, ONE, PairProgram, Values, VertexProgram
from .limbs import LIMBS, PAIRS, TABLE

NONE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class NoOptions:
    """A program without options."""


def computed_by(program: VertexProgram) -> Algorithm:
    """Return the algorithm that a vertex program is."""
    return Algorithm(
        tables=(TableSpec(TABLE, LIMBS),),
        optimizer=lambda table: Operator({"w": Column(table.dim)}, optimizer=True, name="vertex program"),
        learns=Graph(program),
        outputs={program.value: Output(no_function, whole=program.kind != FIXED)},
        intercept=None,
        traits=Traits(edges=True),
    )


def paired_by(program: PairProgram) -> Algorithm:
    """Return the algorithm that a program of pairs is."""
    return Algorithm(
        tables=(TableSpec(PAIRS, 1),),
        optimizer=lambda table: Operator({"w": Column(table.dim)}, optimizer=True, name="pairs"),
        learns=Graph(program),
        intercept=None,
        traits=Traits(edges=True),
    )


def no_function(parameters: Parameters, inputs: Inputs) -> jax.Array:
    raise TypeError("The value of a vertex is read from its row.")


def shown(values: Values, there: NDArray[np.bool_], kind: str) -> NDArray[np.float64] | Values:
    """Return values as users see them; of vertices without a row NaN, or NONE where they are whole numbers."""
    return np.where(there, values / ONE, np.nan) if kind == FIXED else np.where(there, values, NONE)
