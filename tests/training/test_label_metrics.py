"""Metrics are parts, and there are some of every label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.cli.report import report
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.training import metrics
from xpsql.platform.training.metrics.base import Metric, ratio, sums

ROWS = 3000
BOTH = (
    "TRAIN OR REPLACE MODEL both USING xftrl LABEL click, buy {clauses} WITH (batch_size = 50, workers = {workers}) AS {query}"
)
ONE = "TRAIN OR REPLACE MODEL one USING xftrl LABEL {label} IGNORE ({other}) WITH (batch_size = 50, workers = 1) AS {query}"
EVALUATED = "EVALUATE EVERY 8 BATCHES ON 2 BATCHES"


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(3)
    item, group = random.integers(0, 40, ROWS), random.integers(0, 9, ROWS)
    click = random.random(ROWS) < 1 / (1 + np.exp(-np.linspace(-2, 2, 40)[item]))
    buy = random.random(ROWS) < 1 / (1 + np.exp(-np.linspace(2, -2, 40)[item]))
    table = pa.table(
        {
            "item": item.astype("U"),
            "day": np.where(group % 2, "mon", "tue"),
            "shelf": group.astype("U"),
            "click": click.astype(np.int64),
            "buy": buy.astype(np.int64),
        }
    )
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, path, row_group_size=1000)
    return f"SELECT * FROM parquet.`{path}`"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse") as session:
        yield session


def train(session: xpsql.Session, query: str, clauses: str = EVALUATED, workers: int = 1) -> None:
    session.sql(BOTH.format(clauses=clauses, workers=workers, query=query))


def rows(session: xpsql.Session, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.sql(text).arrow().to_pylist()
    return found


@lengthy
@pytest.mark.parametrize("workers", [1, 3])
def test_a_training_of_two_labels_gives_each_label_what_a_training_of_it_alone_gives(
    session: xpsql.Session, query: str, workers: int
) -> None:
    train(session, query, workers=workers)
    found = {row["label"]: row for row in rows(session, "SELECT * FROM ML.EVALUATE(MODEL both)")}
    assert [*found] == ["click", "buy"]
    assert {row["examples"] for row in found.values()} == {ROWS}
    if workers == 1:
        for label, other in (("click", "buy"), ("buy", "click")):
            session.sql(ONE.format(label=label, other=other, query=query))
            (alone,) = rows(session, "SELECT * EXCEPT (measured_on) FROM ML.EVALUATE(MODEL one)")
            for name, value in alone.items():
                assert found[label][name] == (None if value is None else pytest.approx(value, rel=1e-5)), name


def test_evaluate_has_a_row_for_each_label_that_the_query_returns(session: xpsql.Session, query: str) -> None:
    train(session, query, "GROUP shelf")
    found = {row["label"]: row for row in rows(session, f"SELECT * FROM ML.EVALUATE(MODEL both, ({query}))")}
    scored = session.sql(f"SELECT * FROM ML.PREDICT(MODEL both, ({query}))").arrow()
    for label in ("click", "buy"):
        difference = scored.column(label).to_numpy() - scored.column(f"predicted_{label}").to_numpy()
        assert found[label]["mae"] == pytest.approx(np.abs(difference).mean())
        assert 0.5 < found[label]["gauc"] < 1
    (last,) = rows(session, f"SELECT * FROM ML.EVALUATE(MODEL both, (SELECT * EXCEPT (click) FROM ({query}) AS q))")
    assert last == {**found["buy"], "label": "buy"}
    with pytest.raises(StatementError, match="click"):
        session.sql(f"SELECT * FROM ML.EVALUATE(MODEL both, (SELECT * EXCEPT (click, buy) FROM ({query}) AS q))")


def test_training_info_has_a_row_for_each_label_of_a_window_and_of_its_segments(session: xpsql.Session, query: str) -> None:
    train(session, query, f"{EVALUATED} BY day")
    found = rows(session, "SELECT * FROM ML.TRAINING_INFO(MODEL both) WHERE split = 0 AND window = 0 ORDER BY segment, label")
    assert [(row["segment"], row["label"]) for row in found] == [
        (segment, label) for segment in (None, "mon", "tue") for label in ("buy", "click")
    ]
    assert [row["features"] is not None for row in found] == [False, True, *[False] * 4]
    assert all(0 <= row["auc"] <= 1 and row["examples"] > 0 for row in found)
    last = rows(session, "SELECT * FROM ML.TRAINING_INFO(MODEL both) WHERE window IS NULL")
    assert [row["label"] for row in last] == ["click", "buy"]


def test_versions_show_the_metrics_of_each_label(session: xpsql.Session, query: str) -> None:
    train(session, query)
    (found,) = rows(session, "SHOW VERSIONS OF MODEL both")
    click, buy = rows(session, "SELECT auc, logloss FROM ML.EVALUATE(MODEL both)")
    assert {name: found[name] for name in ("auc", "logloss", "auc(buy)", "logloss(buy)")} == {
        **click,
        **{f"{name}(buy)": value for name, value in buy.items()},
    }


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("auc(buy) > 0.99", r"auc\(buy\) is 0\.\d+"),
        ("auc > 0.5 AND NOT auc(BUY) BETWEEN 0.5 AND 1", r"auc\(BUY\) is"),
        ("auc(click) <> auc", r"auc\(click\) is (0\.\d+), auc is \1"),
    ],
)
def test_a_gate_judges_any_label(session: xpsql.Session, query: str, condition: str, why: str) -> None:
    with pytest.raises(TrainingError, match=why):
        train(session, query, f"{EVALUATED} RELEASE WHEN {condition}")
    assert session.models.versions("both")[-1].manifest.status == "held"


def test_a_gate_compares_labels_with_the_version_served(session: xpsql.Session, query: str) -> None:
    train(session, query, f"{EVALUATED} RELEASE WHEN auc(buy) > 0.5")
    text = f"CONTINUE MODEL both RELEASE WHEN auc(buy) > previous.auc(buy) + 1 AS {query}"
    with pytest.raises(TrainingError, match=r"auc\(buy\) is 0\.\d+, previous\.auc\(buy\) is 0\.\d+"):
        session.sql(text)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("auc(bye) > 0.5", r"RELEASE WHEN names auc\(bye\), and bye is not a label: LABEL has click, buy."),
        ("features(buy) > 5", "features does not belong to a label. Write features without a label."),
        ("mape < 0.5", "mape, which xftrl does not measure here. Judge it by auc or logloss."),
        ("gauc(buy) > 0.5", "names gauc, which needs groups"),
    ],
)
def test_what_no_gate_can_judge_is_refused_where_it_stands(
    session: xpsql.Session, query: str, condition: str, why: str
) -> None:
    with pytest.raises(StatementError, match=why) as caught:
        train(session, query, f"{EVALUATED} RELEASE WHEN {condition}")
    assert caught.value.position is not None
    assert not session.models.exists("both")


def test_a_report_draws_each_label(session: xpsql.Session, query: str) -> None:
    train(session, query)
    page = report(session, [("both", None)])
    assert "auc(buy) of windows" in page
    for label in ("click", "buy"):
        assert f"</i>v1, {label}</span>" in page


def test_a_metric_is_a_line_and_shows_up_everywhere(
    session: xpsql.Session, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wins = sums("wins", 2, lambda sample: (len(sample.labels), int(((sample.predictions >= 0.5) == sample.labels).sum())))
    toy = Metric(
        "win_rate", "a toy", frozenset({"classes"}), wins, lambda state: ratio(state[0][1], state[0][0]), headline=True
    )
    monkeypatch.setattr(metrics, "METRICS", (*metrics.METRICS, toy))
    train(session, query, f"{EVALUATED} RELEASE WHEN win_rate > 0.4 AND win_rate(buy) > 0.4", workers=2)
    for text in (
        "SELECT * FROM ML.EVALUATE(MODEL both)",
        f"SELECT * FROM ML.EVALUATE(MODEL both, ({query}))",
        "SELECT * FROM ML.TRAINING_INFO(MODEL both)",
        "SHOW VERSIONS OF MODEL both",
    ):
        assert all(0.4 < row["win_rate"] < 1 for row in rows(session, text))
    assert all(
        row["win_rate"] == pytest.approx(row["accuracy"]) for row in rows(session, "SELECT * FROM ML.EVALUATE(MODEL both)")
    )
    assert "Learning curve: win_rate" in report(session, [("both", None)])
