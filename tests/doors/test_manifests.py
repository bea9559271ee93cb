"""Doors: each way in which a version's manifest cannot be read, and each statement that would take that version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.errors import ModelError, NewerFormatError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.served import Served
from xpsql.warehouse.manifest import FORMAT

LOG = "SELECT CAST(id % 3 = 0 AS INT) AS click, concat('u', id % 11) AS user FROM range(300)"
ROWS = "(SELECT 'u1' AS user, 1 AS click)"


def edited(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        values = json.loads(path.read_text(encoding="utf-8"))
        change(values)
        path.write_text(json.dumps(values), encoding="utf-8")

    return edit


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[200] ^= 0x80
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b"") and None,
    "torn": lambda path: path.write_bytes(path.read_bytes()[:100]) and None,
    "one bit": flipped,
    "newer": edited(lambda values: values.update(format=FORMAT + 1)),
    "of a newer kind": edited(lambda values: values.update(requires=["dreams"])),
}
READERS = (
    f"SELECT * FROM ML.PREDICT(MODEL m, {ROWS})",
    f"SELECT * FROM ML.EVALUATE(MODEL m, {ROWS})",
    f"SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, {ROWS}, 2)",
    "SELECT * FROM ML.WEIGHTS(MODEL m)",
    "SELECT * FROM ML.FEATURE_INFO(MODEL m)",
    "EXPORT MODEL m TO '{away}' FORMAT parquet",
    "EXPORT MODEL m TO '{away}' FORMAT serving",
    "EXPORT MODEL m TO TABLE away",
    f"CONTINUE MODEL m AS {LOG}",
    f"EXPLAIN CONTINUE MODEL m AS {LOG}",
    "SHRINK MODEL m WHERE count < 2",
    f"TRAIN MODEL m USING xftrl LABEL click AS {LOG}",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a model of two versions."""
    folder = tmp_path_factory.mktemp("manifests") / "warehouse"
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl LABEL click AS {LOG}")
        session.sql(f"CONTINUE MODEL m AS {LOG}")
    return folder


@pytest.fixture
def session(trained: Path, tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(shutil.copytree(trained, tmp_path / "warehouse"), reporter=SilentReporter()) as session:
        yield session


def manifest(session: xpsql.Session, number: int) -> Path:
    return session.models.folder / "m" / f"v{number}" / "manifest.json"


def shown(session: xpsql.Session) -> list[tuple[object, ...]]:
    found = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    return [(row["version"], row["status"], row["served"]) for row in found]


def predicted(session: xpsql.Session, version: str = "") -> list[float]:
    table = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL m {version}, {ROWS})").arrow()
    return list(table["predicted_click"].to_pylist())


def test_no_older_version_answers_for_one_that_cannot_be_read(session: xpsql.Session, tmp_path: Path) -> None:
    first, path = predicted(session, "VERSION 1"), manifest(session, 2)
    sound = path.read_bytes()
    for name, damage in DAMAGES.items():
        path.write_bytes(sound)
        damage(path)
        status = "newer format" if "newer" in name else "damaged"
        for reader in READERS:
            with pytest.raises(ModelError, match=r"PROMOTE VERSION|Model m exists"):
                session.sql(reader.format(away=tmp_path / "away")).arrow()
        assert shown(session) == [(1, "ready", False), (2, status, True)], name
        (model,) = session.sql("SHOW MODELS").arrow().to_pylist()
        assert (model["version"], model["status"]) == (2, status)
        checks = session.sql("CHECK MODEL m").arrow().to_pylist()
        assert [(row["version"], row["state"]) for row in checks if row["state"] != "whole"] == [(2, status)]
        assert predicted(session, "VERSION 1") == first
    assert not (tmp_path / "away").exists()
    assert [folder.name for folder in sorted((session.models.folder / "m").glob("v*"))] == ["v1", "v2"]
    path.write_bytes(sound)
    assert shown(session) == [(1, "ready", False), (2, "ready", True)]


@lengthy
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_another_version_is_chosen_by_promoting_it_naming_it_or_dropping_the_damaged_one(
    session: xpsql.Session, damage: Callable[[Path], None]
) -> None:
    first = predicted(session, "VERSION 1")
    damage(manifest(session, 2))
    session.sql("ALTER MODEL m PROMOTE VERSION 1")
    assert predicted(session) == first
    session.sql("ALTER MODEL m PROMOTE LAST")
    with pytest.raises(ModelError, match="cannot read the version that is served"):
        predicted(session)
    session.sql(f"CONTINUE MODEL m FROM VERSION 1 AS {LOG}")
    assert [(number, served) for number, _, served in shown(session)] == [(1, False), (2, False), (3, True)]
    session.sql("DROP MODEL m VERSION 3")
    session.sql("DROP MODEL m VERSION 2")
    assert shown(session) == [(1, "ready", True)]
    assert predicted(session) == first


def test_where_a_version_is_promoted_that_one_alone_has_to_be_readable(session: xpsql.Session) -> None:
    session.sql("ALTER MODEL m PROMOTE VERSION 1")
    manifest(session, 2).write_text("{", encoding="utf-8")
    assert len(predicted(session)) == 1
    manifest(session, 1).write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match="cannot read the version that is served"):
        predicted(session)


def test_a_training_that_had_not_ended_reads_as_interrupted_though_its_manifest_is_lost(session: xpsql.Session) -> None:
    folder = manifest(session, 2).parent
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "notes").touch()
    for damage in (DAMAGES["empty"], DAMAGES["gone"]):
        damage(manifest(session, 2))
        assert shown(session) == [(1, "ready", True), (2, "interrupted", False)]
        with pytest.raises(ModelError, match="no training to resume"):
            session.sql("RESUME MODEL m")
        session.sql(f"CONTINUE MODEL m AS {LOG}")
        session.sql(f"DROP MODEL m VERSION {shown(session)[-1][0]}")
    assert (folder / "checkpoints" / "notes").exists()  # who restores the manifest resumes


def test_a_format_of_a_newer_xpsql_is_an_error_of_its_own(session: xpsql.Session) -> None:
    DAMAGES["newer"](manifest(session, 2))
    with pytest.raises(ModelError, match="Install an xpsql that reads format"):
        predicted(session)
    assert issubclass(NewerFormatError, ModelError)


def test_a_service_keeps_its_version_and_reports_it(session: xpsql.Session) -> None:
    for number, damage in ((2, DAMAGES["one bit"]), (2, DAMAGES["gone"])):
        lines: list[str] = []
        served = Served(session.models, ["m"], None, lines.append)
        (loaded,) = served.all()
        sound = manifest(session, number).read_bytes()
        damage(manifest(session, number))
        for _ in range(2):
            served.refresh()
        assert [(one.number, one is loaded) for one in served.all()] == [(2, True)]
        assert served.failing(loaded)
        assert served.failures["m"] == 2
        assert [line for line in lines if line.startswith("Still serving m v2: Model m cannot read")] == lines[-1:]
        with pytest.raises(ModelError, match="cannot read the version that is served"):
            Served(session.models, ["m"], None, lines.append)
        manifest(session, number).write_bytes(sound)
        served.refresh()
        assert not served.failing(loaded)
