"""Models of users' events as graphs of ONNX, whose predictions are those of ML.PREDICT and ML.RECOMMEND."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.algorithms.sequences.test_sequence import SMALL, clicks, planted
from tests.cases import costly
from tests.training.log import write
from xpsql.platform.portable.xpsql_reader.keys import microseconds
from xpsql.platform.portable.xpsql_reader.reader import PortableExport
from xpsql.platform.progress import SilentReporter

pytest.importorskip("jax2onnx")
pytest.importorskip("onnxruntime")


def said(folder: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what an export says of rows."""
    import onnxruntime

    model = PortableExport(folder)
    if model.spec["kind"] == "serving":
        return model.predict(rows)
    graph, names = onnxruntime.InferenceSession(folder / model.spec["graph"]), [one["name"] for one in model.spec["outputs"]]
    wanted = {one.name for one in graph.get_inputs()}
    given = {name: values for name, values in model.inputs(rows).items() if name in wanted}
    return dict(zip(names, graph.run(names, given), strict=True))


@costly
@pytest.mark.parametrize(("encoder", "kind"), [("hstu", "onnx"), ("sasrec", "serving")])
def test_a_ranking_model_is_exported_and_scores_rows_of_users_as_ml_predict_does(
    tmp_path: Path, encoder: str, kind: str
) -> None:
    path = write(clicks(40, 20), tmp_path / "clicks.parquet", 10_000)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        events = f"SELECT user, ts, item, did FROM parquet.`{path}`"
        session.sql(f"CREATE HISTORY visits AS {events} PARTITION BY user ORDER BY ts KEEP LAST 9")
        session.sql(
            f"TRAIN MODEL m USING sequence (encoder = '{encoder}', dim = 8, length = 16, hidden = (8), actions = (did), "
            "history = (visits.item, visits.did)) LABEL click, view GROUP user TIME ts WITH (batch_size = 256) "
            f"AS SELECT * FROM parquet.`{path}`"
        )
        session.sql(f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT {kind}")  # which compares with ML.PREDICT
        rows = f"SELECT * FROM parquet.`{path}` WHERE ts < 1700000900"
        wanted = session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({rows})) ORDER BY user, ts").arrow()
    assert pq.read_table(tmp_path / "out" / "parity.parquet").num_rows > 500
    found = said(tmp_path / "out", wanted.to_pylist())
    for label in ("predicted_click", "predicted_view"):
        np.testing.assert_allclose(found[label], wanted[label].to_numpy(), atol=1e-5)


@costly
def test_a_retrieval_model_is_exported_and_ranks_items_as_ml_recommend_does(tmp_path: Path) -> None:
    path = write(planted(30, 8), tmp_path / "log.parquet", 10_000)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING {SMALL} GROUP user TIME ts AS SELECT user, ts, item FROM parquet.`{path}`")
        session.sql(f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT onnx")
        asks = (
            f"SELECT user, ts, item FROM parquet.`{path}` UNION ALL "
            f"SELECT DISTINCT user, 1700009999, CAST(NULL AS BIGINT) FROM parquet.`{path}`"
        )
        best = session.sql(
            f"SELECT * FROM ML.RECOMMEND(MODEL m, ({asks}), 3, ITEMS (SELECT id AS item FROM range(24)))"
        ).arrow()
        rows = session.sql(f"SELECT * FROM ({asks}) ORDER BY user, ts").arrow()
    vectors = said(tmp_path / "out", [{"user": f"i{n}", "ts": 0, "item": n} for n in range(24)])["predicted_item"]
    asked = pa.compute.is_null(rows["item"]).to_numpy()
    scores = said(tmp_path / "out", rows.to_pylist())["predicted_vector"][asked] @ vectors.T
    found = {user: np.sort(line)[::-1][:3] for user, line in zip(rows.filter(asked)["user"].to_pylist(), scores, strict=True)}
    for row in best.to_pylist():
        assert row["score"] == pytest.approx(found[row["user"]][row["rank"] - 1], abs=1e-5)


@pytest.mark.parametrize(
    "time",
    [
        1_700_006_400,
        date(2023, 11, 15),
        datetime(2023, 11, 15),
        datetime(2023, 11, 15, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_reader_takes_times_of_all_kinds_as_microseconds_in_utc(time: int | date) -> None:
    assert microseconds(time) == 1_700_006_400_000_000
