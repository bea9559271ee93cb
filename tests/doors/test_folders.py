"""Doors: each folder that xpsql writes, and each statement or command that would write there or replace it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import xpsql
from tests.cases import costly
from xpsql.platform.cli import main
from xpsql.platform.engines.spark.places import check_places
from xpsql.platform.errors import XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.provenance.audit import FILE

LOG = "SELECT TIMESTAMP '2026-01-01 00:00:00' AS ts, CAST(id % 2 AS INT) AS click, concat('u', id % 7) AS user FROM range(200)"
KINDS = ("parquet", "csv", "json", "serving", "onnx")
WRITERS: dict[str, Callable[[str], str]] = {
    **{kind: lambda place, kind=kind: f"EXPORT MODEL m TO '{place}' FORMAT {kind}" for kind in KINDS},  # type: ignore[misc]
    "directory": lambda place: f"INSERT OVERWRITE DIRECTORY '{place}' USING parquet SELECT 1 AS x",
}
"""Statements that write a folder; all of them but the last take `replace`."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with two models, a table, a view and a history."""
    folder = tmp_path_factory.mktemp("doors") / "warehouse"
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        session.sql("CREATE VIEW some AS SELECT * FROM log LIMIT 3")
        session.sql("CREATE HISTORY seen AS SELECT user, ts, click FROM log PARTITION BY user ORDER BY ts KEEP LAST 3")
        session.sql("TRAIN MODEL m USING xftrl LABEL click IGNORE (ts) AS SELECT * FROM log")
        session.sql("TRAIN MODEL other USING xftrl LABEL click IGNORE (ts) AS SELECT * FROM log")
    return folder


@pytest.fixture
def session(warehouse: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        yield session


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def places(warehouse: Path) -> list[Path]:
    """The warehouse, every folder in it, a folder that is not there yet, and a link to one."""
    link = warehouse.with_name("link")
    link.unlink(missing_ok=True)
    link.symlink_to(warehouse / "tables" / "log")
    folders = [path for path in warehouse.rglob("*") if path.is_dir()]
    assert {"m", "log", "seen", "rows", "events", "_data"} <= {path.name for path in folders}
    return [warehouse, *folders, warehouse / "tables" / "new", warehouse / "reports", link]


def test_no_statement_or_command_writes_into_a_warehouse_by_a_path(session: xpsql.Session, warehouse: Path) -> None:
    before = content(warehouse)
    statements = [
        *WRITERS.values(),
        *(lambda place, kind=kind: f"{WRITERS[kind](place)} WITH (replace = true)" for kind in KINDS),
        lambda place: f"TRAIN MODEL late USING xftrl LABEL click WITH (checkpoint_path = '{place}') AS SELECT * FROM log",
        lambda place: (
            f"TRAIN MODEL late USING xftrl LABEL click WITH (checkpoint_path = 'file://{place}') AS SELECT * FROM log"
        ),
    ]
    commands = (["report", "m", "-o"], ["serve", "m", "--log-requests"])
    for place in places(warehouse):
        for statement in statements:
            with pytest.raises(XpsqlError, match="must be outside of a warehouse"):
                session.sql(statement(str(place)))
        for command in commands:
            path = place / "page.html" if command[0] == "report" else place
            run = CliRunner().invoke(main, [*command, str(path), "--warehouse", str(warehouse)])
            assert run.exit_code == 1
            assert "must be outside of a warehouse" in run.output
    assert {**content(warehouse), FILE: b""} == {**before, FILE: b""}  # the audit log has what was refused, too


SPARKS = (
    "INSERT OVERWRITE LOCAL DIRECTORY '{0}' USING parquet SELECT 1",
    "INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '{0}') SELECT 1",
    "CREATE TABLE away USING parquet LOCATION 'file:{0}' AS SELECT 1",
    "CREATE TABLE away (x INT) USING csv OPTIONS ('path' = '{0}')",
    "ALTER TABLE away SET LOCATION '{0}'",
)


def test_no_statement_of_spark_writes_into_a_warehouse_by_a_path(warehouse: Path, tmp_path: Path) -> None:
    for statement in SPARKS:
        check_places(statement.format(tmp_path))
        with pytest.raises(XpsqlError, match="must be outside of a warehouse"):
            check_places(statement.format(warehouse / "tables" / "log"))
    check_places(f"CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '{warehouse}/tables/log')")  # is read
    check_places("INSERT OVERWRITE DIRECTORY 's3://bucket/tables/log' USING parquet SELECT 1")


@pytest.fixture(scope="module")
def folders(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each kind that is written outside of a warehouse, and some that others write."""
    root = tmp_path_factory.mktemp("folders")
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        for kind, statement in WRITERS.items():
            session.sql(statement(str(root / kind)))
        session.sql(WRITERS["parquet"](str(root / "with notes")))
    for kind, marker in (("parquet", "_manifest.json"), ("serving", "model.json")):
        path = shutil.copytree(root / kind, root / f"other {kind}") / marker
        path.write_text(path.read_text(encoding="utf-8").replace('"model": "m"', '"model": "other"'), encoding="utf-8")
    (root / "with notes" / "notes.txt").write_text("mine", encoding="utf-8")
    shutil.copytree(warehouse / "tables" / "log", root / "table")
    shutil.copytree(warehouse / "models" / "m" / "v1", root / "version")
    for name, text in (("delta", {"_delta_log": None, "part-0.parquet": ""}), ("triton", {"model.json": "{}", "READY": ""})):
        for file, inside in text.items():
            path = root / name / file
            path.parent.mkdir(exist_ok=True)
            path.mkdir() if inside is None else path.write_text(inside, encoding="utf-8")
    return root


def replaces(statement: str, folder: str) -> str | None:
    """How a statement may replace a folder: at once, by `replace`, or not at all."""
    if statement == folder:
        return "at once"
    files, graphs = KINDS[:3], KINDS[3:]
    alike = any({statement, folder.removeprefix("other ")} <= set(kinds) for kinds in (files, graphs))
    return "replace" if alike else None


@costly
def test_a_folder_is_replaced_by_statements_of_its_own_kind_alone(
    session: xpsql.Session, folders: Path, tmp_path: Path
) -> None:
    for folder in sorted(path.name for path in folders.iterdir()):
        for kind, statement in WRITERS.items():
            allowed = replaces(kind, folder)
            if kind in KINDS[3:] and allowed is not None:
                continue  # tests/portable has these
            for more in ("", " WITH (replace = true)") if kind in KINDS else ("",):
                copy = tmp_path / f"{folder} {kind}{bool(more)}"
                shutil.copytree(folders / folder, copy)
                before = content(copy)
                if allowed == "at once" or (allowed == "replace" and more):
                    session.sql(statement(str(copy)) + more)
                    continue
                with pytest.raises(XpsqlError, match="Choose another"):
                    session.sql(statement(str(copy)) + more)
                assert content(copy) == before, (folder, kind, more)


def test_an_export_says_whose_it_is_by_the_name_of_the_model_that_was_exported(
    session: xpsql.Session, warehouse: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(warehouse / "models" / "m", warehouse / "models" / "copied")
    for _ in range(2):
        session.sql(f"EXPORT MODEL copied TO '{tmp_path / 'out'}' FORMAT csv")
    assert json.loads((tmp_path / "out" / "_manifest.json").read_text(encoding="utf-8"))["model"] == "copied"
    shutil.rmtree(copy)
