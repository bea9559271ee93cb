"""Features by key: SQL at a point in time says what the definition says, and the service what SQL says."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.serving.conftest import Client, failing
from xpsql.platform.errors import ModelError, StatementError, XpsqlError
from xpsql.platform.feature_tables.kept_features import StoredFeatures
from xpsql.platform.histories.stored import StoredHistories
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.features_lookup import FeatureLookup, counted, lookups_of
from xpsql.platform.serving.histories import FilledColumns
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

Known = tuple[str | None, int | None, int | None]  # user, updated, age
Asked = tuple[str | None, int | None]  # who, ts
USERS = """SELECT * FROM VALUES ('u1', 20, 'free', DATE '2024-01-30'), ('u2', 35, 'paid', DATE '2024-02-01'),
           ('u3', NULL, NULL, NULL) AS t (user, age, plan, since)"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


def rows(session: xpsql.Session, query: str) -> list[dict[str, Any]]:
    return session.sql(query).arrow().to_pylist()


def drawn(seed: int) -> tuple[list[Known], list[Asked]]:
    """Return what is known of users since when, with gaps, and what is asked, of which many tie with it."""
    draw = random.Random(seed)
    users = ["a", "b", "c", None]
    known = {(draw.choice(users), draw.choice([None, *range(40)])): draw.choice([None, *range(90)]) for _ in range(300)}
    asked = [(draw.choice([*users, "nobody"]), draw.choice([None, *range(45)])) for _ in range(400)]
    return [(*key, age) for key, age in known.items()], asked


def as_known(known: Sequence[Known], user: str | None, ts: int | None) -> int | None:
    """Return the age that was known of a user strictly before a time: the definition."""
    before = [one for one in known if one[0] == user is not None and one[1] is not None and ts is not None and one[1] < ts]
    return max(before, key=lambda one: one[1] or 0)[2] if before else None


def given(session: xpsql.Session, known: Sequence[Known], asked: Sequence[Asked]) -> None:
    columns = pa.schema([("user", pa.string()), ("updated", pa.int32()), ("age", pa.int32())])
    session.engine.register_rows("known", pa.table(list(zip(*known, strict=True)), schema=columns))
    numbered = [(number, *one) for number, one in enumerate(asked)]
    columns = pa.schema([("n", pa.int32()), ("who", pa.string()), ("ts", pa.int32())])
    session.engine.register_rows("asked", pa.table(list(zip(*numbered, strict=True)), schema=columns))


AT = "SELECT n, age FROM ML.FEATURES_AT(TABLE asked, users, KEY who, TIME ts) ORDER BY n"


@costly_after_first
def test_a_row_has_what_was_known_strictly_before_its_time(tmp_path: Path, engine: str | SparkSession) -> None:
    known, asked = drawn(1)
    with xpsql.connect(tmp_path / "warehouse", engine=engine, reporter=SilentReporter()) as session:
        given(session, known, asked)
        session.sql("CREATE FEATURES users KEY user TIME updated AS SELECT user, age, updated FROM known")
        found = session.sql(AT).arrow()
        assert found.column("age").to_pylist() == [as_known(known, *one) for one in asked]
        session.sql("CREATE FEATURES latest KEY who AS SELECT user AS who, max(age) AS most FROM known GROUP BY user")
        most = (
            session.sql("SELECT n, most FROM ML.FEATURES_AT(TABLE asked, latest) ORDER BY n").arrow().column("most").to_pylist()
        )
        of = {name: [age for user, _, age in known if user == name and age is not None] for name in ("a", "b", "c")}
        assert most == [max(of[who]) if who in of else None for who, _ in asked]


def test_other_futures_change_no_past(session: xpsql.Session) -> None:
    known, asked = drawn(2)
    past = [one for one in asked if one[1] is not None and one[1] <= 20]
    given(session, known, past)
    session.sql("CREATE FEATURES users KEY user TIME updated AS SELECT * FROM known")
    before = rows(session, AT)
    future = [
        (user, updated, -1) if updated is not None and updated >= 20 else (user, updated, age) for user, updated, age in known
    ]
    given(session, future, past)
    session.sql("REFRESH FEATURES users")
    assert rows(session, AT) == before


