"""Graphs in statements: roles of columns, what is refused and told, versions, CONTINUE and RESUME."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from xpsql.platform.errors import DataError, StatementError, TrainingError
from xpsql.platform.progress import SilentReporter

from .learned import Edge, edges_table, train, values, weights

PROGRAMS = ("pagerank", "components", "kcore", "hindex", "labels", "triangles")
PREDICTED = ("rank", "component", "core", "hindex", "label", "triangles")


class Notes(SilentReporter):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def session(tmp_path: Path, notes: Notes) -> xpsql.Session:
    return xpsql.connect(tmp_path / "warehouse", "duckdb", notes)


def random_edges(count: int, vertices: int, weighted: bool = False) -> list[Edge]:
    random = np.random.default_rng(5)
    ends = (random.zipf(1.4, (count, 2)) % vertices).tolist()
    return [(*pair, float(w)) if weighted else tuple(pair) for pair, w in zip(ends, random.random(count), strict=True)]


@lengthy
@pytest.mark.parametrize("using", PROGRAMS)
def test_values_are_equal_to_the_bit_for_any_number_of_workers_and_order_of_edges(
    session: xpsql.Session, using: str, tmp_path: Path
) -> None:
    edges, found = random_edges(3000, 200, using == "pagerank"), []
    weight = " WEIGHT w" if using == "pagerank" else ""
    for at, workers in enumerate((1, 2, 4)):
        path = tmp_path / f"edges{at}.parquet"
        table = edges_table(edges if at != 1 else edges[::-1])
        pq.write_table(table, path, row_group_size=500)
        query = f"SELECT * FROM parquet.`{path}`"
        session.sql(
            f"TRAIN OR REPLACE MODEL m USING {using} SOURCE src TARGET dst{weight} WITH (workers = {workers}) AS {query}"
        )
        found.append(weights(session))
    assert len(found[0]) > 100
    assert found[0] == found[1] == found[2]


def test_rows_with_a_null_end_are_left_out_counted_and_told(session: xpsql.Session, notes: Notes) -> None:
    train(session, "pagerank", [(1, 2), (None, 2), (2, 3), (3, None), (None, None)])
    assert [row["count"] for row in weights(session)] in ([0, 1, 1], [1, 0, 1], [1, 1, 0])
    assert any("3 edges with a NULL end are left out" in told for told in notes.told)


def test_line_tells_of_rows_with_a_null_end(session: xpsql.Session, notes: Notes) -> None:
    train(session, "line (dim = 4)", [(1, 2), (None, 2), (3, None), (None, 1)])
    assert any("src is NULL in 2 rows, from which nothing is learned" in told for told in notes.told)
    assert any("dst is NULL in 1 row, " in told for told in notes.told)
    assert len(weights(session)) == 2 * 3


def test_edges_that_all_lack_an_end_are_an_error(session: xpsql.Session) -> None:
    with pytest.raises(TrainingError, match="No row is an edge: src and dst are never both there"):
        train(session, "pagerank", [(1, None), (2, None)])


@pytest.mark.parametrize(
    ("weight", "shown"), [(-0.5, "-0.5"), (float("nan"), "NULL or NaN"), (None, "NULL or NaN"), (3e9, "3e\\+09")]
)
def test_weights_of_edges_are_numbers_from_0(session: xpsql.Session, weight: float | None, shown: str) -> None:
    with pytest.raises(DataError, match=f"WEIGHT w of an edge must be a number from 0 to 2\\^31; a row of .* has {shown}"):
        train(session, "pagerank", [(1, 2, 1.0), (2, 3, weight)])


def test_an_id_is_compared_by_its_text(session: xpsql.Session) -> None:
    session.register("mixed", pa.table({"src": pa.array([1, 2], pa.int32()), "dst": ["2", "1"]}))
    session.sql("TRAIN MODEL m USING components SOURCE src TARGET dst AS SELECT * FROM mixed")
    assert len(weights(session)) == 2
    assert len(set(values(session, ["1", "2"]).values())) == 1


@costly_after_first
@pytest.mark.parametrize(("using", "predicted"), [*zip(PROGRAMS, PREDICTED, strict=True)])
def test_predictions_are_the_values_of_ml_weights_and_null_where_no_edge_was(
    session: xpsql.Session, using: str, predicted: str
) -> None:
    train(session, using, [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    query = (
        "SELECT node, p.predicted_{0} AS predicted, w.value FROM ML.PREDICT(MODEL m, (SELECT src AS node FROM edges UNION "
        "SELECT 'nobody' UNION SELECT NULL)) p LEFT JOIN ML.WEIGHTS(MODEL m) w ON w.key = feature_key('node', node)"
    )
    found = session.sql(query.format(predicted)).arrow().to_pylist()
    assert len(found) == 5
    for row in found:
        assert row["predicted"] == row["value"]
        assert (row["predicted"] is None) == (row["node"] in ("nobody", None))


def test_continue_begins_at_the_ranks_before_and_comes_to_the_same_in_fewer_rounds(session: xpsql.Session) -> None:
    edges = random_edges(4000, 300)
    train(session, "pagerank (tolerance = 1e-10, rounds = 1000)", edges)
    more: list[Edge] = [*edges, (7, 1_000_000), (1_000_001, 7)]
    session.register("edges", edges_table(more))
    session.sql("CONTINUE MODEL m AS SELECT * FROM edges")
    continued = values(session, range(300))
    rounds = "SELECT max(batch) FROM ML.TRAINING_INFO(MODEL m VERSION {})"
    first, second = (session.sql(rounds.format(n)).arrow().column(0)[0].as_py() for n in (1, 2))
    assert second < first
    train(session, "pagerank (tolerance = 1e-10, rounds = 1000)", more, model="fresh")
    fresh = values(session, range(300), "fresh")
    known = [v for v in range(300) if fresh[v] is not None]
    assert len(known) > 100
    np.testing.assert_allclose([continued[v] for v in known], [fresh[v] for v in known], rtol=1e-8)


KILLED = """
import os, sys, xpsql
from xpsql.platform.progress import SilentReporter

