"""Batch normalisation: by the batch in an update, by averages elsewhere; in every network, on every way that a model takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.algorithms.interests import HISTORY, SHARED, interests
from tests.cases import costly
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.blocks.histories import HISTORIES, HistorySlots
from xpsql.algorithms.layers.batch_norm import EPSILON, debiased
from xpsql.algorithms.layers.dense_layers import Layer
from xpsql.algorithms.layers.parallel import Parallel
from xpsql.algorithms.layers.running import MOMENTUM, learning
from xpsql.algorithms.networks.deep import SidedOptions
from xpsql.algorithms.networks.dien import DienOptions
from xpsql.algorithms.networks.din import DinOptions
from xpsql.algorithms.networks.multi_task import MultiTaskOptions
from xpsql.algorithms.networks.xnn import XnnOptions
from xpsql.platform.progress import SilentReporter
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial, algorithms
from xpsql.warehouse.dense import read_dense

COLUMNS = "label, user, item, category, clicked_items, clicked_categories"
X = np.random.default_rng(0).normal(3, 2, (6, 4)).astype(np.float32)
THERE = np.array([True, True, False, True, True, False])
SEQUENCES = algorithms.LAYOUT.having(HISTORIES, [HistorySlots("history", ("users", "items"))])
SHAPE: dict[str, Any] = {"normalise": "batch_norm", "dim": 4, "hidden": (8, 4)}
INTEREST: dict[str, Any] = {**SHAPE, "target": ("item", "user"), "history": ("items", "users"), "attention": (8, 4)}
NETWORKS = {
    "xnn": (algorithms.LAYOUT, XnnOptions(**SHAPE, booster=(8,))),
    "deepfm": (algorithms.LAYOUT, SidedOptions(**SHAPE)),
    "multi_task": (algorithms.LAYOUT, MultiTaskOptions(**SHAPE, base="ple", expert_hidden=(8,), gate_dropout=0)),
    "din": (SEQUENCES, DinOptions(**INTEREST)),
    "dien": (SEQUENCES, DienOptions(**INTEREST)),
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


@pytest.mark.parametrize(
    "layer", [Layer("l", 1, 4, 3, "linear", norm=True), Parallel("l", 1, 1, 4, (3,), ("linear",), norm=True)]
)
def test_a_layer_takes_the_batchs_statistics_in_an_update_and_its_averages_elsewhere(layer: Layer | Parallel) -> None:
    parameters = {spec.name: jnp.ones(spec.shape) if spec.init is None else spec.init(0) for spec in layer.specs()}
    name = "l" if isinstance(layer, Layer) else "l.1"
    parameters[f"{name}.norm.gain"] *= 2
    z = X @ np.asarray(parameters[f"{name}.kernel"]).reshape(4, 3)
    with learning(jnp.asarray(THERE)):
        learned = np.asarray(layer.apply(parameters, jnp.asarray(X), None)).reshape(6, 3)
    own = (z - z[THERE].mean(0)) / np.sqrt(z[THERE].var(0) + EPSILON)
    np.testing.assert_allclose(learned[THERE], 2 * own[THERE] + 1, rtol=1e-4, atol=1e-5)
    scored = np.asarray(layer.apply(parameters, jnp.asarray(X), None)).reshape(6, 3)
    np.testing.assert_allclose(scored, 2 * (z - 1) / np.sqrt(1 + EPSILON) + 1, rtol=1e-4, atol=1e-5)


def test_the_first_batches_weigh_alike_and_where_an_average_began_weighs_nothing() -> None:
    optimizer, average = debiased(), jnp.full(1, 100.0)
    state, batches = optimizer.init(average), [3.0, 5.0, 10.0]
    for number, batch in enumerate(batches, 1):
        step, state = optimizer.update(average - batch, state)
        average += step
        weights = MOMENTUM ** np.arange(number)[::-1]
        assert float(average[0]) == pytest.approx((weights * batches[:number]).sum() / weights.sum(), rel=1e-4)


@costly
def test_vectors_of_normalised_towers_do_not_depend_on_the_rows_beside_them(session: xpsql.Session, tmp_path: Path) -> None:
    pq.write_table(interests(1_000), tmp_path / "log.parquet")
    query = f"SELECT user, item, category FROM parquet.`{tmp_path / 'log.parquet'}`"
    towers = "two_tower (query = (user), item = (item, category), dim = 4, hidden = (8), normalise = batch_norm, negatives = 5)"
    session.sql(f"TRAIN MODEL m USING {towers} WITH (workers = 1, batch_size = 64) AS {query}")
    kept = {name for name, _ in read_dense(session.models.version("m").stored("dense"))}
    assert {f"{tower}_0.norm.{what}" for tower in ("query", "item") for what in ("gain", "mean", "variance")} <= kept
    alone, among = (
        session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({chosen}))").arrow().slice(0, 1).to_pylist()[0]
        for chosen in (f"{query} LIMIT 1", query)
    )
    for vector in ("predicted_vector", "predicted_item"):
        np.testing.assert_allclose(alone[vector], among[vector], rtol=1e-4, atol=1e-6)
    every = session.sql(f"SELECT predicted_vector FROM ML.PREDICT(MODEL m, ({query}))").arrow()[0].to_pylist()
    assert np.std(every, axis=0).max() > 0.01, "users are told apart"


@costly
@pytest.mark.parametrize("name", NETWORKS)
def test_normalised_networks_conform(name: str) -> None:
    layout, options = NETWORKS[name]
    part = next(part for part in ALGORITHMS if part.name == name)
    for check in ALGORITHM_CHECKS:
        if check is algorithms.learning_and_scoring_agree:  # an update takes the batch's statistics, scoring the averages
            continue
        check(AlgorithmTrial(part, options, layout))


@costly
@pytest.mark.parametrize(
    "using",
    [f"din ({HISTORY}, hidden = (8), attention = (8), normalise = batch_norm)", "xnn (hidden = (8), normalise = batch_norm)"],
)
def test_averages_are_kept_predicted_with_continued_and_exported(session: xpsql.Session, tmp_path: Path, using: str) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(interests(1_000), path)
    query = f"SELECT {COLUMNS} FROM parquet.`{path}`"
    session.sql(f"TRAIN MODEL m USING {using} WITH ({SHARED}, workers = 2, shards = 2, batch_size = 64) AS {query}")

    def averages(version: int) -> dict[str, np.ndarray[Any, Any]]:
        kept = read_dense(session.models.version("m", version).stored("dense"))
        return {
            name: w for (name, column), w in kept.items() if column == "w" and name.endswith((".norm.mean", ".norm.variance"))
        }

    first = averages(1)
    assert len(first) == 2
    assert all(np.any(values) for values in first.values())
    alone, among = (
        session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL m, ({chosen}))").arrow()[0].to_numpy()
        for chosen in (f"{query} LIMIT 1", query)
    )
    np.testing.assert_allclose(alone[0], among[0], rtol=1e-5)
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT onnx")  # which holds the graph to ML.PREDICT
    session.sql(f"CONTINUE MODEL m AS {query}")
    assert any(np.any(values != first[name]) for name, values in averages(2).items())


@costly
def test_one_worker_learns_the_same_twice_and_a_batch_of_one_does_no_harm(session: xpsql.Session, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(interests(129), path)
    for model in ("a", "b"):
        session.sql(
            f"TRAIN MODEL {model} USING xnn (hidden = (8), normalise = batch_norm) WITH (workers = 1, batch_size = 64) "
            f"AS SELECT label, user, item FROM parquet.`{path}`"
        )
    found = [
        session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL {model}, (SELECT * FROM parquet.`{path}`))")
        .arrow()[0]
        .to_numpy()
        for model in ("a", "b")
    ]
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()
    assert jax.numpy.ptp(found[0]) > 0
