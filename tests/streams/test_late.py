"""Labels that come late, beside an oracle: the same examples, which know at once whether they will be clicked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.notes import Notes
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

SHOWN, HELD_OUT = 40_000, 20_000
SETTINGS = "WITH (until = 'available', workers = 1, batch_size = 256)"


def shown(rows: int, seed: int) -> pa.Table:
    """Return examples with their labels, when each is shown, and when one that is clicked is: up to an hour later."""
    random = np.random.default_rng(seed)
    users, items = random.zipf(1.5, rows) % 300, random.zipf(1.4, rows) % 200
    taste = np.random.default_rng(9)
    scores = taste.normal(0, 0.8, 300)[users] + taste.normal(0, 0.8, 200)[items] - 1.6
    label = (random.random(rows) < 1 / (1 + np.exp(-scores))).astype(np.int8)
    ts = 1_767_225_600 + np.arange(rows) * 3
    delay = np.minimum(random.exponential(600, rows), 3600).astype(np.int64)
    return pa.table({"label": label, "ts": ts, "clicked": ts + delay, "user": users, "item": items})


def events(table: pa.Table) -> pa.Table:
    """Return the same as it has come when the last is shown: each example with 0, and with 1 once more when it is clicked."""
    columns = {name: table[name].to_numpy() for name in table.column_names}
    again = (columns["label"] > 0) & (columns["clicked"] <= columns["ts"][-1])
    label = np.concatenate([np.zeros(len(again), np.int8), np.ones(again.sum(), np.int8)])
    ts = np.concatenate([columns["ts"], columns["clicked"][again]])
    order = np.argsort(ts, kind="stable")
    found = {name: np.concatenate([columns[name], columns[name][again]])[order] for name in ("user", "item")}
    return pa.table({"label": label[order], "ts": ts[order], **found})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late")
    for name, table in (("late", events(shown(SHOWN, 1))), ("oracle", shown(SHOWN, 1)), ("test", shown(HELD_OUT, 2))):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "a.parquet", row_group_size=5000)
    return folder


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), "duckdb", SilentReporter()) as session:
        yield session


def trained(session: xpsql.Session, files: Path, using: str, operators: str = "") -> tuple[dict[str, float], dict[str, float]]:
    """Train on the events and beside the oracle; return the metrics of both on other examples, with their final labels."""
    for name, late in (("late", "LATE"), ("oracle", "")):
        session.sql(
            f"TRAIN OR REPLACE MODEL {name} USING {using} LABEL label {late} TIME ts {operators} {SETTINGS} "
            f"AS SELECT label, ts, user, item FROM STREAM read_files('{files / name}')"
        )
    found = [
        session.sql(f"SELECT * FROM ML.EVALUATE(MODEL {name}, TABLE parquet.`{files / 'test'}`)").arrow().to_pylist()[0]
        for name in ("late", "oracle")
    ]
    return found[0], found[1]


RATES = "OPERATORS (auto_session (short = '2 days', mid = '30 days', long = '60 days'))"


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    ("using", "operators"),
    [("xftrl", ""), ("fm (dim = 4)", ""), ("xnn (dim = 4, hidden = (8))", ""), ("xftrl", RATES)],
    ids=["xftrl", "fm", "xnn", "auto_session"],
)
def test_late_labels_teach_what_an_oracle_knows(session: xpsql.Session, files: Path, using: str, operators: str) -> None:
    late, oracle = trained(session, files, using, operators)
    assert late["auc"] > oracle["auc"] - 0.001
    if not operators:  # rates lack what is clicked later, with which they were learned
        assert late["pcopc"] == pytest.approx(oracle["pcopc"], rel=0.02)
    learning, knowing = (session.models.version(name).manifest for name in ("late", "oracle"))
    assert learning.metrics["pcopc"] == pytest.approx(knowing.metrics["pcopc"], rel=0.03)
    assert learning.learned.base_rate == pytest.approx(knowing.learned.base_rate, rel=0.02)


def counted(session: xpsql.Session, model: str) -> list[tuple[int, ...]]:
    """Return what is counted of each feature."""
    text = f"SELECT key, count, shows, clicks FROM ML.WEIGHTS(MODEL {model}) ORDER BY key"
    return [tuple(row.values()) for row in session.sql(text).arrow().to_pylist()]


@costly
@slow_elsewhere
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_late_click_is_a_click_and_no_show(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In one job, and in two of which the second learns clicks alone of what the first was shown."""
    table = shown(3000, 3)
    first = events(table)
    again = table.filter(pa.array((table["label"].to_numpy() > 0) & (table["clicked"].to_numpy() > table["ts"].to_numpy()[-1])))
    clicks = pa.table({"label": again["label"], "ts": again["clicked"], "user": again["user"], "item": again["item"]})
    for name in ("events", "oracle"):
        (tmp_path / name).mkdir()
    pq.write_table(first, tmp_path / "events" / "a.parquet")
    pq.write_table(table.drop_columns("clicked"), tmp_path / "oracle" / "a.parquet")
    assert len(clicks)
    on = request.getfixturevalue("spark") if engine == "spark" else engine
    with xpsql.connect(tmp_path / "warehouse", on, SilentReporter()) as session:
        read = f"AS SELECT * FROM STREAM read_files('{tmp_path}/"
        session.sql(f"TRAIN MODEL m USING xftrl LABEL label LATE TIME ts {SETTINGS} {read}events')")
        pq.write_table(clicks, tmp_path / "events" / "b.parquet")
        session.sql(f"CONTINUE MODEL m {SETTINGS} {read}events')")
        session.sql(f"TRAIN MODEL oracle USING xftrl LABEL label TIME ts {SETTINGS} {read}oracle')")
        assert counted(session, "m") == counted(session, "oracle")
        rate = np.mean(table["label"].to_numpy())
        assert session.models.version("m").manifest.learned.base_rate == pytest.approx(rate, rel=0.001)
        informed = "SELECT count(*) AS n FROM ML.WEIGHTS(MODEL m) WHERE isnan(information) OR information IS NULL"
        assert session.sql(informed).arrow()["n"][0].as_py() == 0


@lengthy
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("USING svm LABEL label LATE", "weighs the log loss of one label, and svm learns otherwise"),
        ("USING xftrl (loss = 'squared') LABEL label LATE", "loss = 'logloss'"),
        ("USING xftrl (positive_weight = 2) LABEL label LATE", "without positive_weight"),
        ("USING owlqn LABEL label LATE", "owlqn learns otherwise"),
        ("USING multi_task LABEL label, user LATE", "LATE takes one label"),
    ],
)
def test_late_labels_are_refused_where_they_would_mean_nothing(
    session: xpsql.Session, files: Path, text: str, message: str
) -> None:
    with pytest.raises(StatementError, match=message):
        session.sql(f"TRAIN MODEL wrong {text} {SETTINGS} AS SELECT label, user, item FROM STREAM read_files('{files}/late')")


def test_clicks_without_impressions_are_told(tmp_path: Path) -> None:
    notes = Notes()
    with xpsql.connect(tmp_path / "warehouse", reporter=notes) as session:
        text = "TRAIN MODEL m USING xftrl LABEL click LATE AS SELECT concat('u', id % 3) AS user, 1 AS click FROM range(64)"
        session.sql(text)
    assert any("LABEL click LATE is 1 in all 64 events: there is nothing to learn" in note for note in notes.notes)
