"""Word2Vec against its definition, and what it learns of sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import xpsql
from tests.cases import costly
from tests.training.log import write
from xpsql.algorithms.base import Inputs, Layout
from xpsql.algorithms.blocks.bags import BagRows
from xpsql.algorithms.items.word2vec import BLOCK, GROUPS, SHARED, Word2VecOptions, word2vec
from xpsql.platform.errors import OptionError, StatementError

DIM, ROWS, WINDOW = 4, 30, 3
LAYOUT = Layout(bags=("items", "places"), labels=())
OPTIONS = Word2VecOptions(dim=DIM, window=WINDOW, negatives=2)
Vectors = NDArray[np.float32]


def batch(values: int = 200) -> Inputs:
    """Return ten sequences of each of two slots, of uneven lengths."""
    random = np.random.default_rng(0)
    sequence = np.sort(random.integers(0, 20, values)).astype(np.int32)
    return Inputs(
        scalar=np.zeros((0, 10), np.int32),
        bags=BagRows(
            random.integers(0, ROWS, values).astype(np.int32),
            sequence % 10,
            sequence // 10,
            random.random(values).astype(np.float32),
        ),
        dense=np.zeros((10, 0), np.float32),
        dense_index=np.zeros(0, np.int32),
        label=np.zeros((10, 1), np.float32),
        weight=np.ones(10, np.float32),
        sampled=random.integers(0, ROWS, GROUPS * SHARED).astype(np.int32),
    )


def parameters() -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {name: jnp.asarray(random.normal(size=(ROWS, DIM)), jnp.float32) for name in ("vectors", "contexts")}


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def test_the_loss_is_that_of_telling_neighbours_from_random_features() -> None:
    values, inputs = parameters(), batch()
    losses, measured = word2vec(OPTIONS, LAYOUT).goal.losses(values, inputs)
    v, c = (np.asarray(values[name]) for name in ("vectors", "contexts"))
    expected = np.zeros((10, 2))
    for i, row in enumerate(inputs.bags.rows):
        block = i // BLOCK % GROUPS
        others = inputs.sampled[block * SHARED : (block + 1) * SHARED]  # type: ignore[index]
        for j, near in enumerate(inputs.bags.rows):
            same = (inputs.bags.example[i], inputs.bags.slot[i]) == (inputs.bags.example[j], inputs.bags.slot[j])
            if i == j or not same or abs(i - j) > WINDOW:
                continue
            weight = inputs.bags.weight[i] * inputs.bags.weight[j] * (WINDOW - abs(i - j) + 1) / WINDOW
            loss = softplus(-v[row] @ c[near]) + OPTIONS.negatives * softplus(c[others] @ v[row]).mean()
            expected[inputs.bags.example[i]] += weight * np.array([loss, 1 + OPTIONS.negatives])
    np.testing.assert_allclose(losses[:, 0], expected[:, 0], rtol=1e-4)
    with_pairs = expected[:, 1] > 0
    np.testing.assert_allclose(measured[with_pairs, 0], (expected[:, 0] / expected[:, 1].clip(1e-6))[with_pairs], rtol=1e-4)
    np.testing.assert_array_equal(measured[~with_pairs], 0)


def walks(rows: int = 3000) -> pa.Table:
    """Return walks on a ring of 40 places: neighbours on the ring stand near each other."""
    random = np.random.default_rng(2)
    starts, steps = random.integers(0, 40, rows), random.choice([-1, 1], (rows, 8))
    return pa.table({"items": [[f"p{p % 40}" for p in s + np.cumsum(w)] for s, w in zip(starts, steps, strict=True)]})


TRAIN = "TRAIN MODEL {} USING word2vec (dim = 16, window = 2, learning_rate = 0.2) {} AS SELECT items FROM parquet.`{}`"
ONCE = "WITH (passes = 1, workers = 1)"


@costly
def test_neighbours_in_sequences_are_nearest(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(walks(), tmp_path / "walks.parquet")
    session.sql(TRAIN.format("m", "WITH (passes = 5, workers = 1)", path))
    hits = session.sql(
        "SELECT count(*) AS n FROM ML.NEAREST(MODEL m, items, 'p7', 4) WHERE key IN (feature_key('items', 'p5'), "
        "feature_key('items', 'p6'), feature_key('items', 'p8'), feature_key('items', 'p9'))"
    )
    assert hits.arrow()["n"].to_pylist() == [4]


def test_a_sequence_is_predicted_as_its_mean_vector(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(walks(200), tmp_path / "walks.parquet")
    session.sql(TRAIN.format("m", ONCE, path))
    rows = session.sql(
        "SELECT items, predicted_vector FROM ML.PREDICT(MODEL m, (SELECT array('p1', 'p2', 'new') AS items UNION ALL "
        "SELECT array('new') AS items))"
    ).arrow()
    known = session.sql(
        "SELECT weights FROM ML.WEIGHTS(MODEL m) WHERE `table` = 'vectors' AND key IN (feature_key('items', 'p1'), "
        "feature_key('items', 'p2'))"
    ).arrow()
    found = {tuple(row["items"]): row["predicted_vector"] for row in rows.to_pylist()}
    np.testing.assert_allclose(found["p1", "p2", "new"], np.mean(known["weights"].to_pylist(), axis=0), rtol=1e-5)
    np.testing.assert_array_equal(found[("new",)], np.zeros(16))


@costly
def test_evaluation_gives_the_mean_loss_which_learning_lowers(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(walks(), tmp_path / "walks.parquet")
    losses = []
    for passes in (1, 8):
        session.sql(TRAIN.format(f"m{passes}", f"WITH (passes = {passes})", path))
        query = f"SELECT mae, auc FROM ML.EVALUATE(MODEL m{passes}, (SELECT items FROM parquet.`{path}`))"
        (row,) = session.sql(query).arrow().to_pylist()
        assert row["auc"] is None
        losses.append(row["mae"])
    assert losses[1] < losses[0] < np.log(2) + 1e-3


def test_statistics_count_what_occurred_and_not_what_was_drawn(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(walks(200), tmp_path / "walks.parquet")
    session.sql(TRAIN.format("m", "", path))
    query = "SELECT sum(count) AS n FROM ML.WEIGHTS(MODEL m) WHERE `table` = 'vectors'"
    assert session.sql(query).arrow()["n"].to_pylist() == [10 * 200 * 8], "a short log is read ten times"
    described = session.sql(f"EXPLAIN FAST CONTINUE MODEL m AS SELECT items FROM parquet.`{path}`").fetchall()
    assert ("passes", "1") in described
    session.sql(f"CONTINUE MODEL m AS SELECT items FROM parquet.`{path}`")
    assert session.sql(query).arrow()["n"].to_pylist() == [11 * 200 * 8], "what continues reads it once"


def test_a_version_that_continues_equals_one_training(session: xpsql.Session, tmp_path: Path) -> None:
    folder = tmp_path / "walks"
    folder.mkdir()
    whole = walks(400)
    write(whole.slice(0, 256), folder / "0.parquet")
    write(whole.slice(256), folder / "1.parquet")
    session.sql(TRAIN.format("m", ONCE, folder / "0.parquet"))
    session.sql(f"CONTINUE MODEL m AS SELECT items FROM parquet.`{folder / '1.parquet'}`")
    session.sql(TRAIN.format("once", ONCE, folder))
    query = "SELECT key, weights FROM ML.WEIGHTS(MODEL {}) WHERE `table` = 'vectors' ORDER BY key"
    continued, once = (session.sql(query.format(name)).arrow() for name in ("m", "once"))
    assert continued["key"] == once["key"]
    np.testing.assert_allclose(continued["weights"].to_pylist(), once["weights"].to_pylist(), rtol=1e-4, atol=1e-6)


def test_a_label_is_refused(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="word2vec learns without labels"):
        session.sql("TRAIN MODEL m USING word2vec LABEL y AS SELECT array('a') AS items, 1 AS y")


@pytest.mark.parametrize("layout", [Layout(scalar=("user",), bags=("items",)), Layout(labels=())])
def test_what_is_no_sequence_is_refused(layout: Layout) -> None:
    with pytest.raises(OptionError, match="word2vec learns from sequences"):
        word2vec(OPTIONS, layout)


@costly
@pytest.mark.parametrize(("sequences", "features"), [([[], [], ["a", "b"], ["c"]], 3), ([[], [], [], []], 0)])
def test_explain_estimates_the_features_of_a_log_that_begins_without_features(
    session: xpsql.Session, tmp_path: Path, sequences: list[list[str]], features: int
) -> None:
    path = write(pa.table({"items": pa.array(sequences, pa.list_(pa.string()))}), tmp_path / "log.parquet")
    reported = session.sql(f"EXPLAIN TRAIN MODEL m USING word2vec AS SELECT * FROM parquet.`{path}`").arrow().to_pylist()
    values = {row["property"]: row["value"] for row in reported}
    assert values["stored"].startswith(f"about {features} features, ")
    assert values["passes"] == "10 (chosen for 4 rows)"
