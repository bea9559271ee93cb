"""Trainings that are interrupted and resumed: the model is the one of a training that was not."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import xpsql
from tests.cases import costly, lengthy, quick
from tests.notes import Notes
from tests.training.log import log, write
from xpsql.platform.cli import main
from xpsql.platform.errors import DataError, ModelError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.online.pace import Pace
from xpsql.warehouse.trainings.checkpoints import Checkpoint

GALLERY = Path(__file__).parents[2] / "examples" / "networks"
ROWS = 8_000
CHECKPOINTS = 3


class Resumed(Notes):
    """Keeps the notes, and how many examples were learned before."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[int] = []

    def go_on(self, examples: int) -> None:
        self.before.append(examples)


class Stopping(Notes):
    """Ends a training by an error once `ready` says so."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        super().__init__()
        self.ready = ready

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if self.ready():
            raise TrainingError("stopped by the test")


@pytest.fixture(autouse=True)
def reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpsql.platform.training.monitor.TELL_SECONDS", 0.0)


def checkpoints(warehouse: Path) -> list[Path]:
    return sorted((warehouse / "models" / "m" / "v1" / "checkpoints").glob("*/manifest.json"))


def interrupted(warehouse: Path, statement: str, place: Path | None = None) -> None:
    """Train until there are some checkpoints, then stop; workers wait for them between two steps."""
    folder = place or warehouse / "models" / "m" / "v1" / "checkpoints"
    taken, step, steps = lambda: len(list(folder.rglob("manifest.json"))), Pace.step, Counter[int]()

    def waiting(pace: Pace, worker: int) -> bool:
        steps[worker] += 1
        deadline = time.monotonic() + 60
        while steps[worker] % 8 == 0 and taken() < min(steps[worker] // 8, CHECKPOINTS):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        return step(pace, worker)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pace, "step", waiting)
        with xpsql.connect(warehouse, "duckdb", Stopping(lambda: taken() >= CHECKPOINTS)) as session:
            with pytest.raises(TrainingError, match="stopped by the test") as raised:
                session.sql(statement)
            assert "RESUME MODEL m continues from it" in raised.value.__notes__[0]
            assert [v.manifest.status for v in session.models.versions("m")][-1] == "interrupted"


def weights(session: xpsql.Session) -> pa.Table:
    rows = session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow()
    return rows.sort_by([(name, "ascending") for name in ("table", "slot", "key") if name in rows.column_names])


def same(one: pa.Table, other: pa.Table) -> bool:
    """Return whether rows are equal bit by bit; the utility and information depend on sums of metrics."""
    names = [name for name in one.column_names if name not in ("utility", "information")]
    return bool(one.select(names).equals(other.select(names)))


TRAININGS = {
    "one worker": "USING xftrl IGNORE (ts) WITH (batch_size = 64, passes = 2, checkpoint_seconds = 0.02)",
    "bsp": "USING xftrl IGNORE (ts) WITH (batch_size = 64, workers = 3, shards = 2, sync = 'bsp', checkpoint_seconds = 0.02)",
    "rates": (  # which are in their second pass when they end
        "USING xftrl TIME ts OPERATORS (auto_session (short = '1 minute')) "
        "WITH (batch_size = 512, passes = 2, checkpoint_seconds = 0.02)"
    ),
    "network": (
        "USING xnn (dim = 4, hidden = (8)) IGNORE (ts, scores) "
        "VECTORS items AS (SELECT id, array(sin(id), cos(id)) AS vector FROM range(100)) "
        "WITH (batch_size = 128, shards = 2, checkpoint_seconds = 0.02, vectors = (item IN items))"
    ),
    "networks on shards": (
        "USING xnn (dim = 4, hidden = (8)) IGNORE (ts, scores) "
        "VECTORS items AS (SELECT id, array(sin(id), cos(id)) AS vector FROM range(100)) "
        "WITH (batch_size = 128, workers = 2, shards = 3, sync = 'bsp', checkpoint_seconds = 0.02, vectors = (item IN items), "
        "vectors_run = 'shards')"
    ),
    "items": (
        "USING two_tower (query = (user), item = (item, kind), dim = 4, negatives = 20) LABEL label "
        "ITEMS (SELECT id AS item, id % 7 AS kind FROM range(290)) IGNORE (ts, price, tags, scores, vector) "
        "WITH (batch_size = 64, passes = 2, checkpoint_seconds = 0.02)"
    ),
    "events": (
        "USING sequence (dim = 4, length = 8, hidden = (4)) GROUP user TIME ts LABEL label IGNORE (price, scores, vector) "
        "WITH (batch_size = 64, passes = 2, checkpoint_seconds = 0.02)"
    ),
    "next event": (
        "USING sequence (dim = 4, length = 8, negatives = 20) GROUP user TIME ts IGNORE (label, price, tags, scores, vector) "
        "WITH (batch_size = 64, passes = 2, checkpoint_seconds = 0.02)"
    ),
    "torch": (
        f"USING network (file = '{GALLERY}/dcn_torch.py', class = 'Dcn', hidden = (8), dim = 4, dropout = 0.1, norm = true) "
        "IGNORE (ts, scores) WITH (batch_size = 128, shards = 2, checkpoint_seconds = 0.02)"
    ),
    "passes by rows": (
        "USING word2vec (dim = 4, negatives = 2) IGNORE (ts, label, user, item, price, scores, vector) "
        "WITH (batch_size = 512, checkpoint_seconds = 0.02)"
    ),
    "rows on a device": (  # which is the CPU here
        "USING fm (dim = 4) IGNORE (ts) WITH (batch_size = 128, rows_on = 'device', passes = 2, checkpoint_seconds = 0.02)"
    ),
    "lifecycle": (
        "USING xftrl TIME ts OPERATORS (admit(min_count = 3), expire(after = '1 hour')) "
        "WITH (batch_size = 64, shards = 2, checkpoint_seconds = 0.02)"
    ),
    "weights by age": (
        "USING xftrl WEIGHT BY AGE (half_life = '30 minutes') TIME ts "
        "WITH (batch_size = 64, passes = 2, checkpoint_seconds = 0.02)"
    ),
    "trials": (
        "USING xftrl TIME ts OPERATORS (admit(utility > 0.1), expire(after = '1 hour')) "
        "WITH (batch_size = 64, shards = 2, checkpoint_seconds = 0.02)"
    ),
}

QUICK = ("bsp", "rates", "network", "trials")


@pytest.mark.parametrize("kind", quick(TRAININGS, QUICK))
def test_a_resumed_training_ends_as_if_it_had_not_been_interrupted(tmp_path: Path, kind: str) -> None:
    if kind == "torch":
        pytest.importorskip("torch")
    path = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1500)
    statement = f"TRAIN MODEL m {TRAININGS[kind]} AS SELECT * FROM parquet.`{path}`"
    with xpsql.connect(tmp_path / "whole", "duckdb", SilentReporter()) as session:
        session.sql(statement.replace("checkpoint_seconds = 0.02", "checkpoint_seconds = 0"))
        expected, metrics = weights(session), session.models.version("m").manifest.metrics
    interrupted(tmp_path / "broken", statement)
    reported = Resumed()
    with xpsql.connect(tmp_path / "broken", "duckdb", reported) as session:
        done = session.sql("RESUME MODEL m").arrow().to_pylist()[0]
        assert ["Continuing from checkpoint 000000-" in note for note in reported.notes] == [True]
        assert [f"after {examples:,} examples" in reported.notes[0] for examples in reported.before] == [True]
        assert (done["status"], done["version"]) == ("ready", 1)
        assert same(weights(session), expected)
        resumed = session.models.version("m").manifest
        assert resumed.epoch == 1
        for name, value in metrics.items():
            assert resumed.metrics[name] == (None if value is None else pytest.approx(value, rel=1e-12)), name
        assert not (session.models.version("m").folder / "checkpoints").exists()


STATEMENT = (
    "TRAIN MODEL m USING xftrl IGNORE (ts) WITH (batch_size = 64, passes = 2, checkpoint_seconds = 0.02) AS SELECT * FROM @"
)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A warehouse with a training that was interrupted, of a log beside it."""
    path = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1500)
    interrupted(tmp_path / "warehouse", STATEMENT.replace("@", f"parquet.`{path}`"))
    return tmp_path / "warehouse"


