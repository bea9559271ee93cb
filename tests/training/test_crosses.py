"""CROSS: combinations of slots in training, and wherever the model is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import xpsql
from tests.cases import costly, costly_after_first
from tests.serving.conftest import Client, failing
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served
from xpsql.platform.sql.statements.resume import plan_of
from xpsql.platform.training.clauses.cross import CROSS

LOG = """
SELECT id, concat('a|', id % 9) AS animal, CASE WHEN id % 13 > 0 THEN CAST(id * 7 % 11 AS INT) END AS food, id % 2 = 0 AS day,
    array(concat('t', id % 4), concat('t', id % 6)) AS tags, CAST(id % 17 AS DOUBLE) AS price,
    CAST((id % 9 + id * 7 % 11) % 2 = 0 AS INT) AS click
FROM range(4000)
"""
TERMS = "animal * food, (animal, food, day) ^ 3, animal * tags"
NAMES = {"animal*food", "animal*food*day", "animal*tags"}
ROWS = "SELECT slot, key, weight, count FROM ML.WEIGHTS(MODEL {model}) ORDER BY key"
BY_HAND = """cross(animal, food) AS `animal*food`, cross(animal, food, day) AS `animal*food*day`,
    transform(tags, t -> cross(animal, t)) AS `animal*tags`"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        session.sql(f"TRAIN MODEL ctr USING xftrl LABEL click IGNORE (id) CROSS ({TERMS}) AS SELECT * FROM log")
        session.sql(f"TRAIN MODEL hand USING xftrl LABEL click IGNORE (id) AS SELECT *, {BY_HAND} FROM log")
        yield session


def rows(session: xpsql.Session, text: str) -> list[dict[str, Any]]:
    return list(session.sql(text).arrow().to_pylist())


def test_crosses_have_the_rows_that_the_function_cross_gives(session: xpsql.Session) -> None:
    one, other = (rows(session, ROWS.format(model=model)) for model in ("ctr", "hand"))
    assert {row["slot"] for row in one} > NAMES
    assert len(one) > 300
    assert one == other


def test_a_pure_interaction_is_learned_by_its_cross_alone(session: xpsql.Session) -> None:
    query = "(SELECT animal, food, click FROM log)"
    session.sql(f"TRAIN MODEL without USING xftrl LABEL click AS {query[1:-1]}")
    session.sql(f"TRAIN MODEL with_cross USING xftrl LABEL click CROSS (animal * food) AS {query[1:-1]}")
    found = [rows(session, f"SELECT auc FROM ML.EVALUATE(MODEL {m}, {query})")[0]["auc"] for m in ("without", "with_cross")]
    assert found[0] < 0.7
    assert found[1] > 0.98


def test_feature_key_finds_the_row_of_a_cross(session: xpsql.Session) -> None:
    query = "SELECT DISTINCT feature_key('animal*food', animal, food) AS key FROM log"
    keys = {row["key"] for row in rows(session, query)}
    stored = rows(session, "SELECT key FROM ML.WEIGHTS(MODEL ctr) WHERE slot = 'animal*food'")
    assert keys == {row["key"] for row in stored}
    assert len(keys) > 100


def test_scoring_takes_the_members_alone(session: xpsql.Session) -> None:
    scored, wanted = (
        rows(session, f"SELECT predicted_click FROM ML.PREDICT(MODEL {model}, (SELECT *{more} FROM log))")
        for model, more in (("ctr", ""), ("hand", f", {BY_HAND}"))
    )
    assert scored == wanted
    with pytest.raises(StatementError, match="The model needs the column food"):
        session.sql("SELECT * FROM ML.PREDICT(MODEL ctr, (SELECT * EXCEPT (food) FROM log))")


def test_the_service_takes_the_members_alone(session: xpsql.Session) -> None:
    query = "SELECT animal, food, day, tags, price FROM log LIMIT 40"
    client = Client(Service(Served(session.models, ["ctr"], None, print), RequestLimits(), None, None, failing))
    wanted = [r["predicted_click"] for r in rows(session, f"SELECT predicted_click FROM ML.PREDICT(MODEL ctr, ({query}))")]
    assert client.predict({"instances": rows(session, query)}) == pytest.approx(wanted, abs=1e-7)


