"""Shards that are restored from checkpoints hold what they held, on any number of shards, and apply what they lack, once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import optax
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import costly
from xpsql.platform.errors import CheckpointError, ModelError
from xpsql.platform.operators.base import DenseSpec, TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.operators.lifetimes.admit import AdmitOptions, admit
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import BatchId, Push, Touched
from xpsql.platform.ps.moments import no_moments
from xpsql.platform.ps.placement import Placement, parts_of, slices_of
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.watermarks import Watermarks, as_lines, lowest
from xpsql.platform.training.checkpoints.checkpointer import CheckpointContents, Checkpointer
from xpsql.platform.training.checkpoints.driver_state import DriverState
from xpsql.platform.training.checkpoints.files import restore, write
from xpsql.platform.training.metrics.metrics import LabelMetrics, Targets
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoints import Checkpoint, Checkpoints

SPEC = TableSpec("weights", 2)
PROGRAMS = Programs(SPEC, chain(admit(AdmitOptions(min_count=3), SPEC), ftrl(FtrlOptions(), SPEC)), seed=7)
DENSE = DenseProgram((DenseSpec("kernel", (64, 1024)), DenseSpec("bias", (2,)), DenseSpec("scale", (1,))), optax.adam(0.1), 7)
KEYS = np.random.default_rng(1).integers(0, 2**64, 400, np.uint64)
SIZE = 64
BATCHES = 6


def new(num_shards: int) -> dict[int, Shard]:
    shards = {}
    for number in range(num_shards):
        shard = Shard(tables_of([PROGRAMS], Store), DENSE.part(number, num_shards), str)
        shard.watermarks = Watermarks.fresh(slices_of(number, num_shards), shard.dense.names, 0)
        shard.moments = no_moments(1 if number == 0 else 0)
        shards[number] = shard
    return shards


def push_of(batch: int, split: int) -> Push:
    random = np.random.default_rng((split, batch))
    keys = random.choice(KEYS, SIZE, replace=False)
    counts = random.integers(1, 3, SIZE).astype(np.uint32)
    touched = Touched(keys, np.zeros(SIZE, np.uint16), counts, counts // 2, 100, BatchId(0, 0, split, batch), 10, 4)
    shapes = {name: piece.shape(DENSE.specs[piece.of].shape) for name, piece in DENSE.pieces.items()}  # the kernel has two
    dense = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    moments = no_moments(1)._replace(count=np.full(1, 3.0), mean=random.normal(size=1), squares=np.full(1, 2.0))
    gradients = random.normal(size=(SIZE, 2)).astype(np.float32)
    return Push(touched, {"weights": counts * 0}, {"weights": gradients}, dense=dense, moments=moments)


def push(shards: Mapping[int, Shard], batches: Sequence[tuple[int, int]]) -> None:
    client = LocalClient(list(shards.values()))
    for split, batch in batches:
        client.push(push_of(batch, split))


def push_some(shards: Mapping[int, Shard], have: Sequence[int]) -> None:
    """Let each shard have so many batches of split 0, as shards of workers that do not wait for each other."""
    for batch in range(max(have)):
        whole = push_of(batch, 0)
        placement = Placement(whole.touched.keys, len(shards), Ladder())
        names = [shard.dense.names for shard in shards.values()]
        for number, part in enumerate(parts_of(whole, placement, names)):
            if batch < have[number]:
                shards[number].push(part)


def taken(shards: Mapping[int, Shard], place: Storage, number: int, full: bool, after: tuple[str, ...] = ()) -> Checkpoint:
    name = f"000000-{number:06}"
    parts = []
    for n, shard in shards.items():
        with shard.snapshot(full) as snapshot:
            parts.append(write(place, name, n, len(shards), snapshot))
    with place.written(f"{name}/driver.state"):
        pass
    checkpoint = Checkpoint(0, number, after, tuple(parts))
    Checkpoints(place).commit(checkpoint)
    return checkpoint


def rows_of(shard: Shard) -> dict[int, bytes]:
    """Return key -> the bytes of all columns."""
    store = shard.first.store
    keys, rows = store.keys()
    columns = [np.empty((len(keys), dim), dtype) for _, dtype, dim, _ in store.layout]
    store.gather(rows, list(range(len(columns))), columns)
    return {key: b"".join(column[i].tobytes() for column in columns) for i, key in enumerate(keys.tolist())}


def state(shards: Mapping[int, Shard]) -> dict[str, object]:
    """Return all that shards hold together."""
    rows: dict[int, bytes] = {}
    counted: list[tuple[int, int, bool]] = []
    found: dict[str, object] = {}
    for shard in shards.values():
        rows |= rows_of(shard)
        assert shard.first.candidates is not None
        counted += zip(*(values.tolist() for values in shard.first.candidates.entries()), strict=True)
        found |= {f"{a.name} {a.column}": (a.values.dtype.name, a.values.tobytes()) for a in shard.dense.arrays()}
    names = {name for shard in shards.values() for name in shard.reports}
    reports = {name: sum(shard.reports.get(name, 0.0) for shard in shards.values()) for name in names}
    moments = tuple(values.tobytes() for values in shards[0].moments)
    examples = {(shard.examples, shard.positives, shard.now) for shard in shards.values()}
    return {**found, "rows": rows, "candidates": sorted(counted), "reports": reports, "moments": moments, "examples": examples}


ALL = [(split, batch) for split in range(2) for batch in range(BATCHES)]


@costly
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    have=st.lists(st.integers(0, BATCHES), min_size=1, max_size=4),
    before=st.lists(st.integers(0, BATCHES), min_size=4, max_size=4),
    num_shards=st.integers(1, 4),
)
def test_a_restore_on_any_number_of_shards_ends_as_if_each_batch_had_come_once(
    tmp_path_factory: pytest.TempPathFactory, have: list[int], before: list[int], num_shards: int
) -> None:
    """A full checkpoint when shards had some batches, an incremental one after more of them; then all batches come again."""
    place = Storage(str(tmp_path_factory.mktemp("checkpoints")))
    old, restored, expected = new(len(have)), new(num_shards), new(num_shards)
    push_some(old, [min(pair) for pair in zip(have, before, strict=False)])
    first = taken(old, place, 1, full=True)
    push_some(old, have)
    second = taken(old, place, 2, full=False, after=(first.name,))
    push_some(old, [BATCHES] * len(have))
    restore(restored, num_shards, Checkpoints(place), second, epoch=0)
    applied = lowest(entry for shard in restored.values() for entry in shard.progress())
    assert applied.get((0, 0), 0) == min(have)
    push(restored, [one for one in ALL if one[0] or one[1] >= min(have)])
    push(expected, ALL)
    assert state(restored) == state(expected)


def test_a_chain_of_checkpoints_restores_each_of_its_moments_bit_by_bit(tmp_path: Path) -> None:
    place, shards, names, moments = Storage(str(tmp_path)), new(2), [], []
    for number in range(1, 5):
        push(shards, ALL[3 * number - 3 : 3 * number])
        for shard in shards.values():
            shard.first.store.evict(KEYS[number * 40 : number * 40 + 20])
        names.append(taken(shards, place, number, number == 1, tuple(names)).name)
        moments.append(state(shards))
    assert [part.full for name in names for part in Checkpoints(place).read(name).parts] == [True, True, *[False] * 6]
    for name, expected in zip(names, moments, strict=True):
        restored = new(2)
        restore(restored, 2, Checkpoints(place), Checkpoints(place).read(name), epoch=0)
        assert state(restored) == expected


class Shards:
    """Takes checkpoints of two shards; fails where it is asked to."""

    def __init__(self, place: Storage) -> None:
        self.shards = new(2)
        self.place = place
        self.error: Exception | None = None
        self.failed = threading.Event()
        self.fulls: list[bool] = []

    def take(self, folder: str, full: bool) -> CheckpointContents:
        self.fulls.append(full)
        parts = []
        for number, shard in self.shards.items():
            with shard.snapshot(full) as snapshot:
                if self.error is not None:
                    self.failed.set()
                    raise self.error
                parts.append(write(self.place, folder, number, 2, snapshot))
        nothing = as_lines({})
        return CheckpointContents(
            parts,
            DriverState(
                nothing, nothing, LabelMetrics(Targets.of(["label"], "classes", grouped=False)).tallies(), (), (), 10, 1.0
            ),
        )

    def cancel(self) -> None:
        for shard in self.shards.values():
            shard.cancel()


def checkpointer(shards: Shards, seconds: float, notes: list[str]) -> Checkpointer:
    return Checkpointer(Checkpoints(shards.place), 0, seconds, shards, notes.append)


def test_full_checkpoints_are_followed_by_incremental_ones_and_two_chains_are_kept(tmp_path: Path) -> None:
    shards = Shards(Storage(str(tmp_path)))
    push(shards.shards, ALL)
    with checkpointer(shards, 0, []) as taking:
        made = [taking.take() for _ in range(40)]
    assert shards.fulls[:3] == [True, False, False]
    full = [checkpoint.name for checkpoint in made if not checkpoint.after]
    assert len(full) > 2
    assert Checkpoints(shards.place).names() == [one.name for one in made if one.name >= full[-2]]
    assert all(isinstance(one, Checkpoint) for one in Checkpoints(shards.place).complete())


def test_a_checkpoint_that_fails_is_reported_and_removed_and_the_next_one_is_full(tmp_path: Path) -> None:
    shards, notes = Shards(Storage(str(tmp_path))), []
    with checkpointer(shards, 0, notes) as taking:
        first = taking.take()
        shards.error = ModelError("the disk is full")
        with pytest.raises(ModelError, match="the disk is full"):
            taking.take()
        shards.error = None
        assert Checkpoints(shards.place).names() == [first.name]
        assert not taking.take().after
    assert shards.fulls == [True, False, True]


def test_a_checkpoint_is_kept_though_older_ones_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Storage, name: str = "") -> None:
        raise ModelError(f"Cannot write {name}: Permission denied.")

    shards = Shards(Storage(str(tmp_path)))
    push(shards.shards, ALL)
    monkeypatch.setattr(Storage, "remove", refused)
    with checkpointer(shards, 0, []) as taking:
        made = [taking.take() for _ in range(40)]
    assert len([one for one in made if not one.after]) > 2
    kept = [one.name for one in Checkpoints(shards.place).complete() if isinstance(one, Checkpoint)]
    assert kept[0] == made[-1].name


def test_a_failure_in_the_thread_is_a_note_and_a_mistake_is_raised(tmp_path: Path) -> None:
    shards, reported = Shards(Storage(str(tmp_path))), threading.Event()
    notes: list[str] = []

    def note(message: str) -> None:
        notes.append(message)
        reported.set()

    shards.error = ModelError("the disk is full")
    with Checkpointer(Checkpoints(shards.place), 0, 0.01, shards, note):
        assert reported.wait(10)
    assert "The checkpoint failed: the disk is full. The training continues" in notes[0]
    shards.error, shards.failed = ZeroDivisionError("a mistake"), threading.Event()
    with pytest.raises(ZeroDivisionError, match="a mistake"), Checkpointer(Checkpoints(shards.place), 0, 0.01, shards, note):
        assert shards.failed.wait(10)


def test_a_push_waits_for_the_writer_no_longer_than_said_and_then_the_checkpoint_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpsql.platform.ps.shard.LEAST_KEPT_BYTES", 0)
    monkeypatch.setattr("xpsql.platform.ps.shard.MOST_KEPT", 0.0)
    monkeypatch.setattr("xpsql.platform.ps.shard.READ_SECONDS", 0.05)
    shards = new(1)
    push(shards, ALL[:3])
    with shards[0].snapshot(True) as snapshot:
        push(shards, ALL[3:5])  # the first is kept beside, the second waits
        with pytest.raises(CheckpointError, match="waited too long"):
            list(snapshot.records("weights"))
    with shards[0].snapshot(False) as snapshot:
        assert snapshot.state.tables["weights"].full


def test_a_checkpoint_on_another_filesystem_is_restored(tmp_path: Path) -> None:
    place, shards = Storage((tmp_path / "elsewhere").as_uri(), "m", "v1"), new(2)
    push(shards, ALL)
    checkpoint = taken(shards, place, 1, True)
    restored = new(2)
    restore(restored, 2, Checkpoints(place), checkpoint, epoch=0)
    assert state(restored) == state(shards)
    assert (tmp_path / "elsewhere" / "m" / "v1" / checkpoint.name / "manifest.json").exists()
    place.remove()
    assert not (tmp_path / "elsewhere" / "m" / "v1").exists()
    for uri in ("nowhere://bucket", "relative/folder"):
        with pytest.raises(ModelError, match="Give an absolute path, or a URI such as s3://bucket/folder"):
            Storage(uri)
