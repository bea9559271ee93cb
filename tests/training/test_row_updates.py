"""Updates of all rows while a training goes on: each is applied once, on any number of shards, whatever is lost between."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xpsql
from tests.cases import costly, lengthy
from tests.training import test_checkpoint_files as files
from tests.training.log import log, write
from tests.training.test_checkpoint_files import ALL, BATCHES, push, push_some, taken
from tests.training.test_resume import interrupted
from xpsql.platform.functions import UPDATES
from xpsql.platform.functions.base import RowTable
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.compiled.updates import RowUpdates, TimedUpdate
from xpsql.platform.ps.shard import Shard
from xpsql.platform.training.checkpoints.files import restore
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoints import Checkpoints

TABLE = RowTable("weights", {"z": 2, "n": 2, "w": 2})


def timed(name: str, every: int, **options: Any) -> TimedUpdate:
    part = UPDATES.find(name)
    assert part is not None
    return TimedUpdate({"weights": part.make(part.options(**options), TABLE)}, every)


APPLIED = RowUpdates(
    [timed("scale", 2, factor=0.5), timed("prune", 5, below=0.01), timed("clip", 3, max=0.05), timed("scale", 0, factor=0.25)]
)


def new(num_shards: int) -> dict[int, Shard]:
    shards = files.new(num_shards)
    for shard in shards.values():
        shard.updates = APPLIED
    return shards


def end_pass(shards: Mapping[int, Shard]) -> None:
    for shard in shards.values():
        shard.end_pass(0)


def rows_of(shards: Mapping[int, Shard]) -> dict[int, bytes]:
    return {key: row for shard in shards.values() for key, row in files.rows_of(shard).items()}


@lengthy
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    have=st.lists(st.integers(0, BATCHES), min_size=1, max_size=3),
    before=st.lists(st.integers(0, BATCHES), min_size=3, max_size=3),
    num_shards=st.integers(1, 3),
)
def test_rows_that_are_restored_on_any_number_of_shards_have_had_each_update_once(
    tmp_path_factory: pytest.TempPathFactory, have: list[int], before: list[int], num_shards: int
) -> None:
    place = Storage(str(tmp_path_factory.mktemp("checkpoints")))
    old, restored, expected = new(len(have)), new(num_shards), new(num_shards)
    push_some(old, [min(pair) for pair in zip(have, before, strict=False)])
    first = taken(old, place, 1, full=True)
    push_some(old, have)
    second = taken(old, place, 2, full=False, after=(first.name,))
    restore(restored, num_shards, Checkpoints(place), second, epoch=0)
    push(restored, [one for one in ALL if one[0] or one[1] >= min(have)])
    push(expected, ALL)
    end_pass(restored)
    end_pass(expected)
    assert rows_of(restored) == rows_of(expected)


@lengthy
def test_the_end_of_a_pass_comes_once_to_shards_that_were_restored_on_either_side_of_it(tmp_path: Path) -> None:
    place, old, expected = Storage(str(tmp_path)), new(2), new(1)
    push(old, ALL)
    old[0].end_pass(0)  # the other one's checkpoint is older
    checkpoint = taken(old, place, 1, full=True)
    restored = new(3)
    restore(restored, 3, Checkpoints(place), checkpoint, epoch=0)
    push(expected, ALL)
    for shards in (restored, expected):
        end_pass(shards)
        end_pass(shards)
    assert rows_of(restored) == rows_of(expected)
    plain = files.new(1)
    push(plain, ALL)
    assert rows_of(plain) != rows_of(expected)


QUERY = "SELECT label, ts, user, item FROM parquet.`{}`"


def weights(session: xpsql.Session, model: str) -> dict[tuple[str, int], float]:
    found: pa.Table = session.sql(f"SELECT slot, key, weight FROM ML.WEIGHTS(MODEL {model})").table
    return {(row["slot"], row["key"]): row["weight"] for row in found.to_pylist()}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(log(2000), tmp_path_factory.mktemp("rows") / "log.parquet", 500)


@costly
def test_updates_of_a_statement_are_applied_after_batches_and_passes(path: Path, tmp_path: Path) -> None:
    """With the factor 0 after each batch nothing is learned but by the last one; at the end of passes, nothing at all."""
    query = QUERY.format(path)
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        train = "TRAIN MODEL {} USING xftrl APPLY ({}) LABEL label TIME ts WITH (batch_size = 100, shards = {}, passes = 2) AS "
        session.sql(train.format("a", "scale (factor = 0) EACH PASS", 1) + query)
        assert set(weights(session, "a").values()) == {0.0}
        session.sql(train.format("b", "clip (max = 0.02) EACH 1 BATCH, scale (factor = 0.5) EACH 7 BATCHES", 1) + query)
        found = weights(session, "b")
        assert 0 < max(map(abs, found.values())) <= 0.020001
        session.sql(train.format("c", "clip (max = 0.02) EACH 1 BATCH, scale (factor = 0.5) EACH 7 BATCHES", 3) + query)
        assert weights(session, "c") == found, "the number of shards changes nothing"
        session.sql(f"CONTINUE MODEL b AS {query}")
        assert max(map(abs, weights(session, "b").values())) <= 0.020001, "CONTINUE goes on with them"
        described = session.sql("DESCRIBE MODEL b").table.to_pylist()
        assert any("clip (max = 0.02) EACH 1 BATCHES" in str(row) for row in described)


@lengthy
@pytest.mark.parametrize(
    ("model", "apply", "rows"), [("kept", "", 1), ("forgotten", "APPLY (forget (slot = user) EACH 2 BATCHES) ", 0)]
)
def test_what_is_counted_of_features_without_a_row_is_forgotten_with_their_slot(
    tmp_path: Path, model: str, apply: str, rows: int
) -> None:
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        session.register("seen", pa.table({"user": ["x"] * 3, "label": [1, 0, 1]}))
        session.sql(
            f"TRAIN MODEL {model} USING xftrl OPERATORS (admit (min_count = 3), ftrl) {apply}LABEL label "
            "WITH (batch_size = 1, workers = 1) AS SELECT user, label FROM seen"
        )
        assert sum(slot == "user" for slot, _ in weights(session, model)) == rows


@costly
def test_a_training_that_is_interrupted_and_resumed_has_had_each_update_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpsql.platform.training.monitor.TELL_SECONDS", 0.0)
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from dataclasses import dataclass\n"
        "from xpsql.platform.functions.base import Update\n"
        "from xpsql.platform.options import Part\n"
        "@dataclass(frozen=True)\n"
        "class HalfOptions: pass\n"
        "half = Part('half', HalfOptions, lambda o, t: Update(lambda rows, c: {**rows, 'w': rows['w'] / 2}))\n"
    )
    statement = (
        f"TRAIN MODEL m USING xftrl APPLY ('{mine}:half' EACH 7 BATCHES, clip (max = 0.05) EACH PASS) LABEL label TIME ts "
        f"WITH (batch_size = 25, passes = 2, shards = 2, checkpoint_seconds = 0.001) AS {QUERY.format(path)}"
    )
    interrupted(tmp_path / "one", statement)
    mine.unlink()  # the version carries its text
    with xpsql.connect(tmp_path / "one", "duckdb", SilentReporter()) as session:
        session.sql("RESUME MODEL m")
        resumed = weights(session, "m")
    mine.write_text(session.models.version("m").manifest.clauses["APPLY"][0]["source"])
    with xpsql.connect(tmp_path / "other", "duckdb", SilentReporter()) as session:
        session.sql(statement)
        assert weights(session, "m") == resumed


REFUSED = [
    ("APPLY (scael EACH PASS)", "xftrl", "There is no update 'scael'", "scael"),
    ("APPLY (scale (factor = 0.5))", "xftrl", "Expected EACH", ")"),
    ("APPLY (scale EACH 0 BATCHES)", "xftrl", "at least 1", "0"),
    ("APPLY (scale EACH DAY)", "xftrl", "Expected PASS or a number of batches", "DAY"),
    ("APPLY (quantise EACH PASS)", "xftrl", "is for versions: the next batch would undo it", "quantise"),
    ("APPLY (clip (table = vectors) EACH PASS)", "xftrl", "is 'vectors'; the algorithm has weights", "table = vectors"),
    ("APPLY (prune (table = vectors) EACH PASS)", "fm", "cannot remove rows of vectors alone in a training", "prune"),
    ("APPLY (forget (slot = itm) EACH PASS)", "xftrl", "names 'itm', which has no rows", "slot = itm"),
    ("APPLY (scale EACH PASS)", "owlqn", "has no effect here: owlqn learns from all rows at once", "APPLY (scale EACH PASS)"),
]


def test_a_bad_clause_is_refused_where_it_is_written(path: Path, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        for clause, algorithm, message, text in REFUSED:
            with pytest.raises(xpsql.StatementError) as caught:
                session.sql(f"TRAIN MODEL m USING {algorithm} {clause} LABEL label TIME ts AS {QUERY.format(path)}")
            assert message in caught.value.message
            assert caught.value.position is not None
            assert caught.value.position.text == text
        assert not list(session.models.names(None))


def test_apply_stays_the_name_of_a_label_and_of_slots(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        session.register("rows", pa.table({"apply": [0, 1] * 50, "each": ["a", "b"] * 50, "pass": [1, 2] * 50}))
        session.sql("TRAIN MODEL m USING xftrl LABEL apply IGNORE (pass) AS SELECT apply, each, pass FROM rows")
        assert {slot for slot, _ in weights(session, "m")} == {"each", "(intercept)"}


@costly
def test_spark_applies_what_one_process_applies(spark: Any, path: Path, tmp_path: Path) -> None:
    statement = (
        "TRAIN MODEL {} USING xftrl APPLY (clip (max = 0.02) EACH 3 BATCHES, scale (factor = 0.5) EACH PASS) LABEL label "
        "TIME ts WITH (batch_size = 200, workers = 1, shards = {}, passes = 2, sync = 'bsp') AS "
    )
    found = []
    for engine, shards in (("duckdb", 1), (spark, 2)):
        with xpsql.connect(tmp_path / "warehouse", engine, SilentReporter()) as session:
            session.sql(statement.format(f"m{shards}", shards) + QUERY.format(path))
            found.append(weights(session, f"m{shards}"))
    assert found[0] == found[1]
    shutil.rmtree(tmp_path / "warehouse")
