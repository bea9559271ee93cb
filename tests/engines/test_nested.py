"""Nested rows are read as they are stored, and give the rows, the chunks and the models of the flat query."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, lengthy
from xpsql.platform.engines.base import Engine, Staged
from xpsql.platform.engines.nested import NestedScan
from xpsql.platform.engines.repeats import expanded, has_runs
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

SHOWN = pa.struct([("item", pa.string()), ("position", pa.int32()), ("click", pa.int8())])
QUERIES = {
    "inline": "SELECT user, age, clicked, inline(shown) AS (item, position, click) FROM {0}",
    "inline by its names": "SELECT inline(shown), user, age, clicked FROM {0}",
    "all but the array": "SELECT * EXCEPT (shown), inline(shown) FROM {0} WHERE age > 3",
    "explode": "SELECT user AS who, explode(clicked) AS clicked FROM {0}",
    "posexplode": "SELECT age, posexplode(clicked) FROM {0}",
    "structs": "SELECT user, explode(shown) AS one FROM {0}",
    "lateral view": "SELECT s.click, user, s.item, age FROM {0} LATERAL VIEW explode(shown) t AS s WHERE age < 5",
    "lateral inline": "SELECT i, age + 1 AS age, t.c FROM {0} r LATERAL VIEW inline(r.shown) t AS i, p, c",
    "subquery": "SELECT user, inline(x) FROM (SELECT user, shown AS x FROM {0} WHERE age = 2) AS q",
}
STAGED = [
    "SELECT user, explode_outer(clicked) AS c FROM {0}",
    "SELECT user, explode(clicked) AS c FROM {0} LIMIT 5",
    "SELECT user, i FROM {0} LATERAL VIEW inline(shown) t AS i, p, c WHERE c = 1",
    "SELECT user, upper(i) AS i FROM {0} LATERAL VIEW inline(shown) t AS i, p, c",
    "SELECT user, c, s FROM {0} LATERAL VIEW explode(clicked) t AS c LATERAL VIEW explode(shown) u AS s",
    "SELECT user, explode(array(age, 1)) AS c, count(*) FROM {0} GROUP BY user, age",
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Requests, some without candidates, of two row groups."""
    random, requests = np.random.default_rng(5), 150
    of_each: list[list[dict[str, object]] | None] = [
        [{"item": f"i{random.integers(30)}", "position": i, "click": int(random.integers(2))} for i in range(count)]
        for count in random.integers(0, 20, requests)
    ]
    of_each[7] = None
    of_each[8] = [None, {"item": None, "position": 1, "click": 1}]  # type: ignore[list-item]
    clicked = [[f"i{i}" for i in random.integers(0, 30, count)] for count in random.integers(0, 5, requests)]
    age = random.integers(0, 8, requests)
    age[8] = 0  # the one without a label, which trainings leave out
    table = pa.table(
        {
            "user": random.integers(0, 20, requests).astype("U"),
            "age": age,
            "clicked": clicked,
            "shown": pa.array(of_each, pa.list_(SHOWN)),
        }
    )
    path = tmp_path_factory.mktemp("requests") / "requests.parquet"
    pq.write_table(table, path, row_group_size=100)
    return f"parquet.`{path}`"


@lengthy
def test_rows_are_those_of_the_query(engine: Engine, log: str) -> None:
    for what, text in QUERIES.items():
        query = text.format(log)
        scan = engine.scan(query)
        assert isinstance(scan, NestedScan), what
        expected = engine.execute(query)
        assert expected is not None
        for rows in (7, 10_000):
            tables = [table for split in scan.splits() for table in scan.read(split, scan.schema.names, rows)]
            assert {table.num_rows for table in tables[:-1]} <= {rows} | {tables[-1].num_rows, *range(1, rows)}, what
            found = pa.concat_tables([expanded(table) for table in tables])
            assert found.cast(scan.schema).schema == scan.schema, what  # texts may come as dictionaries
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist())), what
        assert sum(split.rows for split in scan.splits()) >= expected.num_rows
    for text in STAGED:
        assert isinstance(engine.scan(text.format(log)), Staged), text


def test_a_select_makes_rows_of_one_array(engine: Engine, log: str) -> None:
    with pytest.raises(StatementError) as caught:
        engine.scan(f"SELECT explode(clicked) AS c, explode(shown) AS s FROM {log}")
    assert "generator" in caught.value.message or "LATERAL VIEW" in caught.value.message


def test_what_rows_have_in_common_is_read_once(log: str, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session:
        scan = session.engine.scan(QUERIES["inline"].format(log))
        (first, *_) = scan.read(scan.splits()[0], ["user", "item", "clicked"], 500)  # type: ignore[union-attr]
    assert [has_runs(column) for column in first.columns] == [True, False, True]
    assert expanded(first.slice(3, 40)).equals(expanded(first).slice(3, 40))
    assert len(first.column("user").chunk(0).values) < first.num_rows / 5


@costly
@pytest.mark.parametrize("algorithm", ["fm", "din (target = (item), history = (clicked))", "xgboost (rounds = 2)"])
def test_a_model_of_nested_rows_is_that_of_flat_ones(log: str, tmp_path: Path, algorithm: str) -> None:
    """Grouped by what was read once, row by row, and of a table of the rows; with rows held out, too."""
    arrays = "" if algorithm.startswith("xgboost") else "clicked, "
    query = f"SELECT user, age, {arrays}inline(shown) AS (item, position, click) FROM {log} WHERE age > 0"
    validate = "VALIDATE ON 0.2" if arrays else ""
    settings = "batch_size = 64, workers = 1" if arrays else "workers = 1"
    text = f"TRAIN MODEL {{}} USING {algorithm} LABEL click {validate} WITH ({settings}{{}}) AS {{}}"
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session:
        session.sql(f"CREATE TABLE flat AS {query} AND shown IS NOT NULL")
        session.sql(text.format("grouped", "", query))
        session.sql(text.format("alone", ", compact = 'off'" if arrays else "", query))
        reported = dict(session.sql("EXPLAIN " + text.format("m", "", query)).fetchall())
        assert reported["input"].startswith("nested rows, read in place")
        scores = [
            np.array(session.sql(f"SELECT * FROM ML.PREDICT(MODEL {model}, {of})").arrow().columns[-1].to_pylist())
            for model, of in (("grouped", f"({query})"), ("grouped", "TABLE flat"), ("alone", "TABLE flat"))
        ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-5)
    np.testing.assert_allclose(scores[1], scores[2], rtol=1e-3)
