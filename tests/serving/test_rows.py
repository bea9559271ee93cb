"""Requests that are scored natively have the bits of ML.PREDICT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.serving.conftest import COLUMNS, LOG, ROW, loaded_of
from xpsql.platform.errors import ModelError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.inputs import Input
from xpsql.platform.serving.instances import of_rows
from xpsql.platform.serving.loaded import Loaded

MODELS = {
    "xftrl": "xftrl LABEL click",
    "several": "xftrl (pooling = 'mean') LABEL click, buy",
    "logistic": "logistic_regression LABEL click",
    "price": "linear_regression (pooling = 'sum') LABEL id",
    "margin": "svm LABEL click",
    "best": "owlqn (iterations = 5, pooling = 'mean') LABEL click",
    "ids": "xftrl LABEL click WITH (raw = (ad))",
    "pairs": "fm (dim = 3) LABEL click",
    "bare": "fm (dim = 4, intercept = false, pooling = 'sum') LABEL click WITH (nulls = 'absent')",
    "fields": "ffm (dim = 2) LABEL click",
    "joined": "ffm (dim = 3, pooling = 'mean', intercept = false) LABEL click WITH (nulls = 'absent')",
}
NARROW = ", CAST(id % 9 AS TINYINT) AS small, CAST(id % 300 AS INT) AS middle, array(CAST(id AS FLOAT) / 100, 0.5F) AS vector"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS SELECT *, id % 5 = 0 AS buy {NARROW} FROM ({LOG})")
        yield session


@pytest.fixture(scope="module", params=MODELS)
def loaded(request: pytest.FixtureRequest, session: xpsql.Session) -> Loaded:
    using = MODELS[request.param]
    ignored = [name for name in ("id", "click", "buy") if name not in using.partition("LABEL")[2]]
    try:
        session.models.version(request.param)
    except ModelError:
        model, _, settings = using.partition(" WITH ")
        extra = f"WITH {settings}" if settings else ""
        session.sql(f"TRAIN MODEL {request.param} USING {model} IGNORE ({', '.join(ignored)}) {extra} AS SELECT * FROM log")
    return loaded_of(session.models.version(request.param))


def same(found: dict[str, pa.Array] | None, wanted: dict[str, pa.Array]) -> None:
    assert found is not None, "it was not scored natively"
    assert list(found) == list(wanted)
    for name, column in found.items():
        np.testing.assert_array_equal(column.to_numpy(), wanted[name].to_numpy())


def rows_of(session: xpsql.Session, count: int) -> pa.Table:
    return session.sql(f"SELECT * FROM log WHERE id < {count} ORDER BY id").arrow().drop_columns(["id", "click", "buy"])


@costly_after_first
@pytest.mark.parametrize("count", [1, 7, 300])
def test_batches_of_arrow_have_the_bits_of_ml_predict(session: xpsql.Session, loaded: Loaded, count: int) -> None:
    table = rows_of(session, count)
    query = f"SELECT * FROM ML.PREDICT(MODEL {loaded.model}, (SELECT * FROM log WHERE id < {count})) ORDER BY id"
    predicted = session.sql(query).arrow()
    wanted = {field.name: predicted.column(field.name).combine_chunks() for field in loaded.outputs}
    order = [table.column_names.index(column.name) for column in loaded.inputs]
    plain = pa.table({name: decoded(table.column(name)) for name in table.column_names})
    same(loaded.predict_batches(plain.combine_chunks().to_batches(), order), wanted)
    coded = plain.set_column(0, "user", plain.column("user").combine_chunks().dictionary_encode())
    same(loaded.predict_batches(coded.combine_chunks().to_batches(), order), wanted)
    if count > 1:
        pieces = plain.combine_chunks().to_batches()[0]
        same(loaded.predict_batches([pieces.slice(0, 3), pieces.slice(3)], order), wanted)


def decoded(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def written(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "day": row["day"].isoformat(), "words": dict(row["words"])}


@lengthy
def test_rows_of_json_have_the_bits_of_a_table(session: xpsql.Session, loaded: Loaded) -> None:
    rows = [written(row) for row in rows_of(session, 27).to_pylist()]
    wanted = loaded.predict(of_rows(rows, {}, loaded.inputs))
    same(loaded.predict_objects(rows, None), wanted)
    empty = {
        "day": None,
        "words": None,
        "tags": [None],
        "user": None,
        "ad": None,
        "price": None,
        "vector": None,
        "mobile": None,
    }
    rows = [{**row, **dict([pair])} for row, pair in zip(rows, empty.items(), strict=False)]
    same(loaded.predict_objects(rows, None), loaded.predict(of_rows(rows, {}, loaded.inputs)))
    same(loaded.predict_objects([], None), loaded.predict(of_rows([], {}, loaded.inputs)))


NETWORKS = {
    "xnn": "xnn (hidden = 4, dim = 2, pooling = 'root') LABEL click",
    "meeting": "xnn (hidden = 4, dim = 2, pooling = 'mean', interaction = 'bi') LABEL click",
    "together": "multi_task (hidden = (4), dim = 2) LABEL click, buy",
    "focal": "xftrl (loss = 'focal') LABEL click",
    "logarithms": "xnn (hidden = 4, dim = 2, continuous = 'log1p') LABEL click WITH (nulls = 'absent')",
}


@costly
@pytest.mark.parametrize("name", NETWORKS)
def test_batches_of_a_network_that_are_made_natively_are_those_of_a_table(session: xpsql.Session, name: str) -> None:
    using, _, settings = NETWORKS[name].partition(" WITH ")
    ignored = "id" if "buy" in using else "id, buy"
    extra = f"WITH {settings}" if settings else ""
    session.sql(f"TRAIN OR REPLACE MODEL net USING {using} IGNORE ({ignored}) {extra} AS SELECT * FROM log")
    loaded = loaded_of(session.models.version("net"))
    rows = [written(row) for row in rows_of(session, 40).to_pylist()]
    rows[3] |= {"day": None, "words": None, "tags": None, "user": None, "ad": None, "price": None, "vector": None}
    for count in (1, 16, 40):
        table = of_rows(rows[:count], {}, loaded.inputs)
        wanted = loaded.predict(table)
        (batch,) = table.combine_chunks().to_batches()
        context = {key: value for key, value in rows[0].items() if key not in ("ad", "tags")}
        own = [{"ad": row["ad"], "tags": row["tags"]} for row in rows[:count]]
        ways = [
            (loaded.predict_objects(rows[:count], None), wanted),
            (loaded.predict_batches([batch], range(batch.num_columns)), wanted),
            (loaded.predict_objects(own, context), loaded.predict(of_rows(own, context, loaded.inputs))),
        ]
        for found, same_as in ways:
            assert found is not None, "it was not encoded natively"
            for label, column in found.items():
                np.testing.assert_allclose(column.to_numpy(), same_as[label].to_numpy(), rtol=0, atol=1e-6)
    assert loaded.predict_objects([{**rows[0], "ad": "3"}], None) is None
    assert loaded.predict_objects(rows * 30, None) is None, "more rows than a batch has are made a table of"


@pytest.mark.parametrize("own", [("ad",), ("price", "tags"), ("vector", "words", "user")])
def test_a_context_has_the_bits_of_rows_that_repeat_it(session: xpsql.Session, loaded: Loaded, own: tuple[str, ...]) -> None:
    rows = [written(row) for row in rows_of(session, 9).to_pylist()]
    context = {name: value for name, value in rows[0].items() if name not in own}
    candidates = [{name: row[name] for name in own} for row in rows]
    wanted = loaded.predict(of_rows([{**context, **candidate} for candidate in candidates], {}, loaded.inputs))
    same(loaded.predict_objects(candidates, context), wanted)
    same(loaded.predict_objects(candidates[:1], context), {name: column.slice(0, 1) for name, column in wanted.items()})
    same(loaded.predict(of_rows(candidates, context, loaded.inputs)) or None, wanted)


@pytest.fixture(scope="module")
def ctr(session: xpsql.Session) -> Loaded:
    session.sql(
        f"TRAIN OR REPLACE MODEL ctr USING fm (dim = 2) LABEL click AS SELECT click, {', '.join(COLUMNS)}, small FROM log"
    )
    return loaded_of(session.models.version("ctr"))


@costly
@pytest.mark.parametrize(
    ("name", "value"),
    [("ad", "3"), ("ad", 3.0), ("ad", 1 << 70), ("small", 128), ("mobile", 1), ("user", 7), ("user", "\ud800"), ("price", "1"),
     ("day", "2024-01-1"), ("day", "2024-02-30"), ("day", "\uff12024-01-"), ("tags", "t"), ("words", [["w", 1]])],
)  # fmt: skip
def test_what_is_of_another_type_is_left_to_who_casts_it(ctr: Loaded, name: str, value: Any) -> None:
    row = {**ROW, "small": 1}
    assert ctr.predict_objects([row], None) is not None
    assert ctr.predict_objects([row, {**row, name: value}], None) is None
    assert ctr.predict_objects([{key: value for key, value in row.items() if key != name}], None) is None
    assert ctr.predict_objects([row], {name: value}) is None, "a column that is in both"
    assert ctr.predict_objects([[]], None) is None  # type: ignore[list-item]


def test_decimals_are_scored_by_way_of_a_table(session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL cost USING xftrl LABEL click AS SELECT click, ad, CAST(price AS DECIMAL(9,2)) AS price FROM log")
    loaded, row = loaded_of(session.models.version("cost")), {"ad": 3, "price": 1.5}
    assert loaded.predict_objects([row], None) is None
    assert len(loaded.predict(of_rows([row], {}, loaded.inputs))["predicted_click"]) == 1


def test_offsets_and_indices_that_lead_out_of_their_arrays_are_refused(ctr: Loaded) -> None:
    table = of_rows([{**ROW, "small": 1}] * 4, {}, ctr.inputs).combine_chunks()
    (batch,) = table.to_batches()
    order = list(range(batch.num_columns))
    assert ctr.predict_batches([batch], order) is not None
    offsets = pa.py_buffer(np.array([0, 9, 3, 4, 8], np.int32))
    text = pa.Array.from_buffers(pa.string(), 4, [None, offsets, pa.py_buffer(b"u1u1u1u1")])
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["u1"]), safe=False)
    for column in (text, codes):
        with pytest.raises(ValueError, match=r"offsets must ascend|an index leaves its dictionary"):
            ctr.predict_batches([pa.record_batch([column, *batch.columns[1:]], names=batch.schema.names)], order)
    with pytest.raises(IndexError):
        ctr.predict_batches([batch], [order[-1] + 1, *order[1:]])


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "user": st.none() | st.text(max_size=40).filter(lambda text: text.isprintable()),
    "ad": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    "mobile": st.none() | st.booleans(),
    "day": st.none() | st.dates().map(lambda day: day.isoformat()),
    "price": st.none() | st.floats(),
    "tags": st.none() | st.lists(st.none() | st.sampled_from(["t1", "t2", "é", ""]), max_size=3),
    "words": st.none() | st.dictionaries(st.sampled_from(["w1", "w2", ""]), st.none() | st.floats(), max_size=3),
    "small": st.none() | st.integers(-128, 127),
}


@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=4))
def test_any_values_have_the_bits_of_a_table(ctr: Loaded, rows: list[dict[str, Any]]) -> None:
    table = of_rows(rows, {}, ctr.inputs)
    wanted = ctr.predict(table)
    found = ctr.predict_objects(rows, None)
    if found is not None:  # else a date after the 28th
        same(found, wanted)
    batches = ctr.predict_batches(table.combine_chunks().to_batches(), list(range(table.num_columns)))
    same(batches, wanted)


def test_an_input_of_every_type_is_read(ctr: Loaded) -> None:
    assert {column.name: str(column.type) for column in ctr.inputs if isinstance(column, Input)} == {
        "user": "string", "ad": "int64", "mobile": "bool", "day": "date32[day]", "price": "double",
        "tags": "list<item: string>", "words": "map<string, float>", "small": "int8",
    }  # fmt: skip
