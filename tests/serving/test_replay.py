"""ML.REPLAY and `xpsql replay`: logged requests scored again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly
from tests.serving.conftest import ROW, Client, failing
from xpsql.platform.errors import StatementError
from xpsql.platform.serving.differences import differences
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.keys import KEYS
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.request_log import RequestLog
from xpsql.platform.serving.served import Served


@pytest.fixture(scope="module")
def log(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Requests of many sizes for both models, logged."""
    folder = tmp_path_factory.mktemp("log") / "served"
    log = RequestLog(folder, 1.0, print)
    log.start()
    client = Client(Service(served, RequestLimits(), None, log, failing))
    for count in (1, 2, 17, 200):
        rows = [
            {**ROW, "user": f"u{at % 11}", "ad": at, "price": at / 7, "tags": [f"t{at % 5}"] * (at % 3)} for at in range(count)
        ]
        client.predict({"instances": rows})
        client.predict({"instances": rows}, "deep")
    log.stop()
    return folder


def replayed(session: xpsql.Session, model: str, source: str) -> list[dict[str, Any]]:
    return list(session.sql(f"SELECT * FROM ML.REPLAY(MODEL {model}, {source})").arrow().to_pylist())


@pytest.mark.parametrize(("model", "most"), [("ctr", 0.0), ("deep", 1e-6)])
def test_what_was_served_is_what_the_rows_give_offline(session: xpsql.Session, log: Path, model: str, most: float) -> None:
    rows = replayed(session, model, f"TABLE parquet.`{log}/served_model={model}`")
    assert len(rows) == 220
    assert max(row["difference"] for row in rows) <= most
    assert all(row["keys_missing"] == row["keys_extra"] == row["slots_that_differ"] == [] for row in rows)
    assert [row["served"] for row in rows] == pytest.approx([row["offline"] for row in rows], abs=most)


def test_columns_that_are_other_ones_offline_are_named_with_their_keys(session: xpsql.Session, log: Path) -> None:
    others = "CASE WHEN ad = 3 THEN 'other' ELSE user END AS user, CASE WHEN ad = 4 THEN price + 1 ELSE price END AS price"
    query = f"SELECT * EXCEPT (user, price), {others} FROM parquet.`{log}/served_model=ctr`"
    rows = replayed(session, "ctr", f"({query})")
    (wanted,) = session.sql("SELECT feature_key('user', 'u3') AS was, feature_key('user', 'other') AS now").arrow().to_pylist()
    for row in rows:
        differs = {3: ["user"], 4: ["price"]}.get(row["ad"], [])
        assert row["slots_that_differ"] == differs
        if row["ad"] == 3:
            assert (row["keys_extra"], row["keys_missing"]) == ([wanted["was"]], [wanted["now"]])
            assert row["difference"] > 0


def test_rows_of_other_versions_are_left_out(session: xpsql.Session, log: Path) -> None:
    version = "CASE WHEN ad < 2 THEN 1 ELSE 2 END AS served_version"
    query = f"SELECT * EXCEPT (served_version), {version} FROM parquet.`{log}/served_model=ctr`"
    assert {row["ad"] for row in replayed(session, "ctr VERSION 1", f"({query})")} == {0, 1}


def test_what_is_no_log_is_refused(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match=r"ML\.REPLAY needs the column served_prediction of a log of xpsql serve"):
        session.sql("SELECT * FROM ML.REPLAY(MODEL ctr, TABLE log)")


def maps(*rows: Any) -> pa.MapArray:
    return pa.array([None if row is None else list(row.items()) for row in rows], KEYS)


def test_keys_differ_by_how_often_they_stand_there() -> None:
    served = maps({"a": [1, 1], "b": [5]}, {"a": []}, None, {"a": [7]})
    offline = maps({"a": [1], "b": [5]}, {"a": [2], "b": [3]}, {"a": [4]}, {"a": [7]})
    missing, extra, slots = (column.to_pylist() for column in differences(served, offline))
    assert missing == [[], [2, 3], [4], []]
    assert extra == [[1], [], [], []]
    assert slots == [["a"], ["a", "b"], ["a"], []]
    rng = np.random.default_rng(1)
    many = maps(*({"a": rng.integers(0, 5, 3).tolist(), "b": [int(at)]} for at in range(500)))
    assert all(column.flatten().to_pylist() == [] for column in differences(many, many))


@costly
def test_the_command_ends_with_1_where_something_differs(session: xpsql.Session, log: Path, tmp_path: Path) -> None:
    def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = ["--warehouse", str(session.models.warehouse), "--format", "csv", "--quiet"]
        made = [sys.executable, "-m", "xpsql", "replay", str(folder), *where, *arguments]
        return subprocess.run(made, capture_output=True, text=True, timeout=120, check=False)

    done = command(log, "--tolerance", "1e-6")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "model,version,rows,differ,keys_differ,largest_difference"
    assert [line.split(",")[:5] for line in lines[1:]] == [["ctr", "1", "220", "0", "0"], ["deep", "1", "220", "0", "0"]]
    changed = tmp_path / "served" / "served_model=ctr" / "served_version=1"
    changed.mkdir(parents=True)
    rows = session.sql(f"SELECT * EXCEPT (ad), ad + 1 AS ad FROM parquet.`{log}/served_model=ctr/served_version=1`").arrow()
    pa.parquet.write_table(rows, changed / "rows.parquet")
    done = command(tmp_path / "served", "--tolerance", "1e-6")
    assert (done.returncode, done.stdout.splitlines()[1].split(",")[4]) == (1, "220")
    assert "There is no log of xpsql serve" in command(tmp_path).stderr
