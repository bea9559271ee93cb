"""Two towers find what each user takes next, tell new items by their other slots, and refuse slots that have no tower."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, lengthy, slow_elsewhere
from tests.notes import Notes
from tests.training.log import embedded, session, write
from xpsql.algorithms.base import Inputs, Layout
from xpsql.algorithms.blocks.bags import BagRows
from xpsql.algorithms.networks.two_tower import TwoTowerOptions, two_tower
from xpsql.algorithms.sampled_recall import found_in
from xpsql.platform.errors import OptionError
from xpsql.platform.operators.row_statistics import statistics_of_rows
from xpsql.testing.operators import context

__all__ = ["session"]

USERS, ITEMS, KINDS = 400, 60, 6
TOWERS = "two_tower (query = (user, clicked), item = (item, kind), dim = 16, temperature = 0.1)"
CATALOGUE = f"(SELECT id AS item, concat('k', id % {KINDS}) AS kind FROM range({ITEMS}))"


def log() -> tuple[pa.Table, pa.Table]:
    """Return rows of users who take popular items of one kind; and the last item of each, with what was had before."""
    random = np.random.default_rng(0)
    popular = 1 / np.arange(1, ITEMS // KINDS + 1)
    rows, last = [], []
    for user in range(USERS):
        items = (KINDS * random.choice(len(popular), 6, replace=False, p=popular / popular.sum()) + user % KINDS).tolist()
        rows += [(f"u{user}", items[:i], item, f"k{item % KINDS}") for i, item in enumerate(items[:-1])]
        last.append((f"u{user}", items[:-1], items[-1], f"k{items[-1] % KINDS}"))
    order = random.permutation(len(rows))
    names = ["user", "clicked", "item", "kind"]
    return tuple(  # type: ignore[return-value]
        pa.table(dict(zip(names, map(list, zip(*part, strict=True)), strict=True))) for part in ([rows[i] for i in order], last)
    )


@lengthy
@slow_elsewhere
def test_recall_beats_popularity_and_a_new_item_is_found_by_its_kind(session: xpsql.Session, tmp_path: Path) -> None:
    train, last = log()
    path, held = write(train, tmp_path / "log.parquet", 10_000), write(last, tmp_path / "last.parquet", 10_000)
    settings = "WITH (passes = 10, batch_size = 128, share = (clicked AS item))"
    session.sql(f"TRAIN MODEL m USING {TOWERS} {settings} AS SELECT * FROM parquet.`{path}`")
    rows = f"(SELECT user, clicked FROM parquet.`{held}`)"
    found = session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL m, {rows}, 5, ITEMS {CATALOGUE})").arrow().to_pylist()
    best: dict[str, list[int]] = {}
    for row in found:
        assert row["item"] not in row["clicked"]
        best.setdefault(row["user"], []).append(row["item"])
    taken = dict(zip(last["user"].to_pylist(), last["item"].to_pylist(), strict=True))
    recall = np.mean([taken[user] in items for user, items in best.items()])
    counts = np.bincount(train["item"].to_numpy(), minlength=ITEMS)
    by_count = np.argsort(-counts, kind="stable").tolist()
    had = dict(zip(last["user"].to_pylist(), last["clicked"].to_pylist(), strict=True))
    popular = np.mean([taken[user] in [item for item in by_count if item not in had[user]][:5] for user in taken])
    assert recall > 0.6 > 2 * popular
    new = f"(SELECT 999 AS item, 'k2' AS kind UNION ALL SELECT id, concat('k', id % {KINDS}) FROM range({ITEMS}))"
    found = session.sql(f"SELECT user, score FROM ML.RECOMMEND(MODEL m, {rows}, {ITEMS}, ITEMS {new}) WHERE item = 999").arrow()
    kinds = np.array([int(str(user)[1:]) % KINDS for user in found["user"].to_pylist()])
    scores = found["score"].to_numpy()
    assert scores[kinds == 2].mean() > scores[kinds != 2].mean() + 0.3
    session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}`")
    assert session.models.version("m").number == 2


@costly
@embedded
def test_vectors_have_length_one_and_their_product_is_the_score(session: xpsql.Session, tmp_path: Path) -> None:
    train, last = log()
    path, held = write(train, tmp_path / "log.parquet", 10_000), write(last, tmp_path / "last.parquet", 10_000)
    session.sql(f"TRAIN MODEL m USING {TOWERS} AS SELECT * FROM parquet.`{path}`")
    text = f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{held}` WHERE user = 'u7'))"
    (row,) = session.sql(text).arrow().to_pylist()
    query, item = np.array(row["predicted_vector"]), np.array(row["predicted_item"])
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-5)
    assert np.linalg.norm(item) == pytest.approx(1, abs=1e-5)
    one = f"(SELECT user, clicked FROM parquet.`{held}` WHERE user = 'u7')"
    items = f"(SELECT item, kind FROM parquet.`{held}` WHERE user = 'u7')"
    (best,) = session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL m, {one}, 1, ITEMS {items})").arrow().to_pylist()
    assert best["score"] == pytest.approx(float(query @ item), abs=1e-5)


def loss(
    options: TwoTowerOptions,
    users: list[int],
    items: list[int],
    weight: list[float],
    counts: list[float],
    ages: list[float],
    drawn: float | None = None,
) -> jax.Array:
    """Return the losses of rows of which every user and item has a vector of its own.

    Args:
        counts, ages: of the features, how often each occurred, and in how many examples.
        drawn: how often a random item is expected, which the last rows are.
    """
    algorithm = two_tower(options, Layout(scalar=("user", "item"), labels=()))
    vectors = np.random.default_rng(3).normal(size=(8, options.dim)).astype(np.float32)
    dense = {
        spec.name: jnp.eye(options.dim) if spec.name.endswith("kernel") else jnp.zeros(spec.shape) for spec in algorithm.dense
    }
    none = jnp.zeros(0, jnp.int32)
    lines = [users, items] if drawn is None else [users, items, [0] * len(users)]
    inputs = Inputs(
        jnp.array(lines),
        BagRows(none, none, none, jnp.zeros(0)),
        jnp.zeros((len(users), 0)),
        none,
        jnp.zeros((len(users), 1)),
        jnp.array(weight),
        statistics=jnp.stack([jnp.array(counts), jnp.array(ages)], axis=1),
        expected=None if drawn is None else jnp.full(options.negatives, drawn),
    )
    return algorithm.goal.losses({"vectors": jnp.array(vectors), **dense}, inputs)[0][:, 0]


@costly
@pytest.mark.parametrize("correction", ["logq", "none"])
def test_the_loss_is_the_softmax_over_the_items_of_other_users(correction: str) -> None:
    options = TwoTowerOptions(dim=4, temperature=0.5, correction=correction)
    users, items, weight = [0, 1, 0, 2, 3], [4, 5, 6, 4, 7], [1.0, 1, 1, 1, 0]
    counts, ages = [0.0, 0, 0, 0, 10, 3, 0, 2], [0.0, 0, 0, 0, 100, 300, 0, 40]
    vectors = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors[users] @ vectors[items].T / 0.5
    if correction == "logq":
        rows = 4 + 4096 + np.array(ages)[items]
        scores -= np.log(np.array([12, 4, 1, 12, 2]) / rows)  # with those of this batch that weigh something
    reported = {
        0: [0, 1],
        1: [0, 1, 2, 3],
        2: [1, 2, 3],
        3: [1, 2, 3],
    }  # not a user's other items, nor the same item, nor weight 0
    expected = [np.log(np.exp(scores[i, js]).sum()) - scores[i, i] for i, js in reported.items()]
    np.testing.assert_allclose(loss(options, users, items, weight, counts, ages)[:4], expected, rtol=1e-4)


@costly
@pytest.mark.parametrize("correction", ["logq", "none"])
def test_random_items_are_negatives_by_how_often_each_is_expected(correction: str) -> None:
    options = TwoTowerOptions(dim=4, temperature=0.5, correction=correction, negatives=2)
    users, items, weight = [1, 2, 3, 0, 0], [4, 5, 6, 5, 7], [1.0, 1, 0, 0, 0]  # 6 is padding, 5 and 7 are random
    counts, ages = [0.0, 0, 0, 0, 10, 3, 0, 2], [0.0, 0, 0, 0, 100, 300, 0, 40]
    vectors = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors[users[:2]] @ vectors[items].T / 0.5
    if correction == "logq":  # two rows are in the batch; of 8 items each random one is expected 2 / 8 times
        scores -= np.log(np.array([11, 4, 0, 4, 2]) * 2 / (2 + 4096 + np.array(ages)[items]) + 0.25)
    reported = {0: [0, 1, 3, 4], 1: [0, 1, 4]}  # not its own item
    expected = [np.log(np.exp(scores[i, js]).sum()) - scores[i, i] for i, js in reported.items()]
    found = loss(options, users, items, weight, counts, ages, 0.25)
    np.testing.assert_allclose(found[:2], expected, rtol=1e-4)
    assert not found[3:].any()


def test_an_age_counts_the_examples_since_the_first_with_the_feature() -> None:
    offered = statistics_of_rows(("count", "age"))
    old = {"count": jnp.array([0, 7], jnp.uint32), "began": jnp.array([[0.0], [300.0]])}
    now = context(2)._replace(new=jnp.array([True, False]), examples=jnp.float32(1000))
    rows = offered.after(old, {**old, "count": jnp.array([1, 8], jnp.uint32)}, now)
    later = now._replace(examples=jnp.float32(1500))
    np.testing.assert_array_equal(offered.offer(rows, later), [[1, 500], [8, 1200]])


@pytest.mark.parametrize(
    ("query", "item", "message"),
    [
        (("user",), ("item",), "the slot kind is in neither query nor item; name it there or in IGNORE"),
        (("user", "kind"), ("item", "kind"), "the slot kind is in both towers"),
        (("user", "kind", "USER"), ("item",), "query .* names the slot user twice; name it once"),
        (("user", "kind"), ("itme",), "Did you mean item"),
        (("user", "kind", "item"), ("tags",), "begins with tags, which is not categorical"),
        ((), ("item",), "expects one or more slots"),
    ],
)
def test_slots_have_one_tower(query: tuple[str, ...], item: tuple[str, ...], message: str) -> None:
    layout = Layout(scalar=("user", "item", "kind"), bags=("tags",) if "tags" in item else (), labels=())
    with pytest.raises(OptionError, match=message):
        two_tower(TwoTowerOptions(query=query, item=item), layout)


@costly
@embedded
def test_windows_measure_how_many_items_are_found_in_a_sample(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log()[0], tmp_path / "log.parquet", 10_000)
    settings = "WITH (passes = 8, batch_size = 128, workers = 1, share = (clicked AS item))"
    session.sql(
        f"TRAIN MODEL m USING {TOWERS} EVALUATE EVERY 2 BATCHES ON 2 BATCHES RELEASE WHEN recall > 0.01 {settings} "
        f"AS SELECT * FROM parquet.`{path}`"
    )
    windows = session.sql("SELECT recall, mae FROM ML.TRAINING_INFO(MODEL m) WHERE recall IS NOT NULL").arrow()
    recall = windows["recall"].to_numpy()
    assert 0 < recall[0] < recall[-1] < 1
    told = Notes()
    with xpsql.connect(session.models.warehouse, reporter=told) as telling:
        text = f"SELECT recall, mae FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`))"
        (measured,) = telling.sql(text).arrow().to_pylist()
    assert any("among the items of a batch; with ITEMS" in note for note in told.notes)
    assert recall[0] < measured["recall"] < 1
    assert measured["mae"] > 0


def test_an_item_is_found_where_it_is_in_the_best_twentieth() -> None:
    scores = jnp.array([np.arange(60), np.arange(60), np.arange(60)], jnp.float32)
    others = jnp.ones((3, 60), bool).at[2, 57:].set(False)
    found = found_in(scores, jnp.array([56.5, 55.5, 56.5]), others)  # three are better, four, none
    assert found.tolist() == [1, 0, 1]
    assert found_in(scores[:1, :5], jnp.array([3.5]), others[:1, :5]).tolist() == [0]  # of few only the first


@costly
@embedded
def test_rows_held_out_judge_passes_by_recall(session: xpsql.Session, tmp_path: Path) -> None:
    train, last = log()
    path, held = write(train, tmp_path / "log.parquet", 10_000), write(last, tmp_path / "last.parquet", 10_000)
    clauses = f"VALIDATE ON (SELECT * FROM parquet.`{held}`) RELEASE WHEN validation.recall > 0.01"
    settings = "WITH (passes = 12, patience = 1, batch_size = 128, workers = 1, share = (clicked AS item))"
    session.sql(f"TRAIN MODEL m USING {TOWERS} {clauses} {settings} AS SELECT * FROM parquet.`{path}`")
    info = "SELECT recall, examples FROM ML.TRAINING_INFO(MODEL m) WHERE validation ORDER BY pass"
    lines = session.sql(info).arrow()["recall"].to_pylist()
    manifest = session.models.version("m").manifest
    assert manifest.learned.best_pass == int(np.argmax(lines)) == len(lines) - 2 < 11
    assert manifest.learned.examples == len(train) * (len(lines) - 1)
    (found,) = session.sql(f"SELECT recall, examples FROM ML.EVALUATE(MODEL m, TABLE parquet.`{held}`)").arrow().to_pylist()
    assert (found["recall"], found["examples"]) == (pytest.approx(max(lines)), USERS)
