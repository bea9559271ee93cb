"""Folds, readings and updates on the rows of a server, rows pulled ahead, and updates that restarts neither lose nor repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
import xpsql.ps
from tests.cases import costly, costly_after_first, lengthy
from tests.parameters.conftest import Killable
from tests.parameters.test_local import table
from xpsql.platform.parameters.hosted import HostedServer

TABLES = {
    "item": xpsql.ps.Table(4, "adagrad", ("item", "shop"), 0.5),
    "user": xpsql.ps.Table(1, "admit (min_count = 2), ftrl (alpha = 0.5)"),
}
VALUES = np.arange(300)


def filled(warehouse: Path, shards: int = 2, name: str = "s") -> xpsql.ps.ParameterServer:
    ps = xpsql.ps.local(warehouse, name, TABLES, shards)
    draw = np.random.default_rng(0)
    ps["item"].push(VALUES, draw.normal(size=(300, 4)), slot="item")
    ps["item"].push(VALUES[:50], draw.normal(size=(50, 4)), slot="shop")
    ps["user"].push(np.repeat(VALUES, 2), draw.normal(size=(600, 1)))
    return ps


FOLDS = [
    ("item", "norm", {}),
    ("item", "norm", {"by": "slot"}),
    ("item", "top", {"k": 3, "slot": "shop"}),
    ("item", "nearest", {"to": (0.5, -1.0, 0.0, 0.25), "k": 4}),
    ("item", "quantiles", {"at": (0.5, 0.9)}),
    ("user", "extremes", {"of": "z"}),
    ("user", "sum", {"of": "count"}),
    ("user", "histogram", {"edges": (0.0, 0.5)}),
]


@costly_after_first
@pytest.mark.parametrize(("of", "fold", "options"), FOLDS)
@pytest.mark.parametrize("shards", [1, 3])
def test_a_fold_says_what_ml_fold_says_of_the_version_that_is_committed(
    warehouse: Path, session: xpsql.Session, of: str, fold: str, options: dict[str, Any], shards: int
) -> None:
    with filled(warehouse, shards) as ps:
        found = ps[of].fold(fold, **options).to_pydict()
        ps.commit("m")
    query = f"SELECT * FROM ({session_fold(fold, of, options)})" + (" WHERE slot <> 'user'" if options.get("by") else "")
    expected = table(session.sql(query))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        floats = any(isinstance(one, float) for one in values)
        assert (
            np.allclose(np.array(found[name], float), np.array(values, float), 1e-6, equal_nan=True)
            if floats
            else found[name] == values
        ), name


def session_fold(fold: str, of: str, options: dict[str, Any]) -> str:
    given = ", ".join(f"{name} = {value}" for name, value in {**options, "table": of}.items())
    return f"SELECT * FROM ML.FOLD(MODEL m, {fold} ({given}))"


def test_a_reading_gives_numbers_of_rows_without_the_rows(warehouse: Path) -> None:
    with filled(warehouse) as ps:
        asked = ["7", "9", "7", "no such"]
        rows, to = ps["item"].pull(asked, slot="item"), np.array([1, 2, 3, 4.0])
        found = ps["item"].fold_rows(asked, "dot", {"to": to}, slot="item")
        assert np.allclose(found, rows @ to, 1e-5)
        assert np.allclose(ps["item"].fold_rows(asked, "norm", slot="item", of="max"), np.abs(rows).max(1))
        place = ps["item"].fold_rows(asked, "argmax", slot="item")
        assert np.array_equal(place, np.stack([rows.argmax(1), rows.max(1)], 1))
        assert ps["item"].fold_rows([], "dot", {"to": to}, slot="item").shape == (0,)


UPDATES = [
    ("scale", {"factor": 0.5}),
    ("clip", {"max": 0.1}),
    ("zero", {"below": 0.2, "table": "user"}),
    ("quantise", {"bits": 4, "table": "item"}),
    ("prune", {"below": 0.05, "table": "user"}),
]


@lengthy
@pytest.mark.parametrize(("update", "options"), UPDATES)
def test_an_update_changes_rows_as_numpy_does_on_any_number_of_shards(
    tmp_path: Path, update: str, options: dict[str, Any]
) -> None:
    found = []
    for shards in (1, 3):
        with filled(tmp_path / str(shards), shards) as ps:
            before = {"item": ps["item"].pull(VALUES, slot="item"), "user": ps["user"].pull(VALUES)}
            counts = ps.apply(update, **options)
            after = {"item": ps["item"].pull(VALUES, slot="item"), "user": ps["user"].pull(VALUES)}
            found.append((counts, after))
    for name, rows in before.items():
        named = options.get("table", name) == name
        assert np.allclose(after[name], changed(update, options, rows) if named else rows, 1e-5, 1e-6)
        assert np.array_equal(found[0][1][name], after[name])
    assert found[0][0] == found[1][0]
    assert found[0][0]["removed" if update == "prune" else "changed"] > 0


def changed(update: str, options: dict[str, Any], w: np.ndarray) -> np.ndarray:
    if update == "scale":
        return w * options["factor"]
    if update == "clip":
        return w.clip(-options["max"], options["max"])
    if update == "quantise":
        step = np.abs(w).max(1, keepdims=True) / (2 ** (options["bits"] - 1) - 1)
        return np.round(w / step) * step
    return np.where(np.abs(w) < options["below"], 0, w)


def test_forget_removes_the_rows_of_a_slot_alone_and_what_is_counted_of_those_without_one(warehouse: Path) -> None:
    with filled(warehouse) as ps:
        assert ps.apply("forget", slot="shop") == {"changed": 0, "removed": 50}
        assert ps.status()["tables"]["item"]["rows"] == 300
        ps["user"].push([5000], np.ones((1, 1)))
        ps.apply("forget", slot="user")
        ps["user"].push([5000], np.ones((1, 1)))
        assert ps.status()["tables"]["user"]["rows"] == 0
        ps["user"].push([5000], np.ones((1, 1)))
        assert ps.status()["tables"]["user"]["rows"] == 1


def test_pushes_after_an_update_go_on_from_the_weights_that_it_left(warehouse: Path) -> None:
    with filled(warehouse) as ps:
        ps.apply("scale", factor=0.5)
        left = ps["user"].pull(VALUES)
        ps["user"].push(VALUES, np.zeros((300, 1)))
        assert np.allclose(ps["user"].pull(VALUES), left, 1e-5, 1e-7)


def test_an_update_stays_when_the_server_starts_again_and_one_with_a_name_is_applied_once(warehouse: Path) -> None:
    with filled(warehouse) as ps:
        assert ps.apply("scale", factor=0.5, once="half")["changed"] > 0
        kept = ps["item"].pull(VALUES, slot="item")
        ps["item"].push(VALUES, np.ones((300, 4)), slot="item")  # lost
    with xpsql.ps.local(warehouse, "s", shards=3) as ps:
        assert np.array_equal(ps["item"].pull(VALUES, slot="item"), kept)
        assert ps.apply("scale", factor=0.5, once="half")["changed"] > 0
        assert np.array_equal(ps["item"].pull(VALUES, slot="item"), kept)
        ps.checkpoint()
    with xpsql.ps.local(warehouse, "s") as ps:
        ps.apply("scale", factor=0.5, once="half")
        assert np.array_equal(ps["item"].pull(VALUES, slot="item"), kept)
        ps.apply("scale", factor=0.5)
        assert np.allclose(ps["item"].pull(VALUES, slot="item"), kept / 2)


def test_an_update_whose_checkpoint_would_part_rows_from_their_files_asks_for_these(warehouse: Path) -> None:
    dense = warehouse.parent / "dense.pt"
    dense.write_text("first")
    with filled(warehouse) as ps:
        ps.checkpoint({"dense.pt": dense})
        before = ps["item"].pull(VALUES, slot="item")
        with pytest.raises(xpsql.StatementError, match=r"have files \(dense.pt\), and apply takes one"):
            ps.apply("scale", factor=0.5)
        assert np.array_equal(ps["item"].pull(VALUES, slot="item"), before)
        dense.write_text("second")
        ps.apply("scale", factor=0.5, files={"dense.pt": dense})
    with xpsql.ps.local(warehouse, "s") as ps:
        assert ps.files["dense.pt"].read_text() == "second"


def test_functions_that_cannot_be_are_refused_before_anything_starts(warehouse: Path) -> None:
    with filled(warehouse) as ps:
        before = ps["item"].pull(VALUES, slot="item")
        for call, message in (
            (lambda: ps["item"].fold("nrom"), "There is no fold 'nrom'. Did you mean norm"),
            (lambda: ps["item"].fold("norm", bye="slot"), "has no option 'bye'"),
            (lambda: ps["item"].fold("norm", table="user"), "is of table item here"),
            (lambda: ps["item"].fold("nearest", to=(1.0,)), "has 1 numbers; rows of table item have 4"),
            (lambda: ps["item"].fold("top", slot="user"), "'user', which has no rows"),
            (lambda: ps["item"].fold("mine.py:norm"), "takes no code from its clients"),
            (lambda: ps.apply("mine.py:clip"), "takes no code from its clients"),
            (lambda: ps.apply("clip", max=0), "expects"),
            (lambda: ps.apply("clip", table="users"), "is 'users'; the server has item, user"),
            (lambda: ps.apply("scale", slot="itme", factor=0.5), "'itme', which has no rows"),
            (lambda: ps["item"].fold_rows([1], "dot", {"to": [1, 2]}, slot="item"), r"has 4 numbers; got int64\[2\]"),
            (lambda: ps["item"].fold_rows([1], "dot", slot="item"), "takes to, 4 numbers; got none"),
            (lambda: ps["item"].fold_rows([1], "dto", slot="item"), "There is no reading 'dto'"),
        ):
            with pytest.raises(xpsql.XpsqlError, match=message):
                call()
        assert np.array_equal(ps["item"].pull(VALUES, slot="item"), before)


def test_an_update_that_would_make_numbers_infinite_changes_no_row(warehouse: Path) -> None:
    with filled(warehouse) as ps:
        for _ in range(6):
            ps.apply("scale", factor=1e6, table="item")
        before = ps["item"].pull(VALUES, slot="item")
        with pytest.raises(xpsql.StatementError, match="makes numbers of table item NaN or infinite; nothing was applied"):
            ps.apply("scale", factor=1e6)
        assert np.array_equal(ps["item"].pull(VALUES, slot="item"), before)


@costly
def test_shards_in_processes_answer_as_those_in_this_one(warehouse: Path, tmp_path: Path, server: HostedServer) -> None:
    draw, to = np.random.default_rng(0), np.arange(4.0)
    server["item"].push(VALUES, draw.normal(size=(300, 4)), slot="item")
    with xpsql.ps.local(tmp_path / "here", "s", TABLES, 2) as here, xpsql.ps.connect(warehouse, "s") as ps:
        here["item"].push(VALUES, np.random.default_rng(0).normal(size=(300, 4)), slot="item")
        for client in (here, ps):
            client.apply("clip", max=0.3)
        assert ps["item"].fold("norm").equals(here["item"].fold("norm"))
        found = [client["item"].fold_rows(VALUES, "dot", {"to": to}, slot="item") for client in (here, ps)]
        assert np.array_equal(*found)


@costly
def test_a_killed_shard_takes_no_update_back_and_batches_around_it_give_the_same_bits(
    warehouse: Path, tmp_path: Path, server: HostedServer, tasks: Killable
) -> None:
    with xpsql.ps.local(tmp_path / "whole", "s", TABLES, 1) as whole:
        learn(whole)
        expected = whole["item"].pull(VALUES, slot="item")
    learn(server, most=7)  # with an update after the fifth batch, then two more that are lost
    tasks.kill(0)
    while True:
        try:
            learn(server)
            break
        except xpsql.LostError:
            server.reconnect()
    assert np.array_equal(server["item"].pull(VALUES, slot="item"), expected)


def learn(ps: xpsql.ps.ParameterServer, most: int | None = None) -> None:
    """Learn batches, and scale rows once, between the fifth and the sixth of them."""
    for number, batch in enumerate(ps.batches("SELECT id AS item FROM range(0, 300)", batch_size=30, checkpoint_seconds=None)):
        if number == most:
            return
        if batch["item"][0].as_py() >= 150:
            ps.apply("scale", factor=0.5, once="half")
        ps["item"].push(batch["item"], np.full((len(batch), 4), -1), slot="item")


@costly
@pytest.mark.parametrize("remote", [False, True])
def test_rows_are_pulled_ahead_while_a_batch_is_worked_on_and_are_those_of_before_its_push(
    warehouse: Path, tmp_path: Path, server: HostedServer, remote: bool
) -> None:
    ps = xpsql.ps.connect(warehouse, "s") if remote else xpsql.ps.local(tmp_path / "here", "s", TABLES, 2)
    with ps:
        seen = []
        batches = [VALUES[:10], VALUES[:10], VALUES[5:15], VALUES[:10]]
        for batch in ps.ahead(batches, lambda batch: {"item": ps["item"].keys(batch, slot="item")}):
            rows = ps["item"].pull(batch, slot="item")
            seen.append(rows)
            ps["item"].push(batch, np.ones((10, 4)), slot="item")
            assert not np.array_equal(ps["item"].pull(batch, slot="item"), rows)  # a push ends their use
        fresh = ps["item"].pull(VALUES[:10], slot="item")
        assert all(one.shape == (10, 4) for one in seen)
        assert not np.array_equal(fresh, seen[-1])


def test_batches_with_rows_ahead_are_still_learned_exactly_once(warehouse: Path) -> None:
    tables = {"item": xpsql.ps.Table(2, "sgd (learning_rate = 1.0)", init=0)}
    with xpsql.ps.local(warehouse, "s", tables) as ps:
        for most in (5, 1000):
            batches = ps.batches(
                "SELECT id AS item FROM range(0, 1000)",
                batch_size=64,
                ahead=lambda batch: {"item": ps["item"].keys(batch["item"])},
            )
            for number, batch in enumerate(batches):
                if number == most:
                    break
                assert not ps["item"].pull(batch["item"]).any()
                ps["item"].push(batch["item"], np.full((len(batch), 2), -1))
        assert set(ps["item"].pull(np.arange(1000)).reshape(-1).tolist()) == {1}


def test_rows_ahead_need_a_depth(warehouse: Path) -> None:
    with filled(warehouse) as ps, pytest.raises(xpsql.OptionError, match="depth, batches ahead, of at least 1; got 0"):
        next(ps.ahead([1], lambda item: {}, depth=0))


@costly
def test_updates_of_a_committed_version_do_what_those_of_the_server_do(warehouse: Path, session: xpsql.Session) -> None:
    with filled(warehouse) as ps:
        ps.commit("m")
        for update in (
            "scale (factor = 0.5)",
            "clip (max = 0.2, table = item)",
            "forget (slot = shop)",
            "prune (below = 0.02)",
        ):
            session.sql(f"ALTER MODEL m APPLY {update}")
        ps.apply("scale", factor=0.5)
        ps.apply("clip", max=0.2, table="item")
        ps.apply("forget", slot="shop")
        ps.apply("prune", below=0.02)
        ps.commit("other")
    query = "SELECT * FROM ML.WEIGHTS(MODEL {}) ORDER BY table, key"
    found, expected = (session.sql(query.format(model)).arrow() for model in ("m", "other"))
    assert found.num_rows == expected.num_rows > 300
    assert found["key"].equals(expected["key"])
    rows = [np.concatenate([np.atleast_1d(one) for one in part["weights"].to_pylist()]) for part in (found, expected)]
    assert np.allclose(*rows, 1e-5, 1e-7)


def test_rows_that_programs_learned_at_two_places_are_merged_and_carried(
    warehouse: Path, tmp_path: Path, session: xpsql.Session
) -> None:
    tables = {"item": xpsql.ps.Table(1, "sgd (learning_rate = 1.0)", init=0)}
    with xpsql.ps.local(warehouse, "hub", tables) as ps:
        ps["item"].push([1, 2], np.ones((2, 1)))
        ps.commit("hub", examples=2)
    for number, site in enumerate(("a", "b")):
        session.sql(f"EXPORT MODEL hub TO '{tmp_path / site}' FORMAT version")
        session.sql(f"IMPORT MODEL {site} FROM '{tmp_path / site}'")
        with xpsql.ps.local(warehouse, site, tables, begins=site) as ps:
            ps["item"].push([1, 10 + number], np.full((2, 1), -4.0))
            ps.commit(site, examples=2)
    session.sql("MERGE MODEL hub FROM a, b")
    weights = dict(session.sql("SELECT key, weight FROM ML.WEIGHTS(MODEL hub)").fetchall())
    keys = [session.sql(f"SELECT feature_key('item', {value})").fetchall()[0][0] for value in (1, 2, 10, 11)]
    assert [weights[key] for key in keys] == pytest.approx([3, -1, 4, 4])
