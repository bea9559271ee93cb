"""Operators on dense parameters, and on some tables: ON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import optax
import pytest
from numpy.typing import NDArray

import xpsql
from tests.cases import costly, lengthy
from tests.ps.serving import HOST, SECRET
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.operators.base import DenseSpec, Operator, TableSpec
from xpsql.platform.operators.decay import DecayOptions, decay
from xpsql.platform.operators.delay_compensation import DelayCompensationOptions, delay_compensation
from xpsql.platform.operators.gradient_average import GradientAverageOptions, gradient_average
from xpsql.platform.operators.regularize import RegularizeOptions, regularize
from xpsql.platform.operators.safety import SafetyOptions, safety
from xpsql.platform.operators.sgd import SgdOptions, sgd
from xpsql.platform.operators.staleness_discount import StalenessDiscountOptions, staleness_discount
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram, ShardDense
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import Push, Touched
from xpsql.platform.ps.remote import RemoteClient
from xpsql.platform.ps.service import shard_handlers
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.transport.server import Server
from xpsql.warehouse.dense import read_dense

LOG = """
SELECT concat('u', id % 50) AS user, concat('i', id * 7 % 30) AS item, CAST((id % 50 + id * 7 % 30) % 3 = 0 AS INT) AS label,
    CASE WHEN id BETWEEN 1000 AND 1060 THEN 3e38D ELSE 1D END AS importance, id AS ts
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


@lengthy
def test_layers_stay_finite_on_a_batch_whose_gradients_explode(session: xpsql.Session) -> None:
    with pytest.raises(TrainingError, match=r"NaN.*OPERATORS \(safety\) refuses such updates"):
        explode(session, "")
    with pytest.raises(TrainingError, match="NaN") as with_safety:
        explode(session, "safety ON (weights, vectors), adagrad")
    assert "OPERATORS" not in str(with_safety.value), "safety is on already"
    explode(session, "safety, adagrad")
    layers = dense_of(session)
    assert layers
    assert all(np.isfinite(values).all() for values in layers.values())
    (found,) = session.sql("SELECT auc FROM ML.EVALUATE(MODEL m, TABLE log)").arrow().to_pylist()
    assert found["auc"] > 0.6, "what it learned from the other batches is there"


def test_a_training_whose_safety_fails_names_the_parameter(session: xpsql.Session) -> None:
    with pytest.raises(TrainingError, match=r"dense parameter .* is beyond the limits of safety, which is set to fail"):
        train(session, XNN, "safety (max_gradient = 1e-9, on_violation = 'fail') ON dense")


@costly
def test_regularize_reaches_layers_and_what_on_names(session: xpsql.Session) -> None:
    strong = "regularize (penalty = 'l1', strength = 1.0)"
    train(session, XNN, f"{strong} ON dense, adagrad")
    assert not any(values.any() for values in dense_of(session).values())
    assert any(any(row["weights"]) for row in rows(session, "vectors"))
    train(session, XNN, f"{strong} ON vectors, adagrad")
    assert any(values.any() for values in dense_of(session).values())
    assert not any(any(row["weights"]) for row in rows(session, "vectors"))
    assert any(any(row["weights"]) for row in rows(session, "weights"))


@costly
def test_an_optimizer_of_some_tables_leaves_the_algorithms_own_to_the_others(session: xpsql.Session) -> None:
    train(session, "fm (dim = 2)", "")
    before = rows(session, "weights"), rows(session, "vectors")
    train(session, "fm (dim = 2)", "sgd (learning_rate = 1e-30) ON vectors")
    kept = rows(session, "vectors")
    train(session, "fm (dim = 2)", "sgd (learning_rate = 1e-30)")
    assert max(abs(row["weights"][0]) for row in rows(session, "weights")) < 1e-20
    assert max(abs(row["weights"][0]) for row in before[0]) > 0.01
    assert before[1] != kept == rows(session, "vectors"), "vectors stay as they begin"


STALENESS = "staleness_discount, delay_compensation, gradient_average (by = 'count'), decay (half_life = '1000 seconds')"


@costly
def test_layers_under_every_operator_learn_continue_and_are_the_same_on_two_shards(session: xpsql.Session) -> None:
    """With two shards, where one worker's pushes are none of them stale."""
    found = []
    for shards in (1, 2):
        settings = f"WITH (shards = {shards}, batch_size = 500)"
        query = "SELECT user, item, label, ts FROM log"
        session.sql(f"TRAIN OR REPLACE MODEL m USING {XNN} TIME ts OPERATORS ({STALENESS}, adagrad) {settings} AS {query}")
        session.sql(f"CONTINUE MODEL m {settings} AS {query}")
        found.append(dense_of(session))
        stored = read_dense(session.models.version("m").stored("dense"))
        assert {float(values) for (_, column), values in stored.items() if column == "updates"} == {12.0}
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name])
        assert np.isfinite(values).all()


@costly
def test_on_is_stored_with_the_model_and_goes_on(session: xpsql.Session) -> None:
    train(session, XNN, "safety, regularize (strength = 0.01) ON vectors, decay (w = 0.99) ON (weights, dense), adagrad")
    session.sql(f"CONTINUE MODEL m AS {QUERY}")
    reported = {row["property"]: row["value"] for row in session.sql("DESCRIBE MODEL m").arrow().to_pylist()}
    assert reported["operator 1"] == "safety"
    assert reported["operator 2"] == "regularize(strength = 0.01) ON vectors"
    assert reported["operator 3"] == "decay(w = 0.99) ON (weights, dense)"
    options = session.sql("SELECT part, value FROM ML.OPTIONS(MODEL m) WHERE option = 'ON'").arrow().to_pylist()
    assert options == [{"part": "regularize", "value": "('vectors')"}, {"part": "decay", "value": "('weights', 'dense')"}]


