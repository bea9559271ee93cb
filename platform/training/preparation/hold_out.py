"""Stage hold_out: the rows that VALIDATE keeps apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from ....algorithms.base import Algorithm
from ....warehouse.entries import Split
from ...engines.base import Engine, Scan, Staged
from ...engines.staging import staged
from ...errors import StatementError
from ...input.columns import Columns
from ...input.hold_out import HeldOut, held_out, share_of_users
from ...input.positives import Taking
from ...input.row_counts import RowCounts, count, left_by
from ...input.runs.event_order import REASON, in_order
from ...input.splits import is_empty
from ...options import events_read
from ..clauses.column_roles import TIME
from ..clauses.label import LABEL
from ..clauses.release import RELEASE
from ..clauses.settings import HELD_OUT, NONE, PATIENCE, PATIENCE_BY, PLATEAU, REST
from ..clauses.transform import TRANSFORM
from ..clauses.validate import VALIDATE, Validate
from ..metrics import metrics_for
from ..metrics.metrics import Targets
from ..metrics.validations import HIGHER, LOWER
from ..plan import Plan
from ..policies.gains import logged_in
from ..prepared import ValidationRows
from .base import Mode, Preparation, Stage
from .computed import schema_with, with_computed
from .staging import user_of


def check_validation(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse a validation that the algorithm cannot have, and patience without one.

    Raises:
        StatementError: names the clause or option.
    """
    settings, name, validate = plan.settings, plan.algorithm.name, plan.clause(VALIDATE)
    check_held_out(plan, algorithm)
    if validate is None:
        if settings.patience is not None:
            message = f"{PATIENCE} = {settings.patience} needs rows to judge passes by. Add VALIDATE ON 0.1, or leave it out."
            raise StatementError(message, subject=PATIENCE)
        return
    if validate.share is not None and not validate.last and events_read(plan.algorithm.options):
        message = (
            f"{VALIDATE} {validate.text} would take single events out of what {name} reads user by user. Hold whole users out "
            "by VALIDATE ON LAST 0.1, or give a query of events."
        )
        raise StatementError(message, subject=VALIDATE.subject)
    by_round = algorithm.learns.learner is not None
    if by_round and settings.plateau is not None:
        message = f"{PLATEAU} = {settings.plateau:g} has no effect on {name}, whose rates do not fall. Leave it out."
        raise StatementError(message, subject=PLATEAU)
    if settings.patience is not None and settings.passes in (None, 1) and not by_round:
        message = f"{PATIENCE} = {settings.patience} has no effect on one pass. Set passes above 1, or leave it out."
        raise StatementError(message, subject=PATIENCE)
    if settings.plateau is not None and settings.patience == 1:
        message = (
            f"{PLATEAU} = {settings.plateau:g} has no effect with patience = 1, which ends the training. Set patience above 1."
        )
        raise StatementError(message, subject=PLATEAU)
    if settings.plateau is not None and algorithm.tree is not None and algorithm.tree.rebuild:
        name = plan.algorithm.name
        raise StatementError(f"{PLATEAU} and rebuild of {name} both begin rounds. Leave one out.", subject=PLATEAU)
    if plan.stream is not None:
        message = f"{VALIDATE} holds rows out of a query that ends, and a stream does not. Judge it by EVALUATE EVERY."
        raise StatementError(message, subject=VALIDATE.subject)
    if plan.clause(LABEL).late and validate.share is not None:
        message = f"{VALIDATE} needs final labels, and LATE examples come twice. Give a query of rows with final labels."
        raise StatementError(message, subject=VALIDATE.subject)
    labels = plan.clause(LABEL).columns
    known = {metric.name for metric in metrics_for(Targets.of(labels, algorithm.measured, False, algorithm.late).traits)}
    if (by := settings.patience_by) is not None and by not in known:
        valid = ", ".join(name for name in (*HIGHER, *LOWER) if name in known)
        message = f"{PATIENCE_BY} = '{by}' is not measured for {name} on rows held out. Use one of {valid}."
        raise StatementError(message, subject=PATIENCE_BY)
    learns = algorithm.learns
    judged = learns.loss is not None or learns.goal.finds
    if judged and not learns.serves:
        return
    if not judged or any(augment.copies > 1 for augment in learns.augment):
        what = "adds rows that were not taken" if judged else "learns without labels"
        raise StatementError(
            f"{VALIDATE} compares predictions with what was so, and {name} {what}. Leave it out, and measure by ML.EVALUATE.",
            subject=VALIDATE.subject,
        )