def resumed(warehouse: Path) -> tuple[list[str], int]:
    """Resume and return the notes and the number of examples."""
    reported = Notes()
    with xpsql.connect(warehouse, "duckdb", reported) as session:
        done = session.sql("RESUME MODEL m").arrow().to_pylist()[0]
        counted = session.sql("SELECT sum(count) AS n FROM ML.WEIGHTS(MODEL m) WHERE slot = 'item'").arrow()["n"][0].as_py()
    assert (done["status"], counted) == ("ready", 2 * ROWS)
    return reported.notes, done["examples"]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@costly
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda folder: flip(next(folder.glob("*.parquet"))), "is damaged"),
        (lambda folder: next(folder.glob("*.parquet")).unlink(), "is missing"),
        (lambda folder: flip(next(folder.glob("shard-*.state"))), "checksum differs"),
        (lambda folder: flip(folder / "driver.state"), "checksum differs"),
        (lambda folder: flip(folder / "manifest.json"), "is damaged"),
        (lambda folder: (folder / "driver.state").write_bytes(b""), "has 0 bytes"),
    ],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(
    broken: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(checkpoints(broken)[-1].parent)
    notes, examples = resumed(broken)
    assert said in notes[0]
    assert "Continuing from checkpoint" in notes[1]
    assert examples == 2 * ROWS


@costly
def test_without_a_good_checkpoint_the_training_begins_again_with_the_splits_that_it_had(broken: Path) -> None:
    for manifest in checkpoints(broken):
        flip(manifest.parent / "driver.state")
    notes, examples = resumed(broken)
    assert not any("Continuing from" in note for note in notes)
    assert examples == 2 * ROWS


def test_a_file_that_changed_meanwhile_is_an_error_that_names_it(broken: Path) -> None:
    write(log(ROWS, seed=2), broken.parent / "log.parquet", row_group_rows=1500)
    with xpsql.connect(broken, "duckdb", SilentReporter()) as session:
        with pytest.raises(DataError, match=r"log\.parquet changed"):
            session.sql("RESUME MODEL m")
        assert [v.manifest.status for v in session.models.versions("m")] == ["interrupted"]


@lengthy
def test_an_interrupted_training_is_shown_with_its_progress_and_where_resume_begins(broken: Path) -> None:
    with (broken / "models" / "m" / "v1" / "progress.jsonl").open("a") as file:
        file.write('{"batch": 3, "ti')  # cut by a kill
    with xpsql.connect(broken, "duckdb", SilentReporter()) as session:
        model = session.sql("SHOW MODELS").arrow().to_pylist()[0]
        assert (model["status"], model["version"]) == ("interrupted", None)
        reported = re.fullmatch(
            r"version 1 interrupted: ([0-9,]+) of 16,000 examples; RESUME MODEL continues after ([0-9,]+)", model["progress"]
        )
        assert reported is not None
        reached, kept = (int(number.replace(",", "")) for number in reported.groups())
        assert reached >= kept > 0
        session.sql("RESUME MODEL m")
        assert session.sql("SHOW MODELS").arrow()["progress"].to_pylist() == [None]
        assert session.sql("SHOW VERSIONS OF MODEL m").arrow()["progress"].to_pylist() == [None]
        assert session.sql("SELECT max(examples) AS n FROM ML.TRAINING_INFO(MODEL m)").arrow()["n"].to_pylist() == [ROWS]
        assert session.models.version("m").manifest.learned.examples == 2 * ROWS


def test_explain_says_what_checkpoints_take(tmp_path: Path) -> None:
    path = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1500)
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        statement = "EXPLAIN TRAIN MODEL m USING xftrl IGNORE (ts) WITH (checkpoint_seconds = {}) AS SELECT * FROM parquet.`{}`"
        reported = [dict(zip(*session.sql(statement.format(s, path)).arrow().columns, strict=True)) for s in (0, 30)]
        texts = [{str(k): str(v) for k, v in one.items()}["checkpoints"] for one in reported]
    assert texts[0] == "none"
    assert texts[1].startswith("every 30 s, about 0 expected, into the version's folder; a full one has about")


