"""DIEN: its recurrences are their formulas, its negatives come from other histories, and it reads histories as documented."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.algorithms.interests import HISTORY, SHARED, interests
from tests.algorithms.test_din import COLUMNS, RATES, predicted, train, write
from tests.cases import costly
from xpsql.algorithms.blocks.histories import History
from xpsql.algorithms.layers.dense_layers import Parameters
from xpsql.algorithms.layers.gru import Gru
from xpsql.algorithms.layers.lookups import portable
from xpsql.algorithms.layers.stacked import Stacked
from xpsql.algorithms.networks.dien import Evolved, auxiliary_loss, drawn_elements
from xpsql.platform.errors import OptionError
from xpsql.platform.progress import SilentReporter

BATCH, LENGTH, WIDTH, UNITS = 4, 7, 3, 5
RANDOM = np.random.default_rng(0)
MASK = np.arange(LENGTH) < np.array([7, 0, 1, 5])[:, None]
MASK[3, 2] = False  # a NULL among the elements
X = RANDOM.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
KEY = np.array([3, 4], np.uint32)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("attended", [False, True], ids=["gru", "augru"])
def test_states_are_those_of_the_paper_step_by_step(attended: bool) -> None:
    layer = Gru("g", 1, WIDTH, UNITS)
    parameters = {spec.name: RANDOM.normal(size=spec.shape).astype(np.float32) for spec in layer.specs()}
    weights = RANDOM.random((BATCH, LENGTH)).astype(np.float32)
    given = jnp.asarray(weights) if attended else None
    found = layer.states(parameters, X @ layer.kernel(parameters), jnp.asarray(MASK), given)
    w, u, b = (parameters[f"g.{name}"] for name in ("kernel", "recurrent", "bias"))
    for example in range(BATCH):
        h = np.zeros(UNITS)
        for place in range(LENGTH):
            if MASK[example, place]:
                of_x, of_h = np.split(X[example, place] @ w + b, 3), np.split(h @ u, 3)
                update, reset = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
                update = update * (weights[example, place] if attended else 1)
                h = (1 - update) * h + update * np.tanh(of_x[2] + reset * of_h[2])
            np.testing.assert_allclose(found[example, place], h, rtol=1e-4, atol=1e-5)


def test_an_element_without_attention_leaves_the_state_as_it_is() -> None:
    layer = Gru("g", 1, WIDTH, UNITS)
    parameters = {spec.name: RANDOM.normal(size=spec.shape).astype(np.float32) for spec in layer.specs()}
    weights = np.ones((BATCH, LENGTH), np.float32)
    weights[:, 3] = 0
    states = layer.states(parameters, X @ layer.kernel(parameters), jnp.ones((BATCH, LENGTH), bool), jnp.asarray(weights))
    np.testing.assert_array_equal(states[:, 3], states[:, 2])
    assert (np.asarray(states[:, 4]) != np.asarray(states[:, 3])).all()


@pytest.mark.parametrize("units", [10, 16])
def test_gradients_of_the_recurrence_are_those_of_its_loop(units: int) -> None:
    layer, batch = Gru("g", 1, units, units), 200  # examples of more than one run
    parameters = {spec.name: RANDOM.normal(size=spec.shape).astype(np.float32) for spec in layer.specs()}
    products = RANDOM.normal(size=(batch, LENGTH, 3 * units)).astype(np.float32)
    mask, attention = RANDOM.random((batch, LENGTH)) < 0.6, RANDOM.random((batch, LENGTH)).astype(np.float32)
    weights = RANDOM.normal(size=(batch, LENGTH, units)).astype(np.float32)

    def gradients() -> object:
        def total(parameters: Parameters, products: jax.Array, attention: jax.Array) -> jax.Array:
            return (layer.states(parameters, products, jnp.asarray(mask), attention) * weights).sum()

        return jax.jit(jax.grad(total, argnums=(0, 1, 2)))(parameters, products, attention)

    native = gradients()
    with portable():
        looped = gradients()
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3), native, looped)


def test_drawn_elements_are_there_each_about_as_often() -> None:
    mask = np.random.default_rng(1).random((300, 10)) < 0.3
    history = History(jnp.zeros((1, 300, 10), jnp.int32), jnp.asarray(mask))
    places, counts = np.unique(drawn_elements(history, jnp.asarray(KEY)), return_counts=True)
    assert mask.reshape(-1)[places].all()
    assert len(places) > 0.9 * mask.sum()
    assert counts.max() < 15  # 3.3 on average
    again = drawn_elements(history, jnp.asarray(KEY + 1))
    assert (np.asarray(again) != np.asarray(drawn_elements(history, jnp.asarray(KEY)))).any()


@costly
def test_the_auxiliary_loss_is_that_of_the_paper_without_elements_of_the_same_history() -> None:
    rows = np.where(MASK, np.random.default_rng(2).integers(0, 6, (2, BATCH, LENGTH)), 6).astype(np.int32)
    states = RANDOM.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    nothing = Stacked(jnp.zeros((1, 1)), jnp.zeros((0, BATCH), jnp.int32), jnp.zeros((BATCH, 0)))
    evolved = Evolved(nothing, jnp.asarray(states), jnp.asarray(X), History(jnp.asarray(rows), jnp.asarray(MASK)))
    found = jax.jit(auxiliary_loss)(evolved, jnp.asarray(KEY))
    drawn, refused = np.asarray(drawn_elements(evolved.history, jnp.asarray(KEY))), 0
    for example in range(BATCH):
        reported = []
        for place in range(LENGTH - 1):
            if MASK[example, place] and MASK[example, place + 1]:
                loss = np.log1p(np.exp(-states[example, place] @ X[example, place + 1]))
                other, at = divmod(drawn[example, place + 1], LENGTH)
                own = {tuple(element) for element in rows[:, example].T}
                if tuple(rows[:, other, at]) in own:
                    refused += 1
                else:
                    loss += np.log1p(np.exp(states[example, place] @ X[other, at]))
                reported.append(loss)
        np.testing.assert_allclose(found[example], np.mean(reported) if reported else 0, rtol=1e-4)
    assert refused
    assert not np.asarray(auxiliary_loss(evolved, None)).any()


@costly
@pytest.mark.parametrize("auxiliary", [0, 1])
def test_it_finds_the_target_in_the_history(session: xpsql.Session, tmp_path: Path, auxiliary: int) -> None:
    log, test = write(interests(8_000), tmp_path / "log.parquet"), write(interests(2_000, seed=1), tmp_path / "test.parquet")
    settings = f"passes = 4, batch_size = 128, {SHARED}"
    train(session, "m", f"dien ({HISTORY}, auxiliary = {auxiliary}, {RATES})", log, settings=settings)
    query = f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT {COLUMNS} FROM parquet.`{test}`))"
    assert session.sql(query).arrow()["auc"][0].as_py() > 0.74  # 0.72 is what sums of slots come to


@costly
def test_the_last_elements_of_long_histories_are_read(session: xpsql.Session, tmp_path: Path) -> None:
    table = interests(500, longest=40)
    path = write(table, tmp_path / "log.parquet")
    train(session, "m", f"dien ({HISTORY}, length = 10)", path)
    cut = {n: [row[-10:] for row in table[n].to_pylist()] for n in ("clicked_items", "clicked_categories")}
    short = write(pa.table({**{n: table[n] for n in COLUMNS.split(", ")}, **cut}), tmp_path / "short.parquet")
    np.testing.assert_array_equal(predicted(session, "m", path), predicted(session, "m", short))


@costly
def test_empty_histories_and_targets_in_their_own_are_scored(session: xpsql.Session, tmp_path: Path) -> None:
    train(session, "m", f"dien ({HISTORY})", write(interests(500), tmp_path / "log.parquet"))
    histories = [None, [], [None], [5], [5, None], [5, 7], [7, 5]]
    whole = pa.table({"user": [1] * 7, "item": [5] * 7, "category": [5] * 7, "clicked_items": histories})
    path = tmp_path / "rows.parquet"
    pq.write_table(whole.append_column("clicked_categories", whole["clicked_items"]), path)
    found = predicted(session, "m", path, COLUMNS.removeprefix("label, "))
    assert np.isfinite(found).all()
    assert found[0] == found[1] == found[2]  # no element has a value
    assert found[3] == found[4] != found[0]
    assert found[5] != found[6]  # the order matters


@costly
def test_it_learns_several_labels_beside_a_booster(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(interests(500), tmp_path / "log.parquet")
    session.sql(
        f"TRAIN MODEL m USING dien ({HISTORY}, booster = (16)) LABEL label, buy WITH ({SHARED}) "
        f"AS SELECT {COLUMNS}, label AS buy FROM parquet.`{path}`"
    )
    session.sql(f"CONTINUE MODEL m AS SELECT {COLUMNS}, label AS buy FROM parquet.`{path}`")
    found = session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT {COLUMNS}, label AS buy FROM parquet.`{path}`))").arrow()
    assert np.isfinite(found["predicted_label"].to_numpy()).all()
    assert (found["predicted_label"].to_numpy() != found["predicted_buy"].to_numpy()).any()


def test_fields_that_do_not_match_are_refused(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(interests(20), tmp_path / "log.parquet")
    with pytest.raises(OptionError, match="slot of target; target has item, category, and history clicked_items"):
        train(session, "m", "dien (target = (item, category), history = (clicked_items))", path, settings="seed = 1")


@costly
def test_histories_of_every_length_take_few_compilations(session: xpsql.Session, tmp_path: Path) -> None:
    """Beside those of any training, such as the first values of layers: a log of short histories has made them before."""
    for name, rows, longest in (("short", 100, 1), ("m", 4_000, 100)):
        path = write(interests(rows, longest=longest), tmp_path / f"{name}.parquet")
        train(session, name, f"dien ({HISTORY}, length = 100)", path, settings=f"{SHARED}, batch_size = 64, workers = 1")
    (most,) = session.sql("SELECT max(compilations) AS most FROM ML.TRAINING_INFO(MODEL m)").arrow()["most"].to_pylist()
    assert most < 12
