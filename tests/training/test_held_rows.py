"""Rows held out are learned once they have judged: anew with all others, or in a pass from the best one on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.progress import SilentReporter

ROWS, SPLIT_ROWS = 4000, 500
BATCHES = "batch_size = 50, workers = 1"
WEIGHTS = "SELECT * FROM ML.WEIGHTS(MODEL {}) ORDER BY ALL"
USING = ("xftrl (alpha = 0.3)", "fm (dim = 3)", "xnn (dim = 3, hidden = (4))")


class Heard(SilentReporter):
    """Keeps notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log whose users occur often enough that a second pass gains."""
    random = np.random.default_rng(5)
    item, user = random.integers(0, 30, ROWS), random.integers(0, 40, ROWS)
    score = np.linspace(-2, 2, 30)[item] + random.normal(size=40)[user]
    label = (random.random(ROWS) < 1 / (1 + np.exp(-score))).astype(np.int64)
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    table = pa.table({"user": user.astype("U"), "item": item.astype("U"), "price": random.normal(5, 2, ROWS), "label": label})
    pq.write_table(table, path, row_group_size=SPLIT_ROWS)
    return f"SELECT * FROM parquet.`{path}`"


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(params=["here", "on tasks"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard) -> Any:
    with xpsql.connect(tmp_path / "warehouse", reporter=heard) as session:
        if request.param == "on tasks":
            monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
        yield session


def learned(session: xpsql.Session, name: str, using: str, clauses: str, more: str, query: str) -> list[dict[str, Any]]:
    """Train a model, and return what it has learned."""
    session.sql(f"TRAIN MODEL {name} USING {using} {clauses} WITH ({BATCHES}{more}) AS {query}")
    found: list[dict[str, Any]] = session.sql(WEIGHTS.format(name)).arrow().to_pylist()
    return found


@lengthy
@costly_after_first
@pytest.mark.parametrize(("using", "share"), [(USING[0], "0.2"), (USING[2], "LAST 0.2")])
def test_all_rows_anew_are_learned_as_if_none_had_been_held_out(
    session: xpsql.Session, heard: Heard, query: str, using: str, share: str
) -> None:
    held = f"VALIDATE ON {share}"
    found = learned(session, "m", using, held, ", passes = 3, patience = 1, held_out = 'all'", query)
    manifest = session.models.version("m").manifest
    assert manifest.learned.best_pass is not None
    assert found == learned(session, "plain", using, "", f", passes = {manifest.learned.best_pass + 1}", query)
    assert (manifest.learned.held_out, manifest.learned.examples) == ("all", ROWS * (manifest.learned.best_pass + 1))
    learned(session, "before", using, held, ", passes = 3, patience = 1, held_out = 'none'", query)
    before = session.models.version("before").manifest
    assert manifest.metrics == pytest.approx(before.metrics, nan_ok=True)
    assert manifest.validation == pytest.approx(before.validation)
    assert any("The version's metrics are from before" in note for note in heard.notes)
    assert not {folder.name for folder in session.models.version("m").folder.iterdir()} & {"best", "rounds", "saved"}


@costly
@pytest.mark.parametrize("using", USING[1:])
def test_the_last_rows_learned_after_one_pass_make_it_the_whole_pass(session: xpsql.Session, query: str, using: str) -> None:
    found = learned(session, "m", using, "VALIDATE ON LAST 0.2", "", query)
    manifest = session.models.version("m").manifest
    assert (manifest.learned.held_out, manifest.learned.examples, manifest.learned.best_pass) == ("rest", ROWS, 0)
    assert found == learned(session, "plain", using, "", "", query)


@costly
def test_one_more_pass_from_the_best_one_is_of_the_rows_held_out_alone(session: xpsql.Session, query: str) -> None:
    rest = ", passes = 3, patience = 1, held_out = 'rest'"
    counts = {row["key"]: row["count"] for row in learned(session, "m", USING[0], "VALIDATE ON 0.2", rest, query)}
    manifest = session.models.version("m").manifest
    before = learned(session, "before", USING[0], "VALIDATE ON 0.2", rest.replace("rest", "none"), query)
    passes, held = (manifest.learned.best_pass or 0) + 1, manifest.validation["examples"]
    assert held is not None
    assert manifest.learned.examples == passes * (ROWS - held) + held
    (intercept,) = [row for row in before if row["slot"] == "(intercept)"]
    assert counts[intercept["key"]] == intercept["count"] + held


@slow_elsewhere
def test_a_version_that_the_gate_holds_has_not_learned_them(session: xpsql.Session, query: str) -> None:
    gate = "VALIDATE ON LAST 0.2 RELEASE WHEN validation.auc > 0.99"
    with pytest.raises(TrainingError, match=r"is held, not served: RELEASE WHEN validation\.auc > 0\.99 is false"):
        learned(session, "m", USING[0], gate, "", query)
    (version,) = session.models.versions("m")
    assert (version.manifest.status, version.manifest.learned.held_out, version.manifest.learned.examples) == (
        "held",
        None,
        ROWS * 0.8,
    )


@costly
@slow_elsewhere
def test_a_continued_version_learns_them_from_its_own_parent(session: xpsql.Session, query: str) -> None:
    learned(session, "m", USING[0], "VALIDATE ON LAST 0.2", ", passes = 3, patience = 1, held_out = 'all'", query)
    session.sql(f"CONTINUE MODEL m AS {query}")
    manifest = session.models.version("m").manifest
    begun = session.models.version("m", 1).manifest.learned.best_pass or 0
    before = learned(session, "plain", USING[0], "", f", passes = {begun + 1}", query)
    assert before == session.sql(WEIGHTS.format("m VERSION 1")).arrow().to_pylist()
    session.sql(f"CONTINUE MODEL plain WITH (passes = {(manifest.learned.best_pass or 0) + 1}) AS {query}")
    assert session.sql(WEIGHTS.format("m")).arrow() == session.sql(WEIGHTS.format("plain")).arrow()
    assert manifest.learned.held_out == "all"


@costly
@slow_elsewhere
def test_evaluating_them_says_that_they_were_learned(session: xpsql.Session, heard: Heard, query: str) -> None:
    evaluate = f"SELECT * FROM ML.EVALUATE(MODEL {{}}, ({query} WHERE item = '3'))"
    for name, how in (("m", "all"), ("n", "none")):
        learned(session, name, USING[0], "VALIDATE ON LAST 0.2", f", held_out = '{how}'", query)
        heard.notes.clear()
        session.sql(evaluate.format(name)).arrow()
        assert any("has learned rows of these files" in note for note in heard.notes) == (how == "all")
    session.sql("CREATE TABLE others AS SELECT 'a' AS user, '3' AS item, 5.0D AS price, id % 2 AS label FROM range(9)")
    heard.notes.clear()
    session.sql("SELECT * FROM ML.EVALUATE(MODEL m, TABLE others)").arrow()
    assert heard.notes == []


@lengthy
@slow_elsewhere
def test_an_explanation_tells_how_they_are_learned_and_how_long_it_takes(session: xpsql.Session, query: str) -> None:
    for more, wanted in (
        ("", "learned at the end, in one pass"),
        ("passes = 5", "in one pass that continues the best one: about 0."),
        ("passes = 5", "; or, if a later pass is the best, all 4,000 rows are learned anew"),
        ("held_out = 'none'", "not learned"),
        (
            "passes = 5, held_out = 'all'",
            "all 4,000 rows are learned anew at the end, in as many passes",
        ),
    ):
        text = f"EXPLAIN TRAIN MODEL m USING xftrl VALIDATE ON 0.2 {f'WITH ({more})' if more else ''} AS {query}"
        explained = dict(zip(*session.sql(text).arrow().to_pydict().values(), strict=False))
        assert wanted in explained["rows held out"]


@pytest.mark.parametrize(
    ("using", "clauses", "how", "why"),
    [
        ("xftrl", "", "all", "is of a share of the query's rows. Add VALIDATE ON LAST 0.1"),
        ("xftrl", "", "none", "is of a share of the query's rows. Add VALIDATE ON LAST 0.1"),
        ("xftrl", "VALIDATE ON ({query})", "rest", "are never learned. Leave it out, or give a share"),
        ("xftrl", "VALIDATE ON 0.1", "some", "Valid: all, none, rest"),
        ("tdm (item = item, history = (user))", "VALIDATE ON 0.1", "all", "the tree of tdm has the items"),
    ],
)
def test_what_cannot_be_learned_of_them_is_refused_where_it_stands(
    session: xpsql.Session, query: str, using: str, clauses: str, how: str, why: str
) -> None:
    rows = "SELECT item, array(item) AS user FROM range(1) CROSS JOIN (SELECT 'a' AS item)" if using[0] == "t" else query
    statement = f"TRAIN MODEL m USING {using} {clauses.format(query=query)} WITH (held_out = '{how}') AS {rows}"
    for explain in ("EXPLAIN ", ""):
        with pytest.raises(StatementError, match=why) as caught:
            session.sql(explain + statement)
        assert caught.value.position is not None
    assert not session.models.exists("m")


@costly
@slow_elsewhere
def test_a_solver_takes_the_penalty_that_is_best_on_rows_held_out_for_all_rows(
    session: xpsql.Session, heard: Heard, query: str
) -> None:
    session.sql(f"TRAIN MODEL m USING owlqn VALIDATE ON 0.2 RELEASE WHEN validation.auc > 0.5 AS {query}")
    info = "SELECT pass, logloss FROM ML.TRAINING_INFO(MODEL m) WHERE validation ORDER BY pass"
    losses = [line["logloss"] for line in session.sql(info).arrow().to_pylist()]
    manifest = session.models.version("m").manifest
    learned = manifest.learned
    assert (len(losses), learned.best_pass, learned.held_out, learned.examples) == (5, int(np.argmin(losses)), "all", ROWS)
    assert manifest.validation["logloss"] == min(losses) < losses[0]
    penalty = 1.5 * (64, 8, 1, 1 / 8, 1 / 64)[int(np.argmin(losses))]
    assert any(note.startswith(f"l2 = {penalty:g} is the best of 96, 12, 1.5, ") for note in heard.notes)
    session.sql(f"TRAIN MODEL plain USING owlqn (l2 = {penalty}) AS {query}")
    found, wanted = (session.sql(WEIGHTS.format(name)).arrow().to_pylist() for name in ("m", "plain"))
    assert [row["weight"] for row in found] == pytest.approx([row["weight"] for row in wanted], rel=1e-5)
    session.sql(f"TRAIN MODEL once USING owlqn (l2 = 3) VALIDATE ON 0.2 WITH (held_out = 'none') AS {query}")
    (line,) = session.sql(info.replace("MODEL m", "MODEL once")).arrow().to_pylist()
    assert session.models.version("once").manifest.validation["logloss"] == line["logloss"]
    with pytest.raises(TrainingError, match="is held, not served"):
        session.sql(f"TRAIN MODEL n USING owlqn VALIDATE ON 0.2 RELEASE WHEN validation.auc > 0.99 AS {query}")
    with pytest.raises(StatementError, match="Take 'all'"):
        session.sql(f"TRAIN MODEL n USING owlqn VALIDATE ON 0.2 WITH (held_out = 'rest') AS {query}")
