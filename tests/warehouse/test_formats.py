"""What versions hold is read as it was written or not at all: by its checksums, and by its slices."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import xpsql
from tests.cases import costly, costly_after_first
from xpsql.platform.errors import ModelError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.placement import slices_of
from xpsql.platform.scoring.weights import Weights
from xpsql.platform.training.clauses import CLAUSES
from xpsql.platform.training.plan import Plan
from xpsql.warehouse import checksums
from xpsql.warehouse.checksums import checksum, matches
from xpsql.warehouse.manifest import FORMAT, Manifest, read_manifest, write_manifest
from xpsql.warehouse.version import Version

LOG = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x FROM range(200)"


def connected(warehouse: Path) -> xpsql.Session:
    return xpsql.connect(warehouse, "duckdb", SilentReporter())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a model that has every kind of file: rows of two tables, layers, candidates; and one of a package."""
    folder = tmp_path_factory.mktemp("trained") / "warehouse"
    with connected(folder) as session:
        network = "USING xnn (dim = 2, hidden = (2)) OPERATORS (admit (min_count = 3))"
        session.sql(f"TRAIN MODEL m {network} WITH (batch_size = 50) AS {LOG}")
        session.sql(f"TRAIN MODEL trees USING xgboost (rounds = 2) AS {LOG}")
    return folder


@pytest.fixture
def warehouse(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "warehouse")
    return tmp_path / "warehouse"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def data(folder: Path) -> list[Path]:
    """Return the files of a version's data."""
    kinds = ("rows", "dense", "candidates", "package", "profile")
    return sorted(path for kind in kinds for path in (folder / kind).rglob("*") if path.is_file())


READS = {
    "rows/vectors": (
        f"SELECT * FROM ML.PREDICT(MODEL m, ({LOG}))",
        f"SELECT * FROM ML.EVALUATE(MODEL m, ({LOG}))",
        "SELECT * FROM ML.WEIGHTS(MODEL m)",
        f"CONTINUE MODEL m AS {LOG}",
        "EXPORT MODEL m TO '{out}' FORMAT parquet",
        "SHRINK MODEL m WHERE count < 2",
    ),
    "dense": (
        f"SELECT * FROM ML.PREDICT(MODEL m, ({LOG}))",
        f"CONTINUE MODEL m AS {LOG}",
        "EXPORT MODEL m TO '{out}' FORMAT parquet",
        "SHRINK MODEL m WHERE count < 2",
    ),
    "candidates": (f"CONTINUE MODEL m AS {LOG}", "SHRINK MODEL m WHERE count < 2"),
    "profile": (
        f"SELECT * FROM ML.DATA_DRIFT(MODEL m, ({LOG}))",
        f"CONTINUE MODEL m AS {LOG}",
        "SHRINK MODEL m WHERE count < 2",
    ),
    "package": (f"SELECT * FROM ML.PREDICT(MODEL trees, ({LOG}))", "EXPORT MODEL trees TO '{out}' FORMAT parquet"),
}
"""Statements that read a kind of file."""


