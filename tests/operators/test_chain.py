"""Composition: what a chain refuses, and the order in which it runs its operators."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.operators.examples import make
from xpsql.platform.operators.base import Column, Context, Operator, Rows, push
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.decay import DecayOptions
from xpsql.platform.operators.safety import SafetyOptions
from xpsql.testing.operators import SIZE, context, keys, new_rows


def test_a_chain_without_an_optimizer_at_its_end_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"ends with an optimizer.*this one is: ftrl, decay.*put it before"):
        chain(make("ftrl"), make("decay"))


def test_an_empty_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="this one is: nothing"):
        chain()


def test_an_optimizer_before_the_end_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="one optimizer, at its end; adam comes before the end of: adam, ftrl"):
        chain(make("adam"), make("ftrl"))


def test_operators_that_keep_the_same_column_are_refused() -> None:
    with pytest.raises(ValueError, match="ftrl keeps the column 'z', as one before it does"):
        chain(Operator({"z": Column(1)}, name="other"), make("ftrl"))
    with pytest.raises(ValueError, match=r"recent keeps the column 'recent_shows', .* name such an operator once"):
        chain(make("recent"), make("recent"), make("ftrl"))


def test_operators_that_offer_the_same_are_refused() -> None:
    one, other = (Operator({}, name=name, offers=("ctr",)) for name in ("one", "other"))
    with pytest.raises(ValueError, match="one and other both offer ctr: name such an operator once"):
        chain(one, other, make("ftrl"))


def test_operators_that_count_in_one_column_declare_it_alike() -> None:
    chain(make("safety", SafetyOptions(max_weight=1.0)), make("safety", SafetyOptions(max_gradient=1.0)), make("ftrl"))
    wide, narrow = (Operator({"violations": Column(dim, transient=True)}, name=f"of_{dim}") for dim in (2, 1))
    with pytest.raises(ValueError, match="of_1 declares the column 'violations' differently"):
        chain(wide, narrow, make("ftrl"))


def test_decay_of_a_column_that_the_optimizer_does_not_keep_is_refused() -> None:
    with pytest.raises(ValueError, match="decay changes the column 'z', which adam does not keep"):
        chain(make("decay", DecayOptions(z=0.5)), make("adam"))


@pytest.mark.parametrize("halves", [("w",), ("n",)])
def test_a_chain_needs_time_where_one_of_its_operators_does(halves: tuple[str, ...]) -> None:
    assert chain(make("decay", DecayOptions(half_life="1 day", halves=halves)), make("ftrl")).needs_time
    assert not chain(make("decay", DecayOptions(w=0.5)), make("ftrl")).needs_time


def test_operators_run_before_in_order_and_after_in_reverse_and_read_behind_the_optimizer() -> None:
    calls: list[str] = []
    run = chain(recorder("a", calls), recorder("b", calls), recorder("end", calls)._replace(optimizer=True))
    push(run, new_rows(run, keys(SIZE)), np.zeros((SIZE, 2), np.float32), context(SIZE))
    assert calls == [
        *("end reads", "a reads", "b reads"),
        *("a before", "b before", "end before"),
        *("end after", "b after", "a after"),
    ]


@pytest.mark.parametrize(("name", "column"), [("auto_session", "session_shows"), ("recent", "recent_shows")])
def test_what_an_operator_counts_of_examples_is_counted_although_another_refuses_the_update(name: str, column: str) -> None:
    composed = chain(make("safety", SafetyOptions(max_gradient=0.1, on_violation="skip")), make(name), make("ftrl"))
    rows = new_rows(composed, keys(SIZE))
    stored, report = push(composed, rows, np.ones((SIZE, 2), np.float32), context(SIZE))
    np.testing.assert_array_equal(report["refused"], 1)
    np.testing.assert_allclose(stored["z"], rows["z"], rtol=1e-6)
    assert (np.asarray(stored[column]) > 0.9).all()


def test_a_chain_within_a_chain_equals_the_flat_chain() -> None:
    average, discount, decay, ftrl = (make(n) for n in ("gradient_average", "staleness_discount", "decay", "ftrl"))
    flat, nested = chain(average, discount, decay, ftrl), chain(average, chain(discount, chain(decay, ftrl)))
    gradients = np.linspace(-1, 1, SIZE * 2, dtype=np.float32).reshape(SIZE, 2)
    rows = new_rows(flat, keys(SIZE))
    expected, _ = push(flat, rows, gradients, context(SIZE))
    found, _ = push(nested, rows, gradients, context(SIZE))
    for name in ("z", "n"):
        np.testing.assert_array_equal(found[name], expected[name])


def recorder(name: str, calls: list[str]) -> Operator:
    """Return an operator that notes when it runs."""

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        calls.append(f"{name} before")
        return gradients, rows

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        calls.append(f"{name} after")
        return new

    def read(rows: Rows, context: Context) -> Rows:
        calls.append(f"{name} reads")
        return rows

    return Operator({}, before, after, read, name=name)