@costly
def test_continue_keeps_the_crosses(session: xpsql.Session) -> None:
    for model, more in (("ctr", ""), ("hand", f", {BY_HAND}")):
        session.sql(f"CONTINUE MODEL {model} AS SELECT *{more}, 'new' AS late FROM log WHERE id < 1000")
    assert rows(session, ROWS.format(model="ctr VERSION 2")) == rows(session, ROWS.format(model="hand VERSION 2"))
    session.sql(
        "CONTINUE MODEL ctr CROSS (ANIMAL*food, (animal, food, day)^3, animal*tags) AS SELECT *, 'new' AS late FROM log"
    )
    with pytest.raises(StatementError, match=r"keeps the crosses of version 3: \(animal \* food, ") as refused:
        session.sql("CONTINUE MODEL ctr CROSS (animal * day) AS SELECT *, 'new' AS late FROM log")
    assert refused.value.position is not None
    assert refused.value.position.text == "CROSS (animal * day)"
    with pytest.raises(StatementError, match="which the model makes by CROSS"):
        session.sql("CONTINUE MODEL ctr AS SELECT *, 'new' AS late, 1 AS `animal*food` FROM log")
    with pytest.raises(StatementError, match="CONTINUE keeps the crosses of version 2: none"):
        session.sql(f"CONTINUE MODEL hand CROSS (animal * day) AS SELECT *, {BY_HAND}, 'new' AS late FROM log")
    session.sql("ALTER MODEL ctr PROMOTE VERSION 1")


@costly
def test_crosses_see_what_transform_computes(session: xpsql.Session) -> None:
    listed = "bucketize(price, QUANTILES(price, 4)) AS price, * EXCEPT (price, id)"
    session.sql(f"TRAIN MODEL cut USING xftrl LABEL click TRANSFORM ({listed}) CROSS (price * food) AS SELECT * FROM log")
    listed = f"{listed}, cross(bucketize(price, QUANTILES(price, 4)), food) AS `price*food`"
    session.sql(f"TRAIN MODEL cut_by_hand USING xftrl LABEL click TRANSFORM ({listed}) AS SELECT * FROM log")
    key = "SELECT slot, key, count FROM ML.WEIGHTS(MODEL {}) ORDER BY key"
    assert rows(session, key.format("cut")) == rows(session, key.format("cut_by_hand"))
    scored = rows(
        session, "SELECT predicted_click FROM ML.PREDICT(MODEL cut, (SELECT animal, food, day, tags, price FROM log))"
    )
    assert len(scored) == 4000


def test_rows_held_out_are_crossed_too(session: xpsql.Session) -> None:
    session.sql(
        "TRAIN MODEL held USING xftrl LABEL click CROSS (animal * food) VALIDATE ON (SELECT * FROM log WHERE id < 500) "
        "AS SELECT * FROM log WHERE id >= 500"
    )
    (wanted,) = rows(session, "SELECT auc FROM ML.EVALUATE(MODEL held, (SELECT * FROM log WHERE id < 500))")
    assert session.models.version("held").manifest.validation["auc"] == pytest.approx(wanted["auc"], abs=1e-6)


@costly
@pytest.mark.parametrize("algorithm", ["xnn (dim = 2, hidden = 4)", "fm (dim = 2)", "ffm (dim = 2)", "owlqn"])
def test_other_algorithms_learn_crosses(session: xpsql.Session, algorithm: str) -> None:
    session.sql(
        f"TRAIN OR REPLACE MODEL other USING {algorithm} LABEL click CROSS (* ^ 2) AS SELECT * EXCEPT (id, price) FROM log"
    )
    reported = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL other")}
    assert len([name for name in reported if name.startswith("slot ") and "*" in name]) == 6
    (found,) = rows(session, "SELECT auc FROM ML.EVALUATE(MODEL other, TABLE log)")
    assert found["auc"] > 0.7


