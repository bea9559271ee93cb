"""JSON becomes the same values wherever it comes in: files, from_json, streams, requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.cases import lengthy
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.input.streams.decoding import Decoder, schema_of
from xpsql.platform.serving.casts import cast_to

NUMBERS = {"1e7": "1.0E7", "10000000.0": "1.0E7", "1.50": "1.5", "0.00001": "1.0E-5", "123456789.123": "1.23456789123E8",
           "-0.0": "-0.0", "12345678901234567890": "12345678901234567890", "7": "7"}  # fmt: skip


def streamed(texts: list[str], schema: str) -> list[dict[str, Any]]:
    values = pa.array([text.encode() for text in texts], pa.binary())
    decoder = Decoder(schema_of(schema))
    return decoder.objects(values, np.arange(len(texts)), decoder.schema.names).rows.to_pylist()


@lengthy
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_in_a_column_of_texts_is_written_as_cast_writes_it_at_every_door(tmp_path: Path, number: str) -> None:
    text, expected = f'{{"v": {number}}}', [{"v": NUMBERS[number]}]
    (tmp_path / "a.json").write_text(text + "\n")
    engine = DuckDBEngine(tmp_path / "warehouse")
    engine.execute(f"CREATE TEMPORARY VIEW v (v STRING) USING json OPTIONS (path '{tmp_path}/a.json')")
    assert engine.reader("SELECT v FROM v").read_all().to_pylist() == expected
    assert engine.reader(f"SELECT from_json('{text}', 'v STRING').v AS v").read_all().to_pylist() == expected
    engine.close()
    assert streamed([text], "v STRING") == expected
    assert cast_to(pa.string())(json.loads(text)["v"]) == NUMBERS[number]


def test_a_fraction_in_a_column_of_integers_of_a_stream_is_cut_off_as_by_a_cast() -> None:
    texts = [f'{{"a": {value}, "b": {value}, "c": [{value}]}}' for value in ("0.7", "-1.9", "1e3", '"5"', "9007199254740993")]
    found = streamed(texts, "a BIGINT, b DOUBLE, c ARRAY<BIGINT>")
    assert [row["a"] for row in found] == [0, -1, 1000, 5, 9007199254740993]
    assert [row["c"] for row in found] == [[0], [-1], [1000], [5], [9007199254740993]]


@pytest.mark.parametrize(
    "value", ['"2024-01-31 10:05:00"', '"2024-1-31 10:05:00 Europe/Berlin"', '"2024-01-31"', "1706695500", "1.5"]
)
def test_a_time_is_one_moment_in_streams_and_requests(value: str) -> None:
    (found,) = streamed([f'{{"t": {value}}}'], "t TIMESTAMP")
    kind = pa.timestamp("us", tz="UTC")
    assert pa.array([cast_to(kind)(json.loads(value))], kind)[0].as_py() == found["t"]


def test_the_last_of_keys_that_repeat_counts_in_streams() -> None:
    assert streamed(['{"u": "x", "n": 1, "u": "y"}', '{"u": "z"}'], "u STRING, n INT") == [
        {"u": "y", "n": 1},
        {"u": "z", "n": None},
    ]