@pytest.mark.parametrize(
    ("use", "operators", "place", "words"),
    [
        (XNN, "safety, regularize ON vektors, adagrad", "regularize", "to act on vektors, which .* Did you mean vectors"),
        ("xftrl", "safety ON dense, ftrl", "safety", "to act on dense, which the algorithm does not have. Valid: weights"),
        (XNN, "adagrad ON dense", "adagrad", "to act on dense, which has the algorithm's optimizer"),
        (XNN, "decay (n = 0.9) ON dense, adagrad", "decay", "has no rows of features"),
        (XNN, "admit (min_count = 2) ON vectors, adagrad", "admit", "acts on a feature"),
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


def moved(part: ShardDense, gradient: float, now: int = 0, seen: int = 0, pulled: float = 2.0) -> float:
    """Push one gradient for all elements, and return by how much they moved."""
    before, shape = kernel(part), (3, 2)
    arrays = {"kernel": np.full(shape, gradient, np.float32)}, {"kernel": np.full(shape, pulled, np.float32)}
    part.push(arrays[0], now, {"kernel": seen}, arrays[1])
    (step,) = set((kernel(part) - before).ravel().tolist())
    return float(step)


LINES = TableSpec("kernel", 2, dense=True)
STALE = staleness_discount(StalenessDiscountOptions(rate=1.0), LINES)


def test_a_gradient_of_layers_is_discounted_by_the_updates_that_it_missed() -> None:
    part = DenseProgram((SPEC,), optax.sgd(1.0), 7, lambda table: (STALE,)).part(0, 1)
    assert moved(part, 1.0, seen=part.updates()["kernel"]) == -1.0
    assert moved(part, 1.0, seen=0) == -0.5
    assert moved(part, 1.0, seen=0) == pytest.approx(-1 / 3)
    assert moved(part, 1.0, seen=part.updates()["kernel"]) == -1.0


def test_a_gradient_of_layers_is_corrected_for_how_they_moved() -> None:
    operator = delay_compensation(DelayCompensationOptions(lambda_=0.5), LINES)
    program = DenseProgram((SPEC,), optax.sgd(1.0), 7, lambda table: (operator,))
    part = program.part(0, 1)
    assert part.pulled == ["kernel"]
    assert part.dated == []
    assert moved(part, 0.5, pulled=2.0) == -0.5
    assert moved(part, 0.5, pulled=2.0) == pytest.approx(-(0.5 + 0.5 * 0.25 * -0.5))


def test_layers_are_halved_with_time_and_slow_down_with_their_updates_and_go_on_so() -> None:
    operators = (
        gradient_average(GradientAverageOptions(mode="sqrt", by="count"), LINES),
        decay(DecayOptions(half_life="100 seconds"), LINES),
    )
    program = DenseProgram((SPEC,), optax.sgd(1.0), 7, lambda table: operators)
    part = program.part(0, 1)
    assert moved(part, 1.0, now=1_000_000_001) == -1.0
    assert moved(part, 0.0, now=1_000_000_101) == -0.5, "of 1.0 half is left"
    checkpoint = {(array.name, array.column): np.array(array.values) for array in part.arrays()}
    version = {(array.name, array.column): np.array(array.values) for array in part.dump()}
    for stored in (checkpoint, version):
        again = program.part(0, 1)
        again.load(stored, 1_000_000_101)
        assert moved(again, 1.0, now=1_000_000_201) == pytest.approx(-0.25 - 3**-0.5)


def test_what_was_pulled_of_layers_comes_with_a_push_to_shards_behind_servers() -> None:
    """Layers on two shards, of which a push brings to each what it asks for, and no less."""
    specs = [DenseSpec(name, (2, 2)) for name in ("first", "second")]
    chain = [STALE, delay_compensation(DelayCompensationOptions(), LINES)]
    dense = DenseProgram(specs, optax.sgd(1.0), 7, lambda table: chain)
    weights = Programs(TableSpec("weights", 1), sgd(SgdOptions(), TableSpec("weights", 1)), 7)
    shards = [Shard(tables_of([weights], Store), dense.part(number, 2), str) for number in range(2)]
    none = np.empty(0, np.uint32)
    touched = Touched(np.empty(0, np.uint64), np.empty(0, np.uint16), none, none, 0)
    with ExitStack() as stack:
        servers = [stack.enter_context(Server("shard", shard_handlers(shard), SECRET, HOST)) for shard in shards]
        client = stack.enter_context(RemoteClient([server.address for server in servers], SECRET))
        pulled = client.pull(touched.keys, 64)
        assert pulled.dense_updates == {"first": 0, "second": 0}
        ones = {name: np.ones((2, 2), np.float32) for name in ("first", "second")}
        gradients = {"weights": np.zeros((64, 1), np.float32)}
        push = Push(touched, {}, gradients, {}, ones, dense_updates=pulled.dense_updates, dense_weights=pulled.dense)
        client.push(push)
        client.push(push)
        left = client.pull(touched.keys, 64)
        assert left.dense_updates == {"first": 2, "second": 2}
        for values in left.dense.values():
            np.testing.assert_allclose(values, -1 - (0.5 - 0.04 * 0.25), rtol=1e-5)
        with pytest.raises(TrainingError, match="dense parameters as pulled"):
            client.push(push._replace(dense_weights={}))


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
