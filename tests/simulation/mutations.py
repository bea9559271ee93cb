"""Faults of the product, planted on purpose: a simulation that misses them is worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.input.dealing import Dealer, TurnAssignment
from xpsql.platform.ps.gang import STAND_SECONDS
from xpsql.platform.ps.networks.steps import ParameterSteps
from xpsql.platform.ps.watermarks import RunRecord, Watermarks
from xpsql.platform.training.tasks import cluster
from xpsql.warehouse import draft, rows
from xpsql.warehouse.trainings.checkpoints import Checkpoints

Stand = tuple[Any, str, Any]


def no_duplicate_check() -> Iterator[Stand]:
    """A shard applies each push that comes, whether it has its batch or not."""
    yield Watermarks, "due", lambda self, batch: self._runs


def forgotten_watermark() -> Iterator[Stand]:
    """A checkpoint lacks the watermark of the last turn."""
    made = Watermarks.from_entries.__func__  # type: ignore[attr-defined]

    def from_entries(kind: Any, entries: Any, epoch: int) -> Watermarks:
        short: list[RunRecord] = [entry._replace(turns=entry.turns[:-1]) for entry in entries]
        found: Watermarks = made(kind, short, epoch)
        return found

    yield Watermarks, "from_entries", classmethod(from_entries)


def commit_before_sync() -> Iterator[Stand]:
    """A version is committed before its files are on the disk."""
    for module, name in ((draft, "sync_names"), (draft, "sync_tree"), (rows, "sync")):
        yield module, name, lambda *paths: None


def foreign_removal() -> Iterator[Stand]:
    """A training removes all checkpoints of the place that it shares, not its own alone."""

    def clear(self: Checkpoints) -> None:
        from shutil import rmtree

        rmtree(self.place.path.rpartition("/")[0].rpartition("/")[0], ignore_errors=True)

    yield Checkpoints, "clear", clear


def early_loss_is_none() -> Iterator[Stand]:
    """Tasks that are lost before the first has joined could not start, for all that the driver sees."""
    made = cluster.Cluster._over

    def over(self: cluster.Cluster, running: Any, role: str) -> bool:
        try:
            return made(self, running, role)
        except LostError as error:
            if self.coordinator.joined(role) or not isinstance(error.__cause__, LostError):
                raise
            raise TrainingError(str(error)) from error

    yield cluster.Cluster, "_over", over


def turn_of_two() -> Iterator[Stand]:
    """What a worker tells of a turn counts though another one has it now."""
    made = Dealer.hand_over

    def hand_over(self: Dealer, *given: Any) -> TurnAssignment | None:
        dealt = made(self, *given)
        if dealt is None:
            return None
        self._terms[dealt.turn] -= 1
        return dealt._replace(term=dealt.term - 1)

    yield Dealer, "hand_over", hand_over


def best_pass_taken() -> Iterator[Stand]:
    """A version takes the rows of its best pass away from where a training that is killed before the commit looks for them."""
    yield draft, "link_tree", lambda source, target: source.rename(target)


def checkpoint_ahead_of_networks() -> Iterator[Stand]:
    """A checkpoint does not wait for the networks' parameters to have the step that its rows have."""
    made = ParameterSteps.wait

    def wait(self: ParameterSteps, after: int, seconds: float) -> None:
        if seconds != STAND_SECONDS:
            made(self, after, seconds)

    yield ParameterSteps, "wait", wait


MUTATIONS: dict[str, Callable[[], Iterator[Stand]]] = {
    made.__name__.replace("_", " "): made
    for made in (
        no_duplicate_check,
        forgotten_watermark,
        best_pass_taken,
        commit_before_sync,
        early_loss_is_none,
        foreign_removal,
        turn_of_two,
    )
}
