"""Networks over vectors that shards run: what is learned is what workers would learn, and only outputs travel."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optax
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.notes import Notes
from tests.ps.test_networks import ignored, push_of
from tests.ps.test_remote_client import PROGRAMS
from tests.training.processes import ProcessTasks
from xpsql.algorithms.layers.side_network import SideNetwork
from xpsql.platform.errors import StatementError
from xpsql.platform.input.side.table import Side
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.gang import Gang
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import OutputGradients
from xpsql.platform.ps.shard import Shard
from xpsql.platform.training.online.vector_networks import asked_of, local_runs
from xpsql.platform.training.online.worker import Worker
from xpsql.warehouse.dense import read_dense

ROWS, PICTURES, ELEMENTS, DIM, BATCH = 3_200, 300, 24, 4, 32
VECTORS = "VECTORS pics AS (SELECT id, vector FROM pics)"
BOUND = f"share = (clicked AS image), vectors = (image IN pics, clicked IN pics), batch_size = {BATCH}"
USING = f"wide_deep (dim = {DIM}, hidden = (16), learning_rate = 0.01)"
PLAIN = f"{USING} OPERATORS (sgd (learning_rate = 0.05))"
"""Rows of SGD come to the same in any order, but for rounding: with hybrid they change as pushes come."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, some of which lack their vector, and a log of eight splits."""
    folder, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(3)
    vectors = random.normal(size=(PICTURES, ELEMENTS)).astype(np.float32)
    pq.write_table(pa.table({"id": [f"p{i}" for i in range(PICTURES)], "vector": list(vectors)}), folder / "pics.parquet")
    image, clicked = random.integers(0, PICTURES + 10, ROWS), random.integers(0, PICTURES + 10, (ROWS, 2))
    known = np.concatenate([vectors, np.zeros((10, ELEMENTS), np.float32)])
    columns = {
        "label": (known[image, 0] > 0).astype(np.int32),
        "user": [f"u{i}" for i in random.integers(0, 50, ROWS)],
        "image": [f"p{i}" for i in image],
        "clicked": [[f"p{i}" for i in one] for one in clicked],
    }
    pq.write_table(pa.table(columns), folder / "log.parquet", row_group_size=ROWS // 8)
    pq.write_table(pa.table(columns), folder / "whole.parquet")
    return folder


def tables(session: xpsql.Session, folder: Path) -> xpsql.Session:
    for name in ("pics", "log", "whole"):
        session.sql(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM parquet.`{folder / name}.parquet`")
    return session


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield tables(session, folder)


def train(session: xpsql.Session, settings: str, using: str = USING, log: str = "log") -> None:
    session.sql(f"TRAIN OR REPLACE MODEL m USING {using} {VECTORS} WITH ({BOUND}, {settings}) AS SELECT * FROM {log}")


def learned(session: xpsql.Session) -> dict[str, NDArray[Any]]:
    """Return all that the newest version has: layers with their optimizer's state, and rows in order of key."""
    version = session.models.version("m")
    dense = read_dense([part for part in version.everything() if "dense" in str(part.path)])
    found: dict[str, NDArray[Any]] = {"/".join(name): values for name, values in dense.items()}
    rows = session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow()
    rows = rows.sort_by([(name, "ascending") for name in ("table", "slot", "key") if name in rows.column_names])
    for name in rows.column_names:
        if pa.types.is_floating(rows[name].type) and name not in ("utility", "information"):
            found[f"rows/{name}"] = rows[name].to_numpy()
    return found


def trained(session: xpsql.Session, settings: str, using: str = USING, log: str = "log") -> dict[str, NDArray[Any]]:
    train(session, settings, using, log)
    return learned(session)


def equal(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def close(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]], most: float) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], atol=most, err_msg=name)


@lengthy
def test_with_one_worker_and_one_shard_a_network_on_the_shard_learns_the_same_bits(session: xpsql.Session) -> None:
    places = "workers = 1, shards = 1, sync = 'bsp'"
    by_workers = trained(session, f"{places}, vectors_run = 'workers'", log="whole")
    assert equal(by_workers, trained(session, f"{places}, vectors_run = 'shards'", log="whole"))


@costly
def test_with_hybrid_two_workers_and_three_shards_come_to_what_workers_come_to(session: xpsql.Session) -> None:
    def predictions(run: str) -> NDArray[Any]:
        train(session, f"workers = 2, shards = 3, sync = 'hybrid', vectors_run = '{run}'", PLAIN)  # 52 steps
        found = session.sql("SELECT predicted_label FROM ML.PREDICT(MODEL m, TABLE log)").arrow()
        return np.asarray(found["predicted_label"].to_numpy())

    found: dict[str, list[NDArray[Any]]] = {"workers": [], "shards": []}
    for _ in range(3):  # a worker that is late leaves a split to the other one, and then some batches differ
        for run, values in found.items():
            values.append(predictions(run))
        if min(np.abs(one - other).mean() for one in found["workers"] for other in found["shards"]) < 0.004:
            return
    pytest.fail("No two of three trainings each come to about the same predictions.")


