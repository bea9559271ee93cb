"""Versions of changes: what is read from them is what a version with all rows has, whichever of them are there."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, lengthy, slow_elsewhere
from tests.forkserver import CONTEXT
from tests.streams.landing import answer
from xpsql.platform.errors import ModelError
from xpsql.platform.input.streams import feed as feeds
from xpsql.platform.input.streams import folder as folders
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse import folders as folders_of_versions
from xpsql.warehouse import models
from xpsql.warehouse.chains import compaction, merge
from xpsql.warehouse.chains.links import WHOLE, ChainLink, lineage
from xpsql.warehouse.chains.merge import merged
from xpsql.warehouse.dense import read_dense
from xpsql.warehouse.manifest import Manifest
from xpsql.warehouse.models import Models
from xpsql.warehouse.scratch import scratch
from xpsql.warehouse.version import Version

FIRST, EACH, PUBLICATIONS = 4000, 40, 12
USING = "USING xnn (dim = 2, hidden = (3)) TIME ts OPERATORS (expire (after = '1 hour')) WITH (workers = 1, batch_size = 40"
QUERY = "SELECT label, user, item, price, ts FROM STREAM parquet.`{}`"


def log(first: int, rows: int) -> pa.Table:
    """Return examples, one a second: users that come once in a while, and some that never come back."""
    random, at = np.random.default_rng(first), np.arange(first, first + rows)
    return pa.table(
        {
            "label": pa.array((random.random(rows) < 0.3).astype(np.int32)),
            "user": pa.array([f"u{n}" for n in random.integers(0, 4000, rows)]),
            "item": pa.array([f"i{n}" for n in random.integers(0, 50, rows)]),
            "price": pa.array(random.normal(3, 2, rows)),
            "ts": pa.array(1_700_000_000_000_000 + at * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model m of a training that stayed, and jobs, made of the same rows by a job each."""
    folder = tmp_path_factory.mktemp("deltas")
    (landing := folder / "landing").mkdir()
    pq.write_table(log(0, FIRST), landing / "a.parquet")
    stream = QUERY.format(landing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "LOOK_SECONDS", 0.0)
        patch.setattr(feeds, "LOOK_SECONDS", 0.02)
        with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as session:
            for model in ("m", "jobs"):
                session.sql(f"TRAIN MODEL {model} {USING}, until = 'available') AS {stream}")
            for number in range(PUBLICATIONS):
                pq.write_table(log(FIRST + EACH * number, EACH), landing / f"b{number:02}.parquet")
            session.sql(f"CONTINUE MODEL jobs WITH (until = 'available') AS {stream}")
            staying = f"CONTINUE MODEL m PUBLISH EVERY {EACH} EXAMPLES RETAIN LAST 1000 AS {stream}"
            with ThreadPoolExecutor(1) as pool, xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as other:
                running = pool.submit(answer, other, staying)
                deadline = time.monotonic() + 120
                while not running.done() and len(session.models.present("m")) <= PUBLICATIONS and time.monotonic() < deadline:
                    time.sleep(0.05)
                session.sql("STOP MODEL m")
                running.result()
    return folder / "warehouse"


@pytest.fixture
def session(warehouse: Path, tmp_path: Path) -> Iterator[xpsql.Session]:
    """A session of a warehouse of its own with that model."""
    shutil.copytree(warehouse, tmp_path / "warehouse")
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        yield session


def table_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).sort_by("key")


def weights(session: xpsql.Session, model: str) -> list[dict[str, Any]]:
    """Return ML.WEIGHTS without what follows from other columns and the base rate."""
    found = session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model}) ORDER BY `table`, key").arrow()
    return found.drop_columns(["utility", "information"]).to_pylist()


