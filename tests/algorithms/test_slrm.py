"""SLRM: which pairs it makes, what it learns of them, and the table of related items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first
from tests.training.log import embedded, write
from tests.training.log import session as on_each
from xpsql.algorithms.augments import pairs
from xpsql.algorithms.base import Layout
from xpsql.algorithms.items.slrm import SlrmOptions, slrm
from xpsql.platform.errors import OptionError, StatementError

__all__ = ["on_each"]

USERS, ITEMS = 1500, 40


def baskets() -> pa.Table:
    """Return users who have an even item and the one after it, and others at random; a row for each item, the rest history."""
    random = np.random.default_rng(0)
    rows = []
    for _ in range(USERS):
        pair = 2 * int(random.integers(0, ITEMS // 2))
        items = [pair, pair + 1, *random.integers(0, ITEMS, 2).tolist()]
        rows += [(f"i{item}", [f"i{other}" for other in items if other != item]) for item in items]
    item, history = zip(*rows, strict=True)
    return pa.table({"label": np.ones(len(rows), np.int32), "item": item, "history": history})


TRAIN = "TRAIN MODEL m USING slrm {} AS SELECT * FROM parquet.`{}`"
RELATED = "SELECT * FROM ML.RELATED(MODEL m, (SELECT DISTINCT item FROM parquet.`{}`))"


@embedded
def test_the_item_that_goes_with_another_is_the_first_related(on_each: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    on_each.sql(TRAIN.format("WITH (workers = 1)", path))
    rows = on_each.sql(RELATED.format(path)).arrow().to_pylist()
    best: dict[str, str] = {}
    for row in rows:
        best.setdefault(row["item"], row["related"])
    assert best == {f"i{i}": f"i{i ^ 1}" for i in range(ITEMS)}
    scores = [row["score"] for row in rows if row["item"] == "i7"]
    assert scores == sorted(scores, reverse=True)
    assert all(row["item"] != row["related"] for row in rows)


def test_as_many_examples_are_expected_as_are_learned(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    session.sql(TRAIN.format("WITH (passes = 2)", path))
    manifest = session.models.version("m").manifest
    assert manifest.sizes.examples == manifest.learned.examples


def test_a_row_is_scored_by_its_pairs(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    session.sql(TRAIN.format("", path))
    scores = {(row["item"], row["related"]): row["score"] for row in session.sql(RELATED.format(path)).arrow().to_pylist()}
    (bias,) = session.sql("SELECT weight FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'").arrow()["weight"].to_pylist()
    total = scores["i2", "i3"] + scores.get(("i30", "i3"), 0)
    for length, share in ((4, 1), (8, 1), (32, 0.5)):
        row = f"SELECT 'i3' AS item, concat(array('i2', 'i30', 'i3', 'new'), array_repeat('new', {length - 4})) AS history"
        found = session.sql(f"SELECT predicted_label AS p FROM ML.PREDICT(MODEL m, ({row}))").arrow()["p"][0].as_py()
        assert found == pytest.approx(1 / (1 + np.exp(-bias - share * total)), rel=1e-4)


def test_items_of_a_history_may_have_weights(session: xpsql.Session, tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.float64())
    rows = {"label": [1, 0] * 20, "item": ["a", "b"] * 20, "history": pa.array([[("b", 2.0)], [("a", 0.5)]] * 20, kind)}
    path = write(pa.table(rows), tmp_path / "log.parquet")
    session.sql(TRAIN.format("(negatives = 0)", path))
    scores = {row["item"]: row["score"] for row in session.sql(RELATED.format(path)).arrow().to_pylist()}
    assert scores["b"] > 0 > scores["a"]


@costly_after_first
def test_keys_of_pairs_can_be_computed_in_sql(on_each: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    on_each.sql(TRAIN.format("", path))
    upper = "shiftright(feature_key('{}', '{}'), 32)"
    key = f"{upper.format('item', 'i3')} * 4294967296 + ({upper.format('history', 'i2')} & 4294967295)"
    rows = on_each.sql(f"SELECT weight, slot FROM ML.WEIGHTS(MODEL m) WHERE key = {key}").arrow().to_pylist()
    assert [row["slot"] for row in rows] == ["history"]
    assert rows[0]["weight"] > 1


def test_l1_keeps_pairs_out_of_the_table(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    sizes = []
    for l1 in (0.5, 20):
        session.sql(f"TRAIN OR REPLACE MODEL m USING slrm (l1 = {l1}) AS SELECT * FROM parquet.`{path}`")
        sizes.append(session.sql(RELATED.format(path)).arrow().num_rows)
    assert ITEMS <= sizes[1] < sizes[0] / 2


def test_rows_of_label_0_need_no_random_ones(session: xpsql.Session, tmp_path: Path) -> None:
    table = baskets()
    labels = (np.random.default_rng(1).random(table.num_rows) < 0.5).astype(np.int32)
    path = write(table.set_column(0, "label", pa.array(labels)), tmp_path / "log.parquet", 10_000)
    session.sql(TRAIN.format("(negatives = 0)", path))
    (row,) = session.sql("SELECT examples FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()
    assert row["examples"] == table.num_rows


@costly
@embedded
def test_related_pairs_are_features_of_xsvd(on_each: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    on_each.sql(TRAIN.format("", path))
    on_each.sql(f"CREATE TABLE related AS {RELATED.format(path)} WHERE score > 0.5")
    pairs = f"SELECT *, transform(history, had -> concat(had, '>', item)) AS made FROM parquet.`{path}`"
    query = (
        "SELECT label, item, history, filter(made, p -> array_contains(kept, p)) AS pairs "
        f"FROM ({pairs}) CROSS JOIN (SELECT collect_list(concat(item, '>', related)) AS kept FROM related)"
    )
    on_each.sql(f"TRAIN MODEL x USING xsvd (user = (history), item = (item), dim = 4) AS {query}")
    (row,) = on_each.sql("SELECT count(*) AS n FROM ML.WEIGHTS(MODEL x) WHERE slot = 'pairs'").arrow().to_pylist()
    assert row["n"] >= ITEMS


@pytest.mark.parametrize(
    ("options", "layout", "message"),
    [
        ({"item": "itm"}, Layout(("item",), ("history",)), "names 'itm', which is no categorical slot. Did you mean item"),
        ({"history": "tags"}, Layout(("item",), ("history",)), "names 'tags', which is no array slot"),
        ({}, Layout(("item", "user"), ("history",)), "user out or name it in IGNORE"),
    ],
)
def test_slots_that_do_not_fit_are_refused(options: dict[str, str], layout: Layout, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        slrm(SlrmOptions(**options), layout)


def test_a_model_without_any_row_relates_nothing(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    session.sql(TRAIN.format("", path))
    session.sql("SHRINK MODEL m WHERE true")
    assert session.sql(RELATED.format(path)).arrow().to_pylist() == []


def test_related_needs_a_model_of_pairs_and_a_column_of_items(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    session.sql(TRAIN.format("", path))
    with pytest.raises(StatementError, match="needs the column item, which the query does not return"):
        session.sql("SELECT * FROM ML.RELATED(MODEL m, (SELECT 1 AS itm))")
    with pytest.raises(StatementError, match="item is double, a continuous slot; the model learned it as categorical"):
        session.sql("SELECT * FROM ML.RELATED(MODEL m, (SELECT 1.5D AS item))")
    session.sql("TRAIN MODEL x USING xftrl AS SELECT 1 AS label, 'a' AS item")
    with pytest.raises(StatementError, match=r"xftrl has none.* at .ML\.RELATED"):
        session.sql("SELECT * FROM ML.RELATED(MODEL x, (SELECT 'a' AS item))")


def test_pairs_are_searched_where_a_table_of_them_would_be_large(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(baskets(), tmp_path / "log.parquet", 10_000)
    found = []
    for largest in (pairs.LARGEST_TABLE, 0):
        monkeypatch.setattr(pairs, "LARGEST_TABLE", largest)
        session.sql(TRAIN.format("WITH (share = (history AS item), workers = 1)", path).replace("TRAIN", "TRAIN OR REPLACE"))
        found.append(session.sql("SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY key").arrow())
    assert found[0].num_rows > ITEMS
    assert found[0].equals(found[1])
