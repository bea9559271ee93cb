"""Doors: each file of a version, each damage of it, and each statement or service that reads it.

Every one fails and names the file, or answers as it did before the damage: what it does not need it need not read.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import costly, lengthy, quick
from xpsql.platform.errors import ModelError, XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.served import Served
from xpsql.warehouse import mapped
from xpsql.warehouse.checksums import VersionFile

LOG = (
    "SELECT CAST(pmod(xxhash64(id), 3) = 0 AS INT) AS click, concat('u', id % 7) AS user, concat('p', id % 9) AS image, "
    "id % 5 AS item, array((id + 1) % 5, (id + 2) % 5) AS had FROM range({})"
)
PICTURES = "SELECT concat('p', id) AS image_id, array(sin(id), cos(id), sin(id * 3)) AS vector FROM range(9)"
COLUMNS = {
    "vectors": "click, user, image",
    "tree": "item, had",
    "rows": "click, user, image",
    "package": "click, user, image",
}
TRAINED = {
    "vectors": "USING xnn (hidden = (2), dim = 2) OPERATORS (admit (min_count = 3)) LABEL click VECTORS images AS "
    f"({PICTURES}) WITH (vectors = (image IN images), batch_size = 32)",
    "tree": "USING tdm (item = item, history = (had), hidden = (2), dim = 2, beam = 2) WITH (batch_size = 32)",
    "rows": "USING xftrl LABEL click WITH (batch_size = 32)",
    "package": "USING xgboost (rounds = 2) LABEL click",
}
SERVE = "serve"
CHANGING = ("CONTINUE", "SHRINK", SERVE)
"""Those that leave something in the model's folder."""
QUICK, FOR_OTHERS = "SELECT * FROM ML.PREDICT", ("one byte flipped",)
"""The reader that tries every damage, and what the others try: all get a file's bytes in the same way."""
LEAST = {"vectors": 8, "tree": 6, "rows": 8, "package": 6}
"""How many readers each model has at least."""
READERS = (
    SERVE,
    "SELECT * FROM ML.PREDICT(MODEL {m}, (SELECT {columns} FROM log LIMIT 9))",
    "SELECT * FROM ML.EVALUATE(MODEL {m}, (SELECT {columns} FROM log LIMIT 9))",
    "SELECT * FROM ML.EXPLAIN_PREDICT(MODEL {m}, (SELECT {columns} FROM log LIMIT 3), 2)",
    "SELECT * FROM ML.WEIGHTS(MODEL {m}) ORDER BY ALL",
    "SELECT * FROM ML.FEATURE_INFO(MODEL {m}) ORDER BY ALL",
    "SELECT * FROM ML.RECOMMEND(MODEL {m}, (SELECT had FROM log LIMIT 2), ITEMS (SELECT DISTINCT item FROM log), 2)",
    "CONTINUE MODEL {m} AS SELECT {columns} FROM log",
    "SHRINK MODEL {m} WHERE count < 2",
    "EXPORT MODEL {m} TO '{out}' FORMAT parquet",
    "EXPORT MODEL {m} TO TABLE copied WITH (replace = true)",
)


