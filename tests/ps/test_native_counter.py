"""The counter of keys without rows, held against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from xpsql.platform.ps._native import Counter

MOST = 1023

# Small keys meet in one slice and grow it; the others differ in their top bits.
keys_list = st.lists(
    st.one_of(st.integers(0, 60), st.integers(0, 40).map(lambda k: (k * 0x9E3779B97F4A7C15) % 2**64), st.just(2**64 - 1)),
    max_size=60,
    unique=True,
).map(lambda keys: np.array(keys, np.uint64))


class CounterMachine(RuleBasedStateMachine):
    """Does the same to a Counter and to a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter()
        self.model: dict[int, int] = {}

    @rule(keys=keys_list, amount=st.sampled_from([0, 1, 2, 700, 2**32 - 1]))
    def add(self, keys: np.ndarray, amount: int) -> None:
        self.counter.add(keys, np.full(len(keys), amount, np.uint32))
        for key in keys.tolist() if amount else ():
            self.model[key] = min(self.model.get(key, 0) + amount, MOST)

    @rule(keys=keys_list)
    def remove(self, keys: np.ndarray) -> None:
        self.counter.remove(keys)
        for key in keys.tolist():
            self.model.pop(key, None)

    @rule(keys=keys_list)
    def read(self, keys: np.ndarray) -> None:
        assert self.counter.counts(keys).tolist() == [self.model.get(key, 0) for key in keys.tolist()]

    @invariant()
    def holds_the_same(self) -> None:
        keys, counts = self.counter.entries()
        assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == self.model
        assert len(self.counter) == len(self.model)


CounterMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCounter = CounterMachine.TestCase


def test_a_counter_takes_a_few_bytes_a_key() -> None:
    counter, keys = Counter(), np.random.default_rng(1).integers(0, 2**64, 1_000_000, np.uint64)
    counter.add(keys, np.ones(len(keys), np.uint32))
    assert counter.memory_bytes < 12.5 * len(counter)
    assert (counter.counts(keys) == 1).all()
