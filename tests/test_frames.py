"""Frames in memory: registering them, what results give back, bound parameters, and models from Python."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.frames import arrow_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring.scorer_cache import Scorers


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path, reporter=SilentReporter()) as session:
        yield session


class Stream:
    """Whatever else gives an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table({"n": [1, 2]}).__arrow_c_stream__(requested_schema)


TABLE = pa.table({"n": [1, 2]})


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(TABLE, id="table"),
        pytest.param(TABLE.to_batches()[0], id="batch"),
        pytest.param(TABLE.to_reader(), id="reader"),
        pytest.param(Stream(), id="stream"),
        pytest.param(pd.DataFrame({"n": [1, 2]}), id="pandas"),
    ],
)
def test_a_frame_is_a_table_of_the_session_until_it_is_unregistered(session: xpsql.Session, frame: object) -> None:
    session.register("log", frame)
    assert session.sql("SELECT sum(n) FROM LOG").fetchall() == [(3,)]
    assert session.sql("SELECT sum(n) FROM log").fetchall() == [(3,)]
    session.unregister("log")
    with pytest.raises(xpsql.StatementError, match="There is no table or view log"):
        session.sql("SELECT * FROM log")


def test_polars_comes_and_goes(session: xpsql.Session) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"s": ["x", None], "l": [[1], [2, 3]], "c": pl.Series(["u", "u"], dtype=pl.Categorical)})
    session.register("log", frame)
    assert session.sql("SELECT s, l, c FROM log").fetchall() == [("x", [1], "u"), (None, [2, 3], "u")]
    assert session.sql("SELECT s FROM log").pl().equals(frame.select("s"))
    assert pl.DataFrame(session.sql("SELECT s FROM log")).equals(frame.select("s"))


def test_a_frame_of_numbers_is_not_copied() -> None:
    column = np.arange(1000.0)
    frame = pd.DataFrame({"a": column}, copy=False)
    assert arrow_of(frame).column("a").chunk(0).buffers()[1].address == column.__array_interface__["data"][0]
    table = pa.table({"a": column})
    assert arrow_of(table) is table


def test_a_registered_frame_hides_a_table_and_a_second_one_replaces_it(session: xpsql.Session) -> None:
    session.sql("CREATE TABLE log AS SELECT 0 AS n")
    session.register("log", TABLE)
    session.register("log", TABLE.slice(1))
    assert session.sql("SELECT n FROM log").fetchall() == [(2,)]
    session.unregister("log")
    assert session.sql("SELECT n FROM log").fetchall() == [(0,)]


def test_views_and_joins_read_registered_frames(session: xpsql.Session) -> None:
    session.register("a", TABLE)
    session.sql("CREATE TEMPORARY VIEW v AS SELECT n * 10 AS m FROM a")
    assert session.sql("SELECT m FROM v JOIN a ON m = n * 10 WHERE n = 2").fetchall() == [(20,)]
    with pytest.raises(xpsql.StatementError, match="would outlive"):
        session.sql("CREATE VIEW w AS SELECT * FROM a")


@pytest.mark.parametrize(
    ("name", "frame", "message"),
    [
        ("a b", TABLE, "Expected a name of letters"),
        ("xpsql_x", TABLE, "Expected a name of letters"),
        (None, TABLE, "Expected a name of letters.*got None"),
        ("log", [1, 2], "Expected a pandas or Polars frame.* got list"),
        ("log", pa.table([[1], [2]], names=["a", "A"]), "do not differ by their names: 'a', 'A'"),
        ("log", pd.DataFrame([[1, 2]], columns=["a", "a"]), "do not differ by their names: 'a', 'a'"),
        ("log", pd.DataFrame(), "The frame has no columns"),
        ("log", pd.DataFrame({"x": [1, "a"]}), "column x"),
    ],
)
def test_what_is_no_frame_is_refused(session: xpsql.Session, name: Any, frame: object, message: str) -> None:
    with pytest.raises(xpsql.StatementError, match=message):
        session.register(name, frame)


def test_unregistering_an_unknown_name_is_refused(session: xpsql.Session) -> None:
    session.register("log", TABLE)
    with pytest.raises(xpsql.StatementError, match=r"No frame is registered as 'lgo'\. Did you mean log\?"):
        session.unregister("lgo")


