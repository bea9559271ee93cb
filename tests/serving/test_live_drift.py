"""The drift of what is served, in /metrics, by the rows that are logged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import xpsql
from tests.cases import lengthy
from tests.serving.conftest import Client, failing
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.request_log import RequestLog
from xpsql.platform.serving.served import Served

COLUMNS = "user, ad, mobile, day, price, tags, words"


def gauges(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(xpsql_(?:feature|prediction|drift)\S*) (\S+)$", text, re.M)}


def served_rows(session: xpsql.Session, served: Served, folder: Path, query: str, model: str = "ctr") -> dict[str, float]:
    """Let a service answer the rows of a query, and return its gauges."""
    log = RequestLog(folder, 1.0, print)
    log.start()
    client = Client(Service(served, RequestLimits(), None, log, failing))
    rows: list[dict[str, Any]] = session.sql(query).arrow().to_pylist()
    for start in range(0, len(rows), 500):
        part = [{**row, **({"day": str(row["day"]), "words": dict(row["words"])} if "day" in row else {})} for row in rows]
        client.predict({"instances": part[start : start + 500]}, model)
    log.stop()
    return gauges(client.get("/metrics").body.decode())


@lengthy
def test_what_moved_in_requests_is_told_as_data_drift_tells_it(session: xpsql.Session, served: Served, tmp_path: Path) -> None:
    moved = COLUMNS.replace("user", "IF(id % 4 = 0, 'new', user) AS user").replace(
        "price", "IF(id % 5 = 0, NULL, price) AS price"
    )
    found = served_rows(session, served, tmp_path / "served", f"SELECT {moved} FROM log")
    query = f"SELECT * FROM ML.DATA_DRIFT(MODEL ctr, (SELECT * FROM parquet.`{tmp_path}/served/served_model=ctr`))"
    told = {row["slot"]: row for row in session.sql(query).arrow().to_pylist()}
    for name, column in (("drift", "drift"), ("null_ratio", "null_share"), ("new_ratio", "new_share")):
        for slot in ("user", "ad", "price", "tags"):
            value = found.get(f'xpsql_feature_{name}{{model="ctr",slot="{slot}"}}')
            wanted = told[slot][column]
            assert value == (None if wanted is None else pytest.approx(wanted, rel=1e-4, abs=1e-6)), slot
    assert found['xpsql_feature_drift{model="ctr",slot="user"}'] > 0.05
    assert found['xpsql_feature_new_ratio{model="ctr",slot="user"}'] == pytest.approx(0.25, abs=0.01)
    assert found['xpsql_feature_null_ratio{model="ctr",slot="price"}'] == pytest.approx(0.2, abs=0.01)
    (mean,) = (
        session.sql(f"SELECT avg(served_prediction) AS p FROM parquet.`{tmp_path}/served/served_model=ctr`").arrow().to_pylist()
    )
    assert found['xpsql_prediction_mean{model="ctr",label="click"}'] == pytest.approx(mean["p"], rel=1e-4)
    assert found['xpsql_drift_rows{model="ctr"}'] == 2000


def test_rows_like_those_that_were_learned_do_not_drift(session: xpsql.Session, served: Served, tmp_path: Path) -> None:
    for model, columns in (("ctr", COLUMNS), ("deep", "user, ad, tags, price")):
        found = served_rows(session, served, tmp_path / model, f"SELECT {columns} FROM log", model)
        drift = {name: value for name, value in found.items() if name.startswith("xpsql_feature_drift")}
        assert len(drift) >= 4
        assert max(drift.values()) < 0.005


def test_of_few_rows_nothing_but_their_number_and_mean_is_told(session: xpsql.Session, served: Served, tmp_path: Path) -> None:
    found = served_rows(session, served, tmp_path / "served", f"SELECT {COLUMNS} FROM log LIMIT 500")
    assert {name.partition("{")[0] for name in found} == {"xpsql_prediction_mean", "xpsql_drift_rows"}


def test_what_is_told_is_of_the_last_rows_alone(session: xpsql.Session, served: Served, tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "served", 1.0, print)
    loaded = served.find("ctr", None)
    rows = session.sql(f"SELECT {COLUMNS} FROM log").arrow()
    rows = pa.table([column.cast(own.type) for column, own in zip(rows.columns, loaded.inputs, strict=True)], rows.column_names)
    moved = rows.set_column(0, "user", pa.array(["new"] * len(rows)))
    (said,) = loaded.predict(rows).values()
    predictions = said.to_numpy().astype("float32")[None]
    for part in [moved] * 6 + [rows] * 11:
        log.drift.add(loaded, part, predictions)
    found = gauges("\n".join(log.drift.lines()))
    assert found['xpsql_feature_new_ratio{model="ctr",slot="user"}'] == 0
    assert 10_000 <= found['xpsql_drift_rows{model="ctr"}'] < 22_000
