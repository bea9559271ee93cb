"""Rates that drop at a plateau: after a pass that gains nothing on rows held out learning goes on from the best, slower."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..monitor import Monitor
from ..prepared import Prepared, Round
from ..row_files.saved import SavedShards
from .rebuilding import as_begun, begin_next, go_on_in_round

if TYPE_CHECKING:
    from ....warehouse.draft import Draft


def learn_dropping(prepared: Prepared, learn: Callable[[Prepared], SavedShards], draft: Draft, monitor: Monitor) -> SavedShards:
    """Learn in rounds, from the one that was interrupted on, each at lower rates than the one before, and return what the best
    pass has written.

    Args:
        learn: learns one round, which a pass without gain ends.
    """
    go_on_in_round(draft, monitor)
    validations = monitor.validations
    while True:
        number = len(validations.starts) - 1
        held = learn(dropped(prepared, number, draft, monitor) if number else prepared)
        if validations.ended or len(validations.passes) >= prepared.passes:
            return held
        begin_next(draft, monitor)


def dropped(prepared: Prepared, number: int, draft: Draft, monitor: Monitor) -> Prepared:
    """Return the training that goes on from the best pass before a round, at the rates of the round."""
    before, plateau = monitor.before_round, prepared.plan.settings.plateau
    assert before is not None
    assert before.kept is not None
    assert plateau is not None
    done, kept = len(before.validated), before.kept
    examples = next(one.examples for one in before.validated if one.pass_number == kept.pass_number)
    rate = plateau**number
    monitor.note(f"Pass {done} gained nothing: from pass {kept.pass_number + 1} on, at {rate:.3g} of the learning rates.")
    begins = Round(done, as_begun(prepared, draft, kept, examples, monitor))
    return dataclasses.replace(prepared, round=begins, rates=(rate,), passes=prepared.passes - done)
