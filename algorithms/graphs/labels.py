"""Communities by label propagation: vertices take the label that most of their neighbours have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...platform.options import Part, option
from ...platform.registry import EDGES
from ..base import Algorithm, Layout
from ..vertex_program import KEY, Values, VertexProgram, Vertices
from .combines import MOST_FREQUENT
from .components import own_key
from .graph import computed_by


@dataclass(frozen=True)
class LabelsOptions:
    rounds: int = option(10, "the most rounds", minimum=1, maximum=100_000)


def labels(options: LabelsOptions, layout: Layout) -> Algorithm:
    """Find communities: each vertex begins with a label of its own, and takes the one that most neighbours have.

    Edges lead both ways, and one that occurs again counts again. Of labels that are equally frequent a vertex keeps its own; of
    others chance, by the seed, the round and the label, takes one. A label is the key of the vertex that began with it.
    CONTINUE begins with the labels of its version.

    Source: Raghavan, Albert and Kumara, "Near linear time algorithm to detect community structures in large-scale networks",
    Physical Review E 2007.
    """

    def update(own: Values, inbox: Values, vertices: Vertices) -> Values:
        return np.where(vertices.degree > 0, inbox, own)

    def continues(before: Values, known: NDArray[np.bool_], initial: Values) -> Values:
        return np.where(known, before, initial)

    program = VertexProgram("label", KEY, MOST_FREQUENT, own_key, update, rounds=options.rounds, both=True, continues=continues)
    return computed_by(program)


LABELS = Part("labels", LabelsOptions, labels, EDGES)
