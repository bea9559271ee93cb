"""Trainings in a simulated world: whatever goes wrong, counts are exact, and a version is whole or not there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.cases import costly, costly_after_first, quick
from tests.simulation.__main__ import fast_folder, outcome_of, repeated_by
from tests.simulation.mutations import MUTATIONS, Stand, checkpoint_ahead_of_networks
from tests.simulation.simulation import Config, Outcome, Simulation
from tests.simulation.world import Process
from xpsql.platform.errors import ModelError
from xpsql.platform.training.monitor import Monitor

SEEDS, AT_ONCE, MOST_TO_FIND = 300, 25, 200
RARE = {"early loss is none": 91}
"""A seed that shows a fault which few do, tried first."""
CALM = Config(
    log=1,
    splits=1,
    most_batches=4,
    passes=1,
    sync="asp",
    workers=2,
    shards=1,
    checkpoint_seconds=0.0,
    tasks=True,
    beside=False,
    repeats=0.0,
    ahead=0,
    batch_seconds=0.0,
    slowness=1,
)
"""A training where nothing goes wrong."""

pytestmark = pytest.mark.skipif(fast_folder() is None, reason="needs /dev/shm, whose inodes are not used again")


@pytest.mark.parametrize("first", quick(range(0, SEEDS, AT_ONCE), [0]))
def test_a_training_is_exact_and_whole_whatever_goes_wrong(first: int) -> None:
    failed = [outcome for seed in range(first, first + AT_ONCE) if (outcome := outcome_of(seed)).mistakes]
    assert not failed, "\n".join(f"{'; '.join(one.mistakes)}: {repeated_by(one.seed)}" for one in failed)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_faults_that_are_planted_are_found(mutation: str) -> None:
    seeds = RARE.get(mutation, 0), *range(MOST_TO_FIND)
    assert any(outcome_of(seed, mutation).mistakes for seed in seeds)


def test_tasks_reach_each_other_by_the_transport_that_their_job_was_given_and_make_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for made in ("connection.connect", "server.listen"):
        monkeypatch.setattr(f"xpsql.platform.ps.transport.{made}", None)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        assert not Simulation(0, Path(folder) / "world", None, CALM).run().mistakes


NETWORKS = CALM._replace(sync="bsp", networks=True, splits=3, shards=3, passes=2, checkpoint_seconds=0.02, batch_seconds=0.05)


def killed_at(moment: str, number: int, seed: int, config: Config, planted: Callable[[], Iterable[Stand]] | None) -> Outcome:
    """Train while whoever comes to a moment for the so manyth time is killed."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        simulation = Simulation(seed, Path(folder) / "world", planted, config)
        seen = 0

        def strike(kind: str, process: Process) -> None:
            nonlocal seen
            seen += kind == moment
            if kind == moment and seen == number:
                simulation.world.kill(process)

        simulation.world.on_step = strike
        outcome = simulation.run()
        assert seen > number
    return outcome


@costly_after_first
@pytest.mark.parametrize("moment", ["send network step", "serve network step", "send parameters", "serve outputs"])
def test_a_shard_that_dies_while_gradients_are_on_their_way_loses_none_and_none_counts_twice(moment: str) -> None:
    for number in range(1, 14, 3):
        assert not killed_at(moment, number, number, NETWORKS, None).mistakes


@costly
def test_a_checkpoint_waits_for_the_step_of_networks_that_its_rows_have() -> None:
    often = NETWORKS._replace(most_batches=6, checkpoint_seconds=0.005, batch_seconds=0.0)
    seeds = 25, *range(60)  # few show it
    assert any(killed_at("serve push", 12, seed, often, checkpoint_ahead_of_networks).mistakes for seed in seeds)
    assert not killed_at("serve push", 12, 25, often, None).mistakes


def test_a_worker_at_a_quarter_of_the_speed_of_three_others_holds_nobody_up() -> None:
    calm = CALM._replace(splits=40, most_batches=8, workers=4, shards=2, ahead=1, batch_seconds=0.5, slowness=4)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        simulation = Simulation(0, Path(folder) / "world", None, calm)
        assert not simulation.run().mistakes
    batches = sum(map(len, simulation.log.splits))
    ideal = calm.batch_seconds * batches / (3 + 1 / 4)
    assert simulation.read[-1] - simulation.read[0] <= 1.15 * ideal


def test_a_worker_that_fails_ends_though_its_reader_waits_for_what_another_may_leave() -> None:
    def absorb(*given: object) -> None:
        raise ModelError("No space left for progress.jsonl.")

    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        outcome = Simulation(0, Path(folder) / "world", lambda: [(Monitor, "absorb", absorb)], CALM).run()
    assert outcome.mistakes == ("ended by what a training recovers from: No space left for progress.jsonl.",)


@costly
def test_a_seed_is_the_same_world_again() -> None:
    first, second = ([outcome_of(seed) for seed in range(4)] for _ in range(2))
    assert any(outcome.faults for outcome in first)
    assert [(outcome.traced, outcome.steps) for outcome in first] == [(outcome.traced, outcome.steps) for outcome in second]
