"""Several labels: the network against loops of numpy, chains of probabilities, and a funnel where the chain helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.algorithms.inputs import BATCH, LAYOUT, NUM_ROWS, random_inputs
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import session, write
from xpsql.algorithms.linear.scores import wide_scores
from xpsql.algorithms.networks.deep import network_inputs
from xpsql.algorithms.networks.multi_task import MULTI_TASK, MultiTaskOptions, along, multi_task
from xpsql.platform.errors import DataError, OptionError, StatementError
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial, algorithms

__all__ = ["session"]

TWO = LAYOUT._replace(labels=("click", "buy"))
SMALL: dict[str, Any] = {"dim": 3, "hidden": (5,), "expert_hidden": (4, 6), "experts": 2, "own_experts": 2}


@pytest.fixture
def engine() -> str:
    """The embedded engine; tests/algorithms/test_spark.py has every algorithm on the other."""
    return "duckdb"


@pytest.fixture(scope="module")
def trial() -> AlgorithmTrial:
    options = MultiTaskOptions(**SMALL, base="ple", levels=2, chain=True, task_weights=(1, 0.5))
    return AlgorithmTrial(MULTI_TASK, options, algorithms.LAYOUT._replace(labels=("click", "buy")))


@costly_after_first
@pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
def test_a_chain_over_levels_of_experts_conforms(trial: AlgorithmTrial, check: Callable[[AlgorithmTrial], None]) -> None:
    check(trial)


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def softmax(x: Any) -> Any:
    grown = np.exp(x - x.max())
    return grown / grown.sum()


def layers(values: dict[str, Any], name: str, at: int, x: Any, count: int, last: bool) -> Any:
    """Return what one of several networks side by side makes of an example."""
    number = 1
    while f"{name}.{number}.kernel" in values:
        kernel = values[f"{name}.{number}.kernel"]
        own = kernel.reshape(len(kernel), count, -1)[:, at] if kernel.ndim == 2 else kernel[at]
        x = x @ own + values[f"{name}.{number}.bias"][at]
        number += 1
        if not last or f"{name}.{number}.kernel" in values:
            x = relu(x)
    return x


def mixed(values: dict[str, Any], level: int, own: int, of_labels: list[Any], shared_input: Any, shared: int) -> Any:
    """Return what each label and the next level's shared experts see of an example."""
    count, name = 2 * own + shared, f"level_{level}"
    inputs = [of_labels[label] for label in range(2) for _ in range(own)] + [shared_input] * shared
    made = [layers(values, f"{name}.experts", at, x, count, False) for at, x in enumerate(inputs)]
    seen = []
    for label in range(2):
        weights = softmax(layers(values, f"{name}.gates", label, of_labels[label], 2, True))
        mine = made[label * own : (label + 1) * own] + made[2 * own :]
        seen.append(sum(w * x for w, x in zip(weights, mine, strict=True)))
    if f"{name}.shared_gate.1.kernel" not in values:
        return seen, None
    weights = softmax(layers(values, f"{name}.shared_gate", 0, shared_input, 1, True))
    return seen, sum(w * x for w, x in zip(weights, made, strict=True))


@lengthy
@pytest.mark.parametrize(("base", "levels", "own"), [("shared", 0, 0), ("mmoe", 1, 0), ("ple", 1, 2), ("ple", 3, 2)])
def test_scores_are_those_of_plain_loops(base: str, levels: int, own: int) -> None:
    options = MultiTaskOptions(**SMALL, base=base, levels=max(levels, 1))
    made, random = multi_task(options, TWO), np.random.default_rng(3)
    shapes = {table.name: (NUM_ROWS, table.dim) for table in made.tables} | {s.name: s.shape for s in made.dense}
    values = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    inputs = random_inputs()
    found = made.scores({name: jnp.asarray(v) for name, v in values.items()}, inputs)
    whole = np.asarray(network_inputs({"vectors": jnp.asarray(values["vectors"])}, inputs, TWO).whole())
    wide = np.asarray(wide_scores(jnp.asarray(values["weights"]), inputs, TWO))
    for example in range(BATCH):
        seen, shared = [whole[example]] * 2, whole[example]
        for level in range(1, levels + 1):
            seen, shared = mixed(values, level, own, seen, shared, options.experts)
        towers = [layers(values, "towers", label, seen[label], 2, True)[0] for label in range(2)]
        np.testing.assert_allclose(found[example], wide[example] + towers, rtol=2e-3, atol=2e-3)


def test_the_score_of_a_chain_is_the_log_odds_of_the_product() -> None:
    own = np.array([[0.3, -1.2, 2.0], [-5.0, 4.0, 0.0], [7.0, 7.0, 7.0]])
    chance = np.cumprod(1 / (1 + np.exp(-own)), axis=1)
    np.testing.assert_allclose(along(jnp.asarray(own, jnp.float32)), np.log(chance) - np.log1p(-chance), rtol=1e-4)


def test_a_chain_of_improbable_labels_has_a_score_and_a_gradient() -> None:
    own = jnp.array([[-80.0, -90.0], [90.0, 95.0], [-90.0, 90.0]])
    np.testing.assert_allclose(along(own)[:, 1], [-170.0, 90.0, -90.0], atol=0.01)
    gradient = jax.grad(lambda own: along(own)[:, 1].sum())(own)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient[0], [1, 1], atol=1e-5)


