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
from tests.cases import costly, lengthy
from tests.training.log import write
from tests.training.processes import ProcessTasks
from xpsql.algorithms.base import Layout
from xpsql.algorithms.blocks.histories import HISTORIES, HistorySlots
from xpsql.algorithms.layers.dot_attention import BLOCK, attended, whole
from xpsql.algorithms.networks.tdm import TdmOptions, tdm
from xpsql.platform.errors import OptionError, StatementError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.metrics.validations import Validated
from xpsql.platform.training.monitor import Monitor
from xpsql.platform.training.online import cost
from xpsql.platform.training.online.planting import tree_of
from xpsql.platform.trees.tree import Tree, node_keys

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


def recall(
    session: xpsql.Session, model: str, k: int = 14, items: str = CATALOGUE, rows: str = LAST, exclude: str = ", EXCLUDE had"
) -> float:
    call = f"MODEL {model}, {rows}, ITEMS {items}, {k}{exclude}"
    return float(session.sql(f"SELECT recall FROM ML.EVALUATE({call})").arrow().column(0)[0].as_py())


@costly
@pytest.mark.parametrize("model", ["narrow", "wide"])
def test_what_is_left_of_a_users_kind_is_found(session: xpsql.Session, model: str) -> None:
    assert recall(session, model) > 0.75  # 14 items of the kind are left; of all, they are an eighth


@lengthy
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


@costly
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