@costly_after_first
@pytest.mark.parametrize("kind", list(READS))
def test_every_statement_that_reads_a_changed_file_names_it(warehouse: Path, tmp_path: Path, kind: str) -> None:
    model = "trees" if kind == "package" else "m"
    (path,) = (warehouse / "models" / model / "v1" / kind).iterdir()
    flip(path, path.stat().st_size // 2)
    with connected(warehouse) as session:
        for statement in READS[kind]:
            with pytest.raises(ModelError, match=r"is damaged: .* another checksum .*Restore it from a backup") as raised:
                session.sql(statement.replace("{out}", str(tmp_path / "out"))).arrow()
            assert str(path) in str(raised.value)


def test_no_byte_of_a_version_changes_unnoticed(warehouse: Path) -> None:
    with connected(warehouse) as session:
        for model in ("m", "trees"):
            version = session.models.version(model)
            files = data(version.folder)
            assert {part.path for part in version.everything()} == set(files)
            for part in version.everything():
                for at in range(0, part.path.stat().st_size, 61):
                    flip(part.path, at)
                    with pytest.raises(OSError, match="another checksum"):
                        part.check()
                    flip(part.path, at)
                assert part.check() == part.path.stat().st_size


def test_a_checksum_tells_other_bytes() -> None:
    written = "06b05ab6733a618578af5f94892f3950"  # XXH3 of "abc", of the specification's reference implementation
    assert checksum(b"abc") == written
    assert matches(b"abc", written)
    assert not matches(b"abd", written)


def test_check_model_lists_what_is_whole_and_what_is_damaged(warehouse: Path) -> None:
    folder = warehouse / "models" / "m" / "v1"
    flip(folder / "dense" / "part-00000.parquet", 100)
    with (folder / "candidates" / "part-00000.parquet").open("ab") as file:
        file.write(b"more")
    with connected(warehouse) as session:
        found = session.sql("CHECK MODEL m VERSION 1").arrow().to_pylist()
        with pytest.raises(ModelError, match="no version 7"):
            session.sql("CHECK MODEL m VERSION 7")
    states = {row["file"]: row["state"] for row in found}
    assert states == {
        "rows/weights/part-00000.parquet": "whole",
        "rows/vectors/part-00000.parquet": "whole",
        "dense/part-00000.parquet": "damaged",
        "candidates/part-00000.parquet": "damaged",
        "profile/part-00000.parquet": "whole",
    }
    reasons = {row["file"]: row["reason"] for row in found}
    assert "were written" in reasons["candidates/part-00000.parquet"]


def test_a_file_that_the_manifest_names_elsewhere_is_refused(warehouse: Path) -> None:
    path = warehouse / "models" / "m" / "v1" / "manifest.json"
    for name in ("../../../log", "rows/../../x/part-00000.parquet", "dense/secret"):
        values = json.loads(path.read_text())
        values["files"][0]["path"] = name
        (changed := path.parent.parent / "changed").mkdir(exist_ok=True)
        (changed / "manifest.json").write_text(json.dumps(values))
        with pytest.raises(ModelError, match="is damaged: a file of a version is"):
            read_manifest(changed)


def test_the_page_of_the_format_explains_every_key_of_a_manifest() -> None:
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
    keys = {key for line in page.splitlines() if line.startswith("| `") for key in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert {field.name for field in dataclasses.fields(Manifest)} <= keys
    assert {clause.name for clause in CLAUSES if clause.to_json is not None} <= keys


def test_plans_and_manifests_stay_small() -> None:
    assert len(dataclasses.fields(Plan)) <= 12
    assert len(dataclasses.fields(Manifest)) <= 40


def test_a_version_that_needs_what_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    write_manifest(tmp_path, Manifest(requires=("later",)))
    with pytest.raises(ModelError, match=r"needs later, which this xpsql does not support\. Install a newer"):
        read_manifest(tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["format"] == FORMAT


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """A version with 400,001 rows."""
    query = "SELECT CAST(id % 2 AS INT) AS label, id AS x FROM range(400000)"
    with connected(tmp_path_factory.mktemp("large") / "warehouse") as session:
        session.sql(f"TRAIN MODEL m USING xftrl WITH (batch_size = 100000) AS {query}")
        return session.models.version("m")


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes of files were read since it was last asked."""
    total, read = [0], checksums.read_at

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        total[0] += size
        return read(descriptor, size, offset)

    def taken() -> int:
        found, total[0] = total[0], 0
        return found

    monkeypatch.setattr(checksums, "read_at", counted)
    return taken


@costly
@pytest.mark.parametrize("num_readers", [1, 2, 3, 5, 8, 16])
def test_readers_of_slices_read_the_model_once_together(
    large: Version, read_bytes: Callable[[], int], num_readers: int
) -> None:
    whole = sum(path.stat().st_size for path in data(large.folder))
    own = []
    for number in range(num_readers):
        slices = slices_of(number, num_readers)
        keys = [batch.column(0).to_numpy().view(np.uint64) for batch in large.rows("weights", ["key"], slices)]
        found = np.concatenate(keys)
        mine = found >> np.uint64(54)
        own.append(found[(mine >= slices.start) & (mine < slices.stop)])
    assert read_bytes() <= 1.1 * whole
    assert len(np.unique(np.concatenate(own))) == large.manifest.learned.rows == 400_001


def test_servers_of_a_prediction_hold_the_whole_model_and_read_it_once(large: Version, read_bytes: Callable[[], int]) -> None:
    keys = np.concatenate([batch.column(0).to_numpy().view(np.uint64) for batch in large.rows("weights", ["key"])])
    some, read = np.ascontiguousarray(keys[:: len(keys) // 500]), read_bytes()
    expected = Weights(large, 0, 1).pull(some, len(some)).weights["weights"]
    assert read_bytes() == read
    servers = [Weights(large, number, 8) for number in range(8)]
    assert read_bytes() <= 1.1 * read
    np.testing.assert_array_equal(sum(server.pull(some, len(some)).weights["weights"] for server in servers), expected)
