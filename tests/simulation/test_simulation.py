"""Trainings in a simulated world: whatever goes wrong, counts are exact, and a version is whole or not there."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import fast_folder, outcome_of, repeated_by
from tests.simulation.mutations import MUTATIONS

SEEDS, AT_ONCE, MOST_TO_FIND = 500, 50, 60

pytestmark = pytest.mark.skipif(fast_folder() is None, reason="needs /dev/shm, whose inodes are not used again")


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_a_training_is_exact_and_whole_whatever_goes_wrong(first: int) -> None:
    failed = [outcome for seed in range(first, first + AT_ONCE) if (outcome := outcome_of(seed)).mistakes]
    assert not failed, "\n".join(f"{'; '.join(one.mistakes)}: {repeated_by(one.seed)}" for one in failed)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_faults_that_are_planted_are_found(mutation: str) -> None:
    assert any(outcome_of(seed, mutation).mistakes for seed in range(MOST_TO_FIND))


def test_a_seed_is_the_same_world_again() -> None:
    first, second = ([outcome_of(seed) for seed in range(4)] for _ in range(2))
    assert any(outcome.faults for outcome in first)
    assert [(outcome.traced, outcome.steps) for outcome in first] == [(outcome.traced, outcome.steps) for outcome in second]