def by_key(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {(row["table"], row["key"]): row for row in rows}


def newest(session: xpsql.Session) -> Version:
    return session.models.version("m")


def read_again(session: xpsql.Session, expected: dict[str, pa.Table]) -> None:
    """Require of the newest version that it has these rows, by table, and that all of its files are whole."""
    for name, rows in expected.items():
        assert table_of(newest(session).rows(name)).equals(rows)
    assert set(session.sql("CHECK MODEL m").arrow()["state"].to_pylist()) == {"whole"}


@lengthy
def test_changes_applied_to_the_first_version_give_the_last_which_is_that_of_a_job(session: xpsql.Session) -> None:
    versions, jobs = session.models.versions("m"), session.models.version("jobs")
    last = versions[-1]
    found = list(lineage(last.folder, last.manifest))[::-1]
    assert (len(versions), len(found), found[0].manifest.base) == (1 + PUBLICATIONS, PUBLICATIONS, None)
    assert any(file.path.startswith("tombstones/") for one in found for file in one.manifest.files or ())
    assert len(last.chain()) < PUBLICATIONS  # all rows were made beside one of them
    links = [ChainLink(one.number, one.folder, one.manifest.files or ()) for one in found]
    for name in ("weights", "vectors"):
        assert table_of(merged(links, name, None, None)).equals(table_of(jobs.rows(name)))
        assert table_of(last.rows(name)).equals(table_of(jobs.rows(name)))
    assert last.manifest.learned.rows == jobs.manifest.learned.rows
    assert last.manifest.statistics == jobs.manifest.statistics
    dense, expected = (read_dense(version.stored("dense")) for version in (last, jobs))
    assert dense.keys() == expected.keys()
    assert all(np.array_equal(values, expected[name]) for name, values in dense.items())
    listed = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    assert [row["base"] for row in listed] == [None, None, *range(2, 1 + PUBLICATIONS)]
    files = sum(part.size for version in versions for part in version.everything())
    assert sum(row["bytes"] for row in listed) == files


def test_slices_are_chosen_of_changes_too(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = table_of(newest(session).rows("vectors", ["key", "w"]))
    monkeypatch.setattr(merge, "WINDOW_ROWS", 100)
    runs = [range(start, start + 256) for start in range(0, 1024, 256)]
    assert table_of([batch for run in runs for batch in newest(session).rows("vectors", ["key", "w"], run)]).equals(expected)
    keys = pa.Table.from_batches(newest(session).rows("vectors", ["key"], range(256)))["key"].to_numpy().view(np.uint64)
    assert 0 < int(keys.max()) < 1 << 62


@costly
@slow_elsewhere
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_statements_read_changes_as_they_read_all_rows(
    session: xpsql.Session, engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    chosen = engine if engine == "duckdb" else request.getfixturevalue("spark")
    with xpsql.connect(tmp_path / "warehouse", chosen, SilentReporter()) as session:
        assert weights(session, "m") == weights(session, "jobs")
        rows = "(SELECT 1 AS label, 'u7' AS user, 'i3' AS item, 2.5D AS price, TIMESTAMP '2023-11-15 00:00:00' AS ts)"
        found = [session.sql(f"SELECT * FROM ML.PREDICT(MODEL {name}, {rows})").arrow().to_pylist() for name in ("m", "jobs")]
        assert found[0] == found[1]
        if engine == "spark":
            return
        for base in (3, PUBLICATIONS + 1 - 2):
            session.sql(f"EXPORT MODEL m VERSION {base} TO TABLE base{base}")
            session.sql(f"EXPORT MODEL m TO TABLE delta{base} DELTA FROM VERSION {base}")
            delta, old = (
                by_key(session.sql(f"SELECT * FROM {table}{base}").arrow().to_pylist()) for table in ("delta", "base")
            )
            full = by_key(weights(session, "m"))
            given = {key: row for key, row in old.items() if key not in delta}
            given |= {key: row for key, row in delta.items() if not row["deleted"]}
            names = [name for name in next(iter(delta.values())) if name != "deleted"]
            assert given.keys() == full.keys()
            assert all(row[name] == full[key][name] for key, row in given.items() for name in names)
            assert all(key in old for key, row in delta.items() if row["deleted"])
            assert len(delta) < len(full) / 2
        for model in ("m", "jobs"):
            session.sql(f"CONTINUE MODEL {model} AS SELECT * FROM {rows}")
        assert newest(session).manifest.base is None
        assert weights(session, "m") == weights(session, "jobs")
        session.sql("SHRINK MODEL m WHERE updates < 2")
        assert set(session.sql("CHECK MODEL m").arrow()["state"].to_pylist()) == {"whole"}


def test_what_a_version_is_read_from_stays_until_nobody_needs_it(session: xpsql.Session) -> None:
    folder, last = newest(session).folder.parent, newest(session).number
    expected = {name: table_of(newest(session).rows(name)) for name in ("weights", "vectors")}
    needed = {link.number for link in newest(session).chain()}
    session.sql(f"DROP MODEL m VERSION {last - 1}")
    read_again(session, expected)
    session.sql("DROP MODEL m VERSIONS RETAIN LAST 1")
    assert session.models.numbers("m") == [last]
    assert {path.name for path in folder.glob("v*")} == {f"v{number}" for number in needed}
    read_again(session, expected)
    (row,) = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    assert row["bytes"] == sum(part.size for part in (*newest(session).everything(), *newest(session).beneath()))
    session.models.keep_whole("m", last, newest(session), written(newest(session)))
    read_again(session, expected)
    assert len(newest(session).chain()) == 1
    session.models.begin("m", Manifest(parent=last)).discard()  # looks after leftovers
    assert {path.name for path in folder.glob("v*")} == {f"v{last}"}


def test_a_file_that_is_damaged_or_gone_is_named(session: xpsql.Session) -> None:
    link = newest(session).chain()[1]
    path = link.folder / next(file.path for file in link.files if file.path.startswith("rows/vectors"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="another checksum") as raised:
        session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow()
    assert str(path) in str(raised.value)
    found = session.sql(f"CHECK MODEL m VERSION {newest(session).number}").arrow().to_pylist()
    assert [row["file"] for row in found if row["state"] == "damaged"] == [f"../v{link.number}/{path.relative_to(link.folder)}"]
    shutil.rmtree(link.folder)
    with pytest.raises(ModelError, match=f"changes rows of version {link.number}, and .* is gone"):
        session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow()


def test_rows_that_are_made_whole_come_and_go_by_one_step(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {name: table_of(newest(session).rows(name)) for name in ("weights", "vectors")}
    wholes = [v.number for v in session.models.versions("m") if (v.folder / WHOLE).exists()]
    assert len(wholes) == 1  # of those before, none is needed for long chains
    at = newest(session).folder.parent / f"v{wholes[0]}" / WHOLE
    before = len(newest(session).chain())
    assert not written(newest(session), stopped=True).joinpath("rows", "vectors").exists()  # who is stopped leaves
    with session.models.reading("m"):
        session.models.keep_whole("m", newest(session).number, newest(session), written(newest(session)))
        assert at.exists()  # somebody may read it
    read_again(session, expected)
    monkeypatch.setattr(compaction, "OLDER_LINKS", 3)
    assert compaction.drop_needless(newest(session)) == []  # versions between are read from too many without it
    monkeypatch.undo()
    assert compaction.drop_needless(newest(session)) == wholes
    assert (at.exists(), len(newest(session).chain()), before > 1) == (False, 1, True)
    for version in session.models.versions("m"):
        assert sum(batch.num_rows for batch in version.rows("weights")) == version.manifest.learned.rows


STEPS = {
    "the second file": (compaction, "keys_of"),
    "the list of files": (compaction, "files_text"),
    "the sync of the files": (compaction, "sync_tree"),
    "the sync of the version": (compaction, "sync"),
    "what is needless": (models, "drop_needless"),
    "what is out of sight": (folders_of_versions, "clear"),
}
"""What a compaction comes to, and where."""


def cut(warehouse: Path, step: str) -> None:
    """Compact the newest version in this process, and be killed at a step."""
    versions, calls, compaction.PART_ROWS = Models(warehouse), itertools.count(), 2000
    module, name = STEPS[step]
    real = getattr(module, name)

    def dies(*given: Any) -> Any:
        if name != "keys_of" or next(calls):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given)

    setattr(module, name, dies)
    version = versions.version("m")
    lock = versions.lock("m", version.number, False)
    with scratch(warehouse, "m") as folder:
        compaction.write_whole(version, folder / "whole", lambda: False)
        versions.keep_whole("m", version.number, version, folder / "whole")
    lock.release()


@costly
def test_a_compaction_that_is_killed_at_any_step_changes_nothing_and_leaves_nothing(session: xpsql.Session) -> None:
    expected = {name: table_of(newest(session).rows(name)) for name in ("weights", "vectors")}
    place, whole = session.models.warehouse / ".scratch" / "m", newest(session).folder / WHOLE
    for step in STEPS:
        process = CONTEXT.Process(target=cut, args=(session.models.warehouse, step))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, step
        taken = step in list(STEPS)[3:]
        assert (whole.exists(), place.joinpath("whole").exists()) == (taken, not taken), step
        read_again(session, expected)
        if taken:
            shutil.rmtree(whole)
    assert list(newest(session).folder.parent.glob(".trash-*"))
    session.models.drop_old("m", 1000)
    with scratch(session.models.warehouse, "m") as folder:
        assert list(folder.iterdir()) == []
        compaction.write_whole(newest(session), folder / "whole", lambda: False)
        session.models.keep_whole("m", newest(session).number, newest(session), folder / "whole")
    read_again(session, expected)
    assert whole.exists()
    assert [*newest(session).folder.parent.glob(".trash-*"), *place.parent.iterdir()] == []


def written(version: Version, stopped: bool = False) -> Path:
    """Return a folder in which all rows of a version are written."""
    folder = version.folder.parents[2] / ".scratch" / f"whole-{stopped}"
    assert compaction.write_whole(version, folder, lambda: stopped) is not stopped
    return folder
