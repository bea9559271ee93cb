"""Workers in step: timing changes nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.ps import gang as module
from xpsql.platform.ps.gang import Gang
from xpsql.platform.ps.messages import Push, Touched, mean_of
from xpsql.platform.ps.shard import Shard


class Recorder:
    """Stands for a shard: notes whose pushes are applied, and in which order."""

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.steps: list[tuple[int, ...]] = []

    def push(self, push: Push, dense: bool = True) -> Push:
        if push.worker == 9:
            raise TrainingError("no")
        self.applied.append(push.worker)
        return push

    def step(self, pushes: Sequence[Push]) -> None:
        self.steps.append(tuple(push.worker for push in pushes))


def ignored(workers: Sequence[int], seconds: float) -> None:
    """Where nobody minds who is slow."""


def push_of(worker: int) -> Push:
    none = np.empty(0, np.uint32)
    return Push(Touched(np.empty(0, np.uint64), np.empty(0, np.uint16), none, none, 0), {}, {}, worker=worker)


@pytest.mark.parametrize("seed", range(5))
def test_pushes_are_applied_step_by_step_in_the_order_of_workers(seed: int) -> None:
    recorder = Recorder()
    gang = Gang(cast(Shard, recorder), 3, ignored)

    def work(number: int, steps: int) -> None:
        delays = random.Random(seed * 3 + number)
        for _ in range(steps):
            threading.Event().wait(delays.random() / 200)
            gang.push(push_of(number))
        gang.leave(number)

    threads = [threading.Thread(target=work, args=one) for one in ((0, 4), (1, 2), (2, 3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert recorder.applied == [0, 1, 2, 0, 1, 2, 0, 2, 0]


def test_a_push_that_fails_fails_those_of_all() -> None:
    gang, errors = Gang(cast(Shard, Recorder()), 10, ignored), []
    for number in range(8):
        gang.leave(number)

    def push(number: int) -> None:
        with pytest.raises(TrainingError, match="no"):
            gang.push(push_of(number))
        errors.append(number)

    threads = [threading.Thread(target=push, args=(number,)) for number in (8, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(errors) == [8, 9]


def test_waiting_ends_with_an_error_that_names_who_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_UP_SECONDS", 0.01)
    monkeypatch.setattr(module, "STEP_SECONDS", 0.04)
    with pytest.raises(TrainingError, match=r"Worker 0 waited .* for the step of worker 1, 2"):
        Gang(cast(Shard, Recorder()), 3, ignored).push(push_of(0))


def test_who_came_late_is_not_named_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_UP_SECONDS", 0.01)
    monkeypatch.setattr(module, "STEP_SECONDS", 0.3)
    late: list[threading.Thread] = []

    def push() -> None:
        with pytest.raises(TrainingError, match=r"for the step of worker 1\."):
            gang.push(push_of(2))

    def note(workers: Sequence[int], seconds: float) -> None:
        late.append(threading.Thread(target=push))
        late[0].start()

    gang = Gang(cast(Shard, Recorder()), 3, note)
    with pytest.raises(TrainingError, match=r"Worker 0 waited .* for the step of worker 1\."):
        gang.push(push_of(0))
    late[0].join(5)


def test_who_waits_for_nobody_waits_for_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_UP_SECONDS", 0.01)
    monkeypatch.setattr(module, "STEP_SECONDS", 0.02)
    gang = Gang(cast(Shard, Recorder()), 1, ignored)
    gang.hold()
    with pytest.raises(TrainingError, match=r"Worker 0 waited .* for a checkpoint to begin"):
        gang.push(push_of(0))


def test_who_holds_the_others_up_is_reported_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_UP_SECONDS", 0.2)
    reported: list[tuple[Sequence[int], float]] = []
    noted = threading.Event()

    def note(workers: Sequence[int], seconds: float) -> None:
        reported.append((workers, seconds))
        noted.set()

    gang = Gang(cast(Shard, Recorder()), 3, note)
    threads = [threading.Thread(target=gang.push, args=(push_of(number),)) for number in (0, 2)]
    for thread in threads:
        thread.start()
    assert noted.wait(5)
    gang.push(push_of(1))
    for thread in threads:
        thread.join(5)
    assert reported == [([1], 0.2)]


def test_gangs_of_several_shards_come_to_stand_after_the_same_step() -> None:
    recorders = [Recorder(), Recorder()]
    first, second = (Gang(cast(Shard, recorder), 2, ignored) for recorder in recorders)
    threads = [
        threading.Thread(target=gang.push, args=(push_of(n),))
        for gang, numbers in ((first, (0, 1)), (second, (0,)))
        for n in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads[:2]:
        thread.join(5)
    assert [first.hold(), second.hold()] == [1, 0]
    threads.append(threading.Thread(target=second.push, args=(push_of(1),)))
    threads.append(threading.Thread(target=first.push, args=(push_of(0),)))
    threads.append(threading.Thread(target=first.push, args=(push_of(1),)))
    for thread in threads[3:]:
        thread.start()
    with second.standing(1), first.standing(1):
        assert [recorder.applied for recorder in recorders] == [[0, 1], [0, 1]]
    for thread in threads:
        thread.join(5)
    assert [recorder.applied for recorder in recorders] == [[0, 1, 0, 1], [0, 1]]


def test_a_gang_that_is_released_goes_on() -> None:
    recorder = Recorder()
    gang = Gang(cast(Shard, recorder), 1, ignored)
    assert gang.hold() == 0
    thread = threading.Thread(target=gang.push, args=(push_of(0),))
    thread.start()
    gang.release()
    thread.join(5)
    assert recorder.applied == [0]


def test_a_gang_that_does_not_come_to_stand_is_an_error_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STAND_SECONDS", 0.02)
    recorder = Recorder()
    gang = Gang(cast(Shard, recorder), 1, ignored)
    gang.hold()
    with pytest.raises(TrainingError, match=r"Expected 1 steps within .*, got 0"), gang.standing(1):
        pass
    gang.push(push_of(0))
    assert recorder.applied == [0]


def test_a_gang_that_has_ended_or_whose_push_failed_does_not_stand_for_a_checkpoint() -> None:
    ended = Gang(cast(Shard, Recorder()), 1, ignored)
    standing, reported = ended.standing(ended.hold() + 1), list[str]()

    def stand() -> None:
        with pytest.raises(LostError, match="The shard ends"), standing:
            reported.append("stands after a step that was never made")

    thread = threading.Thread(target=stand)
    thread.start()
    ended.end()
    thread.join(10)
    assert not reported

    failed = Gang(cast(Shard, Recorder()), 10, ignored)
    for number in range(9):
        failed.leave(number)
    with pytest.raises(TrainingError, match="no"):
        failed.push(push_of(9))
    with pytest.raises(TrainingError, match="no"), failed.standing(1):
        reported.append("stands though a part of the step is missing")
    assert not reported


def test_nobody_waits_for_a_gang_that_ends() -> None:
    gang, errors = Gang(cast(Shard, Recorder()), 2, ignored), list[str]()

    def push() -> None:
        try:
            gang.push(push_of(0))
        except LostError as error:
            errors.append(str(error))

    thread = threading.Thread(target=push)
    thread.start()
    gang.end()
    thread.join(10)
    assert errors == ["The shard ends."]


def test_with_hybrid_rows_change_as_pushes_come_and_dense_parameters_once_a_step() -> None:
    recorder = Recorder()
    gang = Gang(cast(Shard, recorder), 2, ignored, hybrid=True)
    first = threading.Thread(target=gang.push, args=(push_of(1),))
    first.start()
    while not recorder.applied:
        threading.Event().wait(0.001)
    assert (recorder.applied, recorder.steps) == ([1], [])
    assert gang.hold() == 1  # rows of the step have changed: a checkpoint is of its end
    gang.push(push_of(0))
    first.join(10)
    assert (recorder.applied, recorder.steps) == ([1, 0], [(0, 1)])
    held = threading.Thread(target=gang.push, args=(push_of(1),))
    with gang.standing(1):
        held.start()
        held.join(0.05)
        assert recorder.applied == [1, 0]
    gang.leave(0)
    held.join(10)
    assert (recorder.applied, recorder.steps) == ([1, 0, 1], [(0, 1), (1,)])


def test_the_mean_gradient_of_a_step_is_that_of_all_its_examples() -> None:
    pushes = [
        push_of(worker)._replace(dense={"kernel": np.full(2, value, np.float32)}, dense_updates={"kernel": 3})
        for worker, value in enumerate((1.0, 5.0))
    ]
    pushes[0] = pushes[0]._replace(touched=pushes[0].touched._replace(examples=30))
    pushes[1] = pushes[1]._replace(touched=pushes[1].touched._replace(examples=10))
    mean = mean_of(pushes)
    assert mean.dense["kernel"].tolist() == [2.0, 2.0]
    assert mean.dense_updates == {"kernel": 3}
