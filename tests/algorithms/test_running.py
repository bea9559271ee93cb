"""Moving averages of layers: they follow what is learned from, are kept in versions, and are all that predictions see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.algorithms.interests import HISTORY, SHARED, interests
from tests.cases import costly_after_first, lengthy
from xpsql.algorithms.layers.dense_layers import Layer
from xpsql.algorithms.layers.parallel import Parallel
from xpsql.algorithms.layers.running import follow, learning
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.dense import read_dense

COLUMNS = "label, user, item, category, clicked_items, clicked_categories"
X = np.random.default_rng(0).normal(3, 2, (6, 4)).astype(np.float32)
THERE = np.array([True, True, False, True, True, False])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


def moved(layer: Layer | Parallel, x: np.ndarray, there: np.ndarray) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Return a layer's parameters, and the gradient of what makes its averages follow."""
    specs = layer.specs()
    parameters = {spec.name: jnp.zeros(spec.shape) if spec.init is None else spec.init(0) for spec in specs}

    def loss(parameters: dict[str, jax.Array]) -> jax.Array:
        with learning(jnp.asarray(there)) as losses:
            layer.apply(parameters, jnp.asarray(x), None)
        return jnp.stack(losses).sum()

    return parameters, jax.jit(jax.grad(loss))(parameters)


@pytest.mark.parametrize(
    "layer", [Layer("l", 1, 4, 3, "running_dice"), Parallel("l", 1, 2, 4, (3,), ("running_dice",))], ids=["one", "several"]
)
def test_averages_follow_the_examples_and_no_padding(layer: Layer | Parallel) -> None:
    parameters, gradients = moved(layer, X, THERE)
    name = "l" if isinstance(layer, Layer) else "l.1"
    z = (X[THERE] @ np.asarray(parameters[f"{name}.kernel"])).reshape(THERE.sum(), *parameters[f"{name}.mean"].shape)
    np.testing.assert_allclose(gradients[f"{name}.mean"], -z.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[f"{name}.variance"], 1 - z.var(axis=0), rtol=1e-4, atol=1e-4)
    assert not np.asarray(gradients[f"{name}.kernel"]).any()  # nothing flows into statistics


@pytest.mark.parametrize("x", [X, np.full_like(X, np.nan)], ids=["nothing there", "no numbers"])
def test_a_batch_that_has_nothing_moves_nothing(x: np.ndarray) -> None:
    _, gradients = moved(Layer("l", 1, 4, 3, "running_dice"), x, THERE & np.isnan(x).any())
    assert not any(np.asarray(gradient).any() for gradient in gradients.values())


def test_where_nothing_is_learned_nothing_follows() -> None:
    follow({}, lambda mask: pytest.fail("It was asked for statistics."))


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    "using",
    [
        f"din ({HISTORY}, activation = running_dice, attention_activation = running_dice, hidden = (8), attention = (8))",
        "xnn (activation = running_dice, hidden = (8), booster = (8))",
        "multi_task (base = mmoe, activation = running_dice, hidden = (8), expert_hidden = (8))",
    ],
)
def test_versions_keep_averages_which_predictions_read(session: xpsql.Session, tmp_path: Path, using: str) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(interests(1_000), path)
    query = f"SELECT {COLUMNS} FROM parquet.`{path}`"
    settings = f"{SHARED}, workers = 2, shards = 2, batch_size = 64"
    session.sql(f"TRAIN MODEL m USING {using} WITH ({settings}) AS {query}")

    def averages(version: int) -> dict[str, np.ndarray]:
        kept = read_dense(session.models.version("m", version).stored("dense"))
        return {name: w for (name, column), w in kept.items() if column == "w" and name.endswith((".mean", ".variance"))}

    first = averages(1)
    assert first
    assert all(np.any(values) for values in first.values())
    alone, among = (
        session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL m, ({chosen}))").arrow()[0].to_numpy()
        for chosen in (f"{query} LIMIT 1", query)
    )
    np.testing.assert_allclose(alone[0], among[0], rtol=1e-5)
    session.sql(f"CONTINUE MODEL m AS {query}")
    assert any(np.any(values != first[name]) for name, values in averages(2).items())
