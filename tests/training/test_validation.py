"""VALIDATE ON: rows held out of learning, scored after each pass, and early stopping."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.training.processes import ProcessTasks
from xpsql.platform.cli.report import report
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.input.hold_out import held_out
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training import parallelism
from xpsql.platform.training.checkpoints.checkpointer import Checkpointer
from xpsql.platform.training.metrics.validations import Validated
from xpsql.platform.training.monitor import Monitor

ROWS, SPLIT_ROWS = 4000, 500
TRAIN = "TRAIN OR REPLACE MODEL m USING {using} {clauses} WITH (batch_size = 50 {more}) AS {query}"
TWO = ", workers = 2, shards = 2, held_out = 'none'"
PASSES = "SELECT * FROM ML.TRAINING_INFO(MODEL m) WHERE validation ORDER BY pass"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that is learned by heart in a few passes: most of its users occur twice, and say little of each other."""
    random = np.random.default_rng(5)
    item = random.integers(0, 30, ROWS)
    user = random.integers(0, ROWS // 2, ROWS)
    rate = 1 / (1 + np.exp(-np.linspace(-2, 2, 30)[item]))
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "user": user.astype("U"),
            "item": item.astype("U"),
            "price": random.normal(5, 2, ROWS),
            "label": (random.random(ROWS) < rate).astype(np.int64),
        }
    )
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, path, row_group_size=SPLIT_ROWS)
    return path


@pytest.fixture
def query(path: Path) -> str:
    return f"SELECT * EXCEPT (id) FROM parquet.`{path}`"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


