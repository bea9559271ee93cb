"""Every vertex program keeps the contract, and the suite finds those that break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Algorithm
from xpsql.algorithms.graphs.combines import LEAST, MOST, SUM, gathered
from xpsql.algorithms.graphs.graph import NoOptions, computed_by
from xpsql.algorithms.vertex_program import WHOLE, Values, VertexProgram, Vertices
from xpsql.platform.options import Part
from xpsql.platform.registry import EDGES
from xpsql.testing import GRAPH_CHECKS, GraphTrial

PAIRS = "swing", "common_neighbours"
PROGRAMS = [part for part in ALGORITHMS if part.takes == EDGES and part.name not in PAIRS]


def least_degree(vertices: Vertices) -> Values:
    return vertices.degree


def spread(values: Values, inbox: Values, vertices: Vertices) -> Values:
    return np.maximum(values, np.where(vertices.degree > 0, inbox, 0))


def lowered(values: Values, inbox: Values, vertices: Vertices) -> Values:
    return np.minimum(values, inbox)


def capped(values: Values, inbox: Values, vertices: Vertices) -> Values:
    return np.minimum(inbox, 1000)


def median(messages: Any, offsets: Values) -> Values:
    found = [np.sort(messages[a:b])[(b - a) // 2] if b > a else 0 for a, b in pairwise(offsets)]
    return np.array(found, np.int64)


SOUND = VertexProgram("most", WHOLE, MOST, least_degree, spread, rounds=10_000)


def part_of(program: VertexProgram) -> Part[NoOptions, Algorithm]:
    def made(options: NoOptions, layout: object) -> Algorithm:
        """Make a program for a test."""
        return computed_by(program)

    return Part("made", NoOptions, made, EDGES)


@pytest.mark.parametrize("check", GRAPH_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("part", PROGRAMS, ids=lambda part: part.name)
def test_our_vertex_programs_conform(part: Part[Any, Algorithm], check: Callable[[GraphTrial], None]) -> None:
    check(GraphTrial(part))


@pytest.mark.parametrize("check", GRAPH_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("combine", [LEAST, MOST, SUM, gathered(median)], ids=["least", "most", "sum", "gathered"])
def test_programs_of_users_conform_by_each_way_to_combine(combine: Any, check: Callable[[GraphTrial], None]) -> None:
    update = {id(SUM): capped, id(LEAST): lowered}.get(id(combine), spread)
    rounds = 3 if combine is not MOST else 10_000
    program = replace(SOUND, combine=combine, update=update, rounds=rounds)
    check(GraphTrial(part_of(program)))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"update": lambda values, inbox, vertices: np.sort(inbox)}, "vertices_are_treated_alone"),
        ({"update": lambda values, inbox, vertices: -np.abs(values) - 1, "rounds": 1}, "values_are_numbers_of_their_kind"),
        ({"combine": MOST._replace(nothing=1 << 50)}, "inboxes_are_merged_in_any_order"),
        ({"combine": SUM._replace(merge=np.subtract)}, "inboxes_are_merged_in_any_order"),
        ({"combine": MOST._replace(merge=np.minimum, nothing=1 << 62)}, "the_number_of_workers_does_not_matter"),
        ({"kind": "mood"}, "values_are_numbers_of_their_kind"),
        ({"halt": lambda before, after: False, "rounds": 1001}, "it_ends"),
    ],
)
def test_a_program_that_breaks_the_contract_is_found(fault: dict[str, Any], check: str) -> None:
    trial = GraphTrial(part_of(replace(SOUND, **fault)))
    with pytest.raises(AssertionError):
        next(one for one in GRAPH_CHECKS if one.__name__ == check)(trial)