def emptied(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path, other: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def longer(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def flipped(path: Path, other: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def another(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def linked(path: Path, other: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "missing": lambda path, other: path.unlink(),
    "empty": emptied,
    "truncated": truncated,
    "longer": longer,
    "one byte flipped": flipped,
    "another version's": another,
    "a link": linked,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a model of each kind, and in `other` the same models of other rows."""
    pytest.importorskip("xgboost")
    folder = tmp_path_factory.mktemp("files")
    for name, rows in (("warehouse", 200), ("other", 311)):
        with xpsql.connect(folder / name, reporter=SilentReporter()) as session:
            session.sql(f"CREATE TABLE log AS {LOG.format(rows)}")
            for model, how in TRAINED.items():
                pictures = how.replace("range(9)", f"range({rows // 10})")
                session.sql(f"TRAIN MODEL {model} {pictures} AS SELECT {COLUMNS[model]} FROM log")
    return folder


def files(folder: Path) -> list[Path]:
    """The files of a version that its manifest lists."""
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in found if path.name not in ("manifest.json", "lock", "progress.jsonl")]


def restored(trained: Path, warehouse: Path, model: str) -> Path:
    """Put a model back as it was, and return the folder of its version."""
    for name in (f"models/{model}", f"images/{model}"):
        shutil.rmtree(warehouse / name, ignore_errors=True)
    shutil.copytree(trained / "warehouse" / "models" / model, warehouse / "models" / model)
    return warehouse / "models" / model / "v1"


def answered(session: xpsql.Session, reader: str, model: str, out: Path) -> Any:
    if reader == SERVE:
        (loaded,) = Served(session.models, [model], None, lambda line: None).all()
        rows = session.sql(f"SELECT {COLUMNS[model]} FROM log LIMIT 9").arrow()
        found = loaded.predict(rows.select([column.name for column in loaded.inputs]))
        return {name: values.to_pylist() for name, values in found.items()}
    shutil.rmtree(out, ignore_errors=True)
    found = session.sql(reader.format(m=model, columns=COLUMNS[model], out=out)).arrow()
    if reader.startswith(("CONTINUE", "SHRINK")):
        return session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model}) ORDER BY ALL").arrow().to_pylist()
    if reader.startswith("EXPORT"):
        written = sorted(path for path in out.rglob("*") if path.is_file() and path.name != "_manifest.json")
        return [(path.name, path.read_bytes()) for path in written]
    return found.to_pylist()


@pytest.fixture
def session(trained: Path, tmp_path: Path) -> Iterator[xpsql.Session]:
    warehouse = shutil.copytree(trained / "warehouse", tmp_path / "warehouse")
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        yield session


def tried_first(reader: str, damage: str) -> bool:
    """Return whether a reader tries a damage in every run of the tests; tests/doors/test_every_damage.py tries the others."""
    return reader.startswith(QUICK) or damage in FOR_OTHERS


def crossed(session: xpsql.Session, trained: Path, tmp_path: Path, model: str, tries: Callable[[str, str], bool]) -> list[str]:
    """Return what is said or answered wrongly of each file of a model, each damage of it, and each reader that tries it."""
    expected = dict[str, Any]()
    for reader in READERS:
        restored(trained, session.models.warehouse, model)
        with suppress(XpsqlError):  # it is not for this model
            expected[reader] = answered(session, reader, model, tmp_path / "out")
    assert len(expected) >= LEAST[model]
    missed = list[str]()
    for file in files(trained / "warehouse" / "models" / model / "v1"):
        other, named = trained / "other" / "models" / model / "v1" / file, 0
        tried = dict(DAMAGES)
        if other.read_bytes() == (trained / "warehouse" / "models" / model / "v1" / file).read_bytes():
            del tried["another version's"]  # it is the same
        for damage, change in tried.items():
            folder = restored(trained, session.models.warehouse, model)
            change(folder / file, other)
            checks = session.sql(f"CHECK MODEL {model}").arrow().to_pylist()
            assert [row["file"] for row in checks if row["state"] == "damaged"] == [file.as_posix()], (file, damage)
            for reader, wanted in expected.items():
                if not tries(reader, damage):
                    continue
                if reader.startswith(CHANGING):
                    folder = restored(trained, session.models.warehouse, model)
                    change(folder / file, other)
                try:
                    same = answered(session, reader, model, tmp_path / "out") == wanted
                    missed += [] if same else [f"{file} {damage}: {reader} answers otherwise"]
                except XpsqlError as error:
                    named += 1
                    missed += [] if str(folder / file) in str(error) else [f"{file} {damage}: {reader}: {error}"]
        assert named, file  # somebody reads it
    return missed


@costly
@pytest.mark.parametrize("model", quick(TRAINED, ("vectors", "tree", "package")))
def test_every_reader_of_a_damaged_file_names_it_or_answers_as_before(
    session: xpsql.Session, trained: Path, tmp_path: Path, model: str
) -> None:
    assert crossed(session, trained, tmp_path, model, tried_first) == []


@lengthy
def test_files_that_stay_open_are_verified_where_they_are_mapped_too(
    session: xpsql.Session, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 0)
    query = "SELECT * FROM ML.PREDICT(MODEL vectors, (SELECT user, image FROM log LIMIT 9))"
    wanted = session.sql(query).arrow().to_pylist()
    for name in ("values.f32", "keys-1.u64", "places-1.i32"):
        for change in (truncated, flipped, longer):
            folder = restored(trained, session.models.warehouse, "vectors")
            assert session.sql(query).arrow().to_pylist() == wanted
            folder = restored(trained, session.models.warehouse, "vectors")
            path = folder / "vectors" / "images" / name
            change(path, path)
            with pytest.raises(ModelError, match=f"{name} is damaged"):
                session.sql(query)


def test_vectors_that_are_cut_off_while_they_are_mapped_are_told_by_what_reads_them(
    session: xpsql.Session, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 0)
    query = "SELECT * FROM ML.PREDICT(MODEL vectors, (SELECT user, image FROM log LIMIT 9))"
    for name in ("values.f32", "keys-1.u64", "places-1.i32"):
        path = restored(trained, session.models.warehouse, "vectors") / "vectors" / "images" / name
        held = mapped.verified(VersionFile(path, None))
        assert len(session.sql(query).arrow()) == 9
        truncated(path, path)
        assert mapped.cut_off(held)
        assert held[-1] == 0, "and looking at it ends nobody"
        with pytest.raises(ModelError, match=f"{name} (is damaged|was cut off)"):
            session.sql(query)


@costly
@pytest.mark.parametrize("model", quick(TRAINED, ("vectors", "tree", "package")))
def test_a_manifest_without_a_field_or_an_option_is_refused_or_answers_as_before(
    session: xpsql.Session, trained: Path, tmp_path: Path, model: str
) -> None:
    path = session.models.folder / model / "v1" / "manifest.json"
    sound, predict = json.loads(path.read_text(encoding="utf-8")), READERS[1]
    wanted, part, missed = answered(session, predict, model, tmp_path / "out"), sound["algorithm"], list[str]()
    without = {field: {name: value for name, value in sound.items() if name != field} for field in sound}
    for option in part["options"]:
        left = {name: value for name, value in part["options"].items() if name != option}
        without[f"option {option}"] = {**sound, "algorithm": {**part, "options": left}}
    for what, values in without.items():
        path.write_text(json.dumps(values), encoding="utf-8")
        with suppress(XpsqlError):
            missed += [] if answered(session, predict, model, tmp_path / "out") == wanted else [what]
    assert missed == []
