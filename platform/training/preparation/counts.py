"""Stage counts: which splits have rows, and how many of these are learned; the rest of the log goes by that."""

from __future__ import annotations

from ...input.hold_out import beginning_of, share_of_users
from ...input.row_counts import counted, left_by
from ..clauses.validate import VALIDATE
from .base import Preparation, Stage
from .hold_out import divided
from .staging import kept, user_of


def rows(given: Preparation) -> Preparation:
    """Count the rows that filters and VALIDATE leave; a training that is resumed reads its splits, which have not changed."""
    plan, scan, columns, resumed = given.plan, given.scan, given.columns, given.resumed
    splits = list(resumed.splits) if resumed is not None and kept(plan) else scan.splits()
    for split in splits if resumed is not None else ():
        scan.check(split)
    whose = "" if given.taking is None else given.taking.whose
    splits, counts = counted(scan, splits, (columns.labels or columns.learned)[0], whose)
    share = given.trial.share
    user = user_of(plan)
    if share is not None and resumed is None:
        share = share if not user else 1 - share_of_users(scan, splits, counts.rows, 1 - share, user)
        scan, splits = beginning_of(scan, splits, counts.rows, share)
        counts = left_by(scan, splits, counts._replace(rows=counts.rows[: len(splits)]))
    validate = plan.clause(VALIDATE)
    if validate is not None and validate.share is not None:
        scan, counts = divided(validate, scan, splits, counts, user)
    return given.having(scan=scan, splits=splits, counts=counts)


STAGE = Stage(rows=rows)
