"""Files of JSON lines and of Avro that arrive: read as Parquet files of the same rows are."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.streams.landing import COLUMNS, go_on, learned, rows_of, train
from tests.streams.topics import SCHEMA, among, messages
from tests.training.log import log
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.streams import folder as folders
from xpsql.platform.progress import SilentReporter

NO_ROWS = [b"no JSON", b"[1]", b"\xff{}", b'{"label": "one"}']


@pytest.fixture(autouse=True)
def looks_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LOOK_SECONDS", 0.0)


def write_lines(path: Path, lines: list[bytes]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\n".join(lines))


def write_avro(path: Path, rows: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    table = rows.select(["label", "ts", "user", "item", "price"])
    stored = table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us")))
    polars.from_arrow(stored).write_avro(path, compression="deflate")  # type: ignore[union-attr]


@lengthy
@costly_after_first
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_json_and_avro_are_learned_bit_for_bit_as_parquet(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    on = request.getfixturevalue("spark") if engine == "spark" else engine
    streams = {
        "parquet": f"parquet.`{tmp_path}/parquet`",
        "json": f"read_files('{tmp_path}/json', format => 'json', schema => '{SCHEMA}')",
        "avro": f"read_files('{tmp_path}/avro', format => 'avro')",
    }
    with xpsql.connect(tmp_path / "warehouse", on, SilentReporter()) as session:
        for name, rows in (("a", log(500, 1)), ("b", log(200, 2))):
            write_lines(tmp_path / "json" / f"{name}.json", messages(rows))
            write_avro(tmp_path / "avro" / f"{name}.avro", rows)
            (tmp_path / "parquet").mkdir(exist_ok=True)
            pq.write_table(rows, tmp_path / "parquet" / f"{name}.parquet")
            for model, stream in streams.items():
                step = train if name == "a" else go_on
                assert learned(step(session, stream, model=model)) == (1 if name == "a" else 2, "ready", len(rows))
        assert learned(go_on(session, streams["json"], model="json")) == (2, "nothing new", 0)
        found = [rows_of(session, model).to_pylist() for model in streams]
        assert found[0] == found[1] == found[2]


def test_lines_that_are_no_rows_are_reported_or_written_down(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", [*among(messages(log(100)), NO_ROWS), b"", b""])  # type: ignore[list-item]
    stream = f"read_files('{tmp_path}/in', format => 'json', schema => '{SCHEMA}'{{}})"
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        with pytest.raises(DataError, match=r"Line 1 of .*a\.json is not a row: it is not a JSON object"):
            train(session, stream.format(""))
        assert learned(train(session, stream.format(", on_error => 'skip'")))[1:] == ("ready", 100)
        version = session.models.version("m")
        lines = [line for path in (version.folder / "skipped").glob("*") for line in path.read_text().splitlines()]
        noted = [json.loads(line) for line in lines]
        assert [(one["line"], one["reason"]) for one in noted] == [
            (1, "it is not a JSON object"),
            (52, "it is not a JSON object"),
            (103, "it is not UTF-8"),
            (104, "label does not become int"),
        ]
        assert {one["file"] for one in noted} == {str(tmp_path / "in" / "a.json")}


def test_an_avro_file_that_is_cut_off_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "FRESH_SECONDS", 0.0)
    write_avro(tmp_path / "in" / "a.avro", log(300))
    whole = (tmp_path / "in" / "a.avro").read_bytes()
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        for cut in (2, 30, len(whole) - 10):
            (tmp_path / "in" / "a.avro").write_bytes(whole[:cut])
            with pytest.raises(DataError, match=r"a\.avro cannot be read as Avro"):
                train(session, f"read_files('{tmp_path}/in', format => 'avro')", COLUMNS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("format => 'json'", "expects schema"),
        ("format => 'avro', schema => 'a INT'", "takes no schema"),
        ("format => 'csv'", "format"),
    ],
)
def test_formats_are_checked_before_anything_starts(tmp_path: Path, options: str, message: str) -> None:
    with (
        xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session,
        pytest.raises(StatementError, match=message),
    ):
        train(session, f"read_files('{tmp_path}', {options})")
