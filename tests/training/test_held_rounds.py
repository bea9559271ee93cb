"""VALIDATE with xgboost: rows held out judge each round, end the training early, and are learned at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow, slow_elsewhere
from tests.training.log import log, write
from tests.training.processes import ProcessTasks
from tests.training.test_held_rows import Heard
from xpsql.platform.errors import StatementError, TrainingError

pytest.importorskip("xgboost")

ROWS, HELD = 2000, 400
USING = "xgboost (rounds = {}, learning_rate = 0.5, max_depth = 6, l2 = 1, bins = 2048, subsample = 1, columns = 1)"
ROUNDS = "SELECT pass, examples, auc, logloss FROM ML.TRAINING_INFO(MODEL m) WHERE validation ORDER BY pass"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clicks with an id each, which trees soon learn by heart."""
    table = log(ROWS).select(["label", "user", "item", "price"])
    return write(table.append_column("id", [np.arange(ROWS)]), tmp_path_factory.mktemp("log") / "log.parquet", 500)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(params=["here", "on tasks"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard) -> Any:
    with xpsql.connect(tmp_path / "warehouse", reporter=heard) as session:
        if request.param == "on tasks":
            monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
        yield session


def lines(session: xpsql.Session, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.sql(text).arrow().to_pylist()
    return found


def rows(path: Path, where: str = "true") -> str:
    return f"SELECT * EXCEPT (id) FROM parquet.`{path}` WHERE {where}"


def predicted(session: xpsql.Session, model: str, path: Path) -> np.ndarray[Any, Any]:
    found = session.sql(f"SELECT predicted_label AS p FROM ML.PREDICT(MODEL {model}, ({rows(path)}))").arrow()
    predictions: np.ndarray[Any, Any] = found["p"].to_numpy()
    return predictions


@costly_after_first
@pytest.mark.parametrize("workers", [pytest.param(1, marks=slow), 2])
def test_each_round_is_judged_by_what_a_training_of_so_many_predicts(session: xpsql.Session, path: Path, workers: int) -> None:
    first, last = f"id < {ROWS - HELD}", f"id >= {ROWS - HELD}"
    training = f"TRAIN MODEL m USING {USING.format(3)} VALIDATE ON LAST 0.2 WITH (held_out = 'none', workers = {workers})"
    session.sql(f"{training} AS {rows(path)}")
    found = lines(session, ROUNDS)
    assert [line["examples"] for line in found] == [HELD] * 3
    for number, line in enumerate(found, 1):
        session.sql(f"TRAIN OR REPLACE MODEL n USING {USING.format(number)} AS {rows(path, first)}")
        (wanted,) = lines(session, f"SELECT auc, logloss FROM ML.EVALUATE(MODEL n, ({rows(path, last)}))")
        assert (line["auc"], line["logloss"]) == pytest.approx((wanted["auc"], wanted["logloss"]), rel=1e-3)
    version = session.models.version("m").manifest
    assert version.validation["logloss"] == found[-1]["logloss"]
    assert (version.learned.examples, version.learned.best_pass) == (ROWS - HELD, 2)


@costly
def test_a_training_stops_after_rounds_without_gain_and_learns_all_rows_in_as_many_as_were_best(
    session: xpsql.Session, path: Path, heard: Heard
) -> None:
    clauses = "VALIDATE ON LAST 0.2 RELEASE WHEN validation.auc > 0.5 WITH (patience = 4)"
    session.sql(f"TRAIN MODEL m USING {USING.format(200)} {clauses} AS {rows(path)}")
    losses = [line["logloss"] for line in lines(session, ROUNDS)]
    best, learned = int(np.argmin(losses)), session.models.version("m").manifest.learned
    assert len(losses) == best + 5 < 200
    assert (learned.best_pass, learned.held_out, learned.examples) == (best, "all", ROWS)
    assert any(note.startswith(f"Stopped after round {best + 5}: no gain in 4. The version is") for note in heard.notes)
    session.sql(f"TRAIN MODEL plain USING {USING.format(best + 1)} AS {rows(path)}")
    np.testing.assert_allclose(predicted(session, "m", path), predicted(session, "plain", path), atol=1e-5)
    apart = clauses.replace("LAST 0.2", f"({rows(path, 'id >= 1600')})")
    session.sql(f"TRAIN MODEL part USING {USING.format(200)} {apart} AS {rows(path, 'id < 1600')}")
    assert session.models.version("part").manifest.learned.held_out is None
    session.sql(f"TRAIN OR REPLACE MODEL plain USING {USING.format(best + 1)} AS {rows(path, 'id < 1600')}")
    np.testing.assert_allclose(predicted(session, "part", path), predicted(session, "plain", path), atol=1e-5)


@slow_elsewhere
def test_another_metric_may_judge_rounds(session: xpsql.Session, path: Path) -> None:
    clauses = "VALIDATE ON LAST 0.2 WITH (patience = 3, patience_by = 'auc', held_out = 'none')"
    session.sql(f"TRAIN MODEL m USING {USING.format(60)} {clauses} AS {rows(path)}")
    scores = [line["auc"] for line in lines(session, ROUNDS)]
    assert session.models.version("m").manifest.learned.best_pass == int(np.argmax(scores))


@slow_elsewhere
def test_a_version_that_its_rounds_do_not_release_is_held(session: xpsql.Session, path: Path) -> None:
    with pytest.raises(TrainingError, match=r"is held, not served: RELEASE WHEN validation.auc > 0.99 is false"):
        session.sql(f"TRAIN MODEL m USING {USING.format(3)} VALIDATE ON 0.2 RELEASE WHEN validation.auc > 0.99 AS {rows(path)}")


@costly
@slow_elsewhere
def test_continued_trees_keep_the_rounds_that_were_there(session: xpsql.Session, path: Path) -> None:
    session.sql(f"TRAIN MODEL m USING {USING.format(5)} AS {rows(path, 'id < 1000')}")
    clauses = "VALIDATE ON LAST 0.2 WITH (patience = 1, held_out = 'none')"
    session.sql(f"CONTINUE MODEL m {clauses} AS {rows(path, 'id >= 1000')}")
    best = session.models.version("m").manifest.learned.best_pass
    assert best is not None
    session.sql(f"TRAIN MODEL n USING {USING.format(5)} AS {rows(path, 'id < 1000')}")
    session.sql(f"CONTINUE MODEL n USING xgboost (rounds = {best + 1}) AS {rows(path, 'id >= 1000 AND id < 1800')}")
    np.testing.assert_allclose(predicted(session, "m", path), predicted(session, "n", path), atol=1e-5)


@costly
@slow_elsewhere
def test_rounds_of_classes_and_of_numbers_are_judged(session: xpsql.Session, path: Path) -> None:
    for label, loss, judge in (("concat('c', item % 3)", "", "logloss"), ("price", "loss = 'squared', ", "rmse")):
        query = (
            f"SELECT {label} AS target, label, user, CAST(item AS DOUBLE) AS size FROM parquet.`{path}` WHERE price IS NOT NULL"
        )
        using = USING.format(60).replace("rounds", f"{loss}rounds")
        session.sql(f"TRAIN OR REPLACE MODEL m USING {using} LABEL target VALIDATE ON 0.2 WITH (patience = 2) AS {query}")
        values = [line[judge] for line in lines(session, ROUNDS.replace("auc", "rmse"))]
        assert session.models.version("m").manifest.learned.best_pass == int(np.argmin(values)) < len(values) - 1


@costly
@slow_elsewhere
def test_trials_of_trees_are_judged_by_rows_held_out(session: xpsql.Session, path: Path, heard: Heard) -> None:
    clauses = "VALIDATE ON 0.2 TUNE BY logloss TRIALS 2 METHOD grid WITH (patience = 3)"
    using = "xgboost (rounds = 30, learning_rate = HPARAM_CANDIDATES(0.3, 0.9))"
    session.sql(f"TRAIN MODEL m USING {using} {clauses} AS {rows(path)}")
    assert any("95 %, on the same rows" in note for note in heard.notes)
    assert session.models.version("m").manifest.learned.examples == ROWS


@slow_elsewhere
@pytest.mark.parametrize(
    ("clauses", "why"),
    [
        ("VALIDATE ON 0.2 WITH (patience = 2, plateau = 0.1)", "plateau = 0.1 has no effect on xgboost"),
        ("VALIDATE ON 0.2 WITH (patience = 2, passes = 3)", "passes = 3 has no effect"),
        ("VALIDATE ON 0.2 WITH (held_out = 'rest')", "Take 'all'"),
        ("WITH (patience = 2)", "needs rows to judge passes by"),
        ("VALIDATE ON 0.2 WITH (patience = 2, patience_by = 'r2')", "patience_by = 'r2' is not measured"),
        ("VALIDATE ON 0.2 OPERATORS (auto_session)", "scores rows by a version's own rates"),
    ],
)
def test_what_rounds_cannot_be_judged_by_is_refused(session: xpsql.Session, path: Path, clauses: str, why: str) -> None:
    query = f"SELECT *, timestamp_seconds(id) AS ts FROM parquet.`{path}`"
    for explain in ("EXPLAIN ", ""):
        with pytest.raises(StatementError, match=why) as caught:
            session.sql(f"{explain}TRAIN MODEL m USING xgboost TIME ts {clauses} AS {query}")
        assert caught.value.position is not None


@lengthy
@slow_elsewhere
def test_explain_says_that_rounds_are_judged(session: xpsql.Session, path: Path) -> None:
    shown = lines(session, f"EXPLAIN TRAIN MODEL m USING {USING.format(9)} VALIDATE ON LAST 0.2 AS {rows(path)}")
    texts = [str(value) for line in shown for value in line.values()]
    assert "ON LAST 0.2, after each round" in texts
