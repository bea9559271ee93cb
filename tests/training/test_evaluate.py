"""EVALUATE EVERY m BATCHES ON n BATCHES, and the gate of RELEASE WHEN."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.log import embedded, log, session, write  # noqa: F401  a fixture
from xpsql.platform.engines.spark_sql.cursor import Cursor
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.progress import LogReporter, SilentReporter
from xpsql.platform.training.clauses.release import read_condition
from xpsql.platform.training.metrics.groups import gauc_sums
from xpsql.warehouse.models import Models

TRAIN = """{explain} TRAIN {replace} MODEL m USING xftrl TIME ts {group} {clauses} WITH (batch_size = 50, workers = 1 {more})
AS SELECT * FROM parquet.`{path}`"""
WINDOWS = "SELECT * FROM ML.TRAINING_INFO(MODEL m) WHERE window IS NOT NULL ORDER BY pass, split, window, segment"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(log(3000), tmp_path / "log.parquet", row_group_rows=1500)


def train(
    session: xpsql.Session,  # noqa: F811
    path: Path,
    clauses: str,
    replace: str = "",
    group: str = "",
    more: str = "",
    explain: str = "",
) -> Any:
    return session.sql(TRAIN.format(replace=replace, group=group, clauses=clauses, more=more, path=path, explain=explain))


def windows(session: xpsql.Session) -> list[dict[str, Any]]:  # noqa: F811
    rows: list[dict[str, Any]] = session.sql(WINDOWS).arrow().to_pylist()
    return rows


@lengthy
@costly_after_first
def test_every_window_is_a_row_of_training_info(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    train(session, path, "EVALUATE EVERY 8 BATCHES ON 2 BATCHES", group="GROUP user", more=", passes = 2")
    found = windows(session)
    assert [(row["pass"], row["split"], row["window"]) for row in found] == [
        (p, s, 3 * s + w) for p in (1, 2) for s in range(2) for w in range(3)
    ]
    assert all(row["examples"] == 100 and 0 < row["auc"] < 1 and 0 < row["gauc"] < 1 for row in found)
    assert all(row["min_weight"] < 0 < row["max_weight"] and row["features"] > 0 for row in found)
    assert found[-1]["max_abs_weight"] == max(-found[-1]["min_weight"], found[-1]["max_weight"])
    manifest = session.models.version("m").manifest
    assert manifest.evaluation["examples"] == 600  # of the first pass
    assert manifest.metrics["examples"] == 3000


@lengthy
def test_windows_are_counted_over_splits_and_a_training_tells_if_none_is_reached(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with xpsql.connect(path.parent / "reported", reporter=LogReporter(sys.stderr)) as own:
        train(own, path, "EVALUATE EVERY 40 BATCHES ON 2 BATCHES")
        assert [(row["split"], row["window"], row["examples"]) for row in windows(own)] == [(1, 0, 100)]
        assert "no window" not in capsys.readouterr().err
        train(own, path, "EVALUATE EVERY 60 BATCHES ON 2 BATCHES", replace="OR REPLACE")
        reported = "EVALUATE EVERY 60 BATCHES reaches no window: a pass has 60 batches. Evaluate more often."
        assert reported in capsys.readouterr().err
        for every, text in ((28, "at most 2 windows a pass, of 2 batches after every 28"), (60, reported)):
            clause = f"EVALUATE EVERY {every} BATCHES ON 2 BATCHES"
            explained = train(own, path, clause, replace="OR REPLACE", explain="EXPLAIN").arrow()
            assert text in explained.column(1).to_pylist()


@embedded
def test_a_window_scores_examples_before_they_are_learned_from(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    train(session, path, "EVALUATE EVERY 29 BATCHES ON 1 BATCHES", more=", base_rate = 0.3")
    first = windows(session)[0]
    learned = write(log(3000).slice(0, 1450), path.with_name("learned.parquet"))
    scored = write(log(3000).slice(1450, 50), path.with_name("scored.parquet"))
    train(session, learned, "", replace="OR REPLACE", more=", base_rate = 0.3")
    (later,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{scored}`))").arrow().to_pylist()
    assert first["logloss"] == pytest.approx(later["logloss"], rel=1e-3)
    assert first["auc"] == pytest.approx(later["auc"], abs=2e-3)  # a pair of examples: prices are scaled a little otherwise


@slow_elsewhere
def test_windows_are_the_same_on_any_number_of_shards(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    found = []
    for shards in (1, 3):
        train(session, path, "EVALUATE EVERY 5 BATCHES ON 3 BATCHES", replace="OR REPLACE", more=f", shards = {shards}")
        found.append([(row["auc"], row["logloss"]) for row in windows(session)])
    np.testing.assert_allclose(*found, rtol=1e-5)


@costly_after_first
def test_segments_are_measured_each_for_itself(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    table = log(3000)
    third = table.append_column("third", pc.bit_wise_and(table["item"], 3).cast("string"))
    train(session, write(third, path, row_group_rows=1500), "IGNORE (third) EVALUATE EVERY 8 BATCHES ON 2 BATCHES BY third")
    found = windows(session)
    for row in (row for row in found if row["segment"] is None):
        same = [part for part in found if (part["split"], part["window"]) == (row["split"], row["window"])]
        parts = [part for part in same if part["segment"] is not None]
        assert {part["segment"] for part in parts} == {"0", "1", "2", "3"}
        assert sum(part["examples"] for part in parts) == row["examples"]


@slow_elsewhere
def test_a_version_whose_condition_is_false_is_held_and_can_be_promoted(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    train(session, path, "")
    gate = "EVALUATE EVERY 8 BATCHES ON 2 BATCHES RELEASE WHEN auc > 0.99 AND pcopc BETWEEN 0.5 AND 2"
    with pytest.raises(TrainingError, match=r"Version 2 of model m is held.*auc > 0.99.*auc is 0\.\d+"):
        train(session, path, gate, replace="OR REPLACE")
    found = [(v.number, v.manifest.status, v.served) for v in session.models.versions("m")]
    assert found == [(1, "ready", True), (2, "held", False)]
    session.sql("ALTER MODEL m PROMOTE VERSION 2")
    assert session.models.version("m").number == 2


@costly
@embedded
def test_a_version_that_is_ready_but_not_served_is_reported(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    session.reporter = LogReporter(reported := io.StringIO())
    following = (f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}`", "SHRINK MODEL m WHERE updates < 2")
    train(session, path, "")
    session.sql("; ".join(following))
    assert "not served" not in reported.getvalue()
    session.sql("ALTER MODEL m PROMOTE VERSION 2")
    for number, statement in enumerate(following, 4):
        session.sql(statement)
        assert f"Version {number} of model m is ready, and not served: version 2 was promoted" in reported.getvalue()
    assert {v.number: v.manifest.parent for v in session.models.versions("m")} == {1: None, 2: 1, 3: 2, 4: 2, 5: 2}


@embedded
def test_continue_carries_the_gate_and_compares_with_the_version_served(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    train(session, path, "EVALUATE EVERY 8 BATCHES ON 2 BATCHES RELEASE WHEN logloss < previous.logloss - 5 OR auc > 2")
    assert session.models.version("m").number == 1  # there was nothing to be worse than
    with pytest.raises(TrainingError, match=r"previous\.logloss is 0\.\d+"):
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}`")
    held = session.models.version("m", 2).manifest
    assert (held.status, held.clauses["EVALUATE"]) == ("held", {"every": 8, "on": 2, "by": None})
    session.sql(f"CONTINUE MODEL m RELEASE WHEN auc > 0.1 AS SELECT * FROM parquet.`{path}`")
    assert session.models.version("m").number == 3


@costly
@embedded
def test_a_gate_compares_with_what_a_shrunk_version_was_made_of(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    train(session, path, "EVALUATE EVERY 8 BATCHES ON 2 BATCHES RELEASE WHEN auc > previous.auc")
    session.sql("SHRINK MODEL m WHERE updates < 2")
    with pytest.raises(TrainingError, match=r"previous\.logloss is 0\.\d+"):
        session.sql(f"CONTINUE MODEL m RELEASE WHEN logloss < previous.logloss - 5 AS SELECT * FROM parquet.`{path}`")
    session.sql("DROP MODEL m VERSION 1")
    with pytest.raises(TrainingError, match=r"previous\.logloss is 0\.\d+"):
        session.sql(f"CONTINUE MODEL m RELEASE WHEN logloss < previous.logloss - 5 AS SELECT * FROM parquet.`{path}`")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("auc > previous.auc", True),
        ("NOT auc > previous.auc", True),
        ("auc NOT BETWEEN previous.auc AND 1", True),
        ("NOT (auc > 0.7 AND auc > previous.auc)", True),
        ("NOT (auc > 0.7 OR auc > previous.auc)", False),
        ("auc > 0.9 AND auc > previous.auc", False),
        ("auc > 0.9 OR NOT auc > previous.auc", True),
        ("auc > 0.9 OR NOT auc < 0.9", False),
    ],
)
def test_a_comparison_without_a_version_served_is_unknown_and_so_is_its_opposite(text: str, holds: bool) -> None:
    found = read_condition(Cursor.of(text)).failing({"auc": 0.8}, None)
    assert found == (None if holds else "auc is 0.8")


class Promoting(SilentReporter):
    """Promotes the first version when a training has learned, as somebody else may meanwhile."""

    models: Models

    def finish(self, message: str) -> None:
        if len(self.models.versions("m")) > 2:
            self.models.promote("m", 1)


def test_a_gate_compares_with_the_version_that_is_served_when_it_is_judged(tmp_path: Path, path: Path) -> None:
    reporter = Promoting()
    with xpsql.connect(tmp_path / "warehouse", "duckdb", reporter) as judging:
        reporter.models = judging.models
        gate = "EVALUATE EVERY 8 BATCHES ON 2 BATCHES RELEASE WHEN examples > {}"
        train(judging, write(log(1500), tmp_path / "half.parquet"), gate.format(0))
        judging.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}`")
        first, second = (version.manifest.evaluation["examples"] for version in judging.models.versions("m"))
        assert first < second
        text = f"CONTINUE MODEL m FROM VERSION 1 RELEASE WHEN previous.examples = {first} AS SELECT * FROM parquet.`{path}`"
        assert judging.sql(text).arrow()["status"].to_pylist() == ["ready"]


@embedded
def test_a_gate_without_a_window_holds_the_version(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    with pytest.raises(TrainingError, match="auc is not known; no window of EVALUATE EVERY 1000 BATCHES ended"):
        train(session, path, "EVALUATE EVERY 1000 BATCHES ON 1 BATCHES RELEASE WHEN auc > 0.1")


@embedded
def test_release_without_evaluate_is_an_error(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    with pytest.raises(StatementError, match="RELEASE WHEN needs EVALUATE EVERY"):
        train(session, path, "RELEASE WHEN auc > 0.1")
    train(session, path, "")
    with pytest.raises(StatementError, match="RELEASE WHEN needs EVALUATE EVERY"):
        session.sql(f"CONTINUE MODEL m RELEASE WHEN auc > 0.1 AS SELECT * FROM parquet.`{path}`")


@embedded
def test_release_by_gauc_without_groups_is_an_error(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    clauses = "EVALUATE EVERY 1 BATCHES ON 1 BATCHES RELEASE WHEN auc > 0 AND gauc > 0"
    with pytest.raises(StatementError, match=r"RELEASE WHEN names gauc, .* with GROUP\.") as raised:
        session.sql(f"TRAIN MODEL m USING xftrl IGNORE (ts) {clauses} AS SELECT * FROM parquet.`{path}`")
    assert raised.value.position is not None
    assert raised.value.position.text == "RELEASE WHEN auc > 0 AND gauc > 0"
    assert session.models.names() == []


@embedded
@pytest.mark.parametrize(
    ("training", "condition", "named"),
    [
        ("word2vec AS SELECT array('a', 'b') AS items", "mae < 1 OR auc > 0.7", "auc, which word2vec"),
        ("word2vec AS SELECT array('a', 'b') AS items", "pcopc < 1.1", "pcopc, which word2vec"),
        ("xftrl (loss = 'squared') AS SELECT 0.5 AS label, 'a' AS x", "logloss > previous.gauc", "logloss, gauc, which xftrl"),
    ],
)
def test_release_by_metrics_that_a_training_never_has_is_an_error(
    session: xpsql.Session,  # noqa: F811
    training: str,
    condition: str,
    named: str,
) -> None:
    clauses = f"EVALUATE EVERY 1 BATCHES ON 1 BATCHES RELEASE WHEN {condition}"
    message = f"RELEASE WHEN names {named} does not measure here. Judge it by mae or rmse."
    with pytest.raises(StatementError, match=message) as raised:
        session.sql("TRAIN MODEL m USING " + training.replace("AS SELECT", f"{clauses} AS SELECT"))
    assert raised.value.position is not None
    assert raised.value.position.text == f"RELEASE WHEN {condition}"
    assert session.models.names() == []


def test_gauc_of_one_group_is_auc() -> None:
    labels, predictions = np.array([0, 1, 1], np.float32), np.array([0.2, 0.1, 0.9], np.float32)
    assert gauc_sums(np.zeros(3, np.int64), labels, predictions) == (1.5, 3)
