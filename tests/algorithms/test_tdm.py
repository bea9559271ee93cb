"""TDM descends a tree to what each user takes next, as far as all scores would, and takes in new items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.training.log import write
from xpsql.algorithms.base import Layout
from xpsql.algorithms.layers.dot_attention import BLOCK, attended, whole
from xpsql.algorithms.networks.tdm import TdmOptions, tdm
from xpsql.platform.errors import OptionError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.online.planting import tree_of
from xpsql.platform.trees.tree import node_keys

USERS, ITEMS, KINDS = 300, 120, 6
TDM = "tdm (item = (item, kind), history = (had), dim = 16, hidden = (8), beam = {beam}, tree = '{tree}')"
LAST = "(SELECT had, item FROM log WHERE last)"
CATALOGUE = f"(SELECT id AS item, concat('k', id % {KINDS}) AS kind FROM range({ITEMS}))"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    folder: Path = tmp_path_factory.mktemp("tdm")
    random, rows = np.random.default_rng(0), []
    for user in range(USERS):
        items = (KINDS * random.choice(ITEMS // KINDS, 7, replace=False) + user % KINDS).tolist()  # of one kind
        rows += [(items[:i], items[i], f"k{items[i] % KINDS}", i == 6) for i in range(1, 7)]
    names = ["had", "item", "kind", "last"]
    table = pa.table(
        dict(zip(names, map(list, zip(*(rows[i] for i in random.permutation(len(rows))), strict=True)), strict=True))
    )
    with xpsql.connect(folder, reporter=SilentReporter()) as opened:
        opened.sql(f"CREATE TABLE log AS SELECT * FROM parquet.`{write(table, folder / 'log.parquet', 10_000)}`")
        settings = "WITH (passes = 12, batch_size = 128, workers = 1, share = (had AS item))"
        for name, beam, tree in (("narrow", 24, "category"), ("wide", 4096, "vectors")):
            using = TDM.format(beam=beam, tree=tree)
            opened.sql(f"TRAIN MODEL {name} USING {using} {settings} AS SELECT had, item, kind FROM log WHERE NOT last")
        yield opened


def recall(session: xpsql.Session, model: str, k: int = 14, items: str = CATALOGUE, rows: str = LAST) -> float:
    call = f"MODEL {model}, {rows}, ITEMS {items}, {k}, EXCLUDE had"
    return float(session.sql(f"SELECT recall FROM ML.EVALUATE({call})").arrow().column(0)[0].as_py())


@pytest.mark.parametrize("model", ["narrow", "wide"])
def test_what_is_left_of_a_users_kind_is_found(session: xpsql.Session, model: str) -> None:
    assert recall(session, model) > 0.75  # 14 items of the kind are left; of all, they are an eighth


def test_a_beam_of_all_leaves_ranks_as_all_scores_do(session: xpsql.Session) -> None:
    asked = f"(SELECT * FROM {LAST} LIMIT 9)"
    some = f"(SELECT * FROM {CATALOGUE} WHERE item % 7 > 0)"
    found = session.sql(
        f"SELECT * FROM ML.RECOMMEND(MODEL wide, (SELECT had FROM {asked}), 5, ITEMS {some}, EXCLUDE had)"
    ).arrow()
    crossed = f"(SELECT * FROM (SELECT had FROM {asked}) CROSS JOIN {some})"
    every = session.sql(f"SELECT * FROM ML.PREDICT(MODEL wide, {crossed})").arrow().to_pylist()
    rows = found.to_pylist()
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5] * 9
    for start in range(0, len(rows), 5):
        own = {row["item"]: row["predicted_score"] for row in every if row["had"] == rows[start]["had"]}
        wanted = sorted((score for item, score in own.items() if item not in rows[start]["had"]), reverse=True)[:5]
        assert [row["score"] for row in rows[start : start + 5]] == pytest.approx(wanted, abs=1e-4)


def test_new_items_get_leaves_and_are_found_and_old_ones_keep_theirs(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql(f"EXPORT MODEL narrow VERSION 1 TO '{tmp_path / 'old'}' FORMAT parquet")
    before = recall(session, "narrow")
    new = "(SELECT had, item + 1000 AS item, kind FROM log WHERE last)"
    session.sql(f"CONTINUE MODEL narrow WITH (passes = 6) AS SELECT * FROM {new} UNION ALL SELECT had, item, kind FROM log")
    session.sql(f"EXPORT MODEL narrow TO '{tmp_path / 'new'}' FORMAT parquet")
    old, now = (
        dict(zip(*pq.read_table(tmp_path / name / "_tree").select(["key", "code"]).to_pydict().values(), strict=True))
        for name in ("old", "new")
    )
    assert len(now) > len(old) == ITEMS
    depth = [int(np.log2(min(codes.values()) + 1)) for codes in (old, now)]
    for key, code in old.items():
        place = now[key] - (2 ** depth[1] - 1)
        assert place >> (depth[1] - depth[0]) == code - (2 ** depth[0] - 1)
    items = f"(SELECT DISTINCT item, kind FROM {new})"
    assert recall(session, "narrow", 14, items, f"(SELECT had, item FROM {new})") > 0.6
    assert recall(session, "narrow") > before - 0.1


def test_items_in_no_leaf_are_reported_and_not_found(session: xpsql.Session) -> None:
    items = "(SELECT * FROM VALUES (1, 'k1'), (777777, 'k1'), (7, 'k1') AS t(item, kind))"
    found = session.sql(f"SELECT item FROM ML.RECOMMEND(MODEL wide, (SELECT array(13) AS had), 3, ITEMS {items})").arrow()
    assert set(found["item"].to_pylist()) == {1, 7}


@pytest.mark.parametrize("shared", [True, False])
def test_attention_cut_to_the_length_of_histories_is_that_of_all_places(shared: bool) -> None:
    random = np.random.default_rng(1)
    batch, length, dim = 2 * BLOCK, 12, 4
    lengths = np.sort(random.integers(0, 9, batch))
    mask = (np.arange(length) < lengths[:, None]) & (random.random((batch, length)) < 0.8)
    elements, keys = random.normal(size=(2, batch, length, dim)).astype(np.float32)
    targets = random.normal(size=(5, dim) if shared else (batch, 5, dim)).astype(np.float32)

    def loss(function: Callable[..., jax.Array], *given: jax.Array) -> jax.Array:
        elements, keys, targets = given
        return (function(elements, keys, mask, targets) ** 2).sum()

    for function in (
        lambda of: loss(of, elements, keys, targets),
        lambda of: jax.grad(loss, (1, 2, 3))(of, elements, keys, targets),
    ):
        for one, other in zip(jax.tree.leaves(function(attended)), jax.tree.leaves(function(whole)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": ()}, "expects an array of items"),
        ({"item": ("item", "kind", "user")}, "expects the item, or"),
        ({"item": ("itme",)}, "no such slot. Did you mean item"),
    ],
)
def test_what_cannot_be_a_tree_is_refused(options: dict[str, tuple[str, ...]], message: str) -> None:
    layout = Layout(scalar=("item", "kind", "user"), labels=(), histories=(("history", ("had",)),))
    with pytest.raises(OptionError, match=message):
        tdm(TdmOptions(**{"history": ("had",), **options}), layout)  # type: ignore[arg-type]


def test_a_tree_is_made_anew_by_what_was_learned_of_its_items(session: xpsql.Session) -> None:
    before = session.models.version("narrow", 1)
    query = "SELECT had, item, kind FROM log WHERE NOT last"
    session.sql(f"CONTINUE MODEL narrow FROM VERSION 1 USING tdm (rebuild = true) WITH (shards = 2) AS {query}")
    after = session.models.version("narrow")
    old, new = tree_of(before), tree_of(after)
    assert (new.keys == old.keys).all()
    assert new.depth == old.depth
    assert not (new.places == old.places).all()
    above = np.unique(new.ancestors(new.places))
    nodes = session.sql("SELECT key FROM ML.WEIGHTS(MODEL narrow) WHERE slot = '(tree)'").arrow()["key"].to_numpy()
    assert sorted(nodes.view(np.uint64)) == sorted(node_keys(above))
    assert recall(session, "narrow") > 0.75
