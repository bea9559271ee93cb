"""Files give Spark's columns, types and rows on the embedded engine, case by case of the table that a live Spark wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import costly_after_first
from tests.parity.cases import CASES, DIFFERENT
from tests.parity.cases_csv import ZSTD
from tests.parity.files import ANSWERS, read, write
from tests.parity.table import canonical
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import StatementError
from xpsql.platform.spark_types import spark_type

TABLE: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(tmp_path_factory.mktemp("warehouse"))
    yield made
    made.close()


def test_the_table_has_the_cases_in_their_order() -> None:
    assert list(TABLE) == list(CASES)


@costly_after_first
@pytest.mark.parametrize("name", [name for name, answer in TABLE.items() if "error" not in answer])
def test_files_have_the_columns_and_rows_that_spark_finds(engine: DuckDBEngine, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    write(case, tmp_path / "files")
    read(case, tmp_path / "files", engine.execute)
    found = engine.reader(case.query).read_all()
    assert found.column_names == TABLE[name]["names"]
    assert [spark_type(field.type) for field in found.schema] == TABLE[name]["types"]
    assert canonical(found) == TABLE[name]["rows"]


@pytest.mark.parametrize("name", [name for name, answer in TABLE.items() if "error" in answer])
def test_files_that_spark_refuses_are_refused(engine: DuckDBEngine, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    write(case, tmp_path / "files")

    def rows() -> None:
        read(case, tmp_path / "files", engine.execute)
        engine.reader(case.query).read_all()

    with pytest.raises(StatementError):
        rows()


@pytest.mark.parametrize("name", DIFFERENT)
def test_files_that_only_spark_reads_are_refused_with_the_remedy(engine: DuckDBEngine, tmp_path: Path, name: str) -> None:
    case, message = DIFFERENT[name]
    write(case, tmp_path / "files")
    with pytest.raises(StatementError, match=message):
        read(case, tmp_path / "files", engine.execute)


def test_files_of_zstandard_are_read(engine: DuckDBEngine, tmp_path: Path) -> None:
    write(ZSTD, tmp_path / "files")
    read(ZSTD, tmp_path / "files", engine.execute)
    assert canonical(engine.reader(ZSTD.query).read_all()) == [["1", '"x" y']]
