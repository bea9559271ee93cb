"""How far workers may be ahead of each other."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpsql.platform.errors import CheckpointError, TrainingError
from xpsql.platform.training.online import pace as module
from xpsql.platform.training.online.pace import Pace


def ignored(workers: Sequence[int], seconds: float) -> None:
    """Where nobody minds who is slow."""


def test_ssp_holds_a_worker_back_until_the_slowest_follows() -> None:
    pace, passed = Pace(2, slack=1, held_up=ignored), threading.Event()
    assert pace.step(0)
    assert pace.step(0)

    def third() -> None:
        pace.step(0)
        passed.set()

    thread = threading.Thread(target=third)
    thread.start()
    assert not passed.wait(0.1)  # it would have finished two steps, worker 1 none
    pace.step(1)
    assert not passed.wait(0.1)  # worker 1 has begun its first
    pace.step(1)
    thread.join(5)
    assert passed.is_set()


def test_a_worker_that_has_left_holds_nobody_back() -> None:
    pace = Pace(2, slack=0, held_up=ignored)
    pace.leave(1)
    assert all(pace.step(0) for _ in range(5))


def test_asp_lets_workers_run() -> None:
    pace = Pace(2, slack=None, held_up=ignored)
    assert all(pace.step(0) for _ in range(100))


def test_workers_that_are_stopped_begin_no_step() -> None:
    pace = Pace(2, slack=0, held_up=ignored)
    pace.step(0)
    thread = threading.Timer(0.05, pace.stop)
    thread.start()
    assert not pace.step(0)


def test_workers_in_step_that_are_stopped_finish_the_step_that_one_of_them_has_begun() -> None:
    pace = Pace(2, None, ignored, together=True)
    assert pace.step(0)
    pace.stop()
    assert pace.step(1)
    assert not pace.step(0)
    assert not pace.step(1)


def test_nothing_is_kept_of_workers_one_of_whom_has_failed() -> None:
    pace = Pace(2, None, ignored, together=True)
    assert pace.step(0)
    pace.fail()
    with pytest.raises(CheckpointError, match="a worker has failed"), pace.held():
        pass


def test_waiting_ends_with_an_error_that_names_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_UP_SECONDS", 0.01)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.04)
    pace = Pace(3, slack=0, held_up=ignored)
    pace.step(0)
    pace.step(2)
    with pytest.raises(TrainingError, match=r"Worker 0 waited .* for worker 1"):
        pace.step(0)


def test_who_holds_the_others_up_is_reported_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_UP_SECONDS", 0.02)
    reported: list[tuple[Sequence[int], float]] = []
    pace, passed = Pace(3, slack=0, held_up=lambda *slow: reported.append(slow)), threading.Event()
    for number in (0, 1):
        pace.step(number)

    def second(number: int) -> None:
        pace.step(number)
        passed.set()

    threads = [threading.Thread(target=second, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    assert not passed.wait(0.2)
    for _ in range(2):
        pace.step(2)
    for thread in threads:
        thread.join(5)
    assert reported == [([2], 0.02)]


def test_a_worker_that_was_lost_comes_back_with_the_slowest() -> None:
    pace = Pace(2, slack=1, held_up=ignored)
    for _ in range(3):
        assert pace.step(0)
        assert pace.step(1)
    pace.leave(1)
    for _ in range(5):
        assert pace.step(0)
    assert pace.step(1)
    assert pace.step(0)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 3), st.lists(st.integers(1, 12), min_size=2, max_size=4), st.integers(0, 2**31))
def test_no_worker_is_ever_more_than_slack_steps_ahead_of_one_at_work(slack: int, steps: list[int], seed: int) -> None:
    pace, lock = Pace(len(steps), slack, ignored), threading.Lock()
    finished = dict.fromkeys(range(len(steps)), 0)
    spread: list[int] = []

    def work(number: int) -> None:
        delays = random.Random(seed + number)
        for _ in range(steps[number]):
            assert pace.step(number)
            with lock:
                spread.append(finished[number] - min(finished.values()))
            threading.Event().wait(delays.random() / 2000)
            with lock:
                finished[number] += 1
        with lock:
            del finished[number]
        pace.leave(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(spread) == sum(steps)
    assert max(spread) <= slack


@settings(deadline=None, max_examples=20)
@given(num_workers=st.integers(1, 4), steps=st.integers(1, 12), together=st.booleans(), seed=st.integers(0, 2**31))
def test_workers_that_are_held_stand_between_two_steps_and_in_a_gang_between_the_same(
    num_workers: int, steps: int, together: bool, seed: int
) -> None:
    pace, meeting = Pace(num_workers, None, ignored, together), threading.Barrier(num_workers)
    begun, finished = [0] * num_workers, [0] * num_workers
    seen: list[tuple[list[int], list[int]]] = []
    over = threading.Event()

    def work(number: int) -> None:
        delays = random.Random(seed + number)
        for _ in range(steps):
            assert pace.step(number)
            begun[number] += 1
            if together:
                meeting.wait(30)
            over.wait(delays.random() / 2000)
            finished[number] += 1
            pace.done(number)
            over.wait(delays.random() / 2000)
        pace.leave(number)

    def hold() -> None:
        while not over.is_set():
            with pace.held():
                seen.append((list(begun), list(finished)))
                over.wait(0.0005)
                assert (begun, finished) == seen[-1]

    holding = threading.Thread(target=hold)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(num_workers)]
    for thread in (*threads, holding):
        thread.start()
    for thread in threads:
        thread.join(60)
    over.set()
    holding.join(60)
    assert finished == [steps] * num_workers
    for one, other in seen:
        assert one == other
        assert not together or len(set(one)) == 1


def test_a_worker_that_does_not_end_its_step_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.01)
    pace = Pace(2, None, ignored)
    pace.step(1)
    with pytest.raises(CheckpointError, match="worker 1 has been in its step"), pace.held():
        pytest.fail("worker 1 does not stand")
    assert pace.step(0)