def test_an_algorithm_that_makes_rows_of_its_own_takes_no_crosses(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="combines the slots of a row, and xsvd makes rows of its own") as refused:
        session.sql(
            "TRAIN MODEL no USING xsvd (user = animal, item = food, negatives = 1) LABEL click CROSS (animal * food) "
            "AS SELECT animal, food, click FROM log"
        )
    assert refused.value.position is not None
    assert refused.value.position.text == "CROSS (animal * food)"


def test_a_version_tells_its_crosses(session: xpsql.Session) -> None:
    reported = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL hand")}
    assert "cross" not in reported
    reported = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL ctr VERSION 1")}
    assert reported["cross"] == TERMS
    assert reported["slot animal*food"] == "categorical, string, crosses animal, food"
    options = rows(session, "SELECT option, value FROM ML.OPTIONS(MODEL ctr VERSION 1) WHERE clause = 'CROSS'")
    assert options[0] == {"option": "animal*food", "value": "('animal', 'food')"}
    explained = rows(session, f"EXPLAIN TRAIN MODEL e USING xftrl LABEL click CROSS ({TERMS}) AS SELECT * FROM log")
    assert {"property": "slot animal*tags", "value": "multi-valued (string), crosses animal, tags"} in explained


def test_crosses_go_with_their_members_where_values_are_exchanged(session: xpsql.Session) -> None:
    query = "SELECT animal, food, click FROM log"
    session.sql(f"TRAIN MODEL pure USING xftrl LABEL click CROSS (animal * food) AS {query}")
    found = rows(session, f"SELECT slot, auc_decrease FROM ML.FEATURE_IMPORTANCE(MODEL pure, ({query}))")
    assert {row["slot"] for row in found} == {"animal", "food"}
    assert all(row["auc_decrease"] > 0.3 for row in found), "each alone tells little, and the cross needs both"
    explained = rows(session, f"SELECT * FROM ML.EXPLAIN_PREDICT(MODEL pure, ({query} LIMIT 1), 3, BASELINE ({query}))")
    assert "animal*food" in {one["feature"] for one in explained[0]["top_feature_attributions"]}


def test_resume_has_the_terms_of_the_statement(session: xpsql.Session) -> None:
    manifest = session.models.version("ctr", 1).manifest
    crosses = plan_of(manifest, session.models.warehouse).clause(CROSS)
    assert [term.text for term in crosses] == ["animal * food", "(animal, food, day) ^ 3", "animal * tags"]
    assert crosses[1].names == ("animal", "food", "day")


@costly_after_first
@pytest.mark.parametrize(
    ("terms", "place", "words"),
    [
        ("animal * foot", "animal * foot", "names 'foot', which is not learned from. Did you mean food"),
        ("day * food, animal * price", "animal * price", "price is continuous"),
        ("animal * click", "animal * click", "names 'click', which is not learned from"),
        ("animal * ANIMAL", "animal * ANIMAL", "names ANIMAL twice"),
        ("(food, animal, food) ^ 2", "(food, animal, food) ^ 2", "names food twice"),
        ("animal", "animal", "combines 2 to 4 slots; animal combines 1"),
        ("* ^ 5", "* ^ 5", "combines 5"),
        ("(animal, food) ^ 3", "(animal, food) ^ 3", "combines 3 of 2 slots"),
        ("animal * food, animal * food", "animal * food", "has animal \\* food twice"),
        ("animal * food, food * animal", "food * animal", "animal\\*food is the same cross"),
        ("(animal, food)", ")", "Expected '\\^'"),
        ("animal * 3", "3", "Expected a slot"),
    ],
)
def test_terms_that_make_no_cross_are_refused_with_their_place(
    session: xpsql.Session, terms: str, place: str, words: str
) -> None:
    with pytest.raises(StatementError, match=words) as refused:
        session.sql(f"TRAIN MODEL no USING xftrl LABEL click CROSS ({terms}) AS SELECT * FROM log")
    assert refused.value.position is not None
    assert refused.value.position.text == place
    assert not session.models.exists("no")
