"""XSVD against its definition."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

from tests.algorithms.inputs import BATCH, LAYOUT, NUM_ROWS, features, random_inputs
from tests.cases import costly, lengthy, slow_elsewhere
from tests.training.log import embedded, session, write
from xpsql.algorithms.items.xsvd import XsvdOptions, xsvd
from xpsql.platform.errors import ModelError, OptionError

__all__ = ["session"]

DIM = 3


@pytest.mark.parametrize("feedback", [(), ("tags",)])
def test_scores_are_biases_and_the_match_of_user_and_item(feedback: tuple[str, ...]) -> None:
    algorithm = xsvd(XsvdOptions(user=("user", "Price"), item=("item",), feedback=feedback, dim=DIM), LAYOUT)
    random, inputs = np.random.default_rng(1), random_inputs()
    weights = random.normal(size=(NUM_ROWS, 1)).astype(np.float32)
    vectors = random.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
    found = algorithm.scores({"weights": jnp.asarray(weights), "vectors": jnp.asarray(vectors)}, inputs)
    for example in range(BATCH):
        own = features(inputs, example)
        score = weights[15, 0] + sum(weights[f.row, 0] * f.value for f in own)
        side = {slot: sum((vectors[f.row] * f.value for f in own if f.slot == slot), np.zeros(DIM)) for slot in LAYOUT.slots}
        history = sum(f.value for f in own if f.slot == "tags")
        mine = side["user"] + side["price"]
        if feedback and history:
            mine = mine + side["tags"] / np.sqrt(history)
        np.testing.assert_allclose(found[example, 0], score + mine @ side["item"], rtol=1e-4, atol=1e-4)


def test_the_first_items_of_a_feedback_slot_can_be_all_that_counts() -> None:
    options = XsvdOptions(user=("user",), item=("item",), feedback=("scores",), dim=DIM)
    random, inputs = np.random.default_rng(1), random_inputs()
    values = {
        "weights": jnp.asarray(random.normal(size=(NUM_ROWS, 1)), jnp.float32),
        "vectors": jnp.asarray(random.normal(size=(NUM_ROWS, DIM)), jnp.float32),
    }
    found = xsvd(dataclasses.replace(options, feedback_items=1), LAYOUT).scores(values, inputs)
    kept = inputs._replace(bags=inputs.bags._replace(weight=inputs.bags.weight * np.array([1, 1, 1, 1, 1, 0], np.float32)))
    np.testing.assert_allclose(found, xsvd(options, LAYOUT).scores(values, kept), rtol=1e-6)
    assert not np.allclose(found, xsvd(options, LAYOUT).scores(values, inputs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": ("usr",)}, "names 'usr', which is not a slot. Did you mean user"),
        ({"feedback": ("item",)}, "Option feedback of algorithm xsvd names 'item'"),
        ({"item": ()}, "expects one or more slots, like item"),
        ({"user": ("user", "USER")}, "names the slot user twice; name it once"),
        ({"item": ("user",)}, "name the slot user twice; name it once"),
        ({"user": ()}, "expects slots of the user or of feedback"),
        ({"item": ("price",), "negatives": 2}, "draws items by the first slot of option item, and price is not categorical"),
    ],
)
def test_options_that_name_no_slot_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        xsvd(XsvdOptions(**options), LAYOUT)


@lengthy
@slow_elsewhere
def test_what_users_like_is_learned_from_their_history_with_shared_rows(session: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    taste, item = random.integers(0, 2, 8_000), random.integers(0, 40, 8_000)
    history = [[int(x) * 2 + t for x in random.integers(0, 20, 5)] for t in taste]
    label = (random.random(8_000) < np.where(item % 2 == taste, 0.8, 0.2)).astype(np.int8)
    table = pa.table({"label": label, "visit": np.arange(8_000), "item": item, "history": history})
    path = write(table, tmp_path / "log.parquet")
    session.sql(
        "TRAIN MODEL m USING xsvd (user = (visit), feedback = (history), dim = 4, vector_alpha = 0.2, init_scale = 0.1) "
        f"WITH (share = (history AS item), batch_size = 100) AS SELECT * FROM parquet.`{path}` LIMIT 6000"
    )
    test = f"SELECT * FROM parquet.`{path}` WHERE visit >= 6000"
    (row,) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, ({test}))").arrow().to_pylist()
    assert row["auc"] > 0.7


@costly
@embedded
def test_a_log_of_what_was_taken_is_learned_beside_random_items(session: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    taste = random.integers(0, 2, 3_000)
    items = random.integers(0, 20, (3_000, 5)) * 2 + taste[:, None]
    table = pa.table({"label": np.ones(3_000, np.int8), "item": items[:, 0], "history": items[:, 1:].tolist()})
    path = write(table, tmp_path / "log.parquet")
    session.sql(
        "TRAIN MODEL m USING xsvd (user = (), feedback = (history), negatives = 5, dim = 4, vector_alpha = 0.2) "
        f"WITH (share = (history AS item), workers = 1, passes = 1) AS SELECT * FROM parquet.`{path}`"
    )
    (row,) = session.sql("SELECT examples FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()
    assert row["examples"] == 3_000 * 6
    user = "SELECT array(CAST(2 AS BIGINT), 8, 14) AS history"
    catalogue = f"SELECT i.id AS item, u.history FROM range(40) i CROSS JOIN ({user}) u"
    best = f"SELECT item FROM ML.PREDICT(MODEL m, ({catalogue})) ORDER BY predicted_label DESC LIMIT 20"
    assert all(item % 2 == 0 for item in session.sql(best).arrow()["item"].to_pylist())


def pairs_log(rows: int = 3_000) -> pa.Table:
    """Return a log in which having the even item of two neighbours means taking the other one; no vectors are needed."""
    random = np.random.default_rng(6)
    history = random.integers(0, 20, (rows, 3)) * 2
    item = np.where(random.random(rows) < 0.5, history[:, 0] + 1, random.integers(0, 20, rows) * 2 + 1)
    label = (history + 1 == item[:, None]).any(axis=1).astype(np.int8)
    return pa.table({"label": label, "id": np.arange(rows), "item": item, "history": history.tolist()})


@costly
@embedded
def test_pairs_of_items_have_weights_and_no_vectors(session: Any, tmp_path: Path) -> None:
    path = write(pairs_log(), tmp_path / "log.parquet")
    with_pairs = "xsvd (user = (), feedback = (history), dim = 4, slim = true, alpha = 0.5)"
    shared = "WITH (share = (history AS item), workers = 1, batch_size = 50)"
    train = f"TRAIN MODEL m USING {with_pairs} IGNORE (id) {shared} AS SELECT * FROM parquet.`{path}` WHERE id < {{}}"
    session.sql(train.format(1_000))
    session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}` WHERE id >= 1000 AND id < 2000")

    def counts(table: str) -> dict[str, int]:
        query = f"SELECT slot, count(*) AS n FROM ML.WEIGHTS(MODEL m) WHERE `table` = '{table}' GROUP BY slot"
        return {row["slot"]: row["n"] for row in session.sql(query).arrow().to_pylist()}

    assert counts("weights") == {"(intercept)": 1, "item": 40, "(pairs)": 400}
    assert counts("vectors") == {"item": 40, "(intercept)": 1}
    test = f"SELECT * FROM parquet.`{path}` WHERE id >= 2000"
    (row,) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, ({test}))").arrow().to_pylist()
    assert row["auc"] > 0.97
    items = f"SELECT DISTINCT item FROM parquet.`{path}` UNION SELECT item - 1 FROM parquet.`{path}`"
    related = session.sql(f"SELECT * FROM ML.RELATED(MODEL m, ({items}))").arrow().to_pylist()
    best = {row["item"]: row["related"] for row in sorted(related, key=lambda row: row["score"])}
    assert all(best[item] == item + 1 for item in range(0, 40, 2))
    asked = "SELECT array(CAST(4 AS BIGINT)) AS history"
    (found,) = session.sql(f"SELECT item FROM ML.RECOMMEND(MODEL m, ({asked}), 1, ITEMS ({items}))").arrow().to_pylist()
    assert found["item"] == 5
    asked = "SELECT CAST(5 AS BIGINT) AS item, array(CAST(4 AS BIGINT)) AS history"
    nothing = "SELECT CAST(NULL AS BIGINT) AS item, CAST(array() AS ARRAY<BIGINT>) AS history"
    call = f"ML.EXPLAIN_PREDICT(MODEL m, ({asked}), 2, BASELINE ({nothing}))"
    (row,) = session.sql(f"SELECT * FROM {call}").arrow().to_pylist()
    parts = {part["feature"]: part["attribution"] for part in row["top_feature_attributions"]}
    assert parts["history"] > 2 > abs(parts["item"])
    assert row["approximation_error"] < 0.01
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'weights'}' FORMAT parquet")
    with pytest.raises(
        ModelError, match="makes pairs of items in addition to its slots, which exports for other programs do not"
    ):
        session.sql(f"EXPORT MODEL m TO '{tmp_path / 'onnx'}' FORMAT onnx")
