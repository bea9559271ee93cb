"""Rows held out are learned, too, once they have judged: the newest rows are among them, which a model needs most.

The best pass is known, and the condition of release has let the version through. Then it learns either all rows anew, in as
many passes as were best, from what the training began with; or, from the best pass on, the rows held out in one pass more. Its
metrics stay those before. The end of the first part is kept in the version's folder, so that RESUME goes on there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...algorithms.base import Algorithm
from ...warehouse.storage import Storage
from ...warehouse.trainings.checkpoint_files import File
from ..input.hold_out import HeldOut
from ..input.row_counts import RowCounts
from .checkpoints.driver_state import DRIVER_STATE
from .checkpoints.files import read_message, write_message
from .clauses.evaluate import EVALUATE
from .clauses.release import RELEASE
from .clauses.settings import ALL, NONE, REST
from .clauses.validate import VALIDATE
from .commit import LearnedRest
from .metrics.observed import Observations, Observed
from .metrics.validations import Validations
from .monitor import Monitor, ProgressLines
from .online.rebuilding import as_begun, starts
from .plan import Plan
from .preparation.baseline import baseline_of
from .prepared import Prepared, Round
from .row_files.saved import KeptPass, SavedShards
from .trial import NO_TRIAL

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ..progress import Reporter

STATE = "held.state"
Learn = Callable[[Prepared, Monitor], SavedShards]


def usual(algorithm: Algorithm, gained: bool) -> str:
    """Return what is learned of rows held out where the statement does not say.

    Args:
        gained: a pass after the first one was the best.
    """
    if algorithm.tree is not None:  # which has the items of the rows that were learned
        return NONE
    return ALL if gained or not algorithm.serves else REST


def chosen(prepared: Prepared, validations: Validations) -> str:
    """Return what this training learns of the rows held out."""
    kept = validations.kept
    if kept is None or not isinstance(prepared.scan, HeldOut) or prepared.plan.clause(VALIDATE) is None:
        return NONE
    return prepared.plan.settings.held_out or usual(prepared.recipe.algorithm, kept.pass_number > 0)


def resumed(draft: Draft, monitor: Monitor) -> SavedShards | None:
    """Go on from the end of the first part, where a training is resumed that had come so far, and return what was written.

    Returns:
        None where it had not.
    """
    done = draft.manifest.learned.rounds
    if not done or not done[-1].held:
        return None
    place = Storage(str(draft.rounds.absolute()))
    monitor.validations.starts = starts(done)[:-1]
    monitor.go_on(read_message(place, STATE, DRIVER_STATE, File(STATE, crc32=done[-1].state)))
    assert monitor.kept is not None
    return monitor.kept.held


def keep(draft: Draft, held: SavedShards, monitor: Monitor) -> None:
    """Keep the end of the first part: RESUME goes on from it."""
    validations, place = monitor.validations, Storage(str(draft.rounds.absolute()))
    best = validations.kept
    assert best is not None
    rounds = validations.rounds()
    draft.keep(best.pass_number, monitor.kept is not None)
    monitor.kept = KeptPass(best.pass_number, held)
    crc32 = write_message(place, STATE, DRIVER_STATE, monitor.state({})).crc32
    assert crc32 is not None
    draft.begin_round((*rounds[:-1], replace(rounds[-1], held=True)), crc32)


def learn_rest(
    prepared: Prepared, how: str, draft: Draft, monitor: Monitor, reporter: Reporter, learn: Learn
) -> tuple[SavedShards, LearnedRest]:
    """Learn the rows held out, and return what was written, and of how many examples the version is.

    Args:
        how: `all` or `rest`.
        monitor: of the first part.
        learn: learns what is prepared.
    """
    best = monitor.validations.kept
    assert best is not None
    again = (
        anew(prepared, best.pass_number + 1, dropped_rates(prepared, monitor.validations))
        if how == ALL
        else rest(prepared, best.pass_number, best.examples, draft, monitor)
    )
    title = f"{prepared.plan.model} v{draft.number}, with the rows held out"
    reporter.start(title, again.num_examples)
    lines = Later(draft, len(monitor.validations.passes), sum(monitor.counted.values()))
    second = Monitor(again.targets, lines, reporter, False)
    second.observed = Observed(again.asked if how == ALL else Observations())
    held = learn(again, second)
    return held, LearnedRest(how, second.passes.examples + (0 if how == ALL else best.examples), second)


def plain(plan: Plan) -> Plan:
    """Return the plan without what judges."""
    judged = replace(plan, settings=replace(plan.settings, patience=None, held_out=None))
    return judged.having(EVALUATE, None).having(VALIDATE, None).having(RELEASE, None)


def dropped_rates(prepared: Prepared, validations: Validations) -> tuple[float, ...]:
    """Return the rates of the passes that the best one is made of; none where no pass drops them."""
    best, plateau = validations.kept, prepared.plan.settings.plateau
    assert best is not None
    if plateau is None:
        return ()
    return tuple(plateau ** validations.round_of(one) for one in validations.way(best))


def anew(prepared: Prepared, passes: int, rates: tuple[float, ...]) -> Prepared:
    """Return the training of all rows, from the beginning.

    Args:
        passes: as many as were best.
        rates: of each, where passes without gain dropped them; then there are as many passes as rates.
    """
    scan = prepared.scan
    assert isinstance(scan, HeldOut)
    plan, counts = plain(prepared.plan), RowCounts(scan.rows, prepared.counts.exact)
    baseline = prepared.baseline
    if prepared.parent is None:
        baseline = baseline_of(plan, prepared.recipe, prepared.columns, scan.scan, prepared.splits)
    again = replace(
        prepared,
        plan=plan,
        scan=scan.scan,
        counts=counts,
        hold_out=None,
        passes=len(rates) or passes,
        rates=rates,
        baseline=baseline,
        trial=NO_TRIAL,
    )
    by_round = prepared.recipe.algorithm.learns.learner is not None
    return replace(again, passes=1, choice=passes - 1) if prepared.chooses or by_round else again


def rest(prepared: Prepared, best: int, examples: int, draft: Draft, monitor: Monitor) -> Prepared:
    """Return the training of the rows held out, from the best pass on."""
    scan = prepared.scan
    assert isinstance(scan, HeldOut)
    assert monitor.kept is not None
    others = scan.others
    left = [(split, rows) for split, rows in zip(prepared.splits, others.left(prepared.splits, scan.rows), strict=True) if rows]
    return replace(
        prepared,
        plan=plain(prepared.plan),
        scan=others,
        splits=[split for split, _ in left],
        counts=RowCounts(tuple(rows for _, rows in left), prepared.counts.exact),
        hold_out=None,
        passes=1,
        trial=NO_TRIAL,
        rates=dropped_rates(prepared, monitor.validations)[-1:],
        round=Round(0, as_begun(prepared, draft, KeptPass(best, monitor.kept.held), examples, monitor)),
    )


class Later(NamedTuple):
    """The lines of progress of the second part, after those of the first one; see ProgressLines."""

    lines: ProgressLines
    passes: int
    batches: int

    def progress(self, values: Mapping[str, Any]) -> None:
        """See ProgressLines."""
        moved = {"pass": self.passes, "batch": self.batches}
        self.lines.progress({name: value + moved.get(name, 0) if name in moved else value for name, value in values.items()})
