"""ML.NEAREST finds features that mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.training.log import write
from xpsql.platform.progress import SilentReporter

NEAREST = "SELECT n.slot, n.similarity FROM ML.NEAREST(MODEL m, {}) n"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    folder = tmp_path_factory.mktemp("nearest")
    random = np.random.default_rng(0)
    user, item = random.integers(0, 40, 20_000), random.integers(0, 20, 20_000)
    label = (random.random(20_000) < np.where(user % 2 == item % 2, 0.9, 0.1)).astype(
        np.int32
    )  # even likes even, odd likes odd
    table = pa.table({"label": label, "user": user, "item": pa.array([f"i{i}" for i in item])})
    path = write(table, folder / "log.parquet")
    with xpsql.connect(folder / "warehouse", reporter=SilentReporter()) as opened:
        for name, algorithm in (("m", "fm (vector_alpha = 0.2)"), ("plain", "xftrl")):
            opened.sql(f"TRAIN MODEL {name} USING {algorithm} WITH (passes = 3) AS SELECT * FROM parquet.`{path}`")
        opened.sql(
            f"TRAIN MODEL ids USING fm WITH (hashed = (id)) AS SELECT label, CAST(user AS BIGINT) AS id FROM parquet.`{path}`"
        )
        yield opened


def values(session: xpsql.Session, slot: str, value: str, k: int) -> list[object]:
    """Return the values of the nearest features."""
    items = "explode(transform(sequence(0, 19), x -> concat('i', CAST(x AS STRING))))"
    every = items if slot == "item" else "explode(sequence(0, 39))"
    text = (
        f"SELECT value FROM ML.NEAREST(MODEL m, {slot}, {value}, {k}) n JOIN (SELECT {every} AS value) v "
        f"ON n.key = feature_key('{slot}', value) ORDER BY similarity DESC"
    )
    return session.sql(text).arrow().column(0).to_pylist()


@lengthy
@pytest.mark.parametrize(("value", "parity"), [(4, 0), (7, 1)])
def test_the_nearest_users_like_the_same(session: xpsql.Session, value: int, parity: int) -> None:
    found = values(session, "user", str(value), 10)
    assert len(found) == 10
    assert value not in found
    assert {int(str(user)) % 2 for user in found} == {parity}


def test_the_nearest_items_are_liked_by_the_same(session: xpsql.Session) -> None:
    assert {int(str(item)[1:]) % 2 for item in values(session, "item", "'i3'", 5)} == {1}


@costly
def test_of_several_labels_vectors_are_compared_not_their_weights(session: xpsql.Session, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    columns = {name: random.integers(0, 2, 500).astype(np.int32) for name in ("click", "buy")}
    path = write(pa.table({**columns, "item": [f"i{i}" for i in random.integers(0, 20, 500)]}), tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL two USING xnn (dim = 3, hidden = (4, 2)) LABEL click, buy AS SELECT * FROM parquet.`{path}`")
    similarity = session.sql("SELECT similarity FROM ML.NEAREST(MODEL two, item, 'i3', 1)").arrow().column(0).to_pylist()
    rows = session.sql("SELECT weights FROM ML.WEIGHTS(MODEL two) WHERE table = 'vectors' AND slot = 'item'").arrow()
    own = session.sql(
        "SELECT weights FROM ML.WEIGHTS(MODEL two) WHERE table = 'vectors' AND key = feature_key('item', 'i3')"
    ).arrow()
    vectors, one = np.array(rows.column(0).to_pylist()), np.array(own.column(0).to_pylist()[0])
    cosines = vectors @ one / np.linalg.norm(vectors, axis=1) / np.linalg.norm(one)
    assert similarity == [pytest.approx(np.sort(cosines)[-2], abs=1e-5)]


def test_spark_finds_the_same(session: xpsql.Session, spark: SparkSession) -> None:
    text = "SELECT n.key, n.similarity FROM ML.NEAREST(MODEL m, item, 'i3', 7) n ORDER BY n.key"
    with xpsql.connect(session.models.warehouse, spark, SilentReporter()) as there:
        assert there.sql(text).arrow().to_pylist() == session.sql(text).arrow().to_pylist()


def test_more_than_there_are_are_all(session: xpsql.Session) -> None:
    found = session.sql("SELECT * FROM ML.NEAREST(MODEL m, item, 'i3', 10000000000000)").arrow()
    assert found == session.sql("SELECT * FROM ML.NEAREST(MODEL m, item, 'i3', 1000)").arrow()


def test_similarities_are_cosines_in_falling_order(session: xpsql.Session) -> None:
    found = session.sql(NEAREST.format("item, 'i3', 100")).arrow()
    similarity = found["similarity"].to_pylist()
    assert found["slot"].to_pylist() == ["item"] * 19
    assert similarity == sorted(similarity, reverse=True)
    assert -1.001 <= similarity[-1] < 0 < similarity[0] <= 1.001


@costly
def test_those_of_a_query_are_those_of_each_of_its_values(session: xpsql.Session, spark: SparkSession) -> None:
    query = "(SELECT * FROM VALUES ('i3', 1), ('never', 2), ('i4', 3), ('i3', 4) AS t(item, id))"
    text = f"SELECT * FROM ML.NEAREST(MODEL m, item, {query}, 3)"
    found = session.sql(text).arrow()
    assert found.column_names == ["item", "id", "slot", "key", "similarity"]
    assert found["id"].to_pylist() == [1] * 3 + [3] * 3 + [4] * 3  # nothing is near what the model has not seen
    for item, start in (("i3", 0), ("i4", 3), ("i3", 6)):
        own = session.sql(f"SELECT * FROM ML.NEAREST(MODEL m, item, '{item}', 3)").arrow()
        assert found.slice(start, 3).select(["slot", "key"]).to_pylist() == own.select(["slot", "key"]).to_pylist()
        assert found["similarity"].to_pylist()[start : start + 3] == pytest.approx(own["similarity"].to_pylist(), abs=1e-6)
    with xpsql.connect(session.models.warehouse, spark, SilentReporter()) as there:
        assert there.sql(text).arrow().to_pylist() == found.to_pylist()
    assert session.sql("SELECT * FROM ML.NEAREST(MODEL m, item, (SELECT 'a' AS v WHERE FALSE), 3)").arrow().num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("MODEL m, item, (SELECT 1.5D AS item), 5", "STRING, a whole number or BOOLEAN; item is double. Use CAST"),
        ("MODEL m, item, (SELECT array('a') AS item), 5", "item is array<string>. Use CAST"),
        ("MODEL ids, id, (SELECT 'a' AS id), 5", "BIGINT without NULL, as it holds ready-made ids; id is string"),
        ("MODEL m, item, (SELECT 'i3' AS key), 5", "two columns key; rename the query's column"),
        ("MODEL m, item, (SELECT nothing), 5", "nothing.*line 1"),
        ("MODEL plain, item, 'i3', 5", "compares vectors, and xftrl has none. Use a model of fm, ffm, .*, xsvd.* or line"),
        ("MODEL m, itme, 'i3', 5", "has no slot 'itme' of categories. Did you mean item"),
        ("MODEL m, item, 'never', 5", "has not seen this feature"),
        ("MODEL m, user, 4.5, 5", "takes a value of user as a string, a whole number, TRUE, FALSE or NULL; got 4.5"),
        ("MODEL m, user, (4, 5), 5", "a whole number, TRUE, FALSE or NULL; got \\(4, 5\\)"),
        ("MODEL m, user, 100000000000000000000, 5", "has not seen this feature"),
        ("MODEL m, user, NULL, 5", "has no vector of user = NULL: it has not seen this feature"),
        ("MODEL m, user, TRUE, 5", "has no vector of user = TRUE: it has not seen this feature"),
        ("MODEL ids, id, TRUE, 5", "The slot id holds ready-made ids, which are integers of 64 bits; got TRUE"),
        ("MODEL ids, id, NULL, 5", "which are integers of 64 bits; got NULL"),
        ("MODEL m, item, 'i3', 0", "1 or more, got 0"),
        ("MODEL m, item, 'i3', 'five'", "1 or more, got 'five'"),
        ("MODEL m, item, 'i3', TRUE", "1 or more, got TRUE"),
    ],
)
def test_what_cannot_be_answered_is_refused(session: xpsql.Session, arguments: str, message: str) -> None:
    with pytest.raises(xpsql.StatementError, match=message):
        session.sql(f"SELECT * FROM ML.NEAREST({arguments})")