@pytest.fixture
def on_tasks(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> xpsql.Session:
    monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
    monkeypatch.setattr(parallelism, "BYTES_PER_SHARD", 1000)
    return session


def train(
    session: xpsql.Session, query: str, clauses: str, more: str = "", using: str = "xftrl (alpha = 0.3)"
) -> dict[str, Any]:
    (row,) = session.sql(TRAIN.format(using=using, clauses=clauses, more=more, query=query)).arrow().to_pylist()
    return dict(row)


def rows(session: xpsql.Session, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.sql(text).arrow().to_pylist()
    return found


def scan_of(path: Path) -> ParquetScan:
    schema = pq.read_schema(path)
    return ParquetScan((str(path),), {name: name for name in schema.names}, None, tuple(schema.names), schema)


@pytest.mark.parametrize(("share", "last"), [(0.1, False), (0.1, True), (0.7, False), (0.7, True)])
def test_every_row_is_learned_or_held_out_however_it_is_read(path: Path, share: float, last: bool) -> None:
    scan = scan_of(path)
    learned = held_out(scan, scan.splits(), [split.rows for split in scan.splits()], share, last)
    found = []
    for part, pieces in ((learned, 97), (learned, 500), (learned.others, 97)):
        read = [table["id"].to_numpy() for split in part.splits() for table in part.read(split, ["id"], pieces)]
        found.append(np.concatenate(read))
        assert len(found[-1]) == part.num_rows
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(np.sort(np.concatenate(found[1:])), np.arange(ROWS))
    assert len(found[2]) == pytest.approx(ROWS * share, rel=0.1)
    if last:
        np.testing.assert_array_equal(found[2], np.arange(round(ROWS * (1 - share)), ROWS))


@lengthy
@pytest.mark.parametrize(
    "more", ["", ", workers = 3, shards = 2", ", workers = 2, sync = 'bsp', passes = 2", ", workers = 2, sync = 'ssp'"]
)
def test_rows_held_out_are_scored_by_the_weights_of_the_version_and_not_learned(
    session: xpsql.Session, path: Path, query: str, more: str
) -> None:
    row = train(session, query, "VALIDATE ON LAST 0.2", f"{more}, held_out = 'none'")
    assert row["examples"] == ROWS * 0.8 * (2 if "passes" in more else 1)
    last = rows(session, PASSES)[-1]
    of_last = f"SELECT * EXCEPT (id) FROM parquet.`{path}` WHERE id >= {ROWS * 0.8}"
    (expected,) = rows(session, f"SELECT * EXCEPT (measured_on) FROM ML.EVALUATE(MODEL m, ({of_last}))")
    for name, value in expected.items():
        assert last[name] == (None if value is None else pytest.approx(value, rel=1e-5)), name
    (count,) = rows(session, "SELECT count FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'")
    assert count["count"] == row["examples"]
    (version,) = rows(session, "SHOW VERSIONS OF MODEL m")
    assert version["validation.auc"] == last["auc"]
    assert version["validation.logloss"] == last["logloss"]


@lengthy
@costly_after_first
@pytest.mark.parametrize("using", ["fm (dim = 3)", "xnn (dim = 3, hidden = (4))"])
def test_networks_are_validated_by_all_of_their_weights(session: xpsql.Session, path: Path, query: str, using: str) -> None:
    train(session, query, "VALIDATE ON LAST 0.2", ", held_out = 'none'", using=using)
    (last,) = rows(session, PASSES)
    of_last = f"SELECT * EXCEPT (id) FROM parquet.`{path}` WHERE id >= {ROWS * 0.8}"
    (expected,) = rows(session, f"SELECT * FROM ML.EVALUATE(MODEL m, ({of_last}))")
    near = 1e-4 if using.startswith("fm") else 2e-2  # a vector of a feature that is new begins at random
    assert (last["auc"], last["logloss"]) == pytest.approx((expected["auc"], expected["logloss"]), rel=near)


def test_a_query_gives_the_rows_to_validate_on(session: xpsql.Session, path: Path) -> None:
    parts = [f"SELECT * EXCEPT (id) FROM parquet.`{path}` WHERE id % 4 {sign} 1" for sign in ("<>", "=")]
    row = train(session, parts[0], f"VALIDATE ON ({parts[1]})", ", passes = 2")
    assert row["examples"] == 2 * ROWS * 3 // 4
    (first, last) = rows(session, PASSES)
    (expected,) = rows(session, f"SELECT * FROM ML.EVALUATE(MODEL m, ({parts[1]}))")
    assert (last["examples"], last["auc"]) == (ROWS // 4, pytest.approx(expected["auc"]))
    assert first["auc"] != last["auc"]


@costly
def test_a_training_stops_without_gain_and_keeps_the_best_pass(session: xpsql.Session, query: str) -> None:
    none = ", workers = 1, held_out = 'none'"
    row = train(session, query, "VALIDATE ON 0.2", f"{none}, passes = 12, patience = 2")
    passes = rows(session, PASSES)
    losses = [line["logloss"] for line in passes]
    best = int(np.argmin(losses))
    assert len(passes) == best + 3 < 12
    learned = ROWS - passes[0]["examples"]
    assert row["examples"] == learned * (best + 1)
    (version,) = rows(session, "SHOW VERSIONS OF MODEL m")
    assert version["validation.logloss"] == losses[best]
    kept = rows(session, "SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY key")
    train(session, query, "VALIDATE ON 0.2", f"{none}, passes = {best + 1}")
    assert rows(session, "SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY key") == kept
    folder = session.models.version("m").folder
    assert not (folder / "best").exists() or not [*(folder / "best").iterdir()]


@costly
def test_a_pass_is_judged_by_the_metric_that_patience_names(session: xpsql.Session, query: str) -> None:
    best = {}
    for by in ("logloss", "auc"):
        more = f", workers = 1, passes = 12, patience = 3, patience_by = '{by}', held_out = 'none'"
        train(session, query, "VALIDATE ON 0.2", more)
        values = [line[by] * (1 if by == "auc" else -1) for line in rows(session, PASSES)]
        best[by] = session.models.version("m").manifest.learned.best_pass
        assert best[by] == int(np.argmax(values))
        assert len(values) == best[by] + 4
    assert best["auc"] != best["logloss"]
    for by, why in (("gauc", "is not measured for xftrl on rows held out. Use one of auc, "), ("pcopc", "Valid")):
        with pytest.raises(StatementError, match=why) as caught:
            train(session, query, "VALIDATE ON 0.2", f", passes = 3, patience = 1, patience_by = '{by}'")
        assert caught.value.position is not None


@lengthy
def test_a_gate_judges_rows_held_out(session: xpsql.Session, query: str) -> None:
    train(session, query, "VALIDATE ON 0.2 RELEASE WHEN validation.auc > 0.5 AND validation.auc(label) > 0.5 AND features > 10")
    with pytest.raises(TrainingError, match=r"validation\.auc is 0\.\d+, previous\.validation\.auc is 0\.\d+"):
        session.sql(f"CONTINUE MODEL m RELEASE WHEN validation.auc > previous.validation.auc + 0.5 AS {query}")
    second = rows(session, "SHOW VERSIONS OF MODEL m")[-1]
    assert (second["status"], second["validation.auc"] is not None) == ("held", True)


@costly
def test_a_training_on_tasks_validates_and_stops_as_one_here(on_tasks: xpsql.Session, query: str) -> None:
    for sync in ("bsp", "asp"):
        train(on_tasks, query, "VALIDATE ON 0.2", f"{TWO}, sync = '{sync}', passes = 12, patience = 2")
        passes = rows(on_tasks, PASSES)
        best = int(np.argmin([line["logloss"] for line in passes]))
        assert len(passes) == best + 3 < 12
        (version,) = rows(on_tasks, "SHOW VERSIONS OF MODEL m")
        assert version["examples"] == (ROWS - passes[0]["examples"]) * (best + 1)
        assert version["validation.logloss"] == passes[best]["logloss"]


def test_a_report_shows_the_validation(session: xpsql.Session, query: str) -> None:
    train(session, query, "VALIDATE ON 0.2", ", passes = 3")
    page = report(session, [("m", None)])
    assert "validation.auc" in page
    assert "Rows held out: logloss" in page


@pytest.mark.parametrize(
    ("using", "clauses", "more", "why"),
    [
        ("xftrl", "VALIDATE ON 1.5", "", "expects a share of the rows between 0 and 1, got 1.5"),
        ("xftrl", "VALIDATE ON 0", "", "expects a share of the rows between 0 and 1, got 0"),
        ("xftrl", "VALIDATE ON LAST day", "", "a share of the rows between 0 and 1"),
        ("xftrl", "VALIDATE ON LAST 0.0001", "", "holds 0 of 4,000 rows out and leaves 4,000"),
        ("xftrl", "VALIDATE ON (SELECT 1 AS label)", "", "must return the column user as .*string.*; it lacks it"),
        ("xftrl", "", ", passes = 3, patience = 1", "needs rows to judge passes by. Add VALIDATE ON 0.1"),
        ("xftrl", "VALIDATE ON 0.1", ", patience = 1", "patience = 1 has no effect on one pass"),
        ("xftrl", "RELEASE WHEN validation.auc > 0.5", "", "RELEASE WHEN needs VALIDATE ON"),
        (
            "xftrl",
            "VALIDATE ON 0.1 RELEASE WHEN auc > 0.5",
            "",
            "needs EVALUATE EVERY: it judges the metrics of its windows. Add it, or judge",
        ),
        ("slrm", "VALIDATE ON 0.1", "", "slrm "),
    ],
)
def test_what_cannot_be_validated_is_refused_where_it_stands(
    session: xpsql.Session, query: str, using: str, clauses: str, more: str, why: str
) -> None:
    with pytest.raises(StatementError, match=why) as caught:
        train(session, query, clauses, more, using)
    assert caught.value.position is not None
    assert not session.models.exists("m")


@costly
@pytest.mark.parametrize("when", ["scored", "written"])
def test_a_training_that_goes_on_keeps_the_best_pass_that_was_before(tmp_path: Path, query: str, when: str) -> None:
    statement = TRAIN.format(
        using="xftrl (alpha = 0.3)",
        clauses="VALIDATE ON 0.2",
        more=", workers = 1, passes = 12, patience = 2, checkpoint_seconds = 1e6",
        query=query,
    )
    with xpsql.connect(tmp_path / "whole", reporter=SilentReporter()) as session:
        session.sql(statement)
        weights = rows(session, "SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY key")
        whole = session.models.version("m").manifest
    assert whole.learned.best_pass is not None
    assert whole.learned.best_pass > 0
    fail_at = whole.learned.best_pass + (1 if when == "scored" else 0)

    def validated(monitor: Monitor, found: Validated) -> None:
        if when == "scored" and found.pass_number == fail_at:
            raise TrainingError("stopped by the test")
        monitor_validated(monitor, found)

    def checkpointed(monitor: Monitor, checkpointer: Checkpointer) -> bool:
        if when == "written" and monitor.validations.passes[-1].pass_number == fail_at:
            raise TrainingError("stopped by the test")
        return monitor_checkpointed(monitor, checkpointer)

    monitor_validated, monitor_checkpointed = Monitor.validated, Monitor.checkpointed
    with xpsql.connect(tmp_path / "broken", reporter=SilentReporter()) as session:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Monitor, "validated", validated)
            patch.setattr(Monitor, "checkpointed", checkpointed)
            with pytest.raises(TrainingError, match="stopped by the test"):
                session.sql(statement)
        session.sql("RESUME MODEL m")
        assert rows(session, "SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY key") == weights
        manifest = session.models.version("m").manifest
        assert (manifest.learned.best_pass, manifest.learned.examples) == (whole.learned.best_pass, whole.learned.examples)
        assert manifest.validation == whole.validation
        assert len(rows(session, PASSES)) == whole.learned.best_pass + 3


@costly
def test_continue_takes_the_clause_over_and_explain_tells_it(session: xpsql.Session, query: str) -> None:
    train(session, query, "VALIDATE ON LAST 0.25", ", passes = 4, patience = 1")
    session.sql(f"CONTINUE MODEL m AS {query}")
    manifest = session.models.version("m").manifest
    assert manifest.validation["examples"] == ROWS // 4
    explained = dict(zip(*session.sql(f"EXPLAIN CONTINUE MODEL m AS {query}").arrow().to_pydict().values(), strict=True))
    assert explained["validation"] == "ON LAST 0.25, after each pass"
    described = dict(zip(*session.sql("DESCRIBE MODEL m").arrow().to_pydict().values(), strict=False))
    assert described["validate"] == "ON LAST 0.25"
