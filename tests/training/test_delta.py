"""EXPORT MODEL ... DELTA FROM VERSION: base + delta = full, for every pair of versions, with every lifecycle operator on."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy, slow
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter

LIFE = """recent (half_life = '10 minutes'), admit (min_count = 2, within = '20 minutes'), admit (probability = 0.9),
admit (utility > 0, information > 0, slots = (user)), expire (after = '15 minutes'), expire (utility < 0.004, grace = 2)"""


def rows(session: xpsql.Session, table: str) -> dict[Any, dict[str, Any]]:
    found = session.sql(f"SELECT * FROM {table}").arrow().to_pylist()
    return {(row.get("table"), row["key"]): row for row in found}


def train(session: xpsql.Session, folder: Path, algorithm: str) -> None:
    """Make four versions: a training, two that continue, and one without some rows between them."""
    days = [write(log(900, 0), folder / "day0.parquet")]
    days += [write(later(900, day), folder / f"day{day}.parquet") for day in (1, 2)]
    session.sql(f"TRAIN MODEL m USING {algorithm} TIME ts OPERATORS ({LIFE}) AS SELECT * FROM parquet.`{days[0]}`")
    session.sql(f"CONTINUE MODEL m WITH (shards = 3) AS SELECT * FROM parquet.`{days[1]}`")
    session.sql("SHRINK MODEL m WHERE updates < 2")
    session.sql(f"CONTINUE MODEL m WITH (shards = 2) AS SELECT * FROM parquet.`{days[2]}`")


@lengthy
@pytest.mark.parametrize(
    ("algorithm", "pairs"), [("xftrl", [(1, 4), (4, 1)]), pytest.param("fm (dim = 2)", None, marks=slow)], ids=["xftrl", "fm"]
)
def test_base_and_delta_give_full_for_every_pair_of_versions(
    session: xpsql.Session, tmp_path: Path, algorithm: str, pairs: list[tuple[int, int]] | None
) -> None:
    train(session, tmp_path, algorithm)
    numbers = [version.number for version in session.models.versions("m")]
    fulls = {}
    for number in numbers:
        session.sql(f"EXPORT MODEL m VERSION {number} TO TABLE full{number}")
        fulls[number] = rows(session, f"full{number}")
    went = 0
    for old, new in pairs or itertools.permutations(numbers, 2):
        session.sql(f"EXPORT MODEL m VERSION {new} TO TABLE delta{old}_{new} DELTA FROM VERSION {old}")
        delta, base, full = rows(session, f"delta{old}_{new}"), fulls[old], fulls[new]
        merged = {key: row for key, row in base.items() if key not in delta}
        merged |= {key: row for key, row in delta.items() if not row["deleted"]}
        assert merged.keys() == full.keys()
        kept = [name for name in next(iter(delta.values())) if name != "deleted"]
        assert all(row[name] == full[key][name] for key, row in merged.items() for name in kept)
        assert all(key in base and key not in full for key, row in delta.items() if row["deleted"])
        went += sum(row["deleted"] for row in delta.values())
    assert went > 0


@costly
def test_spark_writes_the_delta_that_the_embedded_engine_writes(
    session: xpsql.Session, spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    train(session, tmp_path, "fm (dim = 2)")
    with xpsql.connect(warehouse, spark, SilentReporter()) as other:
        for each, table in ((session, "here"), (other, "there")):
            each.sql(f"EXPORT MODEL m VERSION 4 TO TABLE {table} DELTA FROM VERSION 2")
        here, there = rows(session, "here"), rows(other, "there")
    assert there == here
    assert {row["deleted"] for row in here.values()} == {False, True}


def later(rows: int, day: int) -> pa.Table:
    """Return a log that goes on where that of the day before ended."""
    table = log(rows, day + 1)
    micros = pc.add(table["ts"].cast(pa.int64()), day * rows * 1_000_000)
    return table.set_column(table.schema.get_field_index("ts"), "ts", micros.cast(pa.timestamp("us", "UTC")))
