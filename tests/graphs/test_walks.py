"""ML.WALKS: where walks go, how often, and that they depend on the seed and the edges alone."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import xpsql
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.progress import SilentReporter

from .learned import Edge, edges_table


@pytest.fixture
def session(tmp_path: Path) -> xpsql.Session:
    return xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter())


def walks(session: xpsql.Session, edges: list[Edge], options: str, weight: str = "") -> list[dict[str, Any]]:
    session.register("edges", edges_table(edges))
    query = f"SELECT * FROM ML.WALKS(TABLE edges, SOURCE src, TARGET dst{weight}, WITH ({options}))"
    return session.sql(query).arrow().to_pylist()


def both_ways(graph: nx.Graph) -> list[Edge]:
    return [edge for a, b in graph.edges for edge in ((a, b), (b, a))]


def test_every_step_is_an_edge_and_every_vertex_begins_its_walks(session: xpsql.Session) -> None:
    edges = list(nx.gnp_random_graph(40, 0.1, seed=2, directed=True).edges)
    found = walks(session, edges, "length = 12, per_node = 3")
    there = {end for edge in edges for end in edge}
    assert Counter(row["node"] for row in found) == dict.fromkeys(there, 3)
    assert sorted({row["number"] for row in found}) == [0, 1, 2]
    out = {a for a, _ in edges}
    for row in found:
        walk = row["walk"]
        assert walk[0] == row["node"]
        assert all((a, b) in edges for a, b in pairwise(walk))
        assert len(walk) == 12 or walk[-1] not in out


def test_walks_depend_on_the_seed_and_not_on_the_order_of_rows(session: xpsql.Session) -> None:
    edges = both_ways(nx.gnp_random_graph(30, 0.2, seed=1))
    found = walks(session, edges, "seed = 5, p = 0.5, q = 2")
    assert found == walks(session, edges[::-1], "seed = 5, p = 0.5, q = 2")
    assert found != walks(session, edges, "seed = 6, p = 0.5, q = 2")
    assert len({tuple(row["walk"]) for row in found}) == len(found)


def test_undirected_edges_lead_both_ways(session: xpsql.Session) -> None:
    edges = list(nx.gnp_random_graph(30, 0.2, seed=1).edges)
    own = walks(session, edges, "undirected = true")
    assert own == walks(session, both_ways(nx.Graph(edges)), "seed = 1")


def test_first_steps_follow_weights(session: xpsql.Session) -> None:
    edges = [(0, 1, 1.0), (0, 2, 2.0), (0, 3, 5.0), (0, 4, 0.0)]
    found = walks(session, edges, "length = 2, per_node = 20000", ", WEIGHT w")
    counts = Counter(row["walk"][1] for row in found if row["node"] == 0)
    assert set(counts) == {1, 2, 3}
    assert chisquare([counts[1], counts[2], counts[3]], [2500, 5000, 12500]).pvalue > 1e-3


@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.5), (1.0, 3.0)])
def test_second_steps_are_those_of_node2vec(session: xpsql.Session, p: float, q: float) -> None:
    graph = nx.gnp_random_graph(12, 0.4, seed=3)
    found = walks(session, both_ways(graph), f"length = 3, per_node = 20000, p = {p}, q = {q}")
    steps = Counter(tuple(row["walk"]) for row in found)
    for t in graph:
        for v in graph[t]:
            near = sorted(graph[v])
            weight = np.array([1 / p if x == t else 1 if graph.has_edge(t, x) else 1 / q for x in near])
            seen = np.array([steps[t, v, x] for x in near])
            if len(near) > 1:
                assert chisquare(seen, weight / weight.sum() * seen.sum()).pvalue > 1e-6, (t, v)


def test_texts_stay_texts_and_rows_without_an_end_are_left_out(session: xpsql.Session) -> None:
    found = walks(session, [("a", "b"), ("b", "a"), ("c", None), (None, None)], "length = 3, per_node = 1")
    assert sorted(row["walk"] for row in found) == [["a", "b", "a"], ["b", "a", "b"]]


def test_walks_feed_word2vec(session: xpsql.Session) -> None:
    graph = nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(6))
    session.register("edges", edges_table(list(graph.edges)))
    session.sql("CREATE TABLE walks AS SELECT * FROM ML.WALKS(TABLE edges, SOURCE src, TARGET dst, WITH (undirected = true))")
    session.sql("TRAIN MODEL deepwalk USING word2vec (dim = 8) WITH (passes = 20) AS SELECT walk FROM walks")
    near = session.sql("SELECT key FROM ML.NEAREST(MODEL deepwalk, walk, 2, 5)").arrow().column(0).to_pylist()
    keys = session.sql("SELECT feature_key('walk', x) AS k FROM (SELECT explode(array(0, 1, 3, 4, 5)) AS x)").arrow()
    assert sorted(near) == sorted(keys.column(0).to_pylist())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ML.WALKS(TABLE edges, SOURCE src)", "TARGET"),
        ("ML.WALKS(TABLE edges, SOURCE src, TARGET nobody)", "TARGET of ML.WALKS names 'nobody'"),
        ("ML.WALKS(TABLE edges, SOURCE src, TARGET dst, WITH (lenght = 3))", "lenght"),
        ("ML.WALKS(TABLE edges, SOURCE src, TARGET dst, WITH (p = 0))", "p expects"),
        ("ML.WALKS((SELECT src, CAST(dst AS STRING) AS dst FROM edges), SOURCE src, TARGET dst)", "CAST one of them"),
        ("ML.WALKS(TABLE edges, SOURCE src, TARGET dst, WEIGHT note)", "WEIGHT expects a number or boolean; note is string"),
        ("ML.WALKS((SELECT 1.5D AS src, 2.5D AS dst), SOURCE src, TARGET dst)", "must be texts, integers"),
    ],
)
def test_calls_that_cannot_run_are_refused(session: xpsql.Session, call: str, message: str) -> None:
    session.register("edges", edges_table([(1, 2)]).append_column("note", pa.array(["x"])))
    with pytest.raises(StatementError, match=message):
        session.sql(f"SELECT * FROM {call}").arrow()


def test_weights_below_0_are_refused(session: xpsql.Session) -> None:
    session.register("edges", edges_table([(1, 2, -1.0)]))
    with pytest.raises(DataError, match="must be a number from 0; one is -1"):
        session.sql("SELECT * FROM ML.WALKS(TABLE edges, SOURCE src, TARGET dst, WEIGHT w)").arrow()


def test_words_of_walks_stay_names(session: xpsql.Session) -> None:
    session.register("t", pa.table({"source": [1], "target": [2], "weight": [1.0], "walk": [1], "walks": [2]}))
    found = session.sql("SELECT node, walk FROM ML.WALKS(TABLE t, SOURCE source, TARGET target, WEIGHT weight)").arrow()
    assert found.num_rows == 20
    assert session.sql("SELECT walk, walks, source, target FROM t").arrow().num_rows == 1