class Killed(SilentReporter):
    count = 0
    def update(self, *values):
        Killed.count += 1
        if Killed.count == 5:
            os._exit(9)

xpsql.connect(sys.argv[1], "duckdb", Killed()).sql(sys.argv[2])
"""


@costly
def test_a_training_that_was_killed_resumes_to_the_same_bits(session: xpsql.Session, tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(edges_table(random_edges(4000, 300, True)), path)
    train_it = "TRAIN MODEL {} USING pagerank (tolerance = 1e-10) SOURCE src TARGET dst WEIGHT w AS SELECT * FROM parquet.`{}`"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "warehouse"), train_it.format("killed", path)], check=False
    )
    assert killed.returncode == 9
    session.sql("RESUME MODEL killed")
    session.sql(train_it.format("whole", path))
    assert weights(session, "killed") == weights(session, "whole")


@costly
def test_the_words_of_edges_stay_names_of_columns(session: xpsql.Session) -> None:
    rows = {"source": ["a", "b"], "target": ["b", "c"], "apply": [1.0, 2.0], "key": [1, 2]}
    session.register("t", pa.table(rows))
    session.sql(
        "TRAIN MODEL m USING pagerank SOURCE source TARGET target WEIGHT apply IGNORE (key) AS "
        "SELECT source, target, apply, key FROM t"
    )
    assert len(weights(session)) == 3
    session.sql("TRAIN MODEL source USING components SOURCE target TARGET source AS SELECT target, source FROM t")
    assert len(weights(session, "source")) == 3
    session.register("clicks", pa.table({"target": [0, 1] * 20, "source": ["x", "y"] * 20, "apply": ["p"] * 40}))
    session.sql("TRAIN MODEL ctr USING xftrl LABEL target IGNORE (source) AS SELECT * FROM clicks")
    found = session.sql("SELECT DISTINCT slot FROM ML.WEIGHTS(MODEL ctr)").arrow().column(0).to_pylist()
    assert "apply" in found


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("USING pagerank AS SELECT src, dst FROM edges", "learns from edges: name the columns of both ends"),
        ("USING pagerank SOURCE src AS SELECT src, dst FROM edges", "name the columns of both ends"),
        ("USING line AS SELECT src, dst FROM edges", "name the columns of both ends"),
        ("USING pagerank SOURCE src TARGET src AS SELECT src, dst FROM edges", "both name 'src'"),
        ("USING pagerank SOURCE src TARGET nobody AS SELECT src, dst FROM edges", "TARGET names 'nobody'"),
        ("USING pagerank SOURCE src TARGET dst AS SELECT * FROM edges", "returns w too"),
        ("USING kcore SOURCE src TARGET dst WEIGHT w AS SELECT * FROM edges", "WEIGHT has no effect"),
        ("USING pagerank SOURCE w TARGET dst IGNORE (src) AS SELECT * FROM edges", "SOURCE expects texts, integers"),
        ("USING xftrl LABEL w SOURCE src AS SELECT * FROM edges", "SOURCE names the end of an edge, and xftrl does not"),
        ("USING pagerank SOURCE src TARGET dst GROUP w AS SELECT * FROM edges", "GROUP has no effect"),
        ("USING pagerank SOURCE src TARGET dst IGNORE (w) OPERATORS (decay) AS SELECT * FROM edges", "Leave it out"),
        ("USING kcore SOURCE src TARGET dst VALIDATE ON 0.2 IGNORE (w) AS SELECT * FROM edges", "kcore learns without labels"),
        ("USING pagerank SOURCE src TARGET dst LABEL w AS SELECT * FROM edges", "LABEL"),
        ("USING pagerank (restart = ('x')) SOURCE src TARGET dst AS SELECT src, dst FROM edges", "no edge has such an end"),
    ],
)
def test_what_has_no_effect_or_is_missing_is_refused_with_words(session: xpsql.Session, statement: str, message: str) -> None:
    session.register("edges", edges_table([(1, 2, 1.0), (2, 3, 2.0)]))
    with pytest.raises(StatementError, match=message):
        session.sql(f"TRAIN MODEL m {statement}")


@lengthy
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM ML.FOLD(MODEL m, norm)",
        "ALTER MODEL m APPLY scale (factor = 2)",
        "SELECT * FROM ML.FEATURE_IMPORTANCE(MODEL m)",
        "SELECT * FROM ML.NEAREST(MODEL m, node, 1, 3)",
        "SELECT * FROM ML.EVALUATE(MODEL m, (SELECT 1 AS node))",
        "EXPORT MODEL m TO '{folder}' FORMAT onnx",
        "EXPORT MODEL m TO '{folder}' FORMAT serving",
        "MERGE MODEL both FROM m, n",
    ],
)
def test_what_takes_values_of_vertices_for_weights_is_refused(session: xpsql.Session, statement: str, tmp_path: Path) -> None:
    for model in ("m", "n"):
        train(session, "pagerank", [(1, 2), (2, 3)], model=model)
    with pytest.raises(StatementError, match="has values of vertices"):
        session.sql(statement.format(folder=tmp_path / "out")).arrow()


@lengthy
def test_versions_of_graphs_are_ordinary_ones(session: xpsql.Session, tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(edges_table(random_edges(2000, 100)), path)
    train_it = f"TRAIN MODEL m USING pagerank SOURCE src TARGET dst AS SELECT * FROM parquet.`{path}`"

    def shown(statement: str) -> dict[str, str]:
        table = session.sql(statement).arrow()
        return dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))

    assert shown(f"EXPLAIN FAST {train_it}")["rows"] == "2,000"
    explained = shown(f"EXPLAIN {train_it}")
    assert explained["rows"] == "2,000"
    assert (explained["source"], explained["target"]) == ("src", "dst")
    session.sql(train_it)
    described = shown("DESCRIBE MODEL m")
    assert (described["source"], described["target"]) == ("src", "dst")
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT parquet")
    exported = session.sql(f"SELECT * FROM parquet.`{tmp_path / 'out'}` ORDER BY key").arrow().to_pylist()
    assert exported == weights(session)
    assert sum(row["value"] for row in exported) == pytest.approx(1, abs=1e-9)
    session.sql("SHRINK MODEL m WHERE value <= 0.01")
    assert weights(session) == [row for row in exported if row["value"] > 0.01]
    info = session.sql("SELECT * FROM ML.FEATURE_INFO(MODEL m)").arrow().to_pylist()
    assert [row["mean_abs_weight"] for row in info] == [None]


def test_directions_of_edges_do_not_matter_to_cores(session: xpsql.Session) -> None:
    edges = random_edges(500, 40)
    found = []
    turns: list[Callable[[Edge], Edge]] = [lambda edge: edge, lambda edge: edge[::-1]]
    for turn in turns:
        train(session, "kcore", [turn(edge) for edge in edges])
        found.append(weights(session))
    assert found[0] == found[1]


@costly_after_first
@pytest.mark.parametrize(("order", "dim"), [(1, 8), (2, 8), (12, 16)])
def test_line_tells_edges_between_cliques_from_edges_within(session: xpsql.Session, order: int, dim: int) -> None:
    edges: list[Edge] = [(f"{c}{i}", f"{c}{j}") for c in "ab" for i in range(8) for j in range(8) if i != j]
    train(session, f"line (order = {order}, dim = 8)", edges, "WITH (passes = 60, batch_size = 64)")
    query = "SELECT '{}' AS src, '{}' AS dst"
    asked = " UNION ALL ".join(query.format(*pair) for pair in (("a0", "a1"), ("a0", "b1"), ("b3", "b2"), ("b3", "a2")))
    found = session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({asked}))").arrow().to_pylist()
    links = {(row["src"], row["dst"]): row["predicted_link"] for row in found}
    assert links["a0", "a1"] > links["a0", "b1"]
    assert links["b3", "b2"] > links["b3", "a2"]
    assert all(len(row["predicted_vector"]) == dim for row in found)
