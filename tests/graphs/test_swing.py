"""Swing: related items, against its formula, and as ML.RELATED lists them."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly
from tests.notes import Notes
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

from .learned import Edge, edges_table, train


@pytest.fixture
def session(tmp_path: Path) -> xpsql.Session:
    return xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter())


def taken(users: int = 30, items: int = 20) -> list[Edge]:
    """Return what users took, some more than once; users and items have the same names."""
    random = np.random.default_rng(4)
    return [(int(u), int(i)) for u, i in zip(random.integers(0, users, 200), random.zipf(1.5, 200) % items, strict=True)]


def scores(edges: list[Edge], alpha: float = 0.0, beta: float = 5.0, gamma: float = -0.3) -> dict[tuple[int, int], float]:
    """Return the scores of pairs of items by the formula."""
    had: dict[int, set[int]] = {}
    for user, item in edges:
        had.setdefault(user, set()).add(item)
    found: dict[tuple[int, int], float] = {}
    for u, v in combinations(had, 2):
        common = had[u] & had[v]
        weight = ((beta + len(had[u])) * (beta + len(had[v]))) ** gamma
        for pair in permutations(common, 2):
            found[pair] = found.get(pair, 0.0) + weight / (alpha + len(common))
    return found


def related(session: xpsql.Session, items: int = 20) -> dict[tuple[int, int], float]:
    query = f"SELECT * FROM ML.RELATED(MODEL m, (SELECT id AS node FROM range({items})))"
    return {(row["item"], row["related"]): row["score"] for row in session.sql(query).arrow().to_pylist()}


@pytest.mark.parametrize(
    ("options", "given"), [("", {}), ("(alpha = 2, beta = 1, gamma = -1)", {"alpha": 2, "beta": 1, "gamma": -1})]
)
def test_related_items_have_the_scores_of_the_formula(session: xpsql.Session, options: str, given: dict[str, float]) -> None:
    train(session, f"swing {options}", taken())
    assert related(session) == pytest.approx(scores(taken(), **given), rel=1e-6)


def test_top_keeps_the_best_of_each_item(session: xpsql.Session) -> None:
    train(session, "swing (top = 3)", taken())
    best = scores(taken())
    for item in {item for item, _ in best}:
        ranked = sorted((score for (one, _), score in best.items() if one == item), reverse=True)[:3]
        found = sorted((score for (one, _), score in related(session).items() if one == item), reverse=True)
        assert found == pytest.approx(ranked, rel=1e-6)


def test_long_lists_are_cut_the_same_for_any_number_of_workers(session: xpsql.Session, tmp_path: Path) -> None:
    path, found = tmp_path / "edges.parquet", []
    pq.write_table(edges_table(taken()), path, row_group_size=50)
    for workers in (1, 2, 4):
        session.sql(
            f"TRAIN OR REPLACE MODEL m USING swing (most = 4) SOURCE src TARGET dst WITH (workers = {workers}) "
            f"AS SELECT * FROM parquet.`{path}`"
        )
        found.append(related(session))
    assert found[0] == found[1] == found[2]
    assert 0 < len(found[0]) < len(scores(taken()))


def test_a_training_that_finds_no_pair_says_so(tmp_path: Path) -> None:
    told = Notes()
    train(xpsql.connect(tmp_path, "duckdb", told), "swing", [(user, user) for user in range(9)])
    assert "no two vertices have enough neighbours in common for a pair. Check SOURCE, TARGET" in told.notes[0]


def test_predictions_are_refused_with_the_way_to_the_pairs(session: xpsql.Session) -> None:
    train(session, "swing", taken())
    with pytest.raises(StatementError, match="swing scores pairs of vertices, of which ML"):
        session.sql("SELECT * FROM ML.PREDICT(MODEL m, (SELECT 1 AS node))").arrow()


@costly
def test_spark_finds_the_pairs_of_one_process(session: xpsql.Session, tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(edges_table(taken()), path, row_group_size=50)
    statement = f"TRAIN MODEL m USING swing SOURCE src TARGET dst WITH (workers = 2) AS SELECT * FROM parquet.`{path}`"
    session.sql(statement)
    with xpsql.connect(tmp_path / "spark", spark, SilentReporter()) as there:
        there.sql(statement)
    with xpsql.connect(tmp_path / "spark", "duckdb", SilentReporter()) as read:
        assert related(read) == related(session)


def test_pairs_score_no_rows(session: xpsql.Session, tmp_path: Path) -> None:
    train(session, "swing", taken())
    for statement in (
        "SELECT * FROM ML.EVALUATE(MODEL m, (SELECT 1 AS node))",
        f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT serving",
    ):
        with pytest.raises(StatementError, match=r"m has pairs of vertices, by swing. List them: SELECT \* FROM ML.RELATED"):
            session.sql(statement).arrow()
