"""What a manifest says is not believed where it would lead out of the warehouse."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.errors import CheckpointError, ModelError, XpsqlError
from xpsql.platform.models.listings import residents_table
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.locks import Lock
from xpsql.warehouse.manifest import read_manifest
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoints import OWNER, Checkpoint, Checkpoints, checkpoints_of, checksum
from xpsql.warehouse.trainings.progress import append_progress
from xpsql.warehouse.trainings.resident import Residence, ResidentStatus
from xpsql.warehouse.trainings.segments import append_segment

LOG = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x FROM range(200)"
TRAIN = f"TRAIN OR REPLACE MODEL m USING xftrl AS {LOG}"
Tamper = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the model m."""
    folder = tmp_path_factory.mktemp("trained") / "warehouse"
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl AS {LOG}")
    return folder


@pytest.fixture
def session(trained: Path, tmp_path: Path) -> xpsql.Session:
    shutil.copytree(trained, tmp_path / "warehouse")
    return xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter())


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder outside of the warehouse, with what somebody wants to keep."""
    folder = tmp_path / "foreign" / "m" / "v1"
    folder.mkdir(parents=True)
    (folder / "diary.txt").write_text("dear diary")
    return tmp_path / "foreign"


def tamper(session: xpsql.Session, change: Tamper, model: str = "m") -> Path:
    """Change the manifest of version 1, and return its folder."""
    folder = session.models.folder / model / "v1"
    path = folder / "manifest.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    return folder


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


INTERRUPTED = {"status": "interrupted", "splits": [{"path": "/nowhere"}]}
CLAIMS: dict[str, Callable[[Path], Tamper]] = {
    "checkpoints of an older xpsql": lambda foreign: (
        lambda values: (
            values | INTERRUPTED | {"training": "", "settings": {**values["settings"], "checkpoint_path": str(foreign)}}
        )
    ),
    "checkpoints of this training": lambda foreign: (
        lambda values: values | INTERRUPTED | {"settings": {**values["settings"], "checkpoint_path": str(foreign)}}
    ),
    "a training that climbs": lambda foreign: (
        lambda values: (
            values | INTERRUPTED | {"training": "../v1", "settings": {**values["settings"], "checkpoint_path": str(foreign)}}
        )
    ),
    "another model": lambda foreign: lambda values: values | INTERRUPTED | {"model": "../../foreign/m"},
    "a version that is none": lambda foreign: lambda values: values | INTERRUPTED | {"version": "../../../foreign/m/v1"},
}


@lengthy
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
@pytest.mark.parametrize(
    "statement", ["DROP MODEL m", "DROP MODEL m VERSION 1", f"TRAIN OR REPLACE MODEL m USING xftrl AS {LOG}"]
)
def test_nothing_outside_of_the_warehouse_is_removed(
    session: xpsql.Session, foreign: Path, claim: Callable[[Path], Tamper], statement: str
) -> None:
    tamper(session, claim(foreign))
    session.sql(statement)
    assert (foreign / "m" / "v1" / "diary.txt").read_text() == "dear diary"


def test_a_table_with_the_name_of_a_path_is_not_read(session: xpsql.Session, trained: Path) -> None:
    away = trained / "models" / "m" / "v1" / "rows" / "weights"
    tamper(session, lambda values: values | {"tables": [{**values["tables"][0], "name": str(away)}]})
    with pytest.raises(ModelError, match="a table's name has letters, digits and _"):
        session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)")


def test_rows_that_a_link_leads_to_are_not_read(session: xpsql.Session, trained: Path) -> None:
    rows = session.models.folder / "m" / "v1" / "rows"
    shutil.rmtree(rows)
    rows.symlink_to(trained / "models" / "m" / "v1" / "rows")
    with pytest.raises(ModelError, match="leads out of the version's folder"):
        session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)")


def test_a_link_in_place_of_checkpoints_goes_and_what_it_leads_to_stays(session: xpsql.Session, foreign: Path) -> None:
    folder = tamper(session, lambda values: values | INTERRUPTED)
    (folder / "checkpoints").symlink_to(foreign)
    session.sql("DROP MODEL m VERSION 1")
    assert (foreign / "m" / "v1" / "diary.txt").exists()


@pytest.mark.parametrize("name", ["progress.jsonl", "segments.jsonl", "resident.new", "stop.json", ".lock"])
def test_nothing_is_written_where_a_link_leads(session: xpsql.Session, foreign: Path, name: str) -> None:
    folder, diary = session.models.folder / "m", foreign / "m" / "v1" / "diary.txt"
    writers: dict[str, Callable[[], object]] = {
        "progress.jsonl": lambda: append_progress(folder, {"examples": 1}),
        "segments.jsonl": lambda: append_segment(folder, []),
        "resident.new": lambda: Residence(folder).tell(ResidentStatus("t")),
        "stop.json": lambda: Residence(folder).ask("t"),
        ".lock": lambda: Lock(folder / ".lock", "trains"),
    }
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(diary)
    with pytest.raises(ModelError, match="It is a link, which may lead out of the warehouse: remove it"):
        writers[name]()
    assert diary.read_text() == "dear diary"


@pytest.mark.parametrize(
    "values",
    [
        {"published": "yesterday"},
        {"published": 1e300},
        {"lag_rows": "many"},
        {"examples_per_second": float("nan")},
        {"version": [1]},
        {"examples": -1},
        {"time": "now"},
        {"time": 1e18},
    ],
    ids=str,
)
def test_a_status_that_no_training_writes_is_none(session: xpsql.Session, values: dict[str, Any]) -> None:
    path = session.models.folder / "m" / "resident.json"
    sound = dataclasses.asdict(ResidentStatus("t", stream="files", lag_rows=1, time=time.time()))
    path.write_text(json.dumps(sound))
    assert len(residents_table(session.models, None)) == 1
    path.write_text(json.dumps(sound | values))
    assert len(residents_table(session.models, None)) == 0
    assert session.sql("SHOW MODELS").arrow()["name"].to_pylist() == ["m"]
    path.write_text("[" * 100_000)
    assert Residence(path.parent).status() is None


def test_a_copied_folder_is_the_model_that_its_name_says(session: xpsql.Session) -> None:
    shutil.copytree(session.models.folder / "m", session.models.folder / "copy")
    assert [version.manifest.model for version in session.models.versions("copy")] == ["copy"]
    session.sql("DROP MODEL m")
    assert session.sql("SELECT count(*) AS n FROM ML.WEIGHTS(MODEL copy)").arrow().column("n").to_pylist() == [8]


def test_a_copy_of_an_interrupted_training_has_no_checkpoints_of_the_first(session: xpsql.Session, tmp_path: Path) -> None:
    folder = tamper(
        session,
        lambda values: values | INTERRUPTED | {"settings": {**values["settings"], "checkpoint_path": str(tmp_path / "shared")}},
    )
    checkpoints_of(read_manifest(folder), folder).begin()
    (mark,) = (tmp_path / "shared").rglob(OWNER)
    shutil.copytree(session.models.folder.parent, tmp_path / "second")
    with xpsql.connect(tmp_path / "second", reporter=SilentReporter()) as second:
        with pytest.raises(XpsqlError, match="belong to version 1 of model m in"):
            second.sql("RESUME MODEL m")
        second.sql("DROP MODEL m")
    assert mark.exists()
    session.sql("DROP MODEL m")
    assert not mark.exists()


def test_resume_marks_a_place_of_checkpoints_that_has_gone(session: xpsql.Session, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    folder = tamper(
        session, lambda values: values | INTERRUPTED | {"settings": {**values["settings"], "checkpoint_path": str(shared)}}
    )
    checkpoints_of(read_manifest(folder), folder).begin()
    shutil.rmtree(shared)
    draft = session.models.resume("m")
    assert len(list(shared.rglob(OWNER))) == 1
    draft.discard()


def test_a_damaged_model_is_listed_and_the_others_are_as_they_were(session: xpsql.Session) -> None:
    shutil.copytree(session.models.folder / "m", session.models.folder / "n")
    (session.models.folder / "n" / "v1" / "manifest.json").write_bytes(b"\0" * 100)
    found = session.sql("SHOW MODELS").arrow().to_pylist()
    assert [(row["name"], row["version"], row["status"]) for row in found] == [("m", 1, "ready"), ("n", 1, "damaged")]
    (row,) = session.sql("SHOW VERSIONS OF MODEL n").arrow().to_pylist()
    assert row["status"] == "damaged"
    assert "manifest.json is damaged" in row["error"]
    with pytest.raises(ModelError, match="exists"):
        session.sql(f"TRAIN MODEL n USING xftrl AS {LOG}")
    session.sql("DROP MODEL n")
    assert session.models.names() == ["m"]


@pytest.mark.parametrize("name", ["v1/manifest.json", "promoted.json"])
@pytest.mark.parametrize("is_folder", [True, False])
def test_a_model_whose_files_cannot_be_read_is_listed_as_damaged(session: xpsql.Session, name: str, is_folder: bool) -> None:
    shutil.copytree(session.models.folder / "m", session.models.folder / "n")
    path = session.models.folder / "n" / name
    path.unlink(missing_ok=True)
    if is_folder:
        path.mkdir()
    else:
        path.write_bytes(b"\0")
    for listing in ("SHOW MODELS", "SELECT model AS name, status FROM ML.VERSIONS() ORDER BY name"):
        found = session.sql(listing).arrow().to_pylist()
        assert [(row["name"], row["status"]) for row in found] == [("m", "ready"), ("n", "damaged")]


@pytest.mark.parametrize("change", [{"once": "x"}, {"epoch": 1 << 70}, {"metrics": []}, {"tables": [{"name": "w", "dim": []}]}])
def test_a_manifest_with_values_of_other_types_is_listed_as_damaged(session: xpsql.Session, change: dict[str, Any]) -> None:
    shutil.copytree(session.models.folder / "m", session.models.folder / "n")
    manifest = session.models.folder / "n" / "v1" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text(encoding="utf-8")) | change), encoding="utf-8")
    found = session.sql("SHOW MODELS").arrow().to_pylist()
    assert [(row["name"], row["status"]) for row in found] == [("m", "ready"), ("n", "damaged")]
    (row,) = session.sql("SHOW VERSIONS OF MODEL n").arrow().to_pylist()
    assert f"{next(iter(change))} cannot be" in row["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"learned": {"rows": -1}},
        {"slots": {"number": -1}},
        {"slots": {"number": 1 << 16}},
        {"slots": {"dim": -1}},
        {"slots": {"length": 1 << 40}},
        {"tables": {"dim": -1}},
        {"tables": {"columns": {"z": -1}}},
        {"sums": {"fields": -1}},
        {"sums": {"fields": 1 << 40}},
    ],
    ids=str,
)
def test_a_manifest_with_numbers_that_no_version_has_is_damaged(session: xpsql.Session, change: dict[str, Any]) -> None:
    shutil.copytree(session.models.folder / "m", session.models.folder / "n")
    manifest = session.models.folder / "n" / "v1" / "manifest.json"
    found = json.loads(manifest.read_text(encoding="utf-8"))
    ((name, value),) = change.items()
    if isinstance(found[name], list):
        found[name][0] |= value
    else:
        found[name] = found[name] | value if isinstance(value, dict) else value
    manifest.write_text(json.dumps(found), encoding="utf-8")
    (row,) = session.sql("SHOW VERSIONS OF MODEL n").arrow().to_pylist()
    assert (row["status"], " is from 0 to " in row["error"]) == ("damaged", True)
    with pytest.raises(ModelError, match=r"is from 0 to .*got .*Restore it from a backup, or drop the version"):
        session.sql(f"SELECT * FROM ML.PREDICT(MODEL n VERSION 1, ({LOG}))")


LINE = b'{"time": "2026-01-01", "batch": 8}\n'


@pytest.mark.parametrize("end", [LINE[:-9], b"\0" * 4096, b"\0\0\0\n" + LINE, b"[1]\n"])
def test_progress_with_a_torn_or_zeroed_end_is_read_up_to_it(session: xpsql.Session, end: bytes) -> None:
    path = session.models.folder / "m" / "v1" / "progress.jsonl"
    whole = session.sql("SELECT count(*) AS n FROM ML.TRAINING_INFO(MODEL m)").arrow().column("n").to_pylist()
    with path.open("ab") as file:
        file.write(end)
    found = session.sql("SELECT count(*) AS n FROM ML.TRAINING_INFO(MODEL m)").arrow().column("n").to_pylist()
    assert found[0] - whole[0] == (1 if end.endswith(LINE) else 0)


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": {"number": 1}},
        {"number": 7},
        {"after": ["../../n"]},
        {"driver": {"name": "../driver.state", "size": 1, "crc32": 1}},
        {"driver": {"name": "/etc/passwd", "size": 1, "crc32": 1}},
        {"examples": "many"},
        {"parts": [{"number": 0, "slices": ["a", "b"]}]},
    ],
    ids=str,
)
def test_a_checkpoint_that_leads_elsewhere_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    checkpoints = Checkpoints(Storage(str(tmp_path)))
    (tmp_path / "000000-000001").mkdir()
    sound = json.loads(json.dumps(dataclasses.asdict(Checkpoint(0, 1))))
    for values, error in ((sound, "is missing"), (sound | change, "manifest.json is damaged")):
        content = {"format": 1, "checksum": checksum(values), "checkpoint": values}
        (tmp_path / "000000-000001" / "manifest.json").write_text(json.dumps(content))
        with pytest.raises(CheckpointError, match=error):
            checkpoints.read("000000-000001")
