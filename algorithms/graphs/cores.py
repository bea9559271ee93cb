"""Cores and h-indices: how well a vertex is connected with well-connected ones."""

from __future__ import annotations

import numpy as np

from ...platform.options import Part
from ...platform.registry import EDGES
from ..base import Algorithm, Layout
from ..vertex_program import WHOLE, Values, VertexProgram, Vertices
from .combines import H_INDEX
from .graph import NoOptions, computed_by

MOST_ROUNDS = 1 << 20


def degrees(vertices: Vertices) -> Values:
    return vertices.degree


def lowered(values: Values, inbox: Values, vertices: Vertices) -> Values:
    return np.minimum(values, inbox)


def kcore(options: NoOptions, layout: Layout) -> Algorithm:
    """Find the core of each vertex: the largest k such that a part of the graph has it where all have k neighbours or more.

    Edges lead both ways; those from a vertex to itself, and those that occur again, do not count. A vertex begins at its degree
    and takes the h-index of its neighbours' values, until nothing changes.

    Source: Montresor, De Pellegrini and Miorandi, "Distributed k-Core Decomposition", PODC 2011; Lü et al., "The H-index of a
    network node and its relation to degree and coreness", Nature Communications 2016.
    """
    return computed_by(VertexProgram("core", WHOLE, H_INDEX, degrees, lowered, rounds=MOST_ROUNDS, both=True, simple=True))


def hindex(options: NoOptions, layout: Layout) -> Algorithm:
    """Find the h-index of each vertex: the largest h such that h of its neighbours have h neighbours or more.

    Edges lead both ways; those from a vertex to itself, and those that occur again, do not count.

    Source: Lü et al., "The H-index of a network node and its relation to degree and coreness", Nature Communications 2016.
    """
    return computed_by(VertexProgram("hindex", WHOLE, H_INDEX, degrees, lowered, both=True, simple=True))


KCORE = Part("kcore", NoOptions, kcore, EDGES)
HINDEX = Part("hindex", NoOptions, hindex, EDGES)