@costly
def test_in_step_results_do_not_depend_on_timing(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    places = "workers = 3, shards = 3, sync = 'bsp', vectors_run = 'shards'"
    first = trained(session, places)
    made, random = Worker._take, np.random.default_rng(0)

    def slow(self: Worker, *given: Any) -> Any:
        time.sleep(random.random() / 200)
        return made(self, *given)

    monkeypatch.setattr(Worker, "_take", slow)
    assert equal(first, trained(session, places))


@costly
def test_another_number_of_shards_changes_rounding_alone(session: xpsql.Session) -> None:
    places = "workers = 2, sync = 'bsp', vectors_run = 'shards'"
    one = trained(session, f"{places}, shards = 1", PLAIN)
    close(one, trained(session, f"{places}, shards = 4", PLAIN), 1e-5)


def on_processes(session: xpsql.Session) -> ProcessTasks:
    session.engine.tasks = tasks = ProcessTasks(8)  # type: ignore[misc, assignment]
    return tasks


@costly
def test_tasks_learn_what_one_process_learns_and_rows_and_layers_come_with_a_checkpoint(
    session: xpsql.Session, folder: Path, tmp_path: Path
) -> None:
    places = "workers = 2, shards = 3, sync = 'bsp', vectors_run = 'shards', checkpoint_seconds = 0.05"
    here = trained(session, places)
    with xpsql.connect(tmp_path / "tasks", reporter=SilentReporter()) as other:
        on_processes(tables(other, folder))
        assert equal(here, trained(other, places))


@costly
def test_a_shard_that_is_killed_between_two_gradients_is_made_up_for(
    session: xpsql.Session, folder: Path, tmp_path: Path
) -> None:
    places = "workers = 2, shards = 2, sync = 'bsp', passes = 12, vectors_run = 'shards', checkpoint_seconds = 0.1"
    undisturbed, notes = trained(session, places), Notes()
    with xpsql.connect(tmp_path / "tasks", reporter=notes) as other:
        tasks, killed = on_processes(tables(other, folder)), threading.Event()

        def kill() -> None:
            checkpoints = tmp_path / "tasks" / "models" / "m"
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not list(checkpoints.glob("v*/checkpoints/*/manifest.json")):
                time.sleep(0.002)
            shards = next(job for name, job in tasks.started.items() if "shards" in name)
            process = shards.processes[1]
            if process.pid is not None and process.is_alive():
                process.kill()
                killed.set()

        killer = threading.Thread(target=kill)
        killer.start()
        found = trained(other, places)
        killer.join()
    assert killed.is_set()
    assert any("Recovered" in note or "again" in note or "Lost" in note for note in notes.notes), notes.notes
    assert equal(undisturbed, found)


@costly
def test_spark_learns_the_same_bits(session: xpsql.Session, folder: Path, spark: SparkSession, tmp_path: Path) -> None:
    places = "workers = 2, shards = 1, sync = 'bsp', vectors_run = 'shards'"
    here = trained(session, places)
    with xpsql.connect(tmp_path / "spark", spark, SilentReporter()) as other:
        assert equal(here, trained(tables(other, folder), places))


@costly
def test_what_follows_sees_no_difference(session: xpsql.Session, folder: Path) -> None:
    train(session, "workers = 1, shards = 1, sync = 'bsp', vectors_run = 'shards'", log="whole")
    predict = "SELECT predicted_label FROM ML.PREDICT(MODEL m, TABLE log)"
    on_shards = session.sql(predict).arrow()
    session.sql("CONTINUE MODEL m WITH (sync = 'bsp', vectors_run = 'shards', workers = 2, shards = 2) AS SELECT * FROM log")
    assert session.sql("SELECT auc FROM ML.EVALUATE(MODEL m, TABLE log)").arrow()["auc"][0].as_py() > 0.7
    session.sql("CONTINUE MODEL m AS SELECT * FROM log")  # which is no property of the version
    train(session, "workers = 1, shards = 1, sync = 'bsp', vectors_run = 'workers'", log="whole")
    assert session.sql(predict).arrow().equals(on_shards)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("vectors_run = 'shards'", "needs sync = 'bsp' or 'hybrid'.*got sync = 'asp'"),
        ("vectors_run = 'shards', sync = 'ssp'", "needs sync = 'bsp' or 'hybrid'.*got sync = 'ssp'"),
        ("vectors_run = 'shards', sync = 'bsp', device = 'gpu', workers = 1", "runs the network on CPUs"),
        ("vectors_run = 'moon'", "Valid: auto, shards, workers"),
    ],
)
def test_what_cannot_run_on_shards_is_refused_before_anything_starts(session: xpsql.Session, settings: str, said: str) -> None:
    for statement in ("TRAIN MODEL m", "EXPLAIN TRAIN MODEL m"):
        with pytest.raises(StatementError, match=said) as raised:
            session.sql(f"{statement} USING {USING} {VECTORS} WITH ({BOUND}, {settings}) AS SELECT * FROM log")
        assert "vectors_run" in str(raised.value.position)
    with pytest.raises(StatementError, match=r"vectors_run.*vectors"):
        session.sql("TRAIN MODEL m USING xftrl WITH (vectors_run = 'workers') AS SELECT label, user FROM log")


