"""Rounds of training and rebuilding (joint training): the tree is made anew from what the best pass before has learned of its
items, and the training goes on from there.

A tree of items that are hardly learned is worse than the one before. So rows are held out, each pass is judged by its recall on
them, and a round that does not gain enough is the last one: the rows and the tree of the best pass before become the version's.

Source: Zhu et al., "Learning Tree-based Deep Model for Recommender Systems", KDD 2018, section 3.4.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....warehouse.entries import RoundEntry
from ....warehouse.storage import Storage
from ....warehouse.trainings.checkpoint_files import File
from ....warehouse.version import Version
from ...errors import StatementError, Subject
from ...trees.tree import replanted
from ..checkpoints.driver_state import DRIVER_STATE
from ..checkpoints.files import read_message, write_message
from ..clauses.validate import VALIDATE
from ..commit import base_rate, statistics_of
from ..metrics.validations import LEAST_GAIN
from ..monitor import Monitor
from ..plan import Plan
from ..prepared import Prepared, Round
from ..recipe import Recipe
from ..row_files.rows import dense_entries
from ..row_files.saved import KeptPass, SavedShards
from .planting import leaf_vectors

if TYPE_CHECKING:
    from ....warehouse.draft import Draft


def check_rebuild(plan: Plan, recipe: Recipe) -> None:
    """Refuse rounds that nothing judges.

    Raises:
        StatementError: no rows are held out.
    """
    search = recipe.algorithm.tree
    if search is None or not search.rebuild or plan.clause(VALIDATE) is not None or "rebuild" in plan.inherited:
        return
    subject = Subject("USING", plan.algorithm.name, "rebuild")
    what = "Leave it out" if plan.stream is not None else "Add VALIDATE ON LAST 0.1, or leave it out"
    raise StatementError(f"{subject} = {search.rebuild} needs rows to judge trees by. {what}.", subject=subject)


def learn_rounds(prepared: Prepared, learn: Callable[[Prepared], SavedShards], draft: Draft, monitor: Monitor) -> SavedShards:
    """Learn in rounds, from the one that was interrupted on, and return what the best pass has written.

    Args:
        learn: learns one round.
    """
    go_on_in_round(draft, monitor)
    validations = monitor.validations
    while True:
        number = len(validations.starts) - 1
        if number:
            prepared = rebuilt(prepared, draft, monitor)
        held = learn(prepared)
        kept = validations.kept
        assert kept is not None
        entries = validations.rounds()
        if number:
            monitor.note(outcome(entries, number, validations.round_of(kept)))
        if number == prepared.rebuilds or validations.round_of(kept) != number:
            return held
        begin_next(draft, monitor)


def go_on_in_round(draft: Draft, monitor: Monitor) -> None:
    """Go on at the begin of the round that a training was in when it was interrupted, if it had begun one."""
    done, place = draft.manifest.learned.rounds, Storage(str(draft.rounds.absolute()))
    if done:
        file = File(f"{len(done)}.state", crc32=done[-1].state)
        before = read_message(place, file.name, DRIVER_STATE, file)
        monitor.begin_round(before, starts(done))
        monitor.go_on(before)


def begin_next(draft: Draft, monitor: Monitor) -> None:
    """Keep how far a training is before a further round, and begin it."""
    place, entries = Storage(str(draft.rounds.absolute())), monitor.validations.rounds()
    before = monitor.state({})
    state = write_message(place, f"{len(entries)}.state", DRIVER_STATE, before)
    assert state.crc32 is not None
    draft.begin_round(entries, state.crc32)
    monitor.begin_round(before, starts(entries))


def rebuilt(prepared: Prepared, draft: Draft, monitor: Monitor) -> Prepared:
    """Return a training that begins a round with the best pass before, and a tree by its vectors of items.

    It is a function of the rows of that pass, so that RESUME finds the same.
    """
    search, tree, before = prepared.recipe.algorithm.tree, prepared.tree, monitor.before_round
    assert search is not None
    assert tree is not None
    assert before is not None
    assert before.kept is not None
    kept = before.kept
    examples = next(one.examples for one in before.validated if one.pass_number == kept.pass_number)
    begins = as_begun(prepared, draft, kept, examples, monitor)
    made = replanted(tree, search.table, leaf_vectors(begins, search.table, tree.keys))
    return dataclasses.replace(prepared, tree=made, round=Round(len(before.validated), begins))


def as_begun(prepared: Prepared, draft: Draft, kept: KeptPass, examples: int, monitor: Monitor) -> Version:
    """Return a pass that is kept as a version, from which a training can begin.

    Args:
        examples: that it has learned.
        monitor: of the passes so far.
    """
    learned = draft.manifest.learned.examples_total + examples
    manifest = dataclasses.replace(
        draft.manifest,
        dense=dense_entries(prepared.recipe),
        statistics=statistics_of(prepared, kept.held),
    ).having_learned(rows=kept.held.saved.rows, examples_total=learned, base_rate=base_rate([monitor], prepared))
    return Version(draft.best(kept.pass_number).folder.absolute(), manifest, served=False)


def starts(rounds: Sequence[RoundEntry]) -> list[int]:
    """Return the first pass of each round, and of the one that follows."""
    return [0, *itertools.accumulate(one.passes for one in rounds)]


def outcome(entries: tuple[RoundEntry, ...], number: int, kept: int) -> str:
    """Return what became of a round, in words."""
    own, before = entries[number], max(entries[:number], key=lambda entry: entry.recall)
    what = f"Round {number + 1}, with a tree made anew from pass {before.best_pass + 1}, has recall {own.recall:.6g}"
    if kept == number:
        return f"{what} in pass {own.best_pass + 1}, before {before.recall:.6g}: it is kept."
    return (
        f"{what}, which is not {LEAST_GAIN - 1:.0%} above {before.recall:.6g}: the rows and the tree of pass "
        f"{before.best_pass + 1} are kept."
    )
