"""Operators on dense parameters, and on some tables: ON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import optax
import pytest
from numpy.typing import NDArray

import xpsql
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.operators.base import DenseSpec, Operator, TableSpec
from xpsql.platform.operators.decay import DecayOptions, decay
from xpsql.platform.operators.regularize import RegularizeOptions, regularize
from xpsql.platform.operators.safety import SafetyOptions, safety
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.dense import DenseProgram, ShardDense
from xpsql.warehouse.dense import read_dense

LOG = """
SELECT concat('u', id % 50) AS user, concat('i', id * 7 % 30) AS item, CAST((id % 50 + id * 7 % 30) % 3 = 0 AS INT) AS label,
    CASE WHEN id BETWEEN 1000 AND 1005 THEN 3e38D ELSE 1D END AS importance, id AS ts
FROM range(3000)
"""
QUERY = "SELECT user, item, label FROM log"
XNN = "xnn (dim = 4, hidden = 8)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        yield session


def train(session: xpsql.Session, use: str, operators: str) -> None:
    chain = f"OPERATORS ({operators})" if operators else ""
    session.sql(f"TRAIN OR REPLACE MODEL m USING {use} {chain} AS {QUERY}")


def explode(session: xpsql.Session, operators: str) -> None:
    chain = f"OPERATORS ({operators})" if operators else ""
    query = "SELECT user, item, label, importance FROM log"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {XNN} WEIGHT importance {chain} AS {query}")


def dense_of(session: xpsql.Session) -> dict[str, NDArray[np.float32]]:
    stored = read_dense(session.models.version("m").stored("dense"))
    return {name: values for (name, column), values in stored.items() if column == "w"}


def rows(session: xpsql.Session, table: str) -> list[dict[str, Any]]:
    query = f"SELECT key, weights FROM ML.WEIGHTS(MODEL m) WHERE `table` = '{table}' AND slot <> '(intercept)' ORDER BY key"
    return list(session.sql(query).arrow().to_pylist())


def test_layers_stay_finite_on_a_batch_whose_gradients_explode(session: xpsql.Session) -> None:
    with pytest.raises(TrainingError, match="NaN"):
        explode(session, "")
    explode(session, "safety, adagrad")
    layers = dense_of(session)
    assert layers
    assert all(np.isfinite(values).all() for values in layers.values())
    (found,) = session.sql("SELECT auc FROM ML.EVALUATE(MODEL m, TABLE log)").arrow().to_pylist()
    assert found["auc"] > 0.6, "what it learned from the other batches is there"


def test_a_training_whose_safety_fails_names_the_parameter(session: xpsql.Session) -> None:
    with pytest.raises(TrainingError, match=r"dense parameter .* is beyond the limits of safety, which is set to fail"):
        train(session, XNN, "safety (max_gradient = 1e-9, on_violation = 'fail') ON dense")


def test_regularize_reaches_layers_and_what_on_names(session: xpsql.Session) -> None:
    strong = "regularize (penalty = 'l1', strength = 1.0)"
    train(session, XNN, f"{strong} ON dense, adagrad")
    assert not any(values.any() for values in dense_of(session).values())
    assert any(any(row["weights"]) for row in rows(session, "vectors"))
    train(session, XNN, f"{strong} ON vectors, adagrad")
    assert any(values.any() for values in dense_of(session).values())
    assert not any(any(row["weights"]) for row in rows(session, "vectors"))
    assert any(any(row["weights"]) for row in rows(session, "weights"))


def test_an_optimizer_of_some_tables_leaves_the_algorithms_own_to_the_others(session: xpsql.Session) -> None:
    train(session, "fm (dim = 2)", "")
    before = rows(session, "weights"), rows(session, "vectors")
    train(session, "fm (dim = 2)", "sgd (learning_rate = 1e-30) ON vectors")
    kept = rows(session, "vectors")
    train(session, "fm (dim = 2)", "sgd (learning_rate = 1e-30)")
    assert max(abs(row["weights"][0]) for row in rows(session, "weights")) < 1e-20
    assert max(abs(row["weights"][0]) for row in before[0]) > 0.01
    assert before[1] != kept == rows(session, "vectors"), "vectors stay as they begin"


def test_on_is_stored_with_the_model_and_goes_on(session: xpsql.Session) -> None:
    train(session, XNN, "safety, regularize (strength = 0.01) ON vectors, decay (w = 0.99) ON (weights, dense), adagrad")
    session.sql(f"CONTINUE MODEL m AS {QUERY}")
    told = {row["property"]: row["value"] for row in session.sql("DESCRIBE MODEL m").arrow().to_pylist()}
    assert told["operator 1"] == "safety"
    assert told["operator 2"] == "regularize(strength = 0.01) ON vectors"
    assert told["operator 3"] == "decay(w = 0.99) ON (weights, dense)"
    options = session.sql("SELECT part, value FROM ML.OPTIONS(MODEL m) WHERE option = 'ON'").arrow().to_pylist()
    assert options == [{"part": "regularize", "value": "('vectors')"}, {"part": "decay", "value": "('weights', 'dense')"}]


@pytest.mark.parametrize(
    ("use", "operators", "place", "words"),
    [
        (XNN, "safety, regularize ON vektors, adagrad", "regularize", "to act on vektors, which .* Did you mean vectors"),
        ("xftrl", "safety ON dense, ftrl", "safety", "to act on dense, which the algorithm does not have. Valid: weights"),
        (XNN, "adagrad ON dense", "adagrad", "to act on dense, which has the algorithm's optimizer"),
        (XNN, "decay (w = 0.9, half_life = '1 day') ON dense, adagrad", "decay", "has no rows of features"),
        (XNN, "admit (min_count = 2) ON vectors, adagrad", "admit", "speaks for a feature"),
    ],
)
def test_what_an_operator_cannot_act_on_is_refused_with_its_place(
    session: xpsql.Session, use: str, operators: str, place: str, words: str
) -> None:
    with pytest.raises(StatementError, match=words) as refused:
        session.sql(f"TRAIN MODEL no USING {use} TIME ts IGNORE (importance) OPERATORS ({operators}) AS SELECT * FROM log")
    assert refused.value.position is not None
    assert refused.value.position.text == place


SPEC = DenseSpec("kernel", (3, 2), lambda seed: np.full((3, 2), 2.0, np.float32))


def shard(*operators: Operator) -> ShardDense:
    return DenseProgram((SPEC,), optax.adam(0.1), 7, lambda table: operators).part(0, 1)


def kernel(part: ShardDense) -> NDArray[np.float32]:
    return np.asarray(part.pull()["kernel"])


def test_a_line_that_is_refused_keeps_its_values_and_its_optimizers_state() -> None:
    part, plain = shard(safety(SafetyOptions(), TableSpec("kernel", 2))), shard()
    good = np.ones((3, 2), np.float32)
    bad = good.copy()
    bad[1, 0] = np.nan
    for one in (part, plain):
        one.push({"kernel": good})
    before = {array.column: np.array(array.values) for array in part.arrays()}
    assert part.push({"kernel": bad}) == {"violations": 1.0, "refused": 1.0}
    plain.push({"kernel": good})
    after = {array.column: np.array(array.values) for array in part.arrays()}
    for column in ("state_mu", "state_nu", "w"):
        np.testing.assert_array_equal(after[column][1], before[column][1])
    np.testing.assert_allclose(kernel(part)[[0, 2]], kernel(plain)[[0, 2]], rtol=1e-6)


def test_decay_and_regularize_follow_the_optimizer() -> None:
    both = shard(
        decay(DecayOptions(w=0.5), TableSpec("kernel", 2)), regularize(RegularizeOptions("l2", 1.0), TableSpec("kernel", 2))
    )
    assert both.push({"kernel": np.zeros((3, 2), np.float32)}) == {}
    np.testing.assert_allclose(kernel(both), 2.0 / 2 * 0.5)


def test_limits_hold_for_each_element() -> None:
    part = shard(safety(SafetyOptions(max_update=0.01), TableSpec("kernel", 2)))
    assert part.push({"kernel": np.ones((3, 2), np.float32)})["violations"] == 3.0
    np.testing.assert_allclose(kernel(part), 1.99, rtol=1e-6)
