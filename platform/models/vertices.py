"""Versions of vertex programs, whose rows are values of vertices in place of weights."""

from __future__ import annotations

from ...algorithms.graphs.limbs import BITS, THERE
from ...warehouse.manifest import Manifest
from ..errors import StatementError
from ..training.graphs.versions import has_vertices


def refuse_vertices(manifest: Manifest, what: str) -> None:
    """Refuse to take the numbers of such rows for weights.

    Args:
        what: takes them for weights, as it begins a message: "ML.FOLD goes over weights".

    Raises:
        StatementError: a version has such rows.
    """
    if has_vertices(manifest):
        raise StatementError(
            f"{what}, and {manifest.model} has values of vertices, by {manifest.algorithm.name}. Query them: "
            f"SELECT key, value FROM ML.WEIGHTS(MODEL {manifest.model})."
        )


def refuse_edges(manifest: Manifest, what: str) -> None:
    """Refuse to score rows by what was computed from edges alone: values of vertices, or pairs of them.

    Args:
        what: scores rows, as it begins a message: "ML.EVALUATE measures predictions".

    Raises:
        StatementError: a version was.
    """
    from ..training.recipe import algorithm_of  # imports JAX

    refuse_vertices(manifest, what)
    if algorithm_of(manifest).program is not None:
        raise StatementError(
            f"{what}, and {manifest.model} has pairs of vertices, by {manifest.algorithm.name}. List them: SELECT * FROM "
            f"ML.RELATED(MODEL {manifest.model}, (SELECT DISTINCT item AS node FROM t))."
        )


def value_of(manifest: Manifest) -> str:
    """Return the expression of a vertex's value over its row, as ML.PREDICT gives it."""
    from ...algorithms.vertex_program import FIXED, ONE, VertexProgram
    from ..training.recipe import algorithm_of  # imports JAX

    program = algorithm_of(manifest).program
    assert isinstance(program, VertexProgram)  # whose rows are values
    low, middle, high = (f"CAST(element_at(w, {n}) AS BIGINT)" for n in (1, 2, 3))
    half = THERE // 2
    signed = f"(({high} - {THERE} + {half}) % {THERE} - {half})"  # the highest bit is the sign
    value = f"({low} + {middle} * {1 << BITS} + {signed} * {1 << 2 * BITS})"
    return f"CAST({value} AS DOUBLE) / {ONE}D" if program.kind == FIXED else value
