"""ML.EVALUATE with ITEMS measures what ML.RECOMMEND finds, and says what cannot be measured."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.scoring.test_recommendation import ALL, ITEMS, session
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring.retrieval import RetrievalTally
from xpsql.platform.scoring.top_k import ExcludedItems, best

__all__ = ["session"]

TAKEN = "(SELECT user, had, collect_list(item) AS item FROM log WHERE user < 30 GROUP BY user, had)"


def test_the_best_of_blocks_are_the_best_of_all_and_of_equal_ones_the_first() -> None:
    random = np.random.default_rng(0)
    scores = random.integers(0, 50, (7, 5000)).astype(np.float32)
    scores[:, 17] = np.nan
    rows, places = np.repeat(np.arange(7), 40), random.integers(-1, 5000, 280)
    found = best(lambda start, stop: scores[:, start:stop].copy(), 7, 5000, 60, ExcludedItems.of(rows, places))
    left = np.where(np.isnan(scores), -np.inf, scores)
    left[rows[places >= 0], places[places >= 0]] = -np.inf
    order = np.argsort(-left, axis=1, kind="stable")[:, :60]
    np.testing.assert_array_equal(found.places, order)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(left, order, axis=1))


def test_measures_are_those_of_their_definitions() -> None:
    tally = RetrievalTally(6, (1, 3))
    places = np.array([[4, 2, 0], [1, 5, -1], [3, 2, 1]])
    tally.add(
        places, np.array([0, 0, 0, 1]), np.array([2, 0, -1, 3])
    )  # row 0 took 2, 0 and one that is not there; row 2 nothing
    first, all_three = tally.table().to_pylist()
    assert (first["recall"], first["ndcg"], first["hit_rate"]) == (0, 0, 0)
    gain = (1 / np.log2(3) + 1 / np.log2(4)) / (1 + 1 / np.log2(3) + 1 / np.log2(4))
    assert all_three == {
        "k": 3,
        "recall": pytest.approx(2 / 3 / 2),
        "ndcg": pytest.approx(gain / 2),
        "hit_rate": 1 / 2,
        "coverage": pytest.approx(5 / 6),
        "examples": 2,
        "missing": 1,
    }


@lengthy
def test_what_is_measured_is_what_is_recommended(session: xpsql.Session) -> None:
    call = f"MODEL svd, {TAKEN}, ITEMS (SELECT DISTINCT item FROM log), (2, 4), EXCLUDE had"
    two, four = session.sql(f"SELECT * FROM ML.EVALUATE({call})").arrow().to_pylist()
    best_of = session.sql(
        f"SELECT * FROM ML.RECOMMEND(MODEL svd, (SELECT user, had, item AS took FROM {TAKEN}), 4, {ALL}, EXCLUDE had)"
    )
    found: dict[object, list[object]] = {}
    took = {}
    for row in best_of.arrow().to_pylist():
        found.setdefault(row["user"], []).append(row["item"])
        took[row["user"]] = set(row["took"])
    for k, measured in ((2, two), (4, four)):
        hits = [len(took[user] & set(items[:k])) for user, items in found.items()]
        assert measured["recall"] == pytest.approx(np.mean([h / len(took[user]) for h, user in zip(hits, found, strict=True)]))
        assert measured["hit_rate"] == pytest.approx(np.mean([h > 0 for h in hits]))
        assert measured["coverage"] == len({item for items in found.values() for item in items[:k]}) / ITEMS
        assert (measured["k"], measured["examples"], measured["missing"]) == (k, 30, 0)


@costly
def test_spark_measures_the_same(session: xpsql.Session, spark: SparkSession) -> None:
    values = "(SELECT * FROM VALUES (1, 'i4'), (2, 'i99'), (3, NULL) AS t(user, item))"
    items = "ITEMS (SELECT concat('i', CAST(id AS STRING)) AS item FROM range(12))"
    text = f"SELECT * FROM ML.EVALUATE(MODEL svd, {values}, {items}, 5)"
    here = session.sql(text).arrow().to_pylist()
    assert (here[0]["examples"], here[0]["missing"]) == (2, 1)
    with xpsql.connect(session.models.warehouse, spark, SilentReporter()) as there:
        assert there.sql(text).arrow().to_pylist() == here


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"MODEL svd, TABLE log, {ALL}, 0", "1 or more, or several, like .10, 50.; got 0"),
        (f"MODEL svd, TABLE log, {ALL}, (3, 'a')", "1 or more, or several.*got"),
        (f"MODEL svd, TABLE log, {ALL}, (3, 13)", "asked for 13 items, and ITEMS has 12.*line 1"),
        ("MODEL svd, TABLE log, ITEMS (SELECT item FROM log WHERE false), 3", "The query of ITEMS returns no rows"),
        (f"MODEL svd, (SELECT user, had AS items FROM log), {ALL}, 3", "needs a column item.*Did you mean items"),
        (f"MODEL svd, (SELECT user, 3 AS item FROM log), {ALL}, 3", "item of the query holds int, and item of ITEMS string"),
        (f"MODEL svd, (SELECT item FROM log), {ALL}, 3", "needs the column user, which neither the query nor ITEMS returns"),
        (f"MODEL svd, TABLE log, {ALL}, 3, EXCLUDE user", "EXCLUDE expects an array of items"),
    ],
)
def test_what_cannot_be_measured_is_refused(session: xpsql.Session, call: str, message: str) -> None:
    with pytest.raises(xpsql.StatementError, match=message):
        session.sql(f"SELECT * FROM ML.EVALUATE({call})")
