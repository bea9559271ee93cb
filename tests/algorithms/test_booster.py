"""Rocket training: what is minimised, whom the hint reaches, and that the booster goes on but is not served."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xpsql
from tests.algorithms.inputs import LAYOUT, NUM_ROWS, random_inputs
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import log, session, write
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Algorithm
from xpsql.platform.errors import StatementError
from xpsql.platform.scoring.weights import Weights
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial
from xpsql.warehouse.dense import read_dense
from xpsql.warehouse.rows import stored_parts

__all__ = ["session"]

PARTS = {part.name: part for part in ALGORITHMS}
NETWORKS = ("xnn", "wide_deep", "deepfm", "dcn", "multi_task")


@pytest.fixture
def engine() -> str:
    """The embedded engine: layers of the booster are dense parameters like others, which test_xnn has on both."""
    return "duckdb"


@pytest.fixture(scope="module")
def trial() -> AlgorithmTrial:
    part = PARTS["wide_deep"]
    return AlgorithmTrial(part, part.options(hidden=(5,), booster=(8, 4), hint=0.5))


@lengthy
@pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
def test_a_network_with_a_booster_conforms(trial: AlgorithmTrial, check: Callable[[AlgorithmTrial], None]) -> None:
    check(trial)


def made(name: str, hint: float) -> Algorithm:
    part = PARTS[name]
    algorithm: Algorithm = part.make(part.options(dim=3, hidden=(5,), booster=(6,), hint=hint), LAYOUT)
    return algorithm


def values(algorithm: Algorithm) -> dict[str, jax.Array]:
    random = np.random.default_rng(2)
    shapes = {table.name: (NUM_ROWS, table.dim) for table in algorithm.tables} | {s.name: s.shape for s in algorithm.dense}
    return {name: jnp.asarray(random.normal(size=shape), jnp.float32) for name, shape in shapes.items()}


def objective(algorithm: Algorithm, parameters: dict[str, jax.Array]) -> Any:
    return algorithm.goal.losses(parameters, random_inputs())[0].sum()


@lengthy
@costly_after_first
@pytest.mark.parametrize("name", NETWORKS)
def test_the_hint_draws_the_network_to_its_booster_and_not_the_booster_to_the_network(name: str) -> None:
    parameters = values(made(name, 0))
    plain, hinted = (jax.grad(lambda p, h=hint: objective(made(name, h), p))(parameters) for hint in (0.0, 2.0))
    trained_only = {spec.name for spec in made(name, 0).dense if spec.train_only}
    assert trained_only == {key for key in parameters if key.startswith("booster.")} != set()
    for key in trained_only:
        np.testing.assert_allclose(hinted[key], plain[key], rtol=1e-5, atol=1e-6)
        assert np.asarray(plain[key]).any()
    output = "towers.2.kernel" if name == "multi_task" else "output.kernel"
    assert not np.allclose(hinted[output], plain[output])


def test_the_objective_is_both_losses_and_the_squared_gap() -> None:
    parameters = values(made("wide_deep", 0))
    inputs = random_inputs()._replace(label=jnp.asarray(np.arange(len(random_inputs().weight))[:, None] % 2, jnp.float32))
    algorithm = made("wide_deep", 0.3)
    assert algorithm.loss is not None
    own = algorithm.scores(parameters, inputs)
    swapped = {**parameters, **{key.replace("booster.1", "hidden_1"): v for key, v in parameters.items() if "booster.1" in key}}
    swapped |= {key.replace("booster.2", "output"): v for key, v in parameters.items() if "booster.2" in key}
    swapped = {key: v[0] if key in ("hidden_1.bias", "output.bias", "output.kernel") else v for key, v in swapped.items()}
    theirs = algorithm.scores(swapped, inputs)
    expected = algorithm.loss.value(own, inputs.label) + algorithm.loss.value(theirs, inputs.label) + 0.3 * (own - theirs) ** 2
    losses, scores = algorithm.goal.losses(parameters, inputs)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    np.testing.assert_array_equal(scores, own)


@costly
@pytest.mark.parametrize("name", ["xnn", "wide_deep"])
def test_a_booster_goes_on_and_is_neither_served_nor_exported(session: xpsql.Session, tmp_path: Path, name: str) -> None:
    path = write(log(1_000), tmp_path / "log.parquet")
    train = f"USING {name} (hidden = (8), booster = (16, 8)) IGNORE (ts) WITH (workers = 1) AS SELECT * FROM parquet.`{path}`"
    session.sql(f"TRAIN MODEL m {train}")
    first = session.models.version("m")
    kept = {key for key, column in read_dense(first.stored("dense")) if column == "w"}
    boosters = {key for key in kept if key.startswith("booster.")}
    assert boosters == first.manifest.train_only != set()
    pulled = Weights(first, 0, 1).pull(np.empty(0, np.uint64), 1)
    assert set(pulled.dense) == kept - boosters
    described = session.sql("DESCRIBE MODEL m").arrow().to_pylist()
    reported = {row["property"]: row["value"] for row in described if row["property"].startswith("dense ")}
    assert {f"dense {key}" for key in boosters} == {
        key for key, value in reported.items() if value.endswith("only for training")
    }
    score = f"SELECT predicted_label FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{path}`))"
    assert np.isfinite(session.sql(score).arrow()["predicted_label"].to_numpy()).all()
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT parquet")
    assert {key for key, _ in read_dense(stored_parts(tmp_path / "out" / "_dense"))} == kept - boosters
    session.sql(f"CONTINUE MODEL m IGNORE (ts) WITH (workers = 1) AS SELECT * FROM parquet.`{path}`")
    before, after = (read_dense(session.models.version("m", n).stored("dense")) for n in (1, 2))
    for key in boosters:
        np.testing.assert_array_equal(after[key, "state_count"], 2 * before[key, "state_count"])
        assert not np.array_equal(after[key, "w"], before[key, "w"])


@costly
def test_layers_of_a_booster_need_units(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match=r"Option booster of algorithm dcn expects whole numbers of units"):
        session.sql("TRAIN MODEL m USING dcn (booster = (8, 0)) AS SELECT * FROM VALUES (0, 'a') AS t(label, x)")
