"""Stage positives: LABEL and ITEMS of statements that learn from positives alone filter rows, and join features of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ....algorithms.augments.random_items import RandomItems
from ....algorithms.base import Algorithm
from ...engines.base import Engine, Scan
from ...errors import StatementError
from ...input.columns import Columns
from ...input.items import NAME, ItemFile, write_items
from ...input.positives import MISSING, TakenRows, Taking
from ..clauses.items import ITEMS
from ..clauses.label import LABEL
from ..plan import Plan
from .base import Preparation, Stage


def taking_of(plan: Plan, engine: Engine) -> Taking | None:
    """Return what a plan says of rows before they are learned from, items not read yet; None where it says nothing.

    Raises:
        StatementError: the query of ITEMS cannot run, or what is learned from is a stream.
    """
    items, label = plan.clause(ITEMS), plan.clause(LABEL).positive
    if items is None and label is None:
        return None
    if plan.stream is not None:
        what, remedy = (LABEL.subject, f"WHERE {label} = 1") if items is None else (ITEMS.subject, "rows with these columns")
        raise StatementError(f"{what} goes with a query that ends, and a stream does not. Use {remedy}.", subject=what)
    if items is None:
        return Taking(label, None)
    with of_clause():
        return Taking(label, ItemFile(engine.schema(items)))


def with_items(taking: Taking, plan: Plan, engine: Engine, folder: Path) -> Taking:
    """Write the items of a plan, and return the same with where they are.

    Raises:
        StatementError: the query of ITEMS cannot run, or see write_items.
    """
    query = plan.clause(ITEMS)
    if query is None:
        return taking
    with of_clause():
        items = engine.reader(query).read_all()
    return taking._replace(items=write_items(items, folder))


def taken(taking: Taking, plan: Plan, scan: Scan, note: Callable[[str], None]) -> TakenRows:
    """Return the rows of a scan that are learned from, and tell of items that ITEMS lacks.

    Raises:
        StatementError: there are such items, and the statement says that they are an error.
        DataError: a label is neither 0 nor 1, or a file cannot be read.
    """
    rows = taking.rows(scan, drops=taking.label is not None)
    if taking.items is None:
        return rows
    lacking = rows.lacking([split for split in scan.splits() if split.rows])
    if not lacking.rows:
        return rows
    item = "NULL" if lacking.item is None else repr(lacking.item)
    lacked = f"{lacking.rows:,} rows are about items that ITEMS lacks, such as {item}"
    if plan.settings.missing_items == "error":
        raise StatementError(f"{lacked}. Add them, or leave such rows out: WITH (missing_items = 'drop').", subject=MISSING)
    note(f"{lacked}; they are left out.")
    return taking.rows(scan)


def check_drawn(taking: Taking | None, algorithm: Algorithm, columns: Columns) -> None:
    """Refuse items that are to be drawn at random and lack a column of the model.

    Raises:
        StatementError: names the column.
    """
    if taking is None or taking.items is None:
        return
    own = {name.lower() for name in taking.items.schema.names}
    for augment in algorithm.learns.augment:
        if isinstance(augment, RandomItems):
            lacking = [name for name in columns.only(augment.item).inputs if name.lower() not in own]
            if lacking:
                raise StatementError(
                    f"ITEMS lacks the column {lacking[0]}, which items that are drawn at random need, too. Return it there.",
                    subject=ITEMS.subject,
                )


@contextmanager
def of_clause() -> Iterator[None]:
    """Give errors of the query of ITEMS the place of the clause."""
    try:
        yield
    except StatementError as error:
        raise StatementError(f"{ITEMS}: {error.message}", subject=ITEMS.subject) from error


def check(given: Preparation) -> Preparation:
    """Find the columns of the rows that are learned."""
    taking = taking_of(given.plan, given.engine)
    schema = given.found.schema if taking is None else taking.schema(given.found.schema)
    return given.having(taking=taking, schema=schema)


def rows(given: Preparation) -> Preparation:
    """Leave out rows that are not taken, and write the items that the others are joined with; RESUME reads those again."""
    taking = given.taking
    if taking is None:
        return given
    if given.resumed is None:
        taking = with_items(taking, given.plan, given.engine, given.folders.items)
        return given.having(taking=taking, scan=taken(taking, given.plan, given.scan, given.note))
    if taking.items is not None:
        taking = taking._replace(items=ItemFile(taking.items.schema, str((given.folders.items / NAME).absolute())))
    return given.having(taking=taking, scan=taking.rows(given.scan))


STAGE = Stage(check, rows)