def test_the_same_statement_resumes_in_a_session_that_resumes(broken: Path) -> None:
    reported = Notes()
    with xpsql.connect(broken, "duckdb", reported, resume=True) as session:
        path = broken.parent / "log.parquet"
        session.sql(STATEMENT.replace("@", f"parquet.`{path}`"))
        assert [(v.number, v.manifest.status) for v in session.models.versions("m")] == [(1, "ready")]
    assert "Continuing from checkpoint" in reported.notes[0]


def test_another_statement_begins_anew_in_a_session_that_resumes_and_says_so(broken: Path) -> None:
    reported = Notes()
    with xpsql.connect(broken, "duckdb", reported, resume=True) as session:
        path = broken.parent / "log.parquet"
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
        assert [(v.number, v.manifest.status) for v in session.models.versions("m")][-1] == (2, "ready")
    assert "Version 1 of m was interrupted in another statement, so this one begins anew" in reported.notes[0]


def test_the_command_resumes_the_statements_of_a_file(broken: Path) -> None:
    script = broken.parent / "script.sql"
    script.write_text(STATEMENT.replace("@", f"parquet.`{broken.parent / 'log.parquet'}`"))
    done = CliRunner().invoke(main, ["run", str(script), "--warehouse", str(broken), "--resume", "--format", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["version"] == 1
    assert "Continuing from checkpoint" in done.stderr


def test_another_training_of_the_model_ends_what_was_interrupted(broken: Path) -> None:
    with xpsql.connect(broken, "duckdb", SilentReporter()) as session:
        path = broken.parent / "log.parquet"
        with pytest.raises(xpsql.StatementError):
            session.sql(f"TRAIN MODEL m USING xftrl AS SELECT user FROM parquet.`{path}`")
        assert checkpoints(broken)
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
        assert not checkpoints(broken)
        first = session.models.versions("m")[0].manifest
        assert (first.status, first.error) == (
            "failed",
            "It was interrupted, and version 2 was trained instead of resuming it.",
        )
        with pytest.raises(ModelError, match=r"no training to resume: versions 1 \(failed\), 2 \(ready\)"):
            session.sql("RESUME MODEL m")


@costly
def test_a_training_that_waits_to_be_resumed_keeps_its_model_as_it_is(tmp_path: Path) -> None:
    query, warehouse = f"SELECT * FROM parquet.`{write(log(ROWS), tmp_path / 'log.parquet')}`", tmp_path / "warehouse"
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m {TRAININGS['one worker']} AS {query}")
    interrupted(warehouse, f"CONTINUE MODEL m AS {query}", warehouse / "models" / "m" / "v2" / "checkpoints")
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        with pytest.raises(ModelError, match=r"Version 2 of model m was interrupted.*RESUME MODEL m first"):
            session.sql("SHRINK MODEL m WHERE updates < 2")
        with pytest.raises(ModelError, match=r"Version 2 of model m.*continues version 1\. RESUME MODEL m first"):
            session.sql("DROP MODEL m VERSION 1")
        session.sql("RESUME MODEL m; SHRINK MODEL m WHERE updates < 2")
        assert [(v.number, v.manifest.parent) for v in session.models.versions("m")] == [(1, None), (2, 1), (3, 2)]


@costly
def test_a_staged_query_is_resumed_from_its_rows(tmp_path: Path) -> None:
    path = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1500)
    query = f"(SELECT * FROM parquet.`{path}` ORDER BY price)"
    interrupted(tmp_path / "warehouse", STATEMENT.replace("@", query))
    path.unlink()
    notes, _ = resumed(tmp_path / "warehouse")
    assert "Continuing from checkpoint" in notes[0]


@costly
def test_expressions_and_filters_are_made_again(tmp_path: Path) -> None:
    path = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1500)
    query = f"(SELECT label, ts, upper(user) AS user, item FROM parquet.`{path}` WHERE item < 1000)"
    interrupted(tmp_path / "warehouse", STATEMENT.replace("@", query))
    notes, _ = resumed(tmp_path / "warehouse")
    assert "Continuing from checkpoint" in notes[0]


