"""The conformance suite over every operator, alone and chained with every other."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.conformance import CHECKS, Trial, finite_input_gives_finite_rows, shapes_and_dtypes_are_kept
from xpsql.platform.options import describe

from .examples import EXAMPLES, OPTIMIZERS, PARTS, TRANSFORMS, make


@pytest.fixture(scope="module", params=PARTS)
def trial(request: pytest.FixtureRequest) -> Trial:
    return Trial(PARTS[request.param], EXAMPLES.get(request.param))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_operator_conforms(trial: Trial, check: Callable[[Trial], None]) -> None:
    check(trial)


@pytest.mark.parametrize(("transform", "optimizer"), tuple(itertools.product(TRANSFORMS, OPTIMIZERS)))
def test_an_operator_works_with_every_optimizer(transform: str, optimizer: str) -> None:
    trial = Trial(PARTS[transform], EXAMPLES[transform], after=(make(optimizer),))
    shapes_and_dtypes_are_kept(trial)
    finite_input_gives_finite_rows(trial)


def test_the_names_of_operators_are_unique_and_those_of_their_factories() -> None:
    assert [part.name for part in OPERATORS] == [part.make.__name__ for part in OPERATORS]
    assert len(PARTS) == len(OPERATORS)


@pytest.mark.parametrize("part", OPERATORS, ids=lambda part: part.name)
def test_an_operator_is_described(part: object) -> None:
    assert part.summary.endswith(".") or part.summary.endswith(",")
    assert "Source:" in part.make.__doc__
    assert all(option.help for option in describe(part.options))


@pytest.mark.parametrize("part", OPERATORS, ids=lambda part: part.name)
def test_an_operator_bears_its_name_in_messages(part: object) -> None:
    assert make(part.name).name == part.name
