"""Common neighbours: pairs of vertices against the formulas in plain Python, and on several workers."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import xpsql
from tests.graphs.learned import Edge, edges_table, train
from tests.graphs.test_swing import related, taken
from xpsql.platform.progress import SilentReporter


def neighbours(edges: list[Edge]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for one, other in edges:
        if one != other:
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
    return found


def scores(edges: list[Edge], by: str) -> dict[tuple[int, int], float]:
    near, found = neighbours(edges), {}
    for one, other in permutations(near, 2):
        if common := near[one] & near[other]:
            found[one, other] = {
                "count": float(len(common)),
                "jaccard": len(common) / len(near[one] | near[other]),
                "adamic_adar": sum(1 / math.log(max(len(near[vertex]), 2)) for vertex in common),
            }[by]
    return found


@pytest.mark.parametrize("by", ["count", "jaccard", "adamic_adar"])
def test_pairs_have_the_scores_of_the_formula(session: xpsql.Session, by: str) -> None:
    train(session, f"common_neighbours (by = {by})", taken())
    assert related(session, 40) == pytest.approx(scores(taken(), by), rel=1e-6)


def test_top_keeps_the_best_and_hubs_are_cut_the_same_for_any_number_of_workers(session: xpsql.Session, tmp_path: Path) -> None:
    path, found = tmp_path / "edges.parquet", []
    pq.write_table(edges_table(taken()), path, row_group_size=50)
    for workers in (1, 2, 4):
        session.sql(
            "TRAIN OR REPLACE MODEL m USING common_neighbours (most = 5, top = 4) SOURCE src TARGET dst "
            f"WITH (workers = {workers}) AS SELECT * FROM parquet.`{path}`"
        )
        found.append(related(session, 40))
    assert found[0] == found[1] == found[2]
    assert 0 < len(found[0]) < len(scores(taken(), "count"))


def test_predictions_are_refused_with_the_way_to_pairs(session: xpsql.Session) -> None:
    train(session, "common_neighbours", taken())
    with pytest.raises(xpsql.StatementError, match=r"common_neighbours scores pairs of vertices.*ML\.RELATED"):
        session.sql("SELECT * FROM ML.PREDICT(MODEL m, (SELECT 1 AS node))")


def test_nothing_is_said_of_pairs_as_of_features_that_never_recur(tmp_path: Path) -> None:
    notes: list[str] = []

    class Notes(SilentReporter):
        def note(self, text: str) -> None:
            notes.append(text)

    with xpsql.connect(tmp_path, reporter=Notes()) as session:
        session.sql(
            "TRAIN MODEL m USING common_neighbours SOURCE a TARGET b "
            "AS SELECT concat('u', id % 100) AS a, concat('u', (id * 7 + 1) % 101) AS b FROM range(2000)"
        )
    assert notes == []