def test_a_checkpoint_names_the_batches_of_each_split_and_those_it_goes_back_to(broken: Path) -> None:
    with xpsql.connect(broken, "duckdb", SilentReporter()) as session:
        found = list(session.models.resume("m").checkpoints.complete())
    assert all(isinstance(one, Checkpoint) for one in found)
    newest = found[0]
    assert isinstance(newest, Checkpoint)
    first, stop, pass_number, split, batches = newest.parts[0].watermarks[0]
    assert (first, stop, pass_number, split) == (0, 1024, 0, 0)
    assert 0 < batches <= np.ceil(1500 / 64)
    assert newest.after == () or newest.after[0] < newest.name


@costly
def test_windows_of_an_evaluation_measure_what_they_would_have(tmp_path: Path) -> None:
    path = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1500)
    statement = (
        "TRAIN MODEL m USING xftrl IGNORE (ts) GROUP user EVALUATE EVERY 3 BATCHES ON 7 BATCHES BY item "
        f"WITH (batch_size = 64, checkpoint_seconds = 0.02) AS SELECT * FROM parquet.`{path}`"
    )
    columns = "pass, split, window, segment, examples, auc, logloss, gauc"
    info = f"SELECT {columns} FROM ML.TRAINING_INFO(MODEL m) WHERE window IS NOT NULL ORDER BY split, window, segment"
    with xpsql.connect(tmp_path / "whole", "duckdb", SilentReporter()) as session:
        session.sql(statement)
        lines, expected = session.sql(info).arrow(), session.models.version("m").manifest.evaluation
    interrupted(tmp_path / "broken", statement)
    with xpsql.connect(tmp_path / "broken", "duckdb", SilentReporter()) as session:
        session.sql("RESUME MODEL m")
        assert session.sql(info).arrow().equals(lines)
        found = session.models.version("m").manifest.evaluation
    assert [found[name] for name in ("auc", "gauc", "examples")] == [expected[name] for name in ("auc", "gauc", "examples")]


@pytest.mark.parametrize("end", ["RESUME MODEL m", "DROP MODEL m", "DROP MODEL m VERSION 1"])
def test_checkpoints_elsewhere_go_when_the_training_is_done_or_dropped(tmp_path: Path, end: str) -> None:
    path, elsewhere = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1500), tmp_path / "elsewhere"
    options = f"batch_size = 64, passes = 2, checkpoint_seconds = 0.02, checkpoint_path = '{elsewhere.as_uri()}'"
    statement = f"TRAIN MODEL m USING xftrl IGNORE (ts) WITH ({options}) AS SELECT * FROM parquet.`{path}`"
    interrupted(tmp_path / "warehouse", statement, elsewhere / "m")
    assert not checkpoints(tmp_path / "warehouse")
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        session.sql(end)
    assert not [path for path in elsewhere.rglob("*") if path.is_file()]
