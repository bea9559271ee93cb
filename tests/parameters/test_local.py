"""A parameter server in this process: pulls and pushes against NumPy, checkpoints, commits, and what is refused."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
import xpsql.ps
from xpsql.platform.result import Result

SGD = "sgd (learning_rate = 0.5)"


def opened(warehouse: Path, operators: str = SGD, shards: int = 2, **more: float) -> xpsql.ps.ParameterServer:
    return xpsql.ps.local(warehouse, "s", tables={"item": xpsql.ps.Table(4, operators, **more)}, shards=shards)


def table(result: Result) -> dict[str, list[object]]:
    assert result.table is not None
    return dict(result.table.to_pydict())


def test_a_push_moves_rows_as_sgd_does_in_numpy(warehouse: Path) -> None:
    generator = np.random.default_rng(0)
    with opened(warehouse) as ps:
        weights = ps["item"].pull(np.arange(50)).copy()
        for _ in range(5):
            keys, gradients = generator.integers(0, 50, 20), generator.normal(size=(20, 4)).astype(np.float32)
            total = np.zeros_like(weights)
            np.add.at(total, keys, gradients)
            weights -= np.float32(0.5) * total
            ps["item"].push(keys, gradients)
        assert np.abs(ps["item"].pull(np.arange(50)) - weights).max() < 1e-6


def test_a_push_moves_rows_as_adagrad_does_in_numpy(warehouse: Path) -> None:
    generator = np.random.default_rng(1)
    with opened(warehouse, "adagrad (learning_rate = 0.1, initial_accumulator = 0.25, eps = 1e-8)") as ps:
        weights, sums = ps["item"].pull(np.arange(30)).copy(), np.full((30, 4), 0.25, np.float32)
        for _ in range(5):
            keys, gradients = generator.permutation(30)[:10], generator.normal(size=(10, 4)).astype(np.float32)
            sums[keys] += gradients**2
            weights[keys] -= np.float32(0.1) * gradients / np.sqrt(sums[keys] + np.float32(1e-8))
            ps["item"].push(keys, gradients)
        assert np.abs(ps["item"].pull(np.arange(30)) - weights).max() < 1e-6


def test_rows_and_initial_values_do_not_depend_on_the_number_of_shards(tmp_path: Path) -> None:
    found = []
    for shards in (1, 3):
        with opened(tmp_path / str(shards), shards=shards) as ps:
            ps["item"].push(np.arange(100), np.ones((100, 4)))
            found.append(ps["item"].pull(np.arange(200)))
    assert found[0].any()
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize(
    "values",
    [["7", "8", "7"], np.array([7, 8, 7], np.int32), pa.array([7, 8, 7], pa.int64()), np.array(["7", "8", "7"])],
    ids=["list", "integers", "arrow", "strings"],
)
def test_values_of_any_type_have_the_rows_of_their_text(warehouse: Path, values: object) -> None:
    with opened(warehouse) as ps:
        before = ps["item"].pull([7, 8]).copy()
        ps["item"].push(values, pa.FixedSizeListArray.from_arrays(pa.array(np.ones(12, np.float32)), 4))
        assert np.array_equal(before - ps["item"].pull([7, 8]), np.float32([[1] * 4, [0.5] * 4]))
        assert np.array_equal(ps["item"].pull(values), ps["item"].pull([7, 8])[[0, 1, 0]])


def test_a_commit_is_a_version_whose_weights_and_keys_sql_reads(warehouse: Path, session: xpsql.Session) -> None:
    with opened(warehouse) as ps:
        ps["item"].push(["a", "b"], np.ones((2, 4)), counts=[3, 4], clicks=[1, 0])
        rows = ps["item"].pull(["a", "b"])
        assert ps.commit("m", examples=7, figures={"auc": 0.75}) == 1
    found = table(session.sql("SELECT * FROM ML.WEIGHTS(MODEL m) WHERE key = feature_key('item', 'b')"))
    assert found["weights"] == [rows[1].tolist()]
    assert (found["slot"], found["count"], found["clicks"]) == (["item"], [4], [0])
    versions = table(session.sql("SHOW VERSIONS OF MODEL m"))
    assert (versions["examples"], versions["features"], versions["auc"]) == ([7], [2], [0.75])
    assert table(session.sql("CHECK MODEL m"))
    assert table(session.sql("SELECT * FROM ML.OPTIONS(MODEL m)"))["part"][:2] == ["sgd", "sgd"]
    assert table(session.sql("DESCRIBE MODEL m"))


def test_two_tables_are_committed_and_exported_with_rows_of_their_own(warehouse: Path, session: xpsql.Session) -> None:
    tables = {"item": xpsql.ps.Table(4, SGD), "user": xpsql.ps.Table(3, "admit (min_count = 2), adagrad", slots=("u", "v"))}
    with xpsql.ps.local(warehouse, "s", tables=tables, shards=2) as ps:
        ps["item"].push([1], np.ones((1, 4)))
        ps["user"].push([1, 1, 2], np.ones((3, 3)), slot="v")
        assert ps.commit("m") == 1
        ps["user"].push([2], np.ones((1, 3)), slot="v")
        assert ps.commit("m") == 2
    found = table(session.sql("SELECT table, slot FROM ML.WEIGHTS(MODEL m) ORDER BY table"))
    assert found == {"table": ["item", "user", "user"], "slot": ["item", "v", "v"]}
    target = warehouse.parent / "out"
    session.sql(f"EXPORT MODEL m TO '{target}' FORMAT parquet")
    assert list(target.rglob("*.parquet"))


def test_a_version_of_rows_alone_says_so_where_scores_are_asked_for(warehouse: Path, session: xpsql.Session) -> None:
    with opened(warehouse) as ps:
        ps["item"].push([1], np.ones((1, 4)))
        ps.commit("m")
    for statement in (
        "SELECT * FROM ML.PREDICT(MODEL m, (SELECT 1 AS item))",
        "CONTINUE MODEL m AS SELECT 1 AS item, 1 AS label",
    ):
        with pytest.raises(xpsql.XpsqlError, match="m has rows only"):
            session.sql(statement)


def test_files_of_the_program_are_kept_with_checkpoints_and_versions(warehouse: Path, session: xpsql.Session) -> None:
    dense = warehouse.parent / "dense.pt"
    dense.write_text("first")
    with opened(warehouse) as ps:
        ps["item"].push([1], np.ones((1, 4)))
        ps.checkpoint({"dense.pt": dense})
        ps.commit("m", {"dense.pt": dense})
    dense.write_text("second")
    with xpsql.ps.local(warehouse, "s") as ps:
        assert ps.files["dense.pt"].read_text() == "first"
    assert (session.models.version("m").program / "dense.pt").read_text() == "first"
    assert table(session.sql("CHECK MODEL m"))


@pytest.mark.parametrize("shards", [1, 3])
def test_a_restart_goes_on_from_the_checkpoint_with_any_number_of_shards(tmp_path: Path, shards: int) -> None:
    keys, steps = np.arange(300), np.random.default_rng(2).normal(size=(4, 300, 4)).astype(np.float32)
    with opened(tmp_path / "whole", "adam") as ps:
        for gradients in steps:
            ps["item"].push(keys, gradients)
        expected = ps["item"].pull(keys)
    with opened(tmp_path / "cut", "adam") as ps:
        for gradients in steps[:2]:
            ps["item"].push(keys, gradients)
        ps.checkpoint()
        ps["item"].push(keys, steps[3])  # lost
    with xpsql.ps.local(tmp_path / "cut", "s", shards=shards) as ps:
        for gradients in steps[2:]:
            ps["item"].push(keys, gradients)
        assert np.array_equal(ps["item"].pull(keys), expected)


def test_a_server_begins_with_the_rows_of_a_version(warehouse: Path) -> None:
    with opened(warehouse, "adagrad") as ps:
        ps["item"].push([1, 2], np.ones((2, 4)))
        ps.commit("m")
        ps["item"].push([1], np.ones((1, 4)))
        expected = ps["item"].pull([1, 2])
    tables = {"item": xpsql.ps.Table(4, "adagrad")}
    with xpsql.ps.local(warehouse, "other", tables=tables, begins="m") as ps:
        ps["item"].push([1], np.ones((1, 4)))
        assert np.array_equal(ps["item"].pull([1, 2]), expected)
        assert ps.commit("m") == 2


def test_admission_keeps_features_out_until_they_occurred_often_enough(warehouse: Path) -> None:
    with opened(warehouse, f"admit (min_count = 3), {SGD}") as ps:
        for expected in (0, 0, 1):
            ps["item"].push(["x"], np.ones((1, 4)))
            assert ps.status()["tables"]["item"]["rows"] == expected


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "needs a table"),
        ({"item": xpsql.ps.Table(0)}, "needs dim, the floats of a row, from 1 to 16,384; got 0"),
        ({"item": xpsql.ps.Table(4, "adagrid")}, "Operators of table item.*Did you mean adagrad"),
        ({"item": xpsql.ps.Table(4, "adagrad (speed = 1)")}, "Operators of table item.*speed"),
        ({"item": xpsql.ps.Table(4, "admit (min_count = 2)")}, "ends with an optimizer"),
        ({"item": xpsql.ps.Table(4, "auto_session, adagrad")}, "offers inputs to an algorithm"),
        ({"item": xpsql.ps.Table(4, "delay_compensation, sgd")}, "compares a push with what was pulled"),
        ({"item": xpsql.ps.Table(4, "safety ON item, sgd")}, "Leave ON out"),
        ({"item": xpsql.ps.Table(4, slots=("user",)), "user": xpsql.ps.Table(4)}, "A slot belongs to one table"),
        ({"an item": xpsql.ps.Table(4)}, "letters, digits and _"),
        ({"item": xpsql.ps.Table(4, init=-1)}, "standard deviation, of at least 0"),
        ({"item": 4}, r"is an xpsql\.ps\.Table, such as xpsql\.ps\.Table\(dim=16\); got 4"),
        ({"item": xpsql.ps.Table(4, slots="user")}, r"takes slots as a list of names; got 'user': write slots=\['user'\]"),
        ({"item": xpsql.ps.Table(4, ["sgd"])}, "takes operators as a text"),  # type: ignore[arg-type]
        ({"item": xpsql.ps.Table(4, init="small")}, "standard deviation, of at least 0"),  # type: ignore[arg-type]
    ],
)
def test_tables_that_cannot_be_are_refused_before_anything_starts(
    warehouse: Path, tables: dict[str, xpsql.ps.Table], message: str
) -> None:
    with pytest.raises(xpsql.StatementError, match=message):
        xpsql.ps.local(warehouse, "s", tables=tables)
    assert not (warehouse / "services" / "s" / "service.json").exists()


def test_keys_and_gradients_that_cannot_be_are_refused_with_what_was_expected(warehouse: Path) -> None:
    with opened(warehouse) as ps:
        with pytest.raises(xpsql.StatementError, match=r"no table 'itme'\. Did you mean item"):
            ps["itme"]
        with pytest.raises(xpsql.DataError, match=r"rows of 4 floats, so 2 keys .* shape \(2, 4\); got \(2, 8\)"):
            ps["item"].push([1, 2], np.ones((2, 8)))
        with pytest.raises(xpsql.DataError, match="integers or strings"):
            ps["item"].pull([1.5])
        with pytest.raises(xpsql.DataError, match=r"got the text 'shoe': write \['shoe'\]"):
            ps["item"].pull("shoe")
        with pytest.raises(xpsql.DataError, match="are numbers"):
            ps["item"].push(["a"], [["x"] * 4])
        with pytest.raises(xpsql.DataError, match="counts are 1 whole numbers"):
            ps["item"].push(["a"], np.ones((1, 4)), counts=[-1])
        with pytest.raises(xpsql.StatementError, match="has the slots item; got 'user'"):
            ps["item"].pull([1], slot="user")
        assert ps.status()["tables"]["item"]["rows"] == 0


def test_a_name_has_one_holder_and_a_checkpoint_keeps_its_tables(warehouse: Path) -> None:
    with opened(warehouse) as ps:
        with pytest.raises(xpsql.ModelError, match="is held by process"):
            opened(warehouse)
        ps.checkpoint()
    with pytest.raises(xpsql.StatementError, match="has a checkpoint of the tables item: dim = 4"):
        opened(warehouse, "adagrad")
    with pytest.raises(xpsql.XpsqlError, match="was closed here"):
        ps["item"].pull([1])


def test_a_declaration_that_says_the_same_goes_on(warehouse: Path) -> None:
    for slots in (["a", "b"], ("a", "b")):
        with xpsql.ps.local(warehouse, "s", tables={"item": xpsql.ps.Table(4, " sgd", slots, 1)}) as ps:
            ps.checkpoint()


def test_a_model_of_an_algorithm_is_not_committed_to(warehouse: Path, session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL m USING xftrl LABEL y AS SELECT id % 2 AS y, id AS item FROM range(100)")
    with opened(warehouse) as ps, pytest.raises(xpsql.StatementError, match="made by xftrl"):
        ps.commit("m")


def test_a_server_and_its_tables_are_not_pickled(warehouse: Path) -> None:
    with opened(warehouse) as ps:
        for what in (ps, ps["item"]):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(what)


def test_without_torch_its_modules_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xpsql.torch", "xpsql.platform.parameters.embedding", "xpsql.platform.parameters.pushes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(xpsql.NotAvailableError, match=r"pip install 'xpsql\[torch\]'"):
        importlib.import_module("xpsql.torch")


def test_a_damaged_checkpoint_is_told_and_not_passed_over(warehouse: Path) -> None:
    with opened(warehouse) as ps:
        name = ps.checkpoint()
    path = warehouse / "services" / "s" / "checkpoints" / f"{name}.json"
    path.write_text("{")
    with pytest.raises(xpsql.CheckpointError, match="is damaged"):
        xpsql.ps.local(warehouse, "s")