def test_a_key_with_two_rows_is_refused_at_its_column(session: xpsql.Session) -> None:
    query = "SELECT * FROM VALUES ('a', 1, 5), ('a', 2, 5) AS t (k, x, t)"
    with pytest.raises(StatementError, match=r"2 rows with k = 'a'\. .* TIME column") as refused:
        session.sql(f"CREATE FEATURES f KEY k AS {query}")
    assert refused.value.position is not None
    assert refused.value.position.text == "k"
    with pytest.raises(StatementError, match="2 rows with k = 'a' and t = '5'"):
        session.sql(f"CREATE FEATURES f KEY k TIME t AS {query}")
    assert rows(session, "SHOW FEATURES") == []


REFUSED = [
    ("CREATE FEATURES f KEY x AS SELECT 1 AS k, 2 AS v", "no column x", "x"),
    ("CREATE FEATURES f KEY k TIME x AS SELECT 1 AS k, 2 AS v", "no column x", "x"),
    ("CREATE FEATURES f KEY k AS SELECT 1.5 AS k, 2 AS v", "KEY takes a text or a whole number", "k"),
    ("CREATE FEATURES f KEY k TIME v AS SELECT 1 AS k, 'x' AS v", "TIME takes a timestamp", "v"),
    ("CREATE FEATURES f KEY k AS SELECT 1 AS k", "a column other than k", "k"),
    (
        "CREATE FEATURES users KEY user AS SELECT 1 AS user, 2 AS v",
        "feature table users exists. REFRESH FEATURES users reads new rows",
        "",
    ),
    ("REFRESH FEATURES user", "no feature table user. Did you mean users", ""),
    ("DROP FEATURES other", "no feature table other", ""),
    ("SELECT * FROM ML.FEATURES_AT(TABLE log, nobody)", "no feature table nobody", "nobody"),
    (
        "SELECT * FROM ML.FEATURES_AT(TABLE log, users, KEY whom)",
        "no column whom. Did you mean who.*KEY names a column",
        "whom",
    ),
    ("SELECT * FROM ML.FEATURES_AT(TABLE log, users, KEY id)", "KEY id is int, and user of users is string", "id"),
    ("SELECT * FROM ML.FEATURES_AT(TABLE log, users)", "no column user.*which column of the query it is: KEY column", "users"),
    ("SELECT * FROM ML.FEATURES_AT(TABLE log, users, KEY who, TIME id)", "has no TIME", "id"),
    ("SELECT * FROM ML.FEATURES_AT((SELECT who, 1 AS age FROM log), users, KEY who)", "returns age", "users"),
    ("SELECT * FROM ML.FEATURES_AT(TABLE log, users, KEY who, KEY who)", "KEY is given twice", "KEY"),
]


def test_what_cannot_be_is_refused_at_its_place(session: xpsql.Session) -> None:
    session.sql(f"CREATE FEATURES users KEY user AS {USERS}")
    session.sql("CREATE TABLE log AS SELECT 'u1' AS who, 1 AS id")
    for statement, message, place in REFUSED:
        with pytest.raises(XpsqlError, match=message) as refused:
            session.sql(statement)
        if place:
            assert isinstance(refused.value, StatementError)
            assert refused.value.position is not None, statement
            assert refused.value.position.text == place, statement
    assert [row["features"] for row in rows(session, "SHOW FEATURES")] == ["users"]


def test_words_of_the_statements_stay_names(session: xpsql.Session) -> None:
    session.sql("CREATE TABLE features AS SELECT 1 AS features, 2 AS key, 3 AS refresh")
    assert rows(session, "SELECT features, key, refresh FROM features") == [{"features": 1, "key": 2, "refresh": 3}]
    assert [row["col_name"] for row in rows(session, "DESCRIBE features")] == ["features", "key", "refresh"]
    session.sql("CREATE FEATURES features KEY key AS SELECT * FROM features")
    (row,) = rows(session, "SELECT * FROM ML.FEATURES_AT((SELECT 2 AS key), features)")
    assert row == {"key": 2, "features": 1, "refresh": 3}


