"""Adam whose rows move in every update of their table, held to Adam over the table as one array."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import xpsql
from tests.cases import costly, lengthy
from xpsql.platform.operators.adam import ADAM, AdamOptions, adam
from xpsql.platform.operators.base import Context, Operator, TableSpec, updated
from xpsql.testing.operators import OPERATOR_CHECKS, OperatorTrial, context, new_rows
from xpsql.warehouse.rows import read_rows, stored_parts

ROWS, DIM, SIZE, RATE = 40, 4, 100.0, 0.01
KEYS = np.arange(ROWS * 2, dtype=np.uint32).reshape(-1, 2)


def pushed(step: int) -> Context:
    return context(ROWS)._replace(examples=jnp.float32(SIZE * step), pushed=jnp.float32(SIZE))


def started(operator: Operator) -> dict[str, jax.Array]:
    return {name: jnp.asarray(values) for name, values in new_rows(operator, KEYS).items()}


@lengthy
@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_rows_move_as_those_of_one_array_do(l2: float) -> None:
    random = np.random.default_rng(3)
    operator = adam(AdamOptions(learning_rate=RATE, whole=True, l2=l2), TableSpec("vectors", DIM))
    start = random.normal(size=(ROWS, DIM)).astype(np.float32) / 5
    rows = started(operator) | {"w": jnp.asarray(start)}
    array, transform = jnp.asarray(start), optax.adam(RATE)
    state, often = transform.init(array), 1 / (1 + np.arange(ROWS) % 12)
    push = jax.jit(lambda rows, gradients, given: updated(operator, rows, gradients, given))
    for step in range(1, 121):
        has = random.random(ROWS) < (1.0 if step == 1 else often)
        gradients = jnp.asarray(np.where(has[:, None], random.normal(size=(ROWS, DIM)) + start, 0), jnp.float32)
        updates, state = transform.update(gradients + l2 * array, state, array)
        array = array + updates
        new = push(rows, gradients, pushed(step))
        rows = {name: jnp.where(has[:, None] if new[name].ndim == 2 else has, new[name], rows[name]) for name in rows}
    pulled = operator.read(rows, pushed(120)._replace(pushed=jnp.float32(0)))
    moved = np.abs(np.asarray(array) - start).mean()
    assert np.abs(np.asarray(pulled["w"]) - np.asarray(array)).mean() < 0.03 * moved
    lazy = adam(AdamOptions(learning_rate=RATE), TableSpec("vectors", DIM))
    assert "adam_idle" not in lazy.columns


def test_a_row_that_is_in_each_update_moves_as_it_does_otherwise() -> None:
    whole, alone = (adam(AdamOptions(whole=one), TableSpec("vectors", DIM)) for one in (True, False))
    found = []
    for operator in (whole, alone):
        rows, random = started(operator), np.random.default_rng(5)
        for step in range(1, 9):
            gradients = jnp.asarray(random.normal(size=(ROWS, DIM)), jnp.float32)
            rows = dict(updated(operator, rows, gradients, pushed(step)))
        found.append(np.asarray(rows["w"]))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-7)


@costly
@pytest.mark.parametrize("check", OPERATOR_CHECKS, ids=lambda check: check.__name__)
def test_it_conforms(check: Callable[[OperatorTrial], None]) -> None:
    check(OperatorTrial(ADAM, AdamOptions(whole=True, l2=0.1)))


@costly
@pytest.mark.parametrize("rows_on", ["host", "device"])
def test_what_a_version_keeps_is_what_a_pull_sees(tmp_path: Path, rows_on: str) -> None:
    log = "SELECT id % 2 AS label, id % 7 AS often, CAST(id / 500 AS INT) AS seldom FROM range(2000)"
    with xpsql.connect(tmp_path) as session:
        session.sql(
            "TRAIN MODEL m USING fm (dim = 2) OPERATORS (adam (whole = true, l2 = 1) ON vectors) "
            f"WITH (workers = 1, batch_size = 100, passes = 3, rows_on = '{rows_on}') AS {log}"
        )
    (kept,) = (tmp_path / "models" / "m" / "v1").glob("*/vectors")
    batches = list(read_rows(stored_parts(kept), ["adam_idle"], None))
    moved = {float(np.frombuffer(idle, np.float32)[0]) for batch in batches for idle in batch["adam_idle"].to_pylist()}
    assert moved == {6000.0}, "all rows are brought up to the last update, of three passes"