def test_explain_learns_from_a_sample_with_a_tree_of_its_items(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, every leaf of a batch would be contrasted with all others."""
    trees: list[Tree | None] = []
    measure = cost.stepped
    monkeypatch.setattr(cost, "stepped", lambda prepared, *given: [trees.append(prepared.tree), measure(prepared, *given)][1])
    query, settings = (
        "SELECT had, item, kind FROM log WHERE NOT last",
        "WITH (batch_size = 128, workers = 1, share = (had AS item))",
    )
    session.sql(f"EXPLAIN TRAIN MODEL none USING {TDM.format(beam=24, tree='category')} {settings} AS {query}")
    session.sql(f"EXPLAIN CONTINUE MODEL narrow AS {query}")
    assert [len(tree.keys) for tree in trees if tree is not None] == [ITEMS, ITEMS]


def test_items_in_no_leaf_are_reported_and_not_found(session: xpsql.Session) -> None:
    items = "(SELECT * FROM VALUES (1, 'k1'), (777777, 'k1'), (7, 'k1') AS t(item, kind))"
    found = session.sql(f"SELECT item FROM ML.RECOMMEND(MODEL wide, (SELECT array(13) AS had), 3, ITEMS {items})").arrow()
    assert set(found["item"].to_pylist()) == {1, 7}


@costly
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
        ({"item": ("itme",)}, "not a slot. Did you mean item?"),
    ],
)
def test_what_cannot_be_a_tree_is_refused(options: dict[str, tuple[str, ...]], message: str) -> None:
    layout = Layout(scalar=("item", "kind", "user"), labels=()).having(HISTORIES, [HistorySlots("history", ("had",))])
    with pytest.raises(OptionError, match=message):
        tdm(TdmOptions(**{"history": ("had",), **options}), layout)  # type: ignore[arg-type]


BEAM, PASSES = 8, 3
MIXED = "(SELECT had, item, concat('k', item DIV 20) AS kind FROM log WHERE {})"  # kinds that say nothing of users
ROUNDS = (
    f"TRAIN OR REPLACE MODEL m USING tdm (item = (item, kind), history = (had), dim = 16, hidden = (4), beam = {BEAM}, "
    f"rebuild = 2) VALIDATE ON {MIXED.format('last')} WITH (passes = {PASSES}, batch_size = 128, seed = 1, "
    f"share = (had AS item), {{more}}) AS SELECT * FROM {MIXED.format('NOT last')}"
)
INFO = "SELECT recall FROM ML.TRAINING_INFO(MODEL m) WHERE validation ORDER BY pass"


def weights(session: xpsql.Session) -> list[object]:
    return session.sql("SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY key").arrow().to_pylist()


def check_rounds(session: xpsql.Session) -> None:
    """Require the version to be the best pass of all rounds, its tree and its nodes those of that round."""
    version = session.models.version("m")
    rounds, best = version.manifest.learned.rounds, version.manifest.learned.best_pass
    lines = session.sql(INFO).arrow()["recall"].to_pylist()
    assert [one.passes for one in rounds] == [PASSES] * (len(lines) // PASSES)
    kept = 0
    for number, one in enumerate(rounds):
        assert one.recall == max(lines[PASSES * number : PASSES * (number + 1)]) == lines[one.best_pass]
        kept = number if one.recall > 1.03 * rounds[kept].recall else kept
    assert best == rounds[kept].best_pass
    assert len(rounds) == min(kept + 2, 3)
    items = f"(SELECT DISTINCT item, kind FROM {MIXED.format(True)})"
    assert recall(session, "m", BEAM, items, LAST, "") == pytest.approx(lines[best])
    tree = tree_of(version)
    above = np.unique(tree.ancestors(tree.places))
    nodes = session.sql("SELECT key FROM ML.WEIGHTS(MODEL m) WHERE slot = '(tree)'").arrow()["key"].to_numpy()
    assert sorted(nodes.view(np.uint64)) == sorted(node_keys(above))
    assert not (version.folder / "rounds").exists()


@costly
def test_a_tree_is_made_anew_round_by_round_and_the_best_pass_is_kept_wherever_it_is_interrupted(
    session: xpsql.Session,
) -> None:
    session.sql(ROUNDS.format(more="workers = 1"))
    check_rounds(session)
    whole, lines, manifest = weights(session), session.sql(INFO).arrow(), session.models.version("m").manifest
    assert manifest.learned.best_pass is not None
    assert PASSES <= manifest.learned.best_pass < 2 * PASSES
    described = dict(zip(*session.sql("DESCRIBE MODEL m").arrow().to_pydict().values(), strict=True))
    assert (
        described["round 2"]
        == f"recall {manifest.learned.rounds[1].recall:.6g} after pass {manifest.learned.best_pass + 1}, kept"
    )
    fails = [PASSES, manifest.learned.best_pass + 1, 2 * PASSES + 1]  # where a round has no checkpoint, and where it has one

    def validated(monitor: Monitor, found: Validated) -> None:
        if fails and found.pass_number == fails[0]:
            fails.pop(0)
            raise TrainingError("stopped by the test")
        monitor_validated(monitor, found)

    monitor_validated = Monitor.validated
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Monitor, "validated", validated)
        for statement in (ROUNDS.format(more="workers = 1, checkpoint_seconds = 1e6"), "RESUME MODEL m", "RESUME MODEL m"):
            with pytest.raises(TrainingError, match="stopped by the test"):
                session.sql(statement)
    session.sql("RESUME MODEL m")
    assert weights(session) == whole
    assert session.models.version("m").manifest.learned.rounds == manifest.learned.rounds
    assert session.sql(INFO).arrow().equals(lines)


@costly
def test_rounds_on_tasks_begin_with_the_best_pass_and_a_tree_that_all_workers_have(
    session: xpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
    session.sql(ROUNDS.format(more="workers = 2, shards = 2"))
    check_rounds(session)


@costly
def test_a_version_goes_on_in_rounds_where_rows_are_held_out(session: xpsql.Session) -> None:
    train, rows = ROUNDS.format(more="workers = 1"), f"AS SELECT * FROM {MIXED.format('NOT last')}"
    session.sql(
        train.replace("rebuild = 2", "rebuild = 0").replace("MODEL m", "MODEL more").replace(f"passes = {PASSES}", "passes = 1")
    )
    assert session.models.version("more").manifest.learned.rounds == ()
    session.sql(f"CONTINUE MODEL more USING tdm (rebuild = 1) WITH (passes = 1) {rows}")
    assert [one.passes for one in session.models.version("more").manifest.learned.rounds] == [1, 1]
    explained = session.sql(f"EXPLAIN CONTINUE MODEL more {rows}").arrow().to_pydict()
    told = dict(zip(explained["property"], explained["value"], strict=True))
    assert told["rounds"].startswith("2 at most, each of all passes")
    held_out = f"VALIDATE ON {MIXED.format('last')}"
    for text, why in (
        (train.replace(held_out, ""), "rebuild of algorithm tdm = 2 needs rows to judge trees by. Add VALIDATE ON"),
        (train.replace("rebuild = 2", "rebuild = true"), "rebuild of algorithm tdm expects an int"),
    ):
        with pytest.raises(StatementError, match=why) as caught:
            session.sql(text)
        assert caught.value.position is not None