def check_held_out(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse what is to be learned of rows held out where there are none of the query's, or where it cannot be.

    Raises:
        StatementError: says why.
    """
    how, name, validate = plan.settings.held_out, plan.algorithm.name, plan.clause(VALIDATE)
    if how is None or (how == NONE and validate is not None):
        return
    if validate is None or validate.share is None:
        message = f"{HELD_OUT} = '{how}' is of a share of the query's rows. Add VALIDATE ON LAST 0.1, or leave it out."
        if validate is not None:
            message = f"{HELD_OUT} = '{how}': rows of {VALIDATE} ON (query) are never learned. Leave it out, or give a share."
        raise StatementError(message, subject=HELD_OUT)
    if how == REST and not algorithm.serves:
        message = f"{HELD_OUT} = 'rest': {name} learns all examples at once, and would learn only those held out. Take 'all'."
        raise StatementError(message, subject=HELD_OUT)
    if algorithm.tree is not None:
        message = f"{HELD_OUT} = '{how}': the tree of {name} has the items of the rows that it learned. Leave it out."
        raise StatementError(message, subject=HELD_OUT)


def divided(validate: Validate, scan: Scan, splits: Sequence[Split], counts: RowCounts, user: str) -> tuple[HeldOut, RowCounts]:
    """Return the rows of a scan that are left to learn from, and how many.

    Args:
        user: the column of users whose rows stay together; "": each row stands for itself.
        counts: how many rows each split gives; where the last are held out and a sample told that, rows are counted.

    Raises:
        StatementError: none is held out, or none is left.
    """
    assert validate.share is not None  # else another query gives them
    if validate.last and not counts.exact:
        counts = RowCounts(count(scan, splits, scan.schema.names[0]), True)
    share = validate.share if not user else share_of_users(scan, splits, counts.rows, validate.share, user)
    some = held_out(scan, splits, counts.rows, share, validate.last)
    found = left_by(some, splits, counts)
    held, left = counts.total - found.total, found.total
    if not held or not left:
        raise StatementError(
            f"{VALIDATE} {validate.text} holds {held:,} of {held + left:,} rows out and leaves {left:,}: both must be some. "
            "Choose another share.",
            subject=VALIDATE.subject,
        )
    return some, found


def hold_out(
    plan: Plan,
    engine: Engine,
    scan: Scan,
    splits: list[Split],
    columns: Columns,
    folder: Path,
    taking: Taking | None = None,
) -> ValidationRows | None:
    """Return the rows that VALIDATE holds out; None without.

    Args:
        scan: of the rows that are learned.
        folder: where a query's rows are staged.
        taking: what is done to them, as to those that are learned.
    """
    validate = plan.clause(VALIDATE)
    if validate is None:
        return None
    if validate.share is not None:
        assert isinstance(scan, HeldOut)  # it is divided
        return ValidationRows(scan.others, splits)
    query, found = read_apart(plan, engine, scan.schema, columns, taking)
    if user := user_of(plan):
        query, found = in_order(query, found.schema, user, plan.clause(TIME)), Staged(found.schema, REASON, user)
    apart = staged(engine, query, found, folder)
    apart = with_computed(apart if taking is None else taking.rows(apart), plan)
    return ValidationRows(apart, some_of(apart))


def check_apart(plan: Plan, engine: Engine, learned: pa.Schema, columns: Columns, taking: Taking | None) -> None:
    """Refuse a query of VALIDATE as `hold_out` does, as far as can be told without running it."""
    validate = plan.clause(VALIDATE)
    if validate is not None and validate.share is None:
        _, found = read_apart(plan, engine, learned, columns, taking)
        if not isinstance(found, Staged):
            some_of(found)


def read_apart(
    plan: Plan, engine: Engine, learned: pa.Schema, columns: Columns, taking: Taking | None
) -> tuple[str, Scan | Staged]:
    """Return the query of VALIDATE, and how it is read.

    Raises:
        StatementError: it cannot run, or lacks a column that is learned from, in the type that it has there.
    """
    validate, transform = plan.clause(VALIDATE), plan.clause(TRANSFORM)
    assert validate is not None
    assert validate.query is not None  # where it has no share
    query = validate.query
    if transform is not None:
        query = transform.over(query, plan.roles.columns)
    found = engine.scan(query)
    release = plan.clause(RELEASE)
    if release is not None and release.names_gain:
        logged_in(found.schema)
    schema = schema_with(found.schema if taking is None else taking.schema(found.schema), plan)
    there = {field.name.lower(): field.type for field in schema}
    for name in columns.learned:
        wanted, came = learned.field(name).type, there.get(name.lower())
        if came != wanted:
            what = "lacks it" if came is None else f"returns {came}"
            raise StatementError(
                f"{VALIDATE} ON (query) must return the column {name} as {wanted}, as the training's query does; it {what}.",
                subject=VALIDATE.subject,
            )
    return query, found


def some_of(scan: Scan) -> list[Split]:
    """Return the splits with rows of what VALIDATE gives.

    Raises:
        StatementError: filters leave no row of any.
    """
    splits = [split for split in scan.splits() if split.rows]
    if is_empty(scan, splits):
        raise StatementError(
            f"{VALIDATE} ON (query) returns no rows; there is nothing to validate on.", subject=VALIDATE.subject
        )
    return splits


def check(given: Preparation) -> Preparation:
    """Let EXPLAIN, which does not run the query of VALIDATE, refuse what it can tell of it."""
    if given.mode is Mode.EXPLAIN:
        check_apart(given.plan, given.engine, given.schema, given.columns, given.taking)
    return given


def rows(given: Preparation) -> Preparation:
    """Find the rows held out."""
    if given.mode is Mode.EXPLAIN:
        return given
    found = hold_out(given.plan, given.engine, given.scan, given.splits, given.columns, given.folders.apart, given.taking)
    return given.having(hold_out=found)


STAGE = Stage(check, rows)
