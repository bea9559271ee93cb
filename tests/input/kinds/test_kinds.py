"""Kinds of slots are parts: a column's is the first that accepts it, and a new one is a file and a line in KINDS."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.training.log import write
from xpsql.algorithms.linear.xftrl import XftrlOptions
from xpsql.platform.errors import StatementError
from xpsql.platform.input import kinds
from xpsql.platform.input.encode import encode
from xpsql.platform.input.slots import columns_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.keys import feature_keys
from xpsql.platform.training.plan import Plan, Use

from .hour import HOUR

PLAN = Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "")
LOG = pa.table({"label": [0, 1, 1], "at": pa.array([datetime(2026, 1, 1, 7, 30), None, datetime(2026, 2, 3, 23)])})


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kind: its one line."""
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, HOUR))


def test_no_two_kinds_have_a_name() -> None:
    names = [kind.name for kind in kinds.KINDS]
    assert len(names) == len(set(names))


def test_a_column_of_no_kind_is_refused_with_the_types_of_all() -> None:
    with pytest.raises(StatementError, match=r"at has type timestamp.*categories; float and decimal.*vector\)"):
        columns_of(LOG.schema, PLAN.roles, None)


@pytest.mark.usefixtures("hours")
def test_a_new_kind_encodes_its_columns() -> None:
    columns = columns_of(LOG.schema, PLAN.roles, None)
    assert [(slot.name, slot.kind) for slot in columns.scalar] == [("at", "hour")]
    chunk = encode(LOG, columns, with_labels=True)
    first, second, third = chunk.scalar[0].tolist()
    assert second == -1
    np.testing.assert_array_equal(chunk.keys[[first, third]], feature_keys("at", pa.array(["7", "23"])))


@pytest.mark.usefixtures("hours")
def test_a_model_learns_from_a_new_kind_and_predicts_by_it(tmp_path: Path) -> None:
    at = [datetime(2026, 1, 1) + timedelta(minutes=7 * i) for i in range(2_000)]
    path = write(pa.table({"label": [int(time.hour >= 12) for time in at], "at": at}), tmp_path / "log.parquet")
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl (alpha = 1.0) WITH (passes = 3) AS SELECT * FROM parquet.`{path}`")
        query = f"SELECT hour(at) AS hour, predicted_label FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{path}`))"
        rows = session.sql(query).arrow().to_pylist()
        assert all((row["predicted_label"] > 0.5) == (row["hour"] >= 12) for row in rows)
        (slot,) = (
            row for row in session.sql("SELECT * FROM ML.FEATURE_INFO(MODEL m)").arrow().to_pylist() if row["slot"] == "at"
        )
        assert (slot["kind"], slot["features"]) == ("hour", 24)