def explained(session: xpsql.Session, settings: str) -> str:
    found = session.sql(
        f"EXPLAIN TRAIN MODEL m USING {USING} {VECTORS} WITH ({BOUND}, {settings}) AS SELECT * FROM log"
    ).arrow()
    return str(dict(zip(found["property"].to_pylist(), found["value"].to_pylist(), strict=True))["vectors pics"])


@lengthy
def test_explain_tells_where_the_network_runs_and_what_a_batch_moves(session: xpsql.Session) -> None:
    by_workers = explained(session, "sync = 'bsp', workers = 2, vectors_run = 'workers'")
    by_shards = explained(session, "sync = 'bsp', workers = 2, shards = 3, vectors_run = 'shards'")
    assert re.match(
        r"300 of 24 floats, 28 KiB, for image, clicked; workers run the network; a batch has \d+ distinct: \d+ KiB", by_workers
    )
    assert "shards run the network" in by_shards
    assert re.search(r"a batch has \d+ distinct: \d+ KiB in place of \d+ KiB", by_shards)


@costly
def test_auto_leaves_networks_with_workers_unless_they_have_vectors_in_common_or_too_many(session: xpsql.Session) -> None:
    assert "workers run" in explained(session, "workers = 2")
    assert "workers run" in explained(session, "sync = 'bsp'")
    assert "workers run" in explained(session, "sync = 'bsp', workers = 2")
    assert "shards run" in explained(session, "sync = 'bsp', workers = 8")  # each has most pictures
    on_processes(session).memory = 50_000
    assert "shards run" in explained(session, "sync = 'bsp', workers = 1")
    assert "workers run" in explained(session, "sync = 'asp', workers = 1")
    session.engine.tasks.memory = 60_000  # type: ignore[union-attr, attr-defined]
    assert "workers run" in explained(session, "sync = 'bsp', workers = 1")


@costly
def test_an_image_network_learns_jointly_from_pixels_and_scores_and_exports_alike_wherever_it_ran(
    session: xpsql.Session, tmp_path: Path
) -> None:
    """Pictures of 8 by 8 pixels, lines across or upright: what is clicked on is across."""
    session.sql(
        "CREATE TABLE drawn AS SELECT concat('d', id) AS id, transform(sequence(0, 63), k -> CAST(IF(pmod(id, 2) = 0, "
        "IF(pmod(k DIV 8 + id DIV 2, 3) = 0, 1, 0), IF(pmod(pmod(k, 8) + id DIV 2, 3) = 0, 1, 0)) + sin(id * k) / 4 AS FLOAT)) "
        "AS pixels FROM range(120)"
    )
    session.sql(
        "CREATE TABLE shown AS SELECT concat('d', image) AS image, concat('u', id % 7) AS user, CAST(pmod(xxhash64(id), 100) < "
        "IF(pmod(image, 2) = 0, 80, 20) AS INT) AS label FROM (SELECT id, pmod(xxhash64(id, 1), 120) AS image FROM range(6000))"
    )
    learned_from, new = (f"SELECT * FROM shown WHERE pmod(xxhash64(image), 4) {how} 0" for how in (">", "="))
    said, exported = [], []
    for run in ("workers", "shards"):
        session.sql(
            "TRAIN OR REPLACE MODEL m USING wide_deep (dim = 4, hidden = (8)) "
            "VECTORS drawn AS (SELECT id, pixels FROM drawn) WITH (vectors = (image IN drawn), vectors_hidden = (32, 16), "
            f"batch_size = 64, passes = 3, sync = 'bsp', shards = 1, workers = 1, vectors_run = '{run}') AS {learned_from}"
        )
        found = session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL m, ({new}))").arrow()
        said.append(found["predicted_label"].to_numpy())
        session.sql(f"EXPORT MODEL m TO '{tmp_path / run}' FORMAT serving")
        exported.append({path.name: path.stat().st_size for path in (tmp_path / run).iterdir() if path.suffix == ".bin"})
    assert session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, ({new}))").arrow()["auc"][0].as_py() > 0.7
    np.testing.assert_allclose(said[0], said[1], atol=1e-5)
    assert exported[0] == exported[1]
    assert "vectors.drawn.bin" in exported[0]


