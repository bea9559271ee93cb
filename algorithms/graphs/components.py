"""Connected components: which vertices edges connect, whatever their direction."""

from __future__ import annotations

import numpy as np

from ...platform.options import Part
from ...platform.registry import EDGES
from ..base import Algorithm, Layout
from ..vertex_program import KEY, Values, VertexProgram, Vertices
from .combines import JOINED
from .graph import NoOptions, computed_by

MOST_ROUNDS = 1 << 20


def components(options: NoOptions, layout: Layout) -> Algorithm:
    """Find the connected components of a graph; a component is named by the least key of its vertices.

    Each worker joins what its own edges connect, by union-find, so that rounds are about as many as workers are in a row that
    share a component, whatever the length of paths.

    Source: Tarjan, "Efficiency of a Good But Not Linear Set Union Algorithm", Journal of the ACM 1975.
    """

    def update(names: Values, inbox: Values, vertices: Vertices) -> Values:
        return np.minimum(names, inbox)

    return computed_by(VertexProgram("component", KEY, JOINED, own_key, update, rounds=MOST_ROUNDS, settles=True))


def own_key(vertices: Vertices) -> Values:
    """Return the key of each vertex."""
    return vertices.keys.view(np.int64)


COMPONENTS = Part("components", NoOptions, components, EDGES)
