"""Triangles: how many pairs of a vertex's neighbours are neighbours."""

from __future__ import annotations

import numpy as np

from ...platform.options import Part
from ...platform.registry import EDGES
from ..base import Algorithm, Layout
from ..vertex_program import WHOLE, Values, VertexProgram, Vertices
from .combines import TRIANGLES
from .graph import NoOptions, computed_by


def triangles(options: NoOptions, layout: Layout) -> Algorithm:
    """Count the triangles that each vertex is in.

    Edges lead both ways; those from a vertex to itself, and those that occur again, do not count. With the `count` of
    ML.WEIGHTS, a vertex's neighbours, 2 triangles / (count (count - 1)) is its clustering coefficient. Workers have all edges.

    Source: Latapy, "Main-memory triangle computations for very large (sparse (power-law)) graphs", Theoretical Computer Science
    2008.
    """

    def none(vertices: Vertices) -> Values:
        return np.zeros(len(vertices.keys), np.int64)

    def update(counts: Values, inbox: Values, vertices: Vertices) -> Values:
        return inbox

    return computed_by(VertexProgram("triangles", WHOLE, TRIANGLES, none, update, both=True, simple=True))


TRIANGLES_PART = Part("triangles", NoOptions, triangles, EDGES)