class Pytorch:
    """The oracle: the same network and Adam in PyTorch."""

    def __init__(self, layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]], values: NDArray[np.float32]) -> None:
        import torch

        self._torch, self.layers = torch, [tuple(torch.tensor(one, requires_grad=True) for one in layer) for layer in layers]
        self._adam = torch.optim.Adam([one for layer in self.layers for one in layer], lr=0.01)
        known = values / np.sqrt((values * values).mean(axis=1, keepdims=True) + 1e-12)
        lacking = np.zeros((2, values.shape[1]), np.float32)
        flag = (np.arange(len(values) + 2) == 1).astype(np.float32)[:, None]
        self._values = torch.tensor(np.concatenate([np.concatenate([lacking, known]), flag], axis=1).astype(np.float32))

    def outputs(self, codes: NDArray[np.int32]) -> Any:
        x = self._values[self._torch.tensor(codes.astype(np.int64))]
        for number, (kernel, bias) in enumerate(self.layers, 1):
            x = x @ kernel + bias
            x = self._torch.relu(x) if number < len(self.layers) else x
        return x

    def step(self, batches: list[tuple[NDArray[np.int32], NDArray[np.float32]]]) -> None:
        losses = [((self.outputs(codes) - self._torch.tensor(target)) ** 2).sum() / 2 for codes, target in batches]
        self._adam.zero_grad()
        (sum(losses) / sum(len(codes) for codes, _ in batches)).backward()
        self._adam.step()


def test_networks_on_shards_learn_what_pytorch_learns_in_one_process(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    random, elements, steps, workers = np.random.default_rng(5), 12, 50, 2
    values = random.normal(size=(90, elements)).astype(np.float32)
    values.tofile(tmp_path / "values.f32")
    np.arange(90, dtype=np.uint64).tofile(tmp_path / "keys-1.u64")
    np.arange(90, dtype=np.int32).tofile(tmp_path / "places-1.i32")
    side = Side("pics", ("image",), (8, 6), elements, str(tmp_path))
    network = SideNetwork(side.layout, 0, 3)
    dense = DenseProgram(network.specs, optax.adam(0.01), 7)
    recipe: Any = SimpleNamespace(algorithm=SimpleNamespace(sides=(network,)), dense=dense)
    columns: Any = SimpleNamespace(sides=(side,))
    shards = [Shard(tables_of(PROGRAMS, Store), dense.part(number, 3), str) for number in range(3)]
    gangs = [
        Gang(shard, workers, ignored, False, run)
        for shard, run in zip(shards, local_runs(recipe, columns, shards), strict=True)
    ]
    first = {name: np.asarray(values) for shard in shards for name, values in shard.dense.pull().items()}
    oracle = Pytorch([(first[f"vectors.pics.{n}.kernel"], first[f"vectors.pics.{n}.bias"]) for n in (1, 2, 3)], values)
    targets = random.normal(size=(92, 3)).astype(np.float32)
    asked = [[np.unique(random.integers(1, 92, 20)).astype(np.int32) for _ in range(workers)] for _ in range(steps)]

    def work(worker: int) -> None:
        client = LocalClient(gangs)
        networks = asked_of(client, recipe, columns)
        for codes in (one[worker] for one in asked):
            found = networks.start(worker, {"pics": codes}, False).result().values["pics"]
            client.push(push_of(worker, {"pics": OutputGradients(codes, found - targets[codes], len(codes))}))
        client.leave(worker)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for one in asked:
        oracle.step([(codes, targets[codes]) for codes in one])
    for thread in threads:
        thread.join(60)
    last = {name: np.asarray(values) for shard in shards for name, values in shard.dense.pull().items()}
    for number, (kernel, bias) in enumerate(oracle.layers, 1):
        np.testing.assert_allclose(last[f"vectors.pics.{number}.kernel"], kernel.detach().numpy(), atol=2e-5)
        np.testing.assert_allclose(last[f"vectors.pics.{number}.bias"], bias.detach().numpy(), atol=2e-5)
