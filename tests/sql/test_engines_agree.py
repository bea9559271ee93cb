"""What is asked of a model answers alike on both engines: metrics, explanations, curves, models as tables, frames."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly_after_first
from tests.training.log import log, session, write  # noqa: F401  a fixture


@costly_after_first
def test_a_model_is_asked_the_same_way_on_both_engines(session: xpsql.Session, tmp_path: Path) -> None:  # noqa: F811
    path = write(log(400), tmp_path / "log.parquet")
    rows = session.sql(f"SELECT label, user, item FROM parquet.`{path}`").arrow()
    kinds = pa.array([["a", "b", "c"][(len(user or "") + place) % 3] for place, user in enumerate(rows["user"].to_pylist())])
    session.register("log", rows.append_column("kind", kinds))
    assert session.sql("SELECT count(*) FROM log WHERE label IN (?, ?)", [0, 1]).fetchall() == [(400,)]
    session.sql("TRAIN MODEL m USING xftrl WITH (workers = 1) AS SELECT label, user, item FROM log")
    session.sql("TRAIN MODEL k USING xftrl LABEL kind WITH (workers = 1) AS SELECT kind, user, item FROM log")

    (measured,) = session.sql("SELECT * FROM ML.EVALUATE(MODEL m, TABLE log)").arrow().to_pylist()
    matrix = session.sql("SELECT predicted_0, predicted_1 FROM ML.CONFUSION_MATRIX(MODEL m, TABLE log, 0.5)").fetchall()
    assert sum(map(sum, matrix)) == 400
    assert matrix[1][1] / max(sum(row[1] for row in matrix), 1) == pytest.approx(measured["precision"] or 0)
    curve = session.sql("SELECT * FROM ML.ROC_CURVE(MODEL m, TABLE log)").arrow()
    assert curve["recall"].to_pylist()[-1] == 1
    importance = session.sql("SELECT slot, loss_increase FROM ML.FEATURE_IMPORTANCE(MODEL m, TABLE log)").fetchall()
    assert {slot for slot, _ in importance} == {"user", "item"}
    explained = session.sql("SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, TABLE log, 1)").arrow()
    assert explained.num_rows == 400
    predicted = session.sql("SELECT predicted_label FROM ML.PREDICT(MODEL m, TABLE log)").arrow()["predicted_label"]
    assert sorted(explained["predicted_label"].to_pylist()) == pytest.approx(sorted(predicted.to_pylist()))
    told = session.model("m").predict(rows.slice(0, 3)).arrow()["predicted_label"].to_pylist()
    assert told == pytest.approx(predicted.to_pylist()[:3])

    (first,) = session.sql("SELECT * FROM ML.PREDICT(MODEL k, (SELECT * FROM log LIMIT 1))").arrow().to_pylist()
    shares = dict(first["predicted_kind_probabilities"])
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert max(shares, key=lambda kind: shares[kind]) == first["predicted_kind"]

    compared = session.sql("SELECT * FROM ML.COMPARE(MODEL m, MODEL m VERSION 1, TABLE log)").arrow().to_pylist()
    assert {line["difference"] for line in compared if line["metric"] in ("auc", "logloss")} == {0}
    joined = "FROM ML.MODELS() m JOIN ML.VERSIONS() v ON m.name = v.model WHERE v.examples = :examples ORDER BY 1"
    assert session.sql(f"SELECT m.name, v.version {joined}", {"examples": 400}).fetchall() == [("k", 1), ("m", 1)]
    options = session.sql("SELECT value FROM ML.OPTIONS(MODEL m) WHERE clause = 'WITH' AND option = 'workers'").fetchall()
    assert options == [("1",)]