def funnel(rows: int, seed: int, buying: float = 0.1) -> pa.Table:
    """Return clicks that users and items explain, a share of which buy, whoever it is."""
    random = np.random.default_rng(seed)
    taste, pull = np.random.default_rng(0).normal(size=(2, 60))
    user, item = random.integers(0, 60, (2, rows))
    chance = 1 / (1 + np.exp(-(1.5 * taste[user] + 1.5 * pull[item] - 1)))
    click = random.random(rows) < chance
    buy = click & (random.random(rows) < buying)
    columns = {"user": [f"u{u}" for u in user], "item": [f"i{i}" for i in item], "click": click, "buy": buy}
    return pa.table({**columns, "click": click.astype(np.int32), "buy": buy.astype(np.int32)})


def auc(labels: Any, predictions: Any) -> float:
    order = np.argsort(predictions, kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    positives = labels.sum()
    return float((rank[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


TRAIN = "TRAIN MODEL {} USING multi_task ({}) LABEL click, buy WITH (workers = 1, passes = 2) AS SELECT * FROM parquet.`{}`"
SCORE = "SELECT * FROM ML.PREDICT(MODEL {}, (SELECT * FROM parquet.`{}`))"


@costly
def test_a_chain_learns_rare_buys_from_clicks(session: xpsql.Session, tmp_path: Path) -> None:
    train = write(funnel(6000, 1, buying=0.02), tmp_path / "train.parquet")  # 50 of them
    test = write(funnel(20_000, 2, buying=0.02), tmp_path / "test.parquet")
    found = {}
    for name, options in {"chained": "chain = true", "apart": "chain = false"}.items():
        session.sql(TRAIN.format(name, options, train))
        found[name] = session.sql(SCORE.format(name, test)).arrow()
    clicks = found["chained"]["click"].to_numpy()  # whose chance orders that of buys, and which are many enough to tell
    chained, apart = (auc(clicks, found[name]["predicted_buy"].to_numpy()) for name in ("chained", "apart"))
    assert chained > apart + 0.003
    assert "predicted_buy_given_click" not in found["apart"].column_names
    table = found["chained"]
    assert table.column_names[-3:] == ["predicted_click", "predicted_buy", "predicted_buy_given_click"]
    click, buy, given = (table[name].to_numpy() for name in table.column_names[-3:])
    np.testing.assert_allclose(buy, click * given, rtol=1e-4)
    assert abs(given.mean() - 0.02) < 0.01


@costly
@pytest.mark.parametrize("base", ["mmoe", "ple"])
def test_experts_learn_both_labels_and_go_on(session: xpsql.Session, tmp_path: Path, base: str) -> None:
    train, test = write(funnel(6000, 1), tmp_path / "train.parquet"), write(funnel(4000, 2), tmp_path / "test.parquet")
    session.sql(TRAIN.format("m", f"base = {base}, expert_hidden = (16), hidden = (16)", train))
    session.sql(f"CONTINUE MODEL m WITH (workers = 1) AS SELECT * FROM parquet.`{train}`")
    found = session.sql(SCORE.format("m", test)).arrow()
    assert auc(found["click"].to_numpy(), found["predicted_click"].to_numpy()) > 0.8
    assert auc(found["buy"].to_numpy(), found["predicted_buy"].to_numpy()) > 0.65


@lengthy
def test_labels_that_contradict_the_chain_are_reported_with_a_row(session: xpsql.Session, tmp_path: Path) -> None:
    table = funnel(200, 1)
    buy = table["buy"].to_numpy().copy()
    at = int(np.argmin(table["click"].to_numpy()))
    buy[at] = 1
    path = write(table.set_column(3, "buy", pa.array(buy)), tmp_path / "log.parquet")
    message = rf"LABEL buy must be 0 where click is 0, as they are a chain; row {at} of row group 0 of .* has 1"
    with pytest.raises(DataError, match=message):
        session.sql(TRAIN.format("m", "chain = true", path))
    session.sql(TRAIN.format("m", "chain = false", path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task_weights": (1,)}, r"task_weights .* expects a number above 0 for each of the 2 labels; got \(1,\)"),
        ({"task_weights": (1, 0)}, "expects a number above 0"),
        ({"task_weights": (1, "x")}, "expects a number above 0"),
        ({"chain": True, "loss": "hinge"}, "multiplies probabilities, which loss = 'hinge' does not give"),
        ({"expert_hidden": (0,)}, "expects whole numbers of units"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        multi_task(MultiTaskOptions(**options), TWO)


def test_a_chain_needs_two_labels(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="Option chain of algorithm multi_task expects two labels or more"):
        session.sql("TRAIN MODEL m USING multi_task (chain = true) LABEL x AS SELECT * FROM VALUES (0, 'a') AS t(x, y)")


@costly
def test_weights_of_labels_weigh_their_losses() -> None:
    plain, weighed = (multi_task(MultiTaskOptions(**SMALL, task_weights=w), TWO) for w in ((), (1, 3)))
    scores, labels = jnp.array([[0.5, -1.0]]), jnp.array([[1.0, 0.0]])
    assert plain.loss is not None
    assert weighed.loss is not None
    np.testing.assert_allclose(weighed.loss.value(scores, labels), plain.loss.value(scores, labels) * np.array([1, 3]))
