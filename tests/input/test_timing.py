"""Where the time goes: laps of a clock, and programs that are compiled."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import pytest

from xpsql.platform.input.timing import Clock, Clocks, Compiled, Timings, summed
from xpsql.platform.training.compiled import compilations


def test_the_laps_of_a_clock_are_all_of_its_time() -> None:
    before = time.perf_counter()
    clock = Clock(("one", "two"))
    after = time.perf_counter()
    for _ in range(1000):
        clock.lap("one")
        clock.lap("two")
    assert clock.seconds.keys() == {"one", "two"}
    ended = time.perf_counter()
    assert 0 < sum(clock.seconds.values()) <= ended - before
    assert sum(clock.seconds.values()) == pytest.approx(ended - after, abs=1e-3)


def test_the_seconds_of_workers_add_up() -> None:
    first, second = Clocks(), Clocks()
    first.reading.seconds["read"], second.reading.seconds["read"] = 1.0, 2.0
    second.learning.seconds["push"] = 0.5
    total = summed([Timings(first.seconds, 2, 0.25), Timings(second.seconds)])
    assert {name: value for name, value in total.items() if value} == {
        "read_seconds": 3.0,
        "push_seconds": 0.5,
        "compilations": 2,
        "compile_seconds": 0.25,
    }


def test_programs_are_counted_while_they_are_asked_for_and_once_each() -> None:
    program, compiled = jax.jit(lambda x: 3 * x + 1), Compiled()
    sizes = [jnp.zeros(size) for size in (11, 12, 13)]
    with compilations(compiled.add):
        for x in (sizes[0], sizes[1], sizes[0]):
            program(x)
    assert compiled.programs == 2
    assert compiled.seconds > 0
    program(sizes[2])
    assert compiled.programs == 2
