"""The conformance suites over every fold and every update, and over some that break each promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

from tests.cases import costly_after_first
from xpsql.platform.functions import FOLDS, UPDATES, promises
from xpsql.platform.functions.base import Fold, Piece, RowTable, State, Update, plus
from xpsql.platform.operators.base import Context, Rows
from xpsql.platform.options import Part, describe
from xpsql.testing import FOLD_CHECKS, UPDATE_CHECKS, FoldTrial, UpdateTrial

FOLD_OPTIONS: dict[str, dict[str, Any]] = {
    "nearest": {"to": (0.5, -1.0)},
    "dot": {"left": "z", "right": "n"},
    "sum": {"by": "slot"},
}
UPDATE_OPTIONS: dict[str, dict[str, Any]] = {"forget": {"slot": "slot_1"}, "scale": {"factor": 0.5}}


@pytest.mark.parametrize("check", FOLD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FOLDS.names)
def test_a_fold_conforms(name: str, check: Callable[[FoldTrial], None]) -> None:
    part = FOLDS.find(name)
    assert part is not None
    check(FoldTrial(part, part.options(**FOLD_OPTIONS.get(name, {}))))


@costly_after_first
@pytest.mark.parametrize("check", UPDATE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", UPDATES.names)
def test_an_update_conforms(name: str, check: Callable[[UpdateTrial], None]) -> None:
    part = UPDATES.find(name)
    assert part is not None
    check(UpdateTrial(part, part.options(**UPDATE_OPTIONS.get(name, {}))))


@pytest.mark.parametrize("part", [*FOLDS, *UPDATES], ids=lambda part: part.name)
def test_a_function_is_described(part: Part[Any, Any]) -> None:
    assert part.summary.endswith((".", ",", ":"))
    assert all(option.help for option in describe(part.options))


@dataclass(frozen=True)
class NoOptions:
    """None."""


def fold_of(**changed: Any) -> Part[Any, Fold]:
    """Return a fold that counts rows, but for some of its promises."""

    def add(state: State, piece: Piece) -> State:
        return {"rows": state["rows"] + len(piece["key"])}

    def make(options: Any, table: RowTable) -> Fold:
        honest = Fold({"rows": np.zeros(1)}, add, plus, lambda state: pa.table({"rows": state["rows"]}))
        return honest._replace(**changed)

    return Part("broken", NoOptions, make)


def later(one: State, other: State) -> State:
    return other


def halved(one: State, other: State) -> State:
    return {"rows": (one["rows"] + other["rows"]) / 2}


def in_place(state: State, piece: Piece) -> State:
    state["rows"][:] += len(piece["key"])
    return state


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"merge": halved}, promises.merge_is_associative),
        ({"merge": later}, promises.merge_is_commutative),
        ({"merge": halved}, promises.zero_changes_nothing),
        ({"add": lambda state, piece: {"rows": np.array([len(piece["key"]) * 1.0])}}, promises.rows_may_be_cut_anyhow),
        ({"add": lambda state, piece: {"rows": state["rows"] + piece["w"][:1, 0]}}, promises.rows_may_come_in_any_order),
        ({"add": lambda state, piece: {"rows": state["rows"] + 1}}, promises.no_rows_change_nothing),
        ({"add": lambda state, piece: {"rows": np.zeros(2)}}, promises.states_keep_their_shapes_and_types),
        ({"add": in_place}, promises.what_is_given_stays_as_it_is),
        ({"add": lambda state, piece: {"rows": state["rows"] + piece["w"].sum()}}, promises.results_are_rows),
    ],
)
def test_a_fold_that_breaks_a_promise_is_found(changed: dict[str, Any], check: Callable[[FoldTrial], None]) -> None:
    with pytest.raises((AssertionError, IndexError, ValueError)):
        check(FoldTrial(fold_of(**changed)))


def update_of(update: Callable[[Rows, Context], Rows]) -> Part[Any, Update]:
    return Part("broken", NoOptions, lambda options, table: Update(update))


def centred(rows: Rows, context: Context) -> Rows:
    return {**rows, "w": rows["w"] - rows["w"].mean(0)}


def by_place(rows: Rows, context: Context) -> Rows:
    return {**rows, "w": rows["w"] + jnp.arange(len(rows["w"]))[:, None]}


def smallest(rows: Rows, context: Context) -> Rows:
    return {**rows, "w": rows["w"] - rows["w"].min()}


def counting(rows: Rows, context: Context) -> Rows:
    return {**rows, "count": rows["count"] + 1}


def narrowed(rows: Rows, context: Context) -> Rows:
    return {**rows, "w": rows["w"][:, :1]}


@pytest.mark.parametrize(
    ("update", "check"),
    [
        (centred, promises.a_row_depends_on_itself_alone),
        (by_place, promises.a_row_depends_on_itself_alone),
        (smallest, promises.padding_stays_outside),
        (centred, promises.nan_stays_where_it_is),
        (counting, promises.statistics_are_only_read),
        (narrowed, promises.columns_keep_their_shapes_and_types),
    ],
)
def test_an_update_that_breaks_a_promise_is_found(
    update: Callable[[Rows, Context], Rows], check: Callable[[UpdateTrial], None]
) -> None:
    with pytest.raises(AssertionError):
        check(UpdateTrial(update_of(update)))


def test_an_update_that_remembers_is_found() -> None:
    calls: list[jax.Array] = []

    def grows(rows: Rows, context: Context) -> Rows:
        calls.append(rows["w"])
        return {**rows, "w": rows["w"] * len(calls)}

    with pytest.raises(AssertionError):
        promises.compiled_it_does_the_same(UpdateTrial(update_of(grows)))
