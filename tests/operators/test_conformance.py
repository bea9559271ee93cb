"""The conformance suite over every operator, alone and chained with every other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from tests.cases import lengthy
from tests.operators.examples import EXAMPLES, PARTS, make
from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.base import Column, Context, Operator, Rows, TableSpec
from xpsql.platform.options import Part, describe
from xpsql.testing import operators
from xpsql.testing.operators import OPERATOR_CHECKS, OperatorTrial


@pytest.fixture(scope="module", params=PARTS)
def trial(request: pytest.FixtureRequest) -> OperatorTrial:
    return OperatorTrial(PARTS[request.param], EXAMPLES.get(request.param))


@lengthy
@pytest.mark.parametrize("check", OPERATOR_CHECKS, ids=lambda check: check.__name__)
def test_an_operator_conforms(trial: OperatorTrial, check: Callable[[OperatorTrial], None]) -> None:
    check(trial)


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


def mixes_rows(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
    return gradients - gradients.mean(0), rows


def makes_infinity(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
    return gradients / 0, rows


def widens_a_column(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
    return gradients, {**rows, "sum": jnp.concatenate([gradients, gradients], 1)}


@pytest.mark.parametrize(
    ("before", "check"),
    [
        (mixes_rows, operators.padding_changes_nothing),
        (mixes_rows, operators.one_row_is_enough),
        (mixes_rows, operators.nan_stays_in_its_row),
        (makes_infinity, operators.finite_input_gives_finite_rows),
        (widens_a_column, operators.shapes_and_dtypes_are_kept),
    ],
)
def test_the_suite_finds_a_wrong_operator(before: Callable[..., object], check: Callable[[OperatorTrial], None]) -> None:
    def wrong(options: object, table: TableSpec) -> Operator:
        return Operator({"sum": Column(1)}, before)  # type: ignore[arg-type]

    trial = OperatorTrial(Part("wrong", EmptyOptions, wrong))
    with pytest.raises(AssertionError):
        check(trial)


def test_the_suite_finds_an_operator_that_remembers_outside_its_columns() -> None:
    calls: list[int] = []

    def remember(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        calls.append(1)
        return gradients * len(calls), rows

    def wrong(options: object, table: TableSpec) -> Operator:
        return Operator({}, remember)

    with pytest.raises(AssertionError, match="jit gives another result"):
        operators.jit_changes_nothing(OperatorTrial(Part("wrong", EmptyOptions, wrong)))


@dataclasses.dataclass(frozen=True)
class EmptyOptions:
    """No options."""
