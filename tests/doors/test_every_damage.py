"""Doors, as a full cross: each damage of each file of a version, and of an interrupted training, beside each reader of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import costly
from tests.doors.test_files import DAMAGES, TRAINED, crossed, session, trained, tried_first
from tests.training.log import log, write
from tests.training.test_resume import interrupted
from xpsql.platform.errors import XpsqlError
from xpsql.platform.progress import SilentReporter

__all__ = ["session", "trained"]


@pytest.mark.parametrize("model", [pytest.param(one, marks=costly if one == "vectors" else ()) for one in TRAINED])
def test_every_damage_of_every_file_is_named_by_every_reader_or_changes_nothing(
    session: xpsql.Session, trained: Path, tmp_path: Path, model: str
) -> None:
    assert crossed(session, trained, tmp_path, model, lambda reader, damage: not tried_first(reader, damage)) == []


def resumed(warehouse: Path) -> Any:
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        session.sql("RESUME MODEL m")
        return session.sql("SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY ALL").arrow().to_pylist()


def test_a_training_whose_newest_checkpoint_is_damaged_resumes_to_the_same_model_or_names_the_file(tmp_path: Path) -> None:
    path = write(log(4_000), tmp_path / "log.parquet")
    settings = "batch_size = 64, passes = 2, checkpoint_seconds = 0.02, workers = 1"
    statement = f"TRAIN MODEL m USING xftrl IGNORE (ts) WITH ({settings}) AS SELECT * FROM parquet.`{path}`"
    interrupted(tmp_path / "cut", statement)
    version = tmp_path / "cut" / "models" / "m" / "v1"
    files = [path.relative_to(version) for path in sorted((version / "checkpoints").rglob("*")) if path.is_file()]
    newest = [file for file in files if file.parts[1] == max(file.parts[1] for file in files)]
    assert {file.name for file in newest} >= {"manifest.json", "driver.state", "shard-0000.state"}
    wanted, missed = resumed(shutil.copytree(tmp_path / "cut", tmp_path / "sound")), list[str]()
    for file in newest:
        own = (version / file).read_bytes()
        others = [other for other in files if other.name == file.name and (version / other).read_bytes() != own]
        for damage, change in DAMAGES.items():
            if damage == "another version's" and not others:
                continue
            warehouse = shutil.copytree(tmp_path / "cut", tmp_path / "copy")
            folder = warehouse / "models" / "m" / "v1"
            change(folder / file, version / (others or [file])[0])
            try:
                missed += [] if resumed(warehouse) == wanted else [f"{file} {damage}: another model"]
            except XpsqlError as error:
                missed += [] if str(folder / file) in str(error) else [f"{file} {damage}: {error}"]
            shutil.rmtree(warehouse)
    assert missed == []