def test_replacing_keeps_the_name_and_describing_tells_what_was_read(session: xpsql.Session) -> None:
    session.sql(f"CREATE TABLE dim AS {USERS}")
    session.sql("CREATE FEATURES users KEY user AS SELECT user, age FROM dim")
    with pytest.raises(StatementError, match="nothing"):
        session.sql("CREATE OR REPLACE FEATURES users KEY user AS SELECT user, nothing FROM dim")
    assert StoredFeatures(session.models.warehouse).definition("users").values == ("age",)
    session.sql("CREATE OR REPLACE FEATURES users KEY user AS SELECT user, plan FROM dim")
    described = {row["property"]: row["value"] for row in rows(session, "DESCRIBE FEATURES users")}
    assert (described["columns"], described["version"], described["keys"]) == ("plan", "2", "3")
    assert described["sources"] == "table dim"
    session.sql("DROP FEATURES users")
    session.sql("DROP FEATURES IF EXISTS users")
    assert rows(session, "SHOW FEATURES") == []


KILLED = """
import os, sys, xpsql
from xpsql.platform.feature_tables.kept_features import StoredFeatures
StoredFeatures.publish = lambda *arguments: os.kill(os.getpid(), 9)  # all files are there, the version is not
xpsql.connect(sys.argv[1]).sql(sys.argv[2])
"""


ANEW = "CREATE OR REPLACE FEATURES users KEY k AS SELECT 'x' AS k, 1 AS v"


@lengthy
@costly_after_first
@pytest.mark.parametrize("statement", ["REFRESH FEATURES users", ANEW])
def test_whoever_is_killed_before_the_commit_leaves_the_version_before(session: xpsql.Session, statement: str) -> None:
    session.sql(f"CREATE FEATURES users KEY user AS {USERS}")
    features, query = StoredFeatures(session.models.warehouse), "SELECT * FROM ML.FEATURES_AT((SELECT 'u1' AS user), users)"
    before, found = features.newest("users"), rows(session, query)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(session.models.warehouse), statement], timeout=300, check=False)
    assert killed.returncode == -9
    assert list((session.models.warehouse / "features" / "users").glob(".draft-*"))
    assert (features.newest("users"), rows(session, query)) == (before, found)
    session.sql("REFRESH FEATURES users")
    assert rows(session, query) == found
    assert not list((session.models.warehouse / "features" / "users").glob(".draft-*"))


def filling(session: xpsql.Session, *names: str) -> FilledColumns:
    tables = lookups_of(StoredFeatures(session.models.warehouse), names)
    return FilledColumns(StoredHistories(session.models.warehouse), [], print, tables)


def test_a_request_gets_the_features_that_it_lacks(session: xpsql.Session) -> None:
    session.sql(f"CREATE FEATURES users KEY user AS {USERS}")
    fill = filling(session, "users").filled
    assert fill([{"user": "u1", "ad": 1}], {}) == (
        [{"user": "u1", "ad": 1, "age": 20, "plan": "free", "since": "2024-01-30"}], {},
    )  # fmt: skip
    own = {"User": "u2", "AGE": 7, "plan": None}
    assert fill([own], {})[0] == [{**own, "since": "2024-02-01"}]
    unknown = {"user": "nobody", "age": None, "plan": None, "since": None}
    assert fill([{"user": "nobody"}, {"ad": 1}], {})[0] == [unknown, {"ad": 1}]
    assert fill([{"ad": 1, "plan": "x"}], {"user": "u1"}) == (
        [{"ad": 1, "plan": "x"}], {"user": "u1", "age": 20, "since": "2024-01-30"},
    )  # fmt: skip
    assert fill([{"user": "u1"}], {"age": 3})[0] == [{"user": "u1", "plan": "free", "since": "2024-01-30"}]


def test_two_tables_with_one_column_are_refused(session: xpsql.Session) -> None:
    session.sql(f"CREATE FEATURES users KEY user AS {USERS}")
    session.sql("CREATE FEATURES ads KEY ad AS SELECT 1 AS ad, 2 AS AGE")
    with pytest.raises(StatementError, match="--features users and --features ads both have the column AGE"):
        filling(session, "users", "ads")
    with pytest.raises(ModelError, match=r"no feature table user\. Did you mean users"):
        filling(session, "user")


