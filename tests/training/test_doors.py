"""What one statement refuses, the others refuse alike: TRAIN, EXPLAIN TRAIN, CONTINUE, EXPLAIN CONTINUE, RESUME, and TRAIN that
stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.notes import Notes
from tests.training.log import log, write
from tests.training.test_bad_input import CANNOT_RUN
from tests.training.test_resume import interrupted
from xpsql.platform.errors import ModelError, StatementError, TrainingError
from xpsql.platform.progress import SilentReporter

LOG = """
SELECT CAST(id % 3 = 0 AS INT) AS label, concat('u', id % 9) AS user, concat('i', id % 30) AS item,
    CAST(id % 13 AS DOUBLE) AS price, 0D AS nothing, array(concat('u', id % 9)) AS one,
    array(concat('u', id % 9), concat('u', id % 4)) AS two
FROM range(300)
"""
VECTORS = "VECTORS pictures AS (SELECT * FROM pictures) WITH (vectors = (item IN pictures))"
NO_ROWS = "(SELECT * FROM log WHERE user = 'none')"
REFUSED = {
    "xftrl WITH (patience = 2)": "patience = 2 needs rows to judge passes by",
    f"xftrl VALIDATE ON {NO_ROWS}": r"VALIDATE ON \(query\) returns no rows",
    f"xftrl VALIDATE ON {NO_ROWS} WITH (patience = 1, passes = 3)": r"VALIDATE ON \(query\) returns no rows",
    "xftrl VALIDATE ON (SELECT user, label FROM log)": "must return the column item as string",
    "ffm (long_dim = 4)": "ffm has no option 'long_dim'",
    f"fm {VECTORS}": "VECTORS is for networks over the vectors of features",
    f"ffm {VECTORS}": "VECTORS is for networks over the vectors of features",
    "xftrl WEIGHT nothing": "WEIGHT nothing is 0 in all rows: nothing would be learned",
    "owlqn WEIGHT nothing": "WEIGHT nothing is 0 in all rows: nothing would be learned",
    "xftrl TRANSFORM (QUANTILES(price, 4) AS b, user)": r"Write bucketize\(price, QUANTILES\(price, 4\)\) AS b",
    "xftrl TRANSFORM (coalesce(MEAN(price), 0D) AS b, user)": "b the same value in every row: MEAN is a constant",
}
OF_STREAMS = {"no rows": "a stream waits for them", "/nowhere/x.parquet": "no stream", "nowhere": "no stream"}
"""What TRAIN refuses of its input, and why it is otherwise with a stream."""
RESUMED = {
    "LABEL clik": {"clauses": {"LABEL": {"columns": ["clik"]}}},
    "WEIGHT user": {"clauses": {"WEIGHT": {"column": "user"}}},
    "WEIGHT BY AGE": {"clauses": {"WEIGHT": {"half_life": "7 days"}}},
    "TIME user": {"clauses": {"TIME": "user"}},
    "GROUP tags": {"clauses": {"GROUP": "tags"}},
    "IGNORE (ts, colour)": {"clauses": {"IGNORE": ["ts", "colour"]}},
    "WITH (sync = 'hybrid')": {"settings": {"sync": "hybrid"}},
    "WITH (patience = 2)": {"settings": {"patience": 2}},
    "WITH (base_rate = 2)": {"settings": {"base_rate": 2.0}},
    "WITH (share = (user AS nobody))": {"settings": {"share": [["user", "nobody"]]}},
    "OPERATORS (decay (half_life = '1 day'))": {"operators": [{"name": "decay", "options": {"half_life": "1 day"}, "on": []}]},
    "OPERATORS (ftrl, safety)": {"operators": [{"name": name, "options": {}, "on": []} for name in ("ftrl", "safety")]},
    "OPERATORS (safety ON vectors)": {"operators": [{"name": "safety", "options": {}, "on": ["vectors"]}]},
}
"""Clauses that TRAIN refuses, and how the manifest of a version says them."""
STAYING = [clauses for clauses in RESUMED if "IGNORE" not in clauses and "patience" not in clauses]
CONTINUING = ("VALIDATE ON {}", "VALIDATE ON {} WITH (patience = 1, passes = 3)")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        session.sql("CREATE TABLE pictures AS SELECT concat('i', id) AS id, array(CAST(id AS FLOAT), 1F) AS v FROM range(10)")
        yield session


def refusal(session: xpsql.Session, statement: str) -> str:
    with pytest.raises((StatementError, ModelError)) as raised:
        session.sql(statement)
    return raised.value.told


@lengthy
def test_what_train_cannot_run_explain_train_refuses_in_the_same_words(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(1_000), tmp_path / "log.parquet")
    for statement, message in CANNOT_RUN:
        if statement.startswith("TRAIN") and message != "no rows":  # which only a run of the query may show
            text = statement.format(f"parquet.`{path}`")
            assert refusal(session, text) == refusal(session, f"EXPLAIN {text}"), statement


@pytest.mark.parametrize(("clauses", "words"), REFUSED.items())
def test_a_training_without_sense_is_refused_by_train_and_explain(session: xpsql.Session, clauses: str, words: str) -> None:
    statement = f"TRAIN MODEL refused USING {clauses} AS SELECT * FROM log"
    for text in (statement, f"EXPLAIN {statement}"):
        with pytest.raises(StatementError, match=words):
            session.sql(text)
    assert "refused" not in session.models.names()


def test_continue_refuses_what_train_refuses_of_validate(session: xpsql.Session) -> None:
    session.sql("TRAIN OR REPLACE MODEL m USING xftrl LABEL label AS SELECT * FROM log")
    for clauses in CONTINUING:
        statement = f"CONTINUE MODEL m {clauses.format(NO_ROWS)} AS SELECT * FROM log"
        for text in (statement, f"EXPLAIN {statement}"):
            with pytest.raises(StatementError, match=r"VALIDATE ON \(query\) returns no rows"):
                session.sql(text)
    assert [version.number for version in session.models.versions("m")] == [1]


@lengthy
@costly_after_first
@pytest.mark.parametrize("algorithm", ["xnn", "deepfm", "dcn"])
def test_a_training_with_vectors_is_explained_with_its_estimates(session: xpsql.Session, algorithm: str) -> None:
    statement = f"TRAIN MODEL {algorithm} USING {algorithm} LABEL label {VECTORS} AS SELECT label, user, item FROM log"
    found = dict(session.sql(f"EXPLAIN {statement}"))
    assert re.fullmatch(
        r"\d+ of 2 floats, \d+ KiB, for item; workers run the network; a batch has .*", found["vectors pictures"]
    )
    assert "judged by" in found["time"]
    session.sql(statement)
    found = dict(session.sql(f"EXPLAIN CONTINUE MODEL {algorithm} AS SELECT label, user, item FROM log"))
    assert re.fullmatch(
        r"\d+ of 2 floats, \d+ KiB, for item; workers run the network; a batch has .*", found["vectors pictures"]
    )
    assert "judged by" in found["time"]


@costly_after_first
@pytest.mark.parametrize(
    ("training", "words"),
    [
        (
            "word2vec AS SELECT CAST(array() AS ARRAY<STRING>) AS words FROM log",
            "no row has two values or more.*arrays of words",
        ),
        ("word2vec AS SELECT one FROM log", "no row has two values or more.*arrays of one"),
        ("word2vec AS SELECT two FROM log", ""),
        ("two_tower AS SELECT user, 'i' AS item FROM log LIMIT 1", "an item to tell from others.*rows of user, item"),
        (
            "xftrl (intercept = false) LABEL label AS SELECT label, CAST(NULL AS DOUBLE) AS x FROM log",
            "learned of x: no row has",
        ),
        ("xftrl LABEL label AS SELECT label, user FROM log", ""),
    ],
)
def test_a_training_that_learns_nothing_says_so(session: xpsql.Session, training: str, words: str) -> None:
    notes = Notes()
    with xpsql.connect(session.models.warehouse, reporter=notes) as told:
        told.sql(f"TRAIN OR REPLACE MODEL little USING {training}")
    found = [note for note in notes.notes if note.startswith("Nothing was learned")]
    assert len(found) == bool(words)
    assert all(re.search(words, note) for note in found)


class Ending(SilentReporter):
    """Ends a training that begins, or waits for rows."""

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        raise TrainingError("it was not refused")

    def note(self, message: str) -> None:
        raise TrainingError(f"it was not refused: {message}")


@costly
def test_what_train_refuses_it_refuses_in_the_same_words_where_it_stays(session: xpsql.Session, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    path = write(log(1_000), folder / "log.parquet")
    refused = [statement for statement, message in CANNOT_RUN if statement.startswith("TRAIN") and message not in OF_STREAMS]
    assert len(refused) > 25
    with xpsql.connect(session.models.warehouse, reporter=Ending()) as staying:
        for statement in [
            *refused,
            *(f"TRAIN MODEL m USING xftrl IGNORE (ts) {clauses} AS SELECT * FROM {{}}" for clauses in STAYING),
        ]:
            stays = statement.replace(" AS SELECT", " PUBLISH EVERY 1000000 EXAMPLES AS SELECT")
            told = refusal(session, statement.format(f"parquet.`{path}`"))
            staying.sql("DROP MODEL IF EXISTS m")  # one that is refused while it learns may have published before
            assert refusal(staying, stays.format(f"STREAM parquet.`{folder}`")) == told, statement


@costly
def test_what_train_refuses_of_a_statement_resume_refuses_of_the_version_that_says_it(tmp_path: Path) -> None:
    path = write(log(4_000), tmp_path / "log.parquet")
    query = f"AS SELECT * FROM parquet.`{path}`"
    settings = "batch_size = 64, passes = 2, checkpoint_seconds = 0.02"
    interrupted(tmp_path / "warehouse", f"TRAIN MODEL m USING xftrl IGNORE (ts) WITH ({settings}) {query}")
    manifest = tmp_path / "warehouse" / "models" / "m" / "v1" / "manifest.json"
    said: dict[str, Any] = json.loads(manifest.read_text())
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        for clauses, values in RESUMED.items():
            given = clauses if "IGNORE" in clauses else f"IGNORE (ts) {clauses}"
            told = refusal(session, f"TRAIN MODEL other USING xftrl {given} {query}")
            changed = {name: said[name] | value if name in ("settings", "clauses") else value for name, value in values.items()}
            manifest.write_text(json.dumps(said | changed))
            assert refusal(session, "RESUME MODEL m") == told, clauses
        manifest.write_text(json.dumps(said))
        session.sql("RESUME MODEL m")
        assert [(version.number, version.manifest.status) for version in session.models.versions("m")] == [(1, "ready")]
