"""measured_on: every table that shows a metric says on which rows it was measured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.progress import SilentReporter

LOG = "SELECT CAST(id % 3 = 0 AS INT) AS click, concat('u', id % 11) AS user, CAST(id % 5 AS DOUBLE) AS price FROM range(500)"
HOW = {"online": ("xftrl", "progressive"), "solved": ("owlqn", "training"), "packaged": ("xgboost", "training")}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    pytest.importorskip("xgboost")
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as opened:
        opened.sql(f"CREATE TABLE log AS {LOG}")
        for name, (algorithm, _) in HOW.items():
            opened.sql(f"TRAIN MODEL {name} USING {algorithm} LABEL click AS SELECT * FROM log")
        yield opened


@pytest.mark.parametrize("name", HOW)
def test_each_table_says_on_which_rows_a_model_was_measured(session: xpsql.Session, name: str) -> None:
    _, wanted = HOW[name]
    for source in (f"ML.MODELS() WHERE name = '{name}'", f"ML.VERSIONS(MODEL {name})", f"ML.EVALUATE(MODEL {name})"):
        assert session.sql(f"SELECT measured_on FROM {source}").fetchall() == [(wanted,)]
    for statement in (f"SHOW MODELS LIKE '{name}'", f"SHOW VERSIONS OF MODEL {name}"):
        assert session.sql(statement).arrow()["measured_on"].to_pylist() == [wanted]


def test_metrics_of_given_rows_are_of_a_query(session: xpsql.Session) -> None:
    assert session.sql("SELECT measured_on FROM ML.EVALUATE(MODEL online, TABLE log)").fetchall() == [("query",)]


@lengthy
def test_a_version_without_metrics_was_measured_on_nothing(session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL small USING xftrl LABEL click AS SELECT * FROM log")
    session.sql("SHRINK MODEL small WHERE updates < 3")
    newest = session.sql("SHOW VERSIONS OF MODEL small").arrow().to_pylist()[-1]
    assert (newest["auc"] is None) == (newest["measured_on"] is None)