def test_a_result_is_read_in_many_ways(session: xpsql.Session) -> None:
    result = session.sql("SELECT * FROM VALUES (1, 'a'), (2, NULL), (3, 'c') AS t(n, s) ORDER BY n")
    assert (len(result), result.columns, bool(result)) == (3, ["n", "s"], True)
    assert list(result) == [(1, "a"), (2, None), (3, "c")]
    assert [result.fetchone(), result.fetchmany(1), result.fetchall(), result.fetchone()] == [
        *((1, "a"), [(2, None)], [(3, "c")], None),
    ]
    assert pa.table(result).equals(result.arrow())
    assert result.df().equals(result.to_pandas())
    assert repr(session.sql("DROP TABLE IF EXISTS t")) == "OK"
    assert len(session.sql("DROP TABLE IF EXISTS t")) == 0


LITERALS = [
    *(
        None,
        True,
        1,
        -2,
        2**63 - 1,
        -(2**63),
        10**30,
        1.5,
        -2.5,
        1e-300,
        float("inf"),
        Decimal("1.25"),
        "",
        "it's",
        "a\\n\n?:x${",
    ),
    *(b"\0x", datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC), [1, 2], ["a"]),
]


@lengthy
@pytest.mark.parametrize("value", LITERALS, ids=repr)
def test_a_parameter_is_the_value_that_it_was(session: xpsql.Session, value: object) -> None:
    (by_order,) = session.sql("SELECT ? AS v", [value]).fetchall()
    (by_name,) = session.sql("SELECT :v AS v -- :w", {"v": value}).fetchall()
    assert by_order == by_name == (value,)
    if isinstance(value, float):
        assert session.sql("SELECT ? AS v", [value]).arrow().schema.field("v").type == pa.float64()


def test_parameters_stand_among_signs_casts_slices_and_texts(session: xpsql.Session) -> None:
    assert session.sql("SELECT 1 -? AS a, '?' AS b", [-3]).fetchall() == [(4, "?")]
    statement = "SELECT CAST(:n AS STRING) AS a, ':n' AS b, `:n` AS c FROM (SELECT :n+:n AS `:n`)"
    assert session.sql(statement, {"n": 2}).fetchall() == [("2", ":n", 4)]
    assert session.sql("SELECT ${what} AS a", ["x"][:0], what="'?'").fetchall() == [("?",)]


@pytest.mark.parametrize(
    ("statement", "parameters", "message"),
    [
        ("SELECT ?", [1, 2], r"has 1 parameter \?, and 2 values were given"),
        ("SELECT ?, ?", [1], r"has 2 parameters \?, and 1 value was given.*column 11, at '\?'"),
        ("SELECT ?", None, r"has 1 parameter \?, and 0 values were given\. Give a value for each \?.*column 8, at '\?'"),
        ("SELECT :a, ?", {"a": 1}, r"A dict gives values to :name, not to \?.*column 12, at '\?'"),
        ("SELECT :a", None, "The parameter :a has no value. Give it in a dict.*column 9, at 'a'"),
        ("SELECT :a", {"b": 1}, r"The parameter :a has no value.*column 8, at ':a'"),
        ("SELECT :a", {"a": 1, "b": 2}, "The statement has no parameter :b"),
        ("SELECT ?", [object()], "A parameter is None, True"),
        ("SELECT ?", "text", "Parameters are a list"),
        ("SELECT\n nowhere, ?", ["x" * 50], r"There is no column nowhere.*line 2, column 2"),
        ("TRAIN MODEL m USING xftrl (alpha = :a) AS SELECT 1 AS label", {"a": -1}, "Option alpha of algorithm xftrl expects"),
    ],
)
def test_parameters_are_checked(session: xpsql.Session, statement: str, parameters: Any, message: str) -> None:
    with pytest.raises(xpsql.StatementError, match=f"(?s){message}"):
        session.sql(statement, parameters)


LOG = pd.DataFrame({"click": [0, 1, 0, 1] * 100, "user": list("abcd") * 100, "price": [0.5, 1.5, np.nan, 2.0] * 100})


@pytest.fixture
def trained(session: xpsql.Session) -> xpsql.Session:
    session.register("log", LOG)
    session.sql(
        "TRAIN MODEL m USING xftrl (alpha = ?) LABEL click OPERATORS (admit (min_count = 2)) AS SELECT * FROM log", [0.3]
    )
    return session


