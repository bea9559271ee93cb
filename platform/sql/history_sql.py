"""The plain Spark SQL that HISTORY stands for.

Events are numbered within their partition and kept in blocks of n. A row counts the events that are strictly earlier, by a sum
over the distinct values of ORDER BY, and its list is the end of one block and the beginning of the next. So no frame grows, no
list passes through a sort, and both engines give the same elements in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ROWS = "xpsql_rows"


class EventKey(NamedTuple):
    """Expressions of what PARTITION BY and ORDER BY name, on the side of rows or of events."""

    partition: tuple[str, ...]
    order: str


class Lookup(NamedTuple):
    """One HISTORY: the last `keep` values of the events of a partition that are strictly earlier than a row.

    Attributes:
        row: of the row, columns of the subquery.
        source: a query of the events, None where they are the rows.
        event: of an event, over `source`.
        value: of an event, over `source`; NULL where it is none.
        ties: what orders events of one time, before the value; empty: the value alone.
        within: how old an event may be; None: any age.
    """

    row: EventKey
    source: str | None
    event: EventKey
    value: str
    ties: tuple[str, ...]
    keep: int
    within: str | None


def subquery(lookups: Sequence[Lookup]) -> tuple[str, str]:
    """Return what stands before and after the query of the rows, whose columns it gives with xpsql_h0, xpsql_h1, ..."""
    tables = ", ".join(text for number, lookup in enumerate(lookups) for text in tables_of(lookup, number))
    lists = ", ".join(f"{list_of(lookup, number)} AS xpsql_h{number}" for number, lookup in enumerate(lookups))
    joins = " ".join(joins_of(lookup, number) for number, lookup in enumerate(lookups))
    return f"WITH {ROWS} AS (", f"), {tables} SELECT {ROWS}.*, {lists} FROM {ROWS} {joins}"


def keys(count: int) -> list[str]:
    return [f"xpsql_p{part}" for part in range(count)]


def tables_of(lookup: Lookup, n: int) -> list[str]:
    """Return the events of a lookup, numbered; their blocks; and for each time of a row the blocks that its list is in.

    These are xpsql_b and the one before, xpsql_a, where the last of the list is number xpsql_c of block xpsql_b. Every name
    begins so: a view of the warehouse may have any other.
    """
    names, keep = keys(len(lookup.row.partition)), lookup.keep
    columns = [f"{expression} AS {name}" for expression, name in zip(lookup.event.partition, names, strict=True)]
    columns += [f"{lookup.event.order} AS xpsql_o", f"{lookup.value} AS xpsql_v"]
    columns += [f"{tie} AS xpsql_t{number}" for number, tie in enumerate(lookup.ties)]
    ties = [f"xpsql_t{number}" for number in range(len(lookup.ties))] or ["xpsql_v"]
    there = " AND ".join(f"{name} IS NOT NULL" for name in (*names, "xpsql_o"))
    present = " OR ".join(f"{name} IS NOT NULL" for name in ties)
    held, element = "xpsql_r, xpsql_v", "xpsql_x.xpsql_v"
    if lookup.within is not None:
        held, element = f"{held}, xpsql_o", "struct(xpsql_x.xpsql_v AS xpsql_v, xpsql_x.xpsql_o AS xpsql_o)"
    by = ", ".join(names)
    rows = ", ".join(f"{part} AS {name}" for part, name in zip(lookup.row.partition, names, strict=True))
    events = (
        f"SELECT {by}, xpsql_o, xpsql_v, row_number() OVER (PARTITION BY {by} ORDER BY {', '.join(['xpsql_o', *ties])}) - 1 "
        f"AS xpsql_r FROM (SELECT {', '.join(columns)} FROM {lookup.source or ROWS}) WHERE {there} AND ({present})"
    )
    blocks = (
        f"SELECT {by}, xpsql_r div {keep} AS xpsql_b, "
        f"transform(array_sort(collect_list(struct({held}))), xpsql_x -> {element}) AS xpsql_l "
        f"FROM xpsql_e{n} GROUP BY {by}, xpsql_r div {keep}"
    )
    times = f"SELECT {rows}, {lookup.row.order} AS xpsql_o, 0 AS xpsql_c FROM {ROWS}"
    times += f" UNION ALL SELECT {by}, xpsql_o, 1 FROM xpsql_e{n}"
    earlier = f"sum(xpsql_c) OVER (PARTITION BY {by} ORDER BY xpsql_o ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    counts = (
        f"SELECT {by}, xpsql_o, xpsql_m div {keep} AS xpsql_b, xpsql_m div {keep} - 1 AS xpsql_a, "
        f"CAST(xpsql_m % {keep} AS INT) + 1 AS xpsql_c FROM (SELECT {by}, xpsql_o, {earlier} - 1 AS xpsql_m "
        f"FROM (SELECT {by}, xpsql_o, sum(xpsql_c) AS xpsql_c FROM ({times}) GROUP BY {by}, xpsql_o)) WHERE xpsql_m >= 0"
    )
    return [f"xpsql_e{n} AS ({events})", f"xpsql_b{n} AS ({blocks})", f"xpsql_n{n} AS ({counts})"]


def joins_of(lookup: Lookup, n: int) -> str:
    """Return the joins of the rows with the blocks that their lists are in."""
    names = keys(len(lookup.row.partition))
    own = [*zip(names, lookup.row.partition, strict=True), ("xpsql_o", lookup.row.order)]
    text = f"LEFT JOIN xpsql_n{n} ON {' AND '.join(f'xpsql_n{n}.{name} = {ROWS}.{part}' for name, part in own)}"
    for block in ("xpsql_b", "xpsql_a"):
        same = " AND ".join(f"{block}{n}.{name} = xpsql_n{n}.{name}" for name in names)
        text += f" LEFT JOIN xpsql_b{n} {block}{n} ON {same} AND {block}{n}.xpsql_b = xpsql_n{n}.{block}"
    return text


def list_of(lookup: Lookup, n: int) -> str:
    """Return the list of a row: of the block before, what the last one leaves room for; of the last, what is earlier."""
    before, block, count = f"xpsql_a{n}.xpsql_l", f"xpsql_b{n}.xpsql_l", f"xpsql_n{n}.xpsql_c"
    last = f"slice({block}, 1, {count})"
    whole = (
        f"CASE WHEN {before} IS NULL THEN {last} ELSE concat(slice({before}, {count} + 1, {lookup.keep} - {count}), {last}) END"
    )
    if lookup.within is not None:
        first = f"{ROWS}.{lookup.row.order} - {lookup.within}"
        whole = f"transform(filter({whole}, xpsql_x -> xpsql_x.xpsql_o >= {first}), xpsql_x -> xpsql_x.xpsql_v)"
    return f"coalesce({whole}, array())"
