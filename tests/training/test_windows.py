"""Windows of an evaluation after a loss: they measure what no shard has learned from yet, and tell what they lack."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import xpsql
from tests.input.test_source import BATCH, GROUP, source, taken
from tests.notes import Notes
from xpsql.platform.input.batches import Batch
from xpsql.platform.input.dealing import TurnAssignment
from xpsql.platform.ps.watermarks import Turn
from xpsql.platform.training.metrics.evaluate import Evaluate
from xpsql.platform.training.metrics.metrics import Targets
from xpsql.platform.training.metrics.windows import Collector, Key, Schedule, Window, WindowPart, measured, nothing
from xpsql.platform.training.monitor import Monitor

BATCHES = -(-GROUP // BATCH)
EVALUATE = Evaluate(1, 2, None)  # of the three batches of a split the last two are a window
TARGETS = Targets.of(["label"], "classes", grouped=False)
SCHEDULE = Schedule(EVALUATE, (0, 3), 6)


class Collected:
    """What a collector tells of the batches of a split."""

    def __init__(self, batches: list[Any], begun: dict[Key, WindowPart] | None = None, schedule: Schedule = SCHEDULE) -> None:
        self.windows: list[Window] = []
        self.learned: list[int] = []
        self.collector = Collector(schedule, TARGETS, self.learn, self.windows.append, begun or {})
        for batch in batches:
            if isinstance(batch, Batch):
                self.collector.learned(batch, np.full((1, batch.examples), 0.5, np.float32))
            else:
                self.collector.finish()

    def learn(self, batch: Batch, predictions: Any) -> None:
        self.learned.append(batch.id.batch)


@pytest.fixture
def whole(session: xpsql.Session, tmp_path: Path) -> list[Any]:
    return taken(source(session, tmp_path), [TurnAssignment(Turn(0, 0))])


def test_a_window_has_the_batches_that_no_shard_had_and_tells_how_many_it_lacks(
    session: xpsql.Session,
    tmp_path: Path,
) -> None:
    input_ = source(session, tmp_path)
    for start, applied, reached in itertools.combinations_with_replacement(range(BATCHES + 1), 3):
        found = Collected(taken(input_, [TurnAssignment(Turn(0, 0), start, applied, start, reached)]))
        found.collector.finish()
        assert found.learned == list(range(start, BATCHES))
        kept = [number for number in (1, 2) if number >= reached]
        examples = [min(BATCH, GROUP - BATCH * number) for number in kept]
        for window in found.windows:
            assert (window.batches, window.missing) == (len(kept), 2 - len(kept))
            assert window.tallies[0].examples == sum(examples)
        assert len(found.windows) == (1 if start < BATCHES else 0)


def test_a_window_that_was_open_goes_on_and_lacks_nothing(whole: list[Any]) -> None:
    before = Collected(whole[:2])
    opened = before.collector.open()
    assert opened is not None
    (after,) = Collected(whole[2:], {opened.key: opened}).windows
    (expected,) = Collected(whole).windows
    assert (after.batches, after.missing) == (2, 0)
    ((one,), (other,)) = after.tallies, expected.tallies
    assert one.examples == other.examples
    for name in one.states:
        for array, wanted in zip(one.states[name], other.states[name], strict=True):
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize(
    ("every", "on", "expected"),
    [
        (4, 2, [((0, 1, 0), 2)]),  # later than a split is long
        (2, 2, [((0, 0, 0), 1), ((0, 1, 0), 1)]),  # over the end of a split
        (1, 1, [((0, 0, 0), 1), ((0, 1, 1), 1), ((0, 1, 2), 1)]),
        (6, 1, []),
    ],
)
def test_windows_are_counted_over_the_splits_of_a_pass(
    session: xpsql.Session,
    tmp_path: Path,
    every: int,
    on: int,
    expected: list[tuple[Key, int]],
) -> None:
    batches = taken(source(session, tmp_path), [TurnAssignment(Turn(0, 0)), TurnAssignment(Turn(0, 1))])
    schedule = Schedule(Evaluate(every, on, None), (0, BATCHES), 2 * BATCHES)
    found = Collected(batches, schedule=schedule).windows
    assert [(window.key, window.batches) for window in found] == expected
    assert not any(window.missing for window in found)
    assert schedule.windows == len({window.number for window in found})


class Reports(Notes):
    """Keeps the notes, and the lines of progress in place of a draft."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def progress(self, values: dict[str, Any]) -> None:
        self.lines.append(values)


def test_a_window_that_lacks_batches_is_reported_and_one_that_lacks_fewer_takes_its_place(whole: list[Any]) -> None:
    reported, key = Reports(), (0, 0, 0)
    monitor = Monitor(TARGETS, cast(Any, reported), reported, True)
    (full,) = Collected(whole).windows
    (short,) = Collected([whole[1]._replace(fresh=False), whole[2]]).windows
    monitor.close(measured(nothing(key, 1, 1), 2, TARGETS))
    assert (monitor.windows, reported.lines) == ({}, [])
    monitor.close(short)
    assert [line["examples"] for line in reported.lines] == [20]
    monitor.close(full)
    monitor.close(short)
    assert [line["examples"] for line in reported.lines] == [20, 60]
    assert monitor.evaluation()["examples"] == 60
    assert [note.split(":")[0] for note in reported.notes] == [
        "Window 0 of pass 1, split 0, lacks 2 of 2 batches",
        "Window 0 of pass 1, split 0, lacks 1 of 2 batches",
    ]