def test_a_model_predicts_frames_without_rows_and_refuses_null_without_a_type(trained: xpsql.Session) -> None:
    objects = LOG.astype({"user": object})
    assert trained.model("m").predict(objects[:0]).arrow().num_rows == 0
    assert trained.model("m").evaluate(objects[:0]).arrow()["examples"].to_pylist() == [0]
    with pytest.raises(xpsql.StatementError, match="user is NULL without a type; the model learned it as categorical"):
        trained.sql("SELECT * FROM ML.PREDICT(MODEL m, (SELECT NULL AS user, 1.0 AS price))")


def test_a_model_predicts_and_is_evaluated_on_frames(trained: xpsql.Session) -> None:
    model = trained.model("m")
    predicted = model.predict(LOG.head(3))
    wanted = trained.sql("SELECT * FROM ML.PREDICT(MODEL m, TABLE log) LIMIT 3")
    assert predicted.columns == ["click", "user", "price", "predicted_click"]
    assert predicted.arrow().column("predicted_click").to_pylist() == wanted.arrow().column("predicted_click").to_pylist()
    assert model.evaluate(LOG).arrow().column("examples").to_pylist() == [400]
    assert len(model.evaluate()) == 1
    assert {row[0] for row in model.weights()} == {"(intercept)", "user", "price"}
    assert model.versions.arrow().column("version").to_pylist() == [1]
    assert [repr(model), repr(trained.model("m", 1))] == ["<xpsql.Model m>", "<xpsql.Model m version 1>"]
    assert trained.engine.relations() == ["log"]
    with pytest.raises(xpsql.ModelError, match="no version 7"):
        trained.model("m", 7)
    with pytest.raises(xpsql.StatementError, match="The model needs the column price"):
        model.predict(LOG[["user"]])


def test_models_versions_and_options_are_tables(trained: xpsql.Session) -> None:
    trained.register("more", LOG.head(100))
    trained.sql("CONTINUE MODEL m AS SELECT * FROM more; TRAIN MODEL other USING svm LABEL click AS SELECT * FROM log")
    assert trained.sql("SELECT name FROM ML.MODELS() WHERE algorithm = 'svm'").fetchall() == [("other",)]
    shown, listed = trained.sql("SHOW MODELS").arrow(), trained.sql("SELECT * FROM ML.MODELS()").arrow()
    assert shown.drop(["created"]).equals(listed.drop(["created"]))
    versions = "SELECT model, version, parent FROM ML.VERSIONS() ORDER BY model, version"
    assert trained.sql(versions).fetchall() == [("m", 1, None), ("m", 2, 1), ("other", 1, None)]
    assert trained.sql("SELECT count(*) FROM ML.VERSIONS(MODEL m) JOIN ML.MODELS() ON name = model").fetchall() == [(2,)]
    assert trained.sql("SELECT version FROM ML.VERSIONS(MODEL m VERSION 2)").fetchall() == [(2,)]
    options = "SELECT clause, part, option, value, default FROM ML.OPTIONS(MODEL m) WHERE given ORDER BY clause"
    assert trained.sql(options).fetchall() == [
        ("OPERATORS", "admit", "min_count", "2", "NULL"),
        ("USING", "xftrl", "alpha", "0.3", "NULL"),
    ]
    assert trained.sql("SELECT value FROM ML.OPTIONS(MODEL m) WHERE option = 'slack'").fetchall() == [("4",)]
    assert trained.model("m").options.columns == ["clause", "part", "option", "value", "default", "given", "chosen_by"]
    with pytest.raises(xpsql.StatementError, match=r"Expected '\)', as in ML\.MODELS\(\), got 'MODEL'"):
        trained.sql("SELECT * FROM ML.MODELS(MODEL m)")


def test_a_scorer_is_kept_for_a_version_and_not_for_one_of_its_number(trained: xpsql.Session) -> None:
    scorers = Scorers()
    version = trained.models.version("m")
    kept = scorers.of(version)
    assert kept is scorers.of(trained.models.version("m"))
    before = trained.model("m").predict(LOG.head(1)).fetchall()
    trained.sql("DROP MODEL m; TRAIN MODEL m USING xftrl LABEL click AS SELECT 1 - click AS click, user, price FROM log")
    assert scorers.of(trained.models.version("m")) is not kept
    assert trained.model("m").predict(LOG.head(1)).fetchall() != before
