"""DIN: attention is its formula, and finds what sums of a history do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import xpsql
from tests.algorithms.interests import HISTORY, SHARED, interests
from tests.cases import costly, costly_after_first, lengthy
from xpsql.algorithms.blocks.histories import History
from xpsql.algorithms.layers.attention import Attended, Attention
from xpsql.algorithms.layers.dense_layers import Parameters
from xpsql.algorithms.layers.lookups import portable
from xpsql.platform.errors import DataError, OptionError, StatementError
from xpsql.platform.progress import SilentReporter

COLUMNS = "label, user, item, category, clicked_items, clicked_categories"
RATES = "learning_rate = 0.005, vector_learning_rate = 0.1"
WIDTH, FIELDS, LENGTH, BATCH = 6, 2, 5, 4
TAKEN = (0, 1 / 8, 0.2, 0.5, 1)  # shares of the places of histories that have an element


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


def write(table: pa.Table, path: Path) -> Path:
    pq.write_table(table, path)
    return path


def train(session: xpsql.Session, model: str, using: str, path: Path, columns: str = COLUMNS, settings: str = SHARED) -> None:
    session.sql(f"TRAIN MODEL {model} USING {using} WITH ({settings}) AS SELECT {columns} FROM parquet.`{path}`")


def predicted(session: xpsql.Session, model: str, path: Path, columns: str = COLUMNS) -> NDArray[np.float64]:
    query = f"SELECT predicted_label FROM ML.PREDICT(MODEL {model}, (SELECT {columns} FROM parquet.`{path}`))"
    return session.sql(query).arrow()["predicted_label"].to_numpy()


def attention(softmax: bool, activation: str) -> tuple[Attention, dict[str, np.ndarray]]:
    made, random = Attention("attention", 1, WIDTH, (8, 4), (activation, activation), softmax), np.random.default_rng(0)
    return made, {spec.name: 0.5 * random.normal(size=spec.shape).astype(np.float32) for spec in made.specs}


def plainly(x: np.ndarray, parameters: dict[str, np.ndarray], layer: str) -> np.ndarray:
    """Return a layer with dice, written out."""
    x = x @ parameters[f"{layer}.kernel"] + parameters[f"{layer}.bias"]
    share = 1 / (1 + np.exp(-parameters[f"{layer}.steepness"] * (x - parameters[f"{layer}.mean"])))
    return (share + (1 - share) * parameters[f"{layer}.slope"]) * x


@pytest.mark.parametrize("softmax", [False, True])
def test_attention_is_the_network_of_the_paper(softmax: bool) -> None:
    made, parameters = attention(softmax, "dice")
    random = np.random.default_rng(1)
    rows = random.normal(size=(30, WIDTH // FIELDS)).astype(np.float32)
    rows[-1] = 0
    mask = np.arange(LENGTH) < np.array([5, 0, 3, 1])[:, None]
    index = np.where(mask, random.integers(0, 29, (FIELDS, BATCH, LENGTH)), 29).astype(np.int32)
    target = random.normal(size=(BATCH, WIDTH)).astype(np.float32)
    elements = made.of_rows(parameters, jnp.asarray(rows), History(jnp.asarray(index), jnp.asarray(mask)))
    found = made.pooled(parameters, jnp.asarray(target), elements)

    h = np.moveaxis(rows[index], 0, 2).reshape(BATCH, LENGTH, WIDTH)
    t = np.broadcast_to(target[:, None], h.shape)
    x = plainly(np.concatenate([t, h, t - h, t * h], axis=2), parameters, "attention_1")
    scores = (plainly(x, parameters, "attention_2") @ parameters["attention_output.kernel"])[:, :, 0]
    scores = np.exp(scores) * mask if softmax else (scores + parameters["attention_output.bias"]) * mask
    weights = scores / np.maximum(scores.sum(axis=1, keepdims=True), 1e-9) if softmax else scores
    np.testing.assert_allclose(found, (weights[:, :, None] * h).sum(axis=1), rtol=1e-4, atol=1e-5)
    assert not np.asarray(found)[1].any()  # an empty history
    given = made.of_vectors(parameters, jnp.asarray(h), jnp.asarray(mask))
    np.testing.assert_allclose(made.pooled(parameters, jnp.asarray(target), given), found, rtol=1e-4, atol=1e-5)


def test_padding_has_no_weight() -> None:
    made, parameters = attention(True, "relu")
    vectors = np.random.default_rng(2).normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    mask = np.arange(LENGTH) < 2
    elements: Attended = made.of_vectors(parameters, jnp.asarray(vectors), jnp.broadcast_to(mask, (BATCH, LENGTH)))
    weights = np.asarray(made.weights(parameters, jnp.asarray(vectors[:, 0]), elements))
    assert not weights[:, 2:].any()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)


@costly_after_first
@pytest.mark.parametrize(
    ("activation", "grouped", "width", "hidden"),
    [
        ("relu", False, 4, (8, 4)),
        ("dice", False, 4, (8, 4)),
        ("dice", True, 4, (8, 4)),
        ("dice", True, 18, (64, 33)),  # several vectors of a processor in a layer
    ],
)
def test_weights_and_gradients_are_the_same_however_many_elements_are_there(
    activation: str, grouped: bool, width: int, hidden: tuple[int, int]
) -> None:
    batch, length = 64, 64  # FEWEST places
    attention = Attention("attention", 1, width, hidden, ("dice", activation), softmax=True)
    random = np.random.default_rng(5)
    drawn = {spec.name: random.normal(size=spec.shape) / np.sqrt(spec.shape[0]) for spec in attention.specs}
    parameters = {name: jnp.asarray(values, jnp.float32) for name, values in drawn.items()}
    target, weights = (random.normal(size=shape).astype(np.float32) for shape in ((batch, width), (batch, length)))
    owner = jnp.asarray(np.sort(random.integers(0, batch, batch)), jnp.int32) if grouped else None  # some groups are of nobody
    vectors, shares = (random.normal(size=(batch, length, n)).astype(np.float32) for n in (width, hidden[0]))

    def total(parameters: Parameters, target: jax.Array, vectors: jax.Array, shares: jax.Array, mask: jax.Array) -> jax.Array:
        return (attention.weights(parameters, target, Attended(vectors, shares, mask, owner)) * weights).sum()

    chosen = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))
    with portable():
        whole = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))
        expected = {share: whole(parameters, target, vectors, shares, random_mask(share, batch, length)) for share in TAKEN}
    for share, other in expected.items():
        found = chosen(parameters, target, vectors, shares, random_mask(share, batch, length))
        jax.tree.map(lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4), found, other)


def random_mask(share: float, batch: int, length: int) -> NDArray[np.bool_]:
    """Return bool[batch, length] of which so many places are set: exactly that share."""
    mask = np.arange(batch * length) < share * batch * length
    return np.random.default_rng(1).permutation(mask).reshape(batch, length)


@costly
def test_it_finds_the_target_in_the_history_where_sums_of_slots_hardly_do(session: xpsql.Session, tmp_path: Path) -> None:
    log, test = write(interests(8_000), tmp_path / "log.parquet"), write(interests(4_000, seed=1), tmp_path / "test.parquet")
    settings, found = f"passes = 4, batch_size = 128, {SHARED}", {}
    for model, using in (("pooled", f"xnn (dim = 16, {RATES})"), ("din", f"din ({HISTORY}, {RATES})")):
        train(session, model, using, log, settings=settings)
        query = f"SELECT auc FROM ML.EVALUATE(MODEL {model}, (SELECT {COLUMNS} FROM parquet.`{test}`))"
        ((found[model],),) = [row.values() for row in session.sql(query).arrow().to_pylist()]
    assert found["din"] > 0.77
    assert found["din"] > found["pooled"] + 0.03


@costly
def test_a_history_of_structs_is_one_of_aligned_arrays(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(interests(1_000), tmp_path / "log.parquet")
    structs = "label, user, item, category, clicks"
    train(session, "arrays", f"din ({HISTORY})", path)
    share = "share = (`clicks.item` AS item, `clicks.category` AS category)"
    train(session, "structs", "din (target = (item, category), history = (clicks))", path, structs, share)
    np.testing.assert_array_equal(predicted(session, "arrays", path), predicted(session, "structs", path, structs))


@costly
def test_the_last_elements_of_long_histories_are_read(session: xpsql.Session, tmp_path: Path) -> None:
    table = interests(1_000, longest=40)
    path = write(table, tmp_path / "log.parquet")
    train(session, "m", f"din ({HISTORY}, length = 10)", path)
    cut = {n: [row[-10:] for row in table[n].to_pylist()] for n in ("clicked_items", "clicked_categories")}
    short = write(pa.table({**{n: table[n] for n in COLUMNS.split(", ")}, **cut}), tmp_path / "short.parquet")
    np.testing.assert_array_equal(predicted(session, "m", path), predicted(session, "m", short))


@lengthy
def test_empty_histories_and_targets_in_their_own_are_scored(session: xpsql.Session, tmp_path: Path) -> None:
    train(session, "m", f"din ({HISTORY})", write(interests(1_000), tmp_path / "log.parquet"))
    histories = [None, [], [None], [5], [5, None]]
    whole = pa.table({"user": [1] * 5, "item": [5] * 5, "category": [5] * 5, "clicked_items": histories})
    whole = whole.append_column("clicked_categories", whole["clicked_items"])
    path = write(whole, tmp_path / "rows.parquet")
    found = predicted(session, "m", path, COLUMNS.removeprefix("label, "))
    assert np.isfinite(found).all()
    assert found[0] == found[1] == found[2]  # no element has a value
    assert found[3] == found[4] != found[0]


@costly
def test_a_continued_model_reads_as_before(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(interests(1_000), tmp_path / "log.parquet")
    train(session, "m", f"din ({HISTORY}, length = 3)", path)
    before = predicted(session, "m", path)
    session.sql(f"CONTINUE MODEL m AS SELECT {COLUMNS} FROM parquet.`{path}`")
    slots = session.models.version("m", 2).manifest.slots
    assert {(s.name, s.kind, s.role, s.group, s.length) for s in slots if s.role} == {
        (name, "sequence", "sequence", "history", 3) for name in ("clicked_items", "clicked_categories")
    }
    assert (predicted(session, "m", path) != before).any()


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ("history = (clicked_items)", "Option target of algorithm din expects one or more slots, like target = "),
        ("target = (item)", "Option history of algorithm din expects one or more slots, like history = "),
        ("target = (itm), history = (clicked_items)", "Option target of algorithm din names 'itm', which is not a slot"),
        ("target = (item), history = (clicked)", "Option history of algorithm din names 'clicked', which the query does not"),
        ("target = (item), history = (user)", "Option history of algorithm din expects arrays of categories.*user is bigint"),
        (
            "target = (item, category), history = (clicked_items)",
            "a field for each slot of target; target has ",
        ),
        (
            "target = (item), history = (clicked_items), attention = ()",
            "Option attention of algorithm din expects",
        ),
    ],
)
def test_options_that_name_no_history_are_refused_at_their_place(
    session: xpsql.Session, tmp_path: Path, options: str, reported: str
) -> None:
    path = write(interests(20), tmp_path / "log.parquet")
    with pytest.raises((StatementError, OptionError), match=reported) as raised:
        train(session, "m", f"din ({options})", path, settings="seed = 1")
    assert raised.value.position is not None


def test_fields_of_different_lengths_are_refused_with_the_row(session: xpsql.Session, tmp_path: Path) -> None:
    table = interests(200)
    uneven = [[1, 2] if row == 150 else value for row, value in enumerate(table["clicked_items"].to_pylist())]
    wrong = [[1] if row == 150 else value for row, value in enumerate(table["clicked_categories"].to_pylist())]
    changed = {**{n: table[n] for n in COLUMNS.split(", ")}, "clicked_items": uneven, "clicked_categories": wrong}
    path = write(pa.table(changed), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"row 150 of row group 0 of .*log.parquet has 2 and 1"):
        train(session, "m", f"din ({HISTORY})", path)
