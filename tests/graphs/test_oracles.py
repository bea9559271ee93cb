"""Vertex programs against networkx, on small graphs of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xpsql
from tests.cases import costly, lengthy
from xpsql.platform.progress import SilentReporter

from .learned import Edge, train, values

SHARED = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MULTIGRAPHS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40)
WEIGHTED = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([0.0, 0.25, 1.0, 3.0, 100.0])), min_size=1, max_size=40
)
CLIQUES = [(i, j) for i in range(5) for j in range(i)] + [(i, j) for i in range(5, 11) for j in range(5, i)] + [(0, 5)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    folder: Path = tmp_path_factory.mktemp("graphs")
    with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as session:
        yield session


def vertices_of(edges: list[Edge]) -> list[int]:
    return sorted({end for edge in edges for end in edge[:2]})


def simple(edges: list[Edge]) -> nx.Graph:
    graph = nx.Graph((a, b) for a, b, *_ in edges)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def ranks(edges: list[Edge], damping: float = 0.85, restart: list[int] | None = None) -> dict[int, float]:
    """Return PageRank by solving its equation."""
    vertices = vertices_of(edges)
    at, n = {v: i for i, v in enumerate(vertices)}, len(vertices)
    weights = np.zeros((n, n))
    for a, b, *w in edges:
        weights[at[b], at[a]] += w[0] if w else 1.0
    teleport = np.full(n, 1 / n) if restart is None else np.isin(vertices, restart) / len(restart)
    out = weights.sum(axis=0)
    step = np.where(out > 0, weights / np.where(out > 0, out, 1), teleport[:, None])
    solved = np.linalg.solve(np.eye(n) - damping * step, (1 - damping) * teleport)
    return dict(zip(vertices, solved, strict=True))


@lengthy
@SHARED
@given(MULTIGRAPHS)
def test_pagerank_solves_its_equation_on_multigraphs_with_loops_and_sinks(session: xpsql.Session, edges: list[Edge]) -> None:
    train(session, "pagerank (tolerance = 1e-13, rounds = 1000)", edges)
    expected = ranks(edges)
    found = values(session, expected)
    np.testing.assert_allclose([found[v] for v in expected], list(expected.values()), rtol=1e-11, atol=1e-13)


@lengthy
@SHARED
@given(WEIGHTED)
def test_pagerank_follows_edges_by_their_weights(session: xpsql.Session, edges: list[Edge]) -> None:
    if not any(w for _, _, w in edges):
        return  # refused as a training of nothing, see test_weights_of_edges_are_numbers_from_0
    train(session, "pagerank (tolerance = 1e-13, rounds = 1000)", edges)
    expected = ranks(edges)
    found = values(session, expected)
    np.testing.assert_allclose([found[v] for v in expected], list(expected.values()), rtol=1e-10, atol=1e-13)


def test_pagerank_begins_anew_where_restart_says(session: xpsql.Session) -> None:
    train(session, "pagerank (tolerance = 1e-13, rounds = 1000, restart = ('3', '7'))", CLIQUES)
    expected = ranks(CLIQUES, restart=[3, 7])
    found = values(session, expected)
    np.testing.assert_allclose([found[v] for v in expected], list(expected.values()), rtol=1e-11)
    assert expected == pytest.approx(nx.pagerank(nx.DiGraph(CLIQUES), personalization={3: 1, 7: 1}, tol=1e-12), rel=1e-6)


@costly
@SHARED
@given(MULTIGRAPHS)
def test_components_are_those_of_networkx(session: xpsql.Session, edges: list[Edge]) -> None:
    train(session, "components", edges)
    graph = nx.Graph(edges)
    found = values(session, graph)
    by_name: dict[int, set[int]] = {}
    for vertex, name in found.items():
        by_name.setdefault(name, set()).add(vertex)
    assert sorted(map(sorted, by_name.values())) == sorted(map(sorted, nx.connected_components(graph)))


@costly
@SHARED
@given(MULTIGRAPHS)
def test_cores_h_indices_and_triangles_are_those_of_the_simple_graph(session: xpsql.Session, edges: list[Edge]) -> None:
    graph = simple(edges)

    def h_index(v: int) -> int:
        degrees = sorted((graph.degree(u) for u in graph[v]), reverse=True)
        return sum(degree > at for at, degree in enumerate(degrees))

    for using, expected in (
        ("kcore", nx.core_number(graph)),
        ("hindex", {v: h_index(v) for v in graph}),
        ("triangles", nx.triangles(graph)),
    ):
        train(session, using, edges)
        assert values(session, graph) == expected, using


def test_label_propagation_finds_two_cliques_that_a_bridge_connects(session: xpsql.Session) -> None:
    train(session, "labels", CLIQUES)
    found = values(session, range(11))
    assert len({found[v] for v in range(5)}) == 1
    assert len({found[v] for v in range(5, 11)}) == 1
    assert found[1] != found[9]


def test_a_chain_is_one_component_after_one_round_of_one_worker(session: xpsql.Session) -> None:
    train(session, "components", [(i, i + 1) for i in range(100_000)])
    assert len(set(values(session, range(0, 100_001, 1000)).values())) == 1
    assert session.sql("SELECT max(batch) FROM ML.TRAINING_INFO(MODEL m)").arrow().column(0).to_pylist() == [1]


def test_the_hub_of_a_star_has_almost_half_of_all_rank(session: xpsql.Session) -> None:
    edges: list[Edge] = [(i, 0) for i in range(1, 1001)] + [(0, i) for i in range(1, 1001)]
    train(session, "pagerank (tolerance = 1e-12, rounds = 1000)", edges)
    expected = ranks(edges)
    found = values(session, [0, 1])
    assert found[0] == pytest.approx(expected[0], rel=1e-11)
    assert found[1] == pytest.approx(expected[1], rel=1e-11)


def test_igraph_gives_the_same_ranks_and_cores(session: xpsql.Session) -> None:
    igraph = pytest.importorskip("igraph")
    random = np.random.default_rng(3)
    edges = [tuple(map(int, edge)) for edge in (random.zipf(1.6, (2000, 2)) % 300)]
    graph = igraph.Graph.TupleList(edges, directed=True)
    names = graph.vs["name"]
    train(session, "pagerank (tolerance = 1e-12, rounds = 1000)", edges)
    found = values(session, names)
    np.testing.assert_allclose([found[v] for v in names], graph.pagerank(damping=0.85), rtol=1e-8)
    train(session, "kcore", edges)
    cores = graph.as_undirected().simplify().coreness()
    assert [values(session, names)[v] for v in names] == cores


def test_networkit_gives_the_same_ranks(session: xpsql.Session) -> None:
    networkit = pytest.importorskip("networkit")
    edges = [(i, i * i % 50) for i in range(50)] + [(i * 7 % 50, i) for i in range(50)]
    graph = networkit.Graph(50, weighted=True, directed=True)
    for a, b in edges:
        graph.increaseWeight(a, b, 1.0)
    ranked = networkit.centrality.PageRank(
        graph, 0.85, 1e-12, distributeSinks=networkit.centrality.SinkHandling.DistributeSinks
    )
    ranked.run()
    train(session, "pagerank (tolerance = 1e-12, rounds = 1000)", edges)
    found = values(session, range(50))
    np.testing.assert_allclose([found[v] for v in range(50)], ranked.scores(), rtol=1e-8)


def test_rustworkx_gives_the_same_components_and_cores(session: xpsql.Session) -> None:
    rustworkx = pytest.importorskip("rustworkx")
    edges = [(i, i * i % 97) for i in range(97)] + [(i, i * 3 % 97) for i in range(97)]
    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(97))
    graph.add_edges_from_no_data([(a, b) for a, b in edges if a != b])
    train(session, "kcore", edges)
    assert values(session, range(97)) == dict(rustworkx.core_number(graph))
    train(session, "components", edges)
    assert len(set(values(session, range(97)).values())) == rustworkx.number_connected_components(graph)