def test_a_service_reads_on_while_features_are_refreshed(session: xpsql.Session) -> None:
    session.sql("CREATE TABLE dim AS SELECT concat('u', id) AS user, 0 AS round FROM range(500)")
    session.sql("CREATE FEATURES users KEY user AS SELECT * FROM dim")
    table = FeatureLookup(StoredFeatures(session.models.warehouse), "users")
    for number in range(1, 6):
        session.sql(f"CREATE OR REPLACE TABLE dim AS SELECT concat('u', id) AS user, {number} AS round FROM range(500)")
        session.sql("REFRESH FEATURES users")
        assert table.filled([{"user": "u7"}], {})[0][0]["round"] == number - 1  # its version stays while it is read
        table.refresh()
        assert [row["round"] for row in table.filled([{"user": f"u{id}"} for id in range(500)], {})[0]] == [number] * 500
    assert (table.found, table.missing) == (5 * 501, 0)


def test_with_time_a_service_answers_what_is_known_now(session: xpsql.Session) -> None:
    session.sql(
        "CREATE FEATURES users KEY user TIME t AS SELECT * FROM VALUES (1, TIMESTAMP '2001-01-01 00:00:00', 'then'), "
        "(1, TIMESTAMP '2002-01-01 00:00:00', 'now'), (1, TIMESTAMP '9000-01-01 00:00:00', 'later') AS v (user, t, x)"
    )
    assert filling(session, "users").filled([{"user": 1}], {})[0] == [{"user": 1, "x": "now"}]


def test_a_damaged_image_is_an_error_that_says_what_to_do(session: xpsql.Session) -> None:
    session.sql(f"CREATE FEATURES users KEY user AS {USERS}")
    version = StoredFeatures(session.models.warehouse).newest("users")
    assert version is not None
    path = version.folder / "image" / "users.arrow"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="REFRESH FEATURES makes another"):
        filling(session, "users")


@costly
def test_what_is_served_is_what_queries_predict(session: xpsql.Session) -> None:
    session.sql(
        "CREATE TABLE dim AS SELECT concat('u', id) AS user, CAST(id * 7 % 50 AS DOUBLE) AS age, concat('p', id % 3) AS plan "
        "FROM range(40)"
    )
    session.sql("CREATE FEATURES users KEY user AS SELECT * FROM dim")
    session.sql("CREATE TABLE log AS SELECT id, concat('u', id % 45) AS user, id % 6 AS ad, id % 2 AS click FROM range(900)")
    rows_at = "SELECT * FROM ML.FEATURES_AT(TABLE log, users)"
    session.sql(f"TRAIN MODEL ctr USING xftrl LABEL click IGNORE (id) TRANSFORM (bucketize(age, array(10, 30)) AS age, *"
                f" EXCEPT (age)) CROSS (plan * ad) AS {rows_at}")  # fmt: skip
    predicted = rows(session, f"SELECT id, predicted_click FROM ML.PREDICT(MODEL ctr, ({rows_at})) WHERE id < 45 ORDER BY id")
    columns = filling(session, "users")
    service = Service(
        Served(session.models, ["ctr"], None, print), RequestLimits(), None, None, failing, columns.filled, None,
        counted(columns.tables),
    )  # fmt: skip
    client = Client(service)
    asked = [{"user": f"u{id % 45}", "ad": id % 6} for id in range(45)]
    assert client.predict({"instances": asked}) == [row["predicted_click"] for row in predicted]
    ads = [{"ad": ad} for ad in range(6)]
    assert client.predict({"context": {"user": "u4"}, "candidates": ads}) == client.predict(
        {"instances": [{"user": "u4", **ad} for ad in ads]}
    )
    said = client.get("/metrics").body.decode()
    assert 'xpsql_feature_lookups_total{table="users",found="true"} 47' in said
    assert 'xpsql_feature_lookups_total{table="users",found="false"} 5' in said
    assert 'xpsql_features_age_seconds{table="users"} ' in said
