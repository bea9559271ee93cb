"""ML.RECOMMEND ranks all items, leaves out those that a row has, and says what cannot be ranked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import lengthy
from tests.training.log import write
from xpsql.platform.progress import SilentReporter

ITEMS, USERS = 12, 300
ALL = "ITEMS (SELECT DISTINCT item FROM log)"
SOME = "(SELECT DISTINCT user, had FROM log WHERE user < 7)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    folder: Path = tmp_path_factory.mktemp("recommend")
    random = np.random.default_rng(0)
    user = np.repeat(np.arange(USERS), 6)
    item = (user % 3 + 3 * random.integers(0, ITEMS // 3, len(user))) % ITEMS  # users like one item of three
    had = [[f"i{i}" for i in sorted(set(item[6 * (u) : 6 * u + 2].tolist()))] for u in user]
    log = pa.table({"user": user, "item": [f"i{i}" for i in item], "had": had, "label": np.ones(len(user), np.int32)})
    with xpsql.connect(folder, reporter=SilentReporter()) as opened:
        opened.sql(f"CREATE TABLE log AS SELECT * FROM parquet.`{write(log, folder / 'log.parquet')}`")
        svd = "xsvd (user = (user), item = (item), negatives = 5, vector_alpha = 0.3)"
        opened.sql(f"TRAIN MODEL svd USING {svd} WITH (passes = 5) IGNORE (had) AS SELECT * FROM log")
        pairs = "slrm (item = item, history = had, negatives = 3)"
        opened.sql(f"TRAIN MODEL pairs USING {pairs} IGNORE (user) WITH (share = (had AS item)) AS SELECT * FROM log")
        opened.sql(f"TRAIN MODEL apart USING {pairs} IGNORE (user) AS SELECT * FROM log")  # an item has a pair with itself
        opened.sql(f"TRAIN MODEL risen USING {pairs} CALIBRATE IGNORE (user) WITH (share = (had AS item)) AS SELECT * FROM log")
        numbers = "SELECT label, item, map_from_arrays(had, transform(had, h -> length(h) / 2.0)) AS had FROM log"
        opened.sql(f"TRAIN MODEL weighed USING {pairs} AS {numbers}")
        opened.sql("TRAIN MODEL words USING word2vec IGNORE (label) AS SELECT had, label FROM log")
        yield opened


def rows(session: xpsql.Session, call: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = session.sql(f"SELECT * FROM ML.RECOMMEND({call})").arrow().to_pylist()
    return found


@lengthy
@pytest.mark.parametrize("model", ["svd", "pairs"])
def test_the_best_of_all_predictions_are_recommended(session: xpsql.Session, model: str) -> None:
    crossed = f"(SELECT * FROM {SOME} u CROSS JOIN (SELECT DISTINCT item FROM log) i)"
    every = session.sql(f"SELECT * FROM ML.PREDICT(MODEL {model}, {crossed})").arrow().to_pylist()
    best = rows(session, f"MODEL {model}, {SOME}, 5, {ALL}, EXCLUDE had")
    for user in range(7):
        own = [row for row in every if row["user"] == user and row["item"] not in row["had"]]
        wanted = sorted((row["predicted_label"] for row in own), reverse=True)[:5]
        found = [row for row in best if row["user"] == user]
        assert [row["rank"] for row in found] == [1, 2, 3, 4, 5]
        assert [row["score"] for row in found] == pytest.approx(wanted, rel=1e-6)
        scores = {row["item"]: row["predicted_label"] for row in own}
        assert [scores[row["item"]] for row in found] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "rows_of"),
    [
        ("pairs", "SELECT had FROM log WHERE user < 40"),
        ("pairs", "SELECT * FROM VALUES (array('i3', 'i3', 'new')), (NULL), (array()), (array('i1', NULL)) AS t(had)"),
        ("pairs", "SELECT flatten(array_repeat(had, 9)) AS had FROM log WHERE user < 7"),  # of which each counts less
        ("apart", "SELECT had FROM log WHERE user < 40"),
        ("risen", "SELECT had FROM log WHERE user < 40"),
        ("weighed", "SELECT * FROM VALUES (map('i3', 2.0D, 'i4', -0.5D)), (map('new', 1.0D)) AS t(had)"),
    ],
)
def test_pairs_score_all_items_at_once_as_predictions_do(session: xpsql.Session, model: str, rows_of: str) -> None:
    every = f"SELECT * FROM (SELECT explode(sequence(0, {ITEMS})) AS n) i CROSS JOIN (SELECT had FROM ({rows_of})) u"
    crossed = f"(SELECT concat('i', n) AS item, had FROM ({every}))"  # with an item that nobody took
    predicted = session.sql(f"SELECT item, had, predicted_label AS p FROM ML.PREDICT(MODEL {model}, {crossed})").arrow()
    wanted = {(row["item"], str(row["had"])): row["p"] for row in predicted.to_pylist()}
    items = f"ITEMS (SELECT concat('i', n) AS item FROM (SELECT explode(sequence(0, {ITEMS})) AS n))"
    asked = f"(SELECT had, array() AS none FROM ({rows_of}))"
    found = rows(session, f"MODEL {model}, {asked}, {ITEMS + 1}, {items}, EXCLUDE none")
    assert {(row["item"], str(row["had"])) for row in found} == {*wanted}
    assert [row["score"] for row in found] == pytest.approx([wanted[row["item"], str(row["had"])] for row in found], rel=1e-6)  # type: ignore[index]


def test_what_users_like_comes_first(session: xpsql.Session) -> None:
    found = rows(session, f"MODEL svd, (SELECT DISTINCT user FROM log), 4, {ALL}")
    liked = [int(str(row["item"])[1:]) % 3 == int(str(row["user"])) % 3 for row in found]
    assert len(found) == 4 * USERS
    assert np.mean(liked) > 0.9  # one item of three


def test_the_history_of_a_model_of_pairs_is_left_out(session: xpsql.Session) -> None:
    found = rows(session, f"MODEL pairs, {SOME}, {ITEMS}, {ALL}")
    assert found
    for row in found:
        assert row["item"] not in row["had"]  # type: ignore[operator]
    last = {row["user"]: (row["rank"], ITEMS - len(row["had"])) for row in found}  # type: ignore[arg-type]
    assert all(rank == left for rank, left in last.values())


def test_an_empty_query_gets_no_recommendations(session: xpsql.Session) -> None:
    assert rows(session, f"MODEL svd, (SELECT user FROM log WHERE user < 0), 3, {ALL}") == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"MODEL svd, {SOME}, 13, {ALL}", r"asked for 13 items, and ITEMS has 12.*line 1"),
        (f"MODEL svd, {SOME}, 0, {ALL}", "1 or more; got 0"),
        (f"MODEL svd, {SOME}, 3", "needs ITEMS"),
        (
            f"MODEL svd, {SOME}, 3, ITEMS (SELECT item FROM log)",
            "ITEMS has the item 'i.*' .* times. Its first column, item, identifies",
        ),
        (f"MODEL svd, {SOME}, 1, ITEMS (SELECT array('a') AS item)", "item identifies items, and is array<string> in ITEMS"),
        (f"MODEL svd, {SOME}, 1, ITEMS (SELECT CAST(NULL AS STRING) AS item)", "whose item is NULL"),
        (f"MODEL svd, {SOME}, 3, {ALL}, EXCLUDE user", "EXCLUDE expects an array of items"),
        (f"MODEL svd, {SOME}, 3, {ALL}, EXCLUDE hat", "EXCLUDE names 'hat'.*Did you mean had"),
        (f"MODEL svd, (SELECT had FROM log), 3, {ALL}", "needs the column user, which neither the query nor ITEMS returns"),
        (f"MODEL svd, TABLE log, 3, {ALL}", "Both the query and ITEMS return item"),
        (f"MODEL svd, (SELECT user, 1 AS rank FROM log), 3, {ALL}", "two columns rank"),
        (f"MODEL words, (SELECT had FROM log), 3, {ALL}", "word2vec has none"),
    ],
)
def test_what_cannot_be_ranked_is_refused(session: xpsql.Session, call: str, message: str) -> None:
    with pytest.raises(xpsql.StatementError, match=message):
        rows(session, call)
