"""ML.FEATURE_IMPORTANCE: exchanged values cost what they must, and weights weigh what ML.WEIGHTS says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly, slow_elsewhere
from tests.training.log import log, session, write  # noqa: F401  a fixture
from xpsql.platform.errors import StatementError, XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring import permutation


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(log(1500), tmp_path_factory.mktemp("log") / "log.parquet", row_group_rows=500)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as opened:
        yield opened


def importance(session: xpsql.Session, arguments: str) -> list[dict[str, Any]]:  # noqa: F811
    return list(session.sql(f"SELECT * FROM ML.FEATURE_IMPORTANCE(MODEL m{arguments})").arrow().to_pylist())


@slow_elsewhere
def test_the_loss_grows_as_it_must_where_a_slot_is_another_rows(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    query = f"SELECT 10 * label AS y, user, item, price, 'same' AS page FROM parquet.`{path}`"
    session.sql(f"TRAIN MODEL m USING linear_regression LABEL y WITH (workers = 1, shards = 1) AS {query}")
    found = importance(session, f", ({query})")
    assert importance(session, f", ({query})") == found
    assert [row["loss_increase"] for row in found] == sorted((row["loss_increase"] for row in found), reverse=True)
    by_slot = {row["slot"]: row for row in found}
    assert {*by_slot} == {"user", "item", "price", "page"}
    assert by_slot["page"]["loss_increase"] == 0
    assert all(row["auc_decrease"] is None for row in found)
    rows = session.sql(f"SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, ({query}), 9)").arrow()
    y, predicted = rows["y"].to_numpy(), rows["predicted_y"].to_numpy()
    parts = [{a["feature"]: a["attribution"] for a in row} for row in rows["top_feature_attributions"].to_pylist()]
    for slot in ("user", "item", "price"):
        own = np.array([row[slot] for row in parts])
        rest = y - predicted + own
        # E (rest - other)^2 where other is independent of rest, and as own otherwise
        squares = (rest**2).mean() - 2 * rest.mean() * own.mean() + (own**2).mean()
        expected = np.sqrt(squares) - np.sqrt(((y - predicted) ** 2).mean())
        assert by_slot[slot]["loss_increase"] == pytest.approx(expected, rel=0.1)


def test_of_classes_auc_falls_to_one_half_where_the_only_slot_that_tells_is_exchanged(
    embedded: xpsql.Session, path: Path
) -> None:
    query = f"SELECT label, label AS told, pmod(xxhash64(ts), 5) AS noise FROM parquet.`{path}`"
    embedded.sql(f"TRAIN OR REPLACE MODEL m USING xftrl (alpha = 1) AS {query}")
    first, second = importance(embedded, f", ({query})")
    assert (first["slot"], second["slot"]) == ("told", "noise")
    assert first["auc_decrease"] == pytest.approx(0.5, abs=0.03)
    assert abs(second["auc_decrease"]) < 0.01


def test_of_many_rows_a_part_is_drawn(embedded: xpsql.Session, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = f"SELECT label, user, item FROM parquet.`{path}`"
    embedded.sql(f"TRAIN OR REPLACE MODEL m USING xftrl AS {query}")
    seen = []
    monkeypatch.setattr(permutation, "MOST_ROWS", 300)
    whole = permutation.shuffled
    monkeypatch.setattr(permutation, "shuffled", lambda table, *others: seen.append(table.num_rows) or whole(table, *others))
    importance(embedded, f", ({query})")
    assert len(seen) == 2  # once for each slot
    assert all(200 < rows < 400 for rows in seen)


@costly
def test_fields_of_one_history_are_exchanged_together(embedded: xpsql.Session, path: Path) -> None:
    query = (
        "SELECT label, item, pmod(item, 7) AS kind, transform(tags, t -> t) AS seen, transform(tags, t -> upper(t)) AS kinds "
        f"FROM parquet.`{path}` LIMIT 200"
    )
    options = "target = (item, kind), history = (seen, kinds), dim = 2, hidden = (4), attention = (4)"
    embedded.sql(f"TRAIN OR REPLACE MODEL m USING din ({options}) AS {query}")
    assert {row["slot"] for row in importance(embedded, f", ({query})")} == {"item", "kind", "seen, kinds"}


def test_weights_are_weighed_by_how_often_their_features_occur(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(f"TRAIN OR REPLACE MODEL m USING xftrl AS SELECT label, user, item, price, tags FROM parquet.`{path}`")
    found = importance(embedded, "")
    sizes: dict[str, float] = {}
    for row in (
        embedded.sql("SELECT slot, `count`, weight FROM ML.WEIGHTS(MODEL m) WHERE slot <> '(intercept)'").arrow().to_pylist()
    ):
        sizes[row["slot"]] = sizes.get(row["slot"], 0) + row["count"] * abs(row["weight"]) / 1500
    assert {row["slot"]: row["importance"] for row in found} == pytest.approx(sizes)
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert [row["slot"] for row in found] == sorted(sizes, key=lambda slot: -sizes[slot])


def test_trees_are_weighed_by_their_gain(embedded: xpsql.Session, path: Path) -> None:
    pytest.importorskip("xgboost")
    embedded.sql(
        "TRAIN OR REPLACE MODEL m USING xgboost (rounds = 5) "
        f"AS SELECT label, user, price, vector, 1 AS one FROM parquet.`{path}`"
    )
    found = {row["slot"]: row["importance"] for row in importance(embedded, "")}
    assert {*found} == {"user", "price", "vector", "one"}
    assert min(found["user"], found["price"], found["vector"]) > 0 == found["one"]


@costly
def test_data_without_labels_or_rows_and_models_without_labels_are_refused(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(f"TRAIN OR REPLACE MODEL m USING word2vec (dim = 4) AS SELECT tags FROM parquet.`{path}`")
    with pytest.raises(StatementError, match=r"m has none. Leave the data out to see its weights"):
        importance(embedded, f", (SELECT tags FROM parquet.`{path}`)")
    assert [row["slot"] for row in importance(embedded, "")] == ["tags"]
    embedded.sql(f"TRAIN OR REPLACE MODEL m USING xftrl AS SELECT label, item FROM parquet.`{path}`")
    with pytest.raises(StatementError, match="needs the column label"):
        importance(embedded, f", (SELECT item FROM parquet.`{path}`)")
    with pytest.raises(XpsqlError, match="the query returns none"):
        importance(embedded, f", (SELECT label, item FROM parquet.`{path}` WHERE item < 0)")
    with pytest.raises(XpsqlError, match="LABEL label must be 0 or 1; row 0 of the query has 2"):
        importance(embedded, f", (SELECT label + 2 AS label, item FROM parquet.`{path}` ORDER BY label)")
