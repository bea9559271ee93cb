"""EXPLAIN TRAIN counts what a training step computes of a row, and of what a group of rows has in common."""

from __future__ import annotations

import re
from pathlib import Path

import xpsql
from xpsql.platform.progress import SilentReporter

LOG = """CREATE TABLE log AS
SELECT concat('u', id DIV 30) AS user, concat('city', (id DIV 30) % 7) AS city, concat('i', pmod(xxhash64(id), 71)) AS item,
       CAST(pmod(xxhash64(id), 100) < 20 AS INT) AS click
FROM range(6000) ORDER BY id"""
STEP = 3 * 2  # a multiplication and an addition, forward and backward


def compute(session: xpsql.Session, using: str, more: str = "") -> list[float]:
    rows = session.sql(f"EXPLAIN TRAIN MODEL m USING {using} LABEL click WITH (batch_size = 1024{more}) AS SELECT * FROM log")
    (text,) = (row["value"] for row in rows.arrow().to_pylist() if row["property"] == "compute")
    return [float(number) * (1e6 if unit == "M" else 1e3) for number, unit in re.findall(r"([\d.]+) (.)FLOP", text)]


def test_operations_of_a_row_are_those_of_its_layers_and_what_a_group_shares_counts_apart(tmp_path: Path) -> None:
    using, inputs, hidden = "xnn (dim = 32, hidden = (64), interaction = 'none')", 3 * 32, 64
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(LOG)
        (alone,) = compute(session, using, ", compact = 'off'")
        own, once = compute(session, using)
        (linear,) = compute(session, "xftrl", ", compact = 'off'")
    layers = STEP * (inputs + 1) * hidden
    assert 0.7 * layers < alone < 1.5 * layers
    assert 0.4 * alone < once < alone, "two of the three slots are common"
    assert own + once - 200 < alone < own + once + 200
    assert linear < 200
